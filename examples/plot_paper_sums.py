"""
Observing a sum correlates its terms, less so the more there are
================================================================

The sum of A independent standard normal variables is observed, without noise. If one of them is
larger, the others must be smaller: given the sum, they are negatively correlated. This is Figure 7
of the TAGI paper, its reason why independent entries suffice for the posterior of a wide layer.

The posterior is that of a linear model whose weights are the variables and whose one row of
features is all ones: ``covariance_type="full"`` computes it exactly (Eq. 13). For comparison the
variables are drawn, and the draws kept whose sum is close to the observed one.

**What to see.** The correlation is -1/(A - 1): complete for two variables, -0.11 for ten, -0.01 for
a hundred.

``python examples/plot_paper_sums.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor

N_VARIABLES = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
SUM = 1.0


def correlations(n_variables, observed=SUM):
    """Posterior correlations of all pairs of variables given their sum."""
    model = TAGIRegressor(
        (),
        covariance_type="full",
        sigma_v=1e-3,
        weight_gain=(n_variables + 1) / 2,  # variance 1
        bias_variance=1e-9,
        standardize=False,
        half_life=None,
        n_members=1,
        random_state=0,
    ).partial_fit(np.ones((1, n_variables)), [observed])
    cov = model.layer_covariances_[0][:-1, :-1]  # without the bias
    std = np.sqrt(np.diag(cov))
    return (cov / np.outer(std, std))[np.triu_indices(n_variables, 1)]


def sampled_correlation(n_variables, observed=SUM, seed=0, n_draws=100_000, tolerance=0.1):
    """Mean correlation of the pairs, over draws whose sum is within ``tolerance``."""
    z = np.random.RandomState(seed).standard_normal((n_draws, n_variables))
    kept = z[np.abs(z.sum(axis=1) - observed) < tolerance]
    rho = np.corrcoef(kept.T)[np.triu_indices(n_variables, 1)]
    return rho.mean(), len(kept)


# %%
rho = [correlations(n) for n in N_VARIABLES]
for n, values in zip(N_VARIABLES, rho, strict=True):
    if n in (2, 5, 10, 100, 200):
        print(
            f"A = {n:3d}: correlation from {values.min():.4f} to {values.max():.4f}, "
            f"-1/(A - 1) = {-1 / (n - 1):.4f}"
        )

checked = (2, 5, 10, 20, 50)
drawn = [sampled_correlation(n) for n in checked]
for n, (value, n_kept) in zip(checked, drawn, strict=True):
    print(f"A = {n:3d}: {value:.4f} in the {n_kept} draws that were kept")

fig, ax = plt.subplots(figsize=(7, 3.8), constrained_layout=True)
ax.plot(N_VARIABLES, [values.mean() for values in rho], "k.-", label="inferred")
ax.plot(checked, [value for value, _ in drawn], "ko", mfc="white", ms=7, label="sampled")
ax.axhline(0, color="0.7", lw=0.8, zorder=0)
ax.set(
    xscale="log",
    xlim=(1.9, 210),
    ylim=(-1.05, 0.1),
    xlabel="number of variables A",
    ylabel="posterior correlation of two variables",
)
ax.set_xticks([2, 5, 10, 20, 50, 100, 200], [2, 5, 10, 20, 50, 100, 200])
ax.minorticks_off()
ax.legend(loc="lower right", frameon=False)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
