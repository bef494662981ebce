"""Derivatives of outputs by the inputs, and their variances, from the linearised network.

A dot is the derivative along an input. Forward, with z = W' a, and backward, with the derivatives g
of outputs by units (``linearised``),

    a. = J z.,   J. = phi''(z) z.,   g. <- J. (W~ g) + J (W~ g.)

so that the derivative of a function that a change delta of the parameters moves is that of its
mean, z. of the output, and a sum over layers of a.' delta g + mu_a' delta g.. The scale of a row
counts as a constant. Networks of piecewise linear units have derivatives almost everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .activations import CURVATURES, Activation
from .joint import apart_from_mean, weights_of
from .linearised import Linearised, encoded, linearise
from .mixture import Mixture
from .posterior import Network
from .sparse import product

__all__ = ["derivatives", "has_derivatives", "rows_of_derivatives"]

BLOCK_ELEMENTS = 1 << 20  # of the widest array


def has_derivatives(net: Network | Mixture) -> bool:
    """Tell whether the mean of each output has derivatives that are known."""
    return all(kind.activation in CURVATURES or len(kind.layers) == 1 for kind in net.networks)


def derivatives(
    net: Network | Mixture, x: np.ndarray, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives by the inputs of rows x (rows, n_inputs + 1), and their variances.

    Both are (n_inputs, n_outputs, rows); ``net`` and ``spread`` are as in ``covariance``.
    """
    weight, slopes, within = weights_of(net), [], []
    for kind in net.networks:
        x_dot = _directions(kind, x)
        found = [
            _derivative(one, kind.activation, x_dot) for one in linearise(kind, encoded(kind, x))
        ]
        slopes.append([slope for slope, _ in found])
        within.append(np.mean([var for _, var in found], axis=0))
    mean, of_members, of_kinds = apart_from_mean(weight[:, None], np.array(slopes), spread)
    between = (np.square(of_members) + np.square(of_kinds).sum(axis=0)).mean(axis=0)
    return mean, (weight[:, None] * np.array(within)).sum(axis=0) + between


def _directions(net: Network, x: np.ndarray) -> np.ndarray:
    """Return derivatives (n_inputs, n_encoded + 1, rows) of what the first layer sees."""
    n_rows, n_inputs = len(x), x.shape[1] - 1
    jacobian = np.eye(n_inputs)[None] if net.encoding is None else net.encoding.jacobian(x)
    jacobian = np.broadcast_to(jacobian, (n_rows, *jacobian.shape[1:]))
    bias = np.zeros((n_rows, n_inputs, 1))
    return np.concatenate([jacobian, bias], axis=2).transpose(1, 2, 0)


def _derivative(
    one: Linearised, activation: Activation, x_dot: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives of the outputs of one network, and their variances."""
    a_dots: list[np.ndarray] = []
    jac_dots: list[np.ndarray | None] = []
    z_dot: Any = None
    for layer in one.layers:
        a_dot, jac_dot = x_dot, None
        if layer.jac is not None:
            jac_dot = CURVATURES[activation](layer.mu_a[:-1], layer.jac) * z_dot
            bias = np.zeros((len(z_dot), 1, z_dot.shape[-1]))
            a_dot = np.concatenate([layer.jac * z_dot, bias], axis=1)
        a_dots.append(a_dot)
        jac_dots.append(jac_dot)
        z_dot = product(layer.mu, a_dot)
    gradients = one.gradients()
    g_dot = np.zeros((len(x_dot), *gradients[-1].shape))
    var = np.zeros(z_dot.shape)
    parts = zip(one.layers, gradients, a_dots, jac_dots, strict=True)
    for layer, g, a_dot, jac_dot in reversed(list(parts)):
        var += layer.variance_of_sum(a_dot, g, g_dot)
        if layer.jac is not None and jac_dot is not None:
            g_dot = layer.jac * (layer.weights @ g_dot)
            g_dot += jac_dot[:, None] * (layer.weights @ g)
    return z_dot, var * np.square(one.scale(gradients))


def rows_of_derivatives(net: Network | Mixture) -> int:
    """Return at how many rows derivatives are computed at a time."""
    sizes = [layer.mu.shape[-2:] for kind in net.networks for layer in kind.layers]
    widest = max(max(size) for size in sizes)
    if net.is_full:
        widest = max(n_in * n_out for n_in, n_out in sizes)
    return max(1, BLOCK_ELEMENTS // (widest * net.n_inputs * net.outputs.n_outputs))
