"""The estimators of ``python -m benchmarks tables``: this package's, and those beside it.

Each is told its number of threads where it can be. A regressor that predicts no spread gets one
level of noise: it is fitted to nine tenths of the rows, the level is the root mean square of its
errors on the others, and then it is fitted to all rows. RealMLP keeps a fifth of the rows to choose
its epoch, and the level is that of its errors there.
"""

from __future__ import annotations

import logging
import time
from importlib import import_module
from inspect import signature

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier, TAGIRegressor

from .classes_methods import METHODS as CLASSES
from .classes_methods import ten_mlps
from .methods import NEEDED, Method, cat_boost, gpr, mlp, ngboost, ridge

__all__ = ["CLASSIFIERS", "METHODS", "REGRESSORS", "HeldOutLevel", "make"]

HELD_OUT = 0.1  # of the rows, for a level of noise
HELD_OUT_TO_STOP = 0.2  # the default of RealMLP
LEAST_LEVEL = 1e-6  # of the std of the targets


class OneLevel(RegressorMixin, BaseEstimator):
    """Predictions of ``model_``, all with the noise ``level_``; members of it add their spread."""

    def predict(self, X, return_std=False):
        mean, spread = mean_and_spread(self.model_, X)
        return (mean, np.hypot(spread, self.level_)) if return_std else mean

    def learn_level(self, model, X, y, scale):
        """Learn the noise from rows that the model has not learned; ``scale`` is the targets'."""
        mean, spread = mean_and_spread(model, X)
        left = np.mean((y - mean) ** 2 - spread**2)
        self.level_ = np.sqrt(max(left, (LEAST_LEVEL * scale) ** 2))


class HeldOutLevel(OneLevel):
    """A regressor with a level of noise from held-out rows; it is then fitted to all rows.

    The seconds of the first fit are ``level_seconds_``, as ``clock`` counts them.
    """

    clock = staticmethod(time.perf_counter)

    def __init__(self, regressor, random_state=None):
        self.regressor = regressor
        self.random_state = random_state

    def fit(self, X, y):
        start = self.clock()
        X_fit, X_held, y_fit, y_held = train_test_split(
            X, y, test_size=HELD_OUT, random_state=self.random_state
        )
        self.learn_level(clone(self.regressor).fit(X_fit, y_fit), X_held, y_held, y.std())
        self.level_seconds_ = self.clock() - start
        self.model_ = clone(self.regressor).fit(X, y)
        return self


def mean_and_spread(model, X) -> tuple[np.ndarray, np.ndarray]:
    """Predictions, and the std among the members of an ensemble: zeros for other models."""
    if isinstance(model, VotingRegressor):
        members = model.transform(X)
        return members.mean(axis=1), members.std(axis=1)
    mean = model.predict(X)
    return mean, np.zeros(len(mean))


class RealMLP(OneLevel):
    """One network of pytabkit's RealMLP, with its tuned defaults."""

    def __init__(self, n_threads=1, random_state=None):
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(self, X, y):
        X_fit, X_held, y_fit, y_held = train_test_split(
            X, y, test_size=HELD_OUT_TO_STOP, random_state=self.random_state
        )
        network = real_mlp("RealMLP_TD_Regressor", self.random_state, self.n_threads)
        self.model_ = network.fit(X_fit, y_fit, X_held, y_held)
        self.learn_level(self.model_, X_held, y_held, y.std())
        return self


class UncertainCatBoost(RegressorMixin, BaseEstimator):
    """CatBoost that learns a mean and a variance of each row.

    With patience, its number of trees is chosen on held-out rows; then it is fitted to all rows.
    """

    def __init__(self, n_threads=1, random_state=None, patience=None):
        self.n_threads = n_threads
        self.random_state = random_state
        self.patience = patience

    def fit(self, X, y):
        params = {}
        if self.patience is not None:
            X_fit, X_held, y_fit, y_held = train_test_split(
                X, y, test_size=HELD_OUT_TO_STOP, random_state=self.random_state
            )
            trial = self._make(early_stopping_rounds=self.patience)
            trial.fit(X_fit, y_fit, eval_set=(X_held, y_held))
            params = {"iterations": trial.tree_count_}  # those up to the best
        self.model_ = self._make(**params).fit(X, y)
        return self

    def _make(self, **params):
        params["loss_function"] = "RMSEWithUncertainty"
        return cat_boost("CatBoostRegressor", self.random_state, self.n_threads, **params)

    def predict(self, X, return_std=False):
        mean, variance = self.model_.predict(X, prediction_type="RMSEWithUncertainty").T
        return (mean, np.sqrt(variance)) if return_std else mean


def real_mlp(kind: str, seed: int, threads: int):
    import pytabkit

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    return getattr(pytabkit, kind)(device="cpu", random_state=seed, n_threads=threads)


def ours(kind: type, seed: int, threads: int):
    """An estimator of this package with its defaults, told its threads if it takes them."""
    told = {"n_jobs": threads} if "n_jobs" in signature(kind).parameters else {}
    return kind(random_state=seed, **told)


def ten_regressors(seed: int, threads: int, n_features: int) -> VotingRegressor:
    members = [(str(k), mlp("", 10 * seed + k, n_features)) for k in range(10)]
    return VotingRegressor(members, n_jobs=threads)


# Arguments of all: a seed, a number of threads, a number of features.
REGRESSORS = {
    "sktagi": Method(lambda s, t, n: ours(TAGIRegressor, s, t), "`TAGIRegressor()`"),
    "HistGradientBoosting": Method(
        lambda s, t, n: HeldOutLevel(HistGradientBoostingRegressor(random_state=s), s),
        "`HistGradientBoostingRegressor()`, one level of noise from held-out rows",
        "scikit-learn",
    ),
    "CatBoost": Method(
        lambda s, t, n: HeldOutLevel(cat_boost("CatBoostRegressor", s, t), s),
        "`CatBoostRegressor()`, one level of noise from held-out rows",
        "catboost",
    ),
    "CatBoost uncertain": Method(
        lambda s, t, n: UncertainCatBoost(t, s),
        '`CatBoostRegressor(loss_function="RMSEWithUncertainty")`',
        "catboost",
    ),
    "CatBoost stopped": Method(
        lambda s, t, n: UncertainCatBoost(t, s, patience=50),
        "the same, the number of trees chosen on a fifth of the rows: 1000 trees, the default, "
        "learn too small a variance from few rows",
        "catboost",
    ),
    "NGBoost": Method(
        lambda s, t, n: ngboost("", s, n),
        "`NGBRegressor`, at most 2000 trees, their number chosen on a fifth of the rows",
        "ngboost",
    ),
    "GaussianProcess": Method(
        lambda s, t, n: gpr("", s, n),
        "`GaussianProcessRegressor`, constant times RBF with a length for each feature, plus white "
        "noise; features and target standardised; at most 1000 rows",
        "scikit-learn",
        max_rows=1000,
    ),
    "BayesianRidge": Method(
        lambda s, t, n: ridge("", s, n), "`BayesianRidge()`, features standardised", "scikit-learn"
    ),
    "MLP ensemble": Method(
        lambda s, t, n: HeldOutLevel(ten_regressors(s, t, n), s),
        "ten `MLPRegressor`s of 50 units, stopped early, features and target standardised: "
        "mean and spread, and one level of noise from held-out rows",
        "scikit-learn",
    ),
    "RealMLP": Method(
        lambda s, t, n: RealMLP(t, s),
        "pytabkit's `RealMLP_TD_Regressor()`, one network, one level of noise from the rows that "
        "it holds out",
        "pytabkit",
    ),
}
CLASSIFIERS = {
    "sktagi": Method(lambda s, t, n: ours(TAGIClassifier, s, t), "`TAGIClassifier()`"),
    "HistGradientBoosting": Method(
        lambda s, t, n: CLASSES["HistGradientBoosting"].make(s),
        "`HistGradientBoostingClassifier()`",
        "scikit-learn",
    ),
    "CatBoost": Method(
        lambda s, t, n: cat_boost("CatBoostClassifier", s, t), "`CatBoostClassifier()`", "catboost"
    ),
    "LogisticRegression": Method(
        lambda s, t, n: CLASSES["LogisticRegression"].make(s),
        "`LogisticRegression()`, features standardised",
        "scikit-learn",
    ),
    "MLP ensemble": Method(
        lambda s, t, n: ten_mlps(s, t),
        "ten `MLPClassifier`s of 50 units, stopped early, features standardised, averaged",
        "scikit-learn",
    ),
    "RealMLP": Method(
        lambda s, t, n: real_mlp("RealMLP_TD_Classifier", s, t),
        "pytabkit's `RealMLP_TD_Classifier()`, one network",
        "pytabkit",
    ),
}
METHODS = {"regression": REGRESSORS, "classes": CLASSIFIERS}


def make(kind: str, method: str, seed: int, threads: int, n_features: int):
    """An estimator; its package is imported already, so that no fit is charged with it."""
    about = METHODS[kind][method]
    if about.package not in NEEDED:
        import_module(about.package)
    return about.make(seed, threads, n_features)
