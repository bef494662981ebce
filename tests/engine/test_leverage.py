"""The variance that rows leave to a network's mean, beside exact linear regression."""

import numpy as np
import pytest
from helpers import make_network, make_rows
from scipy import sparse

from sktagi.engine import leverage
from sktagi.engine.calibration import TEMPERATURES
from sktagi.engine.held_out import predict_held_out
from sktagi.engine.leverage import Leverage, sum_products, sum_variances
from sktagi.engine.mixture import Mixture
from sktagi.engine.predicting import predict_moments

N = 60


def held_out(net, seed=0, weight=None):
    data = make_rows(N, net.n_inputs, seed=seed)
    if weight is not None:
        data = data._replace(weight=weight)
    members = net.n_members
    return predict_held_out(net, data, np.array_split(np.arange(N), members), TEMPERATURES)


def hidden(net, member, x):
    """Units before the last layer, with the one, by loops over layers."""
    a = x
    for layer in net.layers[:-1]:
        a = np.column_stack([np.maximum(a @ layer.mu[member], 0), np.ones(len(x))])
    return a


def exact(units, var_prior, noise, n):
    """Mean of phi' S phi over the rows, S that of n rows like them: Bayesian linear regression."""
    gram = units.T @ units / len(units)
    cov = np.linalg.inv(n * gram / noise + np.diag(1 / var_prior.ravel()))
    return np.mean([u @ cov @ u for u in units])


@pytest.mark.parametrize("sizes", [[3, 1], [3, 7, 1], [3, 6, 5, 1]])
@pytest.mark.parametrize("noise", [0.01, 0.5, 30.0])
def test_it_is_what_bayesian_linear_regression_on_the_units_leaves(sizes, noise):
    net = make_network(sizes, 0, 2)
    held = held_out(net)
    products = sum_products(held, net) / N
    found = Leverage.of(net, [products], np.ones((1, 1)), np.zeros(1), np.array([90.0]))
    prior = net.layers[-1].var_prior
    expected = np.mean([exact(hidden(net, m, held.x), prior, noise, 90) for m in range(2)])
    assert found.expected(np.array([[noise]])).item() == pytest.approx(expected, rel=1e-9)


def test_least_squares_leaves_p_over_n_of_the_noise():
    """If the prior says next to nothing, by the definition of degrees of freedom."""
    net = make_network([4, 1], 0, 1)
    net.layers[0].var_prior[...] = 1e8
    products = sum_products(held_out(net), net) / N
    found = Leverage.of(net, [products], np.ones((1, 1)), np.zeros(1), np.array([200.0]))
    assert found.expected(np.array([[0.7]])).item() == pytest.approx(0.7 * 5 / 200, rel=1e-6)
    found = found._replace(rest=np.array([0.3]))  # is noise to the parameters
    assert found.expected(np.array([[0.7]])).item() == pytest.approx(1.0 * 5 / 200, rel=1e-6)


def test_many_units_have_a_bound(monkeypatch):
    net = make_network([3, 9, 1], 1, 2)
    held, exactly = held_out(net), []
    for most in (leverage.MOST_UNITS, 4):
        monkeypatch.setattr(leverage, "MOST_UNITS", most)
        products = sum_products(held, net) / N
        assert products.ndim == (3 if most > 4 else 2)
        found = Leverage.of(net, [products], np.ones((1, 1)), np.zeros(1), np.array([N * 1.0]))
        exactly.append(found.expected(np.array([[0.2]])).item())
    assert exactly[0] < exactly[1] <= 0.2


@pytest.mark.parametrize("most", [512, 2])
def test_sparse_rows_and_blocks_change_nothing(most, monkeypatch):
    monkeypatch.setattr(leverage, "MOST_UNITS", most)
    for sizes in ([3, 1], [3, 5, 1]):
        net = make_network(sizes, 2, 2)
        held = held_out(net, weight=np.random.default_rng(0).uniform(0.5, 2, N))
        expected = sum_products(held, net)
        some = sum_products(held._replace(x=sparse.csr_array(held.x)), net)
        np.testing.assert_allclose(some, expected, rtol=1e-12, atol=1e-12)
        halves = sum(sum_products(held.take(np.arange(N) % 2 == k), net) for k in (0, 1))
        np.testing.assert_allclose(halves, expected, rtol=1e-12, atol=1e-12)
        monkeypatch.setattr(leverage, "BLOCK_ELEMENTS", 50)
        np.testing.assert_allclose(sum_products(held, net), expected, rtol=1e-12, atol=1e-12)


def test_kinds_count_by_their_weights_and_outputs_by_their_rows():
    networks = [make_network([3, 2], 0, 2), make_network([3, 5, 2], 1, 2)]
    weight = np.array([[0.25, 0.5], [0.75, 0.5]])[..., None]
    both = Mixture(networks, ["linear", "wide"], weight)
    held = held_out(both)
    rows, noise = np.array([50.0, 400.0]), np.array([[0.3, 0.6], [0.1, 2.0]])
    products = [sum_products(held, net) / N for net in networks]
    found = Leverage.of(both, products, np.ones((2, 2)), np.zeros(2), rows).expected(noise)
    for case in range(2):
        for k in range(2):
            parts = [
                np.mean([
                    exact(hidden(n, m, held.x), n.layers[-1].var_prior, noise[case, k], rows[k])
                    for m in range(2)
                ])
                for n in networks
            ]  # fmt: skip
            expected = weight[:, k, 0] @ parts
            assert found[case, k] == pytest.approx(expected, rel=1e-9)


def test_the_usual_temperature_is_that_whose_variances_are_nearest():
    net = make_network([3, 1], 0, 1)
    held = held_out(net)
    var = sum_variances(held) / N
    assert var[3].item() == pytest.approx(
        predict_moments(net.tempered(TEMPERATURES[3]), held.x)[1].mean(), rel=1e-9
    )
    products = [sum_products(held, net) / N]
    for n in (20.0, 300.0, 1e4):
        found = Leverage.of(net, products, var, np.zeros(1), np.array([n]))
        noise = np.full((len(TEMPERATURES), 1), 0.2)
        distance = np.abs(np.log(var[:, 0] / found.expected(noise)[:, 0]))
        assert found.usual(noise) == distance.argmin()
        assert distance.min() < 0.5 * np.log(4.01) or found.usual(noise) in (0, 11)


def test_numbers_that_overflow_give_some_temperature():
    net = make_network([3, 1], 0, 1)
    products = [np.full((1, 4, 4), np.inf)]
    for var in (0.0, 1.0, np.inf, np.nan):
        var = np.full((len(TEMPERATURES), 1), var)
        found = Leverage.of(net, products, var, np.zeros(1), np.array([10.0]))
        assert 0 <= found.usual(np.full(var.shape, 0.1)) < len(TEMPERATURES)
