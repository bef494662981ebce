"""Where uncertainty comes from."""

from __future__ import annotations

import numpy as np

from .._predictions import fitted_part
from ._common import column, draw_on, feature_axis, few_points, position

__all__ = ["VarianceDisplay"]


class VarianceDisplay:
    """Predictive variance as the sum of two parts: the network's and the noise's.

    The epistemic part comes from what the network does not know, and more data reduces it; the
    aleatoric part is the noise of the observations. They lie one on the other, along the feature
    if there is one; otherwise rows are ordered by their variance. Make it with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Where the rows lie on the horizontal axis, in ascending order.

    epistemic, aleatoric : ndarray of shape (n_points,)
        The parts of the variance.

    x_name, y_name : str
        Labels of the axes.

    Attributes
    ----------
    aleatoric_, epistemic_ : matplotlib PolyCollection
        The areas of the two parts.

    line_ : matplotlib Line2D
        Their sum.

    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import VarianceDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor(max_iter=10, random_state=0).fit(X, y)
    >>> display = VarianceDisplay.from_estimator(model, X)
    >>> display.ax_.get_xlabel()
    'row, ordered by variance'
    """

    def __init__(
        self,
        x,
        epistemic,
        aleatoric,
        *,
        x_name="row, ordered by variance",
        y_name="variance, in squared units of the target",
    ):
        self.x = x
        self.epistemic = epistemic
        self.aleatoric = aleatoric
        self.x_name = x_name
        self.y_name = y_name

    @classmethod
    def from_estimator(cls, estimator, X, *, target=0, ax=None, **kwargs):
        """Predict and draw.

        Parameters
        ----------
        estimator : TAGIRegressor
            Fitted; or a pipeline or a search that ends in one.

        X : array-like of shape (n_samples, n_features)
            Rows. If they have one feature, the curve runs from its smallest to its largest value.

        target : int, default=0
            Which of several targets is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``plot``, for the line.

        Returns
        -------
        display : VarianceDisplay
            The drawn display.
        """
        axis = feature_axis(X)
        model, rows = fitted_part(estimator), axis.X
        if hasattr(model, "named_steps"):
            model, rows = model[-1], model[:-1].transform(rows) if len(model) > 1 else rows
        if not hasattr(model, "predict_variance"):
            raise TypeError(
                f"{type(model).__name__} has no predict_variance, as TAGIRegressor has."
            )
        epistemic, aleatoric = model.predict_variance(rows)
        if axis.x is None:
            return cls.from_predictions(epistemic, aleatoric, target=target, ax=ax, **kwargs)
        parts = column(epistemic, "epistemic", target), column(aleatoric, "aleatoric", target)
        return cls(axis.x, *parts, x_name=axis.label).plot(ax, **kwargs)

    @classmethod
    def from_predictions(cls, epistemic, aleatoric, *, x=None, target=0, ax=None, **kwargs):
        """Draw parts of variances, as ``predict_variance`` returns them.

        Parameters
        ----------
        epistemic, aleatoric : array-like of shape (n_samples,) or (n_samples, n_targets)
            The parts of the variance.

        x : array-like of shape (n_samples,), default=None
            Where rows lie on the horizontal axis; None orders them by their variance.

        target : int, default=0
            Which of several targets is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``plot``, for the line.

        Returns
        -------
        display : VarianceDisplay
            The drawn display.
        """
        epistemic = column(epistemic, "epistemic", target)
        aleatoric = column(aleatoric, "aleatoric", target)
        if len(epistemic) != len(aleatoric) or min(epistemic.min(), aleatoric.min()) < 0:
            raise ValueError("epistemic and aleatoric must be variances of the same rows.")
        given = epistemic + aleatoric if x is None else position(x, epistemic)
        order = np.argsort(given, kind="stable")
        parts = epistemic[order], aleatoric[order]
        if x is None:
            return cls(np.arange(len(order), dtype=float), *parts).plot(ax, **kwargs)
        return cls(given[order], *parts, x_name="x").plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw what the display holds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``plot`` of matplotlib, for the line.

        Returns
        -------
        display : VarianceDisplay
            This display.
        """
        self.figure_, self.ax_ = draw_on(ax)
        total = self.epistemic + self.aleatoric
        edge = 4 if len(self.x) == 1 else 0  # an area over one point is nothing
        self.aleatoric_ = self.ax_.fill_between(
            self.x, 0, self.aleatoric, facecolor="0.85", edgecolor="0.5", hatch="..",
            linewidth=edge, label="aleatoric: noise",
        )  # fmt: skip
        self.epistemic_ = self.ax_.fill_between(
            self.x, self.aleatoric, total, facecolor="C0", edgecolor="C0", alpha=0.6,
            linewidth=edge, label="epistemic: network",
        )  # fmt: skip
        style = {"color": "black", "linewidth": 1.2, "label": "variance of a prediction"}
        style |= few_points(self.x)
        (self.line_,) = self.ax_.plot(self.x, total, **{**style, **kwargs})
        self.ax_.set(xlabel=self.x_name, ylabel=self.y_name)
        self.ax_.set_ylim(bottom=0)
        self.ax_.legend()
        return self
