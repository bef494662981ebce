"""
Rejecting uncertain classifications
===================================

A classifier that knows when it is unsure can hand the hard cases to somebody else. Here
:class:`~sktagi.TAGIClassifier` learns 400 of the digits bundled with scikit-learn, and the others
are sorted by the probability of the predicted class.

**What to see.** Keep the surest 90 % and the accuracy rises from about 96 % to about 99 %; most
errors are in the rejected tenth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier

KEPT = np.linspace(0.5, 1, 26)


def sure_and_right(seed=0):
    """Probability of the predicted class, its std, and whether it is right, for each test row."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=400, stratify=y, random_state=seed
    )
    model = TAGIClassifier(random_state=seed).fit(X_train, y_train)
    proba, std = model.predict_proba(X_test, return_std=True)
    rows, chosen = np.arange(len(y_test)), proba.argmax(axis=1)
    return proba[rows, chosen], std[rows, chosen], model.classes_[chosen] == y_test


def accuracy_of_kept(uncertainty, right, kept=KEPT):
    """Accuracy among the least uncertain rows, for each share kept."""
    right = right[np.argsort(uncertainty, kind="stable")]
    return np.array([right[: round(share * len(right))].mean() for share in kept])


# %%
# Two ways to say how unsure a prediction is: one minus its probability, and the standard deviation
# of that probability. Each is averaged over two splits.
results = [sure_and_right(seed) for seed in range(2)]
by_proba = np.mean([accuracy_of_kept(1 - proba, right) for proba, _, right in results], axis=0)
by_std = np.mean([accuracy_of_kept(std, right) for _, std, right in results], axis=0)
for share in (1.0, 0.9, 0.8):
    place = int(np.argmin(np.abs(KEPT - share)))
    print(
        f"kept {share:4.0%}: accuracy {by_proba[place]:.1%} by probability, "
        f"{by_std[place]:.1%} by standard deviation"
    )

# %%
# The probability sorts better. It is already averaged over the uncertainty of the network. The
# standard deviation is that of the probability that a noisy output would give: it includes the
# noise as well as the uncertainty of the network, so more data do not bring it to zero, and it is
# largest for probabilities near one half.
fig, ax = plt.subplots(figsize=(6, 3.6), constrained_layout=True)
ax.plot(100 * KEPT, 100 * by_proba, "ko-", ms=4, label="by the probability")
ax.plot(100 * KEPT, 100 * by_std, "s--", color="0.5", ms=4, label="by its standard deviation")
ax.axhline(100 * by_proba[-1], color="0.6", ls=":", label="nothing rejected")
ax.set(xlabel="share kept, %", ylabel="accuracy on the rows kept, %")
ax.legend(loc="lower left", bbox_to_anchor=(0, 0.08), frameon=False)
plt.show()
