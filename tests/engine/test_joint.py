"""Rows together: covariance and drawn functions, against dense Jacobians, pairs and Monte Carlo."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from helpers import make_network, make_rows, random_layers
from scipy import sparse

from sktagi.engine.encoding import find_pieces, find_whitening
from sktagi.engine.joint import covariance, draw_functions, functions_at
from sktagi.engine.linearised import linearise
from sktagi.engine.mixture import Mixture
from sktagi.engine.posterior import FullLayer
from sktagi.engine.predicting import predict_moments

SIZES = [(3, 1), (3, 5, 1), (3, 5, 2), (3, 4, 5, 2)]


def network(sizes, activation="tanh", members=2, seed=0, shrink=1.0):
    layers = random_layers(sizes, seed, members)
    for layer in layers:
        layer.var *= shrink
    return replace(make_network(sizes, seed, members, activation=activation), layers=layers)


def full_network(sizes, members=2, seed=0):
    net = network(sizes, members=members, seed=seed)
    rng = np.random.default_rng(seed)
    layers = []
    for layer in net.layers:
        n_params = layer.mu[0].size
        root = rng.normal(size=(members, n_params, n_params)) / np.sqrt(20 * n_params)
        cov = root @ root.swapaxes(1, 2)
        layers.append(FullLayer(layer.mu, cov, layer.var_prior, np.zeros(members)))
    return replace(net, layers=layers)


def mixture(n_outputs=1, members=3):
    x, ones = make_rows(60, 3).x.astype(float), np.ones(60)
    pieces, whitening = find_pieces(x, ones), find_whitening(x, ones)
    networks = [
        network((3, n_outputs), members=members, seed=1),
        replace(network((3, 5, n_outputs), members=members, seed=2), encoding=whitening),
        replace(network((pieces.n_encoded, 4, 4, n_outputs), members=members, seed=3),
                encoding=pieces),
    ]  # fmt: skip
    weight = np.random.default_rng(0).dirichlet(np.ones(3), size=n_outputs).T[..., None]
    return Mixture(networks, ["linear", "smooth", "pieces"], weight)


def mean_and_jacobian(mu, activation, x):
    """Outputs of one row and their derivatives by all parameters: loops over units and weights."""
    phi, slope = oracle.ACTIVATIONS[activation]
    a, below = list(x), []  # what enters a layer, and its derivatives by parameters so far
    columns = [np.zeros(0) for _ in a]
    for number, matrix in enumerate(mu):
        n_in, n_out = matrix.shape
        z, by_theta = [], []
        for o in range(n_out):
            z.append(sum(matrix[k, o] * a[k] for k in range(n_in)))
            through = sum((matrix[k, o] * columns[k] for k in range(n_in)), np.zeros(len(below)))
            own = np.zeros(matrix.size)
            for k in range(n_in):
                own[k * n_out + o] = a[k]
            by_theta.append(np.concatenate([through, own]))
        below = by_theta[0]
        if number < len(mu) - 1:
            a = [phi(value) for value in z] + [1.0]
            columns = [slope(v) * d for v, d in zip(z, by_theta, strict=True)]
            columns.append(np.zeros(len(below)))
    return np.array(z), np.array(by_theta)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_covariance_of_nearly_certain_parameters_is_that_of_a_dense_jacobian(sizes, activation):
    # Small variances: products of two uncertain factors do not count.
    net = network(sizes, activation, members=1, shrink=1e-8)
    x = make_rows(6, 3).x
    mu = [layer.mu[0] for layer in net.layers]
    jacobians = np.stack([mean_and_jacobian(mu, activation, row)[1] for row in x])
    var = np.concatenate([layer.var[0].ravel() for layer in net.layers])
    expected = np.einsum("iop,p,jop->oij", jacobians, var, jacobians)
    root = np.sqrt(np.einsum("oii->oi", expected))
    correlation = expected / root[:, :, None] / root[:, None, :]
    std = np.sqrt(predict_moments(net, x)[1][0])
    found = covariance(net, x, 1.0)
    np.testing.assert_allclose(found, correlation * std[:, :, None] * std[:, None, :], atol=1e-13)
    if len(sizes) < 4:  # up to one hidden layer, nothing is scaled
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-14)


@pytest.mark.parametrize("sizes", [(3, 5, 1), (3, 5, 2)])
def test_covariance_through_one_hidden_layer_is_equation_10_for_pairs_of_rows(sizes):
    net = network(sizes, members=1)
    x = make_rows(5, 3).x
    first, last = ([values[0] for values in (layer.mu, layer.var)] for layer in net.layers)
    expected = np.zeros((sizes[-1], 5, 5))
    for i, left in enumerate(x):
        for j, right in enumerate(x):
            for o in range(sizes[-1]):
                total = last[1][-1, o]  # the bias
                for k in range(5):
                    z = [sum(first[0][:, k] * row) for row in (left, right)]
                    cov_z = sum(first[1][:, k] * left * right)
                    a = [np.tanh(value) for value in z]
                    cov_a = cov_z / np.cosh(z[0]) ** 2 / np.cosh(z[1]) ** 2
                    w, var_w = last[0][k, o], last[1][k, o]
                    # cov(W A_i, W A_j), Eq. 5: the weight is the same, and independent of A
                    total += oracle.product_cov(w, a[0], w, a[1], var_w, 0, 0, cov_a)
                expected[o, i, j] = total
    np.testing.assert_allclose(covariance(net, x, 1.0), expected, rtol=1e-12)


@pytest.mark.parametrize("spread", [0.3, 1.0])
@pytest.mark.parametrize(
    "net",
    [network((3, 5, 4, 2), "relu"), network((3, 5, 2), "relu_exact"), full_network((3, 4, 2)),
     mixture(), mixture(2)],
    ids=["deep", "exact", "full", "mixture", "two targets"],
)  # fmt: skip
def test_diagonal_is_the_variance_that_is_predicted(net, spread):
    x = make_rows(20, 3).x
    mu, var = predict_moments(net, x)
    expected = var.mean(axis=0) + spread * mu.var(axis=0)
    found = covariance(net, x, spread)
    np.testing.assert_allclose(np.einsum("oii->oi", found), expected, rtol=1e-8)
    for matrix in found:
        assert np.linalg.eigvalsh(matrix).min() > -1e-10 * matrix.diagonal().max()


@pytest.mark.parametrize(
    "net", [network((3, 5, 4, 2), "relu"), full_network((3, 4, 2)), mixture(2)],
    ids=["deep", "full", "mixture"],
)  # fmt: skip
def test_drawn_functions_have_the_covariance(net):
    x, n = make_rows(4, 3).x, 40_000
    draws = draw_functions(net, n, np.random.RandomState(0))
    f = functions_at(net, draws, x, 0.5)
    apart = f - predict_moments(net, x)[0].mean(axis=0)
    error = np.sqrt(np.square(apart).mean(axis=0) / n)
    assert (np.abs(apart.mean(axis=0)) < 4 * error).all()
    products = apart[:, :, :, None] * apart[:, :, None, :]
    bound = 4.5 * products.std(axis=0) / np.sqrt(n)
    assert (np.abs(products.mean(axis=0) - covariance(net, x, 0.5)) < bound).all()


def test_parameters_drawn_through_the_network_have_the_covariance_if_they_are_nearly_certain():
    net = network((3, 5, 1), members=1, shrink=0.002)
    x, n = make_rows(5, 3).x, 40_000
    rng = np.random.default_rng(0)
    w, v = (
        layer.mu[0] + np.sqrt(layer.var[0]) * rng.normal(size=(n, *layer.mu[0].shape))
        for layer in net.layers
    )
    hidden = np.tanh(x @ w)
    f = (hidden @ v[:, :-1])[..., 0] + v[:, -1]
    found = covariance(net, x, 1.0)[0]
    scale = np.sqrt(np.outer(found.diagonal(), found.diagonal()))
    assert (np.abs(np.cov(f.T) - found) / scale).max() < 0.03


def test_deep_identity_network_correlates_rows_as_drawn_parameters_do():
    net = network((3, 4, 4, 1), "identity", members=1, shrink=0.05)
    x, n = make_rows(5, 3).x, 100_000
    rng = np.random.default_rng(0)
    a = np.broadcast_to(x, (n, *x.shape))
    for layer in net.layers:
        w = layer.mu[0] + np.sqrt(layer.var[0]) * rng.normal(size=(n, *layer.mu[0].shape))
        z = a @ w
        a = np.concatenate([z, np.ones((*z.shape[:2], 1))], axis=-1)
    found = covariance(net, x, 1.0)[0]
    std = np.sqrt(found.diagonal())
    assert np.abs(np.corrcoef(z[..., 0].T) - found / np.outer(std, std)).max() < 0.02


@pytest.mark.parametrize("sizes", [(30, 1), (30, 4, 2)])
def test_sparse_rows_are_as_dense_ones(sizes):
    net, rng = network(sizes, members=2), np.random.default_rng(0)
    dense = rng.normal(size=(8, 31)) * (rng.uniform(size=(8, 31)) < 0.3)
    dense[:, -1] = 1
    rows = sparse.csr_array(dense)
    np.testing.assert_allclose(covariance(net, rows, 1.0), covariance(net, dense, 1.0), rtol=1e-10)
    draws = draw_functions(net, 3, np.random.RandomState(0))
    np.testing.assert_allclose(
        functions_at(net, draws, rows, 1.0), functions_at(net, draws, dense, 1.0), rtol=1e-10
    )


def test_kinds_are_drawn_as_often_as_their_weights_say():
    net = mixture(2)
    draws = draw_functions(net, 20_000, np.random.RandomState(0))
    for k in range(3):
        shares = (draws.kind == k).mean(axis=0)
        np.testing.assert_allclose(shares, net.weight[k, :, 0], atol=0.015)
    assert np.bincount(draws.member).min() > 6300


def test_blocks_of_parameters_change_nothing(monkeypatch):
    net, x = network((3, 5, 4, 2)), make_rows(6, 3).x
    whole = covariance(net, x, 1.0)
    monkeypatch.setattr("sktagi.engine.linearised.BLOCK_ELEMENTS", 1)
    np.testing.assert_allclose(covariance(net, x, 1.0), whole, rtol=1e-12)


def test_linear_model_is_not_scaled():
    net, x = network((3, 2)), make_rows(6, 3).x
    for one in linearise(net, x):
        np.testing.assert_allclose(one.scale(one.gradients()), 1, rtol=1e-12)
