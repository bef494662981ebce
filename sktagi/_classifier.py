"""TAGIClassifier."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ._base import BaseTAGI, _check_weight
from ._labels import as_labels, class_numbers, distinct_labels
from .engine.tree import ClassTree

__all__ = ["TAGIClassifier"]


class TAGIClassifier(ClassifierMixin, BaseTAGI):
    # With metadata routing enabled, a pipeline passes return_std on to predict_proba.
    __metadata_request__predict_proba = {"return_std": True}

    def __init__(
        self,
        hidden_layer_sizes=(50,),
        activation="relu",
        *,
        sigma_v="auto",
        batch_size="auto",
        batch_inference="joint",
        max_iter=100,
        half_life="auto",
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        n_members=5,
        standardize=True,
        weight_gain=1.0,
        bias_variance=0.01,
        probit_scale=1 / 3,
        shuffle=True,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        super().__init__(
            hidden_layer_sizes,
            activation,
            sigma_v=sigma_v,
            batch_size=batch_size,
            batch_inference=batch_inference,
            max_iter=max_iter,
            half_life=half_life,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            n_members=n_members,
            standardize=standardize,
            weight_gain=weight_gain,
            bias_variance=bias_variance,
            shuffle=shuffle,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.probit_scale = probit_scale

    def fit(self, X, y, sample_weight=None, X_std=None):
        return self._fit(X, y, sample_weight, X_std)

    def partial_fit(self, X, y, classes=None, sample_weight=None, X_std=None):
        return self._partial_fit(X, y, sample_weight, X_std, classes)

    def predict(self, X, X_std=None):
        log_proba = self.predict_log_proba(X, X_std=X_std)
        return self.classes_[log_proba.argmax(axis=1)]

    def predict_proba(self, X, return_std=False, X_std=None):
        mu_z, var_y = self._output_moments(X, X_std)
        tree = self._net.outputs
        proba = np.exp(tree.log_proba(mu_z, var_y))
        dtype = self._net.layers[0].mu.dtype
        mean = proba.mean(axis=0)
        if not return_std:
            return mean.astype(dtype)
        # Law of total variance over the members.
        variance = np.square(tree.proba_std(mu_z, var_y)).mean(axis=0) + proba.var(axis=0)
        return mean.astype(dtype), np.sqrt(variance).astype(dtype)

    def predict_log_proba(self, X, X_std=None):
        mu_z, var_y = self._output_moments(X, X_std)
        log_proba = self._net.outputs.log_proba(mu_z, var_y)
        mixed = logsumexp(log_proba, axis=0) - np.log(len(log_proba))
        return mixed.astype(self._net.layers[0].mu.dtype)

    def log_likelihood(self, X, y, sample_weight=None, X_std=None):
        log_proba = self.predict_log_proba(X, X_std=X_std)
        y = column_or_1d(as_labels(y))
        check_consistent_length(log_proba, y)
        chosen = log_proba[np.arange(len(y)), class_numbers(y, self.classes_)]
        return float(np.average(chosen, weights=_check_weight(sample_weight, len(y))))

    def _validate_X_y(self, X, y, *, reset):
        X, y = validate_data(
            self, X, as_labels(y), reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        if y.dtype.kind != "O":
            check_classification_targets(y)
        return X, y

    def _validate_targets(self, y, *, first, incremental, classes):
        if not incremental:
            if not first and set(distinct_labels(y).tolist()) != set(self.classes_.tolist()):
                raise ValueError(
                    "warm_start needs a y with the classes of the previous fit, "
                    f"{self.classes_.tolist()}; got {distinct_labels(y).tolist()}."
                )
            if first:
                self.classes_ = distinct_labels(y)
        elif first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = self._distinct_classes(classes)
        elif classes is not None:
            if set(self._distinct_classes(classes).tolist()) != set(self.classes_.tolist()):
                raise ValueError(
                    f"classes={list(classes)!r} is not the same as on the last call to "
                    f"partial_fit, which was {self.classes_.tolist()!r}."
                )
        return class_numbers(y, self.classes_)

    @staticmethod
    def _distinct_classes(classes) -> np.ndarray:
        return distinct_labels(column_or_1d(as_labels(classes)))

    def _observation_model(self) -> ClassTree:
        return ClassTree(len(self.classes_), float(self.probit_scale))

    def _output_moments(self, X, X_std):
        mu_z, var_z = self._moments(X, X_std)
        var_y = var_z.astype(np.float64) + self._net.noise_var
        return mu_z.astype(np.float64), var_y
