"""A regressor of skpro that goes on learning: ``update`` is ``partial_fit``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

try:
    from skpro.regression.adapters.sklearn import SklearnProbaReg
except ImportError as error:  # pragma: no cover
    raise ImportError("sktagi.skpro needs skpro: pip install sktagi[skpro]") from error

from ._regressor import TAGIRegressor

__all__ = ["TAGIProbaRegressor"]


class TAGIProbaRegressor(SklearnProbaReg):
    """`sktagi.TAGIRegressor` as a probabilistic regressor of skpro, with ``update``.

    Its distributions are skpro's ``Normal``, with mean and standard deviation of ``predict``.

    Parameters
    ----------
    estimator : TAGIRegressor, default=None
        The regressor; None is one with default settings.

    inner_type : {"pd.DataFrame", "np.ndarray"}, default="pd.DataFrame"
        What the regressor is given.

    Examples
    --------
    >>> import pandas as pd
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.skpro import TAGIProbaRegressor
    >>> X = pd.DataFrame({"a": [float(k % 10) for k in range(60)]})
    >>> y = 2 * X.rename(columns={"a": "y"})
    >>> model = TAGIProbaRegressor(TAGIRegressor(max_iter=5, random_state=0)).fit(X[:40], y[:40])
    >>> model.update(X[40:], y[40:]).estimator_.n_samples_seen_
    60
    >>> model.predict_proba(X[:3]).mean().shape
    (3, 1)
    """

    _tags = {"capability:update": True, "capability:multioutput": True}

    def __init__(self, estimator: Any = None, inner_type: str = "pd.DataFrame"):
        super().__init__(estimator, inner_type)

    def _fit(self, X: Any, y: Any) -> Any:
        self.estimator_ = TAGIRegressor() if self.estimator is None else clone(self.estimator)
        self._y_cols = y.columns
        self.estimator_.fit(*self._inner(X, y))
        return self

    def _update(self, X: Any, y: Any, C: Any = None) -> Any:
        self.estimator_.partial_fit(*self._inner(X, y))
        return self

    def _inner(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Return what the regressor is given."""
        targets = y.to_numpy()
        return self._coerce_inner(X), targets[:, 0] if targets.shape[1] == 1 else targets

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> Any:
        """Return parameters for skpro's tests.

        Parameters
        ----------
        parameter_set : str, default="default"
            Not used.

        Returns
        -------
        params : list of dict
            Parameters of estimators to test.
        """
        small = TAGIRegressor((4,), max_iter=2, n_members=2, random_state=0)
        return [{"estimator": small}, {"estimator": small, "inner_type": "np.ndarray"}]
