"""Streams that drift, and streams of the river package: scores of each row before it is learned.

``python -m benchmarks streams`` prints the tables of doc/streams.md;
``python -m benchmarks streams --memory 1000000 --chunk 100`` the memory of a long stream instead.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIClassifier, TAGIRegressor


def drifting(kind: str, n_rows: int, seed: int, noise: float = 0.2):
    """sin(2 x0) turns into sin(2 x1): at once in the middle, all the time, or never."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n_rows, 3))
    angle = {
        "stationary": np.zeros(n_rows),
        "abrupt": np.where(np.arange(n_rows) < n_rows // 2, 0, np.pi / 2),
        "slow": np.linspace(0, np.pi, n_rows),
    }[kind]
    clean = np.cos(angle) * np.sin(2 * X[:, 0]) + np.sin(angle) * np.sin(2 * X[:, 1])
    return X, clean + noise * rng.normal(size=n_rows)


def drift_table(seeds: int, n_rows: int = 6000, chunk: int = 50) -> None:
    print("| stream | half_life | " + " | ".join(f"{k}-{k + 1}" for k in range(6)) + " |")
    print("|---|---|" + "---|" * 6)
    for kind in ("stationary", "abrupt", "slow"):
        for half_life in (100.0, 400.0, "auto", None):
            squares = np.zeros(n_rows)
            for seed in range(seeds):
                X, y = drifting(kind, n_rows, seed)
                model = TAGIRegressor(
                    hidden_layer_sizes=(30,), n_members=1, batch_size=10, half_life=half_life,
                    random_state=seed,
                )  # fmt: skip
                for start in range(0, n_rows, chunk):
                    part = slice(start, start + chunk)
                    if start:
                        squares[part] += (model.predict(X[part]) - y[part]) ** 2 / seeds
                    model.partial_fit(X[part], y[part])
            rmse = np.sqrt(squares.reshape(6, -1).mean(axis=1))
            print(f"| {kind} | {half_life} | " + " | ".join(f"{v:.3f}" for v in rmse) + " |")


def stationary_table(seeds: int, n_rows: int = 20_000, chunk: int = 50) -> None:
    """Errors against the function without noise, of networks that start from the prior or a fit."""
    cuts = [2000, 3000, 4000, 6000, 10_000, n_rows]
    print("| begins with | half_life | " + " | ".join(f"-{cut}" for cut in cuts[1:]) + " |")
    print("|---|---|" + "---|" * (len(cuts) - 1))
    for first in (0, cuts[0]):
        for half_life in (100.0, 400.0, 2000.0, 10_000.0, None):
            squares = np.zeros(n_rows)
            for seed in range(seeds):
                X, y = drifting("stationary", n_rows, seed)
                model = TAGIRegressor(
                    hidden_layer_sizes=(30,), n_members=1, batch_size=10, random_state=seed
                )
                if first:
                    model.fit(X[:first], y[:first])
                model.set_params(half_life=half_life)
                for start in range(first, n_rows, chunk):
                    part = slice(start, start + chunk)
                    if start:
                        clean = np.sin(2 * X[part, 0])
                        squares[part] += (model.predict(X[part]) - clean) ** 2 / seeds
                    model.partial_fit(X[part], y[part])
            rmse = [np.sqrt(squares[a:b].mean()) for a, b in pairwise(cuts)]
            begin = f"a fit to {first} rows" if first else "the prior"
            cells = " | ".join(f"{v:.4f}" for v in rmse)
            print(f"| {begin} | {half_life} | {cells} |", flush=True)


def memory_of_a_stream(n_rows: int, chunk: int) -> None:
    """Print time a row on the processor, memory and size of the state at tenths of a stream."""
    rng = np.random.default_rng(0)
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=1, random_state=0)
    print("| rows | CPU ms a row | resident | blocks of Python | bytes of the state | log-lik. |")
    print("|---|---|---|---|---|---|")
    start, report = time.process_time(), n_rows // 10
    for seen in range(chunk, n_rows + 1, chunk):
        X = rng.normal(size=(chunk, 5))
        model.partial_fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=chunk))
        if seen // report > (seen - chunk) // report:
            taken = (time.process_time() - start) / report
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            print(
                f"| {seen} | {1e3 * taken:.3f} | {pages * resource.getpagesize() / 1e6:.1f} MB | "
                f"{sys.getallocatedblocks()} | {len(model.to_bytes())} | "
                f"{model.recent_log_likelihood_:.3f} |",
                flush=True,
            )
            start = time.process_time()


class Scaled:
    """An SGD estimator of scikit-learn behind a running StandardScaler, row by row."""

    def __init__(self, model, classes=None):
        self.model, self.scaler, self.known = model, StandardScaler(), {}
        if classes is not None:
            self.known = {"classes": classes}

    def predict_row(self, x):
        return self.model.predict(self.scaler.transform(x))[0] if self.fitted else 0

    @property
    def fitted(self) -> bool:
        return hasattr(self.model, "coef_") or hasattr(self.model, "coefs_")

    def learn_row(self, x, y):
        self.scaler.partial_fit(x)
        self.model.partial_fit(self.scaler.transform(x), y, **self.known)


class Plain:
    """An estimator of this package, row by row."""

    def __init__(self, model, classes=None):
        self.model, self.known = model, {} if classes is None else {"classes": classes}

    def predict_row(self, x):
        return self.model.predict(x)[0] if self.model.__sklearn_is_fitted__() else 0

    def learn_row(self, x, y):
        self.model.partial_fit(x, y, **self.known)


class River:
    """A model of river."""

    def __init__(self, model, names):
        self.model, self.names = model, names

    def predict_row(self, x):
        return self.model.predict_one(dict(zip(self.names, x[0], strict=True))) or 0

    def learn_row(self, x, y):
        self.model.learn_one(dict(zip(self.names, x[0], strict=True)), y[0])


def rows_of(dataset, n_rows: int):
    """Numbers and one-hot columns of a river data set."""
    pairs = list(dataset.take(n_rows))
    names = sorted({k for x, _ in pairs for k in x if isinstance(x[k], (int, float, bool))})
    X = np.array([[float(x.get(k, 0)) for k in names] for x, _ in pairs])
    return X, np.array([y for _, y in pairs]), names


def river_table(n_rows: int) -> None:
    from river import datasets, linear_model, preprocessing

    print("| stream | rows | score | TAGI | SGD, scaled | river linear, scaled | TAGI rows/s |")
    print("|---|---|---|---|---|---|---|")
    regressions = {
        "TrumpApproval": datasets.TrumpApproval(),
        "ChickWeights": datasets.ChickWeights(),
    }
    classes = {"Phishing": datasets.Phishing(), "Bananas": datasets.Bananas(),
               "ImageSegments": datasets.ImageSegments()}  # fmt: skip
    for name, dataset in {**regressions, **classes}.items():
        X, y, names = rows_of(dataset, n_rows)
        regression = name in regressions
        labels = None if regression else sorted(set(y.tolist()))
        small = {"n_members": 2, "random_state": 0}
        if regression:
            linear = linear_model.LinearRegression()
            models = [Plain(TAGIRegressor(**small)), Scaled(SGDRegressor(random_state=0))]
        else:
            linear = linear_model.SoftmaxRegression()
            models = [Plain(TAGIClassifier(**small), labels),
                      Scaled(SGDClassifier(loss="log_loss", random_state=0), labels)]  # fmt: skip
        models.append(River(preprocessing.StandardScaler() | linear, names))
        cells, speed = [], 0.0
        for number, model in enumerate(models):
            start = time.perf_counter()
            losses = []
            for row in range(len(X)):
                x, target = X[row : row + 1], y[row : row + 1]
                guess = model.predict_row(x)
                losses.append((guess - target[0]) ** 2 if regression else guess != target[0])
                model.learn_row(x, target)
            if number == 0:
                speed = len(X) / (time.perf_counter() - start)
            loss = np.mean(losses[10:])
            cells.append(f"{np.sqrt(loss):.3f}" if regression else f"{100 * loss:.2f} %")
        kind = "RMSE" if regression else "errors"
        print(f"| {name} | {len(X)} | {kind} | {' | '.join(cells)} | {speed:.0f} |", flush=True)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5000, help="of each stream of river")
    parser.add_argument("--memory", type=int, metavar="ROWS", help="watch the memory instead")
    parser.add_argument("--chunk", type=int, default=1, help="rows of a call, for --memory")


def main(args: argparse.Namespace) -> None:
    if args.memory:
        memory_of_a_stream(args.memory, args.chunk)
        return
    drift_table(args.seeds)
    print()
    stationary_table(args.seeds)
    print()
    river_table(args.rows)
