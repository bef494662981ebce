"""Rows of a stream: each is predicted, then learned, once.

Errors of predictions teach the noise network what is reported of the noise of later rows. Means are
learned with constant noise, other than in a fit: where the function changes, errors grow and are no
noise, and rows there would be learned less just when they have to be learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from .class_calibration import class_calibration, learn_slope
from .learning import Learner, Settings
from .mixture import Mixture, reweighted
from .noise import share_left
from .noise_network import (
    EXPONENTS,
    LARGEST_LOG,
    Errors,
    NoiseNetwork,
    as_rows,
    average_output,
    log_density,
    trusted_exponent,
)
from .observations import OUTLYING, Gaussian
from .posterior import Network
from .predicting import weighted_moments
from .rows import Rows
from .tree import ClassTree

__all__ = ["learn_stream"]

BATCH_SIZE = 64  # of errors
ROWS_A_PARAMETER = 10.0  # the half-life of the noise network at most, for each parameter
SCORE_HALF_LIFE = 500.0  # rows after which an error counts half in the choice of the exponent
LEAST_GAIN = 6.0  # in log-likelihood, by which noise that varies must be better


def learn_stream(net: Network | Mixture, data: Rows, settings: Sequence[Settings]) -> np.ndarray:
    """Let all members learn rows that are new, once; returns mean log-likelihoods (members,).

    There are settings for each kind. Of classes, and of unlike members, the log-likelihood is that
    of the mixture as it was predicted, (1,).

    A calibrated scale of the noise holds for what is left of the noise from before: what new rows
    teach of the noise is not scaled.
    """
    before = net.noise_var.copy(), net.rows_learned.copy()
    level = net.reported_noise.mean(axis=0)  # (n_noise, 1)
    noise = net.noise_net
    n_rows = len(data.weight)
    order = np.arange(n_rows)[None].repeat(net.n_members, axis=0)
    has_slope = net.outputs.has_slope
    batch_size = settings[0].batch_size
    unlike = isinstance(net, Mixture)  # of one kind, too, if no other has any weight
    learners = [
        Learner(kind, setting, records=noise is not None or has_slope or unlike)
        for kind, setting in zip(net.networks, settings, strict=True)
    ]
    scores = [learner.learn(data, order) for learner in learners]
    log_lik, moments = scores[0], learners[0].moments
    if isinstance(net, Mixture):
        of_kinds = np.stack([cast(np.ndarray, learner.moments) for learner in learners], axis=1)
        moments = np.stack(weighted_moments(net.weight[:, None], *of_kinds))
        log_lik = _log_likelihoods(net, moments, before[0], data)
        if isinstance(net.outputs, Gaussian):
            errors = data.y.T - of_kinds[0].mean(axis=1)  # (kinds, n_outputs, rows)
            net.weight, net.evidence = reweighted(net, errors, data.weight)
    if has_slope and moments is not None:
        weight = data.weight.astype(np.float64)
        mean = learn_slope(net, moments, data.y, weight, batch_size)
        log_lik = np.array([mean])
    elif net.calibration is None and isinstance(net.outputs, ClassTree):
        net.calibration = class_calibration(net)  # of its variance the same share is unknown
    if noise is not None and moments is not None:
        var = net.variance_of_mean(*moments, learned=True)
        error = data.y.T - moments[0].mean(axis=0)
        errors = _errors(error, var, data, level * np.exp(noise.level))
        net.noise_net = _with_errors(noise, errors, settings[0].half_life)
    if net.noise_is_learned and net.calibration is not None:
        weight = data.weight[:, None]
        if data.y.ndim == 2:  # what observes each target
            weight = weight * ~np.isnan(data.y)
        totals = np.add.reduceat(weight, np.arange(0, n_rows, batch_size)).T
        scale = 1 + share_left(net, *before, totals) * (net.calibration.noise_scale - 1)
        net.calibration = net.calibration._replace(noise_scale=scale)
    return log_lik


def _log_likelihoods(
    net: Mixture, moments: np.ndarray, noise_var: np.ndarray, data: Rows
) -> np.ndarray:
    """Return mean log-likelihoods (members,) of rows as they were predicted."""
    weight = data.weight.astype(np.float64)
    scores = []
    for member, (mu_z, var_z) in enumerate(moments.swapaxes(0, 1)):
        outputs = net.outputs.members(member)
        log_lik = outputs.log_likelihood(mu_z, var_z + noise_var[member], data.y)
        scores.append((log_lik @ weight).sum() / weight.sum())
    return np.array(scores)


def _errors(error: np.ndarray, var: np.ndarray, data: Rows, noise: np.ndarray) -> Errors:
    """Return errors of the mixture's mean, in units of a ``noise`` (n_noise, 1).

    One beyond ``OUTLYING`` standard deviations, as constant noise has them, is an outlier, and
    none is larger.
    """
    limit = OUTLYING * np.sqrt(var + noise)
    error = np.clip(error, -limit, limit) / np.sqrt(noise)
    weight = data.weight.astype(np.float64)
    return Errors(data.x, error, var / noise, weight, np.zeros(len(weight), dtype=int))


def _with_errors(noise: NoiseNetwork, errors: Errors, half_life: float | None) -> NoiseNetwork:
    """Return a noise network that was judged by errors of new rows, and then has learned them.

    It forgets as fast as the means do, if they forget, or faster.
    """
    u = average_output(noise.net, errors.x)
    log_ratio = np.clip(EXPONENTS[:, None, None] * u, -LARGEST_LOG, LARGEST_LOG)
    log_ratio[0] = -noise.level  # constant noise has its own level
    gains = log_density(errors.error, errors.var + np.exp(log_ratio)) @ errors.weight
    scores = noise.scores * 2 ** (-errors.weight.sum() / SCORE_HALF_LIFE) + gains - gains[0]
    low, high = noise.bounds
    lowest, highest = u.min(axis=1, keepdims=True), u.max(axis=1, keepdims=True)
    bounds = np.stack([np.minimum(low, lowest), np.maximum(high, highest)])
    net = noise.net.copy()
    n_rows = len(errors.weight)
    n_parameters = sum(layer.mu[0].size for layer in net.layers)
    if half_life is not None:
        half_life = min(half_life, ROWS_A_PARAMETER * n_parameters)
    settings = Settings(min(BATCH_SIZE, n_rows), True, half_life)
    order = np.arange(n_rows)[None].repeat(net.n_members, axis=0)
    Learner(net, settings).learn(as_rows(errors, net.dtype), order)
    if not net.is_sound():
        return noise
    exponent = trusted_exponent(scores, LEAST_GAIN)
    return replace(noise, net=net, scores=scores, exponent=exponent, bounds=bounds)
