"""Sparse batches: only the parameters of the features that occur in a batch take part in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .network import Layer, forget

__all__ = ["Features"]


class Features:
    """The parameters of the first layer, of which a batch fetches few and puts them back.

    Those of the others wait. They forget when they are fetched, or at the end: ``elapsed``
    (batches) are the half-lives until each batch, or None, and ``faded`` tells how far each
    feature has been brought. Arrays lie row by row in memory, as ``draw_prior`` makes them.
    """

    def __init__(self, layer: Layer, elapsed: np.ndarray | None):
        n_in = len(layer.mu)
        self.layer = layer
        self.elapsed = elapsed
        self.faded = np.zeros(n_in)
        self._occurs, self._place = np.zeros(n_in, bool), np.empty(n_in, np.int32)
        self._fetched: np.ndarray | None = None

    def fetch(self, x, number: int) -> tuple[Any, Layer, np.ndarray]:
        """The rows of a batch in terms of the features that occur, their parameters, and which."""
        self._occurs[x.indices] = True
        touched = np.flatnonzero(self._occurs)
        self._occurs[touched] = False
        self._place[touched] = np.arange(len(touched))
        shape = x.shape[0], len(touched)
        x = sparse.csr_array((x.data, self._place[x.indices], x.indptr), shape=shape)
        if self._fetched is None or self._fetched.shape[1] < len(touched):
            n_out, dtype = self.layer.mu.shape[1], self.layer.mu.dtype
            self._fetched = np.empty((2, 5 * len(touched) // 4, n_out), dtype)
        mu, var = self._fetched[:, : len(touched)]
        for values, few in ((self.layer.mu, mu), (self.layer.var, var)):
            _as_items(values).take(touched, out=_as_items(few), mode="clip")  # other modes copy
        layer = Layer(mu, var, self.layer.var_prior[touched])
        self.fade(layer, touched, number)
        return x, layer, touched

    def put_back(self, layer: Layer, touched: np.ndarray) -> None:
        for values, few in ((self.layer.mu, layer.mu), (self.layer.var, layer.var)):
            _as_items(values).put(touched, _as_items(few), mode="clip")

    def fade(self, layer: Layer, features, number: int) -> None:
        """Forget what the parameters of some features have not forgotten until some batch."""
        if self.elapsed is None:
            return
        until = self.elapsed[number]
        keep = np.exp2(self.faded[features] - until).astype(layer.mu.dtype)
        forget([layer], keep[:, None])
        self.faded[features] = until


def _as_items(values: np.ndarray) -> np.ndarray:
    """A view in which each row is one item, which NumPy copies as a whole."""
    return values.view(f"V{values.itemsize * values.shape[1]}")[:, 0]
