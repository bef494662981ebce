"""Scorers: scores of an estimator's predictions, for ``scoring=``. Greater is always better."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.metadata_routing import UNUSED

from .._labels import as_labels, class_numbers
from .._predictions import fitted_part, mean_and_std
from .._validation import check_weight
from ._scores import calibration_error, gaussian_crps, gaussian_log_likelihood, interval_score

__all__ = [
    "calibration_scorer",
    "crps_scorer",
    "interval_score_scorer",
    "log_likelihood_scorer",
]


class _Scorer(BaseEstimator):
    """A callable ``(estimator, X, y, sample_weight=None, X_std=None, X_cov=None)``.

    An estimator of scikit-learn by class, so that it can be cloned and request metadata.
    """

    __metadata_request__score = {"estimator": UNUSED}  # weights, X_std and X_cov may be

    def __call__(self, estimator, X, y, sample_weight=None, X_std=None, X_cov=None) -> float:
        return self.score(estimator, X, y, sample_weight, X_std, X_cov)

    def score(self, estimator, X, y, sample_weight=None, X_std=None, X_cov=None) -> float:
        given = {"X_std": X_std, "X_cov": X_cov}
        inputs = {name: value for name, value in given.items() if value is not None}
        return self._score(fitted_part(estimator), X, y, sample_weight, inputs)

    def _score(self, estimator, X, y, sample_weight, inputs) -> float:
        mean, std = mean_and_std(estimator, X, **inputs)
        return self._of_predictions(y, mean, std, sample_weight)

    def _of_predictions(self, y, mean, std, sample_weight) -> float:
        raise NotImplementedError

    def _accept_sample_weight(self) -> bool:
        return True  # scikit-learn asks so before it hands weights to one of several scorers


class _LogLikelihoodScorer(_Scorer):
    """Mean log-likelihood of y under an estimator's predictions, for ``scoring=``.

    Classifiers are scored by ``predict_log_proba`` or ``predict_proba``, regressors by
    ``predict(X, return_std=True)``: those of sktagi, pipelines that end in one, and others such as
    GaussianProcessRegressor and BayesianRidge. It tunes ``sigma_v``, which R^2 cannot. Called as
    ``log_likelihood_scorer(estimator, X, y, sample_weight=None, X_std=None, X_cov=None)``; greater
    is better. With metadata routing,
    ``clone(log_likelihood_scorer).set_score_request(sample_weight=True)`` is a weighted scorer.

    Notes
    -----
    scikit-learn's ``ScoringMonitor`` takes scorers that scikit-learn has not made in a dictionary
    only: ``ScoringMonitor(scoring={"log_likelihood": log_likelihood_scorer})``. This holds for the
    other scorers of this module too.

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

    def _score(self, estimator, X, y, sample_weight, inputs) -> float:
        if not is_classifier(estimator):
            return super()._score(estimator, X, y, sample_weight, inputs)
        y = np.asarray(as_labels(y))
        log_proba = _log_proba(estimator, X, inputs)
        chosen = log_proba[np.arange(len(y)), class_numbers(y, estimator.classes_)]
        if np.isneginf(chosen).any():
            # Trees and neighbours call classes impossible; one such row would hide all others.
            chosen = np.maximum(chosen, np.log(np.finfo(chosen.dtype).eps))  # as log_loss does
        return float(np.average(chosen, weights=check_weight(sample_weight, len(y))))

    def _of_predictions(self, y, mean, std, sample_weight) -> float:
        return gaussian_log_likelihood(y, mean, std, sample_weight=sample_weight)


def _log_proba(classifier, X, inputs) -> np.ndarray:
    with np.errstate(divide="ignore"):
        if hasattr(classifier, "predict_log_proba"):
            return np.asarray(classifier.predict_log_proba(X, **inputs))
        if hasattr(classifier, "predict_proba"):
            return np.log(classifier.predict_proba(X, **inputs))
    raise TypeError(
        "log_likelihood_scorer needs a classifier with predict_proba; "
        f"{type(classifier).__name__} has none."
    )


class _CRPSScorer(_Scorer):
    """Minus the mean CRPS of an estimator's predictions, for ``scoring=``.

    It takes any estimator whose ``predict`` takes ``return_std``. With metadata routing,
    ``clone(crps_scorer).set_score_request(sample_weight=True)`` is a weighted scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> from sktagi.metrics import crps_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(BayesianRidge(), X, y, scoring=crps_scorer, cv=3).round(1)
    array([-31.4, -32.5, -29.9])
    """

    def _of_predictions(self, y, mean, std, sample_weight) -> float:
        return -gaussian_crps(y, mean, std, sample_weight=sample_weight)


class _IntervalScoreScorer(_Scorer):
    """Minus the mean interval score of an estimator's predictions, for ``scoring=``.

    It takes any estimator whose ``predict`` takes ``return_std``. The intervals are those of 90 %;
    ``clone(interval_score_scorer).set_params(coverage=0.5)`` scores others. With metadata routing,
    ``clone(interval_score_scorer).set_score_request(sample_weight=True)`` is a weighted scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> from sktagi.metrics import interval_score_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(BayesianRidge(), X, y, scoring=interval_score_scorer, cv=3).round(0)
    array([-225., -222., -217.])
    """

    def __init__(self, coverage=0.9):
        self.coverage = coverage

    def _of_predictions(self, y, mean, std, sample_weight) -> float:
        return -interval_score(y, mean, std, coverage=self.coverage, sample_weight=sample_weight)


class _CalibrationScorer(_Scorer):
    """Minus the calibration error of an estimator's predictions, for ``scoring=``.

    It takes any estimator whose ``predict`` takes ``return_std``. Calibration alone does not make
    a good model: tune by the log-likelihood or the CRPS, and report this beside it. With metadata
    routing, ``clone(calibration_scorer).set_score_request(sample_weight=True)`` is a weighted
    scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.model_selection import cross_val_score
    >>> from sktagi.metrics import calibration_scorer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(BayesianRidge(), X, y, scoring=calibration_scorer, cv=3).round(2)
    array([-0.03, -0.04, -0.03])
    """

    def _of_predictions(self, y, mean, std, sample_weight) -> float:
        return -calibration_error(y, mean, std, sample_weight=sample_weight)


log_likelihood_scorer = _LogLikelihoodScorer()
crps_scorer = _CRPSScorer()
interval_score_scorer = _IntervalScoreScorer()
calibration_scorer = _CalibrationScorer()
