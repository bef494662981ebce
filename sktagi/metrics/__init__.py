"""Proper scores of probabilistic predictions, and scorers for model selection."""

from ._calibration import calibration_error, probability_integral_transform
from ._intervals import interval_coverage, interval_score
from ._scorers import (
    CalibrationScorer,
    CRPSScorer,
    IntervalScoreScorer,
    LogLikelihoodScorer,
    calibration_scorer,
    crps_scorer,
    interval_score_scorer,
    log_likelihood_scorer,
)
from ._scores import crps, gaussian_crps, gaussian_log_likelihood, log_score, pinball_loss

__all__ = [
    "CRPSScorer",
    "CalibrationScorer",
    "IntervalScoreScorer",
    "LogLikelihoodScorer",
    "calibration_error",
    "calibration_scorer",
    "crps",
    "crps_scorer",
    "gaussian_crps",
    "gaussian_log_likelihood",
    "interval_coverage",
    "interval_score",
    "interval_score_scorer",
    "log_likelihood_scorer",
    "log_score",
    "pinball_loss",
    "probability_integral_transform",
]
