"""TAGIRegressor."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import validate_data

from ._base import BaseTAGI, Given, _check_weight
from ._scaling import Moments
from .engine.gaussian import log_density
from .engine.noise import GaussianOutputs

__all__ = ["TAGIRegressor"]


class TAGIRegressor(RegressorMixin, BaseTAGI):
    # With metadata routing enabled, a pipeline passes return_std on to predict.
    __metadata_request__predict = {"return_std": True}

    def fit(self, X, y, sample_weight=None, X_std=None):
        return self._fit(X, y, sample_weight, X_std)

    def partial_fit(self, X, y, sample_weight=None, X_std=None):
        return self._partial_fit(X, y, sample_weight, X_std)

    def predict(self, X, return_std=False, X_std=None):
        mean, epistemic, aleatoric = self._predictive(X, X_std)
        if return_std:
            return mean, np.sqrt(epistemic + aleatoric)
        return mean

    def predict_variance(self, X, X_std=None):
        _, epistemic, aleatoric = self._predictive(X, X_std)
        return epistemic, np.broadcast_to(aleatoric, epistemic.shape).copy()

    def predict_quantiles(self, X, quantiles, X_std=None):
        quantiles = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if quantiles.ndim != 1 or not ((quantiles > 0) & (quantiles < 1)).all():
            raise ValueError(f"quantiles must lie between 0 and 1, both excluded; got {quantiles}.")
        mean, std = self.predict(X, return_std=True, X_std=X_std)
        return mean[..., None] + std[..., None] * ndtri(quantiles).astype(std.dtype)

    def predict_interval(self, X, coverage=0.9, X_std=None):
        if not (np.ndim(coverage) == 0 and 0 < coverage < 1):
            raise ValueError(f"coverage must lie between 0 and 1, both excluded; got {coverage!r}.")
        return self.predict_quantiles(X, [(1 - coverage) / 2, (1 + coverage) / 2], X_std=X_std)

    def sample_y(self, X, n_samples=1, random_state=0, X_std=None):
        mean, std = self.predict(X, return_std=True, X_std=X_std)
        rng = check_random_state(random_state)
        draws = rng.standard_normal((*mean.shape, n_samples))
        return mean[..., None] + std[..., None] * draws

    def log_likelihood(self, X, y, sample_weight=None, X_std=None):
        mean, std = self.predict(X, return_std=True, X_std=X_std)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(mean, y)
        if y.size != mean.size:
            raise ValueError(f"y has shape {y.shape}, predictions have {mean.shape}.")
        log_lik = log_density(y.reshape(mean.shape), mean, np.square(std, dtype=np.float64))
        weight = _check_weight(sample_weight, len(mean))
        return float(np.average(log_lik.reshape(len(mean), -1).sum(axis=1), weights=weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _validate_X_y(self, X, y, *, reset):
        return validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32],
            multi_output=True, y_numeric=True,
        )  # fmt: skip

    def _validate_targets(self, y, *, first, incremental, classes):
        y = np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)
        if first or not incremental:
            if not first and columns.shape[1] != self.n_outputs_:
                raise ValueError(self._other_targets(columns.shape[1]))
            self._y_ndim = y.ndim
            self._n_targets = columns.shape[1]
        elif columns.shape[1] != self._n_targets:
            raise ValueError(self._other_targets(columns.shape[1]))
        return columns

    def _other_targets(self, n_targets: int) -> str:
        return f"y has {n_targets} targets, but the estimator is fitted to {self._n_targets}."

    def _observation_model(self) -> GaussianOutputs:
        return GaussianOutputs(self._n_targets)

    def _start_statistics(self, data: Given) -> None:
        super()._start_statistics(data)
        self._y_moments = Moments.empty(self._n_targets)

    def _update_statistics(self, data: Given) -> None:
        super()._update_statistics(data)
        if self.standardize:
            self._y_moments = self._y_moments.updated(data.y, data.weight, "y")

    def _score_offset(self) -> float:
        return -float(np.log(self._y_moments.scale).sum())

    def _standardised_targets(self, y, dtype):
        return self._y_moments.standardise(y, dtype)

    def _predictive(self, X, X_std):
        """Mean, variance of the network and variance of the noise, in original units."""
        mu_z, var_z = self._moments(X, X_std)
        moments, noise_var = self._y_moments, self._net.noise_var[:, 0]
        dtype = mu_z.dtype
        # Law of total variance over the members.
        mean = mu_z.mean(axis=0) * moments.scale + moments.mean
        epistemic = (var_z.mean(axis=0) + mu_z.var(axis=0)) * np.square(moments.scale)
        aleatoric = noise_var.mean(axis=0) * np.square(moments.scale)
        if self._y_ndim == 1:
            mean, epistemic, aleatoric = mean[:, 0], epistemic[:, 0], aleatoric[0]
        return mean.astype(dtype), epistemic.astype(dtype), aleatoric.astype(dtype)
