"""Rows that members hold out: errors, spreads and what members disagree on at new rows."""

import sys

import numpy as np
import pytest
from helpers import make_network, make_rows
from scipy import sparse

from sktagi.engine import held_out
from sktagi.engine.calibration import TEMPERATURES, HeldOutHere, set_calibration
from sktagi.engine.held_out import (
    LARGEST_FACTOR,
    PRIOR_PAIRS,
    HeldOut,
    predict_held_out,
    spread_sums,
    with_disagreement,
)
from sktagi.engine.noise_network import draw_noise_network
from sktagi.engine.predicting import predict_moments

SOME_TEMPERATURES = np.array([1.0, 0.25])


def made(members=5, n=40, n_outputs=2, seed=0):
    """Members of which some hold out the same rows; some rows are held out by nobody."""
    rng = np.random.default_rng(seed)
    net = make_network([3, 6, n_outputs], seed, members)
    weight = rng.uniform(0.5, 2, size=n)
    data = make_rows(n, 3, n_outputs, seed, weight=weight)
    data.y[rng.random(data.y.shape) < 0.2] = np.nan
    validation = [np.sort(rng.choice(n - 5, size=9 + m, replace=False)) for m in range(members)]
    validation[1] = validation[0]
    return net, data, validation


# ------------------------------------------------------------------------ what holders predict


def test_errors_spreads_and_variances_are_those_of_a_loop_over_rows_and_members():
    net, data, validation = made()
    held = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    numbers = sorted(set(np.concatenate(validation)))
    assert len(held.weight) == len(numbers) < len(data.y)
    means, _ = predict_moments(net, data.x)
    cold = net.copy()
    for layer in cold.layers:
        layer.var *= 0.25
    variances = [predict_moments(some, data.x)[1] for some in (net, cold)]
    for place, row in enumerate(numbers):
        holders = [m for m in range(5) if row in validation[m]]
        others = [m for m in range(5) if row not in validation[m]]
        assert held.n_holders[place] == len(holders)
        assert held.holder[place] == holders[0]
        np.testing.assert_array_equal(held.x[place], data.x[row])
        assert held.weight[place] == data.weight[row]
        for k in range(2):
            error = data.y[row, k] - np.mean([means[m, k, row] for m in holders])
            np.testing.assert_allclose(held.error[k, place], error, rtol=1e-12)
            for found, some in ((held.spread, holders), (held.spread_of_others, others)):
                values = [means[m, k, row] for m in some]
                expected = np.var(values, ddof=1) if len(some) > 1 else np.nan
                np.testing.assert_allclose(found[k, place], expected, rtol=1e-9)
            for var_z, var in zip(held.var_z, variances, strict=True):
                expected = np.mean([var[m, k, row] for m in holders])
                np.testing.assert_allclose(var_z[k, place], expected, rtol=1e-12)
    np.testing.assert_array_equal(held.counts, [len(rows) for rows in validation])
    assert held.n_members == 5
    assert held.n_splits == 4  # two members hold out the same rows
    assert len(set(held.n_holders)) > 2


def test_what_gaps_add_is_in_the_variance_of_errors():
    net, data, validation = made()
    gap_var = np.random.default_rng(0).uniform(size=(2, len(data.y)))
    with_gaps = predict_held_out(net, data, validation, SOME_TEMPERATURES, gap_var=gap_var)
    held = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    numbers = sorted(set(np.concatenate(validation)))
    np.testing.assert_allclose(with_gaps.var_z, held.var_z + gap_var[:, numbers])
    np.testing.assert_array_equal(with_gaps.error, held.error)


def test_copies_of_a_row_are_one_row_of_their_weight():
    net, data, validation = made()
    copies = data.take(np.tile(np.arange(40), 2))
    twice = predict_held_out(
        net, copies, [np.concatenate([v, v + 40]) for v in validation], SOME_TEMPERATURES
    )
    once = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    np.testing.assert_array_equal(twice.counts, once.counts)
    np.testing.assert_array_equal(twice.keys, once.keys)
    np.testing.assert_allclose(twice.weight, 2 * once.weight)
    for name in ("error", "var_z", "holder", "n_holders", "spread", "spread_of_others"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name), rtol=1e-12)
    np.testing.assert_array_equal(twice.x, once.x)
    assert len(np.unique(once.keys)) == len(once.keys)
    other_target = data._replace(y=data.y + 1)
    keys = predict_held_out(net, other_target, validation, SOME_TEMPERATURES).keys
    known = ~np.isnan(once.error).all(axis=0)
    assert not np.isin(keys[known], once.keys).any()


def test_copies_that_others_hold_out_or_of_other_groups_are_rows_of_their_own():
    net, data, validation = made()
    copies = data.take(np.tile(np.arange(40), 2))
    n_rows = len(predict_held_out(net, data, validation, SOME_TEMPERATURES).keys)
    both = [np.concatenate([v, v + 40]) for v in validation]
    others = [*validation[:-1], validation[-1] + 40]  # only the last member holds out copies
    held = predict_held_out(net, copies, others, SOME_TEMPERATURES)
    assert len(held.keys) == len(np.unique(np.concatenate(others)))
    groups = np.arange(80)
    assert len(predict_held_out(net, copies, both, SOME_TEMPERATURES, groups).keys) == 2 * n_rows
    same = np.tile(np.arange(40), 2)
    assert len(predict_held_out(net, copies, both, SOME_TEMPERATURES, same).keys) == n_rows


def test_rows_of_a_group_count_once_and_have_equal_keys():
    net, data, validation = made()
    groups = np.random.default_rng(3).integers(100, 112, size=len(data.y))
    alone = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    held = predict_held_out(net, data, validation, SOME_TEMPERATURES, groups)
    numbers = np.unique(np.concatenate(validation))
    np.testing.assert_array_equal(held.keys, groups[numbers])
    np.testing.assert_array_equal(held.counts, [len(set(groups[rows])) for rows in validation])
    assert (held.counts < alone.counts).all()
    for name in ("error", "var_z", "holder", "n_holders", "spread", "weight"):
        np.testing.assert_array_equal(getattr(held, name), getattr(alone, name))


def test_sparse_rows_are_held_out_as_dense_ones():
    net, data, validation = made()
    dense = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    same = predict_held_out(
        net, data._replace(x=sparse.csr_array(data.x)), validation, SOME_TEMPERATURES
    )
    for name in ("error", "var_z", "spread", "spread_of_others"):
        np.testing.assert_allclose(getattr(same, name), getattr(dense, name), rtol=1e-9)
    np.testing.assert_array_equal(same.counts, dense.counts)


def test_some_rows_are_taken_with_all_that_belongs_to_them():
    net, data, validation = made()
    held = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    held = held._replace(log_noise=np.random.default_rng(0).normal(size=held.error.shape))
    for rows in (slice(3, 8), np.array([7, 1, 4])):
        some = held.take(rows)
        for name in HeldOut._fields:
            values, all_values = getattr(some, name), getattr(held, name)
            if name in ("counts", "n_splits", "mean", "y"):  # the last two: of classes only
                expected = all_values
            elif name == "x":
                expected = all_values[rows]
            else:
                expected = all_values[..., rows]
            np.testing.assert_array_equal(values, expected)


# --------------------------------------------------------------------------------- disagreement


def rows_with(spread, spread_of_others, n_holders, members, weight=None):
    """Held-out rows of one target with given spreads."""
    n = len(spread)
    zeros = np.zeros((1, n))
    return HeldOut(
        np.zeros((n, 2)), zeros, zeros[None], np.zeros(n, dtype=int), np.full(n, n_holders),
        np.asarray(spread)[None], np.asarray(spread_of_others)[None],
        np.ones(n) if weight is None else weight, np.arange(n), np.full(members, n), 1, zeros,
    )  # fmt: skip


def drawn_rows(n, n_holders, members, own, others, seed=0):
    """Spreads of Gaussian members, of standard deviations ``own`` and ``others``."""
    rng = np.random.default_rng(seed)
    spread = np.var(own * rng.normal(size=(n_holders, n)), axis=0, ddof=1)
    learned = members - n_holders
    spread_of_others = np.var(others * rng.normal(size=(learned, n)), axis=0, ddof=1)
    return rows_with(spread, spread_of_others, n_holders, members)


def disagreement(held):
    return with_disagreement(held, spread_sums(held)).disagreement[0]


def test_the_mean_of_h_members_errs_more_than_that_of_all_by_their_disagreement():
    """Monte Carlo: E(y - mean_h)^2 = E(y - mean_M)^2 + (1/h - 1/M) v, for members alike."""
    rng = np.random.default_rng(0)
    n, members, v, noise = 400_000, 5, 0.7, 0.3
    bias = rng.normal(size=n)  # what all members have in common
    means = bias + np.sqrt(v) * rng.normal(size=(members, n))
    y = np.sqrt(noise) * rng.normal(size=n)
    of_all = np.square(y - means.mean(axis=0)).mean()
    for h in (1, 2, 4):
        of_some = np.square(y - means[:h].mean(axis=0)).mean()
        assert of_some - of_all == pytest.approx((1 / h - 1 / members) * v, abs=0.02)
        # The mixture reports its own spread beside: what held-out errors are compared with.
        reported = means.var(axis=0).mean()
        share = 1 + 1 / h - 2 / members
        assert of_some - of_all + reported == pytest.approx(share * v, abs=0.02)


@pytest.mark.parametrize("spread", [1.0, 0.5, 2**-5, 0.0])
def test_errors_are_compared_with_the_part_of_the_spread_that_is_reported(spread):
    """(1/h - 1/M + spread (1 - 1/M)) v: the first part is not reported, and not lowered."""
    v = np.random.default_rng(0).uniform(0.5, 2, size=(2, 60))
    for members in (2, 3, 10):
        n_holders = np.resize(np.arange(1, members + 1), 60)
        held = rows_with(np.full(60, np.nan), np.full(60, np.nan), 1, members)
        share = 1 + 1 / n_holders - 2 / members
        held = held._replace(n_holders=n_holders, disagreement=share * v)
        expected = (1 / n_holders - 1 / members + spread * (1 - 1 / members)) * v
        np.testing.assert_allclose(held.disagreement_with(spread), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("spread", [1.0, 0.5, 0.0])
def test_one_member_has_no_spread_to_lower(spread):
    held = rows_with(np.full(20, np.nan), np.full(20, np.nan), 1, 1)
    held = with_disagreement(held, spread_sums(held))
    np.testing.assert_array_equal(held.disagreement_with(spread), np.zeros((1, 20)))


@pytest.mark.parametrize("h", [1, 2, 5])
def test_members_that_err_independently_need_a_spread_of_one_of_m_minus_1(h):
    """Monte Carlo: their mean errs by v / M, and that is what spread * var(means) then is."""
    rng = np.random.default_rng(0)
    n, members, v = 400_000, 5, 0.7
    means = np.sqrt(v) * rng.normal(size=(members, n))  # the truth is 0, and without noise
    spread = 1 / (members - 1)
    held = rows_with(np.full(1, v if h == members else np.nan), np.full(1, v), h, members)
    expected = with_disagreement(held, spread_sums(held)).disagreement_with(spread)[0, 0]
    assert np.square(means[:h].mean(axis=0)).mean() == pytest.approx(expected, rel=0.02)
    of_all = np.square(means.mean(axis=0)).mean()
    assert of_all == pytest.approx(v / members, rel=0.02)
    assert spread * means.var(axis=0).mean() == pytest.approx(of_all, rel=0.02)


@pytest.mark.parametrize(("n_holders", "members"), [(1, 4), (2, 4), (3, 8), (2, 10)])
def test_disagreement_is_its_share_of_the_spread_of_those_who_learned_the_row(n_holders, members):
    """If no row tells what learning it changes, that is nothing."""
    others = np.random.default_rng(0).uniform(0.5, 2, size=50)
    held = rows_with(np.full(50, np.nan), others, n_holders, members)
    share = 1 + 1 / n_holders - 2 / members
    np.testing.assert_allclose(disagreement(held), share * held.spread_of_others[0], rtol=1e-12)


def test_one_member_has_nobody_to_disagree_with():
    held = rows_with(np.full(20, np.nan), np.full(20, np.nan), 1, 1)
    np.testing.assert_array_equal(disagreement(held), np.zeros(20))


def test_members_that_all_hold_a_row_out_have_their_own_spread():
    """The mixture's error is what is seen: the share is 1 - 1/M, that of var(means)."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 2, size=30)
    held = rows_with(spread, np.full(30, np.nan), 4, 4)
    np.testing.assert_allclose(disagreement(held), (1 - 1 / 4) * spread, rtol=1e-12)


@pytest.mark.parametrize("n_holders", [2, 3])
def test_the_factor_by_which_members_differ_more_at_new_rows_is_found(n_holders):
    members, n = 8, 20_000
    held = drawn_rows(n, n_holders, members, 1.0, 0.5)
    share = 1 + 1 / n_holders - 2 / members
    factor = disagreement(held) / (share * held.spread_of_others[0])
    np.testing.assert_allclose(factor, 4.0, rtol=0.05)
    assert np.ptp(factor) < 1e-9


@pytest.mark.parametrize("n", [1, 10, 90])
def test_few_rows_move_the_factor_part_of_the_way_from_one(n):
    held = rows_with(np.full(n, 4.0), np.full(n, 1.0), 2, 4)
    factor = disagreement(held) / (1 + 1 / 2 - 2 / 4)
    np.testing.assert_allclose(factor, 4 ** (n / (n + PRIOR_PAIRS)), rtol=1e-12)


def test_holders_of_different_numbers_are_compared_without_bias():
    """The sample standard deviation of two is a fifth too small, that of seven a 25th."""
    held = drawn_rows(20_000, 2, 9, 1.0, 1.0)
    factor = disagreement(held) / ((1 + 1 / 2 - 2 / 9) * held.spread_of_others[0])
    np.testing.assert_allclose(factor, 1.0, atol=0.03)


def test_an_extreme_factor_makes_the_disagreement_constant():
    """Members that sit on the rows they learned do not say where they differ at new ones."""
    n = 5000
    held = drawn_rows(n, 2, 4, 1.0, 0.1)
    assert LARGEST_FACTOR < (1 / 0.1) ** 2
    found = disagreement(held)
    np.testing.assert_allclose(found, held.spread.mean(), rtol=1e-12)
    assert found[0] == pytest.approx(1.0, rel=0.1)


def test_rows_without_two_who_learned_them_have_the_mean_disagreement():
    """Two members that share a fold: v is the mean of what they differ by."""
    rng = np.random.default_rng(2)
    spread = rng.uniform(0.5, 2, size=40)
    spread[20:] = np.nan  # held out by one of three: two have learned them
    others = np.where(np.isnan(spread), 0.8, np.nan)
    held = rows_with(spread, others, 2, 3)._replace(n_holders=np.repeat([2, 1], 20))
    found = disagreement(held)
    np.testing.assert_allclose(found[:20], (1 + 1 / 2 - 2 / 3) * spread[:20].mean(), rtol=1e-12)
    assert np.ptp(found[20:]) < 1e-12


def test_members_that_agree_everywhere_do_not_disagree():
    held = rows_with(np.zeros(30), np.zeros(30), 2, 5)
    np.testing.assert_array_equal(disagreement(held), np.zeros(30))


def test_weights_count_in_the_factor_as_copies():
    held = drawn_rows(60, 2, 5, 1.0, 0.6)
    weight = np.random.default_rng(1).integers(1, 4, size=60)
    copies = held.take(np.repeat(np.arange(60), weight))
    heavy = held._replace(weight=weight.astype(float))
    np.testing.assert_allclose(spread_sums(heavy), spread_sums(copies), rtol=1e-12)
    np.testing.assert_allclose(
        np.repeat(disagreement(heavy), weight), disagreement(copies), rtol=1e-12
    )


# --------------------------------------------------------------------------- rows in two places


class TwoPlaces:
    """Held-out rows in two parts, as on a cluster."""

    def __init__(self, parts):
        self.parts = parts

    def ask(self, question, *given):
        return sum(self.collect(question, *given))

    def collect(self, question, *given):
        return [question(held, *given) for held in self.parts]

    def change(self, function, *given):
        self.parts = [function(held, *given) for held in self.parts]


def in_two(held, cut):
    """Rows before and behind a cut; distinct rows of members are those of each part."""
    numbers = np.arange(len(held.weight))
    parts = [held.take(numbers[:cut]), held.take(numbers[cut:])]
    share = held.counts // 2
    return [
        part._replace(counts=counts)
        for part, counts in zip(parts, (share, held.counts - share), strict=True)
    ]


def calibrated_example(seed=0, n=600, members=4):
    rng = np.random.default_rng(seed)
    net = make_network([3, 6, 2], seed, members, sigma_v=0.8, learn_noise=True)
    data = make_rows(n, 3, 2, seed)
    scale = np.exp(data.x[:, :1])
    data = data._replace(
        y=data.y + np.hstack([scale, np.ones_like(scale)]) * rng.normal(size=(n, 2))
    )
    folds = np.array_split(rng.permutation(n), members - 1)
    return net, data, [folds[0], *folds]


def test_sums_of_two_places_are_those_of_all_rows():
    net, data, validation = calibrated_example()
    held = predict_held_out(net, data, validation, TEMPERATURES)
    parts = in_two(held, 170)
    np.testing.assert_allclose(sum(map(spread_sums, parts)), spread_sums(held), rtol=1e-12)


@pytest.mark.parametrize("members", [3, 5, 9, 17])
@pytest.mark.parametrize("n_holders", [1, 2])
def test_calibration_finds_that_members_err_independently(members, n_holders):
    """Held-out errors have variance v / h and no noise: v / M is what the mixture errs by."""
    n, v = 20_000, 0.7
    error = np.sqrt(v / n_holders) * np.random.default_rng(0).normal(size=(1, n))
    held = rows_with(np.full(n, np.nan), np.full(n, v), n_holders, members)
    held = held._replace(error=error, var_z=np.zeros((len(TEMPERATURES), 1, n)))
    net = make_network([1, 1], 0, members, learn_noise=True, sigma_v=0.1)
    set_calibration(net, HeldOutHere(held))
    assert net.calibration.spread <= 2 / (members - 1)  # at most a step above what it should be
    means = np.sqrt(v) * np.random.default_rng(1).normal(size=(members, 1, n))
    var = net.variance_of_mean(means, np.zeros_like(means)).mean() + net.reported_noise.mean()
    assert var == pytest.approx(v / members, rel=0.3)
    assert np.square(means.mean(axis=0)).mean() == pytest.approx(v / members, rel=0.05)


def calibrated_in_one_and_in_two(members, varies):
    net, data, validation = calibrated_example(members=members)
    held = predict_held_out(net, data, validation, TEMPERATURES)
    here, there = net.copy(), net.copy()
    start = draw_noise_network(3, 2, np.float64, 0) if varies else None
    set_calibration(here, HeldOutHere(held), start, 0)
    set_calibration(there, TwoPlaces(in_two(held, 170)), start, 0)
    return here, there, data.x


@pytest.mark.parametrize(("members", "varies"), [(4, False), (5, False), (5, True)])
def test_calibration_by_rows_in_two_places_is_that_of_all_rows(members, varies):
    """Members hold out a set of rows each, and so do those of the noise network."""
    here, there, x = calibrated_in_one_and_in_two(members, varies)
    assert here.calibration.temperature == pytest.approx(there.calibration.temperature, rel=1e-12)
    assert here.calibration.spread == there.calibration.spread
    np.testing.assert_allclose(
        here.calibration.noise_scale, there.calibration.noise_scale, rtol=1e-9
    )
    for mine, theirs in zip(here.calibration.shape, there.calibration.shape, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    if varies:
        assert here.noise_net.exponent[0] > 0
        for name in ("exponent", "level", "bounds", "scores"):
            mine, theirs = getattr(here.noise_net, name), getattr(there.noise_net, name)
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(here.noise_net.ratio(x), there.noise_net.ratio(x), rtol=1e-7)


@pytest.mark.parametrize("members", [2, 4])
def test_noise_by_rows_in_two_places_is_nearly_that_of_all_rows_for_few_sets(members):
    """Then folds of the noise network are drawn in each place, by chance."""
    here, there, x = calibrated_in_one_and_in_two(members, varies=True)
    steps = np.log2(there.calibration.temperature / here.calibration.temperature)
    assert abs(steps) < 1 + 1e-9  # two networks may prefer temperatures beside each other
    mine, theirs = (
        np.log(net.reported_noise.mean(axis=0) * net.noise_net.ratio(x))[0] for net in (here, there)
    )
    assert mine.std() > 0.5
    assert np.corrcoef(mine, theirs)[0, 1] > 0.95
    assert np.sqrt(np.mean(np.square(mine - theirs))) < 0.3


def test_blocks_of_rows_change_nothing(monkeypatch):
    net, data, validation = made()
    whole = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    monkeypatch.setattr(held_out, "BLOCK_ELEMENTS", 7)
    in_blocks = predict_held_out(net, data, validation, SOME_TEMPERATURES)
    for mine, theirs in zip(in_blocks, whole, strict=True):
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)


# --------------------------------------------------------------------------------- interrupts


def interrupted_in_call(number, call):
    """Raise KeyboardInterrupt as the Python function of a number begins, if there are so many."""
    calls = 0

    def trace(frame, event, arg):
        nonlocal calls
        calls += 1
        if calls == number:
            sys.settrace(None)
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)


def test_ctrl_c_in_any_call_is_no_other_error():
    """NumPy runs Python code to compare structured arrays, whose errors all become a TypeError."""
    net, data, validation = made()
    for number in range(1, 10**4):
        try:
            interrupted_in_call(
                number, lambda: predict_held_out(net, data, validation, SOME_TEMPERATURES)
            )
        except KeyboardInterrupt:
            continue
        break
    assert number > 50
