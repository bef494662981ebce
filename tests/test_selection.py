"""Model selection, pipelines and metadata routing."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris, make_friedman1
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.metrics import gaussian_log_likelihood, log_likelihood_scorer

QUICK = {"hidden_layer_sizes": (10,), "max_iter": 5, "n_members": 1, "random_state": 0}
X_DIABETES, Y_DIABETES = load_diabetes(return_X_y=True)
FIRST, SECOND = np.arange(200), np.arange(200, len(Y_DIABETES))
X_IRIS, Y_IRIS = load_iris(return_X_y=True)


def regressor(**params):
    return TAGIRegressor(**{**QUICK, **params})


def classifier(**params):
    return TAGIClassifier(**{**QUICK, **params})


def test_grid_search_picks_an_interior_noise_on_diabetes():
    grid = [0.01, 0.1, 0.3, 0.7, 1.5, 5.0]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), regressor(max_iter=20)),
        {"tagiregressor__sigma_v": grid},
        scoring=log_likelihood_scorer,
        cv=3,
        n_jobs=2,
    ).fit(X_DIABETES, Y_DIABETES)
    assert search.best_params_["tagiregressor__sigma_v"] in (0.3, 0.7, 1.5)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict(X_DIABETES).shape == Y_DIABETES.shape


def test_grid_search_picks_an_interior_noise_for_a_classifier():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(150) < 0.15, rng.integers(0, 3, 150), Y_IRIS)  # labels with errors
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier(max_iter=20)),
        {"tagiclassifier__sigma_v": [0.001, 0.1, 0.4, 1.0, 30.0]},
        scoring=log_likelihood_scorer,
        cv=3,
        n_jobs=2,
    ).fit(X_IRIS, y)
    assert search.best_params_["tagiclassifier__sigma_v"] in (0.1, 0.4, 1.0)


def test_learned_noise_is_about_as_good_as_the_best_of_a_grid():
    search = GridSearchCV(
        regressor(max_iter=30),
        {"sigma_v": [0.1, 0.3, 0.5, 0.7, 1.0, "auto"]},
        scoring=log_likelihood_scorer,
        cv=3,
    ).fit(X_DIABETES, Y_DIABETES)
    scores = search.cv_results_["mean_test_score"]
    assert scores[-1] > scores[:-1].max() - 0.05


@pytest.mark.parametrize("n_targets", [None, 2])
def test_scorer_is_the_log_likelihood(n_targets):
    y = Y_DIABETES if n_targets is None else np.column_stack([Y_DIABETES, -Y_DIABETES])
    model = regressor().fit(X_DIABETES, y)
    weight = np.linspace(1, 2, len(y))
    assert log_likelihood_scorer(model, X_DIABETES, y) == pytest.approx(
        model.log_likelihood(X_DIABETES, y)
    )
    assert log_likelihood_scorer(model, X_DIABETES, y, sample_weight=weight) == pytest.approx(
        model.log_likelihood(X_DIABETES, y, sample_weight=weight)
    )
    gaussian = regressor(early_stopping=False).fit(X_DIABETES, y)  # no errors to learn a shape of
    mean, std = gaussian.predict(X_DIABETES, return_std=True)
    assert gaussian_log_likelihood(y, mean, std) == pytest.approx(
        gaussian.log_likelihood(X_DIABETES, y)
    )


def test_scorer_of_a_classifier_is_minus_log_loss():
    labels = np.array(["x", "y", "z"])[Y_IRIS]
    for model in (classifier(), LogisticRegression(max_iter=1000)):
        model.fit(X_IRIS, labels)
        expected = -log_loss(labels, model.predict_proba(X_IRIS))
        assert log_likelihood_scorer(model, X_IRIS, labels) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "other", [GaussianProcessRegressor(alpha=1.0, normalize_y=True), BayesianRidge()]
)
def test_scorer_serves_other_estimators_with_a_std(other):
    score = cross_val_score(other, X_DIABETES, Y_DIABETES, scoring=log_likelihood_scorer, cv=3)
    assert np.isfinite(score).all()
    model = other.fit(X_DIABETES, Y_DIABETES)
    mean, std = model.predict(X_DIABETES, return_std=True)
    expected = -0.5 * np.mean(np.log(2 * np.pi * std**2) + ((Y_DIABETES - mean) / std) ** 2)
    assert log_likelihood_scorer(model, X_DIABETES, Y_DIABETES) == pytest.approx(expected)


def test_scorer_prefers_the_truth():
    rng = np.random.default_rng(0)
    y = rng.normal(2, 3, size=20_000)
    right = gaussian_log_likelihood(y, np.full_like(y, 2), np.full_like(y, 3))
    for mean, std in ((2, 2), (2, 4), (3, 3), (1, 3)):
        assert gaussian_log_likelihood(y, np.full_like(y, mean), np.full_like(y, std)) < right


@pytest.mark.parametrize(
    ("y", "mean", "std", "message"),
    [
        ([1.0, 2.0], [1.0], [1.0], "inconsistent|shape"),
        ([1.0], [1.0], [0.0], "std"),
        ([1.0], [1.0], [-1.0], "std"),
        ([np.nan], [1.0], [1.0], "NaN"),
        ([1.0], [1.0], [np.inf], "std"),
    ],
)
def test_metric_refuses_what_makes_no_sense(y, mean, std, message):
    with pytest.raises(ValueError, match=message):
        gaussian_log_likelihood(y, mean, std)


def test_cross_validation_in_its_usual_forms():
    X, y = X_DIABETES[:150], Y_DIABETES[:150]
    assert cross_val_score(regressor(), X, y, cv=3, n_jobs=2).shape == (3,)
    assert cross_val_predict(regressor(), X, y, cv=3).shape == y.shape
    result = cross_validate(
        regressor(), X, y, cv=3, scoring={"ll": log_likelihood_scorer, "r2": "r2"}
    )
    assert np.isfinite(result["test_ll"]).all()
    proba = cross_val_predict(classifier(), X_IRIS, Y_IRIS, cv=3, method="predict_proba")
    assert proba.shape == (150, 3)
    assert cross_val_score(classifier(), X_IRIS, Y_IRIS, scoring="neg_log_loss").max() < 0


def test_parallel_and_serial_cross_validation_agree():
    serial, parallel = (
        cross_val_score(regressor(), X_DIABETES, Y_DIABETES, cv=3, n_jobs=n) for n in (1, 2)
    )
    np.testing.assert_allclose(serial, parallel, rtol=1e-9)


def test_learning_curve_rises():
    X, y = make_friedman1(300, random_state=0)
    _, _, test = learning_curve(
        regressor(max_iter=20), X, y, train_sizes=[20, 200], cv=3, scoring=log_likelihood_scorer
    )
    assert test[1].mean() > test[0].mean()


def test_incremental_learning_curve_uses_partial_fit():
    sizes, _, test = learning_curve(
        regressor(),
        X_DIABETES,
        Y_DIABETES,
        train_sizes=[50, 250],
        cv=3,
        exploit_incremental_learning=True,
    )
    assert sizes.tolist() == [50, 250]
    assert np.isfinite(test).all()


def test_composes_with_meta_estimators():
    X, y = X_DIABETES[:100], Y_DIABETES[:100]
    logged = TransformedTargetRegressor(regressor(), func=np.log, inverse_func=np.exp).fit(X, y)
    assert logged.predict(X).shape == (100,)
    assert BaggingRegressor(regressor(), n_estimators=2).fit(X, y).predict(X).shape == (100,)


def test_pipeline_forwards_return_std_without_routing():
    pipe = make_pipeline(StandardScaler(), regressor()).fit(X_DIABETES, Y_DIABETES)
    mean, std = pipe.predict(X_DIABETES, return_std=True)
    alone = regressor().fit(StandardScaler().fit_transform(X_DIABETES), Y_DIABETES)
    expected = alone.predict(StandardScaler().fit_transform(X_DIABETES), return_std=True)
    np.testing.assert_allclose((mean, std), expected)
    pipe.fit(X_DIABETES, Y_DIABETES, tagiregressor__sample_weight=np.ones(len(Y_DIABETES)))


def test_pipeline_forwards_return_std_of_probabilities():
    pipe = make_pipeline(StandardScaler(), classifier()).fit(X_IRIS, Y_IRIS)
    proba, std = pipe.predict_proba(X_IRIS, return_std=True)
    assert proba.shape == std.shape == (150, 3)


# Metadata routing


@pytest.fixture
def _routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
@pytest.mark.parametrize("make", [regressor, classifier])
def test_sample_weight_and_X_std_are_routed_through_a_pipeline(make):
    X, y = (X_DIABETES, Y_DIABETES) if make is regressor else (X_IRIS, Y_IRIS)
    weight = np.random.default_rng(0).uniform(0.1, 3, size=len(y))
    X_std = np.full(X.shape, 0.2)
    model = make(standardize=False).set_fit_request(sample_weight=True, X_std=True)
    model.set_predict_request(X_std=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipe = make_pipeline(scaler, model).fit(X, y, sample_weight=weight, X_std=X_std)
    scaled = StandardScaler().fit_transform(X)
    alone = make(standardize=False).fit(scaled, y, sample_weight=weight, X_std=X_std)
    np.testing.assert_allclose(pipe[-1].coefs_[0], alone.coefs_[0])
    assert (make(standardize=False).fit(scaled, y).coefs_[0] != alone.coefs_[0]).any()
    np.testing.assert_array_equal(pipe.predict(X, X_std=X_std), alone.predict(scaled, X_std=X_std))


@pytest.mark.usefixtures("_routing")
def test_return_std_passes_a_pipeline_with_routing():
    pipe = make_pipeline(StandardScaler(), regressor()).fit(X_DIABETES, Y_DIABETES)
    mean, std = pipe.predict(X_DIABETES, return_std=True)
    np.testing.assert_array_equal(mean, pipe.predict(X_DIABETES))
    assert (std > 0).all()
    pipe = make_pipeline(StandardScaler(), classifier()).fit(X_IRIS, Y_IRIS)
    _, std = pipe.predict_proba(X_IRIS, return_std=True)
    assert (std > 0).all()


@pytest.mark.usefixtures("_routing")
def test_weights_are_routed_through_cross_validation_and_search():
    weight = np.random.default_rng(0).uniform(0.1, 3, size=len(Y_DIABETES))
    model = regressor().set_fit_request(sample_weight=True)
    plain = cross_validate(clone(model), X_DIABETES, Y_DIABETES, cv=3)["test_score"]
    model.set_score_request(sample_weight=True)
    routed = cross_validate(model, X_DIABETES, Y_DIABETES, cv=3, params={"sample_weight": weight})[
        "test_score"
    ]
    assert (routed != plain).all()
    scorer = clone(log_likelihood_scorer).set_score_request(sample_weight=True)
    search = GridSearchCV(model, {"sigma_v": [0.5]}, scoring=scorer, cv=[(FIRST, SECOND)])
    search.fit(X_DIABETES, Y_DIABETES, sample_weight=weight)
    model.set_params(sigma_v=0.5).fit(X_DIABETES[FIRST], Y_DIABETES[FIRST], weight[FIRST])
    by_hand = model.log_likelihood(X_DIABETES[SECOND], Y_DIABETES[SECOND], weight[SECOND])
    assert search.best_score_ == pytest.approx(by_hand)
    unweighted = model.log_likelihood(X_DIABETES[SECOND], Y_DIABETES[SECOND])
    assert search.best_score_ != pytest.approx(unweighted, rel=1e-4)


@pytest.mark.usefixtures("_routing")
def test_uncertain_inputs_reach_the_scorer():
    X_std = np.full(X_DIABETES.shape, X_DIABETES.std())
    model = regressor().set_fit_request(X_std=True)
    scorer = clone(log_likelihood_scorer).set_score_request(X_std=True)
    score = cross_validate(
        model, X_DIABETES, Y_DIABETES, cv=[(FIRST, SECOND)], scoring=scorer, params={"X_std": X_std}
    )["test_score"][0]
    model.fit(X_DIABETES[FIRST], Y_DIABETES[FIRST], X_std=X_std[FIRST])
    rows = X_DIABETES[SECOND], Y_DIABETES[SECOND]
    assert score == pytest.approx(model.log_likelihood(*rows, X_std=X_std[SECOND]))
    assert score != pytest.approx(model.log_likelihood(*rows), rel=1e-4)


@pytest.mark.usefixtures("_routing")
def test_covariances_of_inputs_reach_the_scorer():
    n_features = X_DIABETES.shape[1]
    X_cov = np.full((len(X_DIABETES), n_features, n_features), X_DIABETES.var())
    scorer = clone(log_likelihood_scorer).set_score_request(X_cov=True)
    model = regressor().set_fit_request(X_cov=False)
    score = cross_validate(
        model, X_DIABETES, Y_DIABETES, cv=[(FIRST, SECOND)], scoring=scorer, params={"X_cov": X_cov}
    )["test_score"][0]
    model.fit(X_DIABETES[FIRST], Y_DIABETES[FIRST])
    rows = X_DIABETES[SECOND], Y_DIABETES[SECOND]
    assert score == pytest.approx(model.log_likelihood(*rows, X_cov=X_cov[SECOND]))
    assert score != pytest.approx(model.log_likelihood(*rows), rel=1e-4)


@pytest.mark.usefixtures("_routing")
def test_metadata_that_was_not_requested_is_refused():
    pipe = make_pipeline(StandardScaler(), regressor())
    with pytest.raises(UnsetMetadataPassedError, match="X_std"):
        pipe.fit(X_DIABETES, Y_DIABETES, X_std=np.ones(X_DIABETES.shape))


@pytest.mark.usefixtures("_routing")
@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_requests_exist_for_all_methods_that_take_metadata(estimator):
    for name in ("set_fit_request", "set_partial_fit_request", "set_predict_request"):
        assert hasattr(estimator(), name)
    assert hasattr(TAGIClassifier(), "set_predict_proba_request")
    request = estimator().set_partial_fit_request(X_std=True).get_metadata_routing()
    assert request.partial_fit.requests["X_std"] is True
