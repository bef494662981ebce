"""BLAS threads: one for small products, as many as there are for large ones, and all given back."""

import numpy as np
import pytest
from helpers import make_network, make_rows
from threadpoolctl import threadpool_info, threadpool_limits

from sktagi.engine import learning, threads
from sktagi.engine.learning import Settings, learn_rows
from sktagi.engine.threads import threads_for_layers, threads_for_rows


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
    with threads_for_layers(layers, threads.WORTH_THREADS):
        assert blas_threads() == given


def test_factors_of_wide_networks_use_one_thread_unless_rows_are_many(given):
    with threads_for_rows(threads.WORTH_THREADS, 100):
        assert set(blas_threads()) == {1}
    with threads_for_rows(threads.WORTH_THREADS, threads.MANY_ROWS):
        assert blas_threads() == given
    assert blas_threads() == given


def test_a_joint_batch_of_a_wide_network_factors_in_one_thread(given, monkeypatch):
    seen = []

    def joint_message(*args):
        seen.append(blas_threads())
        return learn(*args)

    learn = learning.joint_message
    monkeypatch.setattr(learning, "joint_message", joint_message)
    monkeypatch.setattr(threads, "WORTH_THREADS", 100)
    learn_rows(make_network([3, 20, 1]), make_rows(12, 3), np.arange(12)[None], Settings(6))
    assert seen == [[1] * len(given)] * 2
    assert blas_threads() == given
