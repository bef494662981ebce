"""One pass over rows, batch by batch: forget, forward, observe, backward.

The posterior of one batch is the prior of the next (paper, section 2.3). Several networks, the
members, learn side by side along the first axis of every array, each from rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from .covariance import Workspace, hidden_covariance
from .fast import TINY, slices
from .full import learn_full
from .messages import guarded, independent, joint_of_batch, joint_with_one_factor
from .noise import OUTLIER_NOISE, learn_noise, noise_moment
from .passes import Tape, Weights, backward, forward
from .posterior import Layer, Network, forget
from .predicting import block_rows
from .rows import Batch, Rows, iterate_batches
from .sparse import Features, by_input

__all__ = ["Learner", "Settings"]

# Elements of the widest array of rows that are prepared at once.
CHUNK_ELEMENTS = 1 << 18


class Settings(NamedTuple):
    """How rows are learned."""

    batch_size: int
    joint: bool = True
    half_life: float | None = None
    # Epochs over which forgetting ends, its rate falling in a straight line; None: it goes on
    n_epochs: int | None = None
    memory: float = np.inf  # weight of the rows that learned noise remembers

    def forgetting_left(self, done: int) -> float:
        """Return the rate of forgetting after ``done`` epochs over that of the first."""
        return 1.0 if self.n_epochs is None else max(1 - done / self.n_epochs, 1 / self.n_epochs)

    def annealed(self, left: float) -> Settings:
        """Return settings with what is ``left`` of forgetting."""
        if self.half_life is None or left == 1:
            return self
        return self._replace(half_life=self.half_life / left)


class Learner:
    """Lets a network learn, in place, pass after pass.

    It owns the arrays of its passes and the squares of the means: while it is in use, nobody else
    writes to the network.
    """

    def __init__(self, net: Network, settings: Settings, *, records: bool = False):
        self.net = net
        self.settings = settings
        # (2, members, n_outputs, rows): means and variances of a pass, before a row was learned
        self.moments: np.ndarray | None = None
        self._records = records
        # Matrices instead of stacks of one: less work for small ones.
        self._one = net.members(0) if net.n_members == 1 else net
        self._dtype = net.dtype
        self._weights: list[Weights] | None = None
        self._tapes: dict[int, Tape] = {}  # by the number of rows
        self._work: Workspace | None = None  # of batches with several rows
        self._retained: np.ndarray | None = None  # of this pass, for each batch
        self._features: Features | None = None  # of this pass, if rows are sparse

    def learn(self, data: Rows, order: np.ndarray) -> np.ndarray:
        """Learn rows in the ``order`` (members, n), once; returns mean log-likelihoods (members,).

        They are those of each batch before it was learned. The number -1 is padding: a row without
        weight.
        """
        if self.net.is_full:
            return self._learn_full(data, order)
        is_sparse = not isinstance(data.x, np.ndarray)
        if is_sparse and len(order) > 1:  # members have few features in common
            each = (self.net.members(slice(m, m + 1)) for m in range(len(order)))
            learners = [Learner(m, self.settings, records=self._records) for m in each]
            passes = zip(learners, order[:, None], strict=True)
            log_lik = np.concatenate([learner.learn(data, o) for learner, o in passes])
            if self._records:
                self.moments = np.concatenate([a.moments for a in learners], axis=1)
            return log_lik
        n_rows, moments = order.shape[-1], None
        if n_rows == len(data.weight) == 1 and not is_sparse and not np.count_nonzero(order):
            return self._learn_row(data)
        if self._records:
            self.moments = np.empty((2, len(order), self.net.outputs.n_outputs, n_rows))
            moments = self.moments[:, 0] if len(order) == 1 else self.moments
        if len(order) == 1:
            order = order[0]
        net = self._one
        size = min(self.settings.batch_size, n_rows)
        data = data.with_keys() if size > 1 else data._replace(keys=None)
        weight = data.weight[order]
        weight[order < 0] = 0
        totals = np.add.reduceat(weight, np.arange(0, n_rows, size), axis=-1, dtype=np.float64)
        self._begin_pass(totals, is_sparse)
        number, log_lik = 0, np.zeros(totals.shape[:-1])
        entries = data.entries if net.encoding is None else net.encoding.n_encoded
        per_chunk = block_rows(self.net, CHUNK_ELEMENTS, entries) // size * size
        for chunk in slices(n_rows, max(size, per_chunk)):
            rows = data.take(order[..., chunk])._replace(weight=weight[..., chunk])
            if net.encoding is not None:
                rows = rows.encoded(net.encoding)
            targets = net.outputs.targets(rows.y, net.dtype)
            mu_z, var_y = np.empty((2, *targets.value.shape), net.dtype)
            for part, batch in iterate_batches(rows, targets, size):
                mu_z[..., part], var_z, noise_var = self._learn_batch(batch, number)
                np.add(var_z, noise_var, out=var_y[..., part])
                if moments is not None:
                    here = slice(chunk.start + part.start, chunk.start + part.stop)
                    moments[..., here] = mu_z[..., part], var_z
                number += 1
            density = net.outputs.log_likelihood(mu_z, var_y, rows.y)
            weighted = np.multiply(rows.weight[..., None, :], density, dtype=np.float64)
            log_lik += np.add.reduce(weighted, axis=(-2, -1))
        if self._features is not None:
            self._features.forget(cast(Layer, net.layers[0]), slice(None), -1)
        log_lik /= np.maximum(np.add.reduce(totals, axis=-1), TINY["d"])
        return log_lik.reshape(-1)

    def _learn_row(self, row: Rows) -> np.ndarray:
        """Learn all rows of a pass if they are one, the same for all members: streams are quick."""
        net, weight = self._one, row.weight
        layers = cast("list[Layer]", net.layers)
        if self.settings.half_life is not None:
            elapsed = weight.astype(np.float64) / self.settings.half_life
            retained = np.exp2(-elapsed).astype(self._dtype)
            for layer in layers:
                forget(layer.var, layer.var_prior, retained)
        if net.encoding is not None:
            row = row.encoded(net.encoding)
        value, observed, outputs = net.outputs.targets(row.y, self._dtype)
        row_weight = None if weight[0] == 1 else weight[None]
        observed_weight = row_weight
        if observed is not None:
            observed_weight = observed if row_weight is None else observed * row_weight
        var_x = None if row.errors is None else by_input(row.errors.values)
        ratio = None if row.noise_ratio is None else by_input(row.noise_ratio)
        x = by_input(row.x)
        batch = Batch(x, var_x, value, outputs, row_weight, observed_weight, ratio, None)
        self._tapes[1] = tape = Tape.for_one_row(layers, layers[0].mu.shape[:-2])
        mu_z, var_z, noise_var = self._update(net, batch)
        if self._records:
            self.moments = np.empty((2, self.net.n_members, *mu_z.shape[-2:]))
            self.moments[0], self.moments[1] = mu_z, var_z
        density = net.outputs.log_likelihood(mu_z, var_z + noise_var, row.y)
        self._tapes.clear()
        tape.leave()
        return np.add.reduce(density, axis=(-2, -1), dtype=np.float64).reshape(-1)

    def _begin_pass(self, totals: np.ndarray, is_sparse: bool) -> None:
        """Plan how much each batch forgets; ``totals`` (..., batches) are their weights."""
        layers = cast("list[Layer]", self._one.layers)
        elapsed = None
        if self.settings.half_life is not None:
            elapsed = totals.T[..., None, None] / self.settings.half_life  # batches first
            self._retained = np.exp2(-elapsed).astype(self.net.dtype)
        if is_sparse:
            self._features = Features(
                layers[0], None if elapsed is None else elapsed.reshape(-1).cumsum()
            )
        elif self._retained is not None:
            for layer in layers:
                forget(layer.var, layer.var_prior, self._retained[0])

    def _learn_batch(self, batch: Batch, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Learn a batch; returns moments of its outputs before that, and the noise variance."""
        net, retained = self._one, self._retained
        if self._features is None:  # the update of one batch forgets for the next
            if retained is None or number + 1 == len(retained):
                return self._update(net, batch)
            return self._update(net, batch, retained[number + 1])
        # Of sparse rows, only the parameters of the features that occur take part, unless the
        # errors of all are given.
        first, *others = cast("list[Layer]", net.layers)
        if retained is not None:
            for layer in others:
                forget(layer.var, layer.var_prior, retained[number])
        if batch.var_x is not None:
            self._features.forget(first, slice(None), number)
            return self._update(net, batch._replace(x=batch.x.matrix(len(first.mu))))
        x, few, touched = self._features.fetch(batch.x, number)
        moments = self._update(replace(net, layers=[few, *others]), batch._replace(x=x))
        self._features.put_back(few, touched)
        return moments

    def _update(
        self, net: Network, batch: Batch, retained_next: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Forward, observe, backward; with ``retained_next`` forget for the batch to come."""
        layers: Any = net.layers
        tape = self._tapes.get(batch.value.shape[-1]) or self._new_tape(layers, batch)
        mu_z, var_z, _ = forward(layers, net.activation, batch.x, batch.var_x, tape)
        noise_var = net.noise_var.astype(self._dtype)
        if noise_var.size == 1:
            noise_var = noise_var.reshape(())  # quicker to add
        if batch.noise_ratio is not None:
            noise_var = noise_var * batch.noise_ratio
        sites = net.outputs.sites(mu_z, var_z, batch.value, noise_var, batch.observed_weight)
        one_factor = net.outputs.shares_factor
        if self._work is None or tape.n_rows == 1:
            message = independent(mu_z, var_z, sites, batch.observed_weight, tape.message)
        elif self.settings.joint:
            hidden = hidden_covariance(layers, tape, self._work)
            jointly = joint_with_one_factor if one_factor else joint_of_batch
            message = jointly(layers, tape, batch, sites, self._work, hidden)
        else:
            message = guarded(layers, tape, batch, sites, self._work, one_factor=one_factor)
        if net.noise_is_learned:
            moment = noise_moment(message, sites[1], batch.observed_weight)
            if sites[1] is not noise_var:  # an outlier says little of it
                weight = 1.0 if batch.observed_weight is None else batch.observed_weight
                moment = np.where(sites[1] > noise_var, OUTLIER_NOISE * noise_var * weight, moment)
            if batch.noise_ratio is not None:
                moment /= batch.noise_ratio
            learn_noise(net, moment, batch.weight, batch.observed_weight, self.settings.memory)
        one_row = _is_one_row(batch.weight, tape.n_rows)
        backward(layers, tape, message.nu, message.kappa, one_row, retained_next)
        return mu_z, var_z, noise_var

    def _new_tape(self, layers: Sequence[Layer], batch: Batch) -> Tape:
        """Return arrays for batches of this size, to be kept."""
        if self._weights is None:
            self._weights = Weights.of(layers)
        lead, n_rows = layers[0].mu.shape[:-2], batch.value.shape[-1]
        if self._work is None and n_rows > 1:
            self._work = Workspace(len(layers), self._dtype)
        self._tapes[n_rows] = tape = Tape(layers, lead, n_rows, self._weights)
        return tape

    def _learn_full(self, data: Rows, order: np.ndarray) -> np.ndarray:
        weight = np.where(order < 0, 0, data.weight[order])
        log_lik = np.zeros(len(order))
        if self._records:
            self.moments = np.empty((2, len(order), self.net.outputs.n_outputs, order.shape[1]))
        for part in slices(order.shape[1], self.settings.batch_size):
            for member in range(len(order)):
                rows = data.take(order[member, part])._replace(weight=weight[member, part])
                score, moments = learn_full(
                    self.net, member, rows, self.settings.joint, self.settings.half_life,
                    self.settings.memory,
                )  # fmt: skip
                log_lik[member] += score
                if self.moments is not None:
                    self.moments[:, member, :, part] = moments
        return log_lik / np.maximum(weight.sum(axis=1), TINY["d"])


def _is_one_row(weight: np.ndarray | None, n_rows: int) -> bool | np.ndarray:
    """Tell whether a network has a single row; one that weighs more stands for several copies."""
    if weight is None:
        return n_rows == 1
    if n_rows > 1 and weight.all():
        return False
    total = weight.sum(axis=-1, keepdims=True)
    return (np.count_nonzero(weight, axis=-1, keepdims=True) == 1) & (total <= 1)
