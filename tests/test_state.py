"""Saving and loading: equal predictions, equal continuation, and a version."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import is_classifier

from sktagi import TAGIClassifier, TAGIRegressor, __version__
from sktagi._state import STATE_VERSION, from_plain, to_plain

both = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(model):
    skops_io = pytest.importorskip("skops.io")
    data = skops_io.dumps(model)
    unknown = skops_io.get_untrusted_types(data=data)
    assert unknown == [f"{type(model).__module__}.{type(model).__name__}"]
    return skops_io.loads(data, trusted=unknown)


def make_rows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = 10 + 5 * rng.normal(size=(n, 3))
    return X, (X[:, 0] > X[:, 1]).astype(int)


def learn(model, X, y, size=30):
    for start in range(0, len(X), size):
        known = {"classes": [0, 1, 2]} if is_classifier(model) else {}
        model.partial_fit(X[start : start + size], y[start : start + size], **known)
    return model


def predictions(model, X):
    if is_classifier(model):
        return model.predict_proba(X, return_std=True)
    return model.predict(X, return_std=True)


@both
@pytest.mark.parametrize("how", [by_pickle, by_joblib, by_skops, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", ["relu", "relu_exact"])
def test_predictions_and_continuation_are_bit_equal(estimator, how, dtype, activation):
    X, y = make_rows()
    X = X.astype(dtype)
    model = learn(estimator((7,), activation, n_members=2, random_state=0), X[:60], y[:60])
    loaded = how(model)
    np.testing.assert_array_equal(predictions(loaded, X), predictions(model, X))
    assert loaded.recent_log_likelihood_ == model.recent_log_likelihood_
    kept = predictions(model, X)
    learn(loaded, X[60:], y[60:], size=7)
    np.testing.assert_array_equal(predictions(model, X), kept)  # the two share nothing they write
    learn(model, X[60:], y[60:], size=7)
    np.testing.assert_array_equal(predictions(loaded, X), predictions(model, X))
    assert loaded.prequential_log_likelihood_ == model.prequential_log_likelihood_
    assert loaded.sigma_v_ == model.sigma_v_


@both
@pytest.mark.parametrize("how", [by_pickle, by_skops])
def test_a_fit_continues_bit_equally_after_a_reload(estimator, how):
    X, y = make_rows()
    model = estimator((7,), max_iter=2, warm_start=True, random_state=0).fit(X, y)
    loaded = how(model)
    np.testing.assert_array_equal(predictions(loaded, X), predictions(model, X))  # calibrated too
    np.testing.assert_array_equal(predictions(loaded.fit(X, y), X), predictions(model.fit(X, y), X))
    assert loaded.train_scores_ == model.train_scores_


def test_what_was_changed_after_the_fit_does_not_leak_into_predictions():
    X, y = make_rows()
    model = TAGIClassifier((7,), max_iter=2, random_state=0).fit(X, y)
    model.set_params(probit_scale=2.0, activation="tanh")
    np.testing.assert_array_equal(predictions(by_pickle(model), X), predictions(model, X))


@both
def test_state_holds_no_private_classes(estimator):
    X, y = make_rows()
    state = learn(estimator(random_state=0), X, y).__getstate__()
    kinds = set()

    def visit(value):
        kinds.add(type(value))
        for item in value.values() if isinstance(value, dict) else ():
            visit(item)
        for item in value if isinstance(value, (list, tuple)) else ():
            visit(item)

    visit(state)
    assert {k for k in kinds if k.__module__ not in ("builtins", "numpy")} == set()
    assert state["_state_version"] == STATE_VERSION


def fitted(kind):
    X, y = make_rows(200)
    params = {"hidden_layer_sizes": (5,), "n_members": 2, "max_iter": 3, "random_state": 0}
    if kind == "kinds":
        params["hidden_layer_sizes"] = "auto"
    if kind == "classifier":
        return TAGIClassifier(**params, probit_scale=0.5).fit(X, y)
    Y = np.column_stack([X[:, 0], X[:, 1] ** 2])
    Y[::3, 1] = np.nan
    params["covariance_type"] = "full" if kind == "full" else "diag"
    return TAGIRegressor(**params, activation="tanh").fit(X, Y).partial_fit(X[:20], Y[:20])


def assert_equal_values(mine, theirs):
    """Of plain values, dicts, lists and arrays, of the same types all the way down."""
    assert type(mine) is type(theirs)
    if isinstance(mine, dict):
        assert list(mine) == list(theirs)
        for key, value in mine.items():
            assert_equal_values(value, theirs[key])
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_equal_values(one, other)
    elif isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs, strict=True)
    else:
        assert mine == theirs or mine is theirs


@pytest.mark.parametrize("kind", ["regressor", "full", "kinds", "classifier"])
def test_plain_values_there_and_back(kind):
    """All that there is of a state, calibrated and with targets that were not observed."""
    model = fitted(kind)
    state = model.__getstate__()
    assert state["_state_version"] == STATE_VERSION == 5
    assert state["_saved_by"] == __version__
    restored = from_plain(state, "model")
    assert set(restored) == set(vars(model))
    for name, value in vars(model).items():
        assert type(restored[name]) is type(value)
    assert_equal_values(to_plain(restored), state)
    if kind == "kinds":
        networks = state["_net"]["networks"]
        assert state["_net"]["sktagi"] == "Mixture"
        assert state["_net"]["evidence"]["sktagi"] == "Evidence"
        encodings = {n["encoding"]["sktagi"] for n in networks if n["encoding"] is not None}
        assert encodings == {"Pieces", "Whitening"}
        return
    net, saved = model._net, state["_net"]
    layer = "FullLayer" if kind == "full" else "Layer"
    assert [part["sktagi"] for part in saved["layers"]] == [layer, layer]
    assert saved["outputs"]["sktagi"] == ("ClassTree" if kind == "classifier" else "Gaussian")
    assert saved["activation"] == {"sktagi": "activation", "name": model.activation}
    assert saved["noise_var"].shape == saved["rows_learned"].shape == net.noise_var.shape
    assert saved["calibration"]["sktagi"] == "Calibration"
    n_noise = 1 if kind == "classifier" else 2
    assert saved["calibration"]["noise_scale"].shape == (n_noise, 1)
    scaling = state["_scaling"]
    assert scaling["sktagi"] == "Scaling"
    assert scaling["x"]["sktagi"] == "Moments"
    assert (scaling["y"] is None) == (kind == "classifier")
    assert state["_origin"]["scaling"]["sktagi"] == "Scaling"


def test_fields_that_are_missing_or_unknown_are_not_read_as_something_else():
    state = fitted("regressor").__getstate__()
    for change in ({"new": 1}, {"sktagi": "Unknown"}):
        with pytest.raises(ValueError, match=r"state of this TAGIRegressor is damaged"):
            from_plain({**state, "_net": {**state["_net"], **change}}, "TAGIRegressor")
    lacking = {name: v for name, v in state["_net"].items() if name != "noise_var"}
    with pytest.raises(ValueError, match="noise_var"):
        from_plain({**state, "_net": lacking}, "TAGIRegressor")


@both
def test_state_of_a_newer_version_is_refused(estimator):
    X, y = make_rows()
    state = learn(estimator(random_state=0), X, y).__getstate__()
    state.update(_state_version=STATE_VERSION + 1, _saved_by="9.9")
    with pytest.raises(ValueError, match=rf"version {STATE_VERSION + 1}.*up to {STATE_VERSION}\."):
        estimator.__new__(estimator).__setstate__(state)
    with pytest.raises(ValueError, match=rf"sktagi 9\.9 .* sktagi {__version__}"):
        estimator.__new__(estimator).__setstate__(state)


@both
def test_an_unfitted_estimator_is_saved_too(estimator):
    loaded = by_pickle(estimator(half_life=7))
    assert loaded.half_life == 7
    assert not loaded.__sklearn_is_fitted__()


def test_state_of_a_long_stream_does_not_grow():
    X, y = make_rows()
    model = learn(TAGIRegressor((5,), n_members=1, random_state=0), X, y, size=1)
    size = len(pickle.dumps(model))
    for _ in range(20):
        learn(model, X, y, size=1)
    assert len(pickle.dumps(model)) <= size + 50
