"""Packages that use scikit-learn estimators: each test is skipped where its package is missing."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier, TAGIRegressor

SMALL = {"hidden_layer_sizes": (10,), "n_members": 2, "random_state": 0}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return train_test_split(X, y, random_state=0)


def test_river_streams_a_regressor():
    compat = pytest.importorskip("river.compat")
    datasets, metrics = pytest.importorskip("river.datasets"), pytest.importorskip("river.metrics")
    model = compat.convert_sklearn_to_river(TAGIRegressor(**SMALL))
    error, baseline = metrics.RMSE(), metrics.RMSE()
    total = count = 0.0
    for x, y in datasets.TrumpApproval().take(700):
        prediction = model.predict_one(x)
        if count >= 200:
            error.update(y, prediction)
            baseline.update(y, total / count)
        model.learn_one(x, y)
        total, count = total + y, count + 1
    assert error.get() < 0.75 * baseline.get()


def test_river_streams_a_classifier():
    compat = pytest.importorskip("river.compat")
    datasets, metrics = pytest.importorskip("river.datasets"), pytest.importorskip("river.metrics")
    model = compat.convert_sklearn_to_river(TAGIClassifier(**SMALL), classes=[False, True])
    accuracy = metrics.Accuracy()
    for count, (x, y) in enumerate(datasets.Phishing().take(700)):
        proba = model.predict_proba_one(x)
        if count >= 200:
            accuracy.update(y, max(proba, key=proba.get))
        model.learn_one(x, y)
    assert accuracy.get() > 0.85


def test_bayesian_optimiser_uses_the_standard_deviation():
    skopt = pytest.importorskip("skopt")

    def bowl(point):
        return (point[0] - 0.7) ** 2 + (point[1] + 0.2) ** 2

    optimizer = skopt.Optimizer(
        [(-2.0, 2.0), (-2.0, 2.0)],
        base_estimator=TAGIRegressor(hidden_layer_sizes=(20,), max_iter=30, random_state=0),
        acq_func="LCB",
        acq_optimizer="sampling",
        n_initial_points=8,
        random_state=0,
    )
    for _ in range(20):
        point = optimizer.ask()
        result = optimizer.tell(point, bowl(point))
    assert min(result.func_vals[8:]) < min(result.func_vals[:8])
    assert result.fun < 0.2


def test_conformal_intervals_around_a_regressor(diabetes):
    mapie = pytest.importorskip("mapie.regression")
    X_train, X_test, y_train, y_test = diabetes
    model = TAGIRegressor(**SMALL, max_iter=20)
    conformal = mapie.CrossConformalRegressor(model, confidence_level=0.9, cv=4)
    conformal.fit_conformalize(X_train, y_train)
    _, interval = conformal.predict_interval(X_test)
    low, high = interval[:, :, 0].T
    assert 0.8 < np.mean((low <= y_test) & (y_test <= high)) <= 1


def test_skpro_reads_mean_and_std(diabetes):
    adapter = pytest.importorskip("skpro.regression.adapters.sklearn")
    pd = pytest.importorskip("pandas")
    X_train, X_test, y_train, _ = (pd.DataFrame(part).add_prefix("x") for part in diabetes)
    proba = adapter.SklearnProbaReg(TAGIRegressor(**SMALL, max_iter=20)).fit(X_train, y_train)
    mean, std = proba.estimator_.predict(X_test, return_std=True)
    distribution = proba.predict_proba(X_test)
    np.testing.assert_allclose(distribution.mean().to_numpy().ravel(), np.ravel(mean))
    np.testing.assert_allclose(np.sqrt(distribution.var()).to_numpy().ravel(), np.ravel(std))
