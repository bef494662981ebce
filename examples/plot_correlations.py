"""
When are the parameters of a layer correlated?
==============================================

By default the posterior of the weights has independent entries. What does that leave out?
``covariance_type="full"`` infers a covariance matrix for each layer. Here are its correlation
coefficients, sorted, after 20 observations of y = x³ plus noise (the TAGI paper's toy problem;
``plot_paper_correlations.py`` draws its Figure 6, with hidden units too).

**What to see.** With 5 units, a quarter to nearly all pairs of a layer have a correlation above 0.1
in size, and some reach 0.8. In the layer between two hidden layers, the one with most parameters,
only 6 % are correlated, but strongly. With 50 units at most 4 % of the pairs are above 0.1, and the
largest is 0.3: many weights share the explanation, and independent entries are a good description.

``python examples/plot_correlations.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor
from sktagi.plotting import CorrelationDisplay

rng = np.random.RandomState(0)
X = rng.uniform(-4, 4, 20)[:, None]
y = X[:, 0] ** 3 + 3 * rng.standard_normal(20)

fig, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, sharey=True, constrained_layout=True)
for row, n_units in zip(axes, (5, 50), strict=True):
    for ax, n_layers in zip(row, (1, 2), strict=True):
        model = TAGIRegressor(
            (n_units,) * n_layers,
            covariance_type="full",
            sigma_v=3 / y.std(),
            batch_size=5,
            half_life=None,
            early_stopping=False,
            max_iter=10,
            n_members=1,
            random_state=0,
        ).fit(X, y)
        display = CorrelationDisplay.from_estimator(model, ax=ax, color="black")
        ax.axhline(0, color="0.7", lw=0.8, zorder=0)
        ax.set_title(f"{n_layers} hidden layer{'s'[: n_layers - 1]} of {n_units} units")
        for name, values in zip(display.names, display.correlations, strict=True):
            share, largest = np.mean(np.abs(values) > 0.1), np.abs(values).max()
            print(
                f"{n_layers} x {n_units:2d} units, {name}: {share:4.0%} of pairs above 0.1 in size,"
                f" the largest {largest:.2f}"
            )
for ax in axes.flat:
    ax.label_outer()
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
