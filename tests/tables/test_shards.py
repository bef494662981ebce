"""Columns of a table in several places: against those that are fitted to all rows at once."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from sktagi.tables import shards
from sktagi.tables.columns import fit_columns
from sktagi.tables.shards import join_columns, join_levels, tell

LEVELS = [None, ["a", "b", "c", "d", "e", "never"], None, None, None, None]
NAMES = ["number", "level", "tails", "flag", "seldom", "empty"]


def make_table(n=900, seed=0):
    """Numbers, levels (two rare ones), heavy tails, a rare flag, few values, and none at all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[:, 1] = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    X[[5, n - 3], 1] = 3
    X[n // 2, 1] = 4
    X[rng.random(n) < 0.1, 1] = np.nan
    X[:, 2] = 1e3 + X[:, 2]
    X[7, 2] = -9999
    X[:, 3] = np.arange(n) % 100 == 0
    X[rng.random(n) < 0.98, 4] = np.nan
    X[:, 5] = np.nan
    X[rng.random(n) < 0.2, 0] = np.nan
    return X, rng.uniform(0.5, 2, n) * (rng.random(n) > 0.05)


def in_parts(X, weight, levels, cuts=(100, 350)):
    rows = np.split(np.arange(X.shape[0]), cuts)
    return [tell(X[some], weight[some], levels, len(rows), seed) for seed, some in enumerate(rows)]


def fitted_at_once(X, weight, **given):
    there = weight > 0
    return fit_columns(X[there], weight[there], streamed=False, **given)


def fields_of(columns):
    return {field.name: getattr(columns, field.name) for field in dataclasses.fields(columns)}


def assert_same(mine, theirs, name):
    if isinstance(mine, list):
        for one, other in zip(mine, theirs, strict=True):
            assert_same(one, other, name)
    elif dataclasses.is_dataclass(mine):
        for field in dataclasses.fields(mine):
            assert_same(getattr(mine, field.name), getattr(theirs, field.name), name)
    elif mine is None or isinstance(mine, (str, bool)):
        assert mine == theirs, name
    else:
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("clips", [True, False])
def test_few_rows_in_parts_have_the_columns_of_all_together(clips):
    X, weight = make_table()
    joined = join_columns(in_parts(X, weight, LEVELS), NAMES, LEVELS, clips=clips)
    expected = fitted_at_once(X, weight, names=NAMES, levels=LEVELS, clips=clips)
    for name, value in fields_of(joined).items():
        assert_same(value, getattr(expected, name), name)


def test_of_many_rows_counts_and_ranges_are_those_of_all(monkeypatch):
    """Levels, shares, means, least scales and tails are right where few rows are told."""
    monkeypatch.setattr(shards, "MOST_ROWS", 300)
    X, weight = make_table()
    parts = in_parts(X, weight, LEVELS)
    assert not any(part.is_whole for part in parts[1:])
    joined = join_columns(parts, NAMES, LEVELS, clips=True)
    expected = fitted_at_once(X, weight, names=NAMES, levels=LEVELS, clips=True)
    exact = (
        "names", "levels", "slots", "slot_names", "shares", "missing_columns", "is_empty",
        "n_missing", "floor", "makes_sparse", "is_sparse",
    )  # fmt: skip
    for name in exact:
        assert_same(getattr(joined, name), getattr(expected, name), name)
    assert joined.encoded_names == expected.encoded_names
    clipped = expected.width > 0
    assert_same(joined.mean[~clipped], expected.mean[~clipped], "mean")
    # Once -9999 is clipped, it has hardly a say in the mean, which these rows tell.
    np.testing.assert_allclose(joined.mean[clipped], 1e3, atol=0.3)
    # The quantiles of three hundred rows, in the place of nine hundred
    np.testing.assert_array_equal(joined.width > 0, expected.width > 0)
    np.testing.assert_allclose(joined.width, expected.width, rtol=0.3)
    np.testing.assert_allclose(joined.center, expected.center, rtol=1e-3)
    np.testing.assert_allclose(joined.gaussian.mean[0], expected.gaussian.mean[0], atol=0.3)
    np.testing.assert_allclose(joined.gaussian.scale[0], expected.gaussian.scale[0], rtol=0.3)


def test_weights_of_rows_that_are_told_stand_for_all(monkeypatch):
    monkeypatch.setattr(shards, "MOST_ROWS", 30)
    X, weight = make_table()
    for part in in_parts(X, weight, LEVELS):
        assert len(part.weight) == 10
        assert part.weight.sum() == pytest.approx(part.total, rel=1e-12)


@pytest.mark.parametrize("most", [10_000, 60])
def test_parts_of_a_sparse_matrix(monkeypatch, most):
    monkeypatch.setattr(shards, "MOST_ROWS", most)
    rng = np.random.default_rng(0)
    X = sparse.random_array((900, 300), density=0.05, random_state=rng, format="csr")
    X.data[rng.random(len(X.data)) < 0.1] = np.nan
    weight = rng.uniform(0.5, 2, 900)
    joined = join_columns(in_parts(X, weight, None), None, None, clips=True)
    expected = fitted_at_once(X, weight, names=None, levels=None, clips=True)
    for name, value in fields_of(joined).items():
        assert_same(value, getattr(expected, name), name)


def test_two_values_in_different_parts_are_a_rare_flag():
    X = np.repeat([0.0, 1.0], [600, 300])[:, None]
    parts = in_parts(X, np.ones(900), None, cuts=(300, 600))
    for most, expected in (
        (parts, 0.1),
        ([*parts, parts[0]._replace(highest=2.0 * np.ones(1))], 0),
    ):
        told = [part._replace(n_rows=part.n_rows + 1) for part in most]  # not all rows
        assert join_columns(told, None, None, clips=True).floor[0] == pytest.approx(expected)


def test_levels_of_texts_are_sorted_and_declared_ones_keep_their_order():
    parts = [[None, ["a", "c"], ["low", "high"]], [None, ["b"], ["low", "high"]]]
    assert join_levels(parts) == ([None, ["a", "b", "c"], ["low", "high"]], True)
    assert join_levels([None, None]) == (None, True)
    assert join_levels([[None], None]) == ([None], True)


def test_a_column_that_is_numbers_in_some_parts_only_is_told():
    """All of them must read it again, as categories: "1" and 1 are one level."""
    for parts in ([[["1", "a"]], [None]], [[["1", "a"]], None]):
        levels, agree = join_levels(parts)
        assert levels[0] is not None
        assert not agree
