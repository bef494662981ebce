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

The temperature multiplies the variances of the parameters, which forgetting keeps larger than the
data would. It is not lowered unless the rows speak clearly for less. Both belong to predictions
alone: what is learnt later goes on from the posterior as it was learnt.
"""

from __future__ import annotations

import numpy as np

from .learning import Network, Rows, predict_moments
from .training import MIN_ROWS_FOR_NOISE, best_noise, own_moments

__all__ = ["calibrate"]

TEMPERATURES = 0.5 ** np.arange(9)
# Log-likelihood that a lower temperature has to gain.
CLEAR_GAIN = 4.0
# Growth of the variances, times the number of rows that a member has held out.
OPTIMISM = 8.0
# How far from the noise of the members to look for that of the mixture: a factor.
REACH = 1000.0


def calibrate(net: Network, data: Rows, validation: list[np.ndarray]) -> None:
    """Set the temperature and the scale of the noise of predictions, in place."""
    if min(map(len, validation)) < MIN_ROWS_FOR_NOISE:
        return
    held = data.take(np.concatenate(validation))
    owner = np.repeat(np.arange(len(validation)), list(map(len, validation)))
    means = predict_moments(net, held.x, held.var_x)[0].astype(np.float64)
    spread = 2 * means.var(axis=0)
    mu_z = means[owner, np.arange(len(owner))]
    start = net.noise_var.mean(axis=0)
    trials = []
    for temperature in TEMPERATURES:
        net.temperature = temperature
        own = own_moments(net.reported(), data, validation)
        var_z = spread + np.concatenate([var_z for _, _, var_z in own])
        noise = best_noise(net.outputs, mu_z, var_z, held.y, held.weight, start, reach=REACH)
        log_lik = net.outputs.log_likelihood(mu_z, var_z + noise, held.y)
        trials.append((held.weight @ log_lik.sum(axis=-1), temperature, noise))
    top = max(score for score, _, _ in trials)
    _, temperature, noise = next(trial for trial in trials if trial[0] >= top - CLEAR_GAIN)
    growth = 1 + OPTIMISM * len(validation) / len(owner)
    net.temperature = float(temperature * growth)
    net.noise_var[...] = start  # one noise for all members
    net.noise_scale = noise * growth / start
