"""Noise that differs from row to row: a second, small network learns it.

The error e of a row that the network of the means had not learned is distributed as

    e ~ N(0, b + c exp(U))

where b is the variance of the mean there, c the constant level of the noise and U the output of the
noise network, the logarithm of what the row's noise is beside c. It starts at U = 0, the constant
noise. Rows that were not learned have errors that cannot be overfitted away: in ``fit`` those that
members hold out, in a stream every row before it is learned. So the noise network never competes
with the means for an explanation.

Predictions use c exp(level + exponent U): the exponent, between 0 (constant noise) and 1.25, and
the level are those that suit errors at rows which the noise network has not learned either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .activations import ACTIVATIONS
from .fast import TINY, of_each_type, slices
from .learning import Learner, Settings
from .observations import Gaussian, Sites, log_density_of_std
from .posterior import Layer, Network, draw_prior
from .predicting import block_rows
from .rescaling import Change
from .rows import Rows
from .sparse import width

__all__ = [
    "EXPONENTS",
    "LARGEST_LOG",
    "N_FOLDS",
    "Errors",
    "LogVariance",
    "NoiseNetwork",
    "as_rows",
    "average_output",
    "draw_noise_network",
    "held_out_outputs",
    "learn_errors",
    "log_density",
    "mean_outputs",
    "trusted_exponent",
]

N_FOLDS = 5  # members, each of which holds out a fold
N_UNITS = 30
LAST_LAYER = 0.3  # its prior variance over Xavier's: noise is constant unless errors say otherwise
EXPONENTS = np.arange(6) / 4
# A row says at least so much of U as a precision: an error near zero could say less than nothing.
LEAST_INFORMATION = 0.05
MOST_INFORMATION = 9.0  # over that of the prior
BATCH_SIZE = 64
MAX_EPOCHS = 30
PATIENCE = 5
CHANCE = 3.0  # gain in log-likelihood that the best exponent may have by chance
LARGEST_LOG = 30.0  # of a ratio of variances: its exponential is a number in single precision
BLOCK_ELEMENTS = 1 << 16

_ROOTS, _WEIGHTS = np.polynomial.hermite.hermgauss(9)
_NODES = of_each_type(lambda char: np.sqrt(2) * _ROOTS)
_LOG_WEIGHTS = of_each_type(lambda char: np.log(_WEIGHTS / np.sqrt(np.pi)))


class Errors(NamedTuple):
    """Errors of means at rows that had not been learned, in units of the constant noise."""

    x: Any  # (rows, n_in + 1): inputs, dense or CSR
    error: np.ndarray  # (n_noise, rows): NaN where not observed
    var: np.ndarray  # (n_noise, rows): b, the variance of the means there
    weight: np.ndarray  # (rows,)
    fold: np.ndarray  # (rows,): the member that holds a row out; equal for copies of a row


class LogVariance(Gaussian):
    """Observation model: an error of variance b + exp(U), for U the output.

    ``noise_var`` is b. The moments of U given an error are those of nine-point Gauss-Hermite
    quadrature, in which an outlier moves U little.
    """

    def sites(
        self,
        mu_z: np.ndarray,
        var_z: np.ndarray,
        value: np.ndarray,
        noise_var: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> Sites:
        """Return the sites of the outputs U, given errors ``value``."""
        char = mu_z.dtype.char
        u = np.sqrt(var_z)[..., None] * _NODES[char]
        log_ratio = mu_z[..., None] + u
        np.minimum(log_ratio, LARGEST_LOG, out=log_ratio)
        np.maximum(log_ratio, -LARGEST_LOG, out=log_ratio)
        var = np.exp(log_ratio, out=log_ratio)
        var += noise_var[..., None]
        log_joint = np.square(value)[..., None] / var
        log_joint += np.log(var, out=var)
        log_joint *= -0.5
        log_joint += _LOG_WEIGHTS[char]
        log_joint -= np.maximum.reduce(log_joint, axis=-1, keepdims=True)
        share = np.exp(log_joint, out=log_joint)
        share /= np.add.reduce(share, axis=-1, keepdims=True)
        step = np.einsum("...k,...k->...", share, u)  # E[U | e] - mu_z
        var_post = np.einsum("...k,...k->...", share, np.square(u, out=u)) - np.square(step)
        precision = 1 / var_z
        information = 1 / np.maximum(var_post, TINY[char]) - precision
        # Beyond the last node an outlier would seem to be known exactly.
        most = np.maximum(MOST_INFORMATION * precision, LEAST_INFORMATION)
        noise = 1 / np.minimum(np.maximum(information, LEAST_INFORMATION), most)
        return mu_z + step * (var_z + noise) / var_z, noise

    def log_likelihood(self, mu_z: np.ndarray, var_y: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return zeros: errors are scored all together (``learn_errors``)."""
        return np.zeros(mu_z.shape)


@dataclass(eq=False)
class NoiseNetwork:
    """The second network, and how far its output is trusted."""

    net: Network
    exponent: np.ndarray  # (n_noise, 1): 0 is constant noise
    level: np.ndarray  # (n_noise, 1): logarithm of the noise at U = 0 over the constant one
    bounds: np.ndarray  # (2, n_noise, 1): lowest and highest U at rows not learned, or 0
    # (exponents, n_noise): gains in log-likelihood over constant noise, of rows held out and of
    # streamed ones, older ones fading
    scores: np.ndarray
    # From the units of ``net`` to the present ones of the inputs; None: they are the same
    change: Change | None = None
    waiting: Sequence[Errors] = ()  # single rows, not learned yet, in the units of ``net``

    @property
    def varies(self) -> bool:
        """Whether the noise differs between rows."""
        return bool(self.exponent.any())

    def copy(self) -> NoiseNetwork:
        """Return a noise network with arrays of its own."""
        return NoiseNetwork(
            self.net.copy(), self.exponent.copy(), self.level.copy(), self.bounds.copy(),
            self.scores.copy(), self.change, self.waiting,
        )  # fmt: skip

    def rescaled(self, change: Change) -> NoiseNetwork:
        """Return a noise network that says the same of inputs in new units.

        Its parameters stay in the units of before, until rows are learned.
        """
        change = change if self.change is None else self.change.then(change)
        return self._with(change, self.waiting)

    def with_waiting(self, errors: Errors) -> NoiseNetwork:
        """Return a noise network for which one more row waits, dense."""
        if self.change is not None:
            errors = errors._replace(x=self.change.old_inputs(errors.x))
        return self._with(self.change, (*self.waiting, errors))

    def _with(self, change: Change | None, waiting: Sequence[Errors]) -> NoiseNetwork:
        # dataclasses.replace would take long, for one row.
        return NoiseNetwork(
            self.net, self.exponent, self.level, self.bounds, self.scores, change, waiting
        )

    def is_sound(self) -> bool:
        """Whether numbers are finite and variances positive; with rows that wait, they were."""
        return bool(self.waiting) or self.net.is_sound()

    def log_ratio(self, x: Any) -> np.ndarray:
        """Return the logarithm of each row's noise over the constant one, (n_noise, rows)."""
        if not self.varies:
            return np.zeros((len(self.exponent), x.shape[0]))
        low, high = self.bounds
        u = np.minimum(np.maximum(average_output(self.net, x, self.change), low), high)
        log_ratio = self.level + self.exponent * u
        return np.minimum(np.maximum(log_ratio, -LARGEST_LOG), LARGEST_LOG)  # quicker than clip

    def ratio(self, x: Any) -> np.ndarray:
        """Return each row's noise variance over the constant one, (n_noise, rows)."""
        return np.exp(self.log_ratio(x))

    def relative(self, x: Any, trust: float) -> np.ndarray:
        """Return each row's noise over that of a row in the middle of all features, to a power.

        Means learn by it which rows to trust more than others, (n_noise, rows). They do not learn
        by it how noisy all rows are: where a function changes, errors grow everywhere, and are no
        noise. With ``trust`` below 1 even a row whose noise is thought to be huge is learned.
        """
        middle = np.zeros((1, x.shape[1]), self.net.dtype)
        middle[0, -1] = 1
        return np.exp(trust * (self.log_ratio(x) - self.log_ratio(middle)))


def draw_noise_network(n_inputs: int, n_noise: int, dtype: Any, seed: int) -> NoiseNetwork:
    """Return a noise network that says that the noise is constant; equal for equal seeds."""
    rngs = [np.random.RandomState((seed + k) % (1 << 32)) for k in range(N_FOLDS)]
    layers = draw_prior((n_inputs, N_UNITS, n_noise), rngs, dtype=dtype)
    last = layers[-1]
    factor = last.mu.dtype.type(LAST_LAYER)
    layers[-1] = Layer(np.zeros_like(last.mu), last.var * factor, last.var_prior * factor)
    net = Network(
        layers, ACTIVATIONS["relu"], LogVariance(n_noise), np.ones((N_FOLDS, n_noise, 1))
    )  # fmt: skip
    zeros = np.zeros((n_noise, 1))
    scores = np.zeros((len(EXPONENTS), n_noise))
    return NoiseNetwork(net, zeros, zeros.copy(), np.stack([zeros, zeros]), scores)


def mean_outputs(net: Network, x: Any) -> np.ndarray:
    """Return the means of U, (members, n_noise, rows), for inputs with rows first."""
    first, last = (layer.mu for layer in net.layers)
    outputs = np.empty((net.n_members, last.shape[-1], x.shape[0]), net.dtype)
    is_dense = isinstance(x, np.ndarray)
    for part in slices(x.shape[0], block_rows(net, BLOCK_ELEMENTS, width(x))):
        rows = x[part]
        hidden = rows @ first if is_dense else np.stack([rows @ weights for weights in first])
        np.maximum(hidden, 0, out=hidden)
        outputs[..., part] = (hidden @ last[:, :-1] + last[:, -1:]).swapaxes(-1, -2)
    return outputs


def trusted_exponent(gains: np.ndarray, least: float) -> np.ndarray:
    """Return the exponent (n_noise, 1) that is best by log-likelihoods (exponents, n_noise).

    They are those beyond constant noise, which it is if the gain is not at least so much. The best
    of several is so by chance, too: of a small gain a part is trusted.
    """
    gain = gains.max(axis=0)
    share = np.where(gain >= least, gain / (np.maximum(gain, least) + CHANCE), 0)
    return (share * EXPONENTS[gains.argmax(axis=0)])[:, None]


def average_output(net: Network, x: Any, change: Change | None = None) -> np.ndarray:
    """Return the mean of U over the members, (n_noise, rows): as one network, side by side.

    ``change`` is the one from its units to those of x, if they differ.
    """
    first, last = (layer.mu for layer in net.layers)
    n_noise = last.shape[-1]
    weights = first.swapaxes(0, 1).reshape(first.shape[1], -1)
    if change is not None:
        weights = change.applied(weights)
    weights_out = last[:, :-1].reshape(-1, n_noise) / net.n_members
    u = np.empty((n_noise, x.shape[0]))
    for part in slices(x.shape[0], block_rows(net, BLOCK_ELEMENTS, width(x))):
        hidden = x[part] @ weights
        np.maximum(hidden, 0, out=hidden)
        u[:, part] = (hidden @ weights_out).T
    return u + last[:, -1].mean(axis=0)[:, None]


def held_out_outputs(net: Network, x: Any, fold: np.ndarray) -> np.ndarray:
    """Return U of each row as the member that holds it out predicts it, (n_noise, rows)."""
    return mean_outputs(net, x)[fold, :, np.arange(len(fold))].T.astype(np.float64)


def log_density(error: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return log N(error; 0, var); 0 where the error is not known."""
    log_lik = log_density_of_std(error, np.zeros(()), np.sqrt(var))
    return np.where(np.isnan(error), 0, log_lik)


def learn_errors(noise: NoiseNetwork, errors: Errors, seed: int) -> NoiseNetwork:
    """Return a noise network that has learned errors, as long as rows held out gain from it."""
    net, rng = noise.net.copy(), np.random.RandomState(seed % (1 << 32))
    rows = as_rows(errors, net.dtype).with_keys()
    order = _learned_rows(errors.fold)
    batch_size = min(BATCH_SIZE, order.shape[1])
    learner = Learner(net, _settings(net, batch_size, float(errors.weight.sum())))
    best, top, waited = net.copy(), -np.inf, 0
    for epoch in range(MAX_EPOCHS + 1):
        u = held_out_outputs(net, errors.x, errors.fold)
        score = _score(errors, u)
        if score > top and net.is_sound():
            best, top, waited = net.copy(), score, 0
        else:
            waited += 1
        if waited == PATIENCE or epoch == MAX_EPOCHS or not np.isfinite(score):
            break
        learner.learn(rows, _shuffled(order, rng))
    return replace(noise, net=best)


def _settings(net: Network, batch_size: int, total: float) -> Settings:
    n_parameters = sum(layer.mu[0].size for layer in net.layers)
    return Settings(batch_size, True, max(np.sqrt(n_parameters * total), 8 * batch_size))


def as_rows(errors: Errors, dtype: Any) -> Rows:
    """Return errors as a network learns them."""
    x = errors.x.astype(dtype, copy=False)
    error, var = (np.asarray(a.T, dtype=dtype) for a in (errors.error, errors.var))
    return Rows(x, error, errors.weight.astype(dtype), None, var)


def _learned_rows(fold: np.ndarray) -> np.ndarray:
    """Return the rows that each member learns, (members, n), padded with -1."""
    learned = [np.flatnonzero(fold != member) for member in range(N_FOLDS)]
    order = np.full((N_FOLDS, max(map(len, learned))), -1)
    for numbers, rows in zip(learned, order, strict=True):
        rows[: len(numbers)] = numbers
    return order


def _shuffled(order: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    return np.stack([rng.permutation(rows) for rows in order])


def _score(errors: Errors, u: np.ndarray) -> float:
    var = errors.var + np.exp(np.clip(u, -LARGEST_LOG, LARGEST_LOG))
    return float((log_density(errors.error, var) @ errors.weight).sum())
