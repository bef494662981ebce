"""Rows until a stream is followed again, after outliers, jumps, constant phases, drift and noise.

``python -m benchmarks recovery`` prints the tables of doc/streams.md; ``--cases "level 2"`` are
some rows of the first. Rows come one by one, or in calls, after a fifth of one of which something
happens. Errors are those of predictions before a row is learned, against the function without
noise.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDRegressor
from sklearn.neural_network import MLPRegressor

from sktagi import TAGIRegressor

from .streams import Plain, River, Scaled

BEFORE, AFTER = 600, 1000
WINDOW = 20  # rows, whose errors are averaged
RECOVERED = 0.5  # error over the standard deviation of the function
NOISE = 0.3
SLOW = 500  # rows of a slow drift


def usual(seed: int):
    """A linear function of standard deviation 1, which suits all, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(BEFORE + AFTER, 3))
    return X, X[:, 0].copy(), NOISE * rng.normal(size=len(X))


def event(name: str, seed: int):
    """Return rows, targets and the function, in which something happens after ``BEFORE`` rows."""
    name = name.partition(",")[0]
    X, clean, noise = usual(seed)
    now = slice(BEFORE, None)
    kind, size = name.split(" ", 1)
    outliers = np.zeros(len(X))
    if kind == "outlier":
        outliers[BEFORE] = float(size)
    elif kind == "level":
        clean[now] += float(size)
    elif kind == "unit":
        clean[now] *= float(size)
        noise[now] *= float(size)
    elif name == "constant first":
        clean[:BEFORE] = noise[:BEFORE] = 0
        clean[now] = 100 + 10 * clean[now]
        noise[now] *= 10
    elif name == "constant between":
        clean[BEFORE - 300 : BEFORE] = noise[BEFORE - 300 : BEFORE] = 0
    elif name == "abrupt drift":
        clean[now] = X[now, 1]
    elif name == "slow drift":
        angle = np.pi / 2 * np.clip((np.arange(len(X)) - BEFORE) / SLOW, 0, 1)
        clean = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1]
    return X, clean + noise + outliers, clean


CASES = ["outlier 30", "outlier 100", "outlier 1e4", "level 2", "level 3", "level 10", "level 30",
         "level 30, calls of 50", "level 1e4, calls of 50", "unit 100",
         "constant first", "constant between", "abrupt drift", "slow drift"]  # fmt: skip


def models(seed: int) -> dict[str, Any]:
    from river import linear_model, preprocessing

    river = preprocessing.StandardScaler() | linear_model.LinearRegression()
    small = {"n_members": 2, "random_state": seed}
    return {
        "TAGI": Plain(TAGIRegressor(**small)),
        "TAGI, half_life=200": Plain(TAGIRegressor(half_life=200.0, **small)),
        "river linear, scaled": River(river, ["a", "b", "c"]),
        "SGD, scaled": Scaled(SGDRegressor(random_state=seed)),
        "MLP, scaled": Scaled(MLPRegressor(hidden_layer_sizes=(50,), random_state=seed)),
    }


def calls_of(case: str) -> list[slice]:
    """Return the rows of each call."""
    size = int(case.partition(", calls of ")[2] or 1)
    first = (BEFORE - size // 5) % size or size
    starts = [0, *range(first, BEFORE + AFTER, size)]
    return [slice(a, b) for a, b in pairwise([*starts, BEFORE + AFTER])]


def guesses(model: Any, X: np.ndarray, y: np.ndarray, calls: list[slice]) -> np.ndarray:
    """Return the prediction of each row before its call is learned."""
    said = np.zeros(len(X))
    for call in calls:
        rows = [slice(k, k + 1) for k in range(call.start, call.stop)]
        if call.start:
            said[call] = [np.squeeze(model.predict_row(X[row])) for row in rows]
        for part in rows if isinstance(model, River) else [call]:
            model.learn_row(X[part], y[part])
    return said


def rows_to_recover(error: np.ndarray, size: float) -> str:
    """Return after how many rows the errors (seeds, rows) are small, and stay so."""
    after = error[:, BEFORE + 1 :]
    n_windows = after.shape[1] // WINDOW
    squares = np.square(after[:, : n_windows * WINDOW]).reshape(len(error), n_windows, WINDOW)
    with np.errstate(over="ignore"):
        large = np.flatnonzero(~(np.sqrt(squares.mean(axis=(0, 2))) < RECOVERED * size))
    if not len(large):
        return "0"
    last = int(large[-1]) + 1
    return f"> {AFTER}" if last == n_windows else str(last * WINDOW)


def recovery_table(cases: list[str], seeds: int) -> None:
    names = list(models(0))
    print("| rows to recover from | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    for case in cases:
        cells = []
        for name in names:
            errors, size = [], 1.0
            for seed in range(seeds):
                X, y, clean = event(case, seed)
                errors.append(guesses(models(seed)[name], X, y, calls_of(case)) - clean)
                size = float(clean[BEFORE:].std())
            cells.append(rows_to_recover(np.array(errors), size))
        print(f"| {case} | " + " | ".join(cells) + " |", flush=True)


def noise_table(seeds: int, n_before: int) -> None:
    """Coverage of 90 % intervals after the noise has grown tenfold, from 0.1 to 1."""
    parts = [(0, 50), (50, 100), (100, 200), (500, 600), (2000, 2100)]
    print("| half_life | before | " + " | ".join(f"{a}-{b}" for a, b in parts) + " |")
    print("|---|---|" + "---|" * len(parts))
    for half_life in (100.0, 1000.0, "auto", None):
        inside = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            n_rows = n_before + parts[-1][1]
            X = rng.normal(size=(n_rows, 3))
            std = np.where(np.arange(n_rows) < n_before, 0.1, 1.0)
            y = X[:, 0] + std * rng.normal(size=n_rows)
            model = TAGIRegressor(n_members=2, half_life=half_life, random_state=seed)
            covered = np.zeros(n_rows, dtype=bool)
            for start in range(0, n_rows, 50):
                part = slice(start, start + 50)
                if start:
                    low, high = model.predict_interval(X[part], 0.9).T
                    covered[part] = (low < y[part]) & (y[part] < high)
                model.partial_fit(X[part], y[part])
            inside.append(covered)
        share = 100 * np.mean(inside, axis=0)
        cells = [share[n_before - 1000 : n_before].mean()]
        cells += [share[n_before + a : n_before + b].mean() for a, b in parts]
        print(f"| {half_life} | " + " | ".join(f"{v:.0f} %" for v in cells) + " |", flush=True)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=[], help="of the first table only")
    parser.add_argument("--rows", type=int, default=20_000, help="before the noise grows")


def main(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    recovery_table(args.cases or CASES, args.seeds)
    if args.cases:
        return
    print()
    noise_table(args.seeds, args.rows)
