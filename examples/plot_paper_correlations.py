"""
Posterior correlations, observation by observation
==================================================

Figure 6 of the TAGI paper: its toy problem, y = x³ plus noise, with full covariances of the
parameters θ and of the hidden units z of each layer. A column of a map holds the posterior
correlations of all pairs, sorted, positive ones on top: on the left after each of the 20
observations of the first epoch, on the right at the end of each epoch. One observation is learned
at a time. With two hidden layers, the parameters between them are shown, θ⁽¹⁾, which are by far the
most numerous. (``plot_correlations.py`` draws all layers of any fitted model, as lines.)

``covariance_type="full"`` keeps Σ_θ. Σ_z of an observation is not kept: it is computed here from
the posterior before that observation, by Eq. 10 and 15.

**What to see.** With 5 units most pairs exceed 0.1 in size after six epochs, and some reach 0.9;
only 4 % do among the many parameters between two hidden layers, and 30 % among the units that they
feed. Other data and prior draws give other maps, with a fifth to a half of the pairs above 0.1 more
often than not. With 50 units at most 3 % do, but 10 % of the pairs of units of a second layer, and
none exceeds 0.35.

``python examples/plot_paper_correlations.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from sktagi import TAGIRegressor
from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.full import Posterior, forward

N_EPOCHS = 6
N_SHOWN = 401  # sorted correlations of a column


def make_data(seed=0):
    """20 points, x and y scaled to [-1, 1], and the standard deviation of the noise there."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-4, 4, 20)
    y = x**3 + 3 * rng.standard_normal(20)
    middle, half = (y.max() + y.min()) / 2, np.ptp(y) / 2
    x = (x - (x.max() + x.min()) / 2) / (np.ptp(x) / 2)
    return x[:, None], (y - middle) / half, 3 / half


def unit_covariances(layers, x, sigma_v, activation=ACTIVATIONS["relu"]):
    """Posterior covariance of the units of each hidden layer given an observation at x.

    Eq. 15 from the output down: with g the derivative of the output by the units,
    Σ_z|y = Σ_z - Σ_z g gᵀ Σ_z / (σ_z² + σ_V²). The observed value does not matter.
    """
    row = np.append(x, 1.0)[None]
    _, var_z, tape = forward(layers, activation, row)
    gradient = np.ones(1)
    covariances = []
    for j in range(len(layers) - 1, 0, -1):
        gradient = tape[j].jac[0] * (layers[j].mu[:-1] @ gradient)
        _, cov_z, _ = forward(layers[:j], activation, row)
        cov_with_y = cov_z[0] @ gradient
        total = var_z[0, 0, 0] + sigma_v**2
        covariances.append(cov_z[0] - np.outer(cov_with_y, cov_with_y) / total)
    return covariances[::-1]


def posterior(model):
    """Layers of the engine, from the attributes of a fitted model."""
    means = map(np.vstack, zip(model.coefs_, model.intercepts_, strict=True))
    return [Posterior(m, cov) for m, cov in zip(means, model.layer_covariances_, strict=True)]


def sorted_correlations(cov):
    """Correlations of all pairs, descending, resampled evenly to ``N_SHOWN`` values."""
    std = np.sqrt(np.diag(cov))
    above = np.triu(np.ones(cov.shape, dtype=bool), 1)
    values = np.sort((cov / np.outer(std, std))[above].astype(np.float32))
    rank = np.arange(N_SHOWN) * len(values) // (N_SHOWN - 1)  # the ends are always shown
    return values[::-1][np.minimum(rank, len(values) - 1)]


def follow(hidden, n_epochs=N_EPOCHS, seed=0):
    """Maps of sorted correlations by name: over the first epoch's observations, and over epochs."""
    X, y, sigma_v = make_data(seed)
    model = TAGIRegressor(
        hidden,
        covariance_type="full",
        sigma_v=sigma_v,
        batch_size=1,
        half_life=None,
        n_members=1,
        standardize=False,
        max_iter=0,
        random_state=seed,
    ).fit(X, y)
    shown = (0, 1) if len(hidden) == 1 else (1,)
    columns = {}
    for epoch in range(n_epochs):
        skipped = 0 if epoch == 0 else len(X) - 1
        if skipped:
            model.partial_fit(X[:skipped], y[:skipped])
        for x, target in zip(X[skipped:], y[skipped:], strict=True):
            cov_z = unit_covariances(posterior(model), x, sigma_v)
            model.partial_fit(x[None], [target])
            found = {f"θ({j})": model.layer_covariances_[j] for j in shown}
            found |= {f"z({j + 1})": cov for j, cov in enumerate(cov_z)}
            for name, cov in found.items():
                columns.setdefault(name, []).append(sorted_correlations(cov))
    maps = {name: np.array(values).T for name, values in columns.items()}
    return {name: (m[:, : len(X)], m[:, len(X) - 1 :]) for name, m in maps.items()}


def strong(column, size=0.1):
    """Share of the pairs whose correlation exceeds ``size`` in size."""
    return np.mean(np.abs(column) > size)


# %%
fig = plt.figure(figsize=(10.5, 8.5), constrained_layout=True)
left, right = fig.subfigures(1, 2, width_ratios=[1, 0.1])
networks = [(5,), (5, 5), (50,), (50, 50)]
for part, hidden in zip(left.subfigures(2, 2).flat, networks, strict=True):
    maps = follow(hidden)
    part.suptitle(f"{len(hidden)} hidden layer{'s'[: len(hidden) - 1]} of {hidden[0]} units")
    axes = part.subplots(3, 2, sharex="col", sharey=True, width_ratios=[20, 12])
    for row, (name, (observations, epochs)) in zip(axes, maps.items(), strict=True):
        for ax, values in zip(row, (observations, epochs), strict=True):
            extent = (0.5, values.shape[1] + 0.5, 0, 100)
            image = ax.imshow(
                values, extent=extent, aspect="auto", cmap="RdBu_r", vmin=-0.6, vmax=0.6,
                interpolation="none",
            )  # fmt: skip
        row[0].set(ylabel=f"{name}\npairs (%)", yticks=[0, 50, 100])
        last = epochs[:, -1]
        print(
            f"{hidden!s:8} {name}: above 0.1 in size are {strong(observations[:, -1]):4.0%} of the "
            f"pairs after the first epoch, {strong(last):4.0%} after {N_EPOCHS}; "
            f"the largest {np.abs(last).max():.2f}"
        )
    axes[-1, 0].set(xlabel="observation of epoch 1", xticks=[1, 5, 10, 15, 20])
    axes[-1, 1].set(xlabel="epoch", xticks=range(1, N_EPOCHS + 1))
bar = right.subplots()
fig.colorbar(image, cax=bar, label="posterior correlation (darkest: 0.6 in size, or more)")
bar.set_xlabel(r"$\rho$")
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
