"""Processes that are killed: one that saves its model, workers of executors and of dask."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from sktagi import TAGIRegressor
from sktagi.dask import fit_shards

from ..kills import kill_while_saving
from .trials import AS_BEFORE, AS_IF_NOTHING, check_sound, make_rows, require

Rng = np.random.Generator
SO_FAR = "with what was learned so far, and a warning"
RAISED = "an error before the first epoch"
X, Y = make_rows(600)
MODEL = TAGIRegressor((10,), n_members=2, max_iter=30, early_stopping=False, random_state=0)
TIMEOUT = 60.0  # seconds to wait for workers that start again


def while_saving(rng: Rng) -> Iterator[str]:
    while True:
        with tempfile.TemporaryDirectory() as folder:
            counts = kill_while_saving(1, Path(folder), seed=int(rng.integers(1 << 30)))
        require(not counts["unreadable"], "the file cannot be read")
        require(not counts["lost"], "the file is older than the last save")
        yield "readable, killed in a write" if counts["in_a_write"] else "readable"


def parts_of(X: np.ndarray, y: np.ndarray, n: int = 4) -> tuple[list, list]:
    return np.array_split(X, n), np.array_split(y, n)


def fitted(parts: Any, **given: Any) -> tuple[TAGIRegressor, str]:
    """Return the model of shards, and what warnings said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit_shards(MODEL, *parts, **given)
    return model, " ".join(str(one.message) for one in caught)


def without_faults(parts: Any, client: Any) -> tuple[float, np.ndarray]:
    """Return the seconds of a fit, and what it predicts."""
    start = time.perf_counter()
    model, _ = fitted(parts, client=client)
    return time.perf_counter() - start, np.array(model.predict(X, return_std=True))


def judged(model: TAGIRegressor, told: str, undisturbed: np.ndarray) -> str:
    if model.n_iter_ == MODEL.max_iter and "calibrated" not in told:
        same = np.array_equal(model.predict(X, return_std=True), undisturbed)
        require(same, "other numbers, without a warning")
        return AS_IF_NOTHING
    require("Training" in told or "calibrated" in told, "half learned, without a warning")
    require(len(model.train_scores_) == model.n_iter_ > 0, "n_iter_ is wrong")
    check_sound(model, X, Y)
    return SO_FAR


def of_an_executor(rng: Rng) -> Iterator[str]:
    parts = parts_of(X, Y)
    undisturbed, takes = None, 0.0
    while True:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            fitted(parts, client=executor)  # both processes are there
            if undisturbed is None:
                takes, undisturbed = without_faults(parts, executor)
            pid = int(rng.choice(list(executor._processes)))
            killer = threading.Timer(rng.uniform(0, 1.1) * takes, kill, ([pid],))
            killer.start()
            try:
                end = judged(*fitted(parts, client=executor), undisturbed)
            except BrokenExecutor:
                end = RAISED
            killer.cancel()
            killer.join()
        yield end


def of_n_jobs(rng: Rng) -> Iterator[str]:
    """Kill a process of joblib in which members learn."""
    from joblib.externals.loky import reusable_executor

    def kill_one() -> None:
        executor = reusable_executor._executor
        if pids := list(executor._processes or ()) if executor is not None else []:
            kill([int(rng.choice(pids))])

    model = TAGIRegressor(n_members=2, max_iter=30, n_jobs=2, random_state=0).fit(X[::2], Y[::2])
    before = model.to_bytes()
    start = time.perf_counter()
    undisturbed = TAGIRegressor.from_bytes(before).fit(X, Y).to_bytes()
    takes = time.perf_counter() - start
    while True:
        killer = threading.Timer(rng.uniform(0, 1) * takes, kill_one)
        killer.start()
        try:
            model.fit(X, Y)
        except BrokenExecutor:
            require(model.to_bytes() == before, "an error has changed the estimator")
            end = f"an error, {AS_BEFORE}"
        else:
            require(model.to_bytes() == undisturbed, "other numbers, and no error")
            end = AS_IF_NOTHING
        killer.cancel()
        killer.join()
        model = TAGIRegressor.from_bytes(before)
        yield end


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


# dask


@contextmanager
def cluster(n_workers: int, *, processes: bool = True) -> Iterator[Any]:
    import dask
    import distributed

    given = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": f"{TIMEOUT}s"}),
        distributed.LocalCluster(processes=processes, **given) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


def chunked() -> tuple[Any, Any]:
    import dask.array as da

    return da.from_array(X, chunks=(150, -1)), da.from_array(Y, chunks=150)


def of_dask(rng: Rng, choose: Callable[[list[int]], list[int]]) -> Iterator[str]:
    """Kill processes of workers; nannies start others in their place."""
    parts = chunked()
    with cluster(2) as client:
        fitted(parts, client=client)
        takes, undisturbed = without_faults(parts, client)
        while True:
            client.wait_for_workers(2, timeout=TIMEOUT)
            pids = choose(list(client.run(os.getpid).values()))
            killer = threading.Timer(rng.uniform(0, 1) * takes, kill, (pids,))
            killer.start()
            model, told = fitted(parts, client=client, timeout=TIMEOUT)
            killer.cancel()
            killer.join()
            yield judged(model, told, undisturbed)


def one_of_dask(rng: Rng) -> Iterator[str]:
    return of_dask(rng, lambda pids: [int(rng.choice(pids))])


def all_of_dask(rng: Rng) -> Iterator[str]:
    return of_dask(rng, lambda pids: pids)


def none_left_of_dask(rng: Rng) -> Iterator[str]:
    parts = chunked()
    undisturbed, takes = None, 0.0
    while True:
        with cluster(1, processes=False) as client:
            if undisturbed is None:
                fitted(parts, client=client)
                takes, undisturbed = without_faults(parts, client)
            leaves = threading.Timer(rng.uniform(0, 1) * takes, client.cluster.scale, (0,))
            leaves.start()
            try:
                end = judged(*fitted(parts, client=client, timeout=1), undisturbed)
            except TimeoutError:
                end = RAISED
            leaves.cancel()
            leaves.join()
        yield end


def none_of_dask(rng: Rng) -> Iterator[str]:
    parts = chunked()
    with cluster(0, processes=False) as client:
        while True:
            timeout = rng.uniform(0, 2)
            start = time.monotonic()
            try:
                fitted(parts, client=client, timeout=timeout)
                require(False, "learned without workers")
            except TimeoutError as error:
                require("no workers" in str(error), f"an error that does not say why: {error}")
            late = time.monotonic() - start - timeout
            require(-0.1 < late < 10, f"{late:.0f} s after the timeout")
            yield "TimeoutError in time"
