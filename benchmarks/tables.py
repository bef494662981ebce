"""Is it better than what else there is for tables? Errors, distributions and seconds beside others.

    python -m benchmarks tables --data FOLDER
    python -m benchmarks tables --data FOLDER --kind regression --sets boston wine --splits 1
    python -m benchmarks tables --data FOLDER --methods sktagi HistGradientBoosting

Prints one short table of all methods, then the figures of each data set. FOLDER holds
uci/<name>.npz, tables/<name>.npz (arrays X, y and test_mask) and classes/<name>.csv.gz; without it
the sets of uci are fetched from OpenML, and the others are left out.

Regression uses inner splits only: the test part of a standard split is not used, its training part
is divided again; tables of fewer than 300 rows are left out. Classes use stratified folds. No more
than --rows rows are learned. All methods have their defaults, or the settings that are printed
below the table; nothing is tuned. Seconds are those that pass while a model is fitted, with
--threads threads for each method that can use them: other work at the same time, and --jobs above
1, make them useless. The fit that gives a method without a spread its level of noise is not in
them.

CatBoost and NGBoost are in the extra "benchmarks". RealMLP is in an extra of its own, "realmlp":
its package pytabkit needs PyTorch, which comes with gigabytes for graphics cards unless its CPU
build is installed first. Methods that are not installed are left out with a note.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

from sktagi.metrics import crps, log_score

from . import classes_rows, distribution_rows
from .classes_rows import N_FOLDS, table_fold, table_names
from .data import UCI, add_data_option, digest
from .distribution_rows import MOST_ROWS, inner_rows, n_splits, uci_and_tables
from .harness import add_run_options, positive, run
from .methods import has_package
from .tables_methods import METHODS, make
from .tables_report import Found, report

LEAST_ROWS = 300  # of a table of regression


def fit_regressor(
    data: str | None, name: str, split: int, method: str, rows: int, threads: int
) -> dict:
    """Scores on an inner split; targets in units of their std among the rows to learn from."""
    X, y, X_new, y_new = inner_rows(data, name, split, rows)
    model, scale = make("regression", method, split, threads, X.shape[1]), y.std()
    with threadpool_limits(threads):
        result = distribution_rows.score(model, X, y, X_new, y_new, clock=time.perf_counter)
        if hasattr(model, "predict_dist"):
            dist = model.predict_dist(X_new)
        else:
            dist = stats.norm(*model.predict(X_new, return_std=True))
    level_seconds = getattr(model, "level_seconds_", 0.0)
    return result | {
        "rmse": result["rmse"] / scale,
        "log_likelihood": log_score(y_new, dist) + float(np.log(scale)),
        "crps": crps(y_new, dist) / scale,
        "seconds": result["seconds"] - level_seconds,
        "level_seconds": level_seconds,
    }


def fit_classifier(data: str, name: str, split: int, method: str, rows: int, threads: int) -> dict:
    """Scores on a fold."""
    X, y, X_new, y_new, _ = table_fold(data, name, split, rows)
    model = make("classes", method, split, threads, X.shape[1])
    with threadpool_limits(threads):
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, **classes_rows.score(model.predict_proba(X_new), y_new)}


class Kind(NamedTuple):
    """What is fitted, and to which rows."""

    fit: Callable
    names: Callable  # (folder) -> names of tables
    n_splits: Callable  # (folder, name) -> number
    rows: Callable  # (folder, name, split, most rows) -> X, y, X_new, y_new, ...


KINDS = {
    "regression": Kind(
        fit_regressor,
        lambda data: uci_and_tables(LEAST_ROWS) if data else list(UCI),
        n_splits,
        inner_rows,
    ),
    "classes": Kind(
        fit_classifier,
        lambda data: table_names(data) if data else [],
        lambda data, name: N_FOLDS,
        table_fold,
    ),
}
ALL_METHODS = list(dict.fromkeys(name for methods in METHODS.values() for name in methods))


def installed(kind: str, methods: list[str]) -> list[str]:
    """Those of the methods that this kind has and that can run, with a note on the others."""
    of_kind = [method for method in dict.fromkeys(methods) if method in METHODS[kind]]
    there = [method for method in of_kind if has_package(METHODS[kind][method].package)]
    for method in of_kind:
        if method not in there:
            print(f"{kind}: {method} is not installed, and is left out", file=sys.stderr)
    return there


def measure(kind: str, names: list[str], methods: list[str], args: argparse.Namespace) -> Found:
    """The results of all splits; on each of them methods take turns, so that none is favoured."""
    about, jobs, costs = KINDS[kind], [], []
    for name in names:
        rows = about.rows(args.data, name, 0, args.rows)[:4]
        data, n_rows = digest(*rows), len(rows[0])
        jobs += [
            {"name": name, "split": split, "method": method, "rows": args.rows,
             "threads": args.threads,
             "about": {"package": METHODS[kind][method].package, "data": data}}
            for split in range(min(args.splits, about.n_splits(args.data, name)))
            for method in methods
            if n_rows <= METHODS[kind][method].max_rows
        ]  # fmt: skip
        costs += [n_rows] * (len(jobs) - len(costs))
    found: Found = {method: {} for method in methods}
    for record in run(f"tables {kind}", about.fit, jobs, args, costs):
        job = record["job"]
        found[job["method"]].setdefault(job["name"], []).append(record["result"])
    return {method: results for method, results in found.items() if results}


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser, "uci/, tables/ and classes/")
    parser.add_argument(
        "--kind", choices=[*KINDS, "both"], default="both", help="default: %(default)s"
    )
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="data sets; default: all")
    parser.add_argument(
        "--methods", nargs="+", default=ALL_METHODS, choices=ALL_METHODS, metavar="METHOD",
        help=f"of {', '.join(ALL_METHODS)}; others are compared with the first; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--splits", type=positive, default=3, metavar="N",
        help="the first N splits of a table, or of its five folds; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--rows", type=positive, default=MOST_ROWS, metavar="N",
        help="rows to learn from, at most; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=positive, default=2, metavar="N",
        help="threads of each method; default: %(default)s",
    )  # fmt: skip
    add_run_options(parser, "tables")


def main(args: argparse.Namespace) -> None:
    kinds = list(KINDS) if args.kind == "both" else [args.kind]
    names = {kind: KINDS[kind].names(args.data) for kind in kinds}
    known = [name for of_kind in names.values() for name in of_kind]
    if unknown := [name for name in args.sets or [] if name not in known]:
        raise SystemExit(f"no data set {unknown[0]!r}; there are {', '.join(known)}")
    setting = (
        f"At most {args.splits} splits of each, and {args.rows} rows to learn from; threads of "
        f"each method: {args.threads}."
    )
    fitted = False
    for kind in kinds:
        chosen = [name for name in names[kind] if not args.sets or name in args.sets]
        methods = installed(kind, args.methods) if chosen else []
        if methods and (found := measure(kind, chosen, methods, args)):
            print(f"{kind}\n\n{report(kind, found, setting)}\n", flush=True)
            fitted = True
    if not fitted:
        raise SystemExit("there is nothing to fit")
