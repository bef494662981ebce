"""Rows of a regressor together: covariances, joint draws of targets, drawn functions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._functions import SampledFunctions
from ._input import RandomState, check_count, check_rng
from .distribution import PredictiveDistribution
from .engine.joint import covariance, draw_functions
from .engine.linearised import root_of

__all__ = ["JointPredictionsMixin", "draw_jointly", "predictive_covariance"]


class JointPredictionsMixin:
    """Methods of a regressor that draw functions."""

    def sample_functions(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> SampledFunctions:
        """Draw functions from the posterior of the parameters.

        Each is one of the functions that the data leave possible, without noise: over many of them,
        mean and variance at a row are the mean of `predict` and the network's part of
        `predict_variance`, and rows go together as in ``predict(X, return_cov=True)``. To act as if
        one draw were the truth is Thompson sampling.

        Parameters
        ----------
        n_samples : int, default=1
            Number of functions.

        random_state : int, RandomState instance or None, default=None
            Determines the draws. None, other than in `sample_y`, so that each call draws new ones.

        Returns
        -------
        functions : SampledFunctions
            One object for all: ``functions(X)`` has shape ``(n_samples_X, n_samples)``, or
            ``(n_samples_X, n_targets, n_samples)`` for several targets. It keeps the posterior of
            now, whatever the estimator learns later, and can be pickled.

        Notes
        -----
        Where a value is missing, a function has its mean over what the value may be: draws vary
        less there than the network's part of `predict_variance`, which includes it.

        A draw is one network of the mixture, linearised in its parameters, with a draw of these.
        With ``target_transform``, it is mapped back to the units of y: without noise, that is the
        median of a target rather than its mean.
        """
        estimator = cast(Any, self)
        check_is_fitted(estimator)
        n_samples, rng = check_count(n_samples, "n_samples"), check_rng(random_state)
        with np.errstate(over="ignore", invalid="ignore"):
            draws = draw_functions(estimator._net.reported(), n_samples, rng)
        return SampledFunctions(estimator, draws)


def predictive_covariance(estimator: Any, X: Any, X_std: Any, X_cov: Any) -> tuple[Any, np.ndarray]:
    """Return means, and covariances (n, n) or (n, n, n_targets) whose diagonal is predict's var."""
    mean, epistemic, aleatoric = estimator._predictive(X, X_std, X_cov)
    n_rows = len(mean)
    variance = epistemic.reshape(n_rows, -1).T
    with np.errstate(over="ignore", invalid="ignore"):
        cov = _with_diagonal(_network_covariance(estimator, X), variance)
    rows = np.arange(n_rows)
    total = np.square(estimator._as_std(np.sqrt(epistemic + aleatoric)).astype(np.float64))
    cov[:, rows, rows] = total.reshape(n_rows, -1).T
    cov = np.moveaxis(cov, 0, -1)
    return mean, np.ascontiguousarray(cov if mean.ndim > 1 else cov[..., 0])


def _network_covariance(estimator: Any, X: Any) -> np.ndarray:
    """Return the covariance (n_targets, n, n) of the means of rows, filled and without errors."""
    net, scaling = estimator._net, estimator._scaling
    X = estimator._filled(estimator._validate_X(X), scaling)
    x = scaling.inputs(X, None, np.float64)[0]
    spread = 1.0 if net.calibration is None else net.calibration.spread
    return covariance(net.reported(), x, spread) * np.square(scaling.y.scale)[:, None, None]


def _with_diagonal(cov: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return covariances (n_targets, n, n) with other variances (n_targets, n) of the rows.

    What is more is a row's own, such as errors of its inputs and what it may be where values are
    missing. If it is less, the row is scaled.
    """
    cov = np.where(np.isfinite(cov), cov, 0)
    cov = (cov + cov.swapaxes(1, 2)) / 2  # products by BLAS may differ in the last bit
    before = np.einsum("oii->oi", cov)
    scale = np.sqrt(np.minimum(variance / np.where(before > 0, before, np.inf), 1))
    scale = np.where(variance < before, scale, 1)
    cov = cov * (scale[:, :, None] * scale[:, None, :])
    np.einsum("oii->oi", cov)[...] = variance
    return cov


def draw_jointly(
    dist: PredictiveDistribution, cov: np.ndarray, n_samples: int, rng: np.random.RandomState
) -> np.ndarray:
    """Draw targets of all rows together, in the shape of ``dist`` and a last axis of draws.

    Each row has its distribution ``dist``; Gaussian scores behind them have the correlations of
    ``cov``. Several targets are independent of each other.
    """
    by_target = np.moveaxis(cov.reshape(*cov.shape[:2], -1), -1, 0).astype(np.float64)
    draws = np.empty((n_samples, len(cov), len(by_target)))
    for k, matrix in enumerate(by_target):
        std = np.sqrt(matrix.diagonal())
        root = root_of(matrix / std[:, None] / std)
        draws[..., k] = (root @ rng.standard_normal((len(cov), n_samples))).T
    return dist._at_scores(draws.reshape(n_samples, *dist.shape))
