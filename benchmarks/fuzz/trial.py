"""What a check of the fuzz command is, how it is tried, and how predictions are compared.

A check draws what it needs beyond a random case (``CHECKS`` has both functions), and raises
``Broken`` where something does not hold. What the package raises is judged by ``run``.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from .cases import INVALID, Case, random_case

__all__ = [
    "CHECKS",
    "Arrays",
    "Broken",
    "Check",
    "Outcome",
    "Rng",
    "check",
    "describe",
    "is_clear",
    "is_finite",
    "is_known",
    "is_positive",
    "predicted",
    "rounding",
    "run",
    "same",
    "sensitivity",
    "state",
]

Rng = np.random.Generator
Arrays = dict[str, np.ndarray]
ROUNDING = {"float64": 1e-6, "int": 1e-6, "float32": 2e-2}  # of predictions, over their std
NAMES = {
    "X", "y", "sample_weight", "X_std", "X_cov", "X_val", "y_val", "groups", "classes", "class",
    "coverage", "quantiles", "n_samples", "feature", "features", "Columns", "columns", "fitted",
    "labels", "label", "target", "targets", "Networks", "estimator", "sample",
} | set(INVALID)  # fmt: skip
# What NumPy says of an array inside, which tells a user nothing.
INSIDE = ("broadcast", "zero-size", "reduction operation", "reshape", "mismatch in its core",
          "concatenate", "not aligned", "infs or NaNs", "array element")  # fmt: skip

# What scikit-learn says of an array, of any estimator.
STANDARD = ("Complex data not supported", "Found array with", "Expected 2D array",
            "inconsistent numbers of samples", "could not convert string to float")  # fmt: skip


class Broken(Exception):
    """Something does not hold; the first words of the message say what."""


class Outcome(NamedTuple):
    """What became of a case."""

    end: str  # "held", "refused" with a clear error, or "failed"
    what: str = ""  # for people
    kind: str = ""  # of a failure: a smaller case must fail alike


class Check(NamedTuple):
    """A kind of check: ``draw`` makes a case of it, ``hold`` raises if something does not hold."""

    draw: Callable[[Rng], Case]
    hold: Callable[[Case], None]


CHECKS: dict[str, Check] = {}


def check(name: str, draw: Callable[[Rng], Case] = random_case) -> Callable[..., Any]:
    def add(hold: Callable[[Case], None]) -> Callable[[Case], None]:
        CHECKS[name] = Check(draw, hold)
        return hold

    return add


def describe(name: str, rng: Rng) -> Case:
    """Draw a case of a kind."""
    return {"check": name, **CHECKS[name].draw(rng)}


def run(case: Case) -> Outcome:
    """Try a case; a warning of NumPy is a failure, and so is an error that is not clear."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            CHECKS[case["check"]].hold(case)
    except Broken as broken:
        return Outcome("failed", str(broken), str(broken).split(":")[0])
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if is_clear(error):
            if _is_tame(case):
                return Outcome("failed", f"refused, though nothing is wrong: {text}", "refused")
            return Outcome("refused", text)
        return Outcome("failed", text, _place(error))
    return Outcome("held")


def is_clear(error: Exception) -> bool:
    """Tell whether an error is one of the kinds that may be, and names what is wrong."""
    if type(error) not in (ValueError, NotFittedError):
        return False
    words = set(re.findall(r"\w+", str(error)))
    if any(part in str(error) for part in STANDARD):
        return True
    return bool(words & NAMES) and not any(part in str(error) for part in INSIDE)


def _is_tame(case: Case) -> bool:
    """Tell whether a case is one that every user may have: it must not be refused."""
    odd = {"sigma_v", "weight_gain", "bias_variance", "probit_scale", "half_life",
           "class_weight"}  # fmt: skip
    return (
        abs(case["x_scale"]) <= 10
        and abs(case["y_scale"]) <= 10
        and case["rows"] >= 20
        and case["weights"] in ("none", "some", "copies", "some are zero")
        and not case["outliers"]
        and not case["constant"]
        and not odd & set(case["params"])
        and case["params"].get("validation_fraction", 0.3) == 0.3
        and case["params"].get("target_transform") is None
        and not case.get("missing targets")
    )


def _place(error: Exception) -> str:
    """Return the kind of an error and the function of the package that raised it."""
    frame, place = error.__traceback__, ""
    while frame is not None:
        module = frame.tb_frame.f_globals.get("__name__", "")
        if module.startswith("sktagi"):
            place = f"{module}.{frame.tb_frame.f_code.co_name}"
        frame = frame.tb_next
    return f"{type(error).__name__} {place}"


# What is predicted


def predicted(model: Any, X: Any, errors: dict[str, Any] | None = None, *, all_of: bool = True):
    """Return what is predicted of each row, by name; rows first."""
    errors = errors or {}
    if hasattr(model, "classes_"):
        proba, std = model.predict_proba(X, return_std=True, **errors)
        return {"proba": proba, "proba std": std}
    mean, std = model.predict(X, return_std=True, **errors)
    found = {"mean": mean, "std": std}
    if all_of:
        found["epistemic"], found["aleatoric"] = model.predict_variance(X, **errors)
        found["quantiles"] = model.predict_quantiles(X, [0.01, 0.5, 0.9], **errors)
    return found


def same(first: Arrays, second: Arrays, what: str, tol: float = 0.0, factor: float = 1.0) -> None:
    """Refuse predictions that differ by more than ``tol`` standard deviations, or bits if it is 0.

    ``factor`` is that of the units of the second.
    """
    for name, a in first.items():
        b = second[name]
        if a.shape != b.shape:
            raise Broken(f"{what}: {name} has shape {a.shape} and {b.shape}")
        if tol == 0:
            if not np.array_equal(a, b, equal_nan=True):
                raise Broken(f"{what}: {name} differs by {_largest(a, b):.2g}")
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if name in ("epistemic", "aleatoric"):
            a, b = np.sqrt(a), np.sqrt(b)
        unit: Any = np.maximum(1.0, np.abs(a))
        if "std" in first:
            std = first["std"].astype(np.float64)
            mean = np.abs(first["mean"].astype(np.float64))
            unit = np.maximum(std, 1e-8 * mean)
            unit = unit[..., None] if a.ndim > unit.ndim else unit
            if name in ("epistemic", "aleatoric"):  # the std may be beyond single precision
                unit = np.maximum(unit, a)
        gap = (np.abs(a - b / factor) / unit).max(initial=0)
        if not gap <= tol:
            raise Broken(f"{what}: {name} differs by {gap:.2g} standard deviations")


def _largest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(np.subtract(a, b, dtype=np.float64)).max(initial=0))


def rounding(case: Case) -> float:
    return ROUNDING[case["dtype"]]


def state(model: Any) -> bytes:
    return pickle.dumps(model)


def is_finite(values: Any, what: str) -> None:
    for a in values.values() if isinstance(values, dict) else [values]:
        for part in a if isinstance(a, list) else [a]:
            if not np.isfinite(np.asarray(part, dtype=np.float64)).all():
                raise Broken(f"{what}: not finite")


def is_positive(values: Any, what: str) -> None:
    is_finite(values, what)
    for a in values.values() if isinstance(values, dict) else [values]:
        for part in a if isinstance(a, list) else [a]:
            if not (np.asarray(part) > 0).all():
                raise Broken(f"{what}: not positive")


def sensitivity(case: Case) -> float:
    """Return how much rounding errors may grow: steep functions of few rows make them large."""
    extreme = {"sigma_v", "weight_gain", "bias_variance", "half_life", "probit_scale"}
    standardized = case["params"].get("standardize", True)
    if not standardized and case["y_scale"] >= 30:
        return np.inf  # weights of 1e28 whose products cancel: digits of the mean are rounding
    grows = extreme & set(case["params"]) or not standardized
    steep = case["params"].get("weight_gain", 1.0) > 1e9
    if case["weights"] == "apart" or steep:
        return 1e5  # a noise variance of 1e-12 beside one of 1e12, or of 1 beside a prior of 1e15
    if case["weights"] == "huge" and "stream" in case["learn"]:
        # As a stream takes them, no row has any noise, and those that contradict each other leave
        # the answer to rounding.
        return 1e6
    return 1e3 if grows or case["outliers"] or case["weights"] == "huge" else 1.0


def is_known(y: np.ndarray) -> bool:
    return not (np.isnan(y.astype(float)).any() if y.dtype.kind == "f" else False)
