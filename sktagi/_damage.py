"""What a saved state must hold: a damaged one is refused when it is read, not later."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ._jumps import LASTING, RECENT, Run
from ._scaling import Moments, Scaling
from ._target_transform import map_of
from .engine.encoding import Pieces, Whitening
from .engine.mixture import Mixture
from .engine.noise_network import Errors, NoiseNetwork
from .engine.posterior import Calibration, FullLayer, Layer, Network
from .engine.rescaling import Change
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
# Fields whose numbers are all finite, and those of which none is negative, either.
_FINITE = {
    "Pieces": ("center", "slope"),
    "Whitening": ("matrix", "offset"),
    "NoiseNetwork": ("exponent", "level"),
    "Run": ("error", "mean", "recent", "near"),
    "Shape": ("mu",),
    "JointGaussian": ("mean", "correlation"),
    "Change": ("ratio", "shift"),
    "Errors": ("x",),
}
_NOT_NEGATIVE = {
    "Moments": ("weight", "deviation", "since"),
    "Mixture": ("weight",),
    "Run": ("n_rows", "weight", "error_deviation", "deviation", "usual", "n_usual", "near_var"),
    "Shape": ("weight",),
    "JointGaussian": ("scale",),
    "Columns": ("n_missing", "width"),
    "Errors": ("var", "weight"),
}
# Those that may be NaN, where a target was not observed.
_WITH_GAPS = (("Waiting", "y"), ("Errors", "error"))
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
        may_be_nan = (type(value).__name__, name) in _WITH_GAPS
        if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not may_be_nan:
            _require(not np.isnan(found).any(), f"{name} of a {type(value).__name__} is not finite")
    kind = type(value).__name__
    for name in (*_FINITE.get(kind, ()), *_NOT_NEGATIVE.get(kind, ())):
        finite = np.isfinite(getattr(value, name)).all()
        _require(bool(finite), f"{name} of a {kind} is not finite")
    for name in _NOT_NEGATIVE.get(kind, ()):
        _require(bool((getattr(value, name) >= 0).all()), f"{name} of a {kind} is negative")


def check_state(state: dict[str, Any]) -> None:
    """Refuse attributes of a fitted estimator that are missing, or do not fit together."""
    if "_net" not in state:
        return  # not fitted, or not yet
    for name, types in _ATTRIBUTES.items():
        _require(name in state, f"{name} is missing")
        _require_type(state[name], types, name)
    _require_type(state.get("_fitted_with", {}), (dict,), "_fitted_with")
    np.dtype(state["_dtype"])
    net, scaling, n_features = state["_net"], state["_scaling"], state["n_features_in_"]
    if "_target_range" in state:
        _check_target_range(state["_target_range"])
    if "target_transformer_" in state:
        map_of(state["target_transformer_"], state.get("_target_range"))
    if "feature_names_in_" in state:
        _shaped(state["feature_names_in_"], "feature_names_in_", (n_features,))
    columns = state.get("_columns")
    n_inputs = n_features
    if columns is not None:
        _require_type(columns, (Columns,), "_columns")
        _check_columns(columns, n_features)
        n_inputs = columns.n_encoded
    _check_net(net, n_inputs)
    if "_drift" in state:
        _check_drift(state["_drift"], n_inputs, net)
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
        _check_stream(state, net.outputs.n_outputs)


def _check_stream(state: dict[str, Any], n_outputs: int) -> None:
    run, first = state.get("_run"), state.get("_first_targets")
    if run is not None:
        _require_type(run, (Run,), "_run")
        for values in run[:-3]:
            _shaped(values, "a run of targets", (n_outputs,))
        _shaped(run.near, "a run of targets", (n_outputs, LASTING - 1))
        _shaped(run.recent, "a run of targets", (n_outputs, RECENT))
        _require(not run.n_rows.any() or run.before is not None, "a run of targets is wrong")
        if run.before is not None:
            _check_moments(run.before, n_outputs)
    if first is not None:
        _require_type(first, (np.ndarray,), "_first_targets")
        _require(first.ndim == 2 and first.shape[1] == n_outputs + 1, "_first_targets is wrong")


def _check_net(net: Network | Mixture, n_inputs: int) -> None:
    _require(len(net.networks) > 0, "there is no network")
    for network in net.networks:
        _check_network(network, n_inputs, net.n_members)
    n_noise, n_outputs = net.outputs.n_noise, net.outputs.n_outputs
    if isinstance(net, Mixture):
        n_kinds = len(net.networks)
        _require(len(net.names) == n_kinds, "kinds and their names differ")
        _shaped(net.weight, "weights of kinds", (n_kinds, 1, 1), (n_kinds, n_outputs, 1))
        _require(bool((net.weight.sum(axis=0) > 0).all()), "weights of kinds are zero")
    if net.calibration is not None:
        _check_calibration(net.calibration, n_noise, n_outputs)
    noise = net.noise_net
    if noise is not None:
        _check_network(noise.net, n_inputs, noise.net.n_members)
        for values in (noise.exponent, noise.level):
            _shaped(values, "noise of rows", (n_noise, 1))
        _check_waiting(noise, n_inputs, n_noise)
    _require(net.is_sound(), "numbers are not finite, or variances not positive")


def _check_waiting(noise: NoiseNetwork, n_inputs: int, n_noise: int) -> None:
    _require(noise.net.is_sound(), "noise of rows is wrong")
    if noise.change is not None:
        _require_type(noise.change, (Change,), "units of noise")
        for values in noise.change:
            _shaped(values, "units of noise", (n_inputs,))
        _require(_positive(noise.change.ratio), "units of noise are wrong")
    for errors in noise.waiting:
        _require_type(errors, (Errors,), "errors that wait")
        _shaped(errors.x, "errors that wait", (1, n_inputs + 1))
        for values in (errors.error, errors.var):
            _shaped(values, "errors that wait", (n_noise, 1))
        for values in (errors.weight, errors.fold):
            _shaped(values, "errors that wait", (1,))
        _require(not np.isinf(errors.error).any(), "errors that wait are not finite")


def _check_drift(drift: Any, n_inputs: int, net: Network | Mixture) -> None:
    _require(type(drift).__name__ == "Drift", "_drift is wrong")
    _require(drift.half_life > 0, "half_life of a drift is wrong")
    for name in ("gain", "squares", "age"):
        _require(bool(np.isfinite(getattr(drift, name))), f"{name} of a drift is not finite")
    _require(drift.squares >= 0 and drift.age >= 0, "a drift is wrong")
    _require(0 <= drift.kind < len(net.networks), "kind of a drift is wrong")
    old, n_outputs = drift.old, net.outputs.n_outputs
    _require((old is None) == (drift.scaling is None), "units of an old network are wrong")
    if old is None:
        _require(not drift.waiting, "rows wait for an old network")
        return
    _require_type(old, (Network,), "old network")
    _require_type(drift.scaling, (Scaling,), "units of an old network")
    _check_network(old, n_inputs, 1)
    _require(old.outputs.n_outputs == n_outputs and old.is_sound(), "an old network is wrong")
    _check_moments(drift.scaling.x, n_inputs)
    if drift.scaling.y is not None:
        _check_moments(drift.scaling.y, n_outputs)
    for rows in drift.waiting:
        _require(type(rows).__name__ == "Waiting", "rows that wait are wrong")
        _shaped(rows.x, "rows that wait", (1, n_inputs))
        for name in ("mu_z", "var_z"):
            _shaped(getattr(rows, name), f"{name} of rows that wait", (n_outputs, 1))
        _shaped(rows.noise_var, "noise of rows that wait", (net.outputs.n_noise, 1))
        for name in ("mean", "scale"):
            _shaped(getattr(rows, name), f"{name} of rows that wait", (n_outputs, 1), (1, 1))
        _shaped(rows.weight, "weight of rows that wait", (1,))
        _require(len(rows.y) == 1, "targets that wait are wrong")
        _require(_positive(rows.scale), "scale of rows that wait is wrong")


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
        if isinstance(encoding, Pieces):
            _require(bool((encoding.lowest < encoding.highest).all()), "an encoding is wrong")
        for values in encoding.arrays():
            _require(values.shape[-1] == sizes[0], "an encoding is wrong")


def _check_moments(moments: Moments, size: int) -> None:
    for name in ("weight", "mean", "deviation", "since"):
        values = getattr(moments, name)
        _shaped(values, f"{name} of statistics", (size,))
        _require(bool(np.isfinite(values).all()), f"{name} of statistics is not finite")
    _require(bool((np.broadcast_to(moments.floor, size) >= 0).all()), "floor is negative")
    if moments.numbers is not None:
        there = set(np.asarray(moments.numbers).tolist()) <= set(range(size))
        _require(there, "numbers of statistics are wrong")


def _check_target_range(target_range: Any) -> None:
    if target_range is not None:  # of a map that needs none
        _require_type(target_range, (np.ndarray,), "range of the targets")
        _require(bool((np.diff(target_range, axis=0) >= 0).all()), "range of the targets is wrong")


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
        if shares is not None:
            _require(bool(((shares >= 0) & (shares <= 1)).all()), "shares of levels are wrong")
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
        try:
            np.linalg.cholesky(gaussian.correlation)
        except np.linalg.LinAlgError:
            _require(False, "correlations of columns are wrong")


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
