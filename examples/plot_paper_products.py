"""
A sum of products of Gaussians is nearly Gaussian
=================================================

A hidden unit is a sum of products, weights times activations, and a product of two Gaussians is not
Gaussian. TAGI still takes the sum to be Gaussian, with its exact mean and variance (Eq. 3–6 and 10
of the TAGI paper): the Gaussian multiplicative approximation. This is Figure 1 of the paper, the
density of a unit fed by A activations. Weights and activations are standard normal and there is no
bias.

**What to see.** One product has a peak and long tails. With 5 products the density is close to the
Gaussian, with 10 closer still. Mean and variance are right for every A; the kurtosis exceeds that
of a Gaussian by 6/A.

``python examples/plot_paper_products.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from sktagi.engine.passes import forward
from sktagi.engine.posterior import Layer

N_ACTIVATIONS = (1, 5, 10)


def moments(n_activations):
    """Mean and variance of the unit, by the forward pass of the engine."""
    var_w = np.ones((n_activations + 1, 1))
    var_w[-1] = 0  # the bias
    layer = Layer(np.zeros_like(var_w), var_w, var_w)
    mu_a = np.zeros((n_activations + 1, 1))
    mu_a[-1] = 1  # the unit of the bias
    mu_z, var_z, _ = forward([layer], None, mu_a, np.ones((n_activations, 1)))
    return float(mu_z[0, 0]), float(var_z[0, 0])


def sample(n_activations, seed=0, n_draws=500_000):
    """Draws of the unit, ascending."""
    rng = np.random.RandomState(seed)
    z = np.zeros(n_draws)
    for _ in range(n_activations):
        z += rng.standard_normal(n_draws) * rng.standard_normal(n_draws)
    return np.sort(z)


def differences(z, mean, var):
    """Variance of the draws over ``var``, their excess kurtosis, and how far the CDFs are apart."""
    centred = z - z.mean()
    kurtosis = np.mean(centred**4) / z.var() ** 2 - 3
    share_below = (np.arange(len(z)) + 0.5) / len(z)
    return z.var() / var, kurtosis, np.abs(share_below - norm.cdf(z, mean, np.sqrt(var))).max()


# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), constrained_layout=True)
for ax, n_activations in zip(axes, N_ACTIVATIONS, strict=True):
    mean, var = moments(n_activations)
    z = sample(n_activations)
    ratio, kurtosis, apart = differences(z, mean, var)
    print(
        f"A = {n_activations:2d}: variance {var:4.1f}, that of the draws {ratio:.3f} times it; "
        f"excess kurtosis {kurtosis:.2f}; distance of the CDFs {apart:.3f}"
    )
    edge = 4 * np.sqrt(var)
    grid = np.linspace(-edge, edge, 401)
    density, edges = np.histogram(z, np.linspace(-edge, edge, 82))
    density = density / (len(z) * np.diff(edges))
    ax.stairs(density, edges, fill=True, color="0.8", label="sampled")
    ax.plot(grid, norm.pdf(grid, mean, np.sqrt(var)), "k", label="Gaussian approximation")
    ax.set(title=f"A = {n_activations}", xlabel="hidden unit z", xlim=(-edge, edge))
    ax.set_ylim(0, 1.08 * density.max())
axes[0].set_ylabel("density")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
