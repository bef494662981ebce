"""Classes as paths in a binary tree (App. C)."""

import numpy as np
import oracle
import pytest
from helpers import DTYPES, rtol
from scipy.special import ndtr

from sktagi.engine.tree import ClassTree

COUNTS = [1, 2, 3, 5, 10, 37]


def random_outputs(tree, n_rows, seed=0, scale=1.0):
    """Means and variances, (n_outputs, rows)."""
    rng = np.random.default_rng(seed)
    shape = (n_rows, tree.n_outputs)
    return scale * rng.normal(size=shape).T, rng.uniform(0.01, 1.5, size=shape).T


def codes_of(tree):
    """What each class asks of each node: +1, -1, or 0 for a node off its path."""
    codes = np.zeros((tree.n_classes, tree.n_outputs))
    np.put_along_axis(codes, tree.nodes, tree.signs, axis=1)
    return codes


@pytest.mark.parametrize(("n_classes", "n_nodes"), [(1, 1), (2, 1), (4, 3), (8, 7), (10, 11)])
def test_a_tree_has_one_node_for_each_prefix_that_a_class_has(n_classes, n_nodes):
    tree = ClassTree(n_classes)
    assert tree.n_outputs == n_nodes == len(oracle.tree_nodes(n_classes))


@pytest.mark.parametrize("n_classes", [*COUNTS, 1000])
def test_codes_tell_classes_apart_and_use_every_node(n_classes):
    tree = ClassTree(n_classes)
    assert codes_of(tree).shape == (n_classes, tree.n_outputs)
    assert len(np.unique(codes_of(tree), axis=0)) == n_classes
    assert np.all(np.any(codes_of(tree) != 0, axis=0))
    n_levels = max(1, int(np.ceil(np.log2(n_classes))))
    assert np.all((codes_of(tree) != 0).sum(axis=1) == n_levels)
    assert set(np.unique(codes_of(tree))) <= {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("n_classes", COUNTS)
def test_targets_are_the_signs_along_the_path(n_classes):
    tree = ClassTree(n_classes)
    labels = np.arange(n_classes)[::-1]
    targets = tree.targets(labels, np.float64)
    for row, label in enumerate(labels):
        expected, mask = oracle.class_target(n_classes, label)
        np.testing.assert_array_equal(targets.outputs[:, row], np.flatnonzero(mask))
        np.testing.assert_array_equal(targets.observed[:, row], mask)
        np.testing.assert_array_equal(targets.value[:, row], expected)
        np.testing.assert_array_equal(codes_of(tree)[label], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_targets_of_networks_side_by_side_are_those_of_each(dtype):
    tree = ClassTree(5)
    labels = np.random.default_rng(12).integers(5, size=(3, 8))
    together = tree.targets(labels, dtype)
    assert together.value.dtype == together.observed.dtype == dtype
    for m in range(3):
        for whole, alone in zip(together, tree.targets(labels[m], dtype), strict=True):
            np.testing.assert_array_equal(whole[m], alone)


def test_sites_are_the_targets_with_the_noise_as_it_is():
    tree = ClassTree(5)
    mu, var = random_outputs(tree, 8, seed=13)
    targets = tree.targets(np.arange(8) % 5, np.float64)
    target, noise = tree.sites(mu, var, targets.value, np.array(0.2))
    np.testing.assert_array_equal(target, targets.value)
    assert noise == 0.2


@pytest.mark.parametrize("n_classes", COUNTS)
def test_two_classes_part_at_one_node_with_opposite_signs(n_classes):
    codes = codes_of(ClassTree(n_classes))
    for a in range(n_classes):
        for b in range(a):
            assert np.sum(codes[a] * codes[b] < 0) == 1


@pytest.mark.parametrize("n_classes", [*COUNTS, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_probabilities_sum_to_one(n_classes, dtype):
    tree = ClassTree(n_classes)
    mu, var = (part.astype(dtype) for part in random_outputs(tree, 20, scale=2.0))
    log_proba = tree.log_proba(mu, var)
    assert log_proba.dtype == dtype
    assert log_proba.shape == (n_classes, 20)
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=0), 1, rtol=rtol(dtype))


@pytest.mark.parametrize("n_classes", COUNTS)
@pytest.mark.parametrize("alpha", [1 / 3, 1.0])
def test_probabilities_are_normalised_products_along_the_path(n_classes, alpha):
    tree = ClassTree(n_classes, alpha)
    mu, var = random_outputs(tree, 5, seed=1)
    proba = np.exp(tree.log_proba(mu, var))
    for row in range(5):
        expected = oracle.class_probabilities(mu[:, row], var[:, row], n_classes, alpha)
        np.testing.assert_allclose(proba[:, row], expected, rtol=1e-11)


@pytest.mark.parametrize("n_classes", [2, 4, 8])
def test_a_tree_without_unused_leaves_needs_no_normalisation(n_classes):
    tree = ClassTree(n_classes)
    mu, var = random_outputs(tree, 1, seed=2)
    products = oracle.path_probabilities(mu[:, 0], var[:, 0], n_classes, tree.probit_scale)
    np.testing.assert_allclose(np.exp(tree.log_proba(mu, var))[:, 0], products, rtol=1e-11)


@pytest.mark.parametrize("n_classes", [2, 5, 8])
@pytest.mark.parametrize("alpha", [1 / 3, 1.0])
def test_moments_of_class_probabilities_agree_with_sampling(n_classes, alpha):
    tree = ClassTree(n_classes, alpha)
    mu, var = random_outputs(tree, 1, seed=3, scale=0.25)
    n_samples = 200_000
    noise = np.random.default_rng(4).normal(size=(n_samples, tree.n_outputs))
    y = mu[:, 0] + np.sqrt(var[:, 0]) * noise
    samples = np.ones((n_samples, n_classes))
    for c in range(n_classes):
        for node in np.flatnonzero(codes_of(tree)[c]):
            samples[:, c] *= ndtr(codes_of(tree)[c, node] * y[:, node] / alpha)
    total = sum(oracle.path_probabilities(mu[:, 0], var[:, 0], n_classes, alpha))
    mean = np.exp(tree.log_proba(mu, var))[:, 0] * total
    error = samples.std(axis=0) / np.sqrt(n_samples)
    assert np.all(np.abs(mean - samples.mean(axis=0)) < 5 * error)
    variance = (tree.proba_std(mu, var)[:, 0] * total) ** 2
    squares = (samples - samples.mean(axis=0)) ** 2
    error = squares.std(axis=0) / np.sqrt(n_samples)
    assert np.all(np.abs(variance - squares.mean(axis=0)) < 5 * error)
    assert np.all(error < 0.05 * variance)


def test_the_only_class_is_certain():
    tree = ClassTree(1)
    mu, var = random_outputs(tree, 10, seed=11, scale=2.0)
    np.testing.assert_array_equal(tree.log_proba(mu, var), 0)
    np.testing.assert_array_equal(tree.proba_std(mu, var), 0)


@pytest.mark.parametrize("n_classes", COUNTS[1:])
def test_nearly_certain_outputs_spread_probabilities_by_their_derivative(n_classes):
    tree = ClassTree(n_classes)
    mu, _ = random_outputs(tree, 1, seed=5, scale=0.3)
    var, step = np.full_like(mu, 1e-6), 1e-5
    products = [
        oracle.path_probabilities(moved, var[:, 0], n_classes, tree.probit_scale)
        for sign in (1, -1)
        for moved in mu[:, 0] + sign * step * np.eye(tree.n_outputs)
    ]
    up, down = np.reshape(products, (2, tree.n_outputs, n_classes))
    total = sum(oracle.path_probabilities(mu[:, 0], var[:, 0], n_classes, tree.probit_scale))
    slopes = (up - down) / (2 * step)
    expected = np.sqrt((slopes**2 * var).sum(axis=0)) / total
    np.testing.assert_allclose(tree.proba_std(mu, var)[:, 0], expected, rtol=1e-3)


EXTREMES = [0.0, 5.0, 20.0, 50.0, 1e3, 1e8]


@pytest.mark.parametrize("n_classes", COUNTS)
@pytest.mark.parametrize("var", [1e-12, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_outputs_give_probabilities(n_classes, var, dtype):
    tree = ClassTree(n_classes)
    mu = extreme_means(tree, dtype)
    var_y = np.full(mu.shape, var, dtype)
    log_proba = tree.log_proba(mu, var_y)
    assert not np.any(np.isnan(log_proba))
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=0), 1, rtol=rtol(dtype))


@pytest.mark.parametrize("n_classes", COUNTS)
@pytest.mark.parametrize("var", [1e-12, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_outputs_give_finite_standard_deviations(n_classes, var, dtype):
    tree = ClassTree(n_classes)
    mu = extreme_means(tree, dtype)
    std = tree.proba_std(mu, np.full(mu.shape, var, dtype))
    assert std.dtype == dtype
    assert np.all(np.isfinite(std))
    assert np.all(std >= 0)


@pytest.mark.parametrize("n_classes", COUNTS)
def test_no_probability_varies_more_than_a_number_between_zero_and_one_can(n_classes):
    """The variance of a variable between 0 and 1 with mean p is at most p (1 - p)."""
    tree = ClassTree(n_classes)
    for scale in (0.3, 1.0, 3.0):
        mu, var = random_outputs(tree, 50, seed=10, scale=scale)
        proba = np.exp(tree.log_proba(mu, var))
        assert np.all(tree.proba_std(mu, var) ** 2 <= proba * (1 - proba) + 1e-12)


def extreme_means(tree, dtype):
    """All nodes far on one side, or each on a side of its own; (n_outputs, rows)."""
    sides = np.random.default_rng(6).choice([-1.0, 1.0], size=(4, tree.n_outputs))
    sides = np.concatenate([sides, np.ones((1, tree.n_outputs)), -np.ones((1, tree.n_outputs))])
    return np.concatenate([value * sides for value in EXTREMES]).astype(dtype).T


@pytest.mark.parametrize("n_classes", COUNTS)
def test_single_precision_agrees_with_double(n_classes):
    tree = ClassTree(n_classes)
    mu, var = random_outputs(tree, 20, seed=7)
    narrow = mu.astype(np.float32), var.astype(np.float32)
    tol = rtol(np.float32)
    np.testing.assert_allclose(tree.log_proba(*narrow), tree.log_proba(mu, var), rtol=tol, atol=tol)
    np.testing.assert_allclose(tree.proba_std(*narrow), tree.proba_std(mu, var), rtol=tol, atol=tol)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 5, 8, 11, 1000])
def test_log_likelihood_is_the_log_probability_of_the_class(n_classes):
    tree = ClassTree(n_classes)
    rng = np.random.default_rng(8)
    mu, var = rng.normal(size=(2, tree.n_outputs, 7)), np.full((2, tree.n_outputs, 7), 0.3)
    labels = rng.integers(n_classes, size=7)
    log_proba = tree.log_proba(mu, var)
    shared = tree.log_likelihood(mu, var, labels)
    assert shared.shape == (2, 1, 7)
    own = tree.log_likelihood(mu, var, np.stack([labels, labels[::-1]]))
    for row in range(7):
        for m, label in enumerate((labels[row], labels[::-1][row])):
            np.testing.assert_allclose(
                shared[m, 0, row], log_proba[m, labels[row], row], rtol=1e-12
            )
            np.testing.assert_allclose(own[m, 0, row], log_proba[m, label, row], rtol=1e-12)


def test_leading_axes_are_networks():
    tree = ClassTree(5)
    mu, var = random_outputs(tree, 6, seed=9)
    for moment in (tree.log_proba, tree.proba_std):
        alone = moment(mu, var)
        stacked = moment(*(np.stack([a[:, :3], a[:, 3:]]) for a in (mu, var)))
        np.testing.assert_allclose(np.hstack([*stacked]), alone, rtol=1e-13)


def test_a_tree_with_an_order_is_one_of_renamed_classes():
    rng = np.random.default_rng(0)
    order = np.stack([np.arange(6), [2, 3, 4, 0, 5, 1]])  # the second is not its own inverse
    plain, tree = ClassTree(6), ClassTree(6, order=order)
    mu, var = rng.normal(size=(2, plain.n_outputs, 6)), rng.uniform(0.1, 1, (2, plain.n_outputs, 6))
    y = np.arange(6)
    for member, leaves in enumerate(order):
        expected = plain.log_proba(mu[member], var[member])[leaves]
        np.testing.assert_allclose(tree.log_proba(mu, var)[member], expected, rtol=1e-12)
        np.testing.assert_allclose(
            tree.log_likelihood(mu, var, y)[member, 0], expected[y, y], rtol=1e-9
        )
        found = tree.targets(np.stack([y, y]), np.float64)
        for mine, theirs in zip(found, plain.targets(leaves[y], np.float64), strict=True):
            np.testing.assert_array_equal(mine[member], theirs)
