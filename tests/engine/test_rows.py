"""Rows as they enter, and the batches that are made of them."""

import numpy as np
import pytest
from helpers import make_rows
from scipy import sparse

from sktagi.engine.fast import slices
from sktagi.engine.inputs import InputErrors
from sktagi.engine.observations import Gaussian
from sktagi.engine.rows import Rows, iterate_batches, n_observed
from sktagi.engine.sparse import Entries
from sktagi.engine.tree import ClassTree


def full_rows(n=11, *, as_sparse=False, errors=None):
    """Rows with copies, weights, noise of their own and targets that are missing."""
    rng = np.random.default_rng(0)
    data = make_rows(n, 4, 2, weight=rng.uniform(0.5, 2, size=n))
    data.x[:, :-1] *= rng.random((n, 4)) < 0.6
    data.x[5] = data.x[6] = data.x[1]
    data.y[3, 0] = data.y[8, 1] = np.nan
    variances = rng.uniform(0.1, 1, size=(n, 4)) * (rng.random((n, 4)) < 0.5)
    forms = {None: None, "one": variances[:1], "each": variances,
             "sparse": sparse.csr_array(variances)}  # fmt: skip
    return data._replace(
        x=sparse.csr_array(data.x) if as_sparse else data.x,
        errors=None if errors is None else InputErrors(forms[errors]),
        noise_ratio=rng.uniform(0.5, 2, size=(n, 2)),
    )


def dense(values):
    return values.toarray() if sparse.issparse(values) else values


@pytest.mark.parametrize(("n_rows", "size"), [(10, 5), (11, 5), (3, 5), (1, 1), (0, 4)])
def test_slices_cover_all_rows_once(n_rows, size):
    parts = list(slices(n_rows, size))
    covered = [k for part in parts for k in range(part.start, part.stop)]
    assert covered == list(range(n_rows))
    assert all(part.stop - part.start == size for part in parts[:-1])


def test_targets_that_are_missing_are_not_counted():
    y = np.array([[1.0, np.nan, 2], [np.nan, np.nan, 0], [3, 4, 5]])
    np.testing.assert_array_equal(n_observed(y), [2, 1, 3])
    np.testing.assert_array_equal(n_observed(np.array([0, 1, 0, 2])), [4])


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("errors", [None, "one", "each", "sparse"])
def test_rows_by_number_are_those_of_every_part(as_sparse, errors):
    data = full_rows(as_sparse=as_sparse, errors=errors).with_keys()
    order = np.array([4, 1, 1, 9, -1])
    some = data.take(order)
    np.testing.assert_array_equal(dense(some.x), dense(data.x)[order])
    for name in ("y", "weight", "noise_ratio"):
        np.testing.assert_array_equal(getattr(some, name), getattr(data, name)[order])
    if errors is None:
        np.testing.assert_array_equal(some.keys, data.keys[order])
        assert some.errors is None
    else:
        expected = np.broadcast_to(dense(data.errors.values), (11, 4))[order]
        got = np.broadcast_to(dense(some.errors.values), (5, 4))
        np.testing.assert_array_equal(got, expected)


def test_rows_of_several_members_have_their_axis():
    data = full_rows(errors="each").with_keys()
    order = np.random.default_rng(1).integers(11, size=(3, 7))
    some = data.take(order)
    for m in range(3):
        alone = data.take(order[m])
        for name in ("x", "y", "weight", "noise_ratio"):
            np.testing.assert_array_equal(getattr(some, name)[m], getattr(alone, name))
        np.testing.assert_array_equal(some.errors.values[m], alone.errors.values)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_keys_are_those_of_copies_and_uncertain_rows_have_none(as_sparse):
    data = full_rows(as_sparse=as_sparse)
    keys = data.with_keys().keys
    x = dense(data.x)
    same = (x[:, None] == x[None]).all(axis=-1)
    np.testing.assert_array_equal(keys[:, None] == keys, same)
    assert same.sum() > len(x)
    known = data._replace(keys=np.arange(11))
    assert known.with_keys() is known
    assert full_rows(as_sparse=as_sparse, errors="one").with_keys().keys is None


def test_entries_are_those_that_are_stored():
    assert make_rows(10, 4).entries == 5
    x = np.zeros((10, 100))
    x[:, :3] = 1
    data = Rows(sparse.csr_array(x), np.zeros((10, 1)), np.ones(10))
    assert 3 <= data.entries <= 4


# ----------------------------------------------------------------------------------------- batches


def by_columns(values):
    """A dense array with rows last, whatever a batch holds: sparse ones have rows first."""
    if isinstance(values, Entries):
        values = values.matrix(5)
    return dense(values).T if sparse.issparse(values) else values


def targets_of(rows, model=None):
    return (Gaussian(2) if model is None else model).targets(rows.y, np.float64)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("errors", [None, "one", "each", "sparse"])
@pytest.mark.parametrize("size", [1, 4, 20])
def test_batches_are_the_rows_with_rows_last(as_sparse, errors, size):
    data = full_rows(as_sparse=as_sparse, errors=errors).with_keys()
    targets = targets_of(data)
    covered = []
    for part, batch in iterate_batches(data, targets, size):
        rows = np.arange(11)[part]
        covered.extend(rows)
        np.testing.assert_array_equal(by_columns(batch.x), dense(data.x)[rows].T)
        np.testing.assert_array_equal(batch.value, targets.value[:, rows])
        np.testing.assert_array_equal(batch.weight, data.weight[None, rows])
        seen = ~np.isnan(data.y[rows]).T
        np.testing.assert_array_equal(batch.observed_weight, seen * data.weight[rows])
        np.testing.assert_array_equal(batch.noise_ratio, data.noise_ratio[rows].T)
        assert batch.outputs is None
        if errors is None:
            assert batch.var_x is None
        else:
            expected = np.broadcast_to(dense(data.errors.values), (11, 4))[rows].T
            got = np.broadcast_to(by_columns(batch.var_x), (4, len(rows)))
            np.testing.assert_array_equal(got, expected)
    assert covered == list(range(11))


def test_weights_of_one_are_no_weights_batch_by_batch():
    data = make_rows(12, 3, weight=np.array([1.0] * 8 + [2.0] + [1.0] * 3))
    weights = [batch.weight for _, batch in iterate_batches(data, targets_of(data), 4)]
    assert weights[0] is None is weights[1]
    np.testing.assert_array_equal(weights[2], [[2.0, 1, 1, 1]])
    observed = [batch.observed_weight for _, batch in iterate_batches(data, targets_of(data), 4)]
    assert observed[0] is None is observed[1]
    np.testing.assert_array_equal(observed[2], weights[2])


def test_what_is_not_observed_has_no_weight_though_rows_have_one():
    data = make_rows(6, 3, 2)
    data.y[1, 0] = data.y[4, 1] = np.nan
    for part, batch in iterate_batches(data, targets_of(data), 3):
        assert batch.weight is None
        np.testing.assert_array_equal(batch.observed_weight, ~np.isnan(data.y[part]).T)


def test_classes_tell_the_outputs_that_rows_observe():
    tree = ClassTree(5)
    labels = np.random.default_rng(2).integers(5, size=10)
    data = Rows(make_rows(10, 3).x, labels, np.ones(10))
    for part, batch in iterate_batches(data, targets_of(data, tree), 4):
        np.testing.assert_array_equal(batch.outputs, tree.nodes[labels[part]].T)
        seen = np.zeros((10, tree.n_outputs))
        np.put_along_axis(seen, tree.nodes[labels], 1, axis=1)
        np.testing.assert_array_equal(batch.observed_weight, seen[part].T)


@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("size", [1, 4, 5, 40])
def test_copies_are_all_pairs_of_equal_rows_of_a_batch(members, size):
    data = make_rows(9, 2).with_keys()
    lead = () if members is None else (members,)
    order = np.random.default_rng(3).integers(9, size=(*lead, 22))
    order[..., 4:8] = np.arange(4)  # a batch without copies, of four
    rows = data.take(order)
    found = 0
    for part, batch in iterate_batches(rows, targets_of(rows, Gaussian(1)), size):
        here = order[..., part].reshape(-1, order[..., part].shape[-1])
        expected = {
            (m, i, j)
            for m, i, j in np.ndindex(len(here), here.shape[1], here.shape[1])
            if i != j and here[m, i] == here[m, j]
        }
        pairs = [] if batch.copies is None else list(zip(*batch.copies, strict=True))
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == expected
        assert (batch.copies is None) == (not expected)
        found += len(pairs)
    assert (found > 0) == (size > 1)


# Noise of their own


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ratios_of_noise_are_taken_as_they_are(dtype):
    data = make_rows(50, 3, 2, dtype=dtype)
    ratio = 7 * np.exp(np.random.default_rng(0).normal(size=(2, 50)))
    rows = data.with_noise(ratio)
    assert rows.noise_ratio.shape == (50, 2)
    assert rows.noise_ratio.dtype == dtype
    np.testing.assert_array_equal(rows.noise_ratio, ratio.T.astype(dtype))
    noise_var = np.array([[0.5], [2.0]])
    np.testing.assert_allclose(rows.noise(noise_var), noise_var * ratio, rtol=1e-6)
    assert data.noise_ratio is None
    np.testing.assert_array_equal(data.noise(noise_var), noise_var)


def test_what_gaps_add_is_noise_of_a_row_too():
    data = make_rows(20, 3, 2)
    rng = np.random.default_rng(0)
    ratio, gaps = rng.uniform(0.5, 2, size=(2, 20)), rng.uniform(size=(20, 2))
    rows = data._replace(gap_ratio=gaps).with_noise(ratio)
    np.testing.assert_array_equal(rows.noise_ratio, ratio.T + gaps)
    some = rows.take(np.array([3, 1]))
    np.testing.assert_array_equal(some.gap_ratio, gaps[[3, 1]])
    np.testing.assert_array_equal(some.noise_ratio, (ratio.T + gaps)[[3, 1]])
