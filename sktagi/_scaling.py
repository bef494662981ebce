"""Centre and scale columns with weighted, running statistics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Moments"]


class Moments(NamedTuple):
    """Weight, mean and summed squared deviation of the columns seen so far.

    Columns of sparse data are not centred: their ``mean`` stays zero, and the deviation is taken
    about zero. Statistics are float64 whatever the data's type.
    """

    weight: float
    mean: np.ndarray
    deviation: np.ndarray
    centered: bool

    @classmethod
    def empty(cls, n_columns: int, *, centered: bool = True) -> Moments:
        return cls(0.0, np.zeros(n_columns), np.zeros(n_columns), centered)

    def updated(self, values, weight: np.ndarray, name: str) -> Moments:
        """Statistics of the rows seen so far and these (Chan et al., 1979)."""
        weight = weight.astype(np.float64)
        added = weight.sum()
        total = self.weight + added
        if sparse.issparse(values) and self.centered:
            values = values.toarray()
        if not self.centered:
            squares = values.multiply(values) if sparse.issparse(values) else np.square(values)
            new = Moments(total, self.mean, self.deviation + squares.T @ weight, False)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                # Relative to the first row: a constant column has no deviation, not even rounding.
                first = values[0].astype(np.float64)
                blocks = [slice(k, k + 4096) for k in range(0, len(values), 4096)]
                offset = sum(weight[b] @ (values[b] - first) for b in blocks) / added
                mean = first + offset
                deviation = sum(weight[b] @ np.square(values[b] - first - offset) for b in blocks)
                shift = mean - self.mean
                new = Moments(
                    total,
                    self.mean + shift * (added / total),
                    self.deviation + deviation + np.square(shift) * (self.weight * added / total),
                    True,
                )
        if not (np.isfinite(new.mean).all() and np.isfinite(new.deviation).all()):
            raise ValueError(
                f"{name} has values too large to standardise: their squares overflow. "
                "Rescale the data."
            )
        return new

    @property
    def scale(self) -> np.ndarray:
        """Root mean square about the mean, or 1 where a column is constant to rounding."""
        if self.weight == 0:
            return np.ones_like(self.mean)
        scale = np.sqrt(self.deviation / self.weight)
        constant = scale <= 10 * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(constant, 1.0, scale)

    def standardise(self, values, dtype) -> np.ndarray:
        """Centred and scaled copy of dense ``values`` in ``dtype``."""
        out = np.empty(values.shape, dtype=dtype)
        # In float64 before it is rounded: a large mean does not swallow the spread.
        np.subtract(values, self.mean, out=out, casting="same_kind")
        return np.divide(out, self.scale, out=out, casting="same_kind")
