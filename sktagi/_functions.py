"""Functions drawn from the posterior of a regressor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._input import MatrixLike
from .engine.fast import slices
from .engine.inputs import InputErrors
from .engine.joint import Draws, block_of_draws, functions_at

__all__ = ["SampledFunctions"]


class SampledFunctions:
    """Functions drawn from the posterior of a regressor, by its ``sample_functions``.

    Call it with rows to evaluate all functions there, as often as you like: they stay the same
    functions. It keeps the posterior that they were drawn from, and can be pickled.

    Parameters
    ----------
    estimator : TAGIRegressor
        The fitted regressor.

    draws : Draws
        What was drawn of its parameters, in a form of its own.

    See Also
    --------
    TAGIRegressor.sample_functions : What makes one.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi import TAGIRegressor
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> model = TAGIRegressor(n_members=2, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> functions = model.sample_functions(5, random_state=0)
    >>> functions(X[:3]).shape
    (3, 5)
    >>> best = X[functions(X).argmax(axis=0)]  # where each of them is largest
    """

    def __init__(self, estimator: Any, draws: Draws):
        # Fitted arrays are replaced, never written to: what the estimator learns changes nothing.
        snapshot = object.__new__(type(estimator))
        snapshot.__dict__ = estimator.__dict__.copy()
        self._estimator = snapshot
        self._draws = draws

    def __len__(self) -> int:
        return len(self._draws.member)

    def __repr__(self) -> str:
        return f"<SampledFunctions: {len(self)} of {type(self._estimator).__name__}>"

    def __call__(self, X: MatrixLike) -> np.ndarray:
        """Evaluate all functions at rows X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
            Features, in the form of those of ``fit``. Where a value is missing, a function has its
            mean over what the value may be.

        Returns
        -------
        values : ndarray of shape (n_samples_X, n_samples)
            ``(n_samples_X, n_targets, n_samples)`` for several targets.
        """
        estimator = self._estimator
        X = estimator._validate_X(X)
        net, scaling = estimator._net.reported(), estimator._scaling
        calibration = estimator._net.calibration
        spread = 1.0 if calibration is None else calibration.spread

        def predict(x: Any, errors: InputErrors | None) -> tuple[np.ndarray, np.ndarray]:
            x = scaling.inputs(x, None, np.float64)[0]
            values = functions_at(net, self._draws, x, spread)
            return values, np.zeros_like(values)

        def block(part: slice) -> np.ndarray:
            z = estimator._table.averaged(X[part], None, predict, scaling.x)[0]
            return scaling.y.scale[:, None] * z + scaling.y.mean[:, None]

        size = block_of_draws(net, self._draws)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.concatenate([block(part) for part in slices(X.shape[0], size)], axis=-1)
        values = values.swapaxes(-1, -2)  # (draws, rows, targets)
        target_map = estimator._target_map()
        if target_map is not None:
            values = target_map.inverse(values)
        values = np.moveaxis(values, 0, -1)
        return estimator._as_floats(values[:, 0] if estimator._y_ndim == 1 else values)
