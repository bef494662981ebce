"""Increasing maps g = T(y) of targets: what ``target_transform`` names, and any transformer.

The network learns g, and its predictive distribution is one of g. That of y follows from the
inverse of the map and from its slope. Maps work on arrays whose last axis holds the targets; they
are cheap to make, and hold nothing that a fitted transformer does not.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import joblib
import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.stats import yeojohnson
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler
from sklearn.utils import get_tags

__all__ = [
    "Composed",
    "TargetMap",
    "as_map",
    "fingerprint",
    "fit_transformer",
    "is_stateless",
    "make_transformer",
    "map_of",
    "same_settings",
    "usable_range",
]

MIN_DISTINCT = 5  # values of a target, to fit a transformer to
LARGEST = 1e150  # its square is finite
ROUND_TRIP = 1e-6  # error of T(inverse(g)), beside g and the spread, with which g can be inverted
FAR = 2.0 ** np.arange(-10, 21)  # how far from the training targets g is tried, in spreads
ENDLESS = 1e4  # times a spread away, a range that goes on has no end
NEAR = 10.0  # spreads of g, within which its range has an end
REACH = 2.0  # spreads of y, to which it is then bounded
DIFFERENCE = 1e-4  # step of a slope, beside the scale


class TargetMap(Protocol):
    """An increasing map of targets, elementwise."""

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return T(y): minus or plus infinity below or above what can be mapped."""

    def inverse(self, g: np.ndarray) -> np.ndarray:
        """Return the y whose T(y) is nearest to g; finite if g is not NaN."""

    def log_slope(self, y: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        """Return log dT/dy where T(y) is finite.

        ``scale`` is a distance over which y varies; None is that of usual targets.
        """

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest y, (n_targets,) or one for all."""


class Log:
    """The logarithm of positive targets."""

    def forward(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.where(y > 0, y, np.where(np.isnan(y), np.nan, 0)))

    def inverse(self, g: np.ndarray) -> np.ndarray:
        bound = np.log(LARGEST)
        return np.exp(np.clip(g, -2 * bound, bound))

    def log_slope(self, y: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        return -self.forward(y)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(1), np.full(1, np.inf)


class Fitted:
    """What a fitted scikit-learn transformer does to each target.

    ``range_g`` (4, n_targets) holds the lowest g that the transformer can invert, the lowest and
    the highest that are usual, and the highest that it can invert.
    """

    def __init__(self, transformer: Any, range_g: np.ndarray):
        self.transformer = transformer
        self.range_g = range_g

    def forward(self, y: np.ndarray) -> np.ndarray:
        usual = self._call("inverse_transform", self.range_g[1])
        finite = np.isfinite(y)
        g = self._call("transform", np.where(finite, y, usual))
        # NaN is not in the domain of the map: it lies on the side where y is.
        g = np.where(np.isnan(g), np.where(y < usual, -np.inf, np.inf), g)
        return np.where(finite, g, y)

    def inverse(self, g: np.ndarray) -> np.ndarray:
        low, usual, _, high = self.range_g
        y = self._call("inverse_transform", np.clip(np.where(np.isnan(g), usual, g), low, high))
        return np.where(np.isnan(g), np.nan, np.clip(y, -LARGEST, LARGEST))

    def log_slope(self, y: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        size = np.where(np.isfinite(y), np.abs(y), 0)
        scale = self._spread() if scale is None else scale
        # Near zero the step follows y: many a map has its end there.
        step = DIFFERENCE * np.clip(100 * size, 1e-4 * scale, scale)
        below, above = y - step, y + step
        g_below, g, g_above = (self.forward(at) for at in (below, y, above))
        out = ~np.isfinite(g_below)  # of the domain
        below, g_below = np.where(out, y, below), np.where(out, g, g_below)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = (g_above - g_below) / (above - below)
            return np.log(np.where(slope > 0, slope, np.where(np.isnan(y), np.nan, 0)))

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        low, first, last, high = self._call("inverse_transform", self.range_g)
        far = ENDLESS * self._spread()
        gap_g = np.diff(self.range_g, axis=0) > ENDLESS * np.ptp(self.range_g[1:3], axis=0)
        return (
            np.where(gap_g[0] | (first - low > far), -np.inf, low),
            np.where(gap_g[2] | (high - last > far), np.inf, high),
        )

    def _spread(self) -> np.ndarray:
        """Return the distance between usual targets, (n_targets,)."""
        first, last = self._call("inverse_transform", self.range_g[1:3])
        return np.where(last > first, last - first, np.where(first == 0, 1, np.abs(first)))

    def _call(self, method: str, values: np.ndarray) -> np.ndarray:
        return apply(self.transformer, method, values, self.range_g.shape[1])


class Power(Fitted):
    """Yeo and Johnson's map of the standardised target, with powers that map onto all numbers."""

    def log_slope(self, y: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        scaler, power = self.transformer[0], self.transformer[1]
        u = (y - scaler.mean_) / scaler.scale_
        return np.sign(u) * (power.lambdas_ - 1) * np.log1p(np.abs(u)) - np.log(scaler.scale_)


class Composed:
    """The map ``inner`` of what ``outer`` makes of y."""

    def __init__(self, outer: TargetMap, inner: TargetMap):
        self.outer = outer
        self.inner = inner

    def forward(self, y: np.ndarray) -> np.ndarray:
        return self.inner.forward(self.outer.forward(y))

    def inverse(self, g: np.ndarray) -> np.ndarray:
        return self.outer.inverse(self.inner.inverse(g))

    def log_slope(self, y: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        outer, between = self.outer.log_slope(y, scale), None
        if scale is not None:
            with np.errstate(over="ignore"):
                between = np.minimum(np.exp(outer) * scale, LARGEST)
        return outer + self.inner.log_slope(self.outer.forward(y), between)

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.inner.support()
        bounds = self.outer.support()
        return (
            np.where(np.isfinite(low), self.outer.inverse(low), bounds[0]),
            np.where(np.isfinite(high), self.outer.inverse(high), bounds[1]),
        )


def make_transformer(target_transform: Any) -> Any:
    """Return a new transformer, not fitted, for a value of ``target_transform``."""
    if isinstance(target_transform, str):
        if target_transform == "log":
            return FunctionTransformer(np.log, np.exp, check_inverse=False)
        return make_pipeline(StandardScaler(), PowerTransformer(standardize=False))
    return clone(target_transform)


def map_of(transformer: Any, range_g: np.ndarray | None) -> TargetMap:
    """Return the map of a fitted transformer; ``range_g`` as `usable_range` gives it."""
    if _is_log(transformer):
        return Log()
    if range_g is None:  # in a state that was written by another than the estimator
        raise ValueError(f"the range of the targets for {transformer!r} is missing")
    if _is_power(transformer):
        return Power(transformer, range_g)
    return Fitted(transformer, range_g)


def as_map(transform: Any, usual: np.ndarray) -> TargetMap:
    """Return the map that users give to a distribution with usual values g (n, n_targets)."""
    if isinstance(transform, str) and transform == "log":
        return Log()
    if all(hasattr(transform, name) for name in ("forward", "inverse", "log_slope", "support")):
        return transform
    if not all(hasattr(transform, name) for name in ("transform", "inverse_transform")):
        raise ValueError(
            "transform must be None, 'log' or a fitted transformer with transform and "
            f"inverse_transform; got {transform!r}."
        )
    range_g = None
    if not _is_log(transform):
        range_g = usable_range(transform, usual)
        y = apply(transform, "inverse_transform", range_g, usual.shape[1])
        if (np.diff(y, axis=0) < 0).any():
            raise ValueError(
                f"The transformer of the targets must increase with y; {transform!r} does not. If "
                "it decreases, take its negative."
            )
    return map_of(transform, range_g)


def apply(transformer: Any, method: str, values: np.ndarray, n_targets: int) -> np.ndarray:
    """Return what a transformer makes of values (..., n_targets), as float64."""
    shape = np.broadcast_shapes(values.shape, (n_targets,))
    rows = np.broadcast_to(values, shape).reshape(-1, n_targets)
    with np.errstate(all="ignore"):  # what is not finite is dealt with
        found = getattr(transformer, method)(rows)
    if np.shape(found) != rows.shape or sparse.issparse(found):
        raise ValueError(
            f"target_transform must keep the number of targets, {n_targets}: {method} of "
            f"{transformer!r} makes an array of shape {np.shape(found)} of one of {rows.shape}."
        )
    found = np.asarray(found, dtype=np.float64)
    return found.reshape(shape)


# Fitting, and what can be fitted


def fit_transformer(
    target_transform: Any, y: np.ndarray, weight: np.ndarray
) -> tuple[Any, np.ndarray | None]:
    """Fit to targets (n, n_targets), NaN if not observed; return it and the range of its map.

    Only "power" uses the weights (n,) of the rows: hardly any transformer takes them.
    """
    transformer = make_transformer(target_transform)
    if not is_stateless(transformer):
        for column in y.T:
            found = len(np.unique(column[~np.isnan(column)]))
            if found < MIN_DISTINCT:
                raise ValueError(
                    f"target_transform={target_transform!r} needs {MIN_DISTINCT} distinct values "
                    f"of each target in y to be fitted; got {found}."
                )
    if _is_power(transformer) and not np.isfinite(np.nanvar(y, axis=0)).all():
        raise ValueError(
            f"y has values that are too large for target_transform={target_transform!r}: rescale "
            "them."
        )
    transformer.fit(y)
    if _is_log(transformer):
        return transformer, None
    if _is_power(transformer):
        if np.ptp(weight) > 0:
            _fit_power(transformer, y, weight)
        # Powers from 0 to 2 map all numbers onto all numbers: every prediction has an inverse.
        transformer[1].lambdas_ = np.clip(transformer[1].lambdas_, 0, 2)
        end = LARGEST * transformer[0].scale_
        whole = np.stack([-end, np.nanmin(y, axis=0), np.nanmax(y, axis=0), end])
        return transformer, apply(transformer, "transform", whole, y.shape[1])
    filled = np.where(np.isnan(y), np.nan_to_num(np.nanmedian(y, axis=0)), y)
    g = apply(transformer, "transform", filled, y.shape[1])
    _check_increasing(transformer, filled, g)
    mapped = np.isfinite(g).all(axis=1)  # others are refused later, with the reason
    return transformer, usable_range(transformer, g[mapped] if mapped.any() else g)


def _fit_power(transformer: Any, y: np.ndarray, weight: np.ndarray) -> None:
    """Fit the map of `Power` to weighted targets: a weight of two is the target twice."""
    scaled = transformer[0].fit(y, sample_weight=weight).transform(y)
    known = ~np.isnan(scaled)
    transformer[1].lambdas_ = np.array(
        [_best_power(x[k], weight[k]) for x, k in zip(scaled.T, known.T, strict=True)]
    )


def _best_power(x: np.ndarray, weight: np.ndarray) -> float:
    """Return the power from 0 to 2 that makes weighted targets (n,) most Gaussian."""
    stretch = np.average(np.sign(x) * np.log1p(np.abs(x)), weights=weight)

    def cost(power: float) -> float:
        g = yeojohnson(x, power)
        var = np.average(np.square(g - np.average(g, weights=weight)), weights=weight)
        with np.errstate(divide="ignore"):  # one target has nearly all the weight
            return float(0.5 * np.log(var) - power * stretch)

    found = minimize_scalar(cost, bounds=(0, 2), method="bounded", options={"xatol": 1e-9})
    return min((1.0, found.x, 0.0, 2.0), key=cost)


def _check_increasing(transformer: Any, y: np.ndarray, g: np.ndarray) -> None:
    """Refuse what is not an increasing, invertible map of each target alone."""
    if not np.isfinite(g).all():
        return  # refused where the targets are mapped, with the reason
    n_targets = y.shape[1]
    rolled = [np.column_stack([np.roll(a, k) for k, a in enumerate(b.T)]) for b in (y, g)]
    spread = np.ptp(g, axis=0)
    if not (np.abs(apply(transformer, "transform", rolled[0], n_targets) - rolled[1])
            <= ROUND_TRIP * (spread + np.abs(rolled[1]))).all():  # fmt: skip
        raise ValueError(
            f"target_transform must map each target alone; {transformer!r} maps rows of y."
        )
    for old, new in zip(y.T, g.T, strict=True):
        steps = np.diff(new[np.argsort(old, kind="stable")])
        if (steps < 0).any():
            kind = "decreases" if (steps <= 0).all() else "is not monotone"
            raise ValueError(
                f"target_transform must increase with y; {transformer!r} {kind}. If it decreases, "
                "take its negative."
            )
    error = np.abs(apply(transformer, "inverse_transform", g, n_targets) - y)
    if not (np.mean(error <= 1e-3 * np.ptp(y, axis=0) + 1e-9 * np.abs(y), axis=0) > 0.99).all():
        raise ValueError(
            f"target_transform must be invertible; inverse_transform of {transformer!r} does not "
            "give the targets back."
        )


def _transformed(transformer: Any, y: np.ndarray) -> np.ndarray:
    """Return transformed targets; NaN in rows that the transformer refuses."""
    try:
        return apply(transformer, "transform", y, y.shape[1])
    except ValueError:
        if len(y) == 1:
            return np.full(y.shape, np.nan)
        return np.concatenate([_transformed(transformer, half) for half in np.array_split(y, 2)])


def usable_range(transformer: Any, g: np.ndarray) -> np.ndarray:
    """Return the range of g (4, n_targets) that `Fitted` needs, with usual values (n, n_targets).

    What can be inverted is searched for outside of these values.
    """
    spread = np.ptp(g, axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.abs(g[0]), 1))

    def is_usable(g: np.ndarray) -> np.ndarray:
        y = apply(transformer, "inverse_transform", g, g.shape[1])
        finite = np.isfinite(y)
        with np.errstate(invalid="ignore"):
            back = _transformed(transformer, np.where(finite, y, 0))
            return finite & (np.abs(back - g) <= ROUND_TRIP * (spread + np.abs(g)))

    with warnings.catch_warnings():  # some transformers warn of what is looked for here
        warnings.simplefilter("ignore")
        usable = is_usable(g)
        if not usable.any(axis=0).all():
            raise ValueError(
                f"The transformer of the targets must be invertible; {transformer!r} cannot invert "
                "those that are learned or predicted."
            )
        first = np.where(usable, g, np.inf).min(axis=0)
        last = np.where(usable, g, -np.inf).max(axis=0)
        low, high = _last_usable(is_usable, first, -spread), _last_usable(is_usable, last, spread)
    low, high = _bounded(transformer, np.stack([low, first, last, high]), spread)
    return np.stack([low, first, last, high])


def _bounded(transformer: Any, range_g: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the ends of a range of g, nearer to the usual values where y would explode.

    Where g has an end that is near, y may grow to infinity before it: a small probability of g
    would then decide on the mean of y.
    """
    n_targets = range_g.shape[1]
    low, first, last, high = range_g
    y = apply(transformer, "inverse_transform", range_g, n_targets)
    reach = REACH * np.where(y[2] > y[1], y[2] - y[1], np.abs(y[1]))
    inner = _transformed(transformer, np.stack([y[1] - reach, y[2] + reach]))
    explodes = np.stack([
        (first - low < NEAR * spread) & (y[1] - y[0] > reach),
        (high - last < NEAR * spread) & (y[3] - y[2] > reach),
    ])  # fmt: skip
    return np.where(explodes & np.isfinite(inner), inner, range_g[[0, 3]])


def _last_usable(is_usable: Any, start: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the last g that is usable beyond ``start`` (n_targets,), or one that is far away."""
    steps = np.append(0, FAR)[:, None] * spread
    for _ in range(5):  # each but the first divides the interval by a hundred
        unusable = ~is_usable(start + steps)
        unusable[0] = False
        last = np.where(unusable.any(axis=0), unusable.argmax(axis=0), len(steps)) - 1
        first = np.minimum(last + 1, len(steps) - 1)
        before, after = (np.take_along_axis(steps, k[None], axis=0)[0] for k in (last, first))
        start, steps = start + before, np.linspace(0, 1, 101)[:, None] * (after - before)
    return start


def is_stateless(transformer: Any) -> bool:
    """Tell whether fitting a transformer to rows does nothing."""
    return isinstance(transformer, BaseEstimator) and not get_tags(transformer).requires_fit


def same_settings(first: Any, second: Any) -> bool:
    """Tell whether two transformers, fitted or not, are of one kind with equal parameters."""
    if type(first) is not type(second):
        return False
    mine, theirs = first.get_params(), second.get_params()
    return mine.keys() == theirs.keys() and all(_equal(mine[k], theirs[k]) for k in mine)


def _equal(first: Any, second: Any) -> bool:
    if first is second or hasattr(first, "get_params"):  # whose parameters are listed, too
        return type(first) is type(second)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(np.array_equal(first, second))


def fingerprint(transformer: Any) -> str | None:
    """Return a text that is equal for transformers that are fitted alike; None for none."""
    if transformer is None:
        return None
    try:
        return f"{transformer!r}, fitted: {joblib.hash(transformer)}"
    except Exception:  # functions that cannot be pickled
        return repr(transformer)


def _is_log(transformer: Any) -> bool:
    return (
        isinstance(transformer, FunctionTransformer)
        and transformer.func is np.log
        and transformer.inverse_func is np.exp
    )


def _is_power(transformer: Any) -> bool:
    return (
        isinstance(transformer, Pipeline)
        and [type(step) for _, step in transformer.steps] == [StandardScaler, PowerTransformer]
        and not transformer[1].standardize
        and transformer[1].method == "yeo-johnson"
        and transformer[0].with_mean
        and transformer[0].with_std
    )
