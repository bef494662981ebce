"""ClassProbabilityDisplay: class probabilities with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._any_estimator import fitted_part
from .._labels import as_labels
from ._common import draw_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..metrics._scorers import MatrixLike

__all__ = ["ClassProbabilityDisplay"]


class ClassProbabilityDisplay:
    """Class probabilities of one row, with error bars.

    The bars say how likely each class is. The error bars say how far these probabilities may be off
    for what the network does not know: one standard deviation to either side, cut off at 0 and 1.
    They are short where there are many data, also if two classes are equally likely there, and long
    for a row that is unlike the data.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    proba, std : ndarray of shape (n_classes,)
        Probabilities and their standard deviations.

    classes : ndarray of shape (n_classes,)
        Class labels.

    true_class : object, default=None
        Label of the observed class, whose bar is hatched.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        Probabilities.

    errorbar_ : matplotlib ErrorbarContainer
        Standard deviations.

    ax_ : matplotlib Axes
        Axes with the bars.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktagi import TAGIClassifier
    >>> from sktagi.plotting import ClassProbabilityDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAGIClassifier(max_iter=20, random_state=0).fit(X, y)
    >>> display = ClassProbabilityDisplay.from_estimator(model, X, y, row=70)
    >>> len(display.bars_), display.ax_.get_xlabel()
    (3, 'probability ± one standard deviation')
    """

    def __init__(
        self, proba: np.ndarray, std: np.ndarray, classes: np.ndarray, *, true_class: object = None
    ) -> None:
        self.proba = proba
        self.std = std
        self.classes = classes
        self.true_class = true_class

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        row: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the class probabilities that a fitted estimator predicts for one row.

        Parameters
        ----------
        estimator : TAGIClassifier
            A fitted classifier, or a pipeline or a search that ends in one.

        X : array-like of shape (n_samples, n_features)
            Rows.

        y : array-like of shape (n_samples,), default=None
            Observed classes of these rows.

        row : int, default=0
            Index of the row to plot; negative indices count from the end.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.barh``.

        Returns
        -------
        display : ClassProbabilityDisplay
            The display, plotted.
        """
        model = fitted_part(estimator)
        n_rows = np.shape(X)[0]
        if not isinstance(row, (int, np.integer)) or not -n_rows <= row < n_rows:
            raise ValueError(f"row must be an integer from {-n_rows} to {n_rows - 1}; got {row!r}.")
        row = int(row) % n_rows
        rows: Any = X  # lists, arrays, frames and sparse matrices have slices
        try:
            proba, std = model.predict_proba(rows[row : row + 1], return_std=True)
        except (TypeError, AttributeError) as error:
            if "return_std" not in str(error) and "predict_proba" not in str(error):
                raise
            raise TypeError(
                "Standard deviations are needed: predict_proba(X, return_std=True) must return "
                "two arrays, as that of TAGIClassifier and pipelines that end in one does; that "
                f"of {type(model).__name__} does not."
            ) from error
        true_class = None if y is None else np.asarray(as_labels(y))[row]
        return cls.from_predictions(
            proba[0], std[0], classes=model.classes_, true_class=true_class, ax=ax, **kwargs
        )

    @classmethod
    def from_predictions(
        cls,
        proba: ArrayLike,
        std: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        true_class: object = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the class probabilities of one row.

        Parameters
        ----------
        proba, std : array-like of shape (n_classes,)
            Probabilities and their standard deviations.

        classes : array-like of shape (n_classes,), default=None
            Class labels; by default 0, 1, and so on.

        true_class : object, default=None
            Label of the observed class, whose bar is hatched.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.barh``.

        Returns
        -------
        display : ClassProbabilityDisplay
            The display, plotted.
        """
        proba, std = np.asarray(proba, dtype=float), np.asarray(std, dtype=float)
        labels = np.arange(proba.size) if classes is None else np.asarray(as_labels(classes))
        if proba.ndim != 1 or not proba.shape == std.shape == labels.shape:
            raise ValueError(
                "proba, std and classes must be those of one row and have the same length; got "
                f"shapes {proba.shape}, {std.shape} and {labels.shape}."
            )
        return cls(proba, std, labels, true_class=true_class).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the bars and the error bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.barh``.

        Returns
        -------
        display : ClassProbabilityDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        labels = [str(label) for label in self.classes]
        position = np.arange(len(labels))
        style = {"color": "0.8", "edgecolor": "0.3"}
        self.bars_ = self.ax_.barh(position, self.proba, **{**style, **kwargs})
        # A probability lies between 0 and 1, so its error bar must too.
        reach = np.minimum(self.std, [self.proba, 1 - self.proba])
        self.errorbar_ = self.ax_.errorbar(
            self.proba, position, xerr=np.maximum(reach, 0), fmt="o", color="black", markersize=4,
            capsize=4,
        )  # fmt: skip
        if self.true_class is not None:
            for bar, label in zip(self.bars_, self.classes, strict=True):
                if label == self.true_class:
                    bar.set(hatch="//", label="observed class")
                    self.ax_.legend()
        self.ax_.set_yticks(position, labels)
        self.ax_.invert_yaxis()
        self.ax_.set(xlim=(0, 1.02), xlabel="probability ± one standard deviation", ylabel="class")
        return self
