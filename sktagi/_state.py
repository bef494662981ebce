"""The fitted state as plain values, with a version: what pickle, joblib, copy and skops see.

The parameters and public attributes of an estimator are saved as they are. Private ones are turned
into dicts of arrays, numbers and strings, so that a file does not depend on classes of this
package other than the estimators: ``{"sktagi": kind, ...}`` holds the fields of that kind.

Version 4
---------
``_net``
    ``Network``: ``layers``, a list of ``Layer`` with ``mu`` and ``var``, (members, n_in + 1,
    n_out), the last row the bias, and ``var_prior``, (n_in + 1, 1), or of ``FullLayer`` with
    ``cov``, (members, P, P), and ``fading``, (members,), for ``var``; ``activation``, a name;
    ``outputs``, ``Gaussian``, ``ClassTree``, ``Softmax`` or ``Labels``; ``noise_var``, (members,
    n_noise, 1); ``noise_is_learned``; ``rows_learned``, (members, n_noise, 1); ``calibration``, a
    ``Calibration`` or None: ``temperature`` and ``noise_scale``, (n_noise, 1), factors of
    predictions, and ``shape``, a ``Shape``: ``weight``, ``mu`` and ``sd`` of the components of the
    distribution of standardised errors, (n_outputs, K), ``spread``, a factor, and of classes
    ``slope``, ``unknown`` and ``usual_var``, numbers, and ``slope_scores``, (slopes,);
    ``noise_net``, a ``NoiseNetwork`` or None: ``net``, a ``Network`` with ``LogVariance`` as its
    outputs, ``exponent`` and ``level``, (n_noise, 1), ``bounds``, (2, n_noise, 1), ``scores``,
    (exponents, n_noise), ``change``, a ``Change`` of the units of inputs or None, and ``waiting``,
    a list of ``Errors`` to be learned. Older files have neither.
``_scaling``
    ``Scaling``: ``x`` and ``y``, ``Moments``, the running statistics of features and of targets;
    None in the place of class labels.
``_columns``, ``_levels``, ``_some_rows``
    ``Columns``: what the columns of X become, the levels of its categories as they were read, and
    some inputs. Older files have none: all columns are numbers.
``_first_rows``
    The first rows of a stream and their weights, (n, n_inputs + 1), as long as there are few; None.
``_first_targets``
    The same of targets, (n, n_targets + 1). Older files have none.
``_run``
    ``Run``, of targets that surprise one after the other and of usual errors, or None; not in older
    files.
``_prequential``
    ``Prequential``: the sums behind the scores of the stream.
``_drift``
    ``Drift``: the sums behind ``drift_score_``, the half-life that they lead to, and the network
    that the present one is compared with, of one member, with its own ``Scaling``; ``waiting``, a
    list of ``Waiting``, rows to be looked at. Older files have none.
``_origin``
    ``Origin``: where training started, for merging.
``_split_seed``, ``_shares_fold``, ``_standardized``, ``_y_ndim``, ``_n_targets`` (the last two:
regressor)
    Plain values. Without ``_shares_fold``, which is newer, no two members hold out the same rows.
``_fitted_with``
    Parameters that are used when a network is drawn, and cannot change. Older files have none.
``_state_version``, ``_saved_by``
    The version of the state, and that of the package that wrote it.

Versions 1 and 2 are read, too: what they had otherwise is in ``_FROM``. They had symmetric tails in
the place of a shape, which is read as that of a Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from ._damage import check_fields, check_state
from ._drift import Drift, Waiting
from ._jumps import Run
from ._origin import Origin
from ._prequential import Prequential
from ._scaling import Moments, Scaling
from ._version import __version__
from .engine.activations import ACTIVATIONS
from .engine.encoding import Pieces, Whitening
from .engine.mixture import Evidence, Mixture
from .engine.multilabel import Labels
from .engine.noise_network import Errors, LogVariance, NoiseNetwork
from .engine.observations import Gaussian
from .engine.posterior import Calibration, FullLayer, Layer, Network
from .engine.rescaling import Change
from .engine.shape import Shape, gaussian_shape
from .engine.softmax import Softmax
from .engine.tree import ClassTree
from .tables.columns import Columns
from .tables.completion import JointGaussian

__all__ = ["STATE_VERSION", "from_plain", "to_plain"]

STATE_VERSION = 5

# Kinds, and the arguments that make one.
_KINDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "Network": (Network, tuple(field.name for field in fields(Network))),
    "Layer": (Layer, tuple(field.name for field in fields(Layer))),
    "FullLayer": (FullLayer, tuple(field.name for field in fields(FullLayer))),
    "Mixture": (Mixture, tuple(field.name for field in fields(Mixture))),
    "Evidence": (Evidence, Evidence._fields),
    "Pieces": (Pieces, tuple(field.name for field in fields(Pieces))),
    "Whitening": (Whitening, tuple(field.name for field in fields(Whitening))),
    "Calibration": (Calibration, Calibration._fields),
    "Shape": (Shape, Shape._fields),
    "NoiseNetwork": (NoiseNetwork, tuple(field.name for field in fields(NoiseNetwork))),
    "Change": (Change, Change._fields),
    "Errors": (Errors, Errors._fields),
    "LogVariance": (LogVariance, ("n_outputs",)),
    "Gaussian": (Gaussian, ("n_outputs",)),
    "ClassTree": (ClassTree, ("n_classes", "probit_scale", "is_probit", "order")),
    "Softmax": (Softmax, ("n_classes", "probit_scale")),
    "Labels": (Labels, ("n_labels", "probit_scale")),
    "Moments": (Moments, tuple(field.name for field in fields(Moments))),
    "Scaling": (Scaling, Scaling._fields),
    "Prequential": (Prequential, Prequential._fields),
    "Drift": (Drift, Drift._fields),
    "Waiting": (Waiting, Waiting._fields),
    "Run": (Run, Run._fields),
    "Origin": (Origin, Origin._fields),
    "Columns": (Columns, tuple(field.name for field in fields(Columns))),
    "JointGaussian": (JointGaussian, tuple(field.name for field in fields(JointGaussian))),
}
_ACTIVATION_NAMES = {function: name for name, function in ACTIVATIONS.items()}


def to_plain(state: dict[str, Any]) -> dict[str, Any]:
    """Return what is saved of an estimator with the attributes ``state``."""
    saved = {name: _encode(v) if name.startswith("_") else v for name, v in state.items()}
    return {**saved, "_state_version": STATE_VERSION, "_saved_by": __version__}


def from_plain(saved: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the attributes of a saved estimator; refuse what a later version wrote, or damage."""
    version, saved_by = 1, ""
    if isinstance(saved, dict):
        version, saved_by = saved.get("_state_version", 1), saved.get("_saved_by", "")
    if isinstance(version, int) and version > STATE_VERSION:
        raise ValueError(
            f"This {name} was saved by sktagi {saved_by} with state version {version}; sktagi "
            f"{__version__} reads state versions up to {STATE_VERSION}. Upgrade sktagi to load it."
        )
    try:
        state = _restored(saved, version)
        check_state(state)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{error.args[0]!r} is unknown" if isinstance(error, KeyError) else error
        raise ValueError(f"The saved state of this {name} is damaged: {what}.") from error
    return state


def _restored(saved: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the attributes of an estimator that was saved with a state version."""
    state = {k: v for k, v in saved.items() if k not in ("_state_version", "_saved_by")}
    changes = _FROM.get(version, {})
    state = {name: _decode(v, changes) if name.startswith("_") else v for name, v in state.items()}
    if "_x_moments" in state:  # version 1
        state["_scaling"] = Scaling(state.pop("_x_moments"), state.pop("_y_moments", None))
    if version < 4 and "_net" in state:
        state["_dtype"] = state["_net"].dtype.name
        state["_n_members"] = state["_net"].n_members
    return state


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


def _decode(value: Any, changes: dict[str, Callable[..., Any]]) -> Any:
    if isinstance(value, list):
        return [_decode(item, changes) for item in value]
    if not (isinstance(value, dict) and "sktagi" in value):
        return value
    kind = value["sktagi"]
    arguments = {name: _decode(v, changes) for name, v in value.items() if name != "sktagi"}
    if kind == "activation":
        return ACTIVATIONS[arguments["name"]]
    make = changes.get(kind) or _KINDS[kind][0]
    made = make(**arguments)
    check_fields(made)
    return made


# Earlier versions


def _calibration_2(temperature: float, noise_scale: np.ndarray, tails: np.ndarray) -> Calibration:
    """Make a calibration: it had the tails of symmetric intervals."""
    return Calibration(temperature, noise_scale, gaussian_shape(tails.shape[1]))


def _network_1(
    layers: list[Layer | FullLayer],
    activation: Any,
    outputs: Any,
    noise_var: np.ndarray,
    learn_noise: bool,
    rows_learned: np.ndarray,
    temperature: float,
    noise_scale: Any,
    tails: np.ndarray | None,
) -> Network:
    """Make a network: noise was (members, 1, n_noise), and the calibration three fields."""
    noise_var = np.ascontiguousarray(noise_var.swapaxes(-1, -2))
    calibration = None
    if tails is not None or temperature != 1 or np.any(noise_scale != 1):
        scale = np.broadcast_to(noise_scale, (1, outputs.n_noise)).T.copy()
        calibration = Calibration(temperature, scale, gaussian_shape(outputs.n_outputs))
    rows_learned = np.broadcast_to(rows_learned, noise_var.shape).copy()
    return Network(
        layers, activation, outputs, noise_var, learn_noise, rows_learned, calibration
    )  # fmt: skip


def _moments_1(weight: float, mean: np.ndarray, **others: Any) -> Moments:
    """Make statistics: there was one weight for all columns."""
    return Moments(np.full(len(mean), weight), mean, **others)


def _origin_1(statistics: Any, rows_learned: np.ndarray, **others: Any) -> Origin:
    """Make an origin: statistics were a list, and there was one count for all targets."""
    x, y = (*statistics, None)[:2]
    n_noise = 1 if y is None else len(y.mean)
    rows_learned = rows_learned.repeat(n_noise, axis=1)
    return Origin(scaling=Scaling(x, y), rows_learned=rows_learned, **others)


_FROM: dict[int, dict[str, Callable[..., Any]]] = {
    1: {
        "Network": _network_1,
        "GaussianOutputs": Gaussian,
        "Moments": _moments_1,
        "Origin": _origin_1,
    },
    2: {"Calibration": _calibration_2},
}
