"""The predictive distribution of each row, as one vectorised object with scipy's method names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ._input import check_rng
from ._target_transform import TargetMap, as_map
from .engine.rows import slices
from .engine.shape import Shape, gaussian_shape

__all__ = ["PredictiveDistribution"]

BLOCK_NODES = 1 << 18  # values of a quadrature that are held at once
TINY = float(np.finfo(np.float64).tiny)
SCORES = np.linspace(-9, 9, 1801)  # normal scores at which quantiles are found


class PredictiveDistribution:
    """Distributions of one target or several, for each of n rows.

    Without ``transform`` they are ``mean + std * S`` with errors S of mean 0 and variance 1: of a
    Gaussian, or of another ``shape``. With one, they are those of y where ``T(y)`` is so
    distributed. Methods are named as those of scipy's frozen distributions and broadcast like them;
    numbers are float64.

    Parameters
    ----------
    mean : array-like of shape (n_samples,) or (n_samples, n_targets)
        Mean of each row: of T(y), if there is a transform.

    std : array-like, same shape
        Standard deviation of each row, likewise.

    shape : Shape, default=None
        Shape of the errors, one for each target; None for Gaussians.

    transform : {None, "log"} or transformer, default=None
        Increasing map T of the targets: a fitted scikit-learn transformer with
        ``inverse_transform``.

    See Also
    --------
    TAGIRegressor.predict_dist : The distribution that a fitted model predicts.
    predict_dist : The same for pipelines, searches and other estimators.

    Notes
    -----
    With a transform, mean and variance are sums over a fine grid of errors. Errors beyond 8
    standard deviations count as 8 there, and in draws: nothing is known about them, and the
    exponential of a heavy tail may have no mean. Where the range of T has an end, what would lie
    beyond it lies there, with a probability that is no part of the density.

    Examples
    --------
    >>> from sktagi.distribution import PredictiveDistribution
    >>> dist = PredictiveDistribution([0.0, 10.0], [1.0, 2.0])
    >>> dist.mean(), dist.std()
    (array([ 0., 10.]), array([1., 2.]))
    >>> low, high = dist.interval(0.9)
    >>> high.round(2)
    array([ 1.64, 13.29])
    >>> dist.ppf([[0.1], [0.9]]).shape  # two quantiles of each row
    (2, 2)

    The logarithm of y has the mean 0:

    >>> dist = PredictiveDistribution([0.0], [0.5], transform="log")
    >>> dist.median(), dist.mean().round(3)
    (array([1.]), array([1.133]))
    """

    def __init__(
        self, mean: ArrayLike, std: ArrayLike, shape: Shape | None = None, transform: Any = None
    ):
        loc = np.asarray(mean, dtype=np.float64)
        scale = np.asarray(std, dtype=np.float64)
        if loc.ndim not in (1, 2) or loc.shape != scale.shape:
            raise ValueError(
                "mean and std must have one shape, (n_samples,) or (n_samples, n_targets); got "
                f"{loc.shape} and {scale.shape}."
            )
        if not np.isfinite(loc).all():
            raise ValueError("mean must be finite.")
        if not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise ValueError("std must be finite and not negative.")
        n_targets = loc.shape[1] if loc.ndim == 2 else 1
        errors = gaussian_shape(n_targets) if shape is None else shape
        if errors.n_outputs != n_targets:
            raise ValueError(f"shape has {errors.n_outputs} targets, mean has {n_targets}.")
        self._loc = loc
        self._scale = np.maximum(scale, TINY)
        self._errors = errors
        self._has_targets = loc.ndim == 2  # whether the last axis holds the targets
        self._map: TargetMap | None = None
        if transform is not None and loc.size:
            self._map = as_map(transform, loc.reshape(-1, n_targets))

    # As an array of distributions

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the means."""
        return self._loc.shape

    @property
    def ndim(self) -> int:
        """Number of axes of the means."""
        return self._loc.ndim

    def __len__(self) -> int:
        return len(self._loc)

    def __getitem__(self, rows: Any) -> PredictiveDistribution:
        if isinstance(rows, tuple):
            raise IndexError("A distribution is indexed by its rows: a slice, a mask or numbers.")
        part = object.__new__(type(self))
        part.__dict__ = {k: v for k, v in self.__dict__.items() if k != "_moments"}
        part._loc, part._scale = self._loc[rows], self._scale[rows]
        return part

    def __repr__(self) -> str:
        kind = "Gaussian" if self._errors.is_gaussian else "shaped"
        of = "" if self._map is None else ", transformed"
        return f"<PredictiveDistribution of shape {self.shape}, {kind}{of}>"

    # Moments

    def mean(self) -> np.ndarray:
        """Mean.

        Returns
        -------
        mean : ndarray
            In the shape of the distribution, as all that follows.
        """
        return self._loc.copy() if self._map is None else self._moments[0].copy()

    def std(self) -> np.ndarray:
        """Standard deviation.

        Returns
        -------
        std : ndarray
            Standard deviations.
        """
        return self._scale.copy() if self._map is None else np.sqrt(self._moments[1])

    def var(self) -> np.ndarray:
        """Variance.

        Returns
        -------
        var : ndarray
            Variances.
        """
        return np.square(self._scale) if self._map is None else self._moments[1].copy()

    def median(self) -> np.ndarray:
        """Median.

        Returns
        -------
        median : ndarray
            Medians.
        """
        return self.ppf(0.5)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y, by quadrature over the errors."""
        nodes, weight = self._errors.nodes()  # (n_targets, n_nodes)
        nodes, weight = nodes.T, weight.T
        n_targets = self._errors.n_outputs
        loc, scale = (a.reshape(-1, n_targets) for a in (self._loc, self._scale))
        mean, var = np.empty_like(loc), np.empty_like(loc)
        for part in slices(len(loc), max(1, BLOCK_NODES // nodes.size)):
            y = self._inverse(loc[part, None] + scale[part, None] * nodes)
            centre = y[:, len(nodes) // 2]  # values that hardly differ keep their digits
            shift = np.einsum("nkt,kt->nt", y - centre[:, None], weight)
            mean[part] = centre + shift
            var[part] = np.einsum("nkt,kt->nt", np.square(y - mean[part, None]), weight)
        # A map that is flat here leaves no variance: that of rounding is positive.
        floor = np.square(np.finfo(np.float64).eps * np.maximum(np.abs(mean), TINY**0.25))
        return mean.reshape(self.shape), np.maximum(var, floor).reshape(self.shape)

    # Density and probabilities

    def logpdf(self, y: ArrayLike) -> np.ndarray:
        """Logarithm of the density.

        Parameters
        ----------
        y : array-like
            Targets that broadcast to the shape of the distribution; there may be more axes before.
            NaN gives NaN.

        Returns
        -------
        logpdf : ndarray
            Log densities; minus infinity outside of the support.
        """
        y = np.asarray(y, dtype=np.float64)
        g, z = self._standardised(y)
        log_density = self._of_targets(self._errors.logpdf, z) - np.log(self._scale)
        if self._map is None:
            return log_density
        low, high = (self._inverse_of(self._loc + d * self._scale) for d in (-1, 1))
        spread = np.maximum((high - low) / 2, TINY)
        y = np.broadcast_to(y, z.shape)
        outside = ~np.isfinite(g) & ~np.isnan(y)
        inside = np.where(outside, self._inverse_of(self._loc), y)
        slope = self._mapped(self._map.log_slope, inside, np.broadcast_to(spread, z.shape))
        return np.where(outside, -np.inf, log_density + slope)

    def pdf(self, y: ArrayLike) -> np.ndarray:
        """Density.

        Parameters
        ----------
        y : array-like
            Targets, as for `logpdf`.

        Returns
        -------
        pdf : ndarray
            Densities.
        """
        return np.exp(self.logpdf(y))

    def cdf(self, y: ArrayLike) -> np.ndarray:
        """Probability of a target up to y.

        Parameters
        ----------
        y : array-like
            Targets, as for `logpdf`.

        Returns
        -------
        cdf : ndarray
            Probabilities.
        """
        return self._of_targets(self._errors.cdf, self._within_support(y))

    def sf(self, y: ArrayLike) -> np.ndarray:
        """Probability of a target above y, accurate where it is small.

        Parameters
        ----------
        y : array-like
            Targets, as for `logpdf`.

        Returns
        -------
        sf : ndarray
            Probabilities.
        """
        return self._of_targets(self._errors.sf, self._within_support(y))

    # Quantiles

    def ppf(self, q: ArrayLike) -> np.ndarray:
        """Quantile: the target up to which the probability is q.

        Parameters
        ----------
        q : array-like
            Probabilities that broadcast with the shape of the distribution: a number gives that
            shape, an array of shape (k, 1) k quantiles of each of n rows, (k, n).

        Returns
        -------
        ppf : ndarray
            Quantiles; NaN if q is no probability.
        """
        return self._at_quantiles(self._errors.ppf, q)

    def isf(self, q: ArrayLike) -> np.ndarray:
        """Target above which the probability is q, accurate where q is small.

        Parameters
        ----------
        q : array-like
            Probabilities, as for `ppf`.

        Returns
        -------
        isf : ndarray
            Quantiles.
        """
        return self._at_quantiles(self._errors.isf, q)

    def interval(self, confidence: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Central interval: as much probability lies below it as above.

        Parameters
        ----------
        confidence : array-like
            Probability that it holds, broadcast as q of `ppf`.

        Returns
        -------
        low, high : ndarray
            Ends of the interval.
        """
        outside = (1 - np.asarray(confidence, dtype=np.float64)) / 2
        return self.ppf(outside), self.isf(outside)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the support, infinite if there are none.

        Returns
        -------
        low, high : ndarray
            Lowest and highest possible target.
        """
        ends = (np.full(1, -np.inf), np.full(1, np.inf))
        if self._map is not None:
            ends = self._map.support()
        low, high = (np.broadcast_to(end if self._has_targets else end[0], self.shape)
                     for end in ends)  # fmt: skip
        return low.copy(), high.copy()

    # Draws

    def rvs(
        self,
        size: int | tuple[int, ...] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw targets, of all rows independently.

        Parameters
        ----------
        size : int or tuple of int, default=None
            Draws of each row, as axes before those of the distribution: None gives its shape, 5
            gives (5, n_samples).

        random_state : int, RandomState, Generator or None, default=None
            Determines the draws.

        Returns
        -------
        rvs : ndarray
            Draws.
        """
        before = () if size is None else tuple(np.atleast_1d(size).tolist())
        is_generator = isinstance(random_state, np.random.Generator)
        rng: Any = random_state if is_generator else check_rng(random_state)
        shape = (*before, *self.shape)
        n_draws = int(np.prod(shape)) // self._errors.n_outputs
        draws = self._errors.rvs(rng, n_draws)
        if self._map is not None:  # as in the moments
            draws = np.clip(draws, -self._errors.farthest, self._errors.farthest)
        return self._inverse_of(self._loc + self._scale * draws.T.reshape(shape))

    def _at_scores(self, z: np.ndarray) -> np.ndarray:
        """Return the targets below which as much lies as below standard normal scores z.

        ``z`` has axes of draws before those of the distribution.
        """
        errors = z
        if not self._errors.is_gaussian:  # of all rows alike: read from a table
            scores = np.repeat(SCORES[:, None], self._errors.n_outputs, axis=1)
            below = self._errors.ppf(ndtr(np.minimum(scores, 0)).T)
            above = self._errors.isf(ndtr(-np.maximum(scores, 0)).T)
            table = np.where(scores.T < 0, below, above)
            by_target = z.reshape(-1, len(table)).T
            errors = np.stack(
                [np.interp(a, SCORES, b) for a, b in zip(by_target, table, strict=True)]
            )
            errors = errors.T.reshape(z.shape)
        if self._map is not None:  # as in the moments
            errors = np.clip(errors, -self._errors.farthest, self._errors.farthest)
        return self._inverse_of(self._loc + self._scale * errors)

    # Between the layout of the engine, (n_targets, rows), and that of users

    def _of_targets(
        self, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        """Apply a function of (n_targets, rows) to values (..., n_targets) or, of one, (...)."""
        rows = np.ascontiguousarray(values.reshape(-1, self._errors.n_outputs).T)
        return function(rows).T.reshape(values.shape)

    def _at_quantiles(
        self, function: Callable[[np.ndarray], np.ndarray], q: ArrayLike
    ) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        if self._has_targets:
            q = np.broadcast_to(q, np.broadcast_shapes(q.shape, (self._errors.n_outputs,)))
        return self._inverse_of(self._loc + self._scale * self._of_targets(function, q))

    def _standardised(self, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return T(y) and errors in standard deviations, broadcast."""
        y = np.asarray(y, dtype=np.float64)
        y = np.broadcast_to(y, np.broadcast_shapes(y.shape, self.shape))
        g = y if self._map is None else self._mapped(self._map.forward, y)
        with np.errstate(over="ignore", invalid="ignore"):
            return g, (g - self._loc) / self._scale

    def _within_support(self, y: ArrayLike) -> np.ndarray:
        """Return errors in standard deviations: infinite from the last y on that is predicted."""
        z = self._standardised(y)[1]
        if self._map is None:
            return z
        low, high = (self._inverse_of(np.full(self.shape, end)) for end in (-np.inf, np.inf))
        return np.where(np.asarray(y) >= high, np.inf, np.where(np.asarray(y) < low, -np.inf, z))

    def _inverse_of(self, g: np.ndarray) -> np.ndarray:
        return g if self._map is None else self._mapped(self._inverse, g)

    def _inverse(self, g: np.ndarray) -> np.ndarray:
        assert self._map is not None
        return self._map.inverse(g)

    def _mapped(self, function: Callable[..., np.ndarray], *values: np.ndarray) -> np.ndarray:
        """Apply a function of (..., n_targets) to values in the shape of the distribution."""
        if self._has_targets:
            return function(*values)
        return function(*(a[..., None] for a in values))[..., 0]
