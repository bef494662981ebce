"""Rows of which copies are one, with their weight: a row of weight k is k copies of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .engine.keys import pair_keys

__all__ = ["DistinctRows"]


class DistinctRows:
    """The distinct rows of a call, in the order in which they came; found when they are needed."""

    def __init__(self, X: Any, y: np.ndarray, weight: np.ndarray):
        self._X, self._y, self.given = X, y, weight

    @cached_property
    def _found(self) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(len(self.given))
        if len(rows) == 1:
            return rows, rows
        keys = pair_keys(self._X, self._y)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return first[order], np.argsort(order)[group]

    @property
    def first(self) -> np.ndarray:
        """Numbers of the rows that are no copies of earlier ones."""
        return self._found[0]

    @property
    def group(self) -> np.ndarray:
        """For each row, which of these it is a copy of."""
        return self._found[1]

    @cached_property
    def weight(self) -> np.ndarray:
        """Weight of each with its copies."""
        return np.bincount(self.group, self.given)

    def __len__(self) -> int:
        return len(self.first)
