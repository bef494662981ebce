"""How sure a mixture of networks should be, from rows that its members have not seen.

Training makes every member as sure as suits its own validation rows. What is reported in the end
is the variance of the mixture of M members,

    temperature * var_z + spread * var(means of the members) + noise_var

and its error is smaller than that of a member. Let h of the members hold a row out, and v be the
variance of members' means around each other at rows that they have not learned. The mean of the h
has an expected squared error that is (1/h - 1/M) v above that of the mean of all. So the error of
these h tells of the variance

    temperature * var_z + (1/h - 1/M + spread (1 - 1/M)) v + noise_var

for the mixture itself has var(means) = (1 - 1/M) v on average. Temperature, spread and noise are
those that maximise the likelihood of all held-out rows in this sense. Where members err each in
another direction and nothing else is wrong, the mean of M errs by v / M only, and the spread is
lowered: with little noise it would be far too large.

Members that have learned a row agree on it more than on a new one: a wide network sits on the rows
it has learned. So v is the variance of those who have learned the row, times the factor by which it
is larger at rows that two members hold out, for these two (``held_out``). If all hold a row out, v
is theirs, and nothing is left to correct.

The same rows have chosen the epoch at which a member stopped, which makes their errors a little
smaller than those of new rows: the variances found grow by a few parts in the number of a member's
rows.

Where the noise may vary, a second network learns it from the same errors (``noise_network``). With
the variances goes the shape of the errors (``shape``), each in units of its own standard deviation.

The temperature multiplies the variances of the parameters, which forgetting keeps larger than the
data would. It is the one at which they are, on average, what so many rows with that noise leave to
the mean (``leverage``), unless the held-out rows speak for another. The spread is not lowered
unless they clearly speak for it. All of it belongs to predictions alone: what is learned later goes
on from the posterior as it was learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from .fast import slices
from .held_out import HeldOut, spread_sums, with_disagreement
from .leverage import Leverage, sum_products, sum_variances
from .mixture import Mixture
from .noise import search_noise, trust, trusted_noise
from .noise_network import (
    EXPONENTS,
    LARGEST_LOG,
    N_FOLDS,
    Errors,
    NoiseNetwork,
    held_out_outputs,
    learn_errors,
    log_density,
    trusted_exponent,
)
from .noise_stream import settled
from .posterior import Calibration, Network
from .shape import error_histogram, fit_shape

__all__ = ["TEMPERATURES", "HeldOutHere", "Places", "set_calibration"]

TEMPERATURES = 0.5 ** np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14])
SPREADS = 0.5 ** np.arange(6)
# What the log-likelihood of the held-out rows must rise by at least: for each halving or doubling
# of the temperature away from the usual one, and for a lower spread. With less, chance decides
# which part of the errors is noise; if the noise varies, rows with little of it tell.
GAIN_OF_HALVING = 4.0
GAIN_OF_HALVING_BESIDE_VARYING = 1.0
CLEAR_GAIN = 4.0
# Noise that varies must raise it by at least this much for each target.
LEAST_GAIN = 2.0
# Growth of the variances, times the number of rows that a member has held out and some more: of few
# rows, the epoch is chosen by chance more than by what they say.
OPTIMISM = 4.0
MORE_ROWS = 20.0
# How far from the noise of the members to look for that of the mixture: a factor.
REACH = 1000.0
# The noise network explains what the network's own variance does not at this temperature or a
# lower one: at high ones it hides where the noise is small.
LOW_TEMPERATURE = 4
LEVEL_REACH = 3.0  # how far from the constant level to look for that of noise that varies
MOST_ERRORS = 20_000  # that a noise network learns
BLOCK_ROWS = 4096  # scored at once


class Places(Protocol):
    """Where held-out rows are: in memory, or on the workers of a cluster."""

    def ask(self, question: Callable[..., Any], *given: Any) -> Any:
        """Return the sum of ``question(held, *given)`` over the places."""

    def collect(self, question: Callable[..., Any], *given: Any) -> list[Any]:
        """Return the answers of all places."""

    def change(self, function: Callable[..., HeldOut], *given: Any) -> None:
        """Replace the rows of each place by ``function(held, *given)``."""


class HeldOutHere:
    """Held-out rows in memory."""

    def __init__(self, held: HeldOut):
        self.held = held

    def ask(self, question: Callable[..., Any], *given: Any) -> Any:
        """Return the answer."""
        return question(self.held, *given)

    def collect(self, question: Callable[..., Any], *given: Any) -> list[Any]:
        """Return the only answer."""
        return [question(self.held, *given)]

    def change(self, function: Callable[..., HeldOut], *given: Any) -> None:
        """Replace the rows."""
        self.held = function(self.held, *given)


# Questions to rows held out. What they answer adds up over rows.


class Case(NamedTuple):
    """What the variance of an error is made of."""

    temperature: int  # its number
    exponent: Any = 0.0  # (n_noise, 1), or one for all
    spread: float = 1.0  # factor of the variance of the members' means


def score_noise(held: HeldOut, cases: list[Case], noise: np.ndarray) -> np.ndarray:
    """Sum log-likelihoods (cases, grid, n) for noise variances (cases, grid, n_noise, 1)."""
    scores = np.zeros(noise.shape[:-1])
    for part in slices(len(held.weight), BLOCK_ROWS):
        rows = held.take(part)
        for score, case, tried in zip(scores, cases, noise, strict=True):
            var = _variance_of_errors(rows, case, tried)
            log_lik = log_density(rows.error, var)
            score += np.einsum("n,gon->go", rows.weight, log_lik)
    return scores


def _variance_of_errors(held: HeldOut, case: Case, noise: np.ndarray) -> np.ndarray:
    """Return the variance (..., n_outputs, rows) that errors should have."""
    if held.log_noise is not None:
        log_ratio = np.clip(case.exponent * held.log_noise, -LARGEST_LOG, LARGEST_LOG)
        noise = noise * np.exp(log_ratio)
    return held.disagreement_with(case.spread) + held.var_z[case.temperature] + noise


def sum_weights(held: HeldOut) -> np.ndarray:
    """Sum the weights of the rows, their squares and the distinct rows, (3, n_targets)."""
    _, row = np.unique(held.keys, return_inverse=True)
    known = ~np.isnan(held.error)
    weights = np.stack([np.bincount(row, held.weight * some) for some in known])
    return np.stack([weights.sum(1), np.square(weights).sum(1), np.count_nonzero(weights, 1)])


def sum_row_weights(held: HeldOut) -> float:
    """Sum the weights of the rows."""
    return float(held.weight.sum())


def count_rows(held: HeldOut) -> np.ndarray:
    """Count the distinct rows of each member."""
    return held.counts


def errors_of(held: HeldOut, case: Case, noise: np.ndarray, share: float, seed: int) -> Errors:
    """Return errors to learn from, of a share of the rows, in units of the ``noise``."""
    if share < 1:
        n_rows = len(held.weight)
        chosen = np.random.RandomState(seed).permutation(n_rows)[: int(np.ceil(share * n_rows))]
        held = held.take(np.sort(chosen))
    var = held.disagreement_with(case.spread) + held.var_z[case.temperature]
    return Errors(held.x, held.error / np.sqrt(noise), var / noise, held.weight, _folds(held))


def _folds(held: HeldOut) -> np.ndarray:
    """Return the member of a noise network that holds each row out.

    Rows that were held out together are so again. If there are few such sets, folds are made by
    chance, that is by the order along a random direction, and of the errors of rows with equal
    inputs; copies of a row and rows of a group have the same.
    """
    if held.n_splits >= N_FOLDS - 1:
        return np.maximum(held.holder - 1, 0) % N_FOLDS  # the first two hold out the same
    direction = np.random.default_rng(0).standard_normal(held.x.shape[1])
    _, first, group = np.unique(held.keys, return_index=True, return_inverse=True)
    along = (held.x @ direction)[first]
    with np.errstate(over="ignore"):  # in single precision: rounding of the last digits is no order
        order = np.lexsort([a.astype(np.float32) for a in (*held.error[:, first], along)])
    rank = np.empty(len(first), dtype=int)
    rank[order] = np.arange(len(first))
    return rank[group] % N_FOLDS


def count_all(held: HeldOut) -> int:
    """Count the rows."""
    return len(held.weight)


def with_log_noise(held: HeldOut, net: Network) -> HeldOut:
    """Return the rows with what members of a noise network say that have not learned them."""
    return held._replace(log_noise=held_out_outputs(net, held.x, _folds(held)))


def range_of_log_noise(held: HeldOut) -> np.ndarray:
    """Return the lowest and the highest U, (2, n_noise, 1)."""
    assert held.log_noise is not None
    u = held.log_noise
    return np.stack([u.min(axis=1, initial=np.inf), u.max(axis=1, initial=-np.inf)])[..., None]


def histogram_of_errors(held: HeldOut, case: Case, noise: np.ndarray) -> np.ndarray:
    """Sum the weights of standardised errors in bins, (n_outputs, bins)."""
    z = held.error / np.sqrt(_variance_of_errors(held, case, noise))
    return error_histogram(z, held.weight)


# The calibration


def set_calibration(
    net: Network | Mixture,
    places: Places,
    start: NoiseNetwork | None = None,
    seed: int = 0,
    n_learned: float | None = None,
) -> None:
    """Calibrate, in place, by the rows held out, which may be in several places.

    ``n_learned`` is the weight of all rows; None: of those that are held out.
    """
    places.change(with_disagreement, places.ask(spread_sums))
    before = net.noise_var.mean(axis=0)
    total, total_squares, n_rows = places.ask(sum_weights)
    growth = _growth(places.ask(count_rows), n_rows)
    leverage = _leverage(net, places, n_rows, n_learned)
    case, noise, usual = _constant_noise(net, places, before, n_rows, leverage)
    constant = noise
    net.noise_net = None
    if start is not None:
        net.noise_net, varying, level = _varying_noise(places, start, case, noise, seed, usual)
        if net.noise_net.varies:
            case, noise = varying, level
            # For a target whose noise does not vary, it is the one beside this temperature.
            constant = np.where(net.noise_net.exponent > 0, constant, noise)
            net.noise_net = replace(net.noise_net, level=np.log(noise / constant))
    histogram = places.ask(histogram_of_errors, case, noise)
    # Rows of unequal weight tell less than their number says.
    shape = fit_shape(histogram, total**2 / np.where(total > 0, total_squares, 1))
    scale = np.ones_like(before)
    if net.noise_is_learned:
        scale = constant * growth / before
    net.share_noise()  # one noise for all members
    net.calibration = Calibration(
        float(TEMPERATURES[case.temperature] * growth.min()), scale, shape, float(case.spread)
    )


def _growth(counts: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return the factor of variances (n_noise, 1) found from few rows.

    ``counts`` (members,) are the rows of each member, ``n_rows`` (n_noise,) those that observe a
    target, of all members. A variance that n rows tell is that of a Student distribution with n
    degrees of freedom, n / (n - 2) times as large; it counts as far as they are trusted.
    """
    unknown = 2 / np.maximum(n_rows - 2, 1) * trust(n_rows)
    return 1 + OPTIMISM / (np.mean(counts) + MORE_ROWS) + unknown[:, None]


def _constant_noise(
    net: Network | Mixture,
    places: Places,
    before: np.ndarray,
    n_rows: np.ndarray,
    leverage: Leverage,
) -> tuple[Case, np.ndarray, int]:
    """Return temperature, spread and noise (n_noise, 1) of all rows, and the usual temperature.

    ``before`` is the noise of the members, ``n_rows`` (n_noise,) the rows that observe a target.
    """

    def search(cases: list[Case]) -> tuple[np.ndarray, np.ndarray]:
        def score(noise: np.ndarray) -> np.ndarray:
            return places.ask(score_noise, cases, noise)

        noise = np.broadcast_to(before, (len(cases), *before.shape))
        if not net.noise_is_learned:
            return noise, score(noise[:, None])[:, 0]
        noise, scores = search_noise(score, noise, reach=REACH)
        return trusted_noise(noise, before, n_rows), scores

    cases = [Case(number) for number in range(len(TEMPERATURES))]
    noise, scores = search(cases)
    usual = leverage.usual(noise[..., 0])
    chosen = _best_temperature(scores, usual)
    if net.n_members > 1:
        cases = [cases[chosen]._replace(spread=a) for a in SPREADS]
        noise, scores = search(cases)
        chosen = _first_of_the_best(scores)
    spread = cases[chosen].spread
    if spread < 1:
        cases = [Case(number, spread=spread) for number in range(len(TEMPERATURES))]
        noise, scores = search(cases)
        chosen = _best_temperature(scores, usual)
    return cases[chosen], noise[chosen], usual


def _leverage(
    net: Network | Mixture, places: Places, n_rows: np.ndarray, n_learned: float | None
) -> Leverage:
    """Return what rows held out tell of how sure the networks should be."""
    held = places.ask(sum_row_weights)
    learned = n_rows if n_learned is None else n_rows * (n_learned / held)
    products = [places.ask(sum_products, kind) / held for kind in net.networks]
    var = places.ask(sum_variances) / held
    rest = var[-1]  # all but the parameters' variances, which are near zero there
    of_parameters = var - rest + TEMPERATURES[-1] * (var[0] - rest)
    return Leverage.of(net, products, of_parameters, rest, learned)


def _best_temperature(scores: np.ndarray, usual: int, gain: float | None = None) -> int:
    """Return the number of the temperature with the best scores (temperatures, n).

    A prior keeps it near the ``usual`` one if few rows speak: its logarithm falls by ``gain`` with
    each halving or doubling.
    """
    gain = GAIN_OF_HALVING if gain is None else gain
    log_t = np.log2(TEMPERATURES)
    return int(np.argmax(scores.sum(axis=-1) - gain * np.abs(log_t - log_t[usual])))


def _first_of_the_best(scores: np.ndarray) -> int:
    """Return the first of some cases (cases, n) than which none is clearly better."""
    totals = scores.sum(axis=-1)
    return int(np.argmax(totals >= totals.max() - CLEAR_GAIN))


def _varying_noise(
    places: Places,
    start: NoiseNetwork,
    constant: Case,
    noise: np.ndarray,
    seed: int,
    usual: int,
) -> tuple[NoiseNetwork, Case, np.ndarray]:
    """Let a noise network learn; returns it with the best case, and the noise at U = 0 then."""
    low = constant._replace(temperature=max(constant.temperature, LOW_TEMPERATURE))

    def search(cases: list[Case], reach: float = LEVEL_REACH) -> tuple[np.ndarray, np.ndarray]:
        def score(tried: np.ndarray) -> np.ndarray:
            return places.ask(score_noise, cases, tried)

        begin = np.broadcast_to(noise, (len(cases), *noise.shape))
        return search_noise(score, begin, reach=reach)

    noise = search([low], REACH)[0][0]
    share = MOST_ERRORS / max(places.ask(count_all), MOST_ERRORS)
    errors = _joined(places.collect(errors_of, low, noise, share, seed))
    learned = learn_errors(settled(start), errors, seed)
    places.change(with_log_noise, learned.net)

    def best_exponent(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        _, scores = search([case._replace(exponent=exponent) for exponent in EXPONENTS])
        gains = np.nan_to_num(scores - scores[0])  # where squares overflow, nothing is gained
        exponent = trusted_exponent(gains, LEAST_GAIN)
        return exponent, search([case._replace(exponent=exponent)])[0][0], gains

    exponent, *_ = best_exponent(low)
    numbers = range(len(TEMPERATURES))
    _, scores = search([Case(number, exponent, low.spread) for number in numbers])
    chosen = _best_temperature(scores, usual, GAIN_OF_HALVING_BESIDE_VARYING)
    case = low._replace(temperature=chosen)
    exponent, level, gains = best_exponent(case)
    bounds = np.array(places.collect(range_of_log_noise))
    bounds = np.stack([bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)])
    found = replace(
        learned, exponent=exponent, level=np.zeros_like(level), bounds=bounds, scores=gains
    )
    return found, case._replace(exponent=exponent), level


def _joined(parts: list[Errors]) -> Errors:
    """Return the errors of all places."""
    if len(parts) == 1:
        return parts[0]
    x, error, var, weight, fold = zip(*parts, strict=True)
    return Errors(
        np.concatenate(x) if isinstance(x[0], np.ndarray) else sparse.vstack(x, format="csr"),
        np.concatenate(error, axis=-1),
        np.concatenate(var, axis=-1),
        np.concatenate(weight),
        np.concatenate(fold),
    )
