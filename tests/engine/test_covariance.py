"""The covariance between the outputs of a batch's rows."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from helpers import (
    DTYPES,
    LINEARISED,
    as_matrices,
    as_own,
    columns,
    member,
    random_layers,
    rtol,
    with_ones,
)
from scipy import sparse

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.covariance import (
    OWN_SHARE,
    Workspace,
    hidden_covariance,
    output_covariance,
    summed_step,
)
from sktagi.engine.passes import forward
from sktagi.engine.tree import ClassTree

HIDDEN = [(), (4,), (5, 3)]
TREE = ClassTree(6)


def passed(layers, x, activation="relu", var_x=None):
    """Variances of the outputs, tape, workspace and what hidden layers pass on, of rows ``x``.

    Here ``x``, ``var_x`` and the outputs that rows observe have rows first.
    """
    var_x = None if var_x is None else columns(var_x)
    _, var_z, tape = forward(layers, ACTIVATIONS[activation], columns(x), var_x)
    work = Workspace(len(layers), layers[0].mu.dtype)
    return var_z, tape, work, hidden_covariance(layers, tape, work)


def correlation(layers, x, activation="relu", var_x=None):
    """Between rows, of an average unit that enters the last layer; None for a linear model."""
    *_, hidden = passed(layers, x, activation, var_x)
    if hidden is None:
        return None
    return hidden.cov * hidden.scale[..., :, None] * hidden.scale[..., None, :]


def step_of(layers, x, nu, activation="relu", var_x=None):
    """K nu; both have rows first."""
    _, tape, work, hidden = passed(layers, x, activation, var_x)
    return columns(summed_step(layers, tape, hidden, columns(nu), work))


def covariance(layers, x, activation="relu", var_x=None, outputs=None):
    """shared, own as a matrix, and the variances that their sum has to have."""
    var_z, tape, work, hidden = passed(layers, x, activation, var_x)
    if outputs is not None:
        outputs = columns(outputs)
        var_z = np.take_along_axis(var_z, outputs, axis=-2)
    copies = None
    if isinstance(x, np.ndarray) and var_x is None:
        same = (x[..., :, None, :] == x[..., None, :, :]).all(axis=-1)
        same &= ~np.eye(same.shape[-1], dtype=bool)
        copies = np.nonzero(same.reshape(-1, *same.shape[-2:]))
    shared, own = output_covariance(layers, tape, hidden, var_z, work, outputs, copies)
    return shared, as_matrices(own), var_z


def generated(hidden, n_rows, seed, dtype=np.float64, uncertain=False, tree=False):
    """Layers, rows, their variances, and the outputs they observe."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 3))
    var_x = rng.uniform(0.01, 0.3, size=x.shape).astype(dtype) if uncertain else None
    labels = rng.integers(TREE.n_classes, size=n_rows)
    n_outputs = TREE.n_outputs if tree else 2
    layers = random_layers([3, *hidden, n_outputs], seed + 1, dtype=dtype)
    return layers, with_ones(x, dtype), var_x, TREE.nodes[labels] if tree else None


def to_oracle(layers):
    return [oracle.from_arrays(layer.mu, layer.var) for layer in layers]


def diagonal(matrices):
    return np.einsum("...ii->...i", matrices)


def least_eigenvalue(matrices):
    """In units of the trace, the size of the matrix; of zero, zero."""
    matrices = matrices.astype(float)
    size = np.abs(diagonal(matrices)).sum(axis=-1)
    symmetric = (matrices + matrices.swapaxes(-1, -2)) / 2
    return (np.linalg.eigvalsh(symmetric)[..., 0] / np.where(size > 0, size, 1)).min()


# ----------------------------------------------------------------- what enters the last layer


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("uncertain", [False, True])
def test_hidden_correlation_follows_the_recursion_entry_by_entry(hidden, activation, uncertain):
    layers, x, var_x, _ = generated(hidden, 6, 8, uncertain=uncertain)
    rho = correlation(layers, x, activation, var_x)
    expected = oracle.hidden_correlation(
        to_oracle(layers), activation, x[:, :-1], np.sqrt(var_x) if uncertain else None
    )
    if hidden:
        np.testing.assert_allclose(rho, expected, rtol=1e-10)
    else:  # a linear model has no hidden units
        assert rho is None is expected


@pytest.mark.parametrize("hidden", HIDDEN[1:])
@pytest.mark.parametrize("activation", [*LINEARISED, "relu_exact"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_correlation_of_exact_inputs_is_a_correlation_matrix(hidden, activation, dtype):
    layers, x, _, _ = generated(hidden, 20, 0, dtype)
    rho = correlation(layers, x, activation)
    eps = 100 * np.finfo(dtype).eps
    assert rho.shape == (20, 20)
    assert rho.dtype == dtype
    np.testing.assert_allclose(np.diag(rho), 1, rtol=eps)
    np.testing.assert_allclose(rho, rho.T, rtol=0, atol=eps)
    assert least_eigenvalue(rho) > -eps
    assert np.abs(rho - np.eye(20)).max() > 0.05  # rows do share parameters


@pytest.mark.parametrize("hidden", HIDDEN[1:])
def test_errors_of_inputs_are_shared_with_no_row(hidden):
    """Not even with a copy: the more of them, the less rows have in common."""
    layers, x, var_x, _ = generated(hidden, 6, 4, uncertain=True)
    x, var_x = np.concatenate([x, x]), np.concatenate([var_x, var_x])
    before = correlation(layers, x, "tanh")
    for growth in (1e-3, 1.0, 10.0):
        rho = correlation(layers, x, "tanh", growth * var_x)
        np.testing.assert_allclose(rho[:6, 6:], rho[:6, :6], rtol=1e-12)
        assert np.all(np.diag(rho) < np.diag(before) * (1 - 1e-5))
        assert least_eigenvalue(rho) > -1e-13
        before = rho


# --------------------------------------------------------------------------- what messages do


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_summed_step_is_that_of_naive_loops(hidden, activation, uncertain, dtype):
    layers, x, var_x, _ = generated(hidden, 7, 20, dtype, uncertain)
    nu = np.random.default_rng(21).normal(size=(7, 2)).astype(dtype)
    step = step_of(layers, x, nu, activation, var_x)
    expected = oracle.summed_step(
        to_oracle(layers), activation, x[:, :-1], nu, np.sqrt(var_x) if uncertain else None
    )
    assert step.dtype == dtype
    np.testing.assert_allclose(step, expected, rtol=rtol(dtype), atol=rtol(dtype))


@pytest.mark.parametrize(("hidden", "n_outputs"), [((), 2), *((h, 1) for h in HIDDEN)])
@pytest.mark.parametrize("uncertain", [False, True])
def test_summed_step_is_that_of_the_covariance_for_one_output_or_a_linear_model(
    hidden, n_outputs, uncertain
):
    layers, x, var_x, _ = generated(hidden, 7, 22, uncertain=uncertain)
    layers[-1] = replace(
        layers[-1], mu=layers[-1].mu[..., :n_outputs], var=layers[-1].var[..., :n_outputs]
    )
    x = np.concatenate([x, x[:3]])  # copies share all of it
    var_x = np.concatenate([var_x, var_x[:3]]) if uncertain else None
    nu = np.random.default_rng(23).normal(size=(10, n_outputs))
    shared, own, _ = covariance(layers, x, "tanh", var_x)
    if hidden:  # there a share of what rows have in common is taken away from it
        shared = shared / (1 - OWN_SHARE)
        own = np.eye(10) * diagonal(own - OWN_SHARE * shared)[..., None]
    expected = np.einsum("oij,jo->io", shared + own, nu)
    step = step_of(layers, x, nu, "tanh", var_x)
    np.testing.assert_allclose(step, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_summed_step_of_rows_whose_hidden_units_are_all_off_is_finite(dtype):
    layers, x, _, _ = generated((5, 3), 7, 24, dtype)
    layers[0].mu[:, -1] = -1e3
    step = step_of(layers, x, np.ones((7, 2), dtype))
    assert np.all(np.isfinite(step))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_summed_step_of_networks_side_by_side_is_that_of_each_alone(hidden, as_sparse):
    rng = np.random.default_rng(25)
    x = with_ones(rng.normal(size=(7, 4)))
    nu = rng.normal(size=(3, 7, 2))
    layers = random_layers([4, *hidden, 2], 26, members=3)
    together = step_of(layers, sparse.csr_array(x) if as_sparse else x, nu)
    for m in range(3):
        alone = step_of(member(layers, m), x, nu[m])
        np.testing.assert_allclose(together[m], alone, rtol=1e-11, atol=1e-14)


# ------------------------------------------------------------------------- what rows observe


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("activation", LINEARISED)
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("tree", [False, True])
def test_covariance_of_each_output_is_that_of_naive_loops(hidden, activation, uncertain, tree):
    layers, x, var_x, outputs = generated(hidden, 7, 10, uncertain=uncertain, tree=tree)
    shared, own, _ = covariance(layers, x, activation, var_x, outputs)
    x_std = np.sqrt(var_x) if uncertain else None
    expected = oracle.output_covariance(to_oracle(layers), activation, x[:, :-1], x_std, outputs)
    assert shared.shape == own.shape == (3 if tree else 2, 7, 7)
    np.testing.assert_allclose(shared, expected[0], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(own, expected[1], rtol=1e-9, atol=1e-14)
    # Outputs have covariances of their own, not one in common.
    assert np.abs(shared[0] - shared[1]).max() > 1e-3


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("tree", [False, True])
def test_copies_share_what_both_observe_as_in_naive_loops(hidden, tree):
    """Copies of a row may have other labels, and so observe other outputs."""
    layers, x, _, outputs = generated(hidden, 9, 16, tree=tree)
    x[4:6], x[7], x[8] = x[0], x[1], x[3]
    if tree:
        same = outputs[0] == outputs[4:6]
        assert same.any()
        assert not same.all()
    shared, own, _ = covariance(layers, x, "tanh", outputs=outputs)
    expected = oracle.output_covariance(to_oracle(layers), "tanh", x[:, :-1], None, outputs)
    np.testing.assert_allclose(shared, expected[0], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(own, expected[1], rtol=1e-9, atol=1e-14)
    beside = own[:, ~np.eye(9, dtype=bool)]
    assert hidden == () or 0 < np.count_nonzero(beside) < beside.size


@pytest.mark.parametrize("hidden", HIDDEN)
def test_rows_that_observe_different_outputs_have_no_covariance(hidden):
    layers, x, _, outputs = generated(hidden, 12, 12, tree=True)
    apart = outputs.T[:, :, None] != outputs.T[:, None, :]
    assert apart.any()
    for part in covariance(layers, x, outputs=outputs)[:2]:
        assert np.all(part[apart] == 0)
    shared = covariance(layers, x, outputs=outputs)[0]
    assert np.all(shared[~apart] != 0)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_some_outputs_are_those_of_all(hidden, as_sparse):
    x = with_ones(np.random.default_rng(27).normal(size=(7, 4)))
    layers = random_layers([4, *hidden, 3], 28, members=2)
    rows = sparse.csr_array(x) if as_sparse else x
    var_z, tape, work, common = passed(layers, rows)
    some = np.array([2, 0])
    copies = np.array([0, 0, 1, 1]), np.array([0, 3, 2, 4]), np.array([3, 0, 4, 2])
    shared, own = output_covariance(layers, tape, common, var_z, work, copies=copies)
    every = shared.copy(), as_matrices(own)  # the next call uses the same memory
    shared, own = output_covariance(layers, tape, common, var_z[:, some], work, some, copies)
    for whole, part in zip(every, (shared, as_matrices(own)), strict=True):
        np.testing.assert_allclose(part, whole[:, some], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_a_row_observes_of_an_output_does_not_depend_on_what_others_observe(hidden):
    layers, x, _, outputs = generated(hidden, 9, 14, tree=True)
    every = covariance(layers, x)
    some = covariance(layers, x, outputs=outputs)
    for whole, part in zip(every[:2], some[:2], strict=True):
        for level, node in np.ndindex(outputs.shape[1], TREE.n_outputs):
            rows = np.flatnonzero(outputs[:, level] == node)
            block = np.ix_(rows, rows)
            np.testing.assert_allclose(
                part[level][block], whole[node][block], rtol=1e-11, atol=1e-15
            )


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("activation", ["relu", "tanh", "relu_exact"])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tree", [False, True])
def test_parts_are_positive_semi_definite_and_have_the_variances_of_the_outputs(
    hidden, activation, uncertain, dtype, tree
):
    layers, x, var_x, outputs = generated(hidden, 20, 0, dtype, uncertain, tree)
    shared, own, var_z = covariance(layers, x, activation, var_x, outputs)
    eps = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(diagonal(shared) + diagonal(own), var_z, rtol=eps)
    for part in (shared, own, shared + own):
        assert part.dtype == dtype
        assert np.all(diagonal(part) >= 0)
        size = np.sqrt(var_z[..., :, None] * var_z[..., None, :])
        assert np.all(np.abs(part - part.swapaxes(-1, -2)) <= eps * size)
    for part in (shared, shared + own):
        assert least_eigenvalue(part) > -eps
    if hidden or uncertain:
        assert least_eigenvalue(own) > -eps
    else:
        assert np.all(own <= eps * var_z[..., None])


@pytest.mark.parametrize("span", [2.0, 0.5, 0.1, 1e-3, 2e-4])
@pytest.mark.parametrize("hidden", [(), (30,), (30, 30)])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_ever_closer_to_each_other_keep_parts_positive_semi_definite(
    span, hidden, uncertain, dtype
):
    """As in a series that changes slowly: each row resembles the next, the first not the last."""
    x = with_ones(np.linspace(0.3, 0.3 + span, 100)[:, None], dtype)
    var_x = np.full((1, 1), 0.1, dtype) if uncertain else None
    layers = random_layers([1, *hidden, 1], 18, dtype=dtype)
    shared, own, var_z = covariance(layers, x, var_x=var_x)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(diagonal(shared) + diagonal(own), var_z, rtol=20 * eps)
    assert least_eigenvalue(shared) > -20 * eps
    assert least_eigenvalue(shared + own) > -20 * eps
    if hidden or uncertain:
        assert least_eigenvalue(own) > -20 * eps


@pytest.mark.parametrize("span", [2.0, 0.5, 0.1])
def test_rows_close_to_each_other_covary_alike_in_single_precision(span):
    x = np.linspace(0.3, 0.3 + span, 100)[:, None]
    double, single = (
        covariance(random_layers([1, 30, 1], 18, dtype=dtype), with_ones(x, dtype))
        for dtype in DTYPES
    )
    size = double[2].max()
    for wide, narrow in zip(double, single, strict=True):
        np.testing.assert_allclose(narrow, wide, rtol=0, atol=rtol(np.float32) * size)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("uncertain", [False, True])
def test_without_hidden_layers_it_is_exact(n_outputs, uncertain):
    rng = np.random.default_rng(6)
    x = with_ones(rng.normal(size=(8, 3)))
    var_x = rng.uniform(0.1, 2, size=(8, 3)) if uncertain else None
    (layer,) = random_layers([3, n_outputs], 7)
    shared, own, _ = covariance([layer], x, "identity", var_x)
    for o in range(n_outputs):
        cov = x @ np.diag(layer.var[:, o]) @ x.T
        np.testing.assert_allclose(shared[o], cov, rtol=1e-12, atol=1e-14)
        errors = np.zeros(8)
        if uncertain:
            errors = var_x @ (layer.mu[:-1, o] ** 2 + layer.var[:-1, o])
        np.testing.assert_allclose(own[o], np.diag(errors), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_copies_of_a_row_share_all_its_variance(hidden):
    layers, x, _, _ = generated(hidden, 6, 2)
    shared, own, var_z = covariance(layers, np.concatenate([x, x]))
    total = shared + own
    np.testing.assert_allclose(diagonal(total[:, :6, 6:]), var_z[:, :6], rtol=1e-10)
    np.testing.assert_allclose(total[:, :6, :6], total[:, 6:, :6], rtol=1e-10)
    share = OWN_SHARE if hidden else 0
    np.testing.assert_allclose(diagonal(own[:, :6, 6:]), share * var_z[:, :6], rtol=1e-9)


@pytest.mark.parametrize("hidden", HIDDEN[1:])
def test_a_row_shares_its_own_part_with_no_other(hidden):
    layers, x, _, _ = generated(hidden, 6, 2)
    _, own, var_z = covariance(layers, x)
    np.testing.assert_allclose(diagonal(own), OWN_SHARE * var_z, rtol=1e-9)
    assert np.all(own[:, ~np.eye(6, dtype=bool)] == 0)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_copies_of_an_uncertain_row_share_less_than_its_variance(hidden):
    layers, x, var_x, _ = generated(hidden, 6, 4, uncertain=True)
    shared, own, var_z = covariance(
        layers, np.concatenate([x, x]), "tanh", np.concatenate([var_x, var_x])
    )
    between = diagonal((shared + own)[:, :6, 6:])
    assert np.all(between < (1 - 1e-3) * var_z[:, :6])
    np.testing.assert_allclose(diagonal(shared[:, :6, 6:]), diagonal(shared)[:, :6], rtol=1e-12)


def test_hidden_layers_come_close_to_the_sampled_correlation():
    """The average over units is an approximation: near the truth for a wide linear-ish network."""
    rng = np.random.default_rng(10)
    x = with_ones(rng.normal(size=(8, 4)))
    width, n_samples, n_outputs = 60, 4000, 2
    sizes = [4, width, n_outputs]
    layers = [
        replace(layer, mu=rng.normal(size=layer.mu.shape) * np.sqrt(0.3 / sizes[j]),
                var=rng.uniform(0.02, 0.2, size=layer.var.shape[-1]) / sizes[j]
                * np.ones((layer.var.shape[-2], 1)))
        for j, layer in enumerate(random_layers(sizes, 11))
    ]  # fmt: skip
    hidden, out = (
        layer.mu + np.sqrt(layer.var) * rng.normal(size=(n_samples, *layer.mu.shape))
        for layer in layers
    )
    z = with_ones(np.tanh(x @ hidden)) @ out
    shared, own, var_z = covariance(layers, x, "tanh")
    off_diagonal = ~np.eye(8, dtype=bool)
    for o in range(n_outputs):
        sampled = np.corrcoef(z[..., o].T)
        std = np.sqrt(var_z[o])
        rho = (shared + own)[o] / np.outer(std, std)
        # Standard errors are below 1 / sqrt(n); the rest is the approximation.
        assert np.abs(rho - sampled).max() < 0.15
        assert np.corrcoef(rho[off_diagonal], sampled[off_diagonal])[0, 1] > 0.97


# ------------------------------------------------------------- a row's own variance, of its copies


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_what_copies_share_gives_the_diagonal_of_a_product_of_whole_matrices(dtype, share):
    rng = np.random.default_rng(0)
    few, root = rng.normal(size=(2, 3, 4, 5, 5)).astype(dtype)
    few *= (rng.uniform(size=few.shape) < share) | np.eye(5, dtype=bool)
    precision = np.einsum("...ij,...ij->...i", root, root)
    expected = np.einsum("...ij,...jk,...ik->...i", few, root, root)
    result = as_own(few).diagonal_of_product(root, precision)
    np.testing.assert_allclose(result, expected, rtol=rtol(dtype), atol=rtol(dtype))
    assert result.dtype == dtype


@pytest.mark.parametrize("copies", [False, True])
def test_rows_that_are_multiplied_have_products_of_their_own_covariances(copies):
    rng = np.random.default_rng(29)
    matrices = rng.normal(size=(3, 2, 5, 5)) * (copies | np.eye(5, dtype=bool))
    root = rng.uniform(0, 2, size=(3, 2, 5))
    expected = matrices * root[..., :, None] * root[..., None, :]
    np.testing.assert_allclose(as_matrices(as_own(matrices).times(root)), expected, rtol=1e-13)


def test_pairs_of_copies_are_added_beside_the_diagonal():
    rng = np.random.default_rng(30)
    matrices, cov = rng.normal(size=(2, 3, 2, 5, 5))
    expected = cov + matrices * ~np.eye(5, dtype=bool)
    as_own(matrices).add_pairs_to(cov)
    np.testing.assert_allclose(cov, expected, rtol=1e-13)


# -------------------------------------------------------------------------- kinds of input


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("uncertain", [None, "dense", "sparse"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tree", [False, True])
def test_sparse_rows_equal_dense_rows(hidden, uncertain, dtype, tree):
    rng = np.random.default_rng(12)
    dense = with_ones(rng.normal(size=(7, 6)) * (rng.random((7, 6)) < 0.5), dtype)
    n_outputs = TREE.n_outputs if tree else 2
    outputs = TREE.nodes[rng.integers(TREE.n_classes, size=(3, 7))] if tree else None
    layers = random_layers([6, *hidden, n_outputs], 13, members=3, dtype=dtype)
    var_x = thin_var = None
    if uncertain is not None:
        var_x = rng.uniform(0.1, 0.3, size=(7, 6)) * (rng.random((7, 6)) < 0.5)
        var_x = thin_var = var_x.astype(dtype)
        if uncertain == "sparse":
            thin_var = sparse.csr_array(var_x)
    thin = sparse.csr_array(dense)
    expected = covariance(layers, dense, "relu", var_x, outputs)
    for a, b in zip(covariance(layers, thin, "relu", thin_var, outputs), expected, strict=True):
        assert a.shape[0] == 3
        np.testing.assert_allclose(a, b, rtol=rtol(dtype), atol=rtol(dtype))
    alone = covariance(member(layers, 0), thin, "relu", thin_var, outputs[0] if tree else None)
    for a, b in zip(alone, expected, strict=True):
        np.testing.assert_allclose(a, b[0], rtol=rtol(dtype), atol=rtol(dtype))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize("tree", [False, True])
def test_networks_side_by_side_equal_each_alone(hidden, uncertain, tree):
    rng = np.random.default_rng(14)
    x = with_ones(rng.normal(size=(3, 7, 4)))
    var_x = rng.uniform(0.1, 0.3, size=(3, 7, 4)) if uncertain else None
    outputs = TREE.nodes[rng.integers(TREE.n_classes, size=(3, 7))] if tree else None
    layers = random_layers([4, *hidden, TREE.n_outputs if tree else 2], 15, members=3)
    together = covariance(layers, x, "relu", var_x, outputs)
    for m in range(3):
        alone = covariance(
            member(layers, m), x[m], "relu",
            var_x[m] if uncertain else None, outputs[m] if tree else None,
        )  # fmt: skip
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[m], b, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_one_variance_for_all_rows_equals_the_same_for_each(hidden):
    layers, x, _, _ = generated(hidden, 7, 16)
    var_x = np.array([[0.1, 0.2, 0.3]])
    one = covariance(layers, x, var_x=var_x)
    each = covariance(layers, x, var_x=np.repeat(var_x, 7, axis=0))
    for a, b in zip(one, each, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14)
