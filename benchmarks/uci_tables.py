"""Tables and a picture of the UCI results, beside the paper's Tables 1 and 3 and other methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .data import UCI
from .markdown import markdown, spread, values
from .methods import METHODS, SIGMA_V_GRID
from .published import PAPER, PUBLISHED, RIVALS, published

__all__ = ["draw", "uci_tables"]

OURS = ("paper-cv", "paper", "default")
SCORES = {"rmse": ("RMSE", 1), "log_likelihood": ("log-likelihood", -1)}  # sign: less is better
TICKS = ((0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5), (-5, -2, -1, -0.5, 0, 0.5, 1, 2, 5))
HALF_DIGIT = 0.005  # published figures have two digits


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
    parts += ["## All methods", *all_methods(table, uneven_sets(records))]
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


def uneven_sets(records: list[dict]) -> list[str]:
    """Sets on which not all methods that were measured had the same splits."""
    splits: dict[str, dict[str, set[int]]] = {name: {} for name in UCI}
    for job in (record["job"] for record in records):
        splits[job["name"]].setdefault(job["method"], set()).add(job["split"])
    return [name for name, found in splits.items() if len(set(map(frozenset, found.values()))) > 1]


def sets_of(table: dict[str, dict]) -> list[str]:
    return [name for name in UCI if any(name in sets for sets in table.values())]


def digits_of(name: str, score: str) -> int:
    return 5 if (name, score) == ("naval", "rmse") else 3


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
        "is \"better\" or \"worse\". That is a loose test: a mean of 20 "
        "splits is known to the ± over √20 (√5 on protein), and means within two such standard "
        "errors are counted too."
    ]  # fmt: skip
    for score, (title, sign) in SCORES.items():
        rows, counts = [], {method: {"within": 0, "better": 0, "worse": 0} for method in methods}
        near = dict.fromkeys(methods, 0)
        for name in names:
            theirs = getattr(PAPER[name], score), getattr(PAPER[name], score + "_std")
            cells = [name, f"{theirs[0]:.2f} ± {theirs[1]:g}"]
            for method in methods:
                found = values(table[method].get(name, []), score)
                cells.append(spread(found, digits_of(name, score)))
                if found:
                    mean, error = float(np.mean(found)), theirs[1] / np.sqrt(UCI[name].n_splits)
                    judged = verdict(mean, *theirs, sign)
                    counts[method][judged] += 1
                    near[method] += verdict(mean, theirs[0], 2 * error, sign) == "within"
                    cells[-1] += f", {judged}"
            rows.append(cells)
        parts.append(markdown([title, "the paper", *(f"`{m}`" for m in methods)], rows))
        for method in methods:
            told = ", ".join(f"{judged} on {n}" for judged, n in counts[method].items())
            parts.append(
                f"{title}, `{method}`: {told} of {sum(counts[method].values())} sets; within two "
                f"standard errors on {near[method]}."
            )
    return parts


def beside_table_3(table: dict[str, dict]) -> list[str]:
    """sigma_v by cross-validation, seconds for inference and for the search."""
    plain, searched = table.get("paper", {}), table.get("paper-cv", {})
    rows, at_end, n_searches = [], 0, 0
    for name in sets_of({"paper": plain, "paper-cv": searched}):
        theirs, ours = PAPER[name], searched.get(name, [])
        chosen = values(ours, "sigma_v")
        at_end += sum(np.isclose(v, (SIGMA_V_GRID[0], SIGMA_V_GRID[-1])).any() for v in chosen)
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
        "Mean coverage of 50, 90 and 95 % intervals (`predict_interval`): "
        + ", ".join(f"{100 * c:.1f} %" for c in np.mean(coverages, axis=0)) + ".",
    ]  # fmt: skip


def all_methods(table: dict[str, dict], uneven: list[str]) -> list[str]:
    """RMSE, log-likelihood, coverage and seconds of every method that was measured."""
    parts = ["On the same splits, whose number is in brackets."]
    if uneven:
        parts = [
            "The number of splits is in brackets. Methods were measured on different ones of "
            f"{', '.join(uneven)}: there the means are of different rows."
        ]
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
    parts.append(
        "Intervals are those of `predict_interval` where a method has it, and of a Gaussian with "
        "the predicted mean and standard deviation otherwise."
    )
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
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise SystemExit("--plot needs matplotlib (extra 'benchmarks')") from None

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
                at, [r.mean() for r in relative], [r.std() for r in relative], fmt="sod"[number],
                ms=5, capsize=2, label=method,
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
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:  # a kind of picture that there is not
        raise SystemExit(f"--plot: {error}") from None
    finally:
        plt.close(figure)
