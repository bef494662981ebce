"""The kinds of networks that are tried for a table, and what each of them is for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .encoding import Encoding, find_pieces, find_whitening

__all__ = ["Kind", "kinds_for"]

ENOUGH_ROWS = 1000  # from which on two hidden layers pay
MANY_ROWS = 5000  # from which on they do for pieces of inputs, too
MANY_INPUTS = 100  # beyond which inputs are taken as they are
ROWS_FOR_CORRELATION = 10  # for each input; of fewer, correlations are chance: no whitening
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


def kinds_for(n_rows: float, n_inputs: int, *, is_sparse: bool) -> list[Kind]:
    """Return the kinds that are tried for so many rows and inputs."""
    linear = Kind("linear", ())
    if is_sparse or n_inputs > MANY_INPUTS:
        return [linear, Kind("smooth", (UNITS,), "tanh"), Kind("plain", (UNITS,))]
    view = "whitened" if n_rows >= ROWS_FOR_CORRELATION * n_inputs else "plain"
    kinds = [linear, Kind("smooth", (UNITS,), "tanh", view)]
    if n_rows < MANY_ROWS:
        kinds.append(Kind("pieces", (UNITS,), "tanh", "pieces"))
    else:
        kinds.append(Kind("pieces", (UNITS, UNITS), "relu", "pieces"))
    if n_rows >= ENOUGH_ROWS:
        kinds.append(Kind("deep", (UNITS, UNITS), "relu", view))
    return kinds
