"""The fitted state as plain values, with a version: what pickle, joblib, copy and skops see.

The parameters and public attributes of an estimator are saved as they are. Private ones are turned
into dicts of arrays, numbers and strings, so that a file does not depend on classes of this
package other than the estimators: ``{"sktagi": kind, ...}`` holds the fields of that kind.

Version 1
---------
``_net``
    ``Network``: ``layers``, a list of ``Layer`` with ``mu`` and ``var``, (members, n_in + 1,
    n_out), the last row the bias, and ``var_prior``, (n_in + 1, 1), or of ``FullLayer`` with
    ``cov``, (members, P, P), and ``fading``, (members,), for ``var``; ``activation``, a name;
    ``outputs``, ``GaussianOutputs`` or ``ClassTree``; ``noise_var``; ``learn_noise``;
    ``rows_learned``; ``temperature`` and ``noise_scale``, factors of predictions; ``tails``, the
    shares of errors outside the intervals that leave ``TAILS`` of a Gaussian outside, or None.
``_x_moments``, ``_y_moments`` (regressor)
    ``Moments``: the running statistics of features and targets.
``_prequential``
    ``Prequential``: the sums behind the scores of the stream.
``_origin``
    ``Origin``: where training started, for merging.
``_split_seed``, ``_standardized``, ``_y_ndim``, ``_n_targets`` (the last two: regressor)
    Plain values.
``_state_version``, ``_saved_by``
    The version of the state, and that of the package that wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ._prequential import Prequential
from ._scaling import Moments
from ._version import __version__
from .engine.activations import ACTIVATIONS
from .engine.full import FullLayer
from .engine.learning import Network
from .engine.network import Layer
from .engine.noise import GaussianOutputs
from .engine.tree import ClassTree

__all__ = ["STATE_VERSION", "Origin", "from_plain", "to_plain"]

STATE_VERSION = 1


class Origin(NamedTuple):
    """Where training started: what merging needs to know of it."""

    digest: str
    statistics: Sequence[Moments]
    rows_learned: np.ndarray
    n_samples_seen: int
    prequential: Prequential

    @classmethod
    def of(cls, net: Network, statistics, n_samples_seen: int, prequential) -> Origin:
        digest = hashlib.blake2b(digest_size=16)
        arrays = [net.noise_var, net.rows_learned]
        for layer in net.layers:
            arrays += [values for name, values in layer._asdict().items() if name != "var_prior"]
        for moments in statistics:
            arrays += [np.array(moments.weight), moments.mean, moments.deviation]
        for array in arrays:
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(_fingerprint(array))
        return cls(
            digest.hexdigest(), statistics, net.rows_learned.copy(), n_samples_seen, prequential
        )


def _fingerprint(array: np.ndarray) -> bytes:
    """The bits of an array; those of a matrix summed over its rows, which tells draws apart too."""
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return bits.sum(axis=-2, dtype=np.uint64).tobytes() if bits.ndim > 1 else bits.tobytes()


# Kinds, and the arguments that make one.
_KINDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "Network": (Network, tuple(field.name for field in fields(Network))),
    "Layer": (Layer, Layer._fields),
    "FullLayer": (FullLayer, FullLayer._fields),
    "GaussianOutputs": (GaussianOutputs, ("n_outputs",)),
    "ClassTree": (ClassTree, ("n_classes", "probit_scale")),
    "Moments": (Moments, tuple(field.name for field in fields(Moments))),
    "Prequential": (Prequential, Prequential._fields),
    "Origin": (Origin, Origin._fields),
}
_ACTIVATION_NAMES = {function: name for name, function in ACTIVATIONS.items()}


def to_plain(state: dict) -> dict:
    """What is saved of an estimator with the attributes ``state``."""
    saved = {name: _encode(v) if name.startswith("_") else v for name, v in state.items()}
    return {**saved, "_state_version": STATE_VERSION, "_saved_by": __version__}


def from_plain(saved: dict, name: str) -> dict:
    """The attributes of a saved estimator; refuses what a later version has written."""
    state = dict(saved)
    version, saved_by = state.pop("_state_version", 1), state.pop("_saved_by", "")
    if version > STATE_VERSION:
        raise ValueError(
            f"This {name} was saved by sktagi {saved_by} with state version {version}; sktagi "
            f"{__version__} reads state versions up to {STATE_VERSION}. Upgrade sktagi to load it."
        )
    return {name: _decode(v) if name.startswith("_") else v for name, v in state.items()}


def _encode(value: Any) -> Any:
    if type(value) in (list, tuple):
        return [_encode(item) for item in value]
    kind = type(value).__name__
    if kind in _KINDS and type(value) is _KINDS[kind][0]:
        arguments = _KINDS[kind][1]
        return {"sktagi": kind, **{name: _encode(getattr(value, name)) for name in arguments}}
    if callable(value) and value in _ACTIVATION_NAMES:
        return {"sktagi": "activation", "name": _ACTIVATION_NAMES[value]}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not (isinstance(value, dict) and "sktagi" in value):
        return value
    arguments = {name: _decode(v) for name, v in value.items() if name != "sktagi"}
    if value["sktagi"] == "activation":
        return ACTIVATIONS[arguments["name"]]
    return _KINDS[value["sktagi"]][0](**arguments)
