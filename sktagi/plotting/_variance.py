"""VarianceDisplay: the epistemic and the aleatoric part of the predictive variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._any_estimator import fitted_part
from ._common import column, draw_on, feature_axis, few_points, position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..metrics._scorers import MatrixLike

__all__ = ["VarianceDisplay"]

N_WINDOWS = 20  # of neighbouring rows, from the smallest to the largest variance


class VarianceDisplay:
    """Predictive variance as the sum of an epistemic and an aleatoric part.

    The epistemic part comes from the uncertain parameters of the network, and more data reduces it;
    the aleatoric part is the noise of the observations, which may differ from row to row. The two
    areas are stacked. The horizontal axis is the feature if there is only one; otherwise the rows
    are ordered by their variance. Rows of the same variance may have very different parts: if the
    noise varies, the areas then show how neighbouring rows share their variance on average.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Positions of the rows on the horizontal axis, in ascending order.

    epistemic, aleatoric : ndarray of shape (n_points,)
        The parts of the variance.

    x_name, y_name : str
        Labels of the axes.

    window : int, default=1
        Number of neighbouring rows whose shares of the two parts are averaged; 1 for none.

    Attributes
    ----------
    aleatoric_, epistemic_ : matplotlib PolyCollection
        The areas of the two parts.

    line_ : matplotlib Line2D
        Their sum.

    ax_ : matplotlib Axes
        Axes with the areas.

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
        x: np.ndarray,
        epistemic: np.ndarray,
        aleatoric: np.ndarray,
        *,
        x_name: str = "row, ordered by variance",
        y_name: str = "variance, in squared units of the target",
        window: int = 1,
    ) -> None:
        self.x = x
        self.epistemic = epistemic
        self.aleatoric = aleatoric
        self.x_name = x_name
        self.y_name = y_name
        self.window = window

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        *,
        target: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the parts of the variance that a fitted estimator predicts.

        Parameters
        ----------
        estimator : TAGIRegressor
            A fitted regressor, or a pipeline or a search that ends in one.

        X : array-like of shape (n_samples, n_features)
            Rows. If they have one feature, the curve runs from its smallest to its largest value.

        target : int, default=0
            Index of the target to plot, if there are several.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : VarianceDisplay
            The display, plotted.
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
    def from_predictions(
        cls,
        epistemic: ArrayLike,
        aleatoric: ArrayLike,
        *,
        x: ArrayLike | None = None,
        target: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot parts of variances, as ``predict_variance`` returns them.

        Parameters
        ----------
        epistemic, aleatoric : array-like of shape (n_samples,) or (n_samples, n_targets)
            The parts of the variance.

        x : array-like of shape (n_samples,), default=None
            Positions of the rows on the horizontal axis; by default they are ordered by their
            variance.

        target : int, default=0
            Index of the target to plot, if there are several.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : VarianceDisplay
            The display, plotted.
        """
        epistemic = column(epistemic, "epistemic", target)
        aleatoric = column(aleatoric, "aleatoric", target)
        if len(epistemic) != len(aleatoric) or min(epistemic.min(), aleatoric.min()) < 0:
            raise ValueError(
                "epistemic and aleatoric must be non-negative variances of the same rows."
            )
        given = epistemic + aleatoric if x is None else position(x, epistemic)
        order = np.argsort(given, kind="stable")
        parts = epistemic[order], aleatoric[order]
        if x is None:
            varies = np.ptp(aleatoric) > 1e-6 * aleatoric.max()
            window = max(len(order) // N_WINDOWS, 1) if varies else 1
            display = cls(np.arange(len(order), dtype=float), *parts, window=window)
            return display.plot(ax, **kwargs)
        return cls(given[order], *parts, x_name="x").plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the two areas and their sum.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : VarianceDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        total = self.epistemic + self.aleatoric
        border = _running_share(self.aleatoric, total, self.window) * total
        averaged = "" if self.window == 1 else f" (mean share of {self.window} rows)"
        edge = 4 if len(self.x) == 1 else 0  # the area over one point is invisible without its edge
        self.aleatoric_ = self.ax_.fill_between(
            self.x, 0, border, facecolor="0.85", edgecolor="0.5", hatch="..",
            linewidth=edge, label="aleatoric: noise" + averaged,
        )  # fmt: skip
        self.epistemic_ = self.ax_.fill_between(
            self.x, border, total, facecolor="C0", edgecolor="C0", alpha=0.6,
            linewidth=edge, label="epistemic: network" + averaged,
        )  # fmt: skip
        style = {"color": "black", "linewidth": 1.2, "label": "variance of a prediction"}
        style |= few_points(self.x)
        (self.line_,) = self.ax_.plot(self.x, total, **{**style, **kwargs})
        self.ax_.set(xlabel=self.x_name, ylabel=self.y_name)
        self.ax_.set_ylim(bottom=0)
        self.ax_.legend()
        return self


def _running_share(part: np.ndarray, total: np.ndarray, window: int) -> np.ndarray:
    """Return the share that a part has of the total, over this many neighbouring rows."""
    if window > 1:
        part, total = (np.convolve(values, np.ones(window), "same") for values in (part, total))
    return np.divide(part, total, out=np.zeros_like(total), where=total > 0)
