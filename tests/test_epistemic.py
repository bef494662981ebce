"""Is the split of the variance into network and noise right, where both are known?"""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from sktagi import TAGIRegressor

QUICK = dict(max_iter=30, n_members=5)


def noise_and_network(make, n_seeds=4, **params):
    """Noise variances over the true one, and variances of the network over squared errors."""
    noise, network, squares = [], [], []
    for seed in range(n_seeds):
        X, y, new, truth, var = make(seed)
        model = TAGIRegressor(random_state=seed, **{**QUICK, **params}).fit(X, y)
        epistemic, aleatoric = model.predict_variance(new)
        noise.append(aleatoric.mean() / var)
        network.append(epistemic.mean())
        squares.append(np.mean(np.square(model.predict(new) - truth)))
    return np.mean(noise), np.sum(network) / np.sum(squares)


def linear(n, n_features):
    def make(seed):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(n, n_features)), rng.normal(size=(500, n_features))
        return X, X[:, 0] + rng.normal(size=n), new, new[:, 0], 1.0

    return make


def friedman(seed):
    X, y = make_friedman1(1000, noise=1, random_state=seed)
    new, truth = make_friedman1(500, noise=0, random_state=seed + 100)
    return X, y, new, truth, 1.0


@pytest.mark.parametrize("params", [{}, {"hidden_layer_sizes": (50,)}], ids=["kinds", "sizes"])
@pytest.mark.parametrize(("n", "n_features"), [(100, 1), (100, 5), (1000, 5)])
def test_linear_data_are_split_into_noise_and_what_the_mean_errs_by(n, n_features, params):
    noise, network = noise_and_network(linear(n, n_features), 4 if n == 100 else 2, **params)
    assert 0.7 < noise < 1.3
    assert 0.3 < network < 6  # of variances


@pytest.mark.parametrize("params", [{}, {"sigma_v": "constant"}], ids=["auto", "constant"])
def test_friedmans_function_is_split_into_noise_and_what_the_mean_errs_by(params):
    noise, network = noise_and_network(friedman, 2, **params)
    assert 0.7 < noise < 1.3
    assert 0.3 < network < 3


def test_noise_is_not_taken_for_what_a_deep_network_does_not_know():
    for seed in range(3):
        X, y, new, *_ = friedman(seed)
        model = TAGIRegressor((50, 50), random_state=seed).fit(X, y)
        assert 0.6 < model.predict_variance(new)[1].mean() < 2


def test_each_target_has_a_split_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    scale = np.array([1.0, 20.0])
    y = X[:, :2] * scale + np.array([1.0, 0.2]) * scale * rng.normal(size=(300, 2))
    y[:100, 1] = np.nan
    aleatoric = TAGIRegressor(random_state=0, **QUICK).fit(X, y).predict_variance(X)[1]
    ratio = aleatoric.mean(axis=0) / np.square(scale * [1.0, 0.2])
    assert (np.abs(np.log(ratio)) < np.log(1.5)).all()


@pytest.mark.parametrize("n_features", [1, 2])
def test_the_network_is_less_sure_between_two_clusters_than_inside(n_features):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (200, n_features))
        X[:, 0] = rng.uniform(1.5, 3, 200) * rng.choice([-1, 1], 200)
        gap = rng.uniform(-1, 1, (200, n_features))
        gap[:, 0] *= 0.75
        y = np.sin(2 * X[:, 0]) + 0.5 * (X[:, 1:] ** 2).sum(axis=1) + 0.1 * rng.normal(size=200)
        model = TAGIRegressor(random_state=seed).fit(X, y)
        inside, between = (np.sqrt(model.predict_variance(Z)[0].mean()) for Z in (X, gap))
        assert between > 2 * inside
