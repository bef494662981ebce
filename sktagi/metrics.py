"""Proper scores of probabilistic predictions, and scorers for model selection."""

from __future__ import annotations

import numpy as np
from sklearn.base import is_classifier

from ._labels import as_labels, class_numbers
from .engine.gaussian import log_density

__all__ = ["log_likelihood_scorer"]


def log_likelihood_scorer(estimator, X, y, sample_weight=None):
    """Mean log-likelihood of ``y`` under the predictions of ``estimator``; greater is better."""
    if is_classifier(estimator):
        y = np.asarray(as_labels(y))
        log_proba = estimator.predict_log_proba(X)
        log_lik = log_proba[np.arange(len(y)), class_numbers(y, estimator.classes_)]
    else:
        mean, std = estimator.predict(X, return_std=True)
        y = np.asarray(y, dtype=np.float64).reshape(mean.shape)
        log_lik = log_density(y, mean, np.square(std, dtype=np.float64))
        log_lik = log_lik.reshape(len(y), -1).sum(axis=1)
    return float(np.average(log_lik, weights=sample_weight))
