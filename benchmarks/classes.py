"""Are class probabilities right? Known ones, tables, order and number of classes, unlike rows.

    python -m benchmarks classes --data FOLDER --before CHECKOUT
    python -m benchmarks classes --cases known many --seeds 1

Prints the tables of doc/classes_results.md, one or more for each case, and beside each goal how
much reaches it. ``sktagi`` is TAGIClassifier with its defaults, and ``before`` the same of an
earlier checkout, left out without it. FOLDER holds classes/<name>.csv.gz, with a header and the
class in the last column; the case "tables" is left out without it.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy import stats
from scipy.special import expit

from . import classes_rows
from .checkouts import folder_of
from .class_streams import streams
from .classes_methods import DECILES, METHODS, installed, results
from .classes_rows import KNOWN, SHIPPED, calibration_error, table_names
from .distribution_rows import outcome, percent
from .harness import add_run_options, positive
from .markdown import lines_of, markdown

TREE = 'class_coding="tree"'


def mean(found: list[dict], key: str) -> float:
    return float(np.mean([result[key] for result in found]))


def with_before(args: argparse.Namespace, *methods: str) -> list[str]:
    return [*methods, *(["before"] if args.before else [])]


def known(args: argparse.Namespace, seeds: int) -> None:
    found = {
        (method, name, n): results(args, name, range(seeds), method, how={"n": n})
        for name in KNOWN
        for n in (200, 2000, 20_000)
        for method in with_before(args, "sktagi", "LogisticRegression")
    }
    _print_deciles(found)
    lines, excess, rmse, covered, powers = [], [], [], [], []
    for name in KNOWN:
        std = [mean(found["sktagi", name, n], "std") for n in (200, 2000, 20_000)]
        powers.append(float(np.log(std[2] / std[0]) / np.log(100)))
        for n in (200, 2000, 20_000):
            by = {m: found[m, name, n] for m in METHODS | {"before": None} if (m, name, n) in found}
            ours = by["sktagi"]
            covered.append(mean(ours, "inside"))
            cells = [f"{mean(r, 'rmse'):.4f}" for r in by.values()]
            cells += [f"{mean(r, 'excess'):.4f}" for r in by.values()]
            lines.append([name, str(n), *cells, percent(covered[-1]), f"{mean(ours, 'std'):.4f}"])
        lines[-1].append(f"{powers[-1]:.2f}")
    for line in lines:
        line += [""] * (len(lines[-1]) - len(line))
    columns = [f"{what}: {m}" for what in ("RMSE of p", "log-loss - truth's") for m in by]
    print(markdown(["rows of", "n", *columns, "p in ± 2 std", "mean std", "power of n"], lines))
    excess = [mean(found["sktagi", "sigmoid(3 x)", 20_000], "excess")]
    rmse = [mean(found["sktagi", "logistic, two features", 20_000], "rmse")]
    print(outcome("sigmoid(3 x), 20,000 rows: log-loss within 0.002", excess, high=0.002))
    print(outcome("two features, 20,000 rows: RMSE at most 0.012", rmse, high=0.012))
    print(outcome("p within two std for 85 to 99 %", covered, 0.85, 0.99))
    print(outcome("mean std falls at least as n^-0.4", powers, high=-0.4))


def _print_deciles(found: dict) -> None:
    """Print the reported probabilities of sigmoid(3 x), each the mean over seeds, and the worst."""
    truth = expit(3 * DECILES)
    lines = [["truth", *(f"{p:.3f}" for p in truth), ""]]
    for method in dict.fromkeys(method for method, _, _ in found):
        reported = np.array([r["deciles"] for r in found[method, "sigmoid(3 x)", 20_000]])
        off = np.abs(reported - truth).max(axis=1)
        cells = [f"{p:.3f}" for p in reported.mean(axis=0)]
        lines.append([method, *cells, ", ".join(f"{value:.3f}" for value in off)])
        if method == "sktagi":
            ours, step = off, np.diff(reported, axis=1).min(axis=1)
    print(markdown(["p at x =", *(f"{x:.1f}" for x in DECILES), "off by, each seed"], lines))
    print(outcome("within 0.02 of the truth for every seed", ours.tolist(), high=0.02))
    print(outcome("monotone for every seed", step.tolist(), low=0), end="\n\n")


def tables(args: argparse.Namespace, seeds: int) -> None:
    names = table_names(args.data)
    methods = with_before(
        args, "sktagi", "LogisticRegression", "HistGradientBoosting", "CatBoost", "ten MLPs"
    )
    if not installed("CatBoost"):
        print("CatBoost is not installed, and is left out", file=sys.stderr)
        methods.remove("CatBoost")
    found = {method: {name: results(args, name, range(seeds), method) for name in names}
             for method in methods}  # fmt: skip
    figures = {
        "error": lambda r: mean(r, "error"), "log-loss": lambda r: mean(r, "log_loss"),
        "calibration error": calibration_error, "seconds": lambda r: mean(r, "seconds"),
    }  # fmt: skip
    means, ranks = {}, {}
    for what, figure in figures.items():
        table = np.array([[figure(found[method][name]) for method in methods] for name in names])
        means[what], ranks[what] = table.mean(axis=0), stats.rankdata(table, axis=1).mean(axis=0)
        show = {"error": percent, "calibration error": percent, "log-loss": "{:.4f}".format,
                "seconds": "{:.2f}".format}[what]  # fmt: skip
        lines = lines_of([*names, "mean"], [*table, means[what]], show)
        lines.append(["mean rank", *(f"{rank:.2f}" for rank in ranks[what])])
        print(markdown([what, *methods], lines), end="\n\n")
    first = ranks["log-loss"].min() - ranks["log-loss"][:1]
    error, ece = means["error"], means["calibration error"]
    print(outcome("mean rank in log-loss the first", first.tolist(), low=0).strip())
    print(outcome("mean calibration error at most 4 %", ece[:1].tolist(), high=0.04))
    print(outcome("mean calibration error the lowest", [ece.min() - ece[0]], low=0))
    if args.before:
        print(outcome("mean error not above that before", [error[-1] - error[0]], low=0))


def order(args: argparse.Namespace, seeds: int) -> None:
    lines, inside = [], []
    for label in with_before(args, "sktagi", TREE):
        method, params = ("sktagi", {"class_coding": "tree"}) if label == TREE else (label, None)
        zero = [0] * seeds
        of_seeds = results(args, "ordered", zero, method, range(seeds), params=params)
        permuted = results(args, "ordered", range(1, seeds + 1), method, zero, params=params)
        cells = []
        for key in ("error", "log_loss"):
            a, b = (np.array([r[key] for r in found]) for found in (of_seeds, permuted))
            for values in (a, b):
                cells.append(f"{values.mean():.3f} ({values.min():.3f} to {values.max():.3f})")
            if label == "sktagi":
                inside.append(float(abs(b.mean() - a.mean()) - max(np.ptp(a), np.ptp(b))))
        lines.append([label, *cells])
    columns = [f"{what}: {of}" for what in ("error", "log-loss")
               for of in ("seeds", "permuted labels")]  # fmt: skip
    print(markdown(["16 ordered classes", *columns], lines))
    goal = "permuted labels differ from the same order by no more than runs among each other"
    print(outcome(goal, inside, high=0))


def many(args: argparse.Namespace, seeds: int) -> None:
    lines, figures = [], {}
    for n_classes in classes_rows.COUNTS:
        short = {"max_iter": 10} if n_classes == 1000 else {}
        labels = ["sktagi", "MLP"] if short else with_before(args, "sktagi", TREE, "MLP")
        for label in labels:  # a tree of 1000 classes takes too long
            method, params = ("sktagi", {"class_coding": "tree"}) if label == TREE else (label, {})
            found = results(args, "blobs", range(1 if n_classes > 100 else seeds), method,
                            how={"n_classes": n_classes}, params={**short, **params})  # fmt: skip
            values = [mean(found, key) for key in ("log_loss", "error", "seconds")]
            figures[n_classes, label] = values
            lines.append([str(n_classes), label, f"{values[0]:.4f}", percent(values[1]),
                          f"{values[2]:.1f}"])  # fmt: skip
    print(markdown(["classes", "", "log-loss", "error", "seconds"], lines))
    ours, other = figures[100, "sktagi"], figures[100, "MLP"]
    goal = "100 classes: log-loss at most twice that of the MLP"
    print(outcome(goal, [ours[0] / other[0]], high=2))
    if args.before:
        ratio = ours[2] / figures[100, "before"][2]
        print(outcome("100 classes: at most 1.5 times the seconds before", [ratio], high=1.5))
    print(outcome("300 classes: log-loss at most 0.03", [figures[300, "sktagi"][0]], high=0.03))


def unlike(args: argparse.Namespace, seeds: int) -> None:
    lines, tops = [], []
    for method in with_before(args, "sktagi", "MLP", "ten MLPs"):
        found = results(args, "digits", range(seeds), method)
        keys = ("top", "top of noise", "top of inverted")
        values = [mean(found, key) for key in keys]
        if method == "sktagi":
            tops = values[1:]
        lines.append([method, percent(mean(found, "error")), *(f"{v:.2f}" for v in values)])
    columns = ["error", "new digits", "noise images", "inverted digits"]
    print(markdown(["mean top probability of", *columns], lines))
    print(outcome("at most 0.3 for noise and for inverted digits", tops, high=0.3))


def flips(args: argparse.Namespace, seeds: int) -> None:
    lines, gains = [], []
    methods = with_before(args, "sktagi", "ten MLPs")
    for name in SHIPPED:
        cells = []
        for wrong in (0.0, 0.1):
            how = {"wrong": wrong} if wrong else None
            found = {m: results(args, name, range(seeds), m, how=how) for m in methods}
            losses = [mean(r, "log_loss") for r in found.values()]
            cells += [f"{loss:.4f}" for loss in losses]
        if args.before:
            gains.append(losses[-1] - losses[0])
        lines.append([name, *cells])
    columns = [f"{labels}: {m}" for labels in ("right labels", "10 % wrong") for m in methods]
    print(markdown(["log-loss of right labels", *columns], lines))
    if args.before:
        print(outcome("with wrong labels, log-loss not above that before", gains, low=0))


# What it is, how many seeds (or folds), and whether it needs --data.
CASES = {
    "known": (known, 3, False), "tables": (tables, 5, True), "order": (order, 5, False),
    "many": (many, 3, False), "unlike": (unlike, 10, False), "flips": (flips, 5, False),
    "streams": (streams, 3, False),
}  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FOLDER", help="folder with classes/")
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE",
                        help=f"of {', '.join(CASES)}; all without it")  # fmt: skip
    defaults = ", ".join(f"{name} {case[1]}" for name, case in CASES.items())
    help_seeds = f"seeds, or of the five folds of a table; default: {defaults}"
    parser.add_argument("--seeds", type=positive, metavar="N", help=help_seeds)
    parser.add_argument("--before", metavar="CHECKOUT", help="an earlier state of the package")
    add_run_options(parser, "classes")


def main(args: argparse.Namespace) -> None:
    if args.before:
        folder_of(args.before)  # a message at once if it is none
    for name in args.cases or CASES:
        case, seeds, needs_data = CASES[name]
        if needs_data and args.data is None:
            if args.cases:
                raise SystemExit(f"the case {name} needs --data FOLDER")
            continue
        print(f"{name}\n")
        case(args, args.seeds or seeds)
        print(flush=True)
