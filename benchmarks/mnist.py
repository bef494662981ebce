"""MNIST: test errors after one epoch and stopped early, as in the paper, and with the defaults.

    python -m benchmarks mnist --data FOLDER --jobs 2
    python -m benchmarks mnist --data FOLDER --methods one-epoch early --units 800 --batches 1 \\
        --seeds 1
    python -m benchmarks mnist --data FOLDER --methods one-epoch --units 100 --batches 10 \\
        --sigma-v 0.4 --seeds 1
    python -m benchmarks mnist --data FOLDER --methods default --members 5 --epochs 10

Two hidden layers, float32, pixels in [0, 1] without further scaling. Methods:

    one-epoch  the paper's procedure: one pass over 95 % of the training rows, for each sigma_v
    early      the same with the sigma_v whose one-epoch runs give the best mean log-likelihood of
               the other 5 %; the posterior of the epoch that is best for them, after 5 epochs
               without a gain (the one-epoch runs are made first if they are missing)
    default    TAGIClassifier with its defaults but for the units, epochs and members

The first two go without the package's calibration. 2x800 with batches of 1 takes hours: give fewer
seeds there, and one results file to all commands; the tables say how many seeds there were.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sktagi import TAGIClassifier

from .data import add_data_option, digest, load_mnist
from .harness import add_run_options, positive, positive_number, run
from .methods import settings
from .mnist_tables import best_sigma_v, mnist_tables

METHODS = ("one-epoch", "early", "default")
SIGMA_V = (0.1, 0.2, 0.3, 0.4)
PATIENCE = 5  # epochs without a gain


def make_model(
    method: str, units: int, seed: int, batch_size=None, sigma_v=None, epochs=None, members=None
) -> TAGIClassifier:
    model = TAGIClassifier((units, units), standardize=False, random_state=seed)
    if method == "default":
        return model.set_params(max_iter=epochs, n_members=members)
    return model.set_params(
        sigma_v=sigma_v, class_coding="tree", batch_size=batch_size, batch_inference="independent",
        half_life=None, n_members=1, validation_fraction=0.05,
        max_iter=1 if method == "one-epoch" else epochs, n_iter_no_change=PATIENCE,
    )  # fmt: skip


def fit(data: str | None, **job) -> dict:
    X_train, y_train, X_test, y_test = load_mnist(data)
    model = make_model(**job)
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    if job["method"] != "default":
        # The paper's predictions: variances and noise as they were learned.
        model._net.calibration = None
    proba = model.predict_proba(X_test)
    return {
        "error": float(np.mean(model.classes_[proba.argmax(axis=1)] != y_test)),
        "log_loss": -model.log_likelihood(X_test, y_test),
        "validation_log_likelihood": max(model.validation_scores_),
        "seconds": seconds,
        "n_iter": int(model.n_iter_),
        "best_iter": float(np.mean(model.best_iter_)),
        "sigma_v": float(model.sigma_v_),
    }


def with_about(job: dict, rows: str) -> dict:
    return {**job, "about": {"data": rows, "params": settings(make_model(**job))}}


def cost(job: dict) -> float:
    """Parameters times epochs; small batches take longer."""
    parameters = (784 + job["units"]) * job["units"] + 100_000
    if job["method"] == "default":
        return parameters * job["epochs"] * job["members"]
    epochs = 20 if job["method"] == "early" else 1
    return parameters * epochs * (8 if job["batch_size"] == 1 else 1)


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser, "mnist.npz")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD",
        help=f"{', '.join(METHODS)}; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--units", type=positive, nargs="+", default=[100, 800], metavar="N",
        help="units of each of the two layers; default: 100 800",
    )  # fmt: skip
    parser.add_argument(
        "--batches", type=positive, nargs="+", default=[1, 10], metavar="N",
        help="rows of a batch, in the paper's procedure; default: 1 10",
    )  # fmt: skip
    parser.add_argument(
        "--sigma-v", type=positive_number, nargs="+", default=list(SIGMA_V), metavar="S",
        help="what sigma_v is chosen from, in the paper's procedure; default: 0.1 0.2 0.3 0.4",
    )  # fmt: skip
    parser.add_argument("--seeds", type=positive, default=5, metavar="N", help="runs; default: 5")
    parser.add_argument(
        "--epochs", type=positive, metavar="N",
        help="at most; default: 50 with early stopping, 10 with the defaults of the package",
    )  # fmt: skip
    parser.add_argument(
        "--members", type=positive, default=5, metavar="N",
        help="of the default; default: %(default)s",
    )  # fmt: skip
    add_run_options(parser, "mnist")


def main(args: argparse.Namespace) -> None:
    rows = digest(*load_mnist(args.data))

    def run_all(jobs: list[dict]) -> list[dict]:
        return run("mnist", fit, [with_about(job, rows) for job in jobs], args, [*map(cost, jobs)])

    seeds, records = range(args.seeds), []
    all_units, batches, sigmas = (
        list(dict.fromkeys(given)) for given in (args.units, args.batches, args.sigma_v)
    )
    if {"one-epoch", "early"} & set(args.methods):
        records += run_all([
            {"method": "one-epoch", "units": units, "batch_size": batch, "sigma_v": sigma_v,
             "seed": seed}
            for units in all_units
            for batch in batches
            for sigma_v in sigmas
            for seed in seeds
        ])  # fmt: skip
    if "early" in args.methods:
        records += run_all([
            {"method": "early", "units": units, "batch_size": batch,
             "sigma_v": best_sigma_v(records, units, batch), "seed": seed,
             "epochs": args.epochs or 50}
            for units in all_units
            for batch in batches
            for seed in seeds
        ])  # fmt: skip
    if "default" in args.methods:
        records += run_all([
            {"method": "default", "units": units, "seed": seed, "epochs": args.epochs or 10,
             "members": args.members}
            for units in all_units
            for seed in seeds
        ])  # fmt: skip
    print(mnist_tables(records))
