"""Unlike members: the moments of their mixture, and the weights of the kinds."""

import itertools

import numpy as np
import pytest
from helpers import assert_same_posterior, make_network, make_rows, with_ones
from scipy import optimize, stats

from sktagi.engine.mixture import (
    Evidence,
    HeldOutKinds,
    Mixture,
    best_weights,
    least_on_simplex,
    predict_kinds,
    reweighted,
)
from sktagi.engine.observations import Gaussian
from sktagi.engine.predicting import predict_moments, weighted_moments
from sktagi.engine.rows import Rows
from sktagi.engine.softmax import Softmax
from sktagi.engine.tree import ClassTree


def make_mixture(weight=(0.2, 0.5, 0.3), members=2, dtype=np.float64, n_outputs=1):
    sizes = [[3, n_outputs], [3, 4, n_outputs], [3, 5, 2, n_outputs]]
    networks = [
        make_network(s, seed=k, members=members, dtype=dtype, sigma_v=0.3 + 0.1 * k)
        for k, s in enumerate(sizes)
    ]
    weight = np.asarray(weight, float).reshape(3, -1, 1)
    return Mixture(networks, ["linear", "wide", "deep"], weight)


def held_out(errors, *, weight=None, seed=0):
    """Rows held out by one member, with the errors (n_kinds, n_outputs, rows) of the kinds."""
    errors = np.asarray(errors, float)
    _, n_outputs, n_rows = errors.shape
    y = np.random.default_rng(seed).normal(size=(n_rows, n_outputs))
    weight = np.ones(n_rows) if weight is None else weight
    rows = Rows(with_ones(np.zeros((n_rows, 1))), y, weight, None)
    return HeldOutKinds(rows, Gaussian(n_outputs), y.T - errors, np.ones_like(errors))


# --------------------------------------------------------------------------------------- moments


def test_moments_of_a_mixture_are_those_of_draws_from_it():
    rng = np.random.default_rng(0)
    weight, mu, var = np.array([0.5, 0.2, 0.3]), rng.normal(size=3), rng.uniform(0.2, 2, size=3)
    kind = rng.choice(3, p=weight, size=400_000)
    draws = mu[kind] + np.sqrt(var[kind]) * rng.normal(size=len(kind))
    mean, variance = weighted_moments(weight, mu, var)
    assert mean == pytest.approx(draws.mean(), abs=0.01)
    assert variance == pytest.approx(draws.var(), rel=0.01)


def test_members_predict_the_weighted_moments_of_their_kinds():
    net, x = make_mixture(), make_rows(20, 3).x
    mu, var = predict_moments(net, x)
    kinds = [predict_moments(kind, x) for kind in net.networks]
    weight = net.weight[:, :, 0].ravel()
    expected = sum(w * m for w, (m, _) in zip(weight, kinds, strict=True))
    within = sum(w * v for w, (_, v) in zip(weight, kinds, strict=True))
    apart = sum(w**2 * (m - expected) ** 2 for w, (m, _) in zip(weight, kinds, strict=True))
    np.testing.assert_allclose(mu, expected, rtol=1e-12)
    np.testing.assert_allclose(var, within + apart, rtol=1e-9)


def test_of_classes_kinds_are_apart_as_in_a_mixture():
    net, x = make_mixture(), make_rows(20, 3).x
    net.outputs = ClassTree(2)
    mu, var = predict_moments(net, x)
    kinds = [predict_moments(kind, x) for kind in net.networks]
    weight = net.weight[:, :, 0].ravel()
    second = sum(w * (v + m**2) for w, (m, v) in zip(weight, kinds, strict=True))
    np.testing.assert_allclose(var, second - mu**2, rtol=1e-9)


def test_each_output_has_weights_of_its_own():
    weight = np.array([[0.2, 1.0], [0.5, 0.0], [0.3, 0.0]])
    net, x = make_mixture(weight, n_outputs=2), make_rows(20, 3).x
    mu, var = predict_moments(net, x)
    only_mu, only_var = predict_moments(net.networks[0], x)
    np.testing.assert_allclose(mu[:, 1], only_mu[:, 1], rtol=1e-12)
    np.testing.assert_allclose(var[:, 1], only_var[:, 1], rtol=1e-12)
    assert (mu[:, 0] != only_mu[:, 0]).all()


# --------------------------------------------------------------------------- least on the simplex


def random_gram(n, seed, rows=30):
    errors = np.random.default_rng(seed).normal(size=(n, rows)) * np.linspace(0.5, 1.5, n)[:, None]
    errors += np.random.default_rng(seed + 1).normal(size=rows)  # what all kinds get wrong
    return errors @ errors.T


@pytest.mark.parametrize("seed", range(10))
def test_two_and_three_weights_are_those_of_a_fine_grid(seed):
    for n in (2, 3):
        gram = random_gram(n, seed)
        found = least_on_simplex(gram)
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        parts = np.linspace(0, 1, 201)
        grid = np.array([g for g in itertools.product(parts, repeat=n - 1) if sum(g) <= 1 + 1e-12])
        grid = np.column_stack([grid, 1 - grid.sum(axis=1)])
        losses = np.einsum("gi,ij,gj->g", grid, gram, grid)
        assert found @ gram @ found <= losses.min() * (1 + 1e-9)
        np.testing.assert_allclose(found, grid[losses.argmin()], atol=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_five_weights_are_those_of_sequential_quadratic_programming(seed):
    gram = random_gram(5, seed)
    found = least_on_simplex(gram)
    best = optimize.minimize(
        lambda w: w @ gram @ w, np.full(5, 0.2), jac=lambda w: 2 * gram @ w, method="SLSQP",
        bounds=[(0, 1)] * 5, constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12},
    )  # fmt: skip
    assert found @ gram @ found <= best.fun * (1 + 1e-6)
    np.testing.assert_allclose(found, best.x, atol=1e-3)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
def test_the_size_of_errors_does_not_matter(size):
    gram = random_gram(3, 0)
    np.testing.assert_allclose(
        least_on_simplex(gram * size), least_on_simplex(gram), atol=1e-6 if size > 1e-300 else 1e-3
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_guess_of_the_kinds_with_weight_changes_the_weights(seed):
    for n in (2, 3, 4):
        gram = random_gram(n, seed)
        expected = least_on_simplex(gram)
        for guess in itertools.product((0.0, 0.5), repeat=n):
            if any(guess):
                found = least_on_simplex(gram, np.array(guess))
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_no_errors_at_all_give_some_weights():
    found = least_on_simplex(np.zeros((3, 3)))
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


# --------------------------------------------------------------------------- weights of targets


def test_a_kind_that_is_right_has_all_the_weight():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(3, 1, 500)) * np.array([1.0, 0.01, 1.0])[:, None, None]
    weight, evidence = best_weights([held_out(errors)])
    assert weight.shape == (3, 1, 1)
    assert weight[1, 0, 0] > 0.99
    assert evidence.gram.shape == (1, 3, 3)
    assert evidence.n_rows.tolist() == [500]


def test_kinds_that_err_alike_and_independently_share_the_weight():
    errors = np.random.default_rng(1).normal(size=(3, 1, 20_000))
    np.testing.assert_allclose(best_weights([held_out(errors)])[0].ravel(), 1 / 3, atol=0.03)


def test_kinds_that_are_the_same_have_the_same_weight():
    errors = np.repeat(np.random.default_rng(2).normal(size=(1, 1, 50)), 3, axis=0)
    np.testing.assert_allclose(best_weights([held_out(errors)])[0].ravel(), 1 / 3, atol=1e-6)


def test_a_hundredth_of_gross_outliers_does_not_choose():
    rng = np.random.default_rng(3)
    errors = rng.normal(size=(2, 1, 1000)) * np.array([0.1, 1.0])[:, None, None]
    clean = best_weights([held_out(errors)])[0].ravel()
    errors[:, 0, :10] = [[1000.0], [900.0]]  # targets far from both, and nearer to the worse kind
    weight = best_weights([held_out(errors)])[0].ravel()
    np.testing.assert_allclose(weight, clean, atol=0.1)
    squares = np.square(errors[:, 0]).sum(axis=1)
    assert squares[1] < 0.9 * squares[0]  # or the test would show nothing


def test_few_rows_say_little():
    """One row that speaks for the second kind moves weights less than a hundred do."""
    found = []
    for n in (1, 100):
        errors = np.array([1.0, -0.1])[:, None, None] * np.ones((2, 1, n))
        found.append(best_weights([held_out(errors)])[0].ravel())
    assert found[0][1] > 0.5
    assert found[1][1] > found[0][1]


def test_targets_have_weights_of_their_own_and_rows_that_do_not_observe_one_do_not_count():
    rng = np.random.default_rng(4)
    errors = rng.normal(size=(2, 2, 400))
    errors[0, 0] *= 0.05
    errors[1, 1] *= 0.05
    held = held_out(errors)
    held.rows.y[:300, 0] = np.nan  # the last hundred are enough
    weight, evidence = best_weights([held])
    assert weight[0, 0, 0] > 0.95
    assert weight[1, 1, 0] > 0.95
    assert evidence.n_rows.tolist() == [100, 400]


def test_a_target_that_no_row_observes_has_equal_weights():
    held = held_out(np.ones((2, 1, 5)))
    held.rows.y[:] = np.nan
    weight, evidence = best_weights([held])
    np.testing.assert_array_equal(weight.ravel(), 0.5)
    assert evidence.n_rows.tolist() == [0]


def test_rows_of_several_members_count_together_and_by_their_weights():
    rng = np.random.default_rng(5)
    errors = rng.normal(size=(2, 1, 40))
    counts = np.where(np.abs(errors[0, 0]) < np.abs(errors[1, 0]), 6.0, 1.0)
    together = best_weights([held_out(errors)])[0]
    parts = [held_out(errors[..., :15]), held_out(errors[..., 15:])]
    np.testing.assert_allclose(best_weights(parts)[0], together, atol=1e-9)
    weighted = best_weights([held_out(errors, weight=counts)])[0]
    copies = best_weights([held_out(np.repeat(errors, counts.astype(int), axis=-1))])[0]
    np.testing.assert_allclose(weighted, copies, atol=1e-9)
    assert weighted[0, 0, 0] > together[0, 0, 0] + 0.2


def test_a_few_rows_with_little_noise_do_not_choose_the_kind():
    errors = np.zeros((2, 1, 200))
    errors[0, 0, :190] = 1.0  # the first kind is right for ten rows with little noise only
    errors[1, 0, 190:] = 1.0
    held = held_out(errors)
    noisy = np.where(np.arange(200) < 190, 1000.0, 1.0)[None]
    held = held._replace(rows=held.rows.with_noise(noisy))
    assert best_weights([held])[0][1, 0, 0] > 0.9


def test_the_kinds_predict_the_rows_that_each_member_holds_out():
    net, data = make_mixture(), make_rows(30, 3)
    validation = [np.arange(5), np.arange(10, 30)]
    held = list(predict_kinds(net.networks, data, validation))
    assert len(held) == 2
    for member, rows in enumerate(validation):
        for kind, network in enumerate(net.networks):
            mu, var = (m[member] for m in predict_moments(network, data.x[rows]))
            np.testing.assert_allclose(held[member].mu_z[kind], mu, rtol=1e-10)
            expected = var + network.noise_var[member]
            np.testing.assert_allclose(held[member].var_y[kind], expected, rtol=1e-10)


# ---------------------------------------------------------------------------- weights of classes


def class_held_out(outputs, y):
    """Rows held out by one member, with outputs (n_kinds, n_classes, rows) of little variance."""
    outputs = np.asarray(outputs, float)
    rows = Rows(with_ones(np.zeros((len(y), 1))), y, np.ones(len(y)), None)
    return HeldOutKinds(rows, Softmax(outputs.shape[1]), outputs, np.full_like(outputs, 0.01))


def test_a_kind_that_tells_the_classes_has_the_weight_when_others_are_chance():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, size=400)
    right = 2.0 * (np.arange(3)[:, None] == y) + rng.normal(size=(3, 400))
    outputs = np.stack([rng.normal(size=(3, 400)), right, rng.normal(size=(3, 400))])
    weight, evidence = best_weights([class_held_out(outputs, y)])
    assert weight.shape == (3, 1, 1)
    assert weight.sum() == pytest.approx(1)
    assert weight[1, 0, 0] > 0.9
    assert evidence is None


def test_kinds_that_say_the_same_of_classes_with_other_slopes_are_as_good():
    """The weight is that of what they say: a steep kind and a flat one predict alike."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, size=500)
    right = 1.0 * (np.arange(2)[:, None] == y) + rng.normal(size=(2, 500))
    noise = rng.normal(size=(2, 500))
    for slope in (0.5, 3.0):
        weight = best_weights([class_held_out(np.stack([slope * right, noise]), y)])[0].ravel()
        assert weight[0] > 0.7


# ------------------------------------------------------------------------------------- of a stream


def test_reweighting_follows_a_change():
    rng = np.random.default_rng(8)
    net = make_mixture((0.98, 0.01, 0.01))
    good, bad = np.array([0.1, 1.0, 1.0]), np.array([1.0, 0.1, 1.0])
    found = []
    for std, batches in ((good, 20), (bad, 60)):
        for _ in range(batches):
            errors = rng.normal(size=(3, 1, 50)) * std[:, None, None]
            net.weight, net.evidence = reweighted(net, errors, np.ones(50))
        found.append(net.weight.ravel())
    assert found[0][0] > 0.9
    assert found[1][1] > 0.9


def test_evidence_of_a_stream_fades_by_half_in_its_half_life():
    net = make_mixture()
    before = Evidence(np.eye(3)[None] * 100, np.array([1000.0]))
    net.evidence = before
    _, evidence = reweighted(net, np.full((3, 1, 500), np.nan), np.ones(500))
    np.testing.assert_allclose(evidence.n_rows, 500)
    np.testing.assert_allclose(evidence.gram, before.gram / 2)
    np.testing.assert_array_equal(before.gram, np.eye(3)[None] * 100)


def test_an_outlier_of_a_stream_hardly_counts():
    rng = np.random.default_rng(9)
    net = make_mixture()
    errors = rng.normal(size=(3, 1, 400)) * np.array([0.1, 1.0, 1.0])[:, None, None]
    net.weight, net.evidence = reweighted(net, errors, np.ones(400))
    before = net.weight.copy()
    after, _ = reweighted(net, np.array([1e6, 1.0, 1.0])[:, None, None], np.ones(1))
    assert before[0] > 0.9
    np.testing.assert_allclose(after, before, atol=0.1)


# ------------------------------------------------------------------------------------ the mixture


def test_kinds_without_weight_leave_and_the_others_share_what_is_left():
    net = make_mixture((0.001, 0.599, 0.4))
    net.evidence = Evidence(np.arange(9.0).reshape(1, 3, 3), np.array([7.0]))
    kept = net.without(0.005)
    assert kept.names == ["wide", "deep"]
    assert kept.networks == net.networks[1:]
    np.testing.assert_allclose(kept.weight.ravel(), [0.599 / 0.999, 0.4 / 0.999])
    np.testing.assert_array_equal(kept.evidence.gram[0], [[4, 5], [7, 8]])
    assert net.names == ["linear", "wide", "deep"]
    assert net.without(0.0005) is net


def test_a_kind_stays_that_one_output_needs():
    net = make_mixture([[0.0, 0.6], [0.5, 0.0], [0.5, 0.4]], n_outputs=2)
    assert net.without(0.005) is net


def test_some_members_are_those_of_each_kind():
    net, x = make_mixture(members=3), make_rows(10, 3).x
    some = net.members(slice(1, 3))
    assert some.n_members == 2
    for mine, theirs in zip(predict_moments(some, x), predict_moments(net, x), strict=True):
        np.testing.assert_allclose(mine, theirs[1:], rtol=1e-12)


def test_a_copy_shares_nothing_that_is_learned():
    net = make_mixture()
    same = net.copy()
    for mine, theirs in zip(same.networks, net.networks, strict=True):
        assert_same_posterior(mine, theirs, 0)
        mine.layers[0].mu += 1
        mine.noise_var *= 2
        assert (mine.layers[0].mu != theirs.layers[0].mu).all()
        assert (mine.noise_var != theirs.noise_var).all()


def test_another_precision_there_and_back():
    net = make_mixture()
    single = net.astype(np.float32)
    assert single.dtype == np.float32
    assert {layer.mu.dtype for kind in single.networks for layer in kind.layers} == {single.dtype}
    assert net.astype(np.float64) is net
    for mine, theirs in zip(single.astype(np.float64).networks, net.networks, strict=True):
        assert mine.dtype == np.float64
        assert_same_posterior(mine, theirs, 1e-6)


def test_tempered_variances_are_those_of_all_kinds():
    net = make_mixture()
    tempered = net.tempered(0.25)
    for mine, theirs in zip(tempered.networks, net.networks, strict=True):
        for layer, other in zip(mine.layers, theirs.layers, strict=True):
            np.testing.assert_allclose(layer.var, 0.25 * other.var)
            np.testing.assert_array_equal(layer.mu, other.mu)


def test_its_noise_is_that_of_the_kinds_by_their_weights():
    net = make_mixture((0.2, 0.5, 0.3))
    expected = 0.2 * 0.3**2 + 0.5 * 0.4**2 + 0.3 * 0.5**2
    np.testing.assert_allclose(net.noise_var, expected)


def test_a_kind_with_a_number_that_is_not_finite_is_not_sound():
    net = make_mixture()
    assert net.is_sound()
    net.networks[2].layers[1].mu[0, 0, 0] = np.nan
    assert not net.is_sound()


def test_log_densities_of_held_out_rows_are_best_near_the_weights_that_are_found():
    """Errors of Student's distribution: no other weights on a grid make them more likely."""
    rng = np.random.default_rng(10)
    errors = rng.standard_t(4, size=(2, 3000)) * np.array([0.5, 0.8])[:, None]
    errors += 0.3 * rng.normal(size=3000)
    found = best_weights([held_out(errors[:, None])])[0].ravel()[0]

    def loss(w):
        left = w * errors[0] + (1 - w) * errors[1]
        return optimize.minimize_scalar(
            lambda log_scale: -stats.t.logpdf(left, 4, scale=np.exp(log_scale)).sum(),
            bounds=(-4, 2), method="bounded",
        ).fun  # fmt: skip

    grid = np.linspace(0, 1, 51)
    assert found == pytest.approx(grid[np.argmin([loss(w) for w in grid])], abs=0.05)
