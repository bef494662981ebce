"""Kill a process again and again while it saves its model: what is left of the file?

    python -m benchmarks kills --kills 100

A child learns a row, saves its model, and says so through a pipe, as fast as it can. After a random
time it gets the signal 9, and the file is read. "In a write" counts kills that fell into a write,
as far as they left an unfinished file (of joblib: an unreadable one). "Lost" counts files that are
older than the last save that had returned. ``joblib.dump`` in place is what not to do. Before that,
the size of a default regressor that learned a hundred single rows, and how long it takes to write
and read it as bytes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from sktagi import TAGIRegressor

from .markdown import markdown

__all__ = ["Counts", "kill_while_saving"]

LONGEST = 0.06  # seconds until the kill


class Counts(dict):
    """How often what happened: kills, in_a_write, lost, unreadable."""


def save(model: TAGIRegressor, path: Path) -> None:
    model.save(path)


def dump(model: TAGIRegressor, path: Path) -> None:
    joblib.dump(model, path)


def kill_while_saving(
    n_kills: int,
    folder: Path,
    write: Callable[[Any, Path], Any] = save,
    read: Callable[[Path], Any] = TAGIRegressor.load,
    seed: int = 0,
) -> Counts:
    """Return what was left of a file after each of so many kills."""
    rng, counts = random.Random(seed), Counts(kills=0, in_a_write=0, lost=0, unreadable=0)
    path = folder / "model"
    model = make_model()
    write(model, path)
    saved = model.n_samples_seen_
    while counts["kills"] < n_kills:
        before = unfinished(folder)
        saved = max(saved, killed_child(model, path, write, rng.uniform(0, LONGEST)))
        counts["kills"] += 1
        counts["in_a_write"] += unfinished(folder) > before
        try:
            model = read(path)
        except Exception:
            counts["unreadable"] += 1
            counts["in_a_write"] += write is dump
            write(model, path)
            saved = model.n_samples_seen_
            continue
        counts["lost"] += model.n_samples_seen_ < saved
    return counts


def make_model() -> TAGIRegressor:
    """A model of 1.3 MB, so that much of the time is spent in writing."""
    X = np.random.default_rng(0).normal(size=(10, 20))
    return TAGIRegressor((100,), sigma_v="constant", random_state=0).partial_fit(X, X[:, 0])


def killed_child(
    model: TAGIRegressor, path: Path, write: Callable[[Any, Path], Any], seconds: float
) -> int:
    """Fork a child that learns and saves, kill it, and return how many rows it said are saved."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            row = np.ones((1, model.n_features_in_))
            while True:
                model.partial_fit(row, [1.0])
                write(model, path)
                os.write(writing, model.n_samples_seen_.to_bytes(8, "little"))
        finally:
            os._exit(1)
    os.close(writing)
    said = os.read(reading, 8)  # it has begun
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 1 << 16):
        said += more
    os.close(reading)
    if not said:
        raise RuntimeError("The child that saves has ended by itself.")
    return int.from_bytes(said[-8:], "little")


def unfinished(folder: Path) -> int:
    return sum(path.name.endswith("-unfinished") for path in folder.iterdir())


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="on the disk to try (a temporary one)")


def print_costs() -> None:
    """Print bytes and milliseconds of a default regressor that learned single rows."""
    X = np.random.default_rng(0).normal(size=(100, 5))
    model = TAGIRegressor(random_state=0)
    for row in X:
        model.partial_fit(row[None], row[:1])
    data = model.to_bytes()
    write = min(timeit.repeat(model.to_bytes, number=1, repeat=200))
    read = min(timeit.repeat(lambda: TAGIRegressor.from_bytes(data), number=1, repeat=200))
    print(f"{len(data)} bytes, to_bytes {write * 1e3:.2f} ms, from_bytes {read * 1e3:.2f} ms")


def main(args: argparse.Namespace) -> None:
    print_costs()
    methods = {"save": (save, TAGIRegressor.load), "joblib.dump": (dump, joblib.load)}
    rows = []
    for name, (write, read) in methods.items():
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            counts = kill_while_saving(args.kills, Path(folder), write, read)
        rows.append([name, *map(str, counts.values())])
    print(markdown(["written by", "kills", "in a write", "lost", "unreadable"], rows))
