"""TrainingCurveDisplay: log-likelihood in each epoch of ``fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._common import draw_on, few_points, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

__all__ = ["TrainingCurveDisplay"]


class TrainingCurveDisplay:
    """Log-likelihood of training and validation rows in each epoch, and the best epoch.

    Of several kinds of networks, scores are those of the kind that is best in each epoch.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    train_scores : array-like of shape (n_epochs,)
        Mean log-likelihood of the training rows, each batch before it was learned.

    validation_scores : array-like of shape (n_epochs,), default=None
        Mean log-likelihood of the validation rows after each epoch.

    best_iter : int or array-like of int, default=None
        The epoch whose posterior was kept, of each member; of several kinds of networks, of each
        member of each kind.

    Attributes
    ----------
    train_line_ : matplotlib Line2D
        Training scores.

    validation_line_ : matplotlib Line2D or None
        Validation scores.

    best_ : matplotlib LineCollection or None
        Vertical lines at the best epochs.

    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import TrainingCurveDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor((50,), n_members=1, max_iter=10, random_state=0).fit(X, y)
    >>> display = TrainingCurveDisplay.from_estimator(model)
    >>> display.ax_.get_legend_handles_labels()[1]
    ['training rows', 'validation rows', 'best epoch']
    """

    def __init__(
        self,
        train_scores: ArrayLike,
        *,
        validation_scores: ArrayLike | None = None,
        best_iter: ArrayLike | None = None,
    ) -> None:
        self.train_scores = train_scores
        self.validation_scores = validation_scores
        self.best_iter = best_iter

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        ax: Axes | None = None,
        train_kwargs: dict[str, Any] | None = None,
        validation_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the scores that a fitted estimator has recorded.

        Parameters
        ----------
        estimator : TAGIRegressor or TAGIClassifier
            Fitted by ``fit``, or a pipeline or a search that ends in one.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        train_kwargs, validation_kwargs : dict, default=None
            Arguments of ``matplotlib.axes.Axes.plot`` for the two curves.

        Returns
        -------
        display : TrainingCurveDisplay
            The display, plotted.
        """
        model = last_step(estimator)
        check_is_fitted(model)
        if not hasattr(model, "train_scores_"):
            raise TypeError(
                f"{type(model).__name__} has no train_scores_, as TAGIRegressor and TAGIClassifier "
                "have."
            )
        if not len(model.train_scores_):
            raise ValueError("There are no epochs to show: partial_fit and max_iter=0 record none.")
        best_iter = None if model.validation_scores_ is None else model.best_iter_
        display = cls(
            model.train_scores_, validation_scores=model.validation_scores_, best_iter=best_iter
        )
        return display.plot(ax, train_kwargs, validation_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        train_kwargs: dict[str, Any] | None = None,
        validation_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the curves and the best epochs.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        train_kwargs, validation_kwargs : dict, default=None
            Arguments of ``matplotlib.axes.Axes.plot`` for the two curves.

        Returns
        -------
        display : TrainingCurveDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        epochs = np.arange(1, np.size(self.train_scores) + 1)
        train = {"color": "C0", "linestyle": "--", "label": "training rows"}
        train |= few_points(epochs)
        (self.train_line_,) = self.ax_.plot(
            epochs, self.train_scores, **{**train, **(train_kwargs or {})}
        )
        self.validation_line_: Line2D | None = None
        if self.validation_scores is not None:
            validation = {"color": "C1", "linestyle": "-", "label": "validation rows"}
            validation |= few_points(epochs)
            (self.validation_line_,) = self.ax_.plot(
                epochs, self.validation_scores, **{**validation, **(validation_kwargs or {})}
            )
        self.best_: LineCollection | None = None
        if self.best_iter is not None:
            best = np.unique(self.best_iter)
            self.best_ = self.ax_.vlines(
                best, 0, 1, transform=self.ax_.get_xaxis_transform(), color="0.3",
                linestyle=":", linewidth=1.2, zorder=1,
                label="best epoch" if np.size(self.best_iter) == 1 else "best epochs of members",
            )  # fmt: skip
        self.ax_.locator_params(axis="x", integer=True)
        self.ax_.set(xlabel="epoch", ylabel="mean log-likelihood of a row")
        self.ax_.legend()
        return self
