"""
Between two clusters of data
============================

Members agree where there are data. Between two clusters, where there are none, each goes on in its
own way, and their disagreement is part of the standard deviation: the epistemic part of
``predict_variance``. A Gaussian process says the same in its own way. How much is that worth?

**What to see.** In the gap the network is several times less sure than inside the clusters, so a
large standard deviation is a reason to measure there. Yet the true function runs outside of the
band: members have much in common, and do not disagree about it. The Gaussian process, whose kernel
suits this function, is unsure enough. So a small epistemic part far from all data is no proof that
the mean is right there. With more features and few rows the gap is often not seen at all.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sktagi import TAGIRegressor

GRID = np.linspace(-3, 3, 241)[:, None]
IN_GAP, INSIDE = np.abs(GRID[:, 0]) < 1.1, np.abs(GRID[:, 0]) > 1.5


def truth(x):
    return np.sin(2 * x)


def make_data(seed=0, n=200):
    """Two clusters, x from -3 to -1.5 and from 1.5 to 3, and noise of standard deviation 0.1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(1.5, 3, n) * rng.choice([-1, 1], n)
    return x[:, None], truth(x) + 0.1 * rng.standard_normal(n)


def network_std(seed=0):
    """Mean, and the standard deviation of what is not known of it, by both models on a grid."""
    X, y = make_data(seed)
    model = TAGIRegressor(random_state=seed).fit(X, y)
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    process = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=seed).fit(X, y)
    found = {"TAGIRegressor": (model.predict(GRID), np.sqrt(model.predict_variance(GRID)[0]))}
    mean, std = process.predict(GRID, return_std=True)
    noise_var = process.kernel_.k2.noise_level
    found["GaussianProcessRegressor"] = mean, np.sqrt(np.maximum(std**2 - noise_var, 0))
    return found


def in_the_gap(mean, std):
    """Mean std in the gap over that inside, and the largest error of the mean there, in stds."""
    error = np.abs(mean - truth(GRID[:, 0]))
    return std[IN_GAP].mean() / std[INSIDE].mean(), (error / std)[IN_GAP].max()


# %%
# The same rows, two models. The bands leave out the noise: they are what is not known of the mean.
X, y = make_data()
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, constrained_layout=True)
for ax, (name, (mean, std)) in zip(axes, network_std().items(), strict=True):
    wider, off = in_the_gap(mean, std)
    print(f"{name}: in the gap {wider:.0f} times as unsure as inside, and up to {off:.0f} std off")
    ax.fill_between(
        GRID[:, 0], mean - 2 * std, mean + 2 * std, color="tab:blue", alpha=0.35, lw=0,
        label="mean ± 2 std, without noise",
    )  # fmt: skip
    ax.plot(GRID[:, 0], mean, color="tab:blue", lw=2, label="predictive mean")
    ax.plot(GRID[:, 0], truth(GRID[:, 0]), "k--", lw=1, label="true function")
    ax.plot(X[:, 0], y, "o", color="0.5", ms=2, label="data")
    ax.set(title=name, xlabel="x", xlim=(-3, 3), ylim=(-3, 3))
axes[0].set_ylabel("y")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
plt.show()
