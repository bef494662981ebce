"""Networks as ONNX graphs: moments of the outputs (Eq. 8-12) for standardised inputs.

Tensors of units are (members, rows, units): rows come first in what a graph is given.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from .._scaling import Moments
from ..engine.activations import ACTIVATIONS, LEAKY_SLOPE
from ..engine.encoding import Encoding, Pieces, Whitening
from ..engine.mixture import Mixture
from ..engine.noise_network import LARGEST_LOG, NoiseNetwork
from ..engine.posterior import Layer, Network
from ..tables.columns import CLIP, Columns
from .graph import Graph

__all__ = ["clipped", "moments_of_outputs", "noise_ratio", "standardised"]

NAMES = {function: name for name, function in ACTIVATIONS.items()}


def clipped(g: Graph, x: str, table: Columns) -> str:
    """Return columns with those of wrong readings clipped smoothly, in double precision."""
    if not table.width.any():
        return x
    tails = table.width > 0
    width = np.where(tails, table.width, 1)
    far = g("Div", g("Sub", x, table.center), width)
    root = g("Sqrt", g("Add", g("Mul", g("Div", far, CLIP), g("Div", far, CLIP)), 1.0))
    bent = g("Add", g("Mul", g("Div", far, root), width), table.center)
    return g("Where", g.constant(tails, TensorProto.BOOL), bent, x)


def standardised(g: Graph, x: str, moments: Moments) -> str:
    """Return inputs of the networks, in double precision as long as they have units."""
    low, high = moments.limits
    if np.isfinite(high).any():
        x = g.clip(x, low, high)
    scale = moments.input_scale
    return g("Mul", g("Sub", x, moments.mean), np.where(np.isinf(scale), 0, 1 / scale))


def moments_of_outputs(g: Graph, net: Network | Mixture, x: str) -> tuple[str, str]:
    """Return mean and variance of the outputs, (members, rows, outputs)."""
    if isinstance(net, Network):
        return _forward(g, net, x)
    moments = [_forward(g, kind, x) for kind in net.networks]
    weights = net.weight.swapaxes(-1, -2)  # (kinds, 1, outputs or 1)
    mean = _sum(g, [g("Mul", mu, w) for (mu, _), w in zip(moments, weights, strict=True)])
    parts, apart = [], net.apart.swapaxes(-1, -2)
    for (mu, var), weight, square in zip(moments, weights, apart, strict=True):
        gap = g("Sub", mu, mean)
        parts += [g("Mul", var, weight), g("Mul", g("Mul", gap, gap), square)]
    return mean, _sum(g, parts)


def noise_ratio(g: Graph, noise: NoiseNetwork, x: str) -> str:
    """Return each row's noise variance over the constant one, (rows, outputs)."""
    first, last = (layer.mu for layer in noise.net.layers)
    if noise.change is not None:
        first = noise.change.applied(first)
    hidden = g("Relu", g("Add", g("MatMul", x, first[:, :-1]), first[:, -1:]))
    outputs = g("Add", g("MatMul", hidden, last[:, :-1]), last[:, -1:])
    low, high = noise.bounds[..., 0]
    u = g.clip(g.reduce("ReduceMean", outputs, 0, keepdims=False), low, high)
    log_ratio = g("Add", g("Mul", u, noise.exponent[:, 0]), noise.level[:, 0])
    return g("Exp", g.clip(log_ratio, -LARGEST_LOG, LARGEST_LOG))


def _sum(g: Graph, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else g("Sum", *parts)


def _forward(g: Graph, net: Network, x: str) -> tuple[str, str]:
    if net.encoding is not None:
        x = _encoded(g, net.encoding, x)
    first, *others = net.layers
    assert isinstance(first, Layer)
    mu_z = _affine(g, x, first.mu)
    var_z = _affine(g, g("Mul", x, x), first.var)
    for layer in others:
        mu_a, var_a = _activate(g, NAMES[net.activation], mu_z, var_z)
        second = g("Add", g("Mul", mu_a, mu_a), var_a)  # E[a^2]
        mu_z = _affine(g, mu_a, layer.mu)  # Eq. 8-9
        from_var = g("MatMul", var_a, np.square(layer.mu[:, :-1]))
        var_z = g("Add", _affine(g, second, layer.var), from_var)  # Eq. 10
    return mu_z, var_z


def _affine(g: Graph, x: str, parameters: np.ndarray) -> str:
    """Return x times parameters (members, n_in + 1, n_out), the last of them the bias."""
    return g("Add", g("MatMul", x, parameters[:, :-1]), parameters[:, -1:])


def _encoded(g: Graph, encoding: Encoding, x: str) -> str:
    if isinstance(encoding, Whitening):
        return g("Add", g("MatMul", x, encoding.matrix), encoding.offset)
    assert isinstance(encoding, Pieces)
    columns = g("Gather", x, g.constant(encoding.column, TensorProto.INT64), axis=1)
    rise = g("Mul", g("Sub", columns, encoding.center), encoding.slope)
    return g.clip(rise, encoding.lowest, encoding.highest)


def _activate(g: Graph, name: str, mu_z: str, var_z: str) -> tuple[str, str]:
    """Return mean and variance of activated units (Eq. 11-12)."""
    if name == "identity":
        return mu_z, var_z
    if name == "relu_exact":
        return _relu_exact(g, mu_z, var_z)
    if name == "relu":
        mu_a = g("Relu", mu_z)
        return mu_a, g("Mul", var_z, g("Sign", mu_a))
    if name == "leaky_relu":
        jac = g("Max", g.cast(g("Greater", mu_z, 0.0)), LEAKY_SLOPE)
        mu_a = g("Mul", mu_z, jac)
    elif name == "tanh":
        mu_a = g("Tanh", mu_z)
        jac = g("Sub", 1.0, g("Mul", mu_a, mu_a))
    elif name == "logistic":
        mu_a = g("Sigmoid", mu_z)
        jac = g("Mul", mu_a, g("Sub", 1.0, mu_a))
    else:
        assert name == "softplus", name
        tail = g("Log", g("Add", g("Exp", g("Neg", g("Abs", mu_z))), 1.0))
        mu_a = g("Add", g("Relu", mu_z), tail)  # runtimes lack Softplus in double precision
        jac = g("Sigmoid", mu_z)
    return mu_a, g("Mul", var_z, g("Mul", jac, jac))


def _relu_exact(g: Graph, mu_z: str, var_z: str) -> tuple[str, str]:
    std = g("Sqrt", var_z)
    ratio = g("Div", mu_z, std)
    square = g("Mul", ratio, ratio)
    above = g.normal_cdf(ratio)
    below = g("Sub", 1.0, above)
    slope = g("Mul", g("Exp", g("Mul", square, -0.5)), 1 / np.sqrt(2 * np.pi))
    mu_a = g("Mul", std, g("Relu", g("Add", g("Mul", ratio, above), slope)))
    unit = _sum(g, [
        above,
        g("Mul", above, g("Mul", square, below)),
        g("Mul", g("Mul", g("Sub", below, above), ratio), slope),
        g("Neg", g("Mul", slope, slope)),
    ])  # fmt: skip
    return mu_a, g("Mul", var_z, g.clip(unit, g("Mul", above, above), 1.0))
