"""The report of ``python -m benchmarks tables``: a short table of all methods, then details."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from .classes_rows import calibration_error
from .distribution_rows import LEVEL, percent
from .distribution_tables import perfect_fifth, worst_fifth
from .markdown import lines_of, markdown
from .tables_methods import METHODS

__all__ = ["Found", "report"]

Found = dict[str, dict[str, list[dict]]]  # results of splits, by method and table


class Figure(NamedTuple):
    """A figure of the results of one method on one table, and how it is written."""

    of: Callable[[Sequence[dict]], float]
    show: Callable[[float], str]
    sign: int = 1  # -1 if greater is better


class Column(NamedTuple):
    """A figure of all tables: those of a method beside those of the first one."""

    title: str  # of {what} in comparison with {first}
    cell: Callable[[np.ndarray, np.ndarray], float]
    show: Callable[[float], str] | None = None  # as its figure without it


def mean_of(key: str) -> Callable[[Sequence[dict]], float]:
    return lambda results: float(np.mean([result[key] for result in results]))


RANK = "rank"
COLUMNS = {
    "ratio": Column("{what} / {first}", lambda a, b: stats.gmean(a / b), "{:.3f}".format),
    "difference": Column("{what} - {first}", lambda a, b: np.mean(a - b), "{:+.3f}".format),
    "mean": Column("{what}", lambda a, b: np.mean(a)),
    "median": Column("{what}", lambda a, b: np.median(a)),
    "median ratio": Column("{what} / {first}", lambda a, b: np.median(a / b), "{:.2f}".format),
}
SECONDS = {"seconds": Figure(mean_of("seconds"), "{:.2f}".format)}
FIGURES = {
    "regression": {
        "RMSE": Figure(mean_of("rmse"), "{:.3f}".format),
        "log-likelihood": Figure(mean_of("log_likelihood"), "{:.3f}".format, -1),
        "CRPS": Figure(mean_of("crps"), "{:.4f}".format),
        "coverage": Figure(mean_of("coverage"), percent),
        "worst fifth": Figure(worst_fifth, percent),
        **SECONDS,
    },
    "classes": {
        "error": Figure(mean_of("error"), percent),
        "log-loss": Figure(mean_of("log_loss"), "{:.4f}".format),
        "calibration error": Figure(calibration_error, percent),
        **SECONDS,
    },
}
SUMMARY = {
    "regression": [
        ("RMSE", RANK), ("log-likelihood", RANK), ("CRPS", RANK), ("RMSE", "ratio"),
        ("log-likelihood", "difference"), ("coverage", "mean"), ("worst fifth", "mean"),
        ("seconds", "median"), ("seconds", "median ratio"),
    ],
    "classes": [
        ("error", RANK), ("log-loss", RANK), ("calibration error", RANK), ("error", "mean"),
        ("log-loss", "difference"), ("calibration error", "mean"), ("seconds", "median"),
        ("seconds", "median ratio"),
    ],
}  # fmt: skip
EXPLAINED = {
    "regression": (
        "Ranks are means over the tables, 1 is best. RMSE (smaller is better), CRPS (smaller) and "
        "log-likelihood (greater) are of targets in units of their standard deviation. "
        "`RMSE / {first}` is a geometric mean, `log-likelihood - {first}` a mean, seconds and "
        f"their ratio are medians over the tables. Coverage is of {100 * LEVEL:g} % intervals: "
        "of all rows, and of that fifth of the rows, by predicted value, in which it is smallest."
    ),
    "classes": (
        "Ranks are means over the tables, 1 is best. Smaller is better in all columns. "
        "`log-loss - {first}` is a mean, seconds and their ratio are medians over the tables."
    ),
}


def report(kind: str, found: Found, setting: str) -> str:
    """The table of all methods, notes on it, and a table of each figure with a row a data set.

    The method that others are compared with is the first that has results of all data sets.
    """
    names = list(dict.fromkeys(name for results in found.values() for name in results))
    everywhere = [method for method, results in found.items() if len(results) == len(names)]
    values = {
        what: {
            method: np.array([figure.of(r[n]) if n in r else np.nan for n in names])
            for method, r in found.items()
        }
        for what, figure in FIGURES[kind].items()
    }
    parts = [_summary(kind, values, everywhere), *_notes(kind, found, names, everywhere, setting)]
    for what, figure in FIGURES[kind].items():
        rows = np.column_stack(list(values[what].values()))
        parts.append(markdown([what, *found], lines_of(names, rows, _or_dash(figure.show))))
    return "\n\n".join(parts)


def _summary(kind: str, values: dict, everywhere: list[str]) -> str:
    """A row for each method; without ranks for one that has no results of some data sets."""
    first = everywhere[0]
    titles, columns = [], []
    for what, how in SUMMARY[kind]:
        figure, of = FIGURES[kind][what], values[what]
        if how == RANK:
            titles.append(f"rank in {what}")
            table = np.column_stack([of[method] for method in everywhere])
            ranks = stats.rankdata(figure.sign * table, axis=1).mean(axis=0)
            found = dict(zip(everywhere, ranks, strict=True))
            columns.append([_or_dash("{:.2f}".format)(found.get(m, np.nan)) for m in of])
            continue
        column = COLUMNS[how]
        titles.append(column.title.format(what=what, first=first))
        on = {method: ~np.isnan(figures) for method, figures in of.items()}
        cells = [column.cell(of[m][on[m]], of[first][on[m]]) for m in of]
        columns.append(list(map(column.show or figure.show, cells)))
    labels = [m if m in everywhere else f"{m} (on {on[m].sum()} of {len(on[m])})" for m in on]
    return markdown(["method", *titles], [list(row) for row in zip(labels, *columns, strict=True)])


def _or_dash(show: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: "-" if np.isnan(value) else show(value)


def _notes(
    kind: str, found: Found, names: list[str], everywhere: list[str], setting: str
) -> list[str]:
    """Paragraphs: what was measured, what the columns are, who has no rank, what methods are."""
    explained = EXPLAINED[kind].format(first=everywhere[0])
    paragraphs = [f"Data sets: {len(names)}. {setting} {explained}"]
    if kind == "regression":
        best = np.mean([perfect_fifth(found[everywhere[0]][name]) for name in names])
        paragraphs[0] += f" There, intervals that are right everywhere would have {percent(best)}."
    if some := [method for method in found if method not in everywhere]:
        paragraphs.append(
            f"Without ranks, as they are not on all tables: {', '.join(some)}; their other figures "
            "are those of the tables that they are on."
        )
    paragraphs.append("\n".join(f"- {m}: {METHODS[kind][m].note}" for m in found))
    return paragraphs
