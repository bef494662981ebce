"""Which rows each member holds out for validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .engine.fast import has_nan
from .engine.keys import join_keys, row_keys

__all__ = ["fold_of", "hold_out", "padded"]

FEW_DISTINCT = 2  # times the rows of which one is held out
FEW_ROWS = (20, 3)  # a target that is not observed everywhere is rare with fewer


def fold_of(member: int, *, shared: bool = True) -> int:
    """Return the number of the fold that a member holds out: if ``shared``, two have the first.

    Rows that two members have not learned tell how far members disagree at new rows.
    """
    return max(member - shared, 0)


def hold_out(
    X: Any,
    y: np.ndarray,
    fraction: float,
    n_members: int,
    rng: np.random.RandomState,
    *,
    stratify: bool,
    shared: bool = True,
) -> tuple[np.ndarray, list[np.ndarray] | None]:
    """Return training rows (members, n), padded with -1, and validation rows of each member.

    The share is counted in distinct rows, and copies of a row stay together: none of them is
    learned in training and met again in validation, and a row of weight two is held out as the
    same row given twice. The first two members hold out the same rows if ``shared``, all others
    different ones as long as there are enough. With ``stratify`` the classes ``y`` are held out in
    proportion. Returns ``(train, None)`` if there are fewer than two distinct rows.

    In tables of categories, many rows are equal but for their target, and new rows will be equal to
    rows that are learned. There copies are rows of their own: with all of those of one class held
    out, the others would say that there is no such class. So are many copies where hardly any rows
    are distinct: a level of the only category that is held out would not be learned at all.
    """
    n_rows = X.shape[0]
    of_inputs = keys = row_keys(X)
    for column in np.atleast_2d(y.T):
        keys = join_keys(keys, column)
    alone = _stand_alone(of_inputs, keys, 1 / fraction)
    if alone.any():
        copy_number = np.where(alone, _rank_among_equal(keys), 0)
        keys = join_keys(keys, copy_number)
    first, group = _in_order(keys)
    n_groups = len(first)
    if n_groups < 2:
        return np.tile(np.arange(n_rows), (n_members, 1)), None
    order = _canonical_order(X[first], y[first])[rng.permutation(n_groups)]
    if stratify:
        order = order[np.argsort(y[first][order], kind="stable")]
    free = order[_may_be_held_out(y[first])[order]]
    rank = np.full(n_groups, -1)
    rank[free] = np.arange(len(free))
    train, validation = [], []
    for member in range(n_members):
        place = (rank + fold_of(member, shared=shared)) % len(free)
        # Every 1/fraction-th place, the first among them. The small number absorbs rounding.
        held = np.ceil((place + 1) * fraction - 1e-9) > np.ceil(place * fraction - 1e-9)
        held &= rank >= 0
        if held.all():
            held[order[-1]] = False
        held = held[group]
        train.append(np.flatnonzero(~held))
        validation.append(np.flatnonzero(held))
    return padded(train), validation


def _in_order(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each distinct key, as they come, and the number of each row's key."""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return first[order], number[group]


def _stand_alone(of_inputs: np.ndarray, keys: np.ndarray, n_copies: float) -> np.ndarray:
    """Tell which rows have many copies that are rows of their own.

    ``of_inputs`` are equal where inputs are, ``keys`` where targets are, too.
    """
    _, group, counts = np.unique(of_inputs, return_inverse=True, return_counts=True)
    first = np.unique(keys, return_index=True)[1]
    n_targets = np.bincount(group[first], minlength=len(counts))
    are_few = 1 < len(first) < FEW_DISTINCT * n_copies
    return ((counts >= n_copies) & ((n_targets > 1) | are_few))[group]


def _rank_among_equal(keys: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... for the rows that have the same key, in their order."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.empty(len(keys), dtype=int)
    rank[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    return rank


def padded(train: list[np.ndarray]) -> np.ndarray:
    """Return the rows that each member learns as one array (members, n), filled up with -1."""
    order = np.full((len(train), max(map(len, train))), -1)
    for member, rows in enumerate(train):
        order[member, : len(rows)] = rows
    return order


def _may_be_held_out(y: np.ndarray) -> np.ndarray:
    """Tell which distinct rows may be held out: not those with a target that few rows observe.

    All of these must be learned, or training rows would not tell the units of the target. Where
    every row has such a target, only the rarest count, or none.
    """
    if y.ndim == 2 and has_nan(y):
        observed = ~np.isnan(y)
        counts = np.count_nonzero(observed, axis=0)
        for few in FEW_ROWS:
            free = ~observed[:, (counts < few) & (counts < len(y))].any(axis=1)
            if free.any():
                return free
    return np.ones(len(y), dtype=bool)


def _canonical_order(X: Any, y: np.ndarray) -> np.ndarray:
    """Return an order of distinct rows that depends neither on the order they came in nor on units.

    By a random projection of the features over their spread, to single precision, then by y, and
    at last by all digits of the projection.
    """
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    mean = np.asarray(X.mean(axis=0)).ravel()
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        variance, rounding = np.maximum(squares - np.square(mean), 0), 1e-6
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # refused later, with a clear error
            variance, rounding = X.var(axis=0, dtype=np.float64), 1e-12
    spread = np.sqrt(variance)
    varies = spread > rounding * np.abs(mean)
    place = X @ np.where(varies, direction / np.where(varies, spread, 1), 0)
    place = place - place.min()
    return np.lexsort((place, *np.atleast_2d(y.T), place.astype(np.float32)))
