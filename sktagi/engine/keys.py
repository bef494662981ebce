"""Keys of rows: equal rows have equal keys, and others hardly ever."""

from __future__ import annotations

import numpy as np
from scipy import sparse

__all__ = ["join_keys", "row_keys"]

BLOCK_ELEMENTS = 1 << 15  # they stay in cache


def row_keys(x) -> np.ndarray:
    """A 64-bit key for each row of a matrix, dense or sparse."""
    constants = np.random.default_rng(0).integers(1 << 63, size=x.shape[1], dtype=np.uint64)
    if sparse.issparse(x):
        x = x.tocsr(copy=True)
        x.sum_duplicates()
        x.eliminate_zeros()  # some are sums
        entries = _mix(_bits(x.data) + constants[x.indices])
        running = np.concatenate([[np.uint64(0)], np.cumsum(entries, dtype=np.uint64)])
        return _mix(running[x.indptr[1:]] - running[x.indptr[:-1]])
    keys = np.empty(x.shape[0], dtype=np.uint64)
    size = max(1, BLOCK_ELEMENTS // max(1, x.shape[1]))
    for start in range(0, x.shape[0], size):
        block = _mix(_bits(x[start : start + size]) + constants)
        keys[start : start + size] = block.sum(axis=1, dtype=np.uint64)
    return _mix(keys)


def join_keys(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Keys of the same rows with one more column."""
    return _mix(keys + _mix(_bits(values)))


def _bits(values) -> np.ndarray:
    # Adding zero turns -0.0, which equals 0.0 with other bits, into 0.0.
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _mix(key: np.ndarray) -> np.ndarray:
    """Spread every bit of a key over all 64 (Stafford's variant of the splitmix finaliser)."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
