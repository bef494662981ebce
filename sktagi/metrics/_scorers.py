"""Scorers: scores of an estimator's predictions, for ``scoring=``. Greater is always better."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.metadata_routing import UNUSED

from .._any_estimator import fitted_part, last_step, predict_dist
from .._input import MatrixLike, score_weight
from .._labels import as_labels, class_numbers
from ._calibration import calibration_error
from ._intervals import interval_score
from ._predictions import Distribution
from ._scores import crps, log_score

__all__ = [
    "CRPSScorer",
    "CalibrationScorer",
    "IntervalScoreScorer",
    "LogLikelihoodScorer",
    "calibration_scorer",
    "crps_scorer",
    "interval_score_scorer",
    "log_likelihood_scorer",
]


class _Scorer(BaseEstimator):
    """Score an estimator: ``(estimator, X, y, sample_weight=None, X_std=None, X_cov=None)``.

    Scorers inherit from BaseEstimator so that they can be cloned and can request metadata.
    """

    __metadata_request__score = {"estimator": UNUSED}  # weights, X_std and X_cov can be requested

    def __call__(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> float:
        return self.score(estimator, X, y, sample_weight, X_std, X_cov)

    def score(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> float:
        """Score the predictions of an estimator; calling the scorer does the same.

        Parameters
        ----------
        estimator : estimator instance
            A fitted estimator, alone, in a pipeline or in a search.

        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to predict.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            What was observed there.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        X_std, X_cov : array-like, default=None
            Errors of uncertain features, for estimators of sktagi.

        Returns
        -------
        score : float
            Greater is better.
        """
        given = {"X_std": X_std, "X_cov": X_cov}
        # Estimators of other packages do not know these arguments.
        inputs = {name: value for name, value in given.items() if value is not None}
        return self._score(fitted_part(estimator), X, y, sample_weight, inputs)

    def _score(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        inputs: dict[str, Any],
    ) -> float:
        return self._score_dist(y, predict_dist(estimator, X, **inputs), sample_weight)

    def _score_dist(
        self, y: ArrayLike, dist: Distribution, sample_weight: ArrayLike | None
    ) -> float:
        raise NotImplementedError

    def _accept_sample_weight(self) -> bool:
        return True  # scikit-learn asks before it passes weights to one of several scorers


class LogLikelihoodScorer(_Scorer):
    """Score an estimator by the mean log-likelihood of y under its predictions.

    Use it as ``scoring=log_likelihood_scorer``, or call
    ``log_likelihood_scorer(estimator, X, y, sample_weight=None, X_std=None, X_cov=None)``. Greater
    is better.

    Classifiers are scored by ``predict_log_proba`` or ``predict_proba``, regressors of sktagi and
    pipelines that end in one by their own predictive distribution, and others such as
    GaussianProcessRegressor and BayesianRidge by the Gaussian of ``predict(X, return_std=True)``.
    Unlike R^2, this score can tune ``sigma_v``.

    NaN in some of several targets means "not observed": the log-likelihood of a row is the sum over
    its observed targets.

    With metadata routing, ``clone(log_likelihood_scorer).set_score_request(sample_weight=True)`` is
    a weighted scorer.

    Notes
    -----
    scikit-learn's ``ScoringMonitor`` accepts this scorer, and the others of this module, in a
    dictionary only: ``ScoringMonitor(scoring={"log_likelihood": log_likelihood_scorer})``.

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

    def _score(
        self,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        inputs: dict[str, Any],
    ) -> float:
        if not is_classifier(estimator):
            return super()._score(estimator, X, y, sample_weight, inputs)
        labels = np.asarray(as_labels(y))
        log_proba = _log_proba(estimator, X, inputs)
        chosen = log_proba[np.arange(len(labels)), class_numbers(labels, estimator.classes_)]
        if np.isneginf(chosen).any():
            # Trees and nearest neighbours predict probabilities of zero. Without a bound, as in
            # log_loss, one such row would decide the score alone.
            chosen = np.maximum(chosen, np.log(np.finfo(chosen.dtype).eps))
        return float(np.average(chosen, weights=score_weight(sample_weight, len(labels))))

    def _score_dist(
        self, y: ArrayLike, dist: Distribution, sample_weight: ArrayLike | None
    ) -> float:
        return log_score(y, dist, sample_weight=sample_weight)


def _log_proba(classifier: BaseEstimator, X: MatrixLike, inputs: dict[str, Any]) -> np.ndarray:
    """Return log probabilities of the classes; those of impossible classes are minus infinity."""
    with np.errstate(divide="ignore"):
        if hasattr(classifier, "predict_log_proba"):
            return np.asarray(classifier.predict_log_proba(X, **inputs))
        if hasattr(classifier, "predict_proba"):
            return np.log(classifier.predict_proba(X, **inputs))
    raise TypeError(
        "log_likelihood_scorer needs a classifier with predict_proba; "
        f"{type(last_step(classifier)).__name__} has none."
    )


class CRPSScorer(_Scorer):
    """Score an estimator by minus the mean CRPS of its predictions.

    Use it as ``scoring=crps_scorer``, with any estimator whose ``predict`` takes ``return_std``.
    Those of sktagi are scored by their own predictive distribution, others by a Gaussian. NaN in
    some of several targets means "not observed"; see :func:`sktagi.metrics.crps`.

    With metadata routing, ``clone(crps_scorer).set_score_request(sample_weight=True)`` is a
    weighted scorer.

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

    def _score_dist(
        self, y: ArrayLike, dist: Distribution, sample_weight: ArrayLike | None
    ) -> float:
        return -crps(y, dist, sample_weight=sample_weight)


class IntervalScoreScorer(_Scorer):
    """Score an estimator by minus the mean interval score of its predictions.

    Use it as ``scoring=interval_score_scorer``, with any estimator whose ``predict`` takes
    ``return_std``. Estimators of sktagi are scored by their own intervals, others by those of a
    Gaussian. The intervals have a nominal coverage of 90 %; ``IntervalScoreScorer(coverage=0.5)``
    scores others. NaN in some of several targets means "not observed"; see
    :func:`sktagi.metrics.interval_score`.

    With metadata routing, ``clone(interval_score_scorer).set_score_request(sample_weight=True)`` is
    a weighted scorer.

    Parameters
    ----------
    coverage : float, default=0.9
        Nominal coverage of the intervals.

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

    def __init__(self, coverage: float = 0.9) -> None:
        self.coverage = coverage

    def _score_dist(
        self, y: ArrayLike, dist: Distribution, sample_weight: ArrayLike | None
    ) -> float:
        return -interval_score(y, dist=dist, coverage=self.coverage, sample_weight=sample_weight)


class CalibrationScorer(_Scorer):
    """Score an estimator by minus the calibration error of its predictions.

    Use it as ``scoring=calibration_scorer``, with any estimator whose ``predict`` takes
    ``return_std``. Estimators of sktagi are scored by their own predictive distribution, others by
    a Gaussian. Calibration alone does not make a good model: tune by the log-likelihood or the
    CRPS, and report the calibration error beside it. NaN in some of several targets means "not
    observed"; see :func:`sktagi.metrics.calibration_error`.

    With metadata routing, ``clone(calibration_scorer).set_score_request(sample_weight=True)`` is a
    weighted scorer.

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

    def _score_dist(
        self, y: ArrayLike, dist: Distribution, sample_weight: ArrayLike | None
    ) -> float:
        return -calibration_error(y, dist=dist, sample_weight=sample_weight)


log_likelihood_scorer = LogLikelihoodScorer()
crps_scorer = CRPSScorer()
interval_score_scorer = IntervalScoreScorer()
calibration_scorer = CalibrationScorer()
