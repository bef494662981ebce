"""Pictures of uncertain predictions, in scikit-learn's Display convention; needs matplotlib.

Each class is made by ``from_estimator`` or ``from_predictions``, draws into ``ax`` if one is given
and keeps what it has drawn in attributes that end in an underscore.
"""

from ._calibration import IntervalCalibrationDisplay
from ._classes import ClassProbabilityDisplay
from ._errors import ErrorDisplay
from ._intervals import PredictionIntervalDisplay
from ._training import TrainingCurveDisplay
from ._variance import VarianceDisplay

__all__ = [
    "ClassProbabilityDisplay",
    "ErrorDisplay",
    "IntervalCalibrationDisplay",
    "PredictionIntervalDisplay",
    "TrainingCurveDisplay",
    "VarianceDisplay",
]
