"""Too little memory: the address space of the process ends at a random place."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sktagi import TAGIRegressor

from .trials import AS_BEFORE, AS_IF_NOTHING, blas_threads, check_sound, make_rows, require

LEAST, MOST = 1e5, 1.5e8  # bytes that are left
PARAMS: dict[str, Any] = {"hidden_layer_sizes": (150,), "n_members": 3, "max_iter": 1}


@contextmanager
def bytes_left(n: float) -> Iterator[None]:
    """Refuse the process more than so many bytes beyond those that it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(n)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def trial(rng: np.random.Generator, learn: Callable[..., Any], *, fitted: bool) -> Iterator[str]:
    X, y = make_rows(6000, n_features=40)
    model = TAGIRegressor(random_state=0, **PARAMS)
    if fitted:
        model.partial_fit(X[:100], y[:100])
    before = model.to_bytes()
    undisturbed = learn(TAGIRegressor.from_bytes(before), X, y).to_bytes()
    threads = blas_threads()
    while True:
        raised = False
        try:
            with bytes_left(np.exp(rng.uniform(np.log(LEAST), np.log(MOST)))):
                learn(model, X, y)
        except MemoryError:
            raised = True
        require(blas_threads() == threads, "BLAS threads are not as before")
        if raised:
            require(model.to_bytes() == before, "MemoryError has changed the estimator")
            yield AS_BEFORE
        else:
            require(model.to_bytes() == undisturbed, "other numbers, and nothing raised")
            yield AS_IF_NOTHING
        check_sound(learn(model, X[:300], y[:300]), X[:50], y[:50])
        model = TAGIRegressor.from_bytes(before)


def in_fit(rng: np.random.Generator) -> Iterator[str]:
    return trial(rng, TAGIRegressor.fit, fitted=False)


def in_partial_fit(rng: np.random.Generator) -> Iterator[str]:
    return trial(rng, TAGIRegressor.partial_fit, fitted=True)
