"""Calibration: cumulative probabilities of targets, and how far from uniform they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._predictions import Distribution, check_quantiles, is_distribution, observed, predictions

__all__ = [
    "area_to_diagonal",
    "calibration_error",
    "needed_coverage",
    "probability_integral_transform",
]


def probability_integral_transform(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None = None,
    std: ArrayLike | None = None,
    *,
    dist: Distribution | None = None,
    quantiles: ArrayLike | None = None,
) -> np.ndarray:
    """Compute the cumulative probability of each target under its prediction (PIT).

    If the model is calibrated, the values are uniform between 0 and 1. Their histogram shows what
    is wrong otherwise: a peak in the middle means that the std is too large, peaks at both ends
    that it is too small, a slope that the mean is biased.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape, default=None
        Predictive means and standard deviations. A distribution may stand in the place of ``mean``.

    dist : distribution, default=None
        Predictive distributions of the same shape in the place of ``mean`` and ``std``, as one
        object with the methods of SciPy's frozen distributions.

    quantiles : array-like of shape (n_quantiles,), default=None
        Probabilities of predicted quantiles, which then stand in the place of ``mean``:
        ``(n_samples, n_quantiles)`` or ``(n_samples, n_targets, n_quantiles)``. Between them the
        distribution function is taken to be linear; targets beyond the last of them have half of
        the probability that is left.

    Returns
    -------
    pit : ndarray, same shape as the mean
        ``P(y <= y_true)``, and NaN where the target was not observed.

    Examples
    --------
    >>> from sktagi.metrics import probability_integral_transform
    >>> probability_integral_transform([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]).round(4)
    array([0.5   , 0.8413])

    Quantiles in the place of mean and std:

    >>> predicted = [[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]]
    >>> probability_integral_transform([0.5, 3.0], predicted, quantiles=[0.2, 0.5, 0.8])
    array([0.65, 0.9 ])
    """
    _, pit, _, shape = _cumulative(y_true, mean, std, dist, quantiles, None)
    return pit.reshape(shape)


def calibration_error(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None = None,
    std: ArrayLike | None = None,
    *,
    dist: Distribution | None = None,
    quantiles: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the mean difference between observed and nominal coverage of central intervals.

    The error is the integral, over nominal coverages from 0 to 1, of the absolute difference
    between observed and nominal coverage: the area between the two lines of
    :class:`sktagi.plotting.IntervalCalibrationDisplay`. It is 0 for perfect calibration and 0.5 at
    worst. A calibrated model has an error of about ``0.31 / sqrt(n_samples)`` by chance.

    The error does not tell how sharp the predictions are: use it together with a proper score such
    as the CRPS.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. NaN in some of several targets means "not observed".

    mean, std : array-like, same shape, default=None
        Predictive means and standard deviations. A distribution may stand in the place of ``mean``.

    dist : distribution, default=None
        Predictive distributions of the same shape in the place of ``mean`` and ``std``, as one
        object with the methods of SciPy's frozen distributions.

    quantiles : array-like of shape (n_quantiles,), default=None
        Probabilities of predicted quantiles, which then stand in the place of ``mean``:
        ``(n_samples, n_quantiles)`` or ``(n_samples, n_targets, n_quantiles)``. Between them the
        distribution function is taken to be linear; targets beyond the last of them have half of
        the probability that is left.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the observed coverage.

    Returns
    -------
    error : float
        Mean over the targets of the error of each, so that an overconfident target does not cancel
        an underconfident one. A target that was never observed is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.metrics import calibration_error
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> zero, one = np.zeros(1000), np.ones(1000)
    >>> [round(calibration_error(y, zero, std), 2) for std in (one, one / 2, one * 2)]
    [0.01, 0.2, 0.21]
    """
    y, pit, weight, _ = _cumulative(y_true, mean, std, dist, quantiles, sample_weight)
    needed = needed_coverage(pit)
    each = [area_to_diagonal(needed[rows, k], weight[rows]) for k, rows in observed(y, weight)]
    return float(np.mean(each))


def needed_coverage(pit: np.ndarray) -> np.ndarray:
    """Return the coverage of the narrowest central interval that contains each target."""
    return np.abs(2 * pit - 1)


def area_to_diagonal(needed: np.ndarray, weight: np.ndarray) -> float:
    """Integrate |F(p) - p| over p from 0 to 1; F is the weighted distribution of ``needed``."""
    order = np.argsort(needed)
    observed = np.append(0, np.cumsum(weight[order]) / weight.sum())  # constant between edges
    edges = np.concatenate([[0], needed[order], [1]])
    end, start = edges[1:] - observed, edges[:-1] - observed
    return float((end * np.abs(end) - start * np.abs(start)).sum() / 2)


def _cumulative(
    y_true: ArrayLike,
    mean: ArrayLike | Distribution | None,
    std: ArrayLike | None,
    dist: Distribution | None,
    quantiles: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return targets and their cumulative probabilities (n, n_targets), weights, and a shape.

    The shape is that of the predictions as they were given.
    """
    if quantiles is None:
        given = predictions(y_true, mean, std, dist, sample_weight)
        shape = given.shape if std is None else np.shape(mean)  # type: ignore[arg-type]
        return given.y, given.at_targets("cdf"), given.weight, shape
    if mean is None or std is not None or dist is not None or is_distribution(mean):
        raise ValueError(
            "quantiles are the probabilities of predicted quantiles, which stand in the place of "
            "mean, without std or a distribution."
        )
    predicted: ArrayLike = mean  # type: ignore[assignment]
    y, values, levels, weight = check_quantiles(y_true, predicted, quantiles, sample_weight)
    shape = y.shape if y.shape[1] > 1 or np.ndim(predicted) == 3 else (len(y),)
    return y, _between_quantiles(y, values, levels), weight, shape


def _between_quantiles(y: np.ndarray, values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Interpolate cumulative probabilities of y (n, n_targets) between quantiles (..., k).

    Quantiles that cross are sorted.
    """
    levels, values = np.sort(levels), np.sort(values, axis=-1)
    right = np.clip((values <= y[..., None]).sum(axis=-1), 1, max(len(levels) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(levels) - 1)  # of a single quantile
    low, high = (np.take_along_axis(values, k[..., None], -1)[..., 0] for k in (left, right))
    width = high - low
    share = np.divide(y - low, width, out=np.zeros_like(y), where=width > 0)
    pit = levels[left] + share * (levels[right] - levels[left])
    pit = np.where(y < values[..., 0], levels[0] / 2, pit)
    pit = np.where(y > values[..., -1], (1 + levels[-1]) / 2, pit)
    return np.where(np.isnan(y), np.nan, pit)
