"""More features, or more classes, for the network of a stream, which stays what it is for the rest.

New weights are drawn from the prior. A feature that was missing so far enters as its mean, zero, so
nothing that was learned changes; a class that did not exist so far has an output of its own.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ._base import BaseTAGI
from ._scaling import Moments
from .engine.noise_stream import settled
from .engine.posterior import Layer, Network
from .engine.shape import gaussian_shape
from .engine.softmax import Softmax
from .tables.columns import Columns

__all__ = ["add_classes", "add_features"]

# What columns have for a new one that is a number, and was never there.
_NUMBER = {"levels": None, "slots": None, "slot_names": None, "shares": None, "is_empty": False,
           "center": 0.0, "width": 0.0, "n_missing": 0.0, "mean": 0.0}  # fmt: skip


def add_features(estimator: BaseTAGI, n_new: int) -> BaseTAGI:
    """Return an estimator of a stream of dense numbers with more features, the last ones."""
    assert isinstance(estimator._net, Network)
    assert estimator._columns is not None
    columns, n_old = estimator._columns, estimator.n_features_in_
    at = columns.n_encoded - len(columns.missing_columns)  # whose inputs come last
    grown = copy(estimator)
    rng = np.random.RandomState((estimator._split_seed + n_old) % 2**32)
    net = estimator._net.copy()
    net.layers = [_with_inputs(net.layers[0], at, n_new, rng), *net.layers[1:]]
    if net.noise_net is not None:
        net.noise_net = settled(net.noise_net)
        noise = net.noise_net.net.copy()
        noise.layers = [_with_inputs(noise.layers[0], at, n_new, rng), *noise.layers[1:]]
        net.noise_net = replace(net.noise_net, net=noise)
    grown._columns = _with_numbers(columns, at, n_new)
    grown.n_features_in_ = n_old + n_new
    if estimator._some_rows is not None:
        grown._some_rows = np.insert(estimator._some_rows, [at] * n_new, 0, axis=1)
    scaling = estimator._scaling._replace(x=_with_columns(estimator._scaling.x, at, n_new))
    return _going_on(grown, net, scaling)


def add_classes(estimator: BaseTAGI, n_classes: int) -> BaseTAGI:
    """Return a classifier of numbered classes with more of them, ``n_classes`` in all."""
    assert isinstance(estimator._net, Network)
    net, grown = estimator._net, copy(estimator)
    outputs, last = net.outputs, net.layers[-1]
    assert isinstance(outputs, Softmax)
    rng = np.random.RandomState((estimator._split_seed + n_classes) % 2**32)
    mu, var = _drawn(last.var_prior, len(last.mu), n_classes - outputs.n_classes, rng)
    last = Layer(
        np.concatenate([last.mu, mu], axis=-1),
        np.concatenate([last.var, var], axis=-1),
        last.var_prior,
    )
    calibration = net.calibration
    if calibration is not None:
        calibration = calibration._replace(shape=gaussian_shape(n_classes))
    layers = [*(layer.copy() for layer in net.layers[:-1]), last]
    net = Network(
        layers, net.activation, Softmax(n_classes, outputs.probit_scale), net.noise_var.copy(),
        net.noise_is_learned, net.rows_learned.copy(), calibration,
    )  # fmt: skip
    grown.classes_ = np.arange(n_classes)
    return _going_on(grown, net, estimator._scaling)


def _going_on(estimator: BaseTAGI, net: Network, scaling: Any) -> BaseTAGI:
    """Return the estimator, in place: it starts here for merging."""
    estimator._begin(net, scaling, estimator.n_samples_seen_, estimator._prequential)
    estimator._drift = estimator._drift.without_network()
    estimator._accept(net)
    return estimator


def _with_inputs(layer: Any, at: int, n_new: int, rng: np.random.RandomState) -> Layer:
    """Return a layer with more inputs, whose first one is number ``at``."""
    prior = np.repeat(layer.var_prior[:1], n_new, axis=0)  # all weights have the same
    mu, var = _drawn(prior, len(layer.mu), layer.mu.shape[-1], rng)
    return Layer(
        np.insert(layer.mu, [at] * n_new, mu, axis=-2),
        np.insert(layer.var, [at] * n_new, var, axis=-2),
        np.insert(layer.var_prior, [at] * n_new, prior, axis=0),
    )


def _drawn(
    prior: np.ndarray, n_members: int, n_out: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Return means (members, n_in, n_out) from the prior with variances (n_in, 1), and these."""
    shape = (n_members, len(prior), n_out)
    mu = (rng.standard_normal(shape) * np.sqrt(prior)).astype(prior.dtype)
    return mu, np.broadcast_to(prior, shape).copy()


def _with_numbers(columns: Columns, at: int, n_new: int) -> Columns:
    """Return columns with more of them, numbers that have not been seen."""
    new: dict[str, Any] = {}
    first = len(columns.names)
    new["names"] = [*columns.names, *(f"x{first + k}" for k in range(n_new))]
    for name, value in _NUMBER.items():
        old = getattr(columns, name)
        if isinstance(old, list):
            new[name] = [*old, *[value] * n_new]
        else:
            new[name] = np.append(old, np.full(n_new, value, old.dtype))
    new["floor"] = np.insert(columns.floor, [at] * n_new, 0.0)
    # Joint with numbers that nobody has seen, it says nothing: gaps follow their own columns.
    return replace(columns, **new, gaussian=None)


def _with_columns(moments: Moments, at: int, n_new: int) -> Moments:
    """Return statistics with more columns, of which there is no row."""
    empty = Moments.empty(n_new, centered=moments.centered)
    new: dict[str, Any] = {}
    for field in fields(moments):
        old = getattr(moments, field.name)
        if isinstance(old, np.ndarray) and old.ndim:
            more = np.broadcast_to(getattr(empty, field.name), n_new)
            new[field.name] = np.insert(old, [at] * n_new, more)
    return replace(moments, **new)
