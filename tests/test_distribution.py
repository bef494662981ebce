"""PredictiveDistribution: one distribution, whichever of its methods is asked."""

import pickle

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, QuantileTransformer

from sktagi import PredictiveDistribution
from sktagi.engine.shape import error_histogram, fit_shape, gaussian_shape

RNG = np.random.default_rng(0)
N_DRAWS = 200_000


def shape_of(*draws):
    z = np.stack([(d - d.mean()) / d.std() for d in draws])
    return fit_shape(error_histogram(z, np.ones(z.shape[1])), np.full(len(z), float(z.shape[1])))


SKEWED, HEAVY = RNG.gamma(2, size=3000), RNG.standard_t(4, size=3000)
SHAPES = {
    "gaussian": (None, None),
    "skewed": (shape_of(SKEWED), shape_of(SKEWED, -SKEWED)),
    "heavy": (shape_of(HEAVY), shape_of(HEAVY, SKEWED)),
}
TRAINING = RNG.lognormal(1, 0.5, size=(500, 2))


def fitted(transformer, n_targets):
    return transformer.fit(TRAINING[:, :n_targets])


TRANSFORMS = {
    "none": lambda n: None,
    "log": lambda n: "log",
    "log1p": lambda n: FunctionTransformer(np.log1p, np.expm1),
    "square root": lambda n: FunctionTransformer(np.sqrt, np.square),
    "cube root": lambda n: FunctionTransformer(np.cbrt, lambda g: g**3),
}
shapes = pytest.mark.parametrize("shape", SHAPES)
transforms = pytest.mark.parametrize("transform", TRANSFORMS)
targets = pytest.mark.parametrize("n_targets", [None, 2])


def make(shape="gaussian", transform="none", n_targets=None, std=0.3, n=3):
    size = (n,) if n_targets is None else (n, n_targets)
    mean = np.linspace(1.0, 2.0, int(np.prod(size))).reshape(size)
    scale = std * np.linspace(0.8, 1.2, mean.size)[::-1].reshape(size)
    errors = SHAPES[shape][0 if n_targets is None else 1]
    return PredictiveDistribution(mean, scale, errors, TRANSFORMS[transform](n_targets or 1))


# One distribution


@shapes
@transforms
@targets
def test_draws_agree_with_moments_probabilities_and_intervals(shape, transform, n_targets):
    dist = make(shape, transform, n_targets)
    draws = dist.rvs(N_DRAWS, random_state=0)
    assert draws.shape == (N_DRAWS, *dist.shape)
    error = dist.std() / np.sqrt(N_DRAWS)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - dist.mean()), 5 * error)
    np.testing.assert_allclose(draws.std(axis=0), dist.std(), rtol=0.03)
    np.testing.assert_allclose(dist.var(), dist.std() ** 2)
    at = dist.mean() + 0.5 * dist.std()
    np.testing.assert_allclose((draws <= at).mean(axis=0), dist.cdf(at), atol=0.006)
    np.testing.assert_allclose(dist.sf(at), 1 - dist.cdf(at), atol=1e-12)
    low, high = dist.interval(0.8)
    np.testing.assert_allclose((draws < low).mean(axis=0), 0.1, atol=0.005)
    np.testing.assert_allclose((draws > high).mean(axis=0), 0.1, atol=0.005)
    np.testing.assert_allclose((draws <= dist.median()).mean(axis=0), 0.5, atol=0.006)


@shapes
@transforms
@targets
def test_quantiles_invert_probabilities(shape, transform, n_targets):
    dist = make(shape, transform, n_targets)
    rare = 0.02 if transform == "square root" else 0.001  # below, there is nothing but zero
    q = np.array([rare, 0.05, 0.5, 0.9, 0.999]).reshape(-1, *(1,) * dist.ndim)
    y = dist.ppf(q)
    assert y.shape == (5, *dist.shape)
    assert (np.diff(y, axis=0) > 0).all()
    np.testing.assert_allclose(dist.cdf(y), np.broadcast_to(q, y.shape), rtol=1e-6)
    np.testing.assert_allclose(dist.isf(q), dist.ppf(1 - q), rtol=1e-9)


@shapes
@transforms
def test_the_density_integrates_to_the_probability_and_to_the_moments(shape, transform):
    dist = make(shape, transform, n=1)
    low, high = (float(end[0]) for end in dist.interval(1 - 1e-7))

    def integral(power, start=low, stop=high):
        points = dist.ppf(np.linspace(0.01, 0.99, 25)[:, None])[:, 0]
        points = points[(points > start) & (points < stop)]
        return integrate.quad(lambda y: y**power * dist.pdf([y])[0], start, stop,
                              points=points, limit=2000)[0]  # fmt: skip

    below, above = dist.cdf(low)[0], dist.sf(high)[0]  # the square root may have a step at zero
    assert below + integral(0) + above == pytest.approx(1, abs=1e-5)
    middle = float(dist.mean()[0])
    assert below + integral(0, stop=middle) == pytest.approx(dist.cdf(middle)[0], abs=1e-5)
    if shape == "gaussian" or transform == "none":  # others have draws that say so
        mean = integral(1)
        assert dist.mean()[0] == pytest.approx(mean, rel=1e-4)
        assert dist.var()[0] == pytest.approx(integral(2) - mean**2, rel=1e-3)


def test_without_shape_and_transform_it_is_scipys_normal_distribution():
    dist = make(n_targets=2)
    law = stats.norm(dist.mean(), dist.std())
    y = RNG.normal(size=(5, 3, 2))
    for method in ("pdf", "logpdf", "cdf", "sf"):
        np.testing.assert_allclose(
            getattr(dist, method)(y), getattr(law, method)(y), rtol=1e-10, atol=1e-300
        )
    np.testing.assert_allclose(dist.ppf(0.3), law.ppf(0.3))
    np.testing.assert_allclose(dist.interval(0.9), law.interval(0.9))
    np.testing.assert_array_equal(dist.support(), law.support())


@pytest.mark.parametrize("std", [0.01, 0.3, 1.0, 2.0])
def test_the_exponential_of_a_gaussian_is_scipys_log_normal(std):
    mean = np.array([-3.0, 0.0, 5.0])
    dist = PredictiveDistribution(mean, np.full(3, std), transform="log")
    law = stats.lognorm(std, scale=np.exp(mean))
    for method in ("mean", "std", "var", "median"):
        # The squares of a wide one live beyond 8 standard deviations.
        rtol = 1e-6 if std < 2 or method in ("mean", "median") else 2e-5
        np.testing.assert_allclose(getattr(dist, method)(), getattr(law, method)(), rtol=rtol)
    y = np.exp(mean + std * RNG.normal(size=(4, 3)))
    for method in ("logpdf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(dist, method)(y), getattr(law, method)(y), rtol=1e-9)
    np.testing.assert_allclose(dist.ppf([[0.01], [0.7]]), law.ppf([[0.01], [0.7]]))
    np.testing.assert_array_equal(dist.support(), [[0] * 3, [np.inf] * 3])


@pytest.mark.parametrize("transformer", [PowerTransformer(), PowerTransformer(standardize=False)])
def test_slopes_by_differences_are_those_of_the_formula(transformer):
    transformer = fitted(transformer, 1)
    power = transformer.lambdas_[0]
    scale = transformer._scaler.scale_[0] if transformer.standardize else 1.0
    mean, y = transformer.transform([[3.0]])[0], RNG.uniform(0.5, 8, size=200)
    dist = PredictiveDistribution(np.repeat(mean, 200), np.full(200, 0.3), transform=transformer)
    g = transformer.transform(y[:, None])[:, 0]
    expected = stats.norm.logpdf(g, mean, 0.3) + (power - 1) * np.log1p(y) - np.log(scale)
    np.testing.assert_allclose(dist.logpdf(y), expected, rtol=1e-6, atol=1e-6)


def test_moments_of_many_rows_are_those_of_few():
    mean = RNG.normal(size=20_000)
    dist = PredictiveDistribution(mean, np.full(20_000, 0.5), transform="log")
    some = slice(3_000, 3_010)
    np.testing.assert_allclose(dist[some].mean(), dist.mean()[some], rtol=1e-14)
    np.testing.assert_allclose(dist[some].std(), dist.std()[some], rtol=1e-12)


# Where a transform ends


def test_targets_outside_of_the_domain_have_no_density():
    dist = make(transform="log")
    y = [-1.0, 0.0, np.nan]
    np.testing.assert_array_equal(dist.logpdf(y), [-np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(dist.pdf(y), [0, 0, np.nan])
    np.testing.assert_array_equal(dist.cdf(y), [0, 0, np.nan])
    np.testing.assert_array_equal(dist.sf(y), [1, 1, np.nan])
    dist = make(transform="log1p")
    np.testing.assert_array_equal(dist.logpdf(-3.0), np.full(3, -np.inf))
    np.testing.assert_array_equal(dist.cdf(-3.0), np.zeros(3))
    np.testing.assert_allclose(dist.support()[0], -1)
    assert (dist.ppf(1e-12) > -1).all()


def test_the_square_root_does_not_come_back_up_below_zero():
    dist = PredictiveDistribution([0.5, 2.0], [1.0, 0.1], transform=TRANSFORMS["square root"](1))
    y = dist.ppf([[0.001], [0.1], [0.5]])
    assert (y >= 0).all()
    np.testing.assert_allclose(y[:2, 0], 0, atol=1e-9)
    np.testing.assert_allclose(y[2], [0.25, 4.0])


def test_quantiles_of_a_quantile_transform_stay_among_the_targets():
    transformer = fitted(QuantileTransformer(n_quantiles=100, output_distribution="normal"), 1)
    dist = PredictiveDistribution([0.0, 2.0], [1.0, 3.0], transform=transformer)
    low, high = dist.interval(1 - 1e-9)
    assert (low >= TRAINING[:, 0].min()).all()
    assert (high <= TRAINING[:, 0].max()).all()
    assert np.isfinite([dist.mean(), dist.std()]).all()


@pytest.mark.parametrize("std", [10.0, 300.0, 1e10, 1e300])
@pytest.mark.parametrize("transform", ["log", "log1p", "square root"])
def test_moments_and_quantiles_of_anything_are_finite(std, transform):
    mean = np.array([-1e3, 0.0, 1e3]) if transform == "log" else np.array([0.5, 1.0, 2.0])
    dist = PredictiveDistribution(mean, np.full(3, std), transform=TRANSFORMS[transform](1))
    found = [dist.mean(), dist.std(), dist.var(), *dist.interval(0.999), dist.rvs(random_state=0)]
    assert np.isfinite(found).all()
    assert (dist.std() > 0).all()


def test_a_transform_with_an_end_nearby_has_sane_moments():
    """A negative power has no inverse beyond some value, and explodes before it."""
    skewed = RNG.lognormal(0, 0.8, size=(500, 1))
    transformer = PowerTransformer().fit(skewed)
    assert transformer.lambdas_[0] < 0
    g = transformer.transform(skewed)[:, 0]
    dist = PredictiveDistribution(g, np.full(500, 0.3), transform=transformer)
    assert np.isfinite(dist.ppf(0.9999)).all()
    assert dist.mean().max() < 10 * skewed.max()


@pytest.mark.parametrize(
    "transformer",
    [PowerTransformer(), QuantileTransformer(n_quantiles=100, output_distribution="normal")],
)
def test_what_would_lie_beyond_the_end_of_a_transform_lies_there(transformer):
    """Draws, quantiles and probabilities agree on it."""
    transformer = transformer.fit(np.exp(RNG.normal(size=(500, 1))))
    dist = PredictiveDistribution([0.0, 3.0], [2.0, 3.0], transform=transformer)
    draws = dist.rvs(N_DRAWS, random_state=0)
    for q in (0.001, 0.1, 0.5, 0.9, 0.999):
        y = dist.ppf(q)
        assert (dist.cdf(y) >= q - 1e-9).all()
        np.testing.assert_allclose((draws <= y).mean(axis=0), dist.cdf(y), atol=0.005)
        np.testing.assert_allclose(dist.cdf(y) + dist.sf(y), 1)
    assert (dist.cdf(dist.ppf(0.999)) == 1).any()  # there is an end


def test_a_transform_that_decreases_is_refused():
    decreasing = FunctionTransformer(np.negative, np.negative)
    for mean in ([1.0], [1.0, 2.0]):
        with pytest.raises(ValueError, match="must increase with y"):
            PredictiveDistribution(mean, np.ones(len(mean)), transform=decreasing)


# Shapes


def test_broadcasting_is_that_of_scipy():
    dist, law = make(n=4), stats.norm(make(n=4).mean(), make(n=4).std())
    for y in (0.5, np.zeros(4), np.zeros((3, 1)), np.zeros((2, 3, 4))):
        np.testing.assert_allclose(dist.cdf(y), law.cdf(y))
        assert dist.logpdf(y).shape == law.logpdf(y).shape
    for q in (0.5, [0.1, 0.2, 0.3, 0.4], [[0.1], [0.9]]):
        np.testing.assert_allclose(dist.ppf(q), law.ppf(q))
    low, high = dist.interval([[0.5], [0.9]])
    assert low.shape == high.shape == (2, 4)
    with pytest.raises(ValueError, match="broadcast"):
        dist.cdf(np.zeros(3))


@shapes
@pytest.mark.parametrize("transform", ["none", "log"])
def test_each_target_is_asked_for_its_own_shape(shape, transform):
    both = make(shape, transform, n_targets=2)
    for target in range(2):
        errors = SHAPES[shape][1] or gaussian_shape(2)
        alone = PredictiveDistribution(
            both._loc[:, target], both._scale[:, target],
            type(errors)(*(field[target : target + 1] for field in errors)),
            TRANSFORMS[transform](1),
        )  # fmt: skip
        y = RNG.uniform(1, 8, size=both.shape)
        np.testing.assert_allclose(both.logpdf(y)[:, target], alone.logpdf(y[:, target]))
        np.testing.assert_allclose(both.ppf(0.2)[:, target], alone.ppf(0.2))
        np.testing.assert_allclose(both.mean()[:, target], alone.mean())
        q = np.array([0.3, 0.8])  # one for each target
        np.testing.assert_allclose(both.ppf(q)[:, target], alone.ppf(q[target]))


@transforms
def test_rows_are_taken_like_those_of_an_array(transform):
    dist = make("skewed", transform, n_targets=2, n=6)
    y = RNG.uniform(1, 8, size=(6, 2))
    whole = dist.mean(), dist.ppf(0.3), dist.logpdf(y)
    assert (len(dist), dist.shape, dist.ndim) == (6, (6, 2), 2)
    for rows in (slice(1, 4), np.arange(6) % 2 == 0, [3, 1], slice(None, None, -1), 2):
        part = dist[rows]
        found = part.mean(), part.ppf(0.3), part.logpdf(y[rows])
        for mine, theirs in zip(found, whole, strict=True):
            np.testing.assert_allclose(mine, theirs[rows], rtol=1e-12)
        assert part.rvs(4, random_state=0).shape == (4, *theirs[rows].shape)
    with pytest.raises(IndexError, match="rows"):
        dist[:, 0]


def test_one_row_of_one_target_is_a_number():
    dist = make("skewed", "log")[1]
    assert dist.shape == ()
    assert np.ndim(dist.mean()) == np.ndim(dist.cdf(2.0)) == np.ndim(dist.rvs()) == 0
    assert dist.ppf([0.1, 0.9]).shape == (2,)


@pytest.mark.parametrize(
    ("size", "before"), [(None, ()), (1, (1,)), (5, (5,)), ((2, 3), (2, 3)), (np.int64(4), (4,))]
)
@targets
def test_draws_put_their_axes_first(size, before, n_targets):
    dist = make(n_targets=n_targets)
    assert dist.rvs(size, random_state=0).shape == (*before, *dist.shape)


def test_draws_are_determined_by_the_random_state():
    dist = make("heavy", "log")
    for state in (3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)):
        first, second = (dist.rvs(5, state() if callable(state) else state) for _ in range(2))
        np.testing.assert_array_equal(first, second)
    assert (dist.rvs(5, 3) != dist.rvs(5, 4)).all()


def test_it_says_what_it_is():
    assert repr(make(n_targets=2)) == "<PredictiveDistribution of shape (3, 2), Gaussian>"
    assert repr(make("skewed", "log")).endswith("shape (3,), shaped, transformed>")


@shapes
@pytest.mark.parametrize("transform", ["none", "log", "log1p"])
def test_a_pickled_distribution_is_the_same(shape, transform):
    dist = make(shape, transform)
    again = pickle.loads(pickle.dumps(dist))
    np.testing.assert_array_equal(again.mean(), dist.mean())
    np.testing.assert_array_equal(again.ppf(0.3), dist.ppf(0.3))


def test_what_it_gives_out_can_be_written_to():
    dist = make()
    for values in (dist.mean(), dist.std(), dist.support()[0]):
        values[:] = 7
    assert (dist.mean() != 7).all()
    assert (dist.std() != 7).all()


def test_no_spread_is_a_step():
    dist = PredictiveDistribution([1.0], [0.0])
    np.testing.assert_array_equal(dist.cdf([[0.9], [1.1]])[:, 0], [0, 1])
    assert dist.ppf(0.9) == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (([0.0], [1.0, 2.0]), "mean and std"),
        ((0.0, 1.0), "mean and std"),
        (([np.nan], [1.0]), "mean must be finite"),
        (([0.0], [-1.0]), "std must be"),
        (([0.0], [np.inf]), "std must be"),
        (([0.0], [1.0], gaussian_shape(2)), "shape has 2 targets"),
        (([0.0], [1.0], None, "sqrt"), "transform must be"),
        (([0.0], [1.0], None, np.log), "transform must be"),
    ],
)
def test_wrong_input_is_refused_by_name(given, match):
    with pytest.raises(ValueError, match=match):
        PredictiveDistribution(*given)
