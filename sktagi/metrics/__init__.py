"""Proper scores of probabilistic predictions, and scorers for model selection."""

from ._scorers import (
    calibration_scorer,
    crps_scorer,
    interval_score_scorer,
    log_likelihood_scorer,
)
from ._scores import (
    calibration_error,
    gaussian_crps,
    gaussian_log_likelihood,
    interval_coverage,
    interval_score,
    probability_integral_transform,
)

__all__ = [
    "calibration_error",
    "calibration_scorer",
    "crps_scorer",
    "gaussian_crps",
    "gaussian_log_likelihood",
    "interval_coverage",
    "interval_score",
    "interval_score_scorer",
    "log_likelihood_scorer",
    "probability_integral_transform",
]
