"""Class probabilities and their standard deviations as ONNX graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.class_calibration import FAR, UNKNOWN_OF_SPREAD, class_calibration
from ..engine.multilabel import Labels
from ..engine.softmax import Softmax
from ..engine.tree import ClassTree
from .graph import Graph
from .network import moments_of_outputs

__all__ = ["class_probabilities"]

N_NODES = 24  # of the integral for the variance of a probit


def class_probabilities(g: Graph, model: Any, x: str, *, with_std: bool) -> tuple[str, str]:
    """Return probabilities and their variances, (rows, classes); zeros if not asked for."""
    net, outputs = model._net.reported(), model._net.outputs
    calibration = model._net.calibration or class_calibration(model._net)
    mu_z, var_z = moments_of_outputs(g, net, x)
    mu_z = g("Mul", mu_z, calibration.slope)
    if calibration.usual_var is not None:
        ratio = g("Div", g.reduce("ReduceMean", var_z, -1), FAR * calibration.usual_var)
        var_z = g("Mul", var_z, g("Sqrt", g("Max", ratio, 1.0)))
    noise_var = model._net.reported_noise.swapaxes(-1, -2)  # (members, 1, n_noise)
    unknown = calibration.unknown if model._net.calibration else 1.0
    if isinstance(outputs, Softmax):
        p, var = _softmax(g, outputs, mu_z, var_z, noise_var, unknown)
    elif isinstance(outputs, Labels):
        p, var = _probit(g, outputs.probit_scale, mu_z, var_z, noise_var, unknown)
    elif isinstance(outputs, ClassTree) and outputs.n_outputs == 1:  # +1 is the first class
        p, var = _probit(g, outputs.probit_scale, mu_z, var_z, noise_var, unknown)
        p = g("Concat", p, g("Sub", 1.0, p), axis=-1)
        var = g("Concat", var, var, axis=-1)
    else:
        raise ValueError(
            "A tree of more than two classes cannot be exported to ONNX: fit with "
            "class_coding='one_of_k' and sigma_v='auto'."
        )
    mean = g.reduce("ReduceMean", p, 0, keepdims=False)
    if not with_std:
        return mean, ""
    # Law of total variance over the members.
    between = g("Mul", g.variance(p, 0), UNKNOWN_OF_SPREAD if model._net.calibration else 1.0)
    total = g("Add", var, between)
    return mean, g.reduce("ReduceMean", total, 0, keepdims=False)


def _softmax(
    g: Graph, outputs: Softmax, mu_z: str, var_z: str, noise_var: np.ndarray, unknown: float
) -> tuple[str, str]:
    """Return the softmax of Gaussian outputs, and its variance, as ``engine.softmax`` does."""
    gain = outputs.gain
    var_y = g("Add", var_z, noise_var)
    total = g("Add", var_y, g.reduce("ReduceMean", var_y, -1))
    slope = g("Div", gain, g("Sqrt", g("Add", g("Mul", total, np.pi / 8 * gain**2), 1.0)))
    p = g("Softmax", g("Mul", mu_z, slope), axis=-1)
    # Sums over the other classes: differences to 1 would cancel in single precision.
    apart = (1 - np.eye(outputs.n_outputs)).astype(g.dtype)
    rest = g("MatMul", p, apart)
    others = g("MatMul", g("Mul", g("Mul", p, p), var_z), apart)
    others = g("Div", others, g("Max", g("Mul", rest, rest), float(np.finfo(g.dtype).tiny)))
    others = g.clip(others, 0.0, g.reduce("ReduceMax", var_z, -1))
    spread = g("Mul", p, rest)
    q = g("Mul", g("Mul", spread, unknown * gain**2), g("Add", var_z, others))
    return p, g("Mul", spread, g("Div", q, g("Add", q, 1.0)))


def _probit(
    g: Graph, scale: float, mu_z: str, var_z: str, noise_var: np.ndarray, unknown: float
) -> tuple[str, str]:
    """Return E[Phi(z / s)] = Phi(c) of Gaussian outputs, and the variance of Phi.

    With T Owen's function, E[Phi^2] = Phi(c) - 2 T(c, a), a = s / sqrt(s^2 + 2 var), and
    Phi(c) - Phi(c)^2 = 2 T(c, 1). So the variance is an integral without a difference:

        1 / pi * int_a^1 exp(-c^2 (1 + x^2) / 2) / (1 + x^2) dx
    """
    scale_var = scale**2 + noise_var
    c = g("Div", mu_z, g("Sqrt", g("Add", var_z, scale_var)))
    c = g.clip(c, -37.0, 37.0)
    doubled = g("Mul", var_z, 2 * unknown)
    total = g("Add", doubled, scale_var)
    start = g("Sqrt", g("Div", scale_var, total))
    # 1 - a = (1 - a^2) / (1 + a), again without a difference.
    length = g("Div", g("Div", doubled, total), g("Add", start, 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    square, first, width = (g.with_last_axis(value) for value in (g("Mul", c, c), start, length))
    at = g("Add", first, g("Mul", width, (nodes + 1) / 2))
    height = g("Add", g("Mul", at, at), 1.0)
    values = g("Div", g("Exp", g("Mul", g("Mul", square, height), -0.5)), height)
    integral = g.reduce("ReduceSum", g("Mul", values, weights / 2), -1, keepdims=False)
    return g.normal_cdf(c), g("Mul", g("Mul", integral, length), 1 / np.pi)
