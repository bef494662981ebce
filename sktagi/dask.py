"""Train on rows that are spread over the workers of a dask cluster.

Every partition is a shard that stays where it is. In each epoch every shard learns from the same
posterior, and what they have learned is merged: one exchange of parameters, however many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone, is_classifier

from ._base import BaseTAGI
from ._convergence import warn_if_still_gaining
from ._input import RawRows, check_rng, weight_scale
from ._labels import as_labels, distinct_labels
from ._params import check_params
from ._progress import Progress
from ._scaling import Scaling
from ._target_transform import is_stateless, make_transformer
from .engine.encoding import Encoding
from .engine.fast import slices, threads_for_layers
from .engine.held_out import HeldOut, predict_held_out
from .engine.kinds import Kind, kinds_for
from .engine.learning import Learner, Settings
from .engine.merging import merge_networks
from .engine.mixture import Evidence, HeldOutKinds, Mixture, best_weights, predict_kinds
from .engine.noise import NOISE_FACTORS, best_on_grid, bounded_noise, scores_on_grid, trusted_noise
from .engine.noise_network import NoiseNetwork
from .engine.posterior import Network
from .engine.predicting import predict_moments
from .engine.rows import Rows, n_observed
from .engine.sources import TRUST
from .engine.training import History, fit_epochs
from .tables.columns import has_missing

__all__ = ["fit_shards"]

BLOCK_ROWS = 4096  # scored at once
MOST_HELD_OUT = 20_000  # rows of a shard that tell the weights of kinds, over all members

Estimator = TypeVar("Estimator", bound=BaseTAGI)


def fit_shards(
    estimator: Estimator, X: Any, y: Any, *, sample_weight: Any = None, client: Any = None
) -> Estimator:
    """Fit an estimator to partitioned rows, in parallel on the workers that hold them.

    Each partition holds out ``validation_fraction`` of its own rows. An epoch is one pass of every
    partition over its other rows, from the same posterior, and a merge (`sktagi.merging`).
    Statistics for standardisation, and the score and the noise of the validation rows, are those
    of all partitions together. What a lost worker held is computed again by dask.

    The mixture is calibrated by the rows that all partitions hold out, as by ``fit``. A ``cv`` is
    refused: its splits are of all rows, which no worker has.

    The result is close to that of ``fit`` on all rows, not equal to it; with one partition they
    differ in the shuffling and in the last digits of the noise. Partitions should be few (one or
    two for each core), of similar size, and each like the whole: shuffle rows that are sorted. An
    epoch of M partitions makes 1/M of the steps of an epoch of ``fit``: with partitions of fewer
    than some thousand rows, multiply ``max_iter`` and ``n_iter_no_change`` by M.

    Parameters
    ----------
    estimator : TAGIRegressor or TAGIClassifier
        Its parameters say how to fit; it does not change. ``warm_start`` has no effect.

    X : dask array or dataframe of shape (n_samples, n_features)
        Features, partitioned along the rows.

    y : dask array, series or dataframe
        Targets or class labels, partitioned as X.

    sample_weight : dask array or series of shape (n_samples,), default=None
        Weights, partitioned as X. Their common size does not matter, as in ``fit``.

    client : distributed.Client, default=None
        The cluster to use; None is the one that was connected to last.

    Returns
    -------
    estimator : TAGIRegressor or TAGIClassifier
        A fitted copy, as ``fit`` would make it.

    Examples
    --------
    With dask installed (``pip install "sktagi[dask]"``), and a cluster::

        from dask.distributed import Client
        from sktagi import TAGIRegressor
        from sktagi.dask import fit_shards

        client = Client()  # worker processes on this machine
        model = fit_shards(TAGIRegressor(), X, y)  # dask arrays or frames
        mean, std = model.predict(X_test, return_std=True)
    """
    check_params(estimator.get_params(deep=False))
    if estimator.covariance_type == "full":
        raise ValueError("fit_shards merges networks with covariance_type='diag' only.")
    if estimator.cv is not None:
        raise ValueError("fit_shards takes no cv: every partition holds out rows of its own.")
    _refuse_fitted_transforms(getattr(estimator, "target_transform", None))
    client = _client(client)
    estimator = clone(estimator)
    blocks = client.compute(_blocks(X, y, sample_weight))
    contents = client.gather(client.map(_contents, blocks, labelled=is_classifier(estimator)))
    filled = [k for k, (weights, _) in enumerate(contents) if weights.n_rows]
    if not filled:
        raise ValueError("X has no rows of positive weight.")
    scale = _Weights.joined([weights for weights, _ in contents if weights.n_rows]).scale
    classes = None
    labels = [found for _, found in contents if len(found)]
    if labels:
        classes = distinct_labels(np.concatenate(labels))

    rng = check_rng(estimator.random_state)
    n_members = estimator._choose_n_members(sum(weights.n_rows for weights, _ in contents))
    estimator._n_members = n_members
    member_rngs = estimator._member_rngs(rng)
    estimator._split_seed = rng.randint(np.iinfo(np.int32).max)
    shards = [
        client.submit(
            _shard,
            blocks[k],
            estimator,
            n_members,
            classes,
            scale,
            estimator._split_seed + k,
            pure=False,
        )
        for k in filled
    ]
    summaries = client.gather(client.map(_summary, shards, pure=False))
    fitted = _checked_alike(summaries)
    scaling = reduce(Scaling.joined, [s.estimator._scaling for s in summaries])
    dtype = np.result_type(*(s.dtype for s in summaries))
    fitted._scaling, fitted._split_seed, fitted._dtype = scaling, estimator._split_seed, dtype.name
    fitted._score_shift = float(np.average(
        [s.estimator._score_shift for s in summaries], weights=[s.weight for s in summaries]
    ))  # fmt: skip
    net, shards = _start(client, fitted, shards, summaries, dtype, member_rngs)
    net.outputs = fitted._model_in_units(net.outputs)
    clusters = [
        _Cluster(client, fitted, kind, shards, summaries, deepcopy(member_rngs))
        for kind in net.networks
    ]
    cluster = clusters[0]
    name = f"{type(fitted).__name__} on {len(shards)} shards"
    plan = fitted._plan(max(s.n_train for s in summaries))
    progress = Progress(name, plan.max_iter, fitted.verbose, cluster.holds_out)
    with progress:
        varies = fitted._noise_may_vary and cluster.holds_out

        def finish(net: Network | Mixture, history: History) -> None:
            n_rows = sum(s.weight for s in summaries)
            # A noise network learns here.
            with threads_for_layers(net.networks[-1].layers, cluster.settings.batch_size):
                held = cluster.held_out(net) if fitted._needs_held_out(net) else None
                fitted._calibrate(net, held, cluster.settings, n_rows, history.n_iter)

        net, history = fit_epochs(net, clusters, plan, finish, varies=varies, on_epoch=progress)
        progress.close(history, net)
    fitted._warn_if_interrupted(history, stacklevel=3)
    if cluster.settings.n_epochs is None:
        warn_if_still_gaining(history, plan, stacklevel=3)
    fitted._set_history(history)
    if isinstance(net, Mixture):
        net = net.astype(dtype)
    fitted._accept(net)
    fitted._begin(net, scaling, sum(s.n_rows for s in summaries))  # as whatever was merged
    return fitted


def _start(
    client: Any,
    fitted: BaseTAGI,
    shards: list[Any],
    summaries: Sequence[_Summary],
    dtype: np.dtype[Any],
    member_rngs: list[np.random.RandomState],
) -> tuple[Network | Mixture, list[Any]]:
    """Return the prior, and shards with standardised rows.

    Of unlike members, the rows of the largest shard say how inputs are encoded.
    """
    n_features = fitted.n_features_in_
    if not (fitted._is_auto and all(s.n_held_out for s in summaries)):
        shards = client.map(_standardised, shards, fitted=fitted, dtype=dtype, pure=False)
        return fitted._draw_network(n_features, dtype, member_rngs), shards
    n_rows = sum(s.weight for s in summaries)
    learning = fitted._learning_dtype(n_rows, dtype)
    shards = client.map(_standardised, shards, fitted=fitted, dtype=learning, pure=False)
    kinds = kinds_for(n_rows, n_features, is_sparse=not fitted._scaling.x.centered)
    largest = shards[int(np.argmax([s.n_rows for s in summaries]))]
    encodings = client.submit(_encodings, largest, kinds, pure=False).result()
    net = fitted._draw_mixture(kinds, encodings, n_features, learning, member_rngs)
    return net, shards


# What runs on the workers


class _Shard(NamedTuple):
    """Rows of a partition, and which of them each member learns and holds out."""

    estimator: Any  # validated on these rows, with their statistics
    rows: Any  # RawRows, and standardised Rows later
    order: np.ndarray
    validation: list[np.ndarray] | None


class _Summary(NamedTuple):
    estimator: Any
    dtype: np.dtype[Any]
    n_rows: int
    weight: float
    n_observed: np.ndarray  # (n_targets,): rows that observe each target
    n_train: int
    n_held_out: int  # rows of every member, at least
    n_validation: np.ndarray  # (n_targets,): rows of every member that observe a target, at least


class _Weights(NamedTuple):
    """Weights of rows that count: those that are refused later, too."""

    n_rows: int
    smallest: float
    mean: float

    @classmethod
    def of(cls, sample_weight: Any) -> _Weights:
        weight = np.asarray(sample_weight, dtype=np.float64)
        weight = weight[weight != 0]
        if not len(weight):
            return cls(0, np.inf, 0.0)
        return cls(len(weight), float(weight.min()), float(weight.mean()))

    @classmethod
    def joined(cls, parts: Sequence[_Weights]) -> _Weights:
        n_rows, smallest, mean = map(np.array, zip(*parts, strict=True))
        return cls(n_rows.sum(), smallest.min(), np.average(mean, weights=n_rows))

    @property
    def scale(self) -> float:
        """What they are divided by."""
        return weight_scale(self.smallest, self.mean)


class _Learned(NamedTuple):
    """What a shard sends back: a posterior, and sums over rows for each member."""

    net: Network | None
    train_score: np.ndarray  # (members,)
    train_weight: np.ndarray
    validation_score: np.ndarray | None  # (members, noise factors, outputs)
    validation_weight: np.ndarray | None


def _block(X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    return X, y, sample_weight


def _contents(block: Any, labelled: bool) -> tuple[_Weights, Any]:
    """Return what the weights of a partition are, and the classes of all its rows.

    An indicator matrix of several labels has no classes to find.
    """
    X, y, sample_weight = block
    weights = _Weights.of(np.ones(X.shape[0]) if sample_weight is None else sample_weight)
    if not labelled or not len(y) or (np.ndim(y) == 2 and np.shape(y)[1] > 1):
        return weights, ()
    return weights, distinct_labels(np.asarray(as_labels(y)).ravel())


def _shard(
    block: Any, estimator: BaseTAGI, n_members: int, classes: Any, scale: float, seed: int
) -> _Shard:
    X, y, sample_weight = block
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight, dtype=np.float64) / scale
    estimator = clone(estimator)
    estimator._n_members = n_members
    data = estimator._validate_rows(
        X, y, sample_weight, None, None, first=True, incremental=True, classes=classes
    )
    data = estimator._without_outliers(data, stacklevel=2)
    estimator._shares_fold = True
    estimator._score_shift = estimator._mean_log_slope(data)
    order, validation = estimator._split(data, np.random.RandomState(seed % (1 << 32)))
    estimator.n_samples_seen_ = 0
    if not estimator._table.is_plain or has_missing(data.X):
        raise ValueError(
            "X has categories or missing values, which shards cannot learn yet: encode and impute "
            "them before, or use fit."
        )
    estimator._scaling = estimator._empty_scaling(data)
    estimator._see(data, used=order)
    return _Shard(estimator, data, order, validation)


def _summary(shard: _Shard) -> _Summary:
    rows: RawRows = shard.rows
    validation = [np.empty(0, int)] if shard.validation is None else shard.validation
    n_validation = np.min([n_observed(rows.y[numbers]) for numbers in validation], axis=0)
    return _Summary(
        shard.estimator, rows.X.dtype, len(rows.weight), rows.weight.sum(), n_observed(rows.y),
        shard.order.shape[1], min(map(len, validation)), n_validation,
    )  # fmt: skip


def _standardised(shard: _Shard, fitted: BaseTAGI, dtype: np.dtype[Any]) -> _Shard:
    """Return the shard with standardised rows; the original ones may go."""
    return shard._replace(rows=fitted._prepare(shard.rows, dtype).with_keys(), estimator=None)


def _encodings(shard: _Shard, kinds: Sequence[Kind]) -> list[Encoding | None]:
    """Return how the kinds see inputs, by the rows that are learned."""
    learned = np.unique(shard.order[shard.order >= 0])
    x, weight = shard.rows.x[learned], shard.rows.weight[learned]
    return [kind.encoding(x, weight) for kind in kinds]


def _held_out_kinds(shard: _Shard, networks: Sequence[Network]) -> list[HeldOutKinds]:
    """Return what the kinds predict of rows that members hold out, some of them if many."""
    if shard.validation is None:
        return []
    most = -(-MOST_HELD_OUT // len(shard.validation))
    some = [rows[:: max(1, len(rows) // most)] for rows in shard.validation]
    kinds = predict_kinds(networks, shard.rows, some)
    return [one._replace(rows=one.rows._replace(x=None, keys=None)) for one in kinds]


def _learn_shard(
    shard: _Shard,
    seeds: list[int] | None,
    *,
    net: Network,
    active: np.ndarray,
    settings: Settings,
    learn: bool,
    validate: bool,
) -> _Learned:
    """Score the posterior that came in on the rows held out, then learn the others."""
    with threads_for_layers(net.layers, settings.batch_size):
        score = weight = None
        if validate and shard.validation is not None:
            score, weight = _score(net, shard.rows, [shard.validation[m] for m in active])
        zeros = np.zeros(len(active))
        if not learn:
            return _Learned(None, zeros, zeros, score, weight)
        net = net.copy()  # dask may run a task again, with the same arguments
        order = shard.order[active]
        if seeds is not None:
            pairs = zip(seeds, order, strict=True)
            order = np.stack([np.random.RandomState(seed).permutation(r) for seed, r in pairs])
        settings = settings._replace(batch_size=min(settings.batch_size, order.shape[1]))
        train_score = Learner(net, settings).learn(shard.rows, order)
        train_weight = np.where(order >= 0, shard.rows.weight[order], 0).sum(axis=1)
        return _Learned(net, train_score * train_weight, train_weight, score, weight)


def _score(net: Network, data: Rows, validation: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sum log-likelihoods of the validation rows for each factor of the noise, and weights."""
    factors = np.square(NOISE_FACTORS) if net.noise_is_learned else np.ones(1)
    sums, weights = [], []
    for member, numbers in enumerate(validation):
        one = net.members(slice(member, member + 1))
        noise_var = bounded_noise(factors[:, None, None] * net.noise_var[member])
        total = np.zeros((len(factors), net.outputs.n_noise))
        for part in slices(len(numbers), BLOCK_ROWS):
            rows = data.take(numbers[part])
            mu_z, var_z = (a[0].astype(np.float64) for a in predict_moments(one, rows.x))
            outputs = net.outputs.members(member)
            log_lik = outputs.log_likelihood(mu_z, var_z + rows.noise(noise_var), rows.y)
            total += np.einsum("n,gon->go", rows.weight, log_lik)
        sums.append(total)
        weights.append(data.weight[numbers].sum())
    return np.stack(sums), np.array(weights, dtype=np.float64)


def _with_noise(shard: _Shard, noise: NoiseNetwork) -> _Shard:
    """Return the shard with rows whose noise differs."""
    return shard._replace(rows=shard.rows.with_noise(noise.relative(shard.rows.x, TRUST)))


def _held_out(
    shard: _Shard, net: Network | Mixture, settings: Settings, temperatures: np.ndarray
) -> HeldOut | None:
    if shard.validation is None:
        return None
    with threads_for_layers(net.networks[-1].layers, settings.batch_size):
        return predict_held_out(net, shard.rows, shard.validation, temperatures)


def _answer(held: HeldOut | None, question: Any, given: Any) -> Any:
    return None if held is None else question(held, *given)


# What runs where the call was made


class _Cluster:
    """Rows on the workers of a cluster, each shard learned from the same posterior."""

    members_together = 10**9  # one exchange for all

    def __init__(
        self,
        client: Any,
        fitted: BaseTAGI,
        net: Network,
        shards: list[Any],
        summaries: list[_Summary],
        member_rngs: list[np.random.RandomState],
    ):
        self.client = client
        self.shards = shards
        self.rngs = member_rngs if fitted.shuffle else None
        self.temperatures = fitted._temperatures
        self.n_validation = np.sum([s.n_validation for s in summaries], axis=0)  # (n_targets,)
        self.holds_out = any(s.n_held_out for s in summaries)
        total = sum(s.weight for s in summaries) if self.holds_out else None
        self.settings = fitted._settings(net, max(s.n_train for s in summaries), total)
        self.best_iter: np.ndarray | None = None
        self._left = 1.0  # of forgetting, if it is annealed
        self._futures: list[Any] = []

    def anneal(self, done: int) -> None:
        """Forget in the next epoch as it is planned after ``done`` epochs."""
        self._left = self.settings.forgetting_left(done)

    def begin(self) -> None:
        """Do nothing: learners on workers last for an epoch."""

    def members(self, numbers: np.ndarray) -> _Cluster:
        """Return itself: members learn side by side on the workers."""
        return self

    def take_over(self, part: Any, numbers: np.ndarray) -> None:
        """Do nothing: there are no parts."""

    def weights(self, networks: Sequence[Network]) -> tuple[np.ndarray, Evidence | None]:
        """Return the weights of kinds, by the rows held out."""
        parts = self.client.map(_held_out_kinds, self.shards, networks=networks, pure=False)
        return best_weights([one for part in self.client.gather(parts) for one in part])

    def epoch(
        self, net: Network, active: np.ndarray, *, validate: bool, learn: bool
    ) -> _EpochOnCluster:
        """Validate and learn in one exchange, before it is known which members go on."""
        seeds = [self._seeds(active) for _ in self.shards]
        # One call: all shards go out in one message.
        self._futures[:] = self.client.map(
            _learn_shard, self.shards, seeds, net=net, active=active,
            settings=self.settings.annealed(self._left), learn=learn, validate=validate, pure=False,
        )  # fmt: skip
        return _EpochOnCluster(net, self.client.gather(self._futures), self.n_validation)

    def cancel(self) -> None:
        """Give up the tasks of an epoch."""
        self.client.cancel(self._futures)

    def held_out(self, net: Network | Mixture) -> _HeldOutThere | None:
        """Let rows held out be predicted; they stay where they are, and sums are exchanged."""
        if not self.holds_out:
            return None
        held = self.client.map(
            _held_out, self.shards, net=net, settings=self.settings,
            temperatures=self.temperatures, pure=False,
        )  # fmt: skip
        return _HeldOutThere(self.client, held)

    def vary_noise(self, noise: NoiseNetwork) -> None:
        """Let the rows have noise of their own from now on."""
        self.shards = self.client.map(_with_noise, self.shards, noise=noise, pure=False)

    def _seeds(self, active: np.ndarray) -> list[int] | None:
        if self.rngs is None:
            return None
        return [self.rngs[m].randint(np.iinfo(np.int32).max) for m in active]


class _HeldOutThere:
    """Held-out rows on the workers of a cluster."""

    def __init__(self, client: Any, held: list[Any]):
        self.client = client
        self.held = held

    def ask(self, question: Any, *given: Any) -> Any:
        """Return the sum of the answers."""
        return sum(self.collect(question, *given))

    def collect(self, question: Any, *given: Any) -> list[Any]:
        """Return the answers of the shards that hold rows out."""
        answers = self.client.gather(self._map(question, given))
        return [answer for answer in answers if answer is not None]

    def change(self, function: Any, *given: Any) -> None:
        """Replace the rows of each shard."""
        self.held = self._map(function, given)

    def _map(self, question: Any, given: Any) -> list[Any]:
        return self.client.map(_answer, self.held, question=question, given=given, pure=False)


class _EpochOnCluster(NamedTuple):
    net: Network  # that was sent out
    parts: Sequence[_Learned]
    n_validation: np.ndarray

    def validated(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [part for part in self.parts if part.validation_score is not None]
        score: Any = sum(part.validation_score for part in parts)  # (members, factors, outputs)
        weight: Any = sum(part.validation_weight for part in parts)
        noise_var, now = self.net.noise_var, score[:, score.shape[1] // 2]
        if not self.net.noise_is_learned:
            return now.sum(axis=-1) / weight, noise_var.copy()
        best = best_on_grid(score, noise_var)[0]
        trusted = trusted_noise(best, noise_var, self.n_validation)
        score = scores_on_grid(score, (trusted / noise_var)[..., 0])
        return score.sum(axis=-1) / weight, trusted

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        nets = [part.net for part in self.parts if part.net is not None]
        net = merge_networks(nets, self.net.rows_learned)
        score: Any = sum(part.train_score for part in self.parts)
        weight: Any = sum(part.train_weight for part in self.parts)
        if not goes_on.all():
            net = net.members(np.flatnonzero(goes_on))
        return net, (score / weight)[goes_on]


def _refuse_fitted_transforms(target_transform: Any) -> None:
    """Refuse transforms of targets that would be fitted to each partition alone."""
    if target_transform is None or is_stateless(make_transformer(target_transform)):
        return
    raise ValueError(
        f"target_transform={target_transform!r} must be fitted to all targets, which are spread "
        "over partitions: fit_shards takes 'log' or a FunctionTransformer."
    )


def _client(client: Any) -> Any:
    try:
        from distributed import default_client
    except ImportError:
        raise ImportError(
            'fit_shards needs dask and distributed: pip install "sktagi[dask]".'
        ) from None
    if client is not None:
        return client
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "fit_shards needs a cluster: create a dask.distributed.Client, or pass client=."
        ) from None


def _blocks(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return a delayed (X, y, sample_weight) for each partition."""
    from dask import delayed

    columns = [_parts(X, "X"), _parts(y, "y", like=X)]
    if sample_weight is not None:
        columns.append(_parts(sample_weight, "sample_weight", like=X))
    if len({len(parts) for parts in columns}) > 1:
        counts = ", ".join(str(len(parts)) for parts in columns)
        raise ValueError(f"X, y and sample_weight must have equal partitions; got {counts}.")
    return [delayed(_block)(*block) for block in zip(*columns, strict=True)]


def _parts(values: Any, name: str, like: Any = None) -> list[Any]:
    if not (hasattr(values, "to_delayed") and hasattr(values, "dask")):
        raise ValueError(
            f"{name} must be a dask array or frame, got {type(values).__name__}: use fit for rows "
            "in memory, or dask.array.from_array."
        )
    if hasattr(values, "chunks"):  # an array
        chunks = like.chunks[0] if hasattr(like, "chunks") else values.chunks[0]
        if not np.isnan(chunks).any() and not np.isnan(values.chunks[0]).any():
            if sum(chunks) != len(values):
                raise ValueError(f"{name} has {len(values)} rows, X has {sum(chunks)}.")
            values = values.rechunk({0: chunks})
        if values.ndim > 1:
            values = values.rechunk({1: -1})
    return list(np.ravel(values.to_delayed()))


def _checked_alike(summaries: list[_Summary]) -> Any:
    """Return an estimator with what validation found, which must be the same in all shards."""
    first = summaries[0].estimator
    for summary in summaries:
        for name in ("n_features_in_", "feature_names_in_", "_columns", "_y_ndim", "_n_targets"):
            mine, theirs = (getattr(e, name, None) for e in (first, summary.estimator))
            if not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise ValueError(f"Partitions differ in {name.strip('_')}: {mine} and {theirs}.")
    unseen = np.flatnonzero(sum(summary.n_observed for summary in summaries) == 0)
    if len(unseen):
        raise ValueError(f"y has targets that no row observes: columns {unseen.tolist()}.")
    return copy(first)
