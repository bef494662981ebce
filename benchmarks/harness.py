"""One run of many fits: in parallel, with progress, results written as they come.

Every fit is one JSON line in the results file, keyed by what was fitted and by the versions of the
code; a run that is interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import joblib
import numpy as np
import sklearn
from threadpoolctl import threadpool_limits

import sktagi

__all__ = ["evaluate", "run"]


def _source() -> str:
    """A fingerprint of the package's code: results of other code are not reused."""
    folder = Path(sktagi.__file__).parent
    text = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(text).hexdigest()[:12]


VERSIONS = {
    "sktagi": sktagi.__version__,
    "source": _source(),
    "numpy": np.__version__,
    "scikit-learn": sklearn.__version__,
    "python": ".".join(map(str, sys.version_info[:3])),
}


def run(task: Callable, jobs: Sequence[dict], n_jobs: int, out: str | None) -> list[dict]:
    """``task(**job)`` for every job that ``out`` does not hold yet; all results."""
    path = Path(out) if out else None
    done = {}
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off by an interrupt
            if record["versions"] == VERSIONS:
                done[_key(record["job"])] = record
    todo = [job for job in jobs if _key(job) not in done]
    start = time.perf_counter()
    results = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        joblib.delayed(_timed)(task, job) for job in todo
    )
    for count, record in enumerate(results, 1):
        done[_key(record["job"])] = record
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
        elapsed = time.perf_counter() - start
        left = elapsed / count * (len(todo) - count)
        line = f"{count}/{len(todo)} fits, {elapsed:.0f} s, about {left:.0f} s left"
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        elif count % max(1, len(todo) // 20) == 0 or count == len(todo):
            print(line, file=sys.stderr, flush=True)
    if todo and sys.stderr.isatty():
        print(file=sys.stderr)
    return [done[_key(job)] for job in jobs]


def evaluate(model, X_train, y_train, X_test, y_test) -> dict:
    """Fit a regressor; error, log-likelihood and coverage on the test rows, seconds of the fit."""
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    mean, std = model.predict(X_test, return_std=True)
    residual = np.abs(y_test - mean)
    return {
        "rmse": float(np.sqrt(np.mean(residual**2))),
        "log_likelihood": model.log_likelihood(X_test, y_test),
        "coverage": {
            str(level): float(np.mean(residual < quantile * std))
            for level, quantile in ((50, 0.6745), (90, 1.6449), (95, 1.96))
        },
        "seconds": seconds,
        "n_iter": int(model.n_iter_),
        "sigma_v": model.sigma_v_,
    }


def _key(job: dict) -> str:
    return json.dumps(job, sort_keys=True)


def _timed(task: Callable, job: dict) -> dict:
    with threadpool_limits(limits=1, user_api="blas"):
        return {"job": job, "result": task(**job), "versions": VERSIONS}
