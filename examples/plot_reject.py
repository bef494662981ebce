"""
Rejecting uncertain classifications
===================================

A classifier that knows when it is unsure can hand the hard cases to somebody else.
:class:`~sktagi.TAGIClassifier` says how unsure it is in three ways: by the probability of the
predicted class, by the entropy of all classes, and by the standard deviation of that probability,
which is what the network does not know of it. Here they sort new rows of two problems: digits, of
which 400 were learned, and two classes that overlap, of which 2000 rows were.

**What to see.** Keep the surest 90 % of the digits and the accuracy rises from 96 % to 99 %,
whatever they are sorted by: errors are where the network knows little. Classes that overlap are
well known and still left to chance: 88 % if half is kept. There the probability and the entropy,
which agree for two classes, sort errors as well as the standard deviation or a little better.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier
from sktagi.plotting import EntropyDisplay

KEPT = np.linspace(0.5, 1, 26)


def digits(seed=0):
    """400 digits to learn, and the others."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, train_size=400, stratify=y, random_state=seed)


def overlapping(seed=0):
    """Two classes, whose probabilities change smoothly; 2000 rows to learn."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(6000, 2))
    y = rng.uniform(size=6000) < expit(2 * np.sin(2 * X[:, 0]) + X[:, 1])
    return train_test_split(X, y, train_size=2000, random_state=seed)


def how_unsure(model, X):
    """Three ways to say how unsure a prediction is, each for all rows."""
    proba, std = model.predict_proba(X, return_std=True)
    rows, chosen = np.arange(len(proba)), proba.argmax(axis=1)
    return {
        "probability": 1 - proba[rows, chosen],
        "entropy": sum(model.predict_entropy(X)),
        "standard deviation": std[rows, chosen],
    }


def accuracy_of_kept(uncertainty, right, kept=KEPT):
    """Accuracy among the least uncertain rows, for each share kept."""
    right = right[np.argsort(uncertainty, kind="stable")]
    return np.array([right[: round(share * len(right))].mean() for share in kept])


# %%
# Each curve is averaged over two splits.
curves, fitted = {}, {}
for name, split in {"digits": digits, "classes that overlap": overlapping}.items():
    found = {}
    for seed in range(2):
        X_train, X_test, y_train, y_test = split(seed)
        model = TAGIClassifier(random_state=seed).fit(X_train, y_train)
        right = model.predict(X_test) == y_test
        for by, uncertainty in how_unsure(model, X_test).items():
            found.setdefault(by, []).append(accuracy_of_kept(uncertainty, right))
    curves[name] = {by: np.mean(values, axis=0) for by, values in found.items()}
    fitted[name] = model, X_test, y_test
    for share in (1.0, 0.9, 0.5):
        place = int(np.argmin(np.abs(KEPT - share)))
        each = ", ".join(f"{curve[place]:.1%} by {by}" for by, curve in curves[name].items())
        print(f"{name}, kept {share:.0%}: accuracy {each}")

# %%
# One minus the probability is the expected error, so nothing sorts errors better in the long run.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
for ax, (name, by_way) in zip(axes, curves.items(), strict=True):
    for (by, curve), style in zip(by_way.items(), ("ko-", "C0^-", "C1s--"), strict=True):
        ax.plot(100 * KEPT, 100 * curve, style, ms=4, label=f"by the {by}")
    ax.axhline(100 * by_way["probability"][-1], color="0.6", ls=":", label="nothing rejected")
    ax.set(title=name, xlabel="share kept, %", ylabel="accuracy on the rows kept, %")
axes[0].legend(loc="lower left", bbox_to_anchor=(0, 0.08), frameon=False)
plt.show()

# %%
# The entropy has two parts, and so there are two reasons to reject a row. To the right is chance:
# more rows would not help. Further up is what the network does not know: more rows would. (The
# axes are cut off; digits of which nothing is known would be at the top, at log 10 = 2.3 nats.)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), constrained_layout=True)
for ax, (name, (model, X_test, y_test)) in zip(axes, fitted.items(), strict=True):
    EntropyDisplay.from_estimator(model, X_test[:600], y_test[:600], ax=ax)
    ax.set(title=name, xlim=(0, 1.6), ylim=(0, 1.6))
plt.show()
