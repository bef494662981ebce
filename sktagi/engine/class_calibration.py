"""How sure a mixture of networks should be of classes, from rows that its members have not learned.

What is reported is the mean over M members of their probabilities, with means of outputs that are
multiplied by one slope: above 1 it makes all probabilities more extreme, below 1 less. The slope is
1 unless rows that members hold out say otherwise. What they say has two bounds:

- A member alone is at least as sure of itself as the mixture should be, and errs more: the slope
  that suits the predictions of members one by one is too low for the mixture.
- Let h of the members hold a row out, and v be the variance of members' means around each other at
  rows that they have not learned (``held_out``). In the mixture the outputs are spread by
  (1 - 1/M) v, and those of the h err by (1/h - 1/M) v more than those of all. With both added to
  var_z, as if all were Gaussian, held-out rows are predicted with less confidence than the mixture
  has where a few rows have most of v: the slope that suits these is too high.

The slope that is nearest to 1 between the two is taken. Few rows say little: the logarithm of each
has a Gaussian prior around zero. One member alone has one slope, its own.

In a stream, every row is predicted by all members before it is learned: slopes are scored by these
predictions of the mixture, the newest most. After a fit, it begins with the slope found there.

Far from the data, the variance of an output grows no faster than the square of its mean, so that
probabilities would stay what they are at the edge of the data. A row whose variance is more than
``FAR`` times that of a usual held-out row has it enlarged by sqrt(ratio / FAR).

The standard deviation of a probability says what is not known of it. Variances of independent
parameters overstate that: in problems whose probabilities are known, an output errs by a
share of its variance (``share_unknown``) and of the variance between members
(``python -m benchmarks classes --cases known``).
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from scipy.special import digamma, entr

from .calibration import Places
from .fast import slices
from .held_out import HeldOut, spread_sums, with_disagreement
from .mixture import Mixture
from .observations import ObservationModel
from .posterior import Calibration, Network
from .shape import gaussian_shape

__all__ = [
    "SLOPES", "UNKNOWN_OF_SPREAD", "calibrate_classes", "class_calibration",
    "dirichlet_entropies", "far_from_data", "learn_slope", "share_unknown",
    "share_unknown_of_kinds",
]  # fmt: skip

SLOPES = 2.0 ** np.linspace(-2, 2, 17)
PRIOR_STD = 0.5  # of the slope's logarithm
BLOCK_ROWS = 4096  # scored at once
BLOCK_ELEMENTS = 1 << 18  # outputs scored at once, of all slopes
HALF_LIFE = 1000.0  # rows of a stream after which a prediction counts half in the choice of a slope
# Variances of independent parameters overstate how far the function may be off: of the variance of
# an output this share is what is not known, and of that between the members the other.
UNKNOWN = 0.07
UNKNOWN_OF_SPREAD = 0.25
UNKNOWN_OF_ONE_ROW = 39.0  # of unlike members and one input
UNKNOWN_GROWS = 0.75  # exponent of the number of inputs
FAR = 30.0
LEAST_UNKNOWN = 1e-8  # of the variance that probabilities can have


def calibrate_classes(
    net: Network | Mixture, places: Places, unknown: float, n_rows: float
) -> None:
    """Find the slope, in place, by the rows held out, which may be in several places.

    ``unknown`` is the share of the variance of an output that is not known of it, if members are
    alike; ``n_rows`` were learned.
    """
    places.change(with_disagreement, places.ask(spread_sums))
    scores = places.ask(score_slopes, net.outputs, net.noise_var.mean(axis=0))
    lowest, highest = np.sort([best_slope(of_bound) for of_bound in scores])
    slope = float(np.clip(1, lowest, highest))
    log_var, weight = places.ask(sum_log_variances)
    start = scores_around(slope, scores.mean(axis=0) * min(1, HALF_LIFE / weight))
    usual_var = float(np.exp(log_var / weight))
    if isinstance(net, Mixture):
        scale = cast(Any, net.outputs).probit_scale
        unknown = share_unknown_of_kinds(usual_var, n_rows, net.n_inputs, scale)
    net.calibration = class_calibration(net, slope, unknown, start)._replace(usual_var=usual_var)


def class_calibration(
    net: Network | Mixture,
    slope: float = 1.0,
    unknown: float = UNKNOWN,
    scores: np.ndarray | None = None,
) -> Calibration:
    """Return a calibration of classes, which changes nothing else."""
    ones = np.ones((net.outputs.n_noise, 1))
    shape = gaussian_shape(net.outputs.n_outputs)
    return Calibration(1.0, ones, shape, slope=slope, unknown=unknown, slope_scores=scores)


def score_slopes(held: HeldOut, outputs: ObservationModel, noise_var: np.ndarray) -> np.ndarray:
    """Sum log-likelihoods of the rows for each of ``SLOPES``, (2, slopes).

    Once for members alone, and once with their disagreement.
    """
    scores = np.zeros((2, len(SLOPES)))
    for part in slices(len(held.weight), BLOCK_ROWS):
        rows = held.take(part)
        assert rows.mean is not None
        assert rows.y is not None
        var_y = rows.var_z[0] + noise_var
        for bound, var in zip(scores, (var_y, var_y + rows.disagreement), strict=True):
            for number, slope in enumerate(SLOPES):
                log_lik = outputs.log_likelihood(slope * rows.mean, var, rows.y)
                bound[number] += (log_lik @ rows.weight).sum()
    return scores


def sum_log_variances(held: HeldOut) -> np.ndarray:
    """Sum logarithms of the variance of an average output, and the weights of the rows."""
    log_var = np.log(np.maximum(held.var_z[0].mean(axis=0), np.finfo(np.float64).tiny))
    return np.array([log_var @ held.weight, held.weight.sum()])


def far_from_data(var_z: np.ndarray, usual_var: float) -> np.ndarray:
    """Return the factor (..., 1, rows) of the variance of rows that are far from the data."""
    ratio = var_z.mean(axis=-2, keepdims=True) / (FAR * usual_var)
    return np.sqrt(np.maximum(ratio, 1))


def best_slope(scores: np.ndarray) -> float:
    """Return the slope with the best of log-likelihoods (slopes,) and prior together."""
    log_slope = np.log(SLOPES)
    total = scores - 0.5 * np.square(log_slope / PRIOR_STD)
    top = int(np.clip(total.argmax(), 1, len(SLOPES) - 2))
    below, here, above = total[top - 1 : top + 2]
    curvature, step = below - 2 * here + above, 0.0
    if abs(below - above) < -2 * curvature:
        step = 0.5 * (below - above) / curvature  # the top of a parabola
    elif below != above:
        step = np.sign(above - below)
    return float(np.exp(log_slope[top] + step * (log_slope[1] - log_slope[0])))


def scores_around(slope: float, scores: np.ndarray) -> np.ndarray:
    """Return scores (slopes,) of which ``slope`` is the best, as sure of it as ``scores`` are.

    A stream begins with them after a fit: its first rows do not forget what was found.
    """
    log_slope = np.log(SLOPES)
    distance = log_slope - math.log(slope)
    near = int(np.clip(np.abs(distance).argmin(), 1, len(SLOPES) - 2))
    below, here, above = scores[near - 1 : near + 2]
    curvature = max(2 * here - below - above, 0) / (log_slope[1] - log_slope[0]) ** 2
    prior = np.square(log_slope / PRIOR_STD) - np.square(distance / PRIOR_STD)
    return 0.5 * (prior - curvature * np.square(distance))


def share_unknown(half_life: float | None, n_rows: float, n_epochs: int) -> float:
    """Return the share of an output's variance that is not known, after learning n rows in epochs.

    With epochs and forgetting, the posterior has the evidence of so many rows; the data have n.
    """
    learned = n_rows * max(n_epochs, 1)
    evidence = learned if half_life is None else min(learned, half_life / math.log(2))
    return UNKNOWN * (evidence / max(n_rows, 1)) ** 0.75


def share_unknown_of_kinds(
    usual_var: float, n_rows: float, n_inputs: int, probit_scale: float
) -> float:
    """Return the share of an output's variance that is not known, of unlike members.

    The variances of kinds differ by factors, so only their pattern counts: at rows that are usual,
    what is not known is what so many rows leave open of a function of so many inputs, in units of
    the link. The constants were chosen on generated problems with known probabilities.
    """
    of_one_row = UNKNOWN_OF_ONE_ROW * n_inputs**UNKNOWN_GROWS * probit_scale**2
    left_open = of_one_row / max(n_rows, 1)
    return min(1.0, left_open / usual_var)


def dirichlet_entropies(proba: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entropy of probabilities (..., classes), and its mean if they are Dirichlet.

    A Dirichlet distribution with the means p and the precision s has variances p (1 - p) / (s + 1),
    which gives s, and the mean entropy psi(s + 1) - sum p psi(s p + 1).
    """
    total = entr(proba).sum(axis=-1)
    spread = (proba * (1 - proba)).sum(axis=-1)
    unknown = var.sum(axis=-1)
    known = unknown > LEAST_UNKNOWN * spread  # below that s is large, and nothing is unknown
    s = np.where(known, spread / np.where(known, unknown, 1) - 1, 1)
    s = np.maximum(s, np.finfo(np.float64).eps)[..., None]
    left = (proba * (digamma(s + 1) - digamma(s * proba + 1))).sum(axis=-1)
    left = np.where(known, left, total)
    return total, np.clip(left, 0, total)


def learn_slope(
    net: Network | Mixture, moments: np.ndarray, y: Any, weight: np.ndarray, batch_size: int
) -> float:
    """Update the slope by rows of a stream that were predicted, batch by batch, and then learned.

    ``moments`` (2, members, n_outputs, rows) are those of the predictions. Returns the mean of the
    rows' log-likelihoods as the mixture predicted them.
    """
    calibration = net.calibration or class_calibration(net)
    total = 0.0
    for part in slices(len(weight), batch_size):
        log_lik = _of_slopes(net, calibration, moments[..., part], y[part]) @ weight[part]
        total += float(log_lik[-1])
        scores = log_lik[:-1]
        if calibration.slope_scores is not None:
            scores = scores + calibration.slope_scores * 2 ** (-weight[part].sum() / HALF_LIFE)
        calibration = calibration._replace(slope=best_slope(scores), slope_scores=scores)
    net.calibration = calibration
    return total / float(weight.sum())


def _of_slopes(
    net: Network | Mixture, calibration: Calibration, moments: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Return log-likelihoods of the mixture (slopes + 1, rows), at last with the present slope."""
    n_members, n_outputs, n_rows = moments.shape[1:]
    outputs: Any = net.outputs
    slope = np.append(SLOPES, calibration.slope)[:, None, None, None]
    mixed = np.empty((len(slope), n_rows))
    for part in slices(n_rows, max(1, BLOCK_ELEMENTS // (len(slope) * n_members * n_outputs))):
        mu_z, var_z = moments[..., part]
        if calibration.usual_var is not None:
            var_z = var_z * far_from_data(var_z, calibration.usual_var)
        # (slopes, members, 1, rows)
        log_lik = outputs.log_likelihood(slope * mu_z, var_z + net.noise_var, y[part])
        mixed[:, part] = np.logaddexp.reduce(log_lik[:, :, 0], axis=1) - math.log(n_members)
    return mixed
