"""EntropyDisplay: what is not known of classes, beside what is left to chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._any_estimator import fitted_part
from .._labels import as_labels
from ._common import column, draw_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..metrics._scorers import MatrixLike

__all__ = ["EntropyDisplay"]


class EntropyDisplay:
    """Entropy of predicted classes: what chance leaves, and what the network does not know.

    Each row is a point. To the right are rows whose class is left to chance: classes overlap there,
    and more data will not tell them apart. Further up are rows of which the network knows little:
    unlike the data it has learned, or between too few of them. The dotted line is the entropy of
    classes that are all equally likely, the most that the two parts can add up to.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    epistemic, aleatoric : ndarray of shape (n_samples,)
        The parts of the entropy, in nats.

    is_wrong : ndarray of bool of shape (n_samples,), default=None
        Rows whose predicted class is wrong, which have a mark of their own.

    n_classes : int, default=None
        Number of classes, for the dotted line.

    Attributes
    ----------
    points_ : matplotlib PathCollection
        All rows; with ``is_wrong`` those that are right.

    wrong_ : matplotlib PathCollection or None
        Rows that are wrong.

    bound_ : matplotlib Line2D or None
        The largest entropy.

    ax_ : matplotlib Axes
        Axes with the points.

    figure_ : matplotlib Figure
        Figure that contains the axes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktagi import TAGIClassifier
    >>> from sktagi.plotting import EntropyDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAGIClassifier(max_iter=20, random_state=0).fit(X, y)
    >>> display = EntropyDisplay.from_estimator(model, X, y)
    >>> display.ax_.get_ylabel()
    'not known (epistemic), nats'
    """

    def __init__(
        self,
        epistemic: np.ndarray,
        aleatoric: np.ndarray,
        *,
        is_wrong: np.ndarray | None = None,
        n_classes: int | None = None,
    ) -> None:
        self.epistemic = epistemic
        self.aleatoric = aleatoric
        self.is_wrong = is_wrong
        self.n_classes = n_classes

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the parts of the entropy that a fitted estimator predicts.

        Parameters
        ----------
        estimator : TAGIClassifier
            A fitted classifier, or a pipeline or a search that ends in one.

        X : array-like of shape (n_samples, n_features)
            Rows.

        y : array-like of shape (n_samples,), default=None
            Observed classes of these rows, to mark wrong predictions.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.scatter``.

        Returns
        -------
        display : EntropyDisplay
            The display, plotted.
        """
        model, rows = fitted_part(estimator), X
        if hasattr(model, "named_steps"):
            model, rows = model[-1], model[:-1].transform(rows) if len(model) > 1 else rows
        if not hasattr(model, "predict_entropy"):
            raise TypeError(
                f"{type(model).__name__} has no predict_entropy, as TAGIClassifier has."
            )
        epistemic, aleatoric = model.predict_entropy(rows)
        if epistemic.ndim > 1:
            raise ValueError("An entropy display is for classes, not for several labels of a row.")
        is_wrong = None
        if y is not None:
            observed = np.asarray(as_labels(y)).tolist()
            predicted = model.predict(rows).tolist()
            is_wrong = np.array([a != b for a, b in zip(predicted, observed, strict=True)])
        return cls.from_predictions(
            epistemic, aleatoric, is_wrong=is_wrong, n_classes=len(model.classes_), ax=ax, **kwargs
        )

    @classmethod
    def from_predictions(
        cls,
        epistemic: ArrayLike,
        aleatoric: ArrayLike,
        *,
        is_wrong: ArrayLike | None = None,
        n_classes: int | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot parts of entropies, as ``predict_entropy`` returns them.

        Parameters
        ----------
        epistemic, aleatoric : array-like of shape (n_samples,)
            The parts of the entropy, in nats.

        is_wrong : array-like of bool of shape (n_samples,), default=None
            Rows whose predicted class is wrong.

        n_classes : int, default=None
            Number of classes, for a line where the parts add up to the largest entropy.

        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.scatter``.

        Returns
        -------
        display : EntropyDisplay
            The display, plotted.
        """
        epistemic, aleatoric = column(epistemic, "epistemic"), column(aleatoric, "aleatoric")
        wrong = None if is_wrong is None else np.asarray(is_wrong, dtype=bool)
        others = [aleatoric] if wrong is None else [aleatoric, wrong]
        are_same_rows = all(other.shape == epistemic.shape for other in others)
        if not are_same_rows or min(epistemic.min(), aleatoric.min()) < 0:
            raise ValueError(
                "epistemic, aleatoric and is_wrong must be of the same rows, and entropies not "
                "negative."
            )
        return cls(epistemic, aleatoric, is_wrong=wrong, n_classes=n_classes).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Plot the points.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; by default those of a new figure.

        **kwargs : dict
            Arguments of ``matplotlib.axes.Axes.scatter``.

        Returns
        -------
        display : EntropyDisplay
            The display itself.
        """
        self.figure_, self.ax_ = draw_on(ax)
        wrong = np.zeros(len(self.epistemic), bool) if self.is_wrong is None else self.is_wrong
        style: dict[str, Any] = {"s": 14, "color": "0.6", "edgecolor": "0.3", "linewidth": 0.5}
        self.points_ = self.ax_.scatter(
            self.aleatoric[~wrong], self.epistemic[~wrong],
            **{**style, "label": None if self.is_wrong is None else "right", **kwargs},
        )  # fmt: skip
        self.wrong_ = None
        if self.is_wrong is not None:
            self.wrong_ = self.ax_.scatter(
                self.aleatoric[wrong], self.epistemic[wrong], s=30, color="C3", marker="x",
                label="wrong",
            )  # fmt: skip
        self.bound_ = None
        if self.n_classes is not None:
            most = float(np.log(self.n_classes))
            (self.bound_,) = self.ax_.plot([0, most], [most, 0], ":", color="0.4", linewidth=1,
                                           label="all classes equally likely")  # fmt: skip
        self.ax_.set(xlabel="chance (aleatoric), nats", ylabel="not known (epistemic), nats")
        self.ax_.set_xlim(left=0)
        self.ax_.set_ylim(bottom=0)
        if self.ax_.get_legend_handles_labels()[1]:
            self.ax_.legend()
        return self
