"""Bayesian neural networks for scikit-learn, learned in closed form (TAGI)."""

from . import metrics as metrics
from ._any_estimator import predict_dist
from ._classifier import TAGIClassifier
from ._functions import SampledFunctions
from ._regressor import TAGIRegressor
from ._version import __version__
from .distribution import PredictiveDistribution

__all__ = [
    "PredictiveDistribution",
    "SampledFunctions",
    "TAGIClassifier",
    "TAGIRegressor",
    "__version__",
    "predict_dist",
]
