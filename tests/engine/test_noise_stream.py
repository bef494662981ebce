"""Single rows wait for the noise network, and are learned together, whatever units do meanwhile."""

import numpy as np
import pytest
from helpers import assert_same_posterior, make_rows, with_ones
from scipy import sparse

from sktagi.engine.noise_network import Errors, draw_noise_network
from sktagi.engine.noise_stream import MOST_WAITING, errors_of, settled, with_errors
from sktagi.engine.rescaling import Change

RNG = np.random.default_rng(3)
FIRST = Change(np.array([1.3, 0.8, 1.0]), np.array([0.2, -0.5, 0.0]))
SECOND = Change(np.array([0.9, 1.1, 2.0]), np.array([-0.1, 0.3, 0.4]))
HALF_LIFE = 50.0


def make_noise(dtype=np.float64):
    """Return a noise network that says something, of three inputs and two targets."""
    noise = draw_noise_network(3, 2, dtype, 0)
    noise.net.layers[-1].mu[...] = 0.3 * RNG.normal(size=noise.net.layers[-1].mu.shape)
    noise.exponent[...] = 0.75
    noise.bounds[0], noise.bounds[1] = -3, 3
    return noise


def make_errors(n_rows):
    x = with_ones(RNG.normal(size=(n_rows, 3)))
    error, var = RNG.normal(size=(2, n_rows)), RNG.uniform(0.1, 1, size=(2, n_rows))
    error[1, ::5] = np.nan
    return Errors(x, error, var, RNG.uniform(0.5, 2, n_rows), np.zeros(n_rows, dtype=int))


def rows_of(errors, rows):
    x, error, var, weight, fold = errors
    return Errors(x[rows], error[:, rows], var[:, rows], weight[rows], fold[rows])


def one_by_one(noise, errors):
    for k in range(len(errors.weight)):
        noise = with_errors(noise, rows_of(errors, slice(k, k + 1)), HALF_LIFE)
    return noise


def assert_same_noise(one, two, rtol=1e-9):
    assert_same_posterior(one.net, two.net, rtol)
    for name in ("exponent", "level", "bounds", "scores"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=rtol, atol=1e-12)


def in_units(x, change):
    """Return inputs in the units to which a change leads."""
    return with_ones((x[:, :-1] - change.shift) / change.ratio)


def test_rows_that_came_one_by_one_are_learned_as_one_batch():
    noise, errors = make_noise(), make_errors(MOST_WAITING)
    found = one_by_one(noise, errors)
    assert not found.waiting
    assert not np.array_equal(found.net.layers[0].mu, noise.net.layers[0].mu)
    assert_same_noise(found, with_errors(noise, errors, HALF_LIFE))


def test_nothing_is_learned_before_there_are_enough_rows():
    noise, errors = make_noise(), make_errors(MOST_WAITING - 1)
    found = one_by_one(noise, errors)
    assert len(found.waiting) == MOST_WAITING - 1
    assert found.net is noise.net
    np.testing.assert_array_equal(found.log_ratio(errors.x), noise.log_ratio(errors.x))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rows_that_wait_are_learned_before_several_rows_or_sparse_ones(kind):
    noise, errors, more = make_noise(), make_errors(3), make_errors(4)
    if kind == "sparse":
        more = rows_of(more, slice(0, 1))
        more = more._replace(x=sparse.csr_array(more.x))
    found = with_errors(one_by_one(noise, errors), more, HALF_LIFE)
    assert not found.waiting
    expected = with_errors(with_errors(noise, errors, HALF_LIFE), more, HALF_LIFE)
    assert_same_noise(found, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_noise_is_the_same_in_new_units(kind, dtype):
    rtol = 1e-9 if dtype == np.float64 else 1e-4
    noise = make_noise(dtype)
    x = with_ones(RNG.normal(size=(20, 3)))
    expected = noise.log_ratio(x)
    assert np.ptp(expected) > 0.1
    new_x = in_units(in_units(x, FIRST), SECOND)
    if kind == "sparse":
        new_x = sparse.csr_array(new_x)
    changed = noise.rescaled(FIRST).rescaled(SECOND)
    for found in (changed, settled(changed)):
        np.testing.assert_allclose(found.log_ratio(new_x), expected, rtol=rtol, atol=rtol)
    assert settled(changed).change is None
    np.testing.assert_array_equal(changed.net.layers[0].mu, noise.net.layers[0].mu)


def test_rows_that_wait_say_the_same_whatever_units_do():
    """A row is learned as it would have been in the units of the network, which change then."""
    noise, errors = make_noise(), make_errors(3)
    found = one_by_one(noise, rows_of(errors, slice(0, 1)))
    found = found.rescaled(FIRST)
    second = rows_of(errors, slice(1, 2))
    found = one_by_one(found, second._replace(x=in_units(second.x, FIRST)))
    found = found.rescaled(SECOND)
    third = rows_of(errors, slice(2, 3))
    found = one_by_one(found, third._replace(x=in_units(in_units(third.x, FIRST), SECOND)))
    learned = with_errors(noise, errors, HALF_LIFE)
    assert_same_noise(settled(found, HALF_LIFE), settled(learned.rescaled(FIRST.then(SECOND))))


def test_rows_that_cannot_be_learned_are_left_out():
    noise = make_noise(np.float32)
    errors = make_errors(2)._replace(var=np.full((2, 2), 1e300))
    found = settled(one_by_one(noise, errors), HALF_LIFE)
    assert not found.waiting
    assert found.is_sound()
    np.testing.assert_array_equal(found.net.layers[0].mu, noise.net.layers[0].mu)


def test_a_noise_network_with_rows_that_wait_shares_nothing_that_is_written():
    noise = one_by_one(make_noise(), make_errors(2))
    before = [layer.mu.copy() for layer in noise.net.layers]
    with_errors(noise, make_errors(3), HALF_LIFE)
    assert len(noise.waiting) == 2
    for layer, mu in zip(noise.net.layers, before, strict=True):
        np.testing.assert_array_equal(layer.mu, mu)


def test_errors_are_in_units_of_the_noise_and_none_is_far_beyond():
    data = make_rows(4, 3)
    error = np.array([[0.5, -100.0, np.nan, 100.0]])
    var, noise = np.full((1, 4), 3.0), np.full((1, 1), 1.0)
    found = errors_of(error, var, data, 4 * noise)
    limit = 6 * np.sqrt(3.0 + 4.0) / 2
    np.testing.assert_allclose(found.error, [[0.25, -limit, np.nan, limit]])
    np.testing.assert_allclose(found.var, 0.75)
