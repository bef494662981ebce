"""Typed scalars, memory used again, products; BLAS threads, all of them given back."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import DTYPES, make_network, make_rows
from threadpoolctl import threadpool_info, threadpool_limits

from sktagi.engine import fast, messages
from sktagi.engine.fast import (
    EPS,
    ONE,
    TINY,
    ZERO,
    Buffer,
    has_nan,
    mean_of_columns,
    product_over,
    threads_for_layers,
    threads_for_rows,
    transposed,
)
from sktagi.engine.learning import Learner, Settings

# ------------------------------------------------------------------------------------ small things


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars_keep_the_dtype_of_arrays_and_cannot_be_changed(dtype):
    char = np.dtype(dtype).char
    values = {"ZERO": 0, "ONE": 1, "EPS": np.finfo(dtype).eps, "TINY": np.finfo(dtype).tiny}
    for table, value in zip((ZERO, ONE, EPS, TINY), values.values(), strict=True):
        assert table[char] == value
        assert table[char].dtype == (table[char] + np.ones(2, dtype)).dtype == dtype
        with pytest.raises(ValueError, match="read-only"):
            table[char][...] = 7


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_buffer_gives_the_same_memory_again_and_more_when_needed(dtype):
    buffer = Buffer(np.dtype(dtype))
    first = buffer.shaped(3, 4)
    assert first.shape == (3, 4)
    assert first.dtype == dtype
    assert buffer.shaped(3, 4) is first
    smaller = buffer.shaped(2, 5)
    assert smaller.shape == (2, 5)
    assert np.shares_memory(smaller, first)
    larger = buffer.shaped(2, 3, 4)
    assert larger.shape == (2, 3, 4)
    assert not np.shares_memory(larger, first)
    for values in (first, smaller, larger):
        assert values.flags.c_contiguous


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("n_terms", [1, 5])
def test_products_are_those_of_matrices(lead, n_terms):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(*lead, 4, n_terms)), rng.normal(size=(*lead, n_terms, 6))
    out = np.empty((*lead, 4, 6))
    result = product_over(n_terms, stacked=bool(lead))(a, b, out)
    assert result is out
    np.testing.assert_allclose(out, np.einsum("...ik,...kj->...ij", a, b), rtol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_is_found_wherever_it_is(dtype):
    values = np.random.default_rng(2).normal(scale=1e6, size=(3, 7)).astype(dtype)
    assert not has_nan(values)
    assert not has_nan(values[:0])
    for index in np.ndindex(values.shape):
        with_nan = values.copy()
        with_nan[index] = np.nan
        assert has_nan(with_nan)
        assert has_nan(with_nan.T)


def test_transposing_copies_nothing():
    a = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(transposed(a)[1], a[1].T)
    assert np.shares_memory(transposed(a), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_of_columns_is_the_mean_over_the_last_axis(dtype):
    values = np.random.default_rng(1).normal(size=(2, 5, 7)).astype(dtype)
    means = mean_of_columns(values)
    assert means.dtype == dtype
    np.testing.assert_allclose(means, values.mean(axis=-1), rtol=20 * np.finfo(dtype).eps)


# ----------------------------------------------------------------------------------------- threads


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def given():
    with threadpool_limits(limits=2, user_api="blas"):
        yield blas_threads()


def test_small_products_use_one_thread_and_large_ones_all(given):
    layers = make_network([3, 50, 1]).layers
    with threads_for_layers(layers, 10):
        assert set(blas_threads()) == {1}
    assert blas_threads() == given
    for n_rows in (fast.WORTH_THREADS, 1):  # one row makes no products of matrices
        with threads_for_layers(layers, n_rows):
            assert blas_threads() == given


def test_factors_of_wide_networks_use_one_thread_unless_rows_are_many(given):
    with threads_for_rows(fast.WORTH_THREADS, 100):
        assert set(blas_threads()) == {1}
    with threads_for_rows(fast.WORTH_THREADS, fast.MANY_ROWS):
        assert blas_threads() == given
    assert blas_threads() == given


def test_a_joint_batch_of_a_wide_network_factors_in_one_thread(given, monkeypatch):
    seen = []

    def joint(*args):
        seen.append(blas_threads())
        return learn(*args)

    learn = messages.joint
    monkeypatch.setattr(messages, "joint", joint)
    monkeypatch.setattr(fast, "WORTH_THREADS", 100)
    net, data = make_network([3, 20, 1]), make_rows(12, 3)
    Learner(net, Settings(6)).learn(data, np.arange(12)[None])
    assert seen == [[1] * len(given)] * 2
    assert blas_threads() == given


def test_threads_that_fit_at_once_give_all_back(given):
    """The first in saves, the last out restores, in whatever order they come and go."""
    layers = make_network([3, 50, 1]).layers
    first, second, third = (threads_for_layers(layers, 10) for _ in range(3))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    third.__enter__()
    second.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    third.__exit__(None, None, None)
    assert blas_threads() == given


def test_fits_in_several_threads_leave_the_process_as_it_was(given):
    def fit(seed):
        net, data = make_network([3, 20, 1], seed=seed), make_rows(60, 3)
        with threads_for_layers(net.layers, 10):
            Learner(net, Settings(10)).learn(data, np.arange(60)[None])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fit, range(40)))
    assert blas_threads() == given


def test_a_context_that_nobody_leaves_ends_with_its_object(given):
    """An interrupt between entering and the body of with."""
    context = threads_for_layers(make_network([3, 50, 1]).layers, 10)
    context.__enter__()
    assert set(blas_threads()) == {1}
    del context
    assert blas_threads() == given
