"""Data sets of the benchmarks: from a folder, or from OpenML where there is a network.

The folder holds ``uci/<name>.npz`` with arrays ``X``, ``y`` and ``test_0``, ``test_1``, ... (the
row numbers of the test part of each split), and ``mnist.npz`` with ``X_train``, ``y_train``,
``X_test`` and ``y_test``.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

__all__ = ["UCI", "add_data_option", "digest", "load_mnist", "load_uci", "split_rows", "uci_digest"]

# name: number of standard splits, number of rows, and where OpenML has it (name, version).
UCI = {
    "boston": (20, 506, ("boston", 1)),
    "concrete": (20, 1030, ("Concrete_Data", 1)),
    "energy": (20, 768, ("energy-efficiency", 1)),
    "kin8nm": (20, 8192, ("kin8nm", 1)),
    "naval": (20, 11934, ("naval_propulsion_plant", 1)),
    "power": (20, 9568, ("combined_cycle_power_plant", 1)),
    "protein": (5, 45730, ("physicochemical-protein", 2)),
    "wine": (20, 1599, ("wine-quality-red", 1)),
    "yacht": (20, 308, ("yacht_hydrodynamics", 1)),
}


def add_data_option(parser: argparse.ArgumentParser, what: str = "uci/<name>.npz") -> None:
    parser.add_argument("--data", metavar="FOLDER", help=f"folder with {what}; default: OpenML")


def load_uci(folder: str | None, name: str):
    """X, y and the row numbers of the test part of each split."""
    if name not in UCI:
        raise SystemExit(f"no data set {name!r}; there are {', '.join(UCI)}")
    n_splits, n_rows, source = UCI[name]
    if folder is None:
        X, y = _from_openml(*source, n_rows)
        return X, y, standard_splits(len(y), n_splits)
    arrays = _from_folder(folder, f"uci/{name}.npz", ("X", "y", "test_0"))
    tests = [arrays[f"test_{k}"] for k in range(n_splits) if f"test_{k}" in arrays]
    return arrays["X"], arrays["y"], tests


def split_rows(folder: str | None, name: str, split: int):
    """X_train, y_train, X_test, y_test of a standard split."""
    X, y, tests = load_uci(folder, name)
    train = np.setdiff1d(np.arange(len(y)), tests[split])
    return X[train], y[train], X[tests[split]], y[tests[split]]


def standard_splits(n_rows: int, n_splits: int) -> list[np.ndarray]:
    """The test rows of the standard splits: NumPy's legacy generator, seeded once with 1."""
    rng = np.random.RandomState(1)
    draws = (rng.choice(n_rows, n_rows, replace=False) for _ in range(n_splits))
    return [np.sort(draw[round(0.9 * n_rows) :]) for draw in draws]


def load_mnist(folder: str | None):
    """X_train, y_train, X_test, y_test; pixels in [0, 1], float32."""
    if folder is None:
        X, y = _from_openml("mnist_784", 1, 70_000)
        X, y = X.astype(np.float32) / 255, y.astype(int)
        return X[:60000], y[:60000], X[60000:], y[60000:]
    arrays = _from_folder(folder, "mnist.npz", ("X_train", "y_train", "X_test", "y_test"))
    X_train, X_test = (arrays[k].astype(np.float32) / 255 for k in ("X_train", "X_test"))
    return X_train, arrays["y_train"], X_test, arrays["y_test"]


def digest(*arrays: np.ndarray) -> str:
    """A fingerprint of rows: results of other rows are not reused."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:12]


def uci_digest(folder: str | None, name: str) -> str:
    X, y, tests = load_uci(folder, name)
    return digest(X, y, *tests)


def _from_folder(folder: str, name: str, needed: tuple[str, ...]) -> dict[str, np.ndarray]:
    path = Path(folder) / name
    if not Path(folder).is_dir():
        raise SystemExit(f"--data: there is no folder {folder}")
    if not path.exists():
        raise SystemExit(f"{path} does not exist; --data names a folder that holds {name}")
    try:
        with np.load(path) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (BadZipFile, ValueError, OSError, AttributeError) as error:
        raise SystemExit(f"{path} is not an archive of NumPy arrays: {error}") from None
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise SystemExit(f"{path} has no array {', '.join(missing)}")
    return arrays


def _from_openml(name: str, version: int, n_rows: int):
    from sklearn.datasets import fetch_openml

    try:
        X, y = fetch_openml(name, version=version, return_X_y=True, as_frame=False, parser="auto")
    except OSError as error:
        raise SystemExit(
            f"{name} could not be fetched from OpenML ({error}); --data names a folder that has it"
        ) from None
    X = np.asarray(X, dtype=float)
    if y is None:  # OpenML names no target: the last column
        X, y = X[:, :-1], X[:, -1]
    y = np.asarray(y, dtype=float)
    if len(X) != n_rows:
        raise SystemExit(f"{name} of OpenML has {len(X)} rows; {n_rows} were expected")
    return X, y[:, 0] if y.ndim == 2 else y
