"""Full covariances against dense transcriptions of the paper and exact Bayesian regression."""

import numpy as np
import oracle_full
import pytest
from helpers import LINEARISED, random_layers, with_ones
from scipy import sparse
from sklearn.datasets import load_iris

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.full import FullLayer, fade, full_prior, learn_full, predict_full
from sktagi.engine.learning import Network, Rows, Settings, learn_rows
from sktagi.engine.network import draw_prior
from sktagi.engine.noise import GaussianOutputs
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
    outputs = GaussianOutputs(sizes[-1]) if outputs is None else outputs
    n_noise = 1 if outputs.shared_noise else outputs.n_outputs
    noise = np.full((members, 1, n_noise), noise_var)
    return Network(layers, ACTIVATIONS[activation], outputs, noise)


def to_oracle(net, member=0):
    return [(layer.mu[member].flatten(), layer.cov[member].copy()) for layer in net.layers]


def learn(net, x, y, weight=None, var_x=None, joint=True, half_life=None):
    """The same rows to every member."""
    n_members = len(net.noise_var)
    weight = np.ones(len(x)) if weight is None else weight
    data = Rows(with_ones(x), y, weight, var_x)
    rows = np.tile(np.arange(len(x)), (n_members, 1))
    return learn_full(net, data.take(rows), joint, half_life)


def assert_posterior(net, expected, rtol=1e-8, member=0):
    for layer, (mu, cov) in zip(net.layers, expected, strict=True):
        np.testing.assert_allclose(layer.mu[member].ravel(), mu, rtol=rtol, atol=rtol)
        size = np.abs(cov).max()
        np.testing.assert_allclose(layer.cov[member], cov, rtol=rtol, atol=rtol * size)


def assert_positive_definite(model):
    for layer in model._net.layers:
        for cov in layer.cov:
            np.testing.assert_array_equal(cov, cov.T)
            np.linalg.cholesky(cov)  # raises if it is not


# ------------------------------------------------------------------------ dense transcription


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("activation", LINEARISED)
def test_outputs_have_the_moments_of_the_paper(hidden, n_outputs, activation):
    rng = np.random.default_rng(1)
    x, cov_x = rng.normal(size=(5, 3)), np.stack([spd(3, rng, 0.1) for _ in range(5)])
    net = random_network([3, *hidden, n_outputs], activation=activation)
    mu_z, var_z = predict_full(net, with_ones(x), cov_x)
    for n in range(len(x)):
        record = oracle_full.forward(to_oracle(net), activation, x[n : n + 1], cov_x[n : n + 1])
        np.testing.assert_allclose(mu_z[0, n], record[-1][2], rtol=1e-10)
        np.testing.assert_allclose(var_z[0, n], np.diag(record[-1][3]), rtol=1e-10)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_rows_are_learnt_as_in_the_paper(hidden, n_outputs, activation, uncertain, batch):
    """Eq. 10-16, one row at a time, or several as one observation of all their outputs."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, n_outputs))
    cov_x = np.stack([spd(2, rng, 0.1) for _ in range(6)]) * uncertain
    net = random_network([2, *hidden, n_outputs], seed=3, activation=activation)
    expected = to_oracle(net)
    for start in range(0, 6, batch):
        part = slice(start, start + batch)
        learn(net, x[part], y[part], var_x=cov_x[part] if uncertain else None)
        expected = oracle_full.learn(expected, activation, x[part], cov_x[part], y[part], 0.2)
    assert_posterior(net, expected)


@pytest.mark.parametrize("sizes", [[2, 1], [2, 3, 1], [2, 3, 2], [1, 3, 2, 2]])
def test_one_row_is_learnt_as_by_one_step_network_wise_inference(sizes):
    """Eq. 13 for all parameters at once: the blocks of the layers are the layer-wise posterior."""
    rng = np.random.default_rng(4)
    x, y, cov_x = rng.normal(size=sizes[0]), rng.normal(size=sizes[-1]), spd(sizes[0], rng, 0.1)
    net = random_network(sizes, seed=5)
    mu = np.concatenate([layer.mu.ravel() for layer in net.layers])
    cov = oracle_full._stack(*(layer.cov[0] for layer in net.layers))
    learn(net, x[None], y[None], var_x=cov_x[None])
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


def test_linear_regressor_is_conjugate_regression():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(50, 4))
    y = X @ [1, -2, 0.5, 0] + 0.3 + 0.1 * rng.normal(size=50)
    params = {"covariance_type": "full", "n_members": 1, "sigma_v": 0.1, "half_life": None,
              "early_stopping": False, "standardize": False, "random_state": 0}  # fmt: skip
    prior = TAGIRegressor((), max_iter=0, **params).fit(X, y)
    model = TAGIRegressor((), max_iter=1, **params).fit(X, y)
    mu = np.append(prior.coefs_[0], prior.intercepts_[0])
    mean, cov = oracle_full.linear_regression(
        mu, prior.layer_covariances_[0], with_ones(X), y, 0.01
    )
    np.testing.assert_allclose(np.append(model.coefs_[0], model.intercepts_[0]), mean, rtol=1e-8)
    np.testing.assert_allclose(model.layer_covariances_[0], cov, rtol=1e-8)
    new = with_ones(rng.normal(size=(7, 4)))
    predicted, std = model.predict(new[:, :-1], return_std=True)
    np.testing.assert_allclose(predicted, new @ mean, rtol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.einsum("ni,ij,nj->n", new, cov, new) + 0.01))


# ------------------------------------------------------------------------------ diagonal by nature


def test_one_row_of_a_diagonal_prior_moves_means_as_the_diagonal_form_does():
    """One output and one hidden layer: the first row sees no covariance that 'diag' leaves out."""
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=(1, 3)), rng.normal(size=(1, 1))
    layers = draw_prior([3, 6, 1], [np.random.default_rng(0)])
    net = Network(layers, ACTIVATIONS["tanh"], GaussianOutputs(1), np.full((1, 1, 1), 0.1))
    full = Network(
        full_prior(net.copy().layers), ACTIVATIONS["tanh"], net.outputs, net.noise_var.copy()
    )
    data = Rows(with_ones(x), y, np.ones(1))
    for each in (net, full):
        learn_rows(each, data, np.zeros((1, 1), int), Settings(1))
    for mine, theirs in zip(full.layers, net.layers, strict=True):
        np.testing.assert_allclose(mine.mu, theirs.mu, rtol=1e-10)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=1e-8)


def test_parameters_that_meet_no_other_stay_independent():
    """Targets of features that are on in rows of their own: the posterior is diagonal by itself."""
    X = np.repeat(np.eye(4), 5, axis=0) * np.tile([1, -2, 0.5, 1.5, 3], 4)[:, None]
    y = np.arange(20) / 10
    params = {"n_members": 1, "sigma_v": 0.3, "early_stopping": False, "standardize": False,
              "max_iter": 2, "batch_size": 1, "random_state": 0, "half_life": 30.0,
              "bias_variance": 1e-14}  # fmt: skip
    diag, full = (
        TAGIRegressor((), covariance_type=c, **params).fit(X, y) for c in ("diag", "full")
    )
    np.testing.assert_allclose(full.coefs_[0], diag.coefs_[0], rtol=1e-8)
    np.testing.assert_allclose(full.coef_vars_[0], diag.coef_vars_[0], rtol=1e-8)
    mean, std = diag.predict(X, return_std=True)
    np.testing.assert_allclose(full.predict(X, return_std=True), (mean, std), rtol=1e-8)


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
    log_lik, moment = learn(one, x, y, weight)
    expected = learn(other, x[weight > 0], y[weight > 0])
    assert_posterior(one, to_oracle(other), rtol=1e-12)
    np.testing.assert_allclose(log_lik, expected[0])
    np.testing.assert_allclose(moment[0, weight > 0], expected[1][0])
    assert not moment[0, weight == 0].any()


def test_members_learn_as_if_each_were_alone():
    rng = np.random.default_rng(18)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    net = random_network([2, 4, 1], 19, members=3)
    alone = [net.members(slice(m, m + 1)).copy() for m in range(3)]
    log_lik, _ = learn(net, x, y, half_life=4.0)
    for m, one in enumerate(alone):
        np.testing.assert_allclose(learn(one, x, y, half_life=4.0)[0][0], log_lik[m])
        assert_posterior(net, to_oracle(one), rtol=1e-12, member=m)
    picked = net.members(np.array([2, 0]))
    picked.layers[0].cov[...] = 0
    assert net.layers[0].cov.any()
    net.assign(picked, np.array([1]), np.array([0]))
    assert not net.layers[0].cov[1].any()
    np.testing.assert_array_equal(net.layers[1].cov[1], net.layers[1].cov[2])


def test_independent_rows_are_learnt_one_after_the_other():
    rng = np.random.default_rng(20)
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + X[:, 1]
    params = {"covariance_type": "full", "n_members": 1, "half_life": None, "max_iter": 2,
              "sigma_v": 0.1, "random_state": 0}  # fmt: skip
    one = TAGIRegressor((5,), batch_size=1, **params).fit(X, y)
    other = TAGIRegressor((5,), batch_size=9, batch_inference="independent", **params).fit(X, y)
    for mine, theirs in zip(one.layer_covariances_, other.layer_covariances_, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-14)


def test_large_batches_are_learnt_in_blocks_of_pairs(monkeypatch):
    rng = np.random.default_rng(21)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    one, other = (random_network([2, 4, 3, 1], 22) for _ in range(2))
    learn(one, x, y)
    predicted = predict_full(one, with_ones(x), np.full((1, 2), 0.1))
    monkeypatch.setattr("sktagi.engine.full.PAIR_ELEMENTS", 100)
    learn(other, x, y)
    assert_posterior(one, to_oracle(other), rtol=1e-12)
    again = predict_full(one, with_ones(x), np.full((1, 2), 0.1))
    np.testing.assert_allclose(again, predicted, rtol=1e-12)


# -------------------------------------------------------------------------------------- forgetting


@pytest.mark.parametrize("half_lives", [0.01, 0.7, 1.0, 3.5, 20.0])
def test_evidence_fades_in_the_precision(half_lives):
    net = random_network([3, 4], seed=23)
    layer = net.layers[0]
    prior = np.diag(np.broadcast_to(layer.var_prior, (4, 4)).ravel())
    keep = 2.0**-half_lives
    precision = (1 - keep) * np.linalg.inv(prior) + keep * np.linalg.inv(layer.cov[0])
    fade(layer, 0, half_lives, rows=100.0)
    np.testing.assert_allclose(layer.cov[0], np.linalg.inv(precision), rtol=1e-7, atol=1e-9)


def test_all_evidence_fades_to_the_prior():
    net = random_network([3, 4], seed=24)
    layer = net.layers[0]
    fade(layer, 0, 1e6, rows=1.0)
    np.testing.assert_array_equal(layer.cov[0], np.diag(np.repeat(layer.var_prior[:, 0], 4)))


def test_fading_waits_for_some_rows_and_is_not_lost():
    net, other = random_network([8, 41], seed=25), random_network([8, 41], seed=25)
    layer, at_once = net.layers[0], other.layers[0]
    before = layer.cov.copy()
    for _ in range(46):  # 369 parameters: every 46.1 rows
        fade(layer, 0, 1e-3, rows=1.0)
        np.testing.assert_array_equal(layer.cov, before)
    fade(layer, 0, 1e-3, rows=1.0)
    fade(at_once, 0, 47e-3, rows=47.0)
    np.testing.assert_allclose(layer.cov, at_once.cov, rtol=1e-9)
    assert (layer.cov != before).any()


def test_fading_does_not_wait_for_long_in_half_lives():
    net = random_network([8, 41], seed=26)
    before = net.layers[0].cov.copy()
    fade(net.layers[0], 0, 0.1, rows=1.0)
    assert (net.layers[0].cov != before).any()


def test_fading_leaves_the_prior_alone():
    (layer,) = full_prior(draw_prior([3, 4], [np.random.default_rng(0)]))
    before = layer.cov.copy()
    fade(layer, 0, 0.5, rows=100.0)
    np.testing.assert_allclose(layer.cov, before, rtol=1e-12)


# ------------------------------------------------------------------------------------- estimators


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.05 * rng.normal(size=n)


def small(estimator=TAGIRegressor, **params):
    defaults = {"hidden_layer_sizes": (6,), "covariance_type": "full", "max_iter": 4,
                "n_members": 2, "random_state": 0}  # fmt: skip
    return estimator(**{**defaults, **params})


def cubic(n=20, seed=0):
    """The paper's toy problem, y = x^3 + v with a standard deviation of 3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, size=(n, 1))
    return X, X[:, 0] ** 3 + 3 * rng.normal(size=n)


@pytest.mark.parametrize("hidden", [(5,), (5, 5), (30,)])
@pytest.mark.parametrize("batch_size", [1, 20])
@pytest.mark.parametrize("sigma_v", [0.1, 1e-6])
@pytest.mark.parametrize("half_life", [None, 100.0])
def test_covariances_stay_positive_definite_over_fifty_epochs(
    hidden, batch_size, sigma_v, half_life
):
    X, y = cubic()
    model = small(
        hidden_layer_sizes=hidden, batch_size=batch_size, sigma_v=sigma_v, half_life=half_life,
        early_stopping=False, max_iter=50, n_members=1,
    ).fit(X, y)  # fmt: skip
    assert_positive_definite(model)
    mean, std = model.predict(np.linspace(-6, 6, 50)[:, None], return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("sigma_v", [1e-9, 1e-3])
def test_copies_of_rows_with_next_to_no_noise(batch_inference, sigma_v):
    X, y = rows(6)
    X, y = np.repeat(X, 8, axis=0), np.repeat(y, 8)
    model = small(
        batch_inference=batch_inference, sigma_v=sigma_v, half_life=None, early_stopping=False,
        max_iter=60,
    ).fit(X, y)  # fmt: skip
    assert_positive_definite(model)
    mean, std = model.predict(X, return_std=True)
    assert np.abs(mean - y).max() < 0.3 * y.std()
    assert (std > 0).all()


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
@pytest.mark.parametrize("n_members", [1, 3])
def test_variances_are_the_diagonal_of_the_covariances(hidden, n_members):
    X, y = rows()
    y = np.column_stack([y, y**2])
    model = small(hidden_layer_sizes=hidden, n_members=n_members).fit(X, y)
    lead = () if n_members == 1 else (n_members,)
    sizes = [3, *hidden, 2]
    for j, cov in enumerate(model.layer_covariances_):
        n_in, n_out = sizes[j : j + 2]
        assert cov.shape == (*lead, (n_in + 1) * n_out, (n_in + 1) * n_out)
        diagonal = np.diagonal(cov, axis1=-2, axis2=-1)
        weights, biases = diagonal[..., :-n_out], diagonal[..., -n_out:]
        np.testing.assert_array_equal(model.coef_vars_[j], weights.reshape(*lead, n_in, n_out))
        np.testing.assert_array_equal(model.intercept_vars_[j], biases)
        assert np.abs(cov - diagonal[..., None] * np.eye(cov.shape[-1])).max() > 0


def test_layer_covariances_are_only_there_with_full_covariances():
    X, y = rows()
    assert not hasattr(small(), "layer_covariances_")
    assert not hasattr(small(covariance_type="diag").fit(X, y), "layer_covariances_")
    assert hasattr(small().fit(X, y), "layer_covariances_")


@pytest.mark.parametrize("X_std", [None, 0.3])
def test_full_prior_predicts_as_the_diagonal_one(X_std):
    """One hidden layer and independent parameters: its units differ in what they do not share."""
    X, y = rows()
    full, diag = (small(covariance_type=c, max_iter=0).fit(X, y) for c in ("full", "diag"))
    np.testing.assert_allclose(
        full.predict(X, return_std=True, X_std=X_std),
        diag.predict(X, return_std=True, X_std=X_std),
        rtol=1e-10,
    )


def test_it_learns_the_function_and_how_far_it_is_off():
    X, y = rows(200)
    model = small(hidden_layer_sizes=(15,), max_iter=30).fit(X[:150], y[:150])
    assert model.score(X[150:], y[150:]) > 0.9
    mean, std = model.predict(X[150:], return_std=True)
    assert (np.abs(y[150:] - mean) < 2 * std).mean() > 0.8


def test_classifier_learns():
    X, y = load_iris(return_X_y=True)
    model = small(TAGIClassifier, max_iter=15).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    proba, std = model.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (std > 0).all()
    assert_positive_definite(model)


def test_fit_over_batches_equals_partial_fit_over_the_same_batches():
    X, y = rows()
    params = {"standardize": False, "shuffle": False, "early_stopping": False, "max_iter": 1,
              "hidden_layer_sizes": (30,), "batch_size": 5}  # fmt: skip
    whole, parts = small(**params).fit(X, y), small(**params)
    for start in range(0, 60, 5):
        parts.partial_fit(X[start : start + 5], y[start : start + 5])
    for mine, theirs in zip(whole.layer_covariances_, parts.layer_covariances_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(whole.predict(X), parts.predict(X))


def test_scaling_y_scales_mean_and_std():
    X, y = rows()
    one, other = small().fit(X, y), small().fit(X, 1000 * y + 5)
    mean, std = one.predict(X, return_std=True)
    np.testing.assert_allclose(
        other.predict(X, return_std=True), (1000 * mean + 5, 1000 * std), rtol=1e-6
    )


@pytest.mark.parametrize("standardize", [True, False])
def test_sparse_rows_are_learnt_as_dense_ones(standardize):
    X, y = rows()
    X[np.abs(X) < 0.5] = 0
    X_std = np.abs(X) / 10
    model = small(standardize=standardize).fit(
        sparse.csr_array(X), y, X_std=sparse.csr_array(X_std)
    )
    expected = model.predict(X, return_std=True, X_std=X_std)
    got = model.predict(sparse.csr_array(X), return_std=True, X_std=sparse.csr_array(X_std))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    if not standardize:
        dense = small(standardize=False).fit(X, y, X_std=X_std)
        np.testing.assert_allclose(dense.predict(X, X_std=X_std), expected[0], rtol=1e-9)


def test_single_precision_gives_nearly_the_same():
    X, y = rows()
    single = small().fit(X.astype(np.float32), y.astype(np.float32))
    double = small().fit(X, y)
    mean, std = single.predict(X.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == single.coefs_[0].dtype == np.float32
    assert single.coef_vars_[0].dtype == np.float32
    assert single.layer_covariances_[0].dtype == np.float64
    np.testing.assert_allclose(
        (mean, std), double.predict(X, return_std=True), rtol=0.05, atol=0.01
    )


@pytest.mark.parametrize("n_members", [1, 2])
def test_uncertain_rows_teach_less(n_members):
    X, y = rows()
    params = {"sigma_v": 0.1, "early_stopping": False, "half_life": None, "max_iter": 1,
              "n_members": n_members}  # fmt: skip
    exact = small(**params).fit(X, y)
    forms = [0.5, np.full(3, 0.5), np.full((60, 3), 0.5)]
    models = [small(**params).fit(X, y, X_std=form) for form in forms]
    models += [small(**params).fit(X, y, X_cov=c) for c in (np.eye(3) / 4, [np.eye(3) / 4] * 60)]
    for model in models:
        for mine, theirs in zip(model.coef_vars_, models[0].coef_vars_, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10)
        for wide, narrow in zip(model.layer_covariances_, exact.layer_covariances_, strict=True):
            trace = np.trace(wide, axis1=-2, axis2=-1)
            assert (trace > np.trace(narrow, axis1=-2, axis2=-1)).all()


def test_errors_that_cancel_in_the_target_teach_more_than_independent_ones():
    """y depends on x_0 + x_1 alone, whose error is nil where theirs are opposite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X.sum(axis=1)
    params = {"hidden_layer_sizes": (), "sigma_v": 0.1, "standardize": False, "n_members": 1,
              "early_stopping": False, "max_iter": 5, "half_life": None}  # fmt: skip
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    correlated = small(**params).fit(X, y, X_cov=opposite)
    independent = small(**params).fit(X, y, X_cov=np.eye(2))
    assert np.trace(correlated.layer_covariances_[0]) < np.trace(independent.layer_covariances_[0])
    assert np.abs(correlated.predict(X) - y).max() < np.abs(independent.predict(X) - y).max()


def test_learned_noise_is_that_of_the_data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    y = X @ [1.0, -1.0] + 0.5 * rng.normal(size=400)
    model = small(hidden_layer_sizes=(), early_stopping=False, max_iter=20, n_members=1).fit(X, y)
    assert model.sigma_v_ * y.std() == pytest.approx(0.5, rel=0.1)


def test_warm_start_and_partial_fit_go_on():
    X, y = rows()
    once = small(early_stopping=False).fit(X, y)
    twice = small(early_stopping=False, warm_start=True).fit(X, y).fit(X, y)
    assert twice.train_scores_[-1] > once.train_scores_[-1]
    log_lik = [once.log_likelihood(X, y)]
    for _ in range(3):
        once.partial_fit(X, y)
        log_lik.append(once.log_likelihood(X, y))
    assert log_lik == sorted(log_lik)
    assert log_lik[-1] > log_lik[0] + 0.1
    before = [cov.copy() for cov in once.layer_covariances_]
    with pytest.raises(ValueError, match="3 features"):
        once.partial_fit(X[:, :2], y)
    once.set_params(covariance_type="diag")
    with pytest.raises(ValueError, match="covariance_type must be as in the fit"):
        once.partial_fit(X, y)
    for mine, theirs in zip(before, once.layer_covariances_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_network_too_large_names_the_memory_it_would_take():
    X, y = np.ones((5, 99)), np.arange(5.0)
    with pytest.raises(
        ValueError, match=r"'full' takes 8\.0 GB.*10,000.* parameters.*n_members=10"
    ):
        TAGIRegressor((100,), covariance_type="full").fit(X, y)
    with pytest.raises(ValueError, match=r"10,100.* parameters.*'diag'"):
        TAGIClassifier((10, 100, 100), covariance_type="full").fit(X, [0, 1, 0, 1, 0])
