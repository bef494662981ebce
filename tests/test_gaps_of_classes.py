"""Probabilities of classes where something of a row is not known, beside Monte Carlo."""

import numpy as np
import pytest
from scipy.stats import norm

from sktagi import TAGIClassifier

NAN = np.nan
N = 4000  # draws


def rows_of_classes(n, n_classes, seed=0):
    """Return independent features and classes; two classes have a probit, three a softmax."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 2, 0.5] + [0, 10, -1]
    z = (X - [0, 10, -1]) / [1, 2, 0.5]
    if n_classes == 2:
        return X, (z @ [1.5, 1.0, -1.0] + rng.normal(size=n) > 0).astype(int)
    scores = z @ np.array([[2.0, -2, 0], [1, 0, -2], [-1, 1, 1]])
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def fitted(n_classes, **params):
    X, y = rows_of_classes(800, n_classes)
    defaults = {"hidden_layer_sizes": (10,), "n_members": 3, "max_iter": 20, "random_state": 0}
    return TAGIClassifier(**(defaults | params)).fit(X, y), X


def assert_moments(model, found, draws):
    """Compare with mean and variance over draws of what is not known, and with its entropy."""
    proba, std = model.predict_proba(draws, return_std=True)
    mean, var = proba.mean(axis=0), np.square(std).mean(axis=0) + proba.var(axis=0)
    np.testing.assert_allclose(found[0], mean, atol=0.03)
    np.testing.assert_allclose(found[1], np.sqrt(var), atol=0.025, rtol=0.1)


@pytest.mark.parametrize("params", [{}, {"hidden_layer_sizes": "auto"}, {"sigma_v": 0.5}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gaps_have_the_moments_of_what_may_be_there(n_classes, params):
    model, X = fitted(n_classes, **params)
    row = np.array([0.3, NAN, NAN])
    draws = np.tile(row, (N, 1))
    rng = np.random.default_rng(1)
    draws[:, 1:] = X[:, 1:].mean(axis=0) + X[:, 1:].std(axis=0) * rng.normal(size=(N, 2))
    found = [values[0] for values in model.predict_proba(row[None], return_std=True)]
    assert_moments(model, found, draws)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(row[None]))[0], found[0], rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_errors_of_features_are_part_of_the_std(n_classes):
    model, _ = fitted(n_classes)
    row, errors = np.array([0.3, 11.0, -1.2]), np.array([0.2, 0.4, 0.1])
    draws = row + errors * np.random.default_rng(1).normal(size=(N, 3))
    found = [values[0] for values in model.predict_proba(row[None], True, X_std=errors)]
    assert_moments(model, found, draws)
    assert (found[1] > 1.5 * model.predict_proba(row[None], True)[1]).all()


def test_errors_of_features_stand_beside_gaps():
    model, _ = fitted(2)
    row = np.array([[0.3, NAN, -1.2]])
    std = [model.predict_proba(row, True, X_std=error)[1][0, 0] for error in (None, 0, 0.5)]
    np.testing.assert_allclose(std[0], std[1], rtol=1e-6)
    assert std[2] > 1.05 * std[0]
    assert std[2] < 0.5


def test_an_unknown_level_has_the_moments_of_the_levels():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    level = rng.choice(["a", "b", "c", "d"], size=2000, p=[0.25, 0.25, 0.25, 0.25])
    share = {"a": 0.05, "b": 0.2, "c": 0.6, "d": 0.95}
    y = rng.uniform(size=2000) < [share[name] for name in level]
    model = TAGIClassifier((10,), n_members=2, max_iter=20, random_state=0)
    model.fit(pd.DataFrame({"level": level}), y)
    known = model.predict_proba(pd.DataFrame({"level": list("abcd")}))[:, 1]
    for name in ("new", None):
        proba, std = model.predict_proba(pd.DataFrame({"level": [name]}), return_std=True)
        np.testing.assert_allclose(proba[0, 1], known.mean(), atol=0.02)
        np.testing.assert_allclose(std[0, 1], known.std(), atol=0.03)


@pytest.mark.parametrize(("share", "bound"), [(0.0, 0.05), (0.3, 0.08)])
def test_the_std_is_that_of_the_true_probability_given_what_is_known(share, bound):
    """Features are independent: given two of them, the truth is another probit."""
    rng = np.random.default_rng(0)
    weight = np.array([2.0, -1.0, 1.0])
    X = rng.normal(size=(3000, 3))
    y = X @ weight + rng.normal(size=3000) > 0
    gaps = rng.uniform(size=(3000, 3)) < share
    model = TAGIClassifier((10,), n_members=3, max_iter=30, random_state=0)
    model.fit(np.where(gaps, NAN, X), y)
    new = rng.normal(size=(500, 3))
    known = new @ weight - new[:, 0] * weight[0]
    new[:, 0] = NAN
    draws = norm.cdf(known[:, None] + weight[0] * rng.normal(size=(500, 400)))
    proba, std = model.predict_proba(new, return_std=True)
    assert np.sqrt(np.mean(np.square(proba[:, 1] - draws.mean(axis=1)))) < bound
    assert np.sqrt(np.mean(np.square(std[:, 1] - draws.std(axis=1)))) < bound


def test_what_is_missing_is_epistemic():
    model, X = fitted(3)
    new = X[:200].copy()
    new[:, 0] = NAN
    epistemic, aleatoric = model.predict_entropy(new)
    assert epistemic.mean() > 3 * model.predict_entropy(X[:200])[0].mean()
    proba = model.predict_proba(new)
    np.testing.assert_allclose(epistemic + aleatoric, -(proba * np.log(proba)).sum(axis=1))


def test_labels_and_float32_and_streams_know_what_is_missing():
    X, y = rows_of_classes(600, 2)
    several = np.c_[y, X[:, 1] > 10].astype(int)
    model = TAGIClassifier((10,), n_members=2, max_iter=15, random_state=0)
    streamed = TAGIClassifier((10,), n_members=2, half_life=500, random_state=0)
    for start in range(0, 600, 50):
        streamed.partial_fit(X[start : start + 50], y[start : start + 50], classes=[0, 1])
    gaps = X[:100].copy()
    gaps[:, 1] = NAN
    fits = [model.fit(X.astype(np.float32), y), model.__class__(**model.get_params()), streamed]
    fits[1].fit(X, several)
    for one in fits:
        proba, std = one.predict_proba(gaps, return_std=True)
        assert ((proba >= 0) & (proba <= 1) & (std > 0) & (std <= 0.5)).all()
        assert std.mean() > 2 * one.predict_proba(X[:100], return_std=True)[1].mean()
