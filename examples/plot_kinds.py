"""
Which kind of network wins where
================================

You need not choose a network. By default ``fit`` trains a linear network, a smooth one and one that
sees each input in pieces, from a thousand rows on a deep one, too, and weighs them by the rows that
members hold out. ``kinds_`` holds the weights, and ``KindsDisplay`` draws them.

**What to see.** Three data sets of 400 rows and three features. The target is a sum of functions of
each of them: straight lines, waves, or zigzags with a bend at every whole number. The linear kind
has most of the weight on the first, the smooth kind on the second, and the kind that sees pieces on
the third. All three are learned with the same settings, the defaults.
"""

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor
from sktagi.plotting import KindsDisplay

FUNCTIONS = {
    "lines": lambda x: x,
    "waves": lambda x: np.sin(1.5 * x),
    "zigzags": lambda x: 2 * np.abs(x % 2 - 1) - 1,
}
NOISE = 0.2


def make_data(name, seed=0, n=400):
    """A sum of functions of three features, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 3))
    return X, FUNCTIONS[name](X).sum(axis=1) + NOISE * rng.normal(size=n)


# %%
# Members of all kinds hold out the same rows, so that their errors there can be compared.
models = {name: TAGIRegressor(random_state=0).fit(*make_data(name)) for name in FUNCTIONS}
for name, model in models.items():
    weights = ", ".join(f"{kind} {weight:.2f}" for kind, weight in model.kinds_.items())
    print(f"{name:8s} {weights}")

# %%
# Above, what was learned of the first feature, the others being 0; below, the weights.
x = np.linspace(-3, 3, 301)
along_first = np.column_stack([x, np.zeros((301, 2))])
fig, axes = plt.subplots(2, 3, figsize=(10, 5), height_ratios=[3, 2], layout="constrained")
for (name, model), (above, below) in zip(models.items(), axes.T, strict=True):
    low, high = model.predict_interval(along_first, coverage=0.9).T
    above.fill_between(x, low, high, color="C0", alpha=0.25, lw=0, label="90 % interval")
    above.plot(x, model.predict(along_first), color="C0", label="mean")
    truth = FUNCTIONS[name](along_first).sum(axis=1)
    above.plot(x, truth, color="black", ls="--", lw=1, label="true function")
    above.set(title=name, xlabel="first feature", ylabel="target")
    KindsDisplay.from_estimator(model, ax=below, color="C0")
axes[0, 0].legend(loc="upper left")
plt.show()
