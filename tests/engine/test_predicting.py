"""Moments of the outputs, in blocks of rows."""

import numpy as np
import pytest
from helpers import DTYPES, assert_same_posterior, make_network, make_rows
from scipy import sparse

from sktagi.engine import predicting
from sktagi.engine.inputs import InputErrors, forward_uncertain
from sktagi.engine.passes import forward
from sktagi.engine.posterior import full_prior
from sktagi.engine.predicting import block_rows, held_out_moments, predict_moments


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("errors", [None, "shared", "own"])
def test_predictions_do_not_depend_on_the_size_of_blocks(monkeypatch, kind, errors):
    data = make_rows(23, 4)
    x = sparse.csr_array(data.x) if kind == "sparse" else data.x
    if errors is not None:
        n_errors = 1 if errors == "shared" else 23
        errors = InputErrors(np.random.default_rng(5).uniform(0.1, 0.4, size=(n_errors, 4)))
    net = make_network([4, 6, 2], members=3)
    moments = []
    for elements in (1 << 18, 150, 1):
        monkeypatch.setattr(predicting, "BLOCK_ELEMENTS", elements)
        moments.append(predict_moments(net, x, errors))
    assert moments[0][0].shape == (3, 2, 23)
    if errors is None:
        expected = forward(net.layers, net.activation, data.x.T)
    else:  # predictions carry the full covariance of uncertain inputs
        expected = forward_uncertain(net.layers, net.activation, data.x.T, errors)
    for mu, var in moments:
        np.testing.assert_allclose(mu, expected[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(var, expected[1], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_predicting_changes_nothing_and_keeps_dtype(dtype):
    data = make_rows(10, 3, dtype=dtype)
    net, same = (make_network([3, 6, 1], dtype=dtype) for _ in range(2))
    mu, var = predict_moments(net, data.x)
    assert mu.dtype == var.dtype == dtype
    assert_same_posterior(net, same, 0)


def test_no_rows_give_no_predictions():
    mu, var = predict_moments(make_network([3, 6, 2]), np.empty((0, 4)))
    assert mu.shape == var.shape == (1, 2, 0)


@pytest.mark.parametrize("errors", [None, "own"])
def test_full_covariances_that_are_still_diagonal_predict_as_independent_parameters(
    monkeypatch, errors
):
    """One hidden layer: its units differ in what they do not share."""
    monkeypatch.setattr(predicting, "BLOCK_ELEMENTS", 100)
    data = make_rows(11, 3)
    if errors is not None:
        errors = InputErrors(np.random.default_rng(6).uniform(0.1, 0.4, size=(11, 3)))
    diag, full = (make_network([3, 5, 2], members=2, activation="tanh") for _ in range(2))
    full.layers = full_prior(full.layers)
    for got, expected in zip(
        predict_moments(full, data.x, errors), predict_moments(diag, data.x, errors), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("errors", [None, "shared", "own"])
def test_rows_are_prepared_block_by_block(monkeypatch, errors):
    monkeypatch.setattr(predicting, "BLOCK_ELEMENTS", 60)
    data, sizes = make_rows(23, 3), []
    if errors is not None:
        n_errors = 1 if errors == "shared" else 23
        errors = InputErrors(np.random.default_rng(7).uniform(0.1, 0.4, size=(n_errors, 3)))
    scale = np.array([2.0, 0.5, 10.0])

    def prepare(x, given):
        sizes.append(len(x))
        return x * np.append(1 / scale, 1), None if given is None else given.scaled(scale, x.dtype)

    net = make_network([3, 5, 1], members=2)
    moments = predict_moments(net, data.x, errors, prepare)
    assert sum(sizes) == 23
    assert len(sizes) > 1
    expected = predict_moments(net, *prepare(data.x, errors))
    for got, other in zip(moments, expected, strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-12)


def test_each_member_predicts_the_rows_that_it_holds_out():
    errors = InputErrors(np.random.default_rng(8).uniform(0.1, 0.4, size=(12, 3)))
    data = make_rows(12, 3, 2)._replace(errors=errors)
    net = make_network([3, 5, 2], members=3)
    validation = [np.array([3, 1]), np.arange(5), np.array([11])]
    mu, var = predict_moments(net, data.x, errors)
    found = list(held_out_moments(net, data, validation))
    assert len(found) == 3
    for m, (rows, mu_z, var_z) in enumerate(found):
        np.testing.assert_array_equal(rows.y, data.y[validation[m]])
        np.testing.assert_allclose(mu_z, mu[m][:, validation[m]], rtol=1e-12)
        np.testing.assert_allclose(var_z, var[m][:, validation[m]], rtol=1e-12)


@pytest.mark.parametrize(("elements", "entries", "n_rows"), [
    (6000, 4, 100), (6000, 60, 50), (59, 4, 1), (1, 1, 1),
])  # fmt: skip
def test_blocks_have_no_more_elements_than_they_may_or_one_row(elements, entries, n_rows):
    """The widest array is that of the inputs, or of a layer, for all members."""
    net = make_network([4, 30, 2], members=2)
    assert block_rows(net, elements, entries) == n_rows
