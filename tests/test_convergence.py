"""A ConvergenceWarning tells of a fit that max_iter has ended too early, and of no other."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_friedman1
from sklearn.exceptions import ConvergenceWarning

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._convergence import CLEAR_GAIN, warn_if_still_gaining
from sktagi.engine.runs import Plan
from sktagi.engine.training import History


def history(scores, **fields):
    return History(train_scores=list(scores), validation_scores=list(scores), **fields)


def found_by(history, plan):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_if_still_gaining(history, plan, stacklevel=2)
    return found


def rising(n, gain_per_epoch):
    return np.arange(n) * gain_per_epoch


PLAN = Plan(max_iter=30, n_iter_no_change=10, tol=1e-4)
STEEP = 2 * CLEAR_GAIN / 10


def test_scores_that_rise_to_the_end_are_told_of_with_how_much():
    (warning,) = found_by(history(rising(30, 0.02)), PLAN)
    assert warning.category is ConvergenceWarning
    assert "max_iter=30" in str(warning.message)
    assert "by 0.2 in the last 10 epochs" in str(warning.message)


@pytest.mark.parametrize(
    "scores",
    [
        rising(30, 0.8 * CLEAR_GAIN / 10),  # hardly any gain
        np.minimum(rising(30, 1.0), 19),  # risen long ago
        -rising(30, 1.0),
        np.where(np.arange(30) % 2, 0.0, -1.0),  # up and down
        rising(29, STEEP),  # ended by early stopping
    ],
)
def test_scores_that_do_not_rise_at_the_end_are_not(scores):
    assert not found_by(history(scores), PLAN)


@pytest.mark.parametrize("ended", [{"interrupted": True}, {"stopped": True}])
def test_an_end_that_somebody_asked_for_is_not(ended):
    assert not found_by(history(rising(30, STEEP), **ended), PLAN)


def test_as_many_epochs_as_early_stopping_waits_for_are_asked_for():
    steep = history(rising(10, STEEP))
    assert not found_by(steep, Plan(10, n_iter_no_change=10))
    assert not found_by(steep, Plan(10, n_iter_no_change=20))
    assert found_by(history(rising(11, STEEP)), Plan(11, n_iter_no_change=10))
    assert not found_by(History(), Plan(0))


def test_a_gain_that_tol_does_not_count_is_not_told_of():
    scores = history(rising(30, STEEP))
    assert not found_by(scores, PLAN._replace(tol=2 * STEEP))


def test_without_validation_rows_there_is_nothing_to_tell():
    assert not found_by(History(train_scores=list(rising(30, STEEP))), PLAN)


def slow(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, X @ np.arange(5) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize(
    ("estimator", "hidden_layer_sizes"),
    [(TAGIRegressor, (50,)), (TAGIRegressor, "auto"), (TAGIClassifier, (50,))],
)
def test_a_fit_that_is_cut_short_warns_once_and_at_the_call_of_fit(estimator, hidden_layer_sizes):
    X, y = slow()
    params = {"hidden_layer_sizes": hidden_layer_sizes, "half_life": 300.0}
    params |= {"max_iter": 6, "n_iter_no_change": 5, "random_state": 0}
    if estimator is TAGIClassifier:
        y = y > 0
    with pytest.warns(ConvergenceWarning, match="increase max_iter") as found:
        estimator(**params).fit(X, y)
    assert len(found) == 1
    assert found[0].filename == __file__


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("hidden_layer_sizes", [(50,), "auto"])
def test_forgetting_that_ends_with_the_epochs_that_are_planned_gains_to_the_end(hidden_layer_sizes):
    model = TAGIRegressor(hidden_layer_sizes, max_iter=6, n_iter_no_change=5, random_state=0)
    model.fit(*slow())
    assert model.validation_scores_[-1] > model.validation_scores_[-6] + CLEAR_GAIN


def warnings_of(model, X, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(warning.message) for warning in found]


@pytest.mark.parametrize(
    "params", [{"max_iter": 0}, {"max_iter": 5}, {"max_iter": 20}, {"early_stopping": False}]
)
def test_few_epochs_and_fits_without_early_stopping_do_not_warn(params):
    model = TAGIRegressor(**{"max_iter": 40, "random_state": 0, **params})
    assert warnings_of(model, *slow()) == []


@pytest.mark.parametrize("seed", range(3))
def test_ordinary_data_and_default_settings_do_not_warn(seed):
    x = np.random.default_rng(seed).uniform(-3, 3, size=(500, 1))
    noise = 0.1 * np.random.default_rng(seed + 1).normal(size=500)
    for data in (
        load_diabetes(return_X_y=True),
        make_friedman1(500, noise=1.0, random_state=seed),
        (x, np.sin(x[:, 0]) + noise),
    ):
        assert warnings_of(TAGIRegressor(random_state=seed), *data) == []
    assert warnings_of(TAGIClassifier(random_state=seed), *load_iris(return_X_y=True)) == []


def test_the_papers_setting_does_not_warn():
    model = TAGIRegressor(
        (50,), sigma_v=0.3, batch_size=10, batch_inference="independent", half_life=None,
        n_members=1, early_stopping=False, max_iter=40, random_state=0,
    )  # fmt: skip
    assert warnings_of(model, *slow()) == []
