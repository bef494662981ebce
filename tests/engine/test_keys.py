"""Keys of rows: equal for equal rows, and different for others."""

import numpy as np
import pytest
from scipy import sparse

from sktagi.engine.keys import FEW_COLUMNS, row_keys

WIDTHS = [1, 2 * FEW_COLUMNS, 2 * FEW_COLUMNS + 1, 300]


def groups(values, **kwargs):
    return np.unique(values, return_inverse=True, **kwargs)[1].ravel()


def assert_same_groups(keys, x):
    """Rows have equal keys just where they are equal."""
    expected, found = groups(x, axis=0), groups(keys)
    pairs = np.unique(np.stack([expected, found]), axis=1)
    assert pairs.shape[1] == expected.max() + 1 == found.max() + 1


@pytest.mark.parametrize("n_columns", WIDTHS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_keys_tell_just_the_rows_apart_that_differ(n_columns, dtype, as_sparse, density):
    rng = np.random.default_rng(n_columns)
    x = (rng.random((400, n_columns)) < density).astype(dtype)
    x = x[rng.integers(len(x), size=600)]  # with copies
    assert_same_groups(row_keys(sparse.csr_array(x) if as_sparse else x), x)


@pytest.mark.parametrize("n_columns", WIDTHS[1:])
def test_one_entry_anywhere_tells_rows_apart(n_columns):
    """In a column that the first look at wide rows leaves out, too."""
    x = np.concatenate([np.zeros((1, n_columns)), np.eye(n_columns), np.zeros((1, n_columns))])
    assert_same_groups(row_keys(x), x)


@pytest.mark.parametrize("n_columns", WIDTHS[1:])
def test_minus_zero_is_zero_in_any_memory_order(n_columns):
    x = np.random.default_rng(0).integers(2, size=(50, n_columns)).astype(float)
    keys = row_keys(x)
    for other in (np.where(x == 0, -0.0, x), np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(row_keys(other), keys)


def test_no_rows_have_no_keys():
    assert row_keys(np.empty((0, 100))).shape == (0,)
