"""What makes small products quick: typed scalars, memory used again, products, BLAS threads.

Nothing here changes more than rounding; all of it is measured by ``benchmarks speed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import RLock
from typing import Any, ClassVar, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = [
    "EPS", "ONE", "TINY", "ZERO", "Buffer", "has_nan", "mean_of_columns", "product_over",
    "slices", "threads_for_layers", "threads_for_rows", "transposed",
]  # fmt: skip

# Multiplications in the largest product of a batch from which on threads are worth it.
WORTH_THREADS = 16_000_000
# Rows of a batch from which on threads are worth it for matrices of rows by rows.
MANY_ROWS = 512


# Scalars of each type, as arrays: NumPy would have to convert those of Python each time.


def _of_each_type(value: Callable[[str], Any]) -> dict[str, np.ndarray]:
    numbers = {char: np.array(value(char), char) for char in "fd"}
    for number in numbers.values():
        number.setflags(write=False)
    return numbers


ZERO = _of_each_type(lambda char: 0)
ONE = _of_each_type(lambda char: 1)
EPS = _of_each_type(lambda char: np.finfo(char).eps)
TINY = _of_each_type(lambda char: np.finfo(char).tiny)


# Memory


class Buffer:
    """Memory for one array at a time; large arrays take longer to get than to fill.

    Values of an earlier call are gone: write before you read.
    """

    def __init__(self, dtype: np.dtype[Any]):
        self._flat = self._given = ZERO[dtype.char]

    def shaped(self, *shape: int) -> np.ndarray:
        """Return the memory as an array of this shape, contiguous."""
        if self._given.shape == shape:
            return self._given
        size = math.prod(shape)
        if self._flat.ndim == 0 or self._flat.size < size:
            self._flat = np.empty(size, self._flat.dtype)
        self._given = self._flat[:size].reshape(shape)
        return self._given


def slices(n_rows: int, size: int) -> Iterator[slice]:
    """Cut ``n_rows`` into parts of ``size`` rows, which bounds memory; the last may be shorter."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


# Reductions and products


def has_nan(values: np.ndarray) -> bool:
    """Tell whether some values may be NaN: a sum is quicker than to look at each."""
    total = np.add.reduce(values, axis=None)
    return bool(total != total)


def transposed(matrices: np.ndarray) -> np.ndarray:
    """Transpose each matrix of a stack, as a view."""
    return matrices.swapaxes(-1, -2)


def product_over(n_terms: int, stacked: bool) -> Callable[..., np.ndarray]:
    """Return the quickest ``product(a, b, out)`` of matrices, for sums of ``n_terms`` each.

    Only ``matmul`` takes stacks of matrices, and it is slow where a column meets a row.
    """
    if not stacked:
        return np.ndarray.dot
    return np.multiply if n_terms == 1 else np.matmul


def mean_of_columns(values: np.ndarray) -> np.ndarray:
    """Return the mean over the last axis; a product is quicker than ``mean``."""
    return values @ _averager(values.shape[-1], values.dtype.char)


@cache
def _averager(n: int, dtype: str) -> np.ndarray:
    return np.full(n, 1 / n, dtype)


# One BLAS thread for small products: several spend their time on waiting for each other.


class HasMeans(Protocol):
    """A layer, as far as threads are concerned."""

    mu: np.ndarray


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries of the process; it takes milliseconds to find them."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


class _OneThread:
    """A context in which BLAS uses one thread, in the whole process.

    Several threads may be in such a context at once: the first that enters saves the number of
    threads, the last that leaves restores it. An interrupt that comes before the body of ``with``
    has begun leaves the context with nobody who would leave it: then it ends with its object.
    """

    _lock = RLock()  # an object may end in a thread that holds it
    _inside: ClassVar[set[int]] = set()
    _before: ClassVar[list[tuple[Any, int]]] = []  # libraries, and their number of threads

    def __enter__(self) -> None:
        with self._lock:
            self._inside.add(id(self))
            if not self._before:  # saved as a whole before anything changes
                _OneThread._before = [(lib, lib.get_num_threads()) for lib in _libraries()]
            for library, n_threads in self._before:
                if n_threads != 1:
                    library.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside.discard(id(self))
            if not self._inside:
                for library, n_threads in self._before:
                    if n_threads != 1:
                        library.set_num_threads(n_threads)
                _OneThread._before = []

    def __del__(self) -> None:
        if id(self) in self._inside or (self._before and not self._inside):
            self.__exit__()


def threads_for_layers(layers: Sequence[HasMeans], n_rows: int) -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses as many threads as pay for batches of ``n_rows``."""
    if n_rows == 1:
        return nullcontext()
    largest = max(layer.mu.shape[-2] * layer.mu.shape[-1] for layer in layers)
    if _is_work(largest, n_rows):
        return nullcontext()
    return _OneThread()


def threads_for_rows(largest: int, n_rows: int) -> AbstractContextManager[Any]:
    """Return a context for factors of matrices of rows by rows, inside ``threads_for_layers``.

    ``largest`` is the number of parameters of the largest layer.
    """
    if 2 < n_rows < MANY_ROWS and _is_work(largest, n_rows):
        return _OneThread()
    return nullcontext()


def _is_work(largest: int, n_rows: int) -> bool:
    return n_rows * max(largest, n_rows) >= WORTH_THREADS
