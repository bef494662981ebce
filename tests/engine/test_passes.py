"""Forward and backward pass against the paper's equations, transcribed and in dense form."""

import tracemalloc
from functools import partial

import numpy as np
import oracle
import pytest
from helpers import (
    DTYPES,
    LINEARISED,
    activate,
    columns,
    copy_layers,
    member,
    random_layers,
    rtol,
    with_ones,
)
from scipy import sparse

from sktagi.engine import passes
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.messages import independent
from sktagi.engine.passes import Tape, backward, forward
from sktagi.engine.posterior import Layer
from sktagi.engine.tree import ClassTree

HIDDEN = [(), (4,), (3, 4)]


def passed(layers, activation, x, var_x=None):
    """Moments and tape of rows ``x``, which are rows first, as ``var_x`` is."""
    var_x = None if var_x is None else columns(var_x)
    return forward(layers, ACTIVATIONS[activation], columns(x), var_x)


def learn(layers, activation, x, y, noise_var, weight=None, var_x=None):
    """What rows, all rows first, teach by the sum of what each would teach alone."""
    mu_z, var_z, tape = passed(layers, activation, x, var_x)
    weight = None if weight is None else columns(weight)
    message = independent(mu_z, var_z, (columns(y), noise_var), weight)
    backward(layers, tape, message.nu, message.kappa)


def assert_layers_equal(layers, expected, rtol=1e-10):
    for layer, other in zip(layers, expected, strict=True):
        if isinstance(other, oracle.OracleLayer):
            mu, var = oracle.to_lists(other)
        else:
            mu, var = other.mu, other.var
        np.testing.assert_allclose(layer.mu, mu, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(layer.var, var, rtol=rtol)


def to_oracle(layers):
    return [oracle.from_arrays(layer.mu, layer.var) for layer in layers]


# ------------------------------------------------------------------------- the naive transcription


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("uncertain", [False, True])
def test_moments_of_the_outputs_are_those_of_the_paper(hidden, n_outputs, activation, uncertain):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 3))
    x_std = rng.uniform(0.1, 1, size=x.shape) if uncertain else None
    layers = random_layers([3, *hidden, n_outputs], seed=2)
    var_x = x_std**2 if uncertain else None
    mu_z, var_z, _ = passed(layers, activation, with_ones(x), var_x)
    for n in range(len(x)):
        record = oracle.forward_row(
            to_oracle(layers), activation, x[n], x_std[n] if uncertain else None
        )
        np.testing.assert_allclose(mu_z[:, n], record.mu_z[-1], rtol=1e-10)
        np.testing.assert_allclose(var_z[:, n], record.var_z[-1], rtol=1e-10)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("uncertain", [False, True])
def test_rows_one_at_a_time_are_learned_as_in_the_paper(hidden, n_outputs, activation, uncertain):
    rng = np.random.default_rng(3)
    sigma_v = 0.4
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, n_outputs))
    x_std = rng.uniform(0.1, 0.6, size=x.shape)
    layers = random_layers([3, *hidden, n_outputs], seed=4)
    expected = to_oracle(layers)
    for _ in range(3):
        for n in range(len(x)):
            row = slice(n, n + 1)
            var_x = x_std[row] ** 2 if uncertain else None
            learn(layers, activation, with_ones(x[row]), y[row], sigma_v**2, var_x=var_x)
            expected = oracle.learn_row(
                expected, activation, x[n], y[n], sigma_v, x_std[n] if uncertain else None
            )
    assert_layers_equal(layers, expected)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_nodes_off_the_path_of_a_class_teach_nothing(hidden):
    rng = np.random.default_rng(5)
    sigma_v, n_classes = 0.3, 5
    tree = ClassTree(n_classes)
    x, labels = rng.normal(size=(10, 3)), rng.integers(n_classes, size=10)
    layers = random_layers([3, *hidden, tree.n_outputs], seed=6)
    expected = to_oracle(layers)
    for n in range(len(x)):
        target, mask = oracle.class_target(n_classes, labels[n])
        y, observed = np.array([target], dtype=float), np.array([mask])
        learn(layers, "tanh", with_ones(x[n : n + 1]), y, sigma_v**2, weight=observed)
        expected = oracle.learn_row(expected, "tanh", x[n], target, sigma_v, observed=mask)
    assert_layers_equal(layers, expected)


# ---------------------------------------------------------------------------- dense conditioning


def posterior_of_linear_model(mu, var, x, y, noise_var):
    """Mean and covariance of w | y for y = x'w + v and w ~ N(mu, diag(var)), one row (Eq. 13)."""
    cov = np.diag(var)
    cov_wy = cov @ x
    var_y = x @ cov @ x + noise_var
    return mu + cov_wy * (y - x @ mu) / var_y, cov - np.outer(cov_wy, cov_wy) / var_y


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("noise_var", [1e-6, 0.1, 10.0])
def test_one_row_without_hidden_layers_is_exact_bayesian_regression(n_outputs, noise_var):
    rng = np.random.default_rng(7)
    x, y = with_ones(rng.normal(size=4)), rng.normal(size=n_outputs)
    (layer,) = random_layers([4, n_outputs], seed=8)
    before = copy_layers([layer])[0]
    learn([layer], "identity", x[None], y[None], noise_var)
    for o in range(n_outputs):
        mean, cov = posterior_of_linear_model(before.mu[:, o], before.var[:, o], x, y[o], noise_var)
        np.testing.assert_allclose(layer.mu[:, o], mean, rtol=1e-10)
        np.testing.assert_allclose(layer.var[:, o], np.diag(cov), rtol=1e-8)


def dense_layerwise_inference(layers, activation, x, var_x, y, noise_var):
    """Eq. 14-16 with dense matrices: product terms, F matrices and inverses, no shortcuts.

    theta holds the weights unit by unit, then the biases. The only assumption taken from the
    diagonal form is that covariances of theta and of z are cut to their diagonals.
    """
    phi = partial(activate, activation)
    mu_z, cov_z, mu_a, cov_a, cov_az = None, np.diag(var_x), x, np.diag(var_x), None
    stored = []
    for j, layer in enumerate(layers):
        if j > 0:
            mu_a, _, jac = phi(mu_z, np.diag(cov_z).copy())
            cov_a = np.diag(jac) @ cov_z @ np.diag(jac)
            cov_az = np.diag(jac) @ cov_z
        n_in, n_out = len(layer.mu) - 1, layer.mu.shape[1]
        mu_w = layer.mu[:-1].T.ravel()  # w_11, w_12, ..., w_21, ...
        cov_theta = np.diag(np.concatenate([layer.var[:-1].T.ravel(), layer.var[-1]]))
        unit = np.tile(np.arange(n_in), n_out)  # the activation unit of each product term
        f_wa = np.kron(np.eye(n_out), np.ones((1, n_in)))
        f_b = np.eye(n_out)
        n_w = n_in * n_out
        cov_w, cov_b = cov_theta[:n_w, :n_w], cov_theta[n_w:, n_w:]
        # Eq. 3, 5 and 4 for W A, with W independent of A
        mu_wa = mu_w * mu_a[unit]
        cov_aa = cov_a[np.ix_(unit, unit)]
        cov_wa = (
            cov_w * cov_aa
            + cov_w * np.outer(mu_a[unit], mu_a[unit])
            + cov_aa * np.outer(mu_w, mu_w)
        )
        cov_wa_theta = mu_a[unit][:, None] * cov_theta[:n_w]
        mu_next = f_wa @ mu_wa + f_b @ layer.mu[-1]
        cov_next = np.diag(np.diag(f_wa @ cov_wa @ f_wa.T + f_b @ cov_b @ f_b.T))
        cov_next_theta = f_wa @ cov_wa_theta + f_b @ cov_theta[n_w:]
        cov_next_z = None
        if j > 0:
            cov_next_z = f_wa @ (mu_w[:, None] * cov_az[unit])
        stored.append((mu_z, cov_z, mu_next, cov_next, cov_theta, cov_next_theta, cov_next_z))
        mu_z, cov_z = mu_next, cov_next
    # Eq. 14
    gain = cov_z @ np.linalg.inv(cov_z + noise_var * np.eye(len(y)))
    mu_post, cov_post = mu_z + gain @ (y - mu_z), cov_z - gain @ cov_z
    posterior = []
    for layer, parts in zip(reversed(layers), reversed(stored), strict=True):
        mu_z, cov_z, mu_next, cov_next, cov_theta, cov_next_theta, cov_next_z = parts
        theta = np.concatenate([layer.mu[:-1].T.ravel(), layer.mu[-1]])
        gain = cov_next_theta.T @ np.linalg.inv(cov_next)  # Eq. 16
        theta_post = theta + gain @ (mu_post - mu_next)
        var_post = np.diag(cov_theta + gain @ (cov_post - cov_next) @ gain.T)
        posterior.append((theta_post, var_post))
        if cov_next_z is not None:  # Eq. 15
            gain = cov_next_z.T @ np.linalg.inv(cov_next)
            mu_post, cov_post = (
                mu_z + gain @ (mu_post - mu_next),
                np.diag(np.diag(cov_z + gain @ (cov_post - cov_next) @ gain.T)),
            )
    return posterior[::-1]


@pytest.mark.parametrize("sizes", [[2, 1], [2, 3, 1], [2, 3, 2], [3, 2, 3, 2]])
@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_backward_pass_is_dense_conditioning_layer_by_layer(sizes, activation):
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=sizes[0]), rng.normal(size=sizes[-1])
    var_x = rng.uniform(0.01, 0.2, size=sizes[0])
    layers = random_layers(sizes, seed=10)
    expected = dense_layerwise_inference(copy_layers(layers), activation, x, var_x, y, 0.2)
    learn(layers, activation, with_ones(x)[None], y[None], 0.2, var_x=var_x[None])
    for layer, (theta, var) in zip(layers, expected, strict=True):
        mu = np.concatenate([layer.mu[:-1].T.ravel(), layer.mu[-1]])
        np.testing.assert_allclose(mu, theta, rtol=1e-10, atol=1e-12)
        got = np.concatenate([layer.var[:-1].T.ravel(), layer.var[-1]])
        np.testing.assert_allclose(got, var, rtol=1e-10)


@pytest.mark.parametrize("sizes", [[2, 1], [2, 4, 1], [2, 3, 4, 1]])
def test_one_output_learns_as_by_one_step_conditioning_of_all_parameters(sizes):
    """Eq. 13: cov(theta, y) is the prior variance times the gradient of the mean output."""
    rng = np.random.default_rng(11)
    x, y, noise_var = with_ones(rng.normal(size=2))[None], 1.7, 0.1
    layers = random_layers(sizes, seed=12)
    prior = copy_layers(layers)
    mu_z, var_z, _ = passed(layers, "tanh", x)
    learn(layers, "tanh", x, np.array([[y]]), noise_var)
    var_y = var_z[0, 0] + noise_var
    for j, (old, new) in enumerate(zip(prior, layers, strict=True)):
        cov = np.empty_like(old.mu)
        for index in np.ndindex(old.mu.shape):
            ends = []
            for step in (-1e-5, 1e-5):
                moved = copy_layers(prior)
                moved[j].mu[index] += step
                ends.append(passed(moved, "tanh", x)[0][0, 0])
            cov[index] = old.var[index] * (ends[1] - ends[0]) / 2e-5
        expected = old.mu + cov * (y - mu_z[0, 0]) / var_y
        np.testing.assert_allclose(new.mu, expected, rtol=1e-7, atol=1e-8)
        if len(sizes) <= 3:  # deeper, the diagonal form drops correlations of hidden units
            np.testing.assert_allclose(new.var, old.var - cov**2 / var_y, rtol=1e-7)


# ----------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("uncertain", [False, True])
def test_means_after_a_batch_are_moved_by_the_sum_of_its_rows(hidden, uncertain):
    rng = np.random.default_rng(13)
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    x_std = rng.uniform(0.1, 0.6, size=x.shape) if uncertain else None
    layers = random_layers([3, *hidden, 2], seed=14)
    total = oracle.sum_over_rows(to_oracle(layers), "relu", x, y, 0.5, x_std)
    var_x = x_std**2 if uncertain else None
    learn(layers, "relu", with_ones(x), y, 0.25, var_x=var_x)
    for layer, expected in zip(layers, total, strict=True):
        np.testing.assert_allclose(layer.mu, oracle.to_lists(expected)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("sigma_v", [0.5, 30.0])
def test_variances_after_a_batch_stay_positive_and_agree_to_first_order(hidden, sigma_v):
    rng = np.random.default_rng(15)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    layers = random_layers([3, *hidden, 2], seed=16)
    prior = copy_layers(layers)
    total = oracle.sum_over_rows(to_oracle(layers), "tanh", x, y, sigma_v)
    learn(layers, "tanh", with_ones(x), y, sigma_v**2)
    for old, new, summed in zip(prior, layers, total, strict=True):
        fraction = 1 - np.array(oracle.to_lists(summed)[1]) / old.var
        np.testing.assert_allclose(new.var, old.var / (1 + fraction), rtol=1e-10)
        assert np.all(new.var > 0)
        assert np.all(new.var < old.var)
        excess = new.var / old.var - (1 - fraction)
        assert np.all(excess >= -1e-13)
        assert np.all(excess <= fraction**2 * (1 + 1e-10) + 1e-13)


def test_a_message_of_zero_changes_nothing():
    layers = random_layers([3, 4, 2], seed=17)
    prior = copy_layers(layers)
    x = with_ones(np.random.default_rng(18).normal(size=(5, 3)))
    for rows in (x, x[:1]):
        _, _, tape = passed(layers, "relu", rows)
        backward(layers, tape, np.zeros((2, len(rows))), np.zeros((2, len(rows))))
        for layer, old in zip(layers, prior, strict=True):
            np.testing.assert_array_equal(layer.mu, old.mu)
            np.testing.assert_array_equal(layer.var, old.var)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_network_with_one_observed_row_among_others_learns_it_exactly(hidden):
    """Unobserved rows say nothing; the form of the variances is chosen for each network."""
    rng = np.random.default_rng(33)
    x, y = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 2))
    weight = np.array([[0, 0, 1, 0, 0], [1, 1, 0, 1, 1.0]])[..., None]
    layers = random_layers([3, *hidden, 2], seed=34, members=2)
    lone, several = (member(layers, m) for m in range(2))
    mu_z, var_z, tape = passed(layers, "tanh", with_ones(x))
    nu, kappa, _ = independent(mu_z, var_z, (columns(y), 0.04), columns(weight))
    backward(layers, tape, nu, kappa, np.array([True, False]).reshape(2, 1, 1))
    expected = oracle.learn_row(to_oracle(lone), "tanh", x[0, 2], y[0, 2], 0.2)
    assert_layers_equal(member(layers, 0), expected)
    learn(several, "tanh", with_ones(x[1, [0, 1, 3, 4]]), y[1, [0, 1, 3, 4]], 0.04)
    assert_layers_equal(member(layers, 1), several)


@pytest.mark.parametrize("n_rows", [1, 4])
def test_a_single_row_is_recognised_by_its_number_unless_told(n_rows):
    x = with_ones(np.random.default_rng(35).normal(size=(n_rows, 3)))
    by_number, told, denied = (random_layers([3, 2], seed=36) for _ in range(3))
    for layers, one_row in ((by_number, None), (told, True), (denied, False)):
        _, _, tape = passed(layers, "tanh", x)
        backward(layers, tape, np.ones((2, n_rows)), np.full((2, n_rows), 0.1), one_row)
    assert_layers_equal(by_number, told if n_rows == 1 else denied, 0)
    assert np.all(told[0].var < denied[0].var)  # 1 - F < 1 / (1 + F)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_single_row_of_extreme_leverage_leaves_the_variance_positive(dtype):
    """The share of variance that is lost may round to 1, or beyond."""
    for seed in range(20):
        (layer,) = random_layers([1, 1], seed=seed, dtype=dtype)
        for size in (1e3, 1e8, 3e9):
            x = np.array([[size, 1.0]], dtype)
            for _ in range(3):
                learn([layer], "identity", x, np.ones((1, 1), dtype), dtype(1e-12))
                assert np.all(layer.var > 0)
                assert np.all(np.isfinite(layer.mu))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_is_kept_by_forward_and_backward(dtype):
    rng = np.random.default_rng(20)
    layers = random_layers([3, 4, 2], seed=21, dtype=dtype)
    double = [
        Layer(*(part.astype(np.float64) for part in (layer.mu, layer.var, layer.var_prior)))
        for layer in layers
    ]
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    mu_z, var_z, _ = passed(layers, "tanh", with_ones(x, dtype))
    assert mu_z.dtype == var_z.dtype == dtype
    learn(layers, "tanh", with_ones(x, dtype), y.astype(dtype), dtype(0.3))
    assert all(layer.mu.dtype == layer.var.dtype == dtype for layer in layers)
    learn(double, "tanh", with_ones(x), y, 0.3)
    assert_layers_equal(layers, double, rtol(dtype))


# ------------------------------------------------------------------- leading axes and sparse input


def members_input(kind, rng, n_members, n_rows, n_in):
    """The same rows for every member, or rows of its own, dense or sparse; and as dense arrays."""
    x = with_ones(rng.normal(size=(n_members, n_rows, n_in)) * (rng.random(n_in) < 0.7))
    x[rng.random(x.shape) < 0.3] = 0
    x[..., -1] = 1
    if kind == "dense":
        return x, list(x)
    shared = x[0] if kind == "shared dense" else sparse.csr_array(x[0])
    return shared, [x[0]] * n_members


@pytest.mark.parametrize("kind", ["dense", "shared dense", "shared csr"])
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_rows", [1, 6])
@pytest.mark.parametrize("uncertain", [False, True])
def test_networks_side_by_side_equal_each_alone(kind, hidden, n_rows, uncertain):
    rng = np.random.default_rng(22)
    stacked = random_layers([5, *hidden, 2], seed=23, members=3)
    alone = [member(stacked, m) for m in range(3)]
    x, parts = members_input(kind, rng, 3, n_rows, 5)
    y = rng.normal(size=(3, n_rows, 2))
    var_x = rng.uniform(0.1, 0.3, size=(3, n_rows, 5)) if uncertain else None
    mu_z, var_z, tape = passed(stacked, "tanh", x, var_x)
    backward(stacked, tape, *independent(mu_z, var_z, (columns(y), 0.2))[:2])
    for m in range(3):
        part_var = var_x[m] if uncertain else None
        mu, var, tape = passed(alone[m], "tanh", parts[m], part_var)
        np.testing.assert_allclose(mu_z[m], mu, rtol=1e-10)
        np.testing.assert_allclose(var_z[m], var, rtol=1e-10)
        backward(alone[m], tape, *independent(mu, var, (columns(y[m]), 0.2))[:2])
        assert_layers_equal(member(stacked, m), alone[m])


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_sparse_input_equals_dense(container, hidden):
    rng = np.random.default_rng(24)
    x = with_ones(rng.normal(size=(9, 6)) * (rng.random((9, 6)) < 0.4))
    y = rng.normal(size=(9, 2))
    dense, by_sparse = (random_layers([6, *hidden, 2], seed=25) for _ in range(2))
    learn(dense, "relu", x, y, 0.3)
    learn(by_sparse, "relu", container(x), y, 0.3)
    assert_layers_equal(by_sparse, dense)


def test_two_leading_axes_are_networks_too():
    rng = np.random.default_rng(26)
    layers = random_layers([3, 4, 2], seed=27, members=(2 * 3))
    grid = [
        Layer(layer.mu.reshape(2, 3, *layer.mu.shape[1:]),
              layer.var.reshape(2, 3, *layer.var.shape[1:]), layer.var_prior)
        for layer in copy_layers(layers)
    ]  # fmt: skip
    x, y = with_ones(rng.normal(size=(5, 3))), rng.normal(size=(5, 2))
    learn(layers, "relu", x, y, 0.3)
    learn(grid, "relu", x, y, 0.3)
    for layer, other in zip(layers, grid, strict=True):
        np.testing.assert_allclose(other.mu.reshape(layer.mu.shape), layer.mu, rtol=1e-10)
        np.testing.assert_allclose(other.var.reshape(layer.var.shape), layer.var, rtol=1e-10)


# ------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("n_rows", [1, 5])
@pytest.mark.parametrize("retained_next", [None, 0.9])
def test_blocks_of_parameters_change_nothing(members, n_rows, retained_next, monkeypatch):
    rng = np.random.default_rng(40)
    lead = () if members is None else (members,)
    x = with_ones(rng.normal(size=(n_rows, 6)))
    x = np.broadcast_to(x, (*lead, *x.shape))
    nu = columns(rng.normal(size=(*lead, n_rows, 2)))
    kappa = columns(rng.uniform(0.01, 0.1, size=(*lead, n_rows, 2)))
    learned = []
    several = 25 * (members or 1)
    for parameters in (1 << 17, several, 1):
        monkeypatch.setattr(passes, "BLOCK_PARAMETERS", parameters)
        layers = random_layers([6, 7, 2], 41, members=members)
        tape = passed(layers, "relu", x)[2]
        backward(layers, tape, nu, kappa, retained_next=retained_next)
        learned.append(layers)
        if parameters == several:  # blocks of three of seven rows: the last is smaller
            assert tape.units[0].d_mu.shape[-2] == 3
    whole, *others = learned
    for blocks in others:
        for layer, other in zip(blocks, whole, strict=True):
            np.testing.assert_allclose(layer.mu, other.mu, rtol=1e-13)
            np.testing.assert_allclose(layer.var, other.var, rtol=1e-13)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_a_tape_that_is_used_again_gives_the_numbers_of_a_new_one(hidden, members, shared):
    """The squares of the means follow each update, for tapes of other batches too."""
    rng = np.random.default_rng(42)
    lead = () if members is None else (members,)
    kept, fresh = (random_layers([4, *hidden, 2], 43, members=members) for _ in range(2))
    tapes = {n_rows: Tape(kept, lead, n_rows) for n_rows in (1, 5)}
    if shared:
        tapes[5] = Tape(kept, lead, 5, tapes[1].weights)
    for n_rows in (5, 5, 5) if not shared else (5, 1, 5, 1):
        x = columns(with_ones(rng.normal(size=(*lead, n_rows, 4))))
        nu = rng.normal(size=(*lead, 2, n_rows))
        kappa = rng.uniform(0.01, 0.1, size=nu.shape)
        again = forward(kept, ACTIVATIONS["tanh"], x, tape=tapes[n_rows])
        new = forward(fresh, ACTIVATIONS["tanh"], x)
        for values, expected in zip(again[:2], new[:2], strict=True):
            np.testing.assert_array_equal(values, expected)
        for layers, (_, _, tape) in ((kept, again), (fresh, new)):
            backward(layers, tape, nu, kappa)
        assert_layers_equal(kept, fresh, 0)


@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tape_without_learning_gives_the_same_moments(members, uncertain, dtype):
    rng = np.random.default_rng(44)
    lead = () if members is None else (members,)
    layers = random_layers([4, 6, 5, 2], 45, members=members, dtype=dtype)
    predicting, learning = (Tape(layers, lead, 9, learning=flag) for flag in (False, True))
    for _ in range(3):
        x = columns(with_ones(rng.normal(size=(9, 4)), dtype))
        var_x = rng.uniform(0.1, 0.3, size=(4, 9)).astype(dtype) if uncertain else None
        moments = forward(layers, ACTIVATIONS["relu_exact"], x, var_x, predicting)[:2]
        expected = forward(layers, ACTIVATIONS["relu_exact"], x, var_x, learning)[:2]
        for values, other in zip(moments, expected, strict=True):
            np.testing.assert_array_equal(values, other)


def test_a_tape_without_learning_has_no_arrays_of_the_backward_pass():
    sizes, n_rows = [5, 30, 20, 2], 10_000
    layers = random_layers(sizes, 46)
    x = columns(with_ones(np.random.default_rng(47).normal(size=(n_rows, 5))))
    hidden, made = sum(sizes[1:-1]), sum(sizes[1:])
    # mu_z and var_z of all units, the part of var_z that comes from var_a, and of the hidden ones
    # mu_a and E[a^2], both with the bias, var_a and J
    forward_only = 2 * made + sum(sizes[2:]) + 2 * (hidden + 2) + 2 * hidden
    backward_too = forward_only + (hidden + 2) + 2 * hidden  # mu_a squared, nu and kappa
    squared_inputs = sizes[0] + 1
    for learning, elements in ((False, forward_only), (True, backward_too)):
        tracemalloc.start()
        try:
            tape = Tape(layers, (), n_rows, learning=learning)
            forward(layers, ACTIVATIONS["tanh"], x, tape=tape)
            allocated = tracemalloc.get_traced_memory()[0] / (8 * n_rows)
        finally:
            tracemalloc.stop()
        least = elements + squared_inputs
        # A tape for learning has the message to the outputs too.
        assert least <= allocated < least + (1 if not learning else 1 + 3 * sizes[-1])
