"""Merge posteriors that started from the same one and learned different rows.

Means are weighted by their precisions, and the variance is the harmonic mean, M / sum(1 / S_m):
every shard has corrected the same error, so what they say is averaged. Adding their natural
parameters, the rule for independent pieces of evidence, would correct the error M times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from .posterior import Calibration, Layer, Network
from .tails import gaussian_tails

__all__ = ["merge_networks"]


def merge_networks(nets: Sequence[Network], rows_before: np.ndarray) -> Network:
    """Return the merged posterior; ``rows_before`` is ``rows_learned`` at the start."""
    merged = nets[0].copy()
    for number, layer in enumerate(merged.layers):
        _merge_layers([cast(Layer, net.layers[number]) for net in nets], cast(Layer, layer))
    # Noise is a mean over rows: each shard's counts with the rows that it has learned.
    rows = np.stack([net.rows_learned - rows_before for net in nets])
    total = rows.sum(axis=0)
    share = np.where(total > 0, rows / np.where(total > 0, total, 1), 1 / len(nets))
    merged.noise_var[...] = (share * np.stack([net.noise_var for net in nets])).sum(axis=0)
    merged.rows_learned[...] = rows_before + total
    merged.calibration = _merge_calibrations(nets)
    return merged


def _merge_calibrations(nets: Sequence[Network]) -> Calibration | None:
    """Return the mean of what shards found that were calibrated each for itself."""
    if all(net.calibration is None for net in nets):
        return None
    n_outputs, n_noise = nets[0].outputs.n_outputs, nets[0].outputs.n_noise
    none = Calibration(1.0, np.ones((n_noise, 1)), gaussian_tails(n_outputs))
    found = [net.calibration or none for net in nets]  # a shard may have too few rows for it
    temperatures, noise_scales, tails = zip(*found, strict=True)
    return Calibration(
        float(np.exp(np.mean(np.log(temperatures)))),
        np.exp(np.mean(np.log(noise_scales), axis=0)),
        np.mean(tails, axis=0),
    )


def _merge_layers(layers: Sequence[Layer], out: Layer) -> None:
    precision = np.zeros(out.var.shape)
    weighted = np.zeros(out.var.shape)
    for layer in layers:
        own = 1 / layer.var.astype(np.float64)
        precision += own
        weighted += own * layer.mu
    out.mu[...] = weighted / precision
    out.var[...] = len(layers) / precision
