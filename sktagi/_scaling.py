"""Centre and scale columns with weighted, running statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from .engine.units import Change

__all__ = ["Moments"]

SETTLED_ROWS = 10.0  # the spread of fewer rows is a guess
ROUNDING = 10 * float(np.finfo(np.float64).eps)  # a spread below, relative to the mean, is none


@dataclass(eq=False)
class Moments:
    """Weight, mean and summed squared deviation of the columns seen so far.

    Columns of sparse data are not centred: their ``mean`` stays zero, and the deviation is taken
    about zero. Statistics are float64 whatever the data's type. ``since`` is the weight of the rows
    seen since a column first varied, or last outgrew its spread. Statistics of more rows are a new
    object: these do not change.
    """

    weight: float
    mean: np.ndarray
    deviation: np.ndarray
    since: np.ndarray
    centered: bool

    @classmethod
    def empty(cls, n_columns: int, *, centered: bool = True) -> Moments:
        zeros = np.zeros(n_columns)
        return cls(0.0, zeros, zeros, zeros, centered)

    def updated(self, values, weight: np.ndarray, name: str) -> Moments:
        """Statistics of the rows seen so far and these."""
        weight = weight.astype(np.float64)
        added = float(weight.sum())
        if sparse.issparse(values) and self.centered:
            values = values.toarray()
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.centered:
                squares = values.multiply(values) if sparse.issparse(values) else np.square(values)
                mean, deviation = np.zeros_like(self.mean), squares.T @ weight
            elif len(values) == 1:
                mean, deviation = values[0].astype(np.float64), 0.0
            else:
                # Relative to the first row: a constant column has no deviation, not even rounding.
                first = values[0].astype(np.float64)
                blocks = [slice(k, k + 4096) for k in range(0, len(values), 4096)]
                offset = sum(weight[b] @ (values[b] - first) for b in blocks) / added
                mean = first + offset
                deviation = sum(weight[b] @ np.square(values[b] - first - offset) for b in blocks)
            new = self._joined(added, mean, deviation, added)
            if added:
                starts = self._constant | self._outgrown_by(new)
                new.since = np.where(starts, added, new.since)
        if not np.isfinite(new.deviation).all():  # of the mean, if that overflows, too
            raise ValueError(
                f"{name} has values too large to standardise: their squares overflow. "
                "Rescale the data."
            )
        return new

    def joined(self, other: Moments) -> Moments:
        """Statistics of the rows of both (Chan et al., 1979)."""
        return self._joined(other.weight, other.mean, other.deviation, other.since)

    def _joined(self, weight: float, mean: np.ndarray, deviation, since) -> Moments:
        """With other rows, whose deviation and ``since`` may be one number for all columns."""
        total = self.weight + weight
        if total == 0:
            return self
        shift = mean - self.mean
        between = np.square(shift)
        between *= self.weight * weight / total
        return Moments(
            total,
            self.mean + shift * (weight / total),
            self.deviation + deviation + between,
            self.since + since,
            self.centered,
        )

    def without(self, other: Moments) -> Moments:
        """Statistics of the rows that ``other``, an earlier state of these, had not seen."""
        left = self.weight - other.weight
        if other.weight == 0 or left <= 0:
            return self if other.weight == 0 else self.empty(len(self.mean), centered=self.centered)
        mean = self.mean + (self.mean - other.mean) * (other.weight / left)
        between = np.square(mean - other.mean) * (other.weight * left / self.weight)
        deviation = np.maximum(self.deviation - other.deviation - between, 0)
        since = np.maximum(self.since - other.since, 0)
        return Moments(left, mean, deviation, since, self.centered)

    @cached_property
    def scale(self) -> np.ndarray:
        """Root mean square about the mean, or 1 where a column is constant to rounding."""
        return np.where(self._constant, 1.0, self._spread)

    @cached_property
    def _spread(self) -> np.ndarray:
        return np.sqrt(self.deviation / self.weight) if self.weight else np.zeros_like(self.mean)

    @cached_property
    def _constant(self) -> np.ndarray:
        return self._spread <= ROUNDING * np.abs(self.mean)

    def _outgrown_by(self, new: Moments) -> np.ndarray:
        # What n rows have taught says nothing beyond sqrt(n) times their spread.
        return new._spread > np.sqrt(np.maximum(self.since, 1)) * self._spread

    def change_to(self, new: Moments) -> Change:
        """From the units of these statistics to those of ``new``.

        None for a column whose old units are a guess of a few rows, or were outgrown at once: what
        was learnt in them says nothing about the new ones, and the prior is the same in any.
        """
        ratio = new.scale / self.scale
        shift = (new.mean - self.mean) / self.scale
        unsettled = self._outgrown_by(new)
        unsettled |= self.since < SETTLED_ROWS
        unsettled |= self._constant
        unsettled |= new._constant
        ratio[unsettled] = 1
        shift[unsettled] = 0
        return Change(ratio, shift)

    def standardise(self, values, dtype) -> np.ndarray:
        """Centred and scaled copy of dense ``values`` in ``dtype``."""
        out = np.empty(values.shape, dtype=dtype)
        self.standardise_into(values, out)
        return out

    def standardise_into(self, values, out: np.ndarray) -> None:
        """The same, written into an array."""
        if self.weight == 0:  # nothing to go by, or not asked for
            out[...] = values
            return
        # In float64 before it is rounded: a large mean does not swallow the spread.
        np.subtract(values, self.mean, out=out, casting="same_kind")
        np.divide(out, self.scale, out=out, casting="same_kind")
