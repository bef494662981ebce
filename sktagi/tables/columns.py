"""What the columns of a table become: inputs of the network.

Numbers stay as they are; those of a column with heavy tails are clipped smoothly. A category
becomes a column for each level (one-hot), rare levels share one. Where training rows have missing
values, a column says so. NaN is what is not known: a missing number, or, in all columns of a
category, a level that was never seen. It is completed when a row is learned (by its mean) and when
it is predicted (in several ways, so that the std is wider).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._outliers import beyond_a_gap
from ..engine.fast import has_nan
from ..engine.inputs import InputErrors
from .completion import N_DRAWS, JointGaussian, fit_gaussian, normal_nodes, orders_of_draws, ranks

__all__ = ["Columns", "Predict", "fit_columns", "has_missing", "plain_columns", "without_tails"]

FEWEST_ROWS = 3  # of a level that has a column of its own, and of a "missing" column
MANY_COLUMNS = 256  # beyond which a table with categories is a sparse matrix
# What rows with a missing value have taught counts beside the distribution of the column as so
# many rows: these rows have its spread in their noise.
OWN_ROWS = 20.0
LEAST_SHARE = 0.05  # of that distribution; less is none
FAR = 30.0  # spreads from the median, with nothing in between: a wrong reading
MOST_WRONG = 0.01  # share of the rows; what is more frequent says something
FEW_WRONG = 3  # of few rows
FEWEST_TAILED = 10  # rows with a value, for a spread to mean something
CLIP = 5.0  # spreads that its values approach, or twice the farthest that is not wrong
BLOCK_ROWS = 4096  # that are completed at once
SPARSE_NODES = 64  # columns of a sparse matrix share as many draws
CANDIDATES = 128  # of many levels, that are predicted to find those that stand for all
# Least scale of a "missing" column: weights of that size say something only if many rows do.
MISSING_SPREAD = 2.0
RARE_SPREAD = 0.1  # of two values, over their distance: rarer ones are not scaled up further

Predict = Callable[[Any, InputErrors | None], tuple[np.ndarray, ...]]


@dataclass(eq=False)
class Columns:
    """The columns of a table as they were fitted, each list or array one entry for each."""

    names: list[str]
    levels: list[list[str] | None]  # as they are read; None: numbers
    slots: list[np.ndarray | None]  # of each level, and of "missing": its place; -1: not known
    slot_names: list[list[str] | None]
    shares: list[np.ndarray | None]  # of the rows, for each slot
    missing_columns: np.ndarray  # numbers of the columns that have one that says "missing"
    is_empty: np.ndarray  # no training row has a value: never known
    center: np.ndarray
    width: np.ndarray  # zero: not clipped
    n_missing: np.ndarray  # weight of the training rows without a value
    mean: np.ndarray  # of numbers
    gaussian: JointGaussian | None  # of the numbers
    floor: np.ndarray  # (n_encoded,): least scale
    makes_sparse: bool
    is_sparse: bool  # fitted to a sparse matrix
    # Whether the noise was learned beside what gaps add to the variance; else it is part of it.
    knows_gaps: bool = False

    @cached_property
    def n_encoded(self) -> int:
        """Number of inputs."""
        return int(self._starts[-1] + len(self.missing_columns))

    @cached_property
    def is_plain(self) -> bool:
        """Whether all columns are inputs as they are."""
        return not (
            self.has_categories
            or len(self.missing_columns)
            or self.is_empty.any()
            or self.width.any()
        )

    @cached_property
    def has_categories(self) -> bool:
        """Whether some columns are categories."""
        return any(levels is not None for levels in self.levels)

    @cached_property
    def encoded_names(self) -> list[str]:
        """Names of the inputs."""
        result = []
        for name, levels in zip(self.names, self.slot_names, strict=True):
            result += [name] if levels is None else [f"{name}_{level}" for level in levels]
        return result + [f"{self.names[k]}_missing" for k in self.missing_columns]

    @cached_property
    def origins(self) -> np.ndarray:
        """Number of the column that each input comes from."""
        return np.r_[np.repeat(np.arange(len(self.names)), self._sizes), self.missing_columns]

    @cached_property
    def _sizes(self) -> np.ndarray:
        return np.array([1 if slots is None else len(slots) for slots in self.slot_names])

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.r_[0, np.cumsum(self._sizes)]

    @cached_property
    def _numbers(self) -> np.ndarray:
        """Columns that are numbers."""
        return np.flatnonzero([slots is None for slots in self.slots])

    @cached_property
    def _categories(self) -> list[tuple[int, slice]]:
        """Columns that are categories, and where their inputs stand."""
        starts = self._starts
        return [
            (k, slice(starts[k], starts[k + 1]))
            for k, slots in enumerate(self.slots)
            if slots is not None and starts[k] < starts[k + 1]
        ]

    @cached_property
    def _unknown_share(self) -> np.ndarray:
        """Share of its distribution's variance that a missing number has, for each of the numbers.

        In a stream, what rows with gaps have taught is in their noise.
        """
        share = np.ones(len(self._numbers))
        if not self.knows_gaps:
            share = OWN_ROWS / (OWN_ROWS + self.n_missing[self._numbers])
        return np.where(self.is_empty[self._numbers] | (share < LEAST_SHARE), 0, share)

    @property
    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns that are numbers, and where their inputs stand."""
        return self._numbers, self._starts[self._numbers]

    @property
    def numbers_of_sparse(self) -> np.ndarray | None:
        """Inputs that are numbers in the sparse rows of many levels; None for other rows."""
        return self._starts[self._numbers] if self.makes_sparse else None

    # Encoding

    def encode(self, X: Any) -> Any:
        """Return inputs (n, n_encoded) for a table of numbers and numbers of levels."""
        if sparse.issparse(X) != self.is_sparse and (self.width.any() or has_missing(X)):
            # Gaps are filled as those of the training rows; zeros of a clipped column are no zeros.
            X = sparse.csr_array(X) if self.is_sparse else X.toarray()
        if self.is_plain:
            return X
        if sparse.issparse(X):
            return self._with_missing_columns(X)
        numbers = self._clipped(X[:, self._numbers])
        flags = np.isnan(X[:, self.missing_columns])
        places = [self._places(X[:, k], k) for k, _ in self._categories]
        if self.makes_sparse:
            return self._sparse(numbers - self.mean[self._numbers], places, flags, X.dtype)
        out = np.zeros((len(X), self.n_encoded), dtype=X.dtype)
        out[:, self._starts[self._numbers]] = numbers
        for (_, part), place in zip(self._categories, places, strict=True):
            block = out[:, part]
            known = np.flatnonzero(place >= 0)
            block[known, place[known]] = 1
            block[place < 0] = np.nan
        out[:, self._starts[-1] :] = flags
        return out

    def _places(self, levels: np.ndarray, column: int) -> np.ndarray:
        slots = self.slots[column]
        assert slots is not None
        number = np.where(np.isnan(levels), len(slots) - 1, levels).astype(int)
        return np.where(number < 0, -1, slots[number])

    def _clipped(self, numbers: np.ndarray) -> np.ndarray:
        width, center = self.width[self._numbers], self.center[self._numbers]
        tails = np.flatnonzero(width)
        empty = self.is_empty[self._numbers]
        if len(tails) or empty.any():
            numbers = numbers.copy()
            far = (numbers[:, tails] - center[tails]) / width[tails]
            numbers[:, tails] = center[tails] + width[tails] * far / np.hypot(1, far / CLIP)
            numbers[:, empty] = np.nan
        return numbers

    def _sparse(
        self, numbers: np.ndarray, places: list[np.ndarray], flags: np.ndarray, dtype: Any
    ) -> Any:
        rows = np.arange(len(numbers))
        number = dict(zip(self._numbers, numbers.T, strict=True))
        place_of = {k: place for (k, _), place in zip(self._categories, places, strict=True)}
        blocks = []
        for k, size in enumerate(self._sizes):
            if k in number:
                # Zeros are stored: numbers are centred later, too.
                column = number[k].astype(dtype), np.zeros_like(rows), np.append(rows, len(rows))
                blocks.append(sparse.csr_array(column, shape=(len(rows), 1)))
                continue
            place = place_of[k]
            entries = np.where(place < 0, np.nan, 1).astype(dtype)
            where = rows, np.maximum(place, 0)
            blocks.append(sparse.csr_array((entries, where), shape=(len(rows), size)))
        blocks.append(sparse.csr_array(flags.astype(dtype)))
        return sparse.csr_array(sparse.hstack(blocks, format="csr"))

    def _with_missing_columns(self, X: Any) -> Any:
        X = X.tocsr(copy=True)
        if self.is_empty.any():
            X.data[self.is_empty[X.indices]] = np.nan
        if not len(self.missing_columns):
            return X
        missing = sparse.csr_array(
            (np.isnan(X.data).astype(X.dtype), X.indices, X.indptr), shape=X.shape
        )[:, self.missing_columns]
        return sparse.csr_array(sparse.hstack([X, missing], format="csr"))

    def encode_errors(self, errors: InputErrors | None) -> InputErrors | None:
        """Return the errors of the inputs for those of the columns."""
        if errors is None or self.is_plain:
            return errors
        values = errors.values
        chosen = np.zeros((len(self.names), self.n_encoded))
        chosen[self._numbers, self._starts[self._numbers]] = 1
        if sparse.issparse(values):
            of_categories = values[:, [k for k, _ in self._categories]].data
            result = sparse.csr_array(values @ sparse.csr_array(chosen))
        elif errors.are_covariances:
            of_categories = np.array([values[:, k].any() for k, _ in self._categories])
            result = chosen.T @ values @ chosen
        else:
            of_categories = values[:, [k for k, _ in self._categories]]
            result = values @ chosen
        if np.any(of_categories):
            name = "X_cov" if errors.are_covariances else "X_std"
            raise ValueError(
                f"{name} must be zero for categories: these have no errors of numbers."
            )
        return InputErrors(result)

    def errors_at(self, errors: InputErrors | None, X: Any) -> InputErrors | None:
        """Return the errors of inputs at these rows: less in clipped tails, none in gaps."""
        if errors is None or sparse.issparse(X):
            return errors
        slope = self.slopes(X)
        return errors if slope is None else errors.times(slope)

    def slopes(self, X: np.ndarray) -> np.ndarray | None:
        """Return the slopes of inputs by their columns: less in clipped tails, none in gaps.

        None: all are one.
        """
        gaps = np.isnan(X)
        tails = self._numbers[self.width[self._numbers] > 0]
        if not (gaps.any() or len(tails)):
            return None
        slope = np.where(gaps, 0.0, 1.0)
        at = self._starts[tails]
        clipped = (X[:, at] - self.center[tails]) / (CLIP * self.width[tails])
        # x / sqrt(1 + x^2) has the slope (1 + x^2)^(-3/2), here in terms of itself.
        slope[:, at] *= np.maximum(1 - np.square(np.nan_to_num(clipped)), 0) ** 1.5
        return slope

    # What is missing

    def filled(self, X: Any, moments: Any) -> Any:
        """Return inputs in which what is not known has its mean, given the rest of the row.

        ``moments`` are the running statistics of the inputs, or None where there are none yet.
        """
        if not has_missing(X):
            return X
        if sparse.issparse(X):
            return self.roughly_filled(X, moments)
        X = X.copy()
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        X[rows] = self._complete(X[rows], moments, np.empty((0, len(self._numbers))))[0]
        return X

    def roughly_filled(self, X: Any, moments: Any = None) -> Any:
        """Return inputs in which what is not known has the mean of its column: quick.

        For numbers beside many levels, running statistics have it.
        """
        if not has_missing(X):
            return X
        X = X.copy()
        if sparse.issparse(X):
            gaps = np.isnan(X.data)
            X.data[gaps] = self._usual_so_far(moments)[X.indices[gaps]]
            return X
        return np.where(np.isnan(X), self._usual.astype(X.dtype), X)

    @cached_property
    def _usual(self) -> np.ndarray:
        """What fills gaps where the rest of the row is not asked."""
        usual = np.zeros(self.n_encoded)
        if not self.makes_sparse:
            usual[self._starts[self._numbers]] = self.mean[self._numbers]
        return usual

    def _usual_so_far(self, moments: Any) -> np.ndarray:
        # Beside many levels, statistics have the mean of what is left of numbers.
        has_means = self.makes_sparse and moments is not None
        return self._usual + moments.mean if has_means else self._usual

    def _complete(
        self, X: np.ndarray, moments: Any, nodes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows that are filled, and steps (k, rows, numbers) to what numbers may be."""
        X = X.copy()
        at = self._starts[self._numbers]
        gaps = np.isnan(X[:, at])
        if self.gaussian is not None:
            X[:, at], steps = self.gaussian.completions(X[:, at], nodes)
        else:
            mean, scale = self.mean[self._numbers], np.ones(len(at))
            if moments is not None and moments.weight.any():
                mean, scale = moments.mean[at], moments.scale[at]
            X[:, at] = np.where(gaps, mean, X[:, at])
            steps = np.where(gaps, nodes[:, ranks(gaps)] * scale, 0)
        for k, part in self._categories:
            block, shares = X[:, part], self.shares[k]
            assert shares is not None
            X[:, part] = np.where(np.isnan(block), shares, block)
        return X, steps

    def averaged(
        self, X: Any, errors: InputErrors | None, predict: Predict, moments: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict rows; mean and variance of a row with gaps are over what it may be."""
        mu, var = predict(self.filled(X, moments), errors)
        uncertain = self._uncertain_rows(X)
        if not len(uncertain):
            return mu, var
        mu, var = mu.copy(), var.copy()
        for start in range(0, len(uncertain), BLOCK_ROWS):
            rows = uncertain[start : start + BLOCK_ROWS]
            some = None if errors is None else errors.take(rows)
            center = mu[..., rows].astype(np.float64)
            shift, between, within = self._spread(X[rows], some, predict, moments, center)
            mu[..., rows] = center + shift * self._unknown(X[rows])
            var[..., rows] = within + between
        return mu, var

    def in_ways(
        self, X: Any, errors: InputErrors | None, predict: Predict, moments: Any
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Yield numbers of rows, and what is predicted of them, in each way to complete them.

        What ``predict`` returns has a first axis for the ways; rows without gaps have one.
        """
        uncertain, certain = self._uncertain_rows(X), np.arange(X.shape[0])
        if len(uncertain):
            certain = np.delete(certain, uncertain)
        if len(certain):
            x, some = (X, errors) if not len(uncertain) else _rows_of(X, errors, certain)
            yield certain, [a[None] for a in predict(self.filled(x, moments), some)]
        if len(uncertain):
            x, some = _rows_of(X, errors, uncertain)
            levels = self._levels_to_draw(x, predict, moments)
            ways = [predict(way, some) for way in self._completions(x, levels, moments)]
            yield uncertain, [np.stack(values) for values in zip(*ways, strict=True)]

    def gap_variance(self, X: Any, predict: Predict, moments: Any) -> np.ndarray:
        """Return what gaps add to the variance of outputs, (n_outputs, n): mean over members."""
        uncertain = self._uncertain_rows(X)
        result = None
        for start in range(0, max(1, len(uncertain)), BLOCK_ROWS):
            rows = uncertain[start : start + BLOCK_ROWS] if len(uncertain) else np.arange(1)
            center = predict(self.filled(X[rows], moments), None)[0].astype(np.float64)
            if result is None:
                result = np.zeros((center.shape[-2], X.shape[0]))
            if len(uncertain):
                found = self._spread(X[rows], None, predict, moments, center)[1]
                result[:, rows] = found.mean(axis=0)
        assert result is not None
        return result

    def _spread(
        self,
        X: Any,
        errors: InputErrors | None,
        predict: Predict,
        moments: Any,
        center: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what completions change of means: on average, in variance; and the variance."""
        shift, square, within = (np.zeros_like(center) for _ in range(3))
        levels = self._levels_to_draw(X, predict, moments)
        for x in self._completions(X, levels, moments):
            mu, var = predict(x, errors)
            shift += (mu - center) / N_DRAWS
            square += np.square(mu - center) / N_DRAWS
            within += var / N_DRAWS
        return shift, np.maximum(square - np.square(shift), 0), within

    def _unknown(self, X: Any) -> np.ndarray:
        """Return the share (rows,) of the mean over completions in the prediction of rows.

        What few training rows have taught of a gap is not yet in the mean.
        """
        share = np.ones(self.n_encoded)
        if self.knows_gaps:
            at = self._starts[self._numbers]
            share[at] = OWN_ROWS / (OWN_ROWS + self.n_missing[self._numbers])
        if sparse.issparse(X):
            of_entries = np.where(np.isnan(X.data), share[X.indices], 0)
            of_rows = sparse.csr_array((of_entries, X.indices, X.indptr), shape=X.shape)
            return of_rows.max(axis=1).toarray().ravel()
        return np.where(np.isnan(X), share, 0).max(axis=1)

    def _uncertain_rows(self, X: Any) -> np.ndarray:
        """Return the rows in which something is missing that may change the prediction."""
        if not has_missing(X):
            return np.empty(0, dtype=int)
        counts = np.zeros(self.n_encoded, dtype=bool)
        for _, part in self._categories:
            counts[part] = True
        counts[self._starts[self._numbers]] = self._unknown_share > 0
        if sparse.issparse(X):
            gaps = np.isnan(X.data) & counts[X.indices]
            return np.unique(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[gaps])
        return np.flatnonzero((np.isnan(X) & counts).any(axis=1))

    def _completions(self, X: Any, levels: dict[int, np.ndarray], moments: Any) -> Iterator[Any]:
        """Yield the rows with what they may be in the place of gaps."""
        orders = orders_of_draws(len(self._categories))
        if sparse.issparse(X):
            spread, usual = self._sparse_spread(moments), self._usual_so_far(moments)
            for normal, node in zip(normal_nodes(SPARSE_NODES), orders, strict=True):
                yield self._with_values(X, usual, spread, normal, levels, node)
            return
        gaps = np.isnan(X)
        at = self._starts[self._numbers]
        filled, steps = self._complete(X, moments, normal_nodes(len(at)))
        steps *= np.sqrt(self._unknown_share)
        for step, node in zip(steps, orders, strict=True):
            x = filled.copy()
            x[:, at] += step.astype(x.dtype)
            for (k, part), u in zip(self._categories, node, strict=True):
                if k in levels:
                    rows = np.flatnonzero(gaps[:, part.start])
                    x[rows, part] = 0
                    x[rows, part.start + levels[k][u]] = 1
            yield x

    def _sparse_spread(self, moments: Any) -> np.ndarray:
        """Return how far missing values of sparse inputs may be from the usual (n_encoded,)."""
        result = np.zeros(self.n_encoded)
        at = self._starts[self._numbers]
        if moments is not None and moments.weight.any():
            variance = np.square(moments.scale[at]) - np.square(self._usual[at])
            result[at] = np.sqrt(np.maximum(variance, 0) * self._unknown_share)
        return result

    def _with_values(
        self,
        X: Any,
        usual: np.ndarray,
        spread: np.ndarray,
        normal: np.ndarray,
        levels: dict[int, np.ndarray],
        node: np.ndarray,
    ) -> Any:
        """Return sparse rows in which what is not known has some value."""
        X = X.copy()
        for (k, part), u in zip(self._categories, node, strict=True):
            if k in levels:
                gaps = np.isnan(X.data) & (X.indices == part.start)
                X.indices[gaps] += levels[k][u]
                X.data[gaps] = 1
        gaps = np.isnan(X.data)
        column = X.indices[gaps]
        X.data[gaps] = usual[column] + spread[column] * normal[column % SPARSE_NODES]
        X.has_sorted_indices = False
        X.sort_indices()
        return X

    def _levels_to_draw(self, X: Any, predict: Predict, moments: Any) -> dict[int, np.ndarray]:
        """Return the levels (N_DRAWS,) that stand for all, of categories with gaps in these rows.

        If there are more levels than draws, they are quantiles of what levels do to predictions.
        """
        at = (
            X.indices[np.isnan(X.data)] if sparse.issparse(X) else np.isnan(X).any(axis=0).nonzero()
        )
        gaps = np.unique(at)
        result = {}
        for k, part in self._categories:
            if part.start not in gaps:
                continue
            shares = self.shares[k]
            assert shares is not None
            if len(shares) <= N_DRAWS:
                result[k] = np.repeat(np.arange(len(shares)), _counts(shares))
                continue
            names, levels = self.slot_names[k], self.levels[k]
            assert names is not None
            assert levels is not None
            if names[-1] == _beside("infrequent", levels):
                shares = shares[:-1]  # a mean of levels has less spread than these
            total = np.cumsum(shares)
            quantiles = (np.arange(CANDIDATES) + 0.5) / CANDIDATES
            some = np.searchsorted(total, quantiles * total[-1])
            rows = self._usual_rows_with(part, some, X, moments)
            effects = np.nan_to_num(predict(rows, None)[0].astype(np.float64))
            effects = effects.reshape(-1, CANDIDATES)
            effects -= effects.mean(axis=1, keepdims=True)
            main = np.linalg.svd(effects, full_matrices=False)[2][0]
            middle = (np.arange(N_DRAWS) + 0.5) * (CANDIDATES // N_DRAWS)
            result[k] = some[main.argsort(kind="stable")[middle.astype(int)]]
        return result

    def _usual_rows_with(self, part: slice, slots: np.ndarray, X: Any, moments: Any) -> Any:
        """Return rows of which only one category is known, with these levels."""
        if sparse.issparse(X):
            where = np.arange(len(slots)), part.start + slots
            entries = np.ones(len(slots), dtype=X.dtype)
            return sparse.csr_array((entries, where), shape=(len(slots), self.n_encoded))
        row = np.full((1, self.n_encoded), np.nan, dtype=X.dtype)
        row[:, self._starts[-1] :] = 0  # as if nothing were missing
        rows = np.repeat(self.filled(row, moments), len(slots), axis=0)
        rows[:, part] = 0
        rows[np.arange(len(slots)), part.start + slots] = 1
        return rows


def _counts(shares: np.ndarray) -> np.ndarray:
    """Return how many draws each of a few levels has: as many as of the rows."""
    expected = shares * N_DRAWS
    counts = np.floor(expected).astype(int)
    rest = np.argsort(counts - expected, kind="stable")[: N_DRAWS - counts.sum()]
    counts[rest] += 1
    return counts


def _rows_of(
    X: Any, errors: InputErrors | None, rows: np.ndarray
) -> tuple[Any, InputErrors | None]:
    return X[rows], None if errors is None else errors.take(rows)


def has_missing(X: Any) -> bool:
    """Tell whether a matrix, dense or sparse, has NaN."""
    return has_nan(X.data if sparse.issparse(X) else X)


def plain_columns(n_columns: int) -> Columns:
    """Return columns of numbers of which nothing is known."""
    zeros = np.zeros(n_columns)
    nothing: list[Any] = [None] * n_columns
    return Columns(
        [f"x{k}" for k in range(n_columns)], nothing, nothing, nothing, nothing,
        np.empty(0, dtype=int), zeros.astype(bool), zeros, zeros, zeros, zeros, None, zeros,
        False, False,
    )  # fmt: skip


def fit_columns(
    X: Any,
    weight: np.ndarray,
    names: Any,
    levels: list[list[str] | None] | None,
    *,
    streamed: bool,
    clips: bool,
) -> Columns:
    """Return what the columns of a table (n, n_columns) become.

    Those of a stream keep all levels that are declared or in its first rows, and say nothing of
    the distribution of numbers, which its running statistics know.
    """
    columns = plain_columns(X.shape[1])
    columns.knows_gaps = not streamed
    if names is not None:
        columns.names = [str(name) for name in names]
    if sparse.issparse(X):
        return _fit_sparse(columns, X, weight, streamed)
    weight = weight.astype(np.float64)
    gaps = np.isnan(X)
    columns.n_missing = weight @ gaps
    if levels is not None:
        columns.levels = levels
        columns.slots, columns.slot_names, columns.shares = [], [], []
        for column, of_column in zip(X.T, levels, strict=True):
            slots, slot_names, shares = _fit_levels(column, weight, of_column, streamed)
            columns.slots.append(slots)
            columns.slot_names.append(slot_names)
            columns.shares.append(shares)
    is_number = np.array([slots is None for slots in columns.slots])
    is_empty = is_number & gaps.all(axis=0)
    columns.is_empty = is_empty & (not streamed)
    partly = is_number & (columns.n_missing > FEWEST_ROWS - 0.5) & ~is_empty
    columns.missing_columns = np.flatnonzero(partly)
    if not streamed:
        numbers = np.flatnonzero(is_number)
        if clips:
            columns.center, columns.width = _tails(X, weight, is_number)
        clipped = columns._clipped(X[:, numbers])
        total = weight @ ~gaps[:, numbers]
        with np.errstate(over="ignore"):
            sums = weight @ np.where(gaps[:, numbers], 0, clipped.astype(np.float64))
        columns.mean = np.zeros(X.shape[1])
        columns.mean[numbers] = sums / np.where(total > 0, total, 1)
        columns.gaussian = fit_gaussian(clipped, weight)
    starts, n_encoded = columns._starts, columns.n_encoded
    columns.makes_sparse = columns.has_categories and n_encoded > MANY_COLUMNS
    columns.floor = np.zeros(n_encoded)
    columns.floor[starts[-1] :] = MISSING_SPREAD
    for _, part in columns._categories:
        columns.floor[part] = RARE_SPREAD
    if not streamed:
        columns.floor[starts[:-1][is_number]] = _floors(X[:, is_number])
    return columns


def _fit_sparse(columns: Columns, X: Any, weight: np.ndarray, streamed: bool) -> Columns:
    columns.is_sparse = True
    gaps = np.isnan(X.data)
    if gaps.any():
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        n = X.shape[1]
        columns.n_missing = np.bincount(X.indices[gaps], weight[rows[gaps]], minlength=n)
        n_gaps = np.bincount(X.indices[gaps], minlength=n)
        columns.is_empty = (n_gaps == X.shape[0]) & (not streamed)
        some = (columns.n_missing > FEWEST_ROWS - 0.5) & (n_gaps < X.shape[0])
        columns.missing_columns = np.flatnonzero(some)
        known = ~gaps
        sums = np.bincount(X.indices[known], weight[rows[known]] * X.data[known], minlength=n)
        total = weight.sum() - columns.n_missing
        columns.mean = sums / np.where(total > 0, total, 1)
    columns.floor = np.zeros(columns.n_encoded)
    columns.floor[X.shape[1] :] = MISSING_SPREAD
    return columns


def _fit_levels(
    column: np.ndarray, weight: np.ndarray, levels: list[str] | None, streamed: bool
) -> tuple[np.ndarray | None, list[str] | None, np.ndarray | None]:
    """Return the slots of levels and of "missing", their names, and their shares of the rows."""
    if levels is None:
        return None, None, None
    n = len(levels)
    number = np.where(np.isnan(column), n, column).astype(int)
    rows = np.bincount(number, weight, minlength=n + 1)
    own = rows > FEWEST_ROWS - 0.5
    if streamed:
        own[:n] = True
    elif np.count_nonzero(rows[:n][~own[:n]]) == 1:
        own[:n] |= rows[:n] > 0  # nothing to join it with
    slots = np.full(n + 1, -1)
    slots[own] = np.arange(np.count_nonzero(own))
    names = [*levels, _beside("missing", levels)]
    slot_names = [name for name, has in zip(names, own, strict=True) if has]
    joined = ~own & (rows > 0)
    joined[n] = False
    if joined.any():
        slots[joined] = len(slot_names)
        slot_names.append(_beside("infrequent", levels))
    known = slots[number] >= 0
    shares = np.bincount(slots[number][known], weight[known], minlength=len(slot_names))
    shares = (shares + 0.5) / (shares + 0.5).sum()
    return slots, slot_names, shares


def _beside(name: str, levels: list[str]) -> str:
    """Return a name that no level has."""
    while name in levels:
        name += "_"
    return name


def _tails(
    X: np.ndarray, weight: np.ndarray, is_number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return medians of the columns, and widths of those with wrong readings, zero for others."""
    center, width = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for k in np.flatnonzero(is_number):
        known = np.flatnonzero(~np.isnan(X[:, k]))
        if len(known) < FEWEST_TAILED:
            continue
        values, of_values = X[known, k].astype(np.float64), weight[known].astype(np.float64)
        rare = max(MOST_WRONG, FEW_WRONG / len(known))
        with np.errstate(over="ignore", invalid="ignore"):
            wrong, median, spread, farthest = beyond_a_gap(values, of_values, FAR, rare)
            if len(wrong) and np.isfinite(values[wrong]).all() and np.isfinite(spread):
                # What is not wrong is hardly bent.
                center[k], width[k] = median, spread * max(1.0, 2 * farthest / CLIP)
    return center, width


def without_tails(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return rows with NaN for values far from all others of their columns: wrong readings."""
    center, width = _tails(X, weight, np.ones(X.shape[1], dtype=bool))
    if not width.any():
        return X
    return np.where((width > 0) & (np.abs(X - center) > CLIP * width), np.nan, X)


def _floors(numbers: np.ndarray) -> np.ndarray:
    """Return the least scale of columns: columns of two values may have rare ones."""
    floors = np.zeros(numbers.shape[1])
    for k, column in enumerate(numbers.T):
        column = column[~np.isnan(column)]
        if len(column):
            low, high = float(column.min()), float(column.max())
            if low < high < np.inf and ((column == low) | (column == high)).all():
                floors[k] = RARE_SPREAD * (high - low)
    return floors
