"""Learn a file larger than memory in one pass, and watch the memory.

``python -m benchmarks memmap`` writes 5 GB into a temporary folder, and removes it.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from sktagi import TAGIRegressor

N_FEATURES = 50


def write(path: Path, n_rows: int, chunk: int) -> None:
    """Rows of features and a target: a smooth function of three features, and noise."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, n_rows, chunk):
            rows = rng.standard_normal((min(chunk, n_rows - start), N_FEATURES + 1), np.float32)
            clean = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2]
            rows[:, -1] = clean + 0.3 * rows[:, -1]
            rows.tofile(file)


def resident_mb() -> float:
    """Peak resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--chunk", type=int, default=20_000, help="rows of a partial_fit")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=20)
    parser.add_argument("--members", type=int, default=1)


def main(args: argparse.Namespace) -> None:
    n_rows = int(args.gigabytes * 1e9 / (4 * (N_FEATURES + 1)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.f32"
        write(path, n_rows, 100_000)
        print(f"{path.stat().st_size / 1e9:.2f} GB, {n_rows} rows of {N_FEATURES} features")
        model = TAGIRegressor(
            (args.hidden,), batch_size=args.batch_size, n_members=args.members, random_state=0,
        )  # fmt: skip
        start = time.perf_counter()
        for first in range(0, n_rows, args.chunk):
            # A new map for each chunk: pages that were read do not stay resident.
            rows = np.memmap(path, np.float32, "r", shape=(n_rows, N_FEATURES + 1))
            part = rows[first : first + args.chunk]
            model.partial_fit(part[:, :-1], part[:, -1])
            if first // args.chunk % 200 == 0:
                print(
                    f"{first + len(part):>10} rows | {time.perf_counter() - start:6.0f} s | "
                    f"recent log-likelihood {model.recent_log_likelihood_:7.4f} | "
                    f"resident at most {resident_mb():.0f} MB",
                    flush=True,
                )
            del rows, part
        seconds = time.perf_counter() - start
        print(
            f"{n_rows / seconds:.0f} rows a second, {seconds:.0f} s in all; resident at most "
            f"{resident_mb():.0f} MB; log-likelihood before learning "
            f"{model.prequential_log_likelihood_:.4f}, recently {model.recent_log_likelihood_:.4f} "
            f"(the noise alone: {-np.log(0.3) - 0.5 * np.log(2 * np.pi * np.e):.4f})"
        )
