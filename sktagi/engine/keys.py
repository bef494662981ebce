"""Keys of rows: equal rows have equal keys, and others hardly ever."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["join_keys", "pair_keys", "row_keys"]

BLOCK_ELEMENTS = 1 << 15  # they stay in cache
FEW_COLUMNS = 32


def row_keys(x: Any) -> np.ndarray:
    """Return a 64-bit key for each row of a matrix, dense or sparse.

    Whether keys of one call are equal is all that they tell: a key depends on the other rows.
    """
    if sparse.issparse(x):
        return _sparse_keys(x)
    n_columns = x.shape[1]
    if n_columns <= 2 * FEW_COLUMNS:
        return _dense_keys(x)
    # A few columns tell most rows apart; only those that they do not need the others.
    # (The last column may be the ones of the bias.)
    keys = _dense_keys(x[:, np.linspace(0, n_columns - 2, FEW_COLUMNS).astype(int)])
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(size[group] > 1)
    keys[alike] = _dense_keys(x, alike)
    return keys


def _dense_keys(x: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """Return keys of all rows, or of some, a block of them at a time."""
    constants = _constants(x.shape[1])
    n_rows = x.shape[0] if rows is None else len(rows)
    keys = np.empty(n_rows, dtype=np.uint64)
    size = max(1, BLOCK_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, n_rows, size):
        part = slice(start, start + size)
        block = _bits(x[part] if rows is None else x[rows[part]])
        block += constants
        keys[part] = _mix(block).sum(axis=1, dtype=np.uint64)
    return _mix(keys)


def _sparse_keys(x: Any) -> np.ndarray:
    x = x.tocsr(copy=True)
    x.sum_duplicates()
    x.eliminate_zeros()  # some are sums
    entries = _mix(_bits(x.data) + _constants(x.shape[1])[x.indices])
    running = np.concatenate([[np.uint64(0)], np.cumsum(entries, dtype=np.uint64)])
    return _mix(running[x.indptr[1:]] - running[x.indptr[:-1]])


def _constants(n_columns: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1 << 63, size=n_columns, dtype=np.uint64)


def join_keys(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return keys of the same rows with one more column."""
    return _mix(keys + _mix(_bits(values)))


def pair_keys(x: Any, y: np.ndarray) -> np.ndarray:
    """Return keys of rows and their targets, (rows,) or (rows, n_targets)."""
    keys = row_keys(x)
    for column in np.atleast_2d(y.T):
        keys = join_keys(keys, column)
    return keys


def _bits(values: np.ndarray) -> np.ndarray:
    # Adding zero turns -0.0, which equals 0.0 with other bits, into 0.0.
    return np.add(values, 0.0, dtype=np.float64, order="C").view(np.uint64)


def _mix(key: np.ndarray) -> np.ndarray:
    """Spread every bit of keys over all 64, in place (Stafford's variant of splitmix64)."""
    shifted = key >> np.uint64(30)
    key ^= shifted
    key *= np.uint64(0xBF58476D1CE4E5B9)
    key ^= np.right_shift(key, np.uint64(27), out=shifted)
    key *= np.uint64(0x94D049BB133111EB)
    key ^= np.right_shift(key, np.uint64(31), out=shifted)
    return key
