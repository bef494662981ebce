"""Scores of distributions, quantiles and ends of intervals, against SciPy and quadrature."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.linear_model import BayesianRidge
from sklearn.metrics import mean_pinball_loss

from sktagi.metrics import (
    _scorers,
    calibration_error,
    calibration_scorer,
    crps,
    crps_scorer,
    gaussian_crps,
    gaussian_log_likelihood,
    interval_coverage,
    interval_score,
    interval_score_scorer,
    log_likelihood_scorer,
    log_score,
    pinball_loss,
    probability_integral_transform,
)

SCORES = [log_score, crps, interval_coverage, interval_score, calibration_error]
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


class Mixture:
    """Two Gaussians for each row, with nothing but the methods that are needed."""

    def __init__(self, centres, weights, scales):
        self.parts = [stats.norm(c, s) for c, s in zip(centres, scales, strict=True)]
        self.weights = weights

    def _mix(self, method, y):
        return sum(w * getattr(p, method)(y) for w, p in zip(self.weights, self.parts, strict=True))

    def mean(self):
        return sum(w * p.mean() for w, p in zip(self.weights, self.parts, strict=True))

    def std(self):
        square = sum(
            w * (p.mean() ** 2 + p.var()) for w, p in zip(self.weights, self.parts, strict=True)
        )
        return np.sqrt(square - self.mean() ** 2)

    def logpdf(self, y):
        return np.log(self._mix("pdf", y))

    def cdf(self, y):
        return self._mix("cdf", y)

    def ppf(self, q):
        low, high = (
            f([p.ppf(q) for p in self.parts], axis=0)
            for f in (np.minimum.reduce, np.maximum.reduce)
        )
        for _ in range(80):
            middle = (low + high) / 2
            above = self.cdf(middle) > q
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return (low + high) / 2

    def interval(self, confidence):
        return self.ppf((1 - confidence) / 2), self.ppf((1 + confidence) / 2)


KINDS = {
    "t": lambda n: stats.t(4, loc=np.linspace(-3, 3, n), scale=np.linspace(0.5, 2, n)),
    "gamma": lambda n: stats.gamma(np.linspace(0.7, 9, n), scale=1.5),
    "lognormal": lambda n: stats.lognorm(0.8, scale=np.linspace(1, 4, n)),
    "uniform": lambda n: stats.uniform(np.linspace(-1, 1, n), 2),
    "mixture": lambda n: Mixture(
        [np.linspace(-2, 0, n), np.full(n, 2.0)], [0.7, 0.3], [np.full(n, 0.5), np.full(n, 1.0)]
    ),
}


def draws(dist, seed=0):
    """One target for each row, from the quantiles of random numbers."""
    return dist.ppf(np.random.default_rng(seed).uniform(size=dist.mean().shape))


def crps_by_quadrature(y, cdf, low, high, points):
    """The integral of the squared difference of distribution functions, piece by piece."""
    edges = np.unique(np.clip([low, y, *points, high], min(low, y), max(high, y)))
    squared = [
        quad(lambda t: (cdf(t) - (t > y)) ** 2, a, b, epsabs=1e-12, limit=200)[0]
        for a, b in pairwise(edges)
    ]
    return sum(squared)


# Distributions


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [1e-4, 0.02, 0.4, 0.9, 0.9999])
def test_crps_is_the_integral_of_the_squared_difference(kind, level):
    dist = KINDS[kind](1)
    y = dist.ppf(level)
    fine = [dist.ppf(q)[0] for q in (1e-7, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1 - 1e-4)]
    low, high = dist.ppf(1e-10)[0], dist.ppf(1 - 1e-10)[0]
    expected = crps_by_quadrature(y[0], lambda t: dist.cdf(t)[0], low, high, fine)
    assert crps(y, dist) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("far", [0, 1, 5, 200])
def test_crps_without_a_closed_form_agrees_with_that_of_a_gaussian(far):
    rng = np.random.default_rng(0)
    mean, std = rng.normal(scale=3, size=100), rng.uniform(0.2, 4, size=100)
    y = mean + std * (rng.normal(size=100) + far)
    alike = Mixture([mean, mean], [0.5, 0.5], [std, std])
    assert crps(y, alike) == pytest.approx(gaussian_crps(y, mean, std), rel=1e-6)


def test_crps_of_heavy_tails_and_of_a_pole():
    """Closed form of the t distribution (Jordan, Krüger, Lerch 2019); samples for the gamma."""
    from scipy.special import beta

    for df in (1.5, 2.0, 3.0, 30.0):
        y = np.array([0.0, 0.3, -2.0, 8.0])
        dist = stats.t(df, np.zeros(4))
        inner = 2 * np.sqrt(df) / (df - 1) * beta(0.5, df - 0.5) / beta(0.5, df / 2) ** 2
        pdf, cdf = stats.t.pdf(y, df), stats.t.cdf(y, df)
        exact = y * (2 * cdf - 1) + 2 * pdf * (df + y**2) / (df - 1) - inner
        assert crps(y, dist) == pytest.approx(exact.mean(), rel=1e-4)
    pole = stats.gamma(0.3, scale=np.ones(2))
    y = np.array([0.01, 3.0])
    sample = stats.gamma(0.3).ppf((np.arange(200000) + 0.5) / 200000)
    spread = (sample * (2 * np.arange(1, 200001) - 200001)).sum() / 200000**2
    exact = np.mean([np.abs(sample - target).mean() for target in y]) - spread
    assert crps(y, pole) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_distributions_are_what_their_names_say(kind):
    dist = KINDS[kind](300)
    y = draws(dist)
    cdf = dist.cdf(y)
    low, high = dist.ppf(0.1), dist.ppf(0.9)
    assert log_score(y, dist) == pytest.approx(dist.logpdf(y).mean())
    inside = np.mean((cdf >= 0.1) & (cdf <= 0.9))
    assert interval_coverage(y, dist, coverage=0.8) == pytest.approx(inside)
    assert inside == pytest.approx(0.8, abs=0.08)
    losses = mean_pinball_loss(y, low, alpha=0.1) + mean_pinball_loss(y, high, alpha=0.9)
    assert interval_score(y, dist, coverage=0.8) == pytest.approx(2 / 0.2 * losses)
    np.testing.assert_allclose(probability_integral_transform(y, dist), cdf)
    assert stats.kstest(probability_integral_transform(y, dist), "uniform").pvalue > 0.01
    assert calibration_error(y, dist) < 0.05
    loss = np.mean([mean_pinball_loss(y, dist.ppf(q), alpha=q) for q in LEVELS])
    assert pinball_loss(y, dist, quantiles=LEVELS) == pytest.approx(loss)


@pytest.mark.parametrize("score", SCORES)
def test_a_frozen_gaussian_scores_as_its_mean_and_std(score):
    rng = np.random.default_rng(0)
    mean, std = rng.normal(scale=3, size=(80, 2)), rng.uniform(0.2, 4, size=(80, 2))
    y = mean + std * rng.normal(size=(80, 2))
    old = {log_score: gaussian_log_likelihood, crps: gaussian_crps}.get(score, score)
    assert score(y, stats.norm(mean, std)) == pytest.approx(old(y, mean, std))
    assert score(y, dist=stats.norm(mean, std)) == pytest.approx(old(y, mean, std))
    np.testing.assert_allclose(
        probability_integral_transform(y, stats.norm(mean, std)),
        probability_integral_transform(y, mean, std),
    )


@pytest.mark.parametrize("score", SCORES)
def test_a_distribution_without_rows_is_that_of_every_row(score):
    y = np.random.default_rng(0).gamma(2, size=50)
    alone, repeated = stats.gamma(2), stats.gamma(np.full(50, 2))
    assert score(y, alone) == pytest.approx(score(y, repeated))


@pytest.mark.parametrize("loss", [crps, interval_score, lambda y, d: -log_score(y, d)])
def test_the_distribution_that_drew_the_targets_scores_best(loss):
    truth = stats.gamma(2, scale=np.linspace(1, 3, 2000))
    y = draws(truth)
    best = loss(y, truth)
    others = [
        stats.norm(truth.mean(), truth.std()),
        stats.gamma(2, scale=1.3 * np.linspace(1, 3, 2000)),
        stats.gamma(4, scale=np.linspace(1, 3, 2000) / 2),
    ]
    for other in others:
        assert loss(y, other) > best


# Several targets, weights, targets that were not observed


def two_targets(n=60):
    """A skewed distribution of two targets; a third of the second was not observed."""
    dist = stats.gamma(np.column_stack([np.linspace(1, 4, n), np.linspace(6, 2, n)]))
    y = draws(dist)
    y[::3, 1] = np.nan
    return y, dist, np.random.default_rng(2).uniform(size=n)


@pytest.mark.parametrize("score", [crps, interval_coverage, interval_score, calibration_error])
def test_each_target_is_scored_by_its_observed_rows(score):
    y, dist, weight = two_targets()
    seen = ~np.isnan(y[:, 1])
    shape = dist.args[0]
    first = score(y[:, 0], stats.gamma(shape[:, 0]), sample_weight=weight)
    second = score(y[seen, 1], stats.gamma(shape[seen, 1]), sample_weight=weight[seen])
    together = score(y, dist, sample_weight=weight)
    assert together == pytest.approx((first + second) / 2)


def test_the_log_score_of_a_row_is_the_sum_over_its_observed_targets():
    y, dist, weight = two_targets()
    expected = np.average(np.nansum(dist.logpdf(y), axis=1), weights=weight)
    assert log_score(y, dist, sample_weight=weight) == pytest.approx(expected)
    pit = probability_integral_transform(y, dist)
    np.testing.assert_array_equal(np.isnan(pit), np.isnan(y))


@pytest.mark.parametrize("score", SCORES)
def test_weight_two_equals_row_twice(score):
    y, dist, _ = two_targets()
    copies = np.random.default_rng(1).integers(0, 3, size=len(y))
    repeated = stats.gamma(np.repeat(dist.args[0], copies, axis=0))
    expected = score(np.repeat(y, copies, axis=0), repeated)
    assert score(y, dist, sample_weight=copies) == pytest.approx(expected)
    with pytest.raises(ValueError, match="sample_weight"):
        score(y, dist, sample_weight=np.ones(3))


@pytest.mark.parametrize("score", [*SCORES, probability_integral_transform])
def test_scores_of_distributions_warn_of_nothing(score):
    y, dist, _ = two_targets()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(y, dist)


def test_frames_and_columns_are_accepted_beside_distributions():
    pd = pytest.importorskip("pandas")
    y = np.array([0.5, 1.0, 4.0])
    dist = stats.gamma([1.0, 2.0, 3.0])
    expected = crps(y, dist)
    assert crps(y.tolist(), dist) == crps(pd.Series(y), dist) == expected
    assert crps(pd.DataFrame({"y": y}), dist) == crps(y[:, None], dist) == expected


# What cannot be scored


@pytest.mark.parametrize("score", [*SCORES, probability_integral_transform])
def test_distributions_that_do_not_fit_are_refused(score):
    y = np.array([0.5, 1.0, 4.0])
    with pytest.raises(ValueError, match=r"same shape; got \(3,\) and \(4,\)"):
        score(y, stats.gamma(np.ones(4)))
    with pytest.raises(ValueError, match=r"same shape; got \(3,\) and \(3, 2\)"):
        score(y, stats.gamma(np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"gives nan for row 1.*valid"):
        score(y, stats.gamma([1.0, -1.0, 1.0]))
    with pytest.raises(ValueError, match="y_true contains NaN"):
        score([0.5, np.nan, 4.0], stats.gamma(np.ones(3)))


@pytest.mark.parametrize("score", [log_score, crps])
def test_what_is_no_distribution_is_refused(score):
    with pytest.raises(ValueError, match=r"dist must be a distribution.*norm\(mean, std\)"):
        score([0.0, 1.0], [0.0, 1.0])


@pytest.mark.parametrize("score", [interval_coverage, calibration_error])
def test_incomplete_and_double_predictions_are_refused(score):
    y, dist = [0.0, 1.0], stats.norm([0.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="mean and std, or a distribution"):
        score(y, [0.0, 1.0])
    with pytest.raises(ValueError, match="not both"):
        score(y, [0.0, 1.0], [1.0, 1.0], dist=dist)
    with pytest.raises(ValueError, match="not both"):
        score(y, dist, [1.0, 1.0])
    with pytest.raises(ValueError, match="dist must be a distribution"):
        score(y, dist=[1.0, 1.0])


# Quantiles


@pytest.mark.parametrize("targets", [None, 2])
def test_pinball_loss_is_that_of_scikit_learn(targets):
    rng = np.random.default_rng(0)
    shape = (40,) if targets is None else (40, targets)
    y, predicted = rng.normal(size=shape), np.sort(rng.normal(size=(*shape, 5)), axis=-1)
    weight = rng.uniform(size=40)
    expected = np.mean(
        [
            mean_pinball_loss(y, predicted[..., k], alpha=q, sample_weight=weight)
            for k, q in enumerate(LEVELS)
        ]
    )
    assert pinball_loss(y, predicted, LEVELS, sample_weight=weight) == pytest.approx(expected)
    assert crps(y, predicted, quantiles=LEVELS, sample_weight=weight) == pytest.approx(2 * expected)


def test_one_quantile_needs_no_axis_of_its_own():
    y, median = np.array([1.0, 2.0, 5.0]), np.array([1.5, 2.0, 3.0])
    assert pinball_loss(y, median, 0.5) == pytest.approx(np.abs(y - median).mean() / 2)
    assert pinball_loss(y, median[:, None], [0.5]) == pinball_loss(y, median, 0.5)


def test_pinball_loss_of_targets_that_were_not_observed():
    y, dist, weight = two_targets()
    predicted = np.moveaxis(dist.ppf(LEVELS[:, None, None]), 0, -1)
    seen = ~np.isnan(y[:, 1])
    each = [
        pinball_loss(y[:, 0], predicted[:, 0], LEVELS, sample_weight=weight),
        pinball_loss(y[seen, 1], predicted[seen, 1], LEVELS, sample_weight=weight[seen]),
    ]
    whole = pinball_loss(y, predicted, LEVELS, sample_weight=weight)
    assert whole == pytest.approx(np.mean(each))
    assert pinball_loss(y, dist, LEVELS, sample_weight=weight) == pytest.approx(whole)


def test_many_quantiles_score_as_their_distribution():
    dist = KINDS["gamma"](200)
    y = draws(dist)
    levels = (np.arange(1000) + 0.5) / 1000
    predicted = dist.ppf(levels[:, None]).T
    assert crps(y, predicted, quantiles=levels) == pytest.approx(crps(y, dist), rel=1e-3)
    pit = probability_integral_transform(y, predicted, quantiles=levels)
    np.testing.assert_allclose(pit, dist.cdf(y), atol=1e-3)
    error = calibration_error(y, predicted, quantiles=levels)
    assert error == pytest.approx(calibration_error(y, dist), abs=1e-3)


def test_pit_of_quantiles_is_interpolated_and_halves_what_is_beyond():
    predicted = np.tile([0.0, 1.0, 3.0], (7, 1))
    y = [-5.0, 0.0, 0.5, 1.0, 2.5, 3.0, 9.0]
    pit = probability_integral_transform(y, predicted, quantiles=[0.1, 0.5, 0.8])
    np.testing.assert_allclose(pit, [0.05, 0.1, 0.3, 0.5, 0.725, 0.8, 0.9])
    crossed = probability_integral_transform(y, predicted[:, [1, 0, 2]], quantiles=[0.5, 0.1, 0.8])
    np.testing.assert_allclose(crossed, pit)
    alone = probability_integral_transform([0.0, 1.0, 2.0], [[1.0]] * 3, quantiles=[0.4])
    np.testing.assert_allclose(alone, [0.2, 0.4, 0.7])
    several = np.stack([predicted, predicted + 1], axis=1)
    y = np.column_stack([y, y])
    y[0, 1] = np.nan
    pit = probability_integral_transform(y, several, quantiles=[0.1, 0.5, 0.8])
    assert pit.shape == (7, 2)
    assert np.isnan(pit[0, 1])


@pytest.mark.parametrize(
    "score",
    [
        pinball_loss,
        lambda y, p, q: crps(y, p, quantiles=q),
        lambda y, p, q: calibration_error(y, p, quantiles=q),
        lambda y, p, q: probability_integral_transform(y, p, quantiles=q),
    ],
)
def test_quantiles_that_do_not_fit_are_refused(score):
    y, predicted = np.zeros(4), np.zeros((4, 3))
    with pytest.raises(ValueError, match=r"shape \(4, 3\).*and 2 quantiles"):
        score(y, predicted, [0.1, 0.9])
    with pytest.raises(ValueError, match=r"must be .*n_targets, n_quantiles"):
        score(np.zeros((4, 2)), predicted, [0.1, 0.5, 0.9])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        score(y[:3], predicted, [0.1, 0.5, 0.9])
    with pytest.raises(ValueError, match="quantiles must lie between 0 and 1"):
        score(y, predicted, [0.0, 0.5, 0.9])
    with pytest.raises(ValueError, match="contains NaN"):
        score(y, predicted * np.nan, [0.1, 0.5, 0.9])


def test_quantiles_of_a_distribution_are_not_needed():
    y, dist = np.zeros(4), stats.norm(np.zeros(4), 1)
    with pytest.raises(ValueError, match="not a distribution"):
        crps(y, dist, quantiles=[0.1, 0.9])
    with pytest.raises(ValueError, match="without std or a distribution"):
        calibration_error(y, dist, quantiles=[0.1, 0.9])
    with pytest.raises(ValueError, match="without std or a distribution"):
        probability_integral_transform(y, np.zeros((4, 2)), np.ones(4), quantiles=[0.1, 0.9])


# Ends of intervals


def test_ends_of_intervals_are_scored_as_they_are():
    dist = KINDS["lognormal"](100)
    y, weight = draws(dist), np.random.default_rng(3).uniform(size=100)
    low, high = dist.interval(0.7)
    ends = {"lower": low, "upper": high, "coverage": 0.7, "sample_weight": weight}
    inside = (low <= y) & (y <= high)
    assert interval_coverage(y, **ends) == pytest.approx(np.average(inside, weights=weight))
    expected = interval_score(y, dist, coverage=0.7, sample_weight=weight)
    assert interval_score(y, **ends) == pytest.approx(expected)


def test_ends_of_intervals_of_targets_that_were_not_observed():
    y, dist, _ = two_targets()
    low, high = dist.interval(0.9)
    assert interval_coverage(y, lower=low, upper=high) == interval_coverage(y, dist)
    assert interval_score(y, lower=low, upper=high) == pytest.approx(interval_score(y, dist))


@pytest.mark.parametrize("score", [interval_coverage, interval_score])
def test_ends_that_do_not_fit_are_refused(score):
    y, low, high = np.zeros(4), np.full(4, -1.0), np.ones(4)
    with pytest.raises(ValueError, match="both ends"):
        score(y, lower=low)
    with pytest.raises(ValueError, match="either lower and upper or"):
        score(y, low, high, lower=low, upper=high)
    with pytest.raises(ValueError, match=r"exceed upper; it does in row 2"):
        score(y, lower=np.array([-1, -1, 5, -1.0]), upper=high)
    with pytest.raises(ValueError, match=r"y_true, lower and upper must have the same shape"):
        score(y, lower=low[:, None] * [1, 1], upper=high)
    with pytest.raises(ValueError, match="lower contains NaN"):
        score(y, lower=low * np.nan, upper=high)


def intervals(n, centre, spread, std, coverage, seed):
    """Targets around ``centre``, and intervals of this coverage."""
    rng = np.random.default_rng(seed)
    mean = centre + spread * rng.normal(size=n)
    half = stats.norm.ppf((1 + coverage) / 2) * std
    return mean + std * rng.normal(size=n), mean - half, mean + half


@pytest.mark.parametrize("score", [interval_coverage, interval_score])
@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("coverage", [0.7, 0.9, 0.99])
@pytest.mark.parametrize(
    ("centre", "spread", "std"),
    [(100, 0, 12), (100, 20, 12), (1e6, 1e5, 1e4), (5, 0.5, 1), (0.2, 0.0, 1), (-20, 30, 12)],
    ids=["one price", "prices", "large", "small", "around zero", "of both signs"],
)
def test_ends_given_by_position_are_refused(score, n, coverage, centre, spread, std):
    for seed in range(3):
        with pytest.raises(ValueError, match=r"lower=.*upper="):
            score(*intervals(n, centre, spread, std, coverage, seed))


def test_ends_of_wrong_intervals_given_by_position_are_refused():
    y, low, high = intervals(200, 100, 20, 12, 0.9, 0)
    middle, half = (low + high) / 2, (high - low) / 2
    for wrong in (
        (middle - 0.3 * half, middle + 0.3 * half),
        (low - 30, high - 30),
        (low + 5, high),
    ):
        with pytest.raises(ValueError, match="lower="):
            interval_coverage(y, *wrong)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_ends_of_a_few_prices_are_refused(n):
    y = 100 + np.linspace(-5, 5, n)
    with pytest.raises(ValueError, match="lower="):
        interval_coverage(y, np.full(n, 80.0), np.full(n, 120.0))


def test_the_ends_of_one_row_are_in_doubt_and_a_warning_says_so():
    with pytest.warns(UserWarning, match=r"lower=.*norm\(mean, std\)"):
        interval_coverage([100.0], [80.0], [120.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert interval_coverage([100.0], stats.norm([80.0], [120.0])) == 1


@pytest.mark.parametrize("n", [1, 2, 5, 10, 100, 1000])
@pytest.mark.parametrize("mean", [-50, -5, -1, 0, 0.5, 0.9, 2])
@pytest.mark.parametrize("factor", [0.1, 0.5, 1, 2, 10], ids=lambda f: f"std times {f}")
def test_means_and_stds_of_calibrated_and_of_other_models_are_not_refused(n, mean, factor):
    """A few rows of two seeds in 50 may look like intervals, but many rows never do."""
    refused = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        mu, std = mean + 0.1 * rng.normal(size=n), rng.uniform(0.8, 1.2, size=n)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                interval_coverage(mu + std * rng.normal(size=n), mu, factor * std)
        except ValueError:
            refused += 1
    assert refused <= (2 if n < 50 else 0)


@pytest.mark.parametrize("bias", [-3, -1, -0.3, 0.3, 1, 3])
def test_biased_means_are_not_taken_for_ends(bias):
    rng = np.random.default_rng(0)
    for mean in (-20.0, -5.0, 0.0, 1.0, 7.0):
        if (mean, bias) == (-5, 3):
            continue  # exactly the intervals from -5 to 1 of targets around -2
        mu, std = np.full(300, mean), np.ones(300)
        share = interval_coverage(mu + bias + rng.normal(size=300), mu, std)
        assert share == pytest.approx(
            np.diff(stats.norm.cdf([-1.645 - bias, 1.645 - bias]))[0], abs=0.08
        )


def test_a_std_that_is_none_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"std must be positive.*lower=, upper="):
        interval_coverage([-5.0, -4.0], [-7.0, -6.0], [-3.0, -2.0])


# Scorers


class Linear(BayesianRidge):
    """A model whose distribution is given by the test."""


@pytest.mark.parametrize("weighted", [False, True])
def test_scorers_score_the_distribution_of_the_estimator(monkeypatch, weighted):
    X = np.linspace(1, 3, 200)[:, None]
    dist = stats.gamma(2, scale=X[:, 0])
    y = draws(dist)
    weight = np.linspace(0, 1, 200) if weighted else None
    model = Linear().fit(X, y)
    given = {}

    def predicted(estimator, rows, **inputs):
        given.update(inputs)
        assert estimator is model
        assert rows is X
        return dist

    monkeypatch.setattr(_scorers, "predict_dist", predicted)
    found = {
        scorer: scorer(model, X, y, sample_weight=weight, X_std=0.1)
        for scorer in (
            log_likelihood_scorer,
            crps_scorer,
            interval_score_scorer,
            calibration_scorer,
        )
    }
    assert given == {"X_std": 0.1}
    assert found == {
        log_likelihood_scorer: log_score(y, dist, sample_weight=weight),
        crps_scorer: -crps(y, dist, sample_weight=weight),
        interval_score_scorer: -interval_score(y, dist, sample_weight=weight),
        calibration_scorer: -calibration_error(y, dist, sample_weight=weight),
    }
