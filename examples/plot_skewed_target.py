"""
Prices: targets that are positive and skewed
============================================

Prices, durations and concentrations cannot be negative, and their errors grow with their size: 20 %
of a cheap flat is less than 20 % of a palace. ``target_transform="log"`` lets the network learn the
logarithm; everything that it predicts is still in the units of ``y``.

**What to see.** Both models learn that large prices have large errors, and that errors are skewed,
and hold about nine of ten new prices in their 90 % intervals. But the model of the price itself has
one skew for all rows, and nothing tells it where prices end: on the left its intervals reach below
zero. Those of the logarithm's model never do, and new prices have a higher log-likelihood.
"""

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor
from sktagi.metrics import interval_coverage

SPREAD = 0.8  # of the logarithm


def truth(size):
    return np.exp(0.2 * size)


def make_data(seed=0, n=500):
    """Log-normal prices that grow with the size of a flat, in 10 m²."""
    rng = np.random.RandomState(seed)
    size = rng.uniform(1, 10, n)
    return size[:, None], truth(size) * np.exp(SPREAD * rng.standard_normal(n))


def fit_both(seed=0):
    """Fit a model of the price, and one of its logarithm."""
    X, y = make_data(seed)
    return {
        name: TAGIRegressor(target_transform=transform, random_state=seed).fit(X, y)
        for name, transform in (("price", None), ("logarithm", "log"))
    }


def compare(model, seed=1000):
    """Log-likelihood and coverage of new rows, and the lowest end of all 90 % intervals."""
    X, y = make_data(seed, n=4000)
    low, high = model.predict_interval(X, coverage=0.9).T
    covered = interval_coverage(y, lower=low, upper=high)
    return model.log_likelihood(X, y), covered, low.min()


# %%
models = fit_both()
for name, model in models.items():
    log_lik, covered, lowest = compare(model)
    print(
        f"model of the {name:9s}: log-likelihood {log_lik:.2f}, {covered:.0%} inside the 90 % "
        f"interval, whose lowest end is {lowest:.2f}"
    )

# %%
# Dashed lines are the true 90 % interval.
X, y = make_data()
grid = np.linspace(1, 10, 301)[:, None]
centre = truth(grid[:, 0])
fig, axes = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True, constrained_layout=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    low, high = model.predict_interval(grid, coverage=0.9).T
    ax.plot(X[:, 0], y, "o", color="0.6", ms=2, label="prices")
    ax.fill_between(
        grid[:, 0], low, high, color="tab:blue", alpha=0.35, lw=0, label="90 % interval"
    )
    ax.plot(grid[:, 0], model.predict(grid), color="tab:blue", lw=2, label="predictive mean")
    for factor in np.exp(1.645 * SPREAD * np.array([-1, 1])):
        ax.plot(grid[:, 0], factor * centre, "k--", lw=1,
                label="true 90 % interval" if factor > 1 else None)  # fmt: skip
    ax.axhline(0, color="tab:red", lw=1)
    ax.set(title=f"model of the {name}", xlabel="size (10 m²)", xlim=(1, 10), ylim=(-6, 32))
axes[0].set_ylabel("price")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
plt.show()

# %%
# One price as a whole distribution: its mean is above its median, and a price above 8 has a
# probability.
dist = models["logarithm"].predict_dist([[7.0]])
(low,), (high,) = dist.interval(0.9)
print(
    f"size 70 m²: mean {dist.mean()[0]:.1f}, median {dist.median()[0]:.1f}, 90 % between {low:.1f} "
    f"and {high:.1f}, more than 8 with probability {dist.sf(8)[0]:.2f}"
)
