"""What several test modules need: tolerances keyed on dtype, generated networks and rows."""

from __future__ import annotations

import itertools

import numpy as np

from sktagi.engine import activations, noise
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.learning import Network, Rows
from sktagi.engine.network import Layer
from sktagi.engine.noise import GaussianOutputs

LINEARISED = ["identity", "relu", "leaky_relu", "tanh", "logistic", "softplus"]
DTYPES = [np.float64, np.float32]


def rtol(dtype, factor=1.0):
    """Relative tolerance of a short chain of operations in a dtype: some 1000 roundings."""
    return factor * 1000 * float(np.finfo(dtype).eps)


def with_ones(x, dtype=np.float64):
    x = np.asarray(x, dtype=dtype)
    return np.concatenate([x, np.ones((*x.shape[:-1], 1), dtype)], axis=-1)


def random_layers(sizes, seed=0, members=None, dtype=np.float64):
    """A posterior without symmetries: every mean and every variance differs."""
    rng = np.random.default_rng(seed)
    lead = () if members is None else (members,)
    layers = []
    for n_in, n_out in itertools.pairwise(sizes):
        shape = (*lead, n_in + 1, n_out)
        mu = rng.normal(scale=0.7, size=shape)
        var = rng.uniform(0.02, 0.5, size=shape)
        var_prior = rng.uniform(0.3, 0.6, size=(n_in + 1, 1))
        layers.append(Layer(mu.astype(dtype), var.astype(dtype), var_prior.astype(dtype)))
    return layers


def member(layers, index):
    return [
        Layer(layer.mu[index].copy(), layer.var[index].copy(), layer.var_prior) for layer in layers
    ]


def make_network(
    sizes, seed=0, members=1, *, dtype=np.float64, sigma_v=0.3, outputs=None, learn_noise=False,
    activation="relu",
):  # fmt: skip
    from sktagi.engine.network import draw_prior

    layers = draw_prior(
        sizes, [np.random.default_rng([seed, m]) for m in range(members)], dtype=dtype
    )
    outputs = GaussianOutputs(sizes[-1]) if outputs is None else outputs
    n_noise = 1 if outputs.shared_noise else outputs.n_outputs
    return Network(
        layers,
        ACTIVATIONS[activation],
        outputs,
        np.full((members, 1, n_noise), sigma_v**2),  # float64, whatever the parameters are
        learn_noise,
        np.zeros((members, 1, 1)),
    )


def make_rows(n, d, n_outputs=1, seed=0, dtype=np.float64, noise=0.1, weight=None, var_x=None):
    """A smooth function of standardised inputs, of unit size, plus noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    directions = rng.normal(size=(d, n_outputs)) / np.sqrt(d)
    y = np.sin(2 * x @ directions) + x @ directions[::-1] * 0.5
    y = (y - y.mean(axis=0)) / y.std(axis=0) + noise * rng.normal(size=y.shape)
    weight = np.ones(n) if weight is None else weight
    return Rows(with_ones(x, dtype), y.astype(dtype), weight.astype(dtype), var_x)


def assert_same_posterior(net, other, tol):
    for mine, theirs in zip(net.layers, other.layers, strict=True):
        np.testing.assert_allclose(mine.mu, theirs.mu, rtol=tol, atol=tol)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=tol)
    np.testing.assert_allclose(net.noise_var, other.noise_var, rtol=tol)


def activate(name, mu_z, var_z):
    """mu_a, var_a and jac of an activation function, in new arrays."""
    return activations.activate(ACTIVATIONS[name], mu_z, var_z)


def copy_layers(layers):
    return [Layer(layer.mu.copy(), layer.var.copy(), layer.var_prior) for layer in layers]


def joint_message(mu_z, shared, own, y, noise_var, weight):
    """The engine's, which overwrites ``shared``, of covariances ``own`` given as whole matrices."""
    return noise.joint_message(mu_z, np.array(shared), as_own(own), y, noise_var, weight)


def as_own(matrices):
    """Covariances (..., observations, rows, rows) as the engine keeps them."""
    var = np.einsum("...ii->...i", matrices).copy()
    by_network = np.array(matrices).reshape(-1, *matrices.shape[-3:])
    pairs = np.nonzero(by_network * ~np.eye(var.shape[-1], dtype=bool))
    return noise.Own(var, pairs, by_network[pairs]) if len(pairs[0]) else noise.Own(var)


def as_matrices(own):
    """The reverse of ``as_own``."""
    matrices = own.var[..., None] * np.eye(own.var.shape[-1], dtype=own.var.dtype)
    if own.pairs is not None:
        matrices.reshape(-1, *matrices.shape[-3:])[own.pairs] = own.cov
    return matrices
