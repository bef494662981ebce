"""Scores against integration and sampling; scorers for estimators of sktagi and others."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sktagi import TAGIClassifier, TAGIRegressor, metrics
from sktagi._any_estimator import predict_dist
from sktagi.metrics import (
    calibration_error,
    calibration_scorer,
    crps_scorer,
    gaussian_crps,
    gaussian_log_likelihood,
    interval_coverage,
    interval_score,
    interval_score_scorer,
    log_likelihood_scorer,
    probability_integral_transform,
)

FUNCTIONS = [
    gaussian_log_likelihood,
    gaussian_crps,
    interval_coverage,
    interval_score,
    calibration_error,
]
SCORERS = {
    "log_likelihood": log_likelihood_scorer,
    "crps": crps_scorer,
    "interval_score": interval_score_scorer,
    "calibration": calibration_scorer,
}
FUNCTION_OF = {
    "log_likelihood": gaussian_log_likelihood,
    "crps": gaussian_crps,
    "interval_score": interval_score,
    "calibration": calibration_error,
}
X_DIABETES, Y_DIABETES = load_diabetes(return_X_y=True)
X_IRIS, Y_IRIS = load_iris(return_X_y=True)


def regressor(**params):
    quick = {"hidden_layer_sizes": (10,), "max_iter": 5, "n_members": 1, "random_state": 0}
    return TAGIRegressor(**{**quick, **params})


def predictions(n=200, targets=None, seed=0):
    """Targets, means and stds that belong together: y is drawn from N(mean, std^2)."""
    rng = np.random.default_rng(seed)
    shape = n if targets is None else (n, targets)
    mean, std = rng.normal(scale=3, size=shape), rng.uniform(0.2, 4, size=shape)
    return mean + std * rng.normal(size=shape), mean, std


CASES = [(0.0, 0.0, 1.0), (1.3, 0.2, 0.7), (-4.0, 1.0, 0.5), (250.0, 249.0, 40.0), (3.0, -2.0, 0.1)]


# Functions


@pytest.mark.parametrize(("y", "mean", "std"), CASES)
def test_crps_is_the_integral_of_the_squared_difference_of_distributions(y, mean, std):
    below, _ = quad(
        lambda t: norm.cdf(t, mean, std) ** 2, min(y, mean) - 40 * std, y, epsabs=1e-10,
        points=[mean] if mean < y else None, limit=200,
    )  # fmt: skip
    above, _ = quad(
        lambda t: norm.sf(t, mean, std) ** 2, y, max(y, mean) + 40 * std, epsabs=1e-10,
        points=[mean] if mean > y else None, limit=200,
    )  # fmt: skip
    assert gaussian_crps([y], [mean], [std]) == pytest.approx(below + above, abs=1e-6)


def test_crps_is_the_absolute_error_when_there_is_no_spread():
    y, mean, _ = predictions()
    tiny = np.full(len(y), 1e-9)
    assert gaussian_crps(y, mean, tiny) == pytest.approx(np.abs(y - mean).mean(), abs=1e-8)


@pytest.mark.parametrize(("y", "mean", "std"), CASES)
def test_log_likelihood_is_the_derivative_of_the_distribution(y, mean, std):
    step = 1e-4 * std
    # Use the upper tail if y lies above: the difference of two numbers near 1 is lost.
    side = -1 if y > mean else 1
    tail = norm.cdf(side * (np.array([y - step, y + step]) - mean) / std)
    density = side * (tail[1] - tail[0]) / (2 * step)
    assert np.exp(gaussian_log_likelihood([y], [mean], [std])) == pytest.approx(density, rel=1e-5)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("y", "mean", "std"), CASES)
def test_interval_score_is_the_sum_of_two_pinball_losses(y, mean, std, coverage):
    """Each end of the interval is a quantile; their pinball losses are the score by another way."""
    alpha = 1 - coverage
    low, high = norm.ppf([alpha / 2, 1 - alpha / 2], mean, std)

    def pinball(quantile, level):
        return max(level * (y - quantile), (level - 1) * (y - quantile))

    expected = 2 / alpha * (pinball(low, alpha / 2) + pinball(high, 1 - alpha / 2))
    score = interval_score([y], norm([mean], [std]), coverage=coverage)
    assert score == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "loss", [gaussian_crps, interval_score, lambda *a: -gaussian_log_likelihood(*a)]
)
def test_proper_scores_are_best_for_the_distribution_that_drew_the_targets(loss):
    """Averaged over the quantiles of N(2, 1.5^2): the best std is 1.5, the best mean is 2."""
    y = norm.ppf((np.arange(20000) + 0.5) / 20000, 2, 1.5)

    def expected(mean, std):
        return loss(y, np.full(len(y), mean), np.full(len(y), std))

    best_std = minimize_scalar(lambda s: expected(2.0, s), bounds=(0.5, 4), method="bounded").x
    best_mean = minimize_scalar(lambda m: expected(m, 1.5), bounds=(-1, 5), method="bounded").x
    assert best_std == pytest.approx(1.5, abs=0.01)
    assert best_mean == pytest.approx(2.0, abs=0.01)


def test_coverage_counts_the_targets_between_the_quantiles():
    y, mean, std = predictions(500)
    low, high = norm.ppf(0.15, mean, std), norm.ppf(0.85, mean, std)
    expected = ((low <= y) & (y <= high)).mean()
    assert interval_coverage(y, mean, std, coverage=0.7) == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(0.7, abs=0.06)


def test_coverage_is_that_of_predict_interval():
    model = regressor().fit(X_DIABETES, Y_DIABETES)
    low, high = model.predict_interval(X_DIABETES, coverage=0.8).T
    by_hand = ((low <= Y_DIABETES) & (high >= Y_DIABETES)).mean()
    assert interval_coverage(Y_DIABETES, lower=low, upper=high) == by_hand
    dist = predict_dist(model, X_DIABETES)
    assert interval_coverage(Y_DIABETES, dist, coverage=0.8) == pytest.approx(by_hand, abs=0.01)


@pytest.mark.parametrize("targets", [None, 3])
def test_pit_is_the_distribution_function_and_uniform_for_a_calibrated_model(targets):
    y, mean, std = predictions(4000, targets)
    pit = probability_integral_transform(y, mean, std)
    np.testing.assert_allclose(pit, norm.cdf(y, mean, std), atol=1e-12)
    assert pit.shape == mean.shape
    shares = np.histogram(pit, bins=10, range=(0, 1))[0] / pit.size
    np.testing.assert_allclose(shares, 0.1, atol=0.02)


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
def test_calibration_error_is_the_area_between_observed_and_nominal_coverage(factor):
    y, mean, std = predictions(60)
    std = std * factor
    weight = np.random.default_rng(1).uniform(size=60)
    needed = np.abs(2 * norm.cdf(y, mean, std) - 1)

    # Piece by piece: observed coverage jumps at each target and is constant between them.
    edges = np.concatenate([[0], np.sort(needed), [1]])
    area = 0.0
    for a, b in pairwise(edges):
        observed = np.average(needed <= a, weights=weight)
        area += quad(lambda p, f=observed: abs(f - p), a, b, points=[np.clip(observed, a, b)])[0]
    error = calibration_error(y, mean, std, sample_weight=weight)
    assert error == pytest.approx(area, abs=1e-6)


def test_calibration_error_of_a_calibrated_model_is_what_its_docstring_says():
    errors = [calibration_error(*predictions(400, seed=s)) for s in range(200)]
    assert np.mean(errors) == pytest.approx(0.313 / np.sqrt(400), rel=0.1)


def test_calibration_error_is_at_most_one_half():
    _, mean, std = predictions()
    assert calibration_error(mean, mean, std) == pytest.approx(0.5)
    assert calibration_error(mean + 99 * std, mean, std) == pytest.approx(0.5)


def test_calibration_errors_of_two_targets_do_not_cancel():
    y, mean, std = predictions(500, 2)
    wrong = std * [0.4, 2.5]
    each = [calibration_error(y[:, k], mean[:, k], wrong[:, k]) for k in range(2)]
    assert calibration_error(y, mean, wrong) == pytest.approx(np.mean(each))
    assert calibration_error(y, mean, wrong) > 5 * calibration_error(y, mean, std)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_several_targets_sum_in_the_log_likelihood_and_average_elsewhere(score):
    y, mean, std = predictions(100, 3)
    weight = np.random.default_rng(1).uniform(size=100)
    each = [score(y[:, k], mean[:, k], std[:, k], sample_weight=weight) for k in range(3)]
    together = np.sum(each) if score is gaussian_log_likelihood else np.mean(each)
    assert score(y, mean, std, sample_weight=weight) == pytest.approx(together)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_weight_two_equals_row_twice_and_weight_zero_a_row_less(score):
    y, mean, std = predictions(50)
    copies = np.random.default_rng(1).integers(0, 3, size=50)
    repeated = score(*(np.repeat(a, copies) for a in (y, mean, std)))
    assert score(y, mean, std, sample_weight=copies) == pytest.approx(repeated)
    assert score(y, mean, std) != pytest.approx(repeated, rel=1e-6)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_lists_frames_and_columns_are_accepted(score):
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    y, mean, std = predictions(20)
    expected = score(y, mean, std)
    assert score(y.tolist(), mean.tolist(), std.tolist()) == pytest.approx(expected)
    assert score(pd.Series(y), pd.Series(mean), std) == pytest.approx(expected)
    assert score(pl.Series(y), pl.Series(mean), std) == pytest.approx(expected)
    assert score(pd.DataFrame({"y": y}), mean, std) == pytest.approx(expected)
    assert score(y[:, None], mean[:, None], std[:, None]) == pytest.approx(expected)


@pytest.mark.parametrize("score", [*FUNCTIONS, probability_integral_transform])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y, m, s: (y, m, np.where(s > s.min(), s, 0.0)), "std must be positive"),
        (lambda y, m, s: (y, m, -s), "std must be positive"),
        (lambda y, m, s: (np.append(y[:-1], np.nan), m, s), "y_true contains NaN"),
        (lambda y, m, s: (y, np.append(m[:-1], np.nan), s), "mean contains NaN"),
        (lambda y, m, s: (y, m, np.append(s[:-1], np.nan)), "std contains NaN"),
        (lambda y, m, s: (y, m, np.append(s[:-1], np.inf)), "std contains infinity"),
        (lambda y, m, s: (y[:-1], m, s), "inconsistent numbers of samples"),
        (lambda y, m, s: (y, m, s[:1]), "inconsistent numbers of samples"),
        (lambda y, m, s: (y, m, 1.0), "inconsistent numbers of samples"),
        (
            lambda y, m, s: (y, np.column_stack([m, m]), s),
            r"same shape.*\(20,\), \(20, 2\) and \(20,\)",
        ),
        (lambda y, m, s: (np.column_stack([y, y]), m, s), "same shape"),
        (lambda y, m, s: (y[:0], m[:0], s[:0]), "0 sample"),
    ],
)
def test_what_cannot_be_scored_is_refused(score, change, message):
    with pytest.raises(ValueError, match=message):
        score(*change(*predictions(20)))


@pytest.mark.parametrize("score", [interval_coverage, interval_score])
@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 90, np.nan, [0.5, 0.9], "much"])
def test_coverage_must_be_a_probability(score, coverage):
    with pytest.raises(ValueError, match="coverage must"):
        score(*predictions(20), coverage=coverage)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_weights_must_fit_the_rows(score):
    with pytest.raises(ValueError, match="sample_weight"):
        score(*predictions(20), sample_weight=np.ones(19))


# Targets that were not observed


def partly_observed(n=60, targets=3, seed=0):
    """Predictions of several targets, about a third of which are NaN, but never a whole row."""
    y, mean, std = predictions(n, targets, seed)
    rng = np.random.default_rng(seed + 1)
    missing = rng.uniform(size=y.shape) < 0.35
    missing[np.arange(n), rng.integers(targets, size=n)] = False
    assert missing.any(axis=0).all()
    return np.where(missing, np.nan, y), mean, std


def weights(n=60):
    return np.random.default_rng(2).uniform(size=n)


@pytest.mark.parametrize("weight", [np.ones(60), weights()], ids=["equal", "weighted"])
def test_log_likelihood_of_a_row_is_the_sum_over_its_observed_targets(weight):
    y, mean, std = partly_observed()
    total = 0.0
    for i, k in np.argwhere(~np.isnan(y)):
        total += weight[i] * norm.logpdf(y[i, k], mean[i, k], std[i, k])
    score = gaussian_log_likelihood(y, mean, std, sample_weight=weight)
    assert score == pytest.approx(total / weight.sum())


@pytest.mark.parametrize("weight", [np.ones(60), weights()], ids=["equal", "weighted"])
@pytest.mark.parametrize("score", [gaussian_crps, interval_coverage, interval_score])
def test_means_run_over_the_observed_rows_of_a_target_and_then_over_targets(score, weight):
    y, mean, std = partly_observed()
    means = []
    for k in range(3):
        total = total_weight = 0.0
        for i in range(60):
            if not np.isnan(y[i, k]):
                row = [y[i, k]], [mean[i, k]], [std[i, k]]
                if score is not gaussian_crps:  # one row might be the ends of an interval
                    row = [y[i, k]], norm(*row[1:])
                total += weight[i] * score(*row)
                total_weight += weight[i]
        means.append(total / total_weight)
    assert score(y, mean, std, sample_weight=weight) == pytest.approx(np.mean(means))


@pytest.mark.parametrize("weight", [np.ones(60), weights()], ids=["equal", "weighted"])
@pytest.mark.parametrize("score", [f for f in FUNCTIONS if f is not gaussian_log_likelihood])
def test_a_target_with_nan_is_scored_by_its_observed_rows(score, weight):
    y, mean, std = predictions(60, 2)
    y[::4, 1] = np.nan
    seen = ~np.isnan(y[:, 1])
    complete = score(y[:, 0], mean[:, 0], std[:, 0], sample_weight=weight)
    partial = score(y[seen, 1], mean[seen, 1], std[seen, 1], sample_weight=weight[seen])
    expected = (complete + partial) / 2
    assert score(y, mean, std, sample_weight=weight) == pytest.approx(expected)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_predictions_of_targets_that_were_not_observed_do_not_matter(score):
    y, mean, std = partly_observed()
    missing = np.isnan(y)
    other = np.where(missing, 1e9, mean), np.where(missing, 1e-9, std)
    assert score(y, *other) == score(y, mean, std)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_weights_count_rows_with_nan_too(score):
    y, mean, std = partly_observed()
    copies = np.random.default_rng(1).integers(0, 3, size=60)
    repeated = (np.repeat(values, copies, axis=0) for values in (y, mean, std))
    weighted = score(y, mean, std, sample_weight=copies)
    assert weighted == pytest.approx(score(*repeated))


@pytest.mark.parametrize("score", FUNCTIONS)
def test_a_target_that_was_never_observed_is_left_out(score):
    y, mean, std = partly_observed()
    expected = score(y, mean, std)
    with_another = (
        np.insert(values, 1, value, axis=1)
        for values, value in ((y, np.nan), (mean, 5.0), (std, 2.0))
    )
    assert score(*with_another) == pytest.approx(expected)


@pytest.mark.parametrize("score", FUNCTIONS)
def test_a_target_observed_only_with_weight_zero_is_left_out(score):
    y, mean, std = predictions(20, 2)
    y[3:, 1] = np.nan
    weight = np.repeat([0.0, 1.0], [3, 17])
    expected = score(y[3:, 0], mean[3:, 0], std[3:, 0])
    assert score(y, mean, std, sample_weight=weight) == pytest.approx(expected)


def test_pit_is_nan_where_the_target_was_not_observed():
    y, mean, std = partly_observed()
    pit = probability_integral_transform(y, mean, std)
    np.testing.assert_array_equal(np.isnan(pit), np.isnan(y))
    seen = ~np.isnan(y)
    np.testing.assert_allclose(pit[seen], norm.cdf(y[seen], mean[seen], std[seen]), atol=1e-12)


@pytest.mark.parametrize("score", [*FUNCTIONS, probability_integral_transform])
def test_scores_of_partly_observed_targets_warn_of_nothing(score):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(*partly_observed())


@pytest.mark.parametrize("score", FUNCTIONS)
def test_missing_values_of_frames_are_not_observed(score):
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    y, mean, std = partly_observed()
    expected = score(y, mean, std)
    columns = {f"y{k}": [None if np.isnan(v) else v for v in y[:, k]] for k in range(3)}
    for frame in (pd.DataFrame(y), pd.DataFrame(columns, dtype="Float64"), pl.DataFrame(columns)):
        assert score(frame, mean, std) == expected
    assert score(np.where(np.isnan(y), None, y).tolist(), mean, std) == expected


def with_nan(values, *places):
    values = values.copy()
    for place in places:
        values[place] = np.nan
    return values


@pytest.mark.parametrize("score", [*FUNCTIONS, probability_integral_transform])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda y, m, s: (with_nan(y, 3, 17), m, s),
            r"^y_true has rows with no observed target \(all NaN\): rows 3, 17\.$",
        ),
        (
            lambda y, m, s: (with_nan(y, slice(4, 12)), m, s),
            r"no observed target \(all NaN\): rows 4, 5, 6, 7, 8, \.\.\.\.$",
        ),
        (lambda y, m, s: (with_nan(y[:, 0], 3), m[:, 0], s[:, 0]), r"^Input y_true contains NaN"),
        (lambda y, m, s: (with_nan(y[:, :1], 3), m[:, :1], s[:, :1]), "^Input y_true contains NaN"),
        (lambda y, m, s: (with_nan(y[:, :1], 3), m[:, 0], s[:, 0]), "^Input y_true contains NaN"),
        (lambda y, m, s: (np.where(m > m.min(), y, np.inf), m, s), "y_true contains infinity"),
        (lambda y, m, s: (with_nan(y, (3, 0)), with_nan(m, (3, 0)), s), "mean contains NaN"),
        (lambda y, m, s: (with_nan(y, (3, 0)), m, with_nan(s, (3, 0))), "std contains NaN"),
    ],
    ids=["rows", "many rows", "one target", "one column", "column", "infinity", "mean", "std"],
)
def test_nan_that_cannot_be_scored_is_refused(score, change, message):
    with pytest.raises(ValueError, match=message):
        score(*change(*predictions(20, 2)))


# Scorers


class Constant(RegressorMixin, BaseEstimator):
    """Predict mean and std of each target over its observed rows."""

    def fit(self, X, y):
        self.mean_, self.std_ = np.nanmean(y, axis=0), np.nanstd(y, axis=0)
        return self

    def predict(self, X, return_std=False):
        mean, std = (np.tile(values, (len(X), 1)) for values in (self.mean_, self.std_))
        return (mean, std) if return_std else mean


@pytest.mark.parametrize("name", SCORERS)
def test_cross_validation_scores_the_observed_targets(name):
    y, _, _ = partly_observed()
    X = np.arange(60.0)[:, None]
    scores = cross_val_score(Constant(), X, y, scoring=SCORERS[name], cv=KFold(3))
    for (train, test), score in zip(KFold(3).split(X), scores, strict=True):
        predicted = Constant().fit(X[train], y[train]).predict(X[test], return_std=True)
        sign = 1 if name == "log_likelihood" else -1
        assert score == pytest.approx(sign * FUNCTION_OF[name](y[test], *predicted))


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_weigh_rows_that_are_partly_observed(name):
    y, _, _ = partly_observed()
    X = np.arange(60.0)[:, None]
    model = Constant().fit(X, y)
    copies = np.random.default_rng(1).integers(0, 3, size=60)
    expected = SCORERS[name](model, np.repeat(X, copies, axis=0), np.repeat(y, copies, axis=0))
    assert SCORERS[name](model, X, y, sample_weight=copies) == pytest.approx(expected)


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_refuse_rows_without_an_observed_target(name):
    y, _, _ = partly_observed()
    model = Constant().fit(y, y)
    y[7] = np.nan
    with pytest.raises(ValueError, match=r"no observed target \(all NaN\): rows 7\."):
        SCORERS[name](model, y, y)


class Given(BayesianRidge):
    """A model with a known mean and a std that is wrong by a factor."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y):
        return self

    def predict(self, X, return_std=False):
        mean, std = 3 * X[:, 0], self.factor * (0.5 + np.abs(X[:, 0]))
        return (mean, std) if return_std else mean


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_prefer_the_calibrated_model_of_three_with_the_same_mean(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = 3 * X[:, 0] + (0.5 + np.abs(X[:, 0])) * rng.normal(size=2000)
    search = GridSearchCV(Given(), {"factor": [0.5, 1.0, 2.0]}, scoring=SCORERS[name], cv=4)
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    assert search.best_params_ == {"factor": 1.0}
    assert scores[1] - max(scores[0], scores[2]) > 0.03  # in each score's own unit


@pytest.mark.parametrize("targets", [None, 2])
def test_scorers_are_the_functions_with_greater_as_better(targets):
    y = Y_DIABETES if targets is None else np.column_stack([Y_DIABETES, np.sqrt(Y_DIABETES)])
    model = GaussianProcessRegressor(WhiteKernel(), normalize_y=True).fit(X_DIABETES, y)
    predicted = model.predict(X_DIABETES, return_std=True)
    weight = np.linspace(0, 1, len(y))
    for name, score in FUNCTION_OF.items():
        sign = 1 if name == "log_likelihood" else -1
        scorer = SCORERS[name]
        assert scorer(model, X_DIABETES, y) == pytest.approx(sign * score(y, *predicted))
        weighted = scorer(model, X_DIABETES, y, sample_weight=weight)
        assert weighted == pytest.approx(sign * score(y, *predicted, sample_weight=weight))


def test_interval_scorer_takes_another_coverage():
    scorer = clone(interval_score_scorer).set_params(coverage=0.5)
    model = BayesianRidge().fit(X_DIABETES, Y_DIABETES)
    mean, std = model.predict(X_DIABETES, return_std=True)
    expected = -interval_score(Y_DIABETES, mean, std, coverage=0.5)
    assert scorer(model, X_DIABETES, Y_DIABETES) == pytest.approx(expected)
    assert interval_score_scorer.coverage == 0.9


def test_three_scorers_over_three_kinds_of_model_in_one_loop():
    models = [
        regressor(max_iter=20),
        GaussianProcessRegressor(WhiteKernel(), normalize_y=True),
        BayesianRidge(),
    ]
    scoring = {name: SCORERS[name] for name in ("log_likelihood", "crps", "calibration")}
    found = {}
    for model in models:
        scores = cross_validate(
            make_pipeline(StandardScaler(), model), X_DIABETES, Y_DIABETES, cv=3, scoring=scoring,
            return_train_score=True,
        )  # fmt: skip
        for part in ("train", "test"):
            for name in scoring:
                assert np.isfinite(scores[f"{part}_{name}"]).all()
        found[type(model).__name__] = scores["test_log_likelihood"].mean()
    # White noise alone learns nothing of y but its spread: both others must beat it.
    assert found["TAGIRegressor"] > found["GaussianProcessRegressor"] + 0.1
    assert found["BayesianRidge"] > found["GaussianProcessRegressor"] + 0.1


def test_several_metrics_in_grid_search_and_one_in_learning_curve():
    search = GridSearchCV(
        regressor(), {"sigma_v": [0.01, 0.7]}, scoring=SCORERS, refit="crps", cv=3
    ).fit(X_DIABETES, Y_DIABETES)
    assert search.best_params_ == {"sigma_v": 0.7}
    for name in SCORERS:
        low, good = search.cv_results_[f"mean_test_{name}"]
        assert good > low
    _, train, test = learning_curve(
        regressor(), X_DIABETES, Y_DIABETES, scoring=crps_scorer, cv=3, train_sizes=[30, 200]
    )
    assert train.shape == test.shape == (2, 3)
    assert test[1].mean() > test[0].mean()


def test_log_likelihood_of_a_std_whose_square_is_zero():
    assert gaussian_log_likelihood([0.0], [0.0], [1e-200]) == pytest.approx(
        200 * np.log(10) - 0.5 * np.log(2 * np.pi)
    )


@pytest.mark.parametrize("name", SCORERS)
def test_a_fitted_search_is_scored_as_its_best_estimator(name):
    search = GridSearchCV(regressor(), {"sigma_v": [0.5, 1.0]}, cv=2).fit(X_DIABETES, Y_DIABETES)
    for inputs in ({}, {"X_std": 0.02}, {"X_cov": 4e-4 * np.eye(X_DIABETES.shape[1])}):
        expected = SCORERS[name](search.best_estimator_, X_DIABETES, Y_DIABETES, **inputs)
        assert SCORERS[name](search, X_DIABETES, Y_DIABETES, **inputs) == expected


def test_a_fitted_search_of_classifiers_is_scored_with_uncertain_inputs_too():
    model = TAGIClassifier(max_iter=3, n_members=1, random_state=0)
    search = GridSearchCV(model, {"sigma_v": [0.5]}, cv=2).fit(X_IRIS, Y_IRIS)
    score = log_likelihood_scorer(search, X_IRIS, Y_IRIS, X_std=0.5)
    assert score == search.best_estimator_.log_likelihood(X_IRIS, Y_IRIS, X_std=0.5)
    assert score < log_likelihood_scorer(search, X_IRIS, Y_IRIS)


@pytest.mark.parametrize("name", SCORERS)
def test_weights_are_routed_to_scorers_that_ask_for_them(name):
    weight = np.random.default_rng(0).uniform(size=len(Y_DIABETES))
    half = np.arange(200), np.arange(200, len(Y_DIABETES))
    with config_context(enable_metadata_routing=True):
        asks = clone(SCORERS[name]).set_score_request(sample_weight=True)
        refuses = clone(SCORERS[name]).set_score_request(sample_weight=False)
        scores = cross_validate(
            BayesianRidge().set_fit_request(sample_weight=False), X_DIABETES, Y_DIABETES,
            cv=[half], scoring={"asks": asks, "refuses": refuses},
            params={"sample_weight": weight},
        )  # fmt: skip
    model = BayesianRidge().fit(X_DIABETES[half[0]], Y_DIABETES[half[0]])
    rest = X_DIABETES[half[1]], Y_DIABETES[half[1]]
    by_hand = SCORERS[name](model, *rest, sample_weight=weight[half[1]])
    assert scores["test_asks"] == pytest.approx(by_hand)
    assert scores["test_refuses"] == pytest.approx(SCORERS[name](model, *rest))
    assert scores["test_asks"] != pytest.approx(scores["test_refuses"], rel=1e-6)


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_survive_pickling_and_cloning(name):
    model = BayesianRidge().fit(X_DIABETES, Y_DIABETES)
    expected = SCORERS[name](model, X_DIABETES, Y_DIABETES)
    for copied in (pickle.loads(pickle.dumps(SCORERS[name])), clone(SCORERS[name])):
        assert copied(model, X_DIABETES, Y_DIABETES) == expected


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(),
        make_pipeline(StandardScaler(), LinearRegression()),
        TransformedTargetRegressor(LinearRegression()),
    ],
    ids=["linear", "pipeline", "transformed"],
)
def test_a_model_without_std_is_refused_by_name(name, model):
    """The one inside that predicts is named."""
    model.fit(X_DIABETES, Y_DIABETES)
    with pytest.raises(TypeError, match=r"return_std=True.*LinearRegression"):
        SCORERS[name](model, X_DIABETES, Y_DIABETES)


def test_other_errors_of_predict_are_not_hidden():
    model = BayesianRidge().fit(X_DIABETES, Y_DIABETES)
    with pytest.raises(ValueError, match="features"):
        crps_scorer(model, X_DIABETES[:, :3], Y_DIABETES)


@pytest.mark.parametrize("name", ["crps", "interval_score", "calibration"])
@pytest.mark.parametrize("place", ["alone", "pipeline", "search"])
def test_scores_of_regressors_refuse_classifiers_and_name_the_scorer_that_takes_them(name, place):
    model = TAGIClassifier(max_iter=1, n_members=1)
    if place == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    if place == "search":
        model = GridSearchCV(model, {"max_iter": [1]}, cv=2)
    model.fit(X_IRIS, Y_IRIS)
    message = (
        r"return_std=True.*TAGIClassifier is a classifier.*predict_proba.*log_likelihood_scorer"
    )
    with pytest.raises(TypeError, match=message):
        SCORERS[name](model, X_IRIS, Y_IRIS)


@pytest.mark.parametrize("name", SCORERS)
def test_searches_without_a_fitted_estimator_are_refused_with_the_reason(name):
    search = GridSearchCV(BayesianRidge(), {"tol": [1e-3]}, cv=2)
    with pytest.raises(NotFittedError, match="GridSearchCV instance is not fitted"):
        SCORERS[name](search, X_DIABETES, Y_DIABETES)
    search.set_params(refit=False).fit(X_DIABETES, Y_DIABETES)
    with pytest.raises(ValueError, match=r"GridSearchCV has refit=False.*needs refit=True"):
        SCORERS[name](search, X_DIABETES, Y_DIABETES)


def test_estimators_with_a_parameter_refit_need_not_be_searches():
    model = TunedThresholdClassifierCV(LogisticRegression(), cv=2).fit(X_IRIS, Y_IRIS == 1)
    assert log_likelihood_scorer(model, X_IRIS, Y_IRIS == 1) == pytest.approx(
        -log_loss(Y_IRIS == 1, model.predict_proba(X_IRIS))
    )


@pytest.mark.parametrize("name", SCORERS)
def test_errors_and_reprs_name_public_classes(name):
    scorer = SCORERS[name]
    public = type(scorer).__name__
    assert getattr(metrics, public) is type(scorer)
    assert public in metrics.__all__
    assert repr(scorer) == f"{public}()"
    search = GridSearchCV(BayesianRidge(), {"tol": [1e-3]}, scoring=scorer, cv=2)
    with config_context(enable_metadata_routing=True):
        search.estimator.set_fit_request(sample_weight=False)
        with pytest.raises(UnsetMetadataPassedError, match=f" {public}.score"):
            search.fit(X_DIABETES, Y_DIABETES, sample_weight=np.ones(len(Y_DIABETES)))


# Log-likelihood of classifiers


def test_classifiers_without_log_probabilities_are_scored_by_their_probabilities():
    model = CalibratedClassifierCV(KNeighborsClassifier(), cv=3).fit(X_IRIS, Y_IRIS)
    assert not hasattr(model, "predict_log_proba")
    weight = np.linspace(1, 2, len(Y_IRIS))
    expected = -log_loss(Y_IRIS, model.predict_proba(X_IRIS), sample_weight=weight)
    score = log_likelihood_scorer(model, X_IRIS, Y_IRIS, sample_weight=weight)
    assert score == pytest.approx(expected)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(random_state=0), KNeighborsClassifier(1)])
def test_impossible_classes_cost_what_log_loss_charges_and_not_infinity(model):
    model.fit(X_IRIS[::3], Y_IRIS[::3])
    proba = model.predict_proba(X_IRIS)
    assert (proba[np.arange(150), Y_IRIS] == 0).any()
    score = log_likelihood_scorer(model, X_IRIS, Y_IRIS)
    assert score == pytest.approx(-log_loss(Y_IRIS, proba), rel=1e-6)


def test_very_small_probabilities_of_the_network_are_not_cut():
    X, y = np.repeat([[-1.0], [1.0]], 50, axis=0), np.repeat([0, 1], 50)
    model = TAGIClassifier(
        (), sigma_v=0.05, probit_scale=0.01, half_life=None, early_stopping=False, random_state=0
    ).fit(X, y)
    score = log_likelihood_scorer(model, X[-1:], [0])
    assert score == model.log_likelihood(X[-1:], [0])
    assert -np.inf < score < np.log(np.finfo(float).eps)


def test_a_classifier_without_probabilities_is_refused_by_name():
    model = LinearSVC().fit(X_IRIS, Y_IRIS)
    for other in (model, make_pipeline(StandardScaler(), LinearSVC()).fit(X_IRIS, Y_IRIS)):
        with pytest.raises(TypeError, match=r"predict_proba.*LinearSVC"):
            log_likelihood_scorer(other, X_IRIS, Y_IRIS)
