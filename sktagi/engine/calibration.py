"""How sure a mixture of networks should be, from rows that its members have not seen.

Training makes every member as sure as suits its own validation rows. What is reported in the end
is the variance of the mixture,

    temperature * var_z + var(means of the members) + noise_var

and its error is smaller than that of a member: with means m_j around their average m, the mean of
(y - m_j)^2 is (y - m)^2 + var(m_j). So at a row that member j has held out, its own mean m_j tells
of the reported variance plus var(m_j) once more. The temperature and the noise are those that
maximise the likelihood of all held-out rows in this sense; with one member it is its own. The same
rows have chosen the epoch at which a member stopped, which makes their errors a little smaller than
those of new rows: the variances found grow by a few parts in the number of a member's rows.

With the variances go the tails of the errors (``tails``), of which the standard deviation says
nothing: how they are distributed over the held-out rows, each in units of its own standard
deviation. There the members' disagreement is that of the others, which all have learned the row:
var(m_j) over all members would grow with the very error that it is to measure, and hide the tails.
That makes it too small, so the errors are scaled to a mean square of 1: the scale of predictions is
their standard deviation, and nothing but the tails is taken from here.

The temperature multiplies the variances of the parameters, which forgetting keeps larger than the
data would. It is not lowered unless the rows speak clearly for less. Both belong to predictions
alone: what is learned later goes on from the posterior as it was learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .keys import join_keys, row_keys
from .noise import MIN_ROWS_FOR_NOISE, search_noise
from .observations import ObservationModel
from .posterior import Calibration, Network
from .predicting import held_out_moments, predict_moments
from .rows import Rows, slices
from .tails import blend_tails, sum_outside

__all__ = ["HeldOut", "calibrate", "predict_held_out", "set_calibration"]

TEMPERATURES = 0.5 ** np.arange(9)
# A lower temperature must raise the log-likelihood of the held-out rows by at least this much.
CLEAR_GAIN = 4.0
# Growth of the variances, times the number of rows that a member has held out.
OPTIMISM = 8.0
# How far from the noise of the members to look for that of the mixture: a factor.
REACH = 1000.0
BLOCK_ROWS = 4096  # scored at once


class HeldOut(NamedTuple):
    """Rows that members have held out, as the members that hold them out predict them."""

    mu_z: np.ndarray  # (n_outputs, rows)
    var_z: np.ndarray  # (temperatures, n_outputs, rows)
    # (n_outputs, rows): errors should have the variance var_z + disagreement + noise
    disagreement: np.ndarray
    disagreement_of_others: np.ndarray  # without the member that holds a row out
    y: np.ndarray  # (rows, n_targets)
    weight: np.ndarray  # (rows,)
    noise_ratio: np.ndarray  # (n_noise or 1, rows or 1): noise variance over that asked about
    counts: np.ndarray  # (members,): distinct rows of each
    row_weights: np.ndarray  # (n_targets, distinct rows): zero where not observed


def calibrate(net: Network, data: Rows, validation: list[np.ndarray]) -> None:
    """Calibrate predictions, in place, by the rows that each member has held out."""
    if min(map(len, validation)) < MIN_ROWS_FOR_NOISE:
        return
    held = predict_held_out(net, data, validation)
    if held.counts.min() >= MIN_ROWS_FOR_NOISE:
        set_calibration(net, held.counts, lambda question, *given: question(held, *given))


def predict_held_out(net: Network, data: Rows, validation: list[np.ndarray]) -> HeldOut:
    """Return what members say of the rows that they hold out, at each temperature."""
    held = data.take(np.concatenate(validation))
    counts = np.array(list(map(len, validation)))
    owner = np.repeat(np.arange(len(counts)), counts)
    means = predict_moments(net, held.x, held.errors)[0].astype(np.float64)
    var_z = []
    for temperature in TEMPERATURES:
        tempered = net
        if temperature != 1:
            tempered = replace(net, layers=[layer.tempered(temperature) for layer in net.layers])
        moments = held_out_moments(tempered, data, validation)
        var_z.append(np.concatenate([var_z for _, _, var_z in moments], axis=-1))
        del tempered, moments  # before those of the next temperature are made
    mu_z = means[owner, :, np.arange(len(owner))].T
    others = (np.arange(len(counts))[:, None] != owner)[:, None] / max(len(counts) - 1, 1)
    deviations = np.square(means - (others * means).sum(axis=0))
    keys = _keys(held)
    parts = np.split(keys, np.cumsum(counts)[:-1])
    _, row = np.unique(keys, return_inverse=True)
    observed = ~np.isnan(np.atleast_2d(held.y.T))
    return HeldOut(
        mu_z, np.stack(var_z), 2 * means.var(axis=0), 2 * (others * deviations).sum(axis=0),
        held.y, held.weight, held.noise(np.ones((1, 1))),
        np.array([len(np.unique(part)) for part in parts]),
        np.stack([np.bincount(row, held.weight * known) for known in observed]),
    )  # fmt: skip


def _keys(held: Rows) -> np.ndarray:
    """Return keys that are equal for copies of a row, which are a row of more weight."""
    keys = row_keys(held.x) if held.keys is None else held.keys
    for column in held.y.T:
        keys = join_keys(keys, column)
    return keys


# Questions to rows held out. What they answer adds up over rows.


def score_noise(held: HeldOut, outputs: ObservationModel, noise: np.ndarray) -> np.ndarray:
    """Sum log-likelihoods (temperatures, grid, n) for noise variances (..., n_noise, 1)."""
    scores = np.zeros(noise.shape[:-1])
    for part in slices(len(held.weight), BLOCK_ROWS):
        mu_z, y, weight = held.mu_z[:, part], held.y[part], held.weight[part]
        ratio = held.noise_ratio if held.noise_ratio.shape[1] == 1 else held.noise_ratio[:, part]
        for score, var_z, tried in zip(scores, held.var_z[..., part], noise, strict=True):
            var_y = held.disagreement[:, part] + var_z + tried * ratio
            score += np.einsum("n,gon->go", weight, outputs.log_likelihood(mu_z, var_y, y))
    return scores


def count_outside(held: HeldOut, chosen: int, noise: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Sum the weight outside each interval (levels, n_outputs), of errors over ``scale``."""
    return sum_outside(_standardised(held, chosen, noise) / scale[:, None], held.weight)


def sum_squares(held: HeldOut, chosen: int, noise: np.ndarray) -> np.ndarray:
    """Sum the weighted squared errors, (n_outputs,)."""
    squares = np.square(_standardised(held, chosen, noise))
    return np.nan_to_num(squares) @ held.weight.astype(np.float64)


def _standardised(held: HeldOut, chosen: int, noise: np.ndarray) -> np.ndarray:
    """Return errors over their standard deviations; NaN where not observed."""
    var = held.disagreement_of_others + held.var_z[chosen] + noise * held.noise_ratio
    return (held.y.T - held.mu_z) / np.sqrt(var)


def sum_weights(held: HeldOut) -> np.ndarray:
    """Sum the weights of the rows, their squares and the distinct rows, (3, n_targets)."""
    weights = held.row_weights
    return np.stack([weights.sum(1), np.square(weights).sum(1), np.count_nonzero(weights, 1)])


def set_calibration(net: Network, counts: np.ndarray, ask: Callable[..., Any]) -> None:
    """Calibrate, in place, by the rows held out, which may be in several places.

    ``ask(question, *given)`` is the sum of ``question(held, *given)`` over them; it is asked six
    times, three of them for the noise. ``counts`` (members,) are the distinct rows of each member.
    """

    def score(noise: np.ndarray) -> np.ndarray:
        return ask(score_noise, net.outputs, noise)

    start = net.noise_var.mean(axis=0)
    everywhere = np.broadcast_to(start, (len(TEMPERATURES), *start.shape))
    total, total_squares, n_rows = ask(sum_weights)
    if net.noise_is_learned:
        noise, scores = search_noise(score, everywhere, reach=REACH)
        # A target that hardly any row observes keeps its noise.
        noise = np.where((n_rows >= MIN_ROWS_FOR_NOISE)[:, None], noise, everywhere)
    else:
        noise, scores = everywhere, score(everywhere[:, None])[:, 0]
    totals = scores.sum(axis=-1)
    chosen = int(np.argmax(totals >= totals.max() - CLEAR_GAIN))  # the first of them
    growth = 1 + OPTIMISM * len(counts) / counts.sum()
    noise_scale = np.ones_like(start)
    if net.noise_is_learned:
        noise_scale = noise[chosen] * growth / start
    mean_square = ask(sum_squares, chosen, noise[chosen]) / np.where(total > 0, total, 1)
    scale = np.sqrt(np.maximum(mean_square, np.finfo(np.float64).tiny))
    outside = ask(count_outside, chosen, noise[chosen], scale)
    # Rows of unequal weight tell less than their number says.
    tails = blend_tails(outside, total**2 / np.where(total > 0, total_squares, 1))
    net.noise_var[...] = start  # one noise for all members
    net.calibration = Calibration(float(TEMPERATURES[chosen] * growth), noise_scale, tails)
