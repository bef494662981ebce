"""Sparse rows: products with them, and the features that occur in a batch."""

import numpy as np
import pytest
from helpers import DTYPES, random_layers, rtol, with_ones
from scipy import sparse

from sktagi.engine import sparse as of_engine
from sktagi.engine.posterior import forget
from sktagi.engine.sparse import (
    Entries,
    Features,
    by_input,
    outer,
    product,
    squared,
    weighted_gram,
    width,
)


def random_inputs(n_rows=7, n_in=9, seed=0, dtype=np.float64, share=0.3):
    """Dense inputs (n_in + 1, rows), and the same as CSR rows, as they enter the engine."""
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n_rows, n_in)) * (rng.random((n_rows, n_in)) < share), dtype)
    return x.T, sparse.csr_array(x)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_equal_those_of_dense_inputs(lead, dtype):
    dense, thin = random_inputs(dtype=dtype)
    rng = np.random.default_rng(1)
    w = rng.normal(size=(*lead, 10, 4)).astype(dtype)
    nu = rng.normal(size=(*lead, 4, 7)).astype(dtype)
    tol = rtol(dtype)
    for a in (dense, thin):
        got = product(w, a)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.einsum("...ko,kr->...or", w, dense), rtol=tol, atol=tol)
        expected = dense @ nu.swapaxes(-1, -2)
        np.testing.assert_allclose(outer(a, nu), expected, rtol=tol, atol=tol)


def test_products_of_dense_inputs_of_each_network():
    rng = np.random.default_rng(2)
    w, a, nu = (rng.normal(size=(3, *shape)) for shape in ((5, 4), (5, 7), (2, 7)))
    for m in range(3):
        np.testing.assert_allclose(product(w, a)[m], w[m].T @ a[m], rtol=1e-12)
        np.testing.assert_allclose(outer(a, nu)[m], a[m] @ nu[m].T, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_squares_are_elementwise(dtype):
    dense, thin = random_inputs(dtype=dtype)
    np.testing.assert_array_equal(squared(dense), dense**2)
    assert sparse.issparse(squared(thin))
    np.testing.assert_array_equal(squared(thin).toarray().T, dense**2)
    np.testing.assert_array_equal(thin.toarray().T, dense)


def test_dense_rows_are_turned_and_sparse_ones_stay():
    dense, thin = random_inputs()
    np.testing.assert_array_equal(by_input(dense.T), dense)
    assert by_input(thin) is thin


def test_entries_are_those_of_some_rows():
    dense, thin = random_inputs()
    for part in (slice(0, 7), slice(2, 5), slice(6, 7)):
        found = Entries.of(thin, part)
        np.testing.assert_array_equal(found.matrix(10).toarray(), dense.T[part])
        assert np.shares_memory(found.data, thin.data)
        places = np.arange(10)[::-1][found.indices]
        np.testing.assert_array_equal(found.at(places, 10), dense[::-1, part])


def test_rows_are_as_wide_as_what_they_store():
    dense, thin = random_inputs(100, 2000, share=0.01)
    assert width(dense.T) == 2001
    assert width(thin) == max(thin.nnz // 100 + 1, 2001 // of_engine.DENSER)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_weighted_gram_is_that_of_dense_inputs(lead):
    dense, thin = random_inputs()
    weights = np.random.default_rng(3).uniform(0.1, 2, size=(*lead, 10))
    expected = np.einsum("...k,ki,kj->...ij", weights, dense, dense)
    np.testing.assert_allclose(weighted_gram(thin, weights), expected, rtol=1e-12, atol=1e-14)


# ------------------------------------------------------------------------ features of a batch


def entries(thin):
    """All rows of a matrix, as a batch has them."""
    return Entries.of(thin, slice(0, thin.shape[0]))


@pytest.mark.parametrize("dense_elements", [0, 1 << 15])  # a large batch, and a small one
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_has_the_parameters_of_the_features_that_occur(dtype, dense_elements, monkeypatch):
    monkeypatch.setattr(of_engine, "DENSE_ELEMENTS", dense_elements)
    dense, thin = random_inputs(4, 30, seed=4, dtype=dtype, share=0.1)
    (layer,) = random_layers([30, 3], 5, dtype=dtype)
    x, few, touched = Features(layer, None).fetch(entries(thin), 0)
    np.testing.assert_array_equal(touched, np.flatnonzero(dense.any(axis=1)))
    assert 0 < len(touched) < 31
    assert isinstance(x, np.ndarray) == bool(dense_elements)
    x = x if dense_elements else x.toarray().T
    np.testing.assert_array_equal(x, dense[touched])
    for name in ("mu", "var", "var_prior"):
        values = getattr(few, name)
        np.testing.assert_array_equal(values, getattr(layer, name)[touched])
        assert values.dtype == dtype
        assert not np.shares_memory(values, getattr(layer, name))


def test_what_is_put_back_changes_the_features_that_occurred_alone():
    (layer,) = random_layers([30, 3], 6)
    features, expected = Features(layer, None), layer.copy()
    for seed in (7, 8, 9):  # the memory of an earlier batch may be too small, or larger
        dense, thin = random_inputs(seed - 4, 30, seed=seed, share=0.02 * seed)
        _, few, touched = features.fetch(entries(thin), 0)
        np.testing.assert_array_equal(touched, np.flatnonzero(dense.any(axis=1)))
        few.mu += 1
        few.var *= 2
        expected.mu[touched] += 1
        expected.var[touched] *= 2
        features.put_back(few, touched)
        np.testing.assert_array_equal(layer.mu, expected.mu)
        np.testing.assert_array_equal(layer.var, expected.var)


def test_features_forget_when_they_are_fetched_what_they_have_not_yet_forgotten():
    """As if all of them had forgotten before each batch."""
    half_lives = np.array([0.3, 0.1, 0.7, 0.2])
    lazy, eager = (random_layers([12, 2], 10)[0] for _ in range(2))
    features = Features(lazy, half_lives.cumsum())
    seen = set()
    for number, half_life in enumerate(half_lives):
        _, thin = random_inputs(2, 12, seed=11 + number, share=0.15)
        forget(eager.var, eager.var_prior, 2.0**-half_life)
        _, few, touched = features.fetch(entries(thin), number)
        np.testing.assert_allclose(few.var, eager.var[touched], rtol=1e-13)
        few.var *= 0.9
        eager.var[touched] *= 0.9
        features.put_back(few, touched)
        seen.update(touched.tolist())
    assert len(seen) < 13  # some never occur
    assert np.abs(lazy.var / eager.var - 1).max() > 0.01
    features.forget(lazy, slice(None), -1)
    np.testing.assert_allclose(lazy.var, eager.var, rtol=1e-13)
    features.forget(lazy, slice(None), -1)  # nothing is left to be forgotten
    np.testing.assert_allclose(lazy.var, eager.var, rtol=1e-13)


def test_without_half_life_nothing_is_forgotten():
    (layer,) = random_layers([12, 2], 12)
    before = layer.copy()
    Features(layer, None).forget(layer, slice(None), 0)
    np.testing.assert_array_equal(layer.var, before.var)
