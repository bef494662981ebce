"""Merge estimators that started from the same posterior and learned different rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import reduce
from typing import TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._base import BaseTAGI
from ._drift import Drift
from ._prequential import Prequential
from ._scaling import Scaling
from ._target_transform import fingerprint
from .engine.merging import merge_mixtures, merge_networks
from .engine.mixture import Mixture
from .engine.posterior import Network

__all__ = ["fork", "merge"]

Estimator = TypeVar("Estimator", bound=BaseTAGI)


def fork(estimator: Estimator) -> Estimator:
    """A copy that starts here: copies of it that learn different rows can be merged.

    An estimator starts where its network is drawn (in ``fit``, or in the first ``partial_fit``),
    where a ``warm_start`` goes on, where it was merged (in `merge` or ``fit_shards``), or where it
    was forked.

    Parameters
    ----------
    estimator : TAGIRegressor or TAGIClassifier
        A fitted estimator.

    Returns
    -------
    estimator : TAGIRegressor or TAGIClassifier
        A copy with the same posterior.

    Examples
    --------
    >>> from copy import deepcopy
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.merging import fork, merge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> start = fork(TAGIRegressor(n_members=1, random_state=0).fit(X[:200], y[:200]))
    >>> first = deepcopy(start).partial_fit(X[200:300], y[200:300])
    >>> second = deepcopy(start).partial_fit(X[300:], y[300:])
    >>> merge([first, second]).n_samples_seen_
    442
    """
    check_is_fitted(estimator)
    forked = copy(estimator)
    forked._begin(forked._net, forked._scaling, forked.n_samples_seen_, forked._prequential)
    return forked


def merge(estimators: Sequence[Estimator]) -> Estimator:
    """One estimator from several that started equal and learned different rows.

    Means are weighted by their precisions, variances are the harmonic mean of the shards': every
    shard has corrected the same error, so what they say is averaged, not added up. Running
    statistics, counts and scores are those of all rows; the noise is the mean over the rows. The
    merged estimator is a starting point itself: let copies of it learn, and merge them again.

    Parameters
    ----------
    estimators : sequence of TAGIRegressor or TAGIClassifier
        Fitted estimators of one kind. A ValueError says in what they differ if they do: layers,
        members, features, targets or classes, standardisation, or the starting point (see `fork`).

    Returns
    -------
    estimator : TAGIRegressor or TAGIClassifier
        A new estimator with the parameters of the first; the given ones do not change.

    Examples
    --------
    >>> from copy import deepcopy
    >>> from sklearn.datasets import load_diabetes
    >>> from sktagi import TAGIRegressor
    >>> from sktagi.merging import merge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAGIRegressor(max_iter=0, random_state=0).fit(X, y)  # the prior
    >>> for epoch in range(20):
    ...     shards = [deepcopy(model).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    ...     model = merge(shards)
    >>> bool(model.score(X, y) > 0.5)
    True
    """
    estimators = list(estimators)
    if not estimators:
        raise ValueError("merge needs at least one estimator.")
    for estimator in estimators:
        if not isinstance(estimator, BaseTAGI):
            raise ValueError(f"merge takes estimators of sktagi; got {type(estimator).__name__}.")
        check_is_fitted(estimator)
    first = estimators[0]
    for number, other in enumerate(estimators):
        _check_alike(first, other, number)

    merged = copy(first)
    start = first._origin
    added = [estimator._scaling.without(start.scaling) for estimator in estimators]
    merged._scaling = reduce(Scaling.joined, added, start.scaling)
    nets = []
    for estimator in estimators:
        net = estimator._net.copy()
        estimator._scaling.carry_over(net, merged._scaling)
        nets.append(net)
    merged._accept(_merged(nets, start.rows_learned))
    merged.n_iter_ = merged.best_iter_ = max(e.n_iter_ for e in estimators)
    merged.train_scores_, merged.validation_scores_ = [], None
    merged.n_samples_seen_ = start.n_samples_seen + sum(
        e.n_samples_seen_ - start.n_samples_seen for e in estimators
    )
    merged._prequential = Prequential.joined(
        start.prequential, [e._prequential for e in estimators]
    )
    merged._drift = Drift.joined([e._drift for e in estimators])
    return fork(merged)


def _merged(nets: Sequence[Network | Mixture], rows_before: np.ndarray) -> Network | Mixture:
    unlike = [net for net in nets if isinstance(net, Mixture)]
    if unlike:
        return merge_mixtures(unlike, rows_before)
    return merge_networks([net for net in nets if isinstance(net, Network)], rows_before)


def _check_alike(first: BaseTAGI, other: BaseTAGI, number: int) -> None:
    """Refuse estimators that cannot be merged, with the reason."""
    if type(other) is not type(first):
        names = type(first).__name__, type(other).__name__
        raise ValueError(f"Estimators 0 and {number} cannot be merged: {names[0]} and {names[1]}.")
    for what, read in _MUST_AGREE.items():
        mine, theirs = read(first), read(other)
        if mine != theirs:
            raise ValueError(
                f"Estimators 0 and {number} cannot be merged: they differ in {what}, "
                f"{mine!r} and {theirs!r}."
            )
    if other._net.is_full:
        raise ValueError("Networks with covariance_type='full' cannot be merged.")


_MUST_AGREE = {
    "the shapes of their layers (members, n_in + 1, n_out)": lambda e: [
        layer.mu.shape for net in e._net.networks for layer in net.layers
    ],
    "the kinds of their networks": lambda e: getattr(e._net, "names", []),
    "their precision": lambda e: e._net.dtype.name,
    "their activation": lambda e: e.activation,
    "the names of their features": lambda e: list(getattr(e, "feature_names_in_", ())),
    "the columns that they make of a table": lambda e: e._table.encoded_names,
    "their classes": lambda e: list(getattr(e, "classes_", ())),
    "the dimensions of their targets": lambda e: getattr(e, "_y_ndim", 1),
    "standardize": lambda e: e._standardized,
    "target_transform": lambda e: fingerprint(getattr(e, "target_transformer_", None)),
    "whether they learn the noise": lambda e: e._net.noise_is_learned,
    "their starting points (fork one estimator, and let copies of it learn)": lambda e: (
        e._origin.digest
    ),
}
