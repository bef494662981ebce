"""RMSE for batches of 10, 50, 200 and all rows at once, joint and independent.

    python -m benchmarks batches --data FOLDER

The paper's setting otherwise: one network of 50 units, 40 epochs, the paper's average sigma_v, no
forgetting, no early stopping. Mean test RMSE over the first splits.
"""

from __future__ import annotations

import argparse

import numpy as np

from sktagi import TAGIRegressor

from .data import add_data_option, load_uci, split_rows, uci_digest
from .harness import add_run_options, evaluate, positive, run
from .methods import PAPER_SETTING
from .published import PAPER

SETS = ("energy", "concrete", "yacht")
SIZES = (10, 50, 200, 100_000)


def fit_batches(
    data: str | None, name: str, split: int, batch_size: int, batch_inference: str
) -> dict:
    model = TAGIRegressor((50,), sigma_v=PAPER[name].sigma_v, random_state=split, **PAPER_SETTING)
    model.set_params(batch_size=batch_size, batch_inference=batch_inference)
    return evaluate(model, *split_rows(data, name, split))


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="default: all three")
    parser.add_argument("--splits", type=positive, default=10, help="the first so many splits")
    add_run_options(parser, "batches")


def main(args: argparse.Namespace) -> None:
    about = {name: {"data": uci_digest(args.data, name)} for name in args.sets}
    n_splits = min(args.splits, *(len(load_uci(args.data, name)[2]) for name in args.sets))
    jobs = [
        {"name": name, "split": split, "batch_size": size, "batch_inference": how,
         "about": about[name]}
        for how in ("joint", "independent")
        for name in args.sets
        for size in SIZES
        for split in range(n_splits)
    ]  # fmt: skip
    results = run("batches", fit_batches, jobs, args)
    print("| inference | set | B=10 | B=50 | B=200 | all rows |")
    print("|---|---|---|---|---|---|")
    for how in ("joint", "independent"):
        for name in args.sets:
            cells = [
                np.mean(
                    [
                        r["result"]["rmse"]
                        for r in results
                        if (r["job"]["name"], r["job"]["batch_size"], r["job"]["batch_inference"])
                        == (name, size, how)
                    ]
                )
                for size in SIZES
            ]
            print(f"| {how} | {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
