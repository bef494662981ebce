"""ErrorDisplay: absolute errors against predicted standard deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._any_estimator import predict_dist
from .._input import check_count
from ._common import draw_on, name_of, one_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .._input import MatrixLike
    from ..metrics._predictions import Distribution

__all__ = ["ErrorDisplay"]


class ErrorDisplay:
    """Absolute errors against predicted standard deviations.

    It shows whether errors are larger where the model is less sure. Each dot is a row. The line
    joins groups of rows of similar std: it shows the root mean squared error of a group against the
    root mean squared std. A calibrated model follows the diagonal; if the std carries no
    information about the errors, the line is flat.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    std, error : ndarray of shape (n_samples,)
        Predictive standard deviations and absolute errors.

    n_bins : int, default=10
        Number of groups of rows, all of about the same size.

    y_name : str, default="target"
        Name of the target, for the labels of the axes.

    Attributes
    ----------
    points_ : matplotlib Line2D
        The rows.

    line_ : matplotlib Line2D
        The groups.

    diagonal_ : matplotlib Line2D
        Where the error equals the std.

    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.plotting import ErrorDisplay
    >>> rng = np.random.default_rng(0)
    >>> std = rng.uniform(1, 3, size=1000)
    >>> y = std * rng.normal(size=1000)
    >>> display = ErrorDisplay.from_predictions(y, np.zeros(1000), std, n_bins=4)
    >>> np.round(display.line_.get_xydata(), 1)
    array([[1.3, 1.3],
           [1.8, 2. ],
           [2.3, 2.4],
           [2.8, 2.6]])
    """

    def __init__(
        self, std: np.ndarray, error: np.ndarray, *, n_bins: int = 10, y_name: str = "target"
    ) -> None:
        self.std = std
        self.error = error
        self.n_bins = n_bins
        self.y_name = y_name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        target: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the errors of a fitted estimator.

        Parameters
        ----------
        estimator : estimator instance
            A fitted regressor whose ``predict`` takes ``return_std``, or a pipeline of one.

        X : array-like of shape (n_samples, n_features)
            Rows that the estimator has not been fitted to.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets of these rows. Rows in which the chosen one of several targets is NaN (not
            observed) are left out.

        n_bins : int, default=10
            Number of groups of rows, all of about the same size.

        target : int, default=0
            Index of the target to plot, if there are several.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : ErrorDisplay
            The display, plotted.
        """
        dist = predict_dist(estimator, X)
        return cls.from_predictions(y, dist=dist, n_bins=n_bins, target=target, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        mean: ArrayLike | Distribution | None = None,
        std: ArrayLike | None = None,
        *,
        dist: Distribution | None = None,
        n_bins: int = 10,
        target: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the errors of predictions.

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

        n_bins : int, default=10
            Number of groups of rows, all of about the same size.

        target : int, default=0
            Index of the target to plot, if there are several.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : ErrorDisplay
            The display, plotted.
        """
        shown = one_target(y_true, mean, std, dist, target)
        rows = shown.rows
        error = np.abs(shown.y - shown.mean)[rows]
        display = cls(shown.std[rows], error, n_bins=n_bins, y_name=name_of(y_true, target))
        return display.plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the rows and the groups.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : ErrorDisplay
            The display itself.
        """
        n_bins = min(check_count(self.n_bins, "n_bins"), len(self.std))
        self.figure_, self.ax_ = draw_on(ax)
        (self.points_,) = self.ax_.plot(
            self.std, self.error, linestyle="none", marker=".", markersize=4, color="0.6",
            alpha=0.6, label="row", zorder=1,
        )  # fmt: skip
        groups = np.array_split(np.argsort(self.std, kind="stable"), n_bins)
        std, error = (
            [np.sqrt(np.square(values[group]).mean()) for group in groups]
            for values in (self.std, self.error)
        )
        ends = [self.std.min(), self.std.max()]
        (self.diagonal_,) = self.ax_.plot(
            ends, ends, color="black", linestyle="--", linewidth=1, label="error = std", zorder=2
        )
        style = {"color": "C0", "marker": "o", "label": "root mean square of a group", "zorder": 3}
        (self.line_,) = self.ax_.plot(std, error, **{**style, **kwargs})
        self.ax_.set(
            xlabel=f"predicted standard deviation of {self.y_name}",
            ylabel=f"absolute error of {self.y_name}",
        )
        self.ax_.set_ylim(bottom=0)
        self.ax_.legend()
        return self
