"""Train on rows that are spread over the workers of a dask cluster, or over processes.

Every partition is a shard that stays where it is. In each epoch every shard learns from the same
posterior, and what they have learned is merged: one exchange of parameters, however many rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy, deepcopy
from functools import reduce
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone, is_classifier

from ._base import BaseTAGI
from ._callbacks import FitTasks, with_callbacks
from ._cluster import Cluster
from ._convergence import warn_if_still_gaining
from ._input import RawRows, check_rng
from ._labels import distinct_labels
from ._params import check_params
from ._progress import Progress
from ._scaling import Scaling
from ._shards import (
    Contents,
    Summary,
    Weights,
    contents,
    find_encodings,
    make_shard,
    read_table,
    standardised,
    summary,
    tell_table,
)
from ._target_transform import is_stateless, make_transformer
from ._workers import Workers, workers_for
from .engine.fast import threads_for_layers
from .engine.kinds import kinds_for
from .engine.memory import check_memory
from .engine.mixture import Mixture
from .engine.posterior import Network
from .engine.sources import Unreachable
from .engine.training import History, fit_epochs
from .tables.shards import Levels, join_columns, join_levels, rows_of

__all__ = ["fit_shards"]

LEAST_ITEMSIZE = 4  # bytes of a number

Estimator = TypeVar("Estimator", bound=BaseTAGI)


def fit_shards(
    estimator: Estimator,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    client: Any = None,
    timeout: float | None = None,
) -> Estimator:
    """Fit an estimator to partitioned rows, in parallel on the workers that hold them.

    Each partition holds out ``validation_fraction`` of its own rows. An epoch is one pass of every
    partition over its other rows, from the same posterior, and a merge (`sktagi.merging`).
    Statistics for standardisation, the score and the noise of the validation rows, and what the
    columns of tables with categories and missing values become, are those of all partitions
    together.

    The mixture is calibrated by the rows that all partitions hold out, as by ``fit``. A ``cv`` is
    refused: its splits are of all rows, which no worker has.

    The result is close to that of ``fit`` on all rows, not equal to it; with one partition they
    differ in the shuffling and in the last digits of the noise. Partitions should be few (one or
    two for each core), of similar size, and each like the whole: shuffle rows that are sorted. An
    epoch of M partitions makes 1/M of the steps of an epoch of ``fit``: with partitions of fewer
    than some thousand rows, multiply ``max_iter`` and ``n_iter_no_change`` by M.

    What a lost worker held is computed again by dask. If there are no workers for longer than
    ``timeout``, or on Ctrl-C, the estimator keeps what it has learned so far, with a warning.
    Callbacks are called in this process.

    Parameters
    ----------
    estimator : TAGIRegressor or TAGIClassifier
        Its parameters say how to fit; it does not change. ``warm_start`` has no effect.

    X : dask array or dataframe of shape (n_samples, n_features), or list
        Features, partitioned along the rows. A list has partitions in memory, or functions without
        arguments that load them.

    y : dask array, series or dataframe, or list
        Targets or class labels, partitioned as X.

    sample_weight : dask array or series of shape (n_samples,), or list, default=None
        Weights, partitioned as X. Their common size does not matter, as in ``fit``.

    client : distributed.Client, concurrent.futures.Executor or module, default=None
        The cluster to use; None is the one that was connected to last. An executor takes lists,
        and its processes must share a folder for temporary files. The module ``ray`` stands for
        the cluster that it is connected to.

    timeout : float, default=None
        Seconds to wait while a cluster has no workers, or an executor none that is free; None waits
        as long as it takes, and says so.

    Returns
    -------
    estimator : TAGIRegressor or TAGIClassifier
        A fitted copy, as ``fit`` would make it.

    Raises
    ------
    TimeoutError
        If there are no workers for longer than ``timeout`` before the first epoch is learned.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.dask import fit_shards
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X_parts, y_parts = np.array_split(X, 2), np.array_split(y, 2)
    >>> model = TAGIRegressor(hidden_layer_sizes=(), n_members=2, random_state=0)
    >>> with ThreadPoolExecutor(2) as executor:  # or ProcessPoolExecutor
    ...     model = fit_shards(model, X_parts, y_parts, client=executor)
    >>> bool(model.score(X, y) > 0.45)
    True

    With dask (``pip install "sktagi[dask]"``), and a cluster::

        from dask.distributed import Client

        client = Client()  # worker processes on this machine
        model = fit_shards(TAGIRegressor(), X, y)  # dask arrays or frames
        mean, std = model.predict(X_test, return_std=True)
    """
    if not isinstance(estimator, BaseTAGI):
        raise ValueError(f"estimator must be one of sktagi; got {estimator!r}.")
    check_params(estimator.get_params(deep=False))
    if estimator.covariance_type == "full":
        raise ValueError("fit_shards merges networks with covariance_type='diag' only.")
    if estimator.cv is not None:
        raise ValueError("fit_shards takes no cv: every partition holds out rows of its own.")
    _refuse_fitted_transforms(getattr(estimator, "target_transform", None))
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout >= 0):
        raise ValueError(f"timeout must be None or a number of seconds >= 0; got {timeout!r}.")
    with workers_for(client, timeout) as workers:
        sent = clone(estimator)
        sent.__dict__.pop("_skl_callbacks", None)  # these stay here
        _refuse_unpicklable(sent, workers)
        try:
            return _fit(clone(estimator), sent, X, y, sample_weight, workers)
        except Unreachable as error:
            raise error.reason from error


@with_callbacks
def _fit(
    estimator: Estimator, sent: Estimator, X: Any, y: Any, sample_weight: Any, workers: Workers
) -> Estimator:
    """Return a fitted copy of an estimator, whose callbacks are called; ``sent`` has none."""
    tasks = FitTasks(estimator, X, y, sample_weight, sent._n_epochs(1))
    given, rngs = _read(sent, X, y, sample_weight, workers)
    fitted = given.fitted
    net, shards = _start(workers, given, rngs)
    net.outputs = fitted._model_in_units(net.outputs)
    clusters = [
        Cluster(workers, fitted, kind, shards, given.summaries, deepcopy(rngs))
        for kind in net.networks
    ]
    cluster = clusters[0]
    name = f"{type(fitted).__name__} on {len(shards)} shards"
    plan = fitted._plan(max(s.n_train for s in given.summaries))
    progress = Progress(name, plan.max_iter, fitted.verbose, cluster.holds_out)
    n_rows = sum(s.weight for s in given.summaries)
    is_calibrated = not cluster.holds_out

    def finish(net: Network | Mixture, history: History) -> None:
        nonlocal is_calibrated
        # A noise network learns here.
        with threads_for_layers(net.networks[-1].layers, cluster.settings.batch_size):
            held = cluster.held_out(net) if fitted._needs_held_out(net) else None
            fitted._calibrate(net, held, cluster.settings, n_rows, history.n_iter)
        is_calibrated = True

    def on_epoch(history: History) -> bool:
        progress(history)
        return tasks.end_epoch(lambda: fitted._as_if_done(history, finish))

    with progress:
        net, history = fit_epochs(
            net, clusters, plan, finish, varies=fitted._noise_may_vary and cluster.holds_out,
            on_epoch=on_epoch, on_epoch_begin=tasks.begin_epoch,
        )  # fmt: skip
        progress.close(history, net)
    if history.unreachable and not history.n_iter:
        raise history.unreachable
    _warn_if_it_ended_early(history, is_calibrated)
    if cluster.settings.n_epochs is None:
        warn_if_still_gaining(history, plan, stacklevel=5)
    fitted._set_history(history)
    if isinstance(net, Mixture):
        net = net.astype(given.dtype)
    fitted._accept(net)
    scaling = fitted._scaling
    fitted._begin(net, scaling, sum(s.n_rows for s in given.summaries))  # as whatever was merged
    if tasks.are_watched:
        fitted.set_callbacks(*estimator._skl_callbacks)
    tasks.close()
    return fitted


def _warn_if_it_ended_early(history: History, is_calibrated: bool) -> None:
    if not history.interrupted:
        return
    cause = "Training interrupted"
    if history.unreachable is not None:
        cause = f"Training ended ({history.unreachable})"
    left = "" if is_calibrated else " Its standard deviations are not calibrated."
    warnings.warn(
        f"{cause} in epoch {history.n_iter + 1}; the estimator keeps what it has learned so "
        f"far.{left}",
        stacklevel=5,
    )


class _Given(NamedTuple):
    """What was found in the rows, before training."""

    fitted: Any  # an estimator that knows it
    shards: list[Any]
    summaries: list[Summary]

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of predictions."""
        return np.result_type(*(s.dtype for s in self.summaries))


def _read(
    sent: BaseTAGI, X: Any, y: Any, sample_weight: Any, workers: Workers
) -> tuple[_Given, list[np.random.RandomState]]:
    """Let partitions be read, with the classes, weights and columns of all of them."""
    blocks = _load(workers, _blocks(X, y, sample_weight))
    found = workers.call(
        contents, blocks, labelled=is_classifier(sent),
        categorical_features=sent.categorical_features,
    )  # fmt: skip
    filled = [k for k, one in enumerate(found) if one.weights.n_rows]
    if not filled:
        raise ValueError("X has no rows of positive weight.")
    labels = [one.labels for one in found if len(one.labels)]  # of rows without weight, too
    blocks, found = [blocks[k] for k in filled], [found[k] for k in filled]
    levels = _join_levels(workers, blocks, found)
    classes = distinct_labels(np.concatenate(labels)) if labels else None
    rng = check_rng(sent.random_state)
    n_members = sent._choose_n_members(sum(one.weights.n_rows for one in found))
    sent._n_members = n_members
    check_memory((found[0].n_columns, *sent._hidden_sizes(), 1), n_members, LEAST_ITEMSIZE)
    member_rngs = sent._member_rngs(rng)
    split_seed = rng.randint(np.iinfo(np.int32).max)
    seeds = [split_seed + k for k in filled]
    tables = workers.keep(
        read_table, blocks, estimator=sent, classes=classes,
        scale=Weights.joined([one.weights for one in found]).scale, levels=levels,
    )  # fmt: skip
    told = workers.call(tell_table, tables, seeds, levels=levels, n_parts=len(tables))
    first = _checked_alike([one.estimator for one in told])
    parts = [one.part for one in told]
    names = getattr(first, "feature_names_in_", None)
    columns = join_columns(parts, names, levels, clips=bool(sent.standardize))
    columns.knows_gaps = not sent._noise_is_learned  # else gaps are part of the noise
    shards = workers.keep(make_shard, tables, seeds, columns=columns, n_members=n_members)
    summaries = workers.call(summary, shards)
    unseen = np.flatnonzero(sum(s.n_observed for s in summaries) == 0)
    if len(unseen):
        raise ValueError(f"y has targets that no row observes: columns {unseen.tolist()}.")
    given = _Given(copy(summaries[0].estimator), shards, summaries)
    fitted = given.fitted
    fitted._scaling = reduce(Scaling.joined, [s.estimator._scaling for s in summaries])
    fitted._split_seed, fitted._dtype = split_seed, given.dtype.name
    fitted._score_shift = float(np.average(
        [s.estimator._score_shift for s in summaries], weights=[s.weight for s in summaries]
    ))  # fmt: skip
    _keep_some_rows(fitted, *rows_of(parts))
    return given, member_rngs


def _join_levels(workers: Workers, blocks: list[Any], found: Sequence[Contents]) -> Levels | None:
    """Return the levels of the categories of all partitions."""
    counts = {one.n_columns for one in found}
    if len(counts) > 1:
        raise ValueError(f"Partitions differ in n_features_in: {' and '.join(map(str, counts))}.")
    levels, agree = join_levels([one.levels for one in found])
    if levels is None or agree:
        return levels
    # What is a category in one partition is read as one in all.
    mask = np.array([of_column is not None for of_column in levels])
    found = workers.call(contents, blocks, labelled=False, categorical_features=mask)
    return join_levels([one.levels for one in found])[0]


def _start(
    workers: Workers, given: _Given, member_rngs: list[np.random.RandomState]
) -> tuple[Network | Mixture, list[Any]]:
    """Return the prior, and shards with standardised rows.

    Of unlike members, the rows of the largest shard say how inputs are encoded.
    """
    fitted, shards, summaries, dtype = *given, given.dtype
    n_inputs = fitted._table.n_encoded
    if not (fitted._is_auto and all(s.n_held_out for s in summaries)):
        shards = workers.keep(standardised, shards, fitted=fitted, dtype=dtype)
        return fitted._draw_network(n_inputs, dtype, member_rngs), shards
    n_rows = sum(s.weight for s in summaries)
    learning = fitted._learning_dtype(n_rows, dtype)
    shards = workers.keep(standardised, shards, fitted=fitted, dtype=learning)
    kinds = kinds_for(n_rows, n_inputs, is_sparse=not fitted._scaling.x.centered)
    largest = shards[int(np.argmax([s.n_rows for s in summaries]))]
    (encodings,) = workers.call(find_encodings, [largest], kinds=kinds)
    net = fitted._draw_mixture(kinds, encodings, n_inputs, learning, member_rngs)
    return net, shards


def _keep_some_rows(fitted: BaseTAGI, X: Any, weight: np.ndarray) -> None:
    """Keep a few of the rows that were told, at which importances are measured."""
    X = fitted._table.encode(X).astype(fitted._dtype)
    fitted._keep_some_rows(RawRows(X, np.zeros(len(weight)), weight, None))


def _refuse_fitted_transforms(target_transform: Any) -> None:
    """Refuse transforms of targets that would be fitted to each partition alone."""
    if target_transform is None or is_stateless(make_transformer(target_transform)):
        return
    raise ValueError(
        f"target_transform={target_transform!r} must be fitted to all targets, which are spread "
        "over partitions: fit_shards takes 'log' or a FunctionTransformer."
    )


def _refuse_unpicklable(estimator: BaseTAGI, workers: Workers) -> None:
    """Refuse parameters that cannot be sent to the workers, and name them."""
    for name, value in estimator.get_params(deep=False).items():
        try:
            workers.dumps(value)
        except Exception as error:
            raise ValueError(
                f"{name}={value!r} cannot be sent to the workers, as it cannot be pickled: {error}"
            ) from error


def _blocks(X: Any, y: Any, sample_weight: Any) -> list[tuple[Any, ...]]:
    """Return X, y and sample_weight of each partition: parts of dask, values, or functions."""
    columns = [_parts(X, "X"), _parts(y, "y", like=X)]
    if sample_weight is not None:
        columns.append(_parts(sample_weight, "sample_weight", like=X))
    if len({len(parts) for parts in columns}) > 1:
        counts = ", ".join(str(len(parts)) for parts in columns)
        raise ValueError(f"X, y and sample_weight must have equal partitions; got {counts}.")
    return list(zip(*columns, strict=True))


def _load(workers: Workers, blocks: list[tuple[Any, ...]]) -> list[Any]:
    """Let blocks be loaded where they are learned, and name what cannot be sent there."""
    try:
        return workers.load(blocks)
    except Exception as error:
        if "pickle" not in str(error):
            raise
        for name, part in zip(("X", "y", "sample_weight"), blocks[0], strict=False):
            try:
                workers.dumps(part)
            except Exception:
                raise ValueError(
                    f"{name} has partitions that cannot be sent to the workers, as they cannot be "
                    f"pickled: {error}"
                ) from error
        raise


def _parts(values: Any, name: str, like: Any = None) -> list[Any]:
    is_list = isinstance(values, (list, tuple)) and len(values) > 0
    if is_list and all(callable(part) or hasattr(part, "shape") for part in values):
        return list(values)
    if not (hasattr(values, "to_delayed") and hasattr(values, "dask")):
        raise ValueError(
            f"{name} must be a dask array or frame, or a list of partitions, got "
            f"{type(values).__name__}: use fit for rows in memory, or dask.array.from_array."
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


def _checked_alike(estimators: Sequence[Any]) -> Any:
    """Return an estimator that has read its rows; all must have found the same."""
    first = estimators[0]
    for estimator in estimators:
        for name in ("n_features_in_", "feature_names_in_", "_y_ndim", "_n_targets"):
            mine, theirs = (getattr(e, name, None) for e in (first, estimator))
            if not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise ValueError(f"Partitions differ in {name.strip('_')}: {mine} and {theirs}.")
    return first
