"""Messages of the observation model: one row, a batch at once, weights, and the noise itself."""

import numpy as np
import pytest
from helpers import DTYPES, random_layers, rtol, with_ones

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.batch import row_correlation
from sktagi.engine.network import backward, copy_layers, forward
from sktagi.engine.noise import (
    GaussianOutputs,
    independent_message,
    joint_message,
    noise_moment,
)


def random_outputs(n_rows, n_outputs=1, seed=0, members=None, dtype=np.float64):
    """mu_z, var_z, rho and y of a batch, rho a correlation matrix of full rank."""
    rng = np.random.default_rng(seed)
    lead = () if members is None else (members,)
    shape = (*lead, n_rows, n_outputs)
    root = rng.normal(size=(*lead, n_rows, n_rows + 2)) + 0.7
    cov = root @ root.swapaxes(-1, -2)
    std = np.sqrt(np.einsum("...ii->...i", cov))
    rho = cov / (std[..., :, None] * std[..., None, :])
    parts = rng.normal(size=shape), rng.uniform(0.2, 3, size=shape), rho, rng.normal(size=shape)
    return tuple(part.astype(dtype) for part in parts)


def dense_message(mu_z, var_z, rho, y, noise_var, weight):
    """nu = Sigma_y^-1 (y - mu), kappa_i = (1 - noise_i [Sigma_y^-1]_ii) / var_i; one output."""
    std = np.sqrt(var_z)
    noise = noise_var / weight
    inverse = np.linalg.inv(rho * np.outer(std, std) + np.diag(noise))
    return inverse @ (y - mu_z), (1 - noise * np.diag(inverse)) / var_z


# -------------------------------------------------------------------------------------- one row


@pytest.mark.parametrize("noise_var", [1e-12, 1e-6, 1e-2, 1.0, 1e2])
@pytest.mark.parametrize("weight", [1.0, 0.2, 7.0])
def test_one_row_jointly_is_one_row_alone(noise_var, weight):
    mu_z, var_z, _, y = random_outputs(1, 4, seed=1)
    joint = joint_message(mu_z, var_z, np.ones((1, 1)), y, noise_var, weight)
    alone = independent_message(mu_z, var_z, y, noise_var, weight)
    for a, b in zip(joint, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_message_of_one_row_is_conditioning_divided_by_the_prior_variance():
    mu_z, var_z, _, y = random_outputs(1, 3, seed=2)
    noise_var = 0.3
    nu, kappa = independent_message(mu_z, var_z, y, noise_var, 1.0)
    gain = var_z / (var_z + noise_var)
    np.testing.assert_allclose(mu_z + var_z * nu, mu_z + gain * (y - mu_z), rtol=1e-13)
    np.testing.assert_allclose(var_z - var_z**2 * kappa, var_z * (1 - gain), rtol=1e-12)


# -------------------------------------------------------------------------------- a batch at once


@pytest.mark.parametrize("noise_var", [1e-3, 0.5, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_message_is_dense_conditioning(noise_var, weighted):
    mu_z, var_z, rho, y = random_outputs(9, 3, seed=3)
    rng = np.random.default_rng(4)
    weight = rng.uniform(0.1, 5, size=(9, 1)) if weighted else np.ones((9, 1))
    noise = noise_var * np.array([1.0, 2.0, 0.5])
    nu, kappa = joint_message(mu_z, var_z, rho, y, noise, weight)
    for o in range(3):
        expected = dense_message(mu_z[:, o], var_z[:, o], rho, y[:, o], noise[o], weight[:, 0])
        np.testing.assert_allclose(nu[:, o], expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kappa[:, o], expected[1], rtol=1e-9)


def test_joint_message_of_uncorrelated_rows_is_that_of_each_alone():
    mu_z, var_z, _, y = random_outputs(6, 2, seed=5)
    weight = np.random.default_rng(6).uniform(0.5, 2, size=(6, 1))
    joint = joint_message(mu_z, var_z, np.eye(6), y, 0.4, weight)
    for a, b in zip(joint, independent_message(mu_z, var_z, y, 0.4, weight), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_joint_message_keeps_dtype_and_agrees_in_single_precision(dtype):
    parts = random_outputs(12, 2, seed=7, dtype=dtype)
    noise_var, weight = dtype(0.3), np.ones((12, 1), dtype)
    nu, kappa = joint_message(*parts, noise_var, weight)
    assert nu.dtype == kappa.dtype == dtype
    expected = joint_message(*(p.astype(float) for p in parts), 0.3, np.ones((12, 1)))
    np.testing.assert_allclose(nu, expected[0], rtol=rtol(dtype), atol=rtol(dtype))
    np.testing.assert_allclose(kappa, expected[1], rtol=rtol(dtype))


@pytest.mark.parametrize("some_unobserved", [False, True])
def test_networks_side_by_side_equal_each_alone(some_unobserved):
    mu_z, var_z, rho, y = random_outputs(7, 2, seed=8, members=3)
    rng = np.random.default_rng(9)
    weight = rng.uniform(0.5, 2, size=(3, 7, 2))
    if some_unobserved:
        weight[rng.random(weight.shape) < 0.4] = 0
        weight[1, :, 0] = 0  # an output that nobody observes
    noise_var = rng.uniform(0.1, 1, size=(3, 1, 2))
    nu, kappa = joint_message(mu_z, var_z, rho, y, noise_var, weight)
    for m in range(3):
        expected = joint_message(mu_z[m], var_z[m], rho[m], y[m], noise_var[m], weight[m])
        np.testing.assert_allclose(nu[m], expected[0], rtol=1e-12)
        np.testing.assert_allclose(kappa[m], expected[1], rtol=1e-12)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_without_weight_is_a_row_left_out(joint):
    mu_z, var_z, rho, y = random_outputs(8, 2, seed=10)
    weight = np.array([1, 0, 2, 0.5, 0, 1, 1, 3.0])[:, None] * np.ones((1, 2))
    weight[2, 0] = 0  # this row observes its second output only
    y = np.where(weight > 0, y, 1e30)

    def message(rows, output):
        parts = (part[rows][:, output] for part in (mu_z, var_z, y, weight))
        mu, var, target, w = (part[:, None] for part in parts)
        if joint:
            return joint_message(mu, var, rho[np.ix_(rows, rows)], target, 0.3, w)
        return independent_message(mu, var, target, 0.3, w)

    if joint:
        nu, kappa = joint_message(mu_z, var_z, rho, y, 0.3, weight)
    else:
        nu, kappa = independent_message(mu_z, var_z, y, 0.3, weight)
    for o in range(2):
        seen = np.flatnonzero(weight[:, o])
        unseen = np.flatnonzero(weight[:, o] == 0)
        assert len(unseen) > 1
        assert np.all(nu[unseen, o] == 0)
        assert np.all(kappa[unseen, o] == 0)
        expected = message(seen, o)
        np.testing.assert_allclose(nu[seen, o], expected[0][:, 0], rtol=1e-12)
        np.testing.assert_allclose(kappa[seen, o], expected[1][:, 0], rtol=1e-12)


@pytest.mark.parametrize("members", [None, 2])
def test_rows_that_observe_different_outputs_do_not_meet(members):
    """Each output has a Sigma_y of its own, over the rows that observe it."""
    mu_z, var_z, rho, y = random_outputs(10, 2, seed=21, members=members)
    rng = np.random.default_rng(22)
    outputs = rng.integers([0, 3], [3, 6], size=mu_z.shape)
    weight = rng.uniform(0.3, 2, size=(*mu_z.shape[:-1], 1))
    nu, kappa = joint_message(mu_z, var_z, rho, y, 0.3, weight, outputs)
    for network in np.ndindex(mu_z.shape[:-2]):
        for k in range(2):
            for output in range(6):
                rows = np.flatnonzero(outputs[network][:, k] == output)
                if len(rows) == 0:
                    continue
                column = [part[network][rows, k] for part in (mu_z, var_z, y)]
                expected = dense_message(
                    column[0], column[1], rho[network][np.ix_(rows, rows)], column[2], 0.3,
                    weight[network][rows, 0],
                )  # fmt: skip
                np.testing.assert_allclose(nu[network][rows, k], expected[0], rtol=1e-9)
                np.testing.assert_allclose(kappa[network][rows, k], expected[1], rtol=1e-9)


@pytest.mark.parametrize("noise_var", [1e-2, 0.5, 50.0])
def test_weight_k_equals_k_copies(noise_var):
    mu_z, var_z, rho, y = random_outputs(5, 2, seed=11)
    copies = np.array([1, 3, 2, 1, 5])
    owner = np.repeat(np.arange(5), copies)
    weighted = joint_message(mu_z, var_z, rho, y, noise_var, copies[:, None].astype(float))
    repeated = joint_message(
        mu_z[owner], var_z[owner], rho[np.ix_(owner, owner)], y[owner], noise_var, 1.0
    )
    for one, many in zip(weighted, repeated, strict=True):
        summed = np.zeros_like(one)
        np.add.at(summed, owner, many)
        np.testing.assert_allclose(summed, one, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("noise_var", [1e-2, 0.5, 50.0])
def test_in_the_noise_moment_weight_k_equals_k_copies(noise_var):
    mu_z, var_z, rho, y = random_outputs(5, 2, seed=12)
    copies = np.array([1, 3, 2, 1, 5])
    weight = copies[:, None].astype(float)
    owner = np.repeat(np.arange(5), copies)
    message = joint_message(mu_z, var_z, rho, y, noise_var, weight)
    weighted = noise_moment(var_z, *message, noise_var, weight)
    message = joint_message(
        mu_z[owner], var_z[owner], rho[np.ix_(owner, owner)], y[owner], noise_var, 1.0
    )
    many = noise_moment(var_z[owner], *message, noise_var, np.ones((len(owner), 1)))
    summed = np.zeros_like(weighted)
    np.add.at(summed, owner, many)
    np.testing.assert_allclose(summed, weighted, rtol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("noise_var", [1e-12, 1e-6])
@pytest.mark.parametrize("n_copies", [2, 40])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_duplicates_with_hardly_any_noise_are_safe(dtype, noise_var, n_copies, scale):
    mu_z, var_z, rho, y = random_outputs(5, 1, seed=13, dtype=dtype)
    owner = np.tile(np.arange(5), n_copies)
    mu_z, var_z, y = mu_z[owner], var_z[owner] * dtype(scale), y[owner]
    rho = rho[np.ix_(owner, owner)]
    nu, kappa = joint_message(mu_z, var_z, rho, y, dtype(noise_var), np.ones_like(y))
    assert np.all(np.isfinite(nu))
    assert np.all(np.isfinite(kappa))
    assert np.all(kappa >= 0)
    assert np.all(kappa * var_z <= 1 + 10 * np.finfo(dtype).eps)
    # Copies share what is said about their row: as much as one row could say, or less.
    leverage = np.zeros(5)
    np.add.at(leverage, owner, (kappa * var_z)[:, 0].astype(float))
    assert np.all(leverage < 1.1)
    # The outputs go where one row of that weight would take them.
    std = np.sqrt(var_z.astype(float))
    reached = mu_z + std * (rho.astype(float) @ (std * nu))
    cov = rho[:5, :5].astype(float) * (std[:5] * std[:5].T)
    gain = cov @ np.linalg.inv(cov + noise_var / n_copies * np.eye(5))
    expected = (mu_z[:5] + gain @ (y - mu_z)[:5])[owner]
    assert np.abs(reached - expected).max() < 0.02 * np.abs(mu_z - y).max()


def test_all_rows_at_once_without_hidden_layers_give_the_mean_of_bayesian_regression():
    rng = np.random.default_rng(14)
    x, y, noise_var = with_ones(rng.normal(size=(40, 3))), rng.normal(size=(40, 1)), 0.2
    weight = rng.uniform(0.2, 3, size=(40, 1))
    layers = random_layers([3, 1], seed=15)
    prior = copy_layers(layers)[0]
    mu_z, var_z, tape = forward(layers, ACTIVATIONS["identity"], x)
    rho = row_correlation(layers, tape)
    backward(layers, tape, *joint_message(mu_z, var_z, rho, y, noise_var, weight))
    precision = np.diag(1 / prior.var[:, 0]) + x.T @ (x * weight) / noise_var
    expected = np.linalg.solve(
        precision, prior.mu[:, 0] / prior.var[:, 0] + x.T @ (y * weight)[:, 0] / noise_var
    )
    np.testing.assert_allclose(layers[0].mu[:, 0], expected, rtol=1e-8, atol=1e-10)
    # Variances of the diagonal form shrink, but never below those of the exact posterior.
    exact = np.diag(np.linalg.inv(precision))
    assert np.all(layers[0].var[:, 0] < prior.var[:, 0])
    assert np.all(layers[0].var[:, 0] > exact)


# ------------------------------------------------------------------------------------- the noise


def test_noise_moment_is_the_expected_square_of_the_noise():
    """E[v^2 | y] from conditioning the dense joint Gaussian of (v, y)."""
    mu_z, var_z, rho, y = random_outputs(8, 1, seed=16)
    rng = np.random.default_rng(17)
    noise_var, weight = 0.4, rng.uniform(0.3, 3, size=(8, 1))
    std = np.sqrt(var_z[:, 0])
    cov_v = np.diag(noise_var / weight[:, 0])
    cov_y = rho * np.outer(std, std) + cov_v
    gain = cov_v @ np.linalg.inv(cov_y)
    mean, cov = gain @ (y - mu_z)[:, 0], cov_v - gain @ cov_v
    expected = weight[:, 0] * (mean**2 + np.diag(cov))
    message = joint_message(mu_z, var_z, rho, y, noise_var, weight)
    moment = noise_moment(var_z, *message, noise_var, weight)
    np.testing.assert_allclose(moment[:, 0], expected, rtol=1e-9)


def test_noise_moment_of_an_unobserved_row_is_zero():
    mu_z, var_z, rho, y = random_outputs(4, 1, seed=18)
    weight = np.array([1.0, 0, 1, 0])[:, None]
    for message in (
        joint_message(mu_z, var_z, rho, y, 0.4, weight),
        independent_message(mu_z, var_z, y, 0.4, weight),
    ):
        moment = noise_moment(var_z, *message, 0.4, weight)
        assert np.all(moment[weight == 0] == 0)
        assert np.all(moment[weight > 0] > 0)


def test_the_true_noise_is_a_fixed_point_of_the_expected_square():
    """Averaged over targets drawn from the model, E[v^2 | y] is the noise variance itself."""
    mu_z, var_z, rho, _ = random_outputs(6, 1, seed=19)
    noise_var, n_draws = 0.7, 4000
    std = np.sqrt(var_z[:, 0])
    root = np.linalg.cholesky(rho * np.outer(std, std) + noise_var * np.eye(6))
    draws = np.random.default_rng(20).normal(size=(n_draws, 6, 1))
    y = mu_z + root @ draws
    stacked = (np.broadcast_to(part, (n_draws, *part.shape)) for part in (mu_z, var_z, rho))
    mu, var, corr = stacked
    moment = noise_moment(var, *joint_message(mu, var, corr, y, noise_var, 1.0), noise_var, 1.0)
    per_draw = moment.mean(axis=(1, 2))
    assert abs(per_draw.mean() - noise_var) < 5 * per_draw.std() / np.sqrt(n_draws)


def test_every_regression_target_is_observed():
    y = np.arange(6.0).reshape(3, 2)
    targets, observed = GaussianOutputs(2).targets(y)
    np.testing.assert_array_equal(targets, y)
    assert observed is None
