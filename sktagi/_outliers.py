"""Targets that cannot be what was meant to be measured, and are set aside by ``fit``.

A gross outlier lies far from all other targets, with nothing in between, is rare, and features do
not tell where it occurs. What is skewed, heavy-tailed, mostly zero or a rare event that can be
predicted is no outlier: it is learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .engine.keys import join_keys, row_keys

__all__ = ["beyond_a_gap", "gross_outliers"]

FEWEST_ROWS = 20  # fewer tell no outliers
QUANTILES = np.array([0.1, 0.5, 0.9])
WIDTH = 2.56  # of the central 80 % of a Gaussian, in standard deviations
FAR = 10.0  # standard deviations from the median, as the central 80 % of the targets have them
GAP = 4.0  # distance of the nearest outlier over that of the farthest other target
RARE = 0.1  # share of the weight at most
LARGEST = 1e150  # number whose square is one, too
PREDICTABLE = 0.75  # share of both kinds of rows that features must tell; by chance it is a half
FEWEST_FAR = 6  # of which that can be seen
MOST_ROWS = 2000  # of either kind, that are looked at


def gross_outliers(X: Any, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Tell which targets (n, n_targets) are gross outliers."""
    gross = np.zeros(y.shape, dtype=bool)
    if not np.nanmax(np.abs(y), initial=0) < LARGEST:
        return gross  # refused later, with a clear error
    for values, found in zip(y.T, gross.T, strict=True):
        known = np.flatnonzero(~np.isnan(values))
        of_known = values[known], weight[known]
        if len(known) >= FEWEST_ROWS and len(beyond_a_gap(*of_known)[0]):  # nearly never
            found[known] = _among_distinct(X[known], *of_known)
    return gross


def _among_distinct(X: Any, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Tell which targets are gross outliers; copies of a row count as the row with their weight."""
    keys = join_keys(row_keys(X), values)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    is_gross = np.zeros(len(first), dtype=bool)
    if len(first) >= FEWEST_ROWS:
        far = beyond_a_gap(values[first], np.bincount(group, weight))[0]
        is_gross[far] = len(far) > 0 and not _are_predictable(X, first[far], first)
    return is_gross[group]


def beyond_a_gap(
    values: np.ndarray, weight: np.ndarray, far: float = FAR, rare: float = RARE
) -> tuple[np.ndarray, float, float, float]:
    """Return the numbers of values that are far from all others, the median and the spread.

    At last, how many spreads the others lie from the median at most. The spread is that of the
    central 80 % of the values; of those unlike the median if that is most of them.
    """
    nothing = np.empty(0, dtype=int)
    order = np.argsort(values, kind="stable")
    low, median, high = _quantiles(values[order], weight[order])
    if not high > low:
        unlike = order[values[order] != median]
        if len(unlike) < FEWEST_ROWS:
            return nothing, median, 0.0, 0.0
        low, _, high = _quantiles(values[unlike], weight[unlike])
    spread = (high - low) / WIDTH
    if not spread > 0:
        return nothing, median, 0.0, 0.0
    distance = np.abs(values - median) / spread
    if distance.max() <= far:
        return nothing, median, spread, distance.max()
    order = np.argsort(distance, kind="stable")
    distance = distance[order]
    left = 1 - np.cumsum(weight[order]) / weight.sum()  # share beyond each
    ratio = distance[1:] / np.maximum(distance[:-1], 1)
    # A sum is rounded: a share of exactly that is not more.
    ratio[(distance[1:] <= far) | (left[:-1] > rare * (1 + 1e-9))] = 0
    widest = int(ratio.argmax())
    if ratio[widest] < GAP:
        return nothing, median, spread, distance[-1]
    return order[widest + 1 :], median, spread, distance[widest]


def _quantiles(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return quantiles of sorted values."""
    share = np.cumsum(weight)
    return values[np.searchsorted(share, share[-1] * QUANTILES)]


def _are_predictable(X: Any, far: np.ndarray, known: np.ndarray) -> bool:
    """Tell whether features say where these rows are: a small tree finds those it has not seen."""
    if len(far) < FEWEST_FAR:
        return False
    # Hardly ever needed, and long to import.
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    others = np.setdiff1d(known, far)
    others = rng.choice(others, min(MOST_ROWS, len(others)), replace=False)
    far = rng.choice(far, min(MOST_ROWS, len(far)), replace=False)
    is_far = np.arange(len(far) + len(others)) < len(far)
    tree = DecisionTreeClassifier(max_depth=4, class_weight="balanced", random_state=0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    said = cross_val_predict(tree, X[np.concatenate([far, others])], is_far, cv=folds)
    return bool(balanced_accuracy_score(is_far, said) > PREDICTABLE)
