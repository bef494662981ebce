"""
Active learning: ask where the network is unsure
================================================

Labels are expensive, inputs are cheap. Start with 20 labelled rows of a pool of 500, and ask for
ten more at a time: at random, or where the network's own (epistemic) standard deviation is largest.
The noise part would not help: no label removes it.

**What to see.** On the left most of the pool crowds in the middle, as logs of normal operation do,
while errors count everywhere. Asking where the network is unsure finds the rare rows and halves the
error. On the right the pool already covers the domain evenly: random rows are then better, since
the largest uncertainty is at the borders. Know your pool before you choose.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktagi import TAGIRegressor

START, ASKED, ROUNDS = 20, 10, 6


def truth(X):
    return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])


def make_pool(rng, share_wide):
    """Draw 500 inputs: a share of them over the whole square, the others near its middle."""
    wide = rng.rand(500, 1) < share_wide
    return np.where(wide, rng.uniform(-2, 2, (500, 2)), 0.4 * rng.standard_normal((500, 2)))


def ask(model, pool, left, rng):
    """Deal the unlabelled rows into ten heaps; take the row with the largest std from each.

    The ten largest of all would be neighbours that say the same thing.
    """
    heaps = np.array_split(rng.permutation(left), ASKED)
    return [heap[model.predict_variance(pool[heap])[0].argmax()] for heap in heaps]


def learning_curve(seed, share_wide, active):
    """Test RMSE after each round."""
    rng = np.random.RandomState(seed)
    pool = make_pool(rng, share_wide)
    y = truth(pool) + 0.1 * rng.standard_normal(len(pool))
    X_test = rng.uniform(-2, 2, (1000, 2))
    labelled = list(rng.permutation(len(pool))[:START])
    errors = []
    for _ in range(ROUNDS + 1):
        with warnings.catch_warnings():
            # With so few rows a fit may still gain in its last epoch; the next round has more.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = TAGIRegressor(n_members=3, random_state=seed).fit(pool[labelled], y[labelled])
        errors.append(np.sqrt(np.mean(np.square(model.predict(X_test) - truth(X_test)))))
        left = np.setdiff1d(np.arange(len(pool)), labelled)
        labelled += ask(model, pool, left, rng) if active else list(rng.permutation(left)[:ASKED])
    return np.array(errors)


# %%
# Three pools of each kind. Thick lines are their means.
labels = START + ASKED * np.arange(ROUNDS + 1)
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, constrained_layout=True)
for ax, share_wide, title in zip(axes, (0.2, 1.0), ("crowded pool", "even pool"), strict=True):
    for active, style, name in ((False, "s--", "at random"), (True, "o-", "where unsure")):
        color = "black" if active else "0.5"
        curves = np.array([learning_curve(seed, share_wide, active) for seed in range(3)])
        ax.plot(labels, curves.T, style[1:], color=color, lw=0.6)
        ax.plot(labels, curves.mean(axis=0), style, color=color, lw=2.5, label=name)
        print(f"{title}, labels asked {name}: RMSE {curves[:, -1].mean():.2f}")
    ax.set(title=title, xlabel="labelled rows")
axes[0].set_ylabel("test RMSE")
axes[0].set_ylim(bottom=0)
axes[0].legend(loc="lower left", frameon=False)
plt.show()
