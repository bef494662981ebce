"""The observation noise: expectation maximisation, and the search on rows held out."""

import numpy as np
import pytest
from helpers import (
    independent_message,
    joint_message,
    make_network,
    random_outputs,
    variances,
)
from scipy import stats

from sktagi.engine import noise
from sktagi.engine.noise import (
    NOISE_FACTORS,
    best_on_grid,
    bounded_noise,
    learn_noise,
    noise_moment,
    scores_on_grid,
    search_noise,
    share_left,
    trust,
    trusted_noise,
)
from sktagi.engine.tree import ClassTree

# ---------------------------------------------------------------------- the statistic of a batch


@pytest.mark.parametrize("own", [0.0, 0.1])
def test_noise_moment_is_the_expected_square_of_the_noise(own):
    """E[v^2 | y] from conditioning the dense joint Gaussian of (v, y)."""
    mu_z, shared, rest, y = random_outputs(8, 1, seed=16, own=own)
    rng = np.random.default_rng(17)
    noise_var, weight = 0.4, rng.uniform(0.3, 3, size=(1, 8))
    cov_v = np.diag(noise_var / weight[0])
    gain = cov_v @ np.linalg.inv((shared + rest)[0] + cov_v)
    mean, cov = gain @ (y - mu_z)[0], cov_v - gain @ cov_v
    expected = weight[0] * (mean**2 + np.diag(cov))
    message = joint_message(mu_z, shared, rest, y, noise_var, weight)
    moment = noise_moment(message, noise_var, weight)
    np.testing.assert_allclose(moment[0], expected, rtol=1e-9)


def test_noise_moment_of_a_row_alone_is_the_expected_square_of_its_noise():
    mu_z, shared, _, y = random_outputs(8, 2, seed=24)
    var_z = variances(shared)
    noise_var, weight = np.array([[0.4], [3.0]]), np.linspace(0.3, 3, 8)[None]
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
    weight = np.array([[1.0, 0, 1, 0]])
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
    y = mu_z + (root @ draws).swapaxes(-1, -2)
    mu, *cov = (np.broadcast_to(part, (n_draws, *part.shape)) for part in (mu_z, shared, own))
    moment = noise_moment(joint_message(mu, *cov, y, noise_var), noise_var)
    per_draw = moment.mean(axis=(1, 2))
    assert abs(per_draw.mean() - noise_var) < 5 * per_draw.std() / np.sqrt(n_draws)


@pytest.mark.parametrize("jointly", [False, True])
def test_noise_moment_of_rows_with_noise_of_their_own(jointly):
    """E[v^2 | y] for cov(v) = diag(noise), from the dense joint Gaussian of (v, y)."""
    mu_z, shared, rest, y = random_outputs(8, 1, seed=21)
    noise_var = 10 ** np.random.default_rng(22).uniform(-1, 1, size=(1, 8))
    if jointly:
        message = joint_message(mu_z, shared, rest, y, noise_var)
    else:
        shared, rest = shared * np.eye(8), rest * np.eye(8)
        message = independent_message(mu_z, variances(shared + rest), y, noise_var)
    cov_v = np.diag(noise_var[0])
    gain = cov_v @ np.linalg.inv((shared + rest)[0] + cov_v)
    mean, cov = gain @ (y - mu_z)[0], cov_v - gain @ cov_v
    np.testing.assert_allclose(
        noise_moment(message, noise_var)[0], mean**2 + np.diag(cov), rtol=1e-9
    )


# ------------------------------------------------------------------------- steps of online EM


def step_by_hand(noise_var, moments, weights, rows_learned):
    """One noise variance: sums of floats."""
    total = sum(weights)
    rows_learned += total
    step = (total / max(rows_learned, 1)) ** 0.6
    return noise_var + step * (sum(moments) / total - noise_var), rows_learned


@pytest.mark.parametrize("observed", ["all", "weighted", "some"])
@pytest.mark.parametrize("kind", ["each", "together"])
@pytest.mark.parametrize("members", [1, 2])
def test_noise_follows_the_mean_of_its_moments(observed, kind, members):
    """Of each output, over the rows that observe it; or of all outputs together, by rows."""
    rng = np.random.default_rng(23)
    outputs = ClassTree(3) if kind == "together" else None  # three outputs, one noise
    net = make_network([2, 3], members=members, outputs=outputs, learn_noise=True)
    n_outputs, n_noise = net.outputs.n_outputs, net.outputs.n_noise
    expected = net.noise_var[..., 0].copy()
    rows_learned = np.zeros((members, n_noise))
    for n_rows in (5, 1, 7):
        moment = rng.uniform(0.1, 2, size=(members, n_outputs, n_rows))
        weight = observed_weight = None
        if observed != "all":
            weight = observed_weight = rng.uniform(0.5, 2, size=(members, 1, n_rows))
        if observed == "some":
            seen = rng.random(moment.shape) < 0.6
            seen[..., 0] = True
            observed_weight = weight * seen
            moment *= seen
        each = np.ones((1, 1)) if observed_weight is None else observed_weight
        each = np.broadcast_to(each, moment.shape)
        rows = np.ones((members, 1, n_rows)) if weight is None else weight
        for m, o in np.ndindex(members, n_noise):
            if kind == "each":
                expected[m, o], rows_learned[m, o] = step_by_hand(
                    expected[m, o], moment[m, o], each[m, o], rows_learned[m, o]
                )
            else:  # the pace is that of rows, however many outputs each observes
                rows_learned[m, 0] += rows[m].sum()
                step = (rows[m].sum() / max(rows_learned[m, 0], 1)) ** 0.6
                mean = moment[m].sum() / each[m].sum()
                expected[m, 0] += step * (mean - expected[m, 0])
        learn_noise(net, moment, weight, observed_weight)
        np.testing.assert_allclose(net.noise_var[..., 0], expected, rtol=1e-12)
        np.testing.assert_allclose(net.rows_learned[..., 0], rows_learned, rtol=1e-12)


@pytest.mark.parametrize("weight", [None, 0.5])
def test_noise_of_an_output_that_no_row_observes_stays_put(weight):
    net = make_network([2, 2], members=2, learn_noise=True)
    net.rows_learned[...] = 30
    before = net.copy()
    observed = np.array([[1.0, 0, 1], [0, 0, 0]])[None] * np.ones((2, 1, 1))
    moment = np.full((2, 2, 3), 5.0) * observed
    weight = None if weight is None else np.full((2, 1, 3), weight)
    learn_noise(net, moment, weight, observed if weight is None else observed * weight)
    np.testing.assert_array_equal(net.noise_var[:, 1], before.noise_var[:, 1])
    np.testing.assert_array_equal(net.rows_learned[:, 1], 30)
    assert np.all(net.noise_var[:, 0] > before.noise_var[:, 0])
    np.testing.assert_array_equal(net.rows_learned[:, 0], 32 if weight is None else 31)


@pytest.mark.parametrize("moment", [0.0, 1e30])
def test_learned_noise_stays_in_its_range(moment):
    net = make_network([2, 1], learn_noise=True)
    learn_noise(net, np.full((1, 1, 4), moment), None, None)
    low, high = noise.NOISE_VAR_RANGE
    assert net.noise_var.item() == (low if moment == 0 else high)
    np.testing.assert_array_equal(
        bounded_noise(np.array([0.0, low, 0.3, high, np.inf])), [low, low, 0.3, high, high]
    )


def test_share_left_is_what_the_first_noise_has_of_the_last():
    """Followed batch by batch: the noise before, and what the batches add to it, apart."""
    net = make_network([2, 2], members=3, learn_noise=True)
    rng = np.random.default_rng(24)
    net.noise_var[...] = rng.uniform(0.5, 2, size=net.noise_var.shape)
    net.rows_learned[...] = rng.uniform(50, 100, size=net.noise_var.shape)
    before, left = net.copy(), net.noise_var.copy()
    totals = np.array([16.0, 16.0, 5.0])
    for total in totals:
        n_rows = int(total)
        rows = net.rows_learned + total
        left *= 1 - (total / rows) ** 0.6
        learn_noise(net, rng.uniform(0.1, 2, size=(3, 2, n_rows)), None, None)
    expected = left.mean(axis=0) / net.noise_var.mean(axis=0)
    np.testing.assert_allclose(
        share_left(net, before.noise_var, before.rows_learned, totals), expected, rtol=1e-12
    )
    assert np.all((expected > 0.05) & (expected < 0.95))


def test_no_more_than_all_is_left_of_a_noise():
    net = make_network([2, 1], learn_noise=True)
    before = net.copy()
    before.rows_learned[...] = 1e6
    net.noise_var[...] = before.noise_var / 10
    left = share_left(net, before.noise_var, before.rows_learned, np.array([1.0]))
    np.testing.assert_array_equal(left, [[1.0]])


# ------------------------------------------------------------------------------------- the search


def likelihood(residuals, var_z):
    """Summed log densities of residuals (n_noise, rows), as the searches ask for them."""

    def score(noise_var):
        std = np.sqrt(var_z + noise_var)
        return stats.norm.logpdf(residuals, 0, std).sum(axis=-1)

    return score


def held_out(true, n_rows=400, var_z=0.2, seed=25):
    rng = np.random.default_rng(seed)
    true = np.asarray(true)[:, None]
    return rng.normal(size=(len(true), n_rows)) * np.sqrt(var_z + true), var_z


def best_by_brute_force(score, low, high):
    grid = np.geomspace(low, high, 20_001)
    scores = score(grid[:, None, None])
    return grid[scores.argmax(axis=0)], scores.max(axis=0)


@pytest.mark.parametrize("true", [(0.3, 2.0), (0.05, 40.0)])
def test_search_finds_the_noise_of_the_largest_likelihood_of_each_output(true):
    score = likelihood(*held_out(true))
    best, scores = search_noise(score, np.array([[1.0], [2.0]]))
    expected, largest = best_by_brute_force(score, 1e-3, 1e3)
    assert best.shape == (2, 1)
    # Points of the last grid are log(8) / 64 / 8 apart, of standard deviations.
    np.testing.assert_allclose(np.log(best[:, 0] / expected), 0, atol=2 * np.log(8) / 8**3)
    np.testing.assert_allclose(scores, largest, atol=0.01)
    np.testing.assert_allclose(scores, score(best), rtol=1e-12)


def test_search_of_networks_side_by_side_is_that_of_each():
    parts = [held_out((0.3, 2.0), seed=seed) for seed in (26, 27, 28)]
    residuals = np.stack([part[0] for part in parts])
    start = np.array([0.5, 1.0, 2.0])[:, None, None] * np.ones((1, 2, 1))

    def score(noise_var):
        std = np.sqrt(0.2 + noise_var)
        return stats.norm.logpdf(residuals[:, None], 0, std).sum(axis=-1)

    best, scores = search_noise(score, start)
    for m, part in enumerate(parts):
        alone = search_noise(likelihood(*part), start[m])
        np.testing.assert_allclose(best[m], alone[0], rtol=1e-12)
        np.testing.assert_allclose(scores[m], alone[1], rtol=1e-12)


@pytest.mark.parametrize("reach", [2.0, 8.0])
def test_search_goes_no_further_than_it_may(reach):
    """One step of 1, one of 1/8 and one of 1/64 of its reach, in logarithms."""
    furthest = reach ** (1 + 1 / 8 + 1 / 64)
    for sign in (1, -1):
        best, _ = search_noise(
            lambda noise_var, sign=sign: sign * np.log(noise_var[..., 0]), np.ones((1, 1)), reach
        )
        np.testing.assert_allclose(np.sqrt(best), furthest**sign, rtol=1e-12)


def test_search_keeps_noise_in_its_range():
    low, high = noise.NOISE_VAR_RANGE
    for sign, end in ((1, high), (-1, low)):
        best, _ = search_noise(
            lambda noise_var, sign=sign: sign * np.log(noise_var[..., 0]), np.full((1, 1), end)
        )
        assert low <= best.item() <= high
        np.testing.assert_allclose(best, end, rtol=1e-12)


def asked_once(score, noise_var):
    """Scores of all factors of the present noise, as rows elsewhere are asked for them."""
    return score(bounded_noise(np.square(NOISE_FACTORS)[:, None, None] * noise_var))


@pytest.mark.parametrize("true", [(0.3, 2.0), (0.05, 40.0)])
def test_best_on_a_grid_is_what_the_search_finds(true):
    score, start = likelihood(*held_out(true)), np.array([[1.0], [2.0]])
    best, scores = best_on_grid(asked_once(score, start), start)
    searched, largest = search_noise(score, start)
    np.testing.assert_allclose(np.log(best / searched), 0, atol=0.01)
    np.testing.assert_allclose(scores, largest, atol=0.1)  # third derivatives, over half a step


def test_best_on_a_grid_is_the_top_of_a_parabola():
    step = np.log(NOISE_FACTORS[1] / NOISE_FACTORS[0])
    for place in (20.0, 20.3, 35.5, 51.8):
        top = np.log(NOISE_FACTORS[0]) + place * step
        scores = 7 - 3 * (np.log(NOISE_FACTORS) - top) ** 2
        best, score = best_on_grid(scores[:, None], np.full((1, 1), 0.3))
        np.testing.assert_allclose(best, 0.3 * np.exp(2 * top), rtol=1e-10)
        np.testing.assert_allclose(score, 7, rtol=1e-12)


def test_a_grid_reaches_as_far_as_a_search():
    start = np.ones((1, 1))
    for sign in (1, -1):

        def score(noise_var, sign=sign):
            return sign * np.log(noise_var[..., 0])

        best, _ = best_on_grid(asked_once(score, start), start)
        np.testing.assert_allclose(best, search_noise(score, start)[0], rtol=1e-10)


@pytest.mark.parametrize("members", [(), (3,)])
def test_scores_between_points_of_a_grid_lie_on_straight_lines(members):
    """Over logarithms; beyond the ends they are those of the ends."""
    rng = np.random.default_rng(29)
    scores = rng.normal(size=(*members, len(NOISE_FACTORS), 2))
    furthest = 2 * np.log(NOISE_FACTORS[-1])  # of variances
    for log_ratio in np.append(np.linspace(-1.3, 1.3, 40) * furthest, [0, furthest, -furthest]):
        ratio = np.exp(log_ratio + rng.uniform(-0.1, 0.1, size=(*members, 2)))
        found = scores_on_grid(scores, ratio)
        assert found.shape == (*members, 2)
        for place in np.ndindex(found.shape):
            *member, target = place
            expected = np.interp(
                0.5 * np.log(ratio[place]), np.log(NOISE_FACTORS), scores[(*member, ..., target)]
            )
            np.testing.assert_allclose(found[place], expected, rtol=1e-9, atol=1e-9)


def test_scores_at_points_of_a_grid_are_those_of_the_grid():
    scores = np.random.default_rng(30).normal(size=(len(NOISE_FACTORS), 1))
    for factor, score in zip(NOISE_FACTORS, scores, strict=True):
        found = scores_on_grid(scores, np.array([factor**2]))
        np.testing.assert_allclose(found, score, rtol=1e-9, atol=1e-9)


def test_scores_of_the_best_on_a_grid_are_nearly_the_largest():
    """Straight lines lie below a parabola, by an eighth of its curvature times a squared step."""
    start = np.array([[1.0], [2.0]])
    scores = asked_once(likelihood(*held_out((0.3, 2.0))), start)
    best, largest = best_on_grid(scores, start)
    below = largest - scores_on_grid(scores, (best / start)[:, 0])
    curvature = np.abs(np.diff(scores, 2, axis=0)).max(axis=0)
    assert (below > -1e-9).all()
    assert (below < 1.05 * curvature / 8).all()


# Few rows are trusted little


def test_trusted_noise_lies_between_what_was_found_and_what_was_learned():
    found, learned = np.array([[[1e-6], [9.0]]]), np.array([[1.0], [4.0]])
    np.testing.assert_allclose(trusted_noise(found, learned, np.array([0, 0])), learned[None])
    np.testing.assert_allclose(
        trusted_noise(found, learned, np.array([10, 10])), [[[1e-3], [6.0]]], rtol=1e-12
    )
    np.testing.assert_allclose(trusted_noise(found, learned, np.full(2, 10**9)), found, rtol=1e-9)


def test_trust_is_the_share_of_rows_beside_ten():
    n_rows = np.array([0, 1, 3, 10, 30, 10**6])
    found = trust(n_rows)
    np.testing.assert_allclose(found, n_rows**2 / (100 + n_rows**2), rtol=1e-12)
    assert found[0] == 0
    assert found[3] == pytest.approx(0.5)


def test_more_rows_move_the_noise_further_to_what_they_have_found():
    """From what was learned without any row, half the way with ten, to what many have found."""
    n_rows = np.array([0, 1, 5, 10, 20, 1000, 10**6])
    ones = np.ones((len(n_rows), 1))
    way = np.log(trusted_noise(np.e * ones, ones, n_rows))[:, 0]
    assert way[0] == 0
    assert way[3] == pytest.approx(0.5)
    assert (np.diff(way) > 0).all()
    assert 0.999 < way[-1] <= 1
