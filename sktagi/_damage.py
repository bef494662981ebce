"""What a saved state must hold: a damaged one is refused when it is read, not later."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ._scaling import Moments, Scaling
from .engine.encoding import Pieces, Whitening
from .engine.mixture import Mixture
from .engine.posterior import Calibration, FullLayer, Layer, Network
from .tables.columns import Columns
from .tables.completion import JointGaussian

__all__ = ["check_fields", "check_state"]

_NUMBER, _COUNT = (float, int, np.floating, np.integer), (int, np.integer)
_FLAG = (bool, np.bool_)
# Types of fields that are looked at, as they are written there.
_TYPES: dict[str, tuple[type, ...]] = {
    "np.ndarray": (np.ndarray,),
    "float": _NUMBER,
    "int": _COUNT,
    "str": (str,),
    "bool": _FLAG,
    "Any": (object,),
}
# What every fitted estimator has, and what this is.
_ATTRIBUTES: dict[str, tuple[type, ...]] = {
    "_net": (Network, Mixture),
    "_scaling": (Scaling,),
    "_origin": (tuple,),
    "_prequential": (tuple,),
    "_dtype": (str,),
    "_n_members": _COUNT,
    "_split_seed": _COUNT,
    "_standardized": _FLAG,
    "n_features_in_": _COUNT,
    "n_samples_seen_": _COUNT,
    "n_iter_": _COUNT,
}


def check_fields(value: Any) -> None:
    """Refuse an object with a field that is not of the type that its class says."""
    for name, annotation in getattr(type(value), "__annotations__", {}).items():
        text = str(getattr(annotation, "__forward_arg__", annotation))
        first, *others = (part.strip() for part in text.split("|"))
        found = getattr(value, name)
        if found is None and "None" not in (first, *others):
            _require(False, f"{name} of a {type(value).__name__} is missing")
        if first in _TYPES and found is not None:
            _require_type(found, _TYPES[first], f"{name} of a {type(value).__name__}")


def check_state(state: dict[str, Any]) -> None:
    """Refuse attributes of a fitted estimator that are missing, or do not fit together."""
    if "_net" not in state:
        return  # not fitted, or not yet
    for name, types in _ATTRIBUTES.items():
        _require(name in state, f"{name} is missing")
        _require_type(state[name], types, name)
    np.dtype(state["_dtype"])
    net, scaling, n_features = state["_net"], state["_scaling"], state["n_features_in_"]
    if "feature_names_in_" in state:
        _shaped(state["feature_names_in_"], "feature_names_in_", (n_features,))
    columns = state.get("_columns")
    n_inputs = n_features
    if columns is not None:
        _require_type(columns, (Columns,), "_columns")
        _check_columns(columns, n_features)
        n_inputs = columns.n_encoded
    _check_net(net, n_inputs)
    _require_type(scaling.x, (Moments,), "statistics of X")
    _check_moments(scaling.x, n_inputs)
    if scaling.y is None:
        _require("classes_" in state, "classes_ is missing")
        _require_type(state["classes_"], (np.ndarray,), "classes_")
    else:
        _require_type(scaling.y, (Moments,), "statistics of y")
        _check_moments(scaling.y, net.outputs.n_outputs)
        _require(state.get("_n_targets") == net.outputs.n_outputs, "_n_targets is wrong")
        _require(state.get("_y_ndim") in (1, 2), "_y_ndim is wrong")


def _check_net(net: Network | Mixture, n_inputs: int) -> None:
    _require(len(net.networks) > 0, "there is no network")
    for network in net.networks:
        _check_network(network, n_inputs, net.n_members)
    n_noise, n_outputs = net.outputs.n_noise, net.outputs.n_outputs
    if isinstance(net, Mixture):
        n_kinds = len(net.networks)
        _require(len(net.names) == n_kinds, "kinds and their names differ")
        _shaped(net.weight, "weights of kinds", (n_kinds, 1, 1), (n_kinds, n_outputs, 1))
    if net.calibration is not None:
        _check_calibration(net.calibration, n_noise, n_outputs)
    noise = net.noise_net
    if noise is not None:
        _check_network(noise.net, n_inputs, noise.net.n_members)
        for values in (noise.exponent, noise.level):
            _shaped(values, "noise of rows", (n_noise, 1))
    _require(net.is_sound(), "numbers are not finite, or variances not positive")


def _check_calibration(calibration: Calibration, n_noise: int, n_outputs: int) -> None:
    _require_type(calibration, (Calibration,), "calibration")
    _shaped(calibration.noise_scale, "noise_scale", (n_noise, 1))
    for name in ("temperature", "noise_scale", "spread", "slope", "unknown", "usual_var"):
        value = getattr(calibration, name)
        _require(value is None or _positive(value), f"{name} of a calibration is wrong")
    for part in calibration.shape:
        _require(len(part) == n_outputs, "shape of errors is wrong")
    _require(_positive(calibration.shape.sd), "shape of errors is wrong")


def _check_network(net: Network, n_inputs: int, n_members: int) -> None:
    _require(callable(net.activation), "activation is missing")
    scale = getattr(net.outputs, "probit_scale", 1.0)
    _require(isinstance(scale, _NUMBER) and _positive(scale), "probit_scale is wrong")
    order = getattr(net.outputs, "order", None)
    if order is not None:
        _shaped(order, "order of classes", (n_members, net.outputs.n_classes))  # type: ignore[attr-defined]
    _require(net.n_inputs == n_inputs, f"a network has {net.n_inputs} inputs, not {n_inputs}")
    sizes = [len(layer.mu[0]) - 1 for layer in net.layers] + [net.outputs.n_outputs]
    for layer, (n_in, n_out) in zip(net.layers, pairwise(sizes), strict=True):
        _require_type(layer, (Layer, FullLayer), "a layer")
        for values in (layer.mu, layer.var):
            _shaped(values, "a layer", (n_members, n_in + 1, n_out))
        _shaped(layer.var_prior, "a prior", (n_in + 1, 1))
    for values in (net.noise_var, net.rows_learned):
        _shaped(values, "noise", (n_members, net.outputs.n_noise, 1))
    encoding = net.encoding
    if encoding is not None:
        _require_type(encoding, (Pieces, Whitening), "an encoding")
        _require(encoding.n_encoded == sizes[0], "an encoding is wrong")
        for values in encoding.arrays():
            _require(values.shape[-1] == sizes[0], "an encoding is wrong")


def _check_moments(moments: Moments, size: int) -> None:
    for name in ("weight", "mean", "deviation", "since"):
        values = getattr(moments, name)
        _shaped(values, f"{name} of statistics", (size,))
        _require(bool(np.isfinite(values).all()), f"{name} of statistics is not finite")
    _require(bool((np.broadcast_to(moments.floor, size) >= 0).all()), "floor is negative")


def _check_columns(columns: Columns, n_features: int) -> None:
    for name in ("names", "levels", "slots", "slot_names", "shares", "is_empty", "center",
                 "width", "n_missing", "mean"):  # fmt: skip
        values = getattr(columns, name)
        _require_type(values, (list, np.ndarray), f"{name} of columns")
        _require(len(values) == n_features, f"{name} of columns is not {n_features} long")
    for name, kind in (("levels", list), ("slot_names", list), ("slots", np.ndarray),
                       ("shares", np.ndarray)):  # fmt: skip
        for value in getattr(columns, name):
            _require(value is None or isinstance(value, kind), f"{name} of columns is wrong")
            texts = value if isinstance(value, list) else []
            _require(all(isinstance(a, str) for a in texts), f"{name} of columns is wrong")
    missing, gaussian = columns.missing_columns, columns.gaussian
    there = missing.ndim == 1 and set(missing.tolist()) <= set(range(n_features))
    _require(there, "missing_columns is wrong")
    of_columns = zip(columns.shares, columns.slots, columns.levels, strict=True)
    for shares, slots, levels in of_columns:
        if slots is not None:
            _require(levels is not None, "levels of columns are wrong")
            n_slots = 0 if shares is None else len(shares)
            _require(slots.ndim == 1 and slots.max() < n_slots, "slots of columns are wrong")
    if gaussian is not None:
        _require_type(gaussian, (JointGaussian,), "distribution of columns")
        n = sum(slots is None for slots in columns.slots)
        for values, shape in ((gaussian.mean, (n,)), (gaussian.scale, (n,)),
                              (gaussian.correlation, (n, n))):  # fmt: skip
            _shaped(values, "distribution of columns", shape)


def _positive(values: Any) -> bool:
    return bool((np.isfinite(values) & np.greater(values, 0)).all())


def _shaped(values: Any, name: str, *shapes: tuple[int, ...]) -> None:
    _require_type(values, (np.ndarray,), name)
    _require(values.shape in shapes, f"{name} has the shape {values.shape}, not {shapes[0]}")


def _require_type(value: Any, types: tuple[type, ...], name: str) -> None:
    _require(isinstance(value, types), f"{name} is a {type(value).__name__}")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
