"""Probabilities of classes."""

from __future__ import annotations

import numpy as np

from .._predictions import fitted_part
from ._common import draw_on

__all__ = ["ClassProbabilityDisplay"]


class ClassProbabilityDisplay:
    """Class probabilities of one row, with error bars.

    The bars of error are one standard deviation long on either side, cut off at 0 and 1. Make it
    with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    proba, std : ndarray of shape (n_classes,)
        Probabilities and their standard deviations.

    classes : ndarray of shape (n_classes,)
        Class labels.

    true_class : object, default=None
        Label of the class that was observed, whose bar is hatched.

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

    def __init__(self, proba, std, classes, *, true_class=None):
        self.proba = proba
        self.std = std
        self.classes = classes
        self.true_class = true_class

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, row=0, ax=None, **kwargs):
        """Predict one row and draw.

        Parameters
        ----------
        estimator : TAGIClassifier
            Fitted; or a pipeline or a search that ends in one.

        X : array-like of shape (n_samples, n_features)
            Rows.

        y : array-like of shape (n_samples,), default=None
            Their classes.

        row : int, default=0
            Number of the row that is shown.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``barh``.

        Returns
        -------
        display : ClassProbabilityDisplay
            The drawn display.
        """
        model = fitted_part(estimator)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if not isinstance(row, (int, np.integer)) or not -n_rows <= row < n_rows:
            raise ValueError(f"row must be the number of a row, below {n_rows}; got {row!r}.")
        row = int(row) % n_rows
        try:
            proba, std = model.predict_proba(X[row : row + 1], return_std=True)
        except (TypeError, AttributeError) as error:
            if "return_std" not in str(error) and "predict_proba" not in str(error):
                raise
            raise TypeError(
                "Standard deviations are needed: predict_proba(X, return_std=True) must return "
                "two arrays, as that of TAGIClassifier and pipelines that end in one does; that "
                f"of {type(model).__name__} does not."
            ) from error
        true_class = None if y is None else list(y)[row]
        return cls.from_predictions(
            proba[0], std[0], classes=model.classes_, true_class=true_class, ax=ax, **kwargs
        )

    @classmethod
    def from_predictions(cls, proba, std, *, classes=None, true_class=None, ax=None, **kwargs):
        """Draw the probabilities of one row.

        Parameters
        ----------
        proba, std : array-like of shape (n_classes,)
            Probabilities and their standard deviations.

        classes : array-like of shape (n_classes,), default=None
            Class labels; None numbers them.

        true_class : object, default=None
            Label of the class that was observed, whose bar is hatched.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``barh``.

        Returns
        -------
        display : ClassProbabilityDisplay
            The drawn display.
        """
        proba, std = np.asarray(proba, dtype=float), np.asarray(std, dtype=float)
        classes = np.arange(len(proba)) if classes is None else classes
        if proba.ndim != 1 or not proba.shape == std.shape == (len(classes),):
            raise ValueError(
                "proba, std and classes must be those of one row, of the same length; got shapes "
                f"{proba.shape}, {std.shape} and {(len(classes),)}."
            )
        return cls(proba, std, classes, true_class=true_class).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw what the display holds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.

        **kwargs : dict
            Passed on to ``barh`` of matplotlib.

        Returns
        -------
        display : ClassProbabilityDisplay
            This display.
        """
        self.figure_, self.ax_ = draw_on(ax)
        labels = [str(label) for label in self.classes]
        position = np.arange(len(labels))
        style = {"color": "0.8", "edgecolor": "0.3"}
        self.bars_ = self.ax_.barh(position, self.proba, **{**style, **kwargs})
        # A probability cannot be off beyond 0 or 1.
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
