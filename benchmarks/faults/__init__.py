"""Trials of faults: Ctrl-C, too little memory, kills while a model is saved or workers learn.

    python -m benchmarks faults --seconds 600 --seed 0
    python -m benchmarks faults --times 20 --only "Ctrl-C in fit" "too little memory"

Each trial runs in a process of its own, again and again, until its share of the time is over; a
fault comes at a random moment. It is held if the estimator is then as it was before, as if nothing
had happened, or has what it learned so far and a warning that says so; BLAS has as many threads as
before, and the next call learns. It is broken if anything else is found, if the process ends, or if
there is no answer in ``PATIENCE`` seconds. Trials whose packages or signals are not there are
skipped. Exit code 1 if one is broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from ..markdown import markdown
from .trials import TRIALS, missing

__all__ = ["PATIENCE", "Found", "try_again"]

PATIENCE = 240.0  # seconds for one fault, on a machine that has other things to do
ROOT = Path(__file__).parents[2]
SHOWN = 5  # of what is broken


class Found:
    """How often what came of a trial."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self.broken: list[str] = []

    @property
    def times(self) -> int:
        return sum(self.held.values()) + len(self.broken)

    def row(self, name: str) -> list[str]:
        what = ", ".join(f"{count} {end}" for end, count in self.held.most_common())
        return [name, str(self.times), str(self.held.total()), str(len(self.broken)), what]


class Process:
    """A process that tries one fault after the other."""

    def __init__(self, name: str, seed: int):
        command = [sys.executable, "-m", "benchmarks.faults.worker", name, str(seed)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def answer(self) -> dict[str, str]:
        """Ask for one more; returns what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        start = time.monotonic()
        watchdog.start()
        try:
            self._process.stdin.write("go\n")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if line:
            return json.loads(line)
        self.close()
        if time.monotonic() - start > 0.9 * PATIENCE:
            return {"ended": f"no answer in {PATIENCE:.0f} s"}
        return {"ended": f"the process ended with {self._process.returncode}"}

    def close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()  # which ends it, with all its workers
            except BrokenPipeError:
                pass
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def try_again(name: str, seed: int, seconds: float = float("inf"), times: int = sys.maxsize):
    """Try a fault until the time is over, or so often, but at least once."""
    found, end = Found(), time.monotonic() + seconds
    process = Process(name, seed)
    try:
        while not found.times or (time.monotonic() < end and found.times < times):
            answer = process.answer()
            if "held" in answer:
                found.held[answer["held"]] += 1
                continue
            found.broken.append(answer.get("broken") or answer["ended"])
            if "ended" in answer:
                process = Process(name, seed + found.times)
    finally:
        process.close()
    return found


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="of all trials; 300, unless --times is given")
    parser.add_argument("--times", type=int, help="of each trial at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS), metavar="TRIAL")


def main(args: argparse.Namespace) -> None:
    there = [name for name in args.only if not missing(name)]
    seconds = 300.0 if args.seconds is None and args.times is None else args.seconds
    share = float("inf") if seconds is None else seconds / max(1, len(there))
    rows, broken = [], []
    for name in args.only:
        if name not in there:
            rows.append([name, "0", "0", "0", f"skipped: {missing(name)}"])
            continue
        print(f"{name} ...", end="\r", file=sys.stderr, flush=True)
        found = try_again(name, args.seed, share, args.times or sys.maxsize)
        rows.append(found.row(name))
        broken += [f"{name}: {what}" for what in found.broken]
    print(markdown(["trial", "times", "held", "broken", "what came of it"], rows))
    for what in broken[:SHOWN]:
        print(f"\n{what}")
    if broken:
        sys.exit(1)
