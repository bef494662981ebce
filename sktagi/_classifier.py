"""TAGIClassifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ._base import BaseTAGI
from ._class_predictions import (
    Summary,
    in_blocks,
    log_probabilities,
    of_rows,
    probabilities,
    with_std,
)
from ._input import MatrixLike, RandomState, refuse_unknown, score_weight, unknown_places
from ._labels import as_labels, class_numbers, distinct_labels
from ._user_split import UserSplit
from .engine.calibration import Places
from .engine.class_calibration import (
    calibrate_classes,
    class_calibration,
    dirichlet_entropies,
    share_unknown,
)
from .engine.learning import Settings
from .engine.mixture import Mixture
from .engine.multilabel import Labels
from .engine.observations import ObservationModel
from .engine.posterior import Network
from .engine.softmax import Softmax
from .engine.tree import ClassTree

__all__ = ["TAGIClassifier"]

ClassModel = ClassTree | Softmax | Labels
MANY_CLASSES = 1000  # more are the leaves of a tree


def _has_columns(y: Any) -> bool:
    """Tell whether y has several columns; a list of tuples has one, of labels that are tuples."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)) and y:
        are_rows = all(isinstance(row, (list, np.ndarray)) for row in y)
        shape = (len(y), len(y[0])) if are_rows else None
    return shape is not None and len(shape) == 2 and shape[1] > 1


class TAGIClassifier(ClassifierMixin, BaseTAGI):
    """Bayesian neural network for classification, inferred in closed form (TAGI).

    There is one output for each class, seen through a softmax; of two classes there is one, seen
    through a probit. Every class probability carries a standard deviation: what the network does
    not know of it.

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
        ``"auto"``, or ``"constant"``: a class is observed as what it is, through a softmax or a
        probit. A number, in the paper: classes are signs +1 and -1 in the nodes of a tree, which
        are observed as numbers with noise of this standard deviation. With
        ``class_coding="one_of_k"``, a number is the standard deviation of noise that is added to
        the outputs before the softmax.

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
        Epochs without a gain after which a member stops, each kind of network on its own.

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
        Centre and scale features with statistics of the training rows (running
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

    probit_scale : float, default=1/3
        Scale inside the normal cumulative distribution that turns outputs into probabilities
        (the paper's alpha). The softmax has the one that fits to it.

    class_coding : {"auto", "tree", "one_of_k"}, default="auto"
        What the outputs are. ``"one_of_k"``: one for each class, whatever their order. ``"tree"``:
        the nodes of a binary tree whose leaves are the classes (paper, App. C). A row observes few
        of them, but it matters which classes are neighbours; each member but the first has a
        random order of its own, and how sure they are is not calibrated. ``"auto"`` is
        ``"one_of_k"`` for up to 1000 classes, and ``"tree"`` beyond or if ``sigma_v`` is a number.
        Two classes are one output either way.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply ``sample_weight``: a dict of labels, in which classes
        that are not there have 1, or ``"balanced"``, ``n_samples / (n_classes * count)``, where
        rows count as their ``sample_weight``. Probabilities are then those of classes weighted so.
        ``partial_fit`` takes no ``"balanced"``, as it does not know all rows.

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

    kinds_ : dict of str to float
        Weights of the kinds of networks in the mixture, by their names; ``fit`` leaves those out
        that have none. They are not negative and sum to one. Only if ``hidden_layer_sizes`` is
        ``"auto"`` and rows were held out.

    coef_ : ndarray of shape (n_outputs, n_inputs)
        Coefficients of a linear model, ``hidden_layer_sizes=()``, in units of X: means over the
        members, for each output (two classes have one together) and for each of
        ``encoded_feature_names_``.

    intercept_ : ndarray of shape (n_outputs,)
        Constant terms of a linear model.

    feature_importances_ : ndarray of shape (n_features,)
        How much the outputs change when a feature changes by its standard deviation (all levels of
        a category together): root mean square over some training rows, in a stream early ones.
        They sum to one. Not for sparse matrices, nor for tables of so many levels that they become
        one.

    layer_covariances_ : list of ndarray
        Posterior covariances of each layer's parameters, ``(n_params, n_params)`` in the order of
        ``coefs_[j].ravel()`` and then ``intercepts_[j]``; with ``covariance_type="full"`` only.

    sigma_v_ : float
        Observation-noise standard deviation in use. A probit observes the sign of an output plus
        noise, whose standard deviation this is: ``probit_scale`` unless ``sigma_v`` is a number.

    classes_ : ndarray of shape (n_classes,)
        Class labels; of several labels for each row, the numbers of the columns of y.

    n_iter_ : int
        Epochs run by ``fit``; each call of ``partial_fit`` adds one.

    best_iter_ : int, or ndarray of int of shape (n_members,) or (n_kinds, n_members)
        The epoch whose posterior was kept; of several kinds, in the order of ``kinds_``.

    train_scores_ : list of float
        Mean log-likelihood of the training rows in each epoch, each batch before it was learned; of
        several kinds, that of the one that is best on the validation rows after this epoch.

    validation_scores_ : list of float, or None
        Mean log-likelihood of the validation rows after each epoch, of several kinds that of the
        best one; None without early stopping.

    prequential_log_likelihood_ : float
        Mean log-likelihood of the rows given to ``partial_fit``, each batch before it was learned:
        a test score without a test set, since the network was drawn or ``fit``; NaN without
        streamed rows. Of trees of several members it is the mean of what each scores alone.

    recent_log_likelihood_ : float
        The same mean, in which a row counts half 500 rows later: a fall shows drift.

    drift_score_ : float
        How much worse the network of some time ago predicts recent rows than the present one, in
        standard errors: below one on a stream that does not change, above four after a change. A
        network that still learns much scores one to four, too. NaN until ``partial_fit`` has seen
        some rows; starts again with ``fit``.

    n_outputs_ : int
        Output units: one for each class; 1 for two classes. Or the nodes of the class tree, 11 for
        ten classes.

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
    TAGIRegressor : The same network for continuous targets.

    Notes
    -----
    With ``hidden_layer_sizes="auto"``, ``fit`` trains members of several kinds: linear; smooth (50
    tanh units that see inputs whitened, that is, uncorrelated); pieces (50 tanh units that see each
    input cut at its quantiles into up to eight; from 5000 rows on, two layers of 50 relu units);
    deep (two layers of 50 relu units that see inputs whitened, from 1000 rows on). For more than
    100 features they are linear, smooth and plain (50 relu units), and see inputs as they are. The
    output of a member is the mean of its kinds, weighted so that rows held out are most likely
    (stacking). After 10 epochs kinds with less than 1 % of the weight are left behind. With fewer
    than ten rows for each feature nothing is whitened. From 400 rows on kinds learn in single
    precision. ``partial_fit`` after ``fit`` lets all kinds that are
    left learn; their weights stay.

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
    _is_multilabel = False  # not in files of version 0.1
    classes_: np.ndarray

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
        probit_scale: float = 1 / 3,
        class_coding: Literal["auto", "tree", "one_of_k"] = "auto",
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
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
        self.probit_scale = probit_scale
        self.class_coding = class_coding
        self.class_weight = class_weight

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

        Ctrl-C ends training early: the estimator keeps what it has learned so far, with a warning;
        with several ``n_jobs``, up to the last tenth epoch. A second Ctrl-C within the same fit, or
        within two seconds, raises KeyboardInterrupt, and the estimator is as it was before: so it
        ends a search that fits one estimator after the other.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features; also a frame of pandas or polars. NaN is a missing value; columns of text or
            of categories are described at ``categorical_features``. Dates are refused.

        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels: any hashable values but None. Or an indicator matrix of 0 and 1, if a row
            may have several labels or none.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w counts as w rows. Their common size does not matter: they
            are divided by the smallest if that is above 1, and by their mean if that is below 1.
            Rows of weight zero are left out.

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
            Features; also a frame of pandas or polars. NaN is a missing value; columns of text or
            of categories are described at ``categorical_features``. Dates are refused.

        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels: any hashable values but None. Or an indicator matrix of 0 and 1, if a row
            may have several labels or none.

        classes : array-like of shape (n_classes,), default=None
            All classes that will ever occur; required in the first call, unless y is an indicator
            matrix. If there may be new ones later, add labels that stand for them.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight w counts as w rows. Their size matters here, unlike in ``fit``:
            a weight of two is the row twice.

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
            Features, in the form of those of `fit`; NaN is a missing value.

        X_std : float or array-like, default=None
            Standard deviations of uncertain features: a number, ``(n_features,)`` or the shape of
            X.

        X_cov : array-like, default=None
            Covariances of uncertain features in the place of ``X_std``, where their errors are
            correlated: ``(n_features, n_features)`` or one for each row.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or an indicator matrix as y was.
        """
        check_is_fitted(self)
        if self._is_multilabel:
            return (self.predict_proba(X, False, X_std, X_cov) > 0.5).astype(int)
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
            Features, in the form of those of `fit`; NaN is a missing value.

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
        proba : ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            Probabilities in the order of ``classes_``.

        std : ndarray, same shape
            How far a probability may be off for what is not known; only if ``return_std``. What the
            network does not know falls with more data; what missing values, unknown levels and
            ``X_std`` leave open does not. That a class cannot be known for sure is not in it: that
            is what the probability says.
        """
        if return_std:
            proba, std = self._summarised(with_std, X, X_std, X_cov)
            return proba, std
        return self._summarised(probabilities, X, X_std, X_cov)[0]

    def predict_entropy(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split the entropy of the predicted class into what is not known and what is by chance.

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
        epistemic : ndarray of shape (n_samples,) or (n_samples, n_labels)
            What knowing the probabilities would tell of the class, in nats: the mutual information
            between the class and the network. More data reduces it.

        aleatoric : ndarray, same shape
            The entropy that is left if the probabilities were known. The two add up to the entropy
            of ``predict_proba``. Of several labels, each has its own.

        Notes
        -----
        Probabilities are taken to be Dirichlet distributed (of a label: beta), with the means of
        ``predict_proba`` and, summed over the classes, the variances of ``return_std=True``.
        """
        proba, std = self.predict_proba(X, True, X_std, X_cov)
        proba, var = proba.astype(np.float64), np.square(std.astype(np.float64))
        if self._is_multilabel:
            proba = np.stack([proba, 1 - proba], axis=-1)
            var = np.stack([var, var], axis=-1)
        total, left = dirichlet_entropies(proba, var)
        dtype = np.dtype(self._dtype)
        return (total - left).astype(dtype), left.astype(dtype)

    def predict_log_proba(
        self, X: MatrixLike, X_std: MatrixLike | None = None, X_cov: ArrayLike | None = None
    ) -> np.ndarray:
        """Predict logarithms of class probabilities.

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
        log_proba : ndarray of shape (n_samples, n_classes)
            Finite even where a probability underflows to zero.
        """
        return self._summarised(log_probabilities, X, X_std, X_cov)[0]

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the share of rows whose class is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, in the form of those of `fit`; NaN is a missing value.

        y : array-like of shape (n_samples,)
            Class labels: any hashable values.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Accuracy, in [0, 1].
        """
        if self._is_multilabel:
            predicted = self.predict(X)
            labels = self._check_labels(y, predicted)
            right = (predicted == labels).all(axis=1)
        else:
            predicted = self.predict_log_proba(X).argmax(axis=1)
            labels = column_or_1d(as_labels(y))
            check_consistent_length(predicted, labels)
            right = predicted == class_numbers(labels, self.classes_, refuse=False)
        return float(np.average(right, weights=score_weight(sample_weight, len(labels))))

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
            Features, in the form of those of `fit`; NaN is a missing value.

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
        if self._is_multilabel:
            labels = self._check_labels(y, log_proba)
            log_other = np.log(-np.expm1(np.minimum(log_proba, -np.finfo(log_proba.dtype).eps)))
            chosen = np.where(labels > 0, log_proba, log_other).sum(axis=1)
        else:
            labels = column_or_1d(as_labels(y))
            check_consistent_length(log_proba, labels)
            chosen = log_proba[np.arange(len(labels)), class_numbers(labels, self.classes_)]
        return float(np.average(chosen, weights=score_weight(sample_weight, len(labels))))

    @property
    def sigma_v_(self) -> float:
        """Standard deviation of the noise with which the sign of an output is observed."""
        net = self._fitted_net("sigma_v_")
        var = float(net.reported_noise.mean())
        if not self._is_numbers(net.outputs):
            var += self._class_model.probit_scale**2
        return math.sqrt(var)

    # Labels

    def _validate_X_y(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        are_labels = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuU"
        is_known = not reset and are_labels and not self._is_multilabel
        if is_known and self._is_plain(X) and len(X) == len(y):
            return X, y
        is_multilabel = _has_columns(y)
        if reset:
            self._is_multilabel = is_multilabel
        elif is_multilabel != self._is_multilabel:
            raise ValueError("y must be an indicator matrix, or not, as in the first call.")
        if is_multilabel:
            y = self._check_indicator(y)
            X = self._checked(X, reset=reset)
            check_consistent_length(X, y)
            return X, y
        y = as_labels(y)
        refuse_unknown(y, "a class")
        X, y = self._checked(X, y, reset=reset)
        if y.dtype.kind != "O":
            check_classification_targets(y)
        return X, y

    @staticmethod
    def _check_indicator(y: Any) -> np.ndarray:
        """Return an indicator matrix of 0 and 1, as numbers."""
        y = y.toarray() if sparse.issparse(y) else np.asarray(y)
        if y.ndim != 2 or not np.isin(y, (0, 1)).all():
            raise ValueError(
                "y with several columns must be an indicator matrix of 0 and 1: a column for each "
                "label that a row may have."
            )
        return y.astype(np.float64)

    def _check_labels(self, y: Any, predicted: np.ndarray) -> np.ndarray:
        """Return an indicator matrix that fits to predictions."""
        y = self._check_indicator(y)
        check_consistent_length(predicted, y)
        self._check_n_labels(y)
        return y

    def _check_n_labels(self, y: np.ndarray) -> None:
        if y.shape[1] != len(self.classes_):
            raise ValueError(f"y has {y.shape[1]} labels, {len(self.classes_)} are fitted.")

    def _validate_targets(
        self, y: np.ndarray, *, first: bool, incremental: bool, classes: Any
    ) -> np.ndarray:
        if self._is_multilabel:
            return self._validate_indicator(y, first=first, classes=classes)
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

    def _validate_indicator(self, y: np.ndarray, *, first: bool, classes: Any) -> np.ndarray:
        columns = np.arange(y.shape[1])
        if self.class_weight is not None:
            raise ValueError("class_weight is for one class of each row, not for several labels.")
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), columns):
            raise ValueError(
                "classes must be the numbers of the columns of y, an indicator matrix, or None; "
                f"got {classes!r}."
            )
        if first:
            self.classes_ = columns
        else:
            self._check_n_labels(y)
        return y

    @staticmethod
    def _distinct_classes(classes: Any) -> np.ndarray:
        if np.ndim(classes) == 0 or len(classes) == 0:
            raise ValueError(f"classes must be a list of class labels; got {classes!r}.")
        found = distinct_labels(column_or_1d(as_labels(classes)))
        if unknown_places(found).any() or any(label != label for label in found.tolist()):
            raise ValueError(f"classes must not contain None or NaN; got {classes!r}.")
        return found

    def _with_class_weight(
        self, y: np.ndarray, weight: np.ndarray, *, incremental: bool
    ) -> np.ndarray:
        if self.class_weight is None:
            return weight
        if incremental and isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' is for fit, which knows all rows: for partial_fit or "
                "fit_shards, give a dict, as "
                "sklearn.utils.class_weight.compute_class_weight finds it."
            )
        self._class_weights = self._weights_of_classes(y, weight)
        return self._times_class_weight(y, weight)

    def _times_class_weight(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if self.class_weight is None:
            return weight
        with np.errstate(over="ignore"):
            weight = weight * self._class_weights[y]
        if not np.isfinite(weight).all():
            raise ValueError("class_weight times sample_weight is too large for a row.")
        if not weight.any():
            raise ValueError("class_weight leaves no row with a positive weight.")
        return weight

    def _weights_of_classes(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the weight of each class; y are class numbers, with weights of their rows."""
        if isinstance(self.class_weight, str):
            counts = np.bincount(y, weight / weight.max(), minlength=len(self.classes_))
            occurs = counts > 0
            counts = np.where(occurs, counts, 1)
            return counts[occurs].sum() / (np.count_nonzero(occurs) * counts)
        assert self.class_weight is not None
        labels = self.classes_.tolist()
        given = dict(self.class_weight)
        missing = [label for label in labels if label not in given]
        if missing and any(label not in labels for label in given):
            raise ValueError(
                f"class_weight has labels that are not classes, {list(given)}, and lacks {missing}."
            )
        return np.array([given.get(label, 1.0) for label in labels], dtype=np.float64)

    # The observation model

    def _observation_model(self) -> ClassModel:
        n_classes, scale = len(self.classes_), float(self.probit_scale)
        is_number = not isinstance(self.sigma_v, str)
        if self._is_multilabel:
            return Labels(n_classes, scale)
        coding = self.class_coding
        if coding == "auto":
            coding = "tree" if is_number or n_classes > MANY_CLASSES else "one_of_k"
        if coding == "one_of_k" and n_classes > 2:
            return Softmax(n_classes, scale)
        is_probit = coding == "one_of_k" or not is_number
        order = None
        if n_classes > 2 and self._n_members > 1:
            # The first member has the paper's tree. The same trees wherever rows are learned.
            rng = np.random.RandomState(0)
            others = [rng.permutation(n_classes) for _ in range(self._n_members - 1)]
            order = np.stack([np.arange(n_classes), *others])
        return ClassTree(n_classes, scale, is_probit, order)

    def _model_in_units(
        self, outputs: ObservationModel, *, streamed: bool = False
    ) -> ObservationModel:
        assert isinstance(outputs, ClassModel)
        if outputs.probit_scale != self.probit_scale:
            outputs = copy(outputs)
            outputs.probit_scale = float(self.probit_scale)
        return outputs

    def _apply_settings(self, net: Network | Mixture, n_features: int) -> None:
        fitted = "one_of_k" if isinstance(net.outputs, Softmax) else "tree"
        one_output = net.outputs.n_outputs == 1 or self._is_multilabel
        differs = self.class_coding not in ("auto", fitted) and not one_output
        if net.outputs.n_outputs == 1 and isinstance(net.outputs, ClassTree):
            # Of two classes, codings differ in how signs are observed, if sigma_v is a number.
            as_number = self.class_coding == "tree" and not isinstance(self.sigma_v, str)
            wrong = as_number if net.outputs.is_probit else self.class_coding == "one_of_k"
            differs = differs or wrong
        if differs:
            raise ValueError("class_coding must be as in the fit that is continued.")
        super()._apply_settings(net, n_features)

    def _learns_noise(self, outputs: ObservationModel) -> bool:
        # Only trees of version 0.1 have learned the noise of their signs.
        return isinstance(self.sigma_v, str) and self._is_numbers(outputs)

    @staticmethod
    def _is_numbers(outputs: ObservationModel) -> bool:
        """Tell whether signs are observed as numbers with noise, as in the paper."""
        return isinstance(outputs, ClassTree) and not outputs.is_probit

    _temperatures = np.ones(1)

    def _needs_held_out(self, net: Network | Mixture) -> bool:
        return net.outputs.has_slope

    def _calibrate(
        self,
        net: Network | Mixture,
        held: Places | None,
        settings: Settings,
        n_rows: float,
        n_epochs: int,
    ) -> None:
        unknown = share_unknown(settings.half_life, float(n_rows), n_epochs)
        if held is not None:
            calibrate_classes(net, held, unknown, float(n_rows))
        else:
            net.calibration = class_calibration(net, unknown=unknown)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    @property
    def _class_model(self) -> ClassModel:
        return cast(ClassModel, self._net.outputs)

    def _summarised(self, summary: Summary, X: Any, X_std: Any, X_cov: Any) -> list[np.ndarray]:
        """Return what a summary of the outputs says of rows, each (n, n_classes)."""
        X = self._validate_X(X)
        blocks = self._blocks(X, self._check_errors(X_std, X_cov, X))
        net, table, moments = self._net, self._table, self._scaling.x
        outputs = in_blocks(net, table, self._predicting(net.reported()), moments, blocks)
        results = of_rows(outputs, self._class_model, summary, X.shape[0])
        return [values.astype(self._dtype) for values in results]
