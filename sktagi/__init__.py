"""Bayesian neural networks for scikit-learn, learned in closed form (TAGI)."""

from ._classifier import TAGIClassifier
from ._regressor import TAGIRegressor
from ._version import __version__

__all__ = ["TAGIClassifier", "TAGIRegressor", "__version__"]
