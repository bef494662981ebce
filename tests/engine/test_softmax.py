"""One output for each class: probabilities, their spread, sites, and one factor for all outputs."""

import numpy as np
import pytest
from helpers import DTYPES, make_network, rtol, with_ones
from scipy.special import softmax

from sktagi.engine.class_calibration import dirichlet_entropies
from sktagi.engine.covariance import Workspace, hidden_covariance
from sktagi.engine.learning import Learner, Settings
from sktagi.engine.messages import independent, joint_of_batch, joint_with_one_factor
from sktagi.engine.observations import Gaussian
from sktagi.engine.passes import Tape, forward
from sktagi.engine.rows import Rows, iterate_batches
from sktagi.engine.softmax import LOGISTIC, Softmax

COUNTS = [3, 5, 10]


def outputs(n_classes, n_rows, scale=0.5, var=0.1, seed=0):
    rng = np.random.default_rng(seed)
    shape = n_classes, n_rows
    return scale * rng.normal(size=shape), var * rng.uniform(0.3, 2, size=shape)


def draws(mu, var, alpha, n=40_000, seed=1):
    """Probabilities of Gaussian outputs, (n, classes, rows)."""
    z = mu + np.sqrt(var) * np.random.default_rng(seed).normal(size=(n, *mu.shape))
    return softmax(LOGISTIC / alpha * z, axis=1)


@pytest.mark.parametrize("n_classes", [3, 100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_probabilities_sum_to_one(n_classes, dtype):
    mu, var = (a.astype(dtype) for a in outputs(n_classes, 7))
    log_proba = Softmax(n_classes).log_proba(mu, var)
    assert log_proba.dtype == dtype
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=0), 1, rtol=rtol(dtype))


@pytest.mark.parametrize("n_classes", COUNTS)
@pytest.mark.parametrize("alpha", [1 / 3, 1.0])
def test_known_outputs_have_the_probabilities_of_a_softmax(n_classes, alpha):
    mu, _ = outputs(n_classes, 6)
    found = np.exp(Softmax(n_classes, alpha).log_proba(mu, np.zeros_like(mu)))
    np.testing.assert_allclose(found, softmax(LOGISTIC / alpha * mu, axis=0), rtol=1e-12)


@pytest.mark.parametrize("n_classes", COUNTS)
@pytest.mark.parametrize("var", [0.01, 0.1, 2.0])
def test_moments_of_probabilities_are_near_those_of_sampling(n_classes, var):
    """Both are approximations: their root mean square errors are bounded."""
    model = Softmax(n_classes)
    mu, var_z = outputs(n_classes, 40, var=var)
    sampled = draws(mu, var_z, model.probit_scale, n=10_000)
    proba, std = np.exp(model.log_proba(mu, var_z)), model.proba_std(mu, var_z)
    assert np.sqrt(np.mean((proba - sampled.mean(axis=0)) ** 2)) < 0.06
    assert std.mean() == pytest.approx(sampled.std(axis=0).mean(), rel=0.2)
    assert np.corrcoef(std.ravel(), sampled.std(axis=0).ravel())[0, 1] > 0.85


@pytest.mark.parametrize("n_classes", COUNTS)
def test_nearly_known_outputs_spread_probabilities_by_their_derivative(n_classes):
    model = Softmax(n_classes)
    mu, _ = outputs(n_classes, 1, scale=0.2)
    var, step = np.full_like(mu, 1e-7), 1e-6
    slopes = np.stack([
        np.exp(model.log_proba(mu + step * unit[:, None], var))
        - np.exp(model.log_proba(mu - step * unit[:, None], var))
        for unit in np.eye(n_classes)
    ]) / (2 * step)  # fmt: skip
    expected = np.sqrt((slopes[..., 0] ** 2 * var).sum(axis=0))
    np.testing.assert_allclose(model.proba_std(mu, var)[:, 0], expected, rtol=1e-3)


def test_the_order_of_classes_does_not_matter():
    model, order = Softmax(6), np.random.default_rng(2).permutation(6)
    mu, var = outputs(6, 9)
    value = model.targets(np.arange(9) % 6, np.float64).value
    for found in (model.log_proba, model.proba_std):
        np.testing.assert_allclose(found(mu[order], var[order]), found(mu, var)[order], rtol=1e-12)
    sites = model.sites(mu, var, value, 0.0)
    permuted = model.sites(mu[order], var[order], value[order], 0.0)
    for mine, theirs in zip(sites, permuted, strict=True):
        np.testing.assert_allclose(theirs, mine[order], rtol=1e-12)


def test_sites_are_the_working_responses_of_logistic_regression():
    """Scalar transcription: t = z + (y - p) / (g p (1 - p)), r = 1 / (g^2 p (1 - p))."""
    model, gain = Softmax(3, 0.5), LOGISTIC / 0.5
    mu, var = outputs(3, 4)
    y = np.array([2, 0, 1, 1])
    target, noise = model.sites(mu, var, model.targets(y, np.float64).value, np.array(0.0))
    for row in range(4):
        mean_var = sum(var[:, row]) / 3
        logits = [
            gain * mu[k, row] / np.sqrt(1 + np.pi / 8 * gain**2 * (var[k, row] + mean_var))
            for k in range(3)
        ]
        for k in range(3):
            p = np.exp(logits[k]) / sum(np.exp(logits))
            observed = 1.0 if y[row] == k else 0.0
            expected = mu[k, row] + (observed - p) / (gain * p * (1 - p))
            assert target[k, row] == pytest.approx(expected, rel=1e-10)
            assert noise[k, row] == pytest.approx(1 / (gain**2 * p * (1 - p)), rel=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("var", [1e-12, 1.0, 1e12])
def test_extreme_outputs_are_finite(dtype, var):
    model = Softmax(4)
    sides = np.random.default_rng(6).choice([-1.0, 1.0], size=(4, 30))
    mu = (sides * np.repeat([0, 1, 50, 1e3, 1e8, 1e15], 5)).astype(dtype)
    var_z = np.full_like(mu, var)
    value = model.targets(np.arange(30) % 4, dtype).value
    target, noise = model.sites(mu, var_z, value, np.zeros((), dtype))
    assert target.dtype == noise.dtype == dtype
    assert np.isfinite(target).all()
    assert np.isfinite(noise).all()
    assert (noise > 0).all()
    assert not np.isnan(model.log_proba(mu, var_z)).any()
    std = model.proba_std(mu, var_z)
    assert np.isfinite(std).all()
    assert (std >= 0).all()


def test_log_likelihood_is_the_log_probability_of_the_class():
    model = Softmax(5)
    mu, var = (np.stack([a, 2 * a]) for a in outputs(5, 8))
    y = np.arange(8) % 5
    log_proba = model.log_proba(mu, var)
    for labels in (y, np.stack([y, y[::-1]])):
        found = model.log_likelihood(mu, var, labels)
        assert found.shape == (2, 1, 8)
        for member in range(2):
            of_member = labels if labels.ndim == 1 else labels[member]
            expected = log_proba[member, of_member, np.arange(8)]
            np.testing.assert_array_equal(found[member, 0], expected)


# One factor for all outputs


def batch_of(n_rows, n_outputs, hidden=(8,), n_members=2, seed=0, weight=None):
    """Layers, a tape after a forward pass, a batch and its workspace."""
    net = make_network([3, *hidden, n_outputs], members=n_members, seed=seed)
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n_rows, 3)))
    x = np.broadcast_to(x, (n_members, *x.shape))
    weight = np.ones((n_members, n_rows)) if weight is None else weight
    y = rng.normal(size=(n_members, n_rows, n_outputs))
    rows = Rows(x, y, weight)
    _, batch = next(iterate_batches(rows, Gaussian(n_outputs).targets(y, np.float64), n_rows))
    tape = Tape(net.layers, (n_members,), n_rows)
    forward(net.layers, net.activation, batch.x, None, tape)
    return net.layers, tape, batch, Workspace(len(net.layers), np.dtype(float))


@pytest.mark.parametrize("hidden", [(), (8,), (6, 5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_factor_is_exact_for_outputs_that_are_alike(hidden, weighted):
    """Equal variances and equal noise: the messages are those with a factor for each output."""
    weight = np.random.default_rng(3).uniform(0.5, 3, size=(2, 9)) if weighted else None
    layers, tape, batch, work = batch_of(9, 4, hidden, weight=weight)
    last = layers[-1]
    last.var[...] = last.var.mean(axis=-1, keepdims=True)
    last.mu[...] = np.abs(last.mu).mean(axis=-1, keepdims=True) * np.sign(last.mu)  # equal squares
    tape = Tape(layers, (2,), 9)
    forward(layers, batch_activation, batch.x, None, tape)
    u = tape.units[-1]
    sites = batch.value, np.full((2, 1, 9), 0.7) * np.ones_like(u.mu_z)
    hidden_cov = hidden_covariance(layers, tape, work)
    one = joint_with_one_factor(layers, tape, batch, sites, work, hidden_cov)
    hidden_cov = hidden_covariance(layers, tape, work)
    each = joint_of_batch(layers, tape, batch, sites, work, hidden_cov)
    np.testing.assert_allclose(one.nu, each.nu, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(one.kappa, each.kappa, rtol=1e-8)


def batch_activation(mu_z, var_z, mu_a, var_a, jac):
    """Rectify, linearised at the mean."""
    jac[...] = mu_z > 0
    mu_a[...], var_a[...] = mu_z * jac, var_z * jac


def test_one_factor_has_the_least_noise_of_a_row():
    """The output that a row says most of gets what a factor of its own would give it."""
    layers, tape, batch, work = batch_of(9, 4, hidden=())
    layers[-1].var[...] = layers[-1].var.mean(axis=-1, keepdims=True)
    tape = Tape(layers, (2,), 9)
    forward(layers, batch_activation, batch.x, None, tape)
    noise = np.full_like(tape.units[-1].mu_z, 5.0)
    noise[:, 2] = 0.4
    sites = batch.value, noise
    one = joint_with_one_factor(layers, tape, batch, sites, work, None)
    each = joint_of_batch(layers, tape, batch, sites, work, None)
    np.testing.assert_allclose(one.nu[:, 2], each.nu[:, 2], rtol=1e-8)
    np.testing.assert_allclose(one.kappa[:, 2], each.kappa[:, 2], rtol=1e-8)


def test_one_factor_says_of_one_row_what_it_says_alone():
    layers, tape, batch, work = batch_of(1, 5)
    u = tape.units[-1]
    noise = np.random.default_rng(4).uniform(0.1, 5, size=u.mu_z.shape)
    alone = independent(u.mu_z, u.var_z, (batch.value, noise))
    hidden = hidden_covariance(layers, tape, work)
    found = joint_with_one_factor(layers, tape, batch, (batch.value, noise), work, hidden)
    np.testing.assert_allclose(found.nu, alone.nu, rtol=1e-9)
    np.testing.assert_allclose(found.kappa, alone.kappa, rtol=0.02)  # 1 % is the row's own


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_a_row_of_weight_k_equals_k_copies_of_it(hidden):
    rng = np.random.default_rng(5)
    x, y = with_ones(rng.normal(size=(6, 3))), np.arange(6) % 4
    weight = np.array([1.0, 3, 1, 2, 1, 1])
    copies = np.repeat(np.arange(6), weight.astype(int))
    nets = []
    for rows in (Rows(x, y, weight), Rows(x[copies], y[copies], np.ones(len(copies)))):
        net = make_network([3, *hidden, 4], seed=1)
        net.outputs, net.noise_var[...] = Softmax(4), 0
        Learner(net, Settings(50)).learn(rows, np.arange(len(rows.weight))[None])
        nets.append(net)
    for mine, theirs in zip(nets[0].layers, nets[1].layers, strict=True):
        np.testing.assert_allclose(mine.mu, theirs.mu, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=1e-7)


def test_a_batch_moves_its_rows_towards_their_classes():
    rng = np.random.default_rng(6)
    x, y = with_ones(rng.normal(size=(40, 3))), rng.integers(6, size=40)
    net = make_network([3, 12, 6], seed=2)
    net.outputs, net.noise_var[...] = Softmax(6), 0
    learner = Learner(net, Settings(40))
    scores = [learner.learn(Rows(x, y, np.ones(40)), np.arange(40)[None])[0] for _ in range(15)]
    assert scores[-1] > scores[0] + 0.3
    assert net.is_sound()


# Entropy


def test_entropies_are_those_of_a_dirichlet_distribution():
    alpha = np.array([0.5, 2.0, 4.0])
    total = alpha.sum()
    proba, var = alpha / total, alpha * (total - alpha) / (total**2 * (total + 1))
    sampled = np.random.default_rng(0).dirichlet(alpha, size=400_000)
    expected = -(sampled * np.log(sampled + 1e-300)).sum(axis=1).mean()
    entropy, left = dirichlet_entropies(proba[None], var[None])
    assert left[0] == pytest.approx(expected, rel=0.005)
    assert entropy[0] == pytest.approx(-(proba * np.log(proba)).sum())


@pytest.mark.parametrize("share", [0.0, 1e-12, 1e-3, 0.5, 1.0])
def test_entropies_lie_between_nothing_and_all(share):
    proba = np.array([[1.0, 0, 0], [0.2, 0.3, 0.5], [1 - 1e-12, 1e-12, 0]])
    total, left = dirichlet_entropies(proba, share * proba * (1 - proba))
    assert np.isfinite(total).all()
    assert (left >= 0).all()
    assert (left <= total).all()
    if share == 0:
        np.testing.assert_array_equal(left, total)
    if share == 1:  # one class is certain, and nobody knows which
        assert left[1] < 1e-6
