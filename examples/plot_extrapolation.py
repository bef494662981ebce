"""
Beyond the data, several members are less sure than one
=======================================================

One network finds one explanation of the data, and is too sure of it away from them, as the TAGI
paper says of its toy problem: y = x³ plus noise of standard deviation 3, 20 points to learn from
and 20 to decide when to stop. Several networks from different prior draws, each with other rows
held out, agree where there are data and differ where there are none: the standard deviation of
their mixture shows it. The settings below were picked because they show the effect.

**What to see.** At x = ±6 the standard deviation of one network is less than twice that inside
the data, that of ten networks at least four times. Yet the true function leaves the band of three
standard deviations: at x = -6 and at x = 6 it is 16 standard deviations away from the mean of one
network, and 5 and 7 from that of ten. The networks are piecewise linear and continue in
straight lines; x³ does not. A larger standard deviation is a warning, not a bound.

``python examples/plot_extrapolation.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor

rng = np.random.RandomState(0)
X = np.sort(rng.uniform(-4, 4, 40))[:, None]
y = X[:, 0] ** 3 + 3 * rng.standard_normal(40)
grid = np.linspace(-6, 6, 241)[:, None]
inside = np.abs(grid[:, 0]) <= 4

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, constrained_layout=True)
for ax, n_members in zip(axes, (1, 10), strict=True):
    model = TAGIRegressor(
        (20, 20),
        n_members=n_members,
        batch_size=5,
        half_life=None,
        max_iter=100,
        validation_fraction=0.5,
        random_state=0,
    ).fit(X, y)
    mean, std = model.predict(grid, return_std=True)
    left, right = std[[0, -1]] / std[inside].mean()
    print(
        f"{n_members:2d} member(s): the std at x = -6 and 6 is {left:.1f} and {right:.1f} times "
        "that inside the data"
    )
    far = np.abs(grid[[0, -1], 0] ** 3 - mean[[0, -1]]) / std[[0, -1]]
    print(f"             the true function there is {far[0]:.1f} and {far[1]:.1f} std off the mean")
    ax.fill_between(
        grid[:, 0], mean - 3 * std, mean + 3 * std, color="0.8", label="mean ± 3 std", lw=0
    )
    ax.plot(grid[:, 0], mean, color="black", label="predictive mean")
    ax.plot(grid[:, 0], grid[:, 0] ** 3, color="black", ls=":", label="true function x³")
    ax.plot(X[:, 0], y, "o", color="tab:red", ms=3, label="data")
    ax.axvline(-4, color="0.6", lw=0.8)
    ax.axvline(4, color="0.6", lw=0.8)
    ax.set(
        title="one member" if n_members == 1 else f"{n_members} members",
        xlabel="x",
        xlim=(-6, 6),
        ylim=(-250, 250),
    )
axes[0].set_ylabel("y")
axes[0].legend(loc="upper left", framealpha=1, edgecolor="none", fontsize=9)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
