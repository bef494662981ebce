"""What a missing value may be, given the others of its row: against plain conditioning."""

import numpy as np
import pytest
from scipy.special import ndtri

from sktagi.tables import completion
from sktagi.tables.completion import (
    N_DRAWS,
    RIDGE,
    JointGaussian,
    fit_gaussian,
    normal_nodes,
    orders_of_draws,
)


def random_gaussian(n=4, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    cov = root @ root.T + 0.1 * np.eye(n)
    scale = np.sqrt(np.diag(cov))
    mean = rng.normal(size=n) * 3
    return JointGaussian(mean, scale, cov / np.outer(scale, scale)), mean, cov


@pytest.mark.parametrize("missing", [[], [0], [1, 3], [0, 1, 2], [0, 1, 2, 3]])
def test_given_is_conditioning_of_a_gaussian(missing):
    gaussian, mean, cov = random_gaussian()
    row = np.random.default_rng(1).normal(size=4)
    row[missing] = np.nan
    filled, roots = gaussian.completions(row[None], np.eye(4))
    there = np.flatnonzero(~np.isnan(row))
    gain = cov[np.ix_(missing, there)] @ np.linalg.inv(cov[np.ix_(there, there)])
    expected = row.copy()
    expected[missing] = mean[missing] + gain @ (row - mean)[there]
    rest = np.zeros((4, 4))
    rest[np.ix_(missing, missing)] = (
        cov[np.ix_(missing, missing)] - gain @ cov[np.ix_(there, missing)]
    )
    np.testing.assert_allclose(filled[0], expected, rtol=1e-10)
    # Steps of unit nodes are the columns of a root: their squares add up to the covariance.
    np.testing.assert_allclose(roots[:, 0].T @ roots[:, 0], rest, atol=1e-10 * np.abs(cov).max())
    np.testing.assert_allclose(gaussian.filled(row[None]), filled, rtol=1e-12)


def test_moments_of_rows_without_gaps_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3)) + 5, rng.uniform(size=50)
    found = fit_gaussian(values, weight)
    np.testing.assert_allclose(found.mean, np.average(values, axis=0, weights=weight))
    cov = np.cov(values.T, aweights=weight, ddof=0)
    expected = cov / np.outer(found.scale, found.scale)
    np.testing.assert_allclose(
        found.correlation, (1 - RIDGE) * expected + RIDGE * np.eye(3), rtol=1e-9
    )


def test_moments_are_found_where_what_is_missing_depends_on_other_columns():
    """The mean of the values that are there is off; expectation and maximisation mends it."""
    rng = np.random.default_rng(0)
    full = rng.multivariate_normal([0, 1, -1], [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], size=4000)
    values = full.copy()
    values[full[:, 0] > 0, 1] = np.nan
    found = fit_gaussian(values, np.ones(4000))
    assert abs(np.nanmean(values[:, 1]) - 1) > 0.6
    assert abs(found.mean[1] - 1) < 0.1
    assert abs(found.correlation[0, 1] * found.scale[0] * found.scale[1] - 0.9) < 0.1


def test_a_weight_of_two_is_the_row_twice():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 3))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    weight = rng.integers(1, 4, size=40)
    one = fit_gaussian(values, weight.astype(float))
    two = fit_gaussian(np.repeat(values, weight, axis=0), np.ones(weight.sum()))
    np.testing.assert_allclose(one.mean, two.mean)
    np.testing.assert_allclose(one.correlation, two.correlation)


def test_columns_without_values_or_spread_are_sound():
    values = np.random.default_rng(0).normal(size=(30, 4))
    values[:, 1] = np.nan
    values[:, 2] = 7.0
    values[::3, 2] = np.nan
    found = fit_gaussian(values, np.ones(30))
    filled, steps = found.completions(values, normal_nodes(4))
    assert np.isfinite(filled).all()
    assert np.isfinite(steps).all()
    np.testing.assert_allclose(filled[:, 2], 7.0)


def test_rows_that_are_completed_in_blocks_are_the_same(monkeypatch):
    gaussian, _, _ = random_gaussian()
    values = np.random.default_rng(1).normal(size=(25, 4))
    values[np.random.default_rng(2).uniform(size=values.shape) < 0.4] = np.nan
    whole = gaussian.completions(values, normal_nodes(4))
    monkeypatch.setattr(completion, "BLOCK_ELEMENTS", 16 * 7)
    for one, two in zip(gaussian.completions(values, normal_nodes(4)), whole, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 5, 15, 40])
def test_nodes_have_the_moments_of_their_distribution(n):
    normal, orders = normal_nodes(n), orders_of_draws(n)
    assert normal.shape == orders.shape == (N_DRAWS, n)
    np.testing.assert_allclose(normal.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(normal.var(axis=0), 1)
    some = normal[:, :15]
    atol = 0.07 if n <= 5 else 0.12
    np.testing.assert_allclose(some.T @ some / N_DRAWS, np.eye(some.shape[1]), atol=atol)
    if n:
        quantiles = ndtri((np.arange(N_DRAWS) + 0.5) / N_DRAWS)
        np.testing.assert_allclose(np.sort(normal[:, -1]), quantiles / quantiles.std())
    assert (np.sort(orders, axis=0) == np.arange(N_DRAWS)[:, None]).all()


def test_first_nodes_are_independent_for_functions_that_bend_too():
    nodes = normal_nodes(15)[:, :5]
    functions = np.stack([nodes, nodes**2, np.abs(nodes), np.sin(2 * nodes), np.tanh(nodes)])
    functions -= functions.mean(axis=1, keepdims=True)
    functions /= functions.std(axis=1, keepdims=True)
    found = np.einsum("akn,bkm->abnm", functions, functions)[:, :, ~np.eye(5, dtype=bool)] / N_DRAWS
    assert np.sqrt(np.mean(np.square(found))) < 0.2  # 0.26 in orders at random


def test_gaps_take_nodes_in_their_order():
    """So rows with few gaps have the best nodes, whichever columns they miss."""
    missing = np.array([[True, False, True, True], [False, False, False, True]])
    np.testing.assert_array_equal(completion.ranks(missing)[missing], [0, 1, 2, 0])
