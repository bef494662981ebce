"""
Noise that varies
=================

Measurements are often noisier in some places than in others: large values, hot days, old sensors.
With ``sigma_v="auto"``, the default, a second, small network learns how the noise varies, from the
errors at rows that a member has not learned. ``sigma_v="constant"`` has one noise level for all
rows. Here the noise is small on the left and rises to the right.

**What to see.** One level is a compromise. Its band is several times too wide on the left, where it
holds every point, and too narrow on the right, where it holds two of three. The default's band
follows the noise, and holds 84 to 96 % in each part of the range. Both hold about 90 % of all rows:
that alone tells nothing.
"""

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor
from sktagi.plotting import CoverageByGroupDisplay


def truth(x):
    return np.sin(x) + x / 2


def noise_std(x):
    return 0.1 + np.maximum(x, 0) / 3


def make_data(seed=0, n=1000):
    """Noise of standard deviation 0.1 up to x = 0, which then rises to 1.1 at x = 3."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-3, 3, n)
    return x[:, None], truth(x) + noise_std(x) * rng.standard_normal(n)


def fit_both(seed=0):
    """Fit one model with one noise level, and one whose noise may vary: the default."""
    X, y = make_data(seed)
    return {
        name: TAGIRegressor(sigma_v=name, random_state=seed).fit(X, y)
        for name in ("constant", "auto")
    }


def coverage_by_part(model, seed=1000, n_parts=4):
    """Share of new rows inside the 90 % interval: in each part of the range of x, and in all."""
    X, y = make_data(seed, n=4000)
    low, high = model.predict_interval(X, coverage=0.9).T
    inside = (low <= y) & (y <= high)
    part = np.minimum(((X[:, 0] + 3) / 6 * n_parts).astype(int), n_parts - 1)
    return [inside[part == k].mean() for k in range(n_parts)], inside.mean()


# %%
# The same data, the same network, two noise models. Dashed lines are the true 90 % interval.
X, y = make_data()
models = fit_both()
grid = np.linspace(-3, 3, 301)[:, None]
true_mean, true_half_width = truth(grid[:, 0]), 1.645 * noise_std(grid[:, 0])
titles = {"constant": 'sigma_v="constant"', "auto": 'sigma_v="auto", the default'}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, constrained_layout=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    low, high = model.predict_interval(grid, coverage=0.9).T
    ax.plot(X[:, 0], y, "o", color="0.6", ms=2, label="data")
    ax.fill_between(
        grid[:, 0], low, high, color="tab:blue", alpha=0.35, lw=0, label="90 % interval"
    )
    ax.plot(grid[:, 0], model.predict(grid), color="tab:blue", lw=2, label="predictive mean")
    for sign in (-1, 1):
        ax.plot(grid[:, 0], true_mean + sign * true_half_width, "k--", lw=1,
                label="true 90 % interval" if sign == 1 else None)  # fmt: skip
    ax.set(title=titles[name], xlabel="x", xlim=(-3, 3))
axes[0].set_ylabel("y")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
plt.show()

# %%
# On new rows: overall both models look calibrated. Parts of the range tell them apart, as does the
# log-likelihood.
X_new, y_new = make_data(seed=1000, n=4000)
for name, model in models.items():
    parts, overall = coverage_by_part(model)
    print(
        f"{name:8s} inside the 90 % interval, from left to right: "
        + ", ".join(f"{share:.0%}" for share in parts)
        + f"; all {overall:.0%}; log-likelihood {model.log_likelihood(X_new, y_new):.2f}"
    )

# %%
# ``predict_noise_std`` gives the standard deviation of the noise for each row.
# ``CoverageByGroupDisplay`` shows the coverage in groups of rows, here by x: it shows whether
# one noise level is enough for your own data.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.9), constrained_layout=True)
axes[0].plot(grid[:, 0], noise_std(grid[:, 0]), "k--", lw=1.5, label="truth")
for (name, model), color, style in zip(models.items(), ("C0", "C1"), ("-.", "-"), strict=True):
    noise = model.predict_noise_std(grid)
    axes[0].plot(grid[:, 0], noise, style, color=color, lw=2, label=titles[name])
    CoverageByGroupDisplay.from_estimator(
        model, X_new, y_new, by=X_new[:, 0], n_groups=4, name=titles[name], ax=axes[1]
    )
axes[0].set(xlabel="x", ylabel="standard deviation of the noise", xlim=(-3, 3), ylim=(0, None))
axes[0].legend(frameon=False, fontsize=9)
axes[1].set_xlabel("x")
plt.show()
