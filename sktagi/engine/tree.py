"""Classes as paths in a binary tree (App. C): probabilities and their standard deviations.

Leaf k is the binary number k with H = ceil(log2 K) digits; a node is a prefix of digits that some
leaf has, and an output unit. Digit 0 asks for the sign +1, digit 1 for -1. A class is the leaf of
its number, or each member has an order of its own: which classes are neighbours is arbitrary.

The paper takes a sign for a number that is observed with Gaussian noise. As a sign it is observed
through a probit (``probit``). Two classes are one node, whatever their order.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from .observations import Members, Sites, Targets
from .probit import log_moment_ratio, probit_ratio, probit_sites

__all__ = ["ClassTree"]


class ClassTree:
    """Observation model of K classes; targets are class numbers 0 to K - 1.

    ``is_probit`` says how signs are observed: through a probit, or as numbers with noise. ``order``
    (members, K), or (K,) of one member, are the leaves of the classes; None: their numbers.
    """

    n_noise = 1
    shares_factor = False

    def __init__(
        self,
        n_classes: int,
        probit_scale: float = 1 / 3,
        is_probit: bool = False,
        order: np.ndarray | None = None,
    ):
        self.n_classes = n_classes
        self.probit_scale = probit_scale
        self.is_probit = is_probit
        self.order = order
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

    @property
    def has_slope(self) -> bool:
        """Whether signs are seen through a probit, in one tree for all members."""
        return self.is_probit and self.order is None

    def members(self, numbers: Members) -> ClassTree:
        """Return the tree of some members."""
        if self.order is None:
            return self
        tree = copy(self)
        tree.order = self.order[numbers]
        return tree

    def _leaves(self, y: np.ndarray) -> np.ndarray:
        """Return the leaves of class numbers (..., rows), for each member."""
        if self.order is None:
            return y
        if self.order.ndim == 1:
            return self.order[y]
        if y.ndim == 1:
            return self.order[:, y]
        return np.take_along_axis(self.order, y, axis=-1)

    def _by_class(self, values: np.ndarray) -> np.ndarray:
        """Return what is said of leaves (..., n_classes, rows) in the order of the classes."""
        if self.order is None:
            return values
        order = np.broadcast_to(self.order[..., None], values.shape)
        return np.take_along_axis(values, order, axis=-2)

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> Targets:
        """Translate class numbers (..., rows): +1 or -1 on each node of their paths."""
        y = self._leaves(y)
        outputs, signs = (_by_level(a[y]) for a in (self.nodes, self.signs.astype(dtype)))
        value, observed = np.zeros((2, *y.shape[:-1], self.n_outputs, y.shape[-1]), dtype)
        np.put_along_axis(value, outputs, signs, axis=-2)
        np.put_along_axis(observed, outputs, 1, axis=-2)
        return Targets(value, observed, outputs)

    def sites(
        self,
        mu_z: np.ndarray,
        var_z: np.ndarray,
        value: np.ndarray,
        noise_var: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> Sites:
        """Return +1 and -1 with the noise as it is, as in the paper, or the sites of a probit."""
        if not self.is_probit:
            return value, noise_var
        sign = np.where(value < 0, value, 1)  # what is not observed has any
        return probit_sites(mu_z, var_z, sign, self.probit_scale**2 + noise_var)

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log probability of each row's class, (..., 1, rows).

        It needs the nodes of two paths only: that of the class, and that of the last class, along
        which branches lead to leaves that no class has.
        """
        ratio = probit_ratio(mu_z, var_y, self.probit_scale**2)
        y = self._leaves(y)
        nodes, signs = _by_level(self.nodes[y]), _by_level(self.signs[y])
        nodes = np.broadcast_to(nodes, (*ratio.shape[:-2], *nodes.shape[-2:]))
        on_path = log_ndtr(np.take_along_axis(ratio, nodes, axis=-2) * signs)
        log_lik = on_path.sum(axis=-2, keepdims=True) - self._log_total(ratio)
        return log_lik.astype(ratio.dtype)

    def log_proba(self, mu_z: np.ndarray, var_y: np.ndarray) -> np.ndarray:
        """Return normalised log probabilities (App. C), (..., n_classes, rows)."""
        ratio = probit_ratio(mu_z, var_y, self.probit_scale**2)
        log_proba = self._along_paths(log_ndtr(ratio), log_ndtr(-ratio))
        log_proba -= log_proba.max(axis=-2, keepdims=True)
        log_proba -= np.log(np.exp(log_proba).sum(axis=-2, keepdims=True))
        return self._by_class(log_proba)

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

    def proba_std(
        self, mu_z: np.ndarray, var_z: np.ndarray, noise_var: Any = 0.0, unknown: Any = 1.0
    ) -> np.ndarray:
        """Return the standard deviation of each probability that Gaussian outputs bring.

        Nodes are independent, so first and second moments of Phi (``probit``) multiply along a
        path: with r the product of E[Phi^2] / E[Phi]^2, a probability p has the standard deviation
        p sqrt(r - 1). The sum that normalises the probabilities counts as a constant. Noise belongs
        to the probability itself, not to what is unknown of it. If only a share of ``var_z`` is
        ``unknown``, the mean of the probability stays as it is.
        """
        dtype = mu_z.dtype
        mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)  # differences of moments
        scale_var = self.probit_scale**2 + np.asarray(noise_var)
        ratio = np.clip(mu_z / np.sqrt(scale_var + var_z), -37, 37)  # Phi stays above zero
        log_r = self._by_class(
            self._along_paths(
                *(log_moment_ratio(c, unknown * var_z, scale_var) for c in (ratio, -ratio))
            )
        )
        log_p = self.log_proba(mu_z, var_z + noise_var)
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


def _by_level(values: np.ndarray) -> np.ndarray:
    """Return (..., rows, levels) as (..., levels, rows)."""
    return values.swapaxes(-1, -2)
