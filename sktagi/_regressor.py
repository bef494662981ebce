"""TAGIRegressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags, check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from ._base import BaseTAGI
from ._input import (
    MatrixLike,
    RandomState,
    RawRows,
    beyond_single,
    check_count,
    check_probabilities,
    check_rng,
    check_targets,
    is_plain,
    missing_targets,
    refuse_too_large,
    refuse_unknown,
    score_weight,
)
from ._joint import JointPredictionsMixin, draw_jointly, predictive_covariance
from ._target_transform import (
    TargetMap,
    fit_transformer,
    make_transformer,
    map_of,
    same_settings,
)
from ._user_split import UserSplit
from .distribution import PredictiveDistribution
from .engine.fast import ZERO, mean_of_first, overflow_allowed, slices
from .engine.observations import Gaussian, ObservationModel
from .engine.shape import Shape, gaussian_shape
from .engine.sparse import width

__all__ = ["TAGIRegressor"]

BLOCK_ELEMENTS = 1 << 17  # of the inputs of a block of rows


class TAGIRegressor(RegressorMixin, JointPredictionsMixin, BaseTAGI):
    """Bayesian neural network for regression, inferred in closed form (TAGI).

    Every prediction carries a standard deviation, and a distribution. The posterior of the weights
    is Gaussian, with independent entries unless ``covariance_type="full"``; each batch of rows
    updates it analytically, without gradients or sampling. Rows that are held out tell when to
    stop, how wide and how skewed the distribution is, and how its noise varies with X.

    Parameters
    ----------
    hidden_layer_sizes : int, sequence of int or "auto", default="auto"
        Units in each hidden layer; ``()`` gives a linear model. ``"auto"`` lets ``fit`` train
        networks of several kinds, and mixes them as held-out rows say: see the notes, and
        ``kinds_`` for their weights. In streams from scratch, with ``early_stopping=False`` and
        with ``covariance_type="full"`` it is ``(50,)``.

    activation : str, default="relu"
        Of the hidden units of explicit sizes, and where ``"auto"`` is ``(50,)``. ``"identity"``,
        ``"relu"``, ``"leaky_relu"``, ``"tanh"``, ``"logistic"`` or ``"softplus"``: linearised at
        the mean of each hidden unit, as in the paper. ``"relu_exact"`` uses the exact mean and
        variance of a rectified Gaussian instead.

    sigma_v : float, "auto" or "constant", default="auto"
        Standard deviation of the observation noise, in units of the standardised target. A number
        is kept. ``"constant"`` learns one level for each target while fitting (expectation
        maximisation); with ``early_stopping`` it is then the one with which the held-out rows are
        most likely under the mixture of the members. ``"auto"`` learns it too, and lets it vary
        from row to row where held-out rows speak for that: a second, small network learns it from
        their errors, in streams from those of rows before they are learned. Unless a number is
        given, ``fit`` sets gross outliers among the targets aside, with a warning, and in streams
        targets beyond six standard deviations count less.

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

    max_iter : int or "auto", default="auto"
        Epochs at most. 0 gives the prior predictive. ``"auto"`` is 60 for up to 1000 rows to learn
        from; for more it falls with the cube root of their number, to 10 at least. If ``half_life``
        is not ``"auto"``, early stopping had the time to act and the validation rows were still
        gaining at the end, ``fit`` gives a ``ConvergenceWarning``.
        With ``sigma_v="auto"`` and early stopping, at most 70 % of the epochs have constant noise.

    half_life : float, None or "auto", default="auto"
        Number of rows after which evidence counts half, in epochs as in streams. None never
        forgets, as in the paper. ``"auto"`` with early stopping starts at half the geometric mean
        of the number of rows and the number of parameters of a network, and at least 8 batches;
        the rate of forgetting then falls in a straight line, to nothing when the epochs of
        ``max_iter`` are over. Without early stopping it is 3 rows for each
        parameter. In streams it follows what comes: it is between two rows for five
        parameters (at least 20) and 10 for each (at least 2000), grows while predictions
        hold, and falls after a change (see
        ``drift_score_``).

    early_stopping : bool, default=True
        Hold out ``validation_fraction`` of the rows, follow their log-likelihood, stop after
        ``n_iter_no_change`` epochs without a gain of ``tol``, and keep the best posterior. The same
        rows then calibrate the predictive distribution; without them it is a Gaussian with
        constant noise. ``partial_fit`` holds out nothing.

    validation_fraction : float, default=0.1
        The share of distinct rows that are held out; copies of a row stay together. Not used
        with ``cv`` or ``X_val``.

    cv : int, splitter, iterable of (train, test) or None, default=None
        Which rows members hold out. None is a share of random rows for each member. Otherwise a
        splitter of scikit-learn, such as ``GroupKFold()`` (with ``groups`` in ``fit``),
        ``TimeSeriesSplit()`` or ``PredefinedSplit(...)``, pairs of row numbers, or a number of
        folds as in `cross_validate`: consecutive rows, classes in proportion. A member
        learns the training rows of its split and holds out the test rows. The first two members
        share the first split, the others go round the rest. Needs ``early_stopping``;
        ``partial_fit`` ignores it.

    n_iter_no_change : int, default=20
        Epochs without a gain after which a member stops, each kind of network on its own. With
        ``sigma_v="auto"``, training has two parts: with constant noise, until three quarters of
        this number bring no gain, and then, from the best posterior on, with rows that count as
        their noise says, until half of it brings none.

    tol : float, default=1e-4
        The smallest gain in mean log-likelihood that counts.

    n_members : int or "auto", default="auto"
        Networks, of each kind, that are inferred side by side and mixed, each from a prior draw of
        its own and with rows of its own held out, but for the first two, which share theirs: their
        disagreement there is that at new rows. Members agree near the data and differ away from
        it, where one network alone may be too sure. ``"auto"`` is 10 below 1000 rows and in streams
        from scratch, else 5.

    n_jobs : int or None, default=None
        Processes in which ``fit`` trains kinds of networks, and members five at a time, with
        joblib: -1 is one for each core, None is 1 unless ``joblib.parallel_config`` says otherwise,
        which chooses the backend, too. The result is the same for any number. With callbacks of
        scikit-learn, members learn in this process.

    standardize : bool, default=True
        Centre and scale features and target with statistics of the training rows (running
        statistics in ``partial_fit``). Sparse features are scaled, not centred, if there are more
        than 256; fewer are learned as dense ones.

    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns of X are categories: by their type in a frame (pandas category, string and
        object columns with text; polars Categorical, Enum and String), or a mask, numbers or names
        of columns; None: no column is. A category is one-hot inside, with rare levels joined; a
        level that was not learned is uncertain. In `partial_fit` the levels are those that the
        type declares, or those of the first call.

    weight_gain : float, default=1.0
        Factor of the prior variance of the weights, which is Xavier's ``2 / (n_in + n_out)``.

    bias_variance : float, default=0.01
        Prior variance of the biases, of explicit sizes; kinds of networks have 0.3.

    target_transform : {None, "log", "power"} or transformer, default=None
        Increasing map of the targets that the network learns; every prediction is in the units of
        y. ``"log"`` is for positive targets. ``"power"`` is scikit-learn's PowerTransformer (Yeo
        and Johnson) of the standardised target, for skewed ones. Any other invertible transformer
        of scikit-learn may be given; it is cloned. What has to be fitted is fitted to the targets
        of ``fit``, or of the first ``partial_fit``; only ``"power"`` uses their weights.

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
    coefs_, intercepts_ : list of ndarray, or dict of such lists
        Posterior means of the weights, ``(n_in, n_out)``, and biases, ``(n_out,)``, of each layer;
        with ``n_members > 1`` they have a leading axis of members. Of several kinds of networks, a
        dict with a list for each, by its name; inputs of a first layer are then those that the kind
        sees: whitened ones, or pieces.

    coef_vars_, intercept_vars_ : list of ndarray, or dict of such lists
        Posterior variances, in the same shapes.

    kinds_ : dict of str to float, or to ndarray of shape (n_targets,)
        Weights of the kinds of networks in the mixture, by their names; ``fit`` leaves those out
        that have none. They are not negative and sum to one. Only if ``hidden_layer_sizes`` is
        ``"auto"`` and rows were held out.

    coef_ : ndarray of shape (n_inputs,) or (n_targets, n_inputs)
        Coefficients of a linear model, ``hidden_layer_sizes=()``, in units of X and of y (of the
        transformed one with ``target_transform``): means over the members. One for each of
        ``encoded_feature_names_``.

    intercept_ : float, or ndarray of shape (n_targets,)
        Constant term of a linear model, in the same units of y.

    feature_importances_ : ndarray of shape (n_features,)
        How much the mean changes when a feature changes by its standard deviation (all levels of
        a category together): root mean square over some training rows, in a stream early ones.
        They sum to one. Not for sparse matrices, nor for tables of so many levels that they become
        one.

    layer_covariances_ : list of ndarray
        Posterior covariances of each layer's parameters, ``(n_params, n_params)`` in the order of
        ``coefs_[j].ravel()`` and then ``intercepts_[j]``; with ``covariance_type="full"`` only.

    sigma_v_ : float, or ndarray of shape (n_targets,)
        Constant level of the observation noise, a standard deviation in units of the standardised
        target, which is a transformed one with ``target_transform``. If the noise varies, that of
        each row is a multiple of it: see ``predict_noise_std``. The disagreement of the members is
        counted apart: it may be smaller than the true noise.

    n_iter_ : int
        Epochs run by ``fit``; each call of ``partial_fit`` adds one.

    best_iter_ : int, or ndarray of int of shape (n_members,) or (n_kinds, n_members)
        The epoch whose posterior was kept; of several kinds, in the order of ``kinds_``.

    train_scores_ : list of float
        Mean log-likelihood of the training rows in each epoch, each batch before it was learned; of
        several kinds, that of the one that is best on the validation rows after this epoch.
        With ``target_transform``, the mean log slope of all rows is added, so that it is in the
        units of y; to the validation scores, too.

    validation_scores_ : list of float, or None
        Mean log-likelihood of the validation rows after each epoch, of several kinds that of the
        best one; None without early stopping.
        Where rows begin to count as their noise says, there is a step.

    prequential_log_likelihood_ : float
        Mean log-likelihood of the rows given to ``partial_fit``, each batch before it was learned:
        a test score without a test set. It is the mean over members of what each scores alone, in
        original units, since the network was drawn or ``fit``; NaN without streamed rows.

    recent_log_likelihood_ : float
        The same mean, in which a row counts half 500 rows later: a fall shows drift.

    drift_score_ : float
        How much worse the network of some time ago predicts recent rows than the present one, in
        standard errors: below one on a stream that does not change, above four after a change. A
        network that still learns much scores one to four, too. NaN until ``partial_fit`` has seen
        some rows; starts again with ``fit``.

    target_transformer_ : transformer
        The fitted transformer of the targets; with ``target_transform`` only.

    n_outputs_ : int
        Output units: the number of targets.

    n_samples_seen_ : int
        Rows of positive weight given to ``fit`` and ``partial_fit``, without those of ``X_val``.

    n_features_in_ : int
        Number of features.

    feature_names_in_ : ndarray of str
        Names of the features, if X has string column names.

    encoded_feature_names_ : ndarray of str
        Names of the inputs of the networks: features, levels of categories, and for columns in
        which training rows lack values what says that one is missing.

    See Also
    --------
    TAGIClassifier : The same network for classes.
    sktagi.metrics.log_likelihood_scorer : What tunes ``sigma_v`` in GridSearchCV; R^2 cannot.

    Notes
    -----
    With ``hidden_layer_sizes="auto"``, ``fit`` trains members of several kinds: linear; smooth (50
    tanh units that see inputs whitened, that is, uncorrelated); pieces (50 tanh units that see each
    input cut at its quantiles into up to eight; from 5000 rows on, two layers of 50 relu units);
    deep (two layers of 50 relu units that see inputs whitened, from 1000 rows on). For more than
    100 features they are linear, smooth and plain (50 relu units), and see inputs as they are. The
    output of a member is the mean of its kinds, weighted so that rows held out have the smallest
    errors (stacking). After 10 epochs kinds with less than 1 % of the weight are left behind. With
    fewer than ten rows for each feature nothing is whitened. From 400 rows on kinds learn in single
    precision. ``partial_fit`` after ``fit`` lets all kinds that
    are left learn, and weighs them anew by their errors on rows before these are learned: a row
    counts half 500 rows later.

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
    >>> low, high = model.predict_interval(X_test, coverage=0.9).T
    >>> model.predict_dist(X_test[:1]).sf(200).round(1)  # probability of more than 200
    array([0.8])
    >>> -6 < model.log_likelihood(X_test, y_test) < -5
    True
    >>> max(model.kinds_, key=model.kinds_.get)  # the kind of network with the largest weight
    'linear'
    """

    _scales_targets = True
    _y_ndim: int
    _n_targets: int
    target_transform: Any = None  # of an estimator that was saved before there was one
    target_transformer_: Any
    _target_range: np.ndarray | None

    # With metadata routing enabled, a pipeline passes these on to predict.
    __metadata_request__predict = {"return_std": True, "return_cov": True}

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] | Literal["auto"] = "auto",
        activation: str = "relu",
        *,
        sigma_v: float | Literal["auto", "constant"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        batch_inference: Literal["joint", "independent"] = "joint",
        covariance_type: Literal["diag", "full"] = "diag",
        max_iter: int | Literal["auto"] = "auto",
        half_life: float | Literal["auto"] | None = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        cv: Any = None,
        n_iter_no_change: int = 20,
        tol: float = 1e-4,
        n_members: int | Literal["auto"] = "auto",
        n_jobs: int | None = None,
        standardize: bool = True,
        categorical_features: Any = "from_dtype",
        weight_gain: float = 1.0,
        bias_variance: float = 0.01,
        target_transform: Any = None,
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
            n_jobs=n_jobs,
            standardize=standardize,
            categorical_features=categorical_features,
            weight_gain=weight_gain,
            bias_variance=bias_variance,
            shuffle=shuffle,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.target_transform = target_transform

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
        """Fit the network to rows X and targets y.

        Ctrl-C ends training early: the estimator keeps what it has learned so far, with a warning;
        with several ``n_jobs``, up to the last tenth epoch. A second Ctrl-C within the same fit, or
        within two seconds, raises KeyboardInterrupt, and the estimator is as it was before: so it
        ends a search that fits one estimator after the other.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features; also a frame of pandas or polars. NaN is a missing value; columns of text or
            of categories are described at ``categorical_features``. Dates are refused.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, NaN means that one was not observed in a row.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w is learned with its noise variance over w. Their common size
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

        y_val : array-like of shape (n_val,) or (n_val, n_targets), default=None
            Targets of the rows of ``X_val``.

        sample_weight_val : array-like of shape (n_val,), default=None
            Weights of the rows of ``X_val``; their common size does not matter.

        groups : array-like of shape (n_samples,), default=None
            Groups of the rows, for the splitter ``cv``. In the calibration, rows of a group that
            are held out count as one.

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
            Features; also a frame of pandas or polars. NaN is a missing value; columns of text or
            of categories are described at ``categorical_features``. Dates are refused.

        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, NaN means that one was not observed in a row.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w is learned with its noise variance over w. Their size
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
        return self._partial_fit(X, y, sample_weight, X_std, X_cov)

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        return_cov: Literal[False] = False,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        return_cov: Literal[False] = False,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        *,
        return_cov: Literal[True],
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        return_cov: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        return_cov: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean, and the standard deviation or the covariance of rows if asked for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

        return_std : bool, default=False
            Return the predictive standard deviation too: of the network and of the noise at each
            row, see `predict_variance`. What lies within some of them is not what a Gaussian says
            if the errors are not Gaussian: see `predict_interval`.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        return_cov : bool, default=False
            Return the covariance of the targets of all rows too, in the place of ``return_std``.
            Rows share parameters, so their errors go together. Noise and errors of inputs are
            independent from row to row: they are in the diagonal only, which is the square of the
            standard deviation. Not with ``target_transform``: `sample_y` with ``joint=True`` is.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictive mean.

        std : ndarray, same shape
            Predictive standard deviation; only if ``return_std``.

        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Predictive covariance; only if ``return_cov``. Without the noise, it is
            ``cov - np.diag(model.predict_variance(X)[1])``. In double precision, as variances are.
            Memory is that of five such arrays.
        """
        if return_cov:
            if return_std:
                raise RuntimeError("At most one of return_std or return_cov can be requested.")
            check_is_fitted(self)
            if self._transforms:
                raise ValueError(
                    "return_cov is not available with target_transform; "
                    "sample_y(X, n_samples, joint=True) draws targets of rows together."
                )
            return predictive_covariance(self, X, X_std, X_cov)
        noisy = return_std or self._transforms
        mean, epistemic, aleatoric = self._predictive(X, X_std, X_cov, noisy=noisy)
        if self._transforms:
            dist = self._distribution(mean, epistemic + aleatoric)
            moments = self._as_floats(dist.mean()), self._as_std(dist.std())
            return moments if return_std else moments[0]
        if return_std:
            return mean, self._as_std(np.sqrt(epistemic + aleatoric))
        return mean

    def predict_dist(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> PredictiveDistribution:
        """Predict the distribution of the target in each row.

        It is one object for all rows, with the methods of scipy's distributions: ``mean``, ``std``,
        ``var``, ``median``, ``pdf``, ``logpdf``, ``cdf``, ``sf``, ``ppf``, ``isf``, ``interval``,
        ``support`` and ``rvs``. What other methods return is read from it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        dist : PredictiveDistribution
            Distributions of shape ``(n_samples,)`` or ``(n_samples, n_targets)``.
        """
        mean, epistemic, aleatoric = self._predictive(X, X_std, X_cov)
        return self._distribution(mean, epistemic + aleatoric)

    def predict_variance(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split the predictive variance into the network's part and the noise's part.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

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
            Variance of the observation noise at each row: all are equal unless it varies, for
            which it takes ``sigma_v="auto"``. The two add up to the square of predict's std. With
            ``target_transform``, that is divided as the variance of the transformed target is.
        """
        mean, epistemic, aleatoric = self._predictive(X, X_std, X_cov)
        aleatoric = np.broadcast_to(aleatoric, epistemic.shape)
        if self._transforms:
            var = epistemic + aleatoric
            factor = self._distribution(mean, var).var() / var
            epistemic, aleatoric = epistemic * factor, aleatoric * factor
        return epistemic, np.array(aleatoric)

    def predict_noise_std(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> np.ndarray:
        """Predict the standard deviation of the observation noise in each row.

        It is what is left of the predictive standard deviation when the network knows everything:
        the square root of the second part of `predict_variance`. With ``sigma_v="auto"`` it differs
        from row to row where the data say so.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X. They count only with ``target_transform``, by the mean that they change.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``.

        Returns
        -------
        std : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Standard deviation of the noise, in the units of y.
        """
        return self._as_std(np.sqrt(self.predict_variance(X, X_std, X_cov)[1]))

    def predict_quantiles(
        self,
        X: MatrixLike,
        quantiles: ArrayLike,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray:
        """Quantiles of the predictive distribution.

        They are those of `predict_dist`. Their distances from predict's mean, in units of its std,
        follow the errors of the rows that ``fit`` has held out, and need not be symmetric. With few
        such rows they are nearly those of a Gaussian, and without ``early_stopping`` exactly.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

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
        levels = check_probabilities(quantiles, "quantiles")
        dist = self.predict_dist(X, X_std, X_cov)
        return self._as_floats(_last_axis(dist.ppf(_first_axis(levels, dist.ndim))))

    def predict_interval(
        self,
        X: MatrixLike,
        coverage: ArrayLike = 0.9,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> np.ndarray:
        """Central interval that holds the target with probability ``coverage``.

        Its ends are the quantiles ``(1 - coverage) / 2`` and ``(1 + coverage) / 2`` of
        `predict_dist`, which follow the shape of held-out errors: it may be narrower or wider than
        that of a Gaussian with predict's std, and need not be symmetric.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

        coverage : float or array-like of shape (n_coverages,), default=0.9
            Probability between 0 and 1, or several.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends; ``(n_samples, n_targets, 2)`` for several targets. An array of
            coverages gives an axis before the last: ``(n_samples, n_coverages, 2)`` or
            ``(n_samples, n_targets, n_coverages, 2)``.
        """
        one = np.ndim(coverage) == 0
        levels = check_probabilities(coverage, "coverage")
        dist = self.predict_dist(X, X_std, X_cov)
        ends = dist.interval(_first_axis(levels, dist.ndim))
        interval = np.stack([_last_axis(end) for end in ends], axis=-1)
        return self._as_floats(interval[..., 0, :] if one else interval)

    def sample_y(
        self,
        X: MatrixLike,
        n_samples: int = 1,
        random_state: RandomState = 0,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
        joint: bool = False,
    ) -> np.ndarray:
        """Draw targets from the predictive distribution of each row, or of all rows together.

        That is `predict_dist`: draws have the shape of held-out errors and the noise of their row.
        Rows are drawn independently of each other, unless ``joint``; several targets always are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

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

        joint : bool, default=False
            Draw the rows of X together, with the correlations of ``predict(X, return_cov=True)``:
            for totals, differences and extremes over rows. Each row alone is distributed as
            without. Where errors are not Gaussian, the correlations are those of their normal
            scores.

        Returns
        -------
        y_samples : ndarray of shape (n_samples_X, n_samples)
            ``(n_samples_X, n_targets, n_samples)`` for several targets.
        """
        n_samples = check_count(n_samples, "n_samples")
        rng = check_rng(random_state)
        dist = self.predict_dist(X, X_std, X_cov)
        if joint:
            cov = predictive_covariance(self, X, X_std, X_cov)[1]
            return self._as_floats(_last_axis(draw_jointly(dist, cov, n_samples, rng)))
        return self._as_floats(_last_axis(dist.rvs(n_samples, rng)))

    def log_likelihood(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_std: MatrixLike | None = None,
        X_cov: ArrayLike | None = None,
    ) -> float:
        """Mean log predictive density of y, that of `predict_dist`.

        It is not that of a Gaussian with predict's mean and std, but follows the shape of held-out
        errors. Targets that a ``target_transform`` cannot have, such as negative ones with
        ``"log"``, have a log density of minus infinity.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

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
        dist = self.predict_dist(X, X_std, X_cov)
        check_consistent_length(y if np.ndim(y) else np.atleast_1d(y), dist)
        weight = score_weight(sample_weight, len(dist))
        values = check_targets(y, "y", weight)
        if values.size != np.prod(dist.shape):
            raise ValueError(f"y has shape {values.shape}, predictions have shape {dist.shape}.")
        log_density = dist.logpdf(values.reshape(dist.shape)).reshape(len(dist), -1)
        rows = np.where(np.isnan(values.reshape(len(dist), -1)), 0, log_density).sum(axis=1)
        counted = weight > 0
        return float(np.average(rows[counted], weights=weight[counted]))

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R² of the predictive mean.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

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
            weight = None if sample_weight is None else score_weight(sample_weight, len(mean))
            truth = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            size = 1.0  # squares of large or small numbers are none; R² has no units
            if beyond_single(truth) or beyond_single(mean):
                size = max(np.abs(truth).max(), np.abs(mean).max())
            with overflow_allowed():
                return float(r2_score(truth / size, mean / size, sample_weight=weight))
        weight = score_weight(sample_weight, len(mean))
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
        refuse_unknown(y, "a target")
        values = missing_targets(y)
        known = y if values is None else np.nan_to_num(values, posinf=np.inf, neginf=-np.inf)
        X, y = self._checked(X, known, reset=reset, multi_output=True, y_numeric=True)
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

    def _observation_model(self) -> Gaussian:
        return Gaussian(self._n_targets)

    def _model_in_units(self, outputs: ObservationModel, *, streamed: bool = False) -> Gaussian:
        scale = None if self._scaling.y is None else self._scaling.y.scale
        robust = streamed and isinstance(self.sigma_v, str)
        tolerated = None
        if streamed and not robust and self._run is not None:
            tolerated = self._run.tolerated(1.0 if scale is None else scale)
        return Gaussian(self._n_targets, scale, robust, tolerated)

    # Transformed targets

    @property
    def _transforms(self) -> bool:
        return hasattr(self, "target_transformer_")

    def _target_map(self) -> TargetMap | None:
        if not self._transforms:
            return None
        return map_of(self.target_transformer_, self._target_range)

    def _transform_targets(self, data: RawRows, *, first: bool) -> RawRows:
        if first:
            self.__dict__.pop("target_transformer_", None)
            if self.target_transform is not None:
                self.target_transformer_, self._target_range = fit_transformer(
                    self.target_transform, data.y, data.weight
                )
        else:
            self._refuse_another_transform()
        target_map = self._target_map()
        if target_map is None:
            return data
        g = target_map.forward(data.y)
        wrong = ~np.isfinite(g) & ~np.isnan(data.y)
        if wrong.any():
            is_log = isinstance(self.target_transform, str) and self.target_transform == "log"
            raise ValueError(
                f"y has values that target_transform={self.target_transform!r} cannot map, such as "
                f"{data.y[wrong][0]:g}" + (": they must be positive." if is_log else ".")
            )
        return data._replace(y=g)

    def _refuse_another_transform(self) -> None:
        """Refuse to go on with another transform of the targets than what was learned has."""
        fitted = getattr(self, "target_transformer_", None)
        asked = None if self.target_transform is None else make_transformer(self.target_transform)
        if type(fitted) is not type(asked) or not (asked is None or same_settings(fitted, asked)):
            raise ValueError(
                "target_transform must be as in the fit that is continued: "
                f"{fitted!r} is fitted, {self.target_transform!r} is asked for."
            )

    def _mean_log_slope(self, data: RawRows) -> float:
        target_map = self._target_map()
        if target_map is None:
            return 0.0
        slope = target_map.log_slope(target_map.inverse(data.y))
        slope = np.where(np.isfinite(slope), slope, 0)  # not observed
        return float(np.average(slope.sum(axis=1), weights=data.weight))

    # Predictions

    def _distribution(self, mean: np.ndarray, var: np.ndarray) -> PredictiveDistribution:
        """Return the distribution with these moments, of targets that are transformed if any."""
        return PredictiveDistribution(
            mean, np.sqrt(var), self._error_shape(), self._target_map()
        )  # fmt: skip

    def _error_shape(self) -> Shape:
        """Return the shape of the errors of rows that were held out."""
        calibration = self._net.calibration
        return gaussian_shape(self._n_targets) if calibration is None else calibration.shape

    def _as_floats(self, values: np.ndarray) -> np.ndarray:
        """Return predictions in the network's precision; the largest numbers stay finite."""
        dtype = np.dtype(self._dtype)
        if values.dtype == dtype:
            return values
        largest = np.finfo(dtype).max
        return np.clip(values, -largest, largest).astype(dtype)

    def _as_std(self, values: np.ndarray) -> np.ndarray:
        """Return standard deviations in the network's precision: positive and finite."""
        return self._as_floats(np.maximum(values, np.finfo(self._dtype).tiny))

    def _predictive(
        self, X: Any, X_std: Any, X_cov: Any, *, noisy: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, variance of the network and variance of the noise, in original units.

        If nobody asks for that of the noise, it is none.
        """
        X = self._validate_X(X)
        blocks = self._moments_of(X, self._check_errors(X_std, X_cov, X))
        scaling = self._scaling
        means, variances = [], []
        for mu_z, var_z in blocks:
            mu_z, var_z = mu_z.astype(np.float64), var_z.astype(np.float64)
            with overflow_allowed():
                var = self._net.variance_of_mean(mu_z, var_z)
                moments = scaling.original(mean_of_first(mu_z), var)
                refuse_too_large(*moments)
            means.append(moments[0].T)
            variances.append(moments[1].T)
        mean, epistemic = self._as_floats(_in_one(means)), _in_one(variances)
        noise_var = mean_of_first(self._net.reported_noise)  # (n_targets, 1)
        noise_var = scaling.original(ZERO["d"], noise_var)[1]
        aleatoric = (noise_var * (self._noise_ratio(X) if noisy else ZERO["d"])).T
        if len(aleatoric) != len(mean):
            aleatoric = np.broadcast_to(aleatoric, mean.shape)
        if self._y_ndim == 1:
            return mean[:, 0], epistemic[:, 0], aleatoric[:, 0]
        return mean, epistemic, aleatoric

    def _noise_ratio(self, X: Any) -> np.ndarray:
        """Return each row's noise variance over the constant one, (n_targets, rows or 1)."""
        noise, scaling, dtype = self._net.noise_net, self._scaling, self._net.dtype
        if noise is None or not noise.varies:
            return np.ones((self._n_targets, 1))

        def inputs(part: slice) -> Any:
            return scaling.inputs(self._filled(X[part], scaling), None, dtype)[0]

        blocks = slices(X.shape[0], max(1, BLOCK_ELEMENTS // (width(X) + 1)))
        return np.hstack([noise.ratio(inputs(b)) for b in blocks])


def _first_axis(levels: np.ndarray, ndim: int) -> np.ndarray:
    """Return probabilities (k,) with an axis for each of a distribution's behind."""
    return levels.reshape(-1, *(1,) * ndim)


def _in_one(blocks: list[np.ndarray]) -> np.ndarray:
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _last_axis(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(values, 0, -1))
