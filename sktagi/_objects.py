"""The few objects among parameters that are saved without pickle, described by plain values.

Generators of random numbers, splitters and transformers of scikit-learn, and NumPy's and SciPy's
functions of numbers. A description names a class from these lists, and never code to run.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np
from scipy import special
from sklearn import model_selection, preprocessing
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

__all__ = ["describe", "rebuild"]

_FUNCTIONS = {"numpy": np, "scipy.special": special}


def describe(value: Any) -> dict[str, Any]:
    """Return a description of an object; TypeError, which says what it is, for others."""
    kind, name = type(value), type(value).__name__
    if kind is np.random.RandomState:
        return {"RandomState": value.get_state(legacy=False)}
    if _transformers().get(name) is kind:
        return {"transformer": name, "state": value.__getstate__()}
    if _splitters().get(name) is kind:
        return {"splitter": name, "parameters": _parameters(value)}
    if isinstance(value, np.ufunc):
        own_name = str(value.__name__)
        for module, functions in _FUNCTIONS.items():
            if getattr(functions, own_name, None) is value:
                return {"function": own_name, "module": module}
    if inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value):
        raise TypeError(f"{value!r}")
    raise TypeError(f"a {name}")


def rebuild(description: dict[str, Any]) -> Any:
    """Return the object of a description."""
    if "RandomState" in description:
        state = description["RandomState"]
        generator = np.random.RandomState(_bit_generator(state["bit_generator"])())
        generator.set_state(state)
        return generator
    if "transformer" in description:
        kind = _transformers()[description["transformer"]]
        transformer = kind.__new__(kind)
        transformer.__setstate__(description["state"])
        return transformer
    if "splitter" in description:
        return _splitters()[description["splitter"]](**description["parameters"])
    function = getattr(_FUNCTIONS[description["module"]], description["function"])
    if not isinstance(function, np.ufunc):
        raise ValueError(f"{description['function']!r} is unknown")
    return function


def _bit_generator(name: str) -> Any:
    found = getattr(np.random, name)
    if not (inspect.isclass(found) and issubclass(found, np.random.BitGenerator)):
        raise ValueError(f"{name!r} is unknown")
    return found


def _parameters(splitter: Any) -> dict[str, Any]:
    """Return the parameters of a splitter; those that repeat another keep some in ``cvargs``."""
    values = {**getattr(splitter, "cvargs", {}), **vars(splitter)}
    names = inspect.signature(type(splitter)).parameters
    return {name: values[name] for name in names if name in values}


@cache
def _transformers() -> dict[str, Any]:
    found = {name: getattr(preprocessing, name) for name in preprocessing.__all__}
    estimators = {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
    }
    return {**estimators, "Pipeline": Pipeline}


@cache
def _splitters() -> dict[str, Any]:
    found = {name: vars(model_selection).get(name) for name in model_selection.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind) and hasattr(kind, "get_n_splits") and hasattr(kind, "split")
    }
