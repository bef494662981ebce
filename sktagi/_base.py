"""What both estimators share: parameters, fit, partial_fit and moments of predictions."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from ._callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from ._convergence import warn_if_still_gaining
from ._drift import Drift
from ._input import (
    RandomState,
    RawRows,
    beyond_single,
    bounded_weight,
    check_rng,
    check_weight,
    check_X_cov,
    check_X_std,
    is_plain,
    known_frame,
    refuse_huge_targets,
    refuse_rows_without_targets,
    refuse_tiny_targets,
    refuse_too_large,
    scaled_weight,
)
from ._origin import Origin
from ._outliers import gross_outliers
from ._params import check_params, hidden_sizes
from ._prequential import Prequential
from ._progress import Progress
from ._saving import SavingMixin
from ._scaling import Scaling
from ._split import hold_out
from ._state import from_plain, to_plain
from ._streaming import StreamMixin
from ._user_split import UserSplit
from .engine.activations import ACTIVATIONS
from .engine.calibration import TEMPERATURES, HeldOutHere, Places, set_calibration
from .engine.encoding import Encoding
from .engine.fast import are_finite, overflow_allowed, slices, threads_for_layers
from .engine.full import check_size
from .engine.held_out import predict_held_out
from .engine.inputs import InputErrors
from .engine.keys import pair_keys
from .engine.kinds import Kind, kinds_for
from .engine.learning import Settings
from .engine.memory import check_memory
from .engine.mixture import Mixture
from .engine.noise_network import NoiseNetwork, draw_noise_network
from .engine.observations import ObservationModel
from .engine.posterior import Network, draw_prior, full_prior
from .engine.predicting import predict_moments
from .engine.rows import Rows, n_observed
from .engine.runs import Plan
from .engine.sources import InMemory
from .engine.training import Finish, History, fit_epochs
from .tables.columns import Columns, Predict, fit_columns, has_missing
from .tables.frames import Schema, read_columns

__all__ = ["BaseTAGI"]

BLOCK_MOMENTS = 1 << 17  # means of a block of predictions, of all members and outputs
UNEXPECTED = 100.0  # size of a target that is not scaled
# Parameters that are used when a network is drawn, and whose effect nobody reads from it
USED_ONCE = ("weight_gain", "bias_variance", "categorical_features")
AUTO_BATCH_SIZE = {"diag": 64, "full": 16}
AUTO_HALF_LIFE = 3.0  # rows for each parameter, where no rows are held out
AUTO_HALF_LIFE_BATCHES = 8  # with early stopping, at least
SINGLE_PRECISION_ROWS = 400  # from which on unlike members learn in single precision
FEW_COLUMNS = 256  # of sparse rows, which are learned as dense ones
MANY_MEMBERS, FEW_MEMBERS = 10, 5
ROWS_FOR_FEW_MEMBERS = 1000
AUTO_EPOCHS = 10, 60
MOST_COUNTED = 20_000  # rows, among which copies are looked for
MOST_OF_GAPS = 1e4  # variance that gaps of a row add, over that of the noise
KEPT_ROWS = 256  # at which importances of features are measured
ENOUGH_ROWS = 100  # of a stream: more would make its state grow for long
ROWS_FOR_MOST_EPOCHS = 1000  # up to which all epochs are planned; then they fall as n^(-1/3)


class BaseTAGI(CallbackSupportMixin, SavingMixin, StreamMixin, BaseEstimator):
    """Base class; the subclass validates X and y, and names the observation model."""

    _scales_targets: bool  # whether targets are standardised, and predictions calibrated
    _net: Network | Mixture
    _scaling: Scaling
    _origin: Origin
    _split_seed: int
    _shares_fold = False  # whether the first two members hold out the same rows: not in old files
    _standardized: bool
    _fitted_with: dict[str, Any] = {}  # USED_ONCE; not in old files
    _n_members: int
    _n_targets: int  # of a regressor
    classes_: Any  # of a classifier
    n_samples_seen_: int
    n_iter_: int
    best_iter_: int | np.ndarray
    train_scores_: list[float]
    validation_scores_: list[float] | None
    _columns: Columns | None = None  # what those of X become; not in old files
    _levels: list[list[str] | None] | None = None  # of categories in X as it was read first
    _common_schema: Schema | None = None  # of all shards, while one of them is read
    _some_rows: np.ndarray | None = None  # inputs at which importances are measured
    _drift = Drift()  # of a stream; not in old files
    _score_shift = 0.0  # from log-likelihoods of transformed targets to those of y

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
        shuffle: bool = True,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: int = 0,
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
        self.cv = cv
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.n_members = n_members
        self.n_jobs = n_jobs
        self.standardize = standardize
        self.categorical_features = categorical_features
        self.weight_gain = weight_gain
        self.bias_variance = bias_variance
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, Any]:
        """Return all parameters with their defaults; a subclass may take others."""
        # Looked up once: streams call often.
        ours: Any = next(c for c in cls.__mro__ if c.__module__.startswith("sktagi."))
        parameters = inspect.signature(ours.__init__).parameters
        return {name: parameters[name].default for name in ours._get_param_names()}

    # Fitting

    @with_callbacks
    def _fit(
        self, X: Any, y: Any, sample_weight: Any, X_std: Any, X_cov: Any, user: UserSplit
    ) -> Self:
        self._check_params()
        user.refuse_conflicts(self)
        # Not undone if fit fails: scikit-learn must find the callbacks that it tears down.
        tasks = FitTasks(self, X, y, sample_weight, self._n_epochs(1))
        with self._unchanged_if_it_fails():
            warm = bool(self.warm_start) and self.__sklearn_is_fitted__()
            data = self._validate_rows(X, y, sample_weight, X_std, X_cov, first=not warm)
            data = user.with_validation_rows(self, data)
            data = self._without_outliers(data, stacklevel=5)
            self._score_shift = self._mean_log_slope(data)
            if not warm:
                self._n_members = self._choose_n_members(_n_rows(data, data.weight))
                self._check_memory(data.X)
            rng = check_rng(self.random_state)
            member_rngs = self._member_rngs(rng)
            before = self._scaling if warm else None
            n_seen = self.n_samples_seen_ if warm else 0
            if not warm:
                self._split_seed = rng.randint(np.iinfo(np.int32).max)
                self._shares_fold = True
                self._dtype = data.X.dtype.name
            # The same rows again are held out again: what was learned once validates nothing.
            split = user.split(self, X, y, data)
            split_rng = np.random.RandomState(self._split_seed)
            order, validation = split or self._split(data, split_rng)
            net: Network | Mixture
            if warm:
                net = self._net.copy()
                if isinstance(net, Mixture):
                    net = net.astype(self._learning_dtype(_n_rows(data, data.weight), self._dtype))
                if self.max_iter != 0:  # calibrated anew
                    net.calibration = net.noise_net = None
                self._apply_settings(net, data.X.shape[1])
            elif self._is_auto and validation is not None and self.covariance_type != "full":
                net = self._draw_kinds(data, order, member_rngs)
            else:
                net = self._draw_network(data.X.shape[1], data.X.dtype, member_rngs)
            if validation is None and self.early_stopping and self._scales_targets:
                warnings.warn(
                    "No rows could be held out: standard deviations are not calibrated.",
                    stacklevel=4,
                )
            self._begin(net, self._empty_scaling(data), n_seen)
            self._drift = Drift()
            self._see(data, used=order)
            self._keep_first_rows(data)
            self._warn_of_rounding(before, stacklevel=5)
            net.outputs = self._model_in_units(net.outputs)
            if before is not None:
                before.carry_over(net, self._scaling)
            self._keep_some_rows(data)
            groups = user.group_numbers(data)
            net = self._train(net, data, order, validation, member_rngs, warm, tasks, groups)
            self._accept(net)
            tasks.close()
        return self

    def _partial_fit(
        self, X: Any, y: Any, sample_weight: Any, X_std: Any, X_cov: Any, classes: Any = None
    ) -> Self:
        with self._unchanged_if_it_fails():
            self._check_params()
            first = not self.__sklearn_is_fitted__()
            data = self._validate_rows(
                X, y, sample_weight, X_std, X_cov, first=first, incremental=True, classes=classes
            )
            if not len(data.weight):  # no row has a weight
                return self
            if first:
                self._n_members = self._choose_n_members(0)
                self._check_memory(data.X)
                rng = check_rng(self.random_state)
                member_rngs = self._member_rngs(rng)
                net: Network | Mixture
                net = self._draw_network(data.X.shape[1], data.X.dtype, member_rngs)
                self._split_seed = rng.randint(np.iinfo(np.int32).max)
                self._shares_fold = True
                self._dtype = data.X.dtype.name
                self._begin(net, self._empty_scaling(data), 0)
                self._drift = Drift()
                self._set_history(History())
                learned, y_after = self._see_stream(data, first)
                self._warn_of_rounding(None, stacklevel=4)
                self._warn_of_units(data.y, stacklevel=4)
                self._keep_some_rows(data)
            else:
                net = self._net.copy()
                self._apply_settings(net, data.X.shape[1])
                before = self._scaling
                learned, y_after = self._see_stream(data, first)
                self._warn_of_rounding(before, stacklevel=4)
                before.carry_over(net, self._scaling)
                self._keep_more_rows(data)
            if self._noise_may_vary and net.noise_net is None:
                net.noise_net = self._draw_noise_network(net)
            self._drift = self._drift.within(*self._half_lives(net))
            settings = self._stream_settings(net, len(data.weight))
            with threads_for_layers(_all_layers(net), settings[0].batch_size):
                y_before = None if first else before.y
                net, log_lik = self._learn_stream(net, learned, settings, y_before, y_after)
            log_lik += self._mean_log_slope(data)
            if self._scaling.targets_have_units:
                self._prequential = self._prequential.updated(log_lik, float(data.weight.sum()))
            self.n_iter_ += 1
            self.best_iter_ = self.n_iter_
            self._accept(net)
            if self.verbose:
                print(
                    f"{type(self).__name__} {len(data.weight)} rows | log-likelihood before they "
                    f"were learned: {log_lik:8.4f}",
                    flush=True,
                )
        return self

    def _check_params(self) -> None:
        check_params({name: getattr(self, name) for name in self._defaults()})

    @contextmanager
    def _unchanged_if_it_fails(self) -> Iterator[None]:
        """Leave the estimator as it was, whatever is raised inside, an interrupt too.

        What is learned inside is looked at (``_accept``): numbers may leave their range on the way.
        """
        before = self.__dict__.copy()  # fitted arrays are replaced, never written to
        try:
            with overflow_allowed():
                yield
        except BaseException:
            self.__dict__ = before
            raise

    def _begin(
        self,
        net: Network | Mixture,
        scaling: Scaling,
        n_seen: int,
        prequential: Prequential = Prequential(),  # noqa: B008
    ) -> None:
        """Start here: copies that learn different rows from now on can be merged."""
        self._standardized = bool(self.standardize)
        self._fitted_with = {name: copy.copy(getattr(self, name)) for name in USED_ONCE}
        self._first_rows = self._first_targets = None
        self._run = None
        self._scaling = scaling
        self._prequential = prequential
        self.n_samples_seen_ = n_seen
        self._origin = Origin.of(net, scaling, n_seen, prequential)

    def _empty_scaling(self, data: RawRows) -> Scaling:
        n_targets = data.y.shape[1] if self._scales_targets else None
        table = self._table
        return Scaling.empty(data.X, n_targets, table.floor, table.numbers_of_sparse)

    def _see(self, data: RawRows, used: np.ndarray | None = None) -> None:
        """Count new rows, and take them into the statistics: all, or those that are ``used``."""
        self.n_samples_seen_ += data.n_to_learn
        self._scaling = self._updated(self._scaling, data, used)

    def _updated(self, scaling: Scaling, data: RawRows, used: np.ndarray | None) -> Scaling:
        """Return the statistics with those of new rows: all, or those that are ``used``."""
        if not self.standardize:
            return scaling
        weight = data.weight if used is None else _weight_of_used(data.weight, used)
        X = data.X
        # Where zeros are not stored, there are no statistics without what is missing.
        if not scaling.x.bounds_values:
            X = self._table.roughly_filled(X)
        return scaling.updated(X, data.y, weight)

    def _warn_of_units(self, y: np.ndarray, stacklevel: int) -> None:
        """Warn of targets that nobody scales, none of which a prior of unit width expects."""
        if self.standardize or not self._scales_targets:
            return
        size = np.nanmin(np.abs(y))
        if size > UNEXPECTED:
            warnings.warn(
                f"All targets in y are at least {size:.3g} in size, and standardize=False expects "
                "targets around zero, of unit size: standard deviations are too small until more "
                "rows are learned.",
                stacklevel=stacklevel,
            )

    def _warn_of_rounding(self, before: Scaling | None, stacklevel: int) -> None:
        """Warn of columns that vary by rounding only, and did not ``before``: they have no say."""
        columns = self._scaling.x.is_rounding
        if not columns.any():
            return
        if before is not None:
            columns = columns & ~before.x.is_rounding
        if columns.any():
            names = ", ".join(np.array(self._table.encoded_names, dtype=object)[columns])
            warnings.warn(
                "Columns of X vary by no more than their numbers are rounded by, and are not used: "
                f"{names}. Subtract an offset before they become floats: times as nanoseconds, for "
                "example, as seconds since the first one.",
                stacklevel=stacklevel,
            )

    def _keep_some_rows(self, data: RawRows) -> None:
        """Keep a few rows, at which importances are measured."""
        self._some_rows = None
        if not sparse.issparse(data.X):
            n = data.n_to_learn
            some = np.random.default_rng(0).permutation(n)[:KEPT_ROWS]
            self._some_rows = self._filled(data.X[some], self._scaling)

    def _keep_more_rows(self, data: RawRows) -> None:
        """Keep rows of a stream that began with few."""
        kept = self._some_rows
        if kept is not None and len(kept) < ENOUGH_ROWS:
            X: Any = data.X[: ENOUGH_ROWS - len(kept)]
            X = X.toarray() if sparse.issparse(X) else X
            self._some_rows = np.concatenate([kept, self._filled(X, self._scaling)])

    def _accept(self, net: Network | Mixture) -> None:
        """Make a new posterior the estimator's own, if its numbers are sound."""
        if not net.is_sound():
            raise ValueError(
                f"The values given are too large or too small for {net.dtype} numbers: "
                "rescale X, y, X_std or sample_weight, or use float64."
            )
        self._net = net

    def _choose_n_members(self, n_rows: float) -> int:
        """Return the number of members; of many rows fewer tell how far off they are."""
        if not isinstance(self.n_members, str):
            return int(self.n_members)
        return MANY_MEMBERS if n_rows < ROWS_FOR_FEW_MEMBERS else FEW_MEMBERS

    def _check_memory(self, X: Any) -> None:
        """Refuse members that do not fit into memory, before anything is drawn for each."""
        n_outputs = self._n_targets if self._scales_targets else len(self.classes_)
        sizes = (X.shape[1], *self._hidden_sizes(), n_outputs)
        check_memory(sizes, self._n_members, X.dtype.itemsize)

    def _member_rngs(self, rng: np.random.RandomState) -> list[np.random.RandomState]:
        seeds = rng.randint(np.iinfo(np.int32).max, size=self._n_members)
        return [np.random.RandomState(seed) for seed in seeds]

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.hidden_layer_sizes, str)

    def _hidden_sizes(self) -> tuple[int, ...]:
        """Return the hidden layers of members that are alike; "auto" where nothing is held out."""
        return (50,) if self._is_auto else hidden_sizes(self.hidden_layer_sizes)

    def _draw_network(
        self, n_features: int, dtype: np.typing.DTypeLike, member_rngs: list[np.random.RandomState]
    ) -> Network:
        outputs = self._observation_model()
        sizes = (n_features, *self._hidden_sizes(), outputs.n_outputs)
        is_full = self.covariance_type == "full"
        if is_full:
            check_size(sizes, self._n_members)
        layers = draw_prior(
            sizes, member_rngs, weight_gain=self.weight_gain, bias_variance=self.bias_variance,
            dtype=dtype,
        )  # fmt: skip
        return self._network(
            full_prior(layers) if is_full else layers, ACTIVATIONS[self.activation], outputs
        )

    def _draw_kinds(
        self, data: RawRows, order: np.ndarray, member_rngs: list[np.random.RandomState]
    ) -> Mixture:
        """Draw the prior of unlike members for some rows, those in ``order``."""
        weight = _weight_of_used(data.weight, order)
        learned = np.flatnonzero(weight)
        scaling = self._updated(self._empty_scaling(data), data, order)
        x = scaling.inputs(self._filled(data.X[learned], scaling), None, np.float64)[0]
        n_rows, n_features = _n_rows(data, weight), data.X.shape[1]
        kinds = kinds_for(n_rows, n_features, is_sparse=sparse.issparse(x))
        encodings = [kind.encoding(x, weight[learned]) for kind in kinds]
        dtype = data.X.dtype
        if data.errors is None:  # whose squares may be too large for single precision
            dtype = self._learning_dtype(n_rows, dtype)
        return self._draw_mixture(kinds, encodings, n_features, dtype, member_rngs)

    def _learning_dtype(self, n_rows: float, dtype: np.typing.DTypeLike) -> np.dtype[Any]:
        """Return the precision in which unlike members learn: of many rows it is single.

        Numbers that are not standardised may be beyond that.
        """
        is_single = self.standardize and n_rows >= SINGLE_PRECISION_ROWS
        return np.dtype(np.float32 if is_single else dtype)

    def _draw_mixture(
        self,
        kinds: Sequence[Kind],
        encodings: Sequence[Encoding | None],
        n_features: int,
        dtype: np.dtype[Any],
        member_rngs: list[np.random.RandomState],
    ) -> Mixture:
        outputs, networks = self._observation_model(), []
        for kind, encoding in zip(kinds, encodings, strict=True):
            n_inputs = n_features if encoding is None else encoding.n_encoded
            layers = draw_prior(
                (n_inputs, *kind.hidden_layer_sizes, outputs.n_outputs), member_rngs,
                weight_gain=self.weight_gain, bias_variance=kind.bias_variance, dtype=dtype,
            )  # fmt: skip
            net = self._network(layers, ACTIVATIONS[kind.activation], outputs)
            net.encoding = encoding
            networks.append(net)
        equal = np.full((len(kinds), 1, 1), 1 / len(kinds))
        return Mixture(networks, [kind.name for kind in kinds], equal)

    def _network(self, layers: Any, activation: Any, outputs: ObservationModel) -> Network:
        noise_is_learned = self._learns_noise(outputs)
        noise_var = 1.0 if noise_is_learned else self._given_noise
        return Network(
            layers,
            activation,
            outputs,
            np.full((self._n_members, outputs.n_noise, 1), noise_var),
            noise_is_learned,
        )

    def _learns_noise(self, outputs: ObservationModel) -> bool:
        """Tell whether there is observation noise to learn."""
        return isinstance(self.sigma_v, str)

    @property
    def _given_noise(self) -> float:
        """Return the noise variance that is not learned; classes without a number have none."""
        return 0.0 if isinstance(self.sigma_v, str) else float(self.sigma_v) ** 2

    def _apply_settings(self, net: Network | Mixture, n_features: int) -> None:
        """Let a fitted network go on with the present parameters; refuse what cannot change."""
        if isinstance(net, Mixture):
            if not self._is_auto:
                raise ValueError(
                    "hidden_layer_sizes must be as in the fit that is continued: 'auto' is fitted, "
                    f"{self.hidden_layer_sizes!r} is asked for."
                )
        else:
            sizes = (n_features, *self._hidden_sizes(), net.outputs.n_outputs)
            fitted = (*(layer.mu.shape[-2] - 1 for layer in net.layers), net.outputs.n_outputs)
            if sizes != fitted:
                raise ValueError(
                    "hidden_layer_sizes must be as in the fit that is continued: layers of "
                    f"{fitted} units are fitted, {sizes} are asked for."
                )
        if self.n_members not in ("auto", net.n_members):
            raise ValueError(
                "n_members must be as in the fit that is continued: "
                f"{net.n_members} are fitted, {self.n_members} are asked for."
            )
        if (self.covariance_type == "full") != net.is_full:
            raise ValueError("covariance_type must be as in the fit that is continued.")
        if self.standardize != self._standardized:
            raise ValueError("standardize must be as in the fit that is continued.")
        for name in USED_ONCE:
            asked = getattr(self, name)
            fitted = self._fitted_with.get(name, asked)
            if asked is not fitted and not np.array_equal(asked, fitted):
                raise ValueError(
                    f"{name} must be as in the fit that is continued: {fitted!r} is fitted, "
                    f"{asked!r} is asked for."
                )
        if isinstance(net, Network) and ACTIVATIONS[self.activation] is not net.activation:
            raise ValueError("activation must be as in the fit that is continued.")
        if not self._noise_may_vary:
            net.noise_net = None
        for network in net.networks:
            network.noise_is_learned = self._learns_noise(net.outputs)
            if not network.noise_is_learned:
                network.noise_var[...] = self._given_noise
        if not net.noise_is_learned and net.calibration is not None:
            ones = np.ones_like(net.calibration.noise_scale)
            net.calibration = net.calibration._replace(noise_scale=ones)

    def _split(
        self, data: RawRows, rng: np.random.RandomState
    ) -> tuple[np.ndarray, list[np.ndarray] | None]:
        """Return the rows that each member learns, (members, n), and those it holds out."""
        if not self.early_stopping:
            return np.tile(np.arange(len(data.weight)), (self._n_members, 1)), None
        return hold_out(
            self._table.roughly_filled(data.X), data.y, self.validation_fraction,
            self._n_members, rng, stratify=data.y.ndim == 1, shared=self._shares_fold,
        )  # fmt: skip

    def _settings(self, net: Network, n_rows: int, total: float | None = None) -> Settings:
        """Say how to learn ``n_rows`` a pass; ``total`` is the weight of all, if some validate."""
        batch_size, half_life, n_epochs = self.batch_size, self.half_life, None
        if isinstance(batch_size, str):
            batch_size = AUTO_BATCH_SIZE[self.covariance_type]
        if isinstance(half_life, str):
            n_parameters = sum(layer.mu[0].size for layer in net.layers)
            # A short memory learns few rows better, and leaves the network unsure of itself: rows
            # held out tell when to stop, and a regressor how sure it may be.
            half_life = AUTO_HALF_LIFE * n_parameters
            if total is not None:
                some_batches = AUTO_HALF_LIFE_BATCHES * min(batch_size, total)
                half_life = max(0.5 * np.sqrt(n_parameters * total), some_batches)
                n_epochs = self._n_epochs(n_rows)
        joint = self.batch_inference == "joint"
        half_life = None if half_life is None else float(half_life)  # a Fraction is a number, too
        return Settings(min(int(batch_size), n_rows), joint, half_life, n_epochs)

    def _n_epochs(self, n_rows: int) -> int:
        """Return the epochs that are planned for so many rows."""
        if not isinstance(self.max_iter, str):
            return int(self.max_iter)
        fewest, most = AUTO_EPOCHS
        return int(np.clip(most * np.cbrt(ROWS_FOR_MOST_EPOCHS / n_rows), fewest, most))

    def _plan(self, n_rows: int) -> Plan:
        return Plan(self._n_epochs(n_rows), self.n_iter_no_change, self.tol)

    @property
    def _noise_is_learned(self) -> bool:
        return self._scales_targets and isinstance(self.sigma_v, str)

    @property
    def _noise_is_given(self) -> bool:
        return self._scales_targets and not isinstance(self.sigma_v, str)

    @property
    def _noise_may_vary(self) -> bool:
        return self._scales_targets and isinstance(self.sigma_v, str) and self.sigma_v == "auto"

    def _draw_noise_network(self, net: Network | Mixture) -> NoiseNetwork:
        return draw_noise_network(net.n_inputs, net.outputs.n_noise, net.dtype, self._split_seed)

    def _train(
        self,
        net: Network | Mixture,
        data: RawRows,
        order: np.ndarray,
        validation: list[np.ndarray] | None,
        member_rngs: list[np.random.RandomState],
        continued: bool,
        tasks: FitTasks,
        groups: np.ndarray | None,
    ) -> Network | Mixture:
        """Train a network in place, and set what training tells; returns what is kept of it."""
        knows_gaps = validation is not None or not self._noise_is_learned
        self._columns = replace(self._table, knows_gaps=knows_gaps)
        rows = self._prepare(data, net.dtype).with_keys()
        name = type(self).__name__
        plan = self._plan(order.shape[1])
        progress = Progress(name, plan.max_iter, self.verbose, validation is not None)
        total = None if validation is None else data.weight[: data.n_to_learn].sum()
        settings = [self._settings(kind, order.shape[1], total) for kind in net.networks]

        def finish(net: Network | Mixture, history: History) -> None:
            held, gap_var = None, None
            if validation is not None and self._needs_held_out(net):
                gap_var = self._gap_variance(net, data.X)
                held = HeldOutHere(
                    predict_held_out(net, rows, validation, self._temperatures, groups, gap_var)
                )
            n_rows = data.weight[: data.n_to_learn].sum()
            self._calibrate(net, held, settings[-1], n_rows, history.n_iter)
            if gap_var is not None and self._noise_may_vary:
                ratio = gap_var / net.reported_noise.mean(axis=0)
                for source in sources:
                    ratio = np.minimum(ratio, MOST_OF_GAPS)
                    source.data = source.data._replace(gap_ratio=ratio.T)

        def on_epoch(history: History) -> bool:
            progress(history)
            return tasks.end_epoch(lambda: self._as_if_done(history, finish))

        # All kinds see rows in the same order, but generators are their own.
        sources = [
            InMemory(
                rows,
                order,
                validation,
                setting,
                copy.deepcopy(member_rngs) if self.shuffle else None,
            )
            for setting in settings
        ]
        with progress, threads_for_layers(_all_layers(net), settings[0].batch_size):
            net, history = fit_epochs(
                net, sources, plan, finish,
                varies=self._noise_may_vary and validation is not None, continued=continued,
                on_epoch=on_epoch, on_epoch_begin=tasks.begin_epoch,
                n_jobs=1 if tasks.are_watched else self._n_jobs(),
            )  # fmt: skip
            progress.close(history, net)
        self._warn_if_interrupted(history, stacklevel=6)
        if all(setting.n_epochs is None for setting in settings):
            warn_if_still_gaining(history, plan, stacklevel=6)
        self._set_history(history)
        return net.astype(self._dtype) if isinstance(net, Mixture) else net

    def _n_jobs(self) -> int:
        """Return the number of processes; None is what ``joblib.parallel_config`` says, or one."""
        from joblib import effective_n_jobs  # not needed to import sktagi

        return int(effective_n_jobs(self.n_jobs))

    _temperatures = TEMPERATURES  # at which rows held out are predicted

    def _needs_held_out(self, net: Network | Mixture) -> bool:
        """Tell whether rows held out say how to calibrate this network."""
        return True

    def _calibrate(
        self,
        net: Network | Mixture,
        held: Places | None,
        settings: Settings,
        n_rows: float,
        n_epochs: int,
    ) -> None:
        """Calibrate predictions, in place, by rows held out, if there are."""
        if held is not None:
            varies = self._noise_may_vary
            start = (net.noise_net or self._draw_noise_network(net)) if varies else None
            set_calibration(net, held, start, self._split_seed, float(n_rows))

    @staticmethod
    def _warn_if_interrupted(history: History, stacklevel: int) -> None:
        if history.interrupted:
            warnings.warn(
                f"Training interrupted in epoch {history.n_iter + 1}; the estimator keeps what it "
                "has learned so far.",
                stacklevel=stacklevel,
            )

    def _as_if_done(self, history: History, finish: Finish) -> dict[str, Any]:
        """Return the attributes that this estimator would have if training ended now."""
        assert history.posterior is not None
        fitted = copy.copy(self)
        fitted._set_history(history)
        fitted._net = history.posterior()
        finish(fitted._net, history)
        return fitted.__dict__

    def _set_history(self, history: History) -> None:
        self.n_iter_ = history.n_iter
        self.train_scores_ = [score + self._score_shift for score in history.train_scores]
        if history.best_iter is None:
            self.best_iter_ = history.n_iter
            self.validation_scores_ = None
        else:
            best = history.best_iter
            self.best_iter_ = int(best[0]) if len(best) == 1 else best
            shift = self._score_shift
            self.validation_scores_ = [score + shift for score in history.validation_scores]

    def _prepare(self, data: RawRows, dtype: np.dtype[Any]) -> Rows:
        """Return rows in the units of the network."""
        X = self._filled(data.X, self._scaling)
        errors = self._table.errors_at(data.errors, data.X)
        x, errors = self._scaling.inputs(X, errors, dtype)
        y = self._scaling.targets(data.y, dtype)
        return Rows(x, y, data.weight.astype(dtype), errors)

    def _beside_gaps(self, rows: Rows, net: Network | Mixture, X: Any) -> Rows:
        """Return rows of a stream, those with gaps noisier, where a fit has told them from noise.

        Else what gaps add to the errors is part of the noise that is learned.
        """
        if not (self._table.knows_gaps and self._noise_is_learned):
            return rows
        gap_var = self._gap_variance(net, X)
        if gap_var is None:
            return rows
        ratio = np.minimum(gap_var / net.reported_noise.mean(axis=0), MOST_OF_GAPS)
        return rows._replace(gap_ratio=ratio.T).with_noise(np.ones_like(ratio))

    # Validation of input

    def _validate_X_y(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        raise NotImplementedError

    def _validate_targets(
        self, y: np.ndarray, *, first: bool, incremental: bool, classes: Any
    ) -> np.ndarray:
        raise NotImplementedError

    def _observation_model(self) -> ObservationModel:
        raise NotImplementedError

    def _model_in_units(
        self, outputs: ObservationModel, *, streamed: bool = False
    ) -> ObservationModel:
        """Return an observation model that knows the present units of targets, and parameters."""
        return outputs

    def _with_class_weight(
        self, y: np.ndarray, weight: np.ndarray, *, incremental: bool
    ) -> np.ndarray:
        """Return the weights of rows to learn times those of their classes, which these tell."""
        return weight

    def _times_class_weight(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the weights of rows times those of their classes, which are known."""
        return weight

    def _validate_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        X_std: Any,
        X_cov: Any,
        *,
        first: bool,
        incremental: bool = False,
        classes: Any = None,
    ) -> RawRows:
        X, y, weight = self._read_rows(
            X, y, sample_weight, first=first, incremental=incremental, classes=classes
        )
        if X_cov is not None and self.covariance_type != "full":
            raise ValueError(
                "X_cov is learned from with covariance_type='full' only: with 'diag', give X_std."
            )
        if first:
            self._columns = self._fit_columns(X, weight, streamed=incremental)
        errors = self._check_errors(X_std, X_cov, X)
        return self._encoded_rows(X, y, weight, errors, first=first, incremental=incremental)

    def _read_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        first: bool,
        incremental: bool,
        classes: Any = None,
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return columns as numbers, targets and weights; the columns are not encoded yet."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = self._validate_X_y(known_frame(X), y, reset=first)
        y = self._validate_targets(y, first=first, incremental=incremental, classes=classes)
        goes_on_sparse = not first and not self._scaling.x.centered  # as old files do
        if sparse.issparse(X) and X.shape[1] <= FEW_COLUMNS and not goes_on_sparse:
            X = X.toarray()  # products with few columns are quicker than a look at each entry
        dtype = X.dtype if first else self._dtype
        if first and self._scales_targets and beyond_single(y):
            dtype = np.dtype(np.float64)  # of predictions
            if self.standardize:
                refuse_tiny_targets(y)
            elif getattr(self, "target_transform", None) is None:
                refuse_huge_targets(y)
        if X.dtype != dtype:
            X = check_array(X.astype(dtype), accept_sparse="csr", input_name="X")
        weight = check_weight(sample_weight, X.shape[0], may_vanish=incremental and not first)
        given = weight
        if weight.any():
            weight = self._with_class_weight(y, weight, incremental=incremental)
        if sample_weight is not None or weight is not given:  # else all are ones
            weight = bounded_weight(weight) if incremental else scaled_weight(weight)
        if y.ndim == 2 and y.shape[1] > 1:
            refuse_rows_without_targets(y, "y", weight)
        return X, y, weight

    def _encoded_rows(
        self,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
        errors: InputErrors | None,
        *,
        first: bool,
        incremental: bool,
    ) -> RawRows:
        """Return the inputs that columns become, for rows with a weight, and what is learned."""
        data = RawRows(self._table.encode(X), y, weight, errors).positive()
        if not len(data.weight):
            return data
        if not incremental and y.ndim == 2 and not n_observed(data.y).all():
            unseen = np.flatnonzero(n_observed(data.y) == 0).tolist()
            raise ValueError(f"y has targets that no row observes: columns {unseen}.")
        return self._transform_targets(data, first=first)

    def _without_outliers(self, data: RawRows, stacklevel: int) -> RawRows:
        """Set gross outliers among the targets aside, with a warning, if the noise is learned."""
        if not (self._scales_targets and isinstance(self.sigma_v, str)):
            return data
        gross = gross_outliers(self._table.roughly_filled(data.X), data.y, data.weight)
        if not gross.any():
            return data
        warnings.warn(
            f"{np.count_nonzero(gross)} of {gross.size} targets are gross outliers, far from all "
            "others, and are set aside. A number for sigma_v keeps them.",
            stacklevel=stacklevel,
        )
        data = data._replace(y=np.where(gross, np.nan, data.y))
        left = data.take(~np.isnan(data.y).all(axis=1))
        if data.n_validation and not left.n_validation:
            raise ValueError("y_val has gross outliers only, far from the targets of y.")
        return left

    def _transform_targets(self, data: RawRows, *, first: bool) -> RawRows:
        """Return rows with the targets that the network learns; the ``first`` ones may fit that."""
        return data

    def _mean_log_slope(self, data: RawRows) -> float:
        """Return the mean log slope of the transform of targets, for rows that have it."""
        return 0.0

    def _validate_X(self, X: Any) -> Any:
        if not self.__sklearn_is_fitted__():  # asked first: it is quicker
            check_is_fitted(self)
        dtype = self._dtype
        if not (self._is_plain(X) and X.dtype == dtype):
            X = self._checked(known_frame(X), reset=False, dtype=dtype)
        return self._table.encode(X)

    def _checked(self, X: Any, *y: Any, reset: bool, dtype: Any = None, **checks: Any) -> Any:
        """Return X as numbers, and y if it is given; what is missing in X is NaN.

        Categories are the numbers of their levels.
        """
        dtype = [np.float64, np.float32] if dtype is None else dtype
        schema = self._common_schema if reset else Schema(self._table.levels)
        try:
            read = read_columns(X, self.categorical_features, schema)
        except ValueError:
            if not reset and hasattr(X, "columns") and hasattr(X, "shape"):
                # Other names, or another order, say more.
                validate_data(self, X, reset=False, skip_check_array=True)
            raise
        if reset:
            self._levels = None if read is None else read[1].levels
        checks = {**checks, "dtype": dtype, "ensure_all_finite": "allow-nan"}
        if read is None:
            return self._numbers(X, *y, reset=reset, **checks)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if y:
            return check_X_y(read[0], *y, estimator=self, **checks)
        return check_array(read[0], estimator=self, input_name="X", **checks)

    def _numbers(self, X: Any, *y: Any, **checks: Any) -> Any:
        """Return a table of numbers, and y if it is given, as scikit-learn checks them."""
        try:
            return validate_data(self, X, *y, accept_sparse="csr", **checks)
        except ValueError as error:
            if "could not convert string" in str(error) and np.asarray(X).dtype.kind in "OUS":
                raise ValueError(
                    f"{error}. If columns of X hold categories, name them in "
                    "categorical_features, or give a frame."
                ) from None
            raise

    def _fit_columns(self, X: Any, weight: np.ndarray, *, streamed: bool) -> Columns:
        there = weight > 0
        if not there.all():
            X, weight = X[there], weight[there]
        names = getattr(self, "feature_names_in_", None)
        clips = bool(self.standardize)
        return fit_columns(X, weight, names, self._levels, streamed=streamed, clips=clips)

    def _filled(self, X: Any, scaling: Scaling) -> Any:
        """Return inputs without gaps; ``scaling`` has the statistics so far."""
        return self._table.filled(X, scaling.x)

    def _is_plain(self, X: Any) -> bool:
        """Tell whether a fitted estimator can take X as it is."""
        names = hasattr(self, "feature_names_in_")  # scikit-learn warns of an X without
        special = names or self._table.has_categories
        return not special and is_plain(X, self.n_features_in_)

    def _check_errors(self, X_std: Any, X_cov: Any, X: Any) -> InputErrors | None:
        if X_std is not None and X_cov is not None:
            raise ValueError("Give X_std or X_cov, not both: X_cov holds the variances too.")
        if X_std is None and X_cov is None:
            return None
        names = getattr(self, "feature_names_in_", None)
        given = np.broadcast_to(0.0, (X.shape[0], self.n_features_in_))
        if X_cov is not None:
            return self._table.encode_errors(check_X_cov(X_cov, given, names))
        return self._table.encode_errors(check_X_std(X_std, given, names))

    # Predictions

    def _moments(self, X: Any, X_std: Any, X_cov: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield moments of the outputs, (members, n_outputs, rows), for blocks of rows."""
        X = self._validate_X(X)
        return self._moments_of(X, self._check_errors(X_std, X_cov, X))

    def _moments_of(
        self, X: Any, errors: InputErrors | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield moments of the outputs for rows that have been checked."""
        predict = self._predicting(self._net.reported())
        for _, x, of_block in self._blocks(X, errors):
            with overflow_allowed():
                moments = self._table.averaged(x, of_block, predict, self._scaling.x)
            yield moments

    def _blocks(
        self, X: Any, errors: InputErrors | None
    ) -> Iterator[tuple[int, Any, InputErrors | None]]:
        """Yield inputs and their errors for blocks of rows, with the number of the first row."""
        per_row = self._net.n_members * self._net.outputs.n_outputs
        for part in slices(X.shape[0], max(1, BLOCK_MOMENTS // per_row)):
            of_part = None if errors is None else errors.take(part)
            yield part.start, X[part], self._table.errors_at(of_part, X[part])

    def _predicting(self, net: Network | Mixture) -> Predict:
        """Return a function that gives moments of the outputs for inputs in their own units.

        They are in double precision for rows that are beyond single precision.
        """
        scaling = self._scaling

        def predict(x: Any, errors: InputErrors | None) -> tuple[np.ndarray, np.ndarray]:
            with overflow_allowed():
                for dtype in (net.dtype, np.float64):
                    moments = predict_moments(
                        net.astype(dtype), x, errors,
                        prepare=lambda x, errors: scaling.inputs(x, errors, dtype),  # noqa: B023
                    )  # fmt: skip
                    if are_finite(*moments):
                        return moments
                refuse_too_large(*moments)
                return moments

        return predict

    def _gap_variance(self, net: Network | Mixture, X: Any) -> np.ndarray | None:
        """Return what gaps add to the variance of the outputs, (n_outputs, rows); None: nothing."""
        if not has_missing(X):
            return None
        return self._table.gap_variance(X, self._predicting(net), self._scaling.x)

    # What scikit-learn asks for

    def __getstate__(self) -> dict[str, Any]:
        return to_plain(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Parameters that are newer than the file have their default.
        super().__setstate__({**self._defaults(), **from_plain(state, type(self).__name__)})

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _all_layers(net: Network | Mixture) -> list[Any]:
    return [layer for network in net.networks for layer in network.layers]


def _n_rows(data: RawRows, weight: np.ndarray) -> float:
    """Return the number of rows; heavy ones count as several, a few huge ones not as many.

    Copies of a row are a row of more weight.
    """
    there = np.flatnonzero(weight)
    n_distinct = len(there)
    if n_distinct <= MOST_COUNTED:  # for more nothing depends on it
        n_distinct = len(np.unique(pair_keys(data.X[there], data.y[there])))
    return min(float(weight.sum()), 2.0 * n_distinct)


def _weight_of_used(weight: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return the weights of rows whose numbers are in ``used``, which may hold -1; others: 0."""
    is_used = np.zeros(len(weight), dtype=bool)
    is_used[used[used >= 0]] = True
    return weight * is_used
