"""The shape of errors: a mixture with mean 0 and variance 1, close to what it is fitted to."""

import numpy as np
import pytest
from scipy import integrate, stats

from sktagi.engine.shape import (
    OUTLIER,
    Shape,
    error_histogram,
    fit_shape,
    gaussian_shape,
)

KINDS = {
    "gaussian": stats.norm(),
    "student3": stats.t(3),
    "student5": stats.t(5),
    "laplace": stats.laplace(),
    "skewed": stats.skewnorm(5),
    "gamma": stats.gamma(2),
    "log-normal": stats.lognorm(0.5),
    "uniform": stats.uniform(),
}
Q = np.array([1e-320, 1e-100, 1e-12, 1e-3, 0.1, 0.25, 0.5, 0.6, 0.9, 0.999, 1 - 1e-12])


def draw(kind, n, seed):
    """Errors of mean 0 and variance 1."""
    rng = np.random.RandomState(seed)
    if kind == "bimodal":
        return rng.choice([-0.9, 0.9], n) + np.sqrt(0.19) * rng.standard_normal(n)
    law = KINDS[kind]
    return (law.rvs(size=n, random_state=rng) - law.mean()) / law.std()


def fitted(*kinds, n=2000, seed=0):
    z = np.stack([draw(kind, n, seed) for kind in kinds])
    return fit_shape(error_histogram(z, np.ones(n)), np.full(len(kinds), float(n)))


def one(shape, target):
    return Shape(*(field[target : target + 1] for field in shape))


SHAPES = {
    "gaussian": gaussian_shape(3),
    "fitted": fitted("gamma", "student3", "bimodal"),
    "of zero weights": Shape(*np.array([[[0, 1, 0]], [[5, 0, -5]], [[1, 1, 1]]], dtype=float)),
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


# A distribution


@each_shape
def test_the_density_integrates_to_one_with_mean_0_and_variance_1(shape):
    for target in range(shape.n_outputs):
        law = one(shape, target)
        for power, expected in enumerate([1, 0, 1]):
            found = integrate.quad(
                lambda z, power=power, law=law: z**power * law.pdf(np.array([[z]]))[0, 0],
                -60, 60, points=np.arange(-6, 7), limit=500,
            )[0]  # fmt: skip
            assert found == pytest.approx(expected, abs=1e-7)


@each_shape
def test_the_distribution_function_is_the_integral_of_the_density(shape):
    grid = np.linspace(-9, 9, 4001)
    z = np.tile(grid, (shape.n_outputs, 1))
    integral = integrate.cumulative_trapezoid(shape.pdf(z), grid, axis=1, initial=0)
    below = shape.cdf(z[:, :1])
    np.testing.assert_allclose(shape.cdf(z), integral + below, atol=1e-5)
    np.testing.assert_allclose(shape.sf(z), 1 - shape.cdf(z), atol=1e-14)


@each_shape
def test_quantiles_invert_the_distribution_function_and_increase(shape):
    q = np.tile(Q, (shape.n_outputs, 1))
    z = shape.ppf(q)
    assert np.isfinite(z).all()
    assert (np.diff(z) > 0).all()
    low = q < 0.5
    log_share = np.log(np.maximum(shape.cdf(z), 1e-310))
    seen = low & (q > 1e-300)
    np.testing.assert_allclose(log_share[seen], np.log(q[seen]), rtol=1e-9)
    np.testing.assert_allclose(shape.sf(z)[~low], 1 - q[~low], rtol=1e-9)


@each_shape
def test_tails_above_are_as_accurate_as_tails_below(shape):
    q = np.tile([1e-200, 1e-30, 1e-5, 0.3], (shape.n_outputs, 1))
    above = shape.isf(q)
    assert (np.diff(above) < 0).all()
    np.testing.assert_allclose(np.log(shape.sf(above)), np.log(q), rtol=1e-9)


@each_shape
def test_what_is_no_probability_has_no_quantile(shape):
    q = np.tile([0, 1, -0.1, 1.1, np.nan], (shape.n_outputs, 1))
    expected = np.tile([-np.inf, np.inf, np.nan, np.nan, np.nan], (shape.n_outputs, 1))
    np.testing.assert_array_equal(shape.ppf(q), expected)


@each_shape
def test_draws_have_the_distribution(shape):
    for rng in (np.random.RandomState(0), np.random.default_rng(0)):
        draws = shape.rvs(rng, 20_000)
        assert draws.shape == (shape.n_outputs, 20_000)
        for target, values in enumerate(draws):
            law = one(shape, target)
            assert stats.kstest(values, lambda z, law=law: law.cdf(z[None])[0]).pvalue > 1e-3


def test_many_values_are_the_same_as_few():
    shape = SHAPES["fitted"]
    z = np.random.default_rng(0).normal(size=(3, 20_000))
    some = slice(9_990, 10_010)
    np.testing.assert_array_equal(shape.logpdf(z)[:, some], shape.logpdf(z[:, some]))
    q = shape.cdf(z)
    np.testing.assert_allclose(shape.ppf(q)[:, some], z[:, some], rtol=1e-9, atol=1e-9)


def test_unknown_and_infinite_errors():
    shape = SHAPES["fitted"]
    z = np.tile([np.nan, np.inf, -np.inf, 1e200], (3, 1))
    expected = np.tile([np.nan, -np.inf, -np.inf, -np.inf], (3, 1))
    np.testing.assert_array_equal(shape.logpdf(z), expected)
    expected = np.tile([np.nan, 1, 0, 1], (3, 1))
    np.testing.assert_allclose(shape.cdf(z), expected, rtol=1e-14)


# Expectations


@pytest.mark.parametrize("std", [0.01, 0.5, 1.0, 2.0])
def test_nodes_give_the_mean_of_an_exponential_of_a_gaussian(std):
    nodes, weight = gaussian_shape(1).nodes()
    assert (weight * np.exp(std * nodes)).sum() == pytest.approx(np.exp(std**2 / 2), rel=1e-8)


@pytest.mark.parametrize("kinds", [("gamma",), ("uniform", "bimodal"), ("skewed", "student5")])
def test_nodes_give_expectations(kinds):
    shape = fitted(*kinds)
    nodes, weight = shape.nodes()
    assert nodes.shape == weight.shape == (len(kinds), nodes.shape[1])
    np.testing.assert_allclose(weight.sum(axis=1), 1)
    for target in range(len(kinds)):
        law, end = one(shape, target), shape.farthest
        expected = integrate.quad(
            lambda z, law=law: np.exp(0.3 * z) * law.pdf(np.array([[z]]))[0, 0], -end, end,
            points=np.arange(-6, 7), limit=500,
        )[0]  # fmt: skip
        expected += np.exp(0.3 * end) * law.sf(np.array([[end]]))[0, 0]
        expected += np.exp(-0.3 * end) * law.cdf(np.array([[-end]]))[0, 0]
        found = (weight * np.exp(0.3 * nodes)).sum(axis=1)[target]
        assert found == pytest.approx(expected, rel=1e-5)


# Estimates


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_gaussian_errors_lose_little(n):
    fresh = draw("gaussian", 20_000, 99)
    gains = []
    for seed in range(12):
        shape = fitted("gaussian", n=n, seed=seed)
        gains.append(shape.logpdf(fresh[None]).mean() - stats.norm.logpdf(fresh).mean())
    assert np.mean(gains) > -0.006
    assert min(gains) > -0.02


@pytest.mark.parametrize(
    ("kind", "gain"),
    [("student3", 0.12), ("student5", 0.02), ("laplace", 0.05), ("skewed", 0.05), ("gamma", 0.11),
     ("log-normal", 0.12), ("uniform", 0.06), ("bimodal", 0.13)],
)  # fmt: skip
def test_other_errors_are_more_likely_than_under_a_gaussian(kind, gain):
    fresh = draw(kind, 20_000, 99)
    gains = []
    for n in (30, 300, 3000):
        shapes = [fitted(kind, n=n, seed=seed) for seed in range(6)]
        scores = [shape.logpdf(fresh[None]).mean() for shape in shapes]
        gains.append(np.mean(scores) - stats.norm.logpdf(fresh).mean())
    assert gains[0] > -0.005  # as Gaussian errors may lose
    assert gains[1] > 0.6 * gain
    assert gains[2] > gain
    assert gains == sorted(gains)


def test_shapes_lean_and_have_tails_as_the_errors():
    right, left, heavy, light = (
        fitted(kind) for kind in ("gamma", "gaussian", "student3", "uniform")
    )
    median = right.ppf(np.array([[0.5]]))[0, 0]
    assert median < -0.15
    assert abs(left.ppf(np.array([[0.5]]))[0, 0]) < 0.05
    q = np.array([[0.0005]])
    assert heavy.ppf(q)[0, 0] < -4.5
    assert light.ppf(q)[0, 0] > -2.8


def test_each_target_has_its_own_shape():
    both, alone = fitted("gamma", "uniform"), fitted("uniform")
    for field, expected in zip(one(both, 1), alone, strict=True):
        np.testing.assert_allclose(field, expected, rtol=1e-12)


def test_a_bias_and_a_scale_of_the_errors_do_not_count():
    z = draw("gamma", 4000, 0)[None]
    weight, n_rows = np.ones(4000), np.array([4000.0])
    plain = fit_shape(error_histogram(z, weight), n_rows)
    moved = fit_shape(error_histogram(0.3 + 0.7 * z, weight), n_rows)
    at = np.linspace(-3, 3, 50)[None]
    np.testing.assert_allclose(moved.pdf(at), plain.pdf(at), atol=0.01)


@pytest.mark.parametrize("n_rows", [0.0, 1e-3, 1.0])
def test_few_rows_make_a_gaussian(n_rows):
    counts = error_histogram(draw("gamma", 50, 0)[None], np.ones(50))
    shape = fit_shape(counts, np.array([n_rows]))
    at = np.linspace(-3.5, 3.5, 80)[None]
    np.testing.assert_allclose(shape.pdf(at), stats.norm.pdf(at), atol=0.005 + 0.02 * n_rows)


def test_the_shape_changes_continuously_with_the_rows_it_is_worth():
    counts = error_histogram(draw("gamma", 500, 0)[None], np.ones(500))
    at = np.linspace(-3, 3, 50)[None]
    densities = [fit_shape(counts, np.array([n])).pdf(at) for n in np.linspace(0, 500, 51)]
    steps = np.abs(np.diff(densities, axis=0)).max(axis=(1, 2))
    assert steps.max() < 0.1
    assert steps[-1] < steps[0]


@pytest.mark.parametrize("counts", [np.zeros((1, 400)), np.eye(1, 400, 200)])
def test_no_errors_and_a_single_error_make_a_gaussian(counts):
    shape = fit_shape(counts, np.array([100.0]))
    at = np.linspace(-3, 3, 50)[None]
    np.testing.assert_allclose(shape.pdf(at), stats.norm.pdf(at), atol=0.002)


def test_histograms_add_up_and_leave_out_unknown_errors_and_outliers():
    rng = np.random.default_rng(0)
    z, weight = rng.standard_t(2, size=(2, 300)), rng.uniform(size=300)
    z[0, ::3] = np.nan
    whole = error_histogram(z, weight)
    parts = [error_histogram(z[:, k::2], weight[k::2]) for k in range(2)]
    np.testing.assert_allclose(sum(parts), whole)
    with np.errstate(invalid="ignore"):
        counted = np.abs(z) < OUTLIER
    np.testing.assert_allclose(whole.sum(axis=1), counted @ weight)


def test_gross_outliers_do_not_change_the_shape():
    z = draw("gaussian", 1000, 0)[None]
    spoiled = np.append(z, np.full((1, 5), 100.0), axis=1)
    n_rows = np.array([1000.0])
    clean = fit_shape(error_histogram(z, np.ones(1000)), n_rows)
    found = fit_shape(error_histogram(spoiled, np.ones(1005)), n_rows)
    for field, expected in zip(found, clean, strict=True):
        np.testing.assert_array_equal(field, expected)
