"""Estimators that an earlier version saved: they say the same, and go on in the same way.

``data/state_version_1.pkl`` was made by sktagi 0.1 (state version 1) with NumPy 1.26 and
scikit-learn 1.6: a pickle, protocol 4, of the estimators in ``NAMES``, the rows they were given
and what they predicted then. All were fitted to rows 0 to 129, "streamed" and "merged" to a part of
them, and then learned the rest by ``partial_fit``; "merged" in two shards.

``data/state_version_3.pkl`` holds the same kinds of estimators, made by the last version whose
members were all alike (state version 3), without what they predicted after a warm fit.

``data/state_version_4.pkl`` holds a regressor and a classifier of unlike members (state version 4),
made by the last version that did not take missing values; fitted to rows 0 to 129.
"""

from __future__ import annotations

import pickle
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

from sktagi.engine.mixture import Mixture
from sktagi.merging import fork, merge

NAMES = "members", "targets", "classes", "float32", "full", "sparse", "streamed", "merged"
LEARNED, MORE, NEW = slice(0, 130), slice(130, 150), slice(150, 156)
each = pytest.mark.parametrize("name", NAMES)


def load(version) -> dict:
    path = Path(__file__).parent / "data" / f"state_version_{version}.pkl"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        return pickle.loads(path.read_bytes())


@pytest.fixture
def saved() -> dict:
    return load(1)


def rows(saved, name, part):
    """Rows as the estimator was given them."""
    inputs = saved["inputs"]
    if name == "sparse":
        return sparse.csr_array(inputs["sparse"][part])
    return inputs["X"][part].astype(np.float32 if name == "float32" else np.float64)


def answers(saved, name, part):
    column = {"targets": "targets", "classes": "labels", "float32": "labels"}.get(name, "y")
    return saved["inputs"][column][part]


def predictions(model, X) -> dict:
    if hasattr(model, "classes_"):
        proba, proba_std = model.predict_proba(X, return_std=True)
        return {"proba": proba, "proba_std": proba_std}
    mean, std = model.predict(X, return_std=True)
    epistemic, aleatoric = model.predict_variance(X)
    interval, quantiles = model.predict_interval(X, 0.8), model.predict_quantiles(X, [0.02, 0.7])
    return {"mean": mean, "std": std, "interval": interval, "quantiles": quantiles,
            "epistemic": epistemic, "aleatoric": aleatoric}  # fmt: skip


def assert_predicts(model, saved, name, when):
    found, expected = predictions(model, rows(saved, name, NEW)), saved["expected"][name][when]
    assert found.keys() == expected.keys()
    if "quantiles" in expected:  # those of a Gaussian now: its tails had another form
        expected = {**expected, **gaussian(expected["mean"], expected["std"])}
    if "proba_std" in expected:  # the noise is not in it any more
        assert (found["proba_std"] < expected["proba_std"]).all()
        expected = {"proba": expected["proba"]}
    for quantity, values in expected.items():
        assert found[quantity].dtype == values.dtype
        tolerance = 1e-4 if values.dtype == np.float32 or name == "float32" else 1e-10
        np.testing.assert_allclose(found[quantity], values, rtol=tolerance, err_msg=quantity)


def gaussian(mean, std):
    ends = stats.norm.ppf([0.1, 0.9, 0.02, 0.7], mean[..., None], std[..., None])
    return {"interval": ends[..., :2], "quantiles": ends[..., 2:]}


@each
def test_predictions_are_those_of_the_version_that_saved(saved, name):
    assert set(saved["estimators"]) == set(NAMES)
    assert_predicts(saved["estimators"][name], saved, name, "predictions")


@each
def test_public_attributes_are_there(saved, name):
    model = saved["estimators"][name]
    for attribute, expected in saved["expected"][name]["attributes"].items():
        found = getattr(model, attribute)
        if attribute == "classes_" or expected is None:
            assert np.array_equal(found, expected)
            continue
        of_layers = attribute.startswith(("coef", "intercept", "layer"))
        pairs = zip(found, expected, strict=True) if of_layers else [(found, expected)]
        for mine, theirs in pairs:
            assert np.shape(mine) == np.shape(theirs)
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, err_msg=attribute)
    assert model.n_samples_seen_ == 130


def forgets_as_then(model):
    """Set the half-life that "auto" was in streams: three rows for each parameter."""
    if model.half_life == "auto":
        networks = model._net.networks
        longest = max(3.0 * sum(layer.mu[0].size for layer in net.layers) for net in networks)
        model.set_params(half_life=longest if len(networks) == 1 else max(512.0, longest))
    return model


@each
def test_a_stream_goes_on(saved, name):
    model = forgets_as_then(saved["estimators"][name])
    model.partial_fit(rows(saved, name, MORE), answers(saved, name, MORE))
    assert_predicts(model, saved, name, "after partial_fit")
    assert model.n_samples_seen_ == 150


@each
def test_a_warm_fit_goes_on_and_holds_out_the_same_rows(saved, name):
    model = saved["estimators"][name].set_params(warm_start=True, max_iter=2)
    model.fit(rows(saved, name, LEARNED), answers(saved, name, LEARNED))
    found = predictions(model, rows(saved, name, NEW))
    expected = saved["expected"][name]["after a warm fit"]
    if "mean" in expected:  # noise, and what the network does not know, are found in another way
        off = np.abs(found["mean"] - expected["mean"]) / expected["std"]
        assert off.max() < 0.3
        ratio = found["std"] / expected["std"]
        assert abs(np.log(np.median(ratio))) < 0.3
        assert np.abs(np.log(ratio)).max() < 0.6
    else:
        np.testing.assert_allclose(found["proba"], expected["proba"], atol=0.02)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "full"])
def test_copies_that_learn_different_rows_can_be_merged(saved, name):
    model = forgets_as_then(saved["estimators"][name])
    start = model if name == "merged" else fork(model)  # merged, it is a starting point already
    parts = slice(130, 140), slice(140, 150)
    merged = merge([
        deepcopy(start).partial_fit(rows(saved, name, part), answers(saved, name, part))
        for part in parts
    ])  # fmt: skip
    assert_predicts(merged, saved, name, "after a merge")
    assert merged.n_samples_seen_ == 150


@each
def test_saved_again_it_stays_the_same(saved, name):
    model = forgets_as_then(saved["estimators"][name])
    again = pickle.loads(pickle.dumps(model))
    X = rows(saved, name, NEW)
    before = predictions(model, X)
    for quantity, values in predictions(again, X).items():
        np.testing.assert_array_equal(values, before[quantity])
    again.partial_fit(rows(saved, name, MORE), answers(saved, name, MORE))
    assert_predicts(again, saved, name, "after partial_fit")


# Version 3: nothing is found in another way since


@pytest.fixture
def recent() -> dict:
    return load(3)


def assert_predicts_all(model, recent, name, when):
    found, expected = predictions(model, rows(recent, name, NEW)), recent["expected"][name][when]
    assert found.keys() == expected.keys()
    for quantity, values in expected.items():
        assert found[quantity].dtype == values.dtype
        tolerance = 1e-4 if name == "float32" else 1e-9
        np.testing.assert_allclose(found[quantity], values, rtol=tolerance, err_msg=quantity)


@each
def test_all_that_version_3_predicts_stays(recent, name):
    model = recent["estimators"][name]
    assert_predicts_all(model, recent, name, "predictions")
    assert_predicts_all(pickle.loads(pickle.dumps(model)), recent, name, "predictions")


@each
def test_streams_and_merges_of_version_3_go_on(recent, name):
    model = forgets_as_then(recent["estimators"][name])
    if name != "full":
        start = model if name == "merged" else fork(model)
        parts = slice(130, 140), slice(140, 150)
        merged = merge([
            deepcopy(start).partial_fit(rows(recent, name, part), answers(recent, name, part))
            for part in parts
        ])  # fmt: skip
        assert_predicts_all(merged, recent, name, "after a merge")
    model.partial_fit(rows(recent, name, MORE), answers(recent, name, MORE))
    assert_predicts_all(model, recent, name, "after partial_fit")


@each
@pytest.mark.parametrize("version", [1, 3])
def test_loaded_estimators_have_the_parameters_of_today(name, version):
    saved = load(version)
    model = saved["estimators"][name]
    assert set(model.get_params()) == set(type(model)().get_params())
    assert model.n_jobs is None
    assert model.hidden_layer_sizes != "auto"
    assert "hidden_layer_sizes" in repr(model)
    warm = model.set_params(warm_start=True, max_iter=1)
    warm.fit(rows(saved, name, LEARNED), answers(saved, name, LEARNED))
    assert not hasattr(warm, "kinds_")
    again = clone(model).fit(rows(saved, name, LEARNED), answers(saved, name, LEARNED))
    assert again.n_iter_ == 1


# Version 4: unlike members


@pytest.mark.parametrize("name", ["kinds", "kinds of classes"])
def test_unlike_members_of_version_4_predict_and_go_on(name, monkeypatch):
    """With the same numbers, but for what kinds are apart: it counted by the weights then."""
    saved = load(4)
    if name == "kinds":
        model, X = saved["estimators"][name], saved["inputs"]["X"]
        std = model.predict(X, return_std=True)[1]
        monkeypatch.setattr(Mixture, "apart", property(lambda mixture: mixture.weight))
        before = model.predict(X, return_std=True)[1]
        assert (std <= before).all()
        assert (std < 0.999 * before).any()
    model, X = saved["estimators"][name], saved["inputs"]["X"]
    y = saved["inputs"]["labels" if hasattr(model, "classes_") else "y"]
    expected = saved["expected"][name]
    assert model.kinds_ == expected["weights"]
    assert model.encoded_feature_names_.tolist() == ["x0", "x1"]
    for copy in (model, pickle.loads(pickle.dumps(model))):
        assert_equal_predictions(copy, X[NEW], expected["predictions"])
        forgets_as_then(copy).partial_fit(X[MORE], y[MORE])
        assert_equal_predictions(copy, X[NEW], expected["after partial_fit"])


def test_estimators_of_version_4_predict_rows_with_missing_values():
    model = load(4)["estimators"]["kinds"]
    std = model.predict([[0.0, 0.0], [0.0, np.nan]], return_std=True)[1]
    assert std[1] > 1.3 * std[0]


def assert_equal_predictions(model, X, expected):
    found = predictions(model, X)
    assert found.keys() == expected.keys()
    for quantity, values in expected.items():
        np.testing.assert_allclose(found[quantity], values, rtol=1e-9, err_msg=quantity)
