"""Tables and a picture from the results of uci and mnist.

    python -m benchmarks report
    python -m benchmarks report results/uci.jsonl results/mnist.jsonl --to doc/reproduction.md \\
        --plot doc/reproduction.png

Markdown, beside the tables of the TAGI paper and other published figures. Takes the results of any
version, says which there were, and warns if they are mixed; of results for the same fit the last
one counts. The numbers after ± are standard deviations over splits or seeds, whose number is in
brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

from .data import UCI
from .harness import read
from .methods import METHODS, SIGMA_V_GRID
from .published import PAPER, PAPER_MNIST, PUBLISHED, RIVALS, published

__all__ = ["best_sigma_v", "mnist_tables", "uci_tables"]

OURS = ("paper-cv", "paper", "default")
SCORES = {"rmse": ("RMSE", 1), "log_likelihood": ("log-likelihood", -1)}  # sign: less is better
TICKS = ((0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5), (-5, -2, -1, -0.5, 0, 0.5, 1, 2, 5))
HALF_DIGIT = 0.005  # published figures have two digits


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="FILE",
        help="results; default: results/uci.jsonl and results/mnist.jsonl",
    )  # fmt: skip
    parser.add_argument("--to", metavar="FILE", help="Markdown file to write; default: print")
    parser.add_argument("--plot", metavar="FILE", help="picture to draw (matplotlib)")


def main(args: argparse.Namespace) -> None:
    records = load(args.files)
    uci = [r for r in records if r["command"] == "uci"]
    mnist = [r for r in records if r["command"] == "mnist"]
    if not uci and not mnist:
        raise SystemExit("there are no results of uci or mnist in these files")
    parts = ["# The paper's tables, measured", versions(uci + mnist)]
    if uci:
        parts.append(uci_tables(uci))
    if args.plot:
        draw(args.plot, uci)
        shown = os.path.relpath(args.plot, Path(args.to).parent if args.to else ".")
        parts.append(f"![RMSE and log-likelihood beside the paper's]({shown})")
    if mnist:
        parts.append(mnist_tables(mnist))
    text = "\n\n".join(parts)
    if args.to:
        Path(args.to).parent.mkdir(parents=True, exist_ok=True)
        Path(args.to).write_text(text + "\n")
    else:
        print(text)


def load(files: list[str]) -> list[dict]:
    """The records of some files; of several for the same fit, the last."""
    for file in files:
        if not Path(file).is_file():
            raise SystemExit(f"there is no file {file}")
    paths = [Path(file) for file in files or ("results/uci.jsonl", "results/mnist.jsonl")]
    records = {}
    for record in [record for path in paths for record in read(path)]:
        fit = {name: value for name, value in record["job"].items() if name != "about"}
        records[record["command"], json.dumps(fit, sort_keys=True)] = record
    return list(records.values())


def versions(records: list[dict]) -> str:
    """What the results were made with; mixed versions are named, on stderr too."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, value in record["versions"].items():
            found.setdefault(package, set()).add(value)
    listed = ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in found.items())
    text = f"{len(records)} fits, with {listed} (source: a fingerprint of the package's code)."
    mixed = [package for package, values in found.items() if len(values) > 1]
    if mixed:
        warning = f"Results of different versions are mixed: {', '.join(mixed)}."
        print(f"warning: {warning}", file=sys.stderr)
        text += f"\n\n**{warning}**"
    return text


# UCI


def uci_tables(records: list[dict]) -> str:
    """Methods, the paper's Tables 1 and 3, the default among published ones, and all of them."""
    table = by_method_and_set(records)
    parts = ["## Methods", "\n".join(f"- `{method}`: {METHODS[method].note}." for method in table)]
    if any(method in table for method in OURS):
        parts += ["## UCI regression sets, beside the paper's Table 1", *beside_table_1(table)]
    if "paper" in table or "paper-cv" in table:
        parts += ["## sigma_v and seconds, beside the paper's Table 3", *beside_table_3(table)]
    if "default" in table:
        parts += ["## The default beside published methods", *beside_published(table["default"])]
    parts += ["## All methods, same splits", *all_methods(table)]
    return "\n\n".join(parts)


def by_method_and_set(records: list[dict]) -> dict[str, dict[str, list[dict]]]:
    """Results by method and set, both in the order in which they are listed."""
    table: dict[str, dict[str, list[dict]]] = {}
    for method in METHODS:
        for name in UCI:
            rows = [
                r["result"]
                for r in records
                if (r["job"]["method"], r["job"]["name"]) == (method, name)
            ]
            if rows:
                table.setdefault(method, {})[name] = rows
    return table


def sets_of(table: dict[str, dict]) -> list[str]:
    return [name for name in UCI if any(name in sets for sets in table.values())]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(values, digits: int, *, count: bool = True) -> str:
    """Mean ± standard deviation, and the number of values; no ± of one, "-" of none."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    text = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {np.std(values):.{digits}f}"
    return f"{text} ({len(values)})" if count else text


def digits_of(name: str, score: str) -> int:
    return 5 if (name, score) == ("naval", "rmse") else 3


def values(rows: list[dict], key: str) -> list:
    return [row[key] for row in rows]


def verdict(ours: float, theirs: float, std: float, sign: int) -> str:
    """Within the paper's ±, beyond it on the better side, or on the worse."""
    if abs(ours - theirs) <= std + HALF_DIGIT:
        return "within"
    return "better" if sign * (ours - theirs) < 0 else "worse"


def beside_table_1(table: dict[str, dict]) -> list[str]:
    """RMSE and log-likelihood of the paper's procedure and of the default."""
    methods = [method for method in OURS if method in table]
    names = sets_of({method: table[method] for method in methods})
    parts = [
        "± is the standard deviation over the splits, their number in brackets. \"within\": the "
        "mean is inside the paper's ±, with half a unit of the last digit printed; otherwise it "
        "is \"better\" or \"worse\"."
    ]  # fmt: skip
    for score, (title, sign) in SCORES.items():
        rows, counts = [], {method: {"within": 0, "better": 0, "worse": 0} for method in methods}
        for name in names:
            theirs = getattr(PAPER[name], score), getattr(PAPER[name], score + "_std")
            cells = [name, f"{theirs[0]:.2f} ± {theirs[1]:g}"]
            for method in methods:
                found = values(table[method].get(name, []), score)
                cells.append(spread(found, digits_of(name, score)))
                if found:
                    judged = verdict(float(np.mean(found)), *theirs, sign)
                    counts[method][judged] += 1
                    cells[-1] += f", {judged}"
            rows.append(cells)
        parts.append(markdown([title, "the paper", *(f"`{m}`" for m in methods)], rows))
        for method in methods:
            told = ", ".join(f"{judged} on {n}" for judged, n in counts[method].items())
            parts.append(f"{title}, `{method}`: {told} of {sum(counts[method].values())} sets.")
    return parts


def beside_table_3(table: dict[str, dict]) -> list[str]:
    """sigma_v by cross-validation, seconds for inference and for the search."""
    plain, searched = table.get("paper", {}), table.get("paper-cv", {})
    rows, at_end, n_searches = [], 0, 0
    for name in sets_of({"paper": plain, "paper-cv": searched}):
        theirs, ours = PAPER[name], searched.get(name, [])
        chosen = values(ours, "sigma_v")
        at_end += sum(value in (SIGMA_V_GRID[0], SIGMA_V_GRID[-1]) for value in chosen)
        n_searches += len(chosen)
        rows.append([
            name, f"{theirs.sigma_v:g}", spread(chosen, 2),
            f"{theirs.seconds:g}", spread(values(plain.get(name, []), "seconds"), 2),
            spread(values(ours, "seconds"), 2),
            f"{theirs.search_seconds:g}", spread(values(ours, "search_seconds"), 1),
        ])  # fmt: skip
    header = [
        "set", "sigma_v, the paper", "sigma_v, `paper-cv`", "inference, the paper (s)",
        "inference, `paper` (s)", "inference, `paper-cv` (s)", "search, the paper (s)",
        "search, `paper-cv` (s)",
    ]  # fmt: skip
    parts = ["Seconds are for one split on one thread; the paper's are of its own machine.",
             markdown(header, rows)]  # fmt: skip
    if n_searches:
        grid = ", ".join(map(str, SIGMA_V_GRID))
        parts.append(
            f"The search chooses from {grid}: an end of this grid in {at_end} of {n_searches} "
            "searches."
        )
    return parts


def beside_published(sets: dict[str, list[dict]]) -> list[str]:
    """The default's figures, its rank, and what others have published."""
    rows, coverages, first = [], [], 0
    for name, results in sets.items():
        rmse, log_lik = (np.array(values(results, score)) for score in SCORES)
        coverage = np.mean([list(row["coverage"].values()) for row in results], axis=0)
        coverages.append(coverage)
        ranks = []
        for k, (ours, sign) in enumerate(((rmse.mean(), 1), (log_lik.mean(), -1))):
            # Published figures have two digits, so ours are compared in two.
            better = [sign * float(published(m)[name][k]) < sign * round(ours, 2) for m in RIVALS]
            ranks.append(1 + sum(better))
        first += ranks.count(1)
        rows.append([
            f"{name} ({len(results)})", spread(rmse, digits_of(name, "rmse"), count=False),
            spread(log_lik, 3, count=False), f"{ranks[0]}, {ranks[1]}",
            f"{np.mean(values(results, 'seconds')):.1f}",
            " ".join(f"{100 * c:.0f}" for c in coverage),
            *("/".join(published(m)[name]) for m in PUBLISHED),
        ])  # fmt: skip
    header = ["set", "RMSE", "log-likelihood", "rank RMSE, LL", "seconds", "coverage 50 90 95"]
    return [
        markdown([*header, *PUBLISHED], rows),
        f"First or tied for first against {', '.join(RIVALS)} in {first} of {2 * len(rows)} cells.",
        "Mean coverage of 50, 90 and 95 % intervals: "
        + ", ".join(f"{100 * c:.1f} %" for c in np.mean(coverages, axis=0)) + ".",
    ]  # fmt: skip


def all_methods(table: dict[str, dict]) -> list[str]:
    """RMSE, log-likelihood, coverage and seconds of every method that was measured."""
    parts = []
    for score, (title, _) in SCORES.items():
        rows = [
            [
                name,
                *(
                    spread(values(sets.get(name, []), score), digits_of(name, score))
                    for sets in table.values()
                ),
            ]
            for name in sets_of(table)
        ]
        parts.append(markdown([title, *(f"`{method}`" for method in table)], rows))
    for title, cell in (("in 90 % intervals (%)", _inside), ("seconds, search included", _seconds)):
        rows = [[n, *(cell(sets.get(n, [])) for sets in table.values())] for n in sets_of(table)]
        parts.append(markdown([title, *(f"`{method}`" for method in table)], rows))
    return parts


def _inside(rows: list[dict]) -> str:
    found = [100 * row["coverage"]["90"] for row in rows if row["coverage"]]
    return f"{np.mean(found):.1f}" if found else "-"


def _seconds(rows: list[dict]) -> str:
    if not rows:
        return "-"
    mean = np.mean([row["seconds"] + (row["search_seconds"] or 0) for row in rows])
    return f"{float(f'{mean:.2g}'):g}"


def draw(path: str, records: list[dict]) -> None:
    """RMSE relative to the paper's and difference in log-likelihood, with ± of both."""
    table = by_method_and_set(records)
    methods = [method for method in OURS if method in table]
    if not methods:
        raise SystemExit(f"--plot needs results of uci for {', '.join(OURS)}")
    import matplotlib.pyplot as plt

    names = sets_of({method: table[method] for method in methods})
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    theirs = [PAPER[name] for name in names]
    ratio = np.array([row.rmse_std / row.rmse for row in theirs])
    paper_bars = {
        axes[0]: (np.ones(len(names)), [np.minimum(ratio, 0.99), ratio]),
        axes[1]: (np.zeros(len(names)), [row.log_likelihood_std for row in theirs]),
    }
    for ax, (center, bars) in paper_bars.items():
        ax.errorbar(range(len(names)), center, bars, fmt="_k", lw=6, alpha=0.25, label="the paper")
    for number, method in enumerate(methods):
        known = [k for k, name in enumerate(names) if name in table[method]]
        at = np.array(known) + 0.16 * (number + 1 - (len(methods) + 1) / 2)
        for ax, score in zip(axes, SCORES, strict=True):
            found = [np.array(values(table[method][names[k]], score)) for k in known]
            base = [getattr(theirs[k], score) for k in known]
            relative = [
                f / b if score == "rmse" else f - b for f, b in zip(found, base, strict=True)
            ]
            ax.errorbar(
                at, [r.mean() for r in relative], [r.std() for r in relative], fmt="o", ms=4,
                capsize=2, label=method,
            )  # fmt: skip
    axes[0].set(yscale="log", title="RMSE / the paper's (less is better)")
    axes[1].set_yscale("symlog", linthresh=1)
    axes[1].set(title="log-likelihood - the paper's (more is better)")
    for ax, ticks in zip(axes, TICKS, strict=True):
        low, high = ax.get_ylim()
        shown = [tick for tick in ticks if low <= tick <= high]
        ax.set_yticks(shown, [f"{tick:g}" for tick in shown])
        ax.minorticks_off()
        ax.grid(axis="y", alpha=0.3)
        ax.set_xticks(range(len(names)), names, rotation=45)
    axes[0].legend()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


# MNIST


def best_sigma_v(records: list[dict], units: int, batch_size: int) -> float:
    """The sigma_v of the one-epoch runs with the best mean log-likelihood of validation rows."""
    scores: dict[float, list[float]] = {}
    for job, result in _fits(records, "one-epoch", units, batch_size):
        scores.setdefault(job["sigma_v"], []).append(result["validation_log_likelihood"])
    return max(scores, key=lambda sigma_v: np.mean(scores[sigma_v]))


def mnist_tables(records: list[dict]) -> str:
    """The paper's Table 2, and the package's defaults."""
    cells = sorted(
        {(r["job"]["units"], r["job"]["batch_size"]) for r in records if "batch_size" in r["job"]}
    )
    parts = []
    if cells:
        header = [
            "network", "B", "sigma_v, the paper", "sigma_v", "E=1, the paper (%)", "E=1 (%)",
            "early-stopped, the paper (%)", "early-stopped (%)", "epochs, the paper", "epochs",
            "seconds an epoch",
        ]  # fmt: skip
        parts += [
            "## MNIST, beside the paper's Table 2",
            "Test errors; ± is the standard deviation over seeds, their number in brackets (the "
            "paper has five). " + _choice(records) + " Seconds on one thread.",
            markdown(header, [_mnist_row(records, *cell) for cell in cells]),
        ]  # fmt: skip
    defaults = sorted(
        {
            (r["job"]["units"], r["job"]["members"], r["job"]["epochs"])
            for r in records
            if r["job"]["method"] == "default"
        }
    )
    if defaults:
        rows = []
        for units, members, epochs in defaults:
            found = [
                result
                for job, result in _fits(records, "default", units)
                if (job["members"], job["epochs"]) == (members, epochs)
            ]
            rows.append([
                f"2x{units}", str(members), f"{epochs}", _percent(found),
                spread(values(found, "log_loss"), 4), spread(values(found, "sigma_v"), 3),
                f"{np.mean(values(found, 'seconds')):.0f}",
            ])  # fmt: skip
        header = ["network", "members", "epochs at most", "test error (%)", "log-loss", "sigma_v"]
        parts += ["## MNIST, the package's defaults", markdown([*header, "seconds"], rows)]
    return "\n\n".join(parts)


def _mnist_row(records: list[dict], units: int, batch_size: int) -> list[str]:
    theirs = PAPER_MNIST.get((units, batch_size))
    early = _fits(records, "early", units, batch_size)
    # Early-stopped runs say which sigma_v was chosen; without them it is chosen here.
    chosen = early[-1][0]["sigma_v"] if early else best_sigma_v(records, units, batch_size)
    one = [
        result
        for job, result in _fits(records, "one-epoch", units, batch_size)
        if job["sigma_v"] == chosen
    ]
    stopped = [result for job, result in early if job["sigma_v"] == chosen]
    every = one + stopped
    return [
        f"2x{units}", str(batch_size), f"{theirs.sigma_v:g}" if theirs else "-", f"{chosen:g}",
        f"{theirs.one_epoch:.2f} ± {theirs.one_epoch_std:g}" if theirs else "-", _percent(one),
        f"{theirs.early:.2f} ± {theirs.early_std:g}" if theirs else "-", _percent(stopped),
        f"{theirs.epochs} ± {theirs.epochs_std}" if theirs else "-",
        spread(values(stopped, "best_iter"), 0, count=False),
        f"{np.mean([row['seconds'] / row['n_iter'] for row in every]):.1f}",
    ]  # fmt: skip


def _fits(records: list[dict], method: str, units: int, batch_size: int | None = None) -> list:
    return [
        (r["job"], r["result"])
        for r in records
        if (r["job"]["method"], r["job"]["units"], r["job"].get("batch_size"))
        == (method, units, batch_size)
    ]


def _choice(records: list[dict]) -> str:
    """How sigma_v came about."""
    tried = sorted({r["job"]["sigma_v"] for r in records if r["job"]["method"] == "one-epoch"})
    if len(tried) < 2:
        return "sigma_v was given."
    return (
        f"sigma_v is the one of {', '.join(f'{s:g}' for s in tried)} whose one-epoch runs give the "
        "validation rows (5 % of the training rows) the best mean log-likelihood."
    )


def _percent(rows: list[dict]) -> str:
    return spread([100 * row["error"] for row in rows], 2)
