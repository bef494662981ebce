"""Epochs, minibatches, members, early stopping and learned noise."""

import itertools

import numpy as np
import oracle
import pytest
from helpers import (
    DTYPES,
    assert_same_posterior,
    copy_layers,
    joint_message,
    make_network,
    make_rows,
    rtol,
    with_ones,
)
from scipy import sparse

from sktagi.engine import learning
from sktagi.engine.inputs import forward_uncertain
from sktagi.engine.learning import Network, Rows, Settings, learn_rows, predict_moments
from sktagi.engine.network import backward, forward
from sktagi.engine.noise import Message, independent_message
from sktagi.engine.training import fit_epochs
from sktagi.engine.tree import ClassTree


def fit(net, data, train, settings, *, validation=None, max_iter=1, patience=10**6, rngs=None):
    return fit_epochs(
        net, data, np.atleast_2d(train), validation, settings,
        max_iter=max_iter, n_iter_no_change=patience, tol=0.0, rngs=rngs,
    )  # fmt: skip


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
    return np.sqrt(np.mean((mu - data.y) ** 2))


# ---------------------------------------------------------------------------- passes over the rows


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("half_life", [None, 30.0])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_fit_over_batches_is_learning_them_one_after_another(
    joint, learn_noise, half_life, batch_size
):
    data = make_rows(35, 3, 2)
    settings = Settings(batch_size, joint, half_life)
    whole, stepwise = (make_network([3, 6, 2], learn_noise=learn_noise) for _ in range(2))
    history = fit(whole, data, np.arange(35), settings)
    scores = []
    for start in range(0, 35, batch_size):
        rows = np.arange(start, start + batch_size)[None]
        scores.append(learn_rows(stepwise, data, rows, settings)[0])
    assert_same_posterior(whole, stepwise, 1e-13)
    np.testing.assert_array_equal(whole.rows_learned, stepwise.rows_learned)
    np.testing.assert_allclose(history.train_scores, [np.mean(scores)], rtol=1e-12)


def test_epochs_start_from_the_posterior_of_the_last():
    data, settings = make_rows(20, 3), Settings(5)
    twice, again = (make_network([3, 6, 1]) for _ in range(2))
    fit(twice, data, np.arange(20), settings, max_iter=2)
    for _ in range(2):
        fit(again, data, np.arange(20), settings)
    assert_same_posterior(twice, again, 1e-13)


def test_no_epoch_leaves_the_prior():
    data, net, prior = make_rows(20, 3), make_network([3, 6, 1]), make_network([3, 6, 1])
    history = fit(net, data, np.arange(20), Settings(5), max_iter=0)
    assert history.n_iter == 0
    assert_same_posterior(net, prior, 0)


def test_shuffling_is_a_permutation_by_the_generator_of_each_member():
    data, settings = make_rows(20, 3), Settings(4)
    shuffled, by_hand = (make_network([3, 6, 1]) for _ in range(2))
    fit(shuffled, data, np.arange(20), settings, max_iter=2, rngs=[np.random.default_rng(1)])
    rng = np.random.default_rng(1)
    for _ in range(2):
        learn_rows(by_hand, data, np.arange(20)[None, rng.permutation(20)], settings)
    assert_same_posterior(shuffled, by_hand, 1e-13)


def test_rows_of_a_batch_learnt_jointly_may_come_in_any_order():
    data = make_rows(30, 3, 2)
    one, other = (make_network([3, 6, 2], learn_noise=True) for _ in range(2))
    learn_rows(one, data, np.arange(30)[None], Settings(30))
    learn_rows(other, data, np.random.default_rng(0).permutation(30)[None], Settings(30))
    assert_same_posterior(one, other, 1e-9)


@pytest.mark.parametrize("joint", [False, True])
def test_weight_two_equals_row_twice(joint):
    data = make_rows(12, 3, weight=np.where(np.arange(12) < 4, 2.0, 1.0))
    single = data._replace(weight=np.ones(12))
    weighted, repeated = (make_network([3, 6, 1], sigma_v=3.0) for _ in range(2))
    learn_rows(weighted, data, np.arange(12)[None], Settings(16, joint))
    rows = np.concatenate([np.arange(12), np.arange(4)])[None]
    learn_rows(repeated, single, rows, Settings(16, joint))
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
        learn_rows(net, data, np.arange(20)[None], Settings(batch_size, True, 20.0))
        for layer in net.layers:
            evidence = 1 / layer.var - 1 / layer.var_prior
            np.testing.assert_allclose(evidence[0], 0.5 * 9 / layer.var_prior, rtol=1e-6)


def test_score_is_the_mean_log_likelihood_before_the_rows_were_learnt():
    data = make_rows(10, 3, weight=np.linspace(0.5, 2, 10))
    net = make_network([3, 6, 1], sigma_v=0.4)
    mu, var = predict_moments(net, data.x)
    log_lik = net.outputs.log_likelihood(mu, var + net.noise_var, data.y)[0, :, 0]
    score = learn_rows(net, data, np.arange(10)[None], Settings(10))
    np.testing.assert_allclose(score, np.average(log_lik, weights=data.weight), rtol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 4, 11])
@pytest.mark.parametrize("joint", [False, True])
def test_one_input_variance_for_all_rows_equals_the_same_for_each(batch_size, joint):
    var_x = np.array([[0.1, 0.2, 0.05]])
    shared, own = (make_network([3, 6, 1]) for _ in range(2))
    rows = np.arange(21)[None]
    data = make_rows(21, 3, var_x=var_x)
    learn_rows(shared, data, rows, Settings(batch_size, joint))
    data = data._replace(var_x=np.repeat(var_x, 21, axis=0))
    learn_rows(own, data, rows, Settings(batch_size, joint))
    assert_same_posterior(shared, own, 1e-12)


@pytest.mark.parametrize("batch_size", [1, 6])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", ["regression", "classes"])
@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("uncertain", [False, True])
def test_sparse_rows_equal_dense_rows(batch_size, joint, kind, hidden, uncertain):
    rng = np.random.default_rng(1)
    outputs = ClassTree(5) if kind == "classes" else None
    data = class_rows(20, 5, 5) if kind == "classes" else make_rows(20, 5)
    data.x[:, :-1][rng.random((20, 5)) < 0.5] = 0
    thin = data._replace(x=sparse.csr_array(data.x))
    if uncertain:
        data = data._replace(var_x=0.2 * (data.x[:, :-1] != 0))
        thin = thin._replace(var_x=sparse.csr_array(data.var_x))
    rows = np.stack([np.arange(20), np.arange(20)[::-1]])
    sizes = [5, *hidden, 1 if outputs is None else outputs.n_outputs]
    dense, by_sparse = (make_network(sizes, members=2, outputs=outputs) for _ in range(2))
    learn_rows(dense, data, rows, Settings(batch_size, joint))
    learn_rows(by_sparse, thin, rows, Settings(batch_size, joint))
    assert_same_posterior(dense, by_sparse, 1e-10)
    for a, b in zip(
        predict_moments(dense, data.x, data.var_x),
        predict_moments(by_sparse, thin.x, thin.var_x),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("n_rows", [1, 5, 20])
def test_the_less_certain_the_inputs_the_less_is_learnt_of_the_weights(hidden, n_rows):
    """In a joint batch as row by row: variances after it grow with those of the inputs."""
    data, before = make_rows(20, 3), None
    for var_x in (None, 0.01, 0.1, 1.0, 10.0):
        net = make_network([3, *hidden, 1], activation="tanh")
        prior = net.copy()
        uncertain = None if var_x is None else np.full((1, 3), var_x)
        learn_rows(net, data._replace(var_x=uncertain), np.arange(n_rows)[None], Settings(n_rows))
        kept = [new.var / old.var for new, old in zip(net.layers, prior.layers, strict=True)]
        assert all(np.all(fraction < 1) for fraction in kept)
        if before is not None:
            assert all(np.all(more > less) for more, less in zip(kept, before, strict=True))
        before = kept


@pytest.mark.parametrize("batch_size", [40, 7])
def test_a_linear_model_learns_by_exact_conditioning_on_each_batch(batch_size):
    """The means, given independent parameters before the batch, with uncertain inputs."""
    rng = np.random.default_rng(7)
    data = make_rows(40, 3, 2, weight=rng.uniform(0.3, 2, size=40), var_x=np.full((1, 3), 0.1))
    net = make_network([3, 2], sigma_v=0.3)
    for start in range(0, 40, batch_size):
        rows = np.arange(start, min(start + batch_size, 40))
        prior = net.copy().layers[0]
        learn_rows(net, data, rows[None], Settings(batch_size))
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
def test_one_row_beside_padding_is_learnt_exactly_unless_it_stands_for_several(
    weight, joint, padding
):
    data = make_rows(4, 3, weight=np.full(4, weight))
    net = make_network([3, 5, 1], sigma_v=0.5, activation="tanh")
    prior = net.copy()
    learn_rows(net, data, np.array([[2] + [-1] * padding]), Settings(1 + padding, joint))
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
    learn_rows(weighted, heavy, np.arange(6)[None], Settings(20))
    learn_rows(repeated, data, owner[None], Settings(20))
    assert_same_posterior(weighted, repeated, 1e-8)


# -------------------------------------------------------------------------------------- stability


@pytest.mark.parametrize("batch_size", [50, 200, 300])
@pytest.mark.parametrize("sigma_v", [1e-6, 1e-3, 0.1, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_batch_size_and_no_noise_gives_a_bad_number(batch_size, sigma_v, joint, dtype):
    data = make_rows(300, 4, dtype=dtype)
    net = make_network([4, 20, 1], dtype=dtype, sigma_v=sigma_v)
    history = fit(net, data, np.arange(300), Settings(batch_size, joint), max_iter=4)
    assert np.all(np.isfinite(history.train_scores))
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
        fit(net, data, np.arange(300), Settings(batch_size, joint))
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
        history = fit(net, data, np.arange(150), Settings(batch_size, joint))
        assert np.all(np.isfinite(history.train_scores))
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
    fit(net, data, np.arange(100), Settings(32, joint, 100.0), max_iter=4)
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
    history = fit(net, data, np.arange(300), Settings(200, joint), max_iter=15)
    assert net.noise_var.shape == (1, 1, 1)
    assert history.train_scores[-1] > history.train_scores[0]
    assert all(np.all(layer.var > 0) for layer in net.layers)
    mu, var = predict_moments(net, data.x)
    predicted = net.outputs.log_proba(mu, var + net.noise_var)[0].argmax(axis=-1)
    assert np.mean(predicted == data.y) > 0.6


def summed_by_hand(net, data, batch_size):
    """The paper's batch: what each row would do alone, summed, without any guard."""
    leverages = []
    for start in range(0, len(data.y), batch_size):
        rows = slice(start, start + batch_size)
        mu_z, var_z, tape = forward(net.layers, net.activation, data.x[rows])
        nu, kappa, leverage = independent_message(
            mu_z, var_z, data.y[rows], net.noise_var, data.weight[rows, None]
        )
        backward(net.layers, tape, nu, kappa)
        leverages.append(leverage.sum())
    return max(leverages)


def test_independent_batches_are_the_plain_sum_where_leverages_are_small():
    data = make_rows(100, 3)
    guarded, plain = (make_network([3, 8, 1], sigma_v=4.0) for _ in range(2))
    learn_rows(guarded, data, np.arange(100)[None], Settings(20, joint=False))
    assert summed_by_hand(plain, data, 20) < 2
    assert_same_posterior(guarded, plain, 1e-12)


def test_independent_batches_are_guarded_where_the_plain_sum_overshoots():
    data = make_rows(200, 4)
    guarded, plain = (make_network([4, 20, 1], sigma_v=0.3) for _ in range(2))
    before = error_of(plain, data)
    learn_rows(guarded, data, np.arange(200)[None], Settings(50, joint=False))
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
    learn_rows(net, Rows(with_ones(x), y, np.ones(n)), np.arange(n)[None], Settings(n, joint=False))
    assert net.layers[0].mu[0, -2, 0] == pytest.approx(2, abs=0.02)


def test_a_sum_of_messages_that_overflows_overshoots():
    layers = make_network([2, 1], dtype=np.float32).layers
    tape = forward(layers, None, with_ones(np.array([[1, 0], [0, 1], [-1, 0.5]]), np.float32))[2]
    nu = np.array([3e38, -3e38, 3e38], np.float32).reshape(1, 3, 1)
    message = Message(nu, np.full_like(nu, 1e38), np.ones_like(nu))
    assert np.all(learning._overshoots(layers, tape, None, message))


def test_independent_batches_are_learnt_jointly_just_where_their_sum_makes_the_error_grow():
    """The sum moves the outputs by K nu; through hidden units, as an average output correlates."""
    n, decisions = 12, []
    for seed, sigma_v, x_std in itertools.product(range(6), (0.3, 1.0), (None, 0.5, 1.7)):
        data = make_rows(n, 2, 2, seed=seed)
        data.x[n // 2 :] = data.x[: n // 2]  # copies, with targets of their own
        x_std = None if x_std is None else np.full((n, 2), x_std)
        data = data._replace(var_x=None if x_std is None else x_std**2)
        guarded, by_hand = (
            make_network([2, 4, 2], seed=seed, sigma_v=sigma_v, activation="tanh") for _ in range(2)
        )
        noise_var = sigma_v**2 * np.array([[1.0, 20.0]])
        guarded.noise_var[...] = by_hand.noise_var[...] = noise_var
        learn_rows(guarded, data, np.arange(n)[None], Settings(n, joint=False))
        layers, x = to_oracle(by_hand.layers), data.x[:, :-1]
        parts = oracle.output_covariance(layers, "tanh", x, x_std)
        shared, own = (np.array(part)[None] for part in parts)
        mu_z, var_z, tape = forward(by_hand.layers, by_hand.activation, data.x, data.var_x)
        nu, kappa, leverage = independent_message(mu_z, var_z, data.y, noise_var, 1.0)
        assert leverage.sum(axis=-2).max() > 2  # below, no sum can make the error grow
        together = joint_message(mu_z, shared, own, data.y, noise_var, 1.0)
        step = np.array(oracle.summed_step(layers, "tanh", x, nu[0], x_std))
        residual = data.y - mu_z[0]
        after, before = ((kappa[0] * r**2).sum(axis=0) for r in (residual - step, residual))
        grows = after > before
        decisions.append((x_std is None, *grows))
        nu, kappa = (
            np.where(grows, *pair) for pair in ((together.nu, nu), (together.kappa, kappa))
        )
        backward(by_hand.layers, tape, nu, kappa)
        assert_same_posterior(guarded, by_hand, 1e-9)
    # All outcomes occur, of one output alone too, with certain rows and with uncertain ones.
    exact = {(True, True, True), (True, True, False), (True, False, False)}
    uncertain = {(False, *outcome) for _, *outcome in exact}
    assert exact | uncertain <= set(decisions)


# ------------------------------------------------------------------------------------------ classes


@pytest.mark.parametrize("joint", [False, True])
def test_classes_one_row_at_a_time_are_learnt_as_in_the_paper(joint):
    data, tree, sigma_v = class_rows(25, 3, 6), ClassTree(6), 0.4
    net = make_network([3, 5, tree.n_outputs], outputs=tree, sigma_v=sigma_v, activation="softplus")
    expected = to_oracle(net.layers)
    learn_rows(net, data, np.arange(25)[None], Settings(1, joint))
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
def test_a_batch_of_classes_is_learnt_by_conditioning_node_by_node(hidden, uncertain):
    """On each node, the rows that pass it: dense, from covariances of naive loops."""
    n, sigma_v = 20, 0.4
    data, tree = class_rows(n, 3, 6), ClassTree(6)
    rng = np.random.default_rng(6)
    x_std = rng.uniform(0.1, 0.5, size=(n, 3)) if uncertain else None
    data = data._replace(weight=rng.uniform(0.5, 2, size=n), var_x=x_std**2 if uncertain else None)
    learnt, by_hand = (
        make_network(
            [3, *hidden, tree.n_outputs], outputs=tree, learn_noise=True, sigma_v=sigma_v,
            activation="tanh",
        )
        for _ in range(2)
    )  # fmt: skip
    learn_rows(learnt, data, np.arange(n)[None], Settings(n))
    shared, own = oracle.output_covariance(to_oracle(by_hand.layers), "tanh", data.x[:, :-1], x_std)
    mu_z, _, tape = forward(by_hand.layers, by_hand.activation, data.x, data.var_x)
    nu, kappa, moment, count = np.zeros_like(mu_z), np.zeros_like(mu_z), 0.0, 0.0
    for node in range(tree.n_outputs):
        target, observed = zip(*(oracle.class_target(6, label) for label in data.y), strict=True)
        rows = np.flatnonzero(np.array(observed)[:, node])
        residual = np.array(target)[rows, node] - mu_z[0, rows, node]
        block = np.ix_(rows, rows)
        common, rest = np.array(shared[node])[block], np.array(own[node])[block]
        cov_v = np.diag(sigma_v**2 / data.weight[rows])
        inverse = np.linalg.inv(common + rest + cov_v)
        nu[0, rows, node] = inverse @ residual
        kappa[0, rows, node] = np.diag(common @ inverse) / np.diag(common)
        mean, cov = cov_v @ inverse @ residual, cov_v - cov_v @ inverse @ cov_v
        moment += data.weight[rows] @ (mean**2 + np.diag(cov))
        count += data.weight[rows].sum()
    assert np.all(kappa >= 0)
    backward(by_hand.layers, tape, nu, kappa)
    # The first batch is all that is known of the noise, so the step of EM is a whole one.
    by_hand.noise_var[...] = moment / count
    assert_same_posterior(learnt, by_hand, 1e-9)


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
        learn_rows(guarded, data, np.arange(n)[None], Settings(n, joint=False))
        layers, x = to_oracle(by_hand.layers), data.x[:, :-1]
        mu_z, var_z, tape = forward(by_hand.layers, by_hand.activation, data.x)
        target, observed = map(
            np.array, zip(*(oracle.class_target(6, label) for label in data.y), strict=True)
        )
        weight = observed * data.weight[:, None]
        kappa = weight / (weight * var_z[0] + sigma_v**2)
        residual = np.where(observed, target, 0) - mu_z[0]
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
        backward(by_hand.layers, tape, nu[None], kappa[None])
        assert_same_posterior(guarded, by_hand, 1e-9)
    assert 0.05 < np.mean(decisions) < 0.95


# ---------------------------------------------------------------------------------- early stopping


@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("members", [1, 3])
def test_early_stopping_gives_back_the_best_posterior_not_the_last(learn_noise, members):
    data = make_rows(70, 5, noise=0.8, weight=np.linspace(0.5, 2, 70))
    net = make_network([5, 40, 1], members=members, sigma_v=0.2, learn_noise=learn_noise)
    train = np.tile(np.arange(40), (members, 1))
    validation = [np.arange(40 + 3 * m, 70) for m in range(members)]
    last = net.copy()
    settings = Settings(8)
    history = fit(net, data, train, settings, validation=validation, max_iter=60, patience=10)
    assert history.n_iter == len(history.validation_scores)
    assert np.all(history.best_iter >= 1)
    assert np.any(history.best_iter < history.n_iter)

    def scores(posterior):
        mu, var = predict_moments(posterior, data.x)
        log_lik = posterior.outputs.log_likelihood(mu, var + posterior.noise_var, data.y)[..., 0]
        return np.array(
            [np.average(log_lik[m, v], weights=data.weight[v]) for m, v in enumerate(validation)]
        )

    # A member's best epoch, learnt again without validation; its noise is the validation's best.
    by_epoch = np.empty((history.n_iter, members))
    for epoch in range(history.n_iter):
        learn_rows(last, data, train, settings)
        by_epoch[epoch] = scores(last)
        for m in np.flatnonzero(history.best_iter == epoch + 1):
            for mine, theirs in zip(net.layers, last.layers, strict=True):
                # To rounding: stacks are multiplied otherwise than single matrices.
                np.testing.assert_allclose(mine.mu[m], theirs.mu[m], rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(mine.var[m], theirs.var[m], rtol=1e-9)
    returned = scores(net)
    assert np.all(returned >= by_epoch.max(axis=0) - 1e-12)
    if not learn_noise:
        np.testing.assert_allclose(returned, by_epoch.max(axis=0), rtol=1e-12)
        np.testing.assert_array_equal(history.best_iter, by_epoch.argmax(axis=0) + 1)
        np.testing.assert_allclose(history.validation_scores, by_epoch.mean(axis=1), rtol=1e-12)
    if members == 1:
        np.testing.assert_allclose(returned, max(history.validation_scores), rtol=1e-12)


def test_training_stops_after_some_epochs_without_gain():
    data = make_rows(60, 5, noise=1.0)
    net = make_network([5, 40, 1], sigma_v=0.2)
    history = fit(
        net, data, np.arange(40), Settings(8), validation=[np.arange(40, 60)],
        max_iter=200, patience=5,
    )  # fmt: skip
    scores = np.array(history.validation_scores)
    assert history.n_iter < 200
    assert scores.argmax() == history.n_iter - 1 - 5 == history.best_iter[0] - 1


def test_noise_kept_by_validation_maximises_its_likelihood():
    data = make_rows(120, 3, 2, noise=0.5)
    net = make_network([3, 10, 2], learn_noise=True, sigma_v=1.0)
    rows = np.arange(80, 120)
    fit(net, data, np.arange(80), Settings(16), validation=[rows], max_iter=5)
    mu, var = predict_moments(net, data.x[rows])

    def score(noise_var):
        return net.outputs.log_likelihood(mu, var + noise_var, data.y[rows]).sum(axis=(0, 1))

    best = score(net.noise_var)
    for factor in (0.9, 1.1):
        assert np.all(score(net.noise_var * factor) < best)


def test_a_callback_may_end_training_and_sees_each_epoch():
    data, net, seen = make_rows(20, 3), make_network([3, 4, 1]), []

    def on_epoch(history):
        seen.append(history.n_iter)
        return history.n_iter == 3

    history = fit_epochs(
        net, data, np.arange(20)[None], None, Settings(5), max_iter=10, n_iter_no_change=10,
        tol=0.0, rngs=None, on_epoch=on_epoch,
    )  # fmt: skip
    assert history.n_iter == 3
    assert seen == [1, 2, 3]


def test_an_interrupt_from_the_keyboard_gives_back_the_best_so_far():
    data, net = make_rows(60, 3), make_network([3, 6, 1])
    train, validation = np.arange(40), [np.arange(40, 60)]

    def on_epoch(history):
        if history.n_iter == 3:
            raise KeyboardInterrupt

    history = fit_epochs(
        net, data, train[None], validation, Settings(5), max_iter=10, n_iter_no_change=10,
        tol=0.0, rngs=None, on_epoch=on_epoch,
    )  # fmt: skip
    assert history.interrupted
    assert history.n_iter == 3
    same = make_network([3, 6, 1])
    fit(same, data, train, Settings(5), validation=validation, max_iter=3)
    assert_same_posterior(net, same, 0)


# ------------------------------------------------------------------------------------------ members


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_members_side_by_side_equal_each_alone(joint, learn_noise, batch_size, kind):
    if kind == "regression":
        data, outputs, n_outputs = make_rows(60, 3, 2), None, 2
    else:
        data, outputs = class_rows(60, 3, 5), ClassTree(5)
        n_outputs = outputs.n_outputs
    rng = np.random.default_rng(2)
    members = 3
    split = np.stack([rng.permutation(60) for _ in range(members)])
    train, validation = split[:, :40], list(split[:, 40:])
    settings = Settings(batch_size, joint, 200.0)
    together = make_network(
        [3, 6, n_outputs], members=members, sigma_v=0.5, outputs=outputs, learn_noise=learn_noise
    )
    alone = [single_member(together, m) for m in range(members)]

    def generators():
        return [np.random.default_rng([3, m]) for m in range(members)]

    history = fit(
        together, data, train, settings, validation=validation, max_iter=4, rngs=generators()
    )
    for m in range(members):
        own = fit(
            alone[m], data, train[m], settings, validation=[validation[m]], max_iter=4,
            rngs=[generators()[m]],
        )  # fmt: skip
        assert_same_posterior(single_member(together, m), alone[m], 1e-8)
        assert own.best_iter[0] == history.best_iter[m]


def single_member(net, m):
    part = slice(m, m + 1)
    layers = [type(layer)(layer.mu[part], layer.var[part], layer.var_prior) for layer in net.layers]
    return Network(
        copy_layers(layers), net.activation, net.outputs, net.noise_var[part].copy(),
        net.learn_noise, net.rows_learned[part].copy(),
    )  # fmt: skip


def test_several_members_need_no_count_of_rows():
    """The count of learnt rows has a default; it must serve any number of members."""
    counted = make_network([3, 6, 1], members=2, learn_noise=True)
    default = Network(
        copy_layers(counted.layers), counted.activation, counted.outputs,
        counted.noise_var.copy(), True,
    )  # fmt: skip
    data, rows = make_rows(20, 3), np.tile(np.arange(20), (2, 1))
    learn_rows(counted, data, rows, Settings(5))
    learn_rows(default, data, rows, Settings(5))
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
    score = learn_rows(padded, data, rows, settings)
    own_score = learn_rows(alone, data, rows[1:, :n_real], settings)
    assert_same_posterior(single_member(padded, 1), alone, 1e-9)
    np.testing.assert_allclose(score[1], own_score[0], rtol=1e-10)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_without_weight_equals_leaving_it_out(joint):
    weight = np.ones(20)
    weight[[3, 4, 11]] = 0
    data = make_rows(20, 3, weight=weight)
    data.y[weight == 0] = 1e6
    with_zeros, without = (make_network([3, 6, 1], learn_noise=True) for _ in range(2))
    learn_rows(with_zeros, data, np.arange(20)[None], Settings(20, joint, 50.0))
    learn_rows(without, data, np.flatnonzero(weight)[None], Settings(20, joint, 50.0))
    assert_same_posterior(with_zeros, without, 1e-9)


# -------------------------------------------------------------------------------------------- noise


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
    fit(net, data, np.arange(2000), Settings(batch_size, joint), max_iter=1 + batch_size // 25)
    assert net.noise_var.dtype == np.float64
    np.testing.assert_allclose(np.sqrt(net.noise_var[0, 0]), true, rtol=0.15)


def test_fixed_noise_stays_as_it_is():
    data, net = make_rows(40, 3), make_network([3, 6, 1], sigma_v=0.3)
    before = net.noise_var.copy()
    fit(net, data, np.arange(40), Settings(8), max_iter=3)
    np.testing.assert_array_equal(net.noise_var, before)


def test_outputs_that_nobody_observes_keep_their_noise_and_parameters():
    data = class_rows(30, 3, 5)
    data = data._replace(y=data.y % 2)  # classes 0 and 1: of level 1, only the left half is seen
    tree = ClassTree(5)
    net = make_network([3, tree.n_outputs], outputs=tree, learn_noise=True)
    before = net.copy()
    learn_rows(net, data, np.arange(30)[None], Settings(10))
    seen = np.isin(np.arange(tree.n_outputs), tree.nodes[:2])
    moved = np.any(net.layers[0].mu != before.layers[0].mu, axis=(0, 1))
    shrunk = np.any(net.layers[0].var != before.layers[0].var, axis=(0, 1))
    np.testing.assert_array_equal(moved, seen)
    np.testing.assert_array_equal(shrunk, seen)


# --------------------------------------------------------------------------------------- predicting


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("var_x", [None, "shared", "own"])
def test_predictions_do_not_depend_on_the_size_of_blocks(monkeypatch, kind, var_x):
    data = make_rows(23, 4)
    x = sparse.csr_array(data.x) if kind == "sparse" else data.x
    if var_x is not None:
        n_var = 1 if var_x == "shared" else 23
        var_x = np.random.default_rng(5).uniform(0.1, 0.4, size=(n_var, 4))
    net = make_network([4, 6, 2], members=3)
    moments = []
    for elements in (1 << 18, 150, 1):
        monkeypatch.setattr(learning, "BLOCK_ELEMENTS", elements)
        moments.append(predict_moments(net, x, var_x))
    assert moments[0][0].shape == (3, 23, 2)
    if var_x is None:
        expected = forward(net.layers, net.activation, data.x)
    else:  # predictions carry the full covariance of uncertain inputs
        expected = forward_uncertain(net.layers, net.activation, data.x, var_x)
    for mu, var in moments:
        np.testing.assert_allclose(mu, expected[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(var, expected[1], rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_predicting_changes_nothing_and_keeps_dtype(dtype):
    data = make_rows(10, 3, dtype=dtype)
    net, same = (make_network([3, 6, 1], dtype=dtype) for _ in range(2))
    mu, var = predict_moments(net, data.x)
    assert mu.dtype == var.dtype == dtype
    assert_same_posterior(net, same, 0)


def test_no_rows_give_no_predictions():
    mu, var = predict_moments(make_network([3, 6, 2]), np.empty((0, 4)))
    assert mu.shape == var.shape == (1, 0, 2)


def test_single_precision_learns_what_double_does():
    nets = []
    for dtype in DTYPES:
        net = make_network([3, 8, 1], dtype=dtype)
        fit(net, make_rows(60, 3, dtype=dtype), np.arange(60), Settings(10), max_iter=2)
        nets.append(net)
    assert_same_posterior(*nets, rtol(np.float32, 10))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("elements", [1, 200, 1 << 18])
@pytest.mark.parametrize("joint", [True, False])
def test_rows_are_learnt_alike_in_chunks_of_any_size(members, elements, joint, monkeypatch):
    """The last chunk may be smaller than a batch, and batches may hold copies of a row."""
    data = make_rows(45, 4, 1, seed=3)
    rows = np.random.default_rng(0).integers(45, size=(members, 70))
    whole, parts = (make_network([4, 6, 1], 4, members) for _ in range(2))
    settings = Settings(16, joint, 100.0)
    expected = learn_rows(whole, data, rows, settings)
    monkeypatch.setattr(learning, "CHUNK_ELEMENTS", elements)
    np.testing.assert_allclose(learn_rows(parts, data, rows, settings), expected, rtol=1e-12)
    assert_same_posterior(parts, whole, 1e-12)


def test_scores_of_large_weights_do_not_overflow_in_single_precision():
    data = make_rows(12, 2, seed=50, dtype=np.float32, weight=np.full(12, 1e34, np.float32))
    data.y[3] = 1e4
    single = make_network([2, 1], seed=51, dtype=np.float32)
    double = make_network([2, 1], seed=51)
    rows = np.arange(12)[None]
    scores = learn_rows(single, data, rows, Settings(4, joint=False))
    exact = Rows(*(None if part is None else part.astype(float) for part in data))
    np.testing.assert_allclose(
        scores, learn_rows(double, exact, rows, Settings(4, joint=False)), rtol=1e-3
    )


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_arrays_that_are_kept_for_the_next_pass_change_nothing(
    members, as_sparse, joint, half_life
):
    """Of batches of two sizes, with copies of rows, in an order that differs from pass to pass."""
    data = make_rows(17, 3, 2, seed=60)
    data.x[9:12] = data.x[:3]
    if as_sparse:
        data = data._replace(x=sparse.csr_array(np.where(data.x > 0.3, data.x, 0)))
    kept, fresh = (make_network([3, 6, 4, 2], seed=61, members=members) for _ in range(2))
    rng = np.random.default_rng(62)
    tapes: dict = {}
    settings = Settings(5, joint, half_life)
    for _ in range(4):
        rows = np.stack([rng.permutation(17) for _ in range(members)])
        scores = learn_rows(kept, data, rows, settings, tapes)
        np.testing.assert_array_equal(scores, learn_rows(fresh, data, rows, settings))
    assert bool(tapes) == (members == 1 or not as_sparse)
    assert_same_posterior(kept, fresh, 0)
