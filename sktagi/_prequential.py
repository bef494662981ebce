"""Running scores of a stream: how well each row was predicted before it was learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Prequential"]

HALF_LIFE = 500.0  # rows after which a row counts half in the recent score


class Prequential(NamedTuple):
    """Summed log-likelihoods and weights: of all rows, and with the older ones fading."""

    total: float = 0.0
    weight: float = 0.0
    recent_total: float = 0.0
    recent_weight: float = 0.0

    def updated(self, log_lik: float, weight: float) -> Prequential:
        """Return the scores with rows of ``weight`` in all and mean log-likelihood ``log_lik``."""
        retained = np.exp2(-weight / HALF_LIFE)
        return Prequential(
            self.total + log_lik * weight,
            self.weight + weight,
            float(self.recent_total * retained + log_lik * weight),
            float(self.recent_weight * retained + weight),
        )

    @staticmethod
    def joined(start: Prequential, shards: Sequence[Prequential]) -> Prequential:
        """Return the scores of shards that went on from ``start``; recent ones are averaged."""
        total, weight, recent_total, recent_weight = np.sum(shards, axis=0).tolist()
        again = len(shards) - 1  # how often the rows before the start are counted too much
        return Prequential(
            total - again * start.total,
            weight - again * start.weight,
            recent_total / len(shards),
            recent_weight / len(shards),
        )

    @property
    def mean(self) -> float:
        return self.total / self.weight if self.weight else np.nan

    @property
    def recent(self) -> float:
        return self.recent_total / self.recent_weight if self.recent_weight else np.nan
