"""Rows on the workers of a cluster, as training sees them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ._base import BaseTAGI
from ._shards import (
    Learned,
    Summary,
    answer,
    held_out,
    held_out_kinds,
    learn_shard,
    with_noise,
)
from ._workers import Workers
from .engine.merging import merge_networks
from .engine.mixture import Evidence, Mixture, best_weights
from .engine.noise import best_on_grid, scores_on_grid, trusted_noise
from .engine.noise_network import NoiseNetwork
from .engine.posterior import Network

__all__ = ["Cluster"]


class Cluster:
    """Rows on the workers of a cluster, each shard learned from the same posterior."""

    members_together = 10**9  # one exchange for all

    is_far = True

    def __init__(
        self,
        workers: Workers,
        fitted: BaseTAGI,
        net: Network,
        shards: list[Any],
        summaries: list[Summary],
        member_rngs: list[np.random.RandomState],
    ):
        self.workers = workers
        self.shards = shards
        self.rngs = member_rngs if fitted.shuffle else None
        self.temperatures = fitted._temperatures
        self.n_validation = np.sum([s.n_validation for s in summaries], axis=0)  # (n_targets,)
        self.holds_out = any(s.n_held_out for s in summaries)
        total = sum(s.weight for s in summaries) if self.holds_out else None
        self.settings = fitted._settings(net, max(s.n_train for s in summaries), total)
        self.best_iter: np.ndarray | None = None
        self._left = 1.0  # of forgetting, if it is annealed
        self._started: list[Any] = []

    def anneal(self, done: int) -> None:
        """Forget in the next epoch as it is planned after ``done`` epochs."""
        self._left = self.settings.forgetting_left(done)

    def begin(self) -> None:
        """Do nothing: learners on workers last for an epoch."""

    def members(self, numbers: np.ndarray) -> Cluster:
        """Return itself: members learn side by side on the workers."""
        return self

    def take_over(self, part: Any, numbers: np.ndarray) -> None:
        """Do nothing: there are no parts."""

    def weights(self, networks: Sequence[Network]) -> tuple[np.ndarray, Evidence | None]:
        """Return the weights of kinds, by the rows held out."""
        parts = self.workers.call(held_out_kinds, self.shards, networks=networks)
        return best_weights([one for part in parts for one in part])

    def epoch(
        self, net: Network, active: np.ndarray, *, validate: bool, learn: bool
    ) -> _EpochOnCluster:
        """Validate and learn in one exchange, before it is known which members go on."""
        seeds = [self._seeds(active) for _ in self.shards]
        self._started = self.workers.start(
            learn_shard, self.shards, seeds, net=net, active=active,
            settings=self.settings.annealed(self._left), learn=learn, validate=validate,
        )  # fmt: skip
        return _EpochOnCluster(self.workers, net, self._started, self.n_validation)

    def cancel(self) -> None:
        """Give up the tasks of an epoch, and wait for nobody from now on."""
        self.workers.hurry()
        self.workers.cancel(self._started)

    def held_out(self, net: Network | Mixture) -> _HeldOutThere | None:
        """Let rows held out be predicted; they stay where they are, and sums are exchanged."""
        if not self.holds_out:
            return None
        held = self.workers.keep(
            held_out, self.shards, net=net, settings=self.settings, temperatures=self.temperatures
        )
        return _HeldOutThere(self.workers, held)

    def vary_noise(self, noise: NoiseNetwork) -> None:
        """Let the rows have noise of their own from now on."""
        self.shards = self.workers.keep(with_noise, self.shards, noise=noise)

    def _seeds(self, active: np.ndarray) -> list[int] | None:
        if self.rngs is None:
            return None
        return [self.rngs[m].randint(np.iinfo(np.int32).max) for m in active]


class _HeldOutThere:
    """Held-out rows on the workers of a cluster."""

    def __init__(self, workers: Workers, held: list[Any]):
        self.workers = workers
        self.held = held

    def ask(self, question: Any, *given: Any) -> Any:
        """Return the sum of the answers."""
        return sum(self.collect(question, *given))

    def collect(self, question: Any, *given: Any) -> list[Any]:
        """Return the answers of the shards that hold rows out."""
        answers = self.workers.call(answer, self.held, question=question, given=given)
        return [one for one in answers if one is not None]

    def change(self, function: Any, *given: Any) -> None:
        """Replace the rows of each shard."""
        self.held = self.workers.keep(answer, self.held, question=function, given=given)


class _EpochOnCluster:
    """An epoch that workers are at, until it is asked for."""

    def __init__(self, workers: Workers, net: Network, started: Any, n_validation: np.ndarray):
        self.workers = workers
        self.net = net  # that was sent out
        self.started = started
        self.n_validation = n_validation

    @cached_property
    def parts(self) -> list[Learned]:
        """What the shards have learned."""
        return self.workers.gather(self.started)

    def validated(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [part for part in self.parts if part.validation_score is not None]
        score: Any = sum(part.validation_score for part in parts)  # (members, factors, outputs)
        weight: Any = sum(part.validation_weight for part in parts)
        noise_var, now = self.net.noise_var, score[:, score.shape[1] // 2]
        if not self.net.noise_is_learned:
            return now.sum(axis=-1) / weight, noise_var.copy()
        best = best_on_grid(score, noise_var)[0]
        trusted = trusted_noise(best, noise_var, self.n_validation)
        score = scores_on_grid(score, (trusted / noise_var)[..., 0])
        return score.sum(axis=-1) / weight, trusted

    def learned(self, goes_on: np.ndarray) -> tuple[Network, np.ndarray]:
        nets = [part.net for part in self.parts if part.net is not None]
        net = merge_networks(nets, self.net.rows_learned)
        score: Any = sum(part.train_score for part in self.parts)
        weight: Any = sum(part.train_weight for part in self.parts)
        if not goes_on.all():
            net = net.members(np.flatnonzero(goes_on))
        return net, (score / weight)[goes_on]
