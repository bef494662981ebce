"""Messages of the observation model: one row, a batch at once, weights, and the noise itself."""

import numpy as np
import pytest
from helpers import (
    DTYPES,
    as_matrices,
    as_own,
    copy_layers,
    joint_message,
    random_layers,
    rtol,
    with_ones,
)

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.batch import hidden_covariance, output_covariance
from sktagi.engine.network import backward, forward
from sktagi.engine.noise import (
    GaussianOutputs,
    _inverse_root,
    independent_message,
    noise_moment,
)
from sktagi.engine.noise import joint_message as engine_joint_message


def random_outputs(n_rows, n_outputs=1, seed=0, members=None, dtype=np.float64, own=0.1):
    """mu_z, shared, own and y of a batch; both parts of the covariance have full rank."""
    rng = np.random.default_rng(seed)
    lead = () if members is None else (members,)
    shape = (*lead, n_rows, n_outputs)

    def covariance(size):
        root = rng.normal(size=(*lead, n_outputs, n_rows, n_rows + 2)) + 0.7
        cov = root @ root.swapaxes(-1, -2) / n_rows
        std = np.sqrt(rng.uniform(0.2, 3, size=(*lead, n_outputs, n_rows)))
        return size * cov * std[..., :, None] * std[..., None, :]

    parts = rng.normal(size=shape), covariance(1.0), covariance(own), rng.normal(size=shape)
    return tuple(part.astype(dtype) for part in parts)


def variances(cov):
    """(..., rows, observations), as messages are."""
    return np.einsum("...ii->...i", cov).swapaxes(-1, -2)


def dense_message(mu_z, shared, own, y, noise_var, weight):
    """nu, kappa and leverage of one column of observations, all of them observed."""
    noise = noise_var / weight
    inverse = np.linalg.inv(shared + own + np.diag(noise))
    kappa = np.diag(shared @ inverse) / np.diag(shared)
    return inverse @ (y - mu_z), np.maximum(kappa, 0), 1 - noise * np.diag(inverse)


def copies_of(parts, owner):
    """The batch in which row ``owner[i]`` stands at i."""
    mu_z, shared, own, y = parts
    pick = (..., owner[:, None], owner)
    return mu_z[owner], shared[pick], own[pick], y[owner]


# -------------------------------------------------------------------------------------- one row


@pytest.mark.parametrize("noise_var", [1e-12, 1e-6, 1e-2, 1.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize("weight", [1.0, 0.2, 7.0])
@pytest.mark.parametrize("own", [0.0, 0.01, 10.0])
def test_one_row_jointly_is_one_row_alone(noise_var, weight, own):
    mu_z, shared, rest, y = random_outputs(1, 4, seed=1, own=own)
    joint = joint_message(mu_z, shared, rest, y, noise_var, weight)
    alone = independent_message(mu_z, variances(shared + rest), y, noise_var, weight)
    np.testing.assert_allclose(joint.nu, alone.nu, rtol=1e-12)
    np.testing.assert_allclose(joint.kappa, alone.kappa, rtol=1e-12)
    np.testing.assert_allclose(joint.leverage, alone.leverage, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("noise_var", [1e-12, 1e-6, 1e-2, 1.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.parametrize("uncertain", [False, True])
def test_one_row_of_a_network_jointly_is_one_row_alone(noise_var, hidden, uncertain):
    rng = np.random.default_rng(2)
    x, y = with_ones(rng.normal(size=(1, 3))), rng.normal(size=(1, 2))
    var_x = rng.uniform(0.1, 1, size=(1, 3)) if uncertain else None
    layers = random_layers([3, *hidden, 2], seed=3)
    mu_z, var_z, tape = forward(layers, ACTIVATIONS["tanh"], x, var_x)
    shared, own = output_covariance(layers, tape, hidden_covariance(layers, tape), var_z)
    joint = joint_message(mu_z, shared, as_matrices(own), y, noise_var, 1.0)
    alone = independent_message(mu_z, var_z, y, noise_var, 1.0)
    np.testing.assert_allclose(joint.nu, alone.nu, rtol=1e-12)
    np.testing.assert_allclose(joint.kappa, alone.kappa, rtol=1e-12)
    np.testing.assert_allclose(joint.leverage, alone.leverage, rtol=1e-12, atol=1e-15)


def test_message_of_one_row_is_conditioning_divided_by_the_prior_variance():
    mu_z, shared, _, y = random_outputs(1, 3, seed=2)
    var_z, noise_var = variances(shared), 0.3
    nu, kappa, leverage = independent_message(mu_z, var_z, y, noise_var, 1.0)
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
    weight = rng.uniform(0.1, 5, size=(9, 1)) if weighted else np.ones((9, 1))
    noise = noise_var * np.array([1.0, 2.0, 0.5])
    message = joint_message(mu_z, shared, rest, y, noise, weight)
    for o in range(3):
        expected = dense_message(mu_z[:, o], shared[o], rest[o], y[:, o], noise[o], weight[:, 0])
        for values, other in zip(message, expected, strict=True):
            np.testing.assert_allclose(values[:, o], other, rtol=1e-9, atol=1e-11)


def test_joint_message_does_not_depend_on_the_order_in_memory():
    mu_z, shared, own, y = random_outputs(9, 3, seed=3, members=2)
    expected = joint_message(mu_z, shared, own, y, 0.1, None)
    reversed_axes = shared.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    message = engine_joint_message(mu_z, reversed_axes, as_own(own), y, np.array(0.1))
    for values, other in zip(message, expected, strict=True):
        np.testing.assert_allclose(values, other, rtol=1e-12)


def test_joint_message_of_uncorrelated_rows_is_that_of_each_alone():
    rng = np.random.default_rng(5)
    mu_z, y = rng.normal(size=(2, 6, 2))
    shared, own = (np.eye(6) * rng.uniform(0.2, 3, size=(2, 1, 6)) for _ in range(2))
    weight = rng.uniform(0.5, 2, size=(6, 1))
    joint = joint_message(mu_z, shared, own, y, 0.4, weight)
    alone = independent_message(mu_z, variances(shared + own), y, 0.4, weight)
    for a, b in zip(joint, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("own", [0.0, 0.1])
def test_less_of_a_row_is_learnt_the_more_of_its_variance_is_its_own(own):
    """Errors of inputs add to a row's own variance; then it tells less of what rows share."""
    mu_z, shared, rest, y = random_outputs(9, 1, seed=23, own=own)
    before = joint_message(mu_z, shared, rest, y, 0.3, 1.0).kappa
    for errors in (0.01, 0.1, 1.0, 10.0):
        kappa = joint_message(mu_z, shared, rest + errors * np.eye(9), y, 0.3, 1.0).kappa
        assert np.all(kappa < before)
        before = kappa


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("own", [0.0, 0.1])
def test_joint_message_keeps_dtype_and_agrees_in_single_precision(dtype, own):
    parts = random_outputs(12, 2, seed=7, dtype=dtype, own=own)
    message = joint_message(*parts, dtype(0.3), np.ones((12, 1), dtype))
    expected = joint_message(*(p.astype(float) for p in parts), 0.3, np.ones((12, 1)))
    for values, other in zip(message, expected, strict=True):
        assert values.dtype == dtype
        np.testing.assert_allclose(values, other, rtol=rtol(dtype), atol=rtol(dtype))


@pytest.mark.parametrize("some_unobserved", [False, True])
def test_networks_side_by_side_equal_each_alone(some_unobserved):
    parts = random_outputs(7, 2, seed=8, members=3)
    rng = np.random.default_rng(9)
    weight = rng.uniform(0.5, 2, size=(3, 7, 2))
    if some_unobserved:
        weight[rng.random(weight.shape) < 0.4] = 0
        weight[1, :, 0] = 0  # an output that nobody observes
    noise_var = rng.uniform(0.1, 1, size=(3, 1, 2))
    message = joint_message(*parts, noise_var, weight)
    for m in range(3):
        expected = joint_message(*(part[m] for part in parts), noise_var[m], weight[m])
        for values, other in zip(message, expected, strict=True):
            np.testing.assert_allclose(values[m], other, rtol=1e-12)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_without_weight_is_a_row_left_out(joint):
    mu_z, shared, own, y = random_outputs(8, 2, seed=10)
    weight = np.array([1, 0, 2, 0.5, 0, 1, 1, 3.0])[:, None] * np.ones((1, 2))
    weight[2, 0] = 0  # this row observes its second output only
    y = np.where(weight > 0, y, 1e30)
    if joint:
        message = joint_message(mu_z, shared, own, y, 0.3, weight)
    else:
        message = independent_message(mu_z, variances(shared + own), y, 0.3, weight)
    for o in range(2):
        seen = np.flatnonzero(weight[:, o])
        unseen = np.flatnonzero(weight[:, o] == 0)
        assert len(unseen) > 1
        block = np.ix_(seen, seen)
        parts = shared[o][block], own[o][block]
        if not joint:
            parts = tuple(np.diag(np.diag(part)) for part in parts)
        expected = dense_message(mu_z[seen, o], *parts, y[seen, o], 0.3, weight[seen, o])
        for values, other in zip(message, expected, strict=True):
            assert np.all(values[unseen, o] == 0)
            np.testing.assert_allclose(values[seen, o], other, rtol=1e-9)


@pytest.mark.parametrize("members", [None, 2])
def test_rows_that_observe_different_outputs_do_not_meet(members):
    """Each output has a Sigma_y of its own, over the rows that observe it."""
    mu_z, shared, own, y = random_outputs(10, 2, seed=21, members=members)
    rng = np.random.default_rng(22)
    outputs = rng.integers([0, 3], [3, 6], size=mu_z.shape)
    node = outputs.swapaxes(-1, -2)
    together = node[..., :, None] == node[..., None, :]
    weight = rng.uniform(0.3, 2, size=(*mu_z.shape[:-1], 1))
    message = joint_message(mu_z, shared * together, own * together, y, 0.3, weight)
    for network in np.ndindex(mu_z.shape[:-2]):
        for k, output in np.ndindex(2, 6):
            rows = np.flatnonzero(outputs[network][:, k] == output)
            if len(rows) == 0:
                continue
            block = np.ix_(rows, rows)
            expected = dense_message(
                mu_z[network][rows, k], shared[network][k][block], own[network][k][block],
                y[network][rows, k], 0.3, weight[network][rows, 0],
            )  # fmt: skip
            for values, other in zip(message, expected, strict=True):
                np.testing.assert_allclose(values[network][rows, k], other, rtol=1e-9)


@pytest.mark.parametrize("noise_var", [1e-2, 0.5, 50.0])
@pytest.mark.parametrize("own", [0.0, 0.1])
def test_weight_k_equals_k_copies(noise_var, own):
    """In what rows say of the outputs, and of the noise."""
    parts = random_outputs(5, 2, seed=11, own=own)
    copies = np.array([1, 3, 2, 1, 5])
    owner = np.repeat(np.arange(5), copies)
    weight = copies[:, None].astype(float)
    weighted = joint_message(*parts, noise_var, weight)
    repeated = joint_message(*copies_of(parts, owner), noise_var, 1.0)
    weighted = (*weighted, noise_moment(weighted, noise_var, weight))
    repeated = (*repeated, noise_moment(repeated, noise_var, np.ones((len(owner), 1))))
    for one, many in zip(weighted, repeated, strict=True):
        summed = np.zeros_like(one)
        np.add.at(summed, owner, many)
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
        np.add.at(summed, owner, values[:, 0].astype(float))
        assert np.all(summed < 1.5)
    # The outputs go where one row of that weight would take them.
    total = (shared + rest)[0].astype(float)
    reached = mu_z + total @ nu
    gain = total[:5, :5] @ np.linalg.inv(total[:5, :5] + noise_var / n_copies * np.eye(5))
    expected = (mu_z[:5] + gain @ (y - mu_z)[:5])[owner]
    assert np.abs(reached - expected).max() < 0.02 * np.abs(mu_z - y).max()


@pytest.mark.parametrize("uncertain", [False, True])
def test_all_rows_at_once_without_hidden_layers_give_the_mean_of_exact_conditioning(uncertain):
    """The weights w ~ N(mu, S) given y = x w + errors + noise, errors those of the inputs."""
    rng = np.random.default_rng(14)
    x, y, noise_var = with_ones(rng.normal(size=(40, 3))), rng.normal(size=(40, 2)), 0.2
    weight = rng.uniform(0.2, 3, size=(40, 1))
    var_x = rng.uniform(0.1, 1, size=(40, 3)) if uncertain else None
    layers = random_layers([3, 2], seed=15)
    prior = copy_layers(layers)[0]
    mu_z, var_z, tape = forward(layers, ACTIVATIONS["identity"], x, var_x)
    shared, own = output_covariance(layers, tape, hidden_covariance(layers, tape), var_z)
    message = joint_message(mu_z, shared, as_matrices(own), y, noise_var, weight)
    backward(layers, tape, message.nu, message.kappa)
    for o in range(2):
        noise = noise_var / weight[:, 0]
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


# ------------------------------------------------------------------------------------- the noise


@pytest.mark.parametrize("own", [0.0, 0.1])
def test_noise_moment_is_the_expected_square_of_the_noise(own):
    """E[v^2 | y] from conditioning the dense joint Gaussian of (v, y)."""
    mu_z, shared, rest, y = random_outputs(8, 1, seed=16, own=own)
    rng = np.random.default_rng(17)
    noise_var, weight = 0.4, rng.uniform(0.3, 3, size=(8, 1))
    cov_v = np.diag(noise_var / weight[:, 0])
    gain = cov_v @ np.linalg.inv((shared + rest)[0] + cov_v)
    mean, cov = gain @ (y - mu_z)[:, 0], cov_v - gain @ cov_v
    expected = weight[:, 0] * (mean**2 + np.diag(cov))
    message = joint_message(mu_z, shared, rest, y, noise_var, weight)
    moment = noise_moment(message, noise_var, weight)
    np.testing.assert_allclose(moment[:, 0], expected, rtol=1e-9)


def test_noise_moment_of_a_row_alone_is_the_expected_square_of_its_noise():
    mu_z, shared, _, y = random_outputs(8, 2, seed=24)
    var_z = variances(shared)
    noise_var, weight = np.array([0.4, 3.0]), np.linspace(0.3, 3, 8)[:, None]
    noise = noise_var / weight
    mean = noise / (noise + var_z) * (y - mu_z)
    expected = weight * (mean**2 + noise - noise**2 / (noise + var_z))
    message = independent_message(mu_z, var_z, y, noise_var, weight)
    np.testing.assert_allclose(noise_moment(message, noise_var, weight), expected, rtol=1e-12)


def test_noise_moment_of_large_targets_does_not_overflow_in_single_precision():
    one = np.ones((1, 1), np.float32)
    message = independent_message(one, one, 1e25 * one, np.float32(1), one)
    moment = noise_moment(message, np.float32(1), one)
    np.testing.assert_allclose(moment, 0.25e50, rtol=1e-5)


def test_noise_moment_of_an_unobserved_row_is_zero():
    mu_z, shared, own, y = random_outputs(4, 1, seed=18)
    weight = np.array([1.0, 0, 1, 0])[:, None]
    for message in (
        joint_message(mu_z, shared, own, y, 0.4, weight),
        independent_message(mu_z, variances(shared), y, 0.4, weight),
    ):
        moment = noise_moment(message, 0.4, weight)
        assert np.all(moment[weight == 0] == 0)
        assert np.all(moment[weight > 0] > 0)


def test_the_true_noise_is_a_fixed_point_of_the_expected_square():
    """Averaged over targets drawn from the model, E[v^2 | y] is the noise variance itself."""
    mu_z, shared, own, _ = random_outputs(6, 1, seed=19)
    noise_var, n_draws = 0.7, 4000
    root = np.linalg.cholesky((shared + own)[0] + noise_var * np.eye(6))
    draws = np.random.default_rng(20).normal(size=(n_draws, 6, 1))
    y = mu_z + root @ draws
    mu, *cov = (np.broadcast_to(part, (n_draws, *part.shape)) for part in (mu_z, shared, own))
    moment = noise_moment(joint_message(mu, *cov, y, noise_var, 1.0), noise_var, 1.0)
    per_draw = moment.mean(axis=(1, 2))
    assert abs(per_draw.mean() - noise_var) < 5 * per_draw.std() / np.sqrt(n_draws)


def test_every_regression_target_is_observed():
    y = np.arange(6.0).reshape(3, 2)
    targets, observed = GaussianOutputs(2).targets(y)
    np.testing.assert_array_equal(targets, y)
    assert observed is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_what_copies_share_gives_the_diagonal_of_a_product_of_whole_matrices(dtype, share):
    rng = np.random.default_rng(0)
    few, root = rng.normal(size=(2, 3, 4, 5, 5)).astype(dtype)
    few *= (rng.uniform(size=few.shape) < share) | np.eye(5, dtype=bool)
    precision = np.einsum("...ij,...ij->...i", root, root)
    expected = np.einsum("...ij,...jk,...ik->...i", few, root, root)
    result = as_own(few).diagonal_of_product(root, precision)
    np.testing.assert_allclose(result, expected, rtol=rtol(dtype), atol=rtol(dtype))
    assert result.dtype == dtype


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
    root, jitter = _inverse_root(
        cov.copy(), variances(cov).swapaxes(-1, -2), noise, rounding, np.empty_like(cov)
    )
    np.testing.assert_array_equal(jitter[~bad], least[~bad])
    assert np.all(jitter[bad] > 1e-4 * size[bad][:, None])
    total = cov + jitter[..., None] * np.eye(n, dtype=dtype)
    product = root.swapaxes(-1, -2) @ total @ root
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(n), product.shape), atol=2e-2)


def test_a_matrix_that_is_not_finite_ends_the_search():
    cov = np.full((1, 3, 3), np.nan)
    root, _ = _inverse_root(cov, cov[:, 0], np.ones((1, 1)), np.ones((1, 1)), np.empty_like(cov))
    assert np.isnan(root).any()
