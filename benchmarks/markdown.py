"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

__all__ = ["lines_of", "markdown", "spread", "values"]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def lines_of(names: Sequence[str], table: Iterable[Iterable], show: Callable) -> list[list[str]]:
    """Cells: a name, then the figures of its row of the table as ``show`` writes them."""
    return [[name, *map(show, row)] for name, row in zip(names, table, strict=True)]


def spread(values, digits: int, *, count: bool = True) -> str:
    """Mean ± standard deviation, and the number of values; no ± for one, "-" for none."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    text = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {np.std(values):.{digits}f}"
    return f"{text} ({len(values)})" if count else text


def values(rows: list[dict], key: str) -> list:
    return [row[key] for row in rows]
