"""RMSE for batches of 10, 50, 200 and all rows at once, joint and independent.

    python -m benchmarks.batches --data FOLDER

The paper's setting otherwise: one network of 50 units, 40 epochs, the paper's average sigma_v,
nothing forgotten, no early stopping. Mean test RMSE over the first splits.
"""

from __future__ import annotations

import argparse

import numpy as np

from sktagi import TAGIRegressor

from .data import load_uci
from .harness import evaluate, run
from .uci import PAPER_SIGMA_V

SETS = ("energy", "concrete", "yacht")
SIZES = (10, 50, 200, 100_000)


def fit_batches(
    data: str | None, name: str, split: int, batch_size: int, batch_inference: str
) -> dict:
    X, y, tests = load_uci(data, name)
    train = np.setdiff1d(np.arange(len(y)), tests[split])
    model = TAGIRegressor(
        (50,), sigma_v=PAPER_SIGMA_V[name], batch_size=batch_size, batch_inference=batch_inference,
        half_life=None, n_members=1, early_stopping=False, max_iter=40, random_state=split,
    )  # fmt: skip
    return evaluate(model, X[train], y[train], X[tests[split]], y[tests[split]])


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder that holds uci/<name>.npz; default: OpenML")
    parser.add_argument("--splits", type=int, default=10, help="the first so many splits")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--out", help="file of results, one JSON line a fit; resumes a run")
    args = parser.parse_args(argv)
    jobs = [
        {"data": args.data, "name": name, "split": split, "batch_size": size,
         "batch_inference": how}
        for how in ("joint", "independent")
        for name in SETS
        for size in SIZES
        for split in range(args.splits)
    ]  # fmt: skip
    results = run(fit_batches, jobs, args.jobs, args.out)
    print("| inference | set | B=10 | B=50 | B=200 | all rows |")
    print("|---|---|---|---|---|---|")
    for how in ("joint", "independent"):
        for name in SETS:
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


if __name__ == "__main__":
    main()
