"""Posteriors that started equal and saw different rows combine into one."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import NotFittedError
from test_scaling import as_if_hardly_weighed

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._origin import Origin
from sktagi.merging import fork, merge


def make_rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = 10 + 5 * rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1]


def started(n=50, **params):
    X, y = make_rows(n, seed=9)
    return TAGIRegressor(**{"hidden_layer_sizes": (7,), "random_state": 0, **params}).partial_fit(
        X, y
    )


def test_merging_equal_estimators_changes_nothing():
    X, _ = make_rows()
    model = started()
    merged = merge([model, deepcopy(model), pickle.loads(pickle.dumps(model))])
    np.testing.assert_allclose(merged.predict(X), model.predict(X), rtol=1e-12)
    np.testing.assert_allclose(
        merged.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1], rtol=1e-12
    )
    assert merge([model]).n_samples_seen_ == model.n_samples_seen_


def test_means_are_weighted_by_precision_and_variances_are_the_harmonic_mean():
    X, y = make_rows()
    start = fork(started(standardize=False))
    shards = [deepcopy(start).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    merged = merge(shards)
    for k in range(2):
        (mu_0, mu_1), (s_0, s_1) = (
            [getattr(shard, name)[k] for shard in shards] for name in ("coefs_", "coef_vars_")
        )
        np.testing.assert_allclose(merged.coef_vars_[k], 2 / (1 / s_0 + 1 / s_1))
        np.testing.assert_allclose(
            merged.coefs_[k], (mu_0 / s_0 + mu_1 / s_1) / (1 / s_0 + 1 / s_1)
        )


def test_shards_that_were_calibrated_apart_meet_in_the_middle():
    X, y = make_rows()
    params = {"standardize": False, "random_state": 0, "max_iter": 5, "n_members": 2}
    shards = [TAGIRegressor((7,), **params).fit(X[k::2], y[k::2]) for k in range(2)]
    first, second = (shard._net.calibration for shard in shards)
    shards[1]._net.calibration = second._replace(temperature=0.25 * first.temperature)
    merged = merge(shards)
    found = merged._net.calibration
    assert found.temperature == pytest.approx(0.5 * first.temperature)
    np.testing.assert_allclose(found.noise_scale, np.sqrt(first.noise_scale * second.noise_scale))
    std, reversed_std = (m.predict(X, return_std=True)[1] for m in (merged, merge(shards[::-1])))
    np.testing.assert_allclose(std, reversed_std, rtol=1e-9)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_shard_that_was_not_calibrated_can_be_merged(n_targets):
    X, y = make_rows()
    Y = np.column_stack([y, -y])[:, :n_targets]
    params = {"random_state": 0, "max_iter": 2, "n_members": 2}
    large = TAGIRegressor((7,), **params).fit(X[:150], Y[:150])
    small = TAGIRegressor((7,), **params).partial_fit(X[150:], Y[150:])
    assert small._net.calibration is None
    calibration = large._net.calibration
    assert np.all(calibration.noise_scale != 1)
    merged = merge([small, large])._net.calibration
    assert merged.temperature == pytest.approx(np.sqrt(calibration.temperature))
    np.testing.assert_allclose(merged.noise_scale, np.sqrt(calibration.noise_scale))


def test_order_does_not_matter():
    X, y = make_rows()
    start = fork(started())
    shards = [deepcopy(start).partial_fit(X[k::3], y[k::3]) for k in range(3)]
    one, other = merge(shards), merge(shards[::-1])
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-9)
    assert one.sigma_v_ == pytest.approx(other.sigma_v_)


@pytest.mark.parametrize("n_start", [1, 50, 5000])
def test_statistics_and_counts_are_those_of_all_rows(n_start):
    X, y = make_rows()
    weight = np.random.default_rng(0).uniform(0.5, 2, 200)
    start = fork(started(n_start))
    cuts = [slice(0, 30), slice(30, 31), slice(31, 200)]
    shards = [deepcopy(start).partial_fit(X[c], y[c], sample_weight=weight[c]) for c in cuts]
    whole = deepcopy(start).partial_fit(X, y, sample_weight=weight)
    merged = merge(shards)
    for mine, theirs in zip(merged._scaling, whole._scaling, strict=True):
        np.testing.assert_allclose(mine.weight, theirs.weight)
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-9)
        np.testing.assert_allclose(mine.scale, theirs.scale, rtol=1e-7)
    assert merged.n_samples_seen_ == whole.n_samples_seen_ == n_start + 200
    assert merged._prequential.weight == pytest.approx(whole._prequential.weight)
    np.testing.assert_allclose(merged._net.rows_learned, whole._net.rows_learned)


def test_noise_counts_with_the_rows_behind_it():
    X, y = make_rows()
    start = fork(started(standardize=False))
    few, many = deepcopy(start).partial_fit(X[:5], y[:5]), deepcopy(start).partial_fit(X[5:], y[5:])
    merged = merge([few, many])._net.noise_var
    expected = (5 * few._net.noise_var + 195 * many._net.noise_var) / 200
    np.testing.assert_allclose(merged, expected)


def test_shards_in_other_units_are_merged_in_common_ones():
    X, y = make_rows()
    start = fork(started(n_members=1))
    shards = [deepcopy(start) for _ in range(2)]
    # One shard's statistics move far, while a tiny weight teaches it nothing.
    far = shards[1]
    far._scaling = as_if_hardly_weighed(far._scaling)
    far.partial_fit(3 * X[:50] + 7, 2 * y[:50], sample_weight=np.full(50, 1e-9))
    far._origin = far._origin._replace(digest=start._origin.digest)
    merged = merge(shards)
    np.testing.assert_allclose(merged.predict(X), start.predict(X), atol=1e-6)


def test_merged_epochs_learn_as_much_as_all_rows_and_more_than_one_shard():
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    params = {"hidden_layer_sizes": (20,), "n_members": 2, "random_state": 0, "max_iter": 0}
    prior = TAGIRegressor(**params).fit(X, y)
    merged, whole, alone = deepcopy(prior), deepcopy(prior), deepcopy(prior)
    for _ in range(15):
        shards = [deepcopy(merged).partial_fit(X[k::4], y[k::4]) for k in range(4)]
        merged = merge(shards)
        whole.partial_fit(X, y)
        alone.partial_fit(X[::4], y[::4])
    scores = [m.log_likelihood(X_test, y_test) for m in (merged, whole, alone)]
    assert scores[0] > scores[1] - 0.1
    assert scores[0] > scores[2] + 0.1


def test_classifier_shards_that_lack_a_class_merge():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = np.array([[0.0, 0], [4, 0], [0, 4]])[y] + rng.normal(size=(300, 2))
    model = TAGIClassifier((10,), n_members=1, random_state=0)
    model = fork(model.partial_fit(X[:10], y[:10], classes=[0, 1, 2]))
    for _ in range(5):
        shards = [deepcopy(model).partial_fit(X[y != k], y[y != k]) for k in range(3)]
        model = merge(shards)
    assert model.score(X, y) > 0.9


# Where counting starts


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
@pytest.mark.parametrize("way", ["warm fit", "fit and fork", "merge", "partial_fit and fork"])
def test_rows_before_the_start_are_counted_once(estimator, way):
    X, y = make_rows()
    y = y > 10 if estimator is TAGIClassifier else y
    params = {"hidden_layer_sizes": (7,), "random_state": 0, "n_members": 2, "max_iter": 2}
    model = estimator(**params, warm_start=True)
    learn = estimator.partial_fit
    if way == "partial_fit and fork":
        known = {"classes": [False, True]} if estimator is TAGIClassifier else {}
        model = fork(model.partial_fit(X[:100], y[:100], **known))
    else:
        model.fit(X[:100], y[:100])
        if way == "warm fit":
            learn = estimator.fit
        elif way == "fit and fork":
            model = fork(model)
        elif way == "merge":
            model = merge([model])
    first, second = (learn(deepcopy(model), X[k : k + 50], y[k : k + 50]) for k in (100, 150))
    assert first.n_samples_seen_ == second.n_samples_seen_ == 150
    merged = merge([first, second])
    assert merged.n_samples_seen_ == 200
    again = [deepcopy(merged).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    assert merge(again).n_samples_seen_ == 400


def test_a_refit_on_the_same_rows_counts_them_again():
    X, y = make_rows(100)
    params = {"hidden_layer_sizes": (7,), "random_state": 0, "max_iter": 2, "warm_start": True}
    model = TAGIRegressor(**params).fit(X, y)
    copies = [deepcopy(model).fit(X, y) for _ in range(2)]
    assert [copied.n_samples_seen_ for copied in copies] == [200, 200]
    assert merge(copies).n_samples_seen_ == 300
    assert model.set_params(warm_start=False).fit(X, y).n_samples_seen_ == 100


def begin(way, X, y):
    """An estimator that has just begun in some way, and what it had seen before that."""
    model = TAGIRegressor((7,), n_members=2, max_iter=2, random_state=0, warm_start=True)
    if way == "partial_fit":
        return model.partial_fit(X[:60], y[:60]), 0
    model.fit(X[:60], y[:60])
    if way == "fit":
        return model, 0
    if way == "warm fit":
        return model.fit(X[60:], y[60:]), 60
    model.partial_fit(X[60:], y[60:])
    return (fork(model) if way == "fork" else merge([model])), 200


@pytest.mark.parametrize("way", ["fit", "warm fit", "partial_fit", "fork", "merge"])
def test_all_ways_to_begin_are_one(way, monkeypatch):
    """The start is noted once, with the posterior, the statistics and the counts of that moment."""
    X, y = make_rows()
    starts, original = [], Origin.of

    def noted(net, scaling, n_samples_seen, prequential):
        starts.append((net.copy(), scaling, n_samples_seen, prequential))
        return original(net, scaling, n_samples_seen, prequential)

    monkeypatch.setattr(Origin, "of", noted)
    model, n_before = begin(way, X, y)
    net, scaling, n_samples_seen, prequential = starts[-1]
    assert len(starts) == {"fit": 1, "partial_fit": 1}.get(way, 2)
    assert n_samples_seen == model._origin.n_samples_seen == n_before
    assert model._origin.scaling is scaling
    assert model._origin.digest == original(net, scaling, 0, prequential).digest
    np.testing.assert_array_equal(model._origin.rows_learned, net.rows_learned)
    is_new = way in ("fit", "partial_fit", "warm fit")  # statistics and scores start anew
    assert scaling.x.weight.any() != is_new
    assert (prequential.weight == 0) == is_new
    # What is learned from here on does not move the start, nor does a copy or a file.
    start = model._origin.digest
    assert pickle.loads(pickle.dumps(model))._origin.digest == start
    assert deepcopy(model).partial_fit(X, y)._origin.digest == start
    assert fork(model.partial_fit(X, y))._origin.digest != start


# Refused, with a reason


def other_architecture(start, X, y):
    return started(hidden_layer_sizes=(8,))


def other_members(start, X, y):
    return started(n_members=2)


def other_activation(start, X, y):
    return started(activation="tanh")


def other_prior(start, X, y):
    return started(random_state=1)


def other_time(start, X, y):
    return fork(deepcopy(start).partial_fit(X, y))


def other_standardisation(start, X, y):
    return started(standardize=False)


def other_precision(start, X, y):
    return TAGIRegressor((7,), random_state=0).partial_fit(X.astype(np.float32), y)


def other_dimension(start, X, y):
    return TAGIRegressor((7,), random_state=0).partial_fit(X, y[:, None])


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (other_architecture, "shapes of their layers"),
        (other_members, "shapes of their layers"),
        (other_activation, "activation"),
        (other_prior, "starting points"),
        (other_time, "starting points"),
        (other_standardisation, "standardize"),
        (other_precision, "precision"),
        (other_dimension, "dimensions of their targets"),
    ],
)
def test_estimators_that_differ_are_refused(other, reason):
    X, y = make_rows()
    start = started()
    with pytest.raises(ValueError, match=f"0 and 1 cannot be merged.*{reason}"):
        merge([start, other(start, X, y)])


def test_other_classes_features_and_kinds_are_refused():
    pd = pytest.importorskip("pandas")
    X, y = make_rows()
    a, b = (TAGIClassifier((7,), random_state=0).partial_fit(X, y > 10, classes=c)
            for c in ([False, True], [0, 1]))  # fmt: skip
    merge([a, b])  # equal labels
    c = TAGIClassifier((7,), random_state=0).partial_fit(X, [1] * 200, classes=[1, 2])
    with pytest.raises(ValueError, match="classes"):
        merge([a, c])
    with pytest.raises(ValueError, match="TAGIClassifier and TAGIRegressor"):
        merge([a, started()])
    frames = [pd.DataFrame(X, columns=list(names)) for names in ("abc", "abd")]
    named = [TAGIRegressor((7,), random_state=0).partial_fit(frame, y) for frame in frames]
    with pytest.raises(ValueError, match="names of their features"):
        merge(named)


def test_nothing_strangers_and_the_unfitted_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        merge([])
    with pytest.raises(ValueError, match="estimators of sktagi; got str"):
        merge(["model"])
    with pytest.raises(NotFittedError):
        merge([TAGIRegressor()])
    with pytest.raises(NotFittedError):
        fork(TAGIRegressor())


def test_merging_leaves_the_shards_as_they_were():
    X, y = make_rows()
    start = fork(started())
    shards = [deepcopy(start).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    before = [pickle.dumps(shard) for shard in shards]
    merge(shards).partial_fit(X, y)
    assert [pickle.dumps(shard) for shard in shards] == before
