"""Is it more wrong where it is less sure?"""

from __future__ import annotations

import numpy as np

from .._predictions import mean_and_std
from .._validation import check_count
from ._common import draw_on, name_of, one_target

__all__ = ["ErrorDisplay"]


class ErrorDisplay:
    """Errors against standard deviations: is it more wrong where it is less sure?

    Dots are rows. The line joins groups of rows of similar std: their root mean squared error
    against their std; of a calibrated model it follows the diagonal, and a std that says nothing
    gives a flat one. Make it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    std, error : ndarray of shape (n_samples,)
        Predictive standard deviations and absolute errors.

    n_bins : int, default=10
        Groups of rows, each of about the same number.

    y_name : str, default="target"
        Name of the target, for the labels of the axes.

    Attributes
    ----------
    points_ : matplotlib Line2D
        The rows.

    line_ : matplotlib Line2D
        The groups.

    diagonal_ : matplotlib Line2D
        Where the error is what the std says.

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

    def __init__(self, std, error, *, n_bins=10, y_name="target"):
        self.std = std
        self.error = error
        self.n_bins = n_bins
        self.y_name = y_name

    @classmethod
    def from_estimator(cls, estimator, X, y, *, n_bins=10, target=0, ax=None, **kwargs):
        """Predict and draw.

        Parameters
        ----------
        estimator : estimator instance
            A fitted regressor whose ``predict`` takes ``return_std``, or a pipeline of one.

        X : array-like of shape (n_samples, n_features)
            Rows that the estimator has not been fitted to.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.

        n_bins : int, default=10
            Groups of rows, each of about the same number.

        target : int, default=0
            Which of several targets is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``plot``, for the line.

        Returns
        -------
        display : ErrorDisplay
            The drawn display.
        """
        mean, std = mean_and_std(estimator, X)
        return cls.from_predictions(y, mean, std, n_bins=n_bins, target=target, ax=ax, **kwargs)

    @classmethod
    def from_predictions(cls, y_true, mean, std, *, n_bins=10, target=0, ax=None, **kwargs):
        """Draw the errors of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.

        mean, std : array-like, same shape
            Predictive means and standard deviations.

        n_bins : int, default=10
            Groups of rows, each of about the same number.

        target : int, default=0
            Which of several targets is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``plot``, for the line.

        Returns
        -------
        display : ErrorDisplay
            The drawn display.
        """
        y, mean, std = one_target(y_true, mean, std, target)
        display = cls(std, np.abs(y - mean), n_bins=n_bins, y_name=name_of(y_true, target))
        return display.plot(ax, **kwargs)

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
        display : ErrorDisplay
            This display.
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
