"""Plots of uncertain predictions, as scikit-learn Display classes; they need matplotlib.

Create a display with ``from_estimator`` or ``from_predictions``. It plots on ``ax`` if that is
given, and stores what it has plotted in attributes that end in an underscore.
"""

from ._calibration import IntervalCalibrationDisplay
from ._classes import ClassProbabilityDisplay
from ._correlations import CorrelationDisplay
from ._entropy import EntropyDisplay
from ._errors import ErrorDisplay
from ._groups import CoverageByGroupDisplay
from ._intervals import PredictionIntervalDisplay
from ._kinds import KindsDisplay
from ._training import TrainingCurveDisplay
from ._variance import VarianceDisplay

__all__ = [
    "ClassProbabilityDisplay",
    "CorrelationDisplay",
    "CoverageByGroupDisplay",
    "EntropyDisplay",
    "ErrorDisplay",
    "IntervalCalibrationDisplay",
    "KindsDisplay",
    "PredictionIntervalDisplay",
    "TrainingCurveDisplay",
    "VarianceDisplay",
]
