"""CoverageByGroupDisplay: coverage of intervals within groups of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.stats import binom
from sklearn.base import BaseEstimator

from .._any_estimator import predict_dist
from .._input import check_count, check_coverage
from ..metrics._intervals import ends_of
from ._common import check_index, draw_on, last_step, name_of, observed_rows, one_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

    from .._input import MatrixLike
    from ..metrics._predictions import Distribution

__all__ = ["CoverageByGroupDisplay"]

CHANCE = 0.95  # share of results of a calibrated model within the range that is drawn
SHIFTS = [0, 0.16, -0.16, 0.3, -0.3]
MARKERS = ["o", "s", "^", "D"]  # models on the same axes differ in more than their colour


class CoverageByGroupDisplay:
    """Coverage of central intervals within groups of rows.

    Intervals that cover 90 % of all targets may cover 99 % of the small ones and 70 % of the large
    ones. The rows are grouped by their predicted value, or by any other value, such as a feature:
    a number is cut into groups of about the same size, and other values are groups themselves.
    Grey bars show what would happen by chance: the coverage of a calibrated model lies in them for
    95 % of all groups. They are longer for groups of few rows.

    Several models may share axes. Give them the same ``by``, such as a feature: each has predicted
    values of its own.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    observed : ndarray of shape (n_groups,)
        Share of targets inside their interval, for each group.

    n_rows : ndarray of shape (n_groups,)
        Number of rows in each group; with weights, the number of equal weights that are worth as
        much.

    labels : list of str
        Names of the groups.

    coverage : float, default=0.9
        Nominal coverage of the intervals.

    name : str, default=None
        Name of the model in the legend.

    x_name : str, default="group"
        Label of the horizontal axis.

    Attributes
    ----------
    points_ : matplotlib Line2D
        Observed coverage of the groups.

    nominal_ : matplotlib Line2D or None
        The line of the nominal coverage; None if the axes had one already.

    chance_ : matplotlib BarContainer or None
        What a calibrated model may get by chance; None if the axes had it already.

    ax_ : matplotlib Axes
        Axes with the points.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.plotting import CoverageByGroupDisplay
    >>> rng = np.random.default_rng(0)

    The noise grows with the mean, but the predicted standard deviation does not:

    >>> mean = rng.uniform(1, 9, size=1000)
    >>> y = mean + mean * rng.normal(size=1000)
    >>> display = CoverageByGroupDisplay.from_predictions(y, mean, np.full(1000, 5.0))
    >>> display.observed.round(2)
    array([1.  , 0.97, 0.84, 0.76, 0.74])
    """

    def __init__(
        self,
        observed: np.ndarray,
        n_rows: np.ndarray,
        labels: list[str],
        *,
        coverage: float = 0.9,
        name: str | None = None,
        x_name: str = "group",
    ) -> None:
        self.observed = observed
        self.n_rows = n_rows
        self.labels = labels
        self.coverage = coverage
        self.name = name
        self.x_name = x_name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        by: ArrayLike | int | str | None = None,
        n_groups: int = 5,
        coverage: float = 0.9,
        target: int = 0,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the coverage of a fitted estimator's intervals.

        Parameters
        ----------
        estimator : estimator instance
            A fitted regressor whose ``predict`` takes ``return_std``, or a pipeline of one. Those
            of sktagi are shown by their own predictive distribution, others by a Gaussian.

        X : array-like of shape (n_samples, n_features)
            Rows that the estimator has not been fitted to.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets of these rows. Rows in which the chosen one of several targets is NaN (not
            observed) are left out.

        by : int, str or array-like of shape (n_samples,), default=None
            What makes the groups: the index or the name of a column of X, or one value for each
            row. By default it is the predicted mean.

        n_groups : int, default=5
            Number of groups that numbers are cut into. If there are no more different values than
            this, or if they are no numbers, each value is a group.

        coverage : float, default=0.9
            Nominal coverage: the probability that an interval should contain the target.

        target : int, default=0
            Index of the target to plot, if there are several.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        name : str, default=None
            Name in the legend; by default that of the estimator's class.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the points.

        Returns
        -------
        display : CoverageByGroupDisplay
            The display, plotted.
        """
        x_name = None
        if by is not None and np.ndim(by) == 0:
            by, x_name = _column_of(X, by)
        return cls._from_predictions(
            y, None, None, predict_dist(estimator, X), None, None, by, n_groups, coverage, target,
            sample_weight, type(last_step(estimator)).__name__ if name is None else name, x_name,
        ).plot(ax, **kwargs)  # fmt: skip

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        mean: ArrayLike | Distribution | None = None,
        std: ArrayLike | None = None,
        *,
        dist: Distribution | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        by: ArrayLike | None = None,
        n_groups: int = 5,
        coverage: float = 0.9,
        target: int = 0,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the coverage of predicted intervals.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. Rows in which the chosen one of several targets is NaN (not observed) are left
            out.

        mean, std : array-like, same shape, default=None
            Predictive means and standard deviations.

        dist : distribution, default=None
            Predictive distributions in the place of ``mean`` and ``std``, as one object with the
            methods of SciPy's frozen distributions.

        lower, upper : array-like, same shape, default=None
            Ends of intervals of this ``coverage`` in the place of ``mean`` and ``std``.

        by : array-like of shape (n_samples,), default=None
            What makes the groups: one value for each row. By default it is the predicted mean, or
            the middle of the interval.

        n_groups : int, default=5
            Number of groups that numbers are cut into. If there are no more different values than
            this, or if they are no numbers, each value is a group.

        coverage : float, default=0.9
            Nominal coverage: the probability that an interval should contain the target.

        target : int, default=0
            Index of the target to plot, if there are several.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        name : str, default=None
            Name in the legend.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the points.

        Returns
        -------
        display : CoverageByGroupDisplay
            The display, plotted.
        """
        return cls._from_predictions(
            y_true, mean, std, dist, lower, upper, by, n_groups, coverage, target, sample_weight,
            name, None,
        ).plot(ax, **kwargs)  # fmt: skip

    @classmethod
    def _from_predictions(
        cls,
        y_true: ArrayLike,
        mean: ArrayLike | Distribution | None,
        std: ArrayLike | None,
        dist: Distribution | None,
        lower: ArrayLike | None,
        upper: ArrayLike | None,
        by: ArrayLike | None,
        n_groups: int,
        coverage: float,
        target: int,
        sample_weight: ArrayLike | None,
        name: str | None,
        x_name: str | None,
    ) -> Self:
        """Create a display: find out which targets are inside, and count them by group."""
        ends = ends_of(y_true, mean, std, dist, lower, upper, coverage, sample_weight)
        k = check_index(target, "target", ends.y.shape[1])
        y, low, high = ends.y[:, k], ends.lower[:, k], ends.upper[:, k]
        if by is not None:
            values, x_name = _one_dimensional(by, len(y)), x_name or name_of(by, default="group")
        elif lower is None:
            values = one_target(y_true, mean, std, dist, target).mean
            x_name = f"predicted {name_of(y_true, target)}"
        else:
            values, x_name = (low + high) / 2, f"predicted {name_of(y_true, target)}"
        rows = observed_rows(y, target) & (ends.weight > 0)
        inside = ((low <= y) & (y <= high))[rows]
        group, labels = _grouped(values[rows], check_count(n_groups, "n_groups"))
        total, squares, hits = (
            np.bincount(group, weights=weight)
            for weight in (ends.weight[rows], ends.weight[rows] ** 2, ends.weight[rows] * inside)
        )
        return cls(
            hits / total, np.square(total) / squares, labels, coverage=coverage, name=name,
            x_name=x_name,
        )  # fmt: skip

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the coverage of the groups.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the points.

        Returns
        -------
        display : CoverageByGroupDisplay
            The display itself.
        """
        coverage = check_coverage(self.coverage)
        self.figure_, self.ax_ = draw_on(ax)
        x = np.arange(len(self.labels))
        low, high = self._range_of_chance(coverage)
        nominal = f"nominal: {100 * coverage:g} %"
        models = [line for line in self.ax_.lines if line.get_label() != nominal]
        self.nominal_: Line2D | None = None
        self.chance_: BarContainer | None = None
        bottom = min(low.min(), self.observed.min()) - 0.03
        if len(models) == len(self.ax_.lines):
            self.nominal_ = self.ax_.axhline(
                coverage, color="0.3", linestyle="--", linewidth=1, label=nominal, zorder=1
            )
            self.chance_ = self.ax_.bar(
                x, high - low, bottom=low, width=0.7, color="0.85", zorder=0,
                label=f"range of chance ({100 * CHANCE:g} %)",
            )  # fmt: skip
        else:
            bottom = min(bottom, self.ax_.get_ylim()[0])
        style = {
            "linestyle": "none", "marker": MARKERS[len(models) % len(MARKERS)], "markersize": 7,
            "color": f"C{len(models)}", "label": self.name or "observed", "zorder": 3,
        }  # fmt: skip
        beside = SHIFTS[
            len(models) % len(SHIFTS)
        ]  # points of several models do not hide each other
        (self.points_,) = self.ax_.plot(x + beside, self.observed, **{**style, **kwargs})
        ticks = [
            f"{label}\n{n:.0f} rows" for label, n in zip(self.labels, self.n_rows, strict=True)
        ]
        self.ax_.set_xticks(x, ticks, fontsize="small")
        self.ax_.set(
            xlabel=self.x_name, ylabel="share of targets inside", xlim=(-0.6, x[-1] + 0.6),
            ylim=(max(bottom, -0.03), 1.03),
        )  # fmt: skip
        self.ax_.yaxis.set_major_formatter(
            lambda share, _: f"{100 * share:g} %" if share < 1.001 else ""
        )
        self._draw_legend(nominal)
        return self

    def _draw_legend(self, nominal: str) -> None:
        """Draw the legend: what is expected in one column, the models in the other.

        It is above the axes: anywhere inside, it would hide the points of some model.
        """
        handles, labels = self.ax_.get_legend_handles_labels()
        expected = [k for k, label in enumerate(labels) if label.startswith((nominal, "range of"))]
        order = [*expected, *(k for k in range(len(labels)) if k not in expected)]
        self.ax_.legend(
            [handles[k] for k in order], [labels[k] for k in order], loc="lower left",
            bbox_to_anchor=(0, 1), frameon=False, fontsize="small", ncols=2, borderaxespad=0.2,
        )  # fmt: skip

    def _range_of_chance(self, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the central range of the coverage of calibrated models, for each group."""
        n = np.maximum(np.round(self.n_rows), 1)
        tail = (1 - CHANCE) / 2
        return binom.ppf(tail, n, coverage) / n, binom.ppf(1 - tail, n, coverage) / n


def _column_of(X: Any, by: Any) -> tuple[np.ndarray, str]:
    """Return a column of X by its index or its name, and its name."""
    names = [str(name) for name in getattr(X, "columns", [])]
    if isinstance(by, str):
        if by not in names:
            raise ValueError(f"by must be the name of a column of X; {by!r} is none of {names}.")
        return np.asarray(X[by]), by
    k = check_index(by, "by", np.shape(X)[1])
    if names:
        return np.asarray(X[list(X.columns)[k]]), names[k]
    values = X.tocsc()[:, [k]].toarray() if sparse.issparse(X) else np.asarray(X)[:, [k]]
    return values[:, 0], f"feature {k}"


def _one_dimensional(by: Any, n_rows: int) -> np.ndarray:
    """Return the value of each row that makes the groups."""
    values = np.asarray(by)
    if values.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"by must have a value for each of the {n_rows} rows; its shape is {values.shape}."
        )
    return values.reshape(-1)


def _grouped(values: np.ndarray, n_groups: int) -> tuple[np.ndarray, list[str]]:
    """Return the number of each row's group, and the names of the groups in their order."""
    is_number = values.dtype.kind in "fiu"
    if is_number and not np.isfinite(values).all():
        raise ValueError("by must be finite: NaN and infinity belong to no group.")
    if not is_number and values.dtype.kind != "b":
        values = values.astype(str)
    different, group = np.unique(values, return_inverse=True)
    if not is_number or len(different) <= n_groups:
        named = [f"{value:.4g}" if is_number else str(value) for value in different]
        return group.reshape(-1), named
    # Equal values are in the same group, so that there may be fewer groups.
    inner = np.quantile(values, np.arange(1, n_groups) / n_groups)
    _, group = np.unique(np.searchsorted(inner, values), return_inverse=True)
    ends = [(values[group == g].min(), values[group == g].max()) for g in range(group.max() + 1)]
    named = [f"{low:.3g}" + (f"\nto {high:.3g}" if high > low else "") for low, high in ends]
    return group, named
