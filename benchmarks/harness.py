"""One run of many fits: in parallel, with progress, results written as they come.

Every fit is one JSON line in the results file, keyed by what was fitted and by the versions of the
code; an interrupted run goes on where it stopped. Fits run side by side, each on one thread; the
fits of a grid search run one after the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

import sktagi
from sktagi.metrics import gaussian_log_likelihood, interval_coverage

__all__ = ["add_run_options", "evaluate", "positive", "positive_number", "read", "run", "source"]


def source(folder: Path = Path(sktagi.__file__).parent) -> str:
    """A fingerprint of the package's code: results of other code are not reused."""
    text = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(text).hexdigest()[:12]


OURS = {"sktagi": sktagi.__version__, "source": source()}
FIELDS = {"command", "job", "result", "versions"}  # of a record
VERSIONS = {
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
    "python": ".".join(map(str, sys.version_info[:3])),
}


def positive(text: str) -> int:
    """A number of the command line that must be at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def positive_number(text: str) -> float:
    """A number of the command line that must be above 0."""
    value = float(text)
    if not 0 < value < np.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def add_run_options(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--jobs", type=positive, default=1, help="fits at a time; default: 1")
    parser.add_argument(
        "--out", metavar="FILE", default=f"results/{command}.jsonl",
        help="results, one JSON line a fit; a run goes on from what is there; default: %(default)s",
    )  # fmt: skip


def run(
    command: str,
    task: Callable[..., dict],
    jobs: Sequence[dict],
    args: argparse.Namespace,
    costs: Sequence[float] | None = None,
) -> list[dict]:
    """Run ``task(args.data, **job)`` for jobs that ``args.out`` does not hold; return all records.

    ``about`` in a job is part of its key, and is not passed to the task. Its ``package`` is the
    one whose version counts (default: this one). ``costs`` of the fits, in any unit, give the
    estimate of the time left. If a fit fails, the others are still made; the run then ends with an
    error.
    """
    path = Path(args.out)
    done = {(_key(r["job"]), _key(r["versions"])): r for r in read(path) if r["command"] == command}
    keys = [(_key(job), _key(_versions(job))) for job in jobs]
    weights = costs or [1.0] * len(jobs)
    todo = [n for n, key in enumerate(keys) if key not in done]
    if len(todo) < len(jobs):
        note = f"{len(jobs) - len(todo)} of {len(jobs)} fits are in {path} already"
        print(note, file=sys.stderr, flush=True)
    failed = 0
    progress = Progress([weights[n] for n in todo])
    with _results_file(path) as file, _Interrupt() as interrupt:
        results = joblib.Parallel(n_jobs=args.jobs, return_as="generator_unordered")(
            joblib.delayed(_timed)(os.getpid(), command, task, args.data, n, jobs[n]) for n in todo
        )
        try:
            for n, record in results:
                if isinstance(record, str):
                    failed += 1
                    print(f"\n{_key(jobs[n])} failed:\n{record}", file=sys.stderr, flush=True)
                else:
                    done[keys[n]] = record
                    file.write(json.dumps(record) + "\n")
                    file.flush()
                progress.step(weights[n])
        finally:
            progress.close()
            if interrupt.seen:
                count = f"{progress.count - failed} of {len(todo)} fits were made"
                note = f", {failed} failed" if failed else ""
                print(f"interrupted: {count} and are in {path}{note}; the same command goes on",
                      file=sys.stderr, flush=True)  # fmt: skip
            results.close()
    if failed:
        raise SystemExit(
            f"{failed} of {len(todo)} fits failed; the others are in {path}, and the same command "
            "tries those that failed again"
        )
    return [done[key] for key in keys]


def read(path: Path) -> list[dict]:
    """The records of a results file, none without a file. Lines that were cut off are skipped."""
    if path.is_dir():
        raise SystemExit(f"{path} is a folder, not a file of results")
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except UnicodeDecodeError:
        raise SystemExit(f"{path} is not a file of results: it is no text") from None
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if not isinstance(record, dict) or not set(record) >= FIELDS:
            raise SystemExit(f"{path}, line {number}, is not a result of these benchmarks")
        records.append(record)
    return records


class Progress:
    """A bar with an estimate of the time left on a terminal; about twenty lines elsewhere."""

    def __init__(self, weights: Sequence[float]):
        self.total, self.cost, self.count, self.spent = len(weights), sum(weights), 0, 0.0
        self.start, self.shown = time.perf_counter(), 0
        self.live = sys.stderr.isatty()
        if self.total and self.live:
            self._write(f"0/{self.total} fits")

    def step(self, weight: float) -> None:
        self.count, self.spent = self.count + 1, self.spent + weight
        elapsed = time.perf_counter() - self.start
        left = elapsed * (self.cost - self.spent) / self.spent
        line = f"{self.count}/{self.total} fits, {_span(elapsed)}, about {_span(left)} left"
        if self.live or self.count == self.total or self.count >= self.shown + self.total / 20:
            self.shown = self.count
            self._write(line)

    def close(self) -> None:
        if self.total and self.live:
            print(file=sys.stderr)

    def _write(self, line: str) -> None:
        filled = round(20 * self.spent / self.cost)
        bar = "[" + "#" * filled + "." * (20 - filled) + "] "
        start, end = ("\r\x1b[2K" + bar, "") if self.live else ("", "\n")
        print(start + line, end=end, file=sys.stderr, flush=True)


def evaluate(model, X_train, y_train, X_test, y_test, *, has_std: bool = True) -> dict:
    """Fit a regressor; error, log-likelihood and coverage on the test rows, seconds of the fit.

    For a grid search, the seconds are those of the last fit, and the search is counted apart.
    """
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds, search_seconds = time.perf_counter() - start, None
    if isinstance(model, GridSearchCV):
        search_seconds, seconds = seconds - model.refit_time_, model.refit_time_
        model = model.best_estimator_
    if has_std:
        mean, std = model.predict(X_test, return_std=True)
    else:
        mean = model.predict(X_test)
    residual = np.abs(y_test - mean)
    result = {
        "rmse": float(np.sqrt(np.mean(residual**2))),
        "log_likelihood": None,
        "coverage": None,
        "seconds": seconds,
        "search_seconds": search_seconds,
        "n_iter": int(model.n_iter_) if hasattr(model, "n_iter_") else None,
        "sigma_v": getattr(model, "sigma_v_", None),
    }
    if has_std:
        result["coverage"] = {
            str(level): _coverage(model, X_test, y_test, mean, std, level / 100)
            for level in (50, 90, 95)
        }
        if hasattr(model, "log_likelihood"):
            result["log_likelihood"] = model.log_likelihood(X_test, y_test)
        else:
            result["log_likelihood"] = float(gaussian_log_likelihood(y_test, mean, std))
    return result


def _coverage(model, X, y, mean, std, coverage: float) -> float:
    """Share of targets in the model's own intervals, or in those of a Gaussian."""
    if not hasattr(model, "predict_interval"):
        return interval_coverage(y, mean, std, coverage=coverage)
    low, high = model.predict_interval(X, coverage).T
    return float(np.mean((low <= y) & (y <= high)))


class _Interrupt:
    """End the run with code 130 on Ctrl-C; an estimator would catch it and only stop learning."""

    def __init__(self):
        self.seen = False

    def __enter__(self):
        self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGINT, self._before)

    def _stop(self, *_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.seen = True
        raise SystemExit(130)


def _results_file(path: Path):
    """Open the file to append lines; end a line that was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    file = path.open("a")
    if cut_off:
        file.write("\n")
    return file


def _versions(job: dict) -> dict:
    package = job.get("about", {}).get("package", "sktagi")
    if package == "sktagi":
        return {**OURS, **VERSIONS}
    return VERSIONS if package == "scikit-learn" else {package: version(package), **VERSIONS}


def _key(value: dict) -> str:
    return json.dumps(value, sort_keys=True)


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _timed(
    main_process: int, command: str, task: Callable[..., dict], data, number: int, job: dict
):
    if os.getpid() != main_process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends its workers
    arguments = {name: value for name, value in job.items() if name != "about"}
    with threadpool_limits(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = task(data, **arguments)
        except Exception:
            return number, traceback.format_exc()
    record = {"command": command, "job": job, "result": result, "versions": _versions(job)}
    return number, record
