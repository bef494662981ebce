"""The correlation between the outputs of a batch's rows."""

import numpy as np
import oracle
import pytest
from helpers import DTYPES, LINEARISED, member, random_layers, rtol, with_ones
from scipy import sparse

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.batch import OWN_SHARE, OWN_SQUARINGS, row_correlation
from sktagi.engine.network import forward

HIDDEN = [(), (4,), (5, 3)]


def correlation(layers, x, activation="relu", var_x=None):
    return row_correlation(layers, forward(layers, ACTIVATIONS[activation], x, var_x)[2])


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("activation", [*LINEARISED, "relu_exact"])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_a_correlation_matrix(hidden, activation, uncertain, dtype):
    rng = np.random.default_rng(0)
    x = with_ones(rng.normal(size=(20, 3)), dtype)
    var_x = rng.uniform(0.01, 0.3, size=(20, 3)).astype(dtype) if uncertain else None
    rho = correlation(random_layers([3, *hidden, 2], 1, dtype=dtype), x, activation, var_x)
    eps = 100 * np.finfo(dtype).eps
    assert rho.shape == (20, 20)
    assert rho.dtype == dtype
    np.testing.assert_allclose(np.diag(rho), 1, rtol=eps)
    np.testing.assert_allclose(rho, rho.T, rtol=0, atol=eps)
    assert np.linalg.eigvalsh(rho.astype(float)).min() > -20 * eps
    assert np.abs(rho - np.eye(20)).max() > 0.05  # rows do share parameters


@pytest.mark.parametrize("hidden", HIDDEN)
def test_duplicates_are_perfectly_correlated(hidden):
    x = with_ones(np.random.default_rng(2).normal(size=(6, 3)))
    layers = random_layers([3, *hidden, 2], 3)
    rho = correlation(layers, np.concatenate([x, x]))
    np.testing.assert_allclose(np.diag(rho[:6, 6:]), 1, rtol=1e-12)
    np.testing.assert_allclose(rho[:6, :6], rho[6:, :6], rtol=1e-12)


def test_duplicates_with_uncertain_inputs_are_less_than_perfectly_correlated():
    x = with_ones(np.random.default_rng(4).normal(size=(6, 3)))
    rho = correlation(
        random_layers([3, 4, 1], 5), np.concatenate([x, x]), "tanh", np.full((12, 3), 0.2)
    )
    assert np.all(np.diag(rho[:6, 6:]) < 1 - 1e-3)


def test_without_hidden_layers_it_is_exact_for_one_output():
    x = with_ones(np.random.default_rng(6).normal(size=(8, 3)))
    (layer,) = random_layers([3, 1], 7)
    cov = x @ np.diag(layer.var[:, 0]) @ x.T
    std = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(correlation([layer], x), cov / np.outer(std, std), rtol=1e-12)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("uncertain", [False, True])
def test_it_follows_the_recursion_entry_by_entry(hidden, activation, uncertain):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(6, 3))
    x_std = rng.uniform(0.1, 0.6, size=x.shape) if uncertain else None
    layers = random_layers([3, *hidden, 2], 9)
    rho = correlation(layers, with_ones(x), activation, x_std**2 if uncertain else None)
    expected = np.array(
        oracle.row_correlation(
            [oracle.from_arrays(layer.mu, layer.var) for layer in layers], activation, x, x_std
        )
    )
    if hidden:  # a share of each row's variance is its own
        expected = (1 - OWN_SHARE) * expected + OWN_SHARE * expected ** (2**OWN_SQUARINGS)
    np.testing.assert_allclose(rho, expected, rtol=1e-10)


@pytest.mark.parametrize("span", [2.0, 0.5, 0.1, 1e-3, 2e-4])
@pytest.mark.parametrize("hidden", [(), (30,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_ever_closer_to_each_other_keep_it_positive_semi_definite(span, hidden, dtype):
    """As in a series that changes slowly: each row resembles the next, the first not the last."""
    x = with_ones(np.linspace(0.3, 0.3 + span, 100)[:, None], dtype)
    rho = correlation(random_layers([1, *hidden, 1], 18, dtype=dtype), x)
    assert np.linalg.eigvalsh(rho.astype(float)).min() > -2000 * np.finfo(dtype).eps


@pytest.mark.parametrize("span", [2.0, 0.5, 0.1])
def test_rows_close_to_each_other_are_as_correlated_in_single_precision(span):
    x = np.linspace(0.3, 0.3 + span, 100)[:, None]
    double, single = (
        correlation(random_layers([1, 30, 1], 18, dtype=dtype), with_ones(x, dtype))
        for dtype in DTYPES
    )
    np.testing.assert_allclose(single, double, rtol=0, atol=rtol(np.float32))


def test_hidden_layers_come_close_to_the_sampled_correlation():
    """The average over units is an approximation: near the truth for a wide linear-ish network."""
    rng = np.random.default_rng(10)
    x = with_ones(rng.normal(size=(8, 4)))
    width, n_samples = 60, 4000
    sizes = [4, width, 1]
    layers = [
        layer._replace(mu=rng.normal(size=layer.mu.shape) * np.sqrt(0.3 / sizes[j]),
                       var=np.full(layer.var.shape, 0.1 / sizes[j]))
        for j, layer in enumerate(random_layers(sizes, 11))
    ]  # fmt: skip
    hidden, out = (
        layer.mu + np.sqrt(layer.var) * rng.normal(size=(n_samples, *layer.mu.shape))
        for layer in layers
    )
    z = with_ones(np.tanh(x @ hidden)) @ out
    sampled = np.corrcoef(z[..., 0].T)
    rho = correlation(layers, x, "tanh")
    # Standard errors are below 1 / sqrt(n); the rest is the approximation.
    assert np.abs(rho - sampled).max() < 0.15
    off_diagonal = ~np.eye(8, dtype=bool)
    assert np.corrcoef(rho[off_diagonal], sampled[off_diagonal])[0, 1] > 0.97


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_rows_equal_dense_rows(hidden, uncertain, dtype):
    rng = np.random.default_rng(12)
    dense = with_ones(rng.normal(size=(3, 7, 6)) * (rng.random((3, 7, 6)) < 0.5), dtype)
    var_x = rng.uniform(0.1, 0.3, size=(7, 6)).astype(dtype) if uncertain else None
    layers = random_layers([6, *hidden, 2], 13, members=3, dtype=dtype)
    shared = correlation(layers, dense[0], var_x=var_x)
    own = correlation(layers, dense, var_x=var_x)
    for rho, expected in (
        (correlation(layers, sparse.csr_array(dense[0]), var_x=var_x), shared),
        (correlation(layers, [sparse.csr_array(x) for x in dense], var_x=var_x), own),
    ):
        np.testing.assert_allclose(rho, expected, rtol=rtol(dtype), atol=rtol(dtype))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("uncertain", [False, True])
def test_networks_side_by_side_equal_each_alone(hidden, uncertain):
    rng = np.random.default_rng(14)
    x = with_ones(rng.normal(size=(3, 7, 4)))
    var_x = rng.uniform(0.1, 0.3, size=(3, 7, 4)) if uncertain else None
    layers = random_layers([4, *hidden, 2], 15, members=3)
    rho = correlation(layers, x, var_x=var_x)
    for m in range(3):
        part_var = var_x[m] if uncertain else None
        expected = correlation(member(layers, m), x[m], var_x=part_var)
        np.testing.assert_allclose(rho[m], expected, rtol=1e-12)


def test_one_variance_for_all_rows_equals_the_same_for_each():
    x = with_ones(np.random.default_rng(16).normal(size=(7, 3)))
    layers = random_layers([3, 4, 1], 17)
    var_x = np.array([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(
        correlation(layers, x, var_x=var_x),
        correlation(layers, x, var_x=np.repeat(var_x, 7, axis=0)),
        rtol=1e-12,
    )
