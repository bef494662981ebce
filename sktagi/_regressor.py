"""TAGIRegressor."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ._base import BaseTAGI
from ._input import (
    MatrixLike,
    RandomState,
    check_count,
    check_coverage,
    check_probabilities,
    check_rng,
    check_targets,
    check_weight,
    is_plain,
    missing_targets,
)
from ._scaling import Scaling
from .engine.observations import Gaussian
from .engine.tails import standard_quantiles
from .metrics import gaussian_log_likelihood

__all__ = ["TAGIRegressor"]


class TAGIRegressor(RegressorMixin, BaseTAGI):
    """Bayesian neural network for regression, inferred in closed form (TAGI).

    Every prediction carries a standard deviation. The posterior of the weights is Gaussian, with
    independent entries unless ``covariance_type="full"``; each batch of rows updates it
    analytically, without gradients or sampling.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer; ``()`` gives a linear model.

    activation : str, default="relu"
        ``"identity"``, ``"relu"``, ``"leaky_relu"``, ``"tanh"``, ``"logistic"`` or ``"softplus"``:
        linearised at the mean of each hidden unit, as in the paper. ``"relu_exact"`` uses the exact
        mean and variance of a rectified Gaussian instead.

    sigma_v : float or "auto", default="auto"
        Standard deviation of the observation noise, in units of the standardised target.
        ``"auto"`` learns it while fitting (expectation maximisation). With ``early_stopping`` and
        at least ten validation rows for each member, ``fit`` then sets one value for all members,
        with which the held-out rows are most likely under the mixture of the members.

    batch_size : int or "auto", default="auto"
        Rows of a batch. ``"auto"`` is 64, and 16 with full covariances; more than there are rows
        means one batch.

    batch_inference : {"joint", "independent"}, default="joint"
        How a batch is learned. ``"joint"`` conditions on all its rows at once and works for any
        batch size. ``"independent"`` adds up what each row would do alone, as in the paper; it
        turns to joint inference for a batch, and an output, where that sum would overshoot. With
        full covariances it learns the rows of a batch one after the other.

    covariance_type : {"diag", "full"}, default="diag"
        What is kept of the posterior: independent parameters, or one covariance matrix for the
        parameters of each layer, and full covariances of the hidden units. ``"full"`` is for small
        networks: its cost grows with the square of a layer's parameters, at most 5000 of them.

    max_iter : int, default=100
        Epochs at most. 0 gives the prior predictive.

    half_life : float, None or "auto", default="auto"
        Number of rows after which evidence counts half, in epochs as in streams. None never
        forgets, as in the paper. ``"auto"`` with early stopping is the geometric mean of the number
        of rows and the number of parameters of a network, and at least 8 batches; without it and
        in streams 3 rows for each parameter.

    early_stopping : bool, default=True
        Hold out ``validation_fraction`` of the rows, follow their log-likelihood, stop after
        ``n_iter_no_change`` epochs without a gain of ``tol``, and keep the best posterior.
        ``partial_fit`` holds out nothing.

    validation_fraction : float, default=0.1
        The share of distinct rows that are held out; copies of a row stay together.

    n_iter_no_change : int, default=20
        Epochs without a gain after which training stops.

    tol : float, default=1e-4
        The smallest gain in mean log-likelihood that counts.

    n_members : int, default=10
        Networks that are inferred side by side and mixed, each from a prior draw of its own and
        with rows of its own held out: with ten and a ``validation_fraction`` of 0.1, every row is
        held out once. Members agree near the data and differ away from it, where one network alone
        may be too sure.

    standardize : bool, default=True
        Centre and scale features and target with statistics of the training rows (running
        statistics in ``partial_fit``). Sparse features are scaled, not centred.

    weight_gain : float, default=1.0
        Factor of the prior variance of the weights, which is Xavier's ``2 / (n_in + n_out)``.

    bias_variance : float, default=0.01
        Prior variance of the biases.

    shuffle : bool, default=True
        Shuffle the rows in each epoch. ``partial_fit`` never does.

    random_state : int, RandomState instance or None, default=None
        Determines the prior draws, the rows held out and the shuffling.

    warm_start : bool, default=False
        Start ``fit`` from the posterior of the previous call instead of the prior. The same rows
        are held out again; give the same rows, or use ``partial_fit`` for new ones.

    verbose : int, default=0
        1 reports progress: one updating line on a terminal, a few plain lines elsewhere. 2 writes
        a line for each epoch.

    Attributes
    ----------
    coefs_, intercepts_ : list of ndarray
        Posterior means of the weights, ``(n_in, n_out)``, and biases, ``(n_out,)``, of each layer;
        with ``n_members > 1`` they have a leading axis of members.

    coef_vars_, intercept_vars_ : list of ndarray
        Posterior variances, in the same shapes.

    layer_covariances_ : list of ndarray
        Posterior covariances of each layer's parameters, ``(n_params, n_params)`` in the order of
        ``coefs_[j].ravel()`` and then ``intercepts_[j]``; with ``covariance_type="full"`` only.

    sigma_v_ : float, or ndarray of shape (n_targets,)
        Observation-noise standard deviation in use, in units of the standardised target. The
        disagreement of the members is counted apart: it may be smaller than the true noise.

    n_iter_ : int
        Epochs run by ``fit``; each call of ``partial_fit`` adds one.

    best_iter_ : int, or ndarray of int of shape (n_members,)
        The epoch whose posterior was kept.

    train_scores_ : list of float
        Mean log-likelihood of the training rows in each epoch, each batch before it was learned.

    validation_scores_ : list of float, or None
        Mean log-likelihood of the validation rows after each epoch; None without early stopping.

    prequential_log_likelihood_ : float
        Mean log-likelihood of the rows given to ``partial_fit``, each batch before it was learned:
        a test score without a test set. It is the mean over members of what each scores alone, in
        original units, since the network was drawn or ``fit``; NaN without streamed rows.

    recent_log_likelihood_ : float
        The same mean, in which a row counts half 500 rows later: a fall shows drift.

    n_outputs_ : int
        Output units: the number of targets.

    n_samples_seen_ : int
        Rows of positive weight given to ``fit`` and ``partial_fit``.

    n_features_in_ : int
        Number of features.

    feature_names_in_ : ndarray of str
        Names of the features, if X has string column names.

    See Also
    --------
    TAGIClassifier : The same network for classes.
    sktagi.metrics.log_likelihood_scorer : What tunes ``sigma_v`` in GridSearchCV; R^2 cannot.

    Notes
    -----
    From scikit-learn 1.9 on, ``set_callbacks`` takes callbacks such as ``ProgressBar`` and
    ``ScoringMonitor``, to which each epoch of ``fit`` is a task. They see the estimator that
    ``fit`` would return if training ended there, with ``early_stopping`` the best so far, and may
    stop it.

    References
    ----------
    J.-A. Goulet, L. H. Nguyen, S. Amiri, "Tractable Approximate Gaussian Inference for Bayesian
    Neural Networks", Journal of Machine Learning Research 22, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> from sktagi import TAGIRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = TAGIRegressor(random_state=0).fit(X_train, y_train)
    >>> mean, std = model.predict(X_test, return_std=True)
    >>> mean.shape, std.shape
    ((111,), (111,))
    >>> bool((abs(y_test - mean) < 2 * std).mean() > 0.9)
    True
    """

    _scales_targets = True
    _y_ndim: int
    _n_targets: int

    # With metadata routing enabled, a pipeline passes return_std on to predict.
    __metadata_request__predict = {"return_std": True}

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> Self:
        """Fit the network to rows X and targets y.

        Ctrl-C ends training early: the estimator keeps what it has learned so far, with a warning.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, NaN means that one was not observed in a row.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w has the noise variance ``sigma_v**2 / w``.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row. Only with
            ``covariance_type="full"``.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, X_std, X_cov)

    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> Self:
        """Learn from the rows given, once and in their order; the posterior becomes the prior.

        A call that raises, by Ctrl-C too, leaves the estimator as it was. Running statistics are
        updated before the rows are learned; the function learned so far does not change with them.
        Not thread-safe: nothing else may use the estimator meanwhile. ``predict`` is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, NaN means that one was not observed in a row.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w has the noise variance ``sigma_v**2 / w``.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row. Only with
            ``covariance_type="full"``.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._partial_fit(X, y, sample_weight, X_std, X_cov)

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean, and the standard deviation if asked for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        return_std : bool, default=False
            Return the predictive standard deviation too: of the network and of the noise. What
            lies within some of them is not what a Gaussian says if the errors are not Gaussian:
            see `predict_interval`.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictive mean.

        std : ndarray, same shape
            Predictive standard deviation; only if ``return_std``.
        """
        mean, epistemic, aleatoric = self._predictive(X, X_std, X_cov)
        if return_std:
            return mean, np.sqrt(epistemic + aleatoric).astype(mean.dtype)
        return mean

    def predict_variance(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split the predictive variance into the network's part and the noise's part.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        epistemic : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Variance that comes from the parameters and the members, which more data reduces, and
            from the errors of the inputs if ``X_std`` or ``X_cov`` is given, which it does not.

        aleatoric : ndarray, same shape
            Variance of the observation noise. The two add up to the square of predict's std.
        """
        mean, epistemic, aleatoric = self._predictive(X, X_std, X_cov)
        aleatoric = np.broadcast_to(aleatoric, epistemic.shape)
        return epistemic.astype(mean.dtype), aleatoric.astype(mean.dtype)

    def predict_quantiles(
        self,
        X: MatrixLike,
        quantiles: ArrayLike,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray:
        """Quantiles of the predictive distribution.

        Their distances from predict's mean, in units of its std, are those of the errors of the
        rows that ``fit`` has held out. That needs ``early_stopping`` and ten such rows for each
        member; otherwise the distribution is a Gaussian, as it is for all other methods. It is
        symmetric: the median is the mean.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        quantiles : float or array-like
            Probabilities between 0 and 1.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, n_quantiles)
            ``(n_samples, n_targets, n_quantiles)`` for several targets.
        """
        check_is_fitted(self)
        widths = self._standard_quantiles(check_probabilities(quantiles, "quantiles"))
        return self._around_mean(X, widths, X_std, X_cov)

    def predict_interval(
        self,
        X: MatrixLike,
        coverage: float = 0.9,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray:
        """Central interval that holds the target with probability ``coverage``.

        Its ends are two of `predict_quantiles`, which follow the shape of held-out errors: it may
        be narrower or wider than that of a Gaussian with predict's std.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        coverage : float, default=0.9
            Probability between 0 and 1.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends; ``(n_samples, n_targets, 2)`` for several targets.
        """
        check_is_fitted(self)
        coverage = check_coverage(coverage)
        lower = self._standard_quantiles(np.array([(1 - coverage) / 2]))
        return self._around_mean(X, np.hstack([lower, -lower]), X_std, X_cov)

    def _standard_quantiles(self, quantiles: np.ndarray) -> np.ndarray:
        calibration = self._net.calibration
        return standard_quantiles(None if calibration is None else calibration.tails, quantiles)

    def _around_mean(self, X: Any, widths: np.ndarray, X_std: Any, X_cov: Any) -> np.ndarray:
        """Return the mean plus some standard deviations, (n_outputs or 1, n)."""
        mean, std = self.predict(X, return_std=True, X_std=X_std, X_cov=X_cov)
        if self._y_ndim == 1:
            widths = widths[0]
        return mean[..., None] + std[..., None] * widths.astype(std.dtype)

    def sample_y(
        self,
        X: MatrixLike,
        n_samples: int = 1,
        random_state: RandomState = 0,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray:
        """Draw targets from the predictive distribution of each row.

        That is a Gaussian with predict's mean and std, without the shape of `predict_quantiles`;
        rows are drawn independently of each other.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        n_samples : int, default=1
            Draws for each row.

        random_state : int, RandomState instance or None, default=0
            Determines the draws.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        y_samples : ndarray of shape (n_samples_X, n_samples)
            ``(n_samples_X, n_targets, n_samples)`` for several targets.
        """
        n_samples = check_count(n_samples, "n_samples")
        mean, std = self.predict(X, return_std=True, X_std=X_std, X_cov=X_cov)
        draws = check_rng(random_state).standard_normal((*mean.shape, n_samples))
        return (mean[..., None] + std[..., None] * draws).astype(mean.dtype)

    def log_likelihood(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> float:
        """Mean log predictive density of y, that of a Gaussian with predict's mean and std.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, NaN means that one was not observed in a row.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        log_likelihood : float
            The mean over the rows; a row's density is that of all its observed targets.
        """
        mean, std = self.predict(X, return_std=True, X_std=X_std, X_cov=X_cov)
        return gaussian_log_likelihood(y, mean, std, sample_weight=sample_weight)

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R² of the predictive mean.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; with several, NaN where one was not observed.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            R², at most 1; the mean over the targets, each over the rows that observe it.
        """
        mean = self.predict(X)
        if missing_targets(y) is None:
            return float(r2_score(y, mean, sample_weight=sample_weight))
        weight = check_weight(sample_weight, len(mean))
        if np.shape(y) != mean.shape:
            raise ValueError(f"y has shape {np.shape(y)}, predictions have shape {mean.shape}.")
        values = check_targets(y, "y", weight)
        scores = []
        for truth, predicted in zip(values.T, mean.T, strict=True):
            known = ~np.isnan(truth) & (weight > 0)
            if known.sum() > 1:  # R² of fewer rows is not defined
                scores.append(r2_score(truth[known], predicted[known], sample_weight=weight[known]))
        return float(np.mean(scores)) if scores else float("nan")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _validate_X_y(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        if not reset and self._is_plain(X) and is_plain(y, None) and len(X) == len(y):
            return X, y
        values = missing_targets(y)
        X, y = validate_data(
            self, X, y if values is None else np.nan_to_num(values, posinf=np.inf, neginf=-np.inf),
            reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32],
            multi_output=True, y_numeric=True,
        )  # fmt: skip
        return X, y if values is None else values

    def _validate_targets(
        self, y: np.ndarray, *, first: bool, incremental: bool, classes: Any
    ) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)
        if first or not incremental:
            if not first and columns.shape[1] != self.n_outputs_:
                raise ValueError(self._other_targets(columns.shape[1]))
            self._y_ndim = y.ndim
            self._n_targets = columns.shape[1]
        elif columns.shape[1] != self._n_targets:
            raise ValueError(self._other_targets(columns.shape[1]))
        return columns

    def _other_targets(self, n_targets: int) -> str:
        return f"y has {n_targets} targets, but the estimator is fitted to {self._n_targets}."

    def _observation_model(self, scaling: Scaling | None = None) -> Gaussian:
        moments = None if scaling is None else scaling.y
        return Gaussian(self._n_targets, None if moments is None else moments.scale)

    def _predictive(
        self, X: Any, X_std: Any, X_cov: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, variance of the network and variance of the noise, in original units."""
        blocks = self._moments(X, X_std, X_cov)
        scaling, dtype = self._scaling, self._net.dtype
        means, variances = [], []
        for mu_z, var_z in blocks:
            mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)
            # Law of total variance over the members.
            moments = scaling.original(mu_z.mean(axis=0), var_z.mean(axis=0) + mu_z.var(axis=0))
            means.append(moments[0].T)
            variances.append(moments[1].T)
        mean, epistemic = np.concatenate(means).astype(dtype), np.concatenate(variances)
        noise_var = self._net.reported_noise.mean(axis=0)
        aleatoric = scaling.original(np.zeros_like(noise_var), noise_var)[1][:, 0]
        if self._y_ndim == 1:
            return mean[:, 0], epistemic[:, 0], aleatoric[0]
        return mean, epistemic, aleatoric
