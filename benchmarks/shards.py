"""Data-parallel training against a fit on all rows, at equal epochs, and what more processes bring.

``python -m benchmarks shards --data FOLDER``, and ``python -m benchmarks shards --rows 200000``
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import contextmanager

import numpy as np

from sktagi import TAGIRegressor

from .data import UCI, add_data_option, load_uci

PROCESSES = 1, 2
TABLE = "table"  # generated, with categories and missing values


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser)
    parser.add_argument(
        "--sets", nargs="+", default=["kin8nm", "protein"], choices=[*UCI, TABLE], metavar="NAME",
        help=f"data sets, or {TABLE}: generated rows; default: kin8nm protein",
    )  # fmt: skip
    parser.add_argument(
        "--rows", nargs="+", type=int, metavar="N",
        help="in the place of sets, generated rows: the seconds of one process and of two in turns",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=3, help="turns with --rows")
    parser.add_argument("--auto", action="store_true", help="the default network with --rows")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument(
        "--more-epochs", type=int, default=1, help="times the epochs, for partitions"
    )
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--no-early-stopping", action="store_true")


def main(args: argparse.Namespace) -> None:
    if args.rows:
        compare_processes(args)
    else:
        compare_scores(args)


@contextmanager
def cluster_of(processes: int):
    from dask.distributed import Client, LocalCluster

    given = {"n_workers": processes, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**given) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def partitioned(X: np.ndarray, y: np.ndarray, n_partitions: int):
    import dask.array as da

    size = -(-len(y) // n_partitions)
    return da.from_array(X, (size, -1)), da.from_array(y, size)


# What two processes bring


def generated(n: int):
    """Friedman's function of ten features, with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 10))
    smooth = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * np.square(X[:, 2] - 0.5)
    return X, smooth + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)


def cpu_seconds() -> float:
    return sum(os.times()[:2])


def compare_processes(args: argparse.Namespace) -> None:
    from sktagi.dask import fit_shards

    kind = {} if args.auto else {"hidden_layer_sizes": (50,), "n_members": args.members}
    model = TAGIRegressor(**kind, max_iter=args.epochs, random_state=0)
    print(
        "| rows | processes | seconds an epoch, least and median | CPU seconds of the busiest "
        "worker | of this process |\n|---|---|---|---|---|"
    )
    with cluster_of(PROCESSES[0]) as one, cluster_of(PROCESSES[1]) as two:
        for n in args.rows:
            X, y = generated(n)
            results: list[list[np.ndarray]] = [[] for _ in PROCESSES]
            # Rows that are on the workers already
            parts = [
                client.persist(list(partitioned(X, y, args.partitions))) for client in (one, two)
            ]
            for _ in range(args.repeats):  # in turns: other programs disturb both alike
                for client, given, of_client in zip((one, two), parts, results, strict=True):
                    before, mine = client.run(cpu_seconds), cpu_seconds()
                    start = time.perf_counter()
                    epochs = fit_shards(model, *given, client=client).n_iter_
                    seconds = time.perf_counter() - start
                    after = client.run(cpu_seconds)
                    busiest = max(after[worker] - before[worker] for worker in before)
                    of_fit = [seconds, busiest, cpu_seconds() - mine]
                    of_client.append(np.array(of_fit) / epochs)
            for processes, found in zip(PROCESSES, results, strict=True):
                (least, *_), (median, busiest, mine) = np.min(found, 0), np.median(found, 0)
                figures = f"{least:.2f}, {median:.2f} | {busiest:.2f} | {mine:.2f}"
                print(f"| {n} | {processes} | {figures} |", flush=True)
            seconds = np.array(results)[:, :, 0]
            ratio = np.median(seconds[0] / seconds[1])
            print(f"{n} rows: two processes are {ratio:.2f} times as fast (median of the turns)")


# Scores


def scores(model, X, y) -> str:
    error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    return f"{error:.4f} | {model.log_likelihood(X, y):.4f} | {model.n_iter_}"


def make_table(n: int, rng: np.random.Generator):
    """Two categories and three numbers, of which some are missing, and a target."""
    import pandas as pd

    kind = rng.choice(["a", "b", "c", "d"], size=n, p=[0.5, 0.3, 0.15, 0.05])
    size = rng.choice(["small", "big"], size=n)
    x, w = rng.normal(size=(2, n))
    y = 2.0 * (kind == "a") - 1.5 * (kind == "c") + np.sin(2 * x) + 0.5 * w * (size == "big")
    frame = pd.DataFrame({"kind": kind, "size": size, "x": x, "w": w})
    frame["near"] = x + 0.3 * rng.normal(size=n)
    for name, share in (("kind", 0.1), ("x", 0.2), ("w", 0.1)):
        frame.loc[rng.random(n) < share, name] = None
    return frame, y + 0.2 * rng.normal(size=n)


def load(folder: str | None, name: str):
    """Training rows in a random order, and test rows."""
    if name == TABLE:
        rng = np.random.default_rng(0)
        return *make_table(3000, rng), *make_table(5000, rng)
    X, y, tests = load_uci(folder, name)
    train = np.setdiff1d(np.arange(len(y)), tests[0])
    train = np.random.default_rng(0).permutation(train)
    return X[train], y[train], X[tests[0]], y[tests[0]]


def compare_scores(args: argparse.Namespace) -> None:
    from sktagi.dask import fit_shards

    print("| set | trained on | RMSE | log-likelihood | epochs | seconds an epoch |")
    print("|---|---|---|---|---|---|")
    for name in args.sets:
        X, y, X_test, y_test = load(args.data, name)
        model = TAGIRegressor(
            max_iter=args.epochs, n_members=args.members, random_state=0,
            early_stopping=not args.no_early_stopping,
        )  # fmt: skip

        def report(what, fitted, seconds, name=name, X_test=X_test, y_test=y_test):
            row = [name, what, scores(fitted, X_test, y_test), f"{seconds / fitted.n_iter_:.2f}"]
            print("| " + " | ".join(row) + " |", flush=True)

        start = time.perf_counter()
        fitted = model.fit(X, y)
        report("all rows, fit", fitted, time.perf_counter() - start)
        rows = np.array_split(np.arange(len(y)), args.partitions)
        start = time.perf_counter()
        fitted = model.fit(X[: len(rows[0])], y[: len(rows[0])])
        report("one partition alone", fitted, time.perf_counter() - start)
        model.set_params(max_iter=args.epochs * args.more_epochs)
        for processes in PROCESSES:
            with cluster_of(processes) as client:
                parts = [X[a[0] : a[-1] + 1] for a in rows], [y[a] for a in rows]
                start = time.perf_counter()
                fitted = fit_shards(model, *parts, client=client)
                seconds = time.perf_counter() - start
            report(f"{args.partitions} partitions, {processes} processes", fitted, seconds)
