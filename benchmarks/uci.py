"""The standard UCI regression benchmark: RMSE and log-likelihood over the standard splits.

    python -m benchmarks.uci --data FOLDER              the default estimator
    python -m benchmarks.uci --data FOLDER --paper      the paper's procedure, its average sigma_v

One hidden layer of 50 units (protein 100). Prints a Markdown table beside published results; the
number after ± is the standard deviation over the splits. Without --data the sets are fetched from
OpenML.
"""

from __future__ import annotations

import argparse

import numpy as np

from sktagi import TAGIRegressor

from .data import UCI, load_uci
from .harness import evaluate, run

# RMSE and log-likelihood as published, in the digits published.
PUBLISHED = {
    "PBP": (
        "3.01/-2.57 5.67/-3.16 1.80/-2.04 0.10/0.90 0.01/3.73 "
        "4.12/-2.84 4.73/-2.97 0.64/-0.97 1.02/-1.63"
    ),
    "VMG": (
        "2.70/-2.46 4.89/-3.01 0.54/-1.06 0.10/1.10 0.00/2.46 "
        "4.04/-2.82 4.13/-2.84 0.63/-0.95 0.71/-1.30"
    ),
    "MC-dropout": (
        "2.97/-2.46 5.23/-3.04 1.66/-1.99 0.10/0.95 0.01/3.80 "
        "4.02/-2.80 4.36/-2.89 0.62/-0.93 1.11/-1.55"
    ),
    "TAGI": (
        "2.98/-2.58 5.72/-3.17 1.46/-1.81 0.10/0.88 0.01/2.10 "
        "4.12/-2.83 4.70/-2.97 0.63/-0.96 1.02/-1.49"
    ),
    "MC-dropout tuned": (
        "2.90/-2.40 4.82/-2.93 0.54/-1.21 0.08/1.14 0.00/4.45 "
        "4.01/-2.80 4.27/-2.87 0.62/-0.93 0.67/-1.25"
    ),
    "deep ensembles": (
        "3.28/-2.41 6.03/-3.06 2.09/-1.38 0.09/1.20 0.00/5.63 "
        "4.11/-2.79 4.71/-2.83 0.64/-0.94 1.58/-1.18"
    ),
    "NGBoost": (
        "2.94/-2.43 5.06/-3.04 0.46/-0.60 0.16/0.49 0.00/5.34 "
        "3.79/-2.79 4.33/-2.81 0.63/-0.91 0.50/-0.20"
    ),
    "best neural": (
        "2.65/-2.35 4.46/-2.93 0.46/-0.61 0.07/1.28 0.00/6.33 "
        "3.70/-2.75 3.85/-2.63 0.61/-0.89 0.57/-0.47"
    ),
}
# The paper's Table 1 ranks against these.
RIVALS = ("PBP", "VMG", "MC-dropout", "TAGI")
PAPER_SIGMA_V = {
    "boston": 0.28, "concrete": 0.32, "energy": 0.15, "kin8nm": 0.36, "naval": 0.31, "power": 0.24,
    "protein": 0.74, "wine": 0.72, "yacht": 0.07,
}  # fmt: skip


def fit_split(data: str | None, name: str, split: int, paper: bool) -> dict:
    X, y, tests = load_uci(data, name)
    train = np.setdiff1d(np.arange(len(y)), tests[split])
    model = TAGIRegressor((100,) if name == "protein" else (50,), random_state=split)
    if paper:
        model.set_params(
            sigma_v=PAPER_SIGMA_V[name], batch_size=10, batch_inference="independent",
            half_life=None, n_members=1, early_stopping=False, max_iter=40,
        )  # fmt: skip
    return evaluate(model, X[train], y[train], X[tests[split]], y[tests[split]])


def published(method: str) -> dict[str, tuple[str, str]]:
    return {
        name: tuple(cell.split("/"))
        for name, cell in zip(UCI, PUBLISHED[method].split(), strict=True)
    }


def report(names: list[str], results: list[dict]) -> str:
    lines = [
        "| set | RMSE | log-likelihood | rank RMSE, LL | seconds | coverage 50 90 95 | "
        + " | ".join(PUBLISHED) + " |",
        "|---" * (6 + len(PUBLISHED)) + "|",
    ]  # fmt: skip
    first = cells = 0
    coverages = []
    for name in names:
        rows = [r["result"] for r in results if r["job"]["name"] == name]
        rmse = np.array([row["rmse"] for row in rows])
        log_lik = np.array([row["log_likelihood"] for row in rows])
        coverage = np.mean([list(row["coverage"].values()) for row in rows], axis=0)
        coverages.append(coverage)
        ranks = []
        for k, (ours, sign) in enumerate(((rmse.mean(), 1), (log_lik.mean(), -1))):
            # Published figures have two digits, so ours are compared in two.
            better = [sign * float(published(m)[name][k]) < sign * round(ours, 2) for m in RIVALS]
            ranks.append(1 + sum(better))
        first += ranks.count(1)
        cells += 2
        digits = 5 if name == "naval" else 3
        lines.append(
            f"| {name} ({len(rows)}) | {rmse.mean():.{digits}f} ± {rmse.std():.{digits}f} "
            f"| {log_lik.mean():.3f} ± {log_lik.std():.3f} | {ranks[0]}, {ranks[1]} "
            f"| {np.mean([row['seconds'] for row in rows]):.1f} "
            f"| {' '.join(f'{100 * c:.0f}' for c in coverage)} | "
            + " | ".join("/".join(published(m)[name]) for m in PUBLISHED)
            + " |"
        )
    lines += [
        "",
        f"First or tied for first against {', '.join(RIVALS)} in {first} of {cells} cells.",
        "Mean coverage of 50, 90 and 95 % intervals: "
        + ", ".join(f"{100 * c:.1f} %" for c in np.mean(coverages, axis=0)),
    ]
    return "\n".join(lines)


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder that holds uci/<name>.npz; default: OpenML")
    parser.add_argument("--sets", nargs="+", default=list(UCI), metavar="NAME", help="data sets")
    parser.add_argument("--splits", type=int, help="the first so many splits; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--paper", action="store_true", help="the paper's procedure")
    parser.add_argument("--out", help="file of results, one JSON line a fit; resumes a run")
    args = parser.parse_args(argv)
    jobs = []
    for name in args.sets:
        n_splits = len(load_uci(args.data, name)[2])
        for split in range(min(n_splits, args.splits or n_splits)):
            jobs.append({"data": args.data, "name": name, "split": split, "paper": args.paper})
    print(report(args.sets, run(fit_split, jobs, args.jobs, args.out)))


if __name__ == "__main__":
    main()
