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
    largest = max(layer.mu.shape[-2] * layer.mu.shape[-1] for layer in layers)
    if n_rows == 1 or _is_work(largest, n_rows):
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


def threads_for_rows(largest: int, n_rows: int) -> AbstractContextManager:
    """The same for factors of matrices of rows by rows; inside ``threads_for_layers``.

    ``largest`` is the number of parameters of the largest layer.
    """
    if 2 < n_rows < MANY_ROWS and _is_work(largest, n_rows):
        return _controller().limit(limits=1, user_api="blas")
    return nullcontext()


def _is_work(largest: int, n_rows: int) -> bool:
    return n_rows * max(largest, n_rows) >= WORTH_THREADS
