"""How sure a mixture of networks should be, from rows that its members have not seen.

Training makes every member as sure as suits its own validation rows. What is reported in the end
is the variance of the mixture,

    temperature * var_z + var(means of the members) + noise_var

and its error is smaller than that of a member: with means m_j around their average m, the mean of
(y - m_j)^2 is (y - m)^2 + var(m_j). So at a row that member j has held out, its own mean m_j tells
of the reported variance plus var(m_j) once more. The temperature and the noise are those that
maximise the likelihood of all held-out rows in this sense; with one member it is its own. The same
rows have chosen the epoch at which a member stopped, which makes their errors a little smaller than
those of new rows: the variances found grow by a few parts in the number of a member's rows.

With the variances goes the shape of the errors (``shape``), of which the standard deviation says
nothing: how they are distributed over the held-out rows, each in units of its own standard
deviation. There the members' disagreement is that of the others, which all have learnt the row:
var(m_j) over all members would grow with the very error that it is to measure, and hide the tails.
That makes it too small, so the errors are scaled to a mean square of 1: the scale of predictions is
their standard deviation, and nothing but the shape is taken from here.

The temperature multiplies the variances of the parameters, which forgetting keeps larger than the
data would. It is not lowered unless the rows speak clearly for less. Both belong to predictions
alone: what is learnt later goes on from the posterior as it was learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .keys import join_keys, row_keys
from .learning import Network, Rows, batches, predict_moments
from .shape import blend_tails, sum_outside
from .training import MIN_ROWS_FOR_NOISE, own_moments, search_noise

__all__ = ["HeldOut", "calibrate", "predict_held_out", "set_calibration"]

TEMPERATURES = 0.5 ** np.arange(9)
# Log-likelihood that a lower temperature has to gain.
CLEAR_GAIN = 4.0
# Growth of the variances, times the number of rows that a member has held out.
OPTIMISM = 8.0
# How far from the noise of the members to look for that of the mixture: a factor.
REACH = 1000.0
BLOCK_ROWS = 4096  # scored at once


class HeldOut(NamedTuple):
    """Rows that members have held out, as the members that hold them out predict them."""

    mu_z: np.ndarray  # (n, n_outputs)
    var_z: np.ndarray  # (temperatures, n, n_outputs)
    spread: np.ndarray  # (n, n_outputs): what their errors should be is var_z + spread + noise
    spread_others: np.ndarray  # the same without the member that holds a row out
    y: np.ndarray
    weight: np.ndarray
    counts: np.ndarray  # (members,) distinct rows of each
    row_weights: np.ndarray  # of all rows that are distinct


def calibrate(net: Network, data: Rows, validation: list[np.ndarray]) -> None:
    """Set the temperature and the scale of the noise of predictions, in place."""
    if min(map(len, validation)) < MIN_ROWS_FOR_NOISE:
        return
    held = predict_held_out(net, data, validation)
    if held.counts.min() >= MIN_ROWS_FOR_NOISE:
        set_calibration(net, held.counts, lambda question, *given: question(held, *given))


def predict_held_out(net: Network, data: Rows, validation: list[np.ndarray]) -> HeldOut:
    """What members say of the rows that they hold out, at each temperature."""
    held = data.take(np.concatenate(validation))
    counts = np.array(list(map(len, validation)))
    owner = np.repeat(np.arange(len(counts)), counts)
    means = predict_moments(net, held.x, held.var_x)[0].astype(np.float64)
    var_z = []
    for temperature in TEMPERATURES:
        own = own_moments(replace(net, temperature=temperature).reported(), data, validation)
        var_z.append(np.concatenate([var_z for _, _, var_z in own]))
    mu_z = means[owner, np.arange(len(owner))]
    others = (np.arange(len(counts))[:, None] != owner)[..., None] / max(len(counts) - 1, 1)
    deviations = np.square(means - (others * means).sum(axis=0))
    keys = _keys(held)
    parts = np.split(keys, np.cumsum(counts)[:-1])
    _, row = np.unique(keys, return_inverse=True)
    return HeldOut(
        mu_z, np.stack(var_z), 2 * means.var(axis=0), 2 * (others * deviations).sum(axis=0),
        held.y, held.weight, np.array([len(np.unique(part)) for part in parts]),
        np.bincount(row, held.weight),
    )  # fmt: skip


def _keys(held: Rows) -> np.ndarray:
    """Equal for copies of a row, which are a row of more weight."""
    keys = row_keys(held.x) if held.keys is None else held.keys
    for column in held.y.T:
        keys = join_keys(keys, column)
    return keys


# Questions to rows held out. What they answer adds up over rows.


def score_noise(held: HeldOut, outputs, noise: np.ndarray) -> np.ndarray:
    """Summed log-likelihood (temperatures, grid, n) of noise variances (..., 1, n)."""
    scores = np.zeros((*noise.shape[:2], noise.shape[-1]))
    for part in batches(len(held.weight), BLOCK_ROWS):
        mu_z, y, weight = held.mu_z[part], held.y[part], held.weight[part]
        for score, var_z, tried in zip(scores, held.var_z[:, part], noise, strict=True):
            log_lik = outputs.log_likelihood(mu_z, held.spread[part] + var_z + tried, y)
            score += np.einsum("n,gno->go", weight, log_lik)
    return scores


def count_outside(held: HeldOut, chosen: int, noise: np.ndarray, scale) -> np.ndarray:
    """The weight outside each interval (levels, n_outputs), of errors over ``scale``."""
    return sum_outside(_standardised(held, chosen, noise) / scale, held.weight)


def sum_squares(held: HeldOut, chosen: int, noise: np.ndarray) -> np.ndarray:
    """The weighted sum of squared errors, (n_outputs,)."""
    return held.weight.astype(np.float64) @ np.square(_standardised(held, chosen, noise))


def _standardised(held: HeldOut, chosen: int, noise: np.ndarray) -> np.ndarray:
    return (held.y - held.mu_z) / np.sqrt(held.spread_others + held.var_z[chosen] + noise)


def sum_weights(held: HeldOut) -> np.ndarray:
    """The weight of the rows and the sum of its squares."""
    return np.array([held.row_weights.sum(), np.square(held.row_weights).sum()])


def set_calibration(net: Network, counts: np.ndarray, ask: Callable) -> None:
    """Calibrate, in place, by the rows held out, which may be in several places.

    ``ask(question, *given)`` is the sum of ``question(held, *given)`` over them; it is asked six
    times, three of them for the noise.
    """

    def score(noise):
        return ask(score_noise, net.outputs, noise)

    start = net.noise_var.mean(axis=0)
    everywhere = np.broadcast_to(start, (len(TEMPERATURES), *start.shape))
    if net.learn_noise:
        noise, scores = search_noise(score, everywhere, reach=REACH)
    else:
        noise, scores = everywhere, score(everywhere[:, None])[:, 0]
    totals = scores.sum(axis=-1)
    chosen = int(np.argmax(totals >= totals.max() - CLEAR_GAIN))  # the first of them
    growth = 1 + OPTIMISM * len(counts) / counts.sum()
    net.temperature = float(TEMPERATURES[chosen] * growth)
    net.noise_var[...] = start  # one noise for all members
    if net.learn_noise:
        net.noise_scale = noise[chosen] * growth / start
    total, total_squares = ask(sum_weights)
    mean_square = ask(sum_squares, chosen, noise[chosen]) / total
    scale = np.sqrt(np.maximum(mean_square, np.finfo(np.float64).tiny))
    outside = ask(count_outside, chosen, noise[chosen], scale)
    # Of unequal weight, rows tell less than their number says.
    net.tails = blend_tails(outside, total**2 / total_squares)
