"""The compared regressors: this package in three settings, and others.

Nothing is chosen on the test rows of a split, except the sigma_v of "paper": the paper's average is
over all splits, and their training parts hold the test rows of one another. All networks have one
hidden layer of 50 units (protein 100).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIRegressor
from sktagi.metrics import log_likelihood_scorer

from .published import PAPER

__all__ = ["METHODS", "NEEDED", "PAPER_SETTING", "SIGMA_V_GRID", "Method", "StoppedNGBoost",
           "cat_boost", "gpr", "has_package", "installed", "mlp", "ngboost", "ridge",
           "settings"]  # fmt: skip

PAPER_SETTING = dict(
    batch_size=10, batch_inference="independent", half_life=None, n_members=1,
    early_stopping=False, max_iter=40,
)  # fmt: skip
NEEDED = ("sktagi", "scikit-learn")  # packages that are always there
# In units of the standardised target; the paper's averages are between 0.07 and 0.74.
SIGMA_V_GRID = (0.03, 0.05, 0.08, 0.125, 0.2, 0.315, 0.5, 0.8)


class Method(NamedTuple):
    """How to make an estimator, and what to know about it."""

    make: Callable  # of METHODS: (set, seed, number of features) -> regressor
    note: str
    package: str = "sktagi"
    has_std: bool = True
    max_rows: float = np.inf
    cost: float = 1.0  # about, relative to "paper"; times rows ** growth in all
    growth: float = 1.0


def hidden(name: str) -> tuple[int]:
    return (100,) if name == "protein" else (50,)


def default(name: str, seed: int, n_features: int) -> TAGIRegressor:
    return TAGIRegressor(random_state=seed)


def paper(name: str, seed: int, n_features: int) -> TAGIRegressor:
    sigma_v = PAPER[name].sigma_v
    return TAGIRegressor(hidden(name), sigma_v=sigma_v, random_state=seed, **PAPER_SETTING)


def paper_cv(name: str, seed: int, n_features: int) -> GridSearchCV:
    folds = KFold(5, shuffle=True, random_state=seed)
    return GridSearchCV(
        paper(name, seed, n_features), {"sigma_v": list(SIGMA_V_GRID)}, cv=folds,
        scoring=log_likelihood_scorer,
    )  # fmt: skip


def mlp(name: str, seed: int, n_features: int) -> TransformedTargetRegressor:
    network = MLPRegressor(
        hidden_layer_sizes=hidden(name), batch_size=64, max_iter=1000, early_stopping=True,
        n_iter_no_change=20, random_state=seed,
    )  # fmt: skip
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )


def gpr(name: str, seed: int, n_features: int):
    kernel = ConstantKernel() * RBF(np.ones(n_features)) + WhiteKernel()
    return make_pipeline(
        StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    )


def ridge(name: str, seed: int, n_features: int):
    return make_pipeline(StandardScaler(), BayesianRidge())


class StoppedNGBoost(RegressorMixin, BaseEstimator):
    """NGBoost whose number of trees is chosen on held-out rows; then it is fitted to all rows."""

    def __init__(self, n_estimators=2000, validation_fraction=0.2, patience=50, random_state=None):
        self.n_estimators = n_estimators
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state

    def fit(self, X, y):
        from ngboost import NGBRegressor

        common = {"random_state": self.random_state, "verbose": False}
        X_fit, X_held, y_fit, y_held = train_test_split(
            X, y, test_size=self.validation_fraction, random_state=self.random_state
        )
        trial = NGBRegressor(n_estimators=self.n_estimators, **common)
        trial.fit(X_fit, y_fit, X_held, y_held, early_stopping_rounds=self.patience)
        best = trial.best_val_loss_itr
        self.n_iter_ = self.n_estimators if best is None else best + 1
        self.model_ = NGBRegressor(n_estimators=self.n_iter_, **common).fit(X, y)
        return self

    def predict(self, X, return_std=False):
        normal = self.model_.pred_dist(X)
        return (normal.loc, normal.scale) if return_std else normal.loc


def ngboost(name: str, seed: int, n_features: int) -> StoppedNGBoost:
    return StoppedNGBoost(random_state=seed)


def cat_boost(kind: str, seed: int, threads: int = 1, **params):
    """CatBoost's estimator of that name, without messages and files."""
    import catboost

    return getattr(catboost, kind)(
        random_seed=seed, thread_count=threads, verbose=False, allow_writing_files=False, **params
    )


METHODS = {
    "default": Method(default, "`TAGIRegressor` with its defaults", cost=25),
    "paper": Method(
        paper, "the paper's procedure (batches of 10, 40 epochs, one network) with its average "
        "sigma_v of each set",
    ),
    "paper-cv": Method(
        paper_cv, "the paper's procedure with sigma_v from "
        f"{', '.join(map(str, SIGMA_V_GRID))} (standardised target), by the log-likelihood in "
        "5-fold cross-validation on the training rows (`GridSearchCV`)", cost=33,
    ),
    "mlp": Method(
        mlp, "`MLPRegressor`, features and target standardised, batches of 64, at most 1000 "
        "epochs, stopped early on a tenth of the training rows after 20 epochs without a gain; it "
        "predicts no spread, so it has no log-likelihood", "scikit-learn", has_std=False, cost=3,
    ),
    "gpr": Method(
        gpr, "`GaussianProcessRegressor`, features and target standardised, constant times RBF "
        "with one length for each feature, plus white noise; on sets of at most 1000 training rows",
        "scikit-learn", max_rows=1000, cost=1e-4, growth=3,
    ),
    "ridge": Method(ridge, "`BayesianRidge`, features standardised", "scikit-learn", cost=0.01),
    "ngboost": Method(
        ngboost, "NGBoost's defaults, the number of trees (at most 2000) chosen on a fifth of the "
        "training rows, then fitted to all of them", "ngboost", cost=40,
    ),
}  # fmt: skip


def has_package(package: str) -> bool:
    """Whether a package can be imported."""
    return package in NEEDED or find_spec(package) is not None


def installed(method: str) -> bool:
    return has_package(METHODS[method].package)


def settings(model: BaseEstimator) -> dict:
    """The parameters of a model, and of those inside it, as JSON."""
    return {
        name: value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
        for name, value in sorted(model.get_params().items())
        if not isinstance(value, BaseEstimator) and not name.endswith("steps")
    }
