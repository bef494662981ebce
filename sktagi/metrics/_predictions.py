"""Predictions as they are given: mean and std, a distribution, quantiles or ends of intervals.

With several targets, the log score of a row is the sum over its targets. The other scores are means
over the targets, in the targets' units.

NaN in some of several targets means "not observed". Each target is then scored by the rows in which
it was observed.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import norm
from sklearn.utils import check_array, check_consistent_length

from .._input import check_probabilities, check_targets, score_weight
from ..engine.observations import log_density_of_std

__all__ = [
    "Distribution",
    "Gaussian",
    "Predictions",
    "average",
    "check_arrays",
    "check_predictions",
    "check_quantiles",
    "is_distribution",
    "observed",
    "predictions",
]


METHODS = ("mean", "std", "logpdf", "cdf", "ppf", "interval")
FROZEN = type(norm())


class Distribution(Protocol):
    """What a predictive distribution must have: methods of SciPy's frozen distributions.

    Their arrays have the shape of the predictions, (n,) or (n, n_targets).
    """

    def mean(self) -> Any: ...

    def std(self) -> Any: ...

    def logpdf(self, y: Any, /) -> Any: ...

    def cdf(self, y: Any, /) -> Any: ...

    def ppf(self, q: Any, /) -> Any: ...

    def interval(self, confidence: float, /) -> Any: ...


class Gaussian:
    """Gaussian distributions with these arrays of means and standard deviations."""

    def __init__(self, mean: np.ndarray, std: np.ndarray) -> None:
        self._mean = mean
        self._std = std

    def mean(self) -> np.ndarray:
        return self._mean

    def std(self) -> np.ndarray:
        return self._std

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        return log_density_of_std(y, self._mean, self._std)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return ndtr((y - self._mean) / self._std)

    def ppf(self, q: float | np.ndarray) -> np.ndarray:
        return self._mean + ndtri(q) * self._std

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        half_width = ndtri((1 + confidence) / 2) * self._std
        return self._mean - half_width, self._mean + half_width


class Predictions(NamedTuple):
    """Targets beside the distributions that predict them."""

    y: np.ndarray  # (n, n_targets), NaN where a target was not observed
    weight: np.ndarray  # (n,)
    dist: Distribution
    shape: tuple[int, ...]  # of what goes into the distribution: (n,) or (n, n_targets)

    def give(self, method: str, *args: Any) -> np.ndarray:
        """Return what a method of the distribution gives, as (n, n_targets)."""
        with np.errstate(all="ignore"):  # logarithms of zero outside of the support, and the like
            values = getattr(self.dist, method)(*args)
        return self._finite(values, method, np.ones(self.y.shape, dtype=bool))

    def interval(self, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of central intervals, each (n, n_targets)."""
        every = np.ones(self.y.shape, dtype=bool)
        lower, upper = self.dist.interval(coverage)
        return self._finite(lower, "interval", every), self._finite(upper, "interval", every)

    def at_targets(self, method: str) -> np.ndarray:
        """Evaluate ``cdf`` or ``logpdf`` at the targets; NaN where they were not observed."""
        values = self.at(method, self.filled())
        return np.where(np.isnan(self.y), np.nan, values)

    def at(self, method: str, points: np.ndarray) -> np.ndarray:
        """Evaluate ``cdf`` or ``logpdf`` at one point for each prediction, (n, n_targets)."""
        with np.errstate(all="ignore"):
            values = getattr(self.dist, method)(points.reshape(self.shape))
        return self._finite(values, method, ~np.isnan(self.y), allow=-np.inf)

    def filled(self) -> np.ndarray:
        """Return the targets with some plausible number where they were not observed."""
        missing = np.isnan(self.y)
        if not missing.any():
            return self.y
        columns = [column[~gap] for column, gap in zip(self.y.T, missing.T, strict=True)]
        fill = [np.median(column) if len(column) else 0.0 for column in columns]
        return np.where(missing, fill, self.y)

    def _finite(
        self, values: Any, method: str, where: np.ndarray, allow: float | None = None
    ) -> np.ndarray:
        """Return values as (n, n_targets); refuse those that are not finite, but for one kind."""
        array = np.broadcast_to(np.asarray(values, dtype=np.float64), self.shape)
        array = array.reshape(self.y.shape)
        wrong = where & ~np.isfinite(array)
        if allow is not None:
            wrong &= array != allow
        if wrong.any():
            row, target = np.argwhere(wrong)[0]
            raise ValueError(
                f"dist.{method} gives {array[row, target]:g} for row {row}; "
                "are the parameters of the distribution valid?"
            )
        return array


def is_distribution(given: Any) -> TypeGuard[Distribution]:
    """Tell whether something has the methods of SciPy's frozen distributions."""
    return all(callable(getattr(given, method, None)) for method in METHODS)


def predictions(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None,
    std: ArrayLike | None,
    dist: Distribution | None = None,
    sample_weight: ArrayLike | None = None,
) -> Predictions:
    """Return targets beside their predictions: mean and std, or a distribution in either place."""
    if dist is None and is_distribution(mean):
        dist, mean = mean, None
    if dist is None:
        if mean is None or std is None:
            raise ValueError(
                "Predictions are needed: mean and std, or a distribution with SciPy's methods; "
                f"got {_kind(mean)} for mean and {_kind(std)} for std."
            )
        y, mu, sigma, weight = check_predictions(y_true, mean, std, sample_weight)  # type: ignore[arg-type]
        return Predictions(y, weight, Gaussian(mu, sigma), mu.shape)
    if mean is not None or std is not None:
        raise ValueError("Give either mean and std or a distribution, not both.")
    return _beside(y_true, dist, sample_weight)


def _beside(y_true: ArrayLike, dist: Distribution, sample_weight: ArrayLike | None) -> Predictions:
    """Return targets beside a distribution; one without rows is that of every row."""
    if not is_distribution(dist):
        raise ValueError(
            "dist must be a distribution with SciPy's methods mean, std, logpdf, cdf, ppf and "
            f"interval; got {_kind(dist)}."
        )
    given = np.shape(_at_least_1d(y_true))
    shape = np.shape(dist.mean()) or given
    if shape[0] != given[0] or np.prod(shape) != np.prod(given):
        raise ValueError(f"y_true and dist must have the same shape; got {given} and {shape}.")
    weight = score_weight(sample_weight, shape[0])
    y = check_targets(y_true, "y_true", weight)
    if isinstance(dist, FROZEN) and isinstance(dist.dist, type(norm)):  # known in closed form
        dist = Gaussian(np.asarray(dist.mean()), np.asarray(dist.std()))
    return Predictions(y.reshape(len(y), -1), weight, dist, shape)


def check_predictions(
    y_true: ArrayLike, mean: ArrayLike, std: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return targets, means and stds of shape (n, n_targets), and weights of shape (n,).

    All are finite, but for targets that were not observed: these are NaN.
    """
    y, mu, sigma, weight = check_arrays(y_true, mean, std, ("mean", "std"), sample_weight)
    if (sigma <= 0).any():
        raise ValueError(
            f"std must be positive; the smallest given is {sigma.min():g}. (Ends of intervals are "
            "given by name: lower=, upper=.)"
        )
    return y, mu, sigma, weight


def check_arrays(
    y_true: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    names: tuple[str, str],
    sample_weight: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return targets and two arrays of numbers that fit them, (n, n_targets), and weights (n,)."""
    one, two = (
        check_array(_at_least_1d(values), ensure_2d=False, dtype=np.float64, input_name=name)
        for name, values in zip(names, (first, second), strict=True)
    )
    check_consistent_length(_at_least_1d(y_true), one, two)
    weight = score_weight(sample_weight, len(one))
    y = check_targets(y_true, "y_true", weight)
    if one.shape != two.shape or y.size != one.size:
        raise ValueError(
            f"y_true, {names[0]} and {names[1]} must have the same shape; "
            f"got {y.shape}, {one.shape} and {two.shape}."
        )
    columns = (len(one), -1)
    return y.reshape(columns), one.reshape(columns), two.reshape(columns), weight


def check_quantiles(
    y_true: ArrayLike,
    predicted: ArrayLike,
    quantiles: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return targets (n, n_targets), their quantiles (n, n_targets, k), levels (k,), weights."""
    levels = check_probabilities(quantiles, "quantiles")
    values = check_array(
        predicted, ensure_2d=False, allow_nd=True, dtype=np.float64,
        input_name="predicted quantiles",
    )  # fmt: skip
    check_consistent_length(_at_least_1d(y_true), values)
    weight = score_weight(sample_weight, len(values))
    y = check_targets(y_true, "y_true", weight)
    targets = y.reshape(len(y), -1)
    wanted = (*targets.shape, len(levels))
    if values.size != np.prod(wanted) or (values.ndim == 3 and values.shape != wanted):
        raise ValueError(
            f"Predicted quantiles have shape {values.shape}, which does not fit y_true of shape "
            f"{y.shape} and {len(levels)} quantiles: it must be (n_samples, n_quantiles), or "
            "(n_samples, n_targets, n_quantiles) for several targets."
        )
    return targets, values.reshape(wanted), levels, weight


def average(score: np.ndarray, y_true: np.ndarray, weight: np.ndarray) -> float:
    """Average a score over the observed rows of each target, then over the targets."""
    if not np.isnan(y_true).any():
        # The order of the two means does not matter here, and this one makes no copies.
        return float(np.average(score.mean(axis=1), weights=weight))
    each = [
        np.average(score[rows, k], weights=weight[rows]) for k, rows in observed(y_true, weight)
    ]
    return float(np.mean(each))


def observed(y_true: np.ndarray, weight: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """List the targets that were observed with a positive weight, and the rows of each."""
    rows_of_targets = enumerate(~np.isnan(y_true).T)
    return [(k, rows) for k, rows in rows_of_targets if weight[rows].any()]


def _at_least_1d(values: ArrayLike) -> ArrayLike:
    """Return a number as an array, and anything else as it is.

    scikit-learn reads missing values of a frame (``pandas.NA``); NumPy does not.
    """
    return values if np.ndim(values) else np.atleast_1d(values)


def _kind(given: Any) -> str:
    """Return the name of the class of something that was given, for an error."""
    return "nothing" if given is None else type(given).__name__
