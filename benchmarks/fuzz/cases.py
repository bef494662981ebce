"""Random cases for the fuzz command: plain values, from which data and estimators are made."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "INVALID",
    "OF_CLASSIFIER",
    "OF_REGRESSOR",
    "WRONG_INPUT",
    "Case",
    "choose",
    "random_case",
    "regression_case",
    "with_spread",
]

Case = dict[str, Any]

ACTIVATIONS = ("relu", "relu_exact", "leaky_relu", "tanh", "logistic", "softplus", "identity")
CONTAINERS = (
    "array", "array", "columns first", "strided", "read-only", "list", "csr", "csc", "pandas",
    "pandas", "polars",
)  # fmt: skip
LEARN = ("fit", "fit", "stream", "fit and stream", "warm fit")
# Powers of ten. Squares of what is beyond 1e150 are no numbers; single precision ends at 1e38.
SCALES = (0, 0, 0, 0, 0, -3, 3, -8, 8, -30, 30, -100, 100, -300, 300)
SINGLE_SCALE = 30

# Values that a parameter must refuse, and be named.
INVALID: dict[str, tuple[Any, ...]] = {
    "hidden_layer_sizes": (0, -3, (4, 0), (2.5,), "large", None, {"a": 1}, [[3]], "nan", True),
    "activation": ("sigmoid", None, 3, ["relu"]),
    "sigma_v": (0, -1.0, float("nan"), float("inf"), "learned", None, 1e300, True, [0.1]),
    "batch_size": (0, -1, 2.5, "all", None, float("nan"), True),
    "batch_inference": ("sum", None, 1),
    "covariance_type": ("tied", None, True),
    "max_iter": (-1, 2.5, "many", None, float("inf"), True),
    "half_life": (0, -5.0, float("nan"), float("inf"), "long", True, [3]),
    "early_stopping": (None, "yes", 2),
    "validation_fraction": (0, 1, -0.1, 2.0, float("nan"), None, "some"),
    "cv": (1, 0, "folds", 2.5),
    "n_iter_no_change": (0, -1, 2.5, None, "few"),
    "tol": (-1e-3, float("nan"), float("inf"), None, "small"),
    "n_members": (0, -2, 1.5, "several", None, True, 10**9),
    "n_jobs": (0, 1.5, "all", True),
    "standardize": (None, "yes", 2),
    "categorical_features": ("all", [99], 3.5),
    "weight_gain": (0, -1.0, float("nan"), float("inf"), None, "big"),
    "bias_variance": (0, -1.0, float("nan"), float("inf"), None, "big"),
    "shuffle": (None, "no", 2),
    "random_state": (-1, 2.5, "seed", 2**40),
    "warm_start": (None, "no", 2),
    "verbose": (-1, "loud", None),
    "target_transform": ("sqrt", 3, str),
    "probit_scale": (0, -1.0, float("nan"), None),
    "class_coding": ("one_hot", None, 2),
    "class_weight": ("even", 3, {0: -1.0}, {0: float("nan")}),
}
OF_REGRESSOR, OF_CLASSIFIER = {"target_transform"}, {"probit_scale", "class_coding", "class_weight"}

# Rows that no method may take, and what they are told of; ``data.spoil`` makes them.
WRONG_INPUT = (
    "y is too short", "X has one dimension", "X has infinity", "y has NaN", "y has infinity",
    "y is text", "y is None", "a weight is negative", "a weight is NaN", "weights are too many",
    "all weights are zero", "no rows", "another column", "X_std is negative", "X_std is NaN",
    "X_std has another shape", "X_cov and X_std", "X_cov is no covariance", "X is complex",
    "X has dates", "X is text", "y has another target", "X has three dimensions",
)  # fmt: skip


def choose(rng: np.random.Generator, values: Any) -> Any:
    return values[rng.integers(len(values))]


def random_case(rng: np.random.Generator) -> Case:
    """Draw what every check needs; a check may change some of it."""
    is_regressor = bool(rng.random() < 0.6)
    full = rng.random() < 0.1
    dtype = choose(rng, ("float64", "float64", "float32", "int"))
    container = choose(rng, CONTAINERS)
    case: Case = {
        "estimator": "TAGIRegressor" if is_regressor else "TAGIClassifier",
        "seed": int(rng.integers(10**6)),
        "rows": int(choose(rng, (4, 8, 12, 20, 30, 45, 60))),
        "features": int(rng.integers(1, 5)),
        "container": container,
        "dtype": dtype,
        "x_scale": 0 if dtype == "int" else _scale(rng, dtype),
        "y_scale": _scale(rng, "float64") if is_regressor else 0,
        "learn": choose(rng, LEARN),
        "weights": choose(rng, ("none", "none", "some", "some are zero", "tiny", "huge", "apart")),
        "errors": choose(rng, ("none",) * 6 + ("number", "features", "rows")),
        "missing": bool(dtype != "int" and container not in ("csr", "csc") and rng.random() < 0.2),
        "categories": int(container in ("pandas", "polars") and rng.integers(3)),
        "constant": bool(rng.random() < 0.15),
        "outliers": bool(rng.random() < 0.15),
        "copies": bool(rng.random() < 0.2),
        "params": _params(rng, is_regressor, full),
    }
    if is_regressor:
        case["targets"] = int(choose(rng, (1, 1, 1, 2, 3)))
        case["missing targets"] = bool(case["targets"] > 1 and rng.random() < 0.3)
    else:
        case["classes"] = int(choose(rng, (2, 2, 3, 5)))
        case["labels"] = choose(rng, ("numbers", "text", "booleans", "several"))
    return case


def _scale(rng: np.random.Generator, dtype: str) -> int:
    scale = int(choose(rng, SCALES))
    return scale if dtype == "float64" else int(np.clip(scale, -SINGLE_SCALE, SINGLE_SCALE))


def _params(rng: np.random.Generator, is_regressor: bool, full: bool) -> dict[str, Any]:
    """Draw parameters; those that are left out have their default."""
    kinds = not full and rng.random() < 0.15
    sizes = choose(rng, ((), (3,), (6,), (4, 3)))
    everything = {
        "activation": choose(rng, ACTIVATIONS),
        "sigma_v": choose(rng, ("auto", "constant", 0.3, 1e-6, 1e6, 1e-15, 1e15)),
        "batch_size": int(choose(rng, (1, 2, 7, 16, 1000))),
        "batch_inference": choose(rng, ("joint", "independent")),
        "half_life": choose(rng, (None, 1e-3, 5.0, 100.0, 1e12)),
        "early_stopping": bool(rng.random() < 0.5),
        "validation_fraction": choose(rng, (0.01, 0.3, 0.9)),
        "n_iter_no_change": int(rng.integers(1, 4)),
        "tol": choose(rng, (0.0, 0.1, 1e9)),
        "standardize": False,
        "weight_gain": choose(rng, (0.3, 3.0, 1e-15, 1e15)),
        "bias_variance": choose(rng, (0.3, 1e-15, 1e15)),
        "shuffle": False,
        "cv": 2,
    }
    if is_regressor:
        everything["target_transform"] = choose(rng, ("power", "log"))
    else:
        everything["probit_scale"] = choose(rng, (1.0, 1e-3, 1e15))
        everything["class_coding"] = choose(rng, ("tree", "one_of_k"))
        everything["class_weight"] = "balanced"
    share = choose(rng, (0.15, 0.4))
    params = {name: value for name, value in everything.items() if rng.random() < share}
    if "cv" in params:
        params.pop("early_stopping", None)
    return {
        "hidden_layer_sizes": "auto" if kinds else sizes,
        "covariance_type": "full" if full else "diag",
        "max_iter": int(rng.integers(0, 5)),
        "n_members": int(choose(rng, (1, 2, 3))),
        "random_state": int(rng.integers(1000)),
        **params,
    }


def _as_regression(case: Case) -> Case:
    params = {k: v for k, v in case["params"].items() if k not in OF_CLASSIFIER}
    return {"estimator": "TAGIRegressor", "targets": 1, "missing targets": False, "params": params}


def regression_case(rng: np.random.Generator) -> Case:
    case = random_case(rng)
    if case["estimator"] == "TAGIClassifier":
        del case["classes"], case["labels"]
        case |= _as_regression(case)
    return case


def with_spread(case: Case) -> Case:
    """Let columns vary among the rows that are learned: others have the unit 1."""
    if "targets" in case:
        case["missing targets"] = False
    case |= {"constant": False, "rows": max(20, case["rows"])}
    if case["params"].get("validation_fraction") == 0.9:
        del case["params"]["validation_fraction"]
    return case
