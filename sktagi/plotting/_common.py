"""Helpers of the Display classes: axes, one target of several, the horizontal axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .._any_estimator import last_step
from ..metrics._predictions import Distribution, Predictions, is_distribution, predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Axis",
    "Predicted",
    "check_index",
    "column",
    "draw_on",
    "feature_axis",
    "few_points",
    "last_step",
    "name_of",
    "observed_rows",
    "one_target",
    "position",
]

GRID_ROWS = 200  # points of a curve along one feature
FEW_POINTS = 3  # a curve of so few points gets markers: a line through one point is invisible


def draw_on(ax: Axes | None) -> tuple[Figure, Axes]:
    """Return the figure and the axes to plot on; make new ones if ``ax`` is None."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('sktagi.plotting needs matplotlib: pip install "sktagi[plot]"') from error
    if ax is None:
        return plt.subplots(layout="constrained")
    return ax.figure.figure, ax  # axes of a subfigure: the figure that can be saved


def check_index(index: int, name: str, n: int) -> int:
    """Return an index of one of n things; refuse anything else."""
    if not isinstance(index, (int, np.integer)) or not 0 <= index < n:
        raise ValueError(f"{name} must be an integer from 0 to {n - 1}; got {index!r}.")
    return int(index)


def column(values: ArrayLike, name: str, target: int = 0) -> np.ndarray:
    """Return one target of values of shape (n,) or (n, n_targets), finite, as float64."""
    array = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    matrix = array.reshape(len(array), -1)
    return matrix[:, check_index(target, "target", matrix.shape[1])]


def one_target(
    y_true: ArrayLike | None,
    mean: ArrayLike | Distribution | None,
    std: ArrayLike | None,
    dist: Distribution | None,
    target: int,
) -> Predicted:
    """Return the predictions of one target; without targets, the means are in their place."""
    if y_true is None:
        source = mean if dist is None else dist
        y_true = source.mean() if is_distribution(source) else np.asarray(source)
    given = predictions(y_true, mean, std, dist)
    return Predicted(given, check_index(target, "target", given.y.shape[1]))


class Predicted(NamedTuple):
    """Predictions of several targets, and which of them to plot; arrays are (n,)."""

    given: Predictions
    target: int

    @property
    def y(self) -> np.ndarray:
        """Targets, NaN where they were not observed."""
        return self.given.y[:, self.target]

    @property
    def mean(self) -> np.ndarray:
        """Predictive means."""
        return self.given.give("mean")[:, self.target]

    @property
    def std(self) -> np.ndarray:
        """Predictive standard deviations."""
        return self.given.give("std")[:, self.target]

    @property
    def pit(self) -> np.ndarray:
        """Cumulative probabilities of the targets."""
        return self.given.at_targets("cdf")[:, self.target]

    def interval(self, coverage: float) -> np.ndarray:
        """Return the ends of central intervals, (n, 2)."""
        return np.stack([end[:, self.target] for end in self.given.interval(coverage)], axis=-1)

    @property
    def rows(self) -> np.ndarray:
        """Rows in which the target was observed, as booleans; there is at least one."""
        return observed_rows(self.y, self.target)


def observed_rows(y: np.ndarray, target: int) -> np.ndarray:
    """Return in which rows this target was observed, as booleans; at least one must be."""
    rows = ~np.isnan(y)
    if not rows.any():
        raise ValueError(f"Target {target} was not observed in any row: all its values are NaN.")
    return rows


def position(x: ArrayLike, rows: np.ndarray) -> np.ndarray:
    """Return where ``rows`` lie on the horizontal axis: one value for each of them."""
    x = column(x, "x")
    if len(x) != len(rows):
        raise ValueError(f"x must have a value for each of the {len(rows)} rows; got {len(x)}.")
    return x


def few_points(x: np.ndarray) -> dict[str, Any]:
    """Return markers for a curve that is hard to see, or invisible, without them."""
    return {"marker": "o", "markersize": 5} if len(x) <= FEW_POINTS else {}


def name_of(y: Any, target: int = 0, default: str = "target") -> str:
    """Return the name of a target in a frame or a series."""
    columns = getattr(y, "columns", None)
    name = getattr(y, "name", None) if columns is None else list(columns)[target]
    return default if name is None or name == "" else str(name)


class Axis(NamedTuple):
    """The rows to predict, and how they lie along the horizontal axis."""

    X: Any
    x: np.ndarray | None  # None: ordered by what is predicted
    label: str


def feature_axis(X: Any) -> Axis:
    """Return a grid over the range of the feature if X has only one; otherwise the rows of X.

    A curve through the rows alone would be straight across gaps, where the interval is widest.
    """
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] != 1:
        return Axis(X, None, "")
    values = column(X, "X")
    low, high = values.min(), values.max()
    x = np.linspace(low, high, GRID_ROWS if low < high else 1)
    columns = getattr(X, "columns", None)
    if columns is None:
        return Axis(x[:, None], x, "feature")
    (name,) = columns
    return Axis(type(X)({name: x}), x, str(name))
