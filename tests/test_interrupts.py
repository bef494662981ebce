"""Ctrl-C: what was learned is kept, a second one ends everything, and nothing is left half done."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi import _base as base
from sktagi.engine import interrupts, learning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=90)
BOTH = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])


def quick(estimator, **params):
    defaults = {"hidden_layer_sizes": (4,), "n_members": 1, "max_iter": 8, "random_state": 0}
    return estimator(**{**defaults, **params})


def targets(estimator):
    return Y if estimator is TAGIRegressor else Y > 0


def interrupt(monkeypatch, name, when, owner=learning.Learner):
    """Ctrl-C in some of the calls of a function, by their numbers from 1 on."""
    original, calls = getattr(owner, name), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) in when:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)
    return calls


CALIBRATES = {TAGIRegressor: "set_calibration", TAGIClassifier: "calibrate_classes"}


def module_of(estimator):
    from sktagi import _classifier

    return base if estimator is TAGIRegressor else _classifier


@BOTH
@pytest.mark.parametrize("sizes", [(4,), "auto"])
def test_an_interrupt_of_the_calibration_keeps_all_epochs(monkeypatch, estimator, sizes):
    expected = quick(estimator, hidden_layer_sizes=sizes, sigma_v="constant").fit(
        X, targets(estimator)
    )
    interrupt(monkeypatch, CALIBRATES[estimator], {1}, module_of(estimator))
    model = quick(estimator, hidden_layer_sizes=sizes, sigma_v="constant")
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(X, targets(estimator))
    assert model.n_iter_ == expected.n_iter_ == 8
    assert model._net.calibration is None
    np.testing.assert_allclose(model.predict(X), expected.predict(X))
    assert model.score(X, targets(estimator)) > 0.8


@BOTH
@pytest.mark.parametrize("fitted", [False, True])
def test_a_second_interrupt_within_the_fit_leaves_the_estimator_as_it_was(
    monkeypatch, estimator, fitted
):
    model = quick(estimator, warm_start=True)
    if fitted:
        model.fit(X, targets(estimator))
    before = pickle.dumps(model)
    monkeypatch.setattr(interrupts, "SOON", 0.0)  # however quick the machine is
    interrupt(monkeypatch, "learn", {3})
    calls = interrupt(monkeypatch, CALIBRATES[estimator], {1}, module_of(estimator))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, targets(estimator))
    assert len(calls) == 1
    assert pickle.dumps(model) == before


def test_an_interrupt_soon_after_one_of_another_fit_is_raised(monkeypatch):
    model = quick(TAGIRegressor, sigma_v=0.3)
    interrupt(monkeypatch, "learn", {3, 4})
    with pytest.warns(UserWarning, match="interrupted in epoch 3"):
        model.fit(X, Y)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)


def test_an_interrupt_long_after_one_of_another_fit_keeps_what_was_learned(monkeypatch):
    for _ in range(2):
        with monkeypatch.context() as patched:
            interrupt(patched, "learn", {3})
            with pytest.warns(UserWarning, match="interrupted in epoch 3"):
                quick(TAGIRegressor).fit(X, Y)
        monkeypatch.setattr(interrupts, "_last", interrupts._last - interrupts.SOON)


def test_two_interrupts_end_a_search_that_fits_one_estimator_after_the_other(monkeypatch):
    def search():
        found = GridSearchCV(quick(TAGIRegressor), {"sigma_v": [0.1, 0.3, 0.9]}, cv=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return found.fit(X, Y)

    calls = interrupt(monkeypatch, "learn", {3})
    assert len(search().cv_results_["params"]) == 3  # one goes on
    assert len(calls) > 30
    monkeypatch.setattr(interrupts, "_last", -np.inf)
    calls = interrupt(monkeypatch, "learn", {3, 5})
    with pytest.raises(KeyboardInterrupt):
        search()
    assert len(calls) == 5
