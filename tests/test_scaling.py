"""Running statistics, and networks that say the same when these change."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._scaling import Moments, Scaling

# Statistics and units


def moments_of(values, start=None):
    start = Moments.empty(values.shape[1]) if start is None else start
    return start.updated(values, np.ones(len(values)), "X")


def test_change_of_statistics_is_a_change_of_units():
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(50, 3)), 1 + 2 * rng.normal(size=(30, 3))
    old = moments_of(X)
    new = moments_of(more, old)
    change = old.change_to(new)
    before, after = (moments.standardise(X, np.empty(X.shape)) for moments in (old, new))
    np.testing.assert_allclose(after * change.ratio + change.shift, before)
    assert old.change_to(old).is_none


def test_guesses_and_outgrown_units_change_no_weights():
    rng = np.random.default_rng(0)
    few = moments_of(rng.normal(size=(9, 1)))
    assert few.change_to(moments_of(rng.normal(size=(1, 1)), few)).is_none
    constant = moments_of(np.full((100, 1), 3.0))
    varies = moments_of(rng.normal(size=(50, 1)), constant)
    assert constant.change_to(varies).is_none
    assert not varies.change_to(moments_of(rng.normal(size=(50, 1)), varies)).is_none
    noise = moments_of(1e-6 * rng.normal(size=(100, 1)))
    assert noise.change_to(moments_of(rng.normal(size=(1, 1)), noise)).is_none


# Values that were not observed


def incomplete(n=80, seed=0, dtype=np.float64):
    """Four columns, of which the last two are seldom and never observed; weights."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 4)) * [1, 1e3, 1e-4, 1] + [5, 0, 2, 1]
    values[rng.random((n, 4)) < [0.3, 0.5, 0.8, 1.0]] = np.nan
    return values.astype(dtype), rng.uniform(0.2, 3, size=n)


def take_in(values, weight, cuts=(), start=None):
    moments = Moments.empty(values.shape[1]) if start is None else start
    for rows in np.split(np.arange(len(values)), cuts):
        moments = moments.updated(values[rows], weight[rows], "y")
    return moments


def assert_equal_moments(mine, theirs, rtol=1e-10):
    np.testing.assert_allclose(mine.weight, theirs.weight, rtol=rtol)
    np.testing.assert_allclose(mine.mean, theirs.mean, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(mine.deviation, theirs.deviation, rtol=rtol, atol=1e-18)
    np.testing.assert_allclose(mine.scale, theirs.scale, rtol=rtol)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [80, 9000])
def test_statistics_are_those_of_the_values_that_were_observed(weighted, dtype, n):
    values, weight = incomplete(n, dtype=dtype)
    weight = weight if weighted else np.ones(n)
    moments = take_in(values, weight)
    values = values.astype(np.float64)
    known = ~np.isnan(values)
    assert known.any(axis=0).tolist() == [True, True, True, False]
    for column in range(3):
        some, w = values[known[:, column], column], weight[known[:, column]]
        mean = np.average(some, weights=w)
        assert moments.weight[column] == pytest.approx(w.sum(), rel=1e-12)
        assert moments.mean[column] == pytest.approx(mean, rel=1e-9, abs=1e-9)
        var = np.average((some - mean) ** 2, weights=w)
        assert moments.scale[column] == pytest.approx(np.sqrt(var), rel=1e-9)
    if not weighted:
        np.testing.assert_allclose(moments.mean[:3], np.nanmean(values[:, :3], axis=0), rtol=1e-9)
        np.testing.assert_allclose(
            np.square(moments.scale[:3]), np.nanvar(values[:, :3], axis=0), rtol=1e-9
        )


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_chunks_with_missing_values_give_the_statistics_of_all_rows(size):
    values, weight = incomplete()
    values[: 2 * size, 1] = np.nan  # a column that begins later, and one that is gone for a while
    values[3 * size : 5 * size, 0] = np.nan
    parts = take_in(values, weight, np.arange(size, 80, size))
    assert_equal_moments(parts, take_in(values, weight))


def test_joined_and_separated_statistics_of_missing_values():
    values, weight = incomplete()
    values[:50, 1] = np.nan  # observed in one of the halves only
    whole = take_in(values, weight)
    first, second = take_in(values[:50], weight[:50]), take_in(values[50:], weight[50:])
    assert_equal_moments(first.joined(second), whole)
    assert_equal_moments(second.joined(first), whole)
    assert_equal_moments(whole.without(first), second, rtol=1e-8)
    nothing = whole.without(whole)
    assert not nothing.weight.any()
    assert_equal_moments(nothing.joined(whole), whole)


def test_columns_that_nobody_has_observed_are_left_alone():
    values, weight = incomplete()
    moments = take_in(values, weight)
    assert (moments.weight[3], moments.mean[3], moments.scale[3]) == (0, 0, 1)
    new = np.random.default_rng(1).normal(size=(10, 4))
    standardised = moments.standardise(new, np.empty((10, 4)))
    np.testing.assert_array_equal(standardised[:, 3], new[:, 3])
    assert (standardised[:, :3] != new[:, :3]).all()
    more = take_in(*incomplete(seed=1), start=moments)
    change = moments.change_to(more)
    assert (change.ratio[3], change.shift[3]) == (1, 0)
    assert (change.ratio[:3] != 1).all()
    # The first values that it has make its units, and change no weights: nothing was learned.
    values[:, 3] = values[::-1, 0]
    seen = take_in(values, weight, start=moments)
    assert seen.scale[3] == pytest.approx(take_in(values, weight).scale[3])
    change = moments.change_to(seen)
    assert (change.ratio[3], change.shift[3]) == (1, 0)


def test_units_settle_with_the_rows_that_observe_them():
    """Ten rows settle the spread of a column, if they observe it."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 2))
    values[6:, 1] = np.nan
    moments = take_in(values, np.ones(60), np.arange(3, 60, 3))
    change = moments.change_to(moments_of(3 * rng.normal(size=(30, 2)), moments))
    assert change.ratio[0] != 1
    assert change.ratio[1] == 1


def test_constant_columns_stay_constant_beside_missing_values():
    values = np.full((30, 2), 0.1)
    values[::3, 0] = np.nan
    moments = take_in(values, np.linspace(0.1, 3, 30), [1, 2, 10])
    np.testing.assert_array_equal(moments.deviation, 0)
    np.testing.assert_array_equal(moments.scale, 1)
    np.testing.assert_allclose(moments.mean, 0.1, rtol=1e-15)


@pytest.mark.parametrize("size", [1, 20])
def test_values_too_large_to_standardise_are_refused_beside_missing_ones(size):
    values = np.full((20, 2), 1e200)
    values[::2] *= -1
    values[3:, 1] = np.nan
    with pytest.raises(ValueError, match="y has values too large to standardise"):
        take_in(values, np.ones(20), np.arange(size, 20, size))


def test_scaling_of_missing_targets_there_and_back():
    y, weight = incomplete()
    X = np.random.default_rng(2).normal(size=(80, 3))
    scaling = Scaling.empty(X, y.shape[1]).updated(X, y, weight)
    targets = scaling.targets(y, np.float64)
    np.testing.assert_array_equal(np.isnan(targets), np.isnan(y))
    known = ~np.isnan(targets[:, 0])
    assert np.average(targets[known, 0], weights=weight[known]) == pytest.approx(0, abs=1e-12)
    back, var = scaling.original(targets.T, np.ones(targets.T.shape))
    np.testing.assert_allclose(back.T, y, rtol=1e-12)
    np.testing.assert_allclose(var[:, 0], np.square(scaling.y.scale))
    parts = Scaling.empty(X, y.shape[1])
    for rows in np.split(np.arange(80), [5, 33]):
        parts = parts.updated(X[rows], y[rows], weight[rows])
    halves = [
        Scaling.empty(X, y.shape[1]).updated(X[s], y[s], weight[s])
        for s in (slice(30), slice(30, 80))
    ]
    joined = halves[0].joined(halves[1])
    for other in (parts, joined):
        for mine, theirs in zip(other, scaling, strict=True):
            assert_equal_moments(mine, theirs)
    for mine, theirs in zip(joined.without(halves[0]), halves[1], strict=True):
        assert_equal_moments(mine, theirs, rtol=1e-8)


# Estimators


def predictions(model, X):
    if isinstance(model, TAGIClassifier):
        return model.predict_log_proba(X)
    return model.predict(X)


def make_stream(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = 100 + 20 * rng.normal(size=(n, 3))
    return X, (X[:, 0] + X[:, 1] ** 2 / 100 > 200).astype(float)


def as_if_hardly_weighed(scaling):
    """Statistics of the same rows with tiny weights: the next rows will outweigh them."""
    return Scaling(
        *(replace(m, weight=1e-9 * m.weight, deviation=1e-9 * m.deviation) for m in scaling)
    )


@pytest.mark.parametrize("shift", [0, 30])
@pytest.mark.parametrize("size", [1, 40])
def test_no_jump_when_the_statistics_change(shift, size):
    X, y = make_stream()
    y = 1e3 * y + X[:, 2]
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=2, random_state=0)
    model.partial_fit(X[:200], y[:200])
    before, std_before = model.predict(X, return_std=True)
    # A tiny weight in the update itself: only the statistics change, and they change much.
    model._scaling = as_if_hardly_weighed(model._scaling)
    model.partial_fit(
        1.5 * X[:size] + shift, 2 * y[:size] + shift, sample_weight=np.full(size, 1e-9)
    )
    after, std_after = model.predict(X, return_std=True)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-4 * y.std())
    ratio = std_after / std_before
    assert ratio.max() < 1.5
    assert ratio.min() > 1 / 1.5


def test_a_wider_range_does_not_wipe_out_what_was_learned():
    X, y = make_stream(2000)
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=2, random_state=0)
    for start in range(0, 2000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    error = np.mean((model.predict(X) - y) ** 2)
    far = X[:2] + 2000  # two rows at a hundred spreads: one would be a wrong reading
    model.partial_fit(far, [1.0, 1.0], sample_weight=[5e-4, 5e-4])
    moved = model._scaling.x.scale
    model.partial_fit(far, [1.0, 1.0], sample_weight=[0.5, 0.5])
    assert (model._scaling.x.scale > 1.5 * moved).all()
    assert np.mean((model.predict(X) - y) ** 2) < 1.5 * error


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("first", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stream_may_start_with_equal_rows(estimator, first, dtype):
    X, y = make_stream()
    X = X.astype(dtype)
    model = estimator(hidden_layer_sizes=(10,), n_members=1, random_state=0)
    known = {"classes": [0.0, 1.0]} if estimator is TAGIClassifier else {}
    for row in [0] * first + list(range(100)):
        model.partial_fit(X[row : row + 1], y[row : row + 1], **known)
        assert np.isfinite(predictions(model, X)).all()
    assert model.score(X[100:], y[100:]) > {TAGIRegressor: 0.2, TAGIClassifier: 0.75}[estimator]


def test_a_column_that_wakes_up_late_is_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    X[:200, 1] = 7.0
    X[:100, 0] *= 1e-6  # and one that outgrows its spread
    y = X[:, 0] + 2 * (X[:, 1] - 7) * (np.arange(1000) >= 200) + 0.1 * rng.normal(size=1000)
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=1, random_state=0)
    for start in range(0, 900, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
    assert model.score(X[900:], y[900:]) > 0.8


def test_warm_fit_on_other_rows_keeps_the_function():
    X, y = make_stream()
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=2, warm_start=True, random_state=0)
    model.fit(X, y)
    before = model.predict(X)
    model.set_params(max_iter=0).fit(2 * X + 50, 3 * y + 7)
    np.testing.assert_allclose(model.predict(X), before, atol=1e-9)
    assert model._scaling.x.mean[0] > 200


# Columns that vary by rounding only


OFFSETS = [1e18, -1.7e18, 1e15, 1e100]


def rounded(offset, n=200, seed=0):
    """Numbers of this size that differ in their last bits."""
    steps = np.random.default_rng(seed).integers(0, 4, size=n)
    return offset + steps * np.spacing(abs(offset))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("way", ["fit", "auto", "stream", "full", "float32"])
@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_a_column_that_varies_by_rounding_is_as_if_it_were_constant(estimator, way, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    first = {}
    if estimator is TAGIClassifier:
        y, first = y > 0, {"classes": [False, True]}
    if way == "float32":
        X, offset = X.astype(np.float32), 2.0**20
    X[:, 1] = offset
    noisy = X.copy()
    noisy[:, 1] = rounded(offset)
    params = {"hidden_layer_sizes": "auto" if way == "auto" else (4,), "n_members": 2}
    params["covariance_type"] = "full" if way == "full" else "diag"
    exact, found = (estimator(**params, max_iter=3, random_state=0) for _ in range(2))
    for model, rows in ((exact, X), (found, noisy)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if way == "stream":
                model.partial_fit(rows[:90], y[:90], **first).partial_fit(rows[90:], y[90:])
            else:
                model.fit(rows, y)
    if way == "float32":  # the bits of this type are not rounding
        assert not found._scaling.x.is_rounding.any()
        return
    spread = "predict" if estimator is TAGIRegressor else "predict_proba"
    expected = getattr(exact, spread)(X, return_std=True)
    np.testing.assert_allclose(getattr(found, spread)(noisy, return_std=True), expected, rtol=1e-6)
    later = noisy.copy()
    later[:, 1] += 1e6 * np.spacing(abs(offset))
    np.testing.assert_allclose(getattr(found, spread)(later, return_std=True), expected, rtol=1e-6)


def test_a_column_that_varies_by_rounding_is_named_once_and_its_errors_do_not_count():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "time": rounded(1.7e18)})
    y = X["a"].to_numpy()
    model = TAGIRegressor((), n_members=1, random_state=0)
    with pytest.warns(
        UserWarning, match=r"rounded by, and are not used: time\. Subtract"
    ) as caught:
        model.fit(X, y)
    assert [w.filename for w in caught] == [__file__]
    assert model.coef_[1] == 0
    np.testing.assert_array_equal(
        model.predict(X, return_std=True, X_std=[0.0, 1e5]), model.predict(X, return_std=True)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, y)
    stream = TAGIRegressor((), n_members=1, random_state=0)
    with pytest.warns(UserWarning, match="time") as caught:
        stream.partial_fit(X, y)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.partial_fit(X, y)


def test_a_column_with_a_large_offset_that_varies_is_used():
    """Seconds apart, as nanoseconds since 1970; and a second apart in all."""
    for step in (1e9, 1e7):
        X = 1.7e18 + step * np.arange(100.0)[:, None]
        y = np.sin(np.arange(100) / 20)
        model = TAGIRegressor(random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
        assert model.score(X, y) > 0.99
