"""Targets that are positive or skewed: every prediction is in the units of y."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from sktagi import PredictiveDistribution, TAGIClassifier, TAGIRegressor, predict_dist
from sktagi.merging import fork, merge

QUICK = {"hidden_layer_sizes": (8,), "max_iter": 8, "n_members": 2, "random_state": 0}
LOG1P = FunctionTransformer(np.log1p, np.expm1)
TRANSFORMS = {
    "none": None,
    "log": "log",
    "power": "power",
    "log1p": LOG1P,
    "quantiles": QuantileTransformer(n_quantiles=50, output_distribution="normal"),
    "standard": StandardScaler(),
}
each = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def rows(n=200, seed=0, n_targets=None, sd=0.4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    g = X[:, 0] - X[:, 1]
    y = np.exp(g + sd * rng.normal(size=n))
    if n_targets is None:
        return X, y
    others = [np.exp(k - g + sd * rng.normal(size=n)) for k in range(1, n_targets)]
    return X, np.column_stack([y, *others])


def model(transform="log", **params):
    return TAGIRegressor(target_transform=transform, **{**QUICK, **params})


# One distribution


@each
@pytest.mark.parametrize("n_targets", [None, 2])
def test_every_method_is_a_view_of_one_distribution(transform, n_targets):
    X, y = rows(n_targets=n_targets)
    fitted, new = model(transform).fit(X, y), X[:20]
    dist = fitted.predict_dist(new)
    assert isinstance(dist, PredictiveDistribution)
    mean, std = fitted.predict(new, return_std=True)
    np.testing.assert_allclose(mean, dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(fitted.predict(new), mean, rtol=1e-12)
    np.testing.assert_allclose(std, dist.std(), rtol=1e-12)
    parts = fitted.predict_variance(new)
    np.testing.assert_allclose(sum(parts), std**2, rtol=1e-12)
    assert (np.array(parts) > 0).all()
    levels = np.array([0.1, 0.5, 0.95])
    quantiles = fitted.predict_quantiles(new, levels)
    assert quantiles.shape == (*mean.shape, 3)
    for k, level in enumerate(levels):
        np.testing.assert_allclose(quantiles[..., k], dist.ppf(level), rtol=1e-12)
    interval = fitted.predict_interval(new, 0.8)
    np.testing.assert_allclose(np.moveaxis(interval, -1, 0), dist.interval(0.8), rtol=1e-12)
    samples = fitted.sample_y(new, 5, random_state=3)
    np.testing.assert_allclose(np.moveaxis(samples, -1, 0), dist.rvs(5, 3), rtol=1e-12)
    log_density = dist.logpdf(y[:20]).reshape(20, -1).sum(axis=1)
    weight = np.linspace(0, 1, 20)
    assert fitted.log_likelihood(new, y[:20]) == pytest.approx(log_density.mean())
    assert fitted.log_likelihood(new, y[:20], sample_weight=weight) == pytest.approx(
        np.average(log_density, weights=weight)
    )


@each
@pytest.mark.parametrize("n_targets", [None, 2])
def test_draws_agree_with_the_predicted_moments(transform, n_targets):
    X, y = rows(n_targets=n_targets)
    fitted = model(transform).fit(X, y)
    mean, std = fitted.predict(X[:3], return_std=True)
    draws = fitted.sample_y(X[:3], 50_000)
    np.testing.assert_array_less(np.abs(draws.mean(axis=-1) - mean), 6 * std / np.sqrt(50_000))
    np.testing.assert_allclose(draws.std(axis=-1), std, rtol=0.05)


@pytest.mark.parametrize("n_targets", [None, 1, 2])
def test_several_coverages_have_an_axis_before_the_ends(n_targets):
    X, y = rows(n_targets=n_targets)
    fitted = model().fit(X, y)
    tail = () if n_targets is None else (n_targets,)
    several = fitted.predict_interval(X[:7], [0.5, 0.9, 0.99])
    assert several.shape == (7, *tail, 3, 2)
    assert fitted.predict_interval(X[:7], [0.9]).shape == (7, *tail, 1, 2)
    for k, coverage in enumerate([0.5, 0.9, 0.99]):
        one = fitted.predict_interval(X[:7], coverage)
        assert one.shape == (7, *tail, 2)
        np.testing.assert_allclose(several[..., k, :], one, rtol=1e-12)


@each
def test_uncertain_inputs_widen_the_distribution(transform):
    X, y = rows()
    fitted = model(transform).fit(X, y)
    plain, wide = fitted.predict_dist(X), fitted.predict_dist(X, X_std=0.5)
    assert ((wide.ppf(0.9) - wide.ppf(0.1)) > (plain.ppf(0.9) - plain.ppf(0.1))).mean() > 0.9


def test_noise_is_positive_where_the_network_knows_nothing():
    X, y = rows()
    fitted = model("power").fit(X, y)
    assert (fitted.predict_noise_std(1e12 * X) > 0).all()


@each
def test_single_precision_stays_single(transform):
    X, y = rows()
    new = X[:5].astype(np.float32)
    fitted = model(transform).fit(X.astype(np.float32), y)
    arrays = [*fitted.predict(new, return_std=True)]
    arrays += [fitted.predict(new), fitted.predict_interval(new, [0.5]), fitted.sample_y(new)]
    arrays += [fitted.predict_quantiles(new, [0.1])]
    assert {a.dtype for a in arrays} == {np.dtype(np.float32)}
    # Squares of what single precision can hold need not be numbers of it.
    assert {a.dtype for a in fitted.predict_variance(new)} == {np.dtype(np.float64)}
    double = model(transform).fit(X, y)
    np.testing.assert_allclose(fitted.predict(new), double.predict(X[:5]), rtol=0.1, atol=0.05)


def test_predictions_beyond_single_precision_are_finite():
    X, y = rows()
    fitted = model(standardize=False).fit(X.astype(np.float32), y)
    far = np.full((3, 2), [1e3, -1e3], dtype=np.float32)
    found = [*fitted.predict(far, return_std=True), *fitted.predict_interval(far).T]
    assert np.isfinite(found).all()


# What it is for


def test_logarithms_of_log_normal_data_are_right():
    X, y = rows(1500, sd=0.5)
    X_new, y_new = rows(4000, seed=1, sd=0.5)
    params = {"max_iter": 40, "n_members": 10, "sigma_v": "constant"}
    plain, log = (model(t, **params).fit(X, y) for t in (None, "log"))
    assert log.log_likelihood(X_new, y_new) > plain.log_likelihood(X_new, y_new) + 0.2
    low, high = log.predict_interval(X_new, 0.9).T
    assert (low > 0).all()
    assert np.mean((low <= y_new) & (y_new <= high)) == pytest.approx(0.9, abs=0.04)
    true_mean = np.exp(X_new[:, 0] - X_new[:, 1] + 0.5**2 / 2)
    assert np.mean(log.predict(X_new)) == pytest.approx(true_mean.mean(), rel=0.05)
    assert (log.predict(X_new) > np.ravel(log.predict_quantiles(X_new, 0.5))).all()


def test_powers_help_skewed_targets_that_may_be_negative():
    X, y = rows(600)
    X_new, y_new = rows(2000, seed=1)
    plain, power = (
        model(t, max_iter=30, sigma_v="constant").fit(X, y - 2) for t in (None, "power")
    )
    assert power.log_likelihood(X_new, y_new - 2) > plain.log_likelihood(X_new, y_new - 2) + 0.1
    assert ((power.target_transformer_[1].lambdas_ >= 0) & (
        power.target_transformer_[1].lambdas_ <= 2)).all()  # fmt: skip


@pytest.mark.parametrize("transform", ["log", "power"])
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_the_target_do_not_matter(transform, factor):
    X, y = rows()
    one, other = model(transform).fit(X, y), model(transform).fit(X, factor * y)
    for found, expected in zip(
        other.predict(X, return_std=True), one.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, factor * expected, rtol=1e-4)
    assert other.log_likelihood(X, factor * y) == pytest.approx(
        one.log_likelihood(X, y) - np.log(factor), rel=1e-4
    )


def test_a_linear_transform_changes_nothing():
    X, y = rows()
    plain, scaled = model(None).fit(X, y), model(StandardScaler()).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), rtol=1e-3, atol=1e-3)
    assert scaled.log_likelihood(X, y) == pytest.approx(plain.log_likelihood(X, y), abs=1e-4)
    np.testing.assert_allclose(scaled.validation_scores_, plain.validation_scores_, rtol=1e-6)


# Fitting


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_logarithms_need_positive_targets(bad):
    X, y = rows()
    y[7] = bad
    with pytest.raises(ValueError, match=r"y has values .*'log'.*positive"):
        model().fit(X, y)
    with pytest.raises(ValueError, match=r"y_val .*'log'.*positive"):
        model().fit(X[8:], y[8:], X_val=X[:8], y_val=y[:8])
    weight = np.ones(len(y))
    weight[7] = 0
    model().fit(X, y, sample_weight=weight)  # a row of no weight is not there
    fitted = model().fit(X[8:], y[8:])
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="positive"):
        fitted.partial_fit(X[:8], y[:8])
    np.testing.assert_array_equal(fitted.predict(X), before)
    assert fitted.log_likelihood(X, y) == -np.inf
    assert np.isfinite(fitted.log_likelihood(X, y, sample_weight=weight))


@each
def test_the_fitted_transformer_is_an_attribute(transform):
    X, y = rows()
    given = None if transform is None or isinstance(transform, str) else clone(transform)
    fitted = model(transform if given is None else given).fit(X, y)
    assert hasattr(fitted, "target_transformer_") == (transform is not None)
    if given is not None:
        assert fitted.target_transformer_ is not given
        assert vars(given).keys() == vars(clone(given)).keys()  # not fitted
    if transform is not None:
        g = fitted.target_transformer_.transform(y[:, None])
        np.testing.assert_allclose(fitted.target_transformer_.inverse_transform(g)[:, 0], y)
    assert not hasattr(fitted.set_params(target_transform=None).fit(X, y), "target_transformer_")


@pytest.mark.parametrize("transform", ["log", "power", LOG1P, QuantileTransformer(n_quantiles=20)])
def test_targets_that_are_not_observed_stay_so(transform):
    X, Y = rows(n_targets=2)
    Y[::3, 1] = np.nan
    fitted = model(transform).fit(X, Y)
    mean, std = fitted.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    log_density = fitted.predict_dist(X).logpdf(Y)
    np.testing.assert_array_equal(np.isnan(log_density), np.isnan(Y))
    assert fitted.log_likelihood(X, Y) == pytest.approx(np.nansum(log_density, axis=1).mean())
    fitted.partial_fit(X[:9], Y[:9])
    assert np.isfinite(fitted.prequential_log_likelihood_)


@pytest.mark.parametrize("transform", ["log", "power", LOG1P])
def test_streams_and_warm_fits_keep_the_transformer(transform):
    X, y = rows()
    fitted = model(transform, warm_start=True).fit(X, y)
    kept = fitted.target_transformer_
    fitted.partial_fit(X[:10], 3 * y[:10])
    fitted.fit(X, y)
    assert fitted.target_transformer_ is kept
    fitted.set_params(target_transform=None)
    for learn in (fitted.fit, fitted.partial_fit):
        with pytest.raises(ValueError, match="target_transform must be as in the fit"):
            learn(X, y)
    fitted.set_params(target_transform=StandardScaler())
    with pytest.raises(ValueError, match="target_transform must be as in the fit"):
        fitted.partial_fit(X, y)


def test_a_transform_cannot_begin_in_a_warm_fit():
    X, y = rows()
    fitted = model(None, warm_start=True).fit(X, y).set_params(target_transform="log")
    with pytest.raises(ValueError, match="target_transform must be as in the fit"):
        fitted.fit(X, y)
    assert fitted.set_params(warm_start=False).fit(X, y).log_likelihood(X, -y) == -np.inf


def test_the_first_rows_of_a_stream_fit_the_transformer():
    X, y = rows()
    for transform in ("power", QuantileTransformer(n_quantiles=5)):
        with pytest.raises(ValueError, match=r"target_transform.* needs 5 distinct values"):
            model(transform).partial_fit(X[:3], y[:3])
    streamed = model("power").partial_fit(X[:50], y[:50])
    fitted = streamed.target_transformer_
    np.testing.assert_allclose(fitted[0].mean_, y[:50].mean())
    assert streamed.partial_fit(X[50:], y[50:]).target_transformer_ is fitted
    assert np.isfinite(model("log").partial_fit(X[:1], y[:1]).predict(X)).all()


@pytest.mark.parametrize("transform", ["log", "power", LOG1P])
def test_scores_of_streams_are_in_the_units_of_y(transform):
    X, y = rows(60)
    stream = model(transform, n_members=1, batch_size=1, standardize=False, sigma_v=0.5)
    stream.set_params(half_life=None)  # a row is scored after some of the past is forgotten
    stream.partial_fit(X[:10], y[:10])
    before = stream.prequential_log_likelihood_
    scores = []
    for row in range(10, 40):
        scores.append(stream.log_likelihood(X[row : row + 1], y[row : row + 1]))
        stream.partial_fit(X[row : row + 1], y[row : row + 1])
    expected = (10 * before + np.sum(scores)) / 40
    assert stream.prequential_log_likelihood_ == pytest.approx(expected, rel=1e-4)


def test_training_scores_are_in_the_units_of_y():
    X, y = rows()
    params = {"n_members": 1, "early_stopping": False, "batch_size": len(X), "shuffle": False}
    prior, fitted = (model("log", max_iter=k, **params).fit(X, y) for k in (0, 1))
    assert fitted.train_scores_[0] == pytest.approx(prior.log_likelihood(X, y), rel=1e-6)


@pytest.mark.parametrize("transform", ["log", "power", LOG1P])
def test_saved_models_predict_the_same(transform):
    X, y = rows()
    fitted = model(transform).fit(X, y)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.predict_interval(X), fitted.predict_interval(X))
    assert loaded.partial_fit(X, y).n_samples_seen_ == 400


def test_shards_of_one_transform_are_merged_and_others_are_refused():
    X, y = rows()
    for transform in ("log", "power"):
        start = fork(model(transform).fit(X[:100], y[:100]))
        shards = [deepcopy(start).partial_fit(X[100 + k :: 2], y[100 + k :: 2]) for k in range(2)]
        merged = merge(shards)
        assert np.isfinite(merged.predict(X)).all()
        assert merged.n_samples_seen_ == 200
    spoiled = deepcopy(shards[1])
    spoiled.target_transformer_[1].lambdas_ = np.array([0.123])
    with pytest.raises(ValueError, match="differ in target_transform"):
        merge([shards[0], spoiled])


@pytest.mark.parametrize(
    "transform", ["power", StandardScaler(), QuantileTransformer()], ids=lambda t: type(t).__name__
)
def test_partitions_do_not_fit_a_transformer(transform):
    from sktagi.dask import fit_shards

    with pytest.raises(ValueError, match=r"target_transform.*fit_shards takes 'log'"):
        fit_shards(model(transform), None, None)


class MixesTargets(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X @ np.array([[1.0, 1.0], [0.0, 1.0]])

    def inverse_transform(self, X):
        return X @ np.array([[1.0, -1.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("transform", "match"),
    [
        (FunctionTransformer(np.negative, np.negative), "increase.*decreases"),
        (FunctionTransformer(np.reciprocal, np.reciprocal), "increase.*decreases"),
        (FunctionTransformer(np.sin, np.arcsin), "increase.*not monotone"),
        (FunctionTransformer(np.log), "invertible"),
        (FunctionTransformer(np.round, np.asarray), "invertible"),
        (MixesTargets(), "each target alone"),
        (FunctionTransformer(lambda y: y[:, :1], lambda g: g), "keep the number of targets"),
        (KBinsDiscretizer(3), "keep the number of targets"),  # a sparse matrix
        (FunctionTransformer(lambda y: np.sqrt(y - 6), lambda g: g**2 + 6), "cannot map, such as"),
    ],
)
def test_what_is_no_increasing_map_is_refused(transform, match):
    X, Y = rows(n_targets=2)
    fresh = model(transform)
    with pytest.raises(ValueError, match=rf"(?s)target_transform.*{match}"):
        fresh.fit(X, 5 * Y)
    assert not hasattr(fresh, "n_features_in_")


def test_classifiers_have_no_transform():
    assert "target_transform" not in TAGIClassifier().get_params()


# Other estimators


def test_wrapped_models_have_the_distribution_of_what_they_wrap():
    X, y = rows()
    new, at = X[:10], y[:10]
    inner = model().fit(X, y)
    expected = inner.predict_dist(new)
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(StandardScaler(), model()).fit(X, y)
    behind = pipeline[-1].predict_dist(scaler.transform(new))
    search = GridSearchCV(model(), {"max_iter": [8]}, cv=2).fit(X, y)
    searched = GridSearchCV(pipeline, {"tagiregressor__max_iter": [8]}, cv=2).fit(X, y)
    for wrapped, wanted in [
        (inner, expected),
        (make_pipeline(inner), expected),
        (FrozenEstimator(inner), expected),
        (FrozenEstimator(pipeline), behind),
        (pipeline, behind),
        (search, expected),
        (searched, behind),
    ]:
        found = predict_dist(wrapped, new)
        np.testing.assert_allclose(found.mean(), wanted.mean(), rtol=1e-10)
        np.testing.assert_allclose(found.logpdf(at), wanted.logpdf(at), rtol=1e-10)
    wide = predict_dist(make_pipeline(inner), new, X_std=0.3)
    np.testing.assert_allclose(wide.mean(), inner.predict_dist(new, X_std=0.3).mean())


@pytest.mark.parametrize("n_targets", [None, 1, 2])
def test_a_transformed_target_regressor_has_the_distribution_of_y(n_targets):
    X, y = rows(n_targets=n_targets)
    expected = model("log").fit(X, y).predict_dist(X)
    for given in ({"func": np.log, "inverse_func": np.exp},
                  {"transformer": FunctionTransformer(np.log, np.exp)}):  # fmt: skip
        wrapped = TransformedTargetRegressor(model(None), **given).fit(X, y)
        dist = predict_dist(wrapped, X)
        assert dist.shape == wrapped.predict(X).shape == y.shape
        np.testing.assert_allclose(dist.mean(), expected.mean(), rtol=1e-6)
        np.testing.assert_allclose(dist.ppf(0.1), expected.ppf(0.1), rtol=1e-6)
        np.testing.assert_allclose(dist.logpdf(y), expected.logpdf(y), rtol=1e-4, atol=1e-4)
    wrapped = TransformedTargetRegressor(model(None), transformer=PowerTransformer()).fit(X, y)
    dist = predict_dist(make_pipeline(FrozenEstimator(wrapped)), X)
    assert np.isfinite(dist.mean()).all()
    np.testing.assert_allclose(dist.cdf(dist.ppf(0.3)), 0.3, rtol=1e-6)


def test_a_transformed_target_regressor_that_decreases_is_refused():
    X, y = rows()
    for func in (np.negative, np.reciprocal):
        wrapped = TransformedTargetRegressor(model(None), func=func, inverse_func=func).fit(X, y)
        for new in (X, X[:1]):
            with pytest.raises(ValueError, match="must increase with y"):
                predict_dist(wrapped, new)


def test_a_transform_inside_a_transform_is_composed():
    X, y = rows()
    inner = model("log", sigma_v=0.3)
    wrapped = TransformedTargetRegressor(inner, func=np.sqrt, inverse_func=np.square).fit(X, y)
    dist = predict_dist(wrapped, X)
    root = wrapped.regressor_.predict_dist(X)  # of the square root of y
    np.testing.assert_allclose(dist.ppf(0.2), root.ppf(0.2) ** 2, rtol=1e-6)
    np.testing.assert_allclose(
        dist.logpdf(y), root.logpdf(np.sqrt(y)) - np.log(2 * np.sqrt(y)), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(dist.mean(), root.var() + root.mean() ** 2, rtol=1e-5)
    np.testing.assert_allclose(dist.support()[0], 0, atol=1e-9)


@pytest.mark.parametrize(
    "other", [BayesianRidge(), GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True)]
)
def test_other_estimators_with_a_std_are_gaussians(other):
    X, y = rows(60)
    fitted = make_pipeline(StandardScaler(), other).fit(X, y)
    dist = predict_dist(fitted, X)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(dist.mean(), mean)
    np.testing.assert_allclose(dist.std(), std)
    wrapped = TransformedTargetRegressor(fitted, func=np.log, inverse_func=np.exp).fit(X, y)
    assert (predict_dist(wrapped, X).interval(0.99)[0] > 0).all()


def test_estimators_without_a_std_are_refused():
    X, y = rows(60)
    for other in (LinearRegression(), make_pipeline(StandardScaler(), LinearRegression())):
        with pytest.raises(TypeError, match="LinearRegression does not"):
            predict_dist(other.fit(X, y), X)
    with pytest.raises(TypeError, match="BaggingRegressor does not"):
        predict_dist(BaggingRegressor(BayesianRidge(), n_estimators=2).fit(X, y), X)
    with pytest.raises(TypeError, match="TAGIClassifier is a classifier"):
        predict_dist(TAGIClassifier(**QUICK).fit(X, y > 1), X)
