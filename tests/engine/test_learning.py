"""One pass over rows: batches, weights, members, classes, learned noise."""

import gc
import itertools
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from helpers import (
    DTYPES,
    as_own,
    assert_same_posterior,
    make_network,
    make_rows,
    rtol,
    with_ones,
)
from scipy import sparse

from sktagi.engine import learning, messages
from sktagi.engine import sparse as engine_sparse
from sktagi.engine.covariance import Workspace
from sktagi.engine.inputs import InputErrors
from sktagi.engine.learning import Learner, Settings
from sktagi.engine.messages import Message, independent, joint
from sktagi.engine.noise_network import LogVariance
from sktagi.engine.passes import backward, forward
from sktagi.engine.posterior import Network
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rows import Rows
from sktagi.engine.softmax import Softmax
from sktagi.engine.tree import ClassTree

TREES = np.array([[0, 1, 2, 3, 4], [3, 0, 4, 1, 2], [4, 3, 2, 1, 0]])


def learn(net, data, order, settings, passes=1):
    """Learn rows some times in the same order; returns the scores (passes, members)."""
    learner = Learner(net, settings)
    return np.stack([learner.learn(data, np.atleast_2d(order)) for _ in range(passes)])


def class_rows(n, d, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    labels = (x @ rng.normal(size=(d, n_classes))).argmax(axis=1)
    return Rows(with_ones(x), labels, np.ones(n))


def to_oracle(layers):
    """Of the first member."""
    return [oracle.from_arrays(layer.mu[0], layer.var[0]) for layer in layers]


def error_of(net, data):
    mu, _ = predict_moments(net, data.x)
    return np.sqrt(np.mean((mu - data.y.T) ** 2))


# Passes over the rows


def test_rows_of_a_batch_learned_jointly_may_come_in_any_order():
    data = make_rows(30, 3, 2)
    one, other = (make_network([3, 6, 2], learn_noise=True) for _ in range(2))
    learn(one, data, np.arange(30), Settings(30))
    learn(other, data, np.random.default_rng(0).permutation(30), Settings(30))
    assert_same_posterior(one, other, 1e-9)


@pytest.mark.parametrize("joint", [False, True])
def test_weight_two_equals_row_twice(joint):
    data = make_rows(12, 3, weight=np.where(np.arange(12) < 4, 2.0, 1.0))
    single = data._replace(weight=np.ones(12))
    weighted, repeated = (make_network([3, 6, 1], sigma_v=3.0) for _ in range(2))
    learn(weighted, data, np.arange(12), Settings(16, joint))
    rows = np.concatenate([np.arange(12), np.arange(4)])[None]
    learn(repeated, single, rows, Settings(16, joint))
    if joint:
        assert_same_posterior(weighted, repeated, 1e-8)
    else:  # what each row does alone adds up to more than the two do together
        for one, two in zip(weighted.layers, repeated.layers, strict=True):
            assert np.any(two.var < one.var * (1 - 1e-6))


def test_half_life_is_counted_in_rows():
    """Without information, evidence fades by half in that many rows, whatever the batch."""
    nets = [make_network([3, 1], sigma_v=1e6) for _ in range(2)]
    data = make_rows(20, 3)
    for net, batch_size in zip(nets, (1, 20), strict=True):
        for layer in net.layers:
            np.divide(layer.var, 10, out=layer.var)
        learn(net, data, np.arange(20), Settings(batch_size, True, 20.0))
        for layer in net.layers:
            evidence = 1 / layer.var - 1 / layer.var_prior
            np.testing.assert_allclose(evidence[0], 0.5 * 9 / layer.var_prior, rtol=1e-6)


def test_score_is_the_mean_log_likelihood_before_the_rows_were_learned():
    data = make_rows(10, 3, weight=np.linspace(0.5, 2, 10))
    net = make_network([3, 6, 1], sigma_v=0.4)
    mu, var = predict_moments(net, data.x)
    log_lik = net.outputs.log_likelihood(mu, var + net.noise_var, data.y)[0, 0]
    (score,) = learn(net, data, np.arange(10), Settings(10))
    np.testing.assert_allclose(score, np.average(log_lik, weights=data.weight), rtol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 4, 11])
@pytest.mark.parametrize("joint", [False, True])
def test_one_input_variance_for_all_rows_equals_the_same_for_each(batch_size, joint):
    var_x = np.array([[0.1, 0.2, 0.05]])
    shared, own = (make_network([3, 6, 1]) for _ in range(2))
    rows = np.arange(21)[None]
    data = make_rows(21, 3)._replace(errors=InputErrors(var_x))
    learn(shared, data, rows, Settings(batch_size, joint))
    data = data._replace(errors=InputErrors(np.repeat(var_x, 21, axis=0)))
    learn(own, data, rows, Settings(batch_size, joint))
    assert_same_posterior(shared, own, 1e-12)


@pytest.mark.parametrize("batch_size", [1, 6])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", ["regression", "classes"])
@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dense_elements", [0, 1 << 15])  # large batches, and small ones
def test_sparse_rows_equal_dense_rows(
    batch_size, joint, kind, hidden, uncertain, dense_elements, monkeypatch
):
    monkeypatch.setattr(engine_sparse, "DENSE_ELEMENTS", dense_elements)
    rng = np.random.default_rng(1)
    outputs = ClassTree(5) if kind == "classes" else None
    data = class_rows(20, 5, 5) if kind == "classes" else make_rows(20, 5)
    data.x[:, :-1][rng.random((20, 5)) < 0.5] = 0
    thin = data._replace(x=sparse.csr_array(data.x))
    if uncertain:
        var_x = 0.2 * (data.x[:, :-1] != 0)
        data = data._replace(errors=InputErrors(var_x))
        thin = thin._replace(errors=InputErrors(sparse.csr_array(var_x)))
    rows = np.stack([np.arange(20), np.arange(20)[::-1]])
    sizes = [5, *hidden, 1 if outputs is None else outputs.n_outputs]
    dense, by_sparse = (make_network(sizes, members=2, outputs=outputs) for _ in range(2))
    learn(dense, data, rows, Settings(batch_size, joint))
    learn(by_sparse, thin, rows, Settings(batch_size, joint))
    assert_same_posterior(dense, by_sparse, 1e-10)
    for a, b in zip(
        predict_moments(dense, data.x, data.errors),
        predict_moments(by_sparse, thin.x, thin.errors),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("n_rows", [1, 5, 20])
def test_the_less_certain_the_inputs_the_less_is_learned_of_the_weights(hidden, n_rows):
    """In a joint batch as row by row: variances after it grow with those of the inputs."""
    data, before = make_rows(20, 3), None
    for var_x in (None, 0.01, 0.1, 1.0, 10.0):
        net = make_network([3, *hidden, 1], activation="tanh")
        prior = net.copy()
        errors = None if var_x is None else InputErrors(np.full((1, 3), var_x))
        learn(net, data._replace(errors=errors), np.arange(n_rows), Settings(n_rows))
        kept = [new.var / old.var for new, old in zip(net.layers, prior.layers, strict=True)]
        assert all(np.all(fraction < 1) for fraction in kept)
        if before is not None:
            assert all(np.all(more > less) for more, less in zip(kept, before, strict=True))
        before = kept


@pytest.mark.parametrize("batch_size", [40, 7])
def test_a_linear_model_learns_by_exact_conditioning_on_each_batch(batch_size):
    """The means, given independent parameters before the batch, with uncertain inputs."""
    rng = np.random.default_rng(7)
    data = make_rows(40, 3, 2, weight=rng.uniform(0.3, 2, size=40))
    data = data._replace(errors=InputErrors(np.full((1, 3), 0.1)))
    net = make_network([3, 2], sigma_v=0.3)
    for start in range(0, 40, batch_size):
        rows = np.arange(start, min(start + batch_size, 40))
        prior = net.copy().layers[0]
        learn(net, data, rows[None], Settings(batch_size))
        x = data.x[rows]
        for o in range(2):
            mu, var = prior.mu[0, :, o], prior.var[0, :, o]
            noise = 0.09 / data.weight[rows] + 0.1 * (mu[:-1] ** 2 + var[:-1]).sum()
            gain = np.diag(var) @ x.T @ np.linalg.inv(x @ np.diag(var) @ x.T + np.diag(noise))
            expected = mu + gain @ (data.y[rows, o] - x @ mu)
            np.testing.assert_allclose(net.layers[0].mu[0, :, o], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("padding", [0, 3])
def test_one_row_beside_padding_is_learned_exactly_unless_it_stands_for_several(
    weight, joint, padding
):
    data = make_rows(4, 3, weight=np.full(4, weight))
    net = make_network([3, 5, 1], sigma_v=0.5, activation="tanh")
    prior = net.copy()
    learn(net, data, np.array([[2] + [-1] * padding]), Settings(1 + padding, joint))
    exact = oracle.learn_row(
        to_oracle(prior.layers), "tanh", data.x[2, :-1], data.y[2], 0.5 / np.sqrt(weight)
    )
    for old, new, other in zip(prior.layers, net.layers, exact, strict=True):
        mu, var = (np.array(part) for part in oracle.to_lists(other))
        if weight > 1:  # as several rows: S / (1 + F) instead of S (1 - F)
            var = old.var[0] / (2 - var / old.var[0])
        np.testing.assert_allclose(new.mu[0], mu, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(new.var[0], var, rtol=1e-10)


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_a_row_of_weight_k_equals_k_copies_in_a_joint_batch(hidden, kind):
    copies = np.array([1, 3, 2, 1, 5, 1])
    owner = np.repeat(np.arange(6), copies)
    data = class_rows(6, 3, 5) if kind == "classes" else make_rows(6, 3, 2)
    outputs = ClassTree(5) if kind == "classes" else None
    sizes = [3, *hidden, 2 if outputs is None else outputs.n_outputs]
    weighted, repeated = (make_network(sizes, outputs=outputs, learn_noise=True) for _ in range(2))
    heavy = data._replace(weight=copies.astype(float))
    learn(weighted, heavy, np.arange(6), Settings(20))
    learn(repeated, data, owner[None], Settings(20))
    assert_same_posterior(weighted, repeated, 1e-8)


# Stability


@pytest.mark.parametrize("batch_size", [50, 200, 300])
@pytest.mark.parametrize("sigma_v", [1e-6, 1e-3, 0.1, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_batch_size_and_no_noise_gives_a_bad_number(batch_size, sigma_v, joint, dtype):
    data = make_rows(300, 4, dtype=dtype)
    net = make_network([4, 20, 1], dtype=dtype, sigma_v=sigma_v)
    scores = learn(net, data, np.arange(300), Settings(batch_size, joint), passes=4)
    assert np.all(np.isfinite(scores))
    for layer in net.layers:
        assert layer.mu.dtype == layer.var.dtype == dtype
        assert np.all(np.isfinite(layer.mu))
        assert np.all(np.isfinite(layer.var))
        assert np.all(layer.var > 0)
        assert np.all(layer.var <= layer.var_prior)


@pytest.mark.parametrize("batch_size", [50, 200, 300])
@pytest.mark.parametrize("sigma_v", [1e-6, 1e-3, 0.1, 1.0, 1e3])
@pytest.mark.parametrize("joint", [False, True])
def test_no_epoch_makes_predictions_much_worse_than_the_prior(batch_size, sigma_v, joint):
    """Finite is not enough: an update that overshoots by orders of magnitude has diverged."""
    data = make_rows(300, 4)
    net = make_network([4, 20, 1], sigma_v=sigma_v)
    prior_error = error_of(net, data)
    for _ in range(4):
        learn(net, data, np.arange(300), Settings(batch_size, joint))
        assert error_of(net, data) < 100 * prior_error


@pytest.mark.parametrize("batch_size", [10, 50, 150])
@pytest.mark.parametrize("noise_var", [1e-3, 1e-6])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_little_noise_makes_no_batch_diverge(batch_size, noise_var, joint, kind):
    """Outputs stay within a few times the size of the targets, epoch after epoch."""
    outputs = ClassTree(10) if kind == "classes" else None
    data = class_rows(150, 4, 10) if kind == "classes" else make_rows(150, 4)
    sizes = [4, 30, 1 if outputs is None else outputs.n_outputs]
    net = make_network(sizes, sigma_v=np.sqrt(noise_var), outputs=outputs)
    for _ in range(4):
        scores = learn(net, data, np.arange(150), Settings(batch_size, joint))
        assert np.all(np.isfinite(scores))
        mu, var = predict_moments(net, data.x)
        assert np.sqrt(np.mean(mu**2)) < 5
        assert np.abs(mu).max() < 50
        assert np.all((var > 0) & np.isfinite(var))


@pytest.mark.parametrize("scale", [1e-6, 1e3])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_and_targets_of_any_size_stay_finite(scale, joint, dtype):
    data = make_rows(100, 4, dtype=dtype)
    data.x[:, :-1] *= scale
    data = data._replace(y=data.y * dtype(scale))
    net = make_network([4, 20, 20, 1], dtype=dtype, learn_noise=True, sigma_v=1.0)
    learn(net, data, np.arange(100), Settings(32, joint, 100.0), passes=4)
    for layer in net.layers:
        assert np.all(np.isfinite(layer.mu))
        assert np.all(np.isfinite(layer.var))
        assert np.all(layer.var > 0)
    assert np.all(np.isfinite(net.noise_var))
    assert np.all(net.noise_var > 0)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
def test_classes_in_large_batches_do_not_diverge(joint, learn_noise):
    data = class_rows(300, 4, 5)
    net = make_network(
        [4, 20, ClassTree(5).n_outputs], outputs=ClassTree(5), learn_noise=learn_noise
    )
    scores = learn(net, data, np.arange(300), Settings(200, joint), passes=15)
    assert net.noise_var.shape == (1, 1, 1)
    assert scores[-1] > scores[0]
    assert all(np.all(layer.var > 0) for layer in net.layers)
    mu, var = predict_moments(net, data.x)
    predicted = net.outputs.log_proba(mu, var + net.noise_var)[0].argmax(axis=0)
    assert np.mean(predicted == data.y) > 0.6


def summed_by_hand(net, data, batch_size):
    """The paper's batch: what each row would do alone, summed, without any guard."""
    leverages = []
    for start in range(0, len(data.y), batch_size):
        rows = slice(start, start + batch_size)
        mu_z, var_z, tape = forward(net.layers, net.activation, data.x[rows].T)
        sites = data.y[rows].T, net.noise_var
        nu, kappa, leverage = independent(mu_z, var_z, sites, data.weight[None, rows])
        backward(net.layers, tape, nu, kappa)
        leverages.append(leverage.sum())
    return max(leverages)


def test_independent_batches_are_the_plain_sum_where_leverages_are_small():
    data = make_rows(100, 3)
    guarded, plain = (make_network([3, 8, 1], sigma_v=4.0) for _ in range(2))
    learn(guarded, data, np.arange(100), Settings(20, joint=False))
    assert summed_by_hand(plain, data, 20) < 2
    assert_same_posterior(guarded, plain, 1e-12)


def test_independent_batches_are_guarded_where_the_plain_sum_overshoots():
    data = make_rows(200, 4)
    guarded, plain = (make_network([4, 20, 1], sigma_v=0.3) for _ in range(2))
    before = error_of(plain, data)
    learn(guarded, data, np.arange(200), Settings(50, joint=False))
    assert summed_by_hand(plain, data, 50) > 2
    assert error_of(plain, data) > 2 * before
    assert error_of(guarded, data) < before


def test_independent_batches_see_one_output_overshoot_among_others_that_know_nothing():
    """A new feature begins to vary: only the output that knows the others is moved too far."""
    n, d, sigma_v = 20, 40, 0.01
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    net = make_network([d, 10], sigma_v=sigma_v)
    net.layers[0].var[:, :-2, 0] = net.layers[0].var[:, -1, 0] = 1e-8
    net.layers[0].mu[..., 0] = 0
    y = np.c_[2 * x[:, -1], rng.normal(size=(n, 9))]
    learn(net, Rows(with_ones(x), y, np.ones(n)), np.arange(n), Settings(n, joint=False))
    assert net.layers[0].mu[0, -2, 0] == pytest.approx(2, abs=0.02)


def test_a_sum_of_messages_that_overflows_overshoots():
    layers = make_network([2, 1], dtype=np.float32).layers
    x = with_ones(np.array([[1, 0], [0, 1], [-1, 0.5]]), np.float32)
    tape = forward(layers, None, x.T)[2]
    nu = np.array([3e38, -3e38, 3e38], np.float32).reshape(1, 1, 3)
    message = Message(nu, np.full_like(nu, 1e38), np.ones_like(nu))
    work = Workspace(len(layers), nu.dtype)
    assert np.all(messages._overshoots(layers, tape, None, message, work))


def test_independent_batches_are_learned_jointly_just_where_their_sum_makes_the_error_grow():
    """The sum moves the outputs by K nu; through hidden units, as an average output correlates."""
    n, decisions = 12, []
    for seed, sigma_v, x_std in itertools.product(range(6), (0.3, 1.0), (None, 0.5, 1.7)):
        data = make_rows(n, 2, 2, seed=seed)
        data.x[n // 2 :] = data.x[: n // 2]  # copies, with targets of their own
        x_std = None if x_std is None else np.full((n, 2), x_std)
        errors = None if x_std is None else InputErrors(x_std**2)
        data = data._replace(errors=errors)
        guarded, by_hand = (
            make_network([2, 4, 2], seed=seed, sigma_v=sigma_v, activation="tanh") for _ in range(2)
        )
        noise_var = sigma_v**2 * np.array([[1.0], [20.0]])
        guarded.noise_var[...] = by_hand.noise_var[...] = noise_var
        learn(guarded, data, np.arange(n), Settings(n, joint=False))
        layers, x = to_oracle(by_hand.layers), data.x[:, :-1]
        parts = oracle.output_covariance(layers, "tanh", x, x_std)
        shared, own = (np.array(part)[None] for part in parts)
        var_x = None if x_std is None else x_std.T**2
        mu_z, var_z, tape = forward(by_hand.layers, by_hand.activation, data.x.T, var_x)
        sites = data.y.T, noise_var
        nu, kappa, leverage = independent(mu_z, var_z, sites)
        assert leverage.sum(axis=-1).max() > 2  # below, no sum can make the error grow
        together = joint(mu_z, shared, as_own(own), sites)
        step = np.array(oracle.summed_step(layers, "tanh", x, nu[0].T, x_std)).T
        residual = data.y.T - mu_z[0]
        after, before = ((kappa[0] * r**2).sum(axis=1) for r in (residual - step, residual))
        grows = after > before
        decisions.append((x_std is None, *grows))
        pairs = (together.nu, nu), (together.kappa, kappa)
        nu, kappa = (np.where(grows[:, None], *pair) for pair in pairs)
        backward(by_hand.layers, tape, nu, kappa)
        assert_same_posterior(guarded, by_hand, 1e-9)
    # All outcomes occur, of one output alone too, with certain rows and with uncertain ones.
    exact = {(True, True, True), (True, True, False), (True, False, False)}
    uncertain = {(False, *outcome) for _, *outcome in exact}
    assert exact | uncertain <= set(decisions)


# Classes


@pytest.mark.parametrize("joint", [False, True])
def test_classes_one_row_at_a_time_are_learned_as_in_the_paper(joint):
    data, tree, sigma_v = class_rows(25, 3, 6), ClassTree(6), 0.4
    net = make_network([3, 5, tree.n_outputs], outputs=tree, sigma_v=sigma_v, activation="softplus")
    expected = to_oracle(net.layers)
    learn(net, data, np.arange(25), Settings(1, joint))
    for n in range(25):
        target, observed = oracle.class_target(6, data.y[n])
        expected = oracle.learn_row(
            expected, "softplus", data.x[n, :-1], target, sigma_v, observed=observed
        )
    for layer, other in zip(net.layers, expected, strict=True):
        mu, var = oracle.to_lists(other)
        np.testing.assert_allclose(layer.mu[0], mu, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(layer.var[0], var, rtol=1e-10)


@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.parametrize("uncertain", [False, True])
def test_a_batch_of_classes_is_learned_by_conditioning_node_by_node(hidden, uncertain):
    """On each node, the rows that pass it: dense, from covariances of naive loops."""
    n, sigma_v = 20, 0.4
    data, tree = class_rows(n, 3, 6), ClassTree(6)
    rng = np.random.default_rng(6)
    x_std = rng.uniform(0.1, 0.5, size=(n, 3)) if uncertain else None
    errors = InputErrors(x_std**2) if uncertain else None
    data = data._replace(weight=rng.uniform(0.5, 2, size=n), errors=errors)
    learned, by_hand = (
        make_network(
            [3, *hidden, tree.n_outputs], outputs=tree, learn_noise=True, sigma_v=sigma_v,
            activation="tanh",
        )
        for _ in range(2)
    )  # fmt: skip
    learn(learned, data, np.arange(n), Settings(n))
    shared, own = oracle.output_covariance(to_oracle(by_hand.layers), "tanh", data.x[:, :-1], x_std)
    var_x = x_std.T**2 if uncertain else None
    mu_z, _, tape = forward(by_hand.layers, by_hand.activation, data.x.T, var_x)
    nu, kappa, moment, count = np.zeros_like(mu_z), np.zeros_like(mu_z), 0.0, 0.0
    for node in range(tree.n_outputs):
        target, observed = zip(*(oracle.class_target(6, label) for label in data.y), strict=True)
        rows = np.flatnonzero(np.array(observed)[:, node])
        residual = np.array(target)[rows, node] - mu_z[0, node, rows]
        block = np.ix_(rows, rows)
        common, rest = np.array(shared[node])[block], np.array(own[node])[block]
        cov_v = np.diag(sigma_v**2 / data.weight[rows])
        inverse = np.linalg.inv(common + rest + cov_v)
        nu[0, node, rows] = inverse @ residual
        kappa[0, node, rows] = np.diag(common @ inverse) / np.diag(common)
        mean, cov = cov_v @ inverse @ residual, cov_v - cov_v @ inverse @ cov_v
        moment += data.weight[rows] @ (mean**2 + np.diag(cov))
        count += data.weight[rows].sum()
    assert np.all(kappa >= 0)
    backward(by_hand.layers, tape, nu, kappa)
    # The first batch is all that is known of the noise, so the step of EM is a whole one.
    by_hand.noise_var[...] = moment / count
    assert_same_posterior(learned, by_hand, 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_independent_batch_of_classes_is_guarded_node_by_node(weighted):
    n, decisions = 14, []
    tree = ClassTree(6)
    for seed, sigma_v in itertools.product(range(4), (0.1, 0.5)):
        data = class_rows(n, 3, 6, seed=seed)
        if weighted:
            data = data._replace(weight=np.random.default_rng(seed).uniform(0.5, 3, size=n))
        guarded, by_hand = (
            make_network(
                [3, 5, tree.n_outputs], outputs=tree, seed=seed, sigma_v=sigma_v, activation="tanh"
            )
            for _ in range(2)
        )
        learn(guarded, data, np.arange(n), Settings(n, joint=False))
        layers, x = to_oracle(by_hand.layers), data.x[:, :-1]
        mu_z, var_z, tape = forward(by_hand.layers, by_hand.activation, data.x.T)
        target, observed = map(
            np.array, zip(*(oracle.class_target(6, label) for label in data.y), strict=True)
        )
        weight = observed * data.weight[:, None]
        kappa = weight / (weight * var_z[0].T + sigma_v**2)
        residual = np.where(observed, target, 0) - mu_z[0].T
        nu = kappa * residual
        step = np.array(oracle.summed_step(layers, "tanh", x, nu))
        shared, own = map(np.array, oracle.output_covariance(layers, "tanh", x))
        for node in range(tree.n_outputs):
            change = step[:, node] @ (kappa[:, node] * step[:, node] - 2 * nu[:, node])
            decisions.append(change > 0)
            if change > 0:
                rows = np.flatnonzero(observed[:, node])
                block = np.ix_(rows, rows)
                cov_v = np.diag(sigma_v**2 / data.weight[rows])
                inverse = np.linalg.inv((shared + own)[node][block] + cov_v)
                nu[rows, node] = inverse @ residual[rows, node]
                common = shared[node][block]
                kappa[rows, node] = np.diag(common @ inverse) / np.diag(common)
        backward(by_hand.layers, tape, nu.T[None], kappa.T[None])
        assert_same_posterior(guarded, by_hand, 1e-9)
    assert 0.05 < np.mean(decisions) < 0.95


# Targets that are not observed


def with_missing(data, share=0.4, seed=8):
    """Rows of several targets, of which some are NaN, at least one is there."""
    rng = np.random.default_rng(seed)
    n, n_targets = data.y.shape
    missing = rng.random(data.y.shape) < share
    missing[np.arange(n), rng.integers(n_targets, size=n)] = False
    assert missing.any(axis=0).all()
    return data._replace(y=np.where(missing, np.nan, data.y).astype(data.y.dtype))


@pytest.mark.parametrize("joint", [False, True])
def test_rows_that_observe_some_targets_are_learned_as_in_the_paper(joint):
    data, sigma_v = with_missing(make_rows(25, 3, 3)), 0.4
    net = make_network([3, 5, 3], sigma_v=sigma_v, activation="softplus")
    expected = to_oracle(net.layers)
    learn(net, data, np.arange(25), Settings(1, joint))
    for x, y in zip(data.x, data.y, strict=True):
        expected = oracle.learn_row(expected, "softplus", x[:-1], y, sigma_v, observed=~np.isnan(y))
    for layer, other in zip(net.layers, expected, strict=True):
        mu, var = oracle.to_lists(other)
        np.testing.assert_allclose(layer.mu[0], mu, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(layer.var[0], var, rtol=1e-10)


@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.parametrize("uncertain", [False, True])
def test_a_batch_is_learned_by_conditioning_on_what_it_observes_of_each_target(hidden, uncertain):
    """On each output, the rows that observe it: dense, from covariances of naive loops."""
    n, sigma_v = 20, 0.4
    data = with_missing(make_rows(n, 3, 3))
    rng = np.random.default_rng(6)
    x_std = rng.uniform(0.1, 0.5, size=(n, 3)) if uncertain else None
    errors = InputErrors(x_std**2) if uncertain else None
    data = data._replace(weight=rng.uniform(0.5, 2, size=n), errors=errors)
    learned, by_hand = (
        make_network([3, *hidden, 3], learn_noise=True, sigma_v=sigma_v, activation="tanh")
        for _ in range(2)
    )
    learn(learned, data, np.arange(n), Settings(n))
    shared, own = oracle.output_covariance(to_oracle(by_hand.layers), "tanh", data.x[:, :-1], x_std)
    var_x = x_std.T**2 if uncertain else None
    mu_z, _, tape = forward(by_hand.layers, by_hand.activation, data.x.T, var_x)
    nu, kappa = np.zeros_like(mu_z), np.zeros_like(mu_z)
    for output in range(3):
        rows = np.flatnonzero(~np.isnan(data.y[:, output]))
        residual = data.y[rows, output] - mu_z[0, output, rows]
        block = np.ix_(rows, rows)
        common, rest = np.array(shared[output])[block], np.array(own[output])[block]
        cov_v = np.diag(sigma_v**2 / data.weight[rows])
        inverse = np.linalg.inv(common + rest + cov_v)
        nu[0, output, rows] = inverse @ residual
        kappa[0, output, rows] = np.diag(common @ inverse) / np.diag(common)
        mean, cov = cov_v @ inverse @ residual, cov_v - cov_v @ inverse @ cov_v
        # The first batch is all that is known of the noise, so the step of EM is a whole one.
        moment = data.weight[rows] @ (mean**2 + np.diag(cov))
        by_hand.noise_var[0, output] = moment / data.weight[rows].sum()
        assert learned.rows_learned[0, output, 0] == pytest.approx(data.weight[rows].sum())
    backward(by_hand.layers, tape, nu, kappa)
    assert_same_posterior(learned, by_hand, 1e-9)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("half_life", [None, 30.0])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_members_learn_incomplete_rows_side_by_side_as_each_alone(joint, half_life, as_sparse):
    data = with_missing(make_rows(40, 3, 2))
    if as_sparse:
        data = data._replace(x=sparse.csr_array(np.where(data.x > 0, data.x, 0)))
    order = np.stack([np.random.default_rng(m).permutation(40) for m in range(3)])
    order[1, 35:] = -1
    net = make_network([3, 6, 2], members=3, learn_noise=True)
    alone = [single_member(net, m) for m in range(3)]
    settings = Settings(8, joint, half_life)
    (scores,) = learn(net, data, order, settings)
    for m, one in enumerate(alone):
        rows = order[m][order[m] >= 0]
        (score,) = learn(one, data, rows, settings)
        assert score[0] == pytest.approx(scores[m], rel=1e-9)
        assert_same_posterior(single_member(net, m), one, 1e-9)
        np.testing.assert_allclose(net.rows_learned[m], one.rows_learned[0])


@pytest.mark.parametrize("batch_size", [1, 10])
def test_scores_of_incomplete_rows_are_those_of_what_they_observe(batch_size):
    data = with_missing(make_rows(10, 3, 2, weight=np.linspace(0.5, 2, 10)))
    net = make_network([3, 6, 2], sigma_v=0.4)
    expected = 0.0
    for start in range(0, 10, batch_size):
        part = np.arange(start, start + batch_size)
        mu, var = predict_moments(net, data.x[part])
        y, var = data.y[part].T, var[0] + 0.4**2
        log_lik = -0.5 * np.log(2 * np.pi * var) - 0.5 * (y - mu[0]) ** 2 / var
        expected += np.nansum(log_lik, axis=0) @ data.weight[part]
        learn(net, data, part, Settings(batch_size))
    net = make_network([3, 6, 2], sigma_v=0.4)
    (score,) = learn(net, data, np.arange(10), Settings(batch_size))
    assert score[0] == pytest.approx(expected / data.weight.sum(), rel=1e-12)


def test_a_target_that_no_row_of_a_pass_observes_keeps_its_noise_and_parameters():
    data = make_rows(30, 3, 3)
    data.y[:, 1] = np.nan
    net = make_network([3, 3], learn_noise=True)
    before = net.copy()
    learn(net, data, np.arange(30), Settings(10))
    (layer,), (old,) = net.layers, before.layers
    np.testing.assert_array_equal(layer.mu[..., 1], old.mu[..., 1])
    np.testing.assert_array_equal(layer.var[..., 1], old.var[..., 1])
    assert net.noise_var[0, 1] == before.noise_var[0, 1]
    np.testing.assert_array_equal(net.rows_learned[0, :, 0], [30, 0, 30])
    assert np.all(layer.var[..., [0, 2]] < old.var[..., [0, 2]])


# Members


def single_member(net, m):
    return net.members(slice(m, m + 1)).copy()


def test_several_members_need_no_count_of_rows():
    """The count of learned rows has a default; it must serve any number of members."""
    counted = make_network([3, 6, 1], members=2, learn_noise=True)
    default = Network(
        counted.copy().layers, counted.activation, counted.outputs, counted.noise_var.copy(), True,
    )  # fmt: skip
    data, rows = make_rows(20, 3), np.tile(np.arange(20), (2, 1))
    learn(counted, data, rows, Settings(5))
    learn(default, data, rows, Settings(5))
    assert_same_posterior(default, counted, 1e-13)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("n_real", [8, 10, 13, 15, 17])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_padding_has_no_effect(joint, learn_noise, n_real, batch_size):
    """A short member beside a long one ends as if it were alone, wherever its rows run out."""
    data = make_rows(20, 3)
    rows = np.full((2, 20), -1)
    rows[0], rows[1, :n_real] = np.arange(20)[::-1], np.arange(n_real)
    padded = make_network([3, 6, 1], members=2, learn_noise=learn_noise)
    alone = single_member(padded, 1)
    settings = Settings(batch_size, joint, 100.0)
    (score,) = learn(padded, data, rows, settings)
    (own_score,) = learn(alone, data, rows[1:, :n_real], settings)
    assert_same_posterior(single_member(padded, 1), alone, 1e-9)
    np.testing.assert_allclose(score[1], own_score[0], rtol=1e-10)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_without_weight_equals_leaving_it_out(joint):
    weight = np.ones(20)
    weight[[3, 4, 11]] = 0
    data = make_rows(20, 3, weight=weight)
    data.y[weight == 0] = 1e6
    with_zeros, without = (make_network([3, 6, 1], learn_noise=True) for _ in range(2))
    learn(with_zeros, data, np.arange(20), Settings(20, joint, 50.0))
    learn(without, data, np.flatnonzero(weight), Settings(20, joint, 50.0))
    assert_same_posterior(with_zeros, without, 1e-9)


# Noise


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("batch_size", [1, 50, 100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_of_a_linear_model_is_recovered(joint, batch_size, dtype):
    rng = np.random.default_rng(4)
    true = np.array([0.1, 0.7])
    x = rng.normal(size=(2000, 3))
    y = x @ rng.normal(size=(3, 2)) + true * rng.normal(size=(2000, 2))
    data = Rows(with_ones(x, dtype), y.astype(dtype), np.ones(2000, dtype))
    net = make_network([3, 2], sigma_v=1.0, learn_noise=True, dtype=dtype)
    # The same number of batches at least, for a step of EM is a batch.
    learn(net, data, np.arange(2000), Settings(batch_size, joint), passes=1 + batch_size // 25)
    assert net.noise_var.dtype == np.float64
    np.testing.assert_allclose(np.sqrt(net.noise_var[0, :, 0]), true, rtol=0.15)


def test_fixed_noise_stays_as_it_is():
    data, net = make_rows(40, 3), make_network([3, 6, 1], sigma_v=0.3)
    before = net.noise_var.copy()
    learn(net, data, np.arange(40), Settings(8), passes=3)
    np.testing.assert_array_equal(net.noise_var, before)


def test_outputs_that_nobody_observes_keep_their_noise_and_parameters():
    data = class_rows(30, 3, 5)
    data = data._replace(y=data.y % 2)  # classes 0 and 1: of level 1, only the left half is seen
    tree = ClassTree(5)
    net = make_network([3, tree.n_outputs], outputs=tree, learn_noise=True)
    before = net.copy()
    learn(net, data, np.arange(30), Settings(10))
    seen = np.isin(np.arange(tree.n_outputs), tree.nodes[:2])
    moved = np.any(net.layers[0].mu != before.layers[0].mu, axis=(0, 1))
    shrunk = np.any(net.layers[0].var != before.layers[0].var, axis=(0, 1))
    np.testing.assert_array_equal(moved, seen)
    np.testing.assert_array_equal(shrunk, seen)


# Precision and memory


def test_single_precision_learns_what_double_does():
    nets = []
    for dtype in DTYPES:
        net = make_network([3, 8, 1], dtype=dtype)
        learn(net, make_rows(60, 3, dtype=dtype), np.arange(60), Settings(10), passes=2)
        nets.append(net)
    assert_same_posterior(*nets, rtol(np.float32, 10))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("elements", [1, 200, 1 << 18])
@pytest.mark.parametrize("joint", [True, False])
def test_rows_are_learned_alike_in_chunks_of_any_size(members, elements, joint, monkeypatch):
    """The last chunk may be smaller than a batch, and batches may hold copies of a row."""
    data = make_rows(45, 4, 1, seed=3)
    rows = np.random.default_rng(0).integers(45, size=(members, 70))
    whole, parts = (make_network([4, 6, 1], 4, members) for _ in range(2))
    settings = Settings(16, joint, 100.0)
    expected = learn(whole, data, rows, settings)
    monkeypatch.setattr(learning, "CHUNK_ELEMENTS", elements)
    np.testing.assert_allclose(learn(parts, data, rows, settings), expected, rtol=1e-12)
    assert_same_posterior(parts, whole, 1e-12)


def test_scores_of_large_weights_do_not_overflow_in_single_precision():
    data = make_rows(12, 2, seed=50, dtype=np.float32, weight=np.full(12, 1e34, np.float32))
    data.y[3] = 1e4
    single = make_network([2, 1], seed=51, dtype=np.float32)
    double = make_network([2, 1], seed=51)
    rows = np.arange(12)[None]
    scores = learn(single, data, rows, Settings(4, joint=False))
    exact = Rows(*(None if part is None else part.astype(float) for part in data))
    np.testing.assert_allclose(
        scores, learn(double, exact, rows, Settings(4, joint=False)), rtol=1e-3
    )


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_arrays_that_are_kept_for_the_next_pass_change_nothing(
    members, as_sparse, joint, half_life, monkeypatch
):
    """Of batches of two sizes, with copies of rows, in an order that differs from pass to pass."""
    data = make_rows(17, 3, 2, seed=60)
    data.x[9:12] = data.x[:3]
    if as_sparse:
        data = data._replace(x=sparse.csr_array(np.where(data.x > 0.3, data.x, 0)))
    kept, fresh = (make_network([3, 6, 4, 2], seed=61, members=members) for _ in range(2))
    rng = np.random.default_rng(62)
    settings = Settings(5, joint, half_life)
    learner, made, make_tape = Learner(kept, settings), [], learning.Tape

    def counted(layers, lead, n_rows, *others, **named):
        made.append(n_rows)
        return make_tape(layers, lead, n_rows, *others, **named)

    monkeypatch.setattr(learning, "Tape", counted)
    for _ in range(4):
        order = np.stack([rng.permutation(17) for _ in range(members)])
        scores, n_made = learner.learn(data, order), len(made)
        np.testing.assert_array_equal(scores, learn(fresh, data, order, settings)[0])
        del made[n_made:]
    by_pass = 1 if members == 1 or not as_sparse else 4 * members  # each member's own, of each pass
    assert sorted(made) == [2] * by_pass + [5] * by_pass
    assert_same_posterior(kept, fresh, 0)


def gaussian_row(**parts):
    return make_rows(2, 4, 2, seed=70)._replace(**parts)


def class_row(n_classes):
    rows = class_rows(2, 4, 3, seed=71)
    return rows._replace(y=np.array([0, n_classes - 1]))


SINGLE_ROWS = {
    "plain": (gaussian_row(), {}),
    "weight": (gaussian_row(weight=np.array([1.0, 2.5])), {}),
    "light": (gaussian_row(weight=np.array([1.0, 1e-3])), {}),
    "none": (gaussian_row(weight=np.array([1.0, 0.0])), {}),
    "ratio": (gaussian_row(noise_ratio=np.array([[1.0, 1.0], [0.2, 3.0]])), {}),
    "errors": (gaussian_row(errors=InputErrors(np.full((2, 4), 0.3))), {}),
    "incomplete": (gaussian_row(y=np.array([[1.0, 1.0], [np.nan, 2.0]])), {}),
    "softmax": (class_row(3), {"outputs": Softmax(3)}),
    "tree": (class_row(5), {"outputs": ClassTree(5)}),
    "trees": (class_row(5), {"outputs": ClassTree(5, 1 / 3, True, TREES)}),
    "errors of means": (
        gaussian_row(noise_ratio=np.array([[1.0, 1.0], [0.2, 3.0]])), {"outputs": LogVariance(2)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("half_life", [None, 20.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", SINGLE_ROWS)
def test_the_only_row_of_a_pass_is_learned_as_a_row_among_others(case, members, half_life, dtype):
    rows, params = SINGLE_ROWS[case]
    if case == "trees" and members == 1:
        params = {"outputs": params["outputs"].members(slice(0, 1))}
    n_outputs = params["outputs"].n_outputs if params else 2
    rows = rows._replace(x=rows.x.astype(dtype), weight=rows.weight.astype(dtype))
    learners = []
    for data, order in ((rows.take(np.array([1])), 0), (rows, 1)):
        net = make_network(
            [4, 6, 5, n_outputs], 72, members, dtype=dtype, learn_noise=not params, **params
        )
        learner = Learner(net, Settings(8, True, half_life), records=True)
        learners.append((learner, learner.learn(data, np.full((members, 1), order))))
    (one, score), (other, expected) = learners
    assert_same_posterior(one.net, other.net, rtol(dtype, 0.01))
    np.testing.assert_allclose(one.moments, other.moments, rtol=rtol(dtype, 0.01))
    if case != "none":
        np.testing.assert_allclose(score, expected, rtol=rtol(dtype, 0.01))


def test_single_rows_learned_in_threads_do_not_share_arrays():
    rows = make_rows(200, 4, 2)

    def learn_all(seed):
        net = make_network([4, 6, 2], seed, members=3)
        for k in range(200):
            Learner(net, Settings(1)).learn(rows.take(np.array([k])), np.zeros((3, 1), int))
        return net

    expected = [learn_all(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(learn_all, range(4)))
    for one, other in zip(found, expected, strict=True):
        assert_same_posterior(one, other, 0)


def test_what_waits_for_the_next_row_keeps_no_network_and_no_row():
    row = make_rows(9, 4, 2).take(np.array([3]))
    x, net = weakref.ref(row.x), make_network([4, 6, 2])
    means = weakref.ref(net.layers[0].mu)
    Learner(net, Settings(1)).learn(row, np.zeros((1, 1), int))
    del row, net
    gc.collect()
    assert x() is None
    assert means() is None
