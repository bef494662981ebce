"""Rows and estimators of a case of the fuzz command."""

from __future__ import annotations

import datetime
import inspect
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import sktagi

from .cases import Case

__all__ = [
    "Rows",
    "as_container",
    "classes_of",
    "learned",
    "make_estimator",
    "make_rows",
    "spoil",
    "take",
]

LEVELS = np.array(["north", "east", "south", "west"], dtype=object)
N_TEST = 7


class Rows(NamedTuple):
    """Arguments of the methods; ``errors`` has X_std if inputs are uncertain."""

    X: Any
    y: Any
    weight: np.ndarray | None
    errors: dict[str, Any]

    def given(self, method: str) -> dict[str, Any]:
        """Return the arguments of fit or partial_fit."""
        return {"X": self.X, "y": self.y, "sample_weight": self.weight, **self.errors}

    def take(self, rows: Any) -> Rows:
        """Return some of the rows."""
        X_std = self.errors.get("X_std")
        errors = self.errors if np.ndim(X_std) < 2 else {"X_std": X_std[rows]}
        weight = None if self.weight is None else self.weight[rows]
        return Rows(take(self.X, rows), self.y[rows], weight, errors)


def take(X: Any, rows: Any) -> Any:
    """Return rows of any container, as one of its kind."""
    if isinstance(X, list):
        return [X[k] for k in np.arange(len(X))[rows]]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if type(X).__module__.startswith("polars"):
        return X[np.arange(len(X))[rows].tolist()]
    return X[rows]


def make_rows(case: Case) -> tuple[Rows, Rows]:
    """Make rows to learn, and others to predict."""
    rng = np.random.default_rng(case["seed"])
    n = case["rows"] + N_TEST
    numbers = rng.standard_normal((n, case["features"]))
    source = np.arange(n)
    if case["copies"]:
        source = rng.integers(max(2, n // 3), size=n)
        numbers = numbers[source]
    if case["constant"]:
        numbers[:, -1] = 1.5
    signal = np.sin(2 * numbers[:, 0]) + numbers @ rng.standard_normal(case["features"])
    y = _targets(case, signal[:, None] * [1, -2, 0.5] + 0.3 * rng.standard_normal((n, 3)), rng)
    if case["outliers"]:
        numbers[:: max(2, n // 2), 0] *= 1e6
    with np.errstate(over="ignore"):
        numbers = numbers * 10.0 ** case["x_scale"]
    if case["dtype"] == "int":
        numbers = np.round(np.clip(3 * numbers, -1e9, 1e9)).astype(int)
    elif case["dtype"] == "float32":
        numbers = np.clip(numbers, -1e37, 1e37).astype(np.float32)
    if case["container"] in ("csr", "csc"):
        numbers = numbers * (rng.random(numbers.shape) < 0.5).astype(numbers.dtype)
    if case["missing"]:
        numbers[rng.random(numbers.shape) < 0.2] = np.nan
    categories = LEVELS[rng.integers(len(LEVELS), size=(n, case["categories"]))]
    if case["missing"]:
        categories[rng.random(categories.shape) < 0.2] = None
    size = 0.3 * 10.0 ** case["x_scale"]
    width = case["features"] + case["categories"]
    X_std: Any = {
        "none": None, "number": size, "features": size * rng.uniform(0, 1, width),
        "rows": size * rng.uniform(0, 1, (n, width)),
    }[case["errors"]]  # fmt: skip
    if X_std is not None and np.ndim(X_std) and case["categories"]:
        X_std[..., case["features"] :] = 0
    if case["categories"] and case["errors"] == "number":
        X_std = None
    weight = _weights(case, n, rng)
    errors = {} if X_std is None else {"X_std": X_std}
    cut = case["rows"]
    parts = []
    for part in (slice(cut), slice(cut, None)):
        X = contained(numbers[part], categories[part], case["container"])
        of_part = {"X_std": X_std[part]} if np.ndim(X_std) == 2 else errors
        parts.append(Rows(X, y[part], None if weight is None else weight[part], of_part))
    return parts[0], parts[1]


def _targets(case: Case, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if "classes" in case:
        k = case["classes"]
        if case["labels"] == "several":
            return (values[:, : max(2, k - 1)] > 0).astype(int)
        ranks = np.argsort(np.argsort(values[:, 0]))
        numbers = ranks * k // len(ranks)
        numbers[: min(k, len(numbers))] = np.arange(min(k, len(numbers)))
        if case["labels"] == "booleans" and k == 2:
            return numbers > 0
        if case["labels"] == "text":
            return np.array([f"class {number}" for number in numbers], dtype=object)
        return numbers
    y = values[:, : case["targets"]]
    if case["params"].get("target_transform") == "log":
        y = np.exp(np.clip(y, -20, 20))
    if case["outliers"]:
        y[:: max(2, len(y) // 2)] *= 1e5
    if case["constant"]:
        y = np.where(rng.random() < 0.3, np.full_like(y, 2.5), y)
    y = y * 10.0 ** case["y_scale"]
    if case["missing targets"]:
        y[np.arange(len(y)), rng.integers(case["targets"], size=len(y))] = np.nan
        y[: case["targets"]] = np.nan_to_num(y[: case["targets"]], nan=10.0 ** case["y_scale"])
    return y[:, 0] if case["targets"] == 1 else y


def _weights(case: Case, n: int, rng: np.random.Generator) -> np.ndarray | None:
    kind = case["weights"]
    if kind == "none":
        return None
    weight = rng.uniform(0.2, 3, n)
    if kind == "some are zero":
        weight[1::3] = 0
    elif kind == "tiny":
        weight *= 1e-150
    elif kind == "huge":
        weight *= 1e150
    elif kind == "apart":
        weight = 10.0 ** rng.uniform(-40, 40, n)
    elif kind == "copies":
        weight = rng.integers(0, 4, n).astype(float)
        weight[: case.get("classes", 2)] = 1
    return weight


def contained(numbers: np.ndarray, categories: np.ndarray, container: str) -> Any:
    """Return numbers, and categories if there are, in a container."""
    if container in ("pandas", "polars"):
        columns: dict[str, Any] = {f"x{k}": column for k, column in enumerate(numbers.T)}
        if container == "polars":
            import polars as pl

            for k, column in enumerate(categories.T):
                levels = sorted({level for level in column if level is not None})
                columns[f"c{k}"] = pl.Series(column.tolist(), dtype=pl.Enum(levels))
            return pl.DataFrame(columns)
        import pandas as pd

        columns |= {f"c{k}": pd.Categorical(c.tolist()) for k, c in enumerate(categories.T)}
        return pd.DataFrame(columns)
    return as_container(numbers, container)


def as_container(numbers: np.ndarray, container: str) -> Any:
    """Return an array in another layout, or as a list, a sparse matrix or a frame of numbers."""
    if container == "columns first":
        return np.asfortranarray(numbers)
    if container == "strided":
        wide = np.full((2 * len(numbers), 2 * numbers.shape[1]), 7, dtype=numbers.dtype)
        wide[::2, 1::2] = numbers
        return wide[::2, 1::2]
    if container == "read-only":
        numbers = numbers.copy()
        numbers.flags.writeable = False
        return numbers
    if container == "list":
        return numbers.tolist()
    if container == "csr":
        return sparse.csr_array(numbers)
    if container == "csc":
        return sparse.csc_matrix(numbers)
    if container in ("pandas", "polars"):
        return contained(numbers, np.empty((len(numbers), 0), dtype=object), container)
    return numbers


def make_estimator(case: Case, **changes: Any) -> Any:
    return getattr(sktagi, case["estimator"])(**{**case["params"], **changes})


def classes_of(model: Any, y: Any) -> dict[str, Any]:
    """Return the argument that a classifier needs in its first partial_fit."""
    takes = "classes" in inspect.signature(model.partial_fit).parameters
    return {"classes": np.unique(y)} if takes and np.ndim(y) == 1 else {}


def learned(case: Case, model: Any, rows: Rows) -> Any:
    """Let an estimator learn rows, as the case says how."""
    how, n = case["learn"], len(rows.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if how == "fit":
            return model.fit(**rows.given("fit"))
        if how == "warm fit":
            model.set_params(warm_start=True).fit(**rows.given("fit"))
            return model.fit(**rows.given("fit"))
        start = 0
        if how == "fit and stream":
            start = max(n // 2, 4)
            model.fit(**rows.take(slice(start)).given("fit"))
        for stop in (start + 1, start + 1 + n // 4, n):
            part, some = rows.take(slice(start, stop)), start < min(stop, n)
            if some and (part.weight is None or part.weight.any()):
                model.partial_fit(**part.given("partial_fit"), **classes_of(model, rows.y))
            start = min(stop, n)
        return model


def spoil(rows: Rows, what: str, is_classifier: bool) -> dict[str, Any]:
    """Return arguments of fit or partial_fit that must be refused."""
    X = np.array(rows.X, dtype=float)
    given: dict[str, Any] = {"X": X, "y": rows.y, "sample_weight": rows.weight}
    n, d = X.shape
    floats = np.asarray(np.ones(len(rows.y)) if is_classifier else rows.y, dtype=float)
    changed: dict[str, dict[str, Any]] = {
        "y is too short": {"y": rows.y[:-1]},
        "X has one dimension": {"X": X[:, 0]},
        "X has infinity": {"X": np.where(np.arange(n)[:, None] == 1, np.inf, X)},
        "y has NaN": {"y": _with_value(floats, np.nan)},
        "y has infinity": {"y": _with_value(floats, np.inf)},
        "y is text": {"y": np.array(["no class"] * n, dtype=object)},
        "y is None": {"y": None},
        "a weight is negative": {"sample_weight": np.linspace(-1, 1, n)},
        "a weight is NaN": {"sample_weight": np.where(np.arange(n) == 1, np.nan, 1.0)},
        "weights are too many": {"sample_weight": np.ones(n + 1)},
        "all weights are zero": {"sample_weight": np.zeros(n)},
        "no rows": {"X": X[:0], "y": rows.y[:0], "sample_weight": None},
        "another column": {"X": np.hstack([X, X])},
        "X_std is negative": {"X_std": -1.0},
        "X_std is NaN": {"X_std": np.full(d, np.nan)},
        "X_std has another shape": {"X_std": np.ones((n, d + 1))},
        "X_cov and X_std": {"X_std": 1.0, "X_cov": np.eye(d)},
        "X_cov is no covariance": {"X_cov": -np.eye(d)},
        "X is complex": {"X": X + 1j},
        "X has dates": {"X": np.full(X.shape, datetime.datetime(2020, 1, 1), dtype=object)},
        "X is text": {"X": np.full(X.shape, "some words", dtype=object)},
        "y has another target": {"y": np.column_stack([rows.y, rows.y, rows.y, rows.y])},
        "X has three dimensions": {"X": X[:, :, None]},
    }
    return {**given, **changed[what]}


def _with_value(y: np.ndarray, value: float) -> np.ndarray:
    y = y.copy()
    y[min(1, len(y) - 1)] = value
    return y
