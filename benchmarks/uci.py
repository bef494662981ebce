"""The standard UCI regression benchmark: RMSE and log-likelihood over the standard splits.

    python -m benchmarks uci --data FOLDER                              the default estimator
    python -m benchmarks uci --data FOLDER --methods paper paper-cv     the paper's procedure
    python -m benchmarks uci --data FOLDER --methods all --jobs 2       and other estimators
    python -m benchmarks uci --sets yacht --splits 5                    some sets and splits

The default chooses its networks; others have one hidden layer of 50 units (protein 100). The seed
of a fit is the number of its split. Prints
Markdown tables beside published results; the number after ± is the standard deviation over the
splits. Methods:

    default   TAGIRegressor with its defaults
    paper     batches of 10, 40 epochs, one network, the paper's average sigma_v of each set
    paper-cv  the same with sigma_v by 5-fold cross-validation on the training rows
    mlp       scikit-learn's MLPRegressor
    gpr       scikit-learn's GaussianProcessRegressor, on sets of at most 1000 training rows
    ridge     scikit-learn's BayesianRidge
    ngboost   NGBoost, if it is installed
"""

from __future__ import annotations

import argparse
import sys

from .data import UCI, add_data_option, digest, load_uci, split_rows
from .harness import add_run_options, evaluate, positive, run
from .methods import METHODS, installed, settings
from .uci_tables import uci_tables

ALL = "all"


def fit_split(data: str | None, method: str, name: str, split: int, seed: int) -> dict:
    rows = split_rows(data, name, split)
    model = METHODS[method].make(name, seed, rows[0].shape[1])
    return evaluate(model, *rows, has_std=METHODS[method].has_std)


def make_jobs(data: str | None, methods: list[str], sets: list[str], splits: int | None):
    """Jobs and what they cost, about; methods that cannot run are left out with a note."""
    for method in [m for m in methods if not installed(m)]:
        _note(f"{method} is left out: it is not installed (extra 'benchmarks')")
    methods = [m for m in methods if installed(m)]
    jobs, costs = [], []
    for name in sets:
        X, y, tests = load_uci(data, name)
        rows = digest(X, y, *tests)
        for method in methods:
            about = METHODS[method]
            n_train = len(y) - len(tests[0])
            if n_train > about.max_rows:
                _note(f"{method} is left out on {name}: {n_train} training rows are too many")
                continue
            for split in range(min(len(tests), splits or len(tests))):
                params = settings(about.make(name, split, X.shape[1]))
                jobs.append({
                    "method": method, "name": name, "split": split, "seed": split,
                    "about": {"package": about.package, "data": rows, "params": params},
                })  # fmt: skip
                costs.append(about.cost * n_train**about.growth)
    return jobs, costs


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser)
    parser.add_argument(
        "--sets", nargs="+", default=list(UCI), choices=list(UCI), metavar="NAME",
        help=f"data sets: {', '.join(UCI)}; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--splits", type=positive, metavar="N", help="the first N splits; default: all"
    )
    parser.add_argument(
        "--methods", nargs="+", default=["default"], choices=[*METHODS, ALL], metavar="METHOD",
        help=f"{', '.join(METHODS)} or {ALL}; default: default",
    )  # fmt: skip
    add_run_options(parser, "uci")


def main(args: argparse.Namespace) -> None:
    methods = list(METHODS) if ALL in args.methods else list(dict.fromkeys(args.methods))
    jobs, costs = make_jobs(args.data, methods, list(dict.fromkeys(args.sets)), args.splits)
    if not jobs:
        raise SystemExit("there is nothing to fit")
    print(uci_tables(run("uci", fit_split, jobs, args, costs)))
