"""Sparse rows: products with them, and batches in which only the features that occur take part.

In the engine a sparse matrix of inputs is (n_in, rows), a CSC array that shares its entries with
the CSR rows that came in. It is the same for all networks of a stack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .fast import transposed
from .posterior import Layer, forget

__all__ = ["Features", "matmul", "product", "squared", "weighted_gram"]


def matmul(a: Any, b: np.ndarray) -> np.ndarray:
    """Return a @ b for each network; ``a`` is dense or sparse."""
    if isinstance(a, np.ndarray) or b.ndim == 2:
        return a @ b
    return np.stack([a @ part for part in b])


def product(w: np.ndarray, a: Any) -> np.ndarray:
    """Return w' a for each network; ``a`` is dense or sparse."""
    return transposed(w) @ a if isinstance(a, np.ndarray) else transposed(matmul(a.T, w))


def squared(a: Any) -> Any:
    """Return the elementwise square, dense or sparse."""
    return np.square(a) if isinstance(a, np.ndarray) else _with_values(a, np.square(a.data))


def weighted_gram(a: Any, weights: np.ndarray) -> np.ndarray:
    """Return sum_k weights_k a_ki a_kj of a sparse ``a``, for each network."""
    if weights.ndim > 1:
        return np.stack([weighted_gram(a, part) for part in weights])
    scaled = _with_values(a, a.data * np.sqrt(weights)[a.indices])
    return (scaled.T @ scaled).toarray()


def _with_values(a: Any, values: np.ndarray) -> Any:
    return sparse.csc_array((values, a.indices, a.indptr), shape=a.shape)


class Features:
    """The parameters of the first layer, of which a batch fetches a few and puts them back.

    The others wait. They forget when they are fetched, or at the end: ``elapsed`` (batches,) are
    the half-lives until each batch, or None, and ``forgotten`` tells how far each feature has been
    brought. Arrays lie row by row in memory, as ``draw_prior`` makes them.
    """

    def __init__(self, layer: Layer, elapsed: np.ndarray | None):
        n_in = len(layer.mu)
        self.layer = layer
        self.elapsed = elapsed
        self.forgotten = np.zeros(n_in)
        self._occurs, self._place = np.zeros(n_in, bool), np.empty(n_in, np.int32)
        self._fetched: np.ndarray | None = None

    def fetch(self, x: Any, number: int) -> tuple[Any, Layer, np.ndarray]:
        """Return a batch in terms of the features that occur, their parameters, and which."""
        self._occurs[x.indices] = True
        touched = np.flatnonzero(self._occurs)
        self._occurs[touched] = False
        self._place[touched] = np.arange(len(touched))
        shape = len(touched), x.shape[1]
        x = sparse.csc_array((x.data, self._place[x.indices], x.indptr), shape=shape)
        if self._fetched is None or self._fetched.shape[1] < len(touched):
            n_out, dtype = self.layer.mu.shape[1], self.layer.mu.dtype
            self._fetched = np.empty((2, 5 * len(touched) // 4, n_out), dtype)
        mu, var = self._fetched[:, : len(touched)]
        for values, few in ((self.layer.mu, mu), (self.layer.var, var)):
            _as_items(values).take(touched, out=_as_items(few), mode="clip")  # other modes copy
        layer = Layer(mu, var, self.layer.var_prior[touched])
        self.forget(layer, touched, number)
        return x, layer, touched

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
