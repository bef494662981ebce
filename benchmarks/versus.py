"""Seconds of two states of the package, in one interleaved run.

    python -m benchmarks versus --before FOLDER
    python -m benchmarks versus --before FOLDER --data DATA     # with concrete and MNIST
    python -m benchmarks versus --before FOLDER --cases default stream --repeats 31

FOLDER is a checkout of the earlier state; the other is this one. Each has three processes, as one
may by chance be quicker than another with the same code. They take turns, pair by pair, and so does
which of a pair goes first. The ratio is the median over the pairs of now by before, with its
quartiles; a pair sees the same load of the machine. The last column is the same ratio of the time
on the processor, which other processes disturb less. Give this checkout itself to see the noise;
OPENBLAS_NUM_THREADS=1, which holds for both, makes it smaller.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import sparse

from sktagi import TAGIClassifier, TAGIRegressor

from .checkouts import ROOT, Checkout, folder_of

PROCESSES = 3  # of each checkout
ONE = dict(half_life=None, n_members=1, early_stopping=False, random_state=0)
FIXED = dict(sigma_v=0.32, **ONE)
DIGITS = dict(sigma_v=0.2, batch_inference="independent", standardize=False, **ONE)

# Cases: a function of the data that gives what is timed, in the process of a checkout. Each is
# some 50 to 300 ms of work.

Data = dict[str, tuple[np.ndarray, np.ndarray]]


def fit_table(epochs: int, rows: int | None = None, **params) -> Callable[[Data], Callable]:
    """A fit of one hidden layer to a table of 8 features."""

    def prepare(data: Data) -> Callable:
        X, y = (part[:rows] for part in data["table"])
        model = TAGIRegressor(**{**FIXED, "max_iter": epochs, **params})
        return lambda: model.fit(X, y)

    return prepare


def fit_digits(units: int, batch_size: int, rows: int, epochs=1) -> Callable[[Data], Callable]:
    """Two layers on rows of 784 features, float32."""

    def prepare(data: Data) -> Callable:
        X, y = (part[:rows] for part in data["digits"])
        model = TAGIClassifier((units, units), batch_size=batch_size, max_iter=epochs, **DIGITS)
        return lambda: model.fit(X, y)

    return prepare


def default(data: Data) -> Callable:
    """Default parameters, with early stopping and calibration."""
    X, y = (part[:150] for part in data["table"])
    return lambda: TAGIRegressor(max_iter=40, random_state=0).fit(X, y)


def default_classes(data: Data) -> Callable:
    X, y = (part[:150] for part in data["table"])
    labels = np.digitize(y, [-0.5, 0.5])
    return lambda: TAGIClassifier(max_iter=15, random_state=0).fit(X, labels)


def stream(n_members: int, calls: int) -> Callable[[Data], Callable]:
    """Calls of partial_fit with one row each."""

    def prepare(data: Data) -> Callable:
        X, y = data["table"]
        model = TAGIRegressor(n_members=n_members, random_state=0).partial_fit(X, y)
        rows = [(X[i : i + 1], y[i : i + 1]) for i in range(calls)]
        return lambda: [model.partial_fit(*row) for row in rows]

    return prepare


def stream_of_classes(data: Data) -> Callable:
    """Calls of partial_fit with one row each, four classes."""
    X, y = data["table"]
    labels = np.digitize(y, [-0.7, 0, 0.7])
    model = TAGIClassifier(n_members=1, random_state=0).partial_fit(X, labels, classes=range(4))
    rows = [(X[i : i + 1], labels[i : i + 1]) for i in range(150)]
    return lambda: [model.partial_fit(*row) for row in rows]


def predict_many(data: Data) -> Callable:
    X, y = data["table"]
    model = TAGIRegressor(max_iter=2, **FIXED).fit(X, y)
    many = np.tile(X, (360, 1))
    return lambda: model.predict(many, return_std=True)


def predict_one(data: Data, *, return_std: bool = True) -> Callable:
    X, y = data["table"]
    model = TAGIRegressor(max_iter=2, random_state=0).fit(X, y)
    rows = [X[i : i + 1] for i in range(900)]
    return lambda: [model.predict(row, return_std=return_std) for row in rows]


def sparse_rows(data: Data) -> Callable:
    """20,000 features, 50 of them in a row."""
    rng = np.random.default_rng(0)
    n_rows, n_features, n_nonzero = 1500, 20_000, 50
    places = np.repeat(np.arange(n_rows), n_nonzero)
    values = rng.standard_normal(len(places)), (places, rng.integers(n_features, size=len(places)))
    X = sparse.csr_array(values, shape=(n_rows, n_features))
    y = rng.integers(2, size=n_rows)
    model = TAGIClassifier(max_iter=1, n_members=1, early_stopping=False, random_state=0)
    return lambda: model.fit(X, y)


def sparse_uncertain(data: Data) -> Callable:
    """Sparse rows of 300 features, with X_std in the places of their entries."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.standard_normal((600, 300)) * (rng.random((600, 300)) < 0.03))
    X_std, y = 0.1 * abs(X), np.asarray(X.sum(axis=1))
    model = TAGIRegressor(max_iter=10, **FIXED)
    return lambda: model.fit(X, y, X_std=X_std)


def full(data: Data) -> Callable:
    X, y = (part[:200] for part in data["table"])
    model = TAGIRegressor((10,), covariance_type="full", max_iter=12, **ONE)
    return lambda: model.fit(X, y)


def uncertain(data: Data) -> Callable:
    """A fit with X_std for each row, and predictions with it."""
    X, y = data["table"]
    X_std = np.random.default_rng(0).uniform(0, 0.3, X.shape)
    model = TAGIRegressor(max_iter=24, **FIXED)
    return lambda: model.fit(X, y, X_std=X_std).predict(X, return_std=True, X_std=X_std)


def copies(data: Data) -> Callable:
    """927 rows, 40 of which are distinct."""
    X, y = data["table"]
    X = X[np.random.default_rng(0).integers(40, size=len(X))]
    model = TAGIRegressor(max_iter=20, **FIXED)
    return lambda: model.fit(X, y)


CASES: dict[str, tuple[str, Callable[[Data], Callable] | None]] = {
    "default": ("default fit, 150 rows, 40 epochs", default),
    "classes": ("default fit, 3 classes, 150 rows, 15 epochs", default_classes),
    "b10": ("1x50, B=10, independent, 40 epochs",
            fit_table(40, batch_size=10, batch_inference="independent")),
    "b64": ("1x50, B=64, independent, 80 epochs",
            fit_table(80, batch_size=64, batch_inference="independent")),
    "joint": ("1x50, B=64, joint, 40 epochs", fit_table(40, batch_size=64)),
    "rows": ("1x50, one row at a time, 4 epochs", fit_table(4, batch_size=1)),
    "members": ("1x50, B=64, joint, 5 members, 20 epochs",
                fit_table(20, batch_size=64, n_members=5)),
    "stream": ("partial_fit, 300 calls with one row, one member", stream(1, 300)),
    "stream-classes": ("partial_fit, 150 calls with one row, four classes", stream_of_classes),
    "stream10": ("partial_fit, 200 calls with one row, ten members", stream(10, 200)),
    "digits10": ("2x100, B=10, 784 features, 1000 rows, 2 epochs", fit_digits(100, 10, 1000, 2)),
    "digits100": ("2x100, B=100, 784 features, 1000 rows, 5 epochs", fit_digits(100, 100, 1000, 5)),
    "wide10": ("2x800, B=10, 784 features, 100 rows", fit_digits(800, 10, 100)),
    "wide100": ("2x800, B=100, 784 features, 400 rows", fit_digits(800, 100, 400)),
    "sparse": ("20,000 sparse features, 1500 rows", sparse_rows),
    "predict": ("predict, 333,720 rows", predict_many),
    "predict1": ("predict with std, 900 calls with one row, ten members", predict_one),
    "predict1-mean": ("predict, 900 calls with one row, ten members",
                      partial(predict_one, return_std=False)),
    "sparse-uncertain": ("sparse rows with X_std, 10 epochs", sparse_uncertain),
    "full": ("full covariances, 1x10, 200 rows, 12 epochs", full),
    "uncertain": ("X_std, fit and predict, 24 epochs", uncertain),
    "copies": ("copies of 40 rows, B=64, joint, 20 epochs", copies),
    "import": ("import sktagi, beyond scikit-learn", None),
}  # fmt: skip


Pair = Sequence[Callable[[], tuple[float, float]]]  # before and now

_prepared: dict[str, Callable] = {}  # in the process of a checkout


def prepare(case: str, data: Data) -> None:
    make = CASES[case][1]
    assert make is not None
    _prepared.clear()
    _prepared[case] = make(data)


def run(case: str) -> tuple[float, float]:
    """Seconds of a case that has been prepared, by the clock and on the processor."""
    start = time.perf_counter(), time.process_time()
    _prepared[case]()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def importing(folder: Path, cache: str) -> tuple[float, float]:
    """Seconds of the import in a fresh process, from compiled bytecode."""
    code = (
        "import sys, time, sklearn.neural_network, sklearn.gaussian_process\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "start = time.perf_counter(), time.process_time()\n"
        "import sktagi\n"
        "print(time.perf_counter() - start[0], time.process_time() - start[1])\n"
        "assert sktagi.__file__.startswith(sys.argv[1])"
    )
    env = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-P", "-c", code, str(folder)]
    out = subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout
    wall, processor = map(float, out.split())
    return wall, processor


def in_turn(pairs: Sequence[Pair], repeats: int) -> np.ndarray:
    """Seconds of two functions, (repeats, function, clock or processor), pair by pair."""
    taken = []
    for pair in pairs:
        for function in pair:  # warms up
            function()
    for repeat in range(repeats):
        pair, order = pairs[repeat % len(pairs)], (-1) ** repeat
        taken.append([function() for function in pair[::order]][::order])
    return np.array(taken)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", required=True, help="a checkout of the earlier state")
    parser.add_argument("--data", help="folder with uci/ and mnist.npz; made data without it")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE",
                        help=f"of {', '.join(CASES)}; all without it")  # fmt: skip
    parser.add_argument("--repeats", type=int, default=15)


def main(args: argparse.Namespace) -> None:
    from .speed import concrete, digits  # uses the engine: not for the other checkout's process

    folders = folder_of(args.before), ROOT
    data = {"table": concrete(args.data)}
    if any(case.startswith(("digits", "wide")) for case in args.cases):
        data["digits"] = tuple(part[:1000] for part in digits(args.data))
    print("| case | before | now | ratio | quartiles | on the processor |\n" + "|---" * 6 + "|")
    with ExitStack() as stack:
        cache = stack.enter_context(tempfile.TemporaryDirectory())
        pairs = [[stack.enter_context(Checkout(f)) for f in folders] for _ in range(PROCESSES)]
        for case in args.cases:
            what, make = CASES[case]
            if make is None:
                timed = [[partial(importing, folder, cache) for folder in folders]]
            else:
                for checkout in chain(*pairs):
                    checkout.call(prepare, case, data)
                timed = [[partial(c.call, run, case) for c in pair] for pair in pairs]
            taken = in_turn(timed, args.repeats)
            times = " | ".join(f"{1e3 * t:.4g} ms" for t in np.median(taken[..., 0], axis=0))
            ratio, processor = (taken[:, 1] / taken[:, 0]).T
            low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
            ratios = f"{middle:.3f} | {low:.3f} to {high:.3f} | {np.median(processor):.3f}"
            print(f"| {what} | {times} | {ratios} |", flush=True)
