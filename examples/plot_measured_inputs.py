"""
Inputs measured with known errors
=================================

Instruments come with a data sheet: this reading is good to 0.02, that one to 1. ``X_std`` passes it
on, row by row and feature by feature, in ``fit`` and in ``predict``. A row whose input is uncertain
then counts less, and a prediction from an uncertain input has a wider interval.

**What to see.** Ignoring the errors flattens the curve: the true input of a row lies to the left or
right of the measured one. Given them as ``X_std``, the network stays close to the true curve, and
its predictions of new rows have a higher log-likelihood.
"""

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor


def make_data(seed=0, n=400):
    """y = sin(x) + noise; x is measured with an error that differs from row to row."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-3, 3, (n, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(n)
    X_std = np.exp(rng.uniform(np.log(0.02), np.log(1), (n, 1)))
    return x + X_std * rng.standard_normal((n, 1)), X_std, y


def fit_both(seed=0):
    """Fit one model that ignores the errors of the inputs, and one that is given them."""
    X, X_std, y = make_data(seed)
    ignores = TAGIRegressor(random_state=seed).fit(X, y)
    is_told = TAGIRegressor(random_state=seed).fit(X, y, X_std=X_std)
    return ignores, is_told


def compare(ignores, is_told, seed=100):
    """Log-likelihood of new rows, and the distance from the true curve, of each model."""
    X, X_std, y = make_data(seed)
    grid = np.linspace(-3, 3, 200)[:, None]
    distance = [
        np.sqrt(np.mean(np.square(model.predict(grid) - np.sin(grid[:, 0]))))
        for model in (ignores, is_told)
    ]
    return (ignores.log_likelihood(X, y), is_told.log_likelihood(X, y, X_std=X_std)), distance


# %%
ignores, is_told = fit_both()
log_lik, distance = compare(ignores, is_told)
for name, score, error in zip(("ignores X_std", "given X_std"), log_lik, distance, strict=True):
    print(f"{name:14s} log-likelihood of new rows {score:6.3f}, RMSE to the curve {error:.3f}")

# %%
# Horizontal bars are one standard deviation of the measured input.
X, X_std, y = make_data()
grid = np.linspace(-3, 3, 200)[:, None]
fig, ax = plt.subplots(figsize=(7, 3.8), constrained_layout=True)
some = slice(0, 100)
ax.errorbar(
    X[some, 0], y[some], xerr=X_std[some, 0], fmt=".", color="0.7", ms=4, lw=0.7, label="100 rows"
)
ax.plot(grid[:, 0], np.sin(grid[:, 0]), "k:", lw=2, label="true curve")
ax.plot(grid[:, 0], ignores.predict(grid), "--", color="tab:red", lw=2, label="ignores X_std")
ax.plot(grid[:, 0], is_told.predict(grid), "-", color="tab:blue", lw=2, label="given X_std")
ax.set(xlabel="measured x", ylabel="y", xlim=(-4, 4))
ax.legend(loc="upper left", frameon=False)
plt.show()

# %%
# A prediction from a poor reading is less sure than one from a good reading.
for reading in (0.0, 0.3, 1.0):
    mean, std = is_told.predict([[0.5]], return_std=True, X_std=reading)
    print(f"x = 0.5 ± {reading}: {mean[0]:.2f} ± {std[0]:.2f}")
