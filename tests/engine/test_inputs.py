"""Uncertain inputs: their errors in all forms, and full Sigma_Z in predictions (Eq. 18)."""

from dataclasses import replace

import numpy as np
import oracle_full
import pytest
from helpers import DTYPES, LINEARISED, random_layers, with_ones
from scipy import sparse

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.inputs import InputErrors, forward_uncertain
from sktagi.engine.passes import forward
from sktagi.engine.sparse import by_input

COV = np.array([[1.0, 0.4, 0], [0.4, 0.5, -0.2], [0, -0.2, 0.3]]) / 10

# -------------------------------------------------------------------------------------- moments


@pytest.mark.parametrize("hidden", [(), (4,), (3, 4)])
@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("full", [False, True])
def test_moments_are_those_of_full_sigma_z(hidden, activation, full):
    """With independent parameters up to one hidden layer; with exact ones for any network."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5, 3))
    var_x = rng.uniform(0.01, 0.2, size=x.shape)
    cov_x = var_x[:, :, None] * np.eye(3) + full * 0.005
    layers = random_layers([3, *hidden, 2], seed=2, members=2)
    if len(hidden) > 1:
        layers = [replace(layer, var=layer.var * 0) for layer in layers]
    errors = InputErrors(cov_x if full else var_x)
    mu_z, var_z = forward_uncertain(layers, ACTIVATIONS[activation], with_ones(x).T, errors)
    for m in range(2):
        dense = [(a.mu[m].ravel(), np.diag(a.var[m].ravel())) for a in layers]
        for n in range(len(x)):
            record = oracle_full.forward(dense, activation, x[n : n + 1], cov_x[n : n + 1])
            np.testing.assert_allclose(mu_z[m, :, n], record[-1][2], rtol=1e-10)
            np.testing.assert_allclose(var_z[m, :, n], np.diag(record[-1][3]), rtol=1e-8)


@pytest.mark.parametrize("activation", [*LINEARISED, "relu_exact"])
def test_inputs_of_no_uncertainty_give_the_diagonal_form(activation):
    x = np.random.default_rng(3).normal(size=(6, 3))
    layers = random_layers([3, 4, 5, 2], seed=4, members=2)
    x = with_ones(x).T
    mu_z, var_z, _ = forward(layers, ACTIVATIONS[activation], x)
    for zero in (np.zeros((1, 3)), np.zeros((6, 3, 3))):
        moments = forward_uncertain(layers, ACTIVATIONS[activation], x, InputErrors(zero))
        np.testing.assert_allclose(moments, (mu_z, var_z), rtol=1e-10)


def test_sparse_variances_equal_dense_ones():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(6, 4))
    var_x = rng.uniform(size=x.shape) * (rng.random(x.shape) < 0.4)
    var_x[2] = 0
    layers = random_layers([4, 5, 1], seed=6, members=2)
    given = with_ones(x)
    expected = forward_uncertain(layers, ACTIVATIONS["relu"], given.T, InputErrors(var_x))
    errors = InputErrors(sparse.csr_array(var_x))
    for x_form in (given.T, sparse.csr_array(given)):
        got = forward_uncertain(layers, ACTIVATIONS["relu"], x_form, errors)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_variance_is_that_of_samples():
    """Small errors through a smooth network, parameters nearly exact."""
    rng = np.random.default_rng(7)
    layers = random_layers([3, 6, 5, 1], seed=8, members=1)
    layers = [replace(layer, var=layer.var * 1e-12) for layer in layers]
    x, cov_x = rng.normal(size=3), COV / 1000
    drawn = rng.multivariate_normal(x, cov_x, size=100_000)
    outputs, _, _ = forward(layers, ACTIVATIONS["tanh"], with_ones(drawn).T)
    errors = InputErrors(cov_x[None])
    _, var_z = forward_uncertain(layers, ACTIVATIONS["tanh"], with_ones(x)[:, None], errors)
    assert var_z[0, 0, 0] == pytest.approx(outputs.var(), rel=0.02)


def test_one_error_for_all_rows_equals_the_same_for_each():
    x = with_ones(np.random.default_rng(9).normal(size=(6, 3))).T
    layers = random_layers([3, 4, 5, 2], seed=10, members=2)
    for one in (np.array([[0.1, 0.2, 0.3]]), COV[None]):
        expected = forward_uncertain(layers, ACTIVATIONS["tanh"], x, InputErrors(one))
        each = InputErrors(np.repeat(one, 6, axis=0))
        got = forward_uncertain(layers, ACTIVATIONS["tanh"], x, each)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


# ------------------------------------------------------------------------------- forms of errors


def errors_of(kind, n_rows=5, seed=11):
    """Errors, and the covariance of each row that they say."""
    rng = np.random.default_rng(seed)
    n = 1 if kind.startswith("one") else n_rows
    if "covariance" in kind:
        root = rng.normal(size=(n, 3, 3))
        values = root @ root.swapaxes(-1, -2)
        covariances = values
    else:
        variances = rng.uniform(0.1, 2, size=(n, 3))
        if kind == "sparse":
            variances *= rng.random((n, 3)) < 0.5
            variances[1] = 0
        values = sparse.csr_array(variances) if kind == "sparse" else variances
        covariances = np.stack([np.diag(row) for row in variances])
    return InputErrors(values), np.broadcast_to(covariances, (n_rows, 3, 3))


FORMS = ["one variance", "variances", "sparse", "one covariance", "covariances"]


@pytest.mark.parametrize("kind", FORMS)
def test_covariances_are_what_the_errors_say(kind):
    errors, expected = errors_of(kind)
    assert errors.are_covariances == ("covariance" in kind)
    got = errors.covariances()
    assert got.dtype == np.float64
    assert len(got) == (1 if kind.startswith("one") else 5)
    np.testing.assert_array_equal(np.broadcast_to(got, expected.shape), expected)
    np.testing.assert_array_equal(errors.to_dense().covariances(), got)
    assert not sparse.issparse(errors.to_dense().values)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("rows", [
    np.array([3, 0, 3]), slice(1, 4), np.array([True, False, True, True, False]),
], ids=["numbers", "slice", "mask"])  # fmt: skip
def test_errors_of_some_rows_are_theirs(kind, rows):
    errors, expected = errors_of(kind)
    some = errors.take(rows)
    np.testing.assert_array_equal(
        np.broadcast_to(some.covariances(), expected[rows].shape), expected[rows]
    )


def test_errors_of_rows_of_several_networks_have_their_shape():
    errors, expected = errors_of("variances")
    order = np.array([[0, 4, 2], [1, 1, 3]])
    some = by_input(errors.take(order).values)
    np.testing.assert_array_equal(some, np.einsum("mrkk->mkr", expected[order]))


@pytest.mark.parametrize("kind", FORMS[:3])
def test_variances_by_input_are_those_of_the_rows(kind):
    errors, expected = errors_of(kind)
    got = by_input(errors.values)
    got = got.toarray().T if sparse.issparse(got) else got
    assert got.shape == (3, 1 if kind.startswith("one") else 5)
    np.testing.assert_array_equal(np.broadcast_to(got, (3, 5)), np.einsum("rkk->kr", expected))


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scaled_errors_are_those_of_scaled_inputs(kind, dtype):
    errors, cov = errors_of(kind)
    scale = np.array([2.0, 0.1, 30.0])
    scaled = errors.scaled(scale, dtype)
    assert scaled.values.dtype == dtype
    inverse = np.diag(1 / scale)
    expected = inverse @ cov @ inverse
    got = np.broadcast_to(scaled.covariances(), expected.shape)
    np.testing.assert_allclose(got, expected, rtol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("kind", FORMS)
def test_errors_too_large_for_their_precision_are_not_finite(kind):
    errors, _ = errors_of(kind)
    assert errors.is_finite()
    assert not errors.scaled(np.full(3, 1e-30), np.float32).is_finite()


@pytest.mark.parametrize("kind", FORMS)
def test_rank_is_no_less_than_that_of_a_covariance(kind):
    errors, cov = errors_of(kind)
    ranks = np.linalg.matrix_rank(cov)
    assert errors.rank >= ranks.max()
    assert errors.rank == (ranks.max() if kind == "sparse" else 3)


def test_rank_of_no_errors_is_one():
    assert InputErrors(sparse.csr_array((4, 3))).rank == 1
