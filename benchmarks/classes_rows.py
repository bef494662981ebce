"""Rows and scores of ``python -m benchmarks classes``: tables, scikit-learn's sets, made rows."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs
from sklearn.model_selection import StratifiedKFold, train_test_split

__all__ = ["COUNTS", "KNOWN", "N_FOLDS", "N_NEW", "SHIPPED", "Rows", "calibration_error", "rows_of",
           "score", "table_fold", "table_names"]  # fmt: skip

N_FOLDS = 5
MOST_ROWS = 3000  # to learn from, of a table
N_NEW = 4000  # rows that were not learned, of made data
N_BINS = 15
COUNTS = (26, 40, 100, 300, 1000)  # of classes
SHIPPED = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine}


class Rows(NamedTuple):
    """Rows to learn from, and new ones; classes are numbers from 0 on."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    p_new: np.ndarray | None = None  # the probability of class 1, where it is known


def one_feature(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """p = sigmoid(3 x)."""
    X = rng.uniform(-2, 2, size=(n_rows, 1))
    return X, expit(3 * X[:, 0])


def two_features(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n_rows, 2))
    return X, expit(X @ [1.5, -1.0])


def nonlinear(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(-2, 2, size=(n_rows, 2))
    return X, expit(2 * np.sin(2 * X[:, 0]) + X[:, 1])


KNOWN: dict[str, Callable] = {
    "sigmoid(3 x)": one_feature, "logistic, two features": two_features, "nonlinear": nonlinear,
}  # fmt: skip


def rows_of(data: str | None, name: str, split: int, **how) -> Rows:
    """Rows by their name: made ones, those of scikit-learn, or a table of the folder."""
    if name in KNOWN:
        return known_rows(name, split, **how)
    if name == "blobs":
        return blobs(split, **how)
    if name == "ordered":
        return ordered(split, **how)
    if name in SHIPPED:
        return shipped(name, split, **how)
    assert data is not None
    return table_fold(data, name, split)


def known_rows(name: str, seed: int, n: int) -> Rows:
    rng = np.random.default_rng(seed)
    X, p = KNOWN[name](rng, n + N_NEW)
    y = (rng.uniform(size=len(p)) < p).astype(int)
    return Rows(X[:n], y[:n], X[n:], y[n:], p[n:])


def blobs(seed: int, n_classes: int, each: int = 30) -> Rows:
    """Well separated classes: Gaussians of std 1 around centres from -10 to 10, ten features."""
    X, y = make_blobs(2 * each * n_classes, n_features=10, centers=n_classes, random_state=seed)
    return Rows(*_divided(X, y, 0.5, seed))


def ordered(permutation: int, n: int = 2000) -> Rows:
    """Sixteen classes that are intervals of a smooth function; their names are permuted."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n + N_NEW, 3))
    level = X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) + 0.3 * X[:, 2]
    edges = np.quantile(level, np.arange(1, 16) / 16)
    y = np.searchsorted(edges, level + 0.02 * rng.normal(size=len(level)))
    if permutation:
        y = np.random.default_rng(permutation).permutation(16)[y]
    return Rows(X[:n], y[:n], X[n:], y[n:])


def shipped(name: str, seed: int, wrong: float = 0.0) -> Rows:
    """A set of scikit-learn, four fifths to learn, with a share of wrong labels among those."""
    X, y, X_new, y_new = _divided(*SHIPPED[name](return_X_y=True), 0.8, seed)
    if wrong:
        y = flipped(y, wrong, seed)
    return Rows(X, y, X_new, y_new)


def flipped(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Labels of which a share is that of another class."""
    rng, n_classes = np.random.default_rng([seed, 1]), y.max() + 1
    off = rng.permutation(len(y))[: round(share * len(y))]
    y = y.copy()
    y[off] = (y[off] + rng.integers(1, n_classes, size=len(off))) % n_classes
    return y


def _divided(X, y, share: float, seed: int) -> tuple[np.ndarray, ...]:
    X, X_new, y, y_new = train_test_split(X, y, train_size=share, stratify=y, random_state=seed)
    return X, y, X_new, y_new


def table_names(data: str) -> list[str]:
    names = sorted(path.name.removesuffix(".csv.gz") for path in _folder(data).glob("*.csv.gz"))
    if not names:
        raise SystemExit(f"{_folder(data)} has no tables NAME.csv.gz; the case tables needs them")
    return names


def _folder(data: str) -> Path:
    return Path(data) / "classes"


@cache
def load_table(data: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """X and class numbers; each value of a column of text becomes a column of 0 and 1."""
    with gzip.open(_folder(data) / f"{name}.csv.gz", "rt", newline="") as file:
        _, *lines = csv.reader(file)
    *features, labels = zip(*lines, strict=True)
    return np.column_stack([_numbers(column) for column in features]), np.unique(
        labels, return_inverse=True
    )[1]


def _numbers(column: Sequence[str]) -> np.ndarray:
    try:
        return np.array(column, dtype=float)
    except ValueError:
        text = np.array(column)
        return (text[:, None] == np.unique(text)).astype(float)


def table_fold(data: str, name: str, fold: int, most: int | None = None) -> Rows:
    """A stratified fold as new rows, at most ``most`` of the others to learn."""
    X, y = load_table(data, name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    old, new = list(folds.split(X, y))[fold]
    old = np.random.RandomState(fold).permutation(old)[: most or MOST_ROWS]
    return Rows(X[old], y[old], X[new], y[new])


def score(proba: np.ndarray, y: np.ndarray) -> dict:
    """Error, log-loss, and sums in bins of the top probability, from which folds are added up."""
    top, right = proba.max(axis=1), proba.argmax(axis=1) == y
    bins = np.minimum((top * N_BINS).astype(int), N_BINS - 1)
    sums = [np.bincount(bins, w, N_BINS).tolist() for w in (np.ones(len(y)), top, right)]
    of_class = np.maximum(proba[np.arange(len(y)), y], 1e-15)
    return {
        "error": float(1 - right.mean()),
        "log_loss": float(-np.log(of_class).mean()),
        "top": float(top.mean()),
        "bins": sums,
    }


def calibration_error(results: Sequence[dict]) -> float:
    """Expected calibration error of the rows of all results together."""
    count, top, right = np.sum([r["bins"] for r in results], axis=0)
    return float(np.abs(top - right).sum() / count.sum())
