"""
Tuning the noise with a score that depends on it
================================================

``sigma_v`` is the standard deviation of the observation noise, in units of the standardised target.
By default it is learned. To choose it by cross-validation, score with the log-likelihood: R² looks
at the mean only, and a wrong noise level hardly moves the mean.

**What to see.** The log-likelihood falls off on both sides of its best value. R² is nearly level
over most of the range, and prefers too much noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from sktagi import TAGIRegressor
from sktagi.metrics import log_likelihood_scorer

SIGMA_V = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5]
NOISE = 0.4


def make_data(seed=0, n=300):
    """A sine with noise of a known standard deviation."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + NOISE * rng.standard_normal(n)


def search(X, y, seed=0):
    """Cross-validate every ``sigma_v`` by both scores; keep the most likely one."""
    model = TAGIRegressor(n_members=1, early_stopping=False, max_iter=50, random_state=seed)
    return GridSearchCV(
        model,
        {"sigma_v": SIGMA_V},
        scoring={"log_likelihood": log_likelihood_scorer, "r2": "r2"},
        refit="log_likelihood",
        cv=3,
    ).fit(X, y)


# %%
# Pass several scores as a dictionary; ``refit`` names the one that decides.
X, y = make_data()
found = search(X, y)
log_lik = found.cv_results_["mean_test_log_likelihood"]
r2 = found.cv_results_["mean_test_r2"]
print("best by log-likelihood: sigma_v =", found.best_params_["sigma_v"])
print("best by R²:             sigma_v =", SIGMA_V[int(np.argmax(r2))])
print(f"noise in the data:      sigma_v = {NOISE / y.std():.2f}")

# %%
# The best value lies somewhat below the noise in the data: the network's own uncertainty is added
# to it, and the two together make the predictive standard deviation.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), constrained_layout=True)
for ax, score, name in zip(axes, (log_lik, r2), ("log-likelihood", "R²"), strict=True):
    best = int(np.argmax(score))
    ax.plot(SIGMA_V, score, "o-", color="black", ms=4)
    ax.plot(SIGMA_V[best], score[best], "*", ms=14, color="tab:red", mec="black", label="best")
    ax.axvline(NOISE / y.std(), color="0.5", ls="--", lw=1, label="noise in the data")
    ax.set(xscale="log", xlabel="sigma_v (standardised units)", ylabel=f"cross-validated {name}")
    ax.legend(loc="lower right", framealpha=1, fontsize=9)
axes[0].set_ylim(-3, -0.5)
axes[1].set_ylim(0, 1)
plt.show()
