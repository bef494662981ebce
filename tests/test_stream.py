"""Learning from streams: partial_fit, its agreement with fit, and forgetting."""

import copy
import gc
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import is_classifier

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine.observations import robust_log_density

both = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
PLAIN = {
    "hidden_layer_sizes": (7,), "standardize": False, "shuffle": False, "early_stopping": False,
    "max_iter": 1, "batch_size": 8, "half_life": 200.0, "random_state": 0,
}  # fmt: skip


def make_stream(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)


def stream(model, X, y, size, **kwargs):
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        if is_classifier(model):
            kwargs["classes"] = [0, 1]
        rows = {k: v[part] if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        model.partial_fit(X[part], y[part], **rows)
    return model


def assert_same_posterior(model, other, rtol=0.0):
    for name in ("coefs_", "intercepts_", "coef_vars_", "intercept_vars_"):
        for mine, theirs in zip(getattr(model, name), getattr(other, name), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.sigma_v_, other.sigma_v_, rtol=rtol)


@both
@pytest.mark.parametrize("sigma_v", [0.3, "auto"])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("half_life", [None, 25.0])  # "auto" follows the stream
@pytest.mark.parametrize("n_members", [1, 3])
def test_fit_over_batches_equals_partial_fit_over_them(
    estimator, sigma_v, batch_inference, half_life, n_members
):
    X, y = make_stream()
    params = {**PLAIN, "sigma_v": sigma_v, "batch_inference": batch_inference,
              "half_life": half_life, "n_members": n_members}  # fmt: skip
    fitted = estimator(**params).fit(X, y)
    streamed = stream(estimator(**params), X, y, 8)
    assert_same_posterior(fitted, streamed)
    assert streamed.n_samples_seen_ == fitted.n_samples_seen_ == 60


@both
def test_fit_equals_partial_fit_with_weights_and_uncertain_inputs(estimator):
    X, y = make_stream()
    rng = np.random.default_rng(1)
    extra = {"sample_weight": rng.uniform(0.5, 3, 60), "X_std": rng.uniform(0, 0.3, X.shape)}
    fitted = estimator(**PLAIN).fit(X, y, **extra)
    assert_same_posterior(fitted, stream(estimator(**PLAIN), X, y, 8, **extra))


@both
def test_epochs_of_fit_equal_passes_of_partial_fit(estimator):
    X, y = make_stream()
    fitted = estimator(**{**PLAIN, "max_iter": 3}).fit(X, y)
    streamed = estimator(**PLAIN)
    for _ in range(3):
        stream(streamed, X, y, 8)
    # Members of a fit learn in parts of five: the last bit of a product may differ.
    assert_same_posterior(fitted, streamed, rtol=1e-12)


@both
@pytest.mark.parametrize("sigma_v", [0.3, "auto"])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_chunk_boundaries_do_not_matter_row_by_row(estimator, sigma_v, size):
    X, y = make_stream()
    params = {**PLAIN, "batch_size": 1, "sigma_v": sigma_v, "half_life": 40.0}
    whole = estimator(**params).fit(X, y)
    assert_same_posterior(whole, stream(estimator(**params), X, y, size))


@both
def test_ragged_chunks_do_not_matter_row_by_row(estimator):
    X, y = make_stream()
    params = {**PLAIN, "batch_size": 1, "n_members": 2}
    whole = stream(estimator(**params), X, y, 60)
    ragged = estimator(**params)
    for start, stop in ((0, 1), (1, 4), (4, 31), (31, 33), (33, 60)):
        known = {"classes": [0, 1]} if is_classifier(ragged) else {}
        ragged.partial_fit(X[start:stop], y[start:stop], **known)
    assert_same_posterior(whole, ragged)
    np.testing.assert_allclose(
        ragged.prequential_log_likelihood_, whole.prequential_log_likelihood_, rtol=1e-12
    )


@both
@pytest.mark.parametrize("size", [16, 60])
def test_chunks_of_whole_batches_learn_as_their_batches(estimator, size):
    X, y = make_stream()
    assert_same_posterior(
        stream(estimator(**PLAIN), X, y, 8), stream(estimator(**PLAIN), X, y, size)
    )


@both
def test_files_are_learned_as_their_rows(estimator, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = make_stream()
    expected = stream(estimator(**PLAIN), X, y, 16)
    rows = np.memmap(tmp_path / "rows", np.float64, "w+", shape=(60, 4))
    rows[:, :3], rows[:, 3] = X, y
    rows.flush()
    rows = np.memmap(tmp_path / "rows", np.float64, "r", shape=(60, 4))
    mapped = stream(estimator(**PLAIN), rows[:, :3], rows[:, 3].astype(int), 16)
    assert_same_posterior(expected, mapped, rtol=1e-9)
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    read = estimator(**PLAIN)
    with pd.read_csv(tmp_path / "rows.csv", chunksize=16) as chunks:
        for chunk in chunks:
            values = chunk.to_numpy()
            stream(read, values[:, :3], values[:, 3].astype(int), 16)
    assert_same_posterior(expected, read, rtol=1e-9)


@both
def test_partial_fit_never_shuffles(estimator):
    X, y = make_stream()
    shuffling = {**PLAIN, "shuffle": True}
    assert_same_posterior(
        stream(estimator(**PLAIN), X, y, 20), stream(estimator(**shuffling), X, y, 20)
    )


@both
def test_counters_count_calls_and_rows(estimator):
    X, y = make_stream()
    model = stream(estimator(**PLAIN), X, y, 20)
    assert model.n_iter_ == 3
    assert model.n_samples_seen_ == 60
    weight = np.repeat([1.0, 0.0], 30)
    stream(model, X, y, 60, sample_weight=weight)
    assert model.n_iter_ == 4


@both
def test_partial_fit_continues_a_fit(estimator):
    X, y = make_stream(300)
    model = estimator(hidden_layer_sizes=(20,), n_members=2, max_iter=3, random_state=0)
    model.fit(X[:50], y[:50])
    before = model.log_likelihood(*make_stream(200, seed=5))
    model.partial_fit(X[50:], y[50:])
    assert model.log_likelihood(*make_stream(200, seed=5)) > before
    assert model.n_samples_seen_ == 300


def test_prior_of_a_stream_is_the_prior_of_fit():
    X, y = make_stream()
    prior = TAGIRegressor((50,), max_iter=0, random_state=3).fit(X, y)
    tiny = TAGIRegressor(random_state=3).partial_fit(X, y, sample_weight=np.full(60, 1e-12))
    for mine, theirs in zip(tiny.coefs_, prior.coefs_, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_single_rows_from_the_first_at_a_large_scale_converge(dtype, scale):
    rng = np.random.default_rng(0)
    X = (scale * (5 + rng.normal(size=(600, 2)))).astype(dtype)
    y = 3 * X[:, 0].astype(float) - X[:, 1] + 0.1 * scale * rng.normal(size=600)
    model = TAGIRegressor(hidden_layer_sizes=(10,), n_members=2, random_state=0)
    for row in range(500):
        model.partial_fit(X[row : row + 1], y[row : row + 1])
        if row < 20:
            mean, std = model.predict(X[500:], return_std=True)
            assert np.isfinite(mean).all()
            assert np.isfinite(std).all()
            assert (std > 0).all()
    assert model.score(X[500:], y[500:]) > 0.8


def test_single_rows_of_a_classifier_converge():
    rng = np.random.default_rng(0)
    X = 1e6 * (5 + rng.normal(size=(600, 2)))
    y = np.where(X[:, 0] > X[:, 1], "left", "right")
    model = TAGIClassifier(hidden_layer_sizes=(10,), n_members=2, random_state=0)
    for row in range(500):
        model.partial_fit(X[row : row + 1], y[row : row + 1], classes=["left", "right"])
        assert np.isfinite(model.predict_proba(X[500:501])).all()
    assert model.score(X[500:], y[500:]) > 0.8


def test_running_statistics_equal_those_of_all_rows():
    X, y = make_stream(97)
    X = X * [1e3, 1e-3, 1] + [1e5, 0, -3]
    weight = np.random.default_rng(0).uniform(0.1, 4, 97)
    whole = TAGIRegressor(random_state=0).partial_fit(X, y, sample_weight=weight)
    parts = stream(TAGIRegressor(random_state=0), X, y, 10, sample_weight=weight)
    for mine, theirs in zip(whole._scaling, parts._scaling, strict=True):
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-10)
        np.testing.assert_allclose(mine.scale, theirs.scale, rtol=1e-10)
        np.testing.assert_allclose(mine.weight, theirs.weight)


def test_a_shorter_half_life_follows_an_abrupt_change_faster():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 2))
    y = np.where(np.arange(1600) < 1500, X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=1600)
    errors = {}
    for half_life in (None, 100.0):
        model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=1, half_life=half_life,
                              batch_size=10, random_state=0)  # fmt: skip
        stream(model, X, y, 100)
        errors[half_life] = np.mean((model.predict(X[1500:]) - y[1500:]) ** 2)
    assert errors[100.0] < 0.5 * errors[None]


def test_a_jump_of_many_standard_deviations_is_followed():
    """Rows after it are no outliers, however far they are from what was predicted."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1200, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=1200)
    y[600:] += 30
    model = stream(TAGIRegressor(n_members=1, random_state=0), X[:900], y[:900], 10)
    error = np.sqrt(np.mean((model.predict(X[900:]) - y[900:]) ** 2))
    assert error < 1  # 3.9 if they are taken for outliers


def test_forgetting_bounds_the_evidence_of_an_endless_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=4000)
    variance = {}
    for half_life in (None, 50.0):
        model = TAGIRegressor(hidden_layer_sizes=(), n_members=1, half_life=half_life,
                              sigma_v=0.3, standardize=False, random_state=0)  # fmt: skip
        stream(model, X, y, 500)
        early = model.coef_vars_[0].mean()
        stream(model, X, y, 4000)
        variance[half_life] = (early, model.coef_vars_[0].mean())
    early, late = variance[None]
    assert late < 0.7 * early
    early, late = variance[50.0]
    assert late == pytest.approx(early, rel=0.3)
    assert early > 3 * variance[None][0]


@both
def test_half_life_counts_weights_not_rows(estimator):
    X, y = make_stream(8)
    params = {**PLAIN, "batch_size": 100, "half_life": 10.0, "sigma_v": 0.5, "n_members": 1}
    first = {"classes": [0, 1]} if estimator is TAGIClassifier else {}
    double = estimator(**params).partial_fit(X, y, sample_weight=np.full(8, 2.0), **first)
    copies = estimator(**params).partial_fit(np.tile(X, (2, 1)), np.tile(y, 2), **first)
    np.testing.assert_allclose(double.coef_vars_[0], copies.coef_vars_[0], rtol=1e-8)


@both
@pytest.mark.parametrize("size", [1, 20])
def test_memory_of_a_stream_is_constant(estimator, size):
    X, y = make_stream()
    model = estimator(hidden_layer_sizes=(5,), n_members=1, random_state=0)

    def allocated(calls):
        for call in range(calls):
            part = slice(call % 3 * size, call % 3 * size + size)
            known = {"classes": [0, 1]} if is_classifier(model) else {}
            model.partial_fit(X[part], y[part], **known)
        gc.collect()
        return sys.getallocatedblocks()

    before = allocated(200)
    assert allocated(1000) - before < 500  # an object that stayed would be one each call


# Prequential scores


def score_of_a_row(model, X, y):
    """The log-likelihood; tails beyond six standard deviations are powers if noise is learned."""
    if isinstance(model, TAGIClassifier):
        return model.log_likelihood(X, y)
    return robust_log_density(y, *model.predict(X, return_std=True)).item()


@both
@pytest.mark.parametrize("standardize", [False, True])
def test_prequential_score_is_that_of_each_row_before_it_was_learned(estimator, standardize):
    X, y = make_stream(200)
    X, y = 50 + 10 * X, y if estimator is TAGIClassifier else 7.0 * y
    model = estimator(**{**PLAIN, "standardize": standardize, "n_members": 1, "batch_size": 1,
                         "half_life": None})  # fmt: skip
    stream(model, X[:100], y[:100], 100)
    scores = [model.prequential_log_likelihood_]
    weights = [100.0]
    for row in range(100, 200):
        scores.append(score_of_a_row(model, X[row : row + 1], y[row : row + 1]))
        weights.append(1.0)
        stream(model, X[row : row + 1], y[row : row + 1], 1)
    expected = np.average(scores, weights=weights)
    # Running statistics take a row in before it is scored: means stay, variances nearly.
    close = {"abs": 0.005} if standardize else {"rel": 1e-9}
    assert model.prequential_log_likelihood_ == pytest.approx(expected, **close)


def test_prequential_score_is_in_original_units():
    X, y = make_stream(500)
    y = y + 0.1 * X[:, 2]
    small = stream(TAGIRegressor(random_state=0), X, y, 100)
    large = stream(TAGIRegressor(random_state=0), X, 1000 * y, 100)
    shift = small.prequential_log_likelihood_ - large.prequential_log_likelihood_
    assert shift == pytest.approx(np.log(1000))


def test_prequential_score_weighs_rows():
    X, y = make_stream(100)
    model = TAGIRegressor(**PLAIN)
    stream(model, X[:50], y[:50], 50)
    first = model.prequential_log_likelihood_
    again = pickle.loads(pickle.dumps(model))
    stream(model, X[50:], y[50:], 50, sample_weight=np.full(50, 3.0))
    assert model._prequential.weight == 200
    stream(again, X[50:], y[50:], 50, sample_weight=np.full(50, 1e-9))
    assert again.prequential_log_likelihood_ == pytest.approx(first, abs=1e-6)


def test_recent_score_shows_an_abrupt_change_and_recovers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 2))
    y = np.where(np.arange(9000) < 4000, X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=9000)
    model = TAGIRegressor(hidden_layer_sizes=(20,), n_members=1, half_life=300.0, random_state=0)
    stream(model, X[:4000], y[:4000], 100)
    before = model.recent_log_likelihood_
    stream(model, X[4000:4200], y[4000:4200], 100)
    assert model.recent_log_likelihood_ < before - 0.5
    stream(model, X[4200:], y[4200:], 100)
    assert model.recent_log_likelihood_ > before - 0.2
    assert model.prequential_log_likelihood_ < model.recent_log_likelihood_


@both
def test_scores_of_a_stream_begin_anew_with_fit(estimator):
    X, y = make_stream()
    model = stream(estimator(**PLAIN), X, y, 10)
    assert np.isfinite(model.recent_log_likelihood_)
    model.fit(X, y)
    assert np.isnan(model.prequential_log_likelihood_)
    assert np.isnan(model.recent_log_likelihood_)
    with pytest.raises(AttributeError):
        _ = estimator().prequential_log_likelihood_


def test_targets_without_spread_are_not_scored():
    model = TAGIRegressor(random_state=0).partial_fit([[1.0]], [1e6])
    assert np.isnan(model.prequential_log_likelihood_)
    model.partial_fit([[2.0]], [3e6])
    assert -30 < model.prequential_log_likelihood_ < -5


# Drift


def drifting(kind, n=6000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 3))
    angle = {
        "still": np.zeros(n),
        "abrupt": np.where(np.arange(n) < n // 2, 0, np.pi / 2),
        "slow": np.linspace(0, np.pi, n),
    }[kind]
    clean = np.cos(angle) * np.sin(2 * X[:, 0]) + np.sin(angle) * np.sin(2 * X[:, 1])
    return X, clean + 0.2 * rng.normal(size=n)


def prequential_errors(half_life, X, y, hidden=(30,)):
    model = TAGIRegressor(hidden_layer_sizes=hidden, n_members=1, batch_size=10,
                          half_life=half_life, random_state=0)  # fmt: skip
    errors = np.zeros(len(X))
    for start in range(0, len(X), 50):
        part = slice(start, start + 50)
        if start:
            errors[part] = (model.predict(X[part]) - y[part]) ** 2
        model.partial_fit(X[part], y[part])
    return errors


def rmse(errors, start, stop):
    return np.sqrt(errors[start:stop].mean())


def test_forgetting_returns_to_its_level_a_thousand_rows_after_an_abrupt_change():
    X, y = drifting("abrupt")
    following, frozen = (prequential_errors(h, X, y) for h in (100.0, None))
    assert rmse(following, 4000, 5000) < 1.2 * rmse(following, 2000, 3000)
    assert rmse(frozen, 4000, 5000) > 1.5 * rmse(frozen, 2000, 3000)


def test_forgetting_follows_a_slow_drift():
    X, y = drifting("slow")
    following, frozen = (prequential_errors(h, X, y) for h in (100.0, None))
    assert rmse(following, 5000, 6000) < 1.2 * rmse(following, 2000, 3000)
    assert rmse(frozen, 5000, 6000) > 1.2 * rmse(frozen, 2000, 3000)


def test_without_drift_a_linear_model_gains_nothing_by_forgetting():
    X, _ = drifting("still")
    y = X[:, 0] - X[:, 1] + 0.5 * np.random.default_rng(1).normal(size=len(X))
    forgetful, whole = (prequential_errors(h, X, y, hidden=()) for h in (100.0, None))
    assert rmse(whole, 1000, 6000) < rmse(forgetful, 1000, 6000)


def test_without_drift_a_network_that_was_fitted_gains_nothing_by_forgetting():
    # One that learns from its first row on may: what it took its first rows for is in its way.
    X, y = drifting("still", n=5000)
    fitted = TAGIRegressor((30,), n_members=1, batch_size=10, random_state=0).fit(
        X[:2000], y[:2000]
    )
    errors = {}
    for half_life in (100.0, 400.0, None):
        model = copy.copy(fitted).set_params(half_life=half_life)
        guesses = []
        for start in range(2000, 5000, 100):
            guesses.append(model.predict(X[start : start + 100]))
            model.partial_fit(X[start : start + 100], y[start : start + 100])
        clean = np.sin(2 * X[2000:, 0])
        errors[half_life] = np.sqrt(np.mean((np.concatenate(guesses) - clean) ** 2))
    assert errors[None] < 1.02 * errors[400.0]
    assert errors[400.0] < errors[100.0]


# Classes


def test_a_class_that_arrives_late_is_learned():
    rng = np.random.default_rng(0)
    center = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    y = np.concatenate([rng.integers(0, 2, 600), rng.integers(0, 3, 600)])
    X = center[y] + rng.normal(size=(1200, 2))
    model = TAGIClassifier(hidden_layer_sizes=(20,), n_members=2, random_state=0)
    for start in range(0, 1200, 30):
        part = slice(start, start + 30)
        model.partial_fit(X[part], y[part], **({"classes": [0, 1, 2]} if start == 0 else {}))
        if start == 570:
            assert model.predict_proba(X[:600])[:, 2].mean() < 0.2
            old = model.score(X[:600], y[:600])
    assert list(model.classes_) == [0, 1, 2]
    late = y[600:] == 2
    assert model.score(X[600:][late], y[600:][late]) > 0.9
    assert model.score(X[:600], y[:600]) > old - 0.05


def test_label_noise_shows_in_the_probabilities_not_in_the_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    clean = (X[:, 0] + X[:, 1] > 0).astype(int)
    y = np.where(rng.random(4000) < 0.2, 1 - clean, clean)
    model = stream(TAGIClassifier(hidden_layer_sizes=(20,), random_state=0), X[:3000], y[:3000], 50)
    assert model.score(X[3000:], clean[3000:]) > 0.93
    far = np.abs(X[3000:].sum(axis=1)) > 1.5
    sure = model.predict_proba(X[3000:][far]).max(axis=1).mean()
    assert 0.7 < sure < 0.9  # the truth is 0.8


def test_threads_may_predict_at_once():
    X, y = make_stream(300)
    model = TAGIRegressor(max_iter=3, random_state=0).fit(X, y)
    parts = [X[k::16] for k in range(16)]
    alone = [model.predict(part, return_std=True) for part in parts]
    with ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            together = list(pool.map(lambda part: model.predict(part, return_std=True), parts))
            for one, other in zip(alone, together, strict=True):
                np.testing.assert_array_equal(one, other)


@both
@pytest.mark.parametrize(
    "changed", [{"weight_gain": 4.0}, {"bias_variance": 1.0}, {"categorical_features": [0]}]
)
def test_changed_parameters_that_would_be_ignored_are_refused(estimator, changed):
    X, y = make_stream(100)
    model = stream(estimator(**PLAIN), X, y, 50)
    model = pickle.loads(pickle.dumps(model))
    before = model.coefs_
    match = f"{next(iter(changed))} must be as in the fit that is continued"
    with pytest.raises(ValueError, match=match):
        model.set_params(**changed).partial_fit(X[:10], y[:10])
    np.testing.assert_array_equal(model.coefs_[0], before[0])
    old = {name: getattr(estimator(**PLAIN), name) for name in changed}
    model.set_params(**old).partial_fit(X[:10], y[:10])


@pytest.mark.parametrize(
    ("n_classes", "fitted", "asked"),
    [
        (3, "auto", "tree"),
        (3, "tree", "one_of_k"),
        (2, "tree", "one_of_k"),
        (2, "one_of_k", "tree"),
    ],
)
def test_a_changed_class_coding_is_refused(n_classes, fitted, asked):
    X = make_stream(60)[0]
    labels = np.arange(60) % n_classes
    sigma_v = 0.5 if n_classes == 2 else "auto"
    model = TAGIClassifier(class_coding=fitted, sigma_v=sigma_v, **PLAIN)
    model.partial_fit(X, labels, classes=range(n_classes))
    with pytest.raises(ValueError, match="class_coding must be as in the fit"):
        model.set_params(class_coding=asked).partial_fit(X, labels)


def test_a_stream_that_begins_far_from_zero_without_units_warns():
    model = TAGIRegressor(**PLAIN)
    with pytest.warns(UserWarning, match=r"at least 1e\+06 in size, and standardize=False"):
        model.partial_fit([[0.0]], [1e6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit([[0.0]], [1e6])
        TAGIRegressor(**PLAIN).partial_fit([[0.0], [1.0]], [1e6, 1.0])
        TAGIRegressor(**{**PLAIN, "standardize": True}).partial_fit([[0.0]], [1e6])


@both
def test_a_changed_activation_is_refused(estimator):
    X, y = make_stream(100)
    model = stream(estimator(**PLAIN), X, y, 50)
    before = model.coefs_
    with pytest.raises(ValueError, match="activation must be as in the fit that is continued"):
        model.set_params(activation="tanh").partial_fit(X, y)
    for mine, theirs in zip(model.coefs_, before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    model.set_params(activation="relu").partial_fit(X, y)


@pytest.mark.parametrize("labels", [np.array([3, 5, 9]), np.array(["a", "bc", "d"])])
def test_single_labels_are_learned_alike_from_arrays_and_lists_and_refused_alike(labels):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), labels[rng.integers(3, size=30)]
    one, other = (TAGIClassifier((4,), n_members=1, random_state=0) for _ in range(2))
    for k in range(30):
        one.partial_fit(X[k : k + 1], y[k : k + 1], classes=labels)
        other.partial_fit(X[k : k + 1], y[k : k + 1].tolist(), classes=labels)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    before = pickle.dumps(one)
    wrong = [(X[:2], y[:1]), (X[:1], y[:2]), (X[:1, :2], y[:1]), (X[0], y[:1]), (X[:0], y[:0]),
             (X[:1] + np.inf, y[:1]),
             (X[:1], labels[:1] * 2 if labels.dtype.kind == "i" else np.array(["x"])),
             (X[:1], np.array([np.nan])), (X[:1], y[:1].reshape(1, 1, 1))]  # fmt: skip
    for bad in wrong:
        with pytest.raises(ValueError, match=r"X|y|samples|feature|label|class"):
            one.partial_fit(*bad)
        with pytest.raises(ValueError, match=r"X|y|samples|feature|label|class"):
            one.partial_fit(bad[0], bad[1].tolist())
    assert pickle.dumps(one) == before
