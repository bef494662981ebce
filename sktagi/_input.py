"""Rows as they are given: X, y, weights, errors of X; checks of everything beside parameters."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, check_random_state

from .engine.fast import are_finite, has_nan
from .engine.inputs import InputErrors

SKLEARN_KNOWS_POLARS = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 9)

SHOWN_ROWS = 5  # in an error
WEIGHT_RANGE = (1e-12, 1e12)  # of rows that are learned
LARGEST_SINGLE = 1e25  # target whose error in single precision may be a millionth of it
LARGEST = 1e150  # target whose square is a number
SMALLEST = 1e-150  # target whose square is a number, too
LEAST_IN_MEAN = 1e-150  # weight of a row in a mean, over the largest
FEW = 4096  # numbers, beyond which the checks of scikit-learn cost little beside learning them

__all__ = [
    "MatrixLike",
    "RandomState",
    "RawRows",
    "beyond_single",
    "bounded_weight",
    "check_X_cov",
    "check_X_std",
    "check_count",
    "check_coverage",
    "check_probabilities",
    "check_rng",
    "check_targets",
    "check_weight",
    "is_plain",
    "known_frame",
    "missing_targets",
    "refuse_huge_targets",
    "refuse_rows_without_targets",
    "refuse_tiny_targets",
    "refuse_too_large",
    "refuse_unknown",
    "scaled_weight",
    "score_weight",
    "unknown_places",
    "weight_scale",
]

# What users give: arrays, lists, frames and sparse matrices; seeds and generators.
MatrixLike: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray
RandomState: TypeAlias = int | np.random.RandomState | None


class RawRows(NamedTuple):
    """Validated input of fit or partial_fit."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray  # (n, n_targets): values, NaN if not observed; or (n,): class numbers
    weight: np.ndarray  # (n,)
    errors: InputErrors | None  # of X, in its units
    kept: np.ndarray | None = None  # (rows as they were given,): which of them; None: all
    n_validation: int = 0  # the last so many are given for validation: no member learns them

    def positive(self) -> RawRows:
        """Return the rows that have a weight: the others are as if they were not there."""
        return self.take(self.weight.astype(self.X.dtype) > 0)

    def take(self, chosen: np.ndarray) -> RawRows:
        """Return some of the rows."""
        if np.count_nonzero(chosen) == len(chosen):  # quicker than all
            return self
        kept = chosen
        if self.kept is not None:
            kept = self.kept.copy()
            kept[self.kept] = chosen
        errors = None if self.errors is None else self.errors.take(chosen)
        n_validation = int(np.count_nonzero(chosen[self.n_to_learn :]))
        return RawRows(
            self.X[chosen], self.y[chosen], self.weight[chosen], errors, kept, n_validation
        )

    @property
    def n_to_learn(self) -> int:
        """Number of rows without those given for validation."""
        return len(self.weight) - self.n_validation


def known_frame(X: Any) -> Any:
    """Return X as given, or a pandas frame of it where scikit-learn would not see its column names.

    Polars frames that have no interchange protocol are known to scikit-learn from 1.9 on.
    """
    is_polars = type(X).__module__.partition(".")[0] == "polars"
    if not is_polars or hasattr(X, "__dataframe__") or SKLEARN_KNOWS_POLARS:
        return X
    try:
        import pandas as pd
    except ImportError:
        return X
    return pd.DataFrame({name: X[name].to_numpy() for name in X.columns})


def is_plain(values: Any, n_columns: int | None) -> bool:
    """Tell whether scikit-learn's checks would only hand these few numbers back, and take long.

    So it is with a small matrix of ``n_columns``, or of targets (None), of finite numbers.
    """
    return (
        type(values) is np.ndarray
        and values.dtype.type in (np.float64, np.float32)
        and values.dtype.isnative
        and 0 < values.size <= FEW
        and values.ndim in ((1, 2) if n_columns is None else (2,))
        and n_columns in (None, values.shape[-1])
        and bool(np.isfinite(values).all())
    )


def check_targets(y: Any, name: str, weight: np.ndarray | None = None) -> np.ndarray:
    """Return targets as float64, of shape (n,) or (n, n_targets).

    NaN is allowed in some of several targets, where it means "not observed". Every row must have an
    observed target, unless its ``weight`` is zero.
    """
    values = check_array(
        y if np.ndim(y) else np.atleast_1d(y), ensure_2d=False, dtype=np.float64,
        ensure_all_finite="allow-nan", input_name=name,
    )  # fmt: skip
    if values.ndim == 1 or values.shape[1] == 1:
        assert_all_finite(values, input_name=name)
    else:
        refuse_rows_without_targets(values, name, weight)
    return values


def unknown_places(values: np.ndarray) -> np.ndarray:
    """Tell where an array of objects has None, or what stands for it in pandas (NA, NaT)."""
    found = [v is None or type(v).__name__ in ("NAType", "NaTType") for v in values.flat]
    return np.array(found, dtype=bool).reshape(values.shape)


def refuse_unknown(y: Any, what: str) -> None:
    """Refuse an object y that has None, or NaN, for some rows: NumPy may take it for a label."""
    if sparse.issparse(y):
        return
    values = np.asarray(y)
    if values.dtype.kind != "O" or (values.ndim > 1 and values.shape[-1] != 1):
        return
    is_nan = np.array([isinstance(v, float) and v != v for v in values.flat], dtype=bool)
    rows = np.flatnonzero(unknown_places(values).reshape(-1) | is_nan)
    if len(rows):
        raise ValueError(
            f"y has no value ({values.flat[rows[0]]}) in rows {_shown(rows)}: {what} must be "
            "known. Leave such rows out."
        )


def _shown(rows: np.ndarray) -> str:
    return ", ".join(map(str, rows[:SHOWN_ROWS])) + (", ..." if len(rows) > SHOWN_ROWS else "")


def beyond_single(y: np.ndarray) -> bool:
    """Tell whether targets are so large or small that predictions need double precision."""
    largest = np.abs(y[np.isfinite(y)]).max(initial=0)
    return bool(largest > LARGEST_SINGLE or 0 < largest < 1 / LARGEST_SINGLE)


def refuse_tiny_targets(y: np.ndarray) -> None:
    """Refuse targets that differ, and are all so small that their squares vanish."""
    known = y[~np.isnan(y)]
    if np.abs(known).max(initial=0) < SMALLEST and np.ptp(known, axis=None) > 0:
        raise ValueError(
            "y has values too small to standardise: their squares vanish. Rescale the data."
        )


def refuse_huge_targets(y: np.ndarray) -> None:
    """Refuse targets whose squares overflow, where no units make them smaller."""
    if np.abs(y[~np.isnan(y)]).max(initial=0) > LARGEST:
        raise ValueError("y has values too large to learn: their squares overflow. Rescale y.")


def refuse_too_large(*moments: np.ndarray) -> None:
    """Refuse rows whose predictions are beyond the numbers there are."""
    if not are_finite(*moments):
        raise ValueError(
            "X, X_std or the scale of y has values that are too large to predict: rescale them."
        )


def missing_targets(y: Any) -> np.ndarray | None:
    """Return a table of several targets as float64 if some are NaN; None otherwise."""
    if sparse.issparse(y):
        return None
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    if len(shape) != 2 or shape[1] < 2:
        return None
    given = np.asarray(y)
    if given.dtype.kind == "O":
        y = np.where(unknown_places(given), np.nan, given)
    values = check_array(y, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y")
    if values.dtype.kind not in "fiubO":
        return None  # refused elsewhere, with the reason
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        return None
    missing = np.isnan(values)
    if not missing.any():
        return None
    values[missing] = np.nan  # of one kind: its bits tell copies of a row
    return values


def refuse_rows_without_targets(y: np.ndarray, name: str, weight: np.ndarray | None = None) -> None:
    """Refuse rows of y (n, n_targets) that observe no target, unless they have no weight."""
    if not has_nan(y):
        return
    empty = np.isnan(y).all(axis=1)
    if weight is not None:
        empty &= weight > 0
    if empty.any():
        shown = _shown(np.flatnonzero(empty))
        raise ValueError(f"{name} has rows with no observed target (all NaN): rows {shown}.")


def check_weight(
    sample_weight: Any, n_rows: int, name: str = "sample_weight", *, may_vanish: bool = False
) -> np.ndarray:
    """Return weights of the rows as float64; None means ones."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = _as_floats(sample_weight, name)
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"{name}.shape == {weight.shape}, expected {(n_rows,)}: one number for each row."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(f"{name} must be finite and not negative.")
    if not may_vanish and not weight.any():
        raise ValueError(f"{name} must have a positive entry; all sample weights are zero.")
    return weight


def score_weight(sample_weight: Any, n_rows: int, name: str = "sample_weight") -> np.ndarray:
    """Return weights of rows in a mean, the largest one: their common size does not matter."""
    weight = check_weight(sample_weight, n_rows, name)
    relative = weight / weight.max()  # sums of large ones overflow, of small ones they vanish
    return np.where(weight > 0, np.maximum(relative, LEAST_IN_MEAN), 0)


def bounded_weight(weight: np.ndarray) -> np.ndarray:
    """Return weights to learn with, the positive ones in a range that single precision can square.

    Beyond it a row is known exactly, or not at all.
    """
    low, high = WEIGHT_RANGE
    return np.where(weight > 0, np.clip(weight, low, high), 0)


def weight_scale(smallest: float, mean: float) -> float:
    """Return what ``fit`` divides weights by, so that their common size does not matter.

    That is the smallest positive weight if it is above 1, the mean of the positive ones if it is
    below 1, and 1 otherwise: equal weights are ones, counts that begin with 1 stay as they are, and
    weights that add up to one are as if they were one on average.
    """
    return float(np.clip(1.0, smallest, max(smallest, mean)))


def scaled_weight(weight: np.ndarray) -> np.ndarray:
    """Return weights without their common size, in a range that can be learned with."""
    positive = weight[weight > 0]
    largest = positive.max()  # the sum of the weights may overflow, or lose their digits
    mean = largest * np.mean(positive / largest)
    return bounded_weight(weight / weight_scale(positive.min(), mean))


def check_X_std(X_std: Any, X: Any, names: Any = None) -> InputErrors | None:
    """Return the errors of inputs with these standard deviations; None if all are zero.

    Columns of a frame, or entries of a series for all rows, must have the ``names`` of the
    features, in their order.
    """
    if X_std is None:
        return None
    _check_names(getattr(X_std, "columns", None), names, "X_std")
    if np.ndim(X_std) == 1:
        _check_names(getattr(X_std, "index", None), names, "X_std")
    if sparse.issparse(X_std):
        X_std = X_std.tocsr().astype(np.float64)
        values = X_std.data
    else:
        X_std = values = _as_floats(X_std, "X_std")
    shape = X_std.shape
    accepted = f"a number or an array of shape {X.shape[1:]} or {X.shape}"
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"X_std must be finite and not negative: {accepted}.")
    try:
        fits = np.broadcast_shapes(shape, X.shape) == X.shape
    except ValueError:
        fits = False
    if sparse.issparse(X_std) and shape != X.shape:
        fits, accepted = False, f"of shape {X.shape} if it is sparse"
    if not fits:
        raise ValueError(f"X_std has shape {shape}, which does not fit X: it must be {accepted}.")
    if not values.any():
        return None
    with np.errstate(over="ignore"):  # refused later, with a clear error
        if sparse.issparse(X_std):
            return InputErrors(X_std.power(2))
        n_rows = shape[0] if len(shape) == 2 else 1
        return InputErrors(np.broadcast_to(np.square(X_std), (n_rows, X.shape[1])))


def check_X_cov(X_cov: Any, X: Any, names: Any = None) -> InputErrors | None:
    """Return the errors of inputs with these covariance matrices; None if all are zero.

    Rows and columns of a frame must have the ``names`` of the features, in their order.
    """
    if X_cov is None:
        return None
    for axis in ("index", "columns"):
        _check_names(getattr(X_cov, axis, None), names, "X_cov")
    X_cov = _as_floats(X_cov, "X_cov")
    n_rows, n_features = X.shape
    shapes = (n_features, n_features), (n_rows, n_features, n_features)
    if X_cov.shape not in shapes:
        raise ValueError(
            f"X_cov has shape {X_cov.shape}, which does not fit X: it must be {shapes[0]}, or "
            f"{shapes[1]} for a matrix of each row."
        )
    if not np.isfinite(X_cov).all():
        raise ValueError("X_cov must be finite.")
    matrices = X_cov.reshape(-1, n_features, n_features)
    size = np.einsum("rkk->rk", matrices)
    # A matrix is judged with variances of 1, so that the units of the features do not matter.
    scale = np.sqrt(np.maximum(size, 0))
    unit = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    correlation = matrices * unit[:, :, None] * unit[:, None, :]
    # What has no variance has no covariance either.
    lost = (matrices != 0) & ((scale[:, :, None] == 0) | (scale[:, None, :] == 0))
    lowest = np.linalg.eigvalsh(correlation).min(initial=0)
    if (size < 0).any() or lost.any() or lowest < -1e-6:
        raise ValueError("X_cov must be positive semi-definite: no variance may be negative.")
    if not np.allclose(correlation, correlation.swapaxes(-1, -2), rtol=0, atol=1e-6):
        raise ValueError("X_cov must be symmetric.")
    if not matrices.any():
        return None
    return InputErrors((matrices + matrices.swapaxes(-1, -2)) / 2)


def _check_names(given: Any, names: Iterable[str] | None, argument: str) -> None:
    """Refuse names other than those of the features; numbers are no names."""
    if names is None or given is None or callable(given):  # a list's index is a method
        return
    if any(isinstance(name, str) for name in given) and list(given) != list(names):
        raise ValueError(
            f"{argument} has names {list(given)}; they must be those of X, {list(names)}."
        )


def check_probabilities(values: ArrayLike, name: str) -> np.ndarray:
    """Return probabilities strictly between 0 and 1, as a one-dimensional array."""
    probabilities = np.atleast_1d(_as_floats(values, name))
    if probabilities.ndim != 1 or not ((probabilities > 0) & (probabilities < 1)).all():
        raise ValueError(f"{name} must lie between 0 and 1, both excluded; got {values!r}.")
    return probabilities


def check_coverage(coverage: Any) -> float:
    """Return the probability that an interval holds: one number strictly between 0 and 1."""
    if np.ndim(coverage) != 0:
        raise ValueError(f"coverage must be one number; got {coverage!r}.")
    return float(check_probabilities(coverage, "coverage")[0])


def check_count(value: Any, name: str) -> int:
    """Return a positive integer."""
    is_int = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not (is_int and value >= 1):
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}.")
    return int(value)


def check_rng(random_state: Any) -> np.random.RandomState:
    """Return a generator for a seed, a generator or None."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a "
            f"numpy.random.RandomState; got {random_state!r}."
        ) from None


def _as_floats(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}.") from None
