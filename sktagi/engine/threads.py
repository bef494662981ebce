"""One BLAS thread for small products: several spend their time on waiting for each other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # comes with scikit-learn

__all__ = ["threads_for_layers", "threads_for_rows"]

# Multiplications in the largest product of a batch, from which on threads are worth it.
WORTH_THREADS = 16_000_000
# Rows of a batch, from which on threads are worth it for matrices of rows by rows.
MANY_ROWS = 512


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # takes milliseconds to find the libraries


def threads_for_layers(layers: Sequence[Any], n_rows: int) -> AbstractContextManager:
    """A context in which BLAS uses as many threads as pay for batches of this size."""
    if n_rows == 1 or _are_wide(layers, n_rows):
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


def threads_for_rows(layers: Sequence[Any], n_rows: int) -> AbstractContextManager:
    """The same for what rows say of each other; inside ``threads_for_layers``."""
    if 2 < n_rows < MANY_ROWS and _are_wide(layers, n_rows):
        return _controller().limit(limits=1, user_api="blas")
    return nullcontext()


def _are_wide(layers: Sequence[Any], n_rows: int) -> bool:
    largest = max(layer.mu.shape[-2] * layer.mu.shape[-1] for layer in layers)
    return n_rows * max(largest, n_rows) >= WORTH_THREADS
