"""Proper scores of probabilistic predictions, and scorers for model selection."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.metadata_routing import UNUSED

from ._labels import as_labels, class_numbers
from ._validation import check_weight
from .engine.gaussian import log_density

__all__ = ["gaussian_log_likelihood", "log_likelihood_scorer"]


def gaussian_log_likelihood(y_true, mean, std, *, sample_weight=None) -> float:
    """Mean log density of targets under Gaussian predictions; greater is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets.

    mean, std : array-like, same shape
        Predictive means and standard deviations.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.

    Returns
    -------
    log_likelihood : float
        The mean over the rows; a row's density is that of all its targets.

    Examples
    --------
    >>> from sktagi.metrics import gaussian_log_likelihood
    >>> round(gaussian_log_likelihood([0.0, 1.0], [0.0, 0.5], [1.0, 0.5]), 4)
    -0.8224
    """
    y_true, mean, std = (
        check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
        for name, values in (("y_true", y_true), ("mean", mean), ("std", std))
    )
    check_consistent_length(y_true, mean, std)
    if mean.shape != std.shape or y_true.size != mean.size:
        raise ValueError(
            "y_true, mean and std must have the same shape; "
            f"got {y_true.shape}, {mean.shape} and {std.shape}."
        )
    if (std <= 0).any():
        raise ValueError("std must be positive.")
    weight = check_weight(sample_weight, len(mean))
    log_lik = log_density(y_true.reshape(mean.shape), mean, np.square(std))
    return float(np.average(log_lik.reshape(len(mean), -1).sum(axis=1), weights=weight))


class _LogLikelihoodScorer(BaseEstimator):
    """Mean log-likelihood of y under an estimator's predictions, for ``scoring=``.

    Classifiers are scored by ``predict_log_proba``, regressors by ``predict(X, return_std=True)``:
    those of sktagi, pipelines that end in one, and others such as GaussianProcessRegressor and
    BayesianRidge. It tunes ``sigma_v``, which R^2 cannot. Called as ``log_likelihood_scorer(
    estimator, X, y, sample_weight=None, X_std=None)``; greater is better. With metadata routing,
    ``clone(log_likelihood_scorer).set_score_request(sample_weight=True)`` is a weighted scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> from sktagi.metrics import log_likelihood_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(BayesianRidge(), X, y, scoring=log_likelihood_scorer, cv=3).round(2)
    array([-5.43, -5.46, -5.39])
    """

    __metadata_request__score = {"estimator": UNUSED}  # sample_weight and X_std may be requested

    def __call__(self, estimator, X, y, sample_weight=None, X_std=None) -> float:
        return self.score(estimator, X, y, sample_weight=sample_weight, X_std=X_std)

    def score(self, estimator, X, y, sample_weight=None, X_std=None) -> float:
        inputs = {} if X_std is None else {"X_std": X_std}
        if is_classifier(estimator):
            y = np.asarray(as_labels(y))
            log_proba = estimator.predict_log_proba(X, **inputs)
            chosen = log_proba[np.arange(len(y)), class_numbers(y, estimator.classes_)]
            return float(np.average(chosen, weights=check_weight(sample_weight, len(y))))
        mean, std = estimator.predict(X, return_std=True, **inputs)
        return gaussian_log_likelihood(y, mean, std, sample_weight=sample_weight)


log_likelihood_scorer = _LogLikelihoodScorer()
