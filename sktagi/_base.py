"""What both estimators share: parameters, validation of input, fit, partial_fit and moments."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ._callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from ._params import check_params, hidden_sizes
from ._prequential import Prequential
from ._progress import Progress
from ._scaling import Moments
from ._split import hold_out
from ._state import Origin, from_plain, to_plain
from ._validation import check_rng, check_weight, check_X_cov, check_X_std, is_plain, known_frame
from .engine.activations import ACTIVATIONS
from .engine.calibration import calibrate
from .engine.full import check_size, full_prior
from .engine.learning import Network, Rows, Settings, batches, learn_stream, predict_moments
from .engine.network import draw_prior
from .engine.threads import threads_for_layers
from .engine.training import History, fit_epochs
from .engine.units import rescale_inputs

__all__ = ["BaseTAGI"]

BLOCK_MOMENTS = 1 << 17  # means of a block of predictions, of all members and outputs
AUTO_BATCH_SIZE = {"diag": 64, "full": 16}
AUTO_HALF_LIFE = 3.0  # rows for each parameter, where no rows are held out
AUTO_HALF_LIFE_BATCHES = 8  # with early stopping, at least


class Given(NamedTuple):
    """Validated input of fit or partial_fit."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray  # (n, n_targets) values, or (n,) class numbers
    weight: np.ndarray
    X_std: np.ndarray | sparse.csr_array | None  # (n or 1, d), or covariances (n, d, d)

    def positive(self) -> Given:
        """The rows that have a weight: the others are as if they were not there."""
        keep = self.weight.astype(self.X.dtype) > 0
        if keep.all():
            return self
        X_std = self.X_std
        if X_std is not None and X_std.shape[0] > 1:
            if isinstance(X_std, np.ndarray) and X_std.strides[0] == 0:  # one for all rows
                X_std = np.broadcast_to(X_std[0], (int(keep.sum()), *X_std.shape[1:]))
            else:
                X_std = X_std[keep]
        return Given(self.X[keep], self.y[keep], self.weight[keep], X_std)


class BaseTAGI(CallbackSupportMixin, BaseEstimator):
    """Base class; the subclass validates targets and names the observation model."""

    _net: Network
    _prequential: Prequential
    n_samples_seen_: int
    best_iter_: int | np.ndarray

    def __init__(
        self,
        hidden_layer_sizes=(50,),
        activation="relu",
        *,
        sigma_v="auto",
        batch_size="auto",
        batch_inference="joint",
        covariance_type="diag",
        max_iter=100,
        half_life="auto",
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=20,
        tol=1e-4,
        n_members=10,
        standardize=True,
        weight_gain=1.0,
        bias_variance=0.01,
        shuffle=True,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.sigma_v = sigma_v
        self.batch_size = batch_size
        self.batch_inference = batch_inference
        self.covariance_type = covariance_type
        self.max_iter = max_iter
        self.half_life = half_life
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.n_members = n_members
        self.standardize = standardize
        self.weight_gain = weight_gain
        self.bias_variance = bias_variance
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @classmethod
    @cache
    def _parameter_names(cls) -> list[str]:
        return cls._get_param_names()  # looked up once: streams call often

    # Fitting

    @with_callbacks
    def _fit(self, X, y, sample_weight, X_std, X_cov):
        check_params({name: getattr(self, name) for name in self._parameter_names()})
        # Not undone if fit fails: scikit-learn must find the callbacks that it tears down.
        tasks = FitTasks(self, X, y, sample_weight)
        with self._unchanged_if_it_fails():
            warm = bool(self.warm_start) and self.__sklearn_is_fitted__()
            data = self._validate_rows(X, y, sample_weight, X_std, X_cov, first=not warm).positive()
            rng = check_rng(self.random_state)
            member_rngs = self._member_rngs(rng)
            if warm:
                net = self._net.copy()
                if self.max_iter > 0:  # calibrated anew
                    net.temperature = net.noise_scale = 1.0
                    net.tails = None
                self._apply_settings(net, data.X.shape[1])
            else:
                net = self._draw_network(data, member_rngs)
                self._split_seed = rng.randint(np.iinfo(np.int32).max)
            # The same rows again are held out again: what was learnt once validates nothing.
            train, validation = self._split(data, np.random.RandomState(self._split_seed))
            used = np.zeros(len(data.weight), dtype=bool)
            used[train[train >= 0]] = True
            before = self._statistics() if warm else None
            self._start_statistics(data)
            self._set_origin(net)
            self._update_statistics(data._replace(weight=data.weight * used))
            if before is not None:
                self._change_units(net, before)
            self.n_samples_seen_ = len(data.weight) + (self.n_samples_seen_ if warm else 0)
            history = self._learn(net, data, train, validation, member_rngs, warm, tasks)
            self._set_history(history)
            self._keep(net)
            tasks.close()
        return self

    def _partial_fit(self, X, y, sample_weight, X_std, X_cov, classes=None):
        with self._unchanged_if_it_fails():
            check_params({name: getattr(self, name) for name in self._parameter_names()})
            first = not self.__sklearn_is_fitted__()
            data = self._validate_rows(
                X, y, sample_weight, X_std, X_cov, first=first, incremental=True, classes=classes
            ).positive()
            if first:
                rng = check_rng(self.random_state)
                net = self._draw_network(data, self._member_rngs(rng))
                self._split_seed = rng.randint(np.iinfo(np.int32).max)
                self._start_statistics(data)
                self._set_origin(net)
                self._set_history(History())
                self.n_samples_seen_ = 0
                self._update_statistics(data)
            else:
                net = self._net.copy()
                self._apply_settings(net, data.X.shape[1])
                before = self._statistics()
                self._update_statistics(data)
                self._change_units(net, before)
            settings = self._settings(net, len(data.weight))
            prepared = self._prepare(data, net)
            with threads_for_layers(net.layers, settings.batch_size):
                log_lik = float(learn_stream(net, prepared, settings).mean())
            log_lik += self._score_offset()
            if self._targets_have_units():
                self._prequential = self._prequential.updated(log_lik, float(data.weight.sum()))
            self.n_iter_ += 1
            self.best_iter_ = self.n_iter_
            self.n_samples_seen_ += len(data.weight)
            self._keep(net)
            if self.verbose:
                print(
                    f"{type(self).__name__} {len(data.weight)} rows | log-likelihood before they "
                    f"were learnt: {log_lik:8.4f}",
                    flush=True,
                )
        return self

    def _keep(self, net: Network) -> None:
        """Make a new posterior the estimator's own, if the numbers have held out."""
        for layer in net.layers:
            if not (np.isfinite(layer.mu).all() and np.isfinite(layer.var).all()):
                break
            if layer.var.min() <= 0:
                break
        else:
            self._net = net
            return
        raise ValueError(
            f"The values given are too large or too small for {net.layers[0].mu.dtype} numbers: "
            "rescale X, y, X_std or sample_weight, or use float64."
        )

    @contextmanager
    def _unchanged_if_it_fails(self):
        """Whatever is raised inside, an interrupt too, leaves the estimator as it was."""
        before = self.__dict__.copy()  # fitted arrays are replaced, never written to
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _member_rngs(self, rng) -> list[np.random.RandomState]:
        seeds = rng.randint(np.iinfo(np.int32).max, size=self.n_members)
        return [np.random.RandomState(seed) for seed in seeds]

    def _draw_network(self, data: Given, member_rngs) -> Network:
        outputs = self._observation_model()
        dtype = data.X.dtype
        sizes = (data.X.shape[1], *hidden_sizes(self.hidden_layer_sizes), outputs.n_outputs)
        is_full = self.covariance_type == "full"
        if is_full:
            check_size(sizes, self.n_members)
        layers = draw_prior(
            sizes, member_rngs, weight_gain=self.weight_gain, bias_variance=self.bias_variance,
            dtype=dtype,
        )  # fmt: skip
        learn_noise = isinstance(self.sigma_v, str)
        sigma_v = 1.0 if learn_noise else float(self.sigma_v)
        n_noise = 1 if outputs.shared_noise else outputs.n_outputs
        return Network(
            full_prior(layers) if is_full else layers,
            ACTIVATIONS[self.activation],
            outputs,
            np.full((self.n_members, 1, n_noise), sigma_v**2),
            learn_noise,
        )

    def _apply_settings(self, net: Network, n_features: int) -> None:
        """Let a fitted network go on with the present parameters; refuse what cannot change."""
        sizes = (n_features, *hidden_sizes(self.hidden_layer_sizes), net.outputs.n_outputs)
        fitted = (*(layer.mu.shape[-2] - 1 for layer in net.layers), net.outputs.n_outputs)
        if sizes != fitted:
            raise ValueError(
                f"hidden_layer_sizes must be as in the fit that is continued: layers of {fitted} "
                f"units are fitted, {sizes} are asked for."
            )
        if self.n_members != len(net.noise_var):
            raise ValueError(
                "n_members must be as in the fit that is continued: "
                f"{len(net.noise_var)} are fitted, {self.n_members} are asked for."
            )
        if (self.covariance_type == "full") != net.is_full:
            raise ValueError("covariance_type must be as in the fit that is continued.")
        if self.standardize != self._standardized:
            raise ValueError("standardize must be as in the fit that is continued.")
        net.activation = ACTIVATIONS[self.activation]
        net.outputs = self._observation_model()
        net.learn_noise = isinstance(self.sigma_v, str)
        if not net.learn_noise:
            net.noise_var[...] = float(self.sigma_v) ** 2
            net.noise_scale = 1.0

    def _split(self, data: Given, rng):
        if not self.early_stopping:
            return np.tile(np.arange(len(data.weight)), (self.n_members, 1)), None
        return hold_out(
            data.X, data.y, self.validation_fraction, self.n_members, rng,
            stratify=data.y.ndim == 1,
        )  # fmt: skip

    def _settings(self, net: Network, n_rows: int, total: float | None = None) -> Settings:
        """How to learn ``n_rows`` a pass; ``total`` is the weight of all rows, if some validate."""
        batch_size = self.batch_size
        if isinstance(batch_size, str):
            batch_size = AUTO_BATCH_SIZE[self.covariance_type]
        half_life = self.half_life
        if isinstance(half_life, str):
            n_parameters = sum(layer.mu[0].size for layer in net.layers)
            # A short memory learns few rows better, and leaves the network unsure of itself: rows
            # held out tell when to stop, and a regressor how sure it may be.
            half_life = AUTO_HALF_LIFE * n_parameters
            if total is not None:
                some_batches = AUTO_HALF_LIFE_BATCHES * min(batch_size, total)
                half_life = max(np.sqrt(n_parameters * total), some_batches)
        return Settings(min(int(batch_size), n_rows), self.batch_inference == "joint", half_life)

    def _learn(self, net, data, train, validation, member_rngs, continued, tasks) -> History:
        rows = self._prepare(data, net)
        name, offset = type(self).__name__, self._score_offset()
        progress = Progress(name, self.max_iter, offset, self.verbose, validation is not None)

        def finish(net: Network) -> None:
            if validation is not None and not net.outputs.shared_noise:
                calibrate(net, rows, validation)

        def on_epoch(history: History) -> bool:
            progress(history)
            return tasks.end_epoch(lambda: self._as_if_done(history, finish))

        total = None if validation is None else data.weight.sum()
        settings = self._settings(net, train.shape[1], total)
        with progress, threads_for_layers(net.layers, settings.batch_size):
            history = fit_epochs(
                net,
                rows,
                train,
                validation,
                settings,
                max_iter=self.max_iter,
                n_iter_no_change=self.n_iter_no_change,
                tol=self.tol,
                rngs=member_rngs if self.shuffle else None,
                continued=continued,
                on_epoch=on_epoch,
                on_epoch_begin=tasks.begin_epoch,
            )
            if history.n_iter:
                finish(net)
            progress.close(history)
        if history.interrupted:
            warnings.warn(
                f"Training interrupted in epoch {history.n_iter + 1}; the estimator keeps what it "
                "has learnt so far.",
                stacklevel=5,
            )
        return history

    def _as_if_done(self, history: History, finish: Callable[[Network], None]) -> dict:
        """Attributes of this estimator if training ended with the last epoch of ``history``."""
        assert history.posterior is not None
        fitted = copy.copy(self)
        fitted._set_history(history)
        fitted._net = history.posterior()
        finish(fitted._net)
        return fitted.__dict__

    def _set_history(self, history: History) -> None:
        offset = self._score_offset()
        self.n_iter_ = history.n_iter
        self.train_scores_ = [score + offset for score in history.train_scores]
        if history.best_iter is None:
            self.best_iter_ = history.n_iter
            self.validation_scores_ = None
        else:
            best = history.best_iter
            self.best_iter_ = int(best[0]) if len(best) == 1 else best
            self.validation_scores_ = [score + offset for score in history.validation_scores]

    def _set_origin(self, net: Network) -> None:
        """Remember where training starts, and begin the scores of a stream."""
        self._prequential = Prequential()
        self._origin = Origin.of(net, self._statistics(), 0, self._prequential)

    # Standardisation

    def _start_statistics(self, data: Given) -> None:
        self._standardized = bool(self.standardize)
        centered = not sparse.issparse(data.X)
        self._x_moments = Moments.empty(data.X.shape[1], centered=centered)

    def _update_statistics(self, data: Given) -> None:
        if self.standardize:
            self._x_moments = self._x_moments.updated(data.X, data.weight, "X")

    def _statistics(self) -> tuple[Moments, ...]:
        return (self._x_moments,)

    def _set_statistics(self, statistics: tuple[Moments, ...]) -> None:
        self._x_moments = statistics[0]

    def _change_units(self, net: Network, before: tuple[Moments, ...]) -> None:
        """Let a network learnt in the units of ``before`` say the same in the present ones."""
        change = before[0].change_to(self._x_moments)
        if not change.is_none:
            rescale_inputs(net.layers[0], change)

    def _targets_have_units(self) -> bool:
        """False as long as there is no spread to measure them in."""
        return True

    def _score_offset(self) -> float:
        """Log-likelihood in original units minus that of standardised targets."""
        return 0.0

    def _standardised_targets(self, y: np.ndarray, dtype) -> np.ndarray:
        return y

    def _prepare(self, data: Given, net: Network) -> Rows:
        dtype = net.layers[0].mu.dtype
        x, var_x = self._inputs(data.X, data.X_std, dtype)
        y = self._standardised_targets(data.y, dtype)
        return Rows(x, y, data.weight.astype(dtype), var_x)

    def _inputs(self, X, X_std, dtype):
        """Inputs of the network: standardised, with a column of ones; and their variances."""
        moments = self._x_moments
        if sparse.issparse(X) and moments.centered and moments.weight > 0:
            X = X.toarray()
        if sparse.issparse(X):
            scaled = X.multiply(1 / moments.scale).astype(dtype)
            x = sparse.hstack([scaled, np.ones((X.shape[0], 1), dtype=dtype)], format="csr")
            x.sum_duplicates()
        else:
            x = np.empty((X.shape[0], X.shape[1] + 1), dtype=dtype)
            moments.standardise_into(X, x[:, :-1])
            x[:, -1] = 1
        if X_std is None:
            return x, None
        if sparse.issparse(X_std) and isinstance(x, np.ndarray):
            X_std = X_std.toarray()
        with np.errstate(over="ignore"):
            if sparse.issparse(X_std):
                var_x = X_std.multiply(1 / moments.scale).power(2).astype(dtype).tocsr()
            elif X_std.ndim == 3:
                distinct = X_std if X_std.strides[0] else X_std[:1]  # one matrix for all rows
                var_x = (distinct / moments.scale[:, None] / moments.scale).astype(dtype)
            else:
                var_x = np.square(X_std / moments.scale).astype(dtype)
        if not np.isfinite(var_x.data if sparse.issparse(var_x) else var_x).all():
            name = "X_cov" if X_std.ndim == 3 else "X_std"
            raise ValueError(f"{name} is too large: a variance is not a finite {dtype} number.")
        return x, np.broadcast_to(var_x, X_std.shape) if X_std.ndim == 3 else var_x

    # Validation of input

    def _validate_rows(
        self, X, y, sample_weight, X_std, X_cov, *, first, incremental=False, classes=None
    ) -> Given:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = self._validate_X_y(known_frame(X), y, reset=first)
        y = self._validate_targets(y, first=first, incremental=incremental, classes=classes)
        dtype = X.dtype if first else self._net.layers[0].mu.dtype
        if X.dtype != dtype:
            X = check_array(X.astype(dtype), accept_sparse="csr", input_name="X")
        weight = check_weight(sample_weight, X.shape[0])
        if X_cov is not None and self.covariance_type != "full":
            raise ValueError(
                "X_cov is learnt from with covariance_type='full' only: with 'diag', give X_std."
            )
        return Given(X, y, weight, self._check_uncertainty(X_std, X_cov, X))

    def _validate_X(self, X):
        check_is_fitted(self)
        dtype = self._net.layers[0].mu.dtype
        if self._is_plain(X) and X.dtype == dtype:
            return X
        return validate_data(self, known_frame(X), reset=False, accept_sparse="csr", dtype=dtype)

    def _is_plain(self, X) -> bool:
        """Whether a fitted estimator can take X as it is."""
        names = hasattr(self, "feature_names_in_")  # scikit-learn warns of an X without
        return not names and is_plain(X, self.n_features_in_)

    def _moments(self, X, X_std, X_cov):
        """Moments of the output units in standardised units, block of rows by block.

        An iterator of (mu_z, var_z), each (members, rows, n_outputs).
        """
        X = self._validate_X(X)
        X_std = self._check_uncertainty(X_std, X_cov, X)
        net = self._net.reported()
        dtype = net.layers[0].mu.dtype

        def block(part):
            block_std = X_std if X_std is None or X_std.shape[0] == 1 else X_std[part]
            return predict_moments(
                net, X[part], block_std, prepare=lambda x, std: self._inputs(x, std, dtype)
            )

        per_row = len(net.noise_var) * net.outputs.n_outputs
        return map(block, batches(X.shape[0], max(1, BLOCK_MOMENTS // per_row)))

    def _check_uncertainty(self, X_std, X_cov, X):
        """Standard deviations of the inputs, or their covariances, which have three axes."""
        if X_std is not None and X_cov is not None:
            raise ValueError("Give X_std or X_cov, not both: X_cov holds the variances too.")
        names = getattr(self, "feature_names_in_", None)
        if X_cov is not None:
            return check_X_cov(X_cov, X, names)
        return check_X_std(X_std, X, names)

    # Fitted attributes

    def __getstate__(self):
        return to_plain(super().__getstate__())

    def __setstate__(self, state):
        super().__setstate__(from_plain(state, type(self).__name__))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_net")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def coefs_(self) -> list[np.ndarray]:
        """Posterior means of the weights."""
        return [self._members(layer.mu[:, :-1]) for layer in self._fitted_net("coefs_").layers]

    @property
    def intercepts_(self) -> list[np.ndarray]:
        """Posterior means of the biases."""
        net = self._fitted_net("intercepts_")
        return [self._members(layer.mu[:, -1]) for layer in net.layers]

    @property
    def coef_vars_(self) -> list[np.ndarray]:
        """Posterior variances of the weights, as predictions use them."""
        net = self._fitted_net("coef_vars_").reported()
        return [self._members(layer.var[:, :-1]) for layer in net.layers]

    @property
    def intercept_vars_(self) -> list[np.ndarray]:
        """Posterior variances of the biases, as predictions use them."""
        net = self._fitted_net("intercept_vars_").reported()
        return [self._members(layer.var[:, -1]) for layer in net.layers]

    @property
    def layer_covariances_(self) -> list[np.ndarray]:
        """Posterior covariances of each layer's parameters, with ``covariance_type="full"``."""
        net = self._fitted_net("layer_covariances_")
        if not net.is_full:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute 'layer_covariances_': it is "
                "fitted with covariance_type='diag'."
            )
        return [self._members(layer.cov) for layer in net.reported().layers]

    @property
    def sigma_v_(self):
        """Observation-noise standard deviation, in units of the standardised target."""
        noise_var = self._fitted_net("sigma_v_").reported_noise
        sigma_v = np.sqrt(noise_var.mean(axis=0)[0])
        return float(sigma_v[0]) if len(sigma_v) == 1 else sigma_v

    @property
    def prequential_log_likelihood_(self) -> float:
        """Mean log-likelihood of streamed rows, each before it was learnt."""
        self._fitted_net("prequential_log_likelihood_")
        return self._prequential.mean

    @property
    def recent_log_likelihood_(self) -> float:
        """The same mean, in which a row counts half after 500 rows."""
        self._fitted_net("recent_log_likelihood_")
        return self._prequential.recent

    @property
    def n_outputs_(self) -> int:
        """Number of output units."""
        return self._fitted_net("n_outputs_").outputs.n_outputs

    def _fitted_net(self, name: str) -> Network:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._net

    def _members(self, values: np.ndarray) -> np.ndarray:
        return values[0] if len(values) == 1 else values
