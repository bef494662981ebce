"""Forgetting by surprise: the half-life that a stream chooses, and the score of its drift."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from benchmarks.streams import drifting
from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine.observations import Gaussian
from sktagi.engine.softmax import Softmax
from sktagi.engine.surprise import Predicted, gains
from sktagi.merging import fork, merge

both = pytest.mark.parametrize("is_classifier", [False, True])
SMALL = {"hidden_layer_sizes": (30,), "n_members": 1, "random_state": 0}


def make(is_classifier, **params):
    return (TAGIClassifier if is_classifier else TAGIRegressor)(**{**SMALL, **params})


def rows(kind, n, is_classifier, seed=0):
    X, y = drifting(kind, n, seed)
    return X, np.digitize(y, [-0.5, 0.5]) if is_classifier else y


def learn(model, X, y, chunk=50, watch=None, **known):
    if isinstance(model, TAGIClassifier):
        known["classes"] = [0, 1, 2]
    for start in range(0, len(y), chunk):
        part = slice(start, start + chunk)
        kwargs = {k: v[part] if isinstance(v, np.ndarray) else v for k, v in known.items()}
        model.partial_fit(X[part], y[part], **kwargs)
        if watch is not None:
            watch.append((model.drift_score_, model._drift.half_life))
    return model


@both
def test_a_stationary_stream_is_not_forgotten_and_a_change_is_followed(is_classifier):
    X, y = rows("abrupt", 5000, is_classifier)
    seen = []
    learn(make(is_classifier), X, y, watch=seen)
    score, half_life = np.array(seen).T
    before, after = slice(30, 50), slice(50, 56)  # chunks of 50 rows; the change is after 2500
    assert np.exp(np.log(half_life[before]).mean()) > 600
    assert score[before].max() < 2.3
    assert score[after].max() > 2.5
    assert half_life[after].min() < 150
    assert half_life[60:].max() > 600  # and the new function is kept


def test_it_is_nearly_as_good_as_the_best_half_life_whatever_comes():
    for kind, others, margin in (
        ("stationary", (1000.0,), 1.03), ("abrupt", (100.0,), 1.1), ("slow", (200.0,), 1.1),
    ):  # fmt: skip
        losses = {}
        X, y = rows(kind, 4000, False)
        for half_life in ("auto", *others):
            model, squares = make(False, half_life=half_life), []
            for start in range(0, len(y), 50):
                part = slice(start, start + 50)
                if start:
                    squares.append(np.square(model.predict(X[part]) - y[part]))
                model.partial_fit(X[part], y[part])
            losses[half_life] = np.sqrt(np.mean(squares))
        best = min(losses[half_life] for half_life in others)
        assert losses["auto"] < margin * best


@pytest.mark.parametrize("half_life", [None, 200.0, 2000.0])
def test_the_score_tells_a_change_with_any_half_life(half_life):
    X, y = rows("abrupt", 4000, False)
    seen = []
    learn(make(False, half_life=half_life), X, y, watch=seen)
    score = np.array(seen)[:, 0]
    assert score[30:40].mean() < 1  # a network that still learns gains, too
    assert score[40:50].max() > max(2.6, score[30:40].max())


@pytest.mark.parametrize("chunk", [1, 50])
def test_one_outlier_is_no_drift(chunk):
    X, y = rows("stationary", 2200, False)
    y[2001] = 1000.0
    seen = []
    model = learn(make(False), X[:2000], y[:2000])
    before = model._drift.half_life
    learn(model, X[2000:], y[2000:], chunk=chunk, watch=seen)
    score, half_life = np.array(seen).T
    assert score.max() < 2.3
    assert half_life.min() > 0.15 * before


def test_more_noise_is_no_drift():
    X, y = rows("stationary", 3000, False)
    y[2000:] += np.random.default_rng(1).normal(size=1000)
    seen = []
    learn(make(False), X, y, watch=seen)
    score, half_life = np.array(seen)[40:].T
    assert score.max() < 2.5
    assert np.median(half_life) > 400


@both
def test_fixed_half_lives_are_what_they_were(is_classifier):
    # One call with many rows is the same as calls with its batches: nothing is looked at between.
    X, y = rows("slow", 512, is_classifier)
    given = {"half_life": 300.0, "batch_size": 64, "standardize": False}
    whole = learn(make(is_classifier, **given), X, y, chunk=512)
    parts = learn(make(is_classifier, **given), X, y, chunk=64)
    for mine, theirs in zip(whole.coefs_, parts.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_rows_of_a_large_call_are_followed_block_by_block():
    X, y = rows("abrupt", 4000, False)
    model = learn(make(False), X[:1900], y[:1900])
    follows = copy.deepcopy(model)
    follows.partial_fit(X[1900:2600], y[1900:2600])
    stays = model.set_params(half_life=model._drift.half_life)
    stays.partial_fit(X[1900:2600], y[1900:2600])
    late = slice(2600, 2900)
    errors = [np.sqrt(np.mean((m.predict(X[late]) - y[late]) ** 2)) for m in (follows, stays)]
    assert errors[0] < 0.9 * errors[1]


@both
@pytest.mark.parametrize("chunk", [1, 7])
def test_a_saved_stream_goes_on_the_same(is_classifier, chunk):
    X, y = rows("abrupt", 240, is_classifier)
    model = learn(make(is_classifier), X[:110], y[:110], chunk=chunk)
    other = pickle.loads(pickle.dumps(model))
    third = type(model).from_bytes(model.to_bytes())
    assert other.drift_score_ == model.drift_score_ == third.drift_score_
    for each in (model, other, third):
        learn(each, X[110:], y[110:], chunk=chunk)
    assert other.drift_score_ == model.drift_score_ == third.drift_score_
    assert other._drift.half_life == model._drift.half_life == third._drift.half_life
    for mine, theirs in zip(model.coefs_, third.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@both
def test_the_score_begins_with_a_stream(is_classifier):
    X, y = rows("stationary", 300, is_classifier)
    model = make(is_classifier, max_iter=3)
    with pytest.raises((AttributeError, NotFittedError)):
        model.drift_score_  # noqa: B018
    assert np.isnan(model.fit(X, y).drift_score_)
    learn(model, X, y)
    assert np.isfinite(model.drift_score_)
    assert np.isnan(model.fit(X, y).drift_score_)


def test_a_call_that_fails_changes_nothing():
    X, y = rows("stationary", 200, False)
    model = learn(make(False), X, y, chunk=1)
    before = model._drift
    with pytest.raises(ValueError, match="inf"):
        model.partial_fit(X[:2], [1.0, np.inf])
    assert model._drift is before


def test_merged_streams_have_mean_scores_and_half_lives_between():
    X, y = rows("abrupt", 3000, False)
    start = fork(learn(make(False), X[:1400], y[:1400]))
    parts = slice(1400, 1500), slice(1500, 1700)
    shards = [learn(copy.deepcopy(start), X[part], y[part]) for part in parts]
    merged = merge(shards)
    half_lives = [shard._drift.half_life for shard in shards]
    assert min(half_lives) <= merged._drift.half_life <= max(half_lives)
    scores = [shard.drift_score_ for shard in shards]
    assert min(scores) <= merged.drift_score_ <= max(scores)
    assert np.isfinite(learn(merged, X[1700:], y[1700:]).drift_score_)


def test_kinds_after_a_fit_follow_a_change():
    X, y = rows("abrupt", 3000, False)
    model = TAGIRegressor(n_members=2, max_iter=15, random_state=0).fit(X[:1000], y[:1000])
    assert len(model.kinds_) > 1
    seen = []
    learn(model, X[1000:], y[1000:], watch=seen)
    score, half_life = np.array(seen).T
    assert score[3:10].max() < 2.5
    assert score[10:16].max() > 2.5
    assert half_life[10:20].min() < 0.25 * half_life[:10].min()


def test_targets_that_are_not_observed_say_nothing():
    X, y = rows("abrupt", 600, False)
    one = np.column_stack([y, np.full(600, np.nan)])
    one[:20, 1] = y[:20]
    model = learn(make(False), X, one, chunk=20)
    assert np.isfinite(model.drift_score_)
    assert np.isfinite(model.predict(X)).all()
    learn(model, X[:5], one[-5:], chunk=1)  # rows that wait have NaN
    assert type(model).from_bytes(model.to_bytes()).drift_score_ == model.drift_score_


def test_a_weight_counts_as_so_many_rows():
    X, y = rows("stationary", 600, False)
    seen, weighted = [], []
    learn(make(False), X, y, watch=seen)
    learn(make(False), X, y, watch=weighted, sample_weight=np.full(600, 2.0))
    assert np.isfinite(np.array(weighted)[2:]).all()
    assert not np.array_equal(seen, weighted)


@pytest.mark.parametrize("extra", [
    {"covariance_type": "full", "hidden_layer_sizes": (4,)}, {"sigma_v": 0.2},
    {"n_members": 3}, {"standardize": False}, {"activation": "relu_exact"},
])  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 30])
def test_all_kinds_of_streams_have_a_score(extra, chunk):
    X, y = rows("stationary", 120, False)
    model = learn(make(False, **extra), X, y, chunk=chunk)
    assert np.isfinite(model.drift_score_)


@pytest.mark.parametrize("chunk", [1, 30])
def test_uncertain_inputs_gaps_and_single_precision(chunk):
    X, y = rows("stationary", 150, False)
    std = np.full(X.shape, 0.1)
    assert np.isfinite(learn(make(False), X, y, chunk=chunk, X_std=std).drift_score_)
    X[::7, 1] = np.nan
    model = learn(make(False), X.astype(np.float32), y, chunk=chunk)
    assert np.isfinite(model.drift_score_)
    restored = type(model).from_bytes(model.to_bytes())
    assert restored.drift_score_ == model.drift_score_


# The gains


def test_gains_of_numbers_are_those_of_their_definition():
    rng = np.random.default_rng(0)
    y, mu, old = rng.normal(size=(5, 2)), rng.normal(size=(2, 5)), rng.normal(size=(2, 5))
    var, noise = rng.uniform(0.5, 2, (2, 5)), np.array([[0.3], [0.7]])
    y[1, 0] = np.nan
    found = gains(Gaussian(2), Predicted(y, mu, var, noise), old)
    for row in range(5):
        total = 0.0
        for k in range(2):
            std = np.sqrt(var[k, row] + noise[k, 0])
            e, d = (y[row, k] - mu[k, row]) / std, (mu[k, row] - old[k, row]) / std
            e, d = np.clip(e, -3, 3), np.clip(d, -3, 3)
            total += 0 if np.isnan(e) else e * d + d**2 / 4
        assert found[row] == pytest.approx(total)


def test_gains_of_classes_are_those_of_probabilities():
    rng = np.random.default_rng(0)
    mu, old, var = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.uniform(0.5, 2, (3, 4))
    model, y = Softmax(3), np.array([0, 2, 1, 1])
    found = gains(model, Predicted(y, mu, var, np.zeros((1, 1))), old)
    now, before = (np.exp(model.log_proba(z, var)) for z in (mu, old))
    e, d = np.eye(3)[:, y] - now, now - before
    np.testing.assert_allclose(found, (e * d + d**2 / 4).sum(axis=0))


def test_two_equally_good_networks_gain_less_than_nothing_and_a_better_one_more():
    rng = np.random.default_rng(0)
    n = 20_000
    y = rng.normal(size=(n, 1))  # of a function that is zero
    var, none = np.full((1, n), 1.0), np.zeros((1, 1))
    mu, equal = 0.3 * rng.normal(size=(2, 1, n))
    worse = mu + 0.6
    of_equal = gains(Gaussian(1), Predicted(y, mu, var, none), equal).mean()
    assert of_equal == pytest.approx(-0.25 * 2 * 0.3**2, abs=0.01)  # e d is -d^2 / 2
    assert gains(Gaussian(1), Predicted(y, mu, var, none), worse).mean() > 0.05
