"""
Uncertain inputs
================

Measured inputs have errors, and a prediction should say how much they matter: an error of standard
deviation 0.2 in x becomes one of 0.2 times the slope of g in g(x). Pass the errors to ``predict``
as ``X_std``, or as ``X_cov`` if those of different features are correlated.

Here g(x) = x³ is learned from many exact observations (Figure 8 of the TAGI paper), so that nothing
but the input is uncertain: the standard deviation should be 0.2 times 3x². The hidden units of a
network all see the same error, so they are correlated: ``predict`` carries their full covariance
from layer to layer. For comparison, the standard deviation with independent hidden units is
computed below: too large where the function is flat, and far too small where it is steep.

``python examples/plot_input_uncertainty.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor

SIGMA_X = 0.2
rng = np.random.RandomState(0)
X = rng.uniform(-1, 1, size=(2000, 1))
y = X[:, 0] ** 3
grid = np.linspace(-1, 1, 201)[:, None]
truth = 0.6 * grid[:, 0] ** 2
judged = (np.abs(grid[:, 0]) >= 0.3) & (np.abs(grid[:, 0]) <= 0.9)


def std_of_independent_units(model, x, x_std):
    """Variances through a ReLU network of one feature, without covariances of its hidden units."""
    mean, var = (x - X.mean()) / X.std(), np.full_like(x, x_std / X.std()) ** 2
    for j, (W, b) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        S_W, S_b = model.coef_vars_[j], model.intercept_vars_[j]
        if j > 0:
            var = var * (mean > 0)
            mean = np.maximum(mean, 0)
        var = (mean**2 + var) @ S_W + var @ W**2 + S_b
        mean = mean @ W + b
    return np.sqrt(var[:, 0]) * y.std()


fig, axes = plt.subplots(2, 2, figsize=(9, 6.5), sharex=True, sharey="row", constrained_layout=True)
for (top, bottom), hidden in zip(axes.T, [(50,), (50, 50)], strict=True):
    model = TAGIRegressor(
        hidden,
        sigma_v=0.01,
        half_life=None,
        early_stopping=False,
        max_iter=40,
        n_members=1,
        random_state=0,
    ).fit(X, y)
    mean = model.predict(grid)
    network_var, _ = model.predict_variance(grid, X_std=SIGMA_X)
    std = np.sqrt(network_var)
    independent = std_of_independent_units(model, grid, SIGMA_X)
    for name, values in (("full", std), ("independent", independent)):
        error = np.median(np.abs(values - truth)[judged] / truth[judged])
        print(f"{len(hidden)} hidden layer(s), {name}: median relative error {error:.0%}")

    top.fill_between(grid[:, 0], mean - std, mean + std, color="0.8", lw=0, label="mean ± std")
    top.plot(grid[:, 0], mean, color="black", label="predictive mean")
    top.plot(grid[:, 0], grid[:, 0] ** 3, color="tab:red", ls=":", lw=2, label="x³")
    top.set_title(f"{len(hidden)} hidden layer{'s'[: len(hidden) - 1]} of 50 units")
    bottom.plot(grid[:, 0], truth, color="tab:red", ls=":", lw=2, label="6x²/10")
    bottom.plot(grid[:, 0], std, color="black", label="predicted")
    bottom.plot(grid[:, 0], independent, color="tab:blue", ls="--", label="independent units")
    bottom.set(xlabel="x", xticks=[-1, -0.5, 0, 0.5, 1])
axes[0, 0].set_ylabel("y")
axes[1, 0].set_ylabel("standard deviation")
for ax in axes[:, 0]:
    ax.legend(loc="upper center", frameon=False)
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
