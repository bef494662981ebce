"""PredictionIntervalDisplay: predictions with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from .._any_estimator import predict_dist
from .._input import check_coverage, check_targets
from ..metrics._predictions import Gaussian
from ._common import (
    Predicted,
    check_index,
    column,
    draw_on,
    feature_axis,
    few_points,
    name_of,
    observed_rows,
    one_target,
    position,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from .._input import MatrixLike
    from ..metrics._predictions import Distribution

__all__ = ["PredictionIntervalDisplay"]


class PredictionIntervalDisplay:
    """Predictive mean, interval band and observed targets.

    The horizontal axis is the feature if there is only one; otherwise the rows are ordered by their
    prediction.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Positions of the predictions on the horizontal axis, in ascending order.

    mean, std : ndarray of shape (n_points,)
        Predictive means and standard deviations.

    interval : ndarray of shape (n_points, 2), default=None
        Ends of the band, for this ``coverage``; by default those of a Gaussian.

    x_observed, y_observed : ndarray of shape (n_samples,), default=None
        Positions and values of the observed targets.

    coverage : float, default=0.9
        Nominal coverage: the probability that the band should contain the target.

    x_name, y_name : str
        Labels of the axes.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The mean.

    band_ : matplotlib PolyCollection
        The interval.

    points_ : matplotlib Line2D or None
        The observed targets.

    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import PredictionIntervalDisplay
    >>> X = np.linspace(-3, 3, 60)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = TAGIRegressor(max_iter=20, random_state=0).fit(X, y)
    >>> display = PredictionIntervalDisplay.from_estimator(model, X, y)
    >>> display.ax_.get_legend_handles_labels()[1]
    ['90 % interval', 'mean', 'observed']
    """

    def __init__(
        self,
        x: np.ndarray,
        mean: np.ndarray,
        std: np.ndarray,
        *,
        interval: np.ndarray | None = None,
        x_observed: np.ndarray | None = None,
        y_observed: np.ndarray | None = None,
        coverage: float = 0.9,
        x_name: str = "row, ordered by prediction",
        y_name: str = "target",
    ) -> None:
        self.x = x
        self.mean = mean
        self.std = std
        self.interval = interval
        self._interval_coverage = coverage
        self.x_observed = x_observed
        self.y_observed = y_observed
        self.coverage = coverage
        self.x_name = x_name
        self.y_name = y_name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        coverage: float = 0.9,
        target: int = 0,
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        point_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the predictions and intervals of a fitted estimator.

        The band is the interval of the estimator's own predictive distribution if it is a
        TAGIRegressor, or a pipeline or a search that ends in one. For other estimators, it is the
        interval of a Gaussian.

        Parameters
        ----------
        estimator : estimator instance
            A fitted regressor whose ``predict`` takes ``return_std``, or a pipeline of one.

        X : array-like of shape (n_samples, n_features)
            Rows. If they have one feature, the curve runs from its smallest to its largest value.

        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Observed targets. Where the chosen one of several targets is NaN (not observed), no
            point is plotted.

        coverage : float, default=0.9
            Nominal coverage: the probability that the band should contain the target.

        target : int, default=0
            Index of the target to plot, if there are several.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        line_kwargs, band_kwargs, point_kwargs : dict, default=None
            Arguments of ``matplotlib.axes.Axes.plot`` for the mean, of ``fill_between`` for the
            band and of ``plot`` for the observed targets.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display, plotted.
        """
        if y is not None:
            check_consistent_length(X, y)
        axis = feature_axis(X)
        dist, coverage = predict_dist(estimator, axis.X), check_coverage(coverage)
        if axis.x is None:
            return cls.from_predictions(
                y, dist=dist, coverage=coverage, target=target, ax=ax, line_kwargs=line_kwargs,
                band_kwargs=band_kwargs, point_kwargs=point_kwargs,
            )  # fmt: skip
        shown = one_target(None, None, None, dist, target)
        std, interval = _band(shown, coverage)
        x_observed = y_observed = None
        if y is not None:
            targets = check_targets(y, "y").reshape(np.shape(X)[0], -1)
            y_observed = targets[:, check_index(target, "target", targets.shape[1])]
            rows = observed_rows(y_observed, target)
            x_observed, y_observed = column(X, "X")[rows], y_observed[rows]
        display = cls(
            axis.x, shown.mean, std, interval=interval, x_observed=x_observed,
            y_observed=y_observed, coverage=coverage, x_name=axis.label, y_name=name_of(y, target),
        )  # fmt: skip
        return display.plot(ax, line_kwargs, band_kwargs, point_kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike | None,
        mean: ArrayLike | Distribution | None = None,
        std: ArrayLike | None = None,
        *,
        dist: Distribution | None = None,
        x: ArrayLike | None = None,
        coverage: float = 0.9,
        target: int = 0,
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        point_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Plot predictions with the intervals of a Gaussian, or of a distribution.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or (n_samples, n_targets), or None
            Observed targets. Where the chosen one of several targets is NaN (not observed), no
            point is plotted.

        mean, std : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Predictive means and standard deviations.

        dist : distribution, default=None
            Predictive distributions in the place of ``mean`` and ``std``, as one object with the
            methods of SciPy's frozen distributions.

        x : array-like of shape (n_samples,), default=None
            Positions of the rows on the horizontal axis; by default they are ordered by their
            prediction.

        coverage : float, default=0.9
            Nominal coverage: the probability that the band should contain the target.

        target : int, default=0
            Index of the target to plot, if there are several.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        line_kwargs, band_kwargs, point_kwargs : dict, default=None
            Arguments of ``matplotlib.axes.Axes.plot`` for the mean, of ``fill_between`` for the
            band and of ``plot`` for the observed targets.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display, plotted.
        """
        shown, coverage = one_target(y_true, mean, std, dist, target), check_coverage(coverage)
        mu, (sigma, interval) = shown.mean, _band(shown, coverage)
        given = mu if x is None else position(x, mu)
        order = np.argsort(given, kind="stable")
        x_plot = np.arange(len(mu), dtype=float) if x is None else given[order]
        rows = shown.rows[order]
        display = cls(
            x_plot,
            mu[order],
            sigma[order],
            interval=None if interval is None else interval[order],
            x_observed=None if y_true is None else x_plot[rows],
            y_observed=None if y_true is None else shown.y[order][rows],
            coverage=coverage,
            x_name="row, ordered by prediction" if x is None else name_of(x, default="x"),
            y_name=name_of(y_true, target),
        )
        return display.plot(ax, line_kwargs, band_kwargs, point_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        point_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the mean, the band and the observed targets.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        line_kwargs, band_kwargs, point_kwargs : dict, default=None
            Arguments of ``matplotlib.axes.Axes.plot`` for the mean, of ``fill_between`` for the
            band and of ``plot`` for the observed targets.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display itself.
        """
        coverage = check_coverage(self.coverage)
        if self.interval is not None and coverage != self._interval_coverage:
            raise ValueError(
                f"coverage is {coverage:g}, but this display holds an interval of coverage "
                f"{self._interval_coverage:g}: create another display."
            )
        self.figure_, self.ax_ = draw_on(ax)
        if self.interval is None:
            half_width = ndtri((1 + coverage) / 2) * self.std
            low, high = self.mean - half_width, self.mean + half_width
        else:
            low, high = np.asarray(self.interval).T
        # The area over one point is invisible without its edge.
        edge = 4 if len(self.x) == 1 else 0
        band = {
            "color": "C0", "alpha": 0.3, "linewidth": edge, "zorder": 1,
            "label": f"{100 * coverage:g} % interval",
        }  # fmt: skip
        self.band_ = self.ax_.fill_between(self.x, low, high, **{**band, **(band_kwargs or {})})
        line = {"color": "C0", "label": "mean", "zorder": 3, **few_points(self.x)}
        (self.line_,) = self.ax_.plot(self.x, self.mean, **{**line, **(line_kwargs or {})})
        self.points_: Line2D | None = None
        if self.x_observed is not None and self.y_observed is not None:
            points = {
                "linestyle": "none", "marker": "o", "markersize": 3, "color": "0.15",
                "alpha": 0.7, "label": "observed", "zorder": 2,
            }  # fmt: skip
            (self.points_,) = self.ax_.plot(
                self.x_observed, self.y_observed, **{**points, **(point_kwargs or {})}
            )
        self.ax_.set(xlabel=self.x_name, ylabel=self.y_name)
        self.ax_.legend()
        return self


def _band(shown: Predicted, coverage: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Return stds and the ends of intervals; None for a Gaussian, whose ends follow from the std.

    Some distributions have intervals, but an infinite std.
    """
    if isinstance(shown.given.dist, Gaussian):
        return shown.std, None
    std = np.broadcast_to(shown.given.dist.std(), shown.given.shape)
    return std.reshape(shown.given.y.shape)[:, shown.target], shown.interval(coverage)
