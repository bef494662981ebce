"""The table of the first page: this package beside four others, on bundled, made and small tables.

Data of scikit-learn and made-up ones need no folder; with --data, small tables of FOLDER/tables
follow. Each figure is a mean over splits: root mean square error and log-likelihood of targets in
units of their standard deviation, and seconds of processor time of a fit on one thread. Models
without a standard deviation get one level of noise from held-out rows; its seconds do not count.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from sktagi import TAGIRegressor
from sktagi.metrics import log_score

from .data import add_data_option
from .harness import positive
from .markdown import markdown
from .methods import Method, has_package, mlp
from .tables_methods import REGRESSORS, HeldOutLevel

__all__ = ["main", "options"]

METHODS = {
    "TAGI": REGRESSORS["sktagi"],
    "MLP": Method(
        lambda s, t, n: HeldOutLevel(mlp("", s, n), s),
        "`MLPRegressor`, one network of 50 units, stopped early, features and target standardised",
        "scikit-learn",
    ),
    "GP": REGRESSORS["GaussianProcess"],
    "HistGradientBoosting": REGRESSORS["HistGradientBoosting"],
    "CatBoost": REGRESSORS["CatBoost"],
}
TABLES = ("concreteslump", "servo", "machine", "forest", "pendulum", "solar")
TEST_SIZE = 0.2
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, X_new, y, y_new


def sensor(seed: int, n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Readings whose noise grows with the first of three features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 3))
    noise = 0.05 + 0.5 * X[:, 0] ** 2
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=n)


def made(n: int) -> Callable:
    return lambda seed: make_friedman1(n_samples=n, noise=1.0, random_state=seed)


# What is read is split anew, and what is made is drawn anew for each split.
SOURCES: dict[str, Callable] = {
    "diabetes (442)": lambda seed: load_diabetes(return_X_y=True),
    "Friedman's function (500)": made(500),
    "Friedman's function (5000)": made(5000),
    "noise that varies (1000)": sensor,
}


def data_sets(folder: str | None, n_splits: int) -> Iterator[tuple[str, list[Rows]]]:
    """Name the data sets, with the rows of each split."""
    for name, source in SOURCES.items():
        yield (
            name,
            [
                train_test_split(*source(seed), test_size=TEST_SIZE, random_state=seed)
                for seed in range(n_splits)
            ],
        )
    for name in TABLES if folder else ():
        with np.load(Path(folder) / "tables" / f"{name}.npz") as arrays:
            X, y, masks = (arrays[key] for key in ("X", "y", "test_mask"))
        yield (
            f"{name} ({len(y)})",
            [(X[~test], X[test], y[~test], y[test]) for test in masks.T[:n_splits].astype(bool)],
        )


def score(method: Method, rows: Rows, seed: int) -> tuple[float, float, float]:
    """Return error, log-likelihood and seconds of a fit."""
    X, X_new, y, y_new = rows
    scale = y.std()
    model = method.make(seed, 1, X.shape[1])
    if isinstance(model, HeldOutLevel):
        model.clock = time.process_time
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # bounds of a kernel's lengths
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start - getattr(model, "level_seconds_", 0.0)
        if isinstance(model, TAGIRegressor):
            dist = model.predict_dist(X_new)
        else:
            dist = norm(*model.predict(X_new, return_std=True))
    error = np.sqrt(np.mean((y_new - dist.mean()) ** 2)) / scale
    return float(error), float(log_score(y_new, dist) + np.log(scale)), seconds


def line(name: str, found: dict[str, np.ndarray | None]) -> list[str]:
    """Return the cells of a data set; the smallest error and the greatest likelihood are bold."""
    scores = [row for row in found.values() if row is not None]
    error = min(f"{row[0]:.3f}" for row in scores)
    log_lik = f"{max(row[1] for row in scores):.2f}"

    def cell(row: np.ndarray | None) -> str:
        if row is None:
            return "-"
        first, second = (
            f"**{shown}**" if shown == best else shown
            for shown, best in ((f"{row[0]:.3f}", error), (f"{row[1]:.2f}", log_lik))
        )
        return f"{first}&nbsp;/&nbsp;{second}<br>{row[2]:.1f}&nbsp;s"

    return [name, *map(cell, found.values())]


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser, "tables/<name>.npz")
    parser.add_argument(
        "--splits", type=positive, default=3, metavar="N", help="default: %(default)s"
    )


def main(args: argparse.Namespace) -> None:
    methods = {name: about for name, about in METHODS.items() if has_package(about.package)}
    for about in methods.values():
        import_module({"scikit-learn": "sklearn"}.get(about.package, about.package))
    table, start = [], time.perf_counter()
    for name, splits in data_sets(args.data, args.splits):
        found = {
            method: np.mean([score(about, rows, seed) for seed, rows in enumerate(splits)], axis=0)
            if len(splits[0][0]) <= about.max_rows
            else None
            for method, about in methods.items()
        }
        table.append(line(name, found))
        print(f"{name}: done after {time.perf_counter() - start:.0f} s", file=sys.stderr)
    print(markdown(["data set (rows)", *methods], table))
    print()
    for name, about in methods.items():
        print(f"- {name}: {about.note}")
