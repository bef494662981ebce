"""What the Display classes share: axes, one target of several, the horizontal axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from .._predictions import fitted_part
from ..metrics._scores import check_predictions

__all__ = [
    "Axis",
    "column",
    "draw_on",
    "feature_axis",
    "few_points",
    "last_step",
    "name_of",
    "one_target",
    "position",
]

GRID_ROWS = 200  # points of a curve over one feature
FEW_POINTS = 3  # of a curve: with markers, since a line through one point is nothing


def draw_on(ax):
    """The axes given, or those of a new figure, and their figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('sktagi.plotting needs matplotlib: pip install "sktagi[plot]"') from error
    if ax is None:
        figure, ax = plt.subplots(layout="constrained")
        return figure, ax
    return ax.figure, ax


def last_step(estimator):
    """The estimator at the end of a pipeline or of a search."""
    estimator = fitted_part(estimator)
    return last_step(estimator[-1]) if hasattr(estimator, "named_steps") else estimator


def column(values, name: str, target: int = 0) -> np.ndarray:
    """One target of values (n,) or (n, n_targets), finite, as float64."""
    values = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if values.ndim == 1:
        values = values[:, None]
    n_targets = values.shape[1]
    if not isinstance(target, (int, np.integer)) or not 0 <= target < n_targets:
        raise ValueError(
            f"target must be the number of a target, from 0 to {n_targets - 1}; got {target!r}."
        )
    return values[:, target]


def one_target(y_true, mean, std, target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One target of predictions and what was observed; they must fit each other."""
    given = (("y_true", y_true), ("mean", mean), ("std", std))
    y, mean, std = (column(values, name, target) for name, values in given)
    y, mean, std, _ = check_predictions(y, mean, std)
    return y[:, 0], mean[:, 0], std[:, 0]


def position(x, rows: np.ndarray) -> np.ndarray:
    """Where ``rows`` lie on the horizontal axis: one value for each of them."""
    x = column(x, "x")
    if len(x) != len(rows):
        raise ValueError(f"x must have a value for each of the {len(rows)} rows; got {len(x)}.")
    return x


def few_points(x) -> dict[str, Any]:
    """Style of a curve that would be hard to see, or not seen at all, without markers."""
    return {"marker": "o", "markersize": 5} if len(x) <= FEW_POINTS else {}


def name_of(y, target: int = 0, default: str = "target") -> str:
    """What a frame or a series calls a target."""
    columns = getattr(y, "columns", None)
    name = getattr(y, "name", None) if columns is None else list(columns)[target]
    return default if name is None or name == "" else str(name)


class Axis(NamedTuple):
    """The rows to predict, and how they lie along the horizontal axis."""

    X: Any
    x: np.ndarray | None  # None: in the order of what is predicted
    label: str | None


def feature_axis(X) -> Axis:
    """Points between the smallest and the largest value if X has one feature; else its rows.

    A curve through the rows alone would be straight across gaps, where the interval is widest.
    """
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] != 1:
        return Axis(X, None, None)
    values = column(X, "X")
    low, high = values.min(), values.max()
    x = np.linspace(low, high, GRID_ROWS if low < high else 1)
    columns = getattr(X, "columns", None)
    if columns is None:
        return Axis(x[:, None], x, "feature")
    (name,) = columns
    return Axis(type(X)({name: x}), x, str(name))
