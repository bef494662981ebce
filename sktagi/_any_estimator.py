"""Predictions with a standard deviation, from any estimator that gives one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .engine.posterior import Network

__all__ = ["fitted_part", "mean_and_std", "own_interval"]


def fitted_part(estimator: Any) -> Any:
    """Return the estimator that a search has refitted; any other as it is."""
    return getattr(estimator, "best_estimator_", estimator)


def mean_and_std(estimator: Any, X: Any, **inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``predict(X, return_std=True)`` gives; raise a ``TypeError`` that helps."""
    estimator = fitted_part(estimator)
    try:
        predicted = estimator.predict(X, return_std=True, **inputs)
    except (TypeError, AttributeError) as error:
        # TransformedTargetRegressor and the like pass return_std on and stumble over the pair.
        if "return_std" not in str(error) and "tuple" not in str(error):
            raise
        raise TypeError(_no_std(estimator)) from error
    if not (isinstance(predicted, tuple) and len(predicted) == 2):
        raise TypeError(_no_std(estimator))
    return predicted


def own_interval(estimator: Any, X: Any, coverage: float) -> np.ndarray | None:
    """Return what ``predict_interval`` gives, also of a pipeline; None if it is not ours.

    Other packages have methods of this name that mean something else.
    """
    estimator = fitted_part(estimator)
    if hasattr(estimator, "named_steps"):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return own_interval(estimator[-1], X, coverage)
    if not isinstance(getattr(estimator, "_net", None), Network):
        return None
    return estimator.predict_interval(X, coverage)


def _no_std(estimator: Any) -> str:
    return (
        "A standard deviation is needed: predict(X, return_std=True) must return mean and std, as "
        "that of TAGIRegressor, GaussianProcessRegressor, BayesianRidge and pipelines that end in "
        f"one does; that of {type(estimator).__name__} does not."
    )
