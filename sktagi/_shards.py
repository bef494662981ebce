"""What runs on the workers: reading, learning and scoring a shard of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ._base import BaseTAGI
from ._input import RawRows, known_frame, weight_scale
from ._labels import as_labels, distinct_labels
from .engine.encoding import Encoding
from .engine.fast import overflow_allowed, slices, threads_for_layers
from .engine.held_out import HeldOut, predict_held_out
from .engine.kinds import Kind
from .engine.learning import Learner, Settings
from .engine.mixture import HeldOutKinds, Mixture, predict_kinds
from .engine.noise import NOISE_FACTORS, bounded_noise
from .engine.noise_network import NoiseNetwork
from .engine.posterior import Network
from .engine.predicting import predict_moments
from .engine.rows import Rows, n_observed
from .engine.sources import TRUST
from .tables.columns import Columns
from .tables.frames import Schema, read_columns
from .tables.shards import Levels, Part, tell

__all__ = [
    "Contents",
    "Shard",
    "Summary",
    "Weights",
    "answer",
    "contents",
    "find_encodings",
    "held_out",
    "held_out_kinds",
    "learn_shard",
    "make_shard",
    "read_table",
    "standardised",
    "summary",
    "tell_table",
    "with_noise",
]

BLOCK_ROWS = 4096  # scored at once
MOST_HELD_OUT = 20_000  # rows of a shard that tell the weights of kinds, over all members


class Shard(NamedTuple):
    """Rows of a partition, and which of them each member learns and holds out."""

    estimator: Any  # validated on these rows, with their statistics
    rows: Any  # RawRows, and standardised Rows later
    order: np.ndarray
    validation: list[np.ndarray] | None


class Summary(NamedTuple):
    estimator: Any
    dtype: np.dtype[Any]
    n_rows: int
    weight: float
    n_observed: np.ndarray  # (n_targets,): rows that observe each target
    n_train: int
    n_held_out: int  # rows of every member, at least
    n_validation: np.ndarray  # (n_targets,): rows of every member that observe a target, at least


class Weights(NamedTuple):
    """Weights of rows that count: those that are refused later, too."""

    n_rows: int
    smallest: float
    mean: float

    @classmethod
    def of(cls, sample_weight: Any) -> Weights:
        weight = np.asarray(sample_weight, dtype=np.float64)
        weight = weight[weight != 0]
        if not len(weight):
            return cls(0, np.inf, 0.0)
        return cls(len(weight), float(weight.min()), float(weight.mean()))

    @classmethod
    def joined(cls, parts: Sequence[Weights]) -> Weights:
        n_rows, smallest, mean = map(np.array, zip(*parts, strict=True))
        return cls(n_rows.sum(), smallest.min(), np.average(mean, weights=n_rows))

    @property
    def scale(self) -> float:
        """What they are divided by."""
        return weight_scale(self.smallest, self.mean)


class Learned(NamedTuple):
    """What a shard sends back: a posterior, and sums over rows for each member."""

    net: Network | None
    train_score: np.ndarray  # (members,)
    train_weight: np.ndarray
    validation_score: np.ndarray | None  # (members, noise factors, outputs)
    validation_weight: np.ndarray | None


class Contents(NamedTuple):
    """What must be known of all partitions before one of them can be read."""

    weights: Weights
    labels: Any
    n_columns: int
    levels: Levels | None  # of categories


def contents(block: Any, labelled: bool, categorical_features: Any) -> Contents:
    """Return what a partition holds: its weights, the classes of all its rows, its levels.

    An indicator matrix of several labels has no classes to find.
    """
    X, y, sample_weight = block
    weights = Weights.of(np.ones(X.shape[0]) if sample_weight is None else sample_weight)
    labels: Any = ()
    if labelled and len(y) and not (np.ndim(y) == 2 and np.shape(y)[1] > 1):
        labels = distinct_labels(np.asarray(as_labels(y)).ravel())
    n_columns = X.shape[1] if np.ndim(X) == 2 else 0  # refused later, with the reason
    read = read_columns(known_frame(X), categorical_features, None) if weights.n_rows else None
    return Contents(weights, labels, n_columns, None if read is None else read[1].levels)


class Table(NamedTuple):
    """Rows of a partition as they were read: numbers, and numbers of levels."""

    estimator: Any  # that has read them
    X: Any
    y: np.ndarray
    weight: np.ndarray


def read_table(
    block: Any, estimator: BaseTAGI, classes: Any, scale: float, levels: Levels | None
) -> Table:
    """Read a partition, with the classes and the levels of all of them."""
    X, y, sample_weight = block
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight, dtype=np.float64) / scale
    estimator = clone(estimator)
    if levels is not None:
        estimator._common_schema = Schema(levels)
    rows = estimator._read_rows(X, y, sample_weight, first=True, incremental=True, classes=classes)
    estimator.__dict__.pop("_common_schema", None)
    return Table(estimator, *rows)


class Told(NamedTuple):
    """What a partition tells so that columns can be fitted to all of them."""

    estimator: Any
    part: Part


def tell_table(table: Table, seed: int, levels: Levels | None, n_parts: int) -> Told:
    return Told(table.estimator, tell(table.X, table.weight, levels, n_parts, seed))


def make_shard(table: Table, seed: int, columns: Columns, n_members: int) -> Shard:
    """Return rows whose columns are encoded, with their statistics."""
    estimator = copy(table.estimator)
    estimator._columns, estimator._n_members = columns, n_members
    data = estimator._encoded_rows(
        table.X, table.y, table.weight, None, first=True, incremental=True
    )
    data = estimator._without_outliers(data, stacklevel=2)
    estimator._shares_fold = True
    estimator._score_shift = estimator._mean_log_slope(data)
    order, validation = estimator._split(data, np.random.RandomState(seed % (1 << 32)))
    estimator.n_samples_seen_ = 0
    estimator._scaling = estimator._empty_scaling(data)
    estimator._see(data, used=order)
    return Shard(estimator, data, order, validation)


def summary(shard: Shard) -> Summary:
    rows: RawRows = shard.rows
    validation = [np.empty(0, int)] if shard.validation is None else shard.validation
    n_validation = np.min([n_observed(rows.y[numbers]) for numbers in validation], axis=0)
    return Summary(
        shard.estimator, rows.X.dtype, len(rows.weight), rows.weight.sum(), n_observed(rows.y),
        shard.order.shape[1], min(map(len, validation)), n_validation,
    )  # fmt: skip


def standardised(shard: Shard, fitted: BaseTAGI, dtype: np.dtype[Any]) -> Shard:
    """Return the shard with standardised rows; the original ones may go."""
    return shard._replace(rows=fitted._prepare(shard.rows, dtype).with_keys(), estimator=None)


def find_encodings(shard: Shard, kinds: Sequence[Kind]) -> list[Encoding | None]:
    """Return how the kinds see inputs, by the rows that are learned."""
    learned = np.unique(shard.order[shard.order >= 0])
    x, weight = shard.rows.x[learned], shard.rows.weight[learned]
    return [kind.encoding(x, weight) for kind in kinds]


def held_out_kinds(shard: Shard, networks: Sequence[Network]) -> list[HeldOutKinds]:
    """Return what the kinds predict of rows that members hold out, some of them if many."""
    if shard.validation is None:
        return []
    most = -(-MOST_HELD_OUT // len(shard.validation))
    some = [rows[:: max(1, len(rows) // most)] for rows in shard.validation]
    kinds = predict_kinds(networks, shard.rows, some)
    return [one._replace(rows=one.rows._replace(x=None, keys=None)) for one in kinds]


def learn_shard(
    shard: Shard,
    seeds: list[int] | None,
    *,
    net: Network,
    active: np.ndarray,
    settings: Settings,
    learn: bool,
    validate: bool,
) -> Learned:
    """Score the posterior that came in on the rows held out, then learn the others."""
    with threads_for_layers(net.layers, settings.batch_size), overflow_allowed():
        score = weight = None
        if validate and shard.validation is not None:
            score, weight = _score(net, shard.rows, [shard.validation[m] for m in active])
        zeros = np.zeros(len(active))
        if not learn:
            return Learned(None, zeros, zeros, score, weight)
        net = net.copy()  # a task may be run again, with the same arguments
        order = shard.order[active]
        if seeds is not None:
            pairs = zip(seeds, order, strict=True)
            order = np.stack([np.random.RandomState(seed).permutation(r) for seed, r in pairs])
        settings = settings._replace(batch_size=min(settings.batch_size, order.shape[1]))
        train_score = Learner(net, settings).learn(shard.rows, order)
        train_weight = np.where(order >= 0, shard.rows.weight[order], 0).sum(axis=1)
        return Learned(net, train_score * train_weight, train_weight, score, weight)


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


def with_noise(shard: Shard, noise: NoiseNetwork) -> Shard:
    """Return the shard with rows whose noise differs."""
    return shard._replace(rows=shard.rows.with_noise(noise.relative(shard.rows.x, TRUST)))


def held_out(
    shard: Shard, net: Network | Mixture, settings: Settings, temperatures: np.ndarray
) -> HeldOut | None:
    if shard.validation is None:
        return None
    threads = threads_for_layers(net.networks[-1].layers, settings.batch_size)
    with threads, overflow_allowed():
        return predict_held_out(net, shard.rows, shard.validation, temperatures)


def answer(held: HeldOut | None, question: Any, given: Any) -> Any:
    return None if held is None else question(held, *given)
