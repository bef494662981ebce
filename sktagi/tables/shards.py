"""The columns of a table whose rows are in several places.

Each place tells what its rows hold: levels with their rows, what is missing, sums, ranges, and
some rows. Counts, shares, means and ranges are then those of all rows. Quantiles, means of columns
that are clipped, and what a missing value may be given the others of its row, are those of the rows
that were told: of all, if there are not many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .columns import (
    FEWEST_ROWS,
    MANY_COLUMNS,
    MISSING_SPREAD,
    RARE_SPREAD,
    Columns,
    _fit_levels,
    fit_columns,
)

__all__ = ["Part", "join_columns", "join_levels", "rows_of", "tell"]

MOST_ROWS = 20_000  # that are told, in all
MOST_NUMBERS = 1 << 20  # in these rows

Levels = list[list[str] | None]


def join_levels(parts: Sequence[Levels | None]) -> tuple[Levels | None, bool]:
    """Return the levels of all parts of a table, and whether all read the same columns as numbers.

    None has no categories. Sorted levels, as texts have them, are sorted again; levels that are
    declared keep their order.
    """
    known = [levels for levels in parts if levels is not None]
    if not known:
        return None, True
    columns = list(zip(*known, strict=True))
    result = [
        _join_column([levels for levels in column if levels is not None]) for column in columns
    ]
    agree = len(known) == len(parts) or not any(levels is not None for levels in result)
    agree &= all(len({levels is None for levels in column}) == 1 for column in columns)
    return result, agree


def _join_column(parts: list[list[str]]) -> list[str] | None:
    if not parts:
        return None
    union = list(dict.fromkeys(level for levels in parts for level in levels))
    return sorted(union) if all(levels == sorted(levels) for levels in parts) else union


class Part(NamedTuple):
    """What the rows in one place hold, each array (n_columns,) if nothing else is said."""

    rows: Any  # some of them (n, n_columns)
    weight: np.ndarray  # (n,): of all rows that each of them stands for
    n_rows: int
    total: float  # weight of all rows
    n_missing: np.ndarray  # rows without a value
    missing: np.ndarray  # their weight
    sums: np.ndarray  # of weight times value
    lowest: np.ndarray  # NaN where nothing is known
    highest: np.ndarray
    has_two: np.ndarray  # whether there are no values between them
    # Of categories, (2, n_levels + 1): rows of each level, at last of none, and their weight
    levels: list[np.ndarray | None]

    @property
    def is_whole(self) -> bool:
        """Whether its rows are all there are."""
        return len(self.weight) == self.n_rows


def tell(X: Any, weight: np.ndarray, levels: Levels | None, n_parts: int, seed: int) -> Part:
    """Return what rows hold that are one of some parts of a table."""
    there = weight > 0
    if not there.all():
        X, weight = X[there], weight[there]
    weight = weight.astype(np.float64)
    rows, row_weight = _some_rows(X, weight, n_parts, seed)
    counts: list[Any] = list((_count_sparse if sparse.issparse(X) else _count)(X, weight))
    of_levels = [
        _count_levels(X[:, k], weight, of_column) if of_column is not None else None
        for k, of_column in enumerate(levels or ())
    ]
    return Part(*[rows, row_weight, X.shape[0], float(weight.sum()), *counts, of_levels])


def _count_levels(column: np.ndarray, weight: np.ndarray, levels: list[str]) -> np.ndarray:
    n = len(levels)
    number = np.where(np.isnan(column), n, column).astype(int)
    return np.stack([np.bincount(number, minlength=n + 1), np.bincount(number, weight, n + 1)])


def _some_rows(X: Any, weight: np.ndarray, n_parts: int, seed: int) -> tuple[Any, np.ndarray]:
    most = max(1, min(MOST_ROWS, MOST_NUMBERS // X.shape[1]) // n_parts)
    if X.shape[0] <= most:
        return X, weight
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(X.shape[0], most, replace=False, shuffle=False))
    some = weight[rows]
    return X[rows], some * (weight.sum() / some.sum())


def _count(X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what a matrix holds: rows and weight that are missing, sums, ranges, two values."""
    n_missing, has_two = np.zeros(X.shape[1], dtype=int), np.zeros(X.shape[1], dtype=bool)
    missing, sums = np.zeros((2, X.shape[1]))
    lowest, highest = np.full((2, X.shape[1]), np.nan)
    for k in range(X.shape[1]):
        column = np.ascontiguousarray(X[:, k])
        known = ~np.isnan(column)
        n_missing[k] = len(column) - np.count_nonzero(known)
        values, of_values = column, weight
        if n_missing[k]:
            values, of_values = column[known], weight[known]
            missing[k] = weight[~known].sum()
        if len(values):
            with np.errstate(over="ignore"):
                sums[k] = of_values @ values.astype(np.float64)
            low, high = lowest[k], highest[k] = values.min(), values.max()
            has_two[k] = ((values == low) | (values == high)).all()
    return n_missing, missing, sums, lowest, highest, has_two


def _count_sparse(X: Any, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the same of a sparse matrix, whose ranges do not matter."""
    n = X.shape[1]
    gaps = np.isnan(X.data)
    of_entries = np.repeat(weight, np.diff(X.indptr))
    n_missing = np.bincount(X.indices[gaps], minlength=n)
    missing = np.bincount(X.indices[gaps], of_entries[gaps], minlength=n)
    known = ~gaps
    sums = np.bincount(X.indices[known], of_entries[known] * X.data[known], minlength=n)
    nothing = np.full(n, np.nan)
    return n_missing, missing, sums, nothing, nothing, np.zeros(n, dtype=bool)


def join_columns(
    parts: Sequence[Part], names: Any, levels: Levels | None, *, clips: bool
) -> Columns:
    """Return what the columns of the table become, by all its parts."""
    X, weight = rows_of(parts)
    if all(part.is_whole for part in parts):
        return fit_columns(X, weight, names, levels, streamed=False, clips=clips)
    lowest, highest = _range(parts)
    if not sparse.issparse(X):  # how far tails go is known of all rows
        ends = np.stack([lowest, highest]).astype(X.dtype)
        ends[:, [k for k, of_column in enumerate(levels or ()) if of_column is not None]] = np.nan
        X, weight = np.concatenate([X, ends]), np.append(weight, [0.0, 0.0])
    columns = fit_columns(X, weight, names, levels, streamed=False, clips=clips)
    return _with_counts(columns, parts, lowest, highest)


def rows_of(parts: Sequence[Part]) -> tuple[Any, np.ndarray]:
    """Return the rows that parts have told, and their weights."""
    weight = np.concatenate([part.weight for part in parts])
    rows = [part.rows for part in parts]
    are_sparse = {sparse.issparse(X) for X in rows}
    if len(are_sparse) > 1:
        raise ValueError("Some partitions of X are sparse, and others are not.")
    if are_sparse == {True}:
        return sparse.csr_array(sparse.vstack(rows, format="csr")), weight
    return np.concatenate(rows), weight


def _range(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    lowest, highest = (
        np.array([getattr(p, name) for p in parts]) for name in ("lowest", "highest")
    )
    return np.fmin.reduce(lowest), np.fmax.reduce(highest)


def _with_counts(
    columns: Columns, parts: Sequence[Part], lowest: np.ndarray, highest: np.ndarray
) -> Columns:
    """Return the columns that were fitted to some rows, with what is known of all of them."""
    n_rows, n_missing = sum(p.n_rows for p in parts), _summed(parts, "n_missing")
    missing, sums = _summed(parts, "missing"), _summed(parts, "sums")
    known = sum(p.total for p in parts) - missing
    fitted: list[Any] = [_join_counts(k, names, parts) for k, names in enumerate(columns.levels)]
    slots, slot_names, shares = map(list, zip(*fitted, strict=True))
    is_number = np.array([of_column is None for of_column in slots])
    has_mean = is_number & (not columns.is_sparse or n_missing.any())
    mean = np.where(has_mean, sums / np.where(known > 0, known, 1), 0)
    partly = is_number & (missing > FEWEST_ROWS - 0.5) & (n_missing < n_rows)
    new = replace(
        columns,
        slots=slots,
        slot_names=slot_names,
        shares=shares,
        missing_columns=np.flatnonzero(partly),
        is_empty=is_number & (n_missing == n_rows),
        n_missing=missing,
        mean=np.where(columns.width > 0, columns.mean, mean),  # of values that are clipped
    )
    new.makes_sparse = new.has_categories and new.n_encoded > MANY_COLUMNS
    new.floor = np.full(new.n_encoded, RARE_SPREAD)
    new.floor[new._starts[-1] :] = MISSING_SPREAD
    new.floor[new._starts[:-1][is_number]] = _floors(parts, lowest, highest)[is_number]
    return new


def _summed(parts: Sequence[Part], name: str) -> np.ndarray:
    return np.sum([getattr(part, name) for part in parts], axis=0)


def _join_counts(k: int, levels: list[str] | None, parts: Sequence[Part]) -> Any:
    """Return the slots of the levels of a column, by the rows of each level in all parts."""
    if levels is None:
        return None, None, None
    counts = [part.levels[k] for part in parts]
    rows, weight = np.sum([of_part for of_part in counts if of_part is not None], axis=0)
    few = np.minimum(rows, 1).astype(int)  # one row of each level stands for all
    number = np.append(np.arange(len(levels), dtype=np.float64), np.nan)
    return _fit_levels(
        np.repeat(number, few), np.repeat(weight / np.maximum(few, 1), few), levels, False
    )


def _floors(parts: Sequence[Part], lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Return the least scale of columns: those of two values may have rare ones."""
    is_two = lowest < highest
    for part in parts:
        at_ends = [(end == lowest) | (end == highest) for end in (part.lowest, part.highest)]
        is_two &= np.isnan(part.lowest) | (part.has_two & at_ends[0] & at_ends[1])
    with np.errstate(invalid="ignore"):
        return np.where(is_two & (highest < np.inf), RARE_SPREAD * (highest - lowest), 0)
