"""Rows and scores of ``python -m benchmarks distribution``: made rows of known truth, and tables.

Tables give inner splits only: the test part of a standard split is not used, its training part is
divided again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes

from .data import UCI, digest, load_uci

__all__ = ["LEVEL", "MAKERS", "MOST", "N_NEW", "TABLES", "Made", "inner_rows", "made_rows",
           "median", "n_splits", "outcome", "percent", "score", "table_digest",
           "uci_and_tables"]  # fmt: skip

LEVEL = 0.9  # of intervals
N_NEW = 4000  # rows that were not learned, of made data
MOST_ROWS = 3000  # to learn from, of a table
MOST = 0.95  # share of new rows that have the smallest std
TABLES = {
    "autos": 159, "breastcancer": 194, "concreteslump": 103, "forest": 517, "keggdirected": 48_827,
    "keggundirected": 63_608, "machine": 209, "pendulum": 630, "servo": 167, "solar": 1066,
    "tamielectric": 45_781,
}  # fmt: skip


class Made(NamedTuple):
    """Rows, and the mean and the standard deviation that their targets were drawn with."""

    X: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def generated(rng: np.random.Generator, n_rows: int) -> Made:
    """sin(2 x0) + 0.3 x1, and noise of 0.1 for x0 < 0 that rises to 1.1 at x0 = 3."""
    X = rng.uniform(-3, 3, size=(n_rows, 2))
    std = np.where(X[:, 0] < 0, 0.1, 0.1 + X[:, 0] / 3)
    return _drawn(rng, X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1], std)


def smooth(rng: np.random.Generator, n_rows: int) -> Made:
    X = rng.uniform(-2, 2, size=(n_rows, 3))
    mean = np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.3 * X[:, 2]
    return _drawn(rng, X, mean, np.full(n_rows, 0.4))


def friedman(rng: np.random.Generator, n_rows: int) -> Made:
    """Friedman's first function of ten features, noise 1."""
    X = rng.uniform(size=(n_rows, 10))
    mean = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return _drawn(rng, X, mean + 10 * X[:, 3] + 5 * X[:, 4], np.ones(n_rows))


def noise(rng: np.random.Generator, n_rows: int) -> Made:
    """Targets that do not depend on the four features."""
    return _drawn(rng, rng.normal(size=(n_rows, 4)), np.zeros(n_rows), np.ones(n_rows))


def diabetes(rng: np.random.Generator, n_rows: int) -> Made:
    """scikit-learn's diabetes table in a random order; its truth is not known."""
    X, y = load_diabetes(return_X_y=True)
    order, unknown = rng.permutation(len(y)), np.full(len(y), np.nan)
    return Made(X[order], y[order], unknown, unknown)


def _drawn(rng: np.random.Generator, X: np.ndarray, mean: np.ndarray, std: np.ndarray) -> Made:
    return Made(X, mean + std * rng.normal(size=len(X)), mean, std)


MAKERS: dict[str, Callable[[np.random.Generator, int], Made]] = {
    "generated": generated, "smooth": smooth, "friedman": friedman, "noise": noise,
    "diabetes": diabetes,
}  # fmt: skip


def made_rows(rows: str, n: int, seed: int) -> tuple[Made, Made]:
    """Rows to learn from, and new ones."""
    made = MAKERS[rows](np.random.default_rng(seed), n + N_NEW)
    return Made(*(part[:n] for part in made)), Made(*(part[n:] for part in made))


def uci_and_tables(least: int = 0) -> list[str]:
    """Names of the regression tables that have at least so many rows."""
    sizes = {name: about.n_rows for name, about in UCI.items()} | TABLES
    return [name for name, n_rows in sizes.items() if n_rows >= least]


def load_table(data: str | None, name: str):
    """X, y and for each split a mask of its test rows."""
    if data is None:
        raise SystemExit(f"{name} needs --data FOLDER")
    path = Path(data) / "tables" / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} does not exist; the cases of tables need it")
    with np.load(path) as arrays:
        return arrays["X"], arrays["y"].ravel(), arrays["test_mask"].T


def n_splits(data: str | None, name: str) -> int:
    """How many standard splits a table has."""
    return len((load_uci if name in UCI else load_table)(data, name)[2])


def inner_split(data: str | None, name: str, split: int):
    """Nine tenths and one tenth of the training part of a standard split."""
    X, y, tests = load_uci(data, name)
    train = np.setdiff1d(np.arange(len(y)), tests[split])
    order = np.random.RandomState(100 + split).permutation(train)
    held = max(len(order) // 10, 30)
    return X[order[held:]], y[order[held:]], X[order[:held]], y[order[:held]]


def inner_rows(data: str | None, name: str, split: int, most: int = MOST_ROWS):
    """Rows to learn from and rows kept out, both from the training part of a standard split."""
    if name in UCI:
        X, y, X_new, y_new = inner_split(data, name, split)
    else:
        X, y, tests = load_table(data, name)
        order = np.random.RandomState(100 + split).permutation(np.flatnonzero(~tests[split]))
        held = max(len(order) // 10, 30)
        X_new, y_new = X[order[:held]], y[order[:held]]
        X, y = X[order[held:]], y[order[held:]]
    return X[:most], y[:most], X_new, y_new


def table_digest(data: str | None, name: str) -> str:
    return digest(*inner_rows(data, name, 0))


def score(
    model, X, y, X_new, y_new, parts: np.ndarray | None = None, clock: Callable = time.process_time
) -> dict:
    """Fit a regressor and compare what it says of new rows with their targets.

    ``parts`` numbers the groups of new rows whose coverage is counted; without it they are the
    fifths of the predicted value. The seconds of the fit are processor seconds unless ``clock`` is
    another.
    """
    start = clock()
    model.fit(X, y)
    seconds = clock() - start
    mean, std = model.predict(X_new, return_std=True)
    low, high = _interval(model, X_new, mean, std)
    inside, error = (low <= y_new) & (y_new <= high), y_new - mean
    if parts is None:
        parts = np.argsort(np.argsort(mean, kind="stable")) * 5 // len(mean)
    most = std <= np.quantile(std, MOST)
    rank = stats.spearmanr(np.abs(error), std)[0] if np.ptp(std) > 0 else 0.0
    likelihood = getattr(model, "log_likelihood", None)
    return {
        "seconds": seconds,
        "rmse": float(np.sqrt(np.mean(error**2))),
        "log_likelihood": None if likelihood is None else float(likelihood(X_new, y_new)),
        "rms": float(np.sqrt(np.mean((error / std) ** 2))),  # of standardised errors
        "coverage": float(np.mean(inside)),
        "inside": np.bincount(parts, inside).tolist(),
        "rows": np.bincount(parts).tolist(),
        "variance": float(np.sum(std**2)),
        "squares": float(np.sum(error**2)),
        "variance_of_most": float(np.sum(std[most] ** 2)),
        "squares_of_most": float(np.sum(error[most] ** 2)),
        "spearman": float(rank),
        "std": float(np.median(std)),
        "width": float(np.median(high - low)),
    }


def _interval(model, X, mean, std) -> tuple[np.ndarray, np.ndarray]:
    """The model's own interval, or that of a Gaussian."""
    if hasattr(model, "predict_interval"):
        low, high = model.predict_interval(X, LEVEL).T
        return low, high
    half = stats.norm.ppf(0.5 + LEVEL / 2) * std
    return mean - half, mean + half


def median(results: Sequence[dict], key: str) -> float:
    return float(np.median([result[key] for result in results]))


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def outcome(goal: str, values: Sequence[float], low=-np.inf, high=np.inf) -> str:
    """A line that says how many of the values reach a goal."""
    reached = sum(low <= value <= high for value in values)
    verdict = "met" if reached == len(values) else f"missed, {reached} of {len(values)} reach it"
    return f"\nGoal: {goal}: {verdict}."
