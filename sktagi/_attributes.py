"""Fitted attributes: what users read of a posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._drift import Drift
from ._prequential import Prequential
from ._scaling import Scaling
from .engine.mixture import Mixture
from .engine.posterior import FullLayer, Network
from .engine.predicting import predict_moments
from .tables.columns import Columns, plain_columns

__all__ = ["FittedAttributes"]


class FittedAttributes:
    """Properties of a fitted estimator, which are not there before it is fitted."""

    _net: Network | Mixture
    _prequential: Prequential
    _drift: Drift
    _scaling: Scaling
    _columns: Columns | None
    _some_rows: np.ndarray | None
    n_features_in_: int
    _dtype: str  # of X as it was given first, and of predictions

    @property
    def _table(self) -> Columns:
        """What the columns of X become."""
        return self._columns or plain_columns(self.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_net")

    @property
    def coefs_(self) -> list[np.ndarray] | dict[str, list[np.ndarray]]:
        """Posterior means of the weights."""
        return self._by_kind("coefs_", lambda layer: layer.mu[:, :-1])

    @property
    def intercepts_(self) -> list[np.ndarray] | dict[str, list[np.ndarray]]:
        """Posterior means of the biases."""
        return self._by_kind("intercepts_", lambda layer: layer.mu[:, -1])

    @property
    def coef_vars_(self) -> list[np.ndarray] | dict[str, list[np.ndarray]]:
        """Posterior variances of the weights, as predictions use them."""
        return self._by_kind("coef_vars_", lambda layer: layer.var[:, :-1])

    @property
    def intercept_vars_(self) -> list[np.ndarray] | dict[str, list[np.ndarray]]:
        """Posterior variances of the biases, as predictions use them."""
        return self._by_kind("intercept_vars_", lambda layer: layer.var[:, -1])

    def _by_kind(
        self, name: str, read: Callable[[Any], np.ndarray]
    ) -> list[np.ndarray] | dict[str, list[np.ndarray]]:
        """Return what is read of each layer; of unlike members, for each kind by its name."""
        net = self._fitted_net(name).reported()
        of_kinds = [[_of_members(read(a)) for a in kind.layers] for kind in net.networks]
        if isinstance(net, Mixture):
            return dict(zip(net.names, of_kinds, strict=True))
        return of_kinds[0]

    @property
    def kinds_(self) -> dict[str, float | np.ndarray]:
        """Weights of the kinds of networks in the mixture, by their names."""
        net = self._fitted_net("kinds_")
        if not isinstance(net, Mixture):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute 'kinds_': its members are alike."
            )
        weights = [weight[:, 0] for weight in net.weight]
        return {
            name: float(w[0]) if len(w) == 1 else w.copy()
            for name, w in zip(net.names, weights, strict=True)
        }

    @property
    def layer_covariances_(self) -> list[np.ndarray]:
        """Posterior covariances of each layer's parameters, with ``covariance_type="full"``."""
        networks = self._fitted_net("layer_covariances_").reported().networks
        layers = [layer for net in networks for layer in net.layers]
        covariances = [_of_members(a.cov) for a in layers if isinstance(a, FullLayer)]
        if not covariances:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute 'layer_covariances_': it is "
                "fitted with covariance_type='diag'."
            )
        return covariances

    @property
    def sigma_v_(self) -> float | np.ndarray:
        """Observation-noise standard deviation, in units of the standardised target."""
        noise_var = self._fitted_net("sigma_v_").reported_noise
        sigma_v = np.sqrt(noise_var.mean(axis=0)[:, 0])
        return float(sigma_v[0]) if len(sigma_v) == 1 else sigma_v

    @property
    def prequential_log_likelihood_(self) -> float:
        """Mean log-likelihood of streamed rows, each before it was learned."""
        self._fitted_net("prequential_log_likelihood_")
        return self._prequential.mean

    @property
    def recent_log_likelihood_(self) -> float:
        """Mean log-likelihood of streamed rows, in which a row counts half after 500 rows."""
        self._fitted_net("recent_log_likelihood_")
        return self._prequential.recent

    @property
    def drift_score_(self) -> float:
        """Standard errors by which a stream drifts: how much worse the network of some time ago is.

        Below one nothing changes; above four the function of the stream has.
        """
        self._fitted_net("drift_score_")
        return self._drift.score

    @property
    def encoded_feature_names_(self) -> np.ndarray:
        """Names of the inputs: levels of categories, and "missing", have one each."""
        self._fitted_net("encoded_feature_names_")
        return np.array(self._table.encoded_names, dtype=object)

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of a linear model, in units of X and y: means over the members.

        With ``target_transform``, y is the transformed target.
        """
        return self._linear("coef_")[0]

    @property
    def intercept_(self) -> float | np.ndarray:
        """Constant term of a linear model, in units of y."""
        intercept = self._linear("intercept_")[1]
        return intercept if intercept.ndim else float(intercept)

    def _linear(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        net = self._fitted_net(name)
        if isinstance(net, Mixture) or len(net.layers) > 1:
            raise AttributeError(
                f"{type(self).__name__!r} object has no {name!r}: it is no linear model, which "
                "hidden_layer_sizes=() is."
            )
        if not self._table.is_plain:
            raise AttributeError(
                f"{type(self).__name__!r} object has no {name!r}: X has categories, missing values "
                "or heavy tails, so that a coefficient belongs to one of encoded_feature_names_; "
                "coefs_ has them, in standardised units."
            )
        mu = net.reported().layers[0].mu.mean(axis=0).astype(np.float64)
        x, y = self._scaling
        coef = mu[:-1].T / x.input_scale
        intercept = mu[-1] - coef @ x.mean
        if y is not None:
            coef = coef * y.scale[:, None]
            intercept = intercept * y.scale + y.mean
            if getattr(self, "_y_ndim", 2) == 1:
                return coef[0], intercept[0]
        return coef, intercept

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much the mean changes with each feature, over those of all; they sum to one.

        That is the root mean square change of the outputs, over some training rows, when the
        feature changes by its standard deviation, all levels of a category together. In a stream
        these are among the first hundred rows, or those of the first call if it had more.
        """
        net = self._fitted_net("feature_importances_").reported()
        rows = self._some_rows
        if rows is None:
            raise AttributeError(
                f"{type(self).__name__!r} object has no 'feature_importances_': it was fitted to a "
                "sparse matrix, or to categories with very many levels, or by an earlier version."
            )
        scaling = self._scaling

        def mean(x: np.ndarray) -> np.ndarray:
            return predict_moments(
                net, x, prepare=lambda x, errors: scaling.inputs(x, errors, net.dtype)
            )[0].mean(axis=0)

        change = np.zeros(rows.shape[1])
        for k, step in enumerate(rows.std(axis=0) / 2):
            if step > 0:
                beside = np.repeat(rows[None], 2, axis=0)
                beside[:, :, k] += np.array([[step], [-step]], dtype=rows.dtype)
                above, below = np.split(mean(beside.reshape(-1, rows.shape[1])), 2, axis=-1)
                change[k] = np.mean(np.square(above - below))
        of_features = np.sqrt(np.bincount(self._table.origins, change, self.n_features_in_))
        total = of_features.sum()
        return of_features / total if total > 0 else of_features

    @property
    def n_outputs_(self) -> int:
        """Number of output units."""
        return self._fitted_net("n_outputs_").outputs.n_outputs

    def _fitted_net(self, name: str) -> Network | Mixture:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._net


def _of_members(values: np.ndarray) -> np.ndarray:
    """Return the values of all members; of one member, without its axis."""
    return values[0] if len(values) == 1 else values
