"""The estimators as models of river: its own checks, and the numbers of partial_fit."""

import pickle

import numpy as np
import pytest

pytest.importorskip("river")
pd = pytest.importorskip("pandas")
from river import (  # noqa: E402
    base,
    checks,
    compose,
    datasets,
    ensemble,
    evaluate,
    metrics,
    preprocessing,
)

import sktagi  # noqa: E402
from sktagi._growing import add_classes, add_features  # noqa: E402
from sktagi.river import TAGIClassifier, TAGIRegressor  # noqa: E402

SMALL = {"hidden_layer_sizes": (8,), "n_members": 2, "seed": 0}
MODELS = [TAGIRegressor(**SMALL), TAGIClassifier(**SMALL)]
CHECKS = [
    pytest.param(model, check, id=f"{type(model).__name__} {check.__name__} {number}")
    for model in MODELS
    for number, check in enumerate(checks.yield_checks(model))
    # As river's linear models: a mini-batch is learned at once, not row by row.
    if check.__name__ != "check_learn_many_matches_learn_one"
    # Thousands of rows; a test below counts bytes.
    and check.__name__ != "check_bounded_memory_growth"
]  # fmt: skip


@pytest.mark.parametrize(("model", "check"), CHECKS)
def test_rivers_checks(model, check):
    check(model.clone())


def test_only_one_check_is_left_out():
    for model in MODELS:
        assert model._unit_test_skips() == {"check_learn_many_matches_learn_one"}
        assert isinstance(model, base.Regressor) != isinstance(model, base.Classifier)


def rows_of(dataset, n):
    """Rows as dicts, their targets, and the array that partial_fit takes."""
    rows = list(dataset.take(n))
    names = sorted(rows[0][0])
    return rows, np.array([[float(x[name]) for name in names] for x, _ in rows])


def test_progressive_validation_of_a_regressor_is_that_of_partial_fit():
    rows, X = rows_of(datasets.TrumpApproval(), 120)
    by_hand = sktagi.TAGIRegressor((8,), n_members=2, random_state=0)
    errors = []
    for place, (_, y) in enumerate(rows):
        row = X[place : place + 1]
        errors.append(y - (by_hand.predict(row)[0] if place else 0.0))
        by_hand.partial_fit(row, [y])
    model, metric = TAGIRegressor(**SMALL), metrics.RMSE()
    evaluate.progressive_val_score(iter(rows), model, metric)
    assert metric.get() == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-12)
    assert model.estimator.to_bytes() == by_hand.to_bytes()
    assert model.estimator.prequential_log_likelihood_ == by_hand.prequential_log_likelihood_


@pytest.mark.parametrize("dataset", [datasets.Phishing, datasets.ImageSegments])
def test_progressive_validation_of_a_classifier_is_that_of_partial_fit(dataset):
    rows, X = rows_of(dataset(), 120)
    classes = sorted({y for _, y in dataset()})
    by_hand = sktagi.TAGIClassifier((8,), n_members=2, random_state=0)
    losses = []
    for place, (_, y) in enumerate(rows):
        row, number = X[place : place + 1], classes.index(y)
        if place:
            losses.append(-by_hand.predict_log_proba(row)[0, number])
        by_hand.partial_fit(row, [number], classes=range(len(classes)))
    model, found = TAGIClassifier(classes=classes, **SMALL), []
    for x, y in rows:
        proba = model.predict_proba_one(x)
        if proba:
            found.append(-np.log(proba[y]))
        model.learn_one(x, y)
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    again, metric = model.clone(), metrics.Accuracy()
    evaluate.progressive_val_score(iter(rows), again, metric)
    assert again.estimator.to_bytes() == by_hand.to_bytes()
    assert metric.get() > (0.7 if len(classes) == 2 else 0.4)


def test_distributions_are_those_of_the_estimator():
    rows, X = rows_of(datasets.TrumpApproval(), 60)
    model = TAGIRegressor(**SMALL)
    assert (model.predict_one(rows[0][0]), model.estimator) == (0.0, None)
    assert model.predict_one({}, with_dist=True).sigma == 1
    for x, y in rows[:50]:
        model.learn_one(x, y)
    for (x, y), row in zip(rows[50:], X[50:], strict=True):
        mean, std = model.estimator.predict(row[None], return_std=True)
        found = model.predict_one(x, with_dist=True)
        assert (found.mu, found.sigma) == pytest.approx((mean[0], std[0]), rel=1e-12)
        assert found.log_pdf(y) == pytest.approx(model.estimator.log_likelihood(row[None], [y]))
        assert model.predict_one(x) == mean[0]


def test_mini_batches_are_those_of_partial_fit_in_any_order_of_columns():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = X["a"] - X["c"]
    labels = pd.Series(np.where(y > 0, "up", "down"))
    model, by_hand = TAGIRegressor(**SMALL), sktagi.TAGIRegressor((8,), n_members=2, random_state=0)
    classes = TAGIClassifier(classes=["up", "down"], **SMALL)
    assert model.predict_many(X).tolist() == [0.0] * 200
    assert classes.predict_proba_many(X).shape == (200, 0)
    for start in range(0, 200, 50):
        part = slice(start, start + 50)
        model.learn_many(X[["c", "a", "b"]][part], y[part])
        classes.learn_many(X[part], labels[part])
        by_hand.partial_fit(X.to_numpy()[part], y[part])
    some = X[7:20]
    # Frames and arrays lie differently in memory, so BLAS may sum in another order.
    expected = by_hand.predict(some.to_numpy())
    np.testing.assert_allclose(model.predict_many(some), expected, rtol=1e-12)
    assert model.predict_many(some).index.equals(some.index)
    proba = classes.predict_proba_many(some)
    assert list(proba.columns) == ["down", "up"]
    assert (classes.predict_many(X) == labels).mean() > 0.9
    one = classes.predict_proba_one(dict(X.iloc[7]))
    assert proba.loc[7].to_dict() == pytest.approx(one)
    assert len(model.predict_many(X[:0])) == len(classes.predict_many(X[:0])) == 0


# Features that come and go


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    for a, b in rng.normal(size=(n, 2)):
        yield {"a": a, "b": b}, a + 2 * b + 0.1 * rng.normal()


def test_a_new_feature_is_missing_before_and_then_learned():
    model, errors = TAGIRegressor(**SMALL), []
    for place, (x, y) in enumerate(stream(600)):
        x = x if place >= 200 else {"a": x["a"]}
        errors.append(y - model.predict_one(x))
        model.learn_one(x, y)
    rmse = [
        np.sqrt(np.mean(np.square(errors[part]))) for part in (slice(100, 200), slice(500, 600))
    ]
    assert rmse[0] > 1.8  # b is unknown: its std is 2
    assert rmse[1] < 0.6
    whole, gap = ({"a": 0.5, "b": 1.0}, {"a": 0.5})
    assert model.predict_one(whole) == pytest.approx(2.5, abs=0.5)
    assert model.predict_one(gap) == pytest.approx(0.5, abs=0.5)
    stds = [model.predict_one(x, with_dist=True).sigma for x in (whole, gap)]
    assert stds[1] > 1.5 * stds[0]  # of a feature that has vanished, or is None
    assert model.predict_one({"a": 0.5, "b": None}) == model.predict_one(gap)
    assert model.predict_one({**whole, "other": 9.0}) == model.predict_one(whole)  # not learned


@pytest.mark.parametrize("gaps", [False, True])
def test_more_features_change_nothing_that_was_learned(gaps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    if gaps:  # then an input says "missing"
        X[::4, 1] = np.nan
    model = sktagi.TAGIRegressor((8,), n_members=2, random_state=0).partial_fit(X, X[:, 0])
    assert model._columns.n_encoded == 3 + gaps
    grown = add_features(model, 2)
    rows = X[1:4]
    wide = np.hstack([rows, np.zeros((3, 2))])
    for mine, theirs in zip(
        (*grown.predict(wide, return_std=True), *grown.predict_variance(wide)),
        (*model.predict(rows, return_std=True), *model.predict_variance(rows)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)
    assert model.n_features_in_ == 3
    assert grown.n_features_in_ == 5
    again = sktagi.TAGIRegressor.from_bytes(grown.to_bytes())  # which checks what fits together
    wide = np.hstack([X, rng.normal(size=(300, 2))])
    wide[::5, 4] = np.nan
    for estimator in (grown, again):
        estimator.partial_fit(wide, X[:, 0])
    np.testing.assert_array_equal(again.predict(wide), grown.predict(wide))
    assert grown.score(wide, X[:, 0]) > 0.9
    assert len(grown.feature_importances_) == 5


def test_values_that_are_no_numbers_are_refused_and_nothing_is_learned():
    for model, y in ((TAGIRegressor(**SMALL), 1.0), (TAGIClassifier(**SMALL), "up")):
        model.learn_one({"a": 1.0}, y)
        before = pickle.dumps(model)
        for x in ({"a": "red"}, {"a": 1.0, "b": "red"}, {"a": (1, 2)}):
            with pytest.raises(ValueError, match=r"Feature '.' must be a number.*OneHotEncoder"):
                model.learn_one(x, y)
            with pytest.raises(ValueError, match=r"Feature '.' must be a number"):
                model.learn_many(pd.DataFrame([x]), pd.Series([y]))
        for x in ({"a": np.inf, "new": 1}, {"a": 1e200, "new": 1}):
            with pytest.raises(ValueError, match=r"infinity|too large"):
                model.learn_one(x, y)
        with pytest.raises(ValueError, match="Feature 'a' must be a number"):
            model.predict_one({"a": "red"})
        assert pickle.dumps(model) == before
        model.learn_one({"a": True, "b": np.float32(2), "c": None}, y)


@pytest.mark.parametrize("model", MODELS)
def test_errors_name_what_is_wrong(model):
    target = 1.0 if isinstance(model, TAGIRegressor) else "a"
    other = "text" if isinstance(model, TAGIRegressor) else [1, 2]
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    model = model.clone()
    model.learn_one({"a": 1.0}, target)
    before = pickle.dumps(model)
    for learn, match in [
        (lambda: model.learn_one({"a": 10**400}, target), "Feature 'a' must be a number"),
        (lambda: model.learn_one({"a": 10**5000}, target), "Feature 'a' must be a number"),
        (lambda: model.learn_one([1, 2], target), "x must be a dict"),
        (lambda: model.learn_one({"a": 1.0}, target, w=None), "w must be a number"),
        (lambda: model.learn_one({"a": 1.0}, target, w="x"), "w must be a number"),
        (lambda: model.learn_one({"a": 1.0}, target, w=-1), "w must be a number"),
        (lambda: model.learn_one({"a": 1.0}, other), "y must be"),
        (lambda: model.learn_one({"a": 1.0}, pd.NA), "y must be"),
        (lambda: model.learn_many(frame.to_numpy(), [target] * 2), "X must be a pandas frame"),
        (lambda: model.learn_many(frame, [target]), "y has 1 values"),
        (lambda: model.learn_many(frame, target), "y must be a series"),
        (lambda: model.learn_many(frame, [target, other]), "y must be"),
        (lambda: model.predict_one(None), "x must be a dict"),
    ]:
        with pytest.raises(ValueError, match=match):
            learn()
    is_regressor = isinstance(model, TAGIRegressor)
    predict = model.predict_many if is_regressor else model.predict_proba_many
    with pytest.raises(ValueError, match="X must be a pandas frame"):
        predict(frame.to_numpy())
    assert pickle.dumps(model) == before


def test_na_of_pandas_is_a_missing_value():
    model = TAGIRegressor(**SMALL)
    for k in range(20):
        model.learn_one({"a": 0.1 * k, "b": 1.0 - k}, float(k))
    missing = model.predict_one({"b": 1.0})
    assert model.predict_one({"a": pd.NA, "b": 1.0}) == missing
    model.learn_one({"a": pd.NA, "b": 2.0}, 3.0)


def test_frames_of_other_types_and_with_gaps():
    model = TAGIRegressor(**SMALL)
    X = pd.DataFrame(
        {
            "a": [1.0, 2.0, np.nan, 4.0],
            "b": pd.array([1, None, 3, 4], dtype="Int64"),
            "c": [True, False, True, True],
            "d": [None, 1, 2.5, np.nan],
            "e": pd.array([True, None, False, True], dtype="boolean"),
        }
    )
    model.learn_many(X, pd.Series([1.0, 2.0, 3.0, 4.0]))
    many = model.predict_many(X)
    one = [model.predict_one({k: None if pd.isna(v) else v for k, v in x.items()})
           for x in X.to_dict("records")]  # fmt: skip
    np.testing.assert_allclose(many, one, rtol=1e-9)
    with pytest.raises(ValueError, match="distinct names"):
        model.learn_many(X[["a", "a"]], pd.Series([1.0] * 4))


def test_in_pipelines_and_ensembles_of_river():
    encoder = compose.Select("colour") | preprocessing.OneHotEncoder()
    model = (encoder + compose.Select("a")) | TAGIRegressor(**SMALL)
    rng = np.random.default_rng(0)
    effect, errors = {"red": -2.0, "green": 0.0, "blue": 2.0}, []
    for place in range(300):
        colour = list(effect)[rng.integers(2 if place < 100 else 3)]
        x = {"colour": colour, "a": rng.normal()}
        y = x["a"] + effect[colour]
        errors.append(y - model.predict_one(x))
        model.learn_one(x, y)
    assert np.sqrt(np.mean(np.square(errors[200:]))) < 0.6
    bagging = ensemble.BaggingClassifier(TAGIClassifier(**SMALL), n_models=2, seed=0)
    metric = evaluate.progressive_val_score(
        datasets.Phishing().take(100), bagging, metrics.Accuracy()
    )
    assert metric.get() > 0.6


def test_rows_of_weight_zero_and_rows_without_features_teach_nothing():
    model = TAGIRegressor(**SMALL)
    model.learn_one({}, 3.0)
    model.learn_one({"a": 1.0}, 3.0, w=0)
    assert model.estimator is None
    model.learn_one({"a": 1.0}, 3.0, w=2)
    model.learn_one({}, 3.5)  # now it says something of y
    assert model.estimator.n_samples_seen_ == 2


# Classes that come


def test_classes_may_come_at_any_time():
    rng = np.random.default_rng(0)
    model, right = TAGIClassifier(hidden_layer_sizes=(20,), n_members=2, seed=0), []
    centres = 4 * rng.normal(size=(9, 4))
    n_outputs = set()
    for place in range(900):
        n_known = 1 + min(place // 60, 8)
        number = n_known - 1 if place % 60 == 0 else rng.integers(n_known)
        x = dict(enumerate(centres[number] + rng.normal(size=4)))
        label = f"class {number}"
        proba = model.predict_proba_one(x)
        assert sum(proba.values()) == pytest.approx(1 if place else 0)
        right.append(model.predict_one(x) == label)
        model.learn_one(x, label)
        assert label in model.predict_proba_one(x)
        n_outputs.add(len(model.estimator.classes_))
    assert n_outputs == {4, 8, 16}
    assert np.mean(right[-200:]) > 0.9
    assert list(proba) == [f"class {k}" for k in range(9)]


def test_one_class_is_certain_and_none_is_unknown():
    model = TAGIClassifier(**SMALL)
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, "only")
    assert model.predict_proba_one({"a": 1.0}) == {"only": 1.0}


def test_more_classes_leave_what_was_learned_of_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = sktagi.TAGIClassifier((8,), n_members=2, random_state=0)
    model.partial_fit(X, y, classes=range(4))
    grown = add_classes(model, 8)
    before, after = model.predict_proba(X)[:, :3], grown.predict_proba(X)[:, :3]
    before, after = (p / p.sum(axis=1, keepdims=True) for p in (before, after))
    assert np.abs(before - after).mean() < 0.05
    assert (before.argmax(axis=1) == after.argmax(axis=1)).mean() > 0.97
    assert sktagi.TAGIClassifier.from_bytes(grown.to_bytes()).predict_proba(X).shape == (400, 8)
    np.testing.assert_array_equal(model.classes_, range(4))


def test_labels_that_cannot_be_are_refused():
    model = TAGIClassifier(classes=["a", "b"], **SMALL)
    with pytest.raises(ValueError, match="'c', which is not in classes"):
        model.learn_one({"x": 1.0}, "c")
    for label in (None, float("nan")):
        with pytest.raises(ValueError, match="y must be a class"):
            TAGIClassifier(**SMALL).learn_one({"x": 1.0}, label)
    assert model.estimator is None


def test_state_and_memory_are_constant_and_survive_pickle():
    model = TAGIClassifier(**SMALL)
    sizes = []
    for place, (x, y) in enumerate(datasets.ImageSegments().take(300)):
        model.learn_one(x, y)
        if place >= 100:
            sizes.append(len(pickle.dumps(model)))
        if place % 50 == 49:
            again = pickle.loads(pickle.dumps(model))
            assert again.predict_proba_one(x) == model.predict_proba_one(x)
    assert max(sizes[100:]) < max(sizes[:100]) + 200  # up to sixteen rows wait
    clone = model.clone()
    assert clone.estimator is None
    assert repr(clone) == repr(model)
