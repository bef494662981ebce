"""
An activation function, linearised at the mean
==============================================

The activation of a Gaussian hidden unit Z is not Gaussian. TAGI replaces the activation function by
its tangent at E[Z] (Eq. 11–12 of the TAGI paper): then the mean is the function's value there, and
the standard deviation is multiplied by its slope. Figure 3 of the paper shows that for the softplus
function log(1 + exp z) and units of mean -1, 0 and 1, all of standard deviation 0.25.

**What to see.** Over three standard deviations the tangent hardly leaves the curve, and the density
that it gives, on the right, hardly differs from the true one. The mean is too small by at most
0.008, about half of the curvature times the variance: the function is convex. The error grows with
the variance: units of standard deviation 1 have means 0.09 to 0.11 too small.

``python examples/plot_paper_linearisation.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from sktagi.engine.activations import ACTIVATIONS, activate

MEANS = np.array([-1.0, 0.0, 1.0])
STD = 0.25


def linearised(mu_z, std_z):
    """Mean, standard deviation and slope after the activation, by the engine."""
    mu_z = np.asarray(mu_z, dtype=float)
    mu_a, var_a, jac = activate(ACTIVATIONS["softplus"], mu_z, np.full_like(mu_z, std_z**2))
    return mu_a, np.sqrt(var_a), jac


def sampled(mu_z, std_z, seed=0, n_draws=400_000):
    """Mean and standard deviation of softplus(Z), from draws of Z."""
    z = mu_z + std_z * np.random.RandomState(seed).standard_normal((n_draws, 1))
    a = np.logaddexp(0, z)
    return a.mean(axis=0), a.std(axis=0)


def true_density(a, mu_z, std_z):
    """Density of softplus(Z), by the change of variables z = log(exp(a) - 1)."""
    return norm.pdf(np.log(np.expm1(a)), mu_z, std_z) / -np.expm1(-a)


# %%
for std_z in (STD, 1.0):
    mu_a, std_a, _ = linearised(MEANS, std_z)
    mean, std = sampled(MEANS, std_z)
    for k, mu_z in enumerate(MEANS):
        print(
            f"Z ~ N({mu_z:+.0f}, {std_z:.2f}²): mean {mu_a[k]:.3f}, {mean[k] - mu_a[k]:.3f} below "
            f"the sampled one; standard deviation {std_a[k]:.3f} (sampled {std[k]:.3f})"
        )

mu_a, std_a, jac = linearised(MEANS, STD)
grid = np.linspace(-2, 2, 401)
fig, axes = plt.subplots(
    2, 2, figsize=(7.5, 5.5), sharex="col", sharey="row", width_ratios=[3, 1],
    height_ratios=[3, 1], constrained_layout=True,
)  # fmt: skip
(curve, output), (entering, unused) = axes
unused.remove()
curve.plot(grid, np.logaddexp(0, grid), color="0.6", lw=4, label="softplus")
for k, mu_z in enumerate(MEANS):
    near = mu_z + 3 * STD * np.array([-1, 1])
    label = {"label": "tangent at E[Z], ± 3 std"} if k == 0 else {}
    curve.plot(near, mu_a[k] + jac[k] * (near - mu_z), "k", lw=1.5, **label)
    curve.plot(mu_z, mu_a[k], "ko", ms=5)
    z = np.linspace(*near, 201)
    entering.plot(z, norm.pdf(z, mu_z, STD), "k")
    a = np.linspace(max(mu_a[k] - 4 * std_a[k], 1e-3), mu_a[k] + 4 * std_a[k], 301)
    label = {"label": "true"} if k == 0 else {}
    output.plot(true_density(a, mu_z, STD), a, color="0.6", lw=4, **label)
    label = {"label": "linearised"} if k == 0 else {}
    output.plot(norm.pdf(a, mu_a[k], std_a[k]), a, "k", lw=1.5, **label)
curve.set(ylabel="activation a", ylim=(0, 2.2))
curve.legend(loc="upper left", frameon=False)
entering.set(xlabel="hidden unit z", ylabel="density of z", xlim=(-2, 2), ylim=(0, None))
output.set(xlabel="density of a", xlim=(0, None))
output.tick_params(labelbottom=True)
output.legend(loc="upper right", frameon=False)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
