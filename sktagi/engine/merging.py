"""Merge posteriors that started from the same one and learned different rows.

Means are weighted by their precisions, and the variance is the harmonic mean, M / sum(1 / S_m):
every shard has corrected the same error, so what they say is averaged. Adding their natural
parameters, the rule for independent pieces of evidence, would correct the error M times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from .mixture import Evidence, Mixture
from .noise_network import NoiseNetwork
from .noise_stream import settled
from .posterior import Calibration, Layer, Network
from .shape import gaussian_shape, mean_shape

__all__ = ["merge_mixtures", "merge_networks"]


def merge_mixtures(nets: Sequence[Mixture], rows_before: np.ndarray) -> Mixture:
    """Return the merged posterior of unlike members: kind by kind, with the mean of weights."""
    of_kinds = zip(*(net.networks for net in nets), strict=True)
    return replace(
        nets[0],
        networks=[merge_networks(of_kind, rows_before) for of_kind in of_kinds],
        weight=np.mean([net.weight for net in nets], axis=0),
        evidence=_merge_evidence([net.evidence for net in nets]),
        calibration=_merge_calibrations(nets),
        noise_net=_merge_noise_networks([net.noise_net for net in nets]),
    )


def _merge_evidence(shards: Sequence[Evidence | None]) -> Evidence | None:
    """Return the mean of what speaks for the weights: all have that of the start."""
    found = [evidence for evidence in shards if evidence is not None]
    if not found:
        return None
    return Evidence(*(np.mean(values, axis=0) for values in zip(*found, strict=True)))


def merge_networks(nets: Sequence[Network], rows_before: np.ndarray) -> Network:
    """Return the merged posterior; ``rows_before`` is ``rows_learned`` at the start."""
    merged = _merge_all_layers(nets)
    # Noise is a mean over rows: each shard's counts with the rows that it has learned.
    rows = np.stack([net.rows_learned - rows_before for net in nets])
    total = rows.sum(axis=0)
    share = np.where(total > 0, rows / np.where(total > 0, total, 1), 1 / len(nets))
    merged.noise_var[...] = (share * np.stack([net.noise_var for net in nets])).sum(axis=0)
    merged.rows_learned[...] = rows_before + total
    merged.calibration = _merge_calibrations(nets)
    merged.noise_net = _merge_noise_networks([net.noise_net for net in nets])
    return merged


def _merge_noise_networks(shards: Sequence[NoiseNetwork | None]) -> NoiseNetwork | None:
    """Return one noise network; None if a shard has none."""
    found = [settled(noise) for noise in shards if noise is not None]
    if len(found) < len(shards):
        return None
    return NoiseNetwork(
        _merge_all_layers([noise.net for noise in found]),
        np.mean([noise.exponent for noise in found], axis=0),
        np.mean([noise.level for noise in found], axis=0),
        np.stack([
            np.min([noise.bounds[0] for noise in found], axis=0),
            np.max([noise.bounds[1] for noise in found], axis=0),
        ]),
        np.mean([noise.scores for noise in found], axis=0),
    )  # fmt: skip


def _merge_all_layers(nets: Sequence[Network]) -> Network:
    """Return a copy of the first network with the layers of all merged."""
    merged = nets[0].copy()
    for number, layer in enumerate(merged.layers):
        _merge_layers([cast(Layer, net.layers[number]) for net in nets], cast(Layer, layer))
    return merged


def _merge_calibrations(nets: Sequence[Network | Mixture]) -> Calibration | None:
    """Return the mean of what shards found that were calibrated each for itself."""
    if all(net.calibration is None for net in nets):
        return None
    n_outputs, n_noise = nets[0].outputs.n_outputs, nets[0].outputs.n_noise
    none = Calibration(1.0, np.ones((n_noise, 1)), gaussian_shape(n_outputs))
    found = [net.calibration or none for net in nets]  # a shard may have too few rows for it
    scores = [a.slope_scores for a in found if a.slope_scores is not None]
    usual = [a.usual_var for a in found if a.usual_var is not None]
    return Calibration(
        _middle([a.temperature for a in found]),
        np.exp(np.mean([np.log(a.noise_scale) for a in found], axis=0)),
        mean_shape([a.shape for a in found]),
        _middle([a.spread for a in found]),
        _middle([a.slope for a in found]),
        _middle([a.unknown for a in found]),
        np.mean(scores, axis=0) if scores else None,  # all have those of the start
        _middle(usual) if usual else None,
    )


def _middle(factors: Sequence[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(factors))))


def _merge_layers(layers: Sequence[Layer], out: Layer) -> None:
    precision = np.zeros(out.var.shape)
    weighted = np.zeros(out.var.shape)
    for layer in layers:
        own = 1 / layer.var.astype(np.float64)
        precision += own
        weighted += own * layer.mu
    out.mu[...] = weighted / precision
    out.var[...] = len(layers) / precision
