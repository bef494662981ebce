"""Classes as paths in a binary tree (App. C): probabilities and their standard deviations.

Class k is the binary number k with H = ceil(log2 K) digits; a node is a prefix of digits that some
class has, and an output unit. Digit 0 asks for the target +1, digit 1 for -1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr, owens_t

from .observations import Sites, Targets

__all__ = ["ClassTree", "class_tree"]


class ClassTree:
    """Observation model of K classes; targets are class numbers 0 to K - 1."""

    n_noise = 1

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
        # For each prefix of a level: its parent's place among those of the level above, the
        # parent's node, and whether its last digit is 0. The last level is the classes in order.
        self._levels = []
        above = np.array([1])
        for shift in reversed(range(n_levels)):
            here = np.unique((number | (1 << n_levels)) >> shift)
            parent = here >> 1
            places = np.searchsorted(above, parent), np.searchsorted(names, parent)
            self._levels.append((*places, here % 2 == 0))
            above = here

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> Targets:
        """Translate class numbers (..., rows): +1 or -1 on each node of their paths."""
        outputs, signs = (_by_level(a[y]) for a in (self.nodes, self.signs.astype(dtype)))
        value, observed = np.zeros((2, *y.shape[:-1], self.n_outputs, y.shape[-1]), dtype)
        np.put_along_axis(value, outputs, signs, axis=-2)
        np.put_along_axis(observed, outputs, 1, axis=-2)
        return Targets(value, observed, outputs)

    def sites(
        self, mu_z: np.ndarray, var_z: np.ndarray, value: np.ndarray, noise_var: np.ndarray
    ) -> Sites:
        """Return +1 and -1 with the noise as it is, as in the paper."""
        return value, noise_var

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log probability of each row's class, (..., 1, rows).

        It needs the nodes of two paths only: that of the class, and that of the last class, along
        which branches lead to leaves that no class has.
        """
        ratio = self._ratio(mu_z, var_y)
        nodes, signs = _by_level(self.nodes[y]), _by_level(self.signs[y])
        nodes = np.broadcast_to(nodes, (*ratio.shape[:-2], *nodes.shape[-2:]))
        on_path = log_ndtr(np.take_along_axis(ratio, nodes, axis=-2) * signs)
        log_lik = on_path.sum(axis=-2, keepdims=True) - self._log_total(ratio)
        return log_lik.astype(ratio.dtype)

    def log_proba(self, mu_z: np.ndarray, var_y: np.ndarray) -> np.ndarray:
        """Return normalised log probabilities (App. C), (..., n_classes, rows)."""
        ratio = self._ratio(mu_z, var_y)
        log_proba = self._along_paths(log_ndtr(ratio), log_ndtr(-ratio))
        log_proba -= log_proba.max(axis=-2, keepdims=True)
        log_proba -= np.log(np.exp(log_proba).sum(axis=-2, keepdims=True))
        return log_proba

    def _ratio(self, mu_z: np.ndarray, var_y: np.ndarray) -> np.ndarray:
        """Return c = mu / sqrt(alpha^2 + var), so that E[Phi(y / alpha)] = Phi(c)."""
        ratio = mu_z / np.sqrt(self.probit_scale**2 + var_y)
        # Beyond this a probability is 0 or 1, and its logarithm still finite in float32.
        return np.clip(ratio, -1e15, 1e15)

    def _log_total(self, ratio: np.ndarray) -> np.ndarray:
        """Return the log probability that a path ends in a class: up to the last class or on it."""
        last, signs = self.nodes[-1], self.signs[-1]
        terms = []
        so_far = np.zeros((*ratio.shape[:-2], 1, ratio.shape[-1]), dtype=ratio.dtype)
        for node, sign in zip(last, signs, strict=True):
            c = ratio[..., node, None, :]
            if sign < 0:  # all paths that turn to digit 0 here end in a class
                terms.append(so_far + log_ndtr(c))
            so_far = so_far + log_ndtr(sign * c)
        return np.logaddexp.reduce(np.stack([*terms, so_far]), axis=0)

    def proba_std(self, mu_z: np.ndarray, var_y: np.ndarray) -> np.ndarray:
        """Return standard deviations of the class probabilities, given Gaussian outputs.

        With c = mu / sqrt(alpha^2 + var), E[Phi(y / alpha)] = Phi(c) and E[Phi(y / alpha)^2] =
        Phi(c) - 2 T(c, alpha / sqrt(alpha^2 + 2 var)), T Owen's function. Nodes are independent,
        so both moments multiply along a path: with r the product of E[Phi^2] / E[Phi]^2, a
        probability p has the standard deviation p sqrt(r - 1). The sum that normalises the
        probabilities counts as a constant.
        """
        alpha = self.probit_scale
        dtype = mu_z.dtype
        mu_z, var_y = mu_z.astype(np.float64), var_y.astype(np.float64)  # differences of moments
        ratio = np.clip(mu_z / np.sqrt(alpha**2 + var_y), -37, 37)  # Phi stays above zero
        owen = 2 * owens_t(ratio, alpha / np.sqrt(alpha**2 + 2 * var_y))  # even in c
        log_r = self._along_paths(_log_spread(ratio, owen), _log_spread(-ratio, owen))
        log_p = self.log_proba(mu_z, var_y)
        with np.errstate(divide="ignore"):
            std = np.exp(log_p + 0.5 * (log_r + np.log(-np.expm1(-log_r))))
        # No variable between 0 and 1 with mean p varies more than sqrt(p (1 - p)).
        bound = np.sqrt(np.exp(log_p) * -np.expm1(np.minimum(log_p, 0)))
        return np.minimum(std, bound).astype(dtype)

    def _along_paths(self, if_zero: np.ndarray, if_one: np.ndarray) -> np.ndarray:
        """Sum over the path of each class what a node says for its digit 0 or 1."""
        *lead, _, n_rows = if_zero.shape
        total = np.zeros((*lead, 1, n_rows), dtype=if_zero.dtype)
        for parent, node, is_zero in self._levels:  # from the prefixes of a level to the next
            zero = is_zero[:, None]
            branch = np.where(zero, if_zero[..., node, :], if_one[..., node, :])
            total = total[..., parent, :] + branch
        return total


@lru_cache(maxsize=16)
def class_tree(n_classes: int, probit_scale: float) -> ClassTree:
    """Return the tree of some classes; streams ask for the same one with every row."""
    return ClassTree(n_classes, probit_scale)


def _by_level(values: np.ndarray) -> np.ndarray:
    """Return (..., rows, levels) as (..., levels, rows)."""
    return values.swapaxes(-1, -2)


def _log_spread(ratio: np.ndarray, owen: np.ndarray) -> np.ndarray:
    """Return log(E[Phi^2] / E[Phi]^2) of a node, at least 0."""
    square = np.maximum(ndtr(ratio) - owen, np.finfo(ratio.dtype).tiny)
    return np.maximum(np.log(square) - 2 * log_ndtr(ratio), 0)
