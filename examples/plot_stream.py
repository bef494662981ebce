"""
A stream that drifts
====================

:meth:`~sktagi.TAGIRegressor.partial_fit` learns rows as they come: the posterior becomes the prior
of the next call. After ``half_life`` rows, evidence counts half. A network that never forgets
becomes ever more sure, and adapts slowly when the data change.

**What to see.** After 6000 rows the sign of one coefficient flips. The network with a half-life of
300 rows is back near its old error within about 200 rows. The one that never forgets needs
thousands. Before the flip both are equally good.
"""

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor

FLIP, ROWS, BATCH = 6000, 9000, 10


def make_stream(seed=0):
    """y = sin(2 x1) ± x2 with noise of standard deviation 0.1; the sign flips once."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (ROWS, 2))
    sign = np.where(np.arange(ROWS) < FLIP, 1, -1)
    return X, np.sin(2 * X[:, 0]) + sign * X[:, 1] + 0.1 * rng.standard_normal(ROWS)


def follow(X, y, half_life, seed=0):
    """Predict each batch, then learn it; return the squared errors and stds of the rows."""
    model = TAGIRegressor(n_members=1, half_life=half_life, random_state=seed)
    model.partial_fit(X[:BATCH], y[:BATCH])
    errors, stds = [], []
    for start in range(BATCH, len(y), BATCH):
        rows = slice(start, start + BATCH)
        mean, std = model.predict(X[rows], return_std=True)
        errors.append(np.square(y[rows] - mean))
        stds.append(std)
        model.partial_fit(X[rows], y[rows])
    return np.concatenate(errors), np.concatenate(stds)


def rmse(errors, first, last):
    """Root mean squared error from one row of the stream to another."""
    return float(np.sqrt(errors[first - BATCH : last - BATCH].mean()))


# %%
# Every row is predicted before it is learned, so the error below is honest at all times.
X, y = make_stream()
results = {half_life: follow(X, y, half_life) for half_life in (None, 300)}
for half_life, (errors, _) in results.items():
    print(
        f"half_life={half_life!s:5s} RMSE before the flip {rmse(errors, 5500, FLIP):.2f}, "
        f"200 to 500 rows after it {rmse(errors, FLIP + 200, FLIP + 500):.2f}, "
        f"at the end {rmse(errors, ROWS - 500, ROWS):.2f}"
    )

# %%
# Forgetting has its price: the shorter the half-life, the fewer rows the network learns from.
# Choose one that is shorter than the time over which your process changes.
fig, ax = plt.subplots(figsize=(7, 3.6), constrained_layout=True)
window = 100
places = np.arange(BATCH + window, ROWS + 1, window)
for (half_life, (errors, _)), style in zip(results.items(), ("k--", "k-"), strict=True):
    curve = [rmse(errors, end - window, end) for end in places]
    label = "never forgets" if half_life is None else f"half-life of {half_life} rows"
    ax.plot(places, curve, style, label=label)
ax.axvline(FLIP, color="0.6", lw=1)
ax.annotate("the sign flips", (FLIP, 1.5), (-6, 0), textcoords="offset points", ha="right")
ax.set(
    xlabel="rows seen",
    ylabel=f"RMSE of {window} rows, predicted ahead",
    yscale="log",
    xlim=(0, ROWS),
)
ax.legend(loc="upper left", bbox_to_anchor=(0.08, 1), frameon=False)
plt.show()
