"""Gross outliers among targets are set aside, and nothing else is."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sktagi import TAGIRegressor
from sktagi._outliers import gross_outliers


def made(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n), rng


def found(X, y, weight=None):
    columns = y.reshape(len(y), -1)
    return gross_outliers(X, columns, np.ones(len(y)) if weight is None else weight)


@pytest.mark.parametrize("size", [20, 100, 1e6])
@pytest.mark.parametrize("share", [0.002, 0.01, 0.05])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_targets_far_from_all_others_are_found(size, share, container):
    X, y, rng = made()
    wrong = rng.permutation(500)[: int(share * 500)]
    y[wrong] += size * rng.choice([-1, 1], len(wrong))
    assert set(np.flatnonzero(found(container(X), y))) == set(wrong)


@pytest.mark.parametrize("seed", range(5))
def test_other_targets_are_not(seed):
    X, y, rng = made(2000, seed)
    n = len(y)
    rare = rng.random(n) < 0.01
    kinds = {
        "clean": y,
        "log-normal": np.exp(1.5 * rng.normal(size=n)),
        "binary": rare * 1.0,
        "counts": rng.poisson(0.03, n) * 1.0,
        "claims": np.where(rng.random(n) < 0.05, np.exp(5 + rng.normal(size=n)), 0),
        "constant": np.ones(n),
        "a step that features tell": y + 100 * (X[:, 1] > 1.93),
    }
    for kind, values in kinds.items():
        assert not found(X, values).any(), kind


def test_few_rows_tell_no_outliers():
    X, y, _ = made(19)
    y[0] = 1e6
    assert not found(X, y).any()


def test_copies_of_few_rows_tell_no_outliers_and_no_features():
    """A row of weight two is the row twice, and a copy says nothing of where outliers occur."""
    X, y, rng = made(19)
    y[3] += 1e3
    copies = np.arange(19).repeat(3)
    assert not found(X[copies], y[copies]).any()
    model = TAGIRegressor((4,), n_members=1, random_state=0)
    weighted = clone(model).partial_fit(X, y, sample_weight=np.full(19, 3.0))
    repeated = clone(model).partial_fit(X[copies], y[copies])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    X, y, rng = made(200)
    wrong = rng.permutation(200)[:6]
    y[wrong] += 1e3
    copies = np.arange(200).repeat(3)
    assert set(copies[found(X[copies], y[copies])[:, 0]]) == set(wrong)


def test_every_target_has_outliers_of_its_own_and_missing_ones_have_none():
    X, y, _ = made()
    Y = np.column_stack([y, 1000 * y])
    Y[3, 0], Y[5, 1], Y[7, 0] = 1e4, 1e7, np.nan
    expected = np.zeros(Y.shape, dtype=bool)
    expected[3, 0] = expected[5, 1] = True
    np.testing.assert_array_equal(found(X, Y), expected)


def test_weights_are_copies():
    X, y, rng = made(200)
    y[:2] = 500
    weight = rng.integers(1, 4, 200)
    heavy = found(X, y, weight.astype(float))
    copies = found(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(np.repeat(heavy, weight, axis=0), copies)


def test_units_do_not_matter():
    X, y, _ = made(200)
    y[:2] = 500
    np.testing.assert_array_equal(found(1e6 * X + 5, 1e-9 * y - 7e-9), found(X, y))


@pytest.mark.parametrize("sigma_v", ["auto", "constant"])
def test_wrong_targets_change_neither_the_mean_nor_the_std(sigma_v):
    """One in a hundred is off by a hundred standard deviations."""
    X, y, rng = made(600)
    X_new, y_new, _ = made(1000, seed=1)
    params = {"sigma_v": sigma_v, "n_members": 4, "max_iter": 40, "random_state": 0}
    mean, std = TAGIRegressor(**params).fit(X, y).predict(X_new, return_std=True)
    wrong = rng.permutation(600)[:6]
    y[wrong] += 100 * y.std() * rng.choice([-1, 1], 6)
    with pytest.warns(UserWarning, match="6 of 600 targets are gross outliers"):
        model = TAGIRegressor(**params).fit(X, y)
    mean_off, std_off = model.predict(X_new, return_std=True)
    error, error_off = (np.sqrt(np.mean(np.square(y_new - m))) for m in (mean, mean_off))
    assert error_off < 1.1 * error
    assert 0.85 < np.median(std_off) / np.median(std) < 1.15
    assert model.n_samples_seen_ == 594


def test_wrong_targets_for_validation_do_not_change_the_std():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(400, 2))
    y = X[:, 0] + 0.2 * rng.normal(size=400)
    weight = np.where(np.arange(300) < 5, 0.0, 1.0)  # rows without weight are left out as well
    std = []
    for wrong in (0, 2):
        y_val = y[300:].copy()
        y_val[:wrong] = 1e6
        model = TAGIRegressor(max_iter=15, n_members=2, random_state=0)
        with pytest.warns(UserWarning, match="gross outliers") if wrong else nullcontext():
            model.fit(X[:300], y[:300], weight, X_val=X[300:], y_val=y_val)
        std.append(model.predict(X, return_std=True)[1])
    np.testing.assert_allclose(std[1], std[0], rtol=0.2)
    with pytest.raises(ValueError, match="y_val has gross outliers only"):
        model.fit(X[:300], y[:300], X_val=X[:2], y_val=[1e6, 1e6])


def test_a_given_noise_keeps_them():
    X, y, _ = made(100)
    y[0] = 1e4
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = TAGIRegressor(sigma_v=0.3, max_iter=2, n_members=2, random_state=0).fit(X, y)
    assert model.n_samples_seen_ == 100


def test_a_row_with_another_target_is_still_learned():
    X, y, _ = made(200)
    Y = np.column_stack([y, y])
    Y[0, 0] = 1e4
    with pytest.warns(UserWarning, match="1 of 400 targets"):
        model = TAGIRegressor(max_iter=2, n_members=2, random_state=0).fit(X, Y)
    assert model.n_samples_seen_ == 200


def test_logarithms_of_what_spans_many_orders_have_none():
    X, y, _ = made(300)
    prices = np.exp(3 * y)
    prices[:3] *= 1e3  # far off in units of y, and not in their logarithm
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        TAGIRegressor(target_transform="log", max_iter=3, n_members=2, random_state=0).fit(
            X, prices
        )


@pytest.mark.parametrize("sigma_v", ["constant", "auto"])
def test_rare_values_are_learned_and_not_taken_for_outliers(sigma_v):
    rng = np.random.default_rng(1)
    X, X_new = rng.normal(size=(2, 2000, 3))
    y, y_new = ((rng.random(2000) < 0.01) * 1.0 for _ in range(2))
    model = TAGIRegressor(sigma_v=sigma_v, max_iter=20, n_members=3, random_state=0).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    assert 0.003 < mean.mean() < 0.03
    assert np.sqrt(np.mean(np.square((y_new - mean) / std))) < 3


@pytest.mark.parametrize("size", [100.0, 1e6])
@pytest.mark.parametrize("first", [0, 200])
def test_wrong_targets_of_a_stream_change_neither_the_mean_nor_the_std(size, first):
    """They do not make the units of the target larger, in which the prior has its width."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(900, 2))
    truth = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    y = truth + 0.2 * rng.normal(size=900)
    wrong = (np.arange(900) % 100 == 7) & (np.arange(900) >= first)
    std = []
    for targets in (y, np.where(wrong, y + size, y)):
        model = TAGIRegressor(n_members=1, random_state=0)
        for start in range(0, 900, 30):
            rows = slice(start, start + 30)
            model.partial_fit(X[rows], targets[rows])
        mean, stds = model.predict(X, return_std=True)
        std.append(np.median(stds))
        assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.3
    assert std[1] < 2 * std[0]


def test_a_target_of_a_stream_that_is_too_large_is_refused():
    X, y = np.random.default_rng(0).normal(size=(2, 50, 1))
    model = TAGIRegressor(n_members=1, random_state=0).partial_fit(X, y[:, 0])
    with pytest.raises(ValueError, match="too large"):
        model.partial_fit(X[:3], [1e200, 1.0, 2.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_target_of_a_stream_that_single_precision_cannot_square_is_learned(dtype):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 1)).astype(dtype), rng.normal(size=50)
    model = TAGIRegressor(n_members=1, random_state=0).partial_fit(X, y)
    model.partial_fit(X[:3], [1e100, 1.0, 2.0])
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std < 10).all()
