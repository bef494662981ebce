"""Predictive distributions, means and standard deviations from any estimator that gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._target_transform import Composed, as_map
from .distribution import PredictiveDistribution
from .engine.mixture import Mixture
from .engine.posterior import Network

if TYPE_CHECKING:
    from sklearn.compose import TransformedTargetRegressor

__all__ = ["fitted_part", "last_step", "mean_and_std", "predict_dist"]


def predict_dist(estimator: Any, X: Any, **inputs: Any) -> PredictiveDistribution:
    """Predict the distribution of the target in each row, by any estimator that can.

    Parameters
    ----------
    estimator : object
        A fitted `TAGIRegressor`; a Pipeline, a search such as GridSearchCV, a
        TransformedTargetRegressor or a FrozenEstimator around one, also nested; or any estimator
        whose ``predict`` takes ``return_std``, which gives Gaussians. The transformer of a
        TransformedTargetRegressor must increase with y.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.

    **inputs : dict
        Further arguments of the regressor at the end, such as ``X_std``.

    Returns
    -------
    dist : PredictiveDistribution
        Distributions of shape ``(n_samples,)`` or ``(n_samples, n_targets)``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sktagi import predict_dist
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BayesianRidge()).fit(X, y)
    >>> dist = predict_dist(model, X[:2])
    >>> dist.interval(0.9)[0].round()
    array([113., -19.])
    """
    estimator = fitted_part(estimator)
    # Not with the package: it imports all linear models of scikit-learn.
    from sklearn.compose import TransformedTargetRegressor

    if isinstance(estimator, FrozenEstimator):
        return predict_dist(estimator.estimator, X, **inputs)
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return predict_dist(estimator[-1], X, **inputs)
    if isinstance(estimator, TransformedTargetRegressor) and hasattr(estimator, "regressor_"):
        return _before_transform(estimator, predict_dist(estimator.regressor_, X, **inputs))
    is_ours = isinstance(getattr(estimator, "_net", None), (Network, Mixture))
    if is_ours and hasattr(estimator, "predict_dist"):
        return estimator.predict_dist(X, **inputs)
    return PredictiveDistribution(*mean_and_std(estimator, X, **inputs))


def _before_transform(
    estimator: TransformedTargetRegressor, dist: PredictiveDistribution
) -> PredictiveDistribution:
    """Return the distribution of y where that of the transformed targets is ``dist``."""
    loc, scale, shape, inner = dist._loc, dist._scale, dist._errors, dist._map
    if estimator._training_dim == 2 and loc.ndim == 1:  # one target in a table
        loc, scale = loc[:, None], scale[:, None]
    usual = loc.reshape(-1, shape.n_outputs)
    if inner is not None:
        usual = inner.inverse(usual)
    outer = as_map(estimator.transformer_, usual)
    return PredictiveDistribution(
        loc, scale, shape, outer if inner is None else Composed(outer, inner)
    )


def fitted_part(estimator: Any) -> Any:
    """Return the estimator that a search has refitted; any other as it is."""
    if hasattr(estimator, "best_estimator_"):
        return estimator.best_estimator_
    if hasattr(estimator, "refit"):  # a search that was not fitted, or keeps no estimator
        if estimator.refit is False and not hasattr(estimator, "predict"):
            raise ValueError(
                f"This {type(estimator).__name__} has refit=False and keeps no estimator that "
                "could predict: it needs refit=True, or the name of a score if there are several."
            )
        check_is_fitted(estimator)
    return estimator


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of a pipeline or of a search."""
    estimator = fitted_part(estimator)
    return last_step(estimator[-1]) if hasattr(estimator, "named_steps") else estimator


def mean_and_std(estimator: Any, X: Any, **inputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what ``predict(X, return_std=True)`` gives; raise a ``TypeError`` that helps."""
    estimator = fitted_part(estimator)
    try:
        predicted = estimator.predict(X, return_std=True, **inputs)
    except (TypeError, AttributeError, ValueError) as error:
        # TransformedTargetRegressor and the like pass return_std on and stumble over the pair.
        if "return_std" not in str(error) and "tuple" not in str(error):
            raise
        raise TypeError(_no_std(estimator)) from error
    if not (isinstance(predicted, tuple) and len(predicted) == 2):
        raise TypeError(_no_std(estimator))
    return predicted


def _no_std(estimator: Any) -> str:
    if hasattr(estimator, "classes_"):
        return (
            "A distribution of numbers is needed, as that of predict(X, return_std=True), but "
            f"{type(estimator).__name__} is a classifier: its distribution is predict_proba. "
            "Of the scorers of sktagi.metrics, log_likelihood_scorer takes classifiers."
        )
    return (
        "A standard deviation is needed: predict(X, return_std=True) must return mean and std, as "
        "that of TAGIRegressor, GaussianProcessRegressor, BayesianRidge and pipelines that end in "
        f"one does; that of {type(estimator).__name__} does not."
    )
