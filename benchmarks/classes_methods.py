"""The classifiers of ``python -m benchmarks classes``, and one fit of any of them."""

from __future__ import annotations

import argparse
import atexit
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIClassifier

from .checkouts import Checkout, folder_of
from .classes_rows import SHIPPED, rows_of, score
from .data import digest
from .harness import run, source
from .methods import cat_boost, has_package

__all__ = ["METHODS", "Method", "checkout_process", "installed", "results", "ten_mlps"]


class Method(NamedTuple):
    """How to make a classifier, and the package whose version counts."""

    make: Callable  # (seed, **parameters) -> classifier
    package: str = "scikit-learn"


def mlp(seed: int, max_iter: int = 500, **params):
    network = MLPClassifier((50,), max_iter=max_iter, random_state=seed, **params)
    return make_pipeline(StandardScaler(), network)


def ten_mlps(seed: int, n_jobs: int | None = None) -> VotingClassifier:
    stopped = {"batch_size": 64, "max_iter": 1000, "early_stopping": True, "n_iter_no_change": 20}
    members = [(str(k), mlp(10 * seed + k, **stopped)) for k in range(10)]
    return VotingClassifier(members, voting="soft", n_jobs=n_jobs)


METHODS = {
    "sktagi": Method(lambda seed, **params: TAGIClassifier(random_state=seed, **params), "sktagi"),
    "LogisticRegression": Method(
        lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    ),
    "HistGradientBoosting": Method(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
    "CatBoost": Method(partial(cat_boost, "CatBoostClassifier"), "catboost"),
    "ten MLPs": Method(ten_mlps),
    "MLP": Method(mlp),
}


def installed(method: str) -> bool:
    return has_package(METHODS[method].package)


def fit(
    data: str | None,
    rows: str,
    split: int,
    method: str,
    seed: int = 0,
    how: dict | None = None,
    params: dict | None = None,
    checkout: str | None = None,
) -> dict:
    """Scores on new rows; ``how`` the rows are made. With a checkout, those of its package."""
    if checkout is not None:
        arguments = (data, rows, split, method, seed, how, params)
        return checkout_process(checkout).call(fit, *arguments)
    found = rows_of(data, rows, split, **(how or {}))
    model = METHODS[method].make(seed, **(params or {}))
    start = time.process_time()
    model.fit(found.X, found.y)
    result = {"seconds": time.process_time() - start}
    result |= score(model.predict_proba(found.X_new), found.y_new)
    if rows in SHIPPED:  # images of digits, and other rows that are like nothing that was learned
        result |= _unlike(model, found.X, seed)
    if found.p_new is not None:
        result |= _beside_truth(model, found.X_new, found.p_new)
    return result


def _unlike(model, X: np.ndarray, seed: int) -> dict:
    """Mean top probability of rows that are noise in the range of X, and of X inverted."""
    low, high = X.min(axis=0), X.max(axis=0)
    noise = np.random.default_rng([seed, 2]).uniform(X.min(), X.max(), size=(1000, X.shape[1]))
    tops = {"noise": noise, "inverted": low.min() + high.max() - X[:1000]}
    return {f"top of {of}": float(model.predict_proba(x).max(axis=1).mean())
            for of, x in tops.items()}  # fmt: skip


DECILES = np.linspace(-2, 2, 11)  # of the one feature


def _beside_truth(model, X: np.ndarray, p: np.ndarray) -> dict:
    """How far the probability of class 1 is from the truth; with its std, how often within two."""
    found, std = model.predict_proba(X)[:, 1], None
    if isinstance(model, TAGIClassifier):
        std = model.predict_proba(X, return_std=True)[1][:, 1]
    bounded = np.clip(found, 1e-15, 1 - 1e-15)
    excess = p * np.log(p / bounded) + (1 - p) * np.log((1 - p) / (1 - bounded))
    at = model.predict_proba(DECILES[:, None])[:, 1].tolist() if X.shape[1] == 1 else None
    return {
        "rmse": float(np.sqrt(np.mean((found - p) ** 2))),
        "excess": float(excess.mean()),  # log-loss minus that of the truth
        "inside": None if std is None else float(np.mean(np.abs(found - p) <= 2 * std)),
        "std": None if std is None else float(std.mean()),
        "deciles": at,
    }


@cache
def checkout_process(checkout: str) -> Checkout:
    process = Checkout(Path(checkout), OPENBLAS_NUM_THREADS="1")
    atexit.register(process.__exit__)
    return process


@cache
def _digest(data: str | None, rows: str) -> str:
    return digest(*rows_of(data, rows, 0)[:4])


def results(
    args: argparse.Namespace,
    rows: str,
    splits: Sequence[int],
    method: str,
    seeds: Sequence[int] | None = None,
    how: dict | None = None,
    params: dict | None = None,
) -> list[dict]:
    """The results of all splits; the method "before" is the package of ``args.before``.

    The seed of a classifier is its split unless seeds are given.
    """
    before = str(folder_of(args.before)) if method == "before" else None
    about = {"package": METHODS[method].package if before is None else "scikit-learn"}
    if before:
        about["source"] = source(Path(before) / "sktagi")
    if how is None:
        about["data"] = _digest(args.data, rows)
    given = {"how": how, "params": params, "checkout": before}
    jobs = [
        {"rows": rows, "split": split, "seed": seed, "method": "sktagi" if before else method,
         **{name: value for name, value in given.items() if value}, "about": about}
        for split, seed in zip(splits, seeds or splits, strict=True)
    ]  # fmt: skip
    return [record["result"] for record in run("classes", fit, jobs, args)]
