"""What a missing value may be: its distribution, given the other values of its row.

The numbers of a table are taken to be jointly Gaussian. Given what a row has, a missing value then
has a mean, which is linear in the others, and a variance (conditioning); mean and covariance of the
columns are found by expectation and maximisation where values are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtri

__all__ = ["N_DRAWS", "JointGaussian", "fit_gaussian", "normal_nodes", "orders_of_draws", "ranks"]

N_DRAWS = 16  # ways in which a row is completed
N_UNLIKE = 5  # gaps of a row that are completed independently of each other in their powers, too
POWER_WEIGHTS = np.array([5.0, 2.0, 1.0, 1.0, 0.5])  # how much correlations of each power count
N_STARTS = 100  # orders that are tried
# Rows of a table with missing values that mean and covariance are found from: at most so many,
# and so many numbers in their covariances.
MOST_ROWS = 2000
MOST_ELEMENTS = 1 << 22
MOST_COLUMNS = 50  # beyond which a missing value has its column's own distribution
N_STEPS = 60  # at most
SMALL_STEP = 1e-3  # standard deviations: the last one
RIDGE = 1e-3  # share of the unit matrix in the correlations
BLOCK_ELEMENTS = 1 << 20


@dataclass(eq=False)
class JointGaussian:
    """Mean (n,) and covariance (n, n) of columns of numbers, in their units."""

    mean: np.ndarray
    scale: np.ndarray  # (n,): the columns are measured in it; zero for what never varies
    correlation: np.ndarray  # (n, n)

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Complete rows (rows, n), in which NaN is missing, by their conditional means."""
        return self.completions(values, np.empty((0, len(self.mean))))[0]

    def completions(self, values: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows by their conditional means, and return steps (k, rows, n) from these.

        The steps make of standard normal ``nodes`` (k, n) draws of what is missing, given the rest:
        of the first nodes for the first value that a row misses, and so on.
        """
        filled = np.array(values, dtype=np.float64)
        steps = np.zeros((len(nodes), *filled.shape))
        z = (filled - self.mean) / np.where(self.scale > 0, self.scale, 1)
        zeros = np.zeros(len(self.mean))
        for rows in _blocks(len(z), len(zeros)):
            there = ~np.isnan(z[rows])
            expected, cov = _conditional(z[rows], zeros, self.correlation)
            filled[rows] = np.where(there, filled[rows], self.mean + expected * self.scale)
            if len(nodes):
                root = np.linalg.cholesky(cov + there[:, :, None] * np.eye(len(zeros)))
                of_rows = nodes[:, ranks(~there)]
                step = np.einsum("rij,krj->kri", root, of_rows) * self.scale
                steps[:, rows] = np.where(there, 0, step)
        return filled, steps


def fit_gaussian(values: np.ndarray, weight: np.ndarray) -> JointGaussian | None:
    """Return the joint distribution of columns (rows, n); None if there are too many of them."""
    if not 0 < values.shape[1] <= MOST_COLUMNS:
        return None
    missing = np.isnan(values)
    most = min(MOST_ROWS, MOST_ELEMENTS // values.shape[1] ** 2)
    if missing.any() and len(values) > most:
        some = np.random.default_rng(0).choice(len(values), most, replace=False)
        values, weight, missing = values[some], weight[some], missing[some]
    values = values.astype(np.float64)
    seen = weight @ ~missing
    total = np.where(seen > 0, seen, 1)
    mean = weight @ np.where(missing, 0, values) / total
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.where(missing, 0, values - mean)
        scale = np.sqrt(weight @ np.square(z) / total)
    if not (np.isfinite(scale).all() and np.isfinite(mean).all()):
        return None  # refused later, with a clear error
    scale = np.where(scale > 1e-12 * np.abs(mean), scale, 0)
    # What never varies may differ from its mean by a rounding error, which can be large.
    z = np.where(scale > 0, z / np.where(scale > 0, scale, 1), 0)
    z = np.where(missing, np.nan, z)
    shift, cov = _fit_standardised(z, weight / weight.sum(), missing)
    return JointGaussian(mean + shift * scale, scale, cov)


def _fit_standardised(
    z: np.ndarray, share: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find mean and covariance of columns whose observed values are standardised (EM)."""
    n = z.shape[1]
    mean, cov = np.zeros(n), np.eye(n)
    for _ in range(N_STEPS if missing.any() else 1):
        moment, spread = np.zeros(n), np.zeros((n, n))
        for rows in _blocks(len(z), n):
            filled, rest = z[rows], 0.0
            if missing[rows].any():
                filled, cov_rows = _conditional(z[rows], mean, cov)
                rest = np.einsum("r,rij->ij", share[rows], cov_rows)
            moment += share[rows] @ filled
            spread += (filled * share[rows][:, None]).T @ filled + rest
        before = mean, cov
        mean = moment
        cov = (1 - RIDGE) * (spread - np.outer(mean, mean)) + RIDGE * np.eye(n)
        step = max(np.abs(mean - before[0]).max(), np.abs(cov - before[1]).max())
        if step < SMALL_STEP:
            break
    return mean, cov


def _conditional(z: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with conditional means where they are NaN, and conditional covariances."""
    there, observed, apart = _parts(z, cov)
    error = np.where(there, z - mean, 0)
    solved = np.linalg.solve(observed, np.concatenate([apart.swapaxes(1, 2), error[:, :, None]], 2))
    expected = mean + np.einsum("rij,rj->ri", apart, solved[:, :, -1])
    rest = cov - apart @ solved[:, :, :-1]
    neither = ~there[:, :, None] & ~there[:, None, :]
    return np.where(there, z, expected), np.where(neither, (rest + rest.swapaxes(1, 2)) / 2, 0)


def _parts(z: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what each row has, its covariances, and those of all columns with it.

    The block of the observed is part of the whole matrix, with ones on the diagonal where nothing
    is observed: all rows are solved at once.
    """
    there = ~np.isnan(z)
    both = there[:, :, None] & there[:, None, :]
    return there, np.where(both, cov, np.eye(len(cov))), np.where(there[:, None, :], cov, 0)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    size = max(1, BLOCK_ELEMENTS // n_columns**2)
    return (slice(start, start + size) for start in range(0, n_rows, size))


@cache
def normal_nodes(n: int) -> np.ndarray:
    """Return points (N_DRAWS, n) that stand for independent standard normal numbers.

    Each column has the quantiles of a normal distribution, mean 0 and variance 1, and next to no
    correlation with the others of its ``N_DRAWS - 1``. Of the first columns, powers are hardly
    correlated either, so that they stand for independent numbers of a function that bends, too.
    Not to be written to.
    """
    rng = np.random.default_rng(0)
    scores = ndtri((np.arange(N_DRAWS) + 0.5) / N_DRAWS)
    scores /= scores.std()
    some = N_DRAWS - 1
    parts = []
    for _ in range(-(-n // some)):
        draws = rng.normal(size=(N_DRAWS, some))
        uncorrelated = np.linalg.qr(draws - draws.mean(axis=0))[0]
        orders = uncorrelated.argsort(axis=0).argsort(axis=0)
        orders[:, :N_UNLIKE] = _unlike_orders()
        parts.append(_uncorrelated(scores[orders]))
    return np.hstack([np.empty((N_DRAWS, 0)), *parts])[:, :n]


@cache
def _unlike_orders() -> np.ndarray:
    """Return orders (N_DRAWS, N_UNLIKE) of the draws whose powers are hardly correlated."""
    rng = np.random.default_rng(0)
    powers = np.vander(np.linspace(-1, 1, N_DRAWS), len(POWER_WEIGHTS) + 1, increasing=True)
    powers = np.linalg.qr(powers)[0][:, 1:] * POWER_WEIGHTS  # orthogonal polynomials
    orders = np.arange(N_DRAWS)[:, None]
    while orders.shape[1] < N_UNLIKE:
        others = powers[orders].reshape(N_DRAWS, -1)
        found = [_unlike(rng.permutation(N_DRAWS), powers, others) for _ in range(N_STARTS)]
        orders = np.column_stack([orders, min(found, key=lambda pair: pair[0])[1]])
    return orders


def _unlike(order: np.ndarray, powers: np.ndarray, others: np.ndarray) -> tuple[float, np.ndarray]:
    """Swap draws as long as correlations with others get smaller, in place; return their sum."""
    one, other = np.triu_indices(N_DRAWS, 1)
    apart = (others[one] - others[other])[:, None]
    while True:
        mine = powers[order]
        correlations = mine.T @ others
        now = float(np.square(correlations).sum())
        step = (mine[other] - mine[one])[:, :, None]
        after = np.square(correlations + step * apart).sum(axis=(1, 2))
        best = int(after.argmin())
        if after[best] >= (1 - 1e-9) * now:
            return now, order
        swapped = [one[best], other[best]]
        order[swapped] = order[swapped[::-1]]


def _uncorrelated(nodes: np.ndarray) -> np.ndarray:
    """Swap numbers within columns, but the first, as long as correlations get smaller, in place."""
    one, other = np.triu_indices(len(nodes), 1)
    moved = True
    while moved:
        moved = False
        for column in range(N_UNLIKE, nodes.shape[1]):
            rest = np.delete(nodes, column, axis=1)
            now = nodes[:, column] @ rest
            step = nodes[other, column] - nodes[one, column]
            after = np.square(now + step[:, None] * (rest[one] - rest[other])).sum(axis=1)
            best = after.argmin()
            if after[best] < (1 - 1e-9) * (now @ now):
                swapped = [one[best], other[best]]
                nodes[swapped, column] = nodes[swapped[::-1], column]
                moved = True
    return nodes


def orders_of_draws(n: int) -> np.ndarray:
    """Return the numbers of the draws (N_DRAWS, n), in each column in an order of its own."""
    rng = np.random.default_rng(0)
    return np.column_stack(
        [np.empty((N_DRAWS, 0), int), *(rng.permutation(N_DRAWS) for _ in range(n))]
    )


def ranks(missing: np.ndarray) -> np.ndarray:
    """Return the how many-th missing value of its row each one is, (rows, n), from 0 on."""
    return np.maximum(np.cumsum(missing, axis=1) - 1, 0)
