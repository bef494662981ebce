"""Probabilities of classes, and what is not known of them, from the moments of the outputs.

A row with gaps is predicted in several ways to complete it. Its probabilities are the means over
these ways, and how they differ is not known of them: all of it, other than what the network's own
variances say (``engine.class_calibration``). So is what errors of the inputs add to a variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .engine.class_calibration import UNKNOWN_OF_SPREAD, class_calibration, far_from_data
from .engine.fast import TINY, mean_of_first
from .engine.inputs import InputErrors
from .engine.mixture import Mixture
from .engine.posterior import Network
from .tables.columns import Columns, Predict

__all__ = [
    "OutputMoments",
    "Summary",
    "in_blocks",
    "log_probabilities",
    "of_rows",
    "probabilities",
    "with_std",
]


class OutputMoments(NamedTuple):
    """Moments (ways, members, n_outputs, rows) of the outputs, in float64."""

    mu_z: np.ndarray
    var_z: np.ndarray
    noise_var: np.ndarray  # (members, n_noise, 1)
    unknown: Any  # share of var_z that is not known of the outputs: one, or of each
    of_spread: float  # share of the variance between members


Summary = Callable[[Any, OutputMoments], tuple[np.ndarray, ...]]


def in_blocks(
    net: Network | Mixture,
    table: Columns,
    predict: Predict,
    x_moments: Any,
    blocks: Iterable[tuple[int, Any, InputErrors | None]],
) -> Iterator[tuple[np.ndarray, OutputMoments]]:
    """Yield numbers of rows, and moments of their outputs, for blocks of inputs and errors."""
    calibration = net.calibration or class_calibration(net)
    unknown, of_spread, noise_var = 1.0, 1.0, net.reported_noise
    if net.calibration is not None:
        unknown, of_spread = calibration.unknown, UNKNOWN_OF_SPREAD

    def moments(x: Any, errors: InputErrors | None) -> tuple[np.ndarray, ...]:
        mu_z, var_z = (moment.astype(np.float64) for moment in predict(x, errors))
        own_var = var_z if errors is None else predict(x, None)[1].astype(np.float64)
        return calibration.slope * mu_z, own_var, np.maximum(var_z - own_var, 0)

    for start, X, errors in blocks:
        for rows, (mu_z, var_z, of_inputs) in table.in_ways(X, errors, moments, x_moments):
            if calibration.usual_var is not None:
                var_z *= far_from_data(var_z, calibration.usual_var)
            share: Any = unknown
            if errors is not None:
                total = var_z + of_inputs
                share = (unknown * var_z + of_inputs) / np.maximum(total, TINY["d"])
                var_z = total
            yield start + rows, OutputMoments(mu_z, var_z, noise_var, share, of_spread)


def log_probabilities(model: Any, moments: OutputMoments) -> tuple[np.ndarray, ...]:
    """Return log probabilities (n_classes, rows): of means over members and ways."""
    log_proba = model.log_proba(moments.mu_z, moments.var_z + moments.noise_var)
    log_proba = log_proba.reshape(-1, *log_proba.shape[2:])
    top = np.maximum.reduce(log_proba, axis=0)  # scipy's logsumexp takes long, for one row
    return (top + np.log(mean_of_first(np.exp(log_proba - top))),)


def probabilities(model: Any, moments: OutputMoments) -> tuple[np.ndarray, ...]:
    """Return probabilities (n_classes, rows): means over members and ways."""
    proba = _of_members(model, moments)
    return (mean_of_first(mean_of_first(proba.swapaxes(0, 1))),)


def with_std(model: Any, moments: OutputMoments) -> tuple[np.ndarray, ...]:
    """Return probabilities and their standard deviations, each (n_classes, rows)."""
    proba = _of_members(model, moments)
    std = model.proba_std(moments.mu_z, moments.var_z, moments.noise_var, moments.unknown)
    # Law of total variance over the members, and then over the ways.
    var = np.square(std).mean(axis=1) + moments.of_spread * proba.var(axis=1)
    of_ways = proba.mean(axis=1)
    return of_ways.mean(axis=0), np.sqrt(var.mean(axis=0) + of_ways.var(axis=0))


def _of_members(model: Any, moments: OutputMoments) -> np.ndarray:
    proba: np.ndarray = np.exp(model.log_proba(moments.mu_z, moments.var_z + moments.noise_var))
    return proba


def of_rows(
    blocks: Iterable[tuple[np.ndarray, OutputMoments]], model: Any, summary: Summary, n_rows: int
) -> list[np.ndarray]:
    """Return what a summary says of rows, each (n_rows, n_classes), block by block."""
    results: list[np.ndarray] = []
    for rows, moments in blocks:
        of_block = summary(model, moments)
        if not results:
            results = [np.empty((n_rows, len(values))) for values in of_block]
        for result, values in zip(results, of_block, strict=True):
            result[rows] = values.T
    return results
