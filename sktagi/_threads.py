"""One BLAS thread for small products: several spend their time on waiting for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController  # comes with scikit-learn

from .engine.learning import Network

__all__ = ["suitable_threads"]

# Multiplications in the largest product of a batch, from which on threads are worth it.
WORTH_THREADS = 4_000_000


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # takes milliseconds to find the libraries


def suitable_threads(net: Network, batch_size: int) -> AbstractContextManager:
    """A context in which BLAS uses as many threads as pay for batches of this size."""
    largest = max(layer.mu[0].size for layer in net.layers)
    if batch_size == 1 or batch_size * max(largest, batch_size) >= WORTH_THREADS:
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")
