"""Data-parallel training on dask against a fit on all rows, at equal epochs, and its speed.

``python -m benchmarks shards --data FOLDER``
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sktagi import TAGIRegressor

from .data import UCI, add_data_option, load_uci


def scores(model, X, y) -> str:
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    return f"{error:.4f} | {model.log_likelihood(X, y):.4f} | {model.n_iter_}"


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser)
    parser.add_argument(
        "--sets", nargs="+", default=["kin8nm", "protein"], choices=list(UCI), metavar="NAME",
        help="data sets; default: kin8nm protein",
    )  # fmt: skip
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--no-early-stopping", action="store_true")


def main(args: argparse.Namespace) -> None:
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    from sktagi.dask import fit_shards

    print("| set | trained on | RMSE | log-likelihood | epochs | seconds an epoch |")
    print("|---|---|---|---|---|---|")
    for name in args.sets:
        X, y, tests = load_uci(args.data, name)
        train = np.setdiff1d(np.arange(len(y)), tests[0])
        train = np.random.default_rng(0).permutation(train)
        X_train, y_train, X_test, y_test = X[train], y[train], X[tests[0]], y[tests[0]]
        model = TAGIRegressor(
            max_iter=args.epochs, n_members=args.members, random_state=0,
            early_stopping=not args.no_early_stopping,
        )  # fmt: skip

        def report(what, fitted, seconds, name=name, X_test=X_test, y_test=y_test):
            row = [name, what, scores(fitted, X_test, y_test), f"{seconds / fitted.n_iter_:.2f}"]
            print("| " + " | ".join(row) + " |", flush=True)

        start = time.perf_counter()
        fitted = model.fit(X_train, y_train)
        report("all rows, fit", fitted, time.perf_counter() - start)
        rows = len(train) // args.partitions
        start = time.perf_counter()
        fitted = model.fit(X_train[:rows], y_train[:rows])
        report("one partition alone", fitted, time.perf_counter() - start)
        size = -(-len(train) // args.partitions)
        for workers in (1, 2):
            with (
                LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster),
            ):
                dX, dy = da.from_array(X_train, (size, -1)), da.from_array(y_train, size)
                start = time.perf_counter()
                fitted = fit_shards(model, dX, dy)
                seconds = time.perf_counter() - start
            report(f"{args.partitions} partitions, {workers} processes", fitted, seconds)
