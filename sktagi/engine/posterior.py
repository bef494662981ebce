"""The posterior of a network's parameters: layers, their prior, forgetting; the network itself.

A layer's parameters are one Gaussian matrix, (n_in + 1, n_out); its last row is the bias, the
weight of a unit whose value is exactly 1. So the equations for weights serve biases too.

Several networks, the members, stand side by side along the first axis of every array, as in
``numpy.linalg``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from .activations import Activation
from .fast import are_finite, extremes, mean_of_first
from .observations import Members, ObservationModel
from .rescaling import Change, rescale_inputs, rescale_outputs, transform_full
from .shape import Shape

if TYPE_CHECKING:
    from .encoding import Encoding
    from .noise_network import NoiseNetwork

__all__ = [
    "Calibration", "FullLayer", "Layer", "Network", "Reported", "draw_prior", "forget",
    "full_prior",
]  # fmt: skip


class _ByMember:
    """Methods of both kinds of layers, on the arrays that have an axis of members."""

    BY_MEMBER: ClassVar[tuple[str, ...]]

    def _map(self, function: Callable[[np.ndarray], np.ndarray]) -> Self:
        raise NotImplementedError

    def copy(self) -> Self:
        """Return a layer with arrays of its own."""
        return self._map(np.copy)

    def members(self, numbers: Members) -> Self:
        """Return the layer of some members."""
        return self._map(lambda values: values[numbers])

    def assign(self, members: np.ndarray, other: Self, theirs: np.ndarray) -> None:
        """Take over the members ``theirs`` of another layer, in place."""
        for name in self.BY_MEMBER:
            getattr(self, name)[members] = getattr(other, name)[theirs]


@dataclass(eq=False)
class Layer(_ByMember):
    """Independent parameters of a layer."""

    BY_MEMBER: ClassVar[tuple[str, ...]] = ("mu", "var")

    mu: np.ndarray  # (..., n_in + 1, n_out): means
    var: np.ndarray  # (..., n_in + 1, n_out): variances S
    var_prior: np.ndarray  # (n_in + 1, 1): prior variances S_0, to which forgetting leads

    def _map(self, function: Callable[[np.ndarray], np.ndarray]) -> Layer:
        return Layer(function(self.mu), function(self.var), self.var_prior)

    def astype(self, dtype: np.typing.DTypeLike) -> Layer:
        """Return the layer in another precision."""
        return Layer(*(a.astype(dtype) for a in (self.mu, self.var, self.var_prior)))

    def tempered(self, factor: float) -> Layer:
        """Return the layer with variances times ``factor``."""
        return Layer(self.mu, self.var * self.mu.dtype.type(factor), self.var_prior)

    def rescale_inputs(self, change: Change) -> None:
        """Say the same of inputs in new units, in place."""
        rescale_inputs(self.mu, self.var, self.var_prior, change)

    def rescale_outputs(self, change: Change) -> None:
        """Say the same of outputs in new units, in place."""
        rescale_outputs(self.mu, self.var, self.var_prior, change)

    def loosen_bias(self, output: int, var: float) -> None:
        """Add to the variance of an output's bias, in place."""
        self.var[..., -1, output] += var

    def restart(self, outputs: np.ndarray) -> None:
        """Give the parameters of some outputs (n_out,) the variances of the prior, in place."""
        self.var[..., outputs] = self.var_prior


@dataclass(eq=False)
class FullLayer(_ByMember):
    """Correlated parameters of a layer: one covariance matrix in the place of variances."""

    BY_MEMBER: ClassVar[tuple[str, ...]] = ("mu", "cov", "fading")

    mu: np.ndarray  # (members, n_in + 1, n_out): means
    cov: np.ndarray  # (members, P, P): covariance of the P parameters, in the order of mu.ravel()
    var_prior: np.ndarray  # (n_in + 1, 1): prior variances S_0
    fading: np.ndarray  # (members,): half-lives that have passed and are not yet in cov

    def _map(self, function: Callable[[np.ndarray], np.ndarray]) -> FullLayer:
        cov, fading = function(self.cov), function(self.fading)
        return FullLayer(function(self.mu), cov, self.var_prior, fading)

    @property
    def var(self) -> np.ndarray:
        """Variances, in the shape and precision of the means."""
        return np.einsum("mii->mi", self.cov).reshape(self.mu.shape).astype(self.mu.dtype)

    def astype(self, dtype: np.typing.DTypeLike) -> FullLayer:
        """Return the layer in another precision."""
        arrays = (self.mu, self.cov, self.var_prior, self.fading)
        return FullLayer(*(a.astype(dtype) for a in arrays))

    def tempered(self, factor: float) -> FullLayer:
        """Return the layer with covariances times ``factor``."""
        return replace(self, cov=self.cov * self.mu.dtype.type(factor))

    def rescale_inputs(self, change: Change) -> None:
        """Say the same of inputs in new units, in place."""
        matrix = np.diag(np.append(change.ratio, 1.0))
        matrix[-1, :-1] = change.shift
        transform_full(self.mu, self.cov, matrix, np.ones(self.mu.shape[-1]))

    def rescale_outputs(self, change: Change) -> None:
        """Say the same of outputs in new units, in place."""
        self.mu[:, -1] -= change.shift
        transform_full(self.mu, self.cov, np.eye(self.mu.shape[-2]), 1 / change.ratio)

    def loosen_bias(self, output: int, var: float) -> None:
        """Add to the variance of an output's bias, in place."""
        n_out = self.mu.shape[-1]
        self.cov[:, output - n_out, output - n_out] += var

    def restart(self, outputs: np.ndarray) -> None:
        """Give the parameters of some outputs (n_out,) the covariance of the prior, in place."""
        prior = np.broadcast_to(self.var_prior, self.mu.shape[-2:])
        here = np.flatnonzero(np.broadcast_to(outputs, prior.shape))
        self.cov[:, here] = 0
        self.cov[:, :, here] = 0
        self.cov[:, here, here] = prior.ravel()[here]


class Calibration(NamedTuple):
    """Factors that predictions apply to a posterior, and learning does not (``calibration``)."""

    temperature: float  # factor of the parameters' variances
    noise_scale: np.ndarray  # (n_noise, 1): factor of the noise variance
    shape: Shape  # of standardised errors
    spread: float = 1.0  # factor of the variance of the members' means
    # Of classes (``class_calibration``)
    slope: float = 1.0  # factor of the outputs' means
    unknown: float = 1.0  # share of an output's variance that is not known of it
    slope_scores: np.ndarray | None = None  # of slopes, by the predictions of a stream
    usual_var: float | None = None  # of an output, at rows held out; None: not known


class Reported:
    """What predictions use of the posterior of some members."""

    noise_var: Any  # (members, n_noise, 1): float64
    calibration: Calibration | None

    @property
    def reported_noise(self) -> np.ndarray:
        """Noise variances that predictions use, in the shape of ``noise_var``."""
        return self.noise_var * (self.calibration.noise_scale if self.calibration else 1.0)

    def variance_of_mean(
        self, mu_z: np.ndarray, var_z: np.ndarray, *, learned: bool = False
    ) -> np.ndarray:
        """Return the variance of the mixture's mean that is reported, (n_outputs, rows).

        Moments are (members, n_outputs, rows): of the reported posterior, or as it was ``learned``.
        """
        temperature, spread = 1.0, 1.0
        if self.calibration is not None:
            temperature = self.calibration.temperature if learned else 1.0
            spread = self.calibration.spread
        # Law of total variance over the members.
        within = temperature * mean_of_first(var_z)
        if len(mu_z) == 1:
            return within
        return within + spread * mean_of_first(np.square(mu_z - mean_of_first(mu_z)))


@dataclass(eq=False)
class Network(Reported):
    """The posterior of the members: parameters and observation noise."""

    layers: Sequence[Layer | FullLayer]
    activation: Activation
    outputs: ObservationModel
    noise_var: np.ndarray  # (members, n_noise, 1): float64
    noise_is_learned: bool = False
    # (members, n_noise, 1): weight of the rows that the noise was learned from; sets its pace
    rows_learned: np.ndarray = field(default_factory=lambda: np.empty(0))
    calibration: Calibration | None = None
    # Noise of each row over ``noise_var``; a new one in the place of the old, never changed itself
    noise_net: NoiseNetwork | None = None
    encoding: Encoding | None = None  # what the first layer sees of the inputs; None: all as it is

    def __post_init__(self) -> None:
        if not self.rows_learned.size:
            self.rows_learned = np.zeros(self.noise_var.shape)

    @property
    def networks(self) -> Sequence[Network]:
        """The networks of unlike members (``mixture``): here all are alike."""
        return (self,)

    @property
    def n_inputs(self) -> int:
        """Number of inputs, without the unit of the bias."""
        if self.encoding is not None:
            return self.encoding.n_inputs
        return self.layers[0].mu.shape[-2] - 1

    @property
    def is_full(self) -> bool:
        """Whether parameters of a layer are correlated."""
        return isinstance(self.layers[0], FullLayer)

    @property
    def n_members(self) -> int:
        """Number of members."""
        return len(self.noise_var)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the means."""
        return self.layers[0].mu.dtype

    def astype(self, dtype: np.typing.DTypeLike) -> Network:
        """Return the network with parameters in another precision, or itself."""
        if self.dtype == dtype:
            return self
        return replace(self, layers=[layer.astype(dtype) for layer in self.layers])

    def share_noise(self) -> None:
        """Give all members the noise that they have on average, in place."""
        self.noise_var[...] = self.noise_var.mean(axis=0)

    def tempered(self, factor: float) -> Network:
        """Return the network with variances of its parameters times ``factor``."""
        if factor == 1:
            return self
        layers = [layer.tempered(factor) for layer in self.layers]
        return self._with(layers, self.outputs, self.noise_var, self.rows_learned)

    def reported(self) -> Network:
        """Return the posterior that predictions use: calibrated, if it is."""
        if self.calibration is None:
            return self
        layers = self.tempered(self.calibration.temperature).layers
        reported = self._with(layers, self.outputs, self.reported_noise, self.rows_learned)
        reported.calibration = None
        return reported

    def rescale_inputs(self, change: Change) -> None:
        """Say the same of inputs in new units, in place."""
        if self.encoding is None:
            self.layers[0].rescale_inputs(change)
        else:
            self.encoding = self.encoding.rescaled(change)

    def copy(self) -> Network:
        """Return a network with arrays of its own."""
        layers = [layer.copy() for layer in self.layers]
        return self._with(layers, self.outputs, self.noise_var.copy(), self.rows_learned.copy())

    def members(self, numbers: Members) -> Network:
        """Return some of the members: views for a slice, copies for an array of numbers."""
        layers = [layer.members(numbers) for layer in self.layers]
        outputs = self.outputs.members(numbers)
        return self._with(layers, outputs, self.noise_var[numbers], self.rows_learned[numbers])

    def _with(
        self,
        layers: Sequence[Layer | FullLayer],
        outputs: ObservationModel,
        noise_var: np.ndarray,
        rows_learned: np.ndarray,
    ) -> Network:
        # dataclasses.replace would take long, for one row.
        return Network(
            layers, self.activation, outputs, noise_var, self.noise_is_learned,
            rows_learned, self.calibration, self.noise_net, self.encoding,
        )  # fmt: skip

    def assign(self, other: Network, members: np.ndarray, theirs: np.ndarray | None = None) -> None:
        """Take over the posterior of some members; ``theirs`` are their numbers in ``other``."""
        theirs = members if theirs is None else theirs
        for mine, new in zip(self.layers, other.layers, strict=True):
            mine.assign(members, new, theirs)  # type: ignore[arg-type]
        self.noise_var[members] = other.noise_var[theirs]
        self.rows_learned[members] = other.rows_learned[theirs]

    def is_sound(self) -> bool:
        """Whether all numbers are finite and all variances positive."""
        for layer in self.layers:
            lowest, highest = extremes(layer.var)  # NaN, if there is one
            if not (lowest > 0 and highest < np.inf and are_finite(layer.mu)):
                return False
        lowest, highest = extremes(self.noise_var)
        if not (lowest >= 0 and highest < np.inf):
            return False
        return self.noise_net is None or self.noise_net.is_sound()


# Prior


def draw_prior(
    sizes: Sequence[int],
    rngs: Iterable[np.random.RandomState | np.random.Generator],
    *,
    weight_gain: float = 1.0,
    bias_variance: float = 0.01,
    dtype: np.typing.DTypeLike = np.float64,
) -> list[Layer]:
    """Draw the means of a Xavier prior (paper, section 4): one network for each of ``rngs``.

    ``weight_gain`` multiplies the Xavier variance 2 / (n_in + n_out).
    """
    rngs = list(rngs)
    layers = []
    for n_in, n_out in pairwise(sizes):
        var_prior = np.full((n_in + 1, 1), weight_gain * 2.0 / (n_in + n_out))
        var_prior[-1] = bias_variance
        mu = np.empty((len(rngs), n_in + 1, n_out), dtype)
        std = np.sqrt(var_prior)
        for rng, member in zip(rngs, mu, strict=True):
            np.multiply(rng.standard_normal(member.shape), std, out=member, casting="same_kind")
        var = np.broadcast_to(var_prior, mu.shape).astype(dtype, order="C")
        layers.append(Layer(mu, var, var_prior.astype(dtype)))
    return layers


def full_prior(layers: Sequence[Layer]) -> list[FullLayer]:
    """Return the same prior with covariance matrices, which are still diagonal."""
    full = []
    for layer in layers:
        n_members = len(layer.mu)
        n_params = layer.mu[0].size
        cov = np.zeros((n_members, n_params, n_params))
        np.einsum("mii->mi", cov)[...] = layer.var.reshape(n_members, n_params)
        full.append(FullLayer(layer.mu, cov, layer.var_prior, np.zeros(n_members)))
    return full


# Forgetting


def forget(
    var: np.ndarray,
    var_prior: np.ndarray,
    retained: np.ndarray | float,
    work: np.ndarray | None = None,
) -> None:
    """Retain a share of the evidence, in place: 1/S <- (1 - retained) / S_0 + retained / S."""
    shrink = np.multiply(var, (1 - retained) / var_prior, out=work)
    shrink += retained
    var /= shrink
