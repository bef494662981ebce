"""TAGIClassifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ._base import BaseTAGI
from ._input import MatrixLike, RandomState, check_weight
from ._labels import as_labels, class_numbers, distinct_labels
from ._scaling import Scaling
from ._user_split import UserSplit
from .engine.tree import ClassTree, class_tree

__all__ = ["TAGIClassifier"]


class TAGIClassifier(ClassifierMixin, BaseTAGI):
    """Bayesian neural network for classification, inferred in closed form (TAGI).

    Classes are the leaves of a binary tree whose nodes are the outputs of the network (paper,
    App. C). Every class probability carries a standard deviation.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer; ``()`` gives a linear model.

    activation : str, default="relu"
        ``"identity"``, ``"relu"``, ``"leaky_relu"``, ``"tanh"``, ``"logistic"`` or ``"softplus"``:
        linearised at the mean of each hidden unit, as in the paper. ``"relu_exact"`` uses the exact
        mean and variance of a rectified Gaussian instead.

    sigma_v : float, "auto" or "constant", default="auto"
        Standard deviation of the observation noise, of the tree's targets, which are +1 and -1.
        ``"auto"`` learns it while fitting (expectation maximisation) and, with ``early_stopping``,
        keeps the value that maximises the likelihood of the validation rows. It is one for all
        rows: ``"constant"`` is the same.

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
        Epochs at most. 0 gives the prior predictive. If early stopping had the time to act and the
        validation rows were still gaining at the end, ``fit`` gives a ``ConvergenceWarning``.

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
        The share of distinct rows that are held out; copies of a row stay together. Classes are
        held out in proportion. Not used with ``cv`` or ``X_val``.

    cv : int, splitter, iterable of (train, test) or None, default=None
        Which rows members hold out. None is a share of random rows for each member. Otherwise a
        splitter of scikit-learn, such as ``GroupKFold()`` (with ``groups`` in ``fit``),
        ``TimeSeriesSplit()`` or ``PredefinedSplit(...)``, pairs of row numbers, or a number of
        folds as in `cross_validate`: consecutive rows, classes in proportion. A member
        learns the training rows of its split and holds out the test rows. The first two members
        share the first split, the others go round the rest. Needs ``early_stopping``;
        ``partial_fit`` ignores it.

    n_iter_no_change : int, default=20
        Epochs without a gain after which training stops.

    tol : float, default=1e-4
        The smallest gain in mean log-likelihood that counts.

    n_members : int, default=10
        Networks that are inferred side by side and mixed, each from a prior draw of its own and
        with rows of its own held out, but for the first two, which share theirs: their
        disagreement there is that at new rows. Members agree near the data and differ away from
        it, where one network alone may be too sure.

    standardize : bool, default=True
        Centre and scale features with statistics of the training rows (running
        statistics in ``partial_fit``). Sparse features are scaled, not centred.

    weight_gain : float, default=1.0
        Factor of the prior variance of the weights, which is Xavier's ``2 / (n_in + n_out)``.

    bias_variance : float, default=0.01
        Prior variance of the biases.

    probit_scale : float, default=1/3
        Scale inside the normal cumulative distribution that turns outputs into probabilities
        (the paper's alpha).

    shuffle : bool, default=True
        Shuffle the rows in each epoch. ``partial_fit`` never does.

    random_state : int, RandomState instance or None, default=None
        Determines the prior draws, the rows held out and the shuffling.

    warm_start : bool, default=False
        Start ``fit`` from the posterior of the previous call instead of the prior. The same rows
        are held out again; give the same rows, and a ``cv`` that splits them as before, or use
        ``partial_fit`` for new ones.

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

    sigma_v_ : float
        Observation-noise standard deviation in use.

    classes_ : ndarray of shape (n_classes,)
        Class labels.

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
        a test score without a test set. It is the mean over members of what each scores alone,
        since the network was drawn or ``fit``; NaN without streamed rows.

    recent_log_likelihood_ : float
        The same mean, in which a row counts half 500 rows later: a fall shows drift.

    n_outputs_ : int
        Output units: the nodes of the class tree, 11 for ten classes.

    n_samples_seen_ : int
        Rows of positive weight given to ``fit`` and ``partial_fit``, without those of ``X_val``.

    n_features_in_ : int
        Number of features.

    feature_names_in_ : ndarray of str
        Names of the features, if X has string column names.

    See Also
    --------
    TAGIRegressor : The same network for continuous targets.

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
    >>> from sklearn.datasets import load_iris
    >>> from sktagi import TAGIClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAGIClassifier(random_state=0).fit(X, y)
    >>> proba, std = model.predict_proba(X, return_std=True)
    >>> proba.shape, std.shape
    ((150, 3), (150, 3))
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    # With metadata routing enabled, a pipeline passes return_std on to predict_proba.
    __metadata_request__predict_proba = {"return_std": True}

    _scales_targets = False
    classes_: np.ndarray

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        activation: str = "relu",
        *,
        sigma_v: float | Literal["auto", "constant"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        batch_inference: Literal["joint", "independent"] = "joint",
        covariance_type: Literal["diag", "full"] = "diag",
        max_iter: int = 100,
        half_life: float | Literal["auto"] | None = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        cv: Any = None,
        n_iter_no_change: int = 20,
        tol: float = 1e-4,
        n_members: int = 10,
        standardize: bool = True,
        weight_gain: float = 1.0,
        bias_variance: float = 0.01,
        probit_scale: float = 1 / 3,
        shuffle: bool = True,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        super().__init__(
            hidden_layer_sizes,
            activation,
            sigma_v=sigma_v,
            batch_size=batch_size,
            batch_inference=batch_inference,
            covariance_type=covariance_type,
            max_iter=max_iter,
            half_life=half_life,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            cv=cv,
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

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        *,
        X_val: MatrixLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the network to rows X and classes y.

        Ctrl-C ends training early: the estimator keeps what it has learned so far, with a warning.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Class labels: any hashable values.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w has the noise variance ``sigma_v**2 / w``. Their common size
            does not matter: they are divided by the smallest if that is above 1, and by their mean
            if that is below 1. Rows of weight zero are left out.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row. Only with
            ``covariance_type="full"``.

        X_val : {array-like, sparse matrix} of shape (n_val, n_features), default=None
            Rows to hold out, in the place of some of X: every member learns all rows of X, and
            these tell when to stop, and how sure to be. In a `Pipeline`, they are transformed as X
            is with ``Pipeline(..., transform_input=["X_val"])``.

        y_val : array-like of shape (n_val,), default=None
            Classes of the rows of ``X_val``, which must occur in y.

        sample_weight_val : array-like of shape (n_val,), default=None
            Weights of the rows of ``X_val``; their common size does not matter.

        groups : array-like of shape (n_samples,), default=None
            Groups of the rows, for the splitter ``cv``.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        user = UserSplit(X_val, y_val, sample_weight_val, groups)
        return self._fit(X, y, sample_weight, X_std, X_cov, user)

    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
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

        y : array-like of shape (n_samples,)
            Class labels: any hashable values.

        classes : array-like of shape (n_classes,), default=None
            All classes that will ever occur; required in the first call.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w has the noise variance ``sigma_v**2 / w``. Their size
            matters here, unlike in ``fit``: a weight of two is the row twice.

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
        return self._partial_fit(X, y, sample_weight, X_std, X_cov, classes)

    def predict(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> np.ndarray:
        """Predict the most probable class.

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
        y : ndarray of shape (n_samples,)
            Class labels.
        """
        log_proba = self.predict_log_proba(X, X_std=X_std, X_cov=X_cov)
        return self.classes_[log_proba.argmax(axis=1)]

    @overload
    def predict_proba(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray: ...

    @overload
    def predict_proba(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict_proba(
        self,
        X: MatrixLike,
        return_std: bool,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict_proba(
        self,
        X: MatrixLike,
        return_std: bool = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict class probabilities, and their standard deviations if asked for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        return_std : bool, default=False
            Return the standard deviation of each probability too.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``.

        std : ndarray, same shape
            How far a probability may be off, given what the network does not know and the noise;
            only if ``return_std``.
        """
        blocks = self._output_moments(X, X_std, X_cov)
        tree, probas, stds = self._tree, [], []
        for mu_z, var_y in blocks:
            proba = np.exp(tree.log_proba(mu_z, var_y))
            probas.append(proba.mean(axis=0).T)
            if return_std:
                # Law of total variance over the members.
                within = np.square(tree.proba_std(mu_z, var_y)).mean(axis=0)
                stds.append(np.sqrt(within + proba.var(axis=0)).T)
        dtype = self._net.dtype
        if return_std:
            return np.concatenate(probas).astype(dtype), np.concatenate(stds).astype(dtype)
        return np.concatenate(probas).astype(dtype)

    def predict_log_proba(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> np.ndarray:
        """Predict logarithms of class probabilities.

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
        log_proba : ndarray of shape (n_samples, n_classes)
            Finite even where a probability underflows to zero.
        """
        blocks = []
        for mu_z, var_y in self._output_moments(X, X_std, X_cov):
            log_proba = self._tree.log_proba(mu_z, var_y)
            blocks.append((logsumexp(log_proba, axis=0) - np.log(len(log_proba))).T)
        return np.concatenate(blocks).astype(self._net.dtype)

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the share of rows whose class is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Class labels: any hashable values.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Accuracy, in [0, 1].
        """
        predicted = self.predict_log_proba(X).argmax(axis=1)
        labels = column_or_1d(as_labels(y))
        check_consistent_length(predicted, labels)
        right = predicted == class_numbers(labels, self.classes_, refuse=False)
        return float(np.average(right, weights=check_weight(sample_weight, len(labels))))

    def log_likelihood(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> float:
        """Mean log probability of the classes y: minus the log-loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Class labels: any hashable values.

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
            The mean over the rows.
        """
        log_proba = self.predict_log_proba(X, X_std=X_std, X_cov=X_cov)
        labels = column_or_1d(as_labels(y))
        check_consistent_length(log_proba, labels)
        chosen = log_proba[np.arange(len(labels)), class_numbers(labels, self.classes_)]
        return float(np.average(chosen, weights=check_weight(sample_weight, len(labels))))

    def _validate_X_y(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        X, y = validate_data(
            self, X, as_labels(y), reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        if y.dtype.kind != "O":
            check_classification_targets(y)
        return X, y

    def _validate_targets(
        self, y: np.ndarray, *, first: bool, incremental: bool, classes: Any
    ) -> np.ndarray:
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
        elif classes is not None and (
            set(self._distinct_classes(classes).tolist()) != set(self.classes_.tolist())
        ):
            raise ValueError(
                f"classes={list(classes)!r} is not the same as on the last call to "
                f"partial_fit, which was {self.classes_.tolist()!r}."
            )
        return class_numbers(y, self.classes_)

    @staticmethod
    def _distinct_classes(classes: Any) -> np.ndarray:
        if np.ndim(classes) == 0 or len(classes) == 0:
            raise ValueError(f"classes must be a list of class labels; got {classes!r}.")
        found = distinct_labels(column_or_1d(as_labels(classes)))
        if any(label != label for label in found.tolist()):
            raise ValueError(f"classes must not contain NaN; got {classes!r}.")
        return found

    def _observation_model(
        self, scaling: Scaling | None = None, *, streamed: bool = False
    ) -> ClassTree:
        return class_tree(len(self.classes_), float(self.probit_scale))

    @property
    def _tree(self) -> ClassTree:
        return cast(ClassTree, self._net.outputs)

    def _output_moments(
        self, X: Any, X_std: Any, X_cov: Any
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield float64 moments of the observed outputs, for blocks of rows."""
        return (
            (mu_z.astype(np.float64), var_z.astype(np.float64) + self._net.reported_noise)
            for mu_z, var_z in self._moments(X, X_std, X_cov)
        )
