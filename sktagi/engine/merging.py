"""Merge posteriors that started from the same one and learnt different rows.

Means are weighted by their precisions, and the variance is the harmonic mean, M / sum(1 / S_m):
every shard has corrected the same error, so what they say is averaged. Adding their natural
parameters, the rule for independent pieces of evidence, would correct the error M times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .learning import Network
from .network import Layer
from .shape import TAILS

__all__ = ["merge_networks"]


def merge_networks(nets: Sequence[Network], rows_before: np.ndarray) -> Network:
    """One network of the merged posterior; ``rows_before`` is ``rows_learned`` at the start."""
    merged = nets[0].copy()
    for number, layer in enumerate(merged.layers):
        _merge_layers([net.layers[number] for net in nets], out=layer)
    # Noise is a mean over rows: each shard's counts with the rows that it has learnt.
    rows = np.stack([net.rows_learned - rows_before for net in nets])
    total = rows.sum(axis=0)
    share = np.where(total > 0, rows / np.where(total > 0, total, 1), 1 / len(nets))
    merged.noise_var[...] = (share * np.stack([net.noise_var for net in nets])).sum(axis=0)
    merged.rows_learned[...] = rows_before + total
    # Shards that were calibrated each for itself: the mean of what they found.
    merged.temperature = float(_geometric_mean([net.temperature for net in nets]))
    merged.noise_scale = _geometric_mean([net.noise_scale for net in nets])
    if any(net.tails is not None for net in nets):
        tails = [TAILS[:, None] if net.tails is None else net.tails for net in nets]
        merged.tails = np.mean(np.broadcast_arrays(*tails), axis=0)
    return merged


def _geometric_mean(factors: Sequence) -> np.ndarray:
    # A shard with too few rows to be calibrated has the number 1 where others have an array.
    return np.exp(sum(map(np.log, factors)) / len(factors))


def _merge_layers(layers: Sequence[Layer], out: Layer) -> None:
    precision = np.zeros(out.var.shape)
    weighted = np.zeros(out.var.shape)
    for layer in layers:
        own = 1 / layer.var.astype(np.float64)
        precision += own
        weighted += own * layer.mu
    out.mu[...] = weighted / precision
    out.var[...] = len(layers) / precision
