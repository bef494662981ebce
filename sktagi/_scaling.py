"""Centre and scale features and targets with weighted, running statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ._distinct import DistinctRows
from ._input import SMALLEST
from .engine.fast import are_finite, lazy
from .engine.inputs import InputErrors
from .engine.mixture import Mixture
from .engine.noise import bounded_noise
from .engine.posterior import Network
from .engine.rescaling import Change

__all__ = ["Moments", "Scaling"]

SETTLED_ROWS = 10.0  # the spread of fewer rows is a guess
ROUNDING = 10 * float(np.finfo(np.float64).eps)  # a spread below, relative to the mean, is none
TINY = np.array(np.finfo(np.float64).tiny)  # divides nothing: the weight of no rows
BLOCK_ROWS = 4096
# Beyond so many times the spread so far, a few values say nothing of the spread, and are taken to
# lie there; if more than this share of some rows does, it has grown.
FAR = 10.0
RARE = 0.5
LASTING = 5  # as many in a row, where they are counted: it has grown, too
GROWN = 1.5  # times the spread: new rows have made it larger at once
FARTHEST = 1e6  # times the spread: what is beyond is learned as if it were there
LARGEST = 1e150  # number whose square is one, too


@dataclass(eq=False)
class Moments:
    """Weight, mean and summed squared deviation of the columns seen so far, each (n_columns,).

    Columns of sparse data are not centred: their ``mean`` stays zero, and the deviation is taken
    about zero. Those in ``numbers`` are: rows have entries of them throughout, as dense data have.
    Statistics are float64 whatever the data's type. NaN is a value that was not observed.
    ``since`` is the weight of the rows seen since a column first varied, or last outgrew
    its spread. Statistics of more rows are a new object: these do not change.
    """

    weight: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    since: np.ndarray
    centered: bool
    floor: Any = 0.0  # (n_columns,): least scale, or one for all
    bound: float = np.inf  # in spreads: what lies beyond is taken to lie there
    run: Any = 0  # (n_columns,): number of values beyond, one after the other, that came last
    streamed: bool = False  # targets of a stream, which may vary yet
    numbers: np.ndarray | None = None  # of sparse data; not in old files

    @classmethod
    def empty(
        cls,
        n_columns: int,
        *,
        centered: bool = True,
        floor: Any = 0.0,
        numbers: np.ndarray | None = None,
    ) -> Moments:
        """Return the statistics of no rows."""
        zeros = np.zeros(n_columns)
        return cls(zeros, zeros, zeros, zeros, centered, floor, numbers=numbers)

    @property
    def bounds_values(self) -> bool:
        """Whether there are columns with values that can be far from the others."""
        return self.centered or self.numbers is not None

    def of_numbers(self) -> Moments:
        """Return the statistics of the numbers in sparse data, which are as those of dense data."""
        names = ("weight", "mean", "deviation", "since", "floor", "run")
        own: dict[str, Any] = {"centered": True, "numbers": None}
        for name in names:
            own[name] = np.broadcast_to(getattr(self, name), self.mean.shape)[self.numbers]
        return replace(self, **own)

    def with_numbers(self, part: Moments) -> Moments:
        """Return these statistics of sparse data with those of its numbers."""
        new: dict[str, Any] = {"bound": part.bound}
        for name in ("weight", "mean", "deviation", "since", "run"):
            values = np.broadcast_to(getattr(self, name), self.mean.shape).copy()
            values[self.numbers] = getattr(part, name)
            new[name] = values
        return replace(self, **new)

    def updated(self, values: Any, weight: np.ndarray, name: str) -> Moments:
        """Return the statistics of the rows seen so far and these."""
        weight = weight.astype(np.float64)
        if self.centered and not isinstance(values, np.ndarray):
            values = values.toarray()
        with np.errstate(over="ignore", invalid="ignore"):
            if self.numbers is not None:
                new = self._and_rows(*self._moments_of_sparse(values, weight))
            elif not self.centered:
                squares = values.multiply(values) if sparse.issparse(values) else np.square(values)
                new = self._and_rows(weight.sum(), np.zeros_like(self.mean), squares.T @ weight)
            else:
                new = self._and_rows(*_moments_of(values, weight))
            if are_finite(new.deviation):
                return new
            if self.centered and np.isnan(values).any():  # some are not observed
                new = self._and_rows(*_moments_of_observed(values, weight))
        if not np.isfinite(new.deviation).all():  # of the mean, if that overflows, too
            raise ValueError(
                f"{name} has values too large to standardise: their squares overflow. "
                "Rescale the data."
            )
        return new

    def _moments_of_sparse(self, values: Any, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return weight, mean and deviation of sparse rows; an unknown level counts as none."""
        mean, total = np.zeros_like(self.mean), np.full_like(self.mean, weight.sum())
        squares = values.multiply(values)
        squares.data = np.where(np.isnan(squares.data), 0, squares.data)
        deviation = squares.T @ weight
        of_numbers = _moments_of_observed(values[:, self.numbers].toarray(), weight)
        for all_values, own in zip((total, mean, deviation), of_numbers, strict=True):
            all_values[self.numbers] = own
        return total, mean, deviation

    def _and_rows(self, added: Any, mean: np.ndarray, deviation: Any) -> Moments:
        """Join new rows of weight ``added``, maybe one number for all columns."""
        new = self._joined(added, mean, deviation, added)
        outgrown = new._spread > self._reach
        if self.streamed and np.count_nonzero(outgrown):  # jumps are found otherwise
            outgrown &= ~self._is_settled
        starts = self.is_constant | outgrown
        new.since = np.where(starts, added, new.since)
        return new

    def joined(self, other: Moments) -> Moments:
        """Return the statistics of the rows of both (Chan et al., 1979)."""
        new = self._joined(other.weight, other.mean, other.deviation, other.since)
        new.bound = min(self.bound, other.bound)
        return new

    def _joined(self, weight: Any, mean: np.ndarray, deviation: Any, since: Any) -> Moments:
        """Join other rows; their numbers may be one for all columns, no deviation that of one."""
        total = self.weight + weight
        share = weight / np.maximum(total, TINY)
        shift = mean - self.mean
        between = np.square(shift)
        between *= self.weight * share
        shift *= share
        return Moments(
            total,
            self.mean + shift,
            (self.deviation if deviation is None else self.deviation + deviation) + between,
            self.since + since,
            self.centered,
            self.floor,
            self.bound,
            self.run,
            self.streamed,
            self.numbers,
        )

    def without(self, other: Moments) -> Moments:
        """Return the statistics of the rows that ``other``, an earlier state, had not seen."""
        left = self.weight - other.weight
        some = left > 0
        if not some.all():  # of a column that has begun anew since then, all rows are new
            other = other.mixed(Moments.empty(len(left)), left < 0)
            left = self.weight - other.weight
            some = left > 0
        left = np.where(some, left, 1)
        mean = self.mean + (self.mean - other.mean) * (other.weight / left)
        between = np.square(mean - other.mean) * (other.weight * left / (other.weight + left))
        deviation = np.maximum(self.deviation - other.deviation - between, 0)
        since = np.maximum(self.since - other.since, 0)
        left, mean, deviation, since = (
            np.where(some, a, 0) for a in (left, mean, deviation, since)
        )
        return replace(self, weight=left, mean=mean, deviation=deviation, since=since, run=0)

    def mixed(self, other: Moments, columns: np.ndarray) -> Moments:
        """Return these statistics, but those of some columns are others."""
        names = ("weight", "mean", "deviation", "since")
        new = {k: np.where(columns, getattr(other, k), getattr(self, k)) for k in names}
        return replace(self, **new)

    @lazy
    def scale(self) -> np.ndarray:
        """Root mean square about the mean, at least the floor; 1 where a column is constant.

        A target of a stream that has not varied in n rows may do so by an n-th of its size.
        """
        scale = np.maximum(self._spread, self.floor)
        if self._all_vary:
            return scale
        constant: Any = 1.0
        if self.streamed:
            size = np.abs(self.mean) / np.maximum(self.weight, 1)
            constant = np.where(size > SMALLEST, size, 1.0)
        return np.where(self.is_constant, constant, scale)

    @lazy
    def input_scale(self) -> np.ndarray:
        """The scale of features: infinite for columns that vary by rounding only, which enter as 0.

        In double precision, nanoseconds since 1970 are multiples of 256.
        """
        return self.scale if self._all_vary else np.where(self.is_rounding, np.inf, self.scale)

    @lazy
    def is_rounding(self) -> np.ndarray:
        """Which columns vary by no more than what numbers of their size are rounded by."""
        return self.is_constant if self._all_vary else self.is_constant & (self.deviation > 0)

    @lazy
    def _spread(self) -> np.ndarray:
        return np.sqrt(self.deviation / np.maximum(self.weight, TINY))

    @lazy
    def is_constant(self) -> np.ndarray:
        """Which columns have not varied, but for rounding."""
        return self._spread <= ROUNDING * np.abs(self.mean)

    @lazy
    def _all_vary(self) -> bool:
        return not np.count_nonzero(self.is_constant)

    def is_narrower(self, other: Moments, factor: float) -> np.ndarray:
        """Tell where the spread of ``other`` is so many times as large; not without any rows."""
        return ~other.is_constant & self.is_exceeded(other._spread, factor)

    def is_exceeded(self, spread: np.ndarray, factor: float) -> np.ndarray:
        """Tell where a spread is so many times as large; not without any rows."""
        own = np.where(self.is_constant, 0, self.scale)
        return (self.weight > 0) & (spread > factor * own)

    def outgrown(self, new: Moments) -> np.ndarray | None:
        """Tell which columns have a spread that new rows have made larger at once; None: no one."""
        grown = new._spread > GROWN * self._spread
        if not np.count_nonzero(grown):  # nearly always
            return None
        grown &= self._is_settled & (new._spread < FARTHEST * self._spread)
        return grown if grown.any() else None

    @lazy
    def _reach(self) -> np.ndarray:
        # What n rows have taught says nothing beyond sqrt(n) times their spread.
        return np.sqrt(np.maximum(self.since, 1)) * self._spread

    @lazy
    def _is_settled(self) -> np.ndarray:
        return (self.since >= SETTLED_ROWS) > self.is_constant

    def change_to(self, new: Moments, *, back: bool = False) -> Change:
        """Return the change from the units of these statistics to those of ``new``.

        None for a column whose old units are a guess of a few rows, were outgrown at once, or were
        those of a wrong reading that is taken back: what was learned in them says nothing about the
        new ones, and the prior is the same in any. Targets of a stream outgrow no units: whether
        they have jumped is told by the errors of what was learned. ``back``: to the units before
        these, which were changed so far.
        """
        ratio = new.scale / self.scale
        shift = (new.mean - self.mean) / self.scale
        settled = self._is_settled
        if back:
            settled = settled & new._is_settled
        else:
            # The deviation of more rows is never less: only what is taken back shrinks a spread so.
            settled = settled & (self._spread <= new._reach)
            if not new.streamed:
                settled &= new._spread <= self._reach
        if not new._all_vary:
            settled &= ~new.is_constant
        if np.count_nonzero(settled) < len(settled):
            ratio[~settled] = 1
            shift[~settled] = 0
        return Change(ratio, shift)

    def watched(self, values: np.ndarray, rows: DistinctRows) -> tuple[Moments, np.ndarray]:
        """Return new values as ``without_outliers``, by statistics that count outliers in a row.

        These know how many values, now last, were far beyond.
        """
        far = self._beyond(values, FAR)
        if far is None:
            return replace(self, run=0) if np.count_nonzero(self.run) else self, values
        first = far[rows.first]
        ends = first[::-1].argmin(axis=0)
        new = replace(self, run=np.where(first.all(axis=0), self.run + len(first), ends))
        return new, new._typical(values, far, rows)

    def without_outliers(self, values: np.ndarray, rows: DistinctRows) -> np.ndarray:
        """Return new values that are not far beyond the spread so far, or not all by themselves."""
        far = self._beyond(values, FAR)
        return values if far is None else self._typical(values, far, rows)

    def _typical(self, values: np.ndarray, far: np.ndarray, rows: DistinctRows) -> np.ndarray:
        if len(rows) > 1:
            far &= rows.weight @ far[rows.first] <= RARE * rows.weight.sum()
        far &= self.run < LASTING
        return np.where(far, self._at(values, FAR), values)

    def bounded(self, values: np.ndarray) -> np.ndarray:
        """Return values that single precision can square in units of the spread."""
        return self._within(values, FARTHEST)

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest values that count as they are, of each column."""
        settled = np.isfinite(self.bound) & self._is_settled
        if self.numbers is not None:
            settled &= np.isin(np.arange(len(settled)), self.numbers)
        width = np.where(settled, self.bound, np.inf) * self.scale
        return self.mean - width, self.mean + width

    def _within(self, values: np.ndarray, n_spreads: float) -> np.ndarray:
        if n_spreads == np.inf:
            return values
        far = self._beyond(values, n_spreads)
        return values if far is None else np.where(far, self._at(values, n_spreads), values)

    def _beyond(self, values: np.ndarray, n_spreads: float) -> np.ndarray | None:
        """Tell which values are so far away; None if none is, or if nobody can tell."""
        size = np.abs(values - self.mean)
        far = size > n_spreads * self.scale
        if not np.count_nonzero(far):  # quicker than any
            return None
        far &= size < LARGEST  # refused elsewhere, with a clear error
        far &= self._is_settled
        return far if far.any() else None

    def _at(self, values: np.ndarray, n_spreads: float) -> np.ndarray:
        return self.mean + n_spreads * self.scale * np.sign(values - self.mean)

    def standardise(
        self, values: np.ndarray, out: np.ndarray, scale: np.ndarray | None = None
    ) -> np.ndarray:
        """Write standardised values into ``out``; without statistics, the values themselves."""
        values = self._within(values, self.bound)
        scale = self.scale if scale is None else scale
        # In float64 before it is rounded: a large mean does not swallow the spread.
        if out.dtype.itemsize < values.dtype.itemsize:  # units may be beyond single precision
            np.divide(values - self.mean, scale, out=out, casting="same_kind")
            return out
        np.subtract(values, self.mean, out=out, casting="same_kind")
        np.divide(out, scale, out=out, casting="same_kind")
        return out

    def standardised_sparse(self, values: Any, dtype: np.typing.DTypeLike) -> Any:
        """Return standardised sparse rows; where there is no entry, a number is its mean."""
        if self.numbers is None:
            return values.multiply(1 / self.input_scale).astype(dtype)
        values = sparse.csr_array(values)
        data, column = values.data.astype(np.float64), values.indices
        low, high = (ends[column] for ends in self.limits)
        # Others are refused elsewhere, with a clear error.
        data = np.where(np.abs(data) < LARGEST, np.clip(data, low, high), data)
        data = (data - self.mean[column]) / self.input_scale[column]
        return sparse.csr_array((data.astype(dtype), column, values.indptr), shape=values.shape)


def _moments_of(values: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, Any]:
    """Return weight, mean and deviation of some rows, maybe one weight, and None for one row."""
    if len(values) == 1:
        return weight[0], values[0].astype(np.float64), None
    total = weight.sum()
    # Relative to the first row: a constant column has no deviation, not even rounding.
    first = values[0].astype(np.float64)
    blocks = [slice(k, k + BLOCK_ROWS) for k in range(0, len(values), BLOCK_ROWS)]
    offset = sum(weight[b] @ (values[b] - first) for b in blocks) / total
    deviation = sum(weight[b] @ np.square(values[b] - first - offset) for b in blocks)
    return total, first + offset, deviation


def _moments_of_observed(
    values: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weight, mean and deviation of each column, without values that are NaN."""
    missing = np.isnan(values)
    first = values[missing.argmin(axis=0), np.arange(values.shape[1])].astype(np.float64)
    first = np.where(np.isnan(first), 0, first)
    total = weight @ ~missing
    counted = np.where(total > 0, total, 1)
    offset = weight @ np.where(missing, 0, values - first) / counted
    deviation = weight @ np.where(missing, 0, np.square(values - first - offset))
    return total, first + offset, deviation


class Scaling(NamedTuple):
    """Statistics by which features and targets are standardised.

    Statistics of no rows change nothing.
    """

    x: Moments
    y: Moments | None  # None: targets are not scaled, as class numbers

    @classmethod
    def empty(
        cls,
        X: Any,
        n_targets: int | None,
        floor: Any = 0.0,
        numbers: np.ndarray | None = None,
    ) -> Scaling:
        """Return the scaling of no rows, for features like X; None: targets are not scaled.

        ``numbers`` are columns of a sparse X that are as those of a dense one.
        """
        x_moments = Moments.empty(
            X.shape[1], centered=not sparse.issparse(X), floor=floor, numbers=numbers
        )
        return cls(x_moments, None if n_targets is None else Moments.empty(n_targets))

    def updated(self, X: Any, y: np.ndarray, weight: np.ndarray) -> Scaling:
        """Return the scaling of the rows seen so far and these."""
        x_moments = self.x.updated(X, weight, "X")
        return Scaling(x_moments, None if self.y is None else self.y.updated(y, weight, "y"))

    def of_stream(self) -> Scaling:
        """Return the same scaling for rows of a stream, whose features may have wrong readings."""
        new = self
        if self.x.bounds_values and self.x.bound != FAR:
            new = new._replace(x=replace(self.x, bound=FAR))
        if self.y is not None and not self.y.streamed:
            new = new._replace(y=replace(self.y, streamed=True))
        return new

    def joined(self, other: Scaling) -> Scaling:
        """Return the scaling of the rows of both."""
        return self._combined(other, Moments.joined)

    def without(self, other: Scaling) -> Scaling:
        """Return the scaling of the rows that ``other``, an earlier state, had not seen."""
        return self._combined(other, Moments.without)

    def _combined(self, other: Scaling, combine: Any) -> Scaling:
        y = None if self.y is None else combine(self.y, other.y)
        return Scaling(combine(self.x, other.x), y)

    @property
    def targets_have_units(self) -> bool:
        """False as long as targets have no spread to measure them in."""
        return self.y is None or bool(np.count_nonzero(self.y.deviation) or not self.y.weight.any())

    def inputs(
        self, X: Any, errors: InputErrors | None, dtype: np.typing.DTypeLike
    ) -> tuple[Any, InputErrors | None]:
        """Return inputs of the network, (n, n_features + 1) with a column of ones, and errors."""
        if sparse.issparse(X) and self.x.centered and self.x.weight.any():
            X = X.toarray()
        x: Any
        if sparse.issparse(X):
            scaled = self.x.standardised_sparse(X, dtype)
            x = sparse.hstack([scaled, np.ones((X.shape[0], 1), dtype=dtype)], format="csr")
            x.sum_duplicates()
        else:
            x = np.empty((X.shape[0], X.shape[1] + 1), dtype=dtype)
            self.x.standardise(X, x[:, :-1], self.x.input_scale)
            x[:, -1] = 1
        if errors is None:
            return x, None
        if isinstance(x, np.ndarray):
            errors = errors.to_dense()
        name = "X_cov" if errors.are_covariances else "X_std"
        errors = errors.scaled(self.x.input_scale, dtype)
        if not errors.is_finite():
            raise ValueError(f"{name} is too large: a variance is not a finite {dtype} number.")
        return x, errors

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> np.ndarray:
        """Return standardised targets; class numbers as they are."""
        return y if self.y is None else self.y.standardise(y, np.empty(y.shape, dtype))

    def original(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (n_targets, rows) of targets in original units."""
        assert self.y is not None
        scale = self.y.scale[:, None]
        if self.y.streamed and np.count_nonzero(
            self.y.is_constant
        ):  # its value is all that is known
            mean = np.where(self.y.is_constant[:, None], 0, mean)
        return mean * scale + self.y.mean[:, None], var * np.square(scale)

    def carry_over(self, net: Network | Mixture, new: Scaling, *, back: bool = False) -> None:
        """Let a network of this scaling say the same with a ``new`` one, in place.

        ``back``: with one of before.
        """
        change = self.x.change_to(new.x)
        if not change.is_none:
            net.rescale_inputs(change)
            if net.noise_net is not None:
                net.noise_net = net.noise_net.rescaled(change)
        if self.y is None or new.y is None:
            return
        change = self.y.change_to(new.y, back=back)
        if change.is_none:
            return
        for network in net.networks:
            network.layers[-1].rescale_outputs(change)
            if network.noise_is_learned:  # a sigma_v that is given is in the new units already
                ratio = change.ratio[:, None]
                network.noise_var[...] = bounded_noise(network.noise_var / np.square(ratio))
