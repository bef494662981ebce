"""Data sets of the benchmarks: from a folder, or from OpenML where there is a network.

The folder holds ``uci/<name>.npz`` with arrays ``X``, ``y`` and ``test_0``, ``test_1``, ... (the
row numbers of the test part of each split), and ``mnist.npz`` with ``X_train``, ``y_train``,
``X_test`` and ``y_test``.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

__all__ = ["UCI", "add_data_option", "digest", "load_mnist", "load_uci", "split_rows", "uci_digest"]


class UciSet(NamedTuple):
    """What a set must be to be compared with published results, and where OpenML has it."""

    n_splits: int
    n_rows: int
    n_features: int
    source: dict  # arguments of fetch_openml


# Where versions of OpenML differ in their columns, one is named, and its target.
UCI = {
    "boston": UciSet(20, 506, 13, {"name": "boston", "version": 1}),
    "concrete": UciSet(20, 1030, 8, {"name": "Concrete_Data", "version": 1}),
    "energy": UciSet(20, 768, 8, {"data_id": 44960, "target_column": "heating_load"}),
    "kin8nm": UciSet(20, 8192, 8, {"name": "kin8nm", "version": 1}),
    "naval": UciSet(
        20, 11934, 16,
        {"data_id": 44969, "target_column": "gt_compressor_decay_state_coefficient"},
    ),
    "power": UciSet(20, 9568, 4, {"name": "combined_cycle_power_plant", "version": 1}),
    "protein": UciSet(5, 45730, 9, {"data_id": 42903, "target_column": "RMSD"}),
    "wine": UciSet(20, 1599, 11, {"name": "wine-quality-red", "version": 1}),
    "yacht": UciSet(20, 308, 6, {"name": "yacht_hydrodynamics", "version": 1}),
}  # fmt: skip


def add_data_option(parser: argparse.ArgumentParser, what: str = "uci/<name>.npz") -> None:
    parser.add_argument("--data", metavar="FOLDER", help=f"folder with {what}; default: OpenML")


def load_uci(folder: str | None, name: str):
    """X, y and the row numbers of the test part of each split."""
    if name not in UCI:
        raise SystemExit(f"no data set {name!r}; there are {', '.join(UCI)}")
    about = UCI[name]
    if folder is None:
        X, y = _from_openml(name, about.n_rows, about.n_features, **about.source)
        return X, y, standard_splits(len(y), about.n_splits)
    arrays = _from_folder(folder, f"uci/{name}.npz", ("X", "y", "test_0"))
    tests = [arrays[f"test_{k}"] for k in range(about.n_splits) if f"test_{k}" in arrays]
    path = Path(folder) / "uci" / f"{name}.npz"
    _check_rows(path, arrays, "X", "y")
    for number, test in enumerate(tests):
        if not (test.ndim == 1 and len(test) and np.issubdtype(test.dtype, np.integer)):
            raise SystemExit(f"{path}: test_{number} has to be row numbers")
        if test.min() < 0 or test.max() >= len(arrays["y"]):
            raise SystemExit(f"{path}: test_{number} names rows that are not among those of y")
        if len(np.unique(test)) == len(arrays["y"]):
            raise SystemExit(f"{path}: test_{number} leaves no row to learn from")
    return arrays["X"], arrays["y"], tests


def split_rows(folder: str | None, name: str, split: int):
    """X_train, y_train, X_test, y_test of a standard split."""
    X, y, tests = load_uci(folder, name)
    if split >= len(tests):
        raise SystemExit(f"{name} has {len(tests)} splits there; split {split} was asked for")
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
        X, y = _from_openml("mnist", 70_000, 784, name="mnist_784", version=1)
        X, y = X.astype(np.float32) / 255, y.astype(int)
        return X[:60000], y[:60000], X[60000:], y[60000:]
    arrays = _from_folder(folder, "mnist.npz", ("X_train", "y_train", "X_test", "y_test"))
    for part in ("train", "test"):
        _check_rows(Path(folder) / "mnist.npz", arrays, f"X_{part}", f"y_{part}")
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


def _check_rows(path: Path, arrays: dict[str, np.ndarray], X: str, y: str) -> None:
    """Refuse X and y that are not finite numbers, or differ in their number of rows."""
    for name, ndim in ((X, 2), (y, 1)):
        array = arrays[name]
        if array.ndim != ndim or array.dtype.kind not in "iuf":
            raise SystemExit(f"{path}: {name} has to be an array of numbers with {ndim} axes")
        if not np.isfinite(array).all():
            raise SystemExit(f"{path}: {name} has values that are not finite")
    if len(arrays[X]) != len(arrays[y]):
        raise SystemExit(f"{path}: {X} has {len(arrays[X])} rows and {y} has {len(arrays[y])}")


@lru_cache(maxsize=1)  # fits of a set follow one another, and parsing takes long
def _from_openml(what: str, n_rows: int, n_features: int, **source):
    from sklearn.datasets import fetch_openml

    try:
        X, y = fetch_openml(**source, return_X_y=True, as_frame=False, parser="auto")
        X = np.asarray(X, dtype=float)
        if y is None:  # OpenML names no target: the last column
            X, y = X[:, :-1], X[:, -1]
        y = np.asarray(y, dtype=float)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise SystemExit(
            f"{what} could not be fetched from OpenML ({error}); --data names a folder that has it"
        ) from None
    if len(X) != n_rows:
        raise SystemExit(f"{what} of OpenML has {len(X)} rows; {n_rows} were expected")
    if X.shape[1] > n_features:  # one too many may be another target
        raise SystemExit(f"{what} of OpenML has {X.shape[1]} features; {n_features} were expected")
    if X.shape[1] < n_features:
        print(
            f"note: {what} of OpenML has {X.shape[1]} features, published results {n_features}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    return X, y[:, 0] if y.ndim == 2 else y
