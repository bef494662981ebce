"""Predictions with their intervals."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from sklearn.utils import check_consistent_length

from .._predictions import mean_and_std, own_interval
from .._validation import check_coverage
from ._common import (
    column,
    draw_on,
    feature_axis,
    few_points,
    name_of,
    one_target,
    position,
)

__all__ = ["PredictionIntervalDisplay"]


class PredictionIntervalDisplay:
    """Predictive mean, interval band and observed targets.

    Along the feature if there is one; otherwise the rows are ordered by their prediction. Make it
    with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Where the predictions lie on the horizontal axis, in ascending order.

    mean, std : ndarray of shape (n_points,)
        Predictive means and standard deviations.

    interval : ndarray of shape (n_points, 2), default=None
        Ends of the band, for this ``coverage``; None are those of a Gaussian.

    x_observed, y_observed : ndarray of shape (n_samples,), default=None
        Observed targets.

    coverage : float, default=0.9
        Probability that the band is said to hold.

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
        self, x, mean, std, *, interval=None, x_observed=None, y_observed=None, coverage=0.9,
        x_name="row, ordered by prediction", y_name="target",
    ):  # fmt: skip
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
        cls, estimator, X, y=None, *, coverage=0.9, target=0, ax=None, line_kwargs=None,
        band_kwargs=None, point_kwargs=None,
    ):  # fmt: skip
        """Predict and draw.

        The band is that of ``predict_interval`` if the estimator is a TAGIRegressor, or a pipeline
        or a search of one, and that of a Gaussian otherwise.

        Parameters
        ----------
        estimator : estimator instance
            A fitted regressor whose ``predict`` takes ``return_std``, or a pipeline of one.

        X : array-like of shape (n_samples, n_features)
            Rows. If they have one feature, the curve runs from its smallest to its largest value.

        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Observed targets.

        coverage : float, default=0.9
            Probability that the band is said to hold.

        target : int, default=0
            Which of several targets is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        line_kwargs, band_kwargs, point_kwargs : dict, default=None
            Passed on to ``plot`` (mean), ``fill_between`` and ``plot`` (observed).

        Returns
        -------
        display : PredictionIntervalDisplay
            The drawn display.
        """
        if y is not None:
            check_consistent_length(X, y)
        axis = feature_axis(X)
        mean, std = mean_and_std(estimator, axis.X)
        one_target(mean, mean, std, target)  # is there this target?
        interval = own_interval(estimator, axis.X, check_coverage(coverage))
        if interval is not None and interval.ndim == 3:
            interval = interval[:, target]
        if axis.x is None:
            display = cls._of_predictions(y, mean, std, interval, None, coverage, target)
            return display.plot(ax, line_kwargs, band_kwargs, point_kwargs)
        display = cls(
            axis.x,
            column(mean, "mean", target),
            column(std, "std", target),
            interval=interval,
            x_observed=None if y is None else column(X, "X"),
            y_observed=None if y is None else column(y, "y", target),
            coverage=coverage,
            x_name=axis.label,
            y_name=name_of(y, target),
        )
        return display.plot(ax, line_kwargs, band_kwargs, point_kwargs)

    @classmethod
    def from_predictions(
        cls, y_true, mean, std, *, x=None, coverage=0.9, target=0, ax=None, line_kwargs=None,
        band_kwargs=None, point_kwargs=None,
    ):  # fmt: skip
        """Draw predictions, with intervals of a Gaussian.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or (n_samples, n_targets), or None
            Observed targets.

        mean, std : array-like of shape (n_samples,) or (n_samples, n_targets)
            Predictive means and standard deviations.

        x : array-like of shape (n_samples,), default=None
            Where rows lie on the horizontal axis; None orders them by their prediction.

        coverage : float, default=0.9
            Probability that the band is said to hold.

        target : int, default=0
            Which of several targets is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        line_kwargs, band_kwargs, point_kwargs : dict, default=None
            Passed on to ``plot`` (mean), ``fill_between`` and ``plot`` (observed).

        Returns
        -------
        display : PredictionIntervalDisplay
            The drawn display.
        """
        display = cls._of_predictions(y_true, mean, std, None, x, coverage, target)
        return display.plot(ax, line_kwargs, band_kwargs, point_kwargs)

    @classmethod
    def _of_predictions(cls, y_true, mean, std, interval, x, coverage, target):
        y, mean, std = one_target(mean if y_true is None else y_true, mean, std, target)
        given = mean if x is None else position(x, mean)
        order = np.argsort(given, kind="stable")
        x_plot = np.arange(len(mean), dtype=float) if x is None else given[order]
        y_observed = None if y_true is None else y[order]
        x_name = "row, ordered by prediction" if x is None else name_of(x, default="x")
        return cls(
            x_plot, mean[order], std[order], interval=None if interval is None else interval[order],
            x_observed=None if y_observed is None else x_plot, y_observed=y_observed,
            coverage=coverage, x_name=x_name, y_name=name_of(y_true, target),
        )  # fmt: skip

    def plot(self, ax=None, line_kwargs=None, band_kwargs=None, point_kwargs=None):
        """Draw what the display holds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        line_kwargs, band_kwargs, point_kwargs : dict, default=None
            Passed on to ``plot`` (mean), ``fill_between`` and ``plot`` (observed).

        Returns
        -------
        display : PredictionIntervalDisplay
            This display.
        """
        coverage = check_coverage(self.coverage)
        self.figure_, self.ax_ = draw_on(ax)
        band = {"color": "C0", "alpha": 0.3, "linewidth": 0, "zorder": 1}
        band["label"] = f"{100 * coverage:g} % interval"
        if self.interval is not None and coverage != self._interval_coverage:
            raise ValueError(
                f"coverage is {coverage:g}, but the interval of this display is that of coverage "
                f"{self._interval_coverage:g}: make another one."
            )
        if self.interval is None:
            half_width = ndtri((1 + coverage) / 2) * self.std
            low, high = self.mean - half_width, self.mean + half_width
        else:
            low, high = np.asarray(self.interval).T
        if len(self.x) == 1:  # an area over one point is nothing: draw the edge of it
            band["linewidth"] = 4
        self.band_ = self.ax_.fill_between(self.x, low, high, **{**band, **(band_kwargs or {})})
        line = {"color": "C0", "label": "mean", "zorder": 3, **few_points(self.x)}
        (self.line_,) = self.ax_.plot(self.x, self.mean, **{**line, **(line_kwargs or {})})
        self.points_ = None
        if self.y_observed is not None:
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
