"""
Thompson sampling: try what may be best
=======================================

Each visitor, described by two numbers, is shown one of five offers, and only the reward of that
offer is seen. Offer 0 pays the same to everybody; each of the others pays more in its own
corner. Whoever always shows what looks best now may never find out.

``partial_fit`` learns from ten visitors at a time; rewards of offers that were not shown are NaN.
Thompson sampling draws one function for each visitor from the posterior by ``sample_functions``,
and shows the offer that is best *if that function were the truth*: offers that are not known well
are tried where they may be best, and no longer when they are known.

**What to see.** On the left what was lost beside the best offer, over four streams of visitors. Who
shows the best mean stops trying, and goes on losing. Who shows a random offer to one visitor of ten
pays for it for ever. Thompson sampling pays at first, and its curve flattens. On the right is what
it has learned to show, and to whom.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from sktagi import TAGIRegressor

N_OFFERS, N_VISITORS, BATCH, NOISE = 5, 2000, 10, 0.1
CORNERS = 0.5 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])


def rewards(X):
    """Return the mean reward of each offer to visitors X."""
    distance = np.linalg.norm(X[:, None] - CORNERS, axis=2)
    return np.column_stack([np.full(len(X), 0.4), np.exp(-4 * distance**2)])


def make_model(seed):
    # Rewards stay in their units: the scale of an offer that was shown twice is not known. The
    # prior is then as wide as rewards may be, and a number says what the noise is.
    return TAGIRegressor(
        (50,), standardize=False, weight_gain=0.3, sigma_v=NOISE, half_life=None, n_members=3,
        random_state=seed,
    )  # fmt: skip


def thompson(model, X, rng):
    values = model.sample_functions(len(X), rng)(X)  # (visitors, offers, functions)
    return np.einsum("iji->ij", values).argmax(axis=1)  # to each visitor a function of its own


def epsilon_greedy(epsilon):
    def choose(model, X, rng):
        tries = rng.uniform(size=len(X)) < epsilon
        return np.where(tries, rng.randint(N_OFFERS, size=len(X)), model.predict(X).argmax(axis=1))

    return choose


def play(choose, seed):
    """Return what was lost up to each visitor, and the model."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (N_VISITORS, 2))
    mean = rewards(X)
    paid = mean + NOISE * rng.standard_normal(mean.shape)
    model, lost = make_model(seed), []
    for start in range(0, N_VISITORS, BATCH):
        rows = np.arange(start, start + BATCH)
        shown = choose(model, X[rows], rng) if start else rows % N_OFFERS
        seen = np.full((BATCH, N_OFFERS), np.nan)
        seen[range(BATCH), shown] = paid[rows, shown]
        model.partial_fit(X[rows], seen)
        lost.append(mean[rows].max(axis=1) - mean[rows, shown])
    return np.cumsum(lost), model


# %%
# All policies have the same network and the same visitors.
policies = {
    "Thompson sampling": (thompson, "black"),
    "one in ten at random": (epsilon_greedy(0.1), "C0"),
    "best mean": (epsilon_greedy(0), "C1"),
}
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), constrained_layout=True)
last = None
for name, (choose, color) in policies.items():
    played = [play(choose, seed) for seed in range(4)]
    regret = np.array([lost for lost, _ in played])
    left.plot(regret.T, color=color, lw=0.5, alpha=0.5)
    left.plot(regret.mean(axis=0), color=color, lw=2.5, label=name)
    print(f"{name}: lost {regret[:, -1].mean():.0f}, of the last 500 visitors "
          f"{(regret[:, -1] - regret[:, -501]).mean():.1f}")  # fmt: skip
    last = last or played[0][1]
left.set(xlabel="visitors", ylabel="reward lost", ylim=(0, None))
left.legend(frameon=False, loc="upper left")

side = np.linspace(-1, 1, 80)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
shown = last.predict(grid).argmax(axis=1).reshape(80, 80)
best = rewards(grid).argmax(axis=1).reshape(80, 80)
colors = ListedColormap(["0.85", "C0", "C1", "C2", "C3"])
right.pcolormesh(side, side, shown, cmap=colors, vmin=0, vmax=4, rasterized=True)
right.contour(side, side, best == 0, [0.5], colors="black", linewidths=1)
for number, (a, b) in enumerate([(0, 0), *CORNERS * 1.3]):
    right.text(a, b, f"offer {number}", ha="center", va="center", backgroundcolor=(1, 1, 1, 0.6))
right.set(xlabel="first number", ylabel="second number", title="shown in the end; line: truth")
plt.show()
