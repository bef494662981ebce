"""
Hidden units of a wide layer are nearly uncorrelated
====================================================

Units of a layer share their inputs, so they are correlated; TAGI still takes them to be
independent. Figure 2 of the TAGI paper asks how wrong that is: A independent activations of unit
variance feed two units, through weights that are drawn from the standard normal distribution and
then fixed. Their covariance is Eq. 10. Here is the correlation of the two, over 1000 draws of the
weights.

**What to see.** On average it is zero for any A. Its standard deviation over the draws is 1/√A: 1
for one activation, where the two units are the same up to sign and scale, 0.3 for ten, 0.07
for 200.

``python examples/plot_paper_hidden_correlation.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi.engine.full import Posterior, forward

N_ACTIVATIONS = (1, 2, 3, 5, 7, 10, 20, 50, 100, 200)


def draw_weights(n_activations, rng):
    """Weights of two units; the bias, in the last row, is zero."""
    weights = rng.standard_normal((n_activations + 1, 2))
    weights[-1] = 0
    return weights


def correlation(weights):
    """Correlation of the two units, by the forward pass of the engine with full covariances."""
    n_activations = len(weights) - 1
    known = Posterior(weights, np.zeros((weights.size, weights.size)))
    mu_a = np.append(np.zeros(n_activations), 1)[None]
    _, cov_z, _ = forward([known], None, mu_a, np.eye(n_activations)[None])
    return cov_z[0, 0, 1] / np.sqrt(cov_z[0, 0, 0] * cov_z[0, 1, 1])


def sampled_correlation(weights, rng, n_draws=20_000):
    """Correlation of the two units, from draws of the activations."""
    a = rng.standard_normal((n_draws, len(weights) - 1))
    return np.corrcoef((a @ weights[:-1]).T)[0, 1]


def correlations(n_activations, seed=0, n_draws=1000):
    rng = np.random.RandomState(seed)
    return np.array([correlation(draw_weights(n_activations, rng)) for _ in range(n_draws)])


# %%
# First, is the engine's correlation that of sampled activations? Then its mean and std.
rng = np.random.RandomState(1)
some = [draw_weights(n, rng) for n in (2, 10, 100)]
apart = [abs(correlation(w) - sampled_correlation(w, rng)) for w in some]
print(f"engine and sampling differ by at most {max(apart):.3f} in three networks")

rho = np.array([correlations(n) for n in N_ACTIVATIONS])
mean, std = rho.mean(axis=1), rho.std(axis=1)
for n, m, s in zip(N_ACTIVATIONS, mean, std, strict=True):
    if n in (1, 5, 10, 100, 200):
        print(f"A = {n:3d}: mean {m:+.3f}, standard deviation {s:.3f}, 1/√A = {n**-0.5:.3f}")

fig, ax = plt.subplots(figsize=(7, 3.8), constrained_layout=True)
ax.fill_between(N_ACTIVATIONS, mean - std, mean + std, color="0.85", lw=0, label="mean ± std")
ax.plot(N_ACTIVATIONS, mean, "ko-", ms=4, label="mean of 1000 draws")
theory = np.power(N_ACTIVATIONS, -0.5)
ax.plot(N_ACTIVATIONS, theory, color="0.3", ls=":", label="±1/√A")
ax.plot(N_ACTIVATIONS, -theory, color="0.3", ls=":")
ax.set(
    xscale="log",
    xlim=(0.95, 210),
    ylim=(-1.1, 1.1),
    xlabel="number of activations A",
    ylabel="correlation of two units",
)
ax.set_xticks([1, 2, 5, 10, 20, 50, 100, 200], [1, 2, 5, 10, 20, 50, 100, 200])
ax.legend(loc="upper right", frameon=False)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
