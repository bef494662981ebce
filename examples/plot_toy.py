"""
A prediction with its band
==========================

The shortest complete use of :class:`~sktagi.TAGIRegressor`: fit, predict a mean and a standard
deviation, and draw both. There are no data between -1 and 1, nor beyond -4 and 4.

**What to see.** Among the data the band is about as wide as the scatter of the points. In the gap
and outside it is wider: there the network itself is unsure, and :meth:`~sktagi.TAGIRegressor.
predict_variance` tells that part from the noise.

``python examples/plot_toy.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor


def make_data(seed=0, n=120):
    """y = sin(1.5 x) + x / 2 with noise of standard deviation 0.2; a gap in the middle."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(1, 4, n) * rng.choice([-1, 1], n)
    return x[:, None], np.sin(1.5 * x) + x / 2 + 0.2 * rng.standard_normal(n)


def fit(X, y, seed=0):
    return TAGIRegressor((50, 50), random_state=seed).fit(X, y)


# %%
# Two hidden layers of 50 units, everything else as it comes: nothing is tuned.
X, y = make_data()
model = fit(X, y)
grid = np.linspace(-6, 6, 301)[:, None]
mean, std = model.predict(grid, return_std=True)
low, high = model.predict_interval(grid, coverage=0.9).T

# %%
# The network's own part of the variance, in standard deviations: among the data, in the gap, outside.
epistemic = np.sqrt(model.predict_variance(grid)[0])
distance = np.abs(grid[:, 0])
for where, rows in {
    "among the data": (distance > 1) & (distance < 4),
    "in the gap": distance < 0.5,
    "outside": distance > 5,
}.items():
    print(f"{where:15s} std of the network {epistemic[rows].mean():.2f}")

# %%
fig, ax = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
ax.fill_between(grid[:, 0], low, high, color="0.85", lw=0, label="90 % interval")
ax.plot(grid[:, 0], mean, color="tab:blue", label="predictive mean")
ax.plot(grid[:, 0], np.sin(1.5 * grid[:, 0]) + grid[:, 0] / 2, "k:", lw=1, label="true function")
ax.plot(X[:, 0], y, "o", color="black", ms=2.5, label="data")
ax.set(xlabel="x", ylabel="y", xlim=(-6, 6))
ax.legend(loc="upper left", frameon=False, fontsize=9)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=130)
else:
    plt.show()
