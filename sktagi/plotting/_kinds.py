"""KindsDisplay: which kinds of networks a prediction is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._common import draw_on, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

__all__ = ["KindsDisplay"]

THICKNESS = 0.8  # of the bars of a kind, all targets together
FEWEST_PLACES = 3  # a single kind is not a bar as high as the axes


class KindsDisplay:
    """Weights of the kinds of networks in a mixture, as bars; the heaviest is on top.

    With ``hidden_layer_sizes="auto"``, held-out rows weigh linear, smooth, piecewise and deep
    networks. What weighs much says something of the data: that they are nearly linear, say. Several
    targets have a bar each.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    weights : dict of str to float or to array-like of shape (n_targets,)
        Weights of the kinds, by their names.

    Attributes
    ----------
    names_ : list of str
        Names of the kinds, from the heaviest to the lightest; by their means over the targets.

    bars_ : list of matplotlib BarContainer
        The bars of each target, in the order of ``names_``.

    ax_ : matplotlib Axes
        Axes with the bars.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import KindsDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor(random_state=0).fit(X, y)
    >>> display = KindsDisplay.from_estimator(model)
    >>> display.names_[0]
    'linear'
    """

    def __init__(self, *, weights: Mapping[str, ArrayLike]) -> None:
        self.weights = weights

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **bar_kw: Any
    ) -> Self:
        """Plot the weights of the kinds of a fitted estimator.

        Parameters
        ----------
        estimator : TAGIRegressor or TAGIClassifier
            Fitted with ``hidden_layer_sizes="auto"``, or a pipeline or a search that ends in one.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **bar_kw : dict
            Arguments of ``matplotlib.axes.Axes.barh``.

        Returns
        -------
        display : KindsDisplay
            The display, plotted.
        """
        model = last_step(estimator)
        check_is_fitted(model)
        if not hasattr(model, "kinds_"):
            raise ValueError(
                f"{type(model).__name__} has no kinds to show: TAGIRegressor and TAGIClassifier "
                'have some after fit with hidden_layer_sizes="auto", if rows are held out.'
            )
        return cls(weights=model.kinds_).plot(ax=ax, **bar_kw)

    def plot(self, ax: Axes | None = None, **bar_kw: Any) -> Self:
        """Plot the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **bar_kw : dict
            Arguments of ``matplotlib.axes.Axes.barh``.

        Returns
        -------
        display : KindsDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        given = {name: np.atleast_1d(weight) for name, weight in self.weights.items()}
        self.names_ = sorted(given, key=lambda name: -given[name].mean())
        values = np.array([given[name] for name in self.names_])
        places, n_targets = np.arange(len(values)), values.shape[1]
        height = THICKNESS / n_targets
        self.bars_: list[BarContainer] = []
        for target in range(n_targets):
            shift = (target - (n_targets - 1) / 2) * height
            style = {"height": height, "label": f"target {target}", **bar_kw}
            bars = self.ax_.barh(places + shift, values[:, target], **style)
            self.ax_.bar_label(bars, fmt="%.2f", padding=3)
            self.bars_.append(bars)
        self.ax_.set_yticks(places, self.names_)
        self.ax_.set_xticks([0, 0.25, 0.5, 0.75, 1])
        self.ax_.set(
            xlabel="weight in the mixture",
            ylabel="kind of network",
            xlim=(0, 1.25),  # the figures at the bars need room
            ylim=(max(len(values), FEWEST_PLACES) - 0.5, -0.5),
        )
        if n_targets > 1:
            self.ax_.legend(loc="lower right")
        return self
