"""The paper transcribed naively: Python floats, loops over units and weights, one row at a time.

Written from the equations, not from the engine, and without a thought for speed. Indices are those
of the paper: weight ``w[i][k]`` leads from unit k of a layer to unit i of the next. Covariances are
diagonal within a layer. Everything is out of place: functions return new layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sktagi.engine.activations import LEAKY_SLOPE
from sktagi.engine.covariance import OWN_SHARE

# --------------------------------------------------------------------------- products of Gaussians


def product_mean(mu_1, mu_2, cov_12=0.0):
    """E[X1 X2] (Eq. 3)."""
    return mu_1 * mu_2 + cov_12


def product_cov_with(mu_1, mu_2, cov_13, cov_23):
    """cov(X3, X1 X2) (Eq. 4)."""
    return cov_13 * mu_2 + cov_23 * mu_1


def product_cov(mu_1, mu_2, mu_3, mu_4, cov_13, cov_14, cov_23, cov_24):
    """cov(X1 X2, X3 X4) (Eq. 5)."""
    return (
        cov_13 * cov_24
        + cov_14 * cov_23
        + cov_13 * mu_2 * mu_4
        + cov_14 * mu_2 * mu_3
        + cov_23 * mu_1 * mu_4
        + cov_24 * mu_1 * mu_3
    )


def product_var(mu_1, var_1, mu_2, var_2, cov_12=0.0):
    """var(X1 X2) (Eq. 6)."""
    return (
        var_1 * var_2 + cov_12**2 + 2.0 * cov_12 * mu_1 * mu_2 + var_1 * mu_2**2 + var_2 * mu_1**2
    )


# ------------------------------------------------------------------------------------ activations


def _logistic(z):
    return 1.0 / (1.0 + math.exp(-z))


# phi and its derivative
ACTIVATIONS = {
    "identity": (lambda z: z, lambda z: 1.0),
    "relu": (lambda z: max(z, 0.0), lambda z: 1.0 if z > 0 else 0.0),
    "leaky_relu": (
        lambda z: z if z > 0 else LEAKY_SLOPE * z,
        lambda z: 1.0 if z > 0 else LEAKY_SLOPE,
    ),
    "tanh": (math.tanh, lambda z: 1.0 / math.cosh(z) ** 2),
    "logistic": (_logistic, lambda z: _logistic(z) * _logistic(-z)),
    "softplus": (lambda z: math.log(1.0 + math.exp(z)), _logistic),
}

# ----------------------------------------------------------------------------------------- layers


@dataclass
class OracleLayer:
    mu_w: list[list[float]]
    var_w: list[list[float]]
    mu_b: list[float]
    var_b: list[float]

    @property
    def n_in(self):
        return len(self.mu_w[0])

    @property
    def n_out(self):
        return len(self.mu_b)

    def copy(self):
        return OracleLayer(
            [list(row) for row in self.mu_w],
            [list(row) for row in self.var_w],
            list(self.mu_b),
            list(self.var_b),
        )


def from_arrays(mu, var):
    """A layer from arrays (n_in + 1, n_out) whose last row is the bias."""
    n_in, n_out = len(mu) - 1, len(mu[0])
    return OracleLayer(
        [[float(mu[k][i]) for k in range(n_in)] for i in range(n_out)],
        [[float(var[k][i]) for k in range(n_in)] for i in range(n_out)],
        [float(mu[n_in][i]) for i in range(n_out)],
        [float(var[n_in][i]) for i in range(n_out)],
    )


def to_lists(layer):
    """(mu, var) as nested lists (n_in + 1, n_out) whose last row is the bias."""
    mu = [[layer.mu_w[i][k] for i in range(layer.n_out)] for k in range(layer.n_in)]
    var = [[layer.var_w[i][k] for i in range(layer.n_out)] for k in range(layer.n_in)]
    return [*mu, list(layer.mu_b)], [*var, list(layer.var_b)]


# ---------------------------------------------------------------------------------------- forward


@dataclass
class Pass:
    """What one row's forward pass leaves behind, a list over layers for each."""

    mu_z: list  # hidden units that a layer makes
    var_z: list
    mu_a: list  # activation units that enter a layer
    var_a: list
    jac: list  # of those activation units; None in the first layer


def forward_row(layers, activation, x, x_std=None):
    phi, slope = ACTIVATIONS[activation]
    mu_a = [float(value) for value in x]
    var_a = [0.0] * len(mu_a) if x_std is None else [float(s) ** 2 for s in x_std]
    jac = None
    record = Pass([], [], [], [], [])
    for j, layer in enumerate(layers):
        if j > 0:  # Eq. 11-12
            jac = [slope(m) for m in mu_z]  # noqa: F821 (set by the layer below)
            mu_a = [phi(m) for m in mu_z]  # noqa: F821
            var_a = [d * v * d for d, v in zip(jac, var_z, strict=True)]  # noqa: F821
        mu_z, var_z = [], []
        for i in range(layer.n_out):  # Eq. 8-10, with the moments of products of Eq. 3 and 6
            mean, var = layer.mu_b[i], layer.var_b[i]
            for k in range(layer.n_in):
                mu_w, var_w = layer.mu_w[i][k], layer.var_w[i][k]
                mean += product_mean(mu_w, mu_a[k])
                var += product_var(mu_w, var_w, mu_a[k], var_a[k])
            mu_z.append(mean)
            var_z.append(var)
        record.mu_z.append(mu_z)
        record.var_z.append(var_z)
        record.mu_a.append(mu_a)
        record.var_a.append(var_a)
        record.jac.append(jac)
    return record


# -------------------------------------------------------------------------------------- inference


def output_step(mu_z, var_z, y, sigma_v, observed=None):
    """Posterior of the output units (Eq. 14); units that are not observed keep their prior."""
    mu_post, var_post = [], []
    for i in range(len(mu_z)):
        if observed is not None and not observed[i]:
            mu_post.append(mu_z[i])
            var_post.append(var_z[i])
            continue
        var_y = var_z[i] + sigma_v**2
        cov_zy = var_z[i]
        mu_post.append(mu_z[i] + cov_zy / var_y * (float(y[i]) - mu_z[i]))
        var_post.append(var_z[i] - cov_zy / var_y * cov_zy)
    return mu_post, var_post


def learn_row(layers, activation, x, y, sigma_v, x_std=None, observed=None):
    """The posterior after one row (Eq. 14-16)."""
    record = forward_row(layers, activation, x, x_std)
    mu_post, var_post = output_step(record.mu_z[-1], record.var_z[-1], y, sigma_v, observed)
    posterior = [layer.copy() for layer in layers]
    for j in reversed(range(len(layers))):
        layer, new = layers[j], posterior[j]
        mu_next, var_next = record.mu_z[j], record.var_z[j]
        mu_a, jac = record.mu_a[j], record.jac[j]
        d_mu = [mu_post[i] - mu_next[i] for i in range(layer.n_out)]
        d_var = [var_post[i] - var_next[i] for i in range(layer.n_out)]
        for i in range(layer.n_out):  # Eq. 16: J_theta = cov(theta, Z+) / var(Z+)
            for k in range(layer.n_in):
                gain = layer.var_w[i][k] * mu_a[k] / var_next[i]
                new.mu_w[i][k] += gain * d_mu[i]
                new.var_w[i][k] += gain * d_var[i] * gain
            gain = layer.var_b[i] / var_next[i]
            new.mu_b[i] += gain * d_mu[i]
            new.var_b[i] += gain * d_var[i] * gain
        if j == 0:
            break
        mu_post, var_post = [], []
        for k in range(layer.n_in):  # Eq. 15: J_Z = cov(Z, Z+) / var(Z+)
            mean, var = record.mu_z[j - 1][k], record.var_z[j - 1][k]
            cov_az = jac[k] * record.var_z[j - 1][k]
            for i in range(layer.n_out):
                gain = cov_az * layer.mu_w[i][k] / var_next[i]
                mean += gain * d_mu[i]
                var += gain * d_var[i] * gain
            mu_post.append(mean)
            var_post.append(var)
    return posterior


def sum_over_rows(layers, activation, xs, ys, sigma_v, x_stds=None, observed=None):
    """What a batch does by the paper's sum: each row starts from the same prior.

    Returns layers whose means are the prior's plus the sum of what each row adds to them, and whose
    variances are the prior's minus the sum of what each row takes away (which may be negative).
    """
    total = [layer.copy() for layer in layers]
    for n in range(len(xs)):
        x_std = None if x_stds is None else x_stds[n]
        seen = None if observed is None else observed[n]
        posterior = learn_row(layers, activation, xs[n], ys[n], sigma_v, x_std, seen)
        for old, new, out in zip(layers, posterior, total, strict=True):
            for i in range(old.n_out):
                for k in range(old.n_in):
                    out.mu_w[i][k] += new.mu_w[i][k] - old.mu_w[i][k]
                    out.var_w[i][k] += new.var_w[i][k] - old.var_w[i][k]
                out.mu_b[i] += new.mu_b[i] - old.mu_b[i]
                out.var_b[i] += new.var_b[i] - old.var_b[i]
    return total


# --------------------------------------------------------------------------------- rows of a batch


def _records(layers, activation, xs, x_stds):
    return [
        forward_row(layers, activation, x, None if x_stds is None else x_stds[n])
        for n, x in enumerate(xs)
    ]


def hidden_correlation(layers, activation, xs, x_stds=None):
    """rho_ij = c_ij / (d_i d_j) of what enters the last layer, entry by entry; None if linear.

    c_ij = sum_k S_k a_ik a_jk + rho_ij sum_k m_k s_ik s_jk, where S_k and m_k are averages over the
    units that a layer makes. The variances d^2 are the same for i = j and rho_ii = 1. Errors of the
    inputs are independent between rows: rho is zero in the first layer.
    """
    if len(layers) == 1:
        return None
    n_rows = len(xs)
    records = _records(layers, activation, xs, x_stds)
    rho = [[0.0] * n_rows for _ in range(n_rows)]
    for depth, layer in enumerate(layers[:-1]):
        n_out = layer.n_out
        mean_b = sum(layer.var_b) / n_out
        mean_s, mean_m = [], []
        for k in range(layer.n_in):
            mean_s.append(sum(layer.var_w[o][k] for o in range(n_out)) / n_out)
            squares = sum(layer.mu_w[o][k] ** 2 for o in range(n_out)) / n_out
            mean_m.append(squares + mean_s[k])
        cov = [[mean_b] * n_rows for _ in range(n_rows)]
        var = [mean_b] * n_rows
        for i in range(n_rows):
            a_i, v_i = records[i].mu_a[depth], records[i].var_a[depth]
            for k in range(layer.n_in):
                var[i] += mean_s[k] * a_i[k] ** 2 + mean_m[k] * v_i[k]
            for j in range(n_rows):
                a_j, v_j = records[j].mu_a[depth], records[j].var_a[depth]
                for k in range(layer.n_in):
                    cov[i][j] += mean_s[k] * a_i[k] * a_j[k]
                    cov[i][j] += rho[i][j] * mean_m[k] * math.sqrt(v_i[k] * v_j[k])
        rho = [
            [cov[i][j] / math.sqrt(var[i] * var[j]) for j in range(n_rows)] for i in range(n_rows)
        ]
    return rho


def output_covariance(layers, activation, xs, x_stds=None, outputs=None):
    """Covariance between rows of what they observe, as two lists [observation][row][row].

    ``outputs[i][h]`` is the output that observation h of row i is of; None: all, in their order.
    The last layer is not averaged. A share of a row's variance, and whatever the errors of its
    inputs add to it, is its own: exact copies of the row share it, and no other row does.
    """
    n_rows, layer = len(xs), layers[-1]
    records = _records(layers, activation, xs, x_stds)
    rho = hidden_correlation(layers, activation, xs, x_stds)
    share = 0.0 if rho is None else OWN_SHARE
    if outputs is None:
        outputs = [list(range(layer.n_out)) for _ in range(n_rows)]
    shared, own = [], []
    for h in range(len(outputs[0])):
        shared.append([[0.0] * n_rows for _ in range(n_rows)])
        own.append([[0.0] * n_rows for _ in range(n_rows)])
        for i in range(n_rows):
            for j in range(n_rows):
                o = outputs[i][h]
                if o != outputs[j][h]:
                    continue
                a_i, a_j = records[i].mu_a[-1], records[j].mu_a[-1]
                cov = layer.var_b[o]
                for k in range(layer.n_in):
                    cov += layer.var_w[o][k] * a_i[k] * a_j[k]
                    if rho is not None:
                        std = math.sqrt(records[i].var_a[-1][k] * records[j].var_a[-1][k])
                        cov += rho[i][j] * (layer.mu_w[o][k] ** 2 + layer.var_w[o][k]) * std
                shared[h][i][j] = (1 - share) * cov
                if i == j:
                    own[h][i][j] = records[i].var_z[-1][o] - shared[h][i][j]
                elif x_stds is None and list(xs[i]) == list(xs[j]):
                    own[h][i][j] = share * cov
    return shared, own


def summed_step(layers, activation, xs, nu, x_stds=None):
    """K nu, [row][output]: the part of K that comes through hidden units has the correlation of an
    average output, and the variances of each output."""
    n_rows, layer = len(xs), layers[-1]
    records = _records(layers, activation, xs, x_stds)
    rho = hidden_correlation(layers, activation, xs, x_stds)
    units = range(layer.n_in)

    def moment(o, k):
        return layer.mu_w[o][k] ** 2 + layer.var_w[o][k]

    def std(i, k):
        return math.sqrt(records[i].var_a[-1][k])

    def through_hidden(i, o):
        return sum(moment(o, k) * std(i, k) ** 2 for k in units)

    average = [sum(moment(o, k) for o in range(layer.n_out)) / layer.n_out for k in units]
    step = [[0.0] * layer.n_out for _ in range(n_rows)]
    for i in range(n_rows):
        for o in range(layer.n_out):
            for j in range(n_rows):
                a_i, a_j = records[i].mu_a[-1], records[j].mu_a[-1]
                cov = layer.var_b[o] + sum(layer.var_w[o][k] * a_i[k] * a_j[k] for k in units)
                if i == j:
                    cov = records[i].var_z[-1][o]
                elif rho is not None:
                    alike = sum(average[k] * std(i, k) * std(j, k) for k in units)
                    size = sum(average[k] * std(i, k) ** 2 for k in units)
                    size *= sum(average[k] * std(j, k) ** 2 for k in units)
                    corr = rho[i][j] * alike / math.sqrt(size) if size > 0 else 0.0
                    cov += corr * math.sqrt(through_hidden(i, o) * through_hidden(j, o))
                step[i][o] += cov * nu[j][o]
    return step


# --------------------------------------------------------------------------- class tree (App. C)


def normal_cdf(value):
    return 0.5 * math.erfc(-value / math.sqrt(2.0))


def class_digits(n_classes):
    """The H binary digits of each class, as strings."""
    n_levels = 1
    while 2**n_levels < n_classes:
        n_levels += 1
    return [format(c, f"0{n_levels}b") for c in range(n_classes)]


def tree_nodes(n_classes):
    """Prefixes that some class passes, level by level: y, y_0, y_1, y_00, ..."""
    nodes = []
    for level in range(len(class_digits(n_classes)[0])):
        for digits in class_digits(n_classes):
            if digits[:level] not in nodes:
                nodes.append(digits[:level])
    return nodes


def class_target(n_classes, label):
    """Targets and observed mask over all nodes: (-1)^digit along the path of the class."""
    nodes = tree_nodes(n_classes)
    digits = class_digits(n_classes)[label]
    target, observed = [0.0] * len(nodes), [False] * len(nodes)
    for level, digit in enumerate(digits):
        node = nodes.index(digits[:level])
        target[node] = (-1.0) ** int(digit)
        observed[node] = True
    return target, observed


def path_probabilities(mu_y, var_y, n_classes, alpha):
    """Marginal probability of each leaf that a class has, as in App. C; not normalised."""
    nodes = tree_nodes(n_classes)
    out = []
    for digits in class_digits(n_classes):
        product = 1.0
        for level, digit in enumerate(digits):
            node = nodes.index(digits[:level])
            argument = mu_y[node] / math.sqrt(alpha**2 + var_y[node])
            product *= normal_cdf((-1.0) ** int(digit) * argument)
        out.append(product)
    return out


def class_probabilities(mu_y, var_y, n_classes, alpha):
    products = path_probabilities(mu_y, var_y, n_classes, alpha)
    return [p / sum(products) for p in products]
