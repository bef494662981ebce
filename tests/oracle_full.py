"""Full covariances written out: product terms, F matrices, inverses; small networks only.

A layer is ``(mu, cov)``: the means of its parameters and their covariance, in the order of an array
(n_in + 1, n_out) whose last row is the bias, row by row. Several rows are one observation: their
units are stacked into one vector, row by row.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import oracle

from sktagi.engine.activations import ACTIVATIONS, activate


def _product_terms(mu, cov, pairs):
    """Moments of the products X_i X_j of a Gaussian vector (Eq. 3-6).

    Returns their mean, their covariance and their covariance with the vector itself.
    """
    i, j = np.array(pairs).T
    mean = oracle.product_mean(mu[i], mu[j], cov[i, j])
    c13, c14 = cov[np.ix_(i, i)], cov[np.ix_(i, j)]
    c23, c24 = cov[np.ix_(j, i)], cov[np.ix_(j, j)]
    m1, m2, m3, m4 = mu[i][:, None], mu[j][:, None], mu[i][None], mu[j][None]
    covariance = oracle.product_cov(m1, m2, m3, m4, c13, c14, c23, c24)
    with_vector = oracle.product_cov_with(m1, m2, cov[i], cov[j])
    return mean, covariance, with_vector


def _layer_matrices(n_rows, n_in, n_out, first_theta, first_a):
    """Pairs (parameter, unit) of the product terms, F_wa, and the parameters that are biases."""
    pairs, f_wa = [], []
    biases = []
    for row in range(n_rows):
        for o in range(n_out):
            biases.append(first_theta + n_in * n_out + o)
            for k in range(n_in):
                pairs.append((first_theta + k * n_out + o, first_a + row * n_in + k))
                f_wa.append(row * n_out + o)
    selected = np.zeros((n_rows * n_out, len(pairs)))
    selected[f_wa, np.arange(len(pairs))] = 1
    return pairs, selected, biases


def _next_units(mu, cov, pairs, f_wa, biases):
    """Mean of Z+, its covariance, and its covariance with the vector (mu, cov) (Eq. 8-10)."""
    mu_wa, cov_wa, wa_vector = _product_terms(mu, cov, pairs)
    mean = f_wa @ mu_wa + mu[biases]
    wa_b = f_wa @ wa_vector[:, biases]
    covariance = f_wa @ cov_wa @ f_wa.T + cov[np.ix_(biases, biases)] + wa_b + wa_b.T
    return mean, covariance, f_wa @ wa_vector + cov[biases]


def _stack(*blocks):
    size = sum(len(block) for block in blocks)
    out, start = np.zeros((size, size)), 0
    for block in blocks:
        out[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return out


def forward(layers, activation, x, cov_x):
    """For each layer: moments of the units before and after it, and the covariances between."""
    phi = partial(activate, ACTIVATIONS[activation])
    n_rows, n_in = x.shape
    mu_a, cov_a, cov_az = x.ravel(), _stack(*cov_x), None
    mu_z = cov_z = None
    record = []
    for j, (mu, cov) in enumerate(layers):
        if j > 0:  # Eq. 11-12
            mu_a, _, slope = phi(mu_z, np.diag(cov_z).copy())
            jac = np.diag(slope)
            cov_a, cov_az = jac @ cov_z @ jac.T, jac @ cov_z
            n_in = len(mu_a) // n_rows
        n_out = len(mu) // (n_in + 1)
        pairs, f_wa, biases = _layer_matrices(n_rows, n_in, n_out, 0, len(mu))
        joint_mu = np.concatenate([mu, mu_a])
        mu_next, cov_next, with_joint = _next_units(
            joint_mu, _stack(cov, cov_a), pairs, f_wa, biases
        )
        cov_next_theta = with_joint[:, : len(mu)]
        cov_next_z = None
        if j > 0:  # cov(Z+, Z) = F_wa cov(W A, Z), by Eq. 4 with W independent of Z
            theta, unit = np.array(pairs).T
            cov_next_z = f_wa @ (mu[theta][:, None] * cov_az[unit - len(mu)])
        record.append((mu_z, cov_z, mu_next, cov_next, cov_next_theta, cov_next_z))
        mu_z, cov_z = mu_next, cov_next
    return record


def learn(layers, activation, x, cov_x, y, noise_var, observed=None):
    """The posterior after rows that are observed together (Eq. 14-16), layer by layer."""
    record = forward(layers, activation, x, cov_x)
    mu_z, cov_z = record[-1][2:4]
    h = np.eye(len(mu_z)) if observed is None else np.eye(len(mu_z))[np.ravel(observed)]
    y = np.ravel(y) if observed is None else np.ravel(y)[np.ravel(observed)]
    noise = np.diag(np.broadcast_to(noise_var, len(mu_z)))
    cov_y = h @ (cov_z + noise) @ h.T
    gain = cov_z @ h.T @ np.linalg.inv(cov_y)  # Eq. 14
    mu_post, cov_post = mu_z + gain @ (y - h @ mu_z), cov_z - gain @ h @ cov_z
    posterior = []
    for (mu, cov), parts in zip(reversed(layers), reversed(record), strict=True):
        mu_z, cov_z, mu_next, cov_next, cov_next_theta, cov_next_z = parts
        # Rows may outnumber what a layer can tell apart: then Sigma_Z+ is singular.
        inverse = np.linalg.pinv(cov_next, rcond=1e-12, hermitian=True)
        gain = cov_next_theta.T @ inverse  # Eq. 16
        posterior.append(
            (mu + gain @ (mu_post - mu_next), cov + gain @ (cov_post - cov_next) @ gain.T)
        )
        if cov_next_z is not None:  # Eq. 15
            gain = cov_next_z.T @ inverse
            mu_post, cov_post = (
                mu_z + gain @ (mu_post - mu_next),
                cov_z + gain @ (cov_post - cov_next) @ gain.T,
            )
    return posterior[::-1]


def learn_networkwise(mu_theta, cov_theta, sizes, activation, x, cov_x, y, noise_var):
    """One-step inference of all parameters at once (Eq. 13), from one row.

    theta is one vector over all layers, with any covariance between them.
    """
    phi = partial(activate, ACTIVATIONS[activation])
    n_theta = len(mu_theta)
    mu = np.concatenate([mu_theta, x])
    cov = _stack(cov_theta, cov_x)
    first = 0
    for j in range(len(sizes) - 1):
        pairs, f_wa, biases = _layer_matrices(1, sizes[j], sizes[j + 1], first, n_theta)
        mu_z, cov_z, with_joint = _next_units(mu, cov, pairs, f_wa, biases)
        cov_z_theta = with_joint[:, :n_theta]
        first += (sizes[j] + 1) * sizes[j + 1]
        mu_a, jac = mu_z, np.eye(len(mu_z))
        if j < len(sizes) - 2:  # Eq. 11-12
            mu_a, _, slope = phi(mu_z, np.diag(cov_z).copy())
            jac = np.diag(slope)
        mu = np.concatenate([mu_theta, mu_a])
        cov = np.block(
            [[cov_theta, (jac @ cov_z_theta).T], [jac @ cov_z_theta, jac @ cov_z @ jac.T]]
        )
    cov_y_theta, cov_y = (
        cov[n_theta:, :n_theta],
        cov[n_theta:, n_theta:] + noise_var * np.eye(sizes[-1]),
    )
    gain = cov_y_theta.T @ np.linalg.inv(cov_y)
    return mu_theta + gain @ (y - mu[n_theta:]), cov_theta - gain @ cov_y_theta


def linear_regression(mu, cov, x, y, noise_var):
    """Conjugate posterior of y = x w + v, V ~ N(0, noise_var), w ~ N(mu, cov), in precisions."""
    noise_var = np.broadcast_to(noise_var, len(y))
    precision = np.linalg.inv(cov)
    precision_post = precision + (x / noise_var[:, None]).T @ x
    cov_post = np.linalg.inv(precision_post)
    return cov_post @ (precision @ mu + x.T @ (y / noise_var)), cov_post
