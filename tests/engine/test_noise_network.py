"""A second network that learns the logarithm of the noise from errors."""

import itertools

import numpy as np
import pytest
from helpers import DTYPES, make_network, with_ones
from scipy import sparse

from sktagi.engine import noise_network
from sktagi.engine.learning import Learner, Settings
from sktagi.engine.noise_network import (
    LARGEST_LOG,
    LEAST_INFORMATION,
    MOST_INFORMATION,
    N_FOLDS,
    Errors,
    LogVariance,
    NoiseNetwork,
    as_rows,
    average_output,
    draw_noise_network,
    held_out_outputs,
    learn_errors,
    log_density,
    mean_outputs,
)
from sktagi.engine.predicting import predict_moments

FARTHEST_NODE = 4.513  # of nine, in standard deviations

# ------------------------------------------------------------------------------------ the sites


def on_a_grid(mu, var, error, b):
    """Mean and variance of U ~ N(mu, var) given an error of variance b + exp(U)."""
    u = mu + np.sqrt(var) * np.linspace(-12, 12, 20001)
    log_joint = -0.5 * np.square(u - mu) / var
    log_joint -= 0.5 * (np.log(b + np.exp(u)) + error**2 / (b + np.exp(u)))
    share = np.exp(log_joint - log_joint.max())
    share /= share.sum()
    mean = share @ u
    return mean, share @ np.square(u - mean)


def site(mu, var, error, b, dtype=np.float64):
    """Target and noise of the site of one row."""
    args = (np.array([[value]], dtype=dtype) for value in (mu, var, error, b))
    target, noise = LogVariance(1).sites(*args)
    assert target.dtype == noise.dtype == dtype
    return float(target.item()), float(noise.item())


def conditioned(mu, var, target, noise):
    return mu + (target - mu) * var / (var + noise), 1 / (1 / var + 1 / noise)


CASES = [
    case
    for case in itertools.product([-2.0, 0.0, 1.5], [0.05, 0.3, 1.0], [0.0, 0.3, 1, 3, 6], [0, 0.5])
    if case[2] < 4 * np.sqrt(case[3] + np.exp(case[0]))  # no outlier
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_row_alone_gets_the_moments_of_u_given_its_error(dtype):
    """By a fine grid; nine nodes are right to a few hundredths of a standard deviation."""
    above = 0
    for mu, var, error, b in CASES:
        mean, variance = on_a_grid(mu, var, error, b)
        target, noise = site(mu, var, error, b, dtype)
        found = conditioned(mu, var, target, noise)
        assert abs(found[0] - mean) < 0.01 * np.sqrt(var)
        if 1 / variance - 1 / var > 1.1 * LEAST_INFORMATION:
            above += 1
            assert found[1] == pytest.approx(variance, rel=0.04)
    assert above > len(CASES) / 2


def test_an_error_that_tells_less_than_the_least_keeps_its_mean():
    """The mean stays that of the grid where the information is raised to the least."""
    for mu, var, error, b in [(0.0, 1.0, 0.0, 0.0), (-2.0, 0.3, 3.0, 0.5), (1.5, 0.3, 0.3, 0.0)]:
        mean, variance = on_a_grid(mu, var, error, b)
        assert 1 / variance - 1 / var < LEAST_INFORMATION
        target, noise = site(mu, var, error, b)
        assert 1 / noise == pytest.approx(LEAST_INFORMATION)
        assert conditioned(mu, var, target, noise)[0] == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sites_are_finite_and_tell_no_less_than_the_least_and_no_more_than_the_most(dtype):
    mu, var, error, b = np.meshgrid(
        [-40.0, -5, 0, 5, 40], [1e-6, 1e-2, 1, 30], [0, 1e-12, 1, 1e3, -1e9],
        [0, 1e-30, 1e-6, 1, 1e12],
    )  # fmt: skip
    args = [values.reshape(1, -1).astype(dtype) for values in (mu, var, error, b)]
    with np.errstate(all="raise", under="ignore"):
        target, noise = LogVariance(1).sites(*args)
    assert np.isfinite(target).all()
    assert (noise > 0).all()
    assert (1 / noise >= LEAST_INFORMATION * (1 - 1e-6)).all()
    most = np.maximum(MOST_INFORMATION / args[1], LEAST_INFORMATION)
    assert (1 / noise <= most * (1 + 1e-6)).all()


@pytest.mark.parametrize("b", [0.0, 0.5])
def test_an_outlier_moves_u_by_a_bounded_number_of_standard_deviations(b):
    for var in (0.01, 0.3, 1.0):
        steps = []
        for error in (3.0, 30.0, 1e3, 1e9):
            mean, _ = conditioned(0.0, var, *site(0.0, var, error, b))
            steps.append(mean / np.sqrt(var))
        assert np.all(np.diff(steps) > -1e-9)  # a larger error, a larger noise
        assert 0 < steps[0] < steps[-1] < FARTHEST_NODE


def test_an_outlier_leaves_u_a_tenth_of_its_variance():
    """All of the weight is on the farthest node, which does not mean that U is known exactly."""
    for var in (0.05, 0.3, 1.0):
        _, noise = site(-2.0, var, 1e3, 0.0)
        _, left = conditioned(-2.0, var, 0.0, noise)
        assert left == pytest.approx(var / (1 + MOST_INFORMATION), rel=1e-9)


def test_every_output_and_row_has_a_site_of_its_own():
    rng = np.random.default_rng(0)
    mu, error = rng.normal(size=(2, 3, 2, 4))
    var, b = rng.uniform(0.1, 1, size=(2, 3, 2, 4))
    target, noise = LogVariance(2).sites(mu, var, error, b)
    for place in np.ndindex(3, 2, 4):
        expected = site(*(values[place] for values in (mu, var, error, b)))
        np.testing.assert_allclose((target[place], noise[place]), expected, rtol=1e-12)


# ------------------------------------------------------------------------------------- learning


def made(n=1000, b=0.0, slope=2.0, seed=0, dtype=np.float64):
    """Errors of variance b + exp(slope * x), and the logarithms of their noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, size=(n, 2))
    u = slope * x[:, 0]
    error = np.sqrt(b + np.exp(u)) * rng.normal(size=n)
    fold = rng.integers(N_FOLDS, size=n)
    var = np.full((1, n), b, dtype)
    return Errors(with_ones(x, dtype), error[None].astype(dtype), var, np.ones(n), fold), u


def learned_from(errors, seed=0):
    start = draw_noise_network(2, len(errors.error), errors.x.dtype, seed)
    return learn_errors(start, errors, seed)


def mean_score(errors, u):
    return float(log_density(errors.error, errors.var + np.exp(u)).mean())


def assert_same_layers(net, other, tol=0.0):
    for mine, theirs in zip(net.layers, other.layers, strict=True):
        np.testing.assert_allclose(mine.mu, theirs.mu, rtol=tol, atol=tol)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=tol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b", [0.0, 0.5])
def test_the_logarithm_of_the_noise_is_found(b, dtype):
    for seed in range(3):
        errors, _ = made(b=b, seed=seed, dtype=dtype)
        noise = learned_from(errors, seed)
        new, truth = made(2000, b, seed=100 + seed, dtype=dtype)
        u = mean_outputs(noise.net, new.x).mean(axis=0)[0]
        assert np.corrcoef(u, truth)[0, 1] > 0.98
        slope, level = np.polyfit(truth, u, 1)
        assert 0.85 < slope < 1.15
        assert abs(level) < 0.15
        assert mean_score(new, u) > mean_score(new, truth) - 0.02


def test_what_the_means_are_unsure_of_is_not_taken_for_noise():
    """Errors whose variance changes with x by b alone say that the noise is constant."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.5, 1.5, size=(1500, 2))
    b = np.exp(2 * x[:, 0])
    error = np.sqrt(b + 1) * rng.normal(size=1500)
    fold = rng.integers(N_FOLDS, size=1500)
    known = Errors(with_ones(x), error[None], b[None], np.ones(1500), fold)
    unknown = known._replace(var=np.zeros_like(known.var))
    u = {
        name: mean_outputs(learned_from(errors).net, known.x).mean(axis=0)[0]
        for name, errors in (("known", known), ("unknown", unknown))
    }
    assert np.abs(u["known"]).max() < 0.5
    assert np.ptp(u["unknown"]) > 2


@pytest.mark.parametrize("b", [0.0, 0.5])
def test_constant_errors_leave_u_near_zero_and_no_score_gets_worse(b):
    for seed in range(4):
        errors, _ = made(400, b, slope=0.0, seed=seed)
        net = learned_from(errors, seed).net
        u = held_out_outputs(net, errors.x, errors.fold)
        assert mean_score(errors, u) >= mean_score(errors, np.zeros_like(u))
        new, _ = made(2000, b, slope=0.0, seed=50 + seed)
        u = mean_outputs(net, new.x).mean(axis=0)
        assert np.abs(u).mean() < 0.4
        assert mean_score(new, u) > mean_score(new, np.zeros_like(u)) - 0.01


def test_the_best_epoch_is_kept_and_nothing_given_is_changed(monkeypatch):
    errors, _ = made(300)
    start = draw_noise_network(2, 1, np.float64, 0)
    before = start.copy()
    scores = []
    for epochs in (1, 2, 4, 8):
        monkeypatch.setattr(noise_network, "MAX_EPOCHS", epochs)
        net = learn_errors(start, errors, 0).net
        scores.append(mean_score(errors, held_out_outputs(net, errors.x, errors.fold)))
    assert np.all(np.diff(scores) >= 0)
    assert_same_layers(start.net, before.net)
    assert not start.varies


def test_errors_that_are_not_known_teach_nothing():
    errors, _ = made(300)
    some = np.random.default_rng(1).random(300) < 0.3
    holes = errors._replace(error=np.where(some, np.nan, errors.error))
    net, only = (draw_noise_network(2, 1, np.float64, 0).net for _ in range(2))
    order = np.tile(np.arange(300), (N_FOLDS, 1))
    Learner(net, Settings(1)).learn(as_rows(holes, np.float64), order)
    known = order[:, ~some]
    Learner(only, Settings(1)).learn(as_rows(errors, np.float64), known)
    assert_same_layers(net, only, 1e-10)


def test_a_target_without_errors_learns_nothing_and_does_not_disturb_another():
    errors, truth = made(800)
    nothing = np.full((1, 800), np.nan)
    both = errors._replace(
        error=np.vstack([errors.error, nothing]), var=np.vstack([errors.var, errors.var])
    )
    u = mean_outputs(learned_from(both).net, both.x).mean(axis=0)
    assert np.corrcoef(u[0], truth)[0, 1] > 0.95
    assert np.abs(u[1]).max() == 0


def test_weight_two_is_the_error_twice_in_the_same_fold():
    errors, _ = made(150)
    heavy = errors._replace(weight=np.full(150, 2.0))
    twice = np.repeat(np.arange(150), 2)
    copies = Errors(
        errors.x[twice], errors.error[:, twice], errors.var[:, twice], np.ones(300),
        errors.fold[twice],
    )  # fmt: skip
    order = np.arange(150)
    nets = []
    for some, size, rows in ((heavy, 10, order), (copies, 20, np.arange(300))):
        net = draw_noise_network(2, 1, np.float64, 0).net
        Learner(net, Settings(size, True, 400.0)).learn(
            as_rows(some, np.float64), np.tile(rows, (N_FOLDS, 1))
        )
        nets.append(net)
    assert_same_layers(*nets, 1e-7)
    u = mean_outputs(nets[0], errors.x)
    assert np.abs(u).max() > 0.1


def test_weights_count_in_the_choice_of_the_epoch():
    errors, _ = made(300)
    some = np.random.default_rng(0).random(300) < 0.5
    light = learned_from(errors._replace(weight=np.where(some, 1.0, 1e-9)))
    alone = Errors(
        errors.x[some], errors.error[:, some], errors.var[:, some], np.ones(some.sum()),
        errors.fold[some],
    )  # fmt: skip
    u = held_out_outputs(light.net, alone.x, alone.fold)
    assert mean_score(alone, u) > mean_score(alone, np.zeros_like(u))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_rows_are_learned_as_dense_ones(dtype):
    rng = np.random.default_rng(5)
    n = 400
    x = rng.uniform(0.5, 1.5, size=(n, 4)) * (rng.random((n, 4)) < 0.5)
    u = 3 * (x[:, 0] > 0)
    errors = Errors(
        with_ones(x, dtype), (np.exp(u / 2) * rng.normal(size=n))[None], np.full((1, n), 0.1),
        np.ones(n), rng.integers(N_FOLDS, size=n),
    )  # fmt: skip
    start = draw_noise_network(4, 1, dtype, 0)
    dense = learn_errors(start, errors, 0)
    same = learn_errors(start, errors._replace(x=sparse.csr_array(errors.x)), 0)
    outputs = mean_outputs(dense.net, errors.x)
    assert np.ptp(outputs) > 1
    tol = 1e-8 if dtype == np.float64 else 1e-2
    np.testing.assert_allclose(
        mean_outputs(same.net, sparse.csr_array(errors.x)), outputs, rtol=tol, atol=tol
    )


def test_a_few_rows_and_a_fold_that_is_empty_are_enough():
    errors, _ = made(4)
    few = errors._replace(fold=np.array([0, 0, 1, 1]))
    noise = learned_from(few)
    assert noise.net.is_sound()
    assert np.isfinite(mean_outputs(noise.net, errors.x)).all()


# -------------------------------------------------------------------------------------- outputs


def drawn(n_noise=2, seed=3, dtype=np.float64, varies=True):
    """A noise network with a last layer that is not zero."""
    noise = draw_noise_network(3, n_noise, dtype, seed)
    rng = np.random.default_rng(seed)
    noise.net.layers[-1].mu[...] = rng.normal(size=noise.net.layers[-1].mu.shape)
    if varies:
        noise.exponent[...] = 1.0
        noise.bounds[0], noise.bounds[1] = -100, 100
    return noise


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_mean_outputs_are_the_means_of_the_moments(monkeypatch, dtype, kind):
    x = with_ones(np.random.default_rng(0).normal(size=(37, 3)), dtype)
    rows = x if kind == "dense" else sparse.csr_array(x)
    net = drawn(dtype=dtype).net
    expected, _ = predict_moments(net, x)
    tol = 1e-12 if dtype == np.float64 else 1e-5
    for elements in (1 << 16, 600, 1):
        monkeypatch.setattr(noise_network, "BLOCK_ELEMENTS", elements)
        np.testing.assert_allclose(mean_outputs(net, rows), expected, rtol=tol, atol=tol)


def test_a_row_that_is_held_out_is_predicted_by_the_member_that_holds_it_out():
    x = with_ones(np.random.default_rng(0).normal(size=(20, 3)))
    fold = np.arange(20) % N_FOLDS
    net = drawn().net
    outputs = mean_outputs(net, x)
    expected = np.array([[outputs[fold[row], k, row] for row in range(20)] for k in range(2)])
    np.testing.assert_array_equal(held_out_outputs(net, x, fold), expected)


def test_log_ratio_is_the_mean_output_within_bounds_times_the_exponent():
    x = with_ones(np.random.default_rng(0).normal(size=(200, 3)))
    noise = drawn()
    noise.exponent[:, 0] = 0.5, 1.25
    noise.level[:, 0] = 0.3, -0.7
    noise.bounds[0, :, 0], noise.bounds[1, :, 0] = (-0.4, -0.1), (0.2, 1.0)
    u = mean_outputs(noise.net, x).mean(axis=0)
    assert (u < noise.bounds[0]).any()
    assert (u > noise.bounds[1]).any()
    inside = np.minimum(np.maximum(u, [[-0.4], [-0.1]]), [[0.2], [1.0]])
    expected = np.array([[0.3], [-0.7]]) + np.array([[0.5], [1.25]]) * inside
    np.testing.assert_allclose(noise.log_ratio(x), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(noise.ratio(x), np.exp(expected), rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_average_outputs_are_the_means_over_the_members(monkeypatch, dtype, kind):
    x = with_ones(np.random.default_rng(0).normal(size=(37, 3)), dtype)
    rows = x if kind == "dense" else sparse.csr_array(x)
    net = drawn(dtype=dtype).net
    expected = predict_moments(net, x)[0].astype(np.float64).mean(axis=0)
    tol = 1e-12 if dtype == np.float64 else 1e-5
    for elements in (1 << 16, 600, 1):
        monkeypatch.setattr(noise_network, "BLOCK_ELEMENTS", elements)
        np.testing.assert_allclose(average_output(net, rows), expected, rtol=tol, atol=tol)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("trust", [0.0, 0.5, 1.0])
def test_relative_noise_is_that_beside_a_row_in_the_middle_to_a_power(kind, trust):
    x = with_ones(np.random.default_rng(0).normal(size=(200, 3)))
    x[7] = [0, 0, 0, 1]
    noise = drawn()
    noise.exponent[:, 0] = 0.5, 1.25
    noise.bounds[0], noise.bounds[1] = -1.0, 1.0
    ratio = noise.ratio(x)
    assert (np.ptp(np.log(ratio), axis=1) > 0.3).all()
    rows = x if kind == "dense" else sparse.csr_array(x)
    found = noise.relative(rows, trust)
    np.testing.assert_allclose(found, (ratio / ratio[:, 7:8]) ** trust, rtol=1e-10)
    noise.level[:, 0] = 3.0, -2.0  # how noisy all rows are does not count
    np.testing.assert_allclose(noise.relative(rows, trust), found, rtol=1e-10)


def test_relative_noise_of_constant_noise_is_one():
    noise = draw_noise_network(3, 2, np.float64, 0)
    x = with_ones(np.random.default_rng(0).normal(size=(10, 3)))
    np.testing.assert_array_equal(noise.relative(x, 0.75), np.ones((2, 10)))


def test_log_ratio_of_any_outputs_is_bounded():
    noise = drawn(dtype=np.float32)
    noise.net.layers[-1].mu[...] *= 1e6
    noise.bounds[0], noise.bounds[1] = -np.inf, np.inf
    x = with_ones(np.random.default_rng(0).normal(size=(50, 3)), np.float32)
    assert np.abs(noise.log_ratio(x)).max() == LARGEST_LOG
    assert np.isfinite(noise.ratio(x).astype(np.float32)).all()


def test_a_new_noise_network_says_that_the_noise_is_constant():
    noise = draw_noise_network(3, 2, np.float64, 0)
    x = with_ones(np.random.default_rng(0).normal(size=(10, 3)))
    assert not noise.varies
    np.testing.assert_array_equal(mean_outputs(noise.net, x), np.zeros((N_FOLDS, 2, 10)))
    np.testing.assert_array_equal(noise.ratio(x), np.ones((2, 10)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_seeds_draw_equal_networks(dtype):
    one, two, other = (draw_noise_network(3, 1, dtype, seed) for seed in (7, 7, 8))
    assert_same_layers(one.net, two.net)
    assert one.net.dtype == dtype
    assert not np.array_equal(one.net.layers[0].mu, other.net.layers[0].mu)
    members = one.net.layers[0].mu
    assert len(np.unique(members[:, 0, 0])) == N_FOLDS
    largest = draw_noise_network(3, 1, dtype, 2**32 - 1)
    assert largest.net.is_sound()


def test_learning_twice_with_one_seed_is_equal():
    errors, _ = made(200)
    one, two = (learned_from(errors, seed=4) for _ in range(2))
    assert_same_layers(one.net, two.net)


def test_a_copy_has_arrays_of_its_own():
    noise = drawn()
    copy = noise.copy()
    assert isinstance(copy, NoiseNetwork)
    for values in (copy.exponent, copy.level, copy.bounds, copy.scores, copy.net.layers[0].mu):
        values[...] = 7
    assert (noise.exponent == 1).all()
    assert (noise.level == 0).all()
    assert (noise.scores == 0).all()
    assert not (noise.net.layers[0].mu == 7).any()


def test_a_network_is_unsound_if_its_noise_network_is():
    net = make_network([3, 5, 1])
    net.noise_net = draw_noise_network(3, 1, np.float64, 0)
    assert net.is_sound()
    net.noise_net.net.layers[0].mu[0, 0, 0] = np.nan
    assert not net.is_sound()
