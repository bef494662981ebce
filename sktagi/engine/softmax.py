"""One output for each class: p(k | z) is the softmax of g z, with g = 1.702 / probit_scale.

So the difference of two outputs has nearly the probit of a tree's nodes: a logistic function is
nearly Phi with a scale of 1.702. Of Gaussian outputs, the mean of the softmax is nearly that of
g mu / sqrt(1 + pi g^2 var / 8): each is drawn towards zero by what is not known of it.

The site of an output is the working response of Fisher scoring, with p at these moments,

    noise = 1 / (g^2 p (1 - p)),   target = mu + (y - p) / (g p (1 - p)),   y = 1 or 0

which is what a row says in logistic regression. Nothing depends on the order of the classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .observations import ForAllMembers, Sites, Targets

__all__ = ["Softmax"]

LOGISTIC = 1.702  # scale of Phi in the place of a logistic function
# p (1 - p) of a row that says next to nothing: what it says is not computed to more digits.
LEAST_SPREAD = 1e-6


class Softmax(ForAllMembers):
    """Observation model of K classes; targets are class numbers 0 to K - 1."""

    n_noise = 1
    shares_factor = True
    has_slope = True

    def __init__(self, n_classes: int, probit_scale: float = 1 / 3):
        self.n_classes = n_classes
        self.n_outputs = n_classes
        self.probit_scale = probit_scale

    @property
    def gain(self) -> float:
        """Return g."""
        return LOGISTIC / self.probit_scale

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> Targets:
        """Translate class numbers (..., rows): 1 for the class, 0 for all others."""
        value = np.zeros((*y.shape[:-1], self.n_outputs, y.shape[-1]), dtype)
        np.put_along_axis(value, y[..., None, :], 1, axis=-2)
        return Targets(value)

    def sites(
        self,
        mu_z: np.ndarray,
        var_z: np.ndarray,
        value: np.ndarray,
        noise_var: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> Sites:
        """Return working responses; ``noise_var`` is noise of the outputs themselves."""
        p = np.exp(self.log_proba(mu_z, var_z + noise_var))
        spread = np.maximum(p * (1 - p), LEAST_SPREAD)
        target = mu_z + (value - p) / (self.gain * spread)
        noise = 1 / (self.gain**2 * spread) + noise_var
        return target.astype(mu_z.dtype, copy=False), noise.astype(mu_z.dtype, copy=False)

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log probability of each row's class, (..., 1, rows)."""
        log_proba = self.log_proba(mu_z, var_y)
        place = np.broadcast_to(y[..., None, :], (*log_proba.shape[:-2], 1, log_proba.shape[-1]))
        return np.take_along_axis(log_proba, place, axis=-2)

    def log_proba(self, mu_z: np.ndarray, var_y: np.ndarray) -> np.ndarray:
        """Return log probabilities of the classes, (..., n_classes, rows)."""
        gain = self.gain
        var = var_y + var_y.mean(axis=-2, keepdims=True)
        logits = mu_z * (gain / np.sqrt(1 + (np.pi / 8 * gain**2) * var))
        logits -= logits.max(axis=-2, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=-2, keepdims=True))
        return logits

    def proba_std(
        self, mu_z: np.ndarray, var_z: np.ndarray, noise_var: Any = 0.0, unknown: Any = 1.0
    ) -> np.ndarray:
        """Return the standard deviation of each probability that Gaussian outputs bring.

        The log-odds of a class, g z_k - log sum exp(g z_j) over the others, have to first order the
        variance s = g^2 (var_k + sum w_j^2 var_j), w_j the probabilities of the others beside each
        other. With q = p (1 - p) s, the probability has the variance p (1 - p) q / (1 + q): right
        for small s, p^2 (1 - p)^2 s, and for large ones, where it is 0 or 1. If only a share of
        ``var_z`` is ``unknown``, one or of each, the mean of the probability stays as it is.
        """
        dtype = mu_z.dtype
        mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)
        p = np.exp(self.log_proba(mu_z, var_z + noise_var))
        var_z = unknown * var_z
        squares = np.square(p) * var_z
        rest = np.maximum(1 - p, 1e-100)
        others = (squares.sum(axis=-2, keepdims=True) - squares) / np.square(rest)
        # Where a class is certain, weights of the others are lost in rounding; none exceeds 1.
        others = np.clip(others, 0, var_z.max(axis=-2, keepdims=True))
        spread = p * (1 - p)
        q = spread * self.gain**2 * (var_z + others)
        return np.sqrt(spread * q / (1 + q)).astype(dtype)
