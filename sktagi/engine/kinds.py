"""The kinds of networks that are tried for a table, and what each of them is for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .encoding import Encoding, find_pieces, find_whitening

__all__ = ["Kind", "kinds_for"]

MANY_ROWS = 3000  # from which on two hidden layers learn more than one
MANY_INPUTS = 100  # beyond which inputs are taken as they are
UNITS = 50
BIAS_VARIANCE = 0.3  # of hidden units: where they bend, or saturate, in standardised inputs


class Kind(NamedTuple):
    """A kind of network."""

    name: str
    hidden_layer_sizes: tuple[int, ...]
    activation: str = "relu"
    view: str = "plain"  # of the inputs: "plain", "pieces" or "whitened"
    bias_variance: float = BIAS_VARIANCE

    def encoding(self, x: np.ndarray, weight: np.ndarray) -> Encoding | None:
        """Return what the first layer sees of inputs like x (n, n_inputs + 1)."""
        if self.view == "pieces":
            return find_pieces(x, weight)
        return find_whitening(x, weight) if self.view == "whitened" else None


def kinds_for(n_rows: int, n_inputs: int, *, is_sparse: bool) -> list[Kind]:
    """Return the kinds that are tried for so many rows and inputs."""
    linear = Kind("linear", ())
    if is_sparse or n_inputs > MANY_INPUTS:
        return [linear, Kind("smooth", (UNITS,), "tanh"), Kind("plain", (UNITS,))]
    smooth = Kind("smooth", (UNITS,), "tanh", "whitened")
    if n_rows < MANY_ROWS:
        return [linear, smooth, Kind("pieces", (UNITS,), "relu", "pieces")]
    deep = Kind("deep", (UNITS, UNITS), "relu", "whitened")
    return [linear, smooth, Kind("pieces", (UNITS, UNITS), "relu", "pieces"), deep]
