"""The observation model that doc/development.md builds does what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.learning import Learner, Settings
from sktagi.engine.posterior import Network, draw_prior, full_prior
from sktagi.engine.predicting import predict_moments
from sktagi.engine.rows import Rows

PAGE = Path(__file__).parent.parent / "doc" / "development.md"


@pytest.fixture(scope="module")
def poisson():
    section = PAGE.read_text().split("## Adding an observation model")[1]
    namespace: dict = {"__name__": "recipe"}
    exec(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)[0], namespace)
    return namespace["Poisson"]


def network(model, sizes, n_members=1, full=False):
    layers = draw_prior(sizes, [np.random.RandomState(k) for k in range(n_members)])
    noise_var = np.full((n_members, 1, 1), 1e-6)
    return Network(full_prior(layers) if full else layers, ACTIVATIONS["relu"], model, noise_var)


@pytest.mark.parametrize("count", [0.0, 1.0, 3.0])
def test_one_count_gives_the_moments_of_a_fine_grid(poisson, count):
    net = network(poisson(1), (2, 1), full=True)
    row = Rows(np.array([[0.7, -0.2, 1.0]]), np.array([[count]]), np.ones(1))
    mean, var = (moment[0, 0, 0] for moment in predict_moments(net, row.x))
    Learner(net, Settings(1)).learn(row, np.zeros((1, 1), int))
    learned = [moment[0, 0, 0] for moment in predict_moments(net, row.x)]

    z = np.linspace(mean - 12 * np.sqrt(var), mean + 12 * np.sqrt(var), 100_001)
    p = np.exp(count * z - np.exp(z) - np.square(z - mean) / (2 * var))
    p /= p.sum()
    expected = p @ z, p @ np.square(z) - (p @ z) ** 2
    np.testing.assert_allclose(learned, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("joint", "full"), [(True, False), (False, False), (True, True)])
def test_a_network_learns_the_rate_of_counts(poisson, joint, full):
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (600, 2))
    log_rate = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    y = rng.poisson(np.exp(log_rate))[:, None].astype(float)
    rows = Rows(np.hstack([X, np.ones((600, 1))]), y, np.ones(600))
    net = network(poisson(1), (2, 15, 1), n_members=2, full=full)
    learner = Learner(net, Settings(16, joint))
    for _ in range(4 if full else 20):
        log_lik = learner.learn(rows, np.stack([rng.permutation(600) for _ in range(2)]))
    truth = np.mean(y[:, 0] * log_rate - np.exp(log_rate) - gammaln(y[:, 0] + 1))
    best_constant = np.mean(y * np.log(y.mean()) - y.mean() - gammaln(y + 1))
    assert log_lik.mean() > best_constant + 0.8 * (truth - best_constant)
    assert np.corrcoef(predict_moments(net, rows.x)[0].mean(axis=0)[0], log_rate)[0, 1] > 0.95
