"""What several test modules need: tolerances keyed on dtype, generated networks and rows."""

from __future__ import annotations

import itertools

import numpy as np

from sktagi.engine import activations, messages
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.calibration import TEMPERATURES, HeldOutHere, set_calibration
from sktagi.engine.covariance import RowVariance
from sktagi.engine.held_out import predict_held_out
from sktagi.engine.inputs import InputErrors
from sktagi.engine.observations import Gaussian
from sktagi.engine.posterior import Layer, Network, draw_prior
from sktagi.engine.rows import Rows

LINEARISED = ["identity", "relu", "leaky_relu", "tanh", "logistic", "softplus"]
DTYPES = [np.float64, np.float32]


def rtol(dtype, factor=1.0):
    """Relative tolerance of a short chain of operations in a dtype: some 1000 roundings."""
    return factor * 1000 * float(np.finfo(dtype).eps)


def with_ones(x, dtype=np.float64):
    """Rows of inputs with the constant of the bias, (..., rows, n_in + 1)."""
    x = np.asarray(x, dtype=dtype)
    return np.concatenate([x, np.ones((*x.shape[:-1], 1), dtype)], axis=-1)


def columns(x):
    """Arrays (..., rows, units) as (..., units, rows), and the reverse; sparse rows as they are."""
    return x.swapaxes(-1, -2) if isinstance(x, np.ndarray) else x


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


def of_layers(found):
    """Arrays of all layers in one list; of unlike members they are in a dict, by their kinds."""
    return [a for kind in found.values() for a in kind] if isinstance(found, dict) else list(found)


def member(layers, index):
    return copy_layers(layer.members(index) for layer in layers)


def copy_layers(layers):
    return [layer.copy() for layer in layers]


def make_network(
    sizes, seed=0, members=1, *, dtype=np.float64, sigma_v=0.3, outputs=None, learn_noise=False,
    activation="relu",
):  # fmt: skip
    layers = draw_prior(
        sizes, [np.random.default_rng([seed, m]) for m in range(members)], dtype=dtype
    )
    outputs = Gaussian(sizes[-1]) if outputs is None else outputs
    return Network(
        layers,
        ACTIVATIONS[activation],
        outputs,
        np.full((members, outputs.n_noise, 1), sigma_v**2),  # float64, whatever the parameters are
        learn_noise,
    )


def make_rows(n, d, n_outputs=1, seed=0, dtype=np.float64, noise=0.1, weight=None, var_x=None):
    """A smooth function of standardised inputs, of unit size, plus noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    directions = rng.normal(size=(d, n_outputs)) / np.sqrt(d)
    y = np.sin(2 * x @ directions) + x @ directions[::-1] * 0.5
    y = (y - y.mean(axis=0)) / y.std(axis=0) + noise * rng.normal(size=y.shape)
    weight = np.ones(n) if weight is None else weight
    errors = None if var_x is None else InputErrors(var_x)
    return Rows(with_ones(x, dtype), y.astype(dtype), weight.astype(dtype), errors)


def assert_same_posterior(net, other, tol):
    for mine, theirs in zip(net.layers, other.layers, strict=True):
        np.testing.assert_allclose(mine.mu, theirs.mu, rtol=tol, atol=tol)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=tol)
    np.testing.assert_allclose(net.noise_var, other.noise_var, rtol=tol)


def activate(name, mu_z, var_z):
    """mu_a, var_a and jac of an activation function, in new arrays."""
    return activations.activate(ACTIVATIONS[name], mu_z, var_z)


def random_outputs(n_rows, n_outputs=1, seed=0, members=None, dtype=np.float64, own=0.1):
    """mu_z, shared, own and y of a batch; both parts of the covariance have full rank.

    Outputs are (..., observations, rows).
    """
    rng = np.random.default_rng(seed)
    lead = () if members is None else (members,)
    shape = (*lead, n_rows, n_outputs)

    def covariance(size):
        root = rng.normal(size=(*lead, n_outputs, n_rows, n_rows + 2)) + 0.7
        cov = root @ root.swapaxes(-1, -2) / n_rows
        std = np.sqrt(rng.uniform(0.2, 3, size=(*lead, n_outputs, n_rows)))
        return size * cov * std[..., :, None] * std[..., None, :]

    mu_z, *cov, y = rng.normal(size=shape), covariance(1.0), covariance(own), rng.normal(size=shape)
    return tuple(part.astype(dtype) for part in (columns(mu_z), *cov, columns(y)))


def variances(cov):
    """(..., observations, rows), as messages are."""
    return np.einsum("...ii->...i", cov).copy()


def joint_message(mu_z, shared, own, y, noise_var, weight=None):
    """The engine's, which overwrites ``shared``, of covariances ``own`` given as whole matrices."""
    return messages.joint(mu_z, np.array(shared), as_own(own), (y, noise_var), weight)


def independent_message(mu_z, var_z, y, noise_var, weight=None):
    return messages.independent(mu_z, var_z, (y, noise_var), weight)


def as_own(matrices):
    """Covariances (..., observations, rows, rows) as the engine keeps them."""
    var = np.einsum("...ii->...i", matrices).copy()
    by_network = np.array(matrices).reshape(-1, *matrices.shape[-3:])
    pairs = np.nonzero(by_network * ~np.eye(var.shape[-1], dtype=bool))
    return RowVariance(var, pairs, by_network[pairs]) if len(pairs[0]) else RowVariance(var)


def as_matrices(own):
    """The reverse of ``as_own``."""
    matrices = own.var[..., None] * np.eye(own.var.shape[-1], dtype=own.var.dtype)
    if own.pairs is not None:
        matrices.reshape(-1, *matrices.shape[-3:])[own.pairs] = own.cov
    return matrices


def calibrate(net, data, validation, start=None, seed=0, groups=None):
    """Calibrate a network, in place, by the rows that each member has held out."""
    held = predict_held_out(net, data, validation, TEMPERATURES, groups)
    set_calibration(net, HeldOutHere(held), start, seed)
