"""How far a network of a stream should have gone: what its last steps have gained on new rows.

A row says y, the present network predicts f, and the one of some time ago f_old: of a number in
units of the standard deviation with which it was predicted, or of classes as probabilities. With
the error e = y - f and the step d = f - f_old, the squared error has fallen by 2 (e d + d^2 / 2)
from the old network to the present one.

The mean of e d is zero if the network goes as far as it should. Where nothing changes, old and
present are equally good estimates of one function, with errors of their own: nothing is gained, so
the mean of e d is that of -d^2 / 2. Half-way between is

    s = e d + d^2 / 4

It is above zero where the old network has become worse: where the function changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from .observations import Gaussian, ObservationModel

__all__ = ["Predicted", "gains"]

SHARE = 0.25  # of d^2
BOUND = 3.0  # of e and of d, in standard deviations: no single row says more


class Predicted(NamedTuple):
    """Rows of a stream as one network predicted them, before it learned them."""

    y: np.ndarray  # (rows, n_targets), NaN where not observed; (rows,) class numbers; or labels
    mu_z: np.ndarray  # (n_outputs, rows)
    var_z: np.ndarray  # (n_outputs, rows)
    noise_var: np.ndarray  # (n_noise, rows or 1)


def gains(outputs: ObservationModel, rows: Predicted, old: np.ndarray) -> np.ndarray:
    """Return s of each row, summed over targets or classes; ``old`` are means (n_outputs, rows).

    ``outputs`` is the observation model of one member. Both networks are given the variance of the
    present one: what they are sure of is no matter here.
    """
    mu_z, var_y = rows.mu_z.astype(np.float64), rows.var_z + rows.noise_var
    if isinstance(outputs, Gaussian):
        std = np.sqrt(var_y)
        e = np.clip((rows.y.T - mu_z) / std, -BOUND, BOUND)
        d = np.clip((mu_z - old) / std, -BOUND, BOUND)
    else:
        both = np.stack([mu_z, old])[:, None]
        model = cast(Any, outputs)  # of classes
        present, before = (np.exp(model.log_proba(z, var_y[None])[0]) for z in both)
        e, d = _indicators(rows.y, len(present)) - present, present - before
    s = e * d + SHARE * np.square(d)
    return np.where(np.isfinite(s), s, 0).sum(axis=0)


def _indicators(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return 1 for each row's class, or its labels, and 0 for the others, (n_classes, rows)."""
    return y.T if y.ndim == 2 else (np.arange(n_classes)[:, None] == y).astype(np.float64)
