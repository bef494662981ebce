"""The estimators as models of river: rows are dicts, one at a time or many in a frame."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

try:
    from river import base, proba
except ImportError as error:  # pragma: no cover
    raise ImportError("sktagi.river needs river: pip install sktagi[river]") from error

from ._base import BaseTAGI
from ._classifier import TAGIClassifier as _Classifier
from ._growing import add_classes, add_features
from ._labels import distinct_labels
from ._regressor import TAGIRegressor as _Regressor

__all__ = ["TAGIClassifier", "TAGIRegressor"]

FIRST_CLASSES = 4  # outputs of a classifier that nobody told its classes; twice as many if needed


class _Model:
    """Features by name, and the estimator that learns them."""

    _estimator: Any  # None before the first row

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] | Literal["auto"] = "auto",
        activation: str = "relu",
        *,
        sigma_v: float | Literal["auto", "constant"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        half_life: float | Literal["auto"] | None = "auto",
        n_members: int | Literal["auto"] = "auto",
        standardize: bool = True,
        weight_gain: float = 1.0,
        bias_variance: float = 0.01,
        seed: int | None = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.sigma_v = sigma_v
        self.batch_size = batch_size
        self.half_life = half_life
        self.n_members = n_members
        self.standardize = standardize
        self.weight_gain = weight_gain
        self.bias_variance = bias_variance
        self.seed = seed
        self._estimator = None
        self._places: dict[Hashable, int] = {}  # of the features, by name

    @property
    def estimator(self) -> Any:
        """The estimator of sktagi that has learned the rows; None before the first one."""
        return self._estimator

    def _params(self) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        names = (
            "hidden_layer_sizes", "activation", "sigma_v", "batch_size", "half_life", "n_members",
            "standardize", "weight_gain", "bias_variance",
        )  # fmt: skip
        return {**{name: getattr(self, name) for name in names}, "random_state": self.seed}

    def _with_features(
        self, names: Iterable[Hashable]
    ) -> tuple[BaseTAGI | None, dict[Hashable, int]]:
        """Return the estimator, and the places of all features, with those that are new."""
        new = sorted((name for name in names if name not in self._places), key=str)
        if not new:
            return self._estimator, self._places
        n_old = len(self._places)
        places = {**self._places, **{name: n_old + k for k, name in enumerate(new)}}
        if self._estimator is None:
            return None, places
        return add_features(self._estimator, len(new)), places

    @staticmethod
    def _row(x: dict[Any, Any], places: dict[Hashable, int]) -> np.ndarray:
        """Return the features of a row, (1, n); one that it does not have is missing."""
        row = np.full((1, len(places)), np.nan)
        for name, value in x.items():
            place = places.get(name)
            if place is not None and not _is_missing(value):
                row[0, place] = _number(name, value)
        return row

    @staticmethod
    def _rows(X: Any, places: dict[Hashable, int]) -> np.ndarray:
        """Return the features of a frame, (rows, n); one that it does not have is missing."""
        if not X.columns.is_unique:
            raise ValueError("X must have distinct names of columns.")
        rows = np.full((len(X), len(places)), np.nan)
        for name in X.columns:
            if name in places:
                values = X[name]
                if values.dtype.kind in "biuf":
                    rows[:, places[name]] = values.to_numpy(float, na_value=np.nan)
                else:  # with None or text
                    known = np.flatnonzero(values.notna())
                    rows[known, places[name]] = [_number(name, v) for v in values.iloc[known]]
        return rows

    @staticmethod
    def _weight(w: float, n_rows: int) -> np.ndarray | None:
        return None if w == 1 else np.full(n_rows, w, dtype=float)


class TAGIRegressor(_Model, base.MiniBatchRegressor):
    """`sktagi.TAGIRegressor` as a regressor of river.

    Features come by name. One that was not there before is missing in all earlier rows, and a row
    without one that was there before has a missing value: it is predicted, with a larger standard
    deviation. Values are numbers or truth values; categories go through river's ``OneHotEncoder``
    first. There is no need for a scaler.

    Parameters
    ----------
    hidden_layer_sizes : "auto", int or sequence of int, default="auto"
        Units of each hidden layer; "auto" is one layer of 50.

    activation : str, default="relu"
        Activation of the hidden units.

    sigma_v : "auto", "constant" or float, default="auto"
        Standard deviation of the noise: learned for each row, learned as one number, or given in
        units of the standardised target.

    batch_size : int or "auto", default="auto"
        Rows that ``learn_many`` learns at once.

    half_life : float, "auto" or None, default="auto"
        Rows after which evidence counts half; None for never.

    n_members : int or "auto", default="auto"
        Networks side by side; "auto" is ten. Two are faster.

    standardize : bool, default=True
        Scale features and target by running statistics.

    weight_gain : float, default=1.0
        Factor of the prior variance of weights.

    bias_variance : float, default=0.01
        Prior variance of biases.

    seed : int, default=None
        Seed of the prior's draws.

    Examples
    --------
    >>> from river import datasets
    >>> from sktagi.river import TAGIRegressor
    >>> model = TAGIRegressor(n_members=2, seed=0)
    >>> for x, y in datasets.TrumpApproval().take(200):
    ...     model.learn_one(x, y)
    >>> x, y = next(iter(datasets.TrumpApproval()))
    >>> dist = model.predict_one(x, with_dist=True)
    >>> print(f"{dist.mu:.0f}, give or take {dist.sigma:.0f}; it was {y:.0f}")
    43, give or take 1; it was 44
    """

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn a row.

        Parameters
        ----------
        x : dict
            Features by name; None and NaN are missing values.

        y : float
            The target.

        w : float, default=1.0
            Weight of the row.
        """
        estimator, places = self._with_features(_checked_row(x))
        self._learn(estimator, places, self._row(x, places), _numbers([y]), w)

    def learn_many(self, X: Any, y: Any, w: float = 1.0) -> None:
        """Learn a mini-batch: its rows at once, better than one by one, and faster.

        Parameters
        ----------
        X : pandas.DataFrame
            Features.

        y : pandas.Series
            Targets, in the order of X.

        w : float, default=1.0
            Weight of each row.
        """
        estimator, places = self._with_features(_checked_frame(X).columns)
        targets = _numbers(_checked_targets(y, len(X)))
        self._learn(estimator, places, self._rows(X, places), targets, w)

    def _learn(self, estimator: Any, places: dict[Hashable, int], X: Any, y: Any, w: float) -> None:
        if _checked_weight(w) == 0 or not X.size:
            return
        model = _Regressor(**self._params()) if estimator is None else estimator
        model.partial_fit(X, y, sample_weight=self._weight(w, len(X)))
        self._estimator, self._places = model, places

    def predict_one(self, x: dict[Any, Any], with_dist: bool = False) -> Any:
        """Predict the target of a row.

        Parameters
        ----------
        x : dict
            Features by name.

        with_dist : bool, default=False
            Whether to return a distribution.

        Returns
        -------
        prediction : float or river.proba.Gaussian
            The mean, 0.0 before anything was learned, or the Gaussian with its standard deviation.
        """
        x = _checked_row(x)
        if self._estimator is None:
            return _gaussian(0.0, 1.0) if with_dist else 0.0
        row = self._row(x, self._places)
        if not with_dist:
            return float(self._estimator.predict(row)[0])
        mean, std = self._estimator.predict(row, return_std=True)
        return _gaussian(float(mean[0]), float(std[0]))

    def predict_many(self, X: Any) -> Any:
        """Predict the targets of a mini-batch.

        Parameters
        ----------
        X : pandas.DataFrame
            Features.

        Returns
        -------
        prediction : pandas.Series
            The means, with the index of X.
        """
        import pandas as pd

        values: Any = np.zeros(len(_checked_frame(X)))
        if self._estimator is not None and len(X):
            values = self._estimator.predict(self._rows(X, self._places))
        return pd.Series(values, index=X.index, dtype=float)

    def _unit_test_skips(self) -> set[str]:
        # As in river's linear models: rows of a mini-batch are learned at once.
        return {"check_learn_many_matches_learn_one"}

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"hidden_layer_sizes": (5,), "n_members": 1, "seed": 0}


class TAGIClassifier(_Model, base.MiniBatchClassifier):
    """`sktagi.TAGIClassifier` as a classifier of river.

    Features come by name, as in `TAGIRegressor`. A class may come at any time. Without ``classes``
    there are four outputs at first, and twice as many when they are used up; an output that has no
    class yet has learned which rows it is not. With ``classes`` the numbers are those of
    ``partial_fit`` of `sktagi.TAGIClassifier` with the same classes.

    Parameters
    ----------
    hidden_layer_sizes : "auto", int or sequence of int, default="auto"
        Units of each hidden layer; "auto" is one layer of 50.

    activation : str, default="relu"
        Activation of the hidden units.

    classes : list, default=None
        All classes, if they are known.

    batch_size : int or "auto", default="auto"
        Rows that ``learn_many`` learns at once.

    half_life : float, "auto" or None, default="auto"
        Rows after which evidence counts half; None for never.

    n_members : int or "auto", default="auto"
        Networks side by side; "auto" is ten. Two are faster.

    standardize : bool, default=True
        Scale features by running statistics.

    weight_gain : float, default=1.0
        Factor of the prior variance of weights.

    bias_variance : float, default=0.01
        Prior variance of biases.

    seed : int, default=None
        Seed of the prior's draws.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from sktagi.river import TAGIClassifier
    >>> model = TAGIClassifier(n_members=2, seed=0)
    >>> stream = datasets.Phishing().take(300)
    >>> evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get() > 0.8
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] | Literal["auto"] = "auto",
        activation: str = "relu",
        *,
        classes: Sequence[Hashable] | None = None,
        batch_size: int | Literal["auto"] = "auto",
        half_life: float | Literal["auto"] | None = "auto",
        n_members: int | Literal["auto"] = "auto",
        standardize: bool = True,
        weight_gain: float = 1.0,
        bias_variance: float = 0.01,
        seed: int | None = None,
    ):
        super().__init__(
            hidden_layer_sizes, activation, batch_size=batch_size, half_life=half_life,
            n_members=n_members, standardize=standardize, weight_gain=weight_gain,
            bias_variance=bias_variance, seed=seed,
        )  # fmt: skip
        self.classes = classes
        self._numbers: dict[Hashable, int] = {}  # of the classes so far
        if classes is not None:
            labels = distinct_labels(np.array([*classes, None], dtype=object)[:-1]).tolist()
            self._numbers = {label: number for number, label in enumerate(labels)}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Hashable, w: float = 1.0) -> None:
        """Learn a row.

        Parameters
        ----------
        x : dict
            Features by name; None and NaN are missing values.

        y : label
            The class.

        w : float, default=1.0
            Weight of the row.
        """
        estimator, places = self._with_features(_checked_row(x))
        self._learn(estimator, places, self._row(x, places), [y], w)

    def learn_many(self, X: Any, y: Any, w: float = 1.0) -> None:
        """Learn a mini-batch: its rows at once, better than one by one, and faster.

        Parameters
        ----------
        X : pandas.DataFrame
            Features.

        y : pandas.Series
            Classes, in the order of X.

        w : float, default=1.0
            Weight of each row.
        """
        estimator, places = self._with_features(_checked_frame(X).columns)
        self._learn(estimator, places, self._rows(X, places), _checked_targets(y, len(X)), w)

    def _learn(
        self, estimator: Any, places: dict[Hashable, int], X: Any, y: list[Any], w: float
    ) -> None:
        if _checked_weight(w) == 0 or not X.size:
            return
        numbers = self._numbers_with(y)
        if estimator is None:
            n_outputs = len(numbers) if self.classes is not None else _n_outputs(len(numbers))
            params = {k: v for k, v in self._params().items() if k != "sigma_v"}
            model, classes = _Classifier(**params), np.arange(n_outputs)
        else:
            model, classes = estimator, None
            if len(numbers) > len(model.classes_):
                model = add_classes(model, _n_outputs(len(numbers)))
        labels = np.array([numbers[label] for label in y])
        model.partial_fit(X, labels, classes, sample_weight=self._weight(w, len(X)))
        self._estimator, self._places, self._numbers = model, places, numbers

    def _numbers_with(self, y: list[Any]) -> dict[Hashable, int]:
        """Return the numbers of all classes, with those that are new in ``y``."""
        numbers = self._numbers
        for label in y:
            if not _is_label(label):
                raise ValueError(f"y must be a class; got {_short(label)}.")
            if label not in numbers:
                if label != label:
                    raise ValueError(f"y must be a class; got {label!r}.")
                if self.classes is not None:
                    raise ValueError(f"y is {label!r}, which is not in classes {self.classes!r}.")
                label = label.item() if isinstance(label, np.generic) else label
                numbers = {**numbers, label: len(numbers)}
        return numbers

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probabilities of the classes for a row.

        Parameters
        ----------
        x : dict
            Features by name.

        **kwargs : dict
            Not used.

        Returns
        -------
        proba : dict
            The probability of each class so far; empty before anything was learned.
        """
        x = _checked_row(x)
        if self._estimator is None:
            return {}
        proba = self._proba(self._row(x, self._places))[0]
        return dict(zip(self._numbers, proba.tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Predict the probabilities of the classes for a mini-batch.

        Parameters
        ----------
        X : pandas.DataFrame
            Features.

        Returns
        -------
        proba : pandas.DataFrame
            A column for each class so far, with the index of X.
        """
        import pandas as pd

        X = _checked_frame(X)
        if self._estimator is None:
            return pd.DataFrame(index=X.index)
        proba = self._proba(self._rows(X, self._places))
        return pd.DataFrame(proba, index=X.index, columns=list(self._numbers))

    def _proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities, given that it is one of the classes so far."""
        n_classes = len(self._numbers)
        if not len(X):
            return np.empty((0, n_classes))
        log_proba = self._estimator.predict_log_proba(X)[:, :n_classes]
        proba = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True)

    def _unit_test_skips(self) -> set[str]:
        # As in river's linear models: rows of a mini-batch are learned at once.
        return {"check_learn_many_matches_learn_one"}

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"hidden_layer_sizes": (5,), "n_members": 1, "seed": 0}


def _n_outputs(n_classes: int) -> int:
    """Return the number of outputs for so many classes: there is room for more."""
    n_outputs = FIRST_CLASSES
    while n_outputs < n_classes:
        n_outputs *= 2
    return n_outputs


def _number(name: Any, value: Any) -> float:
    """Return the value of a feature; refuse what is not a number."""
    number = _float(value)
    if number is None:
        raise ValueError(
            f"Feature {name!r} must be a number, True, False or None; got {_short(value)}. river's "
            "OneHotEncoder makes numbers of categories."
        )
    return number


# Checks of what users give


def _float(value: Any) -> float | None:
    if isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # an integer may be too large
        return None


def _numbers(y: list[Any]) -> np.ndarray:
    """Return targets of a regression; refuse what is not a number."""
    numbers = [_float(value) for value in y]
    if None in numbers:
        raise ValueError(f"y must be a number; got {_short(y[numbers.index(None)])}.")
    return np.array(numbers, dtype=np.float64)


def _short(value: Any) -> str:
    """Return a value as a text of bounded length."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # an integer with thousands of digits
        return f"a {type(value).__name__}"


def _is_missing(value: Any) -> bool:
    pandas = sys.modules.get("pandas")  # if nobody has imported it, there is no NA
    return value is None or (pandas is not None and value is pandas.NA)


def _is_label(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return not _is_missing(value)


def _checked_row(x: Any) -> Any:
    if not isinstance(x, Mapping):
        raise ValueError(f"x must be a dict of features by name; got {_short(x)}.")
    return x


def _checked_frame(X: Any) -> Any:
    if not (hasattr(X, "columns") and hasattr(X, "index")):
        raise ValueError(f"X must be a pandas frame, whose columns are features; got {_short(X)}.")
    return X


def _checked_targets(y: Any, n_rows: int) -> list[Any]:
    """Return the targets of a mini-batch."""
    if isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
        raise ValueError(f"y must be a series, with a value for each row of X; got {_short(y)}.")
    targets = list(y)
    if len(targets) != n_rows:
        raise ValueError(f"y has {len(targets)} values, and X has {n_rows} rows.")
    return targets


def _checked_weight(w: Any) -> float:
    weight = _float(w)
    if weight is None or not 0 <= weight < np.inf:
        raise ValueError(f"w must be a number >= 0; got {_short(w)}.")
    return weight


def _gaussian(mean: float, std: float) -> Any:
    return proba.Gaussian._from_state(n=1, m=mean, var=std**2, ddof=0)
