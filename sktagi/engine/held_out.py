"""Rows that members hold out, as the members that hold them out predict them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from .fast import slices
from .keys import join_keys, row_keys
from .mixture import Mixture
from .observations import Gaussian
from .posterior import Network
from .predicting import held_out_moments, predict_moments
from .rows import Rows

__all__ = ["HeldOut", "SpreadSums", "predict_held_out", "spread_sums", "with_disagreement"]

# Pairs of members at rows count beside so many that say that learning a row changes nothing.
PRIOR_PAIRS = 10.0
BLOCK_ELEMENTS = 1 << 18  # means of members that are compared at once
# With a larger factor, what members that have learned a row differ by says nothing of new rows.
LARGEST_FACTOR = 10.0


class HeldOut(NamedTuple):
    """Rows that some members have held out; rows are the last axis but for x."""

    x: Any  # (rows, n_in + 1)
    # (n_outputs, rows): of the holders' mean; NaN where not observed, as with classes everywhere
    error: np.ndarray
    var_z: np.ndarray  # (temperatures, n_outputs, rows): mean over the holders
    holder: np.ndarray  # (rows,): the first member that holds a row out
    n_holders: np.ndarray  # (rows,): how many do
    spread: np.ndarray  # (n_outputs, rows): variance of holders' means; NaN if there is one only
    spread_of_others: np.ndarray  # (n_outputs, rows): of those who learned the row, likewise
    weight: np.ndarray  # (rows,)
    keys: np.ndarray  # (rows,): equal for copies of a row, and for rows of a group
    counts: np.ndarray  # (members,): distinct rows of each
    n_splits: int  # different sets of rows that members hold out
    # (n_outputs, rows): errors should have the variance var_z + disagreement + noise
    disagreement: np.ndarray
    log_noise: np.ndarray | None = None  # (n_noise, rows): U of the noise network; None: constant
    mean: np.ndarray | None = None  # (n_outputs, rows): of the holders; of classes only
    y: np.ndarray | None = None  # (rows,) class numbers, or (rows, n_labels)

    @property
    def n_members(self) -> int:
        """Members of the mixture."""
        return len(self.counts)

    def disagreement_with(self, spread: float) -> np.ndarray:
        """Return the disagreement if ``spread`` times the variance of means is reported of it.

        (1/h - 1/M) v of it is not reported, but tells that h members err more than all M do.
        """
        if spread == 1 or self.n_members == 1:
            return self.disagreement
        reported = 1 - 1 / self.n_members
        return self.disagreement * (1 - (1 - spread) * reported / self._share)

    @property
    def _share(self) -> np.ndarray:
        return 1 + 1 / self.n_holders - 2 / self.n_members

    def take(self, rows: Any) -> HeldOut:
        """Return some of the rows."""
        last = (
            "error",
            "var_z",
            "holder",
            "n_holders",
            "spread",
            "spread_of_others",
            "weight",
            "keys",
            "disagreement",
        )
        parts = {name: getattr(self, name)[..., rows] for name in last}
        for name in ("log_noise", "mean"):
            values = getattr(self, name)
            parts[name] = None if values is None else values[:, rows]
        y = None if self.y is None else self.y[rows]
        return self._replace(x=self.x[rows], y=y, **parts)


def predict_held_out(
    net: Network | Mixture,
    data: Rows,
    validation: list[np.ndarray],
    temperatures: np.ndarray,
    groups: np.ndarray | None = None,
    gap_var: np.ndarray | None = None,
) -> HeldOut:
    """Return what members say of the rows that they hold out, at each temperature.

    Rows of one of the ``groups`` (n,) count as copies: together they say little more than one.
    ``gap_var`` (n_outputs, n) is what gaps in the inputs add to the variance of the outputs.
    """
    numbers, place = np.unique(np.concatenate(validation), return_inverse=True)
    places = np.split(place, np.cumsum(list(map(len, validation)))[:-1])
    held = data.take(numbers)._replace(keys=None)
    holds = np.zeros((net.n_members, 1, len(numbers)), dtype=bool)
    for member, rows in enumerate(places):
        holds[member, :, rows] = True
    n_holders = np.count_nonzero(holds, axis=0)[0]
    mean, spread, spread_of_others = _spreads(net, held, holds)
    is_gaussian = isinstance(net.outputs, Gaussian)
    copies = _keys(held)
    keys = copies if groups is None else groups[numbers]
    var_z = _tempered_variances(net, data, validation, places, temperatures) / n_holders
    if gap_var is not None:
        var_z += gap_var[:, numbers]
    found = HeldOut(
        held.x,
        held.y.astype(np.float64).T - mean if is_gaussian else np.full_like(mean, np.nan),
        var_z,
        holds.argmax(axis=0)[0],
        n_holders,
        spread,
        spread_of_others,
        held.weight.astype(np.float64),
        keys,
        np.array([len(np.unique(keys[rows])) for rows in places]),
        len({rows.tobytes() for rows in places}),
        np.zeros_like(mean),
        mean=None if is_gaussian else mean,
        y=None if is_gaussian else held.y,
    )
    if held.errors is not None:  # of copies, too, they may differ
        return found
    # By keys: np.unique(axis=1) compares structured arrays, where NumPy makes Ctrl-C a TypeError.
    holders = np.unique(row_keys(holds[:, 0].T), return_inverse=True)[1]
    for same in (holders,) if groups is None else (holders, keys):
        copies = join_keys(copies, same)
    return _joined_copies(found, copies)


def _joined_copies(held: HeldOut, keys: np.ndarray) -> HeldOut:
    """Return the rows with one in the place of those that have equal ``keys``, of their weight."""
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return held
    order = np.argsort(first)  # as they come
    weight = np.bincount(row, held.weight)
    return held.take(first[order])._replace(weight=weight[order])


def _spreads(net: Network | Mixture, held: Rows, holds: np.ndarray) -> np.ndarray:
    """Return the mean of holders, the variance of their means, and of others, (n_outputs, rows)."""
    n_rows, n_outputs = holds.shape[-1], net.outputs.n_outputs
    found = np.empty((3, n_outputs, n_rows))
    for part in slices(n_rows, max(1, BLOCK_ELEMENTS // (net.n_members * n_outputs))):
        errors = None if held.errors is None else held.errors.take(part)
        means = predict_moments(net, held.x[part], errors)[0].astype(np.float64)
        here = holds[..., part]
        found[1, :, part], found[0, :, part] = _variance(means, here)
        found[2, :, part] = _variance(means, ~here)[0]
    return found


def _keys(held: Rows) -> np.ndarray:
    """Return keys that are equal for copies of a row, which are a row of more weight."""
    keys = row_keys(held.x)
    for column in np.atleast_2d(held.y.T):
        keys = join_keys(keys, column)
    return keys


def _tempered_variances(
    net: Network | Mixture,
    data: Rows,
    validation: list[np.ndarray],
    places: list[np.ndarray],
    temperatures: np.ndarray,
) -> np.ndarray:
    """Sum the variances of the holders, (temperatures, n_outputs, rows)."""
    n_rows = max(int(rows.max(initial=-1)) for rows in places) + 1
    var_z = np.zeros((len(temperatures), net.outputs.n_outputs, n_rows))
    for total, temperature in zip(var_z, temperatures, strict=True):
        tempered = net.tempered(temperature)
        moments = held_out_moments(tempered, data, validation)
        for rows, (_, _, var) in zip(places, moments, strict=True):
            total[:, rows] += var
        del tempered, moments  # before those of the next temperature are made
    return var_z


def _variance(means: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the unbiased variance over the chosen members, and their mean, (n_outputs, rows)."""
    n = np.count_nonzero(chosen, axis=0)
    mean = (means * chosen).sum(axis=0) / np.maximum(n, 1)
    squares = (np.square(means - mean) * chosen).sum(axis=0)
    return np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan), mean


# How much members disagree at rows that they have not learned


class SpreadSums(NamedTuple):
    """Sums over rows, each (n_outputs,), which add up over places."""

    std: np.ndarray  # of holders' means
    var: np.ndarray
    weight: np.ndarray
    n_rows: np.ndarray  # distinct ones: copies are a row of more weight
    std_of_others: np.ndarray
    weight_of_others: np.ndarray


def spread_sums(held: HeldOut) -> np.ndarray:
    """Sum what members differ by, at rows that several hold out and at rows that others learned."""
    own, others = held.spread, held.spread_of_others
    known = ~np.isnan(own) & (held.n_holders < held.n_members)  # if all hold it out, v is theirs
    learned = ~np.isnan(others)
    std = np.sqrt(own) / _bias_of_std(held.n_holders)
    std_of_others = np.sqrt(others) / _bias_of_std(held.n_members - held.n_holders)
    return np.stack([
        np.where(known, std, 0) @ held.weight,
        np.where(known, own, 0) @ held.weight,
        known @ held.weight,
        np.array([len(np.unique(held.keys[some])) for some in known]),
        np.where(learned, std_of_others, 0) @ held.weight,
        learned @ held.weight,
    ])  # fmt: skip


def with_disagreement(held: HeldOut, sums: np.ndarray) -> HeldOut:
    """Return the rows with what disagreement adds to the variance of their errors.

    Standard deviations are compared, not variances, of which a few rows make up most.
    """
    if held.n_members == 1:
        return held
    total = SpreadSums(*sums)
    new = _mean(total.std, total.weight)
    learned = _mean(total.std_of_others, total.weight_of_others)
    known = (new > 0) & (learned > 0)
    ratio = np.where(known, new, 1) / np.where(known, learned, 1)
    factor = ratio ** (2 * total.n_rows / (total.n_rows + PRIOR_PAIRS))
    constant = _mean(total.var, total.weight)[:, None]
    v = np.where(factor[:, None] > LARGEST_FACTOR, np.nan, factor[:, None] * held.spread_of_others)
    v = np.where(np.isnan(v), constant, v)
    v = np.where(held.n_holders == held.n_members, held.spread, v)
    return held._replace(disagreement=held._share * v)


def _mean(total: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return total / np.where(weight > 0, weight, 1)


def _bias_of_std(n: np.ndarray) -> np.ndarray:
    """Return the mean of the sample standard deviation of n Gaussian numbers over the true one."""
    n = np.maximum(n, 2)
    return np.sqrt(2 / (n - 1)) * np.exp(gammaln(n / 2) - gammaln((n - 1) / 2))
