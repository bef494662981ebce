"""Is the predictive distribution right? Noise that varies, calibration, groups, streams, outliers.

    python -m benchmarks distribution
    python -m benchmarks distribution --data FOLDER --jobs 2
    python -m benchmarks distribution --cases generated few --seeds 3

Prints the tables of doc/distribution_results.md, one for each case, with medians over seeds, and
beside each goal how much of the table reaches it. ``auto`` and ``constant`` are values of sigma_v:
noise that may vary from row to row, and one level. Everything else is the default unless a table
says otherwise. FOLDER holds uci/<name>.npz and tables/<name>.npz (arrays X, y and test_mask); the
cases of tables use inner splits of training parts, at most 3000 rows of them, and are left out
without it. --before also scores an earlier checkout in the case "fifths".
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy import stats
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from sktagi import TAGIRegressor

from .distribution_rows import LEVEL, made_rows, median, outcome, percent, score
from .distribution_tables import fifths, inner, ratio, scale
from .harness import add_run_options, positive, run
from .markdown import markdown

NOISES = ("constant", "auto")
IDEAL_WIDTH = 2 * stats.norm.ppf(0.5 + LEVEL / 2)  # of the interval of a standard Gaussian


def fit_made(
    data: str | None, rows: str, n: int, seed: int, params: dict, outliers: float = 0.0
) -> dict:
    """Scores on new rows; with quarters of the range of x0 as parts for the generated set."""
    old, new = made_rows(rows, n, seed)
    y = old.y.copy()
    if outliers:
        rng = np.random.default_rng([seed, 1])
        off = rng.permutation(n)[: round(outliers * n)]
        y[off] += 100 * old.y.std() * rng.choice([-1, 1], size=len(off))
    parts = None
    if rows == "generated":
        parts = np.minimum((new.X[:, 0] + 3) / 1.5, 3).astype(int)
    model = TAGIRegressor(random_state=seed, **params)
    truth = stats.norm.logpdf(new.y, new.mean, new.std).mean()
    return {**score(model, old.X, y, new.X, new.y, parts), "truth": float(truth)}


def made(args: argparse.Namespace, seeds: int, **job) -> list[dict]:
    """The results of all seeds."""
    jobs = [{"seed": seed, **job} for seed in range(seeds)]
    return [r["result"] for r in run("distribution made", fit_made, jobs, args)]


def generated(args: argparse.Namespace, seeds: int) -> None:
    lines, covered = [], []
    reached: dict[int, list[float]] = {}  # log-likelihoods of auto
    for n in (300, 1000):
        for sigma_v in NOISES:
            found = made(args, seeds, rows="generated", n=n, params={"sigma_v": sigma_v})
            scores = [r["log_likelihood"] for r in found]
            quarters = np.median([np.divide(r["inside"], r["rows"]) for r in found], axis=0)
            if sigma_v == "auto":
                reached[n] = scores
                covered += quarters.tolist()
            low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75])
            cells = [f"{middle:.3f}", f"{low:.3f} to {high:.3f}", f"{median(found, 'truth'):.3f}"]
            lines.append([str(n), sigma_v, *cells, *map(percent, quarters)])
    quarters_of = [f"{low:g} < x0 < {low + 1.5:g}" for low in (-3, -1.5, 0, 1.5)]
    columns = ["log-likelihood", "quartiles", "of the truth", *quarters_of]
    print(markdown(["rows", "sigma_v", *columns], lines))
    # The log-likelihood at 300 rows differs much from draw to draw: a median says little alone.
    for n, least in ((300, -0.25), (1000, -0.05)):
        what = f"log-likelihood of auto at {n} rows at least {least}"
        print(outcome(f"median {what}", [float(np.median(reached[n]))], low=least))
        print(outcome(f"{what} for every seed", reached[n], low=least))
    print(outcome("auto covers 85 to 95 % in each quarter", covered, 0.85, 0.95))


def smooth(args: argparse.Namespace, seeds: int) -> None:
    lines, gains = [], []
    for n in (200, 1000, 5000):
        one, varying = (
            made(args, seeds, rows="smooth", n=n, params={"sigma_v": sigma_v}) for sigma_v in NOISES
        )
        differences = [b["log_likelihood"] - a["log_likelihood"]
                       for a, b in zip(one, varying, strict=True)]  # fmt: skip
        gains.append(float(np.median(differences)))
        scores = [f"{median(found, 'log_likelihood'):.3f}" for found in (one, varying)]
        lines.append([str(n), *scores, f"{median(one, 'truth'):.3f}", f"{gains[-1]:+.4f}",
                      f"{min(differences):+.4f}"])  # fmt: skip
    print(markdown(["rows", *NOISES, "truth", "auto - constant", "worst seed"], lines))
    print(outcome("auto - constant at least -0.01", gains, low=-0.01))


def few(args: argparse.Namespace, seeds: int) -> None:
    lines = []
    for n in (20, 50, 90, 91, 100, 150, 300):
        cells = []
        for sigma_v in NOISES:
            found = made(args, seeds, rows="noise", n=n, params={"sigma_v": sigma_v})
            widths = [r["width"] / IDEAL_WIDTH for r in found]
            cells += [f"{np.median(widths):.2f} ({min(widths):.2f} to {max(widths):.2f})",
                      percent(median(found, "coverage"))]  # fmt: skip
        lines.append([str(n), *cells])
    columns = [f"{sigma_v}: {what}" for sigma_v in NOISES for what in ("width / ideal", "coverage")]
    print(markdown(["rows", *columns], lines), end="\n\n")
    lines = []
    for n in (60, 80, 89, 90, 91, 92, 100, 120):
        found = made(args, seeds, rows="diabetes", n=n, params={"sigma_v": "auto"})
        lines.append([str(n), f"{median(found, 'width'):.0f}", percent(median(found, "coverage"))])
    print(markdown(["rows of diabetes", "width", "coverage"], lines))


def outliers(args: argparse.Namespace, seeds: int) -> None:
    lines = []
    for n in (300, 1000):
        for sigma_v in NOISES:
            common = {"rows": "smooth", "n": n, "params": {"sigma_v": sigma_v}}
            without, found = (
                made(args, seeds, **common, **share) for share in ({}, {"outliers": 0.01})
            )
            cells = [f"{median(r, key):.3f}" for key in ("rmse", "std") for r in (without, found)]
            lines.append([str(n), sigma_v, *cells, percent(median(found, "coverage"))])
    columns = [
        "RMSE without",
        "RMSE with",
        "median std without",
        "median std with",
        "coverage with",
    ]
    print(markdown(["rows", "sigma_v", *columns], lines))


def fit_groups(data: str | None, n_groups: int, n_known: int, by: str, seed: int) -> dict:
    """Scores on 60 groups that were not learned; 20 rows and an effect of its own for each group.

    ``n_known`` features are the same in all rows of a group, so that it can be told from others.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups + 60), 20)
    x, known = rng.normal(size=(len(group), 2)), rng.normal(size=(n_groups + 60, n_known))[group]
    effect = 0.6 * rng.normal(size=n_groups + 60)[group]
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + effect + 0.3 * rng.normal(size=len(group))
    X, old = np.hstack([x, known]), group < n_groups
    model = TAGIRegressor(cv=GroupKFold(9) if by == "group" else None, random_state=seed)
    labels = group[old] if by == "group" else None
    return score(_Grouped(model, labels), X[old], y[old], X[~old], y[~old])


class _Grouped:
    """A regressor that is fitted with groups."""

    def __init__(self, model, groups):
        self.model, self.groups = model, groups

    def fit(self, X, y):
        self.model.fit(X, y, groups=self.groups)

    def __getattr__(self, name):
        return getattr(self.model, name)


def groups(args: argparse.Namespace, seeds: int) -> None:
    lines = []
    for n_known in (0, 3):
        for n_groups in (20, 40, 80):
            cells = []
            for by in ("row", "group"):
                jobs = [{"n_groups": n_groups, "n_known": n_known, "by": by, "seed": seed}
                        for seed in range(seeds)]  # fmt: skip
                found = [r["result"] for r in run("distribution groups", fit_groups, jobs, args)]
                cells += [percent(median(found, "coverage")), f"{median(found, 'rms'):.2f}"]
            lines.append([str(n_known), str(n_groups), *cells])
    columns = [
        f"{by}: {what}" for by in ("random rows", "GroupKFold") for what in ("coverage", "rms")
    ]
    print(markdown(["features of the group", "groups", *columns], lines))


AFTER = (0, 100, 200, 500)  # rows after the change


def follow_stream(
    data: str | None, kind: str, sigma_v: str, seed: int, n_rows: int = 4000, chunk: int = 10
) -> dict:
    """Log-likelihood of rows before they are learned, and std around the middle of the stream."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n_rows, 3))
    late = np.arange(n_rows) >= n_rows // 2
    noise = {"constant": np.full(n_rows, 0.2), "doubles": np.where(late, 0.4, 0.2),
             "depends on x": 0.1 * np.exp(0.8 * X[:, 2])}[kind]  # fmt: skip
    errors = noise * rng.normal(size=n_rows)
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + errors
    model = TAGIRegressor(sigma_v=sigma_v, random_state=seed)
    score, std = np.zeros(n_rows), np.zeros(n_rows)
    for start in range(0, n_rows, chunk):
        part = slice(start, start + chunk)
        if start:
            std[part] = model.predict(X[part], return_std=True)[1]
            score[part] = model.log_likelihood(X[part], y[part])
        model.partial_fit(X[part], y[part])
    truth, middle = stats.norm.logpdf(errors, scale=noise), n_rows // 2
    return {
        "all": float(score[chunk:].mean()),
        "late": float(score[late].mean()),
        "truth": float(truth[late].mean()),
        "before": float(std[middle - 50 : middle].mean()),
        **{str(k): float(std[middle + k : middle + k + 50].mean()) for k in AFTER},
    }


def stream(args: argparse.Namespace, seeds: int) -> None:
    lines = []
    for kind in ("constant", "doubles", "depends on x"):
        for sigma_v in NOISES:
            jobs = [{"kind": kind, "sigma_v": sigma_v, "seed": seed} for seed in range(seeds)]
            found = [r["result"] for r in run("distribution stream", follow_stream, jobs, args)]
            keys = ("all", "late", "truth", "before", *map(str, AFTER))
            lines.append([kind, sigma_v, *(f"{median(found, key):.3f}" for key in keys)])
    columns = [
        "log-likelihood",
        "second half",
        "truth there",
        "std before",
        *(f"+{k}" for k in AFTER),
    ]
    print(markdown(["noise", "sigma_v", *columns], lines))


def seconds(args: argparse.Namespace, seeds: int) -> None:
    """Time both settings in turn, in this process, whatever --jobs is."""
    lines, fits, predictions = [], [], []
    for rows in ("friedman", "generated"):
        for n in (500, 1000, 3000, 10_000):
            taken = np.array([_time_both(rows, n, seed) for seed in range(seeds)])
            spent, ratios = np.median(taken, axis=0), np.median(taken[:, 1] / taken[:, 0], axis=0)
            fits.append(float(ratios[0]))
            predictions.append(float(ratios[1]))
            cells = [f"{spent[0, 0]:.2f} s", f"{ratios[0]:.2f}",
                     f"{1e3 * spent[0, 1]:.1f} ms", f"{ratios[1]:.2f}"]  # fmt: skip
            lines.append([rows, str(n), *cells])
    columns = ["fit, constant", "auto / constant", "predict, constant", "auto / constant"]
    print(markdown(["set", "rows", *columns], lines))
    print(outcome("auto / constant of fit at most 1.30", fits, high=1.3))
    print(outcome("auto / constant of predict at most 1.20", predictions, high=1.2))


def _time_both(rows: str, n: int, seed: int) -> list[list[float]]:
    """Processor seconds of a fit and of predictions, for each of NOISES."""
    old, new = made_rows(rows, n, seed)
    models = [TAGIRegressor(sigma_v=sigma_v, random_state=seed) for sigma_v in NOISES]
    order = (-1) ** seed  # which of the two goes first
    with threadpool_limits(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [_time(lambda m=m: m.fit(old.X, old.y)) for m in models[::order]][::order]
        turns = [[_time(lambda m=m: m.predict(new.X, return_std=True)) for m in models]
                 for _ in range(9)]  # fmt: skip
    return [list(pair) for pair in zip(fits, np.median(turns, axis=0).tolist(), strict=True)]


def _time(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


# What it is, how many seeds, and whether it needs --data.
CASES = {
    "generated": (generated, 40, False), "inner": (inner, 2, True), "smooth": (smooth, 20, False),
    "fifths": (fifths, 3, True), "scale": (scale, 3, False), "few": (few, 20, False),
    "groups": (groups, 20, False), "stream": (stream, 10, False),
    "outliers": (outliers, 20, False), "ratio": (ratio, 3, True), "seconds": (seconds, 5, False),
}  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FOLDER", help="folder with uci/ and tables/")
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE",
                        help=f"of {', '.join(CASES)}; all without it")  # fmt: skip
    defaults = ", ".join(f"{name} {case[1]}" for name, case in CASES.items())
    parser.add_argument("--seeds", type=positive, metavar="N",
                        help=f"seeds, or splits of a table; default: {defaults}")  # fmt: skip
    parser.add_argument("--before", metavar="CHECKOUT", help="an earlier state, for fifths")
    add_run_options(parser, "distribution")


def main(args: argparse.Namespace) -> None:
    for name in args.cases or CASES:
        case, seeds, needs_data = CASES[name]
        if needs_data and args.data is None:
            if args.cases:
                raise SystemExit(f"the case {name} needs --data FOLDER")
            continue
        print(f"{name}\n")
        case(args, args.seeds or seeds)
        print(flush=True)
