"""What the first layer sees of the inputs: all as they are, in pieces, or whitened.

A network learns best what lies along the columns that it sees. Two other views of the same inputs
make other functions easy:

- pieces: each input is cut at its quantiles, and every piece rises from one cut to the next and is
  constant elsewhere. A unit that weighs pieces is any piecewise linear function of an input: bends,
  waves and saturation cost no hidden layer.
- whitened: inputs are rotated and scaled until they are uncorrelated, and rotated back. A function
  of differences between inputs that go together is then as easy to learn as any other.

Inputs are standardised before, and have a last column of ones, which stays. Encodings are functions
of each row alone. They are found from the rows of a fit and never change with what is learned; with
other units of the inputs they stay the same functions of what was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .rescaling import Change

__all__ = ["Encoding", "Pieces", "Whitening", "find_pieces", "find_whitening"]

N_PIECES = 8  # of an input, and one more for each wide gap between its values
WIDE = 0.2  # such a gap, as a share of their range
MOST_ROWS = 20_000  # that quantiles and correlations are found from
# Share of the unit matrix in the correlations of many rows; of n rows, inputs / n times
# MORE_RIDGE more: what few rows say of small variances is chance.
RIDGE = 1e-3
MORE_RIDGE = 0.1
SMALL = 0.95  # standard deviation: inputs with less are not scaled up
ROUNDING = 1e-12  # a spread below, relative to the mean, is none


class Encoding(Protocol):
    """A view of the inputs (n, n_inputs + 1), which end with ones."""

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""

    @property
    def n_encoded(self) -> int:
        """Number of inputs of the first layer."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return what the first layer sees of inputs (..., n, n_inputs + 1), in their precision."""

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return derivatives (n or 1, n_inputs, n_encoded) at inputs (n, n_inputs + 1)."""

    def rescaled(self, change: Change) -> Encoding:
        """Return the same view of inputs in new units."""

    def arrays(self) -> list[np.ndarray]:
        """Return the numbers that it is made of."""


@dataclass(eq=False)
class Pieces:
    """Pieces of inputs, each ``clip((x - center) * slope, lowest, highest)`` of its column."""

    column: np.ndarray  # (n_encoded,): number of the input
    center: np.ndarray  # (n_encoded,)
    slope: np.ndarray  # (n_encoded,)
    lowest: np.ndarray  # (n_encoded,): the first piece of an input goes on below
    highest: np.ndarray  # (n_encoded,): and the last above
    n_inputs: int

    @property
    def n_encoded(self) -> int:
        """Number of pieces."""
        return len(self.column)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return pieces of inputs (..., n, n_inputs + 1)."""
        center, slope, lowest, highest = (
            a.astype(x.dtype) for a in (self.center, self.slope, self.lowest, self.highest)
        )
        out = np.empty((*x.shape[:-1], self.n_encoded + 1), x.dtype)
        pieces = out[..., :-1]
        np.take(x, self.column, axis=-1, out=pieces, mode="clip")
        pieces -= center
        pieces *= slope
        np.clip(pieces, lowest, highest, out=pieces)
        out[..., -1] = 1
        return out

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return derivatives (n, n_inputs, n_encoded): one piece of an input rises at a time.

        At a cut, that is the mean of both sides: rounding must not choose one.
        """
        rise = (x[:, self.column] - self.center) * self.slope
        step = np.sqrt(np.finfo(x.dtype).eps)
        sides = [(self.lowest < at) & (at <= self.highest) for at in (rise - step, rise + step)]
        result = np.zeros((len(x), self.n_inputs, self.n_encoded), x.dtype)
        pieces = np.arange(self.n_encoded)
        result[:, self.column, pieces] = self.slope * np.mean(sides, axis=0)
        return result

    def rescaled(self, change: Change) -> Pieces:
        """Return the same pieces of inputs in new units."""
        ratio, shift = change.ratio[self.column], change.shift[self.column]
        return Pieces(
            self.column, (self.center - shift) / ratio, self.slope * ratio,
            self.lowest, self.highest, self.n_inputs,
        )  # fmt: skip

    def arrays(self) -> list[np.ndarray]:
        """Return the numbers that it is made of."""
        return [self.column, self.center, self.slope, self.lowest, self.highest]


@dataclass(eq=False)
class Whitening:
    """A linear view of the inputs, ``x @ matrix + offset``."""

    matrix: np.ndarray  # (n_inputs, n_inputs)
    offset: np.ndarray  # (n_inputs,)

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return len(self.matrix)

    @property
    def n_encoded(self) -> int:
        """Number of whitened inputs."""
        return self.matrix.shape[1]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return whitened inputs (..., n, n_inputs + 1)."""
        out = np.empty((*x.shape[:-1], self.n_encoded + 1), x.dtype)
        np.matmul(x[..., :-1], self.matrix.astype(x.dtype), out=out[..., :-1])
        out[..., :-1] += self.offset.astype(x.dtype)
        out[..., -1] = 1
        return out

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return the matrix, (1, n_inputs, n_inputs)."""
        return self.matrix[None].astype(x.dtype)

    def rescaled(self, change: Change) -> Whitening:
        """Return the same view of inputs in new units."""
        offset = self.offset + change.shift @ self.matrix
        return Whitening(change.ratio[:, None] * self.matrix, offset)

    def arrays(self) -> list[np.ndarray]:
        """Return the numbers that it is made of."""
        return [self.matrix, self.offset]


def find_pieces(x: np.ndarray, weight: np.ndarray) -> Pieces:
    """Return pieces between the quantiles of inputs (n, n_inputs + 1), standardised themselves.

    An input with two values or fewer stays as it is.
    """
    x, weight = _some_rows(x, weight)
    parts = [_pieces_of(column, weight) for column in x[:, :-1].T]
    counts = [len(center) for center, *_ in parts]
    center, slope, lowest, highest = map(np.concatenate, zip(*parts, strict=True))
    column = np.repeat(np.arange(len(parts)), counts)
    return Pieces(column, center, slope, lowest, highest, len(parts))


def _pieces_of(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return centers, slopes, lowest and highest values of the pieces of an input."""
    cuts = _quantiles(x, weight)
    if len(cuts) < 3:
        return np.zeros(1), np.ones(1), np.full(1, -np.inf), np.full(1, np.inf)
    below, width = cuts[:-1], np.diff(cuts)
    n = len(width)
    lowest, highest = np.zeros(n), np.ones(n)
    lowest[0], highest[-1] = -np.inf, np.inf
    rise = np.clip((x[:, None] - below) / width, lowest, highest)
    mean = weight @ rise / weight.sum()
    std = np.sqrt(weight @ np.square(rise - mean) / weight.sum())
    std = np.where(std > 0, std, 1)
    return below + mean * width, 1 / (width * std), (lowest - mean) / std, (highest - mean) / std


def _quantiles(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return distinct values that cut the rows into parts of about equal weight, with both ends."""
    values, place = np.unique(x, return_inverse=True)
    if len(values) <= N_PIECES + 1:
        return values
    until = np.cumsum(np.bincount(place.reshape(-1), weight))
    middle = (until - 0.5 * np.diff(until, prepend=0)) / until[-1]
    cuts = np.interp(np.linspace(0, 1, N_PIECES + 1), middle, values)
    return np.unique(np.append(cuts, _middles_of_gaps(values, middle, cuts)))


def _middles_of_gaps(values: np.ndarray, middle: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return a cut for each wide gap between values that has none.

    What a function does in a gap is then open: one piece across it would be a straight line.
    """
    below, above = values[:-1], values[1:]
    inside = (middle[1:] > 1 / N_PIECES) & (middle[:-1] < 1 - 1 / N_PIECES)  # no tails
    wide = inside & (above - below > WIDE * (values[-1] - values[0]))
    has_cut = np.searchsorted(cuts, above) > np.searchsorted(cuts, below, side="right")
    wide &= ~has_cut
    return (0.5 * below + 0.5 * above)[wide]


def find_whitening(x: np.ndarray, weight: np.ndarray) -> Whitening:
    """Return the symmetric root of the inverse correlation matrix of inputs (n, n_inputs + 1).

    Of all matrices that whiten, it changes the inputs least. Inputs that vary less than others, as
    rare levels do, still do so.
    """
    x, weight = _some_rows(x, weight)
    inputs = x[:, :-1]
    total = weight.sum()
    mean = weight @ inputs / total
    centred = inputs - mean
    cov = (centred * weight[:, None]).T @ centred / total
    if not np.isfinite(cov).all():
        raise ValueError("X has values too large to learn from: their squares overflow.")
    constant = np.sqrt(np.diag(cov)) <= ROUNDING * np.abs(mean)  # such an input stays as it is
    cov[np.diag_indices_from(cov)] += constant
    size = np.sqrt(np.diag(cov))
    size = np.where(size < SMALL, size, 1)
    cov /= size[:, None] * size
    ridge = RIDGE + MORE_RIDGE * min(1.0, inputs.shape[1] / total)
    variances, vectors = np.linalg.eigh((1 - ridge) * cov + ridge * np.eye(len(cov)))
    matrix = (vectors / np.sqrt(np.maximum(variances, ridge))) @ vectors.T
    matrix *= size / size[:, None]
    return Whitening(matrix, -mean @ matrix)


def _some_rows(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return float64 rows and weights, not too many: those at equal distances."""
    if not weight.all():
        x, weight = x[weight > 0], weight[weight > 0]
    step = max(1, len(x) // MOST_ROWS)
    return x[::step].astype(np.float64), weight[::step].astype(np.float64)
