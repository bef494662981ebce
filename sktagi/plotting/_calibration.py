"""IntervalCalibrationDisplay: observed against nominal coverage of intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._any_estimator import predict_dist
from .._input import check_weight
from ..metrics._calibration import area_to_diagonal, needed_coverage
from ._common import draw_on, last_step, one_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from .._input import MatrixLike
    from ..metrics._predictions import Distribution

__all__ = ["IntervalCalibrationDisplay"]

NOMINAL = np.linspace(0, 1, 21)
# Models on the same axes differ in more than their colour.
STYLES = [("-", "o"), ("--", "s"), (":", "^"), ("-.", "D")]


class IntervalCalibrationDisplay:
    """Observed coverage of central intervals against their nominal coverage.

    The intervals are those of the predictive distribution: the estimator's own if it is one of
    sktagi, otherwise a Gaussian with the predicted mean and standard deviation.

    On the diagonal, the model is calibrated; below it the model is too sure, above it not sure
    enough. Several models may share axes.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    nominal, observed : ndarray of shape (n_points,)
        Nominal coverages and the shares of targets inside those intervals.

    error : float, default=None
        Calibration error, shown in the legend.

    name : str, default=None
        Name of the model in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Observed coverage.

    diagonal_ : matplotlib Line2D or None
        The line of calibrated models; None if the axes had one already.

    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi.plotting import IntervalCalibrationDisplay
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> display = IntervalCalibrationDisplay.from_predictions(
    ...     y, np.zeros(1000), np.full(1000, 0.5), name="too sure"
    ... )
    >>> display.ax_.get_legend_handles_labels()[1]
    ['calibrated', 'too sure (error 0.20)']
    """

    def __init__(
        self,
        nominal: np.ndarray,
        observed: np.ndarray,
        *,
        error: float | None = None,
        name: str | None = None,
    ) -> None:
        self.nominal = nominal
        self.observed = observed
        self.error = error
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        *,
        target: int = 0,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the calibration of a fitted estimator.

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

        target : int, default=0
            Index of the target to plot, if there are several.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        name : str, default=None
            Name in the legend; by default that of the estimator's class.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : IntervalCalibrationDisplay
            The display, plotted.
        """
        dist = predict_dist(estimator, X)
        name = type(last_step(estimator)).__name__ if name is None else name
        return cls.from_predictions(
            y, dist=dist, target=target, sample_weight=sample_weight, name=name, ax=ax, **kwargs
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        mean: ArrayLike | Distribution | None = None,
        std: ArrayLike | None = None,
        *,
        dist: Distribution | None = None,
        target: int = 0,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the calibration of predictions.

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

        target : int, default=0
            Index of the target to plot, if there are several.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        name : str, default=None
            Name in the legend.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : IntervalCalibrationDisplay
            The display, plotted.
        """
        shown = one_target(y_true, mean, std, dist, target)
        rows = shown.rows
        weight = check_weight(sample_weight, len(rows))[rows]
        needed = needed_coverage(shown.pit[rows])
        error = area_to_diagonal(needed, weight)
        observed = weight @ (needed[:, None] <= NOMINAL) / weight.sum()
        return cls(NOMINAL, observed, error=error, name=name).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the observed coverage.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.plot``, for the line.

        Returns
        -------
        display : IntervalCalibrationDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        drawn = [line.get_label() for line in self.ax_.lines]
        self.diagonal_: Line2D | None = None
        if "calibrated" not in drawn:
            (self.diagonal_,) = self.ax_.plot(
                [0, 1], [0, 1], color="0.5", linewidth=1, label="calibrated", zorder=1
            )
            # Only the curves of the worst models reach the corners.
            corner: dict[str, Any] = {"color": "0.4", "style": "italic", "fontsize": "small"}
            self.ax_.text(0.0, 1.0, "not sure enough", ha="left", va="top", **corner)
            self.ax_.text(1.0, 0.0, "too sure", ha="right", va="bottom", **corner)
        linestyle, marker = STYLES[len(self.ax_.lines[1:]) % len(STYLES)]
        label = self.name or "observed"
        if self.error is not None:
            label += f" (error {self.error:.2f})"
        style = {"linestyle": linestyle, "marker": marker, "markersize": 4, "label": label}
        (self.line_,) = self.ax_.plot(self.nominal, self.observed, **{**style, **kwargs})
        self.ax_.set(
            xlabel="nominal coverage of the interval", ylabel="share of targets inside",
            xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal",
        )  # fmt: skip
        # Above the axes: anywhere inside, it would hide the curve of some model.
        self.ax_.legend(
            loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize="small",
            borderaxespad=0.2,
        )  # fmt: skip
        return self
