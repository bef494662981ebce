"""Callbacks of scikit-learn 1.9; earlier versions do without."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.metrics import crps_scorer, log_likelihood_scorer

try:
    from sklearn.callback import ProgressBar, ScoringMonitor
except ImportError:
    ProgressBar = ScoringMonitor = None

ESTIMATORS = [TAGIRegressor, TAGIClassifier]
needs_callbacks = pytest.mark.skipif(ScoringMonitor is None, reason="scikit-learn before 1.9")


def data(n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 7, 3)


def make(estimator, **params):
    quick = {"hidden_layer_sizes": (8,), "max_iter": 6, "n_members": 2, "random_state": 0}
    return estimator(**{**quick, **params})


def predictions(model, X):
    if isinstance(model, TAGIClassifier):
        return model.predict_proba(X, return_std=True)
    return model.predict(X, return_std=True)


class Recorder:
    """Keeps what it is given; may stop or fail after an epoch."""

    def __init__(self, stop_after=None, fail_after=None, fail_with=ValueError):
        self.events, self.fitted, self.given = [], [], []
        self.stop_after, self.fail_after, self.fail_with = stop_after, fail_after, fail_with

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.events.append(f"end {context.task_name}")
        if context.task_name != "epoch":
            return False
        self.fitted.append(fitted_estimator)
        self.given.append((X, y, metadata))
        if context.task_id + 1 == self.fail_after:
            raise self.fail_with
        return context.task_id + 1 == self.stop_after

    def teardown(self, estimator, context):
        self.events.append("teardown")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_set_callbacks_is_there_from_1_9_on_and_not_before(estimator):
    assert hasattr(estimator(), "set_callbacks") == (ScoringMonitor is not None)


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_each_epoch_is_a_task_of_fit(estimator):
    recorder = Recorder()
    model = make(estimator).set_callbacks(recorder).fit(*data())
    epochs = ["begin epoch", "end epoch"] * 6
    assert recorder.events == ["setup", "begin fit", *epochs, "end fit", "teardown"]
    assert not [name for name in vars(model) if "callback" in name and name != "_skl_callbacks"]


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("early_stopping", [True, False])
def test_an_epoch_shows_the_estimator_that_fit_would_give_if_it_ended_there(
    estimator, early_stopping
):
    X, y = data()
    recorder = Recorder()
    # Forgetting that depends on the epochs that are planned would make shorter fits differ.
    params = {"early_stopping": early_stopping, "sigma_v": "constant", "half_life": 200.0}
    make(estimator, **params).set_callbacks(recorder).fit(X, y)
    for epoch, shown in enumerate(recorder.fitted, start=1):
        expected = make(estimator, **params, max_iter=epoch).fit(X, y)
        for mine, theirs in zip(predictions(shown, X), predictions(expected, X), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert shown.n_iter_ == epoch
        assert shown.train_scores_ == expected.train_scores_
        assert shown.validation_scores_ == expected.validation_scores_
        np.testing.assert_array_equal(shown.best_iter_, expected.best_iter_)
        assert shown.n_samples_seen_ == expected.n_samples_seen_


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("early_stopping", [True, False])
def test_a_callback_stops_training(estimator, early_stopping, capsys):
    X, y = data()
    recorder = Recorder(stop_after=3)
    params = {"early_stopping": early_stopping, "half_life": 200.0}
    model = make(estimator, **params, verbose=1).set_callbacks(recorder).fit(X, y)
    expected = make(estimator, **params, max_iter=3).fit(X, y)
    for mine, theirs in zip(predictions(model, X), predictions(expected, X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert model.n_iter_ == 3
    assert recorder.events[-3:] == ["end epoch", "end fit", "teardown"]
    assert "stopped by a callback after 3 epochs" in capsys.readouterr().out


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_callbacks_change_nothing_that_is_learned(estimator):
    X, y = data()
    watched = make(estimator).set_callbacks(Recorder()).fit(X, y)
    for mine, theirs in zip(
        predictions(watched, X), predictions(make(estimator).fit(X, y), X), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_callback_that_fails_is_torn_down_and_leaves_the_estimator_as_it_was(estimator):
    X, y = data()
    model = make(estimator).fit(X, y)
    before, state = predictions(model, X), set(vars(model))
    recorder = Recorder(fail_after=2)
    with pytest.raises(ValueError):
        model.set_callbacks(recorder).fit(X[::-1] * 3, y)
    assert recorder.events[-2:] == ["end epoch", "teardown"]
    assert set(vars(model)) == state | {"_skl_callbacks"}
    for mine, theirs in zip(before, predictions(model, X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@needs_callbacks
def test_bad_input_tears_down_what_was_set_up():
    X, y = data()
    recorder = Recorder()
    with pytest.raises(ValueError, match="infinity"):
        make(TAGIRegressor).set_callbacks(recorder).fit(X * np.inf, y)
    assert recorder.events == ["setup", "begin fit", "teardown"]
    recorder = Recorder()
    with pytest.raises(ValueError, match="max_iter"):
        make(TAGIRegressor, max_iter=-1).set_callbacks(recorder).fit(X, y)
    assert recorder.events == []


@needs_callbacks
def test_an_interrupted_epoch_ends_for_callbacks_too(monkeypatch):
    from sktagi.engine.learning import Learner

    original, calls = Learner.learn, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(Learner, "learn", interrupted)
    recorder = Recorder()
    with pytest.warns(UserWarning, match="interrupted in epoch 3"):
        make(TAGIRegressor, sigma_v="constant").set_callbacks(recorder).fit(*data())
    assert recorder.events.count("begin epoch") == recorder.events.count("end epoch") == 3
    assert recorder.fitted[-1] is None


def test_the_warning_of_an_interrupt_points_to_the_caller_of_fit(monkeypatch):
    from sktagi.engine.learning import Learner

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "learn", interrupted)
    with pytest.warns(UserWarning, match="interrupted") as caught:
        make(TAGIRegressor).fit(*data())
    assert [w.filename for w in caught] == [__file__]


@needs_callbacks
@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_callbacks_get_rows_and_labels_as_they_were_given(frame, recwarn):
    library = pytest.importorskip(frame)
    X, y = data()
    X = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    labels = np.where(y == 7, "yes", "no")
    weight = np.linspace(0, 1, len(y))
    recorder = Recorder()
    monitor = ScoringMonitor(scoring={"accuracy": "accuracy", "ll": log_likelihood_scorer})
    model = make(TAGIClassifier).set_callbacks(recorder, monitor)
    model.fit(X, labels, sample_weight=weight)
    for given_X, given_y, metadata in recorder.given:
        assert given_X is X
        assert given_y is labels
        assert metadata["sample_weight"] is weight
    last = monitor.get_logs().data[-1]
    assert last["ll"] == pytest.approx(model.log_likelihood(X, labels, sample_weight=weight))
    assert last["accuracy"] == pytest.approx(model.score(X, labels, sample_weight=weight))
    assert not [w for w in recwarn if "feature names" in str(w.message)]


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scoring_monitor_scores_the_posterior_of_each_epoch(estimator):
    X, y = data()
    monitor = ScoringMonitor(scoring={"ll": log_likelihood_scorer})
    make(estimator, early_stopping=False).set_callbacks(monitor).fit(X, y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert [row["task_id"] for row in rows] == list(range(6))
    for row in rows:
        model = make(estimator, early_stopping=False, max_iter=row["task_id"] + 1).fit(X, y)
        assert row["ll"] == pytest.approx(model.log_likelihood(X, y))


@needs_callbacks
def test_scoring_monitor_works_inside_search_and_pipeline():
    X, y = data()
    monitor = ScoringMonitor(scoring={"crps": crps_scorer, "r2": "r2"})
    model = make_pipeline(StandardScaler(), make(TAGIRegressor).set_callbacks(monitor))
    grid = {"tagiregressor__sigma_v": [0.2, 0.5]}
    search = GridSearchCV(model, grid, cv=2, scoring=crps_scorer).fit(X, y)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(rows) == (2 * 2 + 1) * 6  # two values, two folds, and the refit
    assert all(row["crps"] < 0 for row in rows)
    plain = clone(model).set_params(**search.best_params_)
    plain[-1].set_callbacks()
    np.testing.assert_array_equal(search.predict(X), plain.fit(X, y).predict(X))


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_copies_keep_callbacks_and_predictions(estimator):
    X, y = data()
    monitor = ScoringMonitor(scoring={"ll": log_likelihood_scorer})
    model = make(estimator).set_callbacks(monitor).fit(X, y)
    assert clone(model)._skl_callbacks == [monitor]
    assert not hasattr(clone(model), "coefs_")
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        for mine, theirs in zip(predictions(model, X), predictions(copied, X), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        copied.fit(X, y)


@needs_callbacks
def test_a_warm_start_shows_the_posterior_that_goes_on():
    X, y = data()
    recorder = Recorder()
    model = make(TAGIRegressor, warm_start=True, early_stopping=False, shuffle=False).fit(X, y)
    expected = copy.deepcopy(model).set_params(max_iter=2).fit(X, y)
    model.set_callbacks(recorder).fit(X, y)
    np.testing.assert_array_equal(recorder.fitted[1].predict(X), expected.predict(X))
    assert recorder.fitted[1].n_samples_seen_ == 2 * len(X)


@needs_callbacks
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_progress_bar_reaches_the_end_alone_and_in_a_search(estimator, capsys):
    pytest.importorskip("rich")
    X, y = data()
    make(estimator).set_callbacks(ProgressBar()).fit(X, y)
    out = capsys.readouterr().out
    assert f"{estimator.__name__} - fit" in out
    assert "100%" in out
    search = GridSearchCV(make(estimator), {"sigma_v": [0.2, 0.5]}, cv=2)
    search.set_callbacks(ProgressBar()).fit(X, y)
    out = capsys.readouterr().out
    assert estimator.__name__ in out
    assert "100%" in out
