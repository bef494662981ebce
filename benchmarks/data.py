"""Data sets of the benchmarks: from a folder, or from OpenML where there is a network.

The folder holds ``uci/<name>.npz`` with arrays ``X``, ``y`` and ``test_0``, ``test_1``, ... (the
row numbers of the test part of each split), and ``mnist.npz`` with ``X_train``, ``y_train``,
``X_test`` and ``y_test``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["UCI", "load_mnist", "load_uci"]

# name: number of standard splits, and where OpenML has it (name, version).
UCI = {
    "boston": (20, ("boston", 1)),
    "concrete": (20, ("Concrete_Data", 1)),
    "energy": (20, ("energy-efficiency", 1)),
    "kin8nm": (20, ("kin8nm", 1)),
    "naval": (20, ("naval_propulsion_plant", 1)),
    "power": (20, ("combined_cycle_power_plant", 1)),
    "protein": (5, ("physicochemical-protein", 2)),
    "wine": (20, ("wine-quality-red", 1)),
    "yacht": (20, ("yacht_hydrodynamics", 1)),
}


def load_uci(folder: str | None, name: str):
    """X, y and the row numbers of the test part of each split."""
    if name not in UCI:
        raise SystemExit(f"no data set {name!r}; there are {', '.join(UCI)}")
    n_splits, source = UCI[name]
    if folder is None:
        X, y = _from_openml(*source)
        return X, y, standard_splits(len(y), n_splits)
    path = Path(folder) / "uci" / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} does not exist; --data names a folder that holds uci/{name}.npz")
    with np.load(path) as archive:
        tests = [archive[f"test_{k}"] for k in range(n_splits) if f"test_{k}" in archive.files]
        return archive["X"], archive["y"], tests


def standard_splits(n_rows: int, n_splits: int) -> list[np.ndarray]:
    """The test rows of the standard splits: NumPy's legacy generator, seeded once with 1."""
    rng = np.random.RandomState(1)
    draws = (rng.choice(n_rows, n_rows, replace=False) for _ in range(n_splits))
    return [np.sort(draw[round(0.9 * n_rows) :]) for draw in draws]


def load_mnist(folder: str | None):
    """X_train, y_train, X_test, y_test; pixels in [0, 1], float32."""
    if folder is None:
        X, y = _from_openml("mnist_784", 1)
        X, y = X.astype(np.float32) / 255, y.astype(int)
        return X[:60000], y[:60000], X[60000:], y[60000:]
    path = Path(folder) / "mnist.npz"
    if not path.exists():
        raise SystemExit(f"{path} does not exist; --data names a folder that holds mnist.npz")
    with np.load(path) as archive:
        X_train, X_test = (archive[k].astype(np.float32) / 255 for k in ("X_train", "X_test"))
        return X_train, archive["y_train"], X_test, archive["y_test"]


def _from_openml(name: str, version: int):
    from sklearn.datasets import fetch_openml

    X, y = fetch_openml(name, version=version, return_X_y=True, as_frame=False, parser="auto")
    return np.asarray(X, dtype=float), np.asarray(y, dtype=float)
