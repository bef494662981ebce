"""Whether random configurations of both estimators break anything; prints counts and failures.

    python -m benchmarks fuzz --seconds 600 --seed 0
    python -m benchmarks fuzz --cases 300 --seed 1 --only "units of y" merging

Each case is a few rows of some kind, an estimator with some parameters, and a relation that must
hold: predictions in blocks are those at once, a weight of k is k copies, a saved estimator predicts
the same bits, a wrong argument is named. ``refused`` counts cases that end in a clear ValueError,
which only odd ones may: values near the ends of the numbers there are, or fewer than twenty rows. A
warning of NumPy, a number that is not finite and any other error are failures: the case is made
smaller and printed as a program. Exit code 1 then. The same seed has the same cases; how many are
reached in a time depends on the machine.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from ..markdown import markdown
from . import errors, forms, predictions, states  # noqa: F401  they add to CHECKS
from .cases import Case
from .shrink import shrink, snippet
from .trial import CHECKS, Outcome, describe, run

ENDS = ("held", "refused", "failed")
SHOWN = 10  # failures of different kinds


class Found:
    """Counts of all cases, and the first failure of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.failures: dict[tuple[str, str], Case] = {}
        self.slowest = 0.0

    def add(self, case: Case, outcome: Outcome, seconds: float) -> None:
        self.counts[case["check"], outcome.end] += 1
        self.slowest = max(self.slowest, seconds)
        if outcome.end == "failed":
            self.failures.setdefault((case["check"], outcome.kind), case)

    def table(self) -> str:
        names = [name for name in CHECKS if any(self.counts[name, end] for end in ENDS)]
        rows = [[name, *(str(self.counts[name, end]) for end in ENDS)] for name in names]
        totals = [str(sum(self.counts[name, end] for name in names)) for end in ENDS]
        return markdown(["check", *ENDS], [*rows, ["all", *totals]])


def cases(seed: int, only: Sequence[str] = ()) -> Iterator[Case]:
    """Return the cases of a seed without end, each kind of check in turn."""
    names = list(only) or list(CHECKS)
    numbered = ((k, names[k % len(names)]) for k in itertools.count())
    return (describe(name, np.random.default_rng([seed, k])) for k, name in numbered)


def fuzz(
    seed: int,
    seconds: float = np.inf,
    n_cases: int | None = None,
    only: Sequence[str] = (),
    run: Callable[[Case], Outcome] = run,
) -> Found:
    """Try cases until the time is over, or so many."""
    found, end = Found(), time.monotonic() + seconds
    for case in itertools.islice(cases(seed, only), n_cases):
        start = time.monotonic()
        if start >= end:
            break
        found.add(case, run(case), time.monotonic() - start)
    return found


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=np.inf, help="60, unless --cases is given")
    parser.add_argument("--cases", type=int, help="at most; default: as many as there is time for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=(), metavar="CHECK")


def main(args: argparse.Namespace) -> None:
    seconds = 60.0 if args.cases is None and args.seconds == np.inf else args.seconds
    with threadpool_limits(limits=1, user_api="blas"):
        found = fuzz(args.seed, seconds, args.cases, args.only)
        print(found.table())
        print(f"\nSlowest case: {found.slowest:.1f} s.")
        for (name, _), case in list(found.failures.items())[:SHOWN]:
            smallest, outcome = shrink(case)
            print(f"\n{name}: {outcome.what}\n\n```python\n{snippet(smallest)}```")
    if found.failures:
        sys.exit(1)
