"""Train on rows that are spread over the workers of a dask cluster.

Every partition is a shard that stays where it is. In each epoch every shard learns from the same
posterior, and what they have learnt is merged: one exchange of parameters, however many rows.
"""

from __future__ import annotations

import warnings
from copy import copy
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from ._base import Given
from ._labels import as_labels, distinct_labels
from ._params import check_params
from ._progress import Progress
from ._validation import check_rng
from .engine.calibration import HeldOut, predict_held_out, set_calibration
from .engine.learning import (
    NOISE_VAR_RANGE,
    Network,
    Rows,
    Settings,
    batches,
    learn_rows,
    predict_moments,
)
from .engine.merging import merge_networks
from .engine.training import MIN_ROWS_FOR_NOISE, EarlyStopping, History

__all__ = ["fit_shards"]

# Standard deviations of the noise that validation rows are asked about, over the present one.
NOISE_FACTORS = np.exp(np.linspace(-1, 1, 73) * (1 + 1 / 8 + 1 / 64) * np.log(8.0))  # as for fit


def fit_shards(estimator, X, y, *, sample_weight=None, client=None):
    """Fit an estimator to partitioned rows, in parallel on the workers that hold them.

    Each partition holds out ``validation_fraction`` of its own rows. An epoch is one pass of every
    partition over its other rows, from the same posterior, and a merge (`sktagi.merging`).
    Statistics for standardisation, and the score and the noise of the validation rows, are those
    of all partitions together. What a lost worker held is computed again by dask.

    The mixture is calibrated by the rows that all partitions hold out, as by ``fit``.

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
        Weights, partitioned as X.

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
    client = _client(client)
    estimator = clone(estimator)
    blocks = client.compute(_blocks(X, y, sample_weight))
    contents = client.gather(client.map(_contents, blocks, labelled=is_classifier(estimator)))
    filled = [k for k, (counts, _) in enumerate(contents) if counts]
    if not filled:
        raise ValueError("X has no rows of positive weight.")
    classes = None
    if is_classifier(estimator):
        classes = distinct_labels(np.concatenate([found for _, found in contents if len(found)]))

    rng = check_rng(estimator.random_state)
    member_rngs = estimator._member_rngs(rng)
    estimator._split_seed = rng.randint(np.iinfo(np.int32).max)
    shards = [
        client.submit(_shard, blocks[k], estimator, classes, estimator._split_seed + k, pure=False)
        for k in filled
    ]
    summaries = client.gather(client.map(_summary, shards, pure=False))
    fitted = _checked_alike(summaries)
    fitted._set_statistics(
        tuple(
            reduce(lambda a, b: a.joined(b), parts)
            for parts in zip(*(s.estimator._statistics() for s in summaries), strict=True)
        )
    )
    dtype = np.result_type(*(s.dtype for s in summaries))
    like = Given(np.empty((0, fitted.n_features_in_), dtype), np.empty(0), np.empty(0), None)
    net = fitted._draw_network(like, member_rngs)
    fitted._set_origin(net)
    shards = client.map(_rows_of, shards, fitted=fitted, net=net, pure=False)

    history = _epochs(client, fitted, net, shards, summaries, member_rngs)
    if history.validation_scores and not net.outputs.shared_noise:
        _calibrate(client, net, shards)
    if history.interrupted:
        warnings.warn(
            f"Training interrupted in epoch {history.n_iter + 1}; the estimator keeps what it has "
            "learnt so far.",
            stacklevel=2,
        )
    fitted._set_history(history)
    fitted.n_samples_seen_ = sum(s.n_rows for s in summaries)
    fitted._keep(net)
    return fitted


# What runs on the workers


class _Shard(NamedTuple):
    """Rows of a partition, and which of them each member learns and holds out."""

    estimator: Any  # validated on these rows, with their statistics
    rows: Any  # Given, and standardised Rows later
    train: np.ndarray
    validation: list[np.ndarray] | None


class _Summary(NamedTuple):
    estimator: Any
    dtype: np.dtype
    n_rows: int
    weight: float
    n_train: int
    n_validation: int


class _Learnt(NamedTuple):
    """What a shard sends back: a posterior, and sums over rows for each member."""

    net: Network | None
    train_score: np.ndarray  # (members,)
    train_weight: np.ndarray
    validation_score: np.ndarray | None  # (members, noise factors, outputs)
    validation_weight: np.ndarray | None


def _block(X, y, sample_weight=None):
    return X, y, sample_weight


def _contents(block, labelled: bool):
    """Whether a partition has rows that count, and the classes of all its rows."""
    X, y, sample_weight = block
    counts = X.shape[0] > 0 and (
        sample_weight is None or bool((np.asarray(sample_weight) != 0).any())
    )
    return counts, distinct_labels(np.asarray(as_labels(y)).ravel()) if labelled and len(y) else ()


def _shard(block, estimator, classes, seed: int) -> _Shard:
    X, y, sample_weight = block
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight)
    estimator = clone(estimator)
    data = estimator._validate_rows(
        X, y, sample_weight, None, None, first=True, incremental=True, classes=classes
    ).positive()
    train, validation = estimator._split(data, np.random.RandomState(seed % (1 << 32)))
    used = np.zeros(len(data.weight), dtype=bool)
    used[train[train >= 0]] = True
    estimator._start_statistics(data)
    estimator._update_statistics(data._replace(weight=data.weight * used))
    return _Shard(estimator, data, train, validation)


def _summary(shard: _Shard) -> _Summary:
    n_validation = min(map(len, shard.validation)) if shard.validation is not None else 0
    return _Summary(
        shard.estimator, shard.rows.X.dtype, len(shard.rows.weight), shard.rows.weight.sum(),
        shard.train.shape[1], n_validation,
    )  # fmt: skip


def _rows_of(shard: _Shard, fitted, net: Network) -> _Shard:
    """The shard with standardised rows; the original ones may go."""
    return shard._replace(rows=fitted._prepare(shard.rows, net).with_keys(), estimator=None)


def _learn_shard(shard: _Shard, seeds, *, net, active, settings: Settings, learn, validate):
    """Score the posterior that came in on the rows held out, then learn the others."""
    score = weight = None
    if validate and shard.validation is not None:
        score, weight = _score(net, shard.rows, [shard.validation[m] for m in active])
    zeros = np.zeros(len(active))
    if not learn:
        return _Learnt(None, zeros, zeros, score, weight)
    net = net.copy()  # dask may run a task again, with the same arguments
    train = shard.train[active]
    if seeds is not None:
        pairs = zip(seeds, train, strict=True)
        train = np.stack([np.random.RandomState(seed).permutation(r) for seed, r in pairs])
    settings = settings._replace(batch_size=min(settings.batch_size, train.shape[1]))
    train_score = learn_rows(net, shard.rows, train, settings)
    train_weight = np.where(train >= 0, shard.rows.weight[train], 0).sum(axis=1)
    return _Learnt(net, train_score * train_weight, train_weight, score, weight)


def _score(net: Network, data: Rows, validation):
    """Summed log-likelihood of the validation rows for each factor of the noise; their weight."""
    factors = np.square(NOISE_FACTORS) if net.learn_noise else np.ones(1)
    sums, weights = [], []
    for member, rows in enumerate(validation):
        one = net.members(slice(member, member + 1))
        noise_var = np.clip(factors[:, None, None] * net.noise_var[member], *NOISE_VAR_RANGE)
        total = 0.0
        for part in batches(len(rows), 4096):
            moments = predict_moments(one, data.x[rows[part]])
            mu_z, var_z = (a[0].astype(np.float64) for a in moments)
            log_lik = net.outputs.log_likelihood(mu_z, var_z + noise_var, data.y[rows[part]])
            total = total + np.einsum("n,gno->go", data.weight[rows[part]], log_lik)
        sums.append(total)
        weights.append(data.weight[rows].sum())
    return np.stack(sums), np.array(weights, dtype=np.float64)


def _held_out(shard: _Shard, net: Network) -> HeldOut | None:
    if shard.validation is None:
        return None
    return predict_held_out(net, shard.rows, shard.validation)


def _counts(held: HeldOut | None):
    return 0 if held is None else held.counts


def _answer(held: HeldOut | None, question, given):
    return 0.0 if held is None else question(held, *given)


# What runs where the call was made


def _epochs(client, fitted, net: Network, shards, summaries, member_rngs) -> History:
    """As ``fit_epochs``, but that an epoch is validated by the tasks of the next one."""
    max_iter = int(fitted.max_iter)
    n_validation = sum(s.n_validation for s in summaries)
    total = sum(s.weight for s in summaries) if n_validation else None
    settings = fitted._settings(net, max(s.n_train for s in summaries), total)
    history, active = History(), np.arange(len(net.noise_var))
    stopping = None
    if n_validation:
        stopping = EarlyStopping(net, fitted.n_iter_no_change, fitted.tol)
    name, offset = f"{type(fitted).__name__} on {len(shards)} shards", fitted._score_offset()
    progress = Progress(name, max_iter, offset, fitted.verbose, stopping is not None)
    current = net
    futures: list = []
    try:
        for epoch in range(1, max_iter + 1 + (stopping is not None and max_iter > 0)):
            learn = epoch <= max_iter
            seeds = [_seeds(member_rngs, active) if fitted.shuffle else None for _ in shards]
            # One call: all shards go out in one message.
            futures[:] = client.map(
                _learn_shard, shards, seeds, net=current, active=active, settings=settings,
                learn=learn, validate=epoch > 1, pure=False,
            )  # fmt: skip
            learnt = client.gather(futures)
            goes_on = np.ones(len(active), dtype=bool)
            if stopping is not None and epoch > 1:
                scores, noise_var = _combined_scores(current, learnt, n_validation)
                goes_on = stopping.update(epoch - 1, current, active, scores, noise_var)
                history.validation_scores.append(float(stopping.last_score.mean()))
                history.best_iter = stopping.best_iter.copy()
                progress(history)
            if not (learn and goes_on.any()):
                break
            score = sum(part.train_score for part in learnt)[goes_on]
            weight = sum(part.train_weight for part in learnt)[goes_on]
            history.train_scores.append(float((score / weight).mean()))
            current = merge_networks([part.net for part in learnt], current.rows_learned)
            if not goes_on.all():
                current = current.members(np.flatnonzero(goes_on))
                active = active[goes_on]
            if stopping is None:
                net.assign(current, active, np.arange(len(active)))
                progress(history)
    except KeyboardInterrupt:
        client.cancel(futures)
        history.interrupted = True
    if stopping is not None and history.validation_scores:
        net.assign(stopping.best, np.arange(len(net.noise_var)))
        history.best_iter = stopping.best_iter
        # An epoch that was learnt while the last one was validated, and is not kept.
        del history.train_scores[len(history.validation_scores) :]
    progress.close(history)
    return history


def _seeds(rngs, active) -> list[int]:
    return [rngs[m].randint(np.iinfo(np.int32).max) for m in active]


def _calibrate(client, net: Network, shards) -> None:
    """As ``calibrate``, but that rows held out stay where they are: sums are exchanged."""
    held = client.map(_held_out, shards, net=net, pure=False)
    counts = sum(client.gather(client.map(_counts, held, pure=False)))

    def ask(question, *given):
        tasks = client.map(_answer, held, question=question, given=given, pure=False)
        return sum(client.gather(tasks))

    if counts.min() >= MIN_ROWS_FOR_NOISE:
        set_calibration(net, counts, ask)


def _combined_scores(net: Network, learnt, n_validation: int):
    """Scores of all validation rows, and the noise that maximises them if noise is learnt."""
    parts = [part for part in learnt if part.validation_score is not None]
    score = sum(part.validation_score for part in parts)  # (members, factors, outputs)
    weight = sum(part.validation_weight for part in parts)
    noise_var = net.noise_var.copy()
    if not net.learn_noise or n_validation < MIN_ROWS_FOR_NOISE:
        return score[:, score.shape[1] // 2].sum(axis=-1) / weight, noise_var
    place = np.clip(score.argmax(axis=1, keepdims=True), 1, score.shape[1] - 2)
    below, here, above = (np.take_along_axis(score, place + k, axis=1) for k in (-1, 0, 1))
    # The top of the parabola through the best point of the grid and its neighbours.
    curvature = np.minimum(below - 2 * here + above, -np.finfo(np.float64).tiny)
    offset = np.clip(0.5 * (below - above) / curvature, -1, 1)
    step = np.log(NOISE_FACTORS[1] / NOISE_FACTORS[0])
    noise_var *= np.square(NOISE_FACTORS[place] * np.exp(step * offset))
    top = here - 0.25 * (below - above) * offset
    return top[:, 0].sum(axis=-1) / weight, np.clip(noise_var, *NOISE_VAR_RANGE)


def _client(client):
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


def _blocks(X, y, sample_weight) -> list:
    """A delayed (X, y, sample_weight) for each partition."""
    from dask import delayed

    columns = [_parts(X, "X"), _parts(y, "y", like=X)]
    if sample_weight is not None:
        columns.append(_parts(sample_weight, "sample_weight", like=X))
    if len({len(parts) for parts in columns}) > 1:
        counts = ", ".join(str(len(parts)) for parts in columns)
        raise ValueError(f"X, y and sample_weight must have equal partitions; got {counts}.")
    return [delayed(_block)(*block) for block in zip(*columns, strict=True)]


def _parts(values, name: str, like=None) -> list:
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


def _checked_alike(summaries):
    """An estimator with what validation found, which must be the same in all shards."""
    first = summaries[0].estimator
    for summary in summaries:
        for name in ("n_features_in_", "feature_names_in_", "_y_ndim", "_n_targets"):
            mine, theirs = (getattr(e, name, None) for e in (first, summary.estimator))
            if not np.array_equal(np.asarray(mine), np.asarray(theirs)):
                raise ValueError(f"Partitions differ in {name.strip('_')}: {mine} and {theirs}.")
    return copy(first)
