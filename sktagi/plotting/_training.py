"""What happened while fitting."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._common import draw_on, few_points, last_step

__all__ = ["TrainingCurveDisplay"]


class TrainingCurveDisplay:
    """Log-likelihood of training and validation rows in each epoch, and the best epoch.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    train_scores : array-like of shape (n_epochs,)
        Mean log-likelihood of the training rows, each batch before it was learnt.

    validation_scores : array-like of shape (n_epochs,), default=None
        Mean log-likelihood of the validation rows after each epoch.

    best_iter : int or array-like of int, default=None
        The epoch whose posterior was kept, of each member.

    Attributes
    ----------
    train_line_ : matplotlib Line2D
        Training scores.

    validation_line_ : matplotlib Line2D or None
        Validation scores.

    best_ : matplotlib LineCollection or None
        Vertical lines at the best epochs.

    ax_ : matplotlib Axes
        Axes with the curve.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.plotting import TrainingCurveDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor(n_members=1, max_iter=10, random_state=0).fit(X, y)
    >>> display = TrainingCurveDisplay.from_estimator(model)
    >>> display.ax_.get_legend_handles_labels()[1]
    ['training rows', 'validation rows', 'best epoch']
    """

    def __init__(self, train_scores, *, validation_scores=None, best_iter=None):
        self.train_scores = train_scores
        self.validation_scores = validation_scores
        self.best_iter = best_iter

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, train_kwargs=None, validation_kwargs=None):
        """Draw the curves of a fitted estimator.

        Parameters
        ----------
        estimator : TAGIRegressor or TAGIClassifier
            Fitted by ``fit``; or a pipeline or a search that ends in one.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        train_kwargs, validation_kwargs : dict, default=None
            Passed on to ``plot``.

        Returns
        -------
        display : TrainingCurveDisplay
            The drawn display.
        """
        model = last_step(estimator)
        check_is_fitted(model)
        if not hasattr(model, "train_scores_"):
            raise TypeError(f"{type(model).__name__} keeps no train_scores_.")
        if not len(model.train_scores_):
            raise ValueError("There are no epochs to show: partial_fit and max_iter=0 have none.")
        best_iter = None if model.validation_scores_ is None else model.best_iter_
        display = cls(
            model.train_scores_, validation_scores=model.validation_scores_, best_iter=best_iter
        )
        return display.plot(ax, train_kwargs, validation_kwargs)

    def plot(self, ax=None, train_kwargs=None, validation_kwargs=None):
        """Draw what the display holds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        train_kwargs, validation_kwargs : dict, default=None
            Passed on to ``plot`` of matplotlib.

        Returns
        -------
        display : TrainingCurveDisplay
            This display.
        """
        self.figure_, self.ax_ = draw_on(ax)
        epochs = np.arange(1, len(self.train_scores) + 1)
        train = {"color": "C0", "linestyle": "--", "label": "training rows"}
        train |= few_points(epochs)
        (self.train_line_,) = self.ax_.plot(
            epochs, self.train_scores, **{**train, **(train_kwargs or {})}
        )
        self.validation_line_ = self.best_ = None
        if self.validation_scores is not None:
            validation = {"color": "C1", "linestyle": "-", "label": "validation rows"}
            validation |= few_points(epochs)
            (self.validation_line_,) = self.ax_.plot(
                epochs, self.validation_scores, **{**validation, **(validation_kwargs or {})}
            )
        if self.best_iter is not None:
            best = np.unique(self.best_iter)
            self.best_ = self.ax_.vlines(
                best, 0, 1, transform=self.ax_.get_xaxis_transform(), color="0.3",
                linestyle=":", linewidth=1.2, zorder=1,
                label="best epoch" if np.size(self.best_iter) == 1 else "best epochs of members",
            )  # fmt: skip
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.set(xlabel="epoch", ylabel="mean log-likelihood of a row")
        self.ax_.legend()
        return self
