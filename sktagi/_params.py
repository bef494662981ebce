"""Checks of constructor parameters: a ValueError that names the parameter and what it accepts."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from operator import is_
from typing import Any, NoReturn

import numpy as np

from .engine.activations import ACTIVATIONS

__all__ = ["check_params", "hidden_sizes"]

UNCHANGING = (str, int, float, tuple, np.number, np.bool_, type(None))

MOST_JOBS = 10**6

_right: dict[tuple[str, ...], tuple[Any, ...]] = {}  # by the names of the parameters


def hidden_sizes(value: Any) -> tuple[int, ...]:
    """Return ``hidden_layer_sizes`` as a tuple; one integer means one hidden layer."""
    is_sequence = isinstance(value, (Sequence, np.ndarray)) and np.ndim(value) == 1
    sizes = list(value) if is_sequence else [value]
    if not all(_is_int(size, 1) for size in sizes):
        _refuse(
            "hidden_layer_sizes",
            value,
            "'auto' or a sequence of integers >= 1 (empty: a linear model)",
        )
    return tuple(int(size) for size in sizes)


def check_params(params: dict[str, Any]) -> None:
    """Refuse a wrong type or range of any constructor parameter.

    Streams ask for every row: the very objects that were found right last, and that nobody can
    change, are right.
    """
    names, values = tuple(params), tuple(params.values())
    right = _right.get(names)
    if right is not None and all(map(is_, values, right)):
        return
    _check_each(params)
    if all(isinstance(v, UNCHANGING) or n == "random_state" for n, v in params.items()):
        _right[names] = values


def _check_each(params: dict[str, Any]) -> None:
    if not _is_str(params["hidden_layer_sizes"], "auto"):
        hidden_sizes(params["hidden_layer_sizes"])
    categories = params["categorical_features"]
    if isinstance(categories, str) and categories != "from_dtype":
        _refuse(
            "categorical_features",
            categories,
            "'from_dtype', None, a mask, or names or numbers of columns",
        )
    _one_of(params, "activation", tuple(ACTIVATIONS))
    _one_of(params, "batch_inference", ("joint", "independent"))
    _one_of(params, "covariance_type", ("diag", "full"))
    if not (_is_str(params["max_iter"], "auto") or _is_int(params["max_iter"], 0)):
        _refuse("max_iter", params["max_iter"], "an integer >= 0 or 'auto'")
    n_jobs = params["n_jobs"]
    if not (n_jobs is None or (_is_int(n_jobs, -MOST_JOBS, MOST_JOBS) and n_jobs != 0)):
        _refuse("n_jobs", n_jobs, "None or an integer that is not 0 (-1: all cores)")
    if not _is_int(params["n_iter_no_change"], 1):
        _refuse("n_iter_no_change", params["n_iter_no_change"], "an integer >= 1")
    if not (_is_str(params["n_members"], "auto") or _is_int(params["n_members"], 1)):
        _refuse("n_members", params["n_members"], "an integer >= 1 or 'auto'")
    if not (_is_str(params["batch_size"], "auto") or _is_int(params["batch_size"], 1)):
        _refuse("batch_size", params["batch_size"], "an integer >= 1 or 'auto'")
    sigma_v = params["sigma_v"]
    learned = ("auto", "constant")
    if not (_is_positive(sigma_v) or (isinstance(sigma_v, str) and sigma_v in learned)):
        _refuse("sigma_v", sigma_v, "a positive number (1e-15 to 1e15), 'auto' or 'constant'")
    half_life = params["half_life"]
    is_rows = _is_real(half_life) and float(half_life) > 0  # a Fraction may be smaller
    if not (half_life is None or _is_str(half_life, "auto") or is_rows):
        _refuse("half_life", half_life, "a positive number of rows, None or 'auto'")
    fraction = params["validation_fraction"]
    if not (_is_real(fraction) and 0 < fraction < 1):
        _refuse("validation_fraction", fraction, "a number between 0 and 1, both excluded")
    if not _is_cv(params["cv"]):
        accepted = "None, an integer >= 2, a splitter of scikit-learn or a list of (train, test)"
        _refuse("cv", params["cv"], accepted)
    if not (_is_real(params["tol"]) and params["tol"] >= 0):
        _refuse("tol", params["tol"], "a finite number >= 0")
    for name in ("weight_gain", "bias_variance", "probit_scale"):
        if name in params and not _is_positive(params[name]):
            _refuse(name, params[name], "a positive number (1e-15 to 1e15)")
    if "class_coding" in params:
        _one_of(params, "class_coding", ("auto", "tree", "one_of_k"))
    if "class_weight" in params:
        _check_class_weight(params["class_weight"])
    if "target_transform" in params:
        _check_target_transform(params["target_transform"])
    for name in ("early_stopping", "standardize", "shuffle", "warm_start"):
        if not isinstance(params[name], (bool, np.bool_)):
            _refuse(name, params[name], "True or False")
    verbose = params["verbose"]
    if not (isinstance(verbose, (bool, np.bool_)) or _is_int(verbose, 0)):
        _refuse("verbose", verbose, "True, False or an integer >= 0")


def _check_class_weight(value: Any) -> None:
    if value is None or _is_str(value, "balanced"):
        return
    if not (isinstance(value, dict) and all(_is_real(w) and w >= 0 for w in value.values())):
        _refuse("class_weight", value, "None, 'balanced' or a dict of labels and weights >= 0")


def _check_target_transform(value: Any) -> None:
    methods = ("fit", "transform", "inverse_transform", "get_params")
    is_transformer = not isinstance(value, type) and all(hasattr(value, m) for m in methods)
    if not (value is None or _is_str(value, "log") or _is_str(value, "power") or is_transformer):
        accepted = "None, 'log', 'power' or a transformer that has inverse_transform"
        _refuse("target_transform", value, accepted)


def _one_of(params: dict[str, Any], name: str, accepted: tuple[str, ...]) -> None:
    if not (isinstance(params[name], str) and params[name] in accepted):
        _refuse(name, params[name], "one of " + ", ".join(map(repr, accepted)))


def _refuse(name: str, value: Any, accepted: str) -> NoReturn:
    raise ValueError(f"{name} must be {accepted}; got {value!r}.")


def _is_str(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def _is_real(value: Any) -> bool:
    """Tell whether this is a number that is finite as a float: integers may be too large."""
    try:
        is_number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
        return is_number and math.isfinite(value)
    except OverflowError:
        return False


def _is_positive(value: Any) -> bool:
    """Tell whether this is a positive number whose square is one too, even in single precision."""
    return _is_real(value) and 1e-15 <= value <= 1e15


def _is_cv(value: Any) -> bool:
    if isinstance(value, (str, type)):  # a class, GroupKFold for GroupKFold(), has split, too
        return False
    can_split = hasattr(value, "split") or isinstance(value, Iterable)
    return value is None or can_split or _is_int(value, 2)


def _is_int(value: Any, lowest: int, highest: int = sys.maxsize) -> bool:
    is_int = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    return bool(is_int and lowest <= value <= highest)
