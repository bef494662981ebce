"""Classes as paths in a binary tree (App. C): probabilities and their standard deviations.

Class k is the binary number k with H = ceil(log2 K) digits; a node is a prefix of digits that some
class has, and an output unit. Digit 0 asks for the target +1, digit 1 for -1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, owens_t

__all__ = ["ClassTree"]


class ClassTree:
    """Observation model of K classes; targets are class numbers 0 to K - 1."""

    shared_noise = True

    def __init__(self, n_classes: int, probit_scale: float = 1 / 3):
        self.n_classes = n_classes
        self.probit_scale = probit_scale
        n_levels = max(1, (n_classes - 1).bit_length())
        number = np.arange(n_classes)
        digits = (number[:, None] >> np.arange(n_levels)[::-1]) & 1
        # A prefix with a leading 1 names a node over all levels.
        prefixes = (number[:, None] | (1 << n_levels)) >> np.arange(1, n_levels + 1)[::-1]
        names, nodes = np.unique(prefixes, return_inverse=True)
        self.n_outputs = len(names)
        self.nodes = nodes.reshape(n_classes, n_levels)  # the path of each class
        self.signs = 1.0 - 2.0 * digits
        self.codes = np.zeros((n_classes, self.n_outputs))
        np.put_along_axis(self.codes, self.nodes, self.signs, axis=1)

    def targets(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """+1 or -1 on the nodes of a row's path; the other nodes are not observed."""
        codes = self.codes[y]
        return codes, codes != 0

    def log_likelihood(self, mu_z, var_y, y) -> np.ndarray:
        """Log probability of each row's class, shape (..., rows, 1)."""
        log_proba = self.log_proba(mu_z, var_y)
        y = np.broadcast_to(np.asarray(y)[..., None], (*log_proba.shape[:-1], 1))
        return np.take_along_axis(log_proba, y, axis=-1)

    def log_proba(self, mu_z, var_y) -> np.ndarray:
        """Normalised log probabilities (App. C); ``var_y`` includes the noise."""
        log_proba = self._path_sum(mu_z, var_y)
        return log_proba - logsumexp(log_proba, axis=-1, keepdims=True)

    def proba_std(self, mu_z, var_y) -> np.ndarray:
        """Standard deviations of the class probabilities, given Gaussian outputs.

        With c = mu / sqrt(alpha^2 + var), E[Phi(y / alpha)] = Phi(c) and E[Phi(y / alpha)^2] =
        Phi(c) - 2 T(c, alpha / sqrt(alpha^2 + 2 var)), T Owen's function. Nodes are independent,
        so both moments multiply along a path. The constant that normalises the means divides.
        """
        alpha = self.probit_scale
        ratio = mu_z / np.sqrt(alpha**2 + var_y)
        # T is even in c, so both digits of a node share it.
        owen = 2 * owens_t(ratio, alpha / np.sqrt(alpha**2 + 2 * var_y))
        shape = (*ratio.shape[:-1], self.n_classes)
        first = np.ones(shape, dtype=ratio.dtype)
        second = np.ones(shape, dtype=ratio.dtype)
        for nodes, signs in zip(self.nodes.T, self.signs.T, strict=True):
            mean = ndtr(ratio[..., nodes] * signs)
            first *= mean
            second *= np.maximum(mean - owen[..., nodes], mean * mean)
        spread = np.sqrt(np.maximum(second - first * first, 0))
        log_total = logsumexp(self._path_sum(mu_z, var_y), axis=-1, keepdims=True)
        return spread * np.exp(-log_total)

    def _path_sum(self, mu_z, var_y):
        ratio = mu_z / np.sqrt(self.probit_scale**2 + var_y)
        both = np.stack([log_ndtr(ratio), log_ndtr(-ratio)], axis=-1)
        out = np.zeros((*ratio.shape[:-1], self.n_classes), dtype=ratio.dtype)
        for nodes, signs in zip(self.nodes.T, self.signs.T, strict=True):
            out += both[..., nodes, (signs < 0).astype(int)]
        return out
