"""Rows of data as they enter the engine, and the batches that are made of them.

Here arrays still have rows first; a ``Batch`` has them last, as all arrays of units, but for
sparse inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .encoding import Encoding
from .fast import has_nan, slices
from .inputs import InputErrors
from .keys import row_keys
from .observations import Targets
from .sparse import Entries, by_input

__all__ = ["Batch", "Copies", "Rows", "iterate_batches", "n_observed"]

# Pairs of copies of a row: numbers of networks, rows and their copies, in both orders.
Copies: TypeAlias = tuple[np.ndarray, ...]


def _at(values: Any, order: Any) -> Any:
    """Return values by number; ``take`` raises where memory is too short, an index may crash."""
    if isinstance(values, np.ndarray) and isinstance(order, np.ndarray) and order.dtype.kind == "i":
        return values.take(order, axis=0)
    return values[order]


class Rows(NamedTuple):
    """Training or validation rows."""

    x: Any  # (n, n_in + 1): last column ones; dense or CSR
    y: np.ndarray  # (n, n_targets), NaN where not observed, or (n,) class numbers
    weight: np.ndarray  # (n,)
    errors: InputErrors | None = None  # of x; None: exact
    noise_ratio: np.ndarray | None = None  # (n, n_noise): noise variance over noise_var; None: 1
    keys: np.ndarray | None = None  # (n,): equal for copies of a row
    # (n, n_noise): variance by what is missing in x, over noise_var; None: nothing is
    gap_ratio: np.ndarray | None = None

    def with_keys(self) -> Rows:
        """Return rows that know their copies; uncertain ones have none, as their errors differ."""
        if self.keys is not None or self.errors is not None:
            return self
        return self._replace(keys=row_keys(self.x))

    def take(self, order: np.ndarray) -> Rows:
        """Return rows by number, (..., n); of sparse ones (n,)."""
        return Rows(
            _at(self.x, order),
            _at(self.y, order),
            _at(self.weight, order),
            None if self.errors is None else self.errors.take(order),
            None if self.noise_ratio is None else _at(self.noise_ratio, order),
            None if self.keys is None else _at(self.keys, order),
            None if self.gap_ratio is None else _at(self.gap_ratio, order),
        )

    def encoded(self, encoding: Encoding) -> Rows:
        """Return rows as the first layer sees them; errors of its inputs are independent."""
        if self.errors is None:
            return self._replace(x=encoding(self.x))
        shape = self.x.shape[:-1]
        jacobian = encoding.jacobian(self.x.reshape(-1, self.x.shape[-1]))
        values = self.errors.values
        if self.errors.is_shared:
            values = np.broadcast_to(values, (*shape, values.shape[-1]))
        flat = values.reshape(-1, values.shape[-1])
        var = np.einsum(
            "rk,rke->re",
            flat,
            np.broadcast_to(np.square(jacobian), (len(flat), *jacobian.shape[1:])),
        )
        errors = InputErrors(var.reshape(*shape, -1).astype(self.x.dtype))
        return self._replace(x=encoding(self.x), errors=errors)

    def with_noise(self, ratio: np.ndarray) -> Rows:
        """Return rows with noise of their own, (n_noise, rows) over that of all.

        For those who learn a row, what gaps add to its variance is noise, too.
        """
        if self.gap_ratio is not None:
            ratio = ratio + self.gap_ratio.T
        return self._replace(noise_ratio=ratio.T.astype(self.weight.dtype))

    def noise(self, noise_var: np.ndarray) -> np.ndarray:
        """Return the noise variances of these rows, (..., n_noise, rows or 1)."""
        return noise_var if self.noise_ratio is None else noise_var * self.noise_ratio.T

    @property
    def entries(self) -> int:
        """Number of inputs of a row that are stored, on average."""
        x = self.x
        return x.shape[1] if isinstance(x, np.ndarray) else x.nnz // x.shape[0] + 1


class Batch(NamedTuple):
    """Rows that are learned at once, for each member its own; rows are the last axis."""

    x: Any  # (..., n_in + 1, rows); or the Entries of sparse rows
    var_x: Any  # (..., n_in, rows or 1), or sparse: variances of the inputs; None: exact
    value: np.ndarray  # (..., n_outputs, rows): of the targets
    outputs: np.ndarray | None  # (..., n_observed, rows): of which outputs, if these are few
    weight: np.ndarray | None  # (..., 1, rows): of the rows; None: all are 1
    observed_weight: np.ndarray | None  # (..., n_outputs or 1, rows): zero where not observed
    noise_ratio: np.ndarray | None  # (..., n_noise, rows): of Rows
    copies: Copies | None


def n_observed(y: np.ndarray) -> np.ndarray:
    """Count the rows that observe each target, (n_targets,); of class numbers (1,)."""
    if y.ndim == 1 or not has_nan(y):
        return np.full(y.shape[1:] or 1, len(y))
    return np.count_nonzero(~np.isnan(y), axis=0)


def iterate_batches(rows: Rows, targets: Targets, size: int) -> Iterator[tuple[slice, Batch]]:
    """Yield the batches of rows (..., n), and where each stands among them."""
    is_dense = isinstance(rows.x, np.ndarray)
    x = by_input(rows.x)
    var_x = None if rows.errors is None else by_input(rows.errors.values)
    same_errors = rows.errors is None or rows.errors.is_shared
    ratio = None if rows.noise_ratio is None else by_input(rows.noise_ratio)
    plain = (rows.weight == 1).all()
    has_copies = _batches_with_copies(rows.keys, size)
    value, observed, outputs = targets
    for number, part in enumerate(slices(rows.weight.shape[-1], size)):
        weight = None
        if not (plain or (rows.weight[..., part] == 1).all()):
            weight = rows.weight[..., None, part]
        observed_weight = weight
        if observed is not None:
            observed_weight = observed[..., part]
            if weight is not None:
                observed_weight = observed_weight * weight
        yield (
            part,
            Batch(
                x[..., part] if is_dense else Entries.of(x, part),
                var_x if same_errors else _of_rows(var_x, part),
                value[..., part],
                None if outputs is None else outputs[..., part],
                weight,
                observed_weight,
                None if ratio is None else ratio[..., part],
                _copies(rows.keys, part) if has_copies and has_copies[number] else None,
            ),
        )


def _of_rows(values: Any, part: slice) -> Any:
    """Return what belongs to some rows, dense or sparse."""
    return values[..., part] if isinstance(values, np.ndarray) else values[part]


def _batches_with_copies(keys: np.ndarray | None, size: int) -> list[bool]:
    """Tell which batches hold copies of a row."""
    if keys is None:
        return []
    n_rows = keys.shape[-1]
    whole = n_rows // size * size
    flags: list[bool] = []
    for part, length in ((keys[..., :whole], size), (keys[..., whole:], n_rows - whole)):
        if part.shape[-1]:
            ordered = np.sort(part.reshape(-1, part.shape[-1] // length, length), axis=-1)
            flags.extend((ordered[..., 1:] == ordered[..., :-1]).any(axis=(0, -1)))
    return flags


def _copies(keys: Any, part: slice) -> Copies:
    here = keys[..., part].reshape(-1, part.stop - part.start)
    same = here[:, :, None] == here[:, None, :]
    same.reshape(len(here), -1)[:, :: here.shape[1] + 1] = False
    return np.unravel_index(np.flatnonzero(same), same.shape)  # quicker than nonzero
