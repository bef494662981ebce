"""Sparse rows: products with them, and batches in which only the features that occur take part.

A sparse matrix of inputs stays as it comes in, CSR with rows first, which is what products of SciPy
want; it is the same for all networks of a stack. Functions here take dense inputs (n_in, rows) and
sparse ones (rows, n_in).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .fast import transposed
from .posterior import Layer, forget

__all__ = [
    "Entries",
    "Features",
    "by_input",
    "outer",
    "product",
    "squared",
    "to_dense",
    "weighted_gram",
    "width",
]


# Elements of a batch that is dense in the features that occur: SciPy takes longer to make a matrix
# than such a product.
DENSE_ELEMENTS = 1 << 15
DENSER = 64  # times the memory of a block may be taken for a while


def by_input(rows: Any) -> Any:
    """Turn dense rows (..., rows, n_in) into (..., n_in, rows); leave sparse ones."""
    return transposed(rows) if isinstance(rows, np.ndarray) else rows


def width(x: Any) -> int:
    """Return as how many inputs a row counts where blocks of rows bound the memory.

    Of sparse rows those that are stored, on average; but they may be made dense in between.
    """
    if isinstance(x, np.ndarray):
        return x.shape[-1]
    return max(x.nnz // max(x.shape[0], 1) + 1, x.shape[1] // DENSER)


def to_dense(rows: Any) -> np.ndarray:
    """Return rows as an array."""
    return rows.toarray() if sparse.issparse(rows) else rows


def product(w: np.ndarray, a: Any) -> np.ndarray:
    """Return w' a for each network, (..., n_out, rows)."""
    if isinstance(a, np.ndarray):
        return transposed(w) @ a
    return transposed(_matmul(a, w))


def outer(a: Any, nu: np.ndarray) -> np.ndarray:
    """Return a nu' for each network, summed over rows, (..., n_in, n_out)."""
    nu_t = transposed(nu)
    return a @ nu_t if isinstance(a, np.ndarray) else _matmul(a.T, nu_t)


def _matmul(a: Any, b: np.ndarray) -> np.ndarray:
    return a @ b if b.ndim == 2 else np.stack([a @ part for part in b])


def squared(a: Any) -> Any:
    """Return the elementwise square."""
    return np.square(a) if isinstance(a, np.ndarray) else _with_values(a, np.square(a.data))


def weighted_gram(a: Any, weights: np.ndarray) -> np.ndarray:
    """Return sum_k weights_k a_ik a_jk of sparse rows, for each network."""
    if weights.ndim > 1:
        return np.stack([weighted_gram(a, part) for part in weights])
    scaled = _with_values(a, a.data * np.sqrt(weights)[a.indices])
    return (scaled @ scaled.T).toarray()


def _with_values(a: Any, values: np.ndarray) -> Any:
    return sparse.csr_array((values, a.indices, a.indptr), shape=a.shape)


class Entries(NamedTuple):
    """A few rows of a sparse matrix, as CSR has them: SciPy takes long to make a matrix of them."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray

    @classmethod
    def of(cls, x: Any, part: slice) -> Entries:
        """Return some of the rows of a CSR matrix, as views."""
        indptr = x.indptr[part.start : part.stop + 1]
        here = slice(indptr[0], indptr[-1])
        return cls(x.data[here], x.indices[here], indptr - indptr[0])

    def matrix(self, n_columns: int) -> Any:
        """Return the rows as a CSR matrix."""
        return sparse.csr_array(tuple(self), shape=(len(self.indptr) - 1, n_columns))

    def at(self, places: np.ndarray, n_places: int) -> Any:
        """Return rows whose entries are in other columns: dense (n_places, rows) if it is small."""
        n_rows = len(self.indptr) - 1
        if n_rows * n_places > DENSE_ELEMENTS:
            return self._replace(indices=places).matrix(n_places)
        dense = np.zeros((n_places, n_rows), self.data.dtype)
        dense[places, np.arange(n_rows).repeat(np.diff(self.indptr))] = self.data
        return dense


class Features:
    """The parameters of the first layer, of which a batch fetches a few and puts them back.

    The others wait. They forget when they are fetched, or at the end: ``elapsed`` (batches,) are
    the half-lives that have passed until each batch, or None, and ``forgotten`` those that the
    parameters of each feature have followed. Arrays are C-contiguous, as ``draw_prior`` makes them.
    """

    def __init__(self, layer: Layer, elapsed: np.ndarray | None):
        n_in = len(layer.mu)
        self.layer = layer
        self.elapsed = elapsed
        self.forgotten = np.zeros(n_in)
        self._occurs, self._place = np.zeros(n_in, bool), np.empty(n_in, np.int32)
        self._fetched: np.ndarray | None = None

    def fetch(self, x: Entries, number: int) -> tuple[Any, Layer, np.ndarray]:
        """Return a batch in terms of the features that occur, their parameters, and which.

        Of few features it is dense, (features, rows).
        """
        self._occurs[x.indices] = True
        touched = np.flatnonzero(self._occurs)
        self._occurs[touched] = False
        self._place[touched] = np.arange(len(touched))
        x_few = x.at(self._place[x.indices], len(touched))
        if self._fetched is None or self._fetched.shape[1] < len(touched):
            n_out, dtype = self.layer.mu.shape[1], self.layer.mu.dtype
            self._fetched = np.empty((2, 5 * len(touched) // 4, n_out), dtype)
        mu, var = self._fetched[:, : len(touched)]
        for values, few in ((self.layer.mu, mu), (self.layer.var, var)):
            _as_items(values).take(touched, out=_as_items(few), mode="clip")  # other modes copy
        layer = Layer(mu, var, self.layer.var_prior[touched])
        self.forget(layer, touched, number)
        return x_few, layer, touched

    def put_back(self, layer: Layer, touched: np.ndarray) -> None:
        """Write the parameters of a batch into the whole layer."""
        for values, few in ((self.layer.mu, layer.mu), (self.layer.var, layer.var)):
            _as_items(values).put(touched, _as_items(few), mode="clip")

    def forget(self, layer: Layer, features: np.ndarray | slice, number: int) -> None:
        """Forget what the parameters of some features have not forgotten until batch ``number``."""
        if self.elapsed is None:
            return
        until = self.elapsed[number]
        retained = np.exp2(self.forgotten[features] - until).astype(layer.mu.dtype)
        forget(layer.var, layer.var_prior, retained[:, None])
        self.forgotten[features] = until


def _as_items(values: np.ndarray) -> np.ndarray:
    """Return a view in which each row is one item, which NumPy copies as a whole."""
    return values.view(f"V{values.itemsize * values.shape[1]}")[:, 0]
