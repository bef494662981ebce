"""
Images that are no digits
=========================

A classifier that has learned digits must answer with a digit, whatever it is shown. It should at
least not be sure. :class:`~sktagi.TAGIClassifier` and scikit-learn's ``MLPClassifier`` learn the
same digits and are then shown other digits, images of pure noise, and digits inverted: white on
black.

**What to see.** On digits both are sure, and right. On noise and on inverted digits the MLP is as
sure as before; ``TAGIClassifier`` is not, and says that it does not know.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIClassifier
from sktagi.plotting import ClassProbabilityDisplay


def make_images(seed=0):
    """Digits to learn with their classes, and three kinds of new images."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, stratify=y, random_state=seed)
    noise = np.random.default_rng(seed).uniform(0, 16, size=X_test.shape)
    kinds = {"digits": X_test, "noise": noise, "inverted digits": 16 - X_test}
    return X_train, y_train, kinds


def fit_both(X, y, seed=0):
    """Both classifiers, fitted to the same rows."""
    mlp = MLPClassifier(max_iter=500, random_state=seed)
    return {
        "TAGIClassifier": TAGIClassifier(random_state=seed).fit(X, y),
        "MLPClassifier": make_pipeline(StandardScaler(), mlp).fit(X, y),
    }


def top_probabilities(models, kinds):
    """The probability of the predicted class, by model and kind of image."""
    return {
        name: {kind: model.predict_proba(X).max(axis=1) for kind, X in kinds.items()}
        for name, model in models.items()
    }


X_train, y_train, kinds = make_images()
models = fit_both(X_train, y_train)
tops = top_probabilities(models, kinds)
for name, by_kind in tops.items():
    print(name, ", ".join(f"{kind}: {top.mean():.2f}" for kind, top in by_kind.items()))

# %%
# The probability of the predicted class, over all images of a kind. A tenth is what nobody could
# know less of.
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharex=True, sharey=True, constrained_layout=True)
for ax, kind in zip(axes, kinds, strict=True):
    for name, style in (("TAGIClassifier", {"color": "black"}), ("MLPClassifier", {"ls": "--"})):
        top = tops[name][kind]
        ax.hist(top, np.linspace(0, 1, 21), weights=np.full(len(top), 100 / len(top)),
                histtype="step", lw=1.8, label=name, **style)  # fmt: skip
    ax.set(title=kind, xlabel="probability of the predicted class")
axes[0].set_ylabel("share of the images, %")
axes[1].legend(loc="upper center", frameon=False)
plt.show()

# %%
# One image of each kind, and what ``TAGIClassifier`` says of it. The error bars are what it does
# not know of each probability: short for the digit, long for what it has never seen.
fig, axes = plt.subplots(2, 3, figsize=(9, 5.2), height_ratios=[1, 2], constrained_layout=True)
for (image_ax, ax), (kind, X) in zip(axes.T, kinds.items(), strict=True):
    image_ax.imshow(X[0].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    image_ax.set_title(kind)
    image_ax.set(xticks=[], yticks=[], ylabel="8 pixels")
    ClassProbabilityDisplay.from_estimator(models["TAGIClassifier"], X, ax=ax)
plt.show()

# %%
# Which images to send back: by what is not known of their class, the first part of the entropy. A
# threshold that nearly all digits pass stops nearly everything else.
unknown = {kind: models["TAGIClassifier"].predict_entropy(X)[0] for kind, X in kinds.items()}
threshold = np.quantile(unknown["digits"], 0.99)
for kind, values in unknown.items():
    print(f"{kind}: {np.mean(values > threshold):.0%} above the threshold, "
          f"median {np.median(values):.3f} nats")  # fmt: skip
