"""Observation models (Eq. 1): what a row's target says of the outputs of the network.

After moment matching, an observation of an output with moments (mu_z, var_z) is a Gaussian
pseudo-observation of it, a *site*: a target with a noise variance. If the posterior of that row
alone is (mu', var'), its site has

    1 / noise = 1 / var' - 1 / var_z,   target = mu_z + (mu' - mu_z) (var_z + noise) / var_z

and one row alone gets exactly that posterior. ``messages`` condition on the sites of a batch. A row
of weight w has the noise variance noise / w; an output that is not observed has weight zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from .fast import ONE, has_nan

__all__ = [
    "MANY",
    "OUTLYING",
    "RARE",
    "ForAllMembers",
    "Gaussian",
    "Members",
    "ObservationModel",
    "Sites",
    "Targets",
    "log_density_of_std",
    "robust_log_density",
]

LOG_2_PI = math.log(2 * math.pi)
# Beyond so many standard deviations an error is an outlier, and counts less the larger it is.
OUTLYING = 6.0
MANY = 5.0  # rows of a batch, of which most tell that they are no errors
RARE = 0.75  # share of a batch at most: what more rows say is no error
SAME = 1e-6  # squared difference of means, over a variance, that copies of a row may have


class Targets(NamedTuple):
    """What some rows observe, as the observation model understands it."""

    value: np.ndarray  # (..., n_outputs, rows): finite where not observed, too
    observed: np.ndarray | None = None  # (..., n_outputs, rows): 1, or 0 if not; None: all are 1
    # (..., n_observed, rows): which outputs each row observes, if these are few; None: any
    outputs: np.ndarray | None = None


# Numbers of members: one, a slice (views) or an array (copies).
Members: TypeAlias = int | slice | np.ndarray
# Pseudo-observations: their targets, (..., n_outputs, rows), and the variances of their noise,
# positive, which broadcast against the targets
Sites: TypeAlias = tuple[np.ndarray, np.ndarray]


class ObservationModel(Protocol):
    """How targets depend on outputs; arrays of outputs are (..., n_outputs, rows)."""

    @property
    def n_outputs(self) -> int:
        """Units of the last layer."""

    @property
    def n_noise(self) -> int:
        """Noise variances: ``n_outputs``, or 1 for all outputs together."""

    @property
    def shares_factor(self) -> bool:
        """Whether one covariance between rows serves all outputs (``messages``)."""

    @property
    def has_slope(self) -> bool:
        """Whether outputs are seen through a link whose slope rows tell (``class_calibration``)."""

    def members(self, numbers: Members) -> ObservationModel:
        """Return the model of some members."""

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> Targets:
        """Translate y (..., rows, n_targets), or (..., rows) class numbers."""

    def sites(
        self,
        mu_z: np.ndarray,
        var_z: np.ndarray,
        value: np.ndarray,
        noise_var: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> Sites:
        """Return the sites of a batch, whose outputs have the moments ``mu_z`` and ``var_z``.

        ``value`` is that of the targets, (..., n_outputs, rows); what is not observed has a site
        that nobody uses. ``noise_var`` broadcasts: one variance, one for each output or each row.
        ``weight`` broadcasts, too: 0 for what is not observed; None: all are 1.
        """

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of y, (..., n, rows), to be summed over n.

        ``var_y`` includes the noise; it may have more leading axes than y.
        """


class ForAllMembers:
    """What observation models have in common that are the same for all members."""

    shares_factor = False
    has_slope = False

    def members(self, numbers: Members) -> Self:
        """Return the model of some members."""
        return self


class Gaussian(ForAllMembers):
    """Targets that are the outputs plus noise; NaN is a target that is not observed.

    Likelihoods are those of targets that are ``scale`` (n_outputs,) times as large.

    If it is ``robust``, the density beyond c = ``OUTLYING`` standard deviations falls as the power
    |z|^(-c^2) instead of exp(-z^2 / 2): a tail of the same height and slope at c. What a row says
    is then weighed by c^2 / z^2, by a noise with which the variance of y is z^2 / c^2 times as
    large: the slope of the log density is that of the tail. Nothing changes within c, nor
    in a batch of ``MANY`` rows that are that far away for the most part: there the function has
    changed. A standard deviation is at least the root of ``tolerated`` (n_outputs, 1), if that is
    given.
    """

    def __init__(
        self,
        n_outputs: int,
        scale: np.ndarray | None = None,
        robust: bool = False,
        tolerated: np.ndarray | None = None,
    ):
        self.n_outputs = n_outputs
        self.n_noise = n_outputs
        self.robust = robust
        self.tolerated = tolerated
        self._constant = LOG_2_PI if scale is None else LOG_2_PI + 2 * np.log(scale)[:, None]

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> Targets:
        """Translate y (..., rows, n_outputs)."""
        value = y.astype(dtype, copy=False).swapaxes(-1, -2)
        if not has_nan(value):
            return Targets(value)
        missing = np.isnan(value)
        return Targets(np.where(missing, 0, value), (~missing).astype(value.dtype))

    def sites(
        self,
        mu_z: np.ndarray,
        var_z: np.ndarray,
        value: np.ndarray,
        noise_var: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> Sites:
        """Return the targets with the noise as it is, or larger for an outlier."""
        if not self.robust and self.tolerated is None:
            return value, noise_var
        ratio = np.square((value - mu_z) / OUTLYING)
        var_y = var_z + noise_var
        ratio /= var_y if self.tolerated is None else np.maximum(var_y, self.tolerated)
        if not np.maximum.reduce(ratio, axis=None) > 1:  # nearly always
            return value, noise_var
        one = ONE[ratio.dtype.char]
        ratio = np.maximum(ratio, one)
        if ratio.shape[-1] > 1:
            weight = np.ones_like(ratio) if weight is None else np.broadcast_to(weight, ratio.shape)
            total = np.add.reduce(weight, axis=-1, keepdims=True)
            beyond = np.add.reduce(np.where(ratio > one, weight, 0), axis=-1, keepdims=True)
            differ = np.square(_spread(mu_z, weight)) > SAME * var_y
            differ |= _spread(value, weight) > 0
            # Of few rows nobody can tell, nor of copies of one.
            many = (beyond > RARE * total) & (total >= MANY)
            ratio = np.where(many & differ, one, ratio)
        # The slope of the log density is that of a variance of y which is so many times as large.
        return value, np.where(ratio > one, ratio * var_y - var_z, noise_var)

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log density of each target, (..., n_outputs, rows); 0 if not observed."""
        y = y.swapaxes(-1, -2)
        density = robust_log_density if self.robust else log_density_of_std
        log_lik = density(y, mu_z, np.sqrt(var_y), self._constant)
        return np.where(np.isnan(y), 0, log_lik) if has_nan(y) else log_lik


def _spread(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the range over the rows that have a weight, with one column; none: below zero."""
    there = weight > 0
    values = np.broadcast_to(values, there.shape)
    high = values.max(axis=-1, keepdims=True, where=there, initial=-np.inf)
    return np.subtract(high, values.min(axis=-1, keepdims=True, where=there, initial=np.inf))


def log_density_of_std(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, constant: float | np.ndarray = LOG_2_PI
) -> np.ndarray:
    """Return log N(y; mean, std**2), elementwise; the square of a tiny std may be zero."""
    # (y - mean) is divided by the standard deviation before it is squared: the square of a large
    # residual may overflow where that of the ratio does not.
    return -(np.log(std) + 0.5 * (constant + ((y - mean) / std) ** 2))


def robust_log_density(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, constant: float | np.ndarray = LOG_2_PI
) -> np.ndarray:
    """Return the log density of a Gaussian whose tails are powers beyond ``OUTLYING``."""
    squared = np.square((y - mean) / std)
    limit = OUTLYING**2
    if not np.count_nonzero(squared > limit):  # nearly always
        return -(np.log(std) + 0.5 * (constant + squared))
    beyond = limit * (1 + np.log(np.maximum(squared, limit) / limit))
    return -(np.log(std) + 0.5 * (constant + np.where(squared > limit, beyond, squared)))
