"""One pass over rows, batch by batch: forget, forward, observe, backward.

The posterior of one batch is the prior of the next (paper, section 2.3). Several networks, the
members, learn side by side along the first axis of every array, each from rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .batch import hidden_covariance, output_covariance, summed_step
from .constants import TINY
from .features import Features
from .full import FullLayer, learn_full, predict_full
from .inputs import forward_uncertain, input_rank
from .keys import row_keys
from .network import Tape, backward, forget, forward
from .noise import Message, independent_message, joint_message, noise_moment
from .threads import threads_for_rows

__all__ = [
    "Network", "Rows", "Settings", "batches", "bounded_noise", "learn_rows", "learn_stream",
    "predict_moments",
]  # fmt: skip

# Learned noise never falls below 1e-6 of the target's spread, and its square fits into float32.
NOISE_VAR_RANGE = (1e-12, 1e18)
# Elements of the widest array that a block of rows may need: of predictions, whose arrays stay in
# cache, and of batches that are prepared at once.
BLOCK_ELEMENTS = 1 << 16
CHUNK_ELEMENTS = 1 << 18


class Rows(NamedTuple):
    """Training or validation rows."""

    x: Any  # (n, n_in + 1), last column ones; dense or CSR
    y: np.ndarray  # (n, n_outputs), or (n,) class numbers
    weight: np.ndarray  # (n,)
    # (n, n_in), (1, n_in) for all rows alike, or covariances (n, n_in, n_in)
    var_x: Any = None
    keys: np.ndarray | None = None  # (n,), equal for copies of a row

    def with_keys(self) -> Rows:
        """Rows that know their copies; uncertain ones have none, as their errors differ."""
        if self.keys is not None or self.var_x is not None:
            return self
        return self._replace(keys=row_keys(self.x))

    def take(self, rows) -> Rows:
        """Rows by number, (..., n)."""
        var_x = self.var_x
        if var_x is not None and (var_x.shape[0] > 1 or var_x.ndim == 3):
            var_x = _take(var_x, rows)
        keys = None if self.keys is None else self.keys[rows]
        return Rows(_take(self.x, rows), self.y[rows], self.weight[rows], var_x, keys)


def _take(values, rows: np.ndarray):
    if sparse.issparse(values) and rows.ndim == 2:
        return [values[r] for r in rows]
    return values[rows]


@dataclass
class Network:
    """A posterior: parameters and observation noise of the members."""

    layers: list[Any]  # Layer, or FullLayer for full covariances
    activation: Callable
    outputs: Any  # GaussianOutputs or ClassTree
    noise_var: np.ndarray  # (members, 1, n_outputs or 1), float64
    learn_noise: bool = False
    # (members, 1, 1), sets the pace of learning noise
    rows_learned: np.ndarray = field(default_factory=lambda: np.empty(0))
    # What predictions multiply variances of parameters by, and those of the noise (1, n); learning
    # does not.
    temperature: float = 1.0
    noise_scale: Any = 1.0
    # (levels, n_outputs), the shape of errors (``shape``); None is a Gaussian.
    tails: np.ndarray | None = None

    def __post_init__(self):
        if not self.rows_learned.size:
            self.rows_learned = np.zeros((len(self.noise_var), 1, 1))

    @property
    def is_full(self) -> bool:
        return isinstance(self.layers[0], FullLayer)

    def copy(self) -> Network:
        layers = [_change(layer, np.copy) for layer in self.layers]
        return Network(
            layers, self.activation, self.outputs, self.noise_var.copy(), self.learn_noise,
            self.rows_learned.copy(), self.temperature, self.noise_scale, self.tails,
        )  # fmt: skip

    def members(self, numbers) -> Network:
        """Some of the members: views for a slice, copies for an array of numbers."""
        layers = [_change(layer, lambda values: values[numbers]) for layer in self.layers]
        return Network(
            layers, self.activation, self.outputs, self.noise_var[numbers], self.learn_noise,
            self.rows_learned[numbers], self.temperature, self.noise_scale, self.tails,
        )  # fmt: skip

    def reported(self) -> Network:
        """The posterior that predictions use: calibrated (``calibration``), if it is."""
        name = "cov" if self.is_full else "var"
        layers = self.layers
        if self.temperature != 1:
            layers = [
                a._replace(**{name: getattr(a, name) * a.mu.dtype.type(self.temperature)})
                for a in layers
            ]
        noise_var = self.reported_noise
        return replace(self, layers=layers, noise_var=noise_var, temperature=1.0, noise_scale=1.0)

    @property
    def reported_noise(self) -> np.ndarray:
        """The noise variance of ``reported``, without its layers."""
        return self.noise_var * self.noise_scale

    def assign(self, other: Network, members: np.ndarray, theirs: np.ndarray | None = None):
        """Take over the posterior of some members; ``theirs`` are their numbers in ``other``."""
        theirs = members if theirs is None else theirs
        for mine, new in zip(self.layers, other.layers, strict=True):
            for values, others in zip(mine, new, strict=True):
                if values is not mine.var_prior:
                    values[members] = others[theirs]
        self.noise_var[members] = other.noise_var[theirs]
        self.rows_learned[members] = other.rows_learned[theirs]


def _change(layer, function: Callable):
    """A layer whose arrays over members are replaced."""
    mu, spread, var_prior, *more = layer  # so begin Layer and FullLayer; the prior is one for all
    return type(layer)(function(mu), function(spread), var_prior, *map(function, more))


class Settings(NamedTuple):
    """How rows are learnt."""

    batch_size: int
    joint: bool = True
    half_life: float | None = None


def batches(n_rows: int, batch_size: int) -> Iterator[slice]:
    for start in range(0, n_rows, batch_size):
        yield slice(start, min(start + batch_size, n_rows))


def learn_rows(
    net: Network, data: Rows, rows: np.ndarray, settings: Settings, tapes: dict | None = None
) -> np.ndarray:
    """One pass over ``rows`` (members, n), in their order; returns mean log-likelihoods.

    The number -1 is padding: it takes the last row along, without weight. ``tapes``, at first
    empty, keeps arrays for the next pass of a network with the same arrays, whose means nothing
    else has changed. Sparse rows of several members, which learn one after the other, keep none.
    """
    tapes = {} if tapes is None else tapes
    if net.is_full:
        return _learn_full_rows(net, data, rows, settings)
    if len(rows) > 1 and sparse.issparse(data.x):  # members have few features in common
        each = [slice(m, m + 1) for m in range(len(rows))]
        return np.concatenate([learn_rows(net.members(m), data, rows[m], settings) for m in each])
    if len(rows) == 1:  # matrices instead of stacks of one: less work for small ones
        net, rows = net.members(0), rows[0]
    n_rows = rows.shape[-1]
    size = min(settings.batch_size, n_rows)
    data = data.with_keys() if size > 1 else data._replace(keys=None)
    weight = data.weight[rows]
    weight[rows < 0] = 0
    totals = np.add.reduceat(weight, np.arange(0, n_rows, size), axis=-1, dtype=np.float64)
    learner = _Learner(net, settings, totals, tapes)
    log_lik = np.zeros(totals.shape[:-1])
    entries = data.x.nnz // data.x.shape[0] + 1 if sparse.issparse(data.x) else data.x.shape[1]
    per_chunk = block_rows(net, CHUNK_ELEMENTS, entries) // size * size
    for chunk in batches(n_rows, max(size, per_chunk)):
        part = data.take(rows[..., chunk])._replace(weight=weight[..., chunk])
        mu_z, var_y = learner.learn(part, size)
        density = net.outputs.log_likelihood(mu_z, var_y, part.y)
        weighted = np.multiply(part.weight[..., None], density, dtype=np.float64)
        log_lik += np.add.reduce(weighted, axis=(-2, -1))
    learner.finish()
    log_lik /= np.maximum(np.add.reduce(totals, axis=-1), TINY["d"])
    return log_lik.reshape(-1)


def _learn_full_rows(net: Network, data: Rows, rows: np.ndarray, settings: Settings):
    weight = np.where(rows < 0, 0, data.weight[rows])
    log_lik = np.zeros(len(rows))
    for part in batches(rows.shape[1], settings.batch_size):
        batch = data.take(rows[:, part])._replace(weight=weight[:, part])
        density, moment = learn_full(net, batch, settings.joint, settings.half_life)
        log_lik += density
        if net.learn_noise:
            _learn_noise(net, moment, batch.weight[..., None], moment.shape[-1])
    return log_lik / np.maximum(weight.sum(axis=1), TINY["d"])


class Batch(NamedTuple):
    """Rows that are learnt at once, for each member its own."""

    x: Any  # (..., rows, n_in + 1), or sparse
    var_x: Any
    y: np.ndarray  # what is observed, (..., rows, observations)
    outputs: np.ndarray | None  # of which output it is, like y; None: of all in their order
    target: np.ndarray  # y spread over all outputs, (..., rows, n_outputs); zero: not observed
    weight: np.ndarray | None  # of rows (..., rows, 1); None: all are 1
    weight_of_outputs: np.ndarray | None  # the same, zero for those that a row does not observe
    copies: tuple | None  # pairs of them: numbers of networks, rows and copies; None: none


class _Learner:
    """One pass: its arrays, and how much is to be forgotten before each batch.

    ``totals`` (..., batches) are the weights of the batches.
    """

    def __init__(self, net: Network, settings: Settings, totals: np.ndarray, tapes: dict):
        self.net = net
        self.joint = settings.joint
        self.tapes: dict[int, Tape] = tapes  # by the number of rows
        self.number = 0  # of the next batch
        self.features: Features | None = None  # of sparse rows
        self.keep = None
        if settings.half_life is not None:
            self.elapsed = totals.T[..., None, None] / settings.half_life  # the first axis: batches
            self.keep = np.exp2(-self.elapsed).astype(net.layers[0].mu.dtype)

    def learn(self, rows: Rows, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Learn some batches; moments of their outputs before that, noise included."""
        net = self.net
        y, outputs = net.outputs.targets(rows.y)
        y = y.astype(net.layers[0].mu.dtype, copy=False)
        mu_z, var_y = np.empty((2, *y.shape[:-1], net.outputs.n_outputs), y.dtype)
        target, seen = y, None
        if outputs is not None:
            *lead, n_rows, n_outputs = mu_z.shape  # in memory by output, as the moments of units
            target, seen = np.zeros((2, *lead, n_outputs, n_rows), y.dtype).swapaxes(-1, -2)
            np.put_along_axis(target, outputs, y, axis=-1)
            np.put_along_axis(seen, outputs, 1, axis=-1)
        plain = (rows.weight == 1).all()
        uncertain = rows.var_x is not None and rows.var_x.shape[-2] > 1
        has_copies = _batches_with_copies(rows.keys, batch_size)
        learn = self.learn_dense if isinstance(rows.x, np.ndarray) else self.learn_sparse
        for number, here in enumerate(batches(y.shape[-2], batch_size)):
            part = (..., here, slice(None)) if y.ndim == 3 else here
            weight = None
            if not (plain or (rows.weight[..., here] == 1).all()):
                weight = rows.weight[..., here, None]
            of_outputs = weight
            if seen is not None:
                of_outputs = seen[part] if weight is None else seen[part] * weight
            batch = Batch(
                rows.x[part],
                rows.var_x[part] if uncertain else rows.var_x,
                y[part],
                None if outputs is None else outputs[part],
                target[part],
                weight,
                of_outputs,
                _copies(rows.keys, here) if has_copies and has_copies[number] else None,
            )
            mu_z[part], var_y[part] = learn(batch)
            self.number += 1
        return mu_z, var_y

    def learn_dense(self, batch: Batch):
        if self.keep is None:
            return self._learn(self.net, batch)
        if self.number == 0:
            forget(self.net.layers, self.keep[0])
        last = self.number + 1 == len(self.keep)
        return self._learn(self.net, batch, None if last else self.keep[self.number + 1])

    def learn_sparse(self, batch: Batch):
        """Only the parameters of the features that occur take part, unless all are uncertain."""
        first, *others = self.net.layers
        if self.features is None:
            elapsed = None if self.keep is None else self.elapsed.reshape(-1).cumsum()
            self.features = Features(first, elapsed)
        if self.keep is not None:
            forget(others, self.keep[self.number])
        if batch.var_x is not None:
            self.features.fade(first, slice(None), self.number)
            return self._learn(self.net, batch)
        x, layer, touched = self.features.fetch(batch.x, self.number)
        few = replace(self.net, layers=[layer, *others])
        moments = self._learn(few, batch._replace(x=x))
        self.features.put_back(layer, touched)
        return moments

    def finish(self) -> None:
        if self.features is not None:
            self.features.fade(self.net.layers[0], slice(None), -1)

    def _learn(self, net: Network, batch: Batch, keep_next=None):
        n_rows = batch.y.shape[-2]
        tape = self.tapes.get(n_rows)
        if tape is None:
            squares = next((tape.squares for tape in self.tapes.values()), None)
            tape = self.tapes[n_rows] = Tape(net.layers, batch.y.shape[:-2], n_rows, squares)
        return learn_batch(net, batch, self.joint, tape, keep_next)


def _batches_with_copies(keys: np.ndarray | None, batch_size: int) -> list[bool]:
    """Which batches of some rows hold copies of a row."""
    if keys is None:
        return []
    n_rows = keys.shape[-1]
    whole = n_rows // batch_size * batch_size
    flags: list[bool] = []
    for part, size in ((keys[..., :whole], batch_size), (keys[..., whole:], n_rows - whole)):
        if part.shape[-1]:
            ordered = np.sort(part.reshape(-1, part.shape[-1] // size, size), axis=-1)
            flags.extend((ordered[..., 1:] == ordered[..., :-1]).any(axis=(0, -1)))
    return flags


def _copies(keys, rows: slice) -> tuple[np.ndarray, ...]:
    """Pairs of rows with the same key: numbers of networks, rows and other rows."""
    here = keys[..., rows].reshape(-1, rows.stop - rows.start)
    same = here[:, :, None] == here[:, None, :]
    same.reshape(len(here), -1)[:, :: here.shape[1] + 1] = False
    return np.unravel_index(np.flatnonzero(same), same.shape)  # quicker than nonzero


def learn_batch(net: Network, batch: Batch, joint: bool, tape: Tape, keep_next=None):
    """Learn one batch in place; returns moments of the outputs before that, noise included.

    With ``keep_next`` the network forgets afterwards, for the batch to come.
    """
    layers = net.layers
    noise_var = net.noise_var.astype(layers[0].mu.dtype)
    if noise_var.size == 1:
        noise_var = noise_var.reshape(())  # quicker to add
    mu_z, var_z, _ = forward(layers, net.activation, batch.x, batch.var_x, tape)
    message = _message(layers, tape, batch, noise_var, joint)
    if net.learn_noise:
        moment = noise_moment(message, noise_var, batch.weight)
        _learn_noise(net, moment, batch.weight, batch.y.shape[-1])
    one_row = _is_one_row(batch.weight, tape.n_rows)
    backward(layers, tape, message.nu, message.kappa, one_row, keep_next)
    return mu_z, var_z + noise_var


def _is_one_row(weight: np.ndarray | None, n_rows: int):
    """Whether a network has a single row; one that weighs more stands for several copies."""
    if weight is None:
        return n_rows == 1
    if n_rows > 1 and weight.all():
        return False
    total = weight.sum(axis=-2, keepdims=True)
    return (np.count_nonzero(weight, axis=-2, keepdims=True) == 1) & (total <= 1)


def _message(layers, tape: Tape, batch: Batch, noise_var, joint: bool) -> Message:
    """What the batch says of its outputs, (..., rows, n_outputs)."""
    if joint and tape.n_rows > 1:
        return _together(layers, tape, batch, hidden_covariance(layers, tape), noise_var)
    last = tape.units[-1]
    alone = independent_message(
        last.mu_z, last.var_z, batch.target, noise_var, batch.weight_of_outputs, tape.message
    )
    # The sum of what each row would do alone overshoots where rows say the same thing. It cannot
    # unless the leverages of an output sum to more than 2.
    if tape.n_rows <= 2 or np.add.reduce(alone.leverage, axis=None) <= 2:
        return alone
    if np.maximum.reduce(np.add.reduce(alone.leverage, axis=-2), axis=None) <= 2:
        return alone
    hidden = hidden_covariance(layers, tape)
    worse = _overshoots(layers, tape, hidden, alone)
    if not worse.any():
        return alone
    together = _together(layers, tape, batch, hidden, noise_var, worse)
    return Message(*(np.where(worse, *parts) for parts in zip(together, alone, strict=True)))


def _together(layers, tape: Tape, batch: Batch, hidden, noise_var, some=None) -> Message:
    """What the rows say jointly of the outputs, or at least of ``some`` (..., 1, n_outputs)."""
    last = tape.units[-1]
    outputs, y = batch.outputs, batch.y
    if some is not None and not some.all():  # observations of these, by any row
        asked = some if outputs is None else np.take_along_axis(some, outputs, axis=-1)
        chosen = np.flatnonzero(asked.any(axis=tuple(range(asked.ndim - 1))))
        outputs, y = chosen if outputs is None else outputs[..., chosen], y[..., chosen]
        if noise_var.ndim and noise_var.shape[-1] > 1:
            noise_var = noise_var[..., chosen]
    at: Any = ...  # where the observed outputs stand among all
    if outputs is not None:
        at = (..., outputs) if outputs.ndim == 1 else _along_rows(outputs)
    mu_z, var_z = last.mu_z[at], last.var_z[at]
    shared, own = output_covariance(layers, tape, hidden, var_z, outputs, batch.copies)
    with threads_for_rows(tape.largest, tape.n_rows):
        work = tape.array("factors", shared.shape)
        message = joint_message(mu_z, shared, own, y, noise_var, batch.weight, work)
    if outputs is None:
        return message
    of_all = np.zeros((3, *last.mu_z.shape), last.mu_z.dtype)
    for values, part in zip(of_all, message, strict=True):
        values[at] = part
    return Message(*of_all)


def _along_rows(outputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """An index of the outputs (..., rows, observations) that each row has of its own."""
    *members, n_rows, _ = outputs.shape
    rows = np.arange(n_rows)[:, None]
    return (*(np.arange(n)[:, None, None] for n in members), rows, outputs)


def _overshoots(layers, tape: Tape, hidden, alone: Message) -> np.ndarray:
    """Which outputs (..., 1, n_outputs) the sum of the messages would move too far.

    To first order it moves them by K nu, and the batch's own error sum(kappa (y - mu_z)^2) of an
    output grows by the sum over rows of K nu (kappa K nu - 2 nu).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        step = summed_step(layers, tape, hidden, alone.nu)
        slope = alone.kappa * step
        slope -= alone.nu
        slope -= alone.nu  # twice: 2 nu would be one more array
        step *= slope
        return ~(np.add.reduce(step, axis=-2, keepdims=True) <= 0)  # an overflow is worse too


def _learn_noise(net: Network, moment: np.ndarray, weight, per_row: int) -> None:
    """One step of online EM: noise_var follows the mean of E[v^2 | y], the newest rows most.

    ``per_row`` is the number of observations of a row.
    """
    axes = (-2, -1) if net.outputs.shared_noise else -2
    target = np.add.reduce(moment, axis=axes, keepdims=True)
    total: Any = moment.shape[-2]
    per_row = per_row if net.outputs.shared_noise else 1
    if weight is None:
        target /= per_row * total
    else:
        total = weight.sum(axis=-2, keepdims=True, dtype=np.float64)
        target /= per_row * np.where(total > 0, total, 1)
    net.rows_learned += total
    step = _step_of_noise(total, net.rows_learned)
    target -= net.noise_var
    target *= step
    target += net.noise_var
    net.noise_var[...] = bounded_noise(target)


def bounded_noise(noise_var: np.ndarray) -> np.ndarray:
    low, high = NOISE_VAR_RANGE
    return np.minimum(np.maximum(noise_var, low), high)  # quicker than clip for a few numbers


def _step_of_noise(total, rows_learned):
    # A step of n^-0.6 forgets the poor noise of the first batches, and still averages.
    return (total / np.maximum(rows_learned, 1)) ** 0.6


def learn_stream(net: Network, data: Rows, settings: Settings) -> np.ndarray:
    """One pass over rows that are new, by all members; returns mean log-likelihoods.

    The scale of the noise in predictions, if it was calibrated, holds for what is left of the noise
    from before: what new rows teach of the noise is not scaled.
    """
    noise_var, rows_learned = net.noise_var.copy(), net.rows_learned.copy()
    n_rows = len(data.weight)
    log_lik = learn_rows(
        net, data, np.arange(n_rows)[None].repeat(len(noise_var), axis=0), settings
    )
    if net.learn_noise and isinstance(net.noise_scale, np.ndarray):
        totals = np.add.reduceat(data.weight, np.arange(0, n_rows, settings.batch_size))
        steps = _step_of_noise(totals, rows_learned + np.cumsum(totals, dtype=np.float64))
        kept = (1 - steps).prod(axis=-1, keepdims=True)  # (members, 1, 1)
        left = (kept * noise_var).mean(axis=0) / net.noise_var.mean(axis=0)
        net.noise_scale = 1 + np.minimum(left, 1) * (net.noise_scale - 1)
    return log_lik


def predict_moments(
    net: Network, x, var_x=None, prepare: Callable = lambda x, var_x: (x, var_x)
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the outputs, (members, n, n_outputs), in blocks of bounded memory.

    ``prepare`` turns a block of given rows into inputs of the network.
    """
    n_rows = x.shape[0]
    shape = len(net.noise_var), n_rows, net.outputs.n_outputs
    mu, var = np.empty((2, *shape), net.layers[0].mu.dtype)
    tape = None
    per_block = block_rows(net, BLOCK_ELEMENTS // input_rank(var_x), x.shape[1])
    for part in batches(n_rows, per_block):
        block_var = var_x if var_x is None or var_x.shape[0] == 1 else var_x[part]
        block, block_var = prepare(x[part], block_var)
        if net.is_full:
            mu[:, part], var[:, part] = predict_full(net, block, block_var)
            continue
        if block_var is not None:
            moments = forward_uncertain(net.layers, net.activation, block, block_var)
            mu[:, part], var[:, part] = moments
            continue
        if tape is not None and tape.n_rows != block.shape[0]:
            tape = None
        mu[:, part], var[:, part], tape = forward(net.layers, net.activation, block, tape=tape)
    return mu, var


def block_rows(net: Network, elements: int, entries: int) -> int:
    """Rows with ``entries`` each, whose widest array has so many elements for all members."""
    widest = max(entries, *(layer.mu.shape[-1] for layer in net.layers))
    return max(1, elements // (widest * len(net.noise_var)))
