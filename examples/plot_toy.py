"""
A prediction with its band
==========================

The shortest complete use of :class:`~sktagi.TAGIRegressor`: fit, predict a mean and an interval,
draw both. Nothing is tuned.

**What to see.** The band holds the data where there are data. Beyond them, left of -4 and right of
4, it opens: there the networks themselves are unsure, and kinds of networks disagree. The true
function changes direction where there are no data. It stays inside from -5.6 to 5.8, and leaves the
band further out. Nothing guarantees that a band opens enough: with other draws of the data the
function leaves it beyond -5 or 5.

``python examples/plot_toy.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor


def truth(x):
    return np.sin(x) + x / 2


def make_data(seed=0, n=200):
    """Noise of standard deviation 0.4 around the true function, x between -4 and 4."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-4, 4, n)
    return x[:, None], truth(x) + 0.4 * rng.standard_normal(n)


def coverage_and_widening(model, seed=1000):
    """Share of new rows in the 90 % interval, and std at ±6 relative to that of these rows."""
    X, y = make_data(seed, n=2000)
    low, high = model.predict_interval(X, coverage=0.9).T
    _, std = model.predict(X, return_std=True)
    _, std_outside = model.predict([[-6.0], [6.0]], return_std=True)
    return np.mean((low <= y) & (y <= high)), std_outside.min() / std.mean()


# %%
X, y = make_data()
model = TAGIRegressor(random_state=0).fit(X, y)
grid = np.linspace(-6, 6, 301)[:, None]
mean = model.predict(grid)
low, high = model.predict_interval(grid, coverage=0.9).T
outside = grid[(truth(grid[:, 0]) < low) | (truth(grid[:, 0]) > high), 0]

fig, ax = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
ax.fill_between(grid[:, 0], low, high, color="0.85", lw=0, label="90 % interval")
ax.plot(grid[:, 0], mean, color="tab:blue", lw=2, label="predictive mean")
ax.plot(grid[:, 0], truth(grid[:, 0]), "k--", lw=1, label="true function")
ax.plot(X[:, 0], y, "o", color="black", ms=2.5, label="data")
ax.set(xlabel="x", ylabel="y", xlim=(-5.5, 5.5), ylim=(-3.2, 3.2))
fig.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=130)
else:
    plt.show()

left, right = outside[outside < 0].max(initial=-6), outside[outside > 0].min(initial=6)
print(f"the true function is inside the band between {left:.1f} and {right:.1f}")

# %%
# How good is the band? It holds about nine of ten new rows, as it should, with forgetting (the
# default) and without: the held-out rows of each member set its width.
for half_life in ("auto", None):
    model = TAGIRegressor(half_life=half_life, random_state=0).fit(X, y)
    coverage, widening = coverage_and_widening(model)
    print(
        f"half_life={half_life!r:6}: the 90 % interval holds {coverage:.0%} of new rows; "
        f"at x = ±6 the std is at least {widening:.1f} times theirs"
    )
