"""The shape of standardised errors: a distribution with mean 0 and variance 1 for each target.

A shape is a mixture of Gaussians, so that density, distribution function, draws and expectations
are simple. It is estimated from errors over their standard deviations, of rows that were not
learned. Components are fixed and only their weights are fitted, by expectation maximisation:
narrow ones side by side, which can be skewed, flat or have several peaks, and broad ones for heavy
tails. The prior is a number of rows of a Gaussian, so that few rows change little.

Spacing, prior and the broad components are those with which fresh errors are most likely, for
Gaussian, Student, Laplace, uniform, skewed and two-peaked errors and 30 to 5000 rows; Gaussian
errors lose at most 0.005 of their log-likelihood.

Errors have the layout (n_outputs, rows), as everywhere in the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from .fast import slices

__all__ = ["OUTLIER", "Shape", "error_histogram", "fit_shape", "gaussian_shape", "mean_shape"]

OUTLIER = 8.0  # standard deviations, beyond which an error tells nothing about the shape
# Beyond so many standard deviations, transformed targets are taken to lie there: where the shape is
# estimated nothing is known about such errors, and the mean of their exponential may not exist.
FARTHEST = 5.0
N_BINS = 400
SPACING = 0.4  # of the narrow components, and their width
N_BESIDE = 9  # of them on each side of the one in the middle
BROAD = (2.0, 4.0)
PRIOR_ROWS = 40.0
PRIOR_BROAD = 1e-5  # share of the broad components in the prior
N_STEPS = 300  # of expectation maximisation
NODE_STEP = 0.2
BLOCK = 1 << 13  # values times components are held at once
MAX_NEWTON_STEPS = 200
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)

_EDGE = np.arcsinh(OUTLIER)
_MIDDLES = np.sinh((np.arange(N_BINS) + 0.5) * (2 * _EDGE / N_BINS) - _EDGE)


class Shape(NamedTuple):
    """Mixture of K Gaussians for each target; its mean is 0 and its variance 1."""

    weight: np.ndarray  # (n_outputs, K)
    mu: np.ndarray  # (n_outputs, K)
    sd: np.ndarray  # (n_outputs, K)

    @property
    def n_outputs(self) -> int:
        return len(self.weight)

    @property
    def is_gaussian(self) -> bool:
        return self.weight.shape[1] == 1

    @property
    def farthest(self) -> float:
        """Largest error that counts where targets are transformed."""
        return OUTLIER if self.is_gaussian else FARTHEST

    def logpdf(self, z: np.ndarray) -> np.ndarray:
        """Return the log density of errors z (n_outputs, rows)."""
        return self._in_blocks(self._logpdf, z)

    def pdf(self, z: np.ndarray) -> np.ndarray:
        """Return the density of errors z (n_outputs, rows)."""
        return np.exp(self.logpdf(z))

    def cdf(self, z: np.ndarray) -> np.ndarray:
        """Return the probability of an error below z (n_outputs, rows)."""

        def below(z: np.ndarray) -> np.ndarray:
            share = ndtr((z[:, None] - self.mu[..., None]) / self.sd[..., None])
            return np.minimum((self.weight[..., None] * share).sum(axis=1), 1)

        return self._in_blocks(below, z)

    def sf(self, z: np.ndarray) -> np.ndarray:
        """Return the probability of an error above z (n_outputs, rows), accurate in the tail."""
        return self.mirrored().cdf(-z)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        """Return the errors below which a share q (n_outputs, rows) lies."""
        if self.is_gaussian:
            return self.mu + self.sd * ndtri(q)
        return self._in_blocks(self._quantile, q)

    def isf(self, q: np.ndarray) -> np.ndarray:
        """Return the errors above which a share q (n_outputs, rows) lies, however small it is."""
        return -self.mirrored().ppf(q)

    def rvs(self, rng: np.random.RandomState | np.random.Generator, size: int) -> np.ndarray:
        """Draw errors (n_outputs, size)."""
        draws = rng.standard_normal((self.n_outputs, size))
        if self.is_gaussian:
            return self.mu + self.sd * draws
        for values, weight, mu, sd in zip(draws, *self, strict=True):
            chosen = rng.choice(len(weight), size=size, p=weight / weight.sum())
            values *= sd[chosen]
            values += mu[chosen]
        return draws

    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and weights (n_outputs, n) with E[h(S)] = sum of weight * h(node).

        The trapezoidal rule: for smooth functions of Gaussians that are wider than two steps it is
        exact to rounding. What lies beyond ``farthest`` is taken to lie there.
        """
        steps = np.arange(-self.farthest, self.farthest + NODE_STEP / 2, NODE_STEP)
        nodes = np.tile(steps, (self.n_outputs, 1))
        weight = self.pdf(nodes) * NODE_STEP
        ends = nodes[:, :1] - NODE_STEP / 2
        weight[:, :1] += self.cdf(ends)
        weight[:, -1:] += self.sf(-ends)
        return nodes, weight / weight.sum(axis=1, keepdims=True)

    def mirrored(self) -> Shape:
        """Return the shape of errors of the other sign."""
        return self._replace(mu=-self.mu)

    def _in_blocks(
        self, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        size = max(1, BLOCK // self.n_outputs)
        if values.shape[1] <= size:
            return function(values)
        return np.hstack([function(values[:, part]) for part in slices(values.shape[1], size)])

    def _logpdf(self, z: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # an error of 1e200 has the density 0
            square = np.square((z[:, None] - self.mu[..., None]) / self.sd[..., None])
        scale = np.log(_positive(self.weight) / self.sd)[..., None]
        return _logsumexp(scale - 0.5 * square) - HALF_LOG_2PI

    def _quantile(self, q: np.ndarray) -> np.ndarray:
        """Return quantiles by Newton's method for the logarithm of the share.

        It is the share above for q > 1/2, which keeps its digits: that of errors of the other sign.
        """
        sign = np.where(q > 0.5, -1.0, 1.0)
        share = np.where(q > 0.5, 1 - q, q)
        inside = share > 0
        share = np.where(inside, share, 0.5)
        mu, sd = self.mu[..., None] * sign[:, None], self.sd[..., None]
        log_weight = np.log(_positive(self.weight))[..., None]
        # A quantile of a mixture lies between those of its components.
        standard = ndtri(share)
        ends = mu + sd * standard[:, None]
        low, high = ends.min(axis=1), ends.max(axis=1)
        z, log_share = np.clip(standard, low, high), np.log(share)
        for _ in range(MAX_NEWTON_STEPS):
            u = (z[:, None] - mu) / sd
            log_cdf = _logsumexp(log_weight + log_ndtr(u))
            log_pdf = _logsumexp(log_weight - np.log(sd) - 0.5 * np.square(u)) - HALF_LOG_2PI
            above = log_cdf > log_share
            high, low = np.where(above, z, high), np.where(above, low, z)
            with np.errstate(over="ignore"):
                new = z - (log_cdf - log_share) * np.exp(log_cdf - log_pdf)
            new = np.where((new >= low) & (new <= high), new, (low + high) / 2)
            moved, z = np.abs(new - z), new
            if (moved <= 1e-14 * (1 + np.abs(z))).all():
                break
        # scipy's convention: no quantile for what is no probability.
        edges = np.where((q == 0) | (q == 1), -np.inf, np.nan)
        return sign * np.where(inside, z, edges)


def gaussian_shape(n_outputs: int) -> Shape:
    """Return the shape of Gaussian errors."""
    ones = np.ones((n_outputs, 1))
    return Shape(ones, np.zeros_like(ones), ones)


def mean_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the shape whose components have the mean weights of some shapes."""
    if all(shape.is_gaussian for shape in shapes):
        return shapes[0]
    prior = np.tile(_prior_components()[0], (shapes[0].n_outputs, 1))
    weights = [prior if shape.is_gaussian else shape.weight for shape in shapes]
    fits = [_with_weights(weight) for weight in np.mean(weights, axis=0)]
    return Shape(*(np.stack(field) for field in zip(*fits, strict=True)))


def error_histogram(z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum the weights of standardised errors z (n_outputs, rows) in bins: (n_outputs, bins).

    Histograms of different rows add up. NaN is an error that is not known. Errors beyond
    ``OUTLIER`` are left out.
    """
    known = np.abs(z) < OUTLIER  # False for NaN
    place = (np.arcsinh(np.where(known, z, 0)) + _EDGE) * (N_BINS / (2 * _EDGE))
    place = np.minimum(place.astype(int), N_BINS - 1)
    counts = [
        np.bincount(where[some], weight[some], N_BINS)
        for where, some in zip(place, known, strict=True)
    ]
    return np.stack(counts).astype(np.float64)


def fit_shape(histogram: np.ndarray, n_rows: np.ndarray) -> Shape:
    """Return the shape of the errors in a histogram (n_outputs, bins).

    ``n_rows`` (n_outputs,) is the number of rows that it is worth: with few, the shape is nearly
    that of a Gaussian. Mean and scale of the errors do not count: a prediction's mean and standard
    deviation stay what they are.
    """
    fits = [_fit_one(counts, n) for counts, n in zip(histogram, n_rows, strict=True)]
    return Shape(*(np.stack(field) for field in zip(*fits, strict=True)))


def _fit_one(counts: np.ndarray, n_rows: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, means and standard deviations of the components for one target."""
    prior, mu, sd = _prior_components()
    filled = counts > 0
    share, error = counts[filled], _MIDDLES[filled]
    weight = prior
    if len(share) > 1:
        share = share / share.sum()
        error = error - share @ error
        error /= np.sqrt(share @ np.square(error))
        density = np.exp(-0.5 * np.square((error[:, None] - mu) / sd)) / sd
        density += np.finfo(np.float64).tiny
        for _ in range(N_STEPS):
            expected = weight * ((share / (density @ weight)) @ density)
            weight = (n_rows * expected + PRIOR_ROWS * prior) / (n_rows + PRIOR_ROWS)
    return _with_weights(weight / weight.sum())


def _with_weights(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, means and deviations of the components, for a mean of 0 and a variance of 1.

    Components are shifted and scaled all together.
    """
    _, mu, sd = _prior_components()
    mu = mu - weight @ mu
    scale = np.sqrt(weight @ (np.square(sd) + np.square(mu)))
    return weight, mu / scale, sd / scale


def _prior_components() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mixture that is nearly a standard Gaussian: weights, means and deviations."""
    centres = SPACING * np.arange(-N_BESIDE, N_BESIDE + 1)
    narrow = np.exp(-0.5 * np.square(centres) / (1 - SPACING**2))
    narrow *= (1 - PRIOR_BROAD) / narrow.sum()
    weight = np.append(narrow, np.full(len(BROAD), PRIOR_BROAD / len(BROAD)))
    mu = np.append(centres, np.zeros(len(BROAD)))
    return weight, mu, np.append(np.full(len(centres), SPACING), BROAD)


def _positive(weight: np.ndarray) -> np.ndarray:
    return np.maximum(weight, np.finfo(np.float64).tiny)


def _logsumexp(values: np.ndarray) -> np.ndarray:
    """Return the logarithm of summed exponentials over the components, (n_outputs, K, rows)."""
    top = values.max(axis=1)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(values - top[:, None]).sum(axis=1))
