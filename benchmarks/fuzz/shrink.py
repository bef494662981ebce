"""Smaller cases that fail alike, and the program that runs one."""

from __future__ import annotations

import pprint
import time
from collections.abc import Callable, Iterator

from .cases import Case
from .trial import Outcome, run

__all__ = ["shrink", "snippet"]

# What is simpler, simplest first; a value that is not here is tried only if it is smaller.
SIMPLER = {
    "rows": (2, 4, 8, 12, 20, 30),
    "features": (1, 2),
    "targets": (1, 2),
    "classes": (2, 3),
    "labels": ("numbers",),
    "container": ("array",),
    "dtype": ("float64",),
    "x_scale": (0, 3, 30, 100),
    "y_scale": (0, 3, 30, 100),
    "learn": ("fit", "stream"),
    "weights": ("none", "some"),
    "errors": ("none", "number"),
    "missing": (False,),
    "missing targets": (False,),
    "categories": (0, 1),
    "constant": (False,),
    "outliers": (False,),
    "copies": (False,),
    "seed": (0, 1, 2),
}
# Defaults that take long, and are no simpler.
SIMPLER_PARAMS = {
    "hidden_layer_sizes": ((), (3,)), "max_iter": (0, 1), "n_members": (1, 2), "random_state": (0,),
    "covariance_type": ("diag",),
}  # fmt: skip


def shrink(
    case: Case, seconds: float = 20.0, run: Callable[[Case], Outcome] = run
) -> tuple[Case, Outcome]:
    """Return a case that fails in the same way and cannot be made simpler, or not in time."""
    end, outcome = time.monotonic() + seconds, run(case)
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in _smaller(case):
            if time.monotonic() > end:
                return case, outcome
            found = run(smaller)
            if (found.end, found.kind) == (outcome.end, outcome.kind):
                case, outcome, goes_on = smaller, found, True
                break
    return case, outcome


def _smaller(case: Case) -> Iterator[Case]:
    params = case["params"]
    for name in params:
        if name not in SIMPLER_PARAMS:
            yield {**case, "params": {k: v for k, v in params.items() if k != name}}
    for name, values in SIMPLER_PARAMS.items():
        for value in _before(values, params.get(name)):
            yield {**case, "params": {**params, name: value}}
    for name, values in SIMPLER.items():
        if name in case and case[name] != "copies":  # weights that a check needs
            for value in _before(values, case[name]):
                yield {**case, name: value}


def _before(values: tuple, value: object) -> tuple:
    """Return the values that are simpler than one."""
    if value in values:
        return values[: values.index(value)]
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(v for v in values if abs(v) <= abs(value))
    return values


def snippet(case: Case) -> str:
    """Return a program that runs a case and says what becomes of it; from a checkout."""
    plain = pprint.pformat(case, width=96, sort_dicts=False)
    return (
        "from benchmarks.fuzz import run\n\n"
        f"nan, inf = float('nan'), float('inf')\ncase = {plain}\nprint(run(case))\n"
    )
