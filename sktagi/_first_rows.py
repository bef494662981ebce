"""The first rows of a stream, among which wrong readings are found when there are enough of them.

A wrong reading among a few rows has nothing to be compared with, and makes the unit of its column
as large as itself: all later values would look alike. So the first rows are kept until there are
``FIRST_ROWS``, and as soon as a value turns out to be far from all others, the statistics are those
of the rows without it. The rows of a fit to so few are the first rows of a stream that goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._distinct import DistinctRows
from ._scaling import Moments
from .tables.columns import without_tails

__all__ = ["FIRST_ROWS", "FirstRows", "rows_with_weights", "see_first_rows"]

FIRST_ROWS = 40  # later ones are compared with the statistics so far; three of fewer hide
MOST_ROWS = 1000  # with copies


class FirstRows(NamedTuple):
    """Rows so far (n, n_columns + 1), their weights last; None: there are enough."""

    kept: np.ndarray | None
    typical: np.ndarray  # the new rows, as the statistics take them in
    moments: Moments  # of the rows before, without wrong readings
    found: bool  # whether there are wrong readings


def rows_with_weights(X: np.ndarray, new: DistinctRows) -> np.ndarray:
    """Return rows with their weights at last: of copies the first has it, the others have none."""
    weight = np.zeros(len(X))
    weight[new.first] = new.weight
    return np.column_stack([X.astype(np.float64), weight])


def see_first_rows(
    before: np.ndarray | None, X: np.ndarray, new: DistinctRows, moments: Moments
) -> FirstRows:
    """Look for wrong readings in the rows ``before``, which ``moments`` are of, and in new ones."""
    rows = rows_with_weights(X, new)
    if before is not None:
        rows = np.concatenate([before, rows])
    counts = rows[:, -1] > 0
    is_enough = np.count_nonzero(counts) >= FIRST_ROWS or len(rows) >= MOST_ROWS
    kept = None if is_enough else rows
    values = rows[counts, :-1]
    found = without_tails(values, rows[counts, -1])
    if found is values:
        return FirstRows(kept, X, moments, False)
    typical = rows[:, :-1].copy()
    typical[counts] = found
    earlier = len(rows) - len(X)
    typical[earlier:] = typical[earlier + new.first[new.group]]
    if earlier:
        empty = Moments.empty(X.shape[1], floor=moments.floor)
        known = empty.updated(typical[:earlier], rows[:earlier, -1], "X")
        known.bound = moments.bound
        moments = known
    return FirstRows(kept, typical[earlier:], moments, True)
