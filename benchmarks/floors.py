"""What a pass over rows takes at least: matrix products, LAPACK and memory, and nothing else.

Functions of no argument, to be timed beside whole fits of the same shapes. They leave the number of
BLAS threads as it is; fits of small networks use one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.linalg import blas, lapack

from sktagi.engine.activations import ACTIVATIONS
from sktagi.engine.passes import Tape, backward, forward
from sktagi.engine.posterior import draw_prior

__all__ = ["conditioning", "fetching", "passes", "products"]


def products(sizes, n_rows: int, batch_size: int, epochs: int, dtype) -> Callable:
    """The matrix products of the forward and the backward pass, into existing arrays.

    Seven for a layer, four for the first, in the order of the equations: (rows, units) in memory.
    """
    rng = np.random.default_rng(0)
    layers = []
    for n_in, n_out in pairwise(sizes):
        a, s = rng.standard_normal((2, batch_size, n_in + 1)).astype(dtype)
        w, v = rng.standard_normal((2, n_in + 1, n_out)).astype(dtype)
        z, d = np.empty((batch_size, n_out), dtype), np.empty((n_in + 1, n_out), dtype)
        layers.append((a, s, w, v, z, d, np.empty((batch_size, n_in + 1), dtype)))

    def run():
        for _ in range(epochs * (n_rows // batch_size)):
            for number, (a, s, w, v, z, d, below) in enumerate(layers):
                np.dot(a, w, out=z)
                np.dot(s, v, out=z)
                np.dot(a.T, z, out=d)
                np.dot(s.T, z, out=d)
                if number:
                    np.dot(s, w, out=z)
                    np.dot(z, w.T, out=below)
                    np.dot(z, v.T, out=below)

    return run


def passes(sizes, n_rows: int, batch_size: int, epochs: int, dtype) -> Callable:
    """The engine's forward and backward pass, with given messages."""
    rng = np.random.RandomState(0)
    layers = [layer.members(0) for layer in draw_prior(sizes, [rng], dtype=dtype)]
    x = rng.standard_normal((n_rows, sizes[0] + 1)).astype(dtype)
    nu, kappa = 1e-6 * rng.random_sample((2, sizes[-1], batch_size)).astype(dtype)
    tape = Tape(layers, (), batch_size)
    relu = ACTIVATIONS["relu"]

    def run():
        for _ in range(epochs):
            for start in range(0, n_rows - batch_size + 1, batch_size):
                forward(layers, relu, x[start : start + batch_size].T, tape=tape)
                backward(layers, tape, nu, kappa)

    return run


def conditioning(sizes, n_batches: int, batch_size: int, members: int) -> Callable:
    """The covariance of a batch's rows and its inverse factor: products and LAPACK.

    One product for the first layer and two for each other, a Cholesky factor and its inverse.
    """
    rng = np.random.default_rng(0)
    widths = [sizes[0] + 1, *(width for n in sizes[1:-1] for width in (n + 1, n))]
    units = [rng.standard_normal((members, batch_size, width)) for width in widths]
    cov, identity = np.empty((members, batch_size, batch_size)), np.eye(batch_size)

    def run():
        for _ in range(n_batches):
            for a in units:
                np.matmul(a, a.swapaxes(-1, -2), out=cov)
            for matrix in cov:
                matrix.ravel()[:: batch_size + 1] += 1e3
                factor, _ = lapack.dpotrf(matrix.T, lower=True, overwrite_a=True, clean=False)
                blas.dtrsm(1.0, factor, identity, lower=True)

    return run


def fetching(X, n_units: int, batch_size: int) -> Callable:
    """Sparse rows: fetch the parameters of a batch's features, multiply, and put them back."""
    rng = np.random.default_rng(0)
    mu, var = rng.standard_normal((2, X.shape[1], n_units))
    batches = []
    for start in range(0, X.shape[0], batch_size):
        rows = X[start : start + batch_size]
        features, places = np.unique(rows.indices, return_inverse=True)
        shape = rows.shape[0], len(features)
        batches.append((features, sparse.csr_array((rows.data, places, rows.indptr), shape=shape)))

    def run():
        for features, x in batches:
            few = mu[features], var[features]
            z = [x @ values for values in few]
            for values in z:
                x.T @ values
            mu[features], var[features] = few

    return run
