"""Labels that a row may have or not: one output for each, seen through a probit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr

from .observations import ForAllMembers, Sites, Targets
from .probit import log_moment_ratio, probit_ratio, probit_sites

__all__ = ["Labels"]


class Labels(ForAllMembers):
    """Observation model of labels; targets are 1 where a row has a label, and 0 where not."""

    n_noise = 1
    shares_factor = True
    has_slope = True

    def __init__(self, n_labels: int, probit_scale: float = 1 / 3):
        self.n_labels = n_labels
        self.n_outputs = n_labels
        self.probit_scale = probit_scale

    def targets(self, y: np.ndarray, dtype: np.typing.DTypeLike) -> Targets:
        """Translate 1 and 0 (..., rows, n_labels) into signs."""
        return Targets((2 * y - 1).astype(dtype).swapaxes(-1, -2))

    def sites(
        self,
        mu_z: np.ndarray,
        var_z: np.ndarray,
        value: np.ndarray,
        noise_var: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> Sites:
        """Return the sites of signs; ``noise_var`` is noise of the outputs themselves."""
        return probit_sites(mu_z, var_z, value, self.probit_scale**2 + noise_var)

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log probability of all labels of a row together, (..., 1, rows)."""
        sign = (2 * y - 1).swapaxes(-1, -2)
        ratio = probit_ratio(mu_z, var_y, self.probit_scale**2)
        return log_ndtr(sign * ratio).sum(axis=-2, keepdims=True)

    def log_proba(self, mu_z: np.ndarray, var_y: np.ndarray) -> np.ndarray:
        """Return log probabilities of the labels, (..., n_labels, rows)."""
        return log_ndtr(probit_ratio(mu_z, var_y, self.probit_scale**2))

    def proba_std(
        self, mu_z: np.ndarray, var_z: np.ndarray, noise_var: Any = 0.0, unknown: Any = 1.0
    ) -> np.ndarray:
        """Return the standard deviation of each probability that Gaussian outputs bring."""
        dtype = mu_z.dtype
        mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)  # differences of moments
        scale_var = self.probit_scale**2 + np.asarray(noise_var)
        # Of the label or of its absence, whichever is less probable and known to more digits; Phi
        # stays above zero.
        ratio = np.maximum(-np.abs(probit_ratio(mu_z, var_z, scale_var)), -37)
        log_r = log_moment_ratio(ratio, unknown * var_z, scale_var)
        return np.exp(log_ndtr(ratio) + 0.5 * np.log(np.expm1(log_r) + 1e-300)).astype(dtype)
