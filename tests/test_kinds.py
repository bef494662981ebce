"""The default, networks of several kinds, as users see it."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
from helpers import of_layers
from scipy import sparse
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine import training
from sktagi.engine.kinds import ENOUGH_ROWS, MANY_INPUTS, MANY_ROWS, kinds_for
from sktagi.engine.learning import Learner
from sktagi.merging import fork, merge

both = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])


def quick(estimator=TAGIRegressor, **params):
    return estimator(**{"n_members": 2, "max_iter": 12, "random_state": 0, **params})


def make_rows(n=150, seed=0):
    """A kink, a wave and a slope: no kind alone is right."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.abs(X[:, 0]) + np.sin(3 * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y


def data_for(estimator, n=150, seed=0):
    X, y = make_rows(n, seed)
    return (X, y) if estimator is TAGIRegressor else (X, (y > 1).astype(int))


def predictions(model, X, **given):
    if isinstance(model, TAGIClassifier):
        return np.stack(model.predict_proba(X, return_std=True, **given))
    return np.stack(model.predict(X, return_std=True, **given))


def rmse(found, expected):
    return np.sqrt(np.mean(np.square(found - expected)))


# --------------------------------------------------------------------------------- what it learns


def test_linear_data_give_the_weight_to_the_linear_kind_and_its_accuracy():
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(300, 5)), rng.normal(size=(2000, 5))
    coef = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    y = X @ coef + 0.5 * rng.normal(size=300)
    y_new = X_new @ coef + 0.5 * rng.normal(size=2000)
    model = TAGIRegressor(random_state=0).fit(X, y)
    assert model.kinds_["linear"] > 0.8
    ridge = BayesianRidge().fit(X, y)
    assert rmse(model.predict(X_new), y_new) < 1.05 * rmse(ridge.predict(X_new), y_new)


def test_a_wave_is_learned():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1000, 1))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=1000)
    grid = np.linspace(-2.9, 2.9, 500)[:, None]
    model = TAGIRegressor(random_state=0, n_members=5).fit(X, y)
    assert rmse(model.predict(grid), np.sin(5 * grid[:, 0])) < 0.08


def test_weights_sum_to_one_and_name_the_kinds_that_are_there():
    model = quick().fit(*make_rows())
    assert sum(model.kinds_.values()) == pytest.approx(1)
    assert all(0 < weight <= 1 for weight in model.kinds_.values())
    for name in ("coefs_", "coef_vars_", "intercepts_", "intercept_vars_"):
        assert list(getattr(model, name)) == list(model.kinds_)
    assert all((a > 0).all() for a in of_layers(model.coef_vars_))


@both
@pytest.mark.parametrize("lightest", [0.0, 0.34])
def test_best_epochs_are_those_of_the_kinds_that_are_kept(monkeypatch, estimator, lightest):
    monkeypatch.setattr(training, "LEAST_IN_RACE", 0.0)
    monkeypatch.setattr(training, "LIGHTEST", lightest)
    model = quick(estimator, n_members=3).fit(*data_for(estimator))
    n_kinds = len(model.kinds_)
    assert (n_kinds == 3) == (lightest == 0)
    assert model.best_iter_.shape == ((n_kinds, 3) if n_kinds > 1 else (3,))


@pytest.mark.parametrize(
    "params",
    [{"hidden_layer_sizes": (5,)}, {"early_stopping": False}, {"covariance_type": "full"}],
)
def test_members_that_are_alike_have_no_kinds(params):
    model = quick(**{"max_iter": 1, **params}).fit(*make_rows(60))
    assert isinstance(model.coefs_, list)
    with pytest.raises(AttributeError, match="its members are alike"):
        _ = model.kinds_
    with pytest.raises(AttributeError, match="no attribute 'kinds_'"):
        _ = TAGIRegressor().kinds_


@both
def test_a_stream_from_scratch_is_learned_by_one_kind(estimator):
    X, y = data_for(estimator, 60)
    classes = {} if estimator is TAGIRegressor else {"classes": [0, 1]}
    model = quick(estimator).partial_fit(X, y, **classes)
    same = quick(estimator, hidden_layer_sizes=(50,)).partial_fit(X, y, **classes)
    np.testing.assert_array_equal(predictions(model, X), predictions(same, X))


def test_more_rows_are_learned_by_more_kinds_and_many_inputs_as_they_are():
    def names(n_rows, n_inputs=5, is_sparse=False):
        return [kind.name for kind in kinds_for(n_rows, n_inputs, is_sparse=is_sparse)]

    assert names(ENOUGH_ROWS - 1) == ["linear", "smooth", "pieces"]
    assert names(ENOUGH_ROWS) == ["linear", "smooth", "pieces", "deep"]
    assert (
        names(100, MANY_INPUTS + 1) == names(100, is_sparse=True) == ["linear", "smooth", "plain"]
    )
    for n_rows in (10, ENOUGH_ROWS, MANY_ROWS):
        assert len(set(names(n_rows))) == len(names(n_rows))
    views = {kind.view for kind in kinds_for(100, 5, is_sparse=True)}
    assert views == {"plain"}


# ---------------------------------------------------------------------------------------- in jobs


@both
@pytest.mark.parametrize("n", [120, 1100])
def test_as_many_processes_as_kinds_give_the_same_bits_and_more_the_same_numbers(estimator, n):
    """More processes divide members, and stacks are multiplied otherwise than single matrices."""
    X, y = data_for(estimator, n)
    params = {"n_members": 3, "max_iter": 12 if n < 1000 else 3}
    alone = quick(estimator, n_jobs=1, **params).fit(X, y)
    with joblib.parallel_config(backend="threading"):
        same, more = (quick(estimator, n_jobs=k, **params).fit(X, y) for k in (2, 5))
    with joblib.parallel_config(n_jobs=2):
        by_config = quick(estimator, **params).fit(X, y)
    for model in (same, by_config):
        np.testing.assert_array_equal(predictions(model, X), predictions(alone, X))
        assert model.kinds_ == alone.kinds_
        assert model.validation_scores_ == alone.validation_scores_
        assert model.train_scores_ == alone.train_scores_
    tolerance = 1e-8 if n < 1000 else 1e-4  # learned in single precision
    np.testing.assert_allclose(predictions(more, X), predictions(alone, X), atol=tolerance)
    for model in (same, by_config, more):
        assert model.n_iter_ == alone.n_iter_
        np.testing.assert_array_equal(model.best_iter_, alone.best_iter_)


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("early_stopping", [True, False])
def test_members_that_are_alike_learn_in_processes_too(backend, early_stopping):
    """Before the noise is found, and after it: generators go on where they were."""
    X, y = make_rows()
    params = {"hidden_layer_sizes": (5,), "n_members": 3, "early_stopping": early_stopping}
    alone = quick(**params).fit(X, y)
    with joblib.parallel_config(backend=backend):
        model = quick(**params, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(predictions(model, X), predictions(alone, X), rtol=1e-8)
    assert model.n_iter_ == alone.n_iter_ == 12


def test_early_stopping_ends_as_early_in_processes():
    X, y = make_rows()
    params = {"max_iter": 60, "n_iter_no_change": 2, "tol": 0.05, "n_members": 3}
    alone = quick(**params).fit(X, y)
    assert alone.n_iter_ < 60
    with joblib.parallel_config(backend="threading"):
        model = quick(**params, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(predictions(model, X), predictions(alone, X))
    assert model.n_iter_ == alone.n_iter_


# ---------------------------------------------------------------------------- saving and merging


@both
@pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy])
def test_a_copy_says_the_same_and_goes_on_in_the_same_way(estimator, how):
    X, y = data_for(estimator)
    model = quick(estimator).fit(X, y)
    loaded = how(model)
    kept = predictions(model, X)
    np.testing.assert_array_equal(predictions(loaded, X), kept)
    loaded.partial_fit(*data_for(estimator, 40, seed=1))
    np.testing.assert_array_equal(predictions(model, X), kept)
    model.partial_fit(*data_for(estimator, 40, seed=1))
    np.testing.assert_array_equal(predictions(loaded, X), predictions(model, X))
    assert loaded.kinds_ == model.kinds_


@both
def test_copies_that_learn_other_rows_are_merged_kind_by_kind(estimator):
    X, y = data_for(estimator)
    start = fork(quick(estimator).fit(X, y))
    shards = [
        copy.deepcopy(start).partial_fit(*data_for(estimator, 60, seed=seed)) for seed in (1, 2)
    ]
    merged = merge(shards)
    assert merged.n_samples_seen_ == 270
    for name, weight in merged.kinds_.items():
        assert weight == pytest.approx(np.mean([shard.kinds_[name] for shard in shards]))
        pairs = zip(*(shard.coef_vars_[name] for shard in shards), strict=True)
        for mine, (first, second) in zip(merged.coef_vars_[name], pairs, strict=True):
            assert (mine <= np.maximum(first, second) * 1.05).all()  # in units of all rows
    found = [predictions(shard, X)[0] for shard in shards]
    between = np.abs(predictions(merged, X)[0] - np.mean(found, axis=0)).mean()
    assert between < 0.5 * np.abs(found[0] - found[1]).mean() + 0.01


def test_merging_itself_changes_nothing():
    X, y = make_rows()
    start = fork(quick().fit(X, y))
    merged = merge([copy.deepcopy(start), copy.deepcopy(start)])
    np.testing.assert_allclose(predictions(merged, X), predictions(start, X), rtol=1e-6)


def test_kinds_and_members_that_are_alike_are_not_merged():
    X, y = make_rows()
    alike = quick(hidden_layer_sizes=()).fit(X, y)
    with pytest.raises(ValueError, match="differ"):
        merge([quick().fit(X, y), alike])


# ------------------------------------------------------------------------------------- going on


def test_rows_that_come_after_a_fit_are_learned_and_reweight_the_kinds():
    X, y = make_rows(300)
    model = quick(max_iter=20).fit(X, y)
    before = dict(model.kinds_)
    rng = np.random.default_rng(1)
    for _ in range(30):  # the target is linear from now on
        X_new = rng.normal(size=(50, 3))
        model.partial_fit(X_new, X_new @ [3.0, -2.0, 1.0] + 0.1 * rng.normal(size=50))
    assert model.kinds_ != before
    assert list(model.kinds_) == list(before)
    assert sum(model.kinds_.values()) == pytest.approx(1)
    X_new = rng.normal(size=(500, 3))
    assert rmse(model.predict(X_new), X_new @ [3.0, -2.0, 1.0]) < 0.7
    assert model.n_samples_seen_ == 1800


@pytest.mark.parametrize("sigma_v", ["auto", "constant", 0.1])
def test_a_stream_goes_on_where_one_kind_has_all_the_weight(sigma_v):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, 2.0, 3.0] + 1e-3 * rng.normal(size=300)
    model = quick(max_iter=30, sigma_v=sigma_v).fit(X, y)
    assert model.kinds_ == {"linear": 1.0}
    before = model.log_likelihood(X, y)
    model.partial_fit(X[:20], y[:20])
    assert model.kinds_ == {"linear": 1.0}
    assert model.log_likelihood(X, y) > before - 0.5
    assert np.isfinite(model.recent_log_likelihood_)


@both
def test_a_warm_start_goes_on(estimator):
    X, y = data_for(estimator, 200)
    model = quick(estimator, warm_start=True, max_iter=4).fit(X, y)
    first = model.log_likelihood(X, y)
    kinds = list(model.kinds_)
    for _ in range(3):
        model.fit(X, y)
    assert set(model.kinds_) <= set(kinds)
    assert model.log_likelihood(X, y) > first


@pytest.mark.parametrize("n", [150, 1100])
def test_no_epochs_of_a_warm_start_change_nothing(n):
    X, y = make_rows(n)
    model = quick(warm_start=True, max_iter=2).fit(X, y)
    before = predictions(model, X)
    model.set_params(max_iter=0).fit(X, y)
    np.testing.assert_allclose(predictions(model, X), before, rtol=1e-5, atol=1e-6)


@both
def test_no_epochs_leave_the_prior_with_all_kinds(estimator):
    X, y = data_for(estimator)
    model = quick(estimator, max_iter=0).fit(X, y)
    assert list(model.kinds_.values()) == [pytest.approx(1 / 3)] * 3
    assert np.isfinite(predictions(model, X)).all()
    assert model.n_iter_ == 0


@pytest.mark.parametrize("new", [(50,), (), [20, 20]])
def test_another_architecture_does_not_go_on(new):
    X, y = make_rows(60)
    model = quick(max_iter=1, warm_start=True).fit(X, y)
    before = predictions(model, X)
    model.set_params(hidden_layer_sizes=new)
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="hidden_layer_sizes must be as in the fit"):
            go_on(X, y)
    np.testing.assert_array_equal(predictions(model, X), before)
    alike = quick(max_iter=1, warm_start=True, hidden_layer_sizes=(5,)).fit(X, y)
    alike.set_params(hidden_layer_sizes="auto")
    for go_on in (alike.fit, alike.partial_fit):
        with pytest.raises(ValueError, match="hidden_layer_sizes must be as in the fit"):
            go_on(X, y)


@both
@pytest.mark.parametrize("good", [0, 1, 7, 40])
def test_an_interrupt_from_the_keyboard_keeps_what_was_learned(monkeypatch, estimator, good):
    X, y = data_for(estimator)
    calls, learn = [], Learner.learn

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == good + 1:
            raise KeyboardInterrupt
        return learn(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "learn", interrupted)
        with pytest.warns(UserWarning, match="interrupted"):
            model = quick(estimator, max_iter=30).fit(X, y)
    assert np.isfinite(predictions(model, X)).all()
    assert model.n_iter_ == len(model.validation_scores_ or []) <= good // 2
    assert sum(model.kinds_.values()) == pytest.approx(1)
    prior = quick(estimator, max_iter=0).fit(X, y)
    if good == 0:  # any number of epochs starts from the same prior
        for mine, theirs in zip(of_layers(model.coefs_), of_layers(prior.coefs_), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    if good == 40:
        assert model.log_likelihood(X, y) > prior.log_likelihood(X, y)
    model.partial_fit(X[:20], y[:20])


@both
def test_callbacks_see_every_epoch_and_change_nothing(estimator):
    pytest.importorskip("sklearn.callback")
    X, y = data_for(estimator)
    shown = []

    class Watch:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(
            self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
        ):
            if context.task_name == "epoch":
                shown.append(fitted_estimator)

        def teardown(self, estimator, context):
            pass

    watched = quick(estimator, n_jobs=2).set_callbacks(Watch()).fit(X, y)
    assert len(shown) == watched.n_iter_ == 12
    for number, model in enumerate(shown, 1):
        assert model.n_iter_ == number
        assert sum(model.kinds_.values()) == pytest.approx(1)
        assert np.isfinite(predictions(model, X)).all()
    np.testing.assert_array_equal(
        predictions(watched, X), predictions(quick(estimator).fit(X, y), X)
    )


# ---------------------------------------------------------------------------------- kinds of data


@both
def test_uncertain_inputs_are_predicted_with_less_certainty(estimator):
    X, y = data_for(estimator)
    model = quick(estimator).fit(X, y)
    certain = predictions(model, X)
    np.testing.assert_allclose(predictions(model, X, X_std=0.0), certain, rtol=1e-6, atol=1e-9)
    wider = predictions(model, X, X_std=0.5)
    if estimator is TAGIRegressor:
        assert (wider[1] > certain[1]).all()
    else:
        assert np.abs(wider[0] - 0.5).mean() < np.abs(certain[0] - 0.5).mean()


def test_errors_of_inputs_widen_as_random_inputs_do():
    """Small errors of inputs: draws of X around x spread the mean by what X_std adds."""
    X, y = make_rows(400)
    model = quick(max_iter=30, sigma_v="constant").fit(X, y)
    x = X[:8]
    rng = np.random.default_rng(3)
    std = 0.02
    draws = np.array([model.predict(x + std * rng.normal(size=x.shape)) for _ in range(2000)])
    more = model.predict_variance(x, X_std=std)[0] - model.predict_variance(x)[0]
    assert np.median(more / draws.var(axis=0)) == pytest.approx(1, abs=0.5)


def test_inputs_learned_with_errors_teach_less():
    X, y = make_rows(200)
    certain = quick().fit(X, y)
    uncertain = quick().fit(X, y, X_std=1.0)
    assert (
        uncertain.predict(X, return_std=True)[1].mean()
        > certain.predict(X, return_std=True)[1].mean()
    )


def test_targets_have_weights_of_their_own_even_if_some_are_missing():
    X, y = make_rows(300)
    rng = np.random.default_rng(5)
    Y = np.column_stack([y, X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=300)])
    Y[::3, 0] = np.nan
    model = quick(max_iter=25).fit(X, Y)
    for weight in model.kinds_.values():
        assert weight.shape == (2,)
    np.testing.assert_allclose(np.sum(list(model.kinds_.values()), axis=0), 1)
    assert model.kinds_["linear"][1] > 0.7 > 0.3 > model.kinds_["linear"][0]
    assert np.isfinite(predictions(model, X)).all()
    model.partial_fit(X[:30], Y[:30])
    np.testing.assert_allclose(np.sum(list(model.kinds_.values()), axis=0), 1)


@both
def test_sparse_rows_are_learned_by_kinds_that_take_them_as_they_are(estimator):
    X, y = data_for(estimator, 200)
    rng = np.random.default_rng(6)
    X = np.where(rng.random(X.shape) < 0.5, X, 0)
    few = quick(estimator).fit(sparse.csr_array(X), y)  # learned as if they were dense
    np.testing.assert_array_equal(predictions(few, X), predictions(quick(estimator).fit(X, y), X))
    X = np.hstack([X, np.where(rng.random((len(X), 150)) < 0.05, 1.0, 0.0)])
    model = quick(estimator).fit(sparse.csr_array(X), y)
    assert set(model.kinds_) <= {"linear", "smooth", "plain"}
    found = predictions(model, sparse.csr_array(X))
    np.testing.assert_allclose(found, predictions(model, X), rtol=1e-6)
    model.partial_fit(sparse.csr_array(X[:20]), y[:20])


@both
@pytest.mark.parametrize("n", [150, 1100])
def test_predictions_have_the_precision_of_the_inputs(estimator, n):
    X, y = data_for(estimator, n)
    for dtype in (np.float32, np.float64):
        model = quick(estimator, max_iter=3).fit(X.astype(dtype), y)
        assert predictions(model, X).dtype == dtype
        assert {a.dtype for a in of_layers(model.coefs_)} == {np.dtype(dtype)}
        model.partial_fit(X[:10].astype(dtype), y[:10])
        assert predictions(model, X).dtype == dtype


@both
def test_equal_weights_of_any_size_are_no_weights(estimator):
    X, y = data_for(estimator)
    plain = predictions(quick(estimator).fit(X, y), X)
    weighted = quick(estimator).fit(X, y, sample_weight=np.full(len(y), 7.0))
    np.testing.assert_allclose(predictions(weighted, X), plain, rtol=1e-6)


@both
def test_a_row_of_weight_two_is_the_row_twice_in_the_same_batch(estimator):
    X, y = data_for(estimator, 100)
    counts = np.random.default_rng(7).integers(1, 3, size=100)
    params = {"batch_size": 10**6, "shuffle": False}
    weighted = quick(estimator, **params).fit(X, y, sample_weight=counts)
    copies = quick(estimator, **params).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(predictions(weighted, X), predictions(copies, X), atol=1e-6)
    plain = quick(estimator, **params).fit(X, y)
    assert np.abs(predictions(plain, X) - predictions(copies, X)).max() > 1e-3


def test_a_row_of_weight_two_is_nearly_the_row_twice_in_other_batches():
    """Batches and held-out rows differ, the data do not."""
    X, y = make_rows(200)
    X_new, y_new = make_rows(1000, seed=1)
    counts = np.random.default_rng(7).integers(1, 3, size=200)
    weighted = quick(max_iter=40).fit(X, y, sample_weight=counts)
    copies = quick(max_iter=40).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    found = [rmse(model.predict(X_new), y_new) for model in (weighted, copies)]
    assert found[0] == pytest.approx(found[1], rel=0.15)


def test_a_row_of_no_weight_is_no_row():
    X, y = make_rows(120)
    weight = np.ones(160)
    weight[120:] = 0
    X_more = np.concatenate([X, np.full((40, 3), 9.0)])
    y_more = np.concatenate([y, np.full(40, 100.0)])
    model = quick().fit(X_more, y_more, sample_weight=weight)
    low, high = y.min() - 1, y.max() + 1
    found = model.predict(X)
    assert ((found > low) & (found < high)).all()
    assert rmse(found, y) < 0.8


def test_constant_inputs_and_few_rows_are_learned():
    rng = np.random.default_rng(8)
    for n in (3, 5, 12):
        X = np.column_stack([rng.normal(size=n), np.full(n, 4.0)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = quick(n_members=10).fit(X, X[:, 0])
        assert np.isfinite(predictions(model, X)).all()


def test_numbers_of_a_new_value_of_a_constant_input_stay_moderate():
    X, y = make_rows()
    X = np.column_stack([X, np.full(len(X), 0.7)])
    for standardize in (True, False):
        model = quick(standardize=standardize).fit(X, y)
        new = X.copy()
        new[:, 3] = 0.8
        off = np.abs(model.predict(new) - model.predict(X))
        assert off.max() < 1.0


# --------------------------------------------------------------------------------- as scikit-learn


def test_a_search_over_architectures():
    X, y = make_rows(90)
    grid = {"hidden_layer_sizes": [(), "auto"]}
    search = GridSearchCV(quick(max_iter=15), grid, cv=2, error_score="raise").fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"hidden_layer_sizes": "auto"}
    assert scores[1] > scores[0]


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_a_wrong_number_of_jobs_is_refused_by_name(n_jobs):
    with pytest.raises(ValueError, match=r"n_jobs .*None or an integer that is not 0"):
        quick(n_jobs=n_jobs).fit(*make_rows(20))


def test_wrong_words_are_refused_with_the_one_that_is_right():
    with pytest.raises(ValueError, match=r"max_iter .*'auto'.*'all'"):
        quick(max_iter="all").fit(*make_rows(20))
    with pytest.raises(ValueError, match=r"hidden_layer_sizes .*'auto'.*'deep'"):
        quick(hidden_layer_sizes="deep").fit(*make_rows(20))


def test_epochs_are_planned_by_the_number_of_rows():
    model = TAGIRegressor()
    n_epochs = [model._n_epochs(n) for n in (1, 1000, 8000, 27_000, 64_000, 10**6)]
    assert n_epochs == [60, 60, 30, 20, 15, 10]
    assert TAGIRegressor(max_iter=7)._n_epochs(10**6) == 7


# ---------------------------------------------------------------------- corners that were wrong


def near_linear(n=900):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    return X, X.sum(axis=1) + 0.3 * rng.normal(size=n)


def test_a_stream_after_a_fit_to_linear_data_keeps_its_std():
    """The linear kind has few parameters, and would forget within a batch."""
    X, y = near_linear()
    model = TAGIRegressor(random_state=0).fit(X[:300], y[:300])
    for start in range(300, 900, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    _, std = model.predict(X, return_std=True)
    assert std.mean() == pytest.approx(0.3, rel=0.15)


def test_a_warm_start_that_holds_out_nothing_keeps_the_weights():
    X, y = near_linear(120)
    model = TAGIRegressor(warm_start=True, max_iter=12, random_state=0).fit(X, y)
    before = model.kinds_
    assert model.set_params(early_stopping=False).fit(X, y).kinds_ == before


def test_an_interrupt_while_kinds_are_weighed_keeps_the_fit(monkeypatch):
    from sktagi.engine import sources

    X, y = near_linear(120)
    calls, weigh = [], sources.best_weights

    def interrupted(held):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return weigh(held)

    monkeypatch.setattr(sources, "best_weights", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        model = TAGIRegressor(max_iter=20, random_state=0).fit(X, y)
    assert model.n_iter_ >= 10
    assert model.score(X, y) > 0.9


def test_a_row_that_all_members_hold_out_counts_once_for_the_weights():
    X, y = near_linear(101)
    model = TAGIRegressor(max_iter=12, random_state=0)
    model.fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:])
    np.testing.assert_allclose(model._net.evidence.n_rows, 1)


def test_one_huge_weight_is_learned_or_refused_clearly():
    X, y = near_linear(120)
    weight = np.ones(120)
    weight[0] = 1e30
    with np.errstate(all="ignore"):
        model = TAGIRegressor(max_iter=12, random_state=0).fit(X, y, sample_weight=weight)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_large_errors_of_inputs_are_learned_in_double_precision():
    X, y = near_linear(450)
    X_std = np.zeros_like(X)
    X_std[::5, 1] = 1e20
    model = TAGIRegressor(max_iter=12, random_state=0).fit(X, y, X_std=X_std)
    assert np.isfinite(model.predict(X)).all()
