"""Streams meet everything: outliers, jumps, idle sensors, noise that grows, rows of no weight."""

import pickle

import numpy as np
import pytest

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.merging import fork, merge

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def linear(seed, n):
    """Rows, a function of standard deviation 0.8, and noise of 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 0.8 * X[:, 0], 0.3 * rng.normal(size=n)


def streamed(X, y, size=1, **params):
    """Means and stds of rows before they are learned, and the model."""
    params = {"n_members": 2, "random_state": 0, **params}
    model = TAGIRegressor(**params)
    mean, std = np.zeros((2, *y.shape))
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        if start:
            mean[rows], std[rows] = model.predict(X[rows], return_std=True)
        model.partial_fit(X[rows], y[rows])
    return mean, std, model


def rms(error):
    return np.sqrt(np.mean(np.square(error)))


# Outliers


@SEEDS
@pytest.mark.parametrize("size", [30.0, 1e4])
@pytest.mark.parametrize(
    ("standardize", "sigma_v"), [(True, "auto"), (False, "constant"), (True, 0.3), (False, 0.3)]
)
def test_an_outlier_is_forgotten_at_once(seed, size, standardize, sigma_v):
    X, clean, noise = linear(seed, 460)
    params = {"standardize": standardize, "sigma_v": sigma_v}
    y = clean + noise
    without = streamed(X, y, **params)[0]
    y[400] = size
    mean, std, _ = streamed(X, y, **params)
    np.testing.assert_array_equal(mean[:401], without[:401])
    after = slice(401, 460)
    assert rms((mean - clean)[after]) < 1.15 * rms((without - clean)[after])
    assert std[after].max() < 2


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("sigma_v", ["auto", 0.3])
@pytest.mark.parametrize("at", [3, 12, 25])
def test_an_outlier_among_the_first_rows_is_forgotten_in_twenty_rows(standardize, sigma_v, at):
    X, clean, noise = linear(0, 120)
    y = clean + noise
    params = {"standardize": standardize, "sigma_v": sigma_v}
    without = streamed(X, y, **params)[0]
    y[at] = 1e4
    mean, std, _ = streamed(X, y, **params)
    assert rms((mean - clean)[at + 21 :]) < 1.3 * rms((without - clean)[at + 21 :])
    assert std[at + 21 :].max() < 3


@pytest.mark.parametrize("sigma_v", ["auto", 0.3])
@pytest.mark.parametrize("wrong", [[300, 301], [150, 200, 250, 300]])
def test_several_outliers_are_no_jump(sigma_v, wrong):
    X, clean, noise = linear(1, 360)
    y = clean + noise
    without = streamed(X, y, sigma_v=sigma_v)[0]
    y[wrong] = 1e3
    mean, std, _ = streamed(X, y, sigma_v=sigma_v)
    assert rms((mean - clean)[302:]) < 1.3 * rms((without - clean)[302:])
    assert std[302:].max() < 2


@pytest.mark.parametrize("wrong", [[307], [301, 312, 323, 334, 345]])
@pytest.mark.parametrize("sigma_v", ["auto", 0.3])
def test_outliers_of_a_chunk(sigma_v, wrong):
    X, clean, noise = linear(2, 500)
    y = clean + noise
    without = streamed(X, y, 50, sigma_v=sigma_v)[0]
    y[wrong] = 1e3
    mean = streamed(X, y, 50, sigma_v=sigma_v)[0]
    assert rms((mean - clean)[350:]) < 1.15 * rms((without - clean)[350:])


def test_an_outlier_of_one_target_does_not_harm_another():
    X, clean, noise = linear(3, 400)
    Y = np.column_stack([clean + noise, 5 - clean + noise[::-1]])
    without = streamed(X, Y)[0]
    Y[350, 1] = 1e4
    mean = streamed(X, Y)[0]
    for k in range(2):
        truth = clean if k == 0 else 5 - clean
        assert rms(mean[351:, k] - truth[351:]) < 1.15 * rms(without[351:, k] - truth[351:])


@pytest.mark.parametrize("sigma_v", ["auto", 0.3])
@pytest.mark.parametrize("size", [30.0, 1e4])
def test_a_row_does_not_carry_its_own_prediction_beyond_itself(sigma_v, size):
    for seed in range(3):
        for before in (0, 1, 3, 10):
            X, clean, noise = linear(seed, before + 1)
            y = clean + noise
            model = TAGIRegressor(
                n_members=1, random_state=seed, standardize=False, sigma_v=sigma_v
            )
            for k in range(before):
                model.partial_fit(X[k : k + 1], y[k : k + 1])
            old = model.predict(X[-1:])[0] if before else 0.0
            model.partial_fit(X[-1:], [size])
            assert -0.01 < (model.predict(X[-1:])[0] - old) / (size - old) < 1.001


# Jumps that stay


@SEEDS
@pytest.mark.parametrize(("standardize", "sigma_v"), [(True, "auto"), (False, "auto"), (True, 0.3)])
@pytest.mark.parametrize("size", [8.0, 250.0])
def test_a_level_that_jumps_is_followed_after_five_rows(seed, standardize, sigma_v, size):
    X, clean, noise = linear(seed, 480)
    clean[400:] += size
    mean, std, _ = streamed(X, clean + noise, standardize=standardize, sigma_v=sigma_v)
    assert rms((mean - clean)[406:430]) < 0.6
    assert rms((mean - clean)[430:]) < 0.4
    assert std[430:].max() < 2


@SEEDS
@pytest.mark.parametrize(("sigma_v", "chunk"), [("auto", 1), ("auto", 10), (0.3, 1)])
@pytest.mark.parametrize("size", [2.0, 2.6])
def test_a_small_jump_of_the_level_is_followed_soon(seed, sigma_v, chunk, size):
    """Of two and three standard deviations of the target, seven and nine of the noise."""
    X, clean, noise = linear(seed, 800)
    clean[600:] += size
    mean, std, _ = streamed(X, clean + noise, chunk, sigma_v=sigma_v)
    assert rms((mean - clean)[610:640]) < 0.5
    assert rms((mean - clean)[640:]) < 0.3
    assert std[640:].mean() < 0.46


@pytest.mark.parametrize("chunk", [1, 10])
@pytest.mark.parametrize("degrees", [2, 3])
def test_noise_of_heavy_tails_is_no_jump(degrees, chunk):
    rng = np.random.default_rng(degrees)
    X = rng.normal(size=(1500, 3))
    y = 0.8 * X[:, 0] + 0.3 * rng.standard_t(degrees, 1500)
    model, scores = TAGIRegressor(n_members=1, random_state=0), []
    for start in range(0, 1500, chunk):
        model.partial_fit(X[start : start + chunk], y[start : start + chunk])
        scores.append(model.drift_score_)
    assert np.nanmax(scores) < 4  # a jump is 5


@pytest.mark.parametrize("size", [10, 50, 150])
def test_a_level_that_jumps_within_a_chunk_or_before_it_is_followed(size):
    X, clean, noise = linear(0, 900)
    clean[620:] += 30
    mean, _, model = streamed(X, clean + noise, size)
    assert rms((mean - clean)[750:]) < 0.3
    assert model._scaling.y.mean == pytest.approx(30, abs=4)


@pytest.mark.parametrize(("standardize", "sigma_v"), [(True, "auto"), (False, "auto"), (True, 0.3)])
@pytest.mark.parametrize(
    ("before", "chunk", "size"),
    [
        (60, 50, 30.0),
        (310, 50, 30.0),
        (340, 50, 30.0),
        (100, 5, 1e3),
        (307, 10, 1e4),
        (300, 25, 1e6),
    ],
)
def test_a_level_that_jumps_within_calls_is_followed_by_the_next_but_one(
    before, chunk, size, standardize, sigma_v
):
    X, clean, noise = linear(0, before + 200)
    clean[before:] += size
    mean, std, _ = streamed(X, clean + noise, chunk, standardize=standardize, sigma_v=sigma_v)
    assert rms((mean - clean)[before + 2 * chunk :]) < 0.3
    assert std[before + 2 * chunk :].max() < 2


@SEEDS
def test_a_unit_that_changes_is_followed(seed):
    X, clean, noise = linear(seed, 500)
    clean[400:] *= 100
    noise[400:] *= 100
    mean, std, _ = streamed(X, clean + noise)
    assert rms((mean - clean)[410:450]) < 50  # of 80
    assert rms((mean - clean)[450:]) < 30
    assert 20 < std[450:].mean() < 100


def test_one_of_two_targets_jumps():
    X, clean, noise = linear(0, 450)
    Y = np.column_stack([clean + noise, clean + noise[::-1]])
    without = streamed(X, Y)[0]
    Y[400:, 1] += 30
    mean = streamed(X, Y)[0]
    assert rms(mean[406:, 1] - 30 - clean[406:]) < 0.6
    assert rms(mean[406:, 0] - clean[406:]) < 1.2 * rms(without[406:, 0] - clean[406:])


def test_full_covariances_jump_too():
    X, clean, noise = linear(0, 160)
    clean[100:] += 30
    params = {"covariance_type": "full", "hidden_layer_sizes": (5,), "n_members": 1}
    mean = streamed(X, clean + noise, **params)[0]
    assert rms((mean - clean)[106:]) < 0.8


def test_a_fit_that_goes_on_as_a_stream_follows_a_jump():
    X, clean, noise = linear(0, 400)
    clean[300:] += 30
    y = clean + noise
    model = TAGIRegressor(n_members=2, max_iter=10, random_state=0).fit(X[:300], y[:300])
    for k in range(300, 400):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    assert rms(model.predict(X[300:]) - clean[300:]) < 0.4


def test_a_run_of_surprising_rows_is_kept_in_the_state():
    X, clean, noise = linear(0, 320)
    y = clean + noise
    y[300:] += 30
    model = streamed(X[:303], y[:303])[2]
    assert model._run.n_rows.tolist() == [3]
    again = TAGIRegressor.from_bytes(model.to_bytes())
    copy = pickle.loads(pickle.dumps(model))
    for k in range(303, 320):
        for one in (model, again, copy):
            one.partial_fit(X[k : k + 1], y[k : k + 1])
    assert model._run is None
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    np.testing.assert_array_equal(model.predict(X), copy.predict(X))
    assert abs(model.predict(X[300:]).mean() - 30) < 2


def test_copies_one_of_which_jumped_can_be_merged():
    X, clean, noise = linear(0, 400)
    clean[300:] += 30
    y = clean + noise
    start = fork(streamed(X[:300], y[:300])[2])
    shards = [pickle.loads(pickle.dumps(start)) for _ in range(2)]
    for number, model in enumerate(shards):
        for k in range(300 + number, 400, 2):
            model.partial_fit(X[k : k + 1], y[k : k + 1])
    merged = merge(shards)
    assert np.isfinite(merged.predict(X)).all()
    assert merged.n_samples_seen_ == 400


# Targets that do not vary at first


@SEEDS
@pytest.mark.parametrize("n_idle", [300, 1000])
def test_a_target_that_was_constant_at_first_is_learned(seed, n_idle):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_idle + 250, 3))
    y = np.where(np.arange(len(X)) < n_idle, 5.0, 100 + 10 * X[:, 0])
    mean, std, _ = streamed(X, y)
    now = y[n_idle:]
    running = (5 * n_idle + np.cumsum(now) - now) / (n_idle + np.arange(len(now)))
    error = np.abs(mean - y)[n_idle:]
    for start in range(0, 250, 50):
        part = slice(start, start + 50)
        assert rms(error[part]) < 1.02 * rms((now - running)[part])
    assert rms(error[100:]) < 3  # 0.3 standard deviations
    assert std[n_idle + 100 :].max() < 20


def test_a_target_that_idles_for_a_while_is_learned_on():
    X, clean, noise = linear(0, 900)
    clean[200:700] = 0.3
    noise[200:700] = 0
    mean, std, _ = streamed(X, clean + noise)
    assert rms((mean - clean)[750:]) < 0.4
    assert std[750:].max() < 1


@pytest.mark.parametrize("value", [0.0, 1e6, -3e-5])
def test_of_a_target_that_has_not_varied_the_std_is_of_its_size(value):
    model = TAGIRegressor(random_state=0)
    stds = []
    for _ in range(20):
        model.partial_fit([[0.0]], [value])
        mean, std = model.predict([[0.0], [1.0]], return_std=True)
        np.testing.assert_array_equal(mean, value)
        stds.append(std.min() / (abs(value) or 1))
    assert 0.1 < stds[0] < 2
    if value:
        assert stds[-1] < 0.1 * stds[0]


# Noise


@pytest.mark.parametrize("sigma_v", ["auto", "constant"])
def test_learned_noise_forgets_as_fast_as_the_half_life_says(sigma_v):
    inside = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5200, 2))
        std = np.where(np.arange(5200) < 4000, 0.1, 1.0)
        y = X[:, 0] + std * rng.normal(size=5200)
        mean, said, _ = streamed(
            X, y, 50, sigma_v=sigma_v, half_life=100.0, hidden_layer_sizes=(10,), n_members=1
        )
        inside.append(np.abs(mean - y) < 1.645 * said)
    inside = np.mean(inside, axis=0)
    assert 0.75 < inside[4100:4200].mean() < 0.97
    assert 0.84 < inside[4200:4600].mean() < 0.97
    assert 0.86 < inside[4600:].mean() < 0.97


# Rows of no weight


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_rows_of_no_weight_change_nothing_once_fitted(estimator):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int)
    model = estimator(random_state=0)
    known = {"classes": [0, 1]} if estimator is TAGIClassifier else {}
    with pytest.raises(ValueError, match="all sample weights are zero"):
        model.partial_fit(X, y, sample_weight=np.zeros(30), **known)
    assert not hasattr(model, "n_samples_seen_")
    model.partial_fit(X, y, **known)
    before = pickle.dumps(model)
    model.partial_fit(X[:1], y[:1], sample_weight=[0.0])
    model.partial_fit(X, y, sample_weight=np.zeros(30))
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match=r"NaN|infinity|finite|missing"):
        model.partial_fit(X[:1], [np.nan], sample_weight=[0.0])


@pytest.mark.parametrize("half_life", [300, "auto"])
@pytest.mark.parametrize("chunk", [1, 10])
def test_a_function_that_changes_is_learned_and_not_taken_for_noise(half_life, chunk):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (6300, 2))
        sign = np.where(np.arange(6300) < 6000, 1, -1)
        y = np.sin(2 * X[:, 0]) + sign * X[:, 1] + 0.1 * rng.normal(size=6300)
        model = TAGIRegressor(n_members=1, half_life=half_life, random_state=seed)
        for start in range(0, 6000, 10):
            model.partial_fit(X[start : start + 10], y[start : start + 10])
        for start in range(6000, 6200, chunk):
            model.partial_fit(X[start : start + chunk], y[start : start + chunk])
        mean, std = model.predict(X[6200:], return_std=True)
        error = mean - y[6200:]
        assert np.sqrt(np.mean(np.square(error))) < 0.4
        assert np.mean(np.abs(error) < 2 * std) > 0.8


def test_a_burst_of_wild_readings_is_no_new_unit():
    X, clean, noise = linear(0, 700)
    y = clean + noise
    y[500:506] = 100 * np.random.default_rng(0).normal(size=6)
    mean = streamed(X, y)[0]
    assert rms((mean - clean)[520:]) < 0.3


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("wrong", [1e2, 1e4, 1e6])
def test_a_call_of_few_wrong_rows_is_not_learned(size, wrong):
    X, clean, noise = linear(1, 620)
    y = clean + noise
    y[400 : 400 + size] = wrong
    mean = streamed(X, y, size)[0]
    assert rms((mean - clean)[420:]) < 0.3


def test_events_that_a_feature_tells_are_learned():
    """Rare and large, they look like outliers at first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    on = X[:, 2] > 1.645
    y = np.where(on, 50 + 10 * X[:, 1], 0) + 0.2 * rng.normal(size=6000)
    model = streamed(X, y, 100)[2]
    mean, std = model.predict(X, return_std=True)
    assert rms(mean - y) < 0.7 * y.std()
    assert rms((mean - y)[on]) < 2 * std[on].mean()


def test_events_that_nothing_tells_are_in_the_distribution():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.where(rng.random(3000) < 0.05, np.exp(6 + 0.3 * rng.normal(size=3000)), 0)
    model = streamed(X, y, 50)[2]
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.6)
    assert model.predict(X, return_std=True)[1].mean() == pytest.approx(y.std(), rel=0.6)


@pytest.mark.parametrize(("size", "n_wrong", "of_each_sign"), [(5, 4, False), (7, 7, True)])
def test_a_call_that_is_mostly_wrong_does_not_spoil_the_network(size, n_wrong, of_each_sign):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(420, 3))
    clean = np.sin(X[:, 0])
    y = clean + 0.1 * rng.normal(size=420)
    wrong = 1000 * (1 + 0.1 * rng.normal(size=n_wrong))
    y[210 : 210 + n_wrong] = wrong * (rng.choice([-1, 1], n_wrong) if of_each_sign else 1)
    model = TAGIRegressor(n_members=1, random_state=0)
    for start in range(0, 420, size):
        model.partial_fit(X[start : start + size], y[start : start + size])
    error = model.predict(X[-50:]) - clean[-50:]
    assert np.sqrt(np.mean(np.square(error))) < 20  # of wrong targets of 1000


@pytest.mark.parametrize("n_new", [2, 4, 5])
def test_a_unit_that_changes_within_a_small_call_is_followed(n_new):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(405, 3))
    unit = np.where(np.arange(405) < 205 - n_new, 1, 1000)
    y = unit * (np.sin(X[:, 0]) + 0.1 * rng.normal(size=405))
    model = TAGIRegressor(n_members=1, random_state=0)
    for start in range(0, 405, 5):
        model.partial_fit(X[start : start + 5], y[start : start + 5])
    error = model.predict(X[-50:]) / 1000 - np.sin(X[-50:, 0])
    assert np.sqrt(np.mean(np.square(error))) < 0.5
