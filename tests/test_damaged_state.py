"""A damaged state is refused when it is read, by one clear error, or still predicts."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest

from sktagi import TAGIClassifier, TAGIRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
X[::7, 1] = np.nan
Y = X[:, 0] + 0.1 * RNG.normal(size=120)


def one_by_one(model):
    """Let a model learn a few single rows, some of which then wait to be looked at together."""
    for k in range(3):
        model.partial_fit(X[k : k + 1], Y[k : k + 1])
    return model


MODELS = {
    "kinds": lambda: TAGIRegressor(n_members=2, max_iter=3, random_state=0).fit(X, Y),
    "table": lambda: TAGIRegressor(n_members=1, max_iter=2, random_state=0).fit(
        pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0, "yes", "no")}), Y
    ),
    "full": lambda: TAGIRegressor(
        (3,), covariance_type="full", n_members=1, max_iter=2, random_state=0
    ).fit(X, np.column_stack([Y, -Y])),
    "stream": lambda: TAGIRegressor((4,), n_members=2, random_state=0).partial_fit(X, Y),
    "rows": lambda: one_by_one(TAGIRegressor((4,), n_members=2, random_state=0).partial_fit(X, Y)),
    "classes": lambda: TAGIClassifier((4,), n_members=2, max_iter=2, random_state=0).fit(
        X, np.digitize(Y, [-0.5, 0.5])
    ),
    "tree": lambda: TAGIClassifier(
        (4,), class_coding="tree", n_members=2, max_iter=2, random_state=0
    ).fit(X, np.digitize(Y, [-0.5, 0.5])),
    "labels": lambda: TAGIClassifier((4,), n_members=1, max_iter=2, random_state=0).fit(
        X, np.column_stack([Y > 0, X[:, 2] > 0]).astype(int)
    ),
}  # fmt: skip
REMOVED = object()
WRONG = [REMOVED, None, "text", -3, [], np.zeros((1, 7)), {"sktagi": "Unknown"}, np.nan]


def paths(value, path=()):
    """Where the private values of a state are, down to the last one."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, item in items:
        if path or key.startswith("_") or key.endswith("_"):
            yield (*path, key)
            if isinstance(item, (dict, list)) and item:
                yield from paths(item, (*path, key))


def damaged(state, path, value):
    state = copy.deepcopy(state)
    place = state
    for key in path[:-1]:
        place = place[key]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


def read(kind, state):
    model = kind.__new__(kind)
    model.__setstate__(state)
    return model


def predict(model):
    if hasattr(model, "feature_names_in_"):
        rows = pd.DataFrame({"a": [0.0, np.nan, 2.0], "b": 1.0, "c": ["yes", None, "other"]})
        return np.array(model.predict(rows, return_std=True))
    if isinstance(model, TAGIClassifier):
        return np.array(model.predict_proba(X[:3], return_std=True))
    return np.array(model.predict(X[:3], return_std=True))


@pytest.mark.parametrize("kind", MODELS)
def test_each_part_of_a_state_that_is_lost_or_wrong_is_refused_or_does_no_harm(kind):
    model = MODELS[kind]()
    state, expected = model.__getstate__(), predict(model)
    n_refused = n_sound = 0
    for path in paths(state):
        for value in WRONG:
            if path == ("_net",) and value is REMOVED:
                continue  # that of an estimator which is not fitted
            try:
                found = read(type(model), damaged(state, path, value))
            except ValueError as error:
                n_refused += "damaged" in str(error)
                continue
            predicted = predict(found)
            n_sound += 1
            assert predicted.shape == expected.shape, (path, value)
            assert np.isfinite(predicted).all(), (path, value)
    assert n_refused + n_sound == len(WRONG) * len(list(paths(state))) - 1
    assert n_refused > n_sound


@pytest.mark.parametrize("state", [None, [], "text", {"_state_version": "four", "_net": {}}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ValueError, match="saved state of this TAGIRegressor is damaged"):
        read(TAGIRegressor, state)


def test_the_error_says_what_is_wrong():
    state = MODELS["stream"]().__getstate__()
    for path, value, message in [
        (("_net", "sktagi"), "Unknown", "'Unknown' is unknown"),
        (("_net", "noise_var"), REMOVED, "noise_var"),
        (("_scaling",), REMOVED, "_scaling is missing"),
        (("_net", "layers", 0, "var"), np.full((2, 5, 4), -1.0), "not positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(TAGIRegressor, damaged(state, path, value))


def test_numbers_that_are_not_finite_are_refused():
    state = MODELS["kinds"]().__getstate__()
    means = state["_net"]["networks"][0]["layers"][0]["mu"]
    means[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        read(TAGIRegressor, state)


def test_a_sound_state_is_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in MODELS.values():
            model = make()
            again = read(type(model), model.__getstate__())
            np.testing.assert_array_equal(predict(again), predict(model))
