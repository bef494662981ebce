"""Where shards are kept and functions run on them: dask, processes of this machine, Ray."""

from __future__ import annotations

import asyncio
import os
import pickle
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent import futures
from contextlib import suppress
from types import ModuleType
from typing import Any, Self

import numpy as np
from scipy import sparse

from .engine.sources import Unreachable

__all__ = ["Workers", "workers_for"]

SECONDS_BETWEEN_LOOKS = 0.5  # while a result is awaited
SILENT_SECONDS = 5.0  # without workers, before that is said

Function = Callable[..., Any]


class Workers:
    """Keeps shards and runs functions on them, each where its shard is.

    A subclass says how: what it returns for a shard that is kept, or for a task that is started, is
    its own.
    """

    absence = "the cluster has none"  # of workers, in words

    def __init__(self, timeout: float | None):
        self.timeout = timeout  # seconds without any workers; None: as long as it takes
        self._alone_since: float | None = None
        self._has_said = False

    def load(self, blocks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return kept blocks: tuples of their values, or of functions that load them."""
        raise NotImplementedError

    def keep(self, function: Function, shards: list[Any], *columns: list[Any], **given: Any) -> Any:
        """Run a function on each shard; what it returns stays there. ``columns`` differ."""
        raise NotImplementedError

    def start(
        self, function: Function, shards: list[Any], *columns: list[Any], **given: Any
    ) -> list[Any]:
        """Run a function on each shard; ``gather`` fetches what it returns."""
        raise NotImplementedError

    def gather(self, started: list[Any]) -> list[Any]:
        """Return the results of what was started."""
        raise NotImplementedError

    def cancel(self, started: list[Any]) -> None:
        """Give up what was started."""
        raise NotImplementedError

    def dumps(self, value: Any) -> bytes:
        """Return a value as it is sent to workers."""
        return pickle.dumps(value)

    def call(
        self, function: Function, shards: list[Any], *columns: list[Any], **given: Any
    ) -> list[Any]:
        """Run a function on each shard, and return the results."""
        return self.gather(self.start(function, shards, *columns, **given))

    def hurry(self) -> None:
        """Wait no longer for workers that are not there: somebody has interrupted."""
        self.timeout = 0.0

    def close(self) -> None:
        """Drop what is left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _look(self, n_workers: int) -> None:
        """Say that there are no workers, and do not wait for them beyond the timeout."""
        if n_workers:
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = time.monotonic()
        waited = time.monotonic() - self._alone_since
        if self.timeout is not None and waited >= self.timeout:
            raise Unreachable(TimeoutError(f"there have been no workers for {waited:.0f} s"))
        if waited >= SILENT_SECONDS and not self._has_said:
            self._has_said = True
            left = "without end" if self.timeout is None else f"for {self.timeout:g} s"
            warnings.warn(
                f"fit_shards waits for workers {left}: {self.absence}. Ctrl-C gives back what was "
                "learned.",
                stacklevel=2,
            )


def workers_for(client: Any, timeout: float | None) -> Workers:
    """Return the workers of a client, of an executor, or of Ray; None: the last dask client."""
    if isinstance(client, futures.Executor):
        if type(client).__module__.startswith("distributed"):  # its tasks do not tell if they run
            raise ValueError(
                f"client must be the dask client itself, not its executor; got {client!r}."
            )
        return PoolWorkers(client, timeout)
    if isinstance(client, ModuleType) and client.__name__ == "ray":
        return RayWorkers(client, timeout)
    try:
        from distributed import Client, default_client
    except ImportError:
        raise ImportError(
            'fit_shards needs dask and distributed, pip install "sktagi[dask]", or client= an '
            "executor of concurrent.futures."
        ) from None
    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise ValueError(
                "fit_shards needs a cluster: create a dask.distributed.Client, or pass client=."
            ) from None
    if not isinstance(client, Client):
        raise ValueError(
            "client must be a distributed.Client, an executor of concurrent.futures, the module "
            f"ray or None; got {client!r}."
        )
    return DaskWorkers(client, timeout)


class DaskWorkers(Workers):
    """Workers of a dask cluster. What a lost worker held is computed again."""

    def __init__(self, client: Any, timeout: float | None):
        super().__init__(timeout)
        self.client = client

    def load(self, blocks: Sequence[tuple[Any, ...]]) -> list[Any]:
        from dask import delayed

        if hasattr(blocks[0][0], "dask"):
            return self.client.compute([delayed(as_block)(*block) for block in blocks])
        return [self.client.submit(as_block, *block, pure=False) for block in blocks]

    def start(
        self, function: Function, shards: list[Any], *columns: list[Any], **given: Any
    ) -> list[Any]:
        # One call: all shards go out in one message.
        try:
            return self.client.map(function, shards, *columns, pure=False, **given)
        except Exception as error:
            if self.client.status == "running":
                raise
            raise _cluster_is_gone() from error

    keep = start

    def gather(self, started: list[Any]) -> list[Any]:
        from distributed import KilledWorker

        # In the client's own thread, so that this one can look after the workers meanwhile.
        pending = asyncio.run_coroutine_threadsafe(
            self.client.gather(started, asynchronous=True), self.client.loop.asyncio_loop
        )
        try:
            while not futures.wait([pending], SECONDS_BETWEEN_LOOKS).done:
                self._look(self._n_workers())
            return pending.result()
        except (futures.CancelledError, asyncio.CancelledError) as error:
            raise _cluster_is_gone() from error
        except KilledWorker as error:
            raise Unreachable(error) from error
        except BaseException:
            self.cancel(started)
            raise

    def _n_workers(self) -> int:
        try:
            return len(self.client.nthreads())
        except Exception:
            return 0  # the scheduler does not answer

    def cancel(self, started: list[Any]) -> None:
        with suppress(Exception):  # of a client that has lost its cluster
            self.client.cancel(started)

    def dumps(self, value: Any) -> bytes:
        from distributed.protocol.pickle import dumps

        return dumps(value)


def _cluster_is_gone() -> Unreachable:
    return Unreachable(ConnectionError("the connection to the cluster is lost"))


class PoolWorkers(Workers):
    """An executor of ``concurrent.futures``, or one like it: processes that share a disk.

    Shards are kept in files, which processes map into their memory.
    """

    absence = "those of the executor are busy"

    def __init__(self, executor: futures.Executor, timeout: float | None):
        super().__init__(timeout)
        self.executor = executor
        self.folder = tempfile.TemporaryDirectory(prefix="sktagi-", ignore_cleanup_errors=True)

    def load(self, blocks: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._kept([(as_block, None, block, {}) for block in blocks])

    def keep(self, function: Function, shards: list[Any], *columns: list[Any], **given: Any) -> Any:
        return self._kept(_calls(function, shards, columns, given))

    def start(
        self, function: Function, shards: list[Any], *columns: list[Any], **given: Any
    ) -> list[Any]:
        return self._submitted(_calls(function, shards, columns, given), [None] * len(shards))

    def _kept(self, calls: list[tuple[Any, ...]]) -> list[_File]:
        files = [_File(self.folder.name) for _ in calls]
        self.gather(self._submitted(calls, [file.path for file in files]))
        return files

    def _submitted(self, calls: list[tuple[Any, ...]], paths: Sequence[str | None]) -> list[Any]:
        pairs = zip(calls, paths, strict=True)
        try:
            return [self.executor.submit(_run_on_file, (*call, path)) for call, path in pairs]
        except RuntimeError as error:  # it is broken, or was shut down
            raise Unreachable(error) from error

    def gather(self, started: list[Any]) -> list[Any]:
        pending = set(started)
        try:
            while pending:
                done, pending = futures.wait(pending, SECONDS_BETWEEN_LOOKS)
                self._look(len(done) + sum(task.running() for task in pending))
            return [task.result() for task in started]
        except (futures.BrokenExecutor, futures.CancelledError) as error:
            raise Unreachable(error) from error
        except BaseException:
            self.cancel(started)
            raise

    def cancel(self, started: list[Any]) -> None:
        for task in started:
            task.cancel()

    def close(self) -> None:
        self.folder.cleanup()


class _File:
    """A shard in a file, which goes when nobody needs it any more."""

    def __init__(self, folder: str):
        handle, self.path = tempfile.mkstemp(dir=folder)
        os.close(handle)
        weakref.finalize(self, _remove, self.path)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.remove(path)


def _calls(function: Function, shards: list[Any], columns: Any, given: Any) -> list[Any]:
    return [
        (function, shard.path, of_shard, given)
        for shard, *of_shard in zip(shards, *columns, strict=True)
    ]


def _run_on_file(call: tuple[Function, str | None, Any, dict[str, Any], str | None]) -> Any:
    """Run a function on the shard in a file, and keep what it returns in another, or return it."""
    import joblib

    function, source, values, given, to = call
    first = () if source is None else (_in_memory(joblib.load(source, mmap_mode="r")),)
    result = function(*first, *values, **given)
    if to is None:
        return result
    joblib.dump(result, to)
    return None


def _in_memory(value: Any) -> Any:
    """Return maps of files as plain arrays, which are quicker: their memory is the same."""
    if isinstance(value, np.memmap):
        return np.asarray(value)
    if sparse.issparse(value):
        value.data = np.asarray(value.data)
        return value
    if isinstance(value, (list, tuple)):
        items = [_in_memory(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class RayWorkers(Workers):
    """Tasks of Ray, which keeps what they return in its object store."""

    def __init__(self, ray: Any, timeout: float | None):
        super().__init__(timeout)
        self.ray = ray
        self._run = ray.remote(_run_here)

    def load(self, blocks: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [self._run.remote(as_block, {}, *block) for block in blocks]

    def start(
        self, function: Function, shards: list[Any], *columns: list[Any], **given: Any
    ) -> list[Any]:
        given = self.ray.put(given)
        return [self._run.remote(function, given, *a) for a in zip(shards, *columns, strict=True)]

    keep = start

    def gather(self, started: list[Any]) -> list[Any]:
        while len(self._ready(started)) < len(started):
            self._look(int(self.ray.cluster_resources().get("CPU", 0)))
        return self.ray.get(started)

    def _ready(self, started: list[Any]) -> list[Any]:
        return self.ray.wait(
            started, num_returns=len(started), timeout=SECONDS_BETWEEN_LOOKS, fetch_local=False
        )[0]

    def cancel(self, started: list[Any]) -> None:
        for task in started:
            self.ray.cancel(task)

    def dumps(self, value: Any) -> bytes:
        from ray.cloudpickle import dumps

        return dumps(value)


def _run_here(function: Function, given: dict[str, Any], *values: Any) -> Any:
    return function(*values, **given)


def as_block(X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Return the values of a block, loaded if they are functions."""
    values = (value() if callable(value) else value for value in (X, y, sample_weight))
    X, y, sample_weight = values
    return X, y, sample_weight
