"""Full covariances against dense transcriptions of the paper and exact Bayesian regression."""

import numpy as np
import oracle_full
import pytest
from helpers import LINEARISED, random_layers, with_ones

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.full import forget_full, learn_full, predict_full
from sktagi.engine.inputs import InputErrors
from sktagi.engine.learning import Learner, Settings
from sktagi.engine.observations import Gaussian
from sktagi.engine.posterior import FullLayer, Network, draw_prior, full_prior
from sktagi.engine.rows import Rows
from sktagi.engine.tree import ClassTree

HIDDEN = [(), (4,), (3, 4)]


def spd(size, rng, scale=0.3):
    root = rng.normal(size=(size, size + 2))
    return scale * root @ root.T / size


def random_network(sizes, seed=0, members=1, activation="tanh", noise_var=0.2, outputs=None):
    """A posterior without symmetries or zeros in its covariances."""
    rng = np.random.default_rng(seed)
    layers = []
    for layer in random_layers(sizes, seed=seed, members=members):
        n_params = layer.mu[0].size
        cov = np.stack([spd(n_params, rng) for _ in range(members)])
        layers.append(FullLayer(layer.mu, cov, layer.var_prior, np.zeros(members)))
    outputs = Gaussian(sizes[-1]) if outputs is None else outputs
    noise = np.full((members, outputs.n_noise, 1), noise_var)
    return Network(layers, ACTIVATIONS[activation], outputs, noise)


def to_oracle(net, member=0):
    return [(layer.mu[member].flatten(), layer.cov[member].copy()) for layer in net.layers]


def learn(net, x, y, weight=None, errors=None, joint=True, half_life=None):
    """The same rows to every member; returns the log-likelihoods before that."""
    weight = np.ones(len(x)) if weight is None else weight
    data = Rows(with_ones(x), y, weight, None if errors is None else InputErrors(errors))
    return [learn_full(net, m, data, joint, half_life)[0] for m in range(net.n_members)]


def assert_posterior(net, expected, rtol=1e-8, member=0):
    for layer, (mu, cov) in zip(net.layers, expected, strict=True):
        np.testing.assert_allclose(layer.mu[member].ravel(), mu, rtol=rtol, atol=rtol)
        size = np.abs(cov).max()
        np.testing.assert_allclose(layer.cov[member], cov, rtol=rtol, atol=rtol * size)


# ------------------------------------------------------------------------ dense transcription


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("activation", LINEARISED)
def test_outputs_have_the_moments_of_the_paper(hidden, n_outputs, activation):
    rng = np.random.default_rng(1)
    x, cov_x = rng.normal(size=(5, 3)), np.stack([spd(3, rng, 0.1) for _ in range(5)])
    net = random_network([3, *hidden, n_outputs], activation=activation)
    mu_z, var_z = predict_full(net, with_ones(x), InputErrors(cov_x))
    for n in range(len(x)):
        record = oracle_full.forward(to_oracle(net), activation, x[n : n + 1], cov_x[n : n + 1])
        np.testing.assert_allclose(mu_z[0, :, n], record[-1][2], rtol=1e-10)
        np.testing.assert_allclose(var_z[0, :, n], np.diag(record[-1][3]), rtol=1e-10)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_rows_are_learned_as_in_the_paper(hidden, n_outputs, activation, uncertain, batch):
    """Eq. 10-16, one row at a time, or several as one observation of all their outputs."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, n_outputs))
    cov_x = np.stack([spd(2, rng, 0.1) for _ in range(6)]) * uncertain
    net = random_network([2, *hidden, n_outputs], seed=3, activation=activation)
    expected = to_oracle(net)
    for start in range(0, 6, batch):
        part = slice(start, start + batch)
        learn(net, x[part], y[part], errors=cov_x[part] if uncertain else None)
        expected = oracle_full.learn(expected, activation, x[part], cov_x[part], y[part], 0.2)
    assert_posterior(net, expected)


@pytest.mark.parametrize("sizes", [[2, 1], [2, 3, 1], [2, 3, 2], [1, 3, 2, 2]])
def test_one_row_is_learned_as_by_one_step_network_wise_inference(sizes):
    """Eq. 13 for all parameters at once: the blocks of the layers are the layer-wise posterior."""
    rng = np.random.default_rng(4)
    x, y, cov_x = rng.normal(size=sizes[0]), rng.normal(size=sizes[-1]), spd(sizes[0], rng, 0.1)
    net = random_network(sizes, seed=5)
    mu = np.concatenate([layer.mu.ravel() for layer in net.layers])
    cov = oracle_full._stack(*(layer.cov[0] for layer in net.layers))
    learn(net, x[None], y[None], errors=cov_x[None])
    mu, cov = oracle_full.learn_networkwise(mu, cov, sizes, "tanh", x, cov_x, y, 0.2)
    expected, start = [], 0
    for layer in net.layers:
        part = slice(start, start + layer.mu.size)
        expected.append((mu[part], cov[part, part]))
        start += layer.mu.size
    assert_posterior(net, expected)
    if len(sizes) > 2:  # what the layer-wise form gives up: the posterior between layers
        n_first = net.layers[0].mu.size
        assert np.abs(cov[:n_first, n_first:]).max() > 1e-3


def test_nodes_off_the_path_of_a_class_are_not_observed():
    rng = np.random.default_rng(6)
    tree = ClassTree(3)
    x, y = rng.normal(size=(4, 2)), np.array([0, 2, 1, 2])
    net = random_network([2, 3, tree.n_outputs], seed=7, outputs=tree)
    target, observed = np.zeros((4, tree.n_outputs)), np.zeros((4, tree.n_outputs), bool)
    np.put_along_axis(target, tree.nodes[y], tree.signs[y], axis=1)
    np.put_along_axis(observed, tree.nodes[y], True, axis=1)
    assert not observed.all()
    cov_x = np.zeros((4, 2, 2))
    expected = oracle_full.learn(to_oracle(net), "tanh", x, cov_x, target, 0.2, observed)
    learn(net, x, y)
    assert_posterior(net, expected)


# ------------------------------------------------------------------- conjugate linear regression


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
@pytest.mark.parametrize("joint", [True, False])
def test_linear_model_is_conjugate_regression_for_any_split(batch_size, joint):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    weight = rng.uniform(0.5, 3, size=20)
    net = random_network([3, 2], seed=9, noise_var=0.05)
    net.layers[0].cov[...] = oracle_full._stack(*[spd(4, rng) for _ in range(2)])
    order = np.arange(8).reshape(4, 2).T.ravel()  # the parameters of a target together
    net.layers[0].cov[...] = net.layers[0].cov[:, np.argsort(order)][:, :, np.argsort(order)]
    mu, cov = net.layers[0].mu[0].copy(), net.layers[0].cov[0].copy()
    for start in range(0, 20, batch_size):
        part = slice(start, start + batch_size)
        learn(net, x[part], y[part], weight[part], joint=joint)
    for o in range(2):
        mean, expected = oracle_full.linear_regression(
            mu[:, o], cov[o::2, o::2], with_ones(x), y[:, o], 0.05 / weight
        )
        np.testing.assert_allclose(net.layers[0].mu[0, :, o], mean, rtol=1e-8)
        np.testing.assert_allclose(net.layers[0].cov[0, o::2, o::2], expected, rtol=1e-8)


# ------------------------------------------------------------------------------ diagonal by nature


def test_one_row_of_a_diagonal_prior_moves_means_as_the_diagonal_form_does():
    """One output and one hidden layer: the first row sees no covariance that 'diag' leaves out."""
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=(1, 3)), rng.normal(size=(1, 1))
    layers = draw_prior([3, 6, 1], [np.random.default_rng(0)])
    net = Network(layers, ACTIVATIONS["tanh"], Gaussian(1), np.full((1, 1, 1), 0.1))
    full = Network(
        full_prior(net.copy().layers), ACTIVATIONS["tanh"], net.outputs, net.noise_var.copy()
    )
    data = Rows(with_ones(x), y, np.ones(1))
    for each in (net, full):
        Learner(each, Settings(1)).learn(data, np.zeros((1, 1), int))
    for mine, theirs in zip(full.layers, net.layers, strict=True):
        np.testing.assert_allclose(mine.mu, theirs.mu, rtol=1e-10)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=1e-8)


# -------------------------------------------------------------------------------- rows and batches


@pytest.mark.parametrize("activation", ["tanh", "relu_exact"])
def test_weight_three_equals_row_three_times(activation):
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(4, 1))
    times = np.array([1, 3, 1, 2])
    one, other = (random_network([2, 3, 4, 1], 13, activation=activation) for _ in range(2))
    learn(one, x, y, times.astype(float))
    learn(other, np.repeat(x, times, axis=0), np.repeat(y, times, axis=0))
    assert_posterior(one, to_oracle(other), rtol=1e-7)


def test_order_of_rows_in_a_joint_batch_does_not_matter():
    rng = np.random.default_rng(14)
    x, y, order = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.permutation(6)
    one, other = (random_network([2, 5, 2], 15) for _ in range(2))
    learn(one, x, y)
    learn(other, x[order], y[order])
    assert_posterior(one, to_oracle(other), rtol=1e-9)


def test_rows_without_weight_teach_nothing():
    rng = np.random.default_rng(16)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    weight = np.array([1.0, 0, 1, 0, 1])
    one, other = (random_network([2, 4, 1], 17) for _ in range(2))
    one.noise_is_learned = other.noise_is_learned = True
    log_lik = learn(one, x, y, weight)
    expected = learn(other, x[weight > 0], y[weight > 0])
    assert_posterior(one, to_oracle(other), rtol=1e-12)
    np.testing.assert_allclose(log_lik, expected)
    np.testing.assert_allclose(one.noise_var, other.noise_var, rtol=1e-12)
    assert one.noise_var.item() != 0.2
    np.testing.assert_array_equal(one.rows_learned, other.rows_learned)


def test_a_batch_that_observes_nothing_teaches_nothing():
    rng = np.random.default_rng(3)
    net = random_network([2, 3, 2])
    before = net.copy()
    log_lik = learn(net, rng.normal(size=(4, 2)), np.full((4, 2), np.nan))
    assert log_lik == [0]
    for layer, old in zip(net.layers, before.layers, strict=True):
        np.testing.assert_array_equal(layer.mu, old.mu)
        np.testing.assert_array_equal(layer.cov, old.cov)


def test_members_learn_as_if_each_were_alone():
    rng = np.random.default_rng(18)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    net = random_network([2, 4, 1], 19, members=3)
    alone = [net.members(slice(m, m + 1)).copy() for m in range(3)]
    log_lik = learn(net, x, y, half_life=4.0)
    for m, one in enumerate(alone):
        np.testing.assert_allclose(learn(one, x, y, half_life=4.0)[0], log_lik[m])
        assert_posterior(net, to_oracle(one), rtol=1e-12, member=m)
    picked = net.members(np.array([2, 0]))
    picked.layers[0].cov[...] = 0
    assert net.layers[0].cov.any()
    net.assign(picked, np.array([1]), np.array([0]))
    assert not net.layers[0].cov[1].any()
    np.testing.assert_array_equal(net.layers[1].cov[1], net.layers[1].cov[2])


def test_large_batches_are_learned_in_blocks_of_pairs(monkeypatch):
    rng = np.random.default_rng(21)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    one, other = (random_network([2, 4, 3, 1], 22) for _ in range(2))
    learn(one, x, y)
    predicted = predict_full(one, with_ones(x), InputErrors(np.full((1, 2), 0.1)))
    monkeypatch.setattr("sktagi.engine.full.PAIR_ELEMENTS", 100)
    learn(other, x, y)
    assert_posterior(one, to_oracle(other), rtol=1e-12)
    again = predict_full(one, with_ones(x), InputErrors(np.full((1, 2), 0.1)))
    np.testing.assert_allclose(again, predicted, rtol=1e-12)


# -------------------------------------------------------------------------------------- forgetting


@pytest.mark.parametrize("half_lives", [0.01, 0.7, 1.0, 3.5, 20.0])
def test_evidence_is_forgotten_in_the_precision(half_lives):
    net = random_network([3, 4], seed=23)
    layer = net.layers[0]
    prior = np.diag(np.broadcast_to(layer.var_prior, (4, 4)).ravel())
    retained = 2.0**-half_lives
    precision = (1 - retained) * np.linalg.inv(prior) + retained * np.linalg.inv(layer.cov[0])
    forget_full(layer, 0, half_lives, rows=100.0)
    np.testing.assert_allclose(layer.cov[0], np.linalg.inv(precision), rtol=1e-7, atol=1e-9)


def test_all_evidence_is_forgotten_down_to_the_prior():
    net = random_network([3, 4], seed=24)
    layer = net.layers[0]
    forget_full(layer, 0, 1e6, rows=1.0)
    np.testing.assert_array_equal(layer.cov[0], np.diag(np.repeat(layer.var_prior[:, 0], 4)))


def test_forgetting_waits_for_some_rows_and_is_not_lost():
    net, other = random_network([8, 41], seed=25), random_network([8, 41], seed=25)
    layer, at_once = net.layers[0], other.layers[0]
    before = layer.cov.copy()
    for _ in range(46):  # 369 parameters: every 46.1 rows
        forget_full(layer, 0, 1e-3, rows=1.0)
        np.testing.assert_array_equal(layer.cov, before)
    forget_full(layer, 0, 1e-3, rows=1.0)
    forget_full(at_once, 0, 47e-3, rows=47.0)
    np.testing.assert_allclose(layer.cov, at_once.cov, rtol=1e-9)
    assert (layer.cov != before).any()


def test_forgetting_does_not_wait_for_long_in_half_lives():
    net = random_network([8, 41], seed=26)
    before = net.layers[0].cov.copy()
    forget_full(net.layers[0], 0, 0.1, rows=1.0)
    assert (net.layers[0].cov != before).any()


def test_forgetting_leaves_the_prior_alone():
    (layer,) = full_prior(draw_prior([3, 4], [np.random.default_rng(0)]))
    before = layer.cov.copy()
    forget_full(layer, 0, 0.5, rows=100.0)
    np.testing.assert_allclose(layer.cov, before, rtol=1e-12)
