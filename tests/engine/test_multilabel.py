"""Labels that a row may have or not."""

import numpy as np
import pytest
from helpers import DTYPES
from scipy.special import ndtr

from sktagi.engine.multilabel import Labels
from sktagi.engine.tree import ClassTree


def made(n_labels=3, n_rows=6, seed=0):
    rng = np.random.default_rng(seed)
    mu, var = rng.normal(size=(n_labels, n_rows)), rng.uniform(0.1, 1, size=(n_labels, n_rows))
    return mu, var, rng.integers(2, size=(n_rows, n_labels)).astype(float)


def test_one_label_is_a_sign_as_two_classes_are():
    """The first class of a tree is the sign +1: a row that has the label."""
    mu, var, y = made(n_labels=1)
    labels, tree = Labels(1, 0.5), ClassTree(2, 0.5, is_probit=True)
    number = 1 - y[:, 0].astype(int)
    value = labels.targets(y, np.float64).value
    np.testing.assert_array_equal(value, tree.targets(number, np.float64).value)
    for mine, theirs in zip(
        labels.sites(mu, var, value, 0.0), tree.sites(mu, var, value, 0.0), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(
        labels.log_likelihood(mu, var, y), tree.log_likelihood(mu, var, number), rtol=1e-12
    )
    np.testing.assert_allclose(labels.log_proba(mu, var)[0], tree.log_proba(mu, var)[0], rtol=1e-9)
    np.testing.assert_allclose(labels.proba_std(mu, var)[0], tree.proba_std(mu, var)[0], rtol=1e-6)


def test_labels_are_independent():
    mu, var, y = made()
    model = Labels(3)
    of_each = [
        Labels(1).log_likelihood(mu[k : k + 1], var[k : k + 1], y[:, k : k + 1]) for k in range(3)
    ]
    np.testing.assert_allclose(model.log_likelihood(mu, var, y), sum(of_each), rtol=1e-12)


def test_std_agrees_with_sampling():
    mu, var, _ = made()
    z = mu + np.sqrt(var) * np.random.default_rng(1).normal(size=(400_000, *mu.shape))
    sampled = ndtr(z * 3)
    np.testing.assert_allclose(Labels(3).proba_std(mu, var), sampled.std(axis=0), rtol=0.03)


@pytest.mark.parametrize("unknown", [0.01, 1.0])
def test_std_has_all_digits_whether_a_label_is_nearly_certain_or_nearly_excluded(unknown):
    mu = np.linspace(-12, 12, 49)[None]
    var = np.full_like(mu, 1.5)
    model = Labels(1)
    std = model.proba_std(mu, var, unknown=unknown)
    np.testing.assert_allclose(std, std[:, ::-1], rtol=1e-12)
    p = np.exp(model.log_proba(-np.abs(mu), var))
    assert (std <= np.sqrt(p * (1 - p)) * (1 + 1e-9)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_outputs_are_finite(dtype):
    mu = np.array([[0, 1, -1, 50, -50, 1e8, -1e15]], dtype)
    for var in (1e-12, 1.0, 1e12):
        std = Labels(1).proba_std(mu, np.full_like(mu, var))
        assert std.dtype == dtype
        assert np.isfinite(std).all()
        assert (std >= 0).all()
