"""What makes small products quick: typed scalars, memory used again, products, BLAS threads.

Nothing here changes more than rounding; all of it is measured by ``benchmarks speed``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = [
    "EPS", "ONE", "TINY", "ZERO", "Buffer", "extremes", "has_nan", "lazy", "mean_of_columns",
    "mean_of_first", "of_each_type", "product_over", "slices", "threads_for_layers",
    "threads_for_rows", "transposed",
]  # fmt: skip

# Multiplications in the largest product of a batch from which on threads are worth it.
WORTH_THREADS = 16_000_000
# Rows of a batch from which on threads are worth it for matrices of rows by rows.
MANY_ROWS = 512


if TYPE_CHECKING:
    from functools import cached_property as lazy
else:

    class lazy:
        """A ``cached_property`` without a lock, which takes longer than small numbers."""

        def __init__(self, function: Callable[[Any], Any]):
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._function(instance)
            return value


# Scalars of each type, as arrays: NumPy would have to convert those of Python each time.


def of_each_type(value: Callable[[str], Any]) -> dict[str, np.ndarray]:
    """Return arrays of numbers that nobody changes, by the character of their type."""
    numbers = {char: np.array(value(char), char) for char in "fd"}
    for number in numbers.values():
        number.setflags(write=False)
    return numbers


ZERO = of_each_type(lambda char: 0)
ONE = of_each_type(lambda char: 1)
EPS = of_each_type(lambda char: np.finfo(char).eps)
TINY = of_each_type(lambda char: np.finfo(char).tiny)


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


def overflow_allowed() -> AbstractContextManager[Any]:
    """Return a context in which numbers may leave their range without a warning.

    It is for those who look at what comes of them, and refuse what is not finite.
    """
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def has_nan(values: np.ndarray) -> bool:
    """Tell whether some values may be NaN: a sum is quicker than to look at each."""
    total = np.add.reduce(values, axis=None)
    return bool(total != total)


def extremes(values: np.ndarray) -> tuple[Any, Any]:
    """Return the least and the largest value, NaN if there is one; of few quicker than ``min``."""
    flat = values.reshape(-1)
    return flat[flat.argmin()], flat[flat.argmax()]


def mean_of_first(values: np.ndarray) -> np.ndarray:
    """Return the mean over the first axis, as ``mean`` does, which takes long for few numbers."""
    return np.add.reduce(values, axis=0) / len(values)


def are_finite(*arrays: np.ndarray) -> bool:
    """Tell whether all numbers are finite: a finite sum is quicker than a look at each."""
    sums = (np.add.reduce(values, axis=None) for values in arrays)
    return all(map(math.isfinite, sums)) or all(np.isfinite(a).all() for a in arrays)


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
    _inside: ClassVar[dict[int, int]] = {}  # contexts, and their threads
    _before: ClassVar[list[tuple[Any, int]]] = []  # libraries, and their number of threads

    def __enter__(self) -> None:
        with self._lock:
            self._inside[id(self)] = get_ident()
            if not self._before:  # saved as a whole before anything changes
                _OneThread._before = [(lib, lib.get_num_threads()) for lib in _libraries()]
            for library, n_threads in self._before:
                if n_threads != 1:
                    library.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside.pop(id(self), None)
            self._restore_if_empty()

    @classmethod
    def _restore_if_empty(cls) -> None:
        if not cls._inside:
            for library, n_threads in cls._before:
                if n_threads != 1:
                    library.set_num_threads(n_threads)
            cls._before = []

    def __del__(self) -> None:
        if id(self) in self._inside or (self._before and not self._inside):
            self.__exit__()

    @classmethod
    def begin_again(cls) -> None:
        """Leave the contexts of other threads, which a process that was just forked does not have.

        One of them may have held the lock, and nobody would give it back.
        """
        cls._lock = RLock()
        cls._inside = {key: own for key, own in cls._inside.items() if own == get_ident()}
        cls._restore_if_empty()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OneThread.begin_again)


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
