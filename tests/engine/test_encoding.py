"""What the first layer sees of the inputs: pieces of them, or all whitened."""

import numpy as np
import pytest
from helpers import DTYPES, rtol, with_ones

from sktagi.engine.encoding import (
    MOST_ROWS,
    N_PIECES,
    Pieces,
    Whitening,
    find_pieces,
    find_whitening,
)
from sktagi.engine.rescaling import Change

FIND = {"pieces": find_pieces, "whitening": find_whitening}
each = pytest.mark.parametrize("find", FIND.values(), ids=FIND.keys())


def inputs(n=300, seed=0):
    """Columns that are correlated, skewed, of few values, of two, and constant."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    return np.column_stack([
        z[:, 0], 0.9 * z[:, 0] + 0.3 * z[:, 1], np.exp(z[:, 1]), rng.integers(0, 4, size=n),
        rng.integers(0, 2, size=n), np.full(n, 0.7),
    ])  # fmt: skip


def of_column(pieces, encoded, column):
    """What is encoded of one input, (rows, its pieces)."""
    return encoded[:, :-1][:, pieces.column == column]


# ---------------------------------------------------------------------------------------- pieces


def test_pieces_of_an_input_sum_to_an_affine_function_of_it_in_their_own_units():
    """In units of its width, a piece rises from 0 to 1: all of them are x, beyond the data too."""
    x = inputs()
    pieces = find_pieces(with_ones(x), np.ones(len(x)))
    new = np.random.default_rng(1).uniform(-9, 9, size=(200, x.shape[1]))
    encoded = pieces(with_ones(new))
    for k in range(x.shape[1]):
        slope = pieces.slope[pieces.column == k]
        total = (of_column(pieces, encoded, k) / slope).sum(axis=1)
        np.testing.assert_allclose(total - total[0], new[:, k] - new[0, k], atol=1e-9)


def ends_of(pieces):
    """Where pieces begin, in the units of the input."""
    finite = np.isfinite(pieces.lowest)
    return np.sort((pieces.center + pieces.lowest / pieces.slope)[finite])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.62])
def test_a_wide_gap_between_values_has_a_cut(share):
    """Without, a function of the pieces would be a straight line there, for all members."""
    rng = np.random.default_rng(0)
    n = 200
    x = rng.uniform(1.5, 3, n) * np.where(np.arange(n) < share * n, 1, -1)
    cuts = ends_of(find_pieces(with_ones(x[:, None]), np.ones(n)))
    inside = cuts[np.abs(cuts) < 1.5]
    assert len(inside) == 1
    assert len(cuts) <= 9


def test_tails_and_narrow_gaps_have_no_cut():
    rng = np.random.default_rng(0)
    for x in (rng.standard_t(2, 300), np.append(rng.normal(size=300), 50.0), rng.uniform(size=50)):
        pieces = find_pieces(with_ones(x[:, None]), np.ones(len(x)))
        assert pieces.n_encoded == 8


def test_pieces_are_continuous_and_never_fall():
    x = inputs()
    pieces = find_pieces(with_ones(x), np.ones(len(x)))
    grid = np.linspace(-6, 6, 20001)
    encoded = pieces(with_ones(np.tile(grid[:, None], x.shape[1])))[:, :-1]
    step = np.diff(encoded, axis=0)
    assert (step >= -1e-12).all()
    assert (step <= pieces.slope * (grid[1] - grid[0]) * (1 + 1e-6)).all()


def test_pieces_are_standardised_on_the_rows_they_were_found_from():
    x = inputs()
    pieces = find_pieces(with_ones(x), np.ones(len(x)))
    encoded = pieces(with_ones(x))
    for k in range(4):
        part = of_column(pieces, encoded, k)
        assert 3 <= part.shape[1] <= N_PIECES
        np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(part.std(axis=0), 1, rtol=1e-9)
    np.testing.assert_array_equal(encoded[:, -1], 1)


def test_cuts_leave_as_many_rows_between_them():
    x = np.random.default_rng(2).exponential(size=(4000, 1))
    pieces = find_pieces(with_ones(x), np.ones(4000))
    rising = pieces.jacobian(with_ones(x))[:, 0, :] > 0
    np.testing.assert_allclose(rising.mean(axis=0), 1 / N_PIECES, atol=0.003)


@pytest.mark.parametrize("column", [4, 5])
def test_an_input_with_two_values_or_one_stays_as_it_is(column):
    x = inputs()
    pieces = find_pieces(with_ones(x), np.ones(len(x)))
    new = inputs(seed=3) * 5
    part = of_column(pieces, pieces(with_ones(new)), column)
    np.testing.assert_array_equal(part, new[:, [column]])


def test_an_input_with_few_values_is_cut_at_each_of_them():
    """Any function of four values is then linear in the pieces."""
    x = inputs()[:, 3:4]
    encoded = find_pieces(with_ones(x), np.ones(len(x)))(with_ones(x))
    target = np.array([0.0, 5.0, -2.0, 1.0])[x[:, 0].astype(int)]
    fitted = encoded @ np.linalg.lstsq(encoded, target, rcond=None)[0]
    np.testing.assert_allclose(fitted, target, atol=1e-9)


# ------------------------------------------------------------------------------------- whitening


def test_whitened_inputs_of_many_rows_have_a_covariance_close_to_one():
    x = inputs(5000)[:, :5]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    white = find_whitening(with_ones(x), np.ones(len(x)))(with_ones(x))[:, :-1]
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(np.cov(white.T), np.eye(5), atol=0.05)


def test_inputs_that_are_uncorrelated_stay_nearly_as_they_are():
    x = np.random.default_rng(4).normal(size=(20000, 3))
    whitening = find_whitening(with_ones(x), np.ones(len(x)))
    np.testing.assert_allclose(whitening.matrix, np.eye(3), atol=0.03)


def test_a_constant_input_stays_as_it_is_but_for_its_mean():
    x = inputs()
    whitening = find_whitening(with_ones(x), np.ones(len(x)))
    assert whitening.matrix[5, 5] == pytest.approx(1, rel=1e-9)
    assert np.abs(whitening.matrix[5, :5]).max() < 1e-12
    assert np.abs(whitening.matrix[:5, 5]).max() < 1e-12


def test_few_rows_whiten_less():
    """Ten inputs of twelve rows: no direction is enlarged as much as its smallest variance says."""
    x = np.random.default_rng(5).normal(size=(12, 10))
    whitening = find_whitening(with_ones(x), np.ones(12))
    assert np.linalg.eigvalsh(np.cov(x.T, bias=True)).min() < 0.01
    assert np.linalg.norm(whitening.matrix, 2) < 4


def test_inputs_that_are_copies_are_whitened_without_a_singular_matrix():
    x = np.repeat(np.random.default_rng(6).normal(size=(500, 1)), 3, axis=1)
    whitening = find_whitening(with_ones(x), np.ones(500))
    assert np.isfinite(whitening.matrix).all()
    assert np.linalg.norm(whitening.matrix, 2) < 100


# ------------------------------------------------------------------------------------------ both


@each
def test_a_row_of_weight_two_is_the_row_twice(find):
    x, weight = inputs(50), np.random.default_rng(7).integers(1, 4, size=50)
    weighted = find(with_ones(x), weight.astype(float))
    copies = find(with_ones(np.repeat(x, weight, axis=0)), np.ones(weight.sum()))
    for mine, theirs in zip(weighted.arrays(), copies.arrays(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-8)


@each
def test_a_row_of_no_weight_does_not_count(find):
    x = inputs(60)
    x[50:] *= 0.5
    few = find(with_ones(x[:50]), np.ones(50))
    weighted = find(with_ones(x), (np.arange(60) < 50).astype(float))
    for mine, theirs in zip(weighted.arrays(), few.arrays(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@each
def test_other_units_give_the_same_function_of_the_original_inputs(find):
    x = inputs()
    encoding = find(with_ones(x), np.ones(len(x)))
    rng = np.random.default_rng(8)
    change = Change(rng.uniform(0.2, 3, size=6), rng.normal(size=6))  # x = ratio * new + shift
    in_new_units = (x - change.shift) / change.ratio
    found = encoding.rescaled(change)(with_ones(in_new_units))
    np.testing.assert_allclose(found, encoding(with_ones(x)), atol=1e-9)


@each
def test_derivatives_are_those_of_finite_differences(find):
    x = inputs()
    encoding = find(with_ones(x), np.ones(len(x)))
    new = np.random.default_rng(9).uniform(-2, 3, size=(40, 6))
    jacobian = encoding.jacobian(with_ones(new))
    eps = 1e-7
    for k in range(6):
        more, less = new.copy(), new.copy()
        more[:, k] += eps
        less[:, k] -= eps
        slope = (encoding(with_ones(more)) - encoding(with_ones(less)))[:, :-1] / (2 * eps)
        expected = np.broadcast_to(jacobian, (40, 6, encoding.n_encoded))[:, k]
        np.testing.assert_allclose(slope, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_at_a_cut_are_the_mean_of_both_sides_whatever_rounding_does(dtype):
    x = with_ones(np.random.default_rng(0).integers(0, 9, size=(60, 1)) / 7).astype(dtype)
    pieces = find_pieces(x, np.ones(60))
    at, below, above = (x * dtype(1 + k * np.finfo(dtype).eps) for k in (0, -4, 4))
    sides = [pieces.jacobian(x + np.array([d, 0], dtype)) for d in (-0.05, 0.05)]
    for found in (at, below, above):
        np.testing.assert_allclose(pieces.jacobian(found), np.mean(sides, axis=0), rtol=1e-6)


@each
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_precision_of_the_inputs_stays(find, dtype):
    x = inputs()
    encoding = find(with_ones(x, dtype), np.ones(len(x), dtype))
    found = encoding(with_ones(x, dtype))
    assert found.dtype == encoding.jacobian(with_ones(x, dtype)).dtype == dtype
    np.testing.assert_allclose(found, encoding(with_ones(x)), rtol=rtol(dtype), atol=rtol(dtype))


@each
def test_rows_of_several_members_are_encoded_as_each_alone(find):
    x = inputs(40)
    encoding = find(with_ones(x), np.ones(40))
    stacked = encoding(with_ones(np.stack([x, x[::-1]])))
    assert stacked.shape == (2, 40, encoding.n_encoded + 1)
    np.testing.assert_allclose(stacked[1], encoding(with_ones(x[::-1])), rtol=1e-12, atol=1e-12)
    assert encoding.n_inputs == 6


@each
def test_many_rows_are_encoded_by_some_of_them(find):
    x = np.random.default_rng(10).normal(size=(3 * MOST_ROWS, 2))
    encoding = find(with_ones(x), np.ones(len(x)))
    few = find(with_ones(x[::3]), np.ones(MOST_ROWS))
    assert isinstance(encoding, (Pieces, Whitening))
    for mine, theirs in zip(encoding.arrays(), few.arrays(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
