"""What full covariances cost beside diagonal ones: seconds a row and memory.

    python -m benchmarks covariances

Prints the table of doc/covariances.md. One member, 8 features, one target, float64; seconds are the
median over repeats of the processor time for some rows, divided by their number; memory is the peak
of what NumPy allocates while ``fit`` runs, the rows included. Set OPENBLAS_NUM_THREADS=1 (or the
variable of your BLAS) to count the time of one thread.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np
from sklearn.datasets import make_friedman1

from sktagi import TAGIRegressor

NETWORKS = [(), (5,), (20,), (50,), (100,), (20, 20), (50, 50)]
N_ROWS = 320  # each of these networks forgets at least once


def make_model(hidden, covariance_type, batch_size) -> TAGIRegressor:
    return TAGIRegressor(
        hidden, covariance_type=covariance_type, batch_size=batch_size, n_members=1,
        early_stopping=False, max_iter=1, random_state=0,
    )  # fmt: skip


def milliseconds_a_row(action, n_rows: int, repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return 1e3 * float(np.median(taken)) / n_rows


def peak_megabytes(action) -> float:
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=3)


def main(args: argparse.Namespace) -> None:
    X, y = make_friedman1(N_ROWS, n_features=8, random_state=0)
    print(
        "| hidden units | parameters | largest layer | covariances "
        "| learn, rows one by one (ms a row) | learn, default batches (ms a row) "
        "| predict (ms a row) | predict with X_std (ms a row) | memory (MB) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for hidden in NETWORKS:
        for covariance_type in ("diag", "full"):
            model = make_model(hidden, covariance_type, "auto").fit(X, y)
            sizes = [a.size + b.size for a, b in zip(model.coefs_, model.intercepts_, strict=True)]
            alone = make_model(hidden, covariance_type, 1)
            repeats = args.repeats if max(sizes) < 1000 or covariance_type == "diag" else 1
            cells = [
                milliseconds_a_row(lambda m=alone: m.fit(X, y), N_ROWS, repeats),
                milliseconds_a_row(lambda m=model: m.fit(X, y), N_ROWS, repeats),
                milliseconds_a_row(lambda m=model: m.predict(X), N_ROWS, args.repeats),
                milliseconds_a_row(lambda m=model: m.predict(X, X_std=0.1), N_ROWS, args.repeats),
                peak_megabytes(lambda m=model: m.fit(X, y)),
            ]
            name = " x ".join(map(str, hidden)) or "none"
            print(
                f"| {name} | {sum(sizes):,} | {max(sizes):,} | {covariance_type} | "
                + " | ".join(f"{float(f'{cell:.2g}'):g}" for cell in cells)
                + " |",
                flush=True,
            )
