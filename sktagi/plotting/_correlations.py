"""CorrelationDisplay: how correlated the parameters of each layer are (paper, Fig. 6)."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._common import draw_on, last_step

__all__ = ["CorrelationDisplay"]


class CorrelationDisplay:
    """Sorted posterior correlation coefficients of the parameters of each layer.

    A line for each layer runs from the most negative to the most positive correlation between two
    of its parameters, over the share of pairs. A line that stays at zero but for its ends belongs
    to a layer that independent parameters describe well.

    It is recommended to use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    correlations : list of ndarray
        The correlation coefficients of each layer, sorted.

    names : list of str
        Names of the layers.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the lines.

    figure_ : matplotlib Figure
        Figure that holds the axes.

    lines_ : list of matplotlib Artist
        A line for each layer.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import CorrelationDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor((5,), covariance_type="full", max_iter=1).fit(X, y)
    >>> display = CorrelationDisplay.from_estimator(model)
    """

    def __init__(self, *, correlations, names):
        self.correlations = correlations
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, member=0, ax=None, **line_kw):
        """Plot the correlations of a fitted estimator.

        Parameters
        ----------
        estimator : TAGIRegressor or TAGIClassifier
            Fitted with ``covariance_type="full"``; a pipeline or a search that ends in one will do.

        member : int, default=0
            Which of the ``n_members`` networks.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        **line_kw : dict
            Arguments of ``matplotlib.axes.Axes.plot``.

        Returns
        -------
        display : CorrelationDisplay
            The display, plotted.
        """
        model = last_step(estimator)
        check_is_fitted(model)
        # One member has no leading axis.
        stacks = [cov.reshape(-1, *cov.shape[-2:]) for cov in model.layer_covariances_]
        n_members = len(stacks[0])
        if not isinstance(member, (int, np.integer)) or not 0 <= member < n_members:
            raise ValueError(
                f"member must be the number of a member, from 0 to {n_members - 1}; got {member!r}."
            )
        covariances = [stack[member] for stack in stacks]
        correlations = [_sorted_correlations(cov) for cov in covariances]
        last = len(covariances) - 1
        names = [f"layer {j}" for j in range(len(covariances))]
        names[last] += " (output)"
        if last > 0:
            names[0] += " (input)"
        return cls(correlations=correlations, names=names).plot(ax=ax, **line_kw)

    def plot(self, ax=None, **line_kw):
        """Plot the lines.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        **line_kw : dict
            Arguments of ``matplotlib.axes.Axes.plot``.

        Returns
        -------
        display : CorrelationDisplay
            The display itself.
        """
        self.figure_, self.ax_ = _, ax = draw_on(ax)
        styles = ["-", "--", ":", "-."]  # told apart without colours too
        self.lines_ = []
        for j, (values, name) in enumerate(zip(self.correlations, self.names, strict=True)):
            # A layer may have millions of pairs; a line of 1000 points shows them all.
            shown = np.linspace(0, len(values) - 1, min(len(values), 1000)).round().astype(int)
            share = 100 * (shown + 0.5) / len(values)
            style = {"label": name, "linestyle": styles[j % len(styles)], **line_kw}
            self.lines_ += ax.plot(share, values[shown], **style)
        ax.set(
            xlabel="pairs of parameters, sorted (%)",
            ylabel="posterior correlation",
            ylim=(-1.05, 1.05),
        )
        ax.legend(loc="upper left")
        return self


def _sorted_correlations(cov: np.ndarray) -> np.ndarray:
    """Correlations above the diagonal, in ascending order."""
    std = np.sqrt(np.diag(cov))
    upper = np.triu_indices(len(cov), 1)
    return np.sort(np.clip(cov[upper] / (std[upper[0]] * std[upper[1]]), -1, 1))
