"""Clusters on this machine, and rows for them; only for tests that need dask."""

import os
from contextlib import contextmanager

import dask
import dask.array as da
import distributed
import numpy as np

PATIENCE = 300  # seconds, for a machine that is busy with other things
PARAMS = {"hidden_layer_sizes": (10,), "n_members": 1, "random_state": 0}
CONFIG = {
    # Data that joblib has put on every worker stay on every worker.
    "distributed.scheduler.active-memory-manager.start": False,
    # A worker that takes long to start again is not given up.
    "distributed.deploy.lost-worker-timeout": f"{PATIENCE}s",
}


@contextmanager
def cluster(n_workers=2, *, processes=True, as_default=False):
    """A client of a cluster with so many workers, of one thread each."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with (
        dask.config.set(CONFIG),
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=None
        ) as local,
        distributed.Client(local, set_as_default=as_default) as client,
    ):
        yield client


def make_rows(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = 5 + 2 * rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


def chunked(X, y, n_chunks):
    size = -(-len(X) // n_chunks)
    return da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)
