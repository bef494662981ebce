"""What predictions depend on: derivatives of the mean by the features, with their uncertainty."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ._input import MatrixLike
from ._regressor import TAGIRegressor
from .engine.fast import slices
from .engine.sensitivity import derivatives, has_derivatives, rows_of_derivatives

__all__ = ["predict_gradient"]


@overload
def predict_gradient(
    estimator: TAGIRegressor, X: MatrixLike, return_std: Literal[False] = False
) -> np.ndarray: ...


@overload
def predict_gradient(
    estimator: TAGIRegressor, X: MatrixLike, return_std: Literal[True]
) -> tuple[np.ndarray, np.ndarray]: ...


def predict_gradient(
    estimator: TAGIRegressor, X: MatrixLike, return_std: bool = False
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Derivatives of the predicted mean by the features, in units of y over units of X.

    They tell how the mean changes with each feature at a row, the others held: for effects, for
    errors of measurement that pass through, for checks of what must rise or fall. Their standard
    deviation is that of what the network does not know, as it is over ``sample_functions``.

    Parameters
    ----------
    estimator : TAGIRegressor
        A fitted regressor, without ``target_transform``, and not of ``activation="relu_exact"``.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features, in the form of those of ``fit``.

    return_std : bool, default=False
        Return standard deviations too.

    Returns
    -------
    gradient : ndarray of shape (n_samples, n_features) or (n_samples, n_targets, n_features)
        Derivatives. NaN for categories, which have none, and where a value is missing. The other
        derivatives of such a row are those with the missing values at their expected ones, while
        `predict` is a mean over what they may be.

    std : ndarray, same shape
        Standard deviations; only if ``return_std``.

    Notes
    -----
    Networks with relu units, and kinds that see pieces of inputs, are piecewise linear: there, a
    derivative is that of the piece that the row is in.

    Examples
    --------
    >>> import numpy as np
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.inspection import predict_gradient
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = TAGIRegressor(n_members=2, random_state=0).fit(X, 3 * X[:, 0] + 1)
    >>> slope, std = predict_gradient(model, X[:2], return_std=True)
    >>> slope.shape
    (2, 2)
    >>> np.allclose(slope, [3, 0], atol=0.1)
    True
    """
    if not isinstance(estimator, TAGIRegressor):
        raise ValueError(
            f"estimator must be a TAGIRegressor; got {type(estimator).__name__}. A pipeline: give "
            "its last step, and X as the steps before make it."
        )
    check_is_fitted(estimator)
    net, table, scaling = estimator._net, estimator._table, estimator._scaling
    if estimator._transforms:
        raise ValueError(
            "estimator must be without target_transform: its mean depends on the std, too."
        )
    if not has_derivatives(net):
        raise ValueError("estimator must not have activation='relu_exact'.")
    assert scaling.y is not None
    spread = 1.0 if net.calibration is None else net.calibration.spread
    reported = net.reported()
    X = estimator._validate_X(X)
    columns, places = table.numbers
    unit = scaling.y.scale[:, None] / scaling.x.input_scale[places]  # (n_targets, n_numbers)
    shape = X.shape[0], net.outputs.n_outputs, estimator.n_features_in_
    gradient, std = np.full((2, *shape), np.nan)
    for part in slices(X.shape[0], rows_of_derivatives(reported)):
        block: Any = X[part].toarray() if sparse.issparse(X) else X[part]
        x = scaling.inputs(estimator._filled(block, scaling), None, np.float64)[0]
        x = x.toarray() if sparse.issparse(x) else x
        with np.errstate(over="ignore", invalid="ignore"):
            mean, var = (
                a.transpose(2, 1, 0)[..., places] for a in derivatives(reported, x, spread)
            )
        slopes = table.slopes(block)
        at = unit if slopes is None else unit * slopes[:, None, places]
        at = np.where(np.isnan(block[:, None, places]), np.nan, at)
        gradient[part][..., columns] = mean * at
        std[part][..., columns] = np.sqrt(var) * at
    if estimator._y_ndim == 1:
        gradient, std = gradient[:, 0], std[:, 0]
    gradient, std = estimator._as_floats(gradient), estimator._as_floats(std)
    return (gradient, std) if return_std else gradient
