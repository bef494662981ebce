"""Where training started: what merging needs to know of it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from ._prequential import Prequential
from ._scaling import Scaling
from .engine.mixture import Mixture
from .engine.posterior import Network

__all__ = ["Origin"]


class Origin(NamedTuple):
    """The start of training, by which copies of one estimator know each other."""

    digest: str  # equal for equal posteriors and units
    scaling: Scaling
    rows_learned: np.ndarray  # as in Network
    n_samples_seen: int
    prequential: Prequential

    @classmethod
    def of(
        cls, net: Network | Mixture, scaling: Scaling, n_samples_seen: int, prequential: Prequential
    ) -> Origin:
        """Return the origin of what is learned from here on."""
        digest = hashlib.blake2b(digest_size=16)
        arrays = [net.noise_var, net.rows_learned]
        for network in net.networks:
            for layer in network.layers:
                arrays += [getattr(layer, name) for name in layer.BY_MEMBER]
            if network.encoding is not None:
                arrays += network.encoding.arrays()
        for moments in scaling:
            if moments is not None:
                arrays += [moments.weight, moments.mean, moments.deviation]
        for array in arrays:
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(_fingerprint(array))
        return cls(
            digest.hexdigest(), scaling, net.rows_learned.copy(), n_samples_seen, prequential
        )


def _fingerprint(array: np.ndarray) -> bytes:
    """Return the bits of an array; of a matrix, summed over its rows, which tells draws apart."""
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return bits.sum(axis=-2, dtype=np.uint64).tobytes() if bits.ndim > 1 else bits.tobytes()
