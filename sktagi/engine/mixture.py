"""Unlike members: networks of several kinds, weighted by the rows that they hold out.

No one network is right everywhere: a linear one for linear data, a smooth one for few rows, one
that sees pieces of inputs for bends and waves, a deep one for many rows. A member of the mixture is
one network of each kind, all with the same rows held out, and its output is their weighted mean:

    mu = sum_k w_k mu_k,   var = sum_k w_k var_k + w_k^2 (mu_k - mu)^2

So a mixture predicts and is calibrated as members that are alike are. The weights of a target are
those with which the errors of held-out rows are smallest; of classes, those with which these rows
are most likely (stacking: Wolpert, 1992; Breiman, 1996). None is negative, and they sum to one.

Weights of a target are coefficients of a mean, no probabilities that a kind is right. If kinds err
independently of each other, each by what it is apart from the mean, the mean errs by w_k^2 of it:
a kind that is far off, and has a weight of a few percent because others err in the other direction,
makes it little worse. Of classes, w_k stands in the place of w_k^2, as in any mixture: a kind that
is apart makes a probability less extreme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .noise_network import NoiseNetwork
from .observations import Gaussian, Members, ObservationModel
from .posterior import Calibration, Network, Reported
from .predicting import held_out_moments, weighted_moments
from .rows import Rows

__all__ = ["Evidence", "HeldOutKinds", "Mixture", "best_weights", "predict_kinds", "reweighted"]

# Equal weights count as so many rows: with few rows held out, chance chooses.
PRIOR_ROWS = 1.0
N_STEPS = 50  # of the search for weights, at most
TAILS = 4.0  # degrees of freedom of errors
PRECISION = 1e-4  # of a weight
SAME_SCALE = 0.99  # of squared errors, from one step to the next
HALF_LIFE = 500.0  # rows of a stream after which errors count half
LEAST_STEP = 0.01  # of a coefficient


class Evidence(NamedTuple):
    """What speaks for the weights of targets: errors of rows that were not learned."""

    gram: np.ndarray  # (n_outputs, n_kinds, n_kinds): sums of products of errors
    n_rows: np.ndarray  # (n_outputs,): their number; older ones of a stream fade

    @classmethod
    def empty(cls, n_kinds: int, n_outputs: int) -> Evidence:
        """Return the evidence of no rows."""
        return cls(np.zeros((n_outputs, n_kinds, n_kinds)), np.zeros(n_outputs))

    def of(self, kinds: np.ndarray) -> Evidence:
        """Return the evidence for some of the kinds."""
        return self._replace(gram=self.gram[:, kinds][:, :, kinds])


@dataclass(eq=False)
class Mixture(Reported):
    """The posterior of unlike members."""

    networks: list[Network]  # of each kind, with as many members
    names: list[str]  # of the kinds
    weight: np.ndarray  # (n_kinds, n_outputs or 1, 1): float64
    calibration: Calibration | None = None
    noise_net: NoiseNetwork | None = None
    evidence: Evidence | None = None  # for the weights of targets

    is_full = False

    @property
    def n_members(self) -> int:
        """Number of members of each kind."""
        return self.networks[0].n_members

    @property
    def n_inputs(self) -> int:
        """Number of inputs, without the unit of the bias."""
        return self.networks[0].n_inputs

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the means."""
        return self.networks[0].dtype

    @property
    def outputs(self) -> ObservationModel:
        """The observation model of all kinds."""
        return self.networks[0].outputs

    @outputs.setter
    def outputs(self, outputs: ObservationModel) -> None:
        for net in self.networks:
            net.outputs = outputs

    @property
    def apart(self) -> np.ndarray:
        """Weights of (mu_k - mu)^2 in the variance, in the shape of ``weight``."""
        return np.square(self.weight) if isinstance(self.outputs, Gaussian) else self.weight

    @property
    def noise_is_learned(self) -> bool:
        """Whether the observation noise is learned."""
        return self.networks[0].noise_is_learned

    @property
    def noise_var(self) -> np.ndarray:
        """Noise variances that the kinds have learned on average, (members, n_noise, 1)."""
        pairs = zip(self.weight, self.networks, strict=True)
        return np.add.reduce([weight * net.noise_var for weight, net in pairs])

    @property
    def rows_learned(self) -> np.ndarray:
        """Weight of the rows that the noise was learned from, as in ``Network``."""
        return self.networks[0].rows_learned

    def share_noise(self) -> None:
        """Give all members of a kind the noise that they have on average, in place."""
        for net in self.networks:
            net.share_noise()

    def tempered(self, factor: float) -> Mixture:
        """Return the mixture with variances of its parameters times ``factor``."""
        return self._with([net.tempered(factor) for net in self.networks])

    def reported(self) -> Mixture:
        """Return the posterior that predictions use: calibrated, if it is."""
        return self if self.calibration is None else self.tempered(self.calibration.temperature)

    def rescale_inputs(self, change: Any) -> None:
        """Say the same of inputs in new units, in place."""
        for net in self.networks:
            net.rescale_inputs(change)

    def astype(self, dtype: np.typing.DTypeLike) -> Mixture:
        """Return the mixture with parameters in another precision, or itself."""
        if self.dtype == dtype:
            return self
        return self._with([net.astype(dtype) for net in self.networks])

    def copy(self) -> Mixture:
        """Return a mixture with arrays of its own."""
        return self._with([net.copy() for net in self.networks])

    def members(self, numbers: Members) -> Mixture:
        """Return some of the members of each kind."""
        return self._with([net.members(numbers) for net in self.networks])

    def is_sound(self) -> bool:
        """Whether all numbers are finite and all variances positive."""
        kinds = all(net.is_sound() for net in self.networks)
        return kinds and (self.noise_net is None or self.noise_net.is_sound())

    def without(self, lightest: float) -> Mixture:
        """Return the mixture without kinds whose weights are all below ``lightest``."""
        heavy = np.flatnonzero(self.weight.max(axis=(1, 2)) >= lightest)
        if len(heavy) == len(self.networks):
            return self
        weight = self.weight[heavy]
        return replace(
            self,
            networks=[self.networks[k] for k in heavy],
            names=[self.names[k] for k in heavy],
            weight=weight / weight.sum(axis=0),
            evidence=None if self.evidence is None else self.evidence.of(heavy),
        )

    def _with(self, networks: list[Network]) -> Mixture:
        return replace(self, networks=networks)


# Weights


class HeldOutKinds(NamedTuple):
    """What the kinds predict of the rows that a member holds out."""

    rows: Rows
    outputs: ObservationModel  # of this member
    mu_z: np.ndarray  # (n_kinds, n_outputs, rows)
    var_y: np.ndarray  # (n_kinds, n_outputs, rows): with the noise


def predict_kinds(
    networks: Sequence[Network], data: Rows, validation: list[np.ndarray]
) -> Iterator[HeldOutKinds]:
    """Yield what the kinds predict of the rows that each member holds out.

    A row that several members hold out counts once in all.
    """
    numbers = np.concatenate(validation)
    n_holders = np.maximum(np.bincount(numbers, minlength=len(data.weight)), 1)
    data = data._replace(weight=data.weight / n_holders.astype(data.weight.dtype))
    moments = [held_out_moments(net, data, validation) for net in networks]
    for member, of_kinds in enumerate(zip(*moments, strict=True)):
        rows = of_kinds[0][0]
        noise = [rows.noise(net.noise_var[member]) for net in networks]
        mu_z = np.stack([mu for _, mu, _ in of_kinds]).astype(np.float64)
        pairs = zip(of_kinds, noise, strict=True)
        var_y = np.stack([var.astype(np.float64) + more for (_, _, var), more in pairs])
        yield HeldOutKinds(rows, networks[0].outputs.members(member), mu_z, var_y)


def best_weights(held: Sequence[HeldOutKinds]) -> tuple[np.ndarray, Evidence | None]:
    """Return the weights of the kinds (n_kinds, n_outputs or 1, 1), by the rows held out.

    Of targets, with the evidence for them.
    """
    sound = np.flatnonzero(np.all([np.isfinite(a.mu_z).all(axis=(1, 2)) for a in held], axis=0))
    n_kinds = len(held[0].mu_z)
    if 0 < len(sound) < n_kinds:  # a kind whose numbers overflowed has no weight
        some = [a._replace(mu_z=a.mu_z[sound], var_y=a.var_y[sound]) for a in held]
        of_sound, _ = best_weights(some)
        weight = np.zeros((n_kinds, *of_sound.shape[1:]))
        weight[sound] = of_sound
        return weight, None
    if not isinstance(held[0].outputs, Gaussian):
        return _most_likely(held)[:, None, None], None
    error = np.concatenate([one.rows.y.T - one.mu_z for one in held], axis=-1)
    weight = np.concatenate([one.rows.weight for one in held]).astype(np.float64)
    found = [_least_error(error[:, k], weight) for k in range(error.shape[1])]
    weights, grams, totals = (np.stack(values) for values in zip(*found, strict=True))
    return weights.T[..., None], Evidence(grams, totals)


def reweighted(net: Mixture, error: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, Evidence]:
    """Return weights and evidence after rows of a stream, each predicted before it was learned.

    ``error`` (n_kinds, n_outputs, rows) are those of the kinds, NaN where not observed. What older
    rows say fades.
    """
    n_kinds, n_outputs, _ = error.shape
    gram, total = net.evidence or Evidence.empty(n_kinds, n_outputs)
    weights = np.broadcast_to(net.weight, (n_kinds, n_outputs, 1)).copy()
    kept = 2 ** (-float(weight.sum()) / HALF_LIFE)
    gram, total = kept * gram, kept * total
    for k in range(n_outputs):
        known = ~np.isnan(error[0, k])
        e, row_weight = error[:, k, known], weight[known].astype(np.float64)
        w = weights[:, k, 0]
        scale = w @ gram[k] @ w / total[k] if total[k] > 0 else np.inf
        share = row_weight * _share(np.square(w @ e), scale)
        gram[k] += (e * share) @ e.T
        total[k] += row_weight.sum()
        if total[k] > 0:
            weights[:, k, 0] = _weights_of(gram[k] / total[k], total[k], w)
    return weights, Evidence(gram, total)


def _least_error(error: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the weights (n_kinds,) with which errors (n_kinds, rows) are smallest.

    That is the most likely mean if errors have Student's distribution (EM): large ones count less,
    or a few outliers would choose. Rows with little noise do not count more: a few of them would
    choose. Also returns the sums of products of errors, and the weight of the rows.
    """
    known = ~np.isnan(error[0])
    error, weight = error[:, known], weight[known]
    n_kinds, n_rows = len(error), float(weight.sum())
    w, gram = np.full(n_kinds, 1 / n_kinds), np.zeros((n_kinds, n_kinds))
    if not n_rows:
        return w, gram, 0.0
    share, scale = weight, np.inf
    for _ in range(N_STEPS):
        left = np.square(w @ error)
        before, scale = scale, share @ left / n_rows
        share = weight * _share(left, scale)
        gram = (error * share) @ error.T
        new = _weights_of(gram / n_rows, n_rows)
        moved, w = np.abs(new - w).max(), new
        # As long as the scale falls, outliers are still found, though weights may not move yet.
        if moved < PRECISION and scale >= SAME_SCALE * before:
            break
    return w, gram, n_rows


def _share(squares: np.ndarray, scale: float) -> np.ndarray:
    """Return how much rows count whose squared errors have a scale (Student's distribution)."""
    return (TAILS + 1) / (TAILS + squares / max(scale, np.finfo(np.float64).tiny))


def _weights_of(gram: np.ndarray, n_rows: float, guess: np.ndarray | None = None) -> np.ndarray:
    """Return weights (n_kinds,) for mean products of errors, of so many rows."""
    ridge = PRIOR_ROWS / (n_rows + PRIOR_ROWS) * gram.diagonal().min()
    return least_on_simplex(gram + ridge * np.eye(len(gram)), guess)


def least_on_simplex(gram: np.ndarray, guess: np.ndarray | None = None) -> np.ndarray:
    """Return the w with w' gram w least, among those that are not negative and sum to one.

    For a few kinds every set of those that have weight is tried, that of a ``guess`` first: within
    it, w is proportional to the row sums of the inverse. If no other kind would make it less, that
    set is the right one, as the function is convex.
    """
    n = len(gram)
    best, least = np.full(n, 1 / n), np.inf
    if not np.isfinite(gram).all():
        return best
    gram = gram / max(gram.diagonal().max(), np.finfo(np.float64).tiny)
    sets = [list(chosen) for size in range(1, n + 1) for chosen in combinations(range(n), size)]
    if guess is not None:
        sets.insert(0, np.flatnonzero(guess).tolist())
    for chosen in sets:
        w = _least_within(gram, chosen)
        if w is None:
            continue
        slope = gram @ w
        value = w @ slope
        if value < least:
            best, least = w, value
            others = [k for k in range(n) if k not in chosen]
            if (slope[others] > value).all():
                break
    return best


def _least_within(gram: np.ndarray, chosen: list[int]) -> np.ndarray | None:
    """Return the w of ``least_on_simplex`` if only ``chosen`` kinds may have weight, and all do."""
    w = np.ones(1)
    if len(chosen) > 1:
        some = gram[np.ix_(chosen, chosen)]
        w = np.linalg.lstsq(some, np.ones(len(chosen)), rcond=None)[0]
        if not (w.min() >= 0 and w.sum() > 0):
            return None
    trial = np.zeros(len(gram))
    trial[chosen] = w / w.sum()
    return trial


def _most_likely(held: Sequence[HeldOutKinds]) -> np.ndarray:
    """Return the weights (n_kinds,) with which held-out rows are most likely.

    Kinds differ in how steep their outputs are, which the slope of the mixture makes up for later
    (``class_calibration``): here their coefficients need not sum to one. Their log-likelihood is
    followed along each of them, with smaller and smaller steps.
    """
    n_kinds = len(held[0].mu_z)

    def score(coefs: np.ndarray) -> float:
        slope = coefs.sum()
        if slope <= 0:
            return -np.inf
        weight = coefs / slope
        total = PRIOR_ROWS * np.log(np.maximum(weight, PRECISION)).mean()
        for rows, outputs, mu_z, var_y in held:
            mu, var = weighted_moments(weight[:, None, None], mu_z, var_y)
            total += float((outputs.log_likelihood(slope * mu, var, rows.y) @ rows.weight).sum())
        return total

    best, step = np.full(n_kinds, 1 / n_kinds), 0.5
    top = score(best)
    for _ in range(N_STEPS):
        before = top
        for kind in range(n_kinds):
            for change in (step, -step):
                trial = best.copy()
                trial[kind] = max(trial[kind] + change, 0.0)
                value = score(trial)
                if value > top:
                    best, top = trial, value
        if top == before:
            step /= 2
            if step < LEAST_STEP:
                break
    return best / best.sum()
