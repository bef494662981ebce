"""Messages from observations to outputs: of one row, of a batch at once; weights, and noise."""

import numpy as np
import pytest
from helpers import (
    DTYPES,
    as_matrices,
    as_own,
    copy_layers,
    independent_message,
    joint_message,
    random_layers,
    random_outputs,
    rtol,
    variances,
    with_ones,
)

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.covariance import Workspace, hidden_covariance, output_covariance
from sktagi.engine.messages import _inverse_root, joint
from sktagi.engine.noise import noise_moment
from sktagi.engine.passes import backward, forward


def covariance_of(layers, tape, var_z):
    """Both parts, as whole matrices."""
    work = Workspace(len(layers), var_z.dtype)
    hidden = hidden_covariance(layers, tape, work)
    shared, own = output_covariance(layers, tape, hidden, var_z, work)
    return shared, as_matrices(own)


def dense_message(mu_z, shared, own, y, noise_var, weight):
    """nu, kappa and leverage of what rows observe of one output, all of them observed."""
    noise = noise_var / weight
    inverse = np.linalg.inv(shared + own + np.diag(noise))
    kappa = np.diag(shared @ inverse) / np.diag(shared)
    return inverse @ (y - mu_z), np.maximum(kappa, 0), 1 - noise * np.diag(inverse)


def copies_of(parts, owner):
    """The batch in which row ``owner[i]`` stands at i."""
    mu_z, shared, own, y = parts
    pick = (..., owner[:, None], owner)
    return mu_z[..., owner], shared[pick], own[pick], y[..., owner]


# -------------------------------------------------------------------------------------- one row


@pytest.mark.parametrize("noise_var", [1e-12, 1e-6, 1e-2, 1.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize("weight", [1.0, 0.2, 7.0])
@pytest.mark.parametrize("own", [0.0, 0.01, 10.0])
def test_one_row_jointly_is_one_row_alone(noise_var, weight, own):
    mu_z, shared, rest, y = random_outputs(1, 4, seed=1, own=own)
    weight = np.array([[weight]])
    together = joint_message(mu_z, shared, rest, y, noise_var, weight)
    alone = independent_message(mu_z, variances(shared + rest), y, noise_var, weight)
    np.testing.assert_allclose(together.nu, alone.nu, rtol=1e-12)
    np.testing.assert_allclose(together.kappa, alone.kappa, rtol=1e-12)
    np.testing.assert_allclose(together.leverage, alone.leverage, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("noise_var", [1e-12, 1e-6, 1e-2, 1.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("uncertain", [False, True])
def test_one_row_of_a_network_jointly_is_one_row_alone(noise_var, hidden, uncertain):
    rng = np.random.default_rng(2)
    x, y = with_ones(rng.normal(size=(1, 3))), rng.normal(size=(1, 2))
    var_x = rng.uniform(0.1, 1, size=(1, 3)).T if uncertain else None
    layers = random_layers([3, *hidden, 2], seed=3)
    mu_z, var_z, tape = forward(layers, ACTIVATIONS["tanh"], x.T, var_x)
    shared, own = covariance_of(layers, tape, var_z)
    together = joint_message(mu_z, shared, own, y.T, noise_var)
    alone = independent_message(mu_z, var_z, y.T, noise_var)
    np.testing.assert_allclose(together.nu, alone.nu, rtol=1e-12)
    np.testing.assert_allclose(together.kappa, alone.kappa, rtol=1e-12)
    np.testing.assert_allclose(together.leverage, alone.leverage, rtol=1e-12, atol=1e-15)


def test_message_of_one_row_is_conditioning_divided_by_the_prior_variance():
    mu_z, shared, _, y = random_outputs(1, 3, seed=2)
    var_z, noise_var = variances(shared), 0.3
    nu, kappa, leverage = independent_message(mu_z, var_z, y, noise_var)
    gain = var_z / (var_z + noise_var)
    np.testing.assert_allclose(mu_z + var_z * nu, mu_z + gain * (y - mu_z), rtol=1e-13)
    np.testing.assert_allclose(var_z - var_z**2 * kappa, var_z * (1 - gain), rtol=1e-12)
    np.testing.assert_allclose(leverage, gain, rtol=1e-13)


# -------------------------------------------------------------------------------- a batch at once


@pytest.mark.parametrize("noise_var", [1e-3, 0.5, 20.0, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("own", [0.0, 0.01, 1.0])
def test_joint_message_is_dense_conditioning(noise_var, weighted, own):
    mu_z, shared, rest, y = random_outputs(9, 3, seed=3, own=own)
    rng = np.random.default_rng(4)
    weight = rng.uniform(0.1, 5, size=(1, 9)) if weighted else np.ones((1, 9))
    noise = noise_var * np.array([[1.0], [2.0], [0.5]])
    message = joint_message(mu_z, shared, rest, y, noise, weight)
    for o in range(3):
        expected = dense_message(mu_z[o], shared[o], rest[o], y[o], noise[o], weight[0])
        for values, other in zip(message, expected, strict=True):
            np.testing.assert_allclose(values[o], other, rtol=1e-9, atol=1e-11)


def test_joint_message_does_not_depend_on_the_order_in_memory():
    mu_z, shared, own, y = random_outputs(9, 3, seed=3, members=2)
    expected = joint_message(mu_z, shared, own, y, 0.1)
    reversed_axes = shared.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    message = joint(mu_z, reversed_axes, as_own(own), (y, np.array(0.1)))
    for values, other in zip(message, expected, strict=True):
        np.testing.assert_allclose(values, other, rtol=1e-12)


def test_joint_message_of_uncorrelated_rows_is_that_of_each_alone():
    rng = np.random.default_rng(5)
    mu_z, y = (part.T for part in rng.normal(size=(2, 6, 2)))
    shared, own = (np.eye(6) * rng.uniform(0.2, 3, size=(2, 1, 6)) for _ in range(2))
    weight = rng.uniform(0.5, 2, size=(1, 6))
    together = joint_message(mu_z, shared, own, y, 0.4, weight)
    alone = independent_message(mu_z, variances(shared + own), y, 0.4, weight)
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("own", [0.0, 0.1])
def test_less_of_a_row_is_learned_the_more_of_its_variance_is_its_own(own):
    """Errors of inputs add to a row's own variance; then it tells less of what rows share."""
    mu_z, shared, rest, y = random_outputs(9, 1, seed=23, own=own)
    before = joint_message(mu_z, shared, rest, y, 0.3).kappa
    for errors in (0.01, 0.1, 1.0, 10.0):
        kappa = joint_message(mu_z, shared, rest + errors * np.eye(9), y, 0.3).kappa
        assert np.all(kappa < before)
        before = kappa


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("own", [0.0, 0.1])
def test_joint_message_keeps_dtype_and_agrees_in_single_precision(dtype, own):
    parts = random_outputs(12, 2, seed=7, dtype=dtype, own=own)
    message = joint_message(*parts, dtype(0.3), np.ones((1, 12), dtype))
    expected = joint_message(*(p.astype(float) for p in parts), 0.3, np.ones((1, 12)))
    for values, other in zip(message, expected, strict=True):
        assert values.dtype == dtype
        np.testing.assert_allclose(values, other, rtol=rtol(dtype), atol=rtol(dtype))


@pytest.mark.parametrize("some_unobserved", [False, True])
def test_networks_side_by_side_equal_each_alone(some_unobserved):
    parts = random_outputs(7, 2, seed=8, members=3)
    rng = np.random.default_rng(9)
    weight = rng.uniform(0.5, 2, size=(3, 2, 7))
    if some_unobserved:
        weight[rng.random(weight.shape) < 0.4] = 0
        weight[1, 0] = 0  # an output that nobody observes
    noise_var = rng.uniform(0.1, 1, size=(3, 2, 1))
    message = joint_message(*parts, noise_var, weight)
    for m in range(3):
        expected = joint_message(*(part[m] for part in parts), noise_var[m], weight[m])
        for values, other in zip(message, expected, strict=True):
            np.testing.assert_allclose(values[m], other, rtol=1e-12)


@pytest.mark.parametrize("jointly", [False, True])
def test_a_row_without_weight_is_a_row_left_out(jointly):
    mu_z, shared, own, y = random_outputs(8, 2, seed=10)
    weight = np.array([1, 0, 2, 0.5, 0, 1, 1, 3.0]) * np.ones((2, 1))
    weight[0, 2] = 0  # this row observes its second output only
    y = np.where(weight > 0, y, 1e30)
    if jointly:
        message = joint_message(mu_z, shared, own, y, 0.3, weight)
    else:
        message = independent_message(mu_z, variances(shared + own), y, 0.3, weight)
    for o in range(2):
        seen = np.flatnonzero(weight[o])
        unseen = np.flatnonzero(weight[o] == 0)
        assert len(unseen) > 1
        block = np.ix_(seen, seen)
        parts = shared[o][block], own[o][block]
        if not jointly:
            parts = tuple(np.diag(np.diag(part)) for part in parts)
        expected = dense_message(mu_z[o, seen], *parts, y[o, seen], 0.3, weight[o, seen])
        for values, other in zip(message, expected, strict=True):
            assert np.all(values[o, unseen] == 0)
            np.testing.assert_allclose(values[o, seen], other, rtol=1e-9)


@pytest.mark.parametrize("members", [None, 2])
def test_rows_that_observe_different_outputs_do_not_meet(members):
    """Each output has a Sigma_y of its own, over the rows that observe it."""
    mu_z, shared, own, y = random_outputs(10, 2, seed=21, members=members)
    rng = np.random.default_rng(22)
    outputs = rng.integers([[0], [3]], [[3], [6]], size=mu_z.shape)
    together = outputs[..., :, None] == outputs[..., None, :]
    weight = rng.uniform(0.3, 2, size=(*mu_z.shape[:-2], 1, 10))
    message = joint_message(mu_z, shared * together, own * together, y, 0.3, weight)
    for network in np.ndindex(mu_z.shape[:-2]):
        for k, output in np.ndindex(2, 6):
            rows = np.flatnonzero(outputs[network][k] == output)
            if len(rows) == 0:
                continue
            block = np.ix_(rows, rows)
            expected = dense_message(
                mu_z[network][k, rows], shared[network][k][block], own[network][k][block],
                y[network][k, rows], 0.3, weight[network][0, rows],
            )  # fmt: skip
            for values, other in zip(message, expected, strict=True):
                np.testing.assert_allclose(values[network][k, rows], other, rtol=1e-9)


@pytest.mark.parametrize("noise_var", [1e-2, 0.5, 50.0])
@pytest.mark.parametrize("own", [0.0, 0.1])
def test_weight_k_equals_k_copies(noise_var, own):
    """In what rows say of the outputs, and of the noise."""
    parts = random_outputs(5, 2, seed=11, own=own)
    copies = np.array([1, 3, 2, 1, 5])
    owner = np.repeat(np.arange(5), copies)
    weight = copies[None].astype(float)
    weighted = joint_message(*parts, noise_var, weight)
    repeated = joint_message(*copies_of(parts, owner), noise_var)
    weighted = (*weighted, noise_moment(weighted, noise_var, weight))
    repeated = (*repeated, noise_moment(repeated, noise_var, np.ones((1, len(owner)))))
    for one, many in zip(weighted, repeated, strict=True):
        summed = np.zeros_like(one)
        np.add.at(summed, (slice(None), owner), many)
        np.testing.assert_allclose(summed, one, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("noise_var", [1e-12, 1e-6])
@pytest.mark.parametrize("n_copies", [2, 40])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("own", [0.0, 0.01])
def test_duplicates_with_hardly_any_noise_are_safe(dtype, noise_var, n_copies, scale, own):
    parts = random_outputs(5, 1, seed=13, dtype=dtype, own=own)
    owner = np.tile(np.arange(5), n_copies)
    mu_z, shared, rest, y = copies_of(parts, owner)
    shared, rest = shared * dtype(scale), rest * dtype(scale)
    message = joint_message(mu_z, shared, rest, y, dtype(noise_var), np.ones_like(y))
    for values in message:
        assert np.all(np.isfinite(values))
    nu, kappa, leverage = message
    assert np.all(kappa >= 0)
    assert np.all((leverage >= 0) & (leverage <= 1))
    # Copies share what is said about their row: as much as one row could say (to rounding, which
    # here is all the noise there is), not as much as each of them could.
    for values in (kappa * variances(shared), leverage):
        summed = np.zeros(5)
        np.add.at(summed, owner, values[0].astype(float))
        assert np.all(summed < 1.5)
    # The outputs go where one row of that weight would take them.
    total = (shared + rest)[0].astype(float)
    reached = mu_z[0] + total @ nu[0]
    gain = total[:5, :5] @ np.linalg.inv(total[:5, :5] + noise_var / n_copies * np.eye(5))
    expected = (mu_z[0, :5] + gain @ (y - mu_z)[0, :5])[owner]
    assert np.abs(reached - expected).max() < 0.02 * np.abs(mu_z - y).max()


@pytest.mark.parametrize("uncertain", [False, True])
def test_all_rows_at_once_without_hidden_layers_give_the_mean_of_exact_conditioning(uncertain):
    """The weights w ~ N(mu, S) given y = x w + errors + noise, errors those of the inputs."""
    rng = np.random.default_rng(14)
    x, y, noise_var = with_ones(rng.normal(size=(40, 3))), rng.normal(size=(40, 2)), 0.2
    weight = rng.uniform(0.2, 3, size=40)
    var_x = rng.uniform(0.1, 1, size=(40, 3)) if uncertain else None
    layers = random_layers([3, 2], seed=15)
    prior = copy_layers(layers)[0]
    mu_z, var_z, tape = forward(
        layers, ACTIVATIONS["identity"], x.T, var_x.T if uncertain else None
    )
    shared, own = covariance_of(layers, tape, var_z)
    message = joint_message(mu_z, shared, own, y.T, noise_var, weight[None])
    backward(layers, tape, message.nu, message.kappa)
    for o in range(2):
        noise = noise_var / weight
        if uncertain:
            noise = noise + var_x @ (prior.mu[:-1, o] ** 2 + prior.var[:-1, o])
        precision = np.diag(1 / prior.var[:, o]) + x.T @ (x / noise[:, None])
        information = prior.mu[:, o] / prior.var[:, o] + x.T @ (y[:, o] / noise)
        expected = np.linalg.solve(precision, information)
        np.testing.assert_allclose(layers[0].mu[:, o], expected, rtol=1e-8, atol=1e-10)
        # Variances of the diagonal form shrink, but never below those of the exact posterior.
        exact = np.diag(np.linalg.inv(precision))
        assert np.all(layers[0].var[:, o] < prior.var[:, o])
        assert np.all(layers[0].var[:, o] > exact)


# ------------------------------------------------------------------------- factors of covariances


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_that_are_not_positive_definite_get_as_much_more_as_it_takes(dtype):
    """Each its own; the others of a stack stay as they are."""
    rng = np.random.default_rng(11)
    n = 12
    factor = rng.normal(size=(3, 2, n, n)).astype(dtype)
    cov = factor @ factor.swapaxes(-1, -2)
    bad = np.array([[True, False], [False, False], [False, True]])
    size = np.einsum("...ii->...", cov)
    values, vectors = np.linalg.eigh(cov[bad])
    values[:, 0] = -1e-4 * size[bad]
    cov[bad] = (vectors * values[:, None, :]) @ vectors.swapaxes(-1, -2)
    cov = (cov + cov.swapaxes(-1, -2)) / 2
    noise = np.full((3, 2, 1), 1e-3, dtype)
    rounding = np.finfo(dtype).eps * size[..., None].astype(dtype)
    least = noise + rounding
    root, jitter = _inverse_root(cov.copy(), variances(cov), noise, rounding, np.empty_like(cov))
    np.testing.assert_array_equal(jitter[~bad], least[~bad])
    assert np.all(jitter[bad] > 1e-4 * size[bad][:, None])
    total = cov + jitter[..., None] * np.eye(n, dtype=dtype)
    product = root.swapaxes(-1, -2) @ total @ root
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(n), product.shape), atol=2e-2)


def test_a_matrix_that_is_not_finite_ends_the_search():
    cov = np.full((1, 3, 3), np.nan)
    root, _ = _inverse_root(cov, cov[:, 0], np.ones((1, 1)), np.ones((1, 1)), np.empty_like(cov))
    assert np.isnan(root).any()


# --------------------------------------------------------------------- a noise for each observation


@pytest.mark.parametrize("size", [1e-3, 0.5, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("own", [0.0, 0.1])
@pytest.mark.parametrize("jointly", [False, True])
def test_observations_with_noise_of_their_own_are_conditioned_on_exactly(
    size, weighted, own, jointly
):
    """Sigma_Y = K + diag(noise), where each row and output has a noise variance of its own."""
    mu_z, shared, rest, y = random_outputs(9, 3, seed=25, own=own)
    rng = np.random.default_rng(26)
    noise = size * 10 ** rng.uniform(-1, 1, size=(3, 9))
    weight = rng.uniform(0.1, 5, size=(1, 9)) if weighted else np.ones((1, 9))
    if jointly:
        message = joint_message(mu_z, shared, rest, y, noise, weight if weighted else None)
    else:
        shared, rest = (cov * np.eye(9) for cov in (shared, rest))
        var_z = variances(shared + rest)
        message = independent_message(mu_z, var_z, y, noise, weight if weighted else None)
    for o in range(3):
        expected = dense_message(mu_z[o], shared[o], rest[o], y[o], noise[o], weight[0])
        for values, other in zip(message, expected, strict=True):
            np.testing.assert_allclose(values[o], other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("members", [None, 2])
@pytest.mark.parametrize("jointly", [False, True])
def test_noise_times_r_equals_weight_over_r(members, jointly):
    mu_z, shared, own, y = random_outputs(8, 2, seed=27, members=members)
    ratio = 10 ** np.random.default_rng(28).uniform(-1, 1, size=mu_z.shape)
    if jointly:
        by_noise = joint_message(mu_z, shared, own, y, 0.3 * ratio)
        by_weight = joint_message(mu_z, shared, own, y, 0.3, 1 / ratio)
    else:
        var_z = variances(shared + own)
        by_noise = independent_message(mu_z, var_z, y, 0.3 * ratio)
        by_weight = independent_message(mu_z, var_z, y, 0.3, 1 / ratio)
    for values, other in zip(by_noise, by_weight, strict=True):
        np.testing.assert_allclose(values, other, rtol=1e-10)
