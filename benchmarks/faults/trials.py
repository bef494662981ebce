"""The list of trials of faults, and what a trial is.

A trial is a generator, made of a generator of random numbers: each ``next`` tries a fault once and
gives a few words for what came of it, which is fine, or raises ``Broken``.
"""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

__all__ = [
    "AS_BEFORE", "AS_IF_NOTHING", "TRIALS", "Broken", "Trial", "blas_threads", "check_sound",
    "make_rows", "missing", "require",
]  # fmt: skip

AS_BEFORE = "as before"
AS_IF_NOTHING = "as if nothing had happened"


class Broken(Exception):
    """Something does not hold; the message says what."""


class Trial(NamedTuple):
    """Where a trial is, and what it needs."""

    module: str  # of this package
    function: str
    needs: tuple[str, ...] = ()  # packages, "fork", "timer" or "resource"


TRIALS = {
    "Ctrl-C in fit": Trial("interrupts", "in_fit", ("timer",)),
    "Ctrl-C twice in fit": Trial("interrupts", "twice_in_fit", ("timer",)),
    "Ctrl-C in partial_fit": Trial("interrupts", "in_partial_fit", ("timer",)),
    "Ctrl-C in partial_fit of a row": Trial("interrupts", "in_a_row", ("timer",)),
    "Ctrl-C in a search": Trial("interrupts", "in_a_search", ("timer",)),
    "Ctrl-C in save": Trial("interrupts", "in_save", ("timer",)),
    "too little memory": Trial("memory", "in_fit", ("resource",)),
    "too little memory in partial_fit": Trial("memory", "in_partial_fit", ("resource",)),
    "kill -9 in save": Trial("workers", "while_saving", ("fork",)),
    "a process of n_jobs killed": Trial("workers", "of_n_jobs"),
    "a process of an executor killed": Trial("workers", "of_an_executor"),
    "a dask worker killed": Trial("workers", "one_of_dask", ("distributed",)),
    "all dask workers killed": Trial("workers", "all_of_dask", ("distributed",)),
    "all dask workers leave": Trial("workers", "none_left_of_dask", ("distributed",)),
    "no dask workers": Trial("workers", "none_of_dask", ("distributed",)),
}


def missing(name: str) -> str:
    """Return what a trial needs and is not there, or nothing."""
    there: dict[str, Callable[[], bool]] = {
        "fork": lambda: hasattr(os, "fork"),
        "timer": lambda: hasattr(signal, "setitimer"),
    }
    for need in TRIALS[name].needs:
        if not there.get(need, lambda need=need: importlib.util.find_spec(need) is not None)():
            return f"no {need}"
    return ""


def load(name: str) -> Callable[[np.random.Generator], Iterator[str]]:
    """Return the function that makes the generator of a trial."""
    trial = TRIALS[name]
    module = importlib.import_module(f".{trial.module}", __package__)
    return getattr(module, trial.function)


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def make_rows(n: int, seed: int = 0, n_features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = 5 + 2 * rng.normal(size=(n, n_features))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


def check_sound(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Refuse predictions that are no numbers, and a model that cannot go on learning."""
    if hasattr(model, "classes_"):
        mean, std = model.predict_proba(X, return_std=True)
    else:
        mean, std = model.predict(X, return_std=True)
    require(bool(np.isfinite(mean).all() and np.isfinite(std).all()), "predictions are not finite")
    require(bool((std > 0).all()), "a std is not positive")
    model.partial_fit(X, y)
