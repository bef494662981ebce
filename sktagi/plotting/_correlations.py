"""CorrelationDisplay: how correlated the parameters of each layer are (paper, Fig. 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._common import check_index, draw_on, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["CorrelationDisplay"]

STYLES = ["-", "--", ":", "-."]  # layers differ in more than their colour
MAX_POINTS = 1000  # of a line: a layer may have millions of pairs


class CorrelationDisplay:
    """Sorted posterior correlation coefficients of the parameters of each layer.

    The line of a layer runs from the most negative to the most positive correlation between two of
    its parameters, over the share of pairs. If a line is close to zero except at its ends, the
    layer is well described by independent parameters.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    correlations : list of ndarray
        The correlation coefficients of each layer, sorted.

    names : list of str
        Names of the layers.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        A line for each layer.

    ax_ : matplotlib Axes
        Axes with the lines.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import CorrelationDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor((5,), covariance_type="full", max_iter=1).fit(X, y)
    >>> display = CorrelationDisplay.from_estimator(model)
    >>> display.ax_.get_legend_handles_labels()[1]
    ['layer 0 (input)', 'layer 1 (output)']
    """

    def __init__(self, *, correlations: list[np.ndarray], names: list[str]) -> None:
        self.correlations = correlations
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, member: int = 0, ax: Axes | None = None, **line_kw: Any
    ) -> Self:
        """Plot the correlations of a fitted estimator.

        Parameters
        ----------
        estimator : TAGIRegressor or TAGIClassifier
            Fitted with ``covariance_type="full"``, or a pipeline or a search that ends in one.

        member : int, default=0
            Index of the network to plot, of the ``n_members``.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **line_kw : dict
            Arguments of ``matplotlib.axes.Axes.plot``.

        Returns
        -------
        display : CorrelationDisplay
            The display, plotted.
        """
        model = last_step(estimator)
        check_is_fitted(model)
        # The covariances of a single network have no axis of members.
        stacks = [cov.reshape(-1, *cov.shape[-2:]) for cov in model.layer_covariances_]
        member = check_index(member, "member", len(stacks[0]))
        correlations = [_sorted_correlations(stack[member]) for stack in stacks]
        names = [f"layer {j}" for j in range(len(stacks))]
        names[-1] += " (output)"
        if len(names) > 1:
            names[0] += " (input)"
        return cls(correlations=correlations, names=names).plot(ax=ax, **line_kw)

    def plot(self, ax: Axes | None = None, **line_kw: Any) -> Self:
        """Plot the lines.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **line_kw : dict
            Arguments of ``matplotlib.axes.Axes.plot``.

        Returns
        -------
        display : CorrelationDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        self.lines_: list[Line2D] = []
        for j, (values, name) in enumerate(zip(self.correlations, self.names, strict=True)):
            n_points = min(len(values), MAX_POINTS)
            shown = np.linspace(0, len(values) - 1, n_points).round().astype(int)
            share = 100 * (shown + 0.5) / len(values)
            style = {"label": name, "linestyle": STYLES[j % len(STYLES)], **line_kw}
            self.lines_ += self.ax_.plot(share, values[shown], **style)
        self.ax_.set(
            xlabel="pairs of parameters, sorted (%)",
            ylabel="posterior correlation",
            ylim=(-1.05, 1.05),
        )
        self.ax_.legend(loc="upper left")
        return self


def _sorted_correlations(cov: np.ndarray) -> np.ndarray:
    """Return the correlations above the diagonal, in ascending order."""
    std = np.sqrt(np.diag(cov))
    upper = np.triu_indices(len(cov), 1)
    return np.sort(np.clip(cov[upper] / (std[upper[0]] * std[upper[1]]), -1, 1))
