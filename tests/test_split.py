"""Which rows are held out for validation."""

import numpy as np
import pytest
from scipy import sparse

from sktagi._split import hold_out
from sktagi.engine.keys import row_keys


def split(X, y=None, fraction=0.1, n_members=1, seed=0, stratify=False):
    y = np.zeros(X.shape[0], dtype=int) if y is None else y
    return hold_out(X, y, fraction, n_members, np.random.RandomState(seed), stratify=stratify)


def rows(n=100, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def training_rows(train):
    return [member[member >= 0] for member in train]


@pytest.mark.parametrize("n_members", [1, 3, 10])
@pytest.mark.parametrize("n", [2, 3, 11, 100])
def test_each_row_is_learned_or_held_out_by_a_member(n, n_members):
    train, validation = split(rows(n), n_members=n_members)
    assert len(train) == len(validation) == n_members
    for learned, held in zip(training_rows(train), validation, strict=True):
        assert sorted([*learned, *held]) == list(range(n))
        assert len(learned) >= 1
        assert len(held) >= 1


@pytest.mark.parametrize("n", [10, 57, 100, 1000])
@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.25, 1 / 3, 0.5, 0.9])
def test_the_share_is_the_fraction(n, fraction):
    _, validation = split(rows(n), fraction=fraction, n_members=3)
    assert all(abs(len(held) - fraction * n) <= 1 for held in validation)


def test_ten_members_have_nine_folds_the_first_two_share_one_and_no_others_do():
    _, validation = split(rows(100), fraction=0.1, n_members=10)
    np.testing.assert_array_equal(validation[0], validation[1])
    held = np.concatenate(validation[1:])
    assert len(held) == len(np.unique(held)) == 90


def test_eleven_members_hold_out_every_row_and_a_tenth_of_them_twice():
    _, validation = split(rows(100), fraction=0.1, n_members=11)
    counts = np.bincount(np.concatenate(validation), minlength=100)
    assert np.bincount(counts).tolist() == [0, 90, 10]


def test_two_members_hold_out_the_same_rows():
    train, validation = split(rows(100), n_members=2)
    np.testing.assert_array_equal(train[0], train[1])
    np.testing.assert_array_equal(*validation)


@pytest.mark.parametrize("n_members", [1, 2, 5])
def test_more_members_do_not_change_what_the_first_ones_hold_out(n_members):
    _, few = split(rows(100), n_members=n_members)
    _, many = split(rows(100), n_members=10)
    for mine, theirs in zip(few, many, strict=False):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("n_members", [3, 7])
def test_members_differ_even_if_the_rows_do_not_suffice(n_members):
    _, validation = split(rows(12), fraction=0.5, n_members=n_members)
    assert len({tuple(held) for held in validation[1:3]}) == 2


def test_copies_of_a_row_stay_together():
    X = np.repeat(rows(40), 5, axis=0)[np.random.default_rng(1).permutation(200)]
    train, validation = split(X, fraction=0.2, n_members=4)
    for learned, held in zip(training_rows(train), validation, strict=True):
        assert not {tuple(x) for x in X[learned]} & {tuple(x) for x in X[held]}
        assert len(held) == 5 * 8


def test_rows_of_another_target_are_not_copies():
    X = np.ones((10, 2))
    train, validation = split(X, np.arange(10.0).reshape(-1, 1), fraction=0.2)
    assert len(validation[0]) == 2
    train, validation = split(X, np.ones((10, 1)))
    assert validation is None
    np.testing.assert_array_equal(train, [np.arange(10)])


def test_columns_cannot_stand_in_for_each_other():
    """(1, 2) and (2, 1) are different rows, as are a target and a feature."""
    X = np.array([[1.0, 2.0], [2.0, 1.0], [1.5, 1.5], [0.0, 3.0]])
    _, validation = split(X, fraction=0.5)
    assert len(validation[0]) == 2


def test_minus_zero_is_zero():
    X = rows(20)
    X[:, 0] = 0.0
    both = np.concatenate([X, X])
    both[:20, 0] = -0.0
    train, validation = split(both, fraction=0.3)
    assert set(validation[0] % 20) & set(training_rows(train)[0] % 20) == set()


def test_weighted_rows_are_held_out_as_repeated_rows():
    """The same rows in another order and number, as sample weights would say it."""
    X = rows(50)
    counts = np.random.default_rng(2).integers(1, 4, size=50)
    order = np.random.default_rng(3).permutation(counts.sum())
    repeated = np.repeat(np.arange(50), counts)[order]
    _, once = split(X, n_members=3)
    _, several = split(X[repeated], n_members=3)
    for held, held_repeated in zip(once, several, strict=True):
        assert set(held) == set(repeated[held_repeated])


@pytest.mark.parametrize("stratify", [False, True])
def test_sparse_rows_are_held_out_as_dense_ones(stratify):
    X = sparse.random_array(
        (80, 20), density=0.1, random_state=np.random.default_rng(0), format="csr"
    )
    X = sparse.vstack([X, X[:30]], format="csr")
    y = np.arange(110) % 80 % 3
    dense = split(X.toarray(), y, n_members=3, stratify=stratify)
    forms = [X, X.tocsc(), X.tocoo()]
    for form in forms if hasattr(forms[2], "__getitem__") else forms[:2]:  # of newer SciPy
        train, validation = split(form, y, n_members=3, stratify=stratify)
        for mine, theirs in zip(validation, dense[1], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(train, dense[0])


def test_sparse_copies_stay_together_whatever_their_storage():
    X = sparse.random_array(
        (30, 12), density=0.3, random_state=np.random.default_rng(0), format="csr"
    )
    coo = X.tocoo()
    halves = sparse.coo_array(
        (np.tile(coo.data / 2, 2), (np.tile(coo.row, 2), np.tile(coo.col, 2))), shape=X.shape
    )
    both = sparse.vstack([X, halves.tocsr()], format="csr")
    train, validation = split(both, fraction=0.3)
    assert not set(validation[0] % 30) & set(training_rows(train)[0] % 30)


def test_entries_of_a_sparse_row_that_cancel_are_zeros():
    X = sparse.csr_array(np.eye(30)[:, :20])
    # Each row with 1 and -1 more in its last column.
    entries = [[*row.data, 1.0, -1.0] for row in X]
    places = [[*row.indices, 19, 19] for row in X]
    ends = np.cumsum([0, *map(len, entries)])
    cancelling = sparse.csr_array(
        (np.concatenate(entries), np.concatenate(places), ends), shape=X.shape
    )
    np.testing.assert_array_equal(row_keys(cancelling), row_keys(X))


@pytest.mark.parametrize("scale", [2.0**-20, 3.7, 1e8])
@pytest.mark.parametrize("shift", [0.0, 32.0])
def test_units_of_measurement_do_not_change_the_split(scale, shift):
    X = rows(60)
    y = X[:, :1] ** 2
    _, expected = split(X, y, n_members=2)
    _, other = split(X * scale + shift, y * scale + shift, n_members=2)
    for held, same in zip(expected, other, strict=True):
        np.testing.assert_array_equal(held, same)


def test_float32_rows_are_held_out_as_float64_ones():
    X = rows(60)
    np.testing.assert_array_equal(split(X.astype(np.float32))[1], split(X)[1])


@pytest.mark.parametrize("n_members", [1, 5])
def test_classes_are_held_out_in_proportion(n_members):
    y = np.repeat([0, 1, 2], [700, 250, 50])
    _, validation = split(rows(1000), y, fraction=0.1, n_members=n_members, stratify=True)
    for held in validation:
        counts = np.bincount(y[held], minlength=3)
        assert (np.abs(counts - [70, 25, 5]) <= 1).all()


def test_a_class_of_one_row_is_still_learned_by_most_members():
    y = np.repeat([0, 1], [49, 1])
    train, _ = split(rows(50), y, fraction=0.1, n_members=5, stratify=True)
    assert sum(49 in learned for learned in training_rows(train)) >= 3  # two hold out the same


def test_another_seed_holds_out_other_rows():
    assert not np.array_equal(split(rows(100), seed=0)[1], split(rows(100), seed=1)[1])
    np.testing.assert_array_equal(split(rows(100), seed=0)[1], split(rows(100), seed=0)[1])


def test_one_row_holds_out_nothing():
    train, validation = split(rows(1), n_members=3)
    assert validation is None
    np.testing.assert_array_equal(train, np.zeros((3, 1)))


@pytest.mark.parametrize("fraction", [1e-9, 0.999])
def test_at_least_one_row_is_held_out_and_one_learned(fraction):
    train, validation = split(rows(5), fraction=fraction, n_members=4)
    assert all(len(learned) >= 1 for learned in training_rows(train))
    assert all(len(held) >= 1 for held in validation)


def test_held_out_rows_are_drawn_at_random():
    """Every row has the same chance, whatever its place and value."""
    X = np.sort(rows(50, 1), axis=0)
    counts = np.zeros(50)
    for seed in range(400):
        counts[split(X, fraction=0.2, seed=seed)[1][0]] += 1
    assert counts.min() > 45  # 80 expected, 8 the standard deviation
    assert counts.max() < 120


def test_a_copy_of_a_row_does_not_change_which_rows_are_held_out():
    """In wide rows too, some of which nearly equal others."""
    base = np.random.default_rng(7).normal(size=(40, 80))
    X = np.concatenate([base, base * (1 + 1e-10)])
    y = np.tile(base[:, :1], (2, 1))
    _, (expected,) = split(X, y, fraction=0.3)
    for k in range(80):
        rows = np.insert(np.arange(80), k, k)
        _, (held,) = split(X[rows], y[rows], fraction=0.3)
        assert set(rows[held]) == set(expected)
