"""Targets of a stream that have jumped: what surprises time and again is no outlier.

A row far from its prediction is hardly learned (``observations``). But if ``LASTING`` rows in a row
are that far off, or most rows of a batch, it is the stream that has changed, and evidence from
before would hold the network where it was for thousands of rows:

- errors that are much the same: the level has changed. It moves by the mean error, and what was
  learned of the rest stays.
- targets that spread ``WIDER`` than all targets before: their unit has changed, or they did not
  vary before. The unit is that of the new rows, and variances are those of the prior again.
- otherwise the noise has grown, or the function is another one, which looks the same at first: the
  noise is the variance of the errors, and variances are those of the prior again, unless evidence
  is never to be forgotten. With noise alone a function that has changed would hardly be learned.

Of noise that has grown not every row surprises: it has grown as well if so many of the ``RECENT``
rows do, and their errors are not much the same.

A small jump of the level surprises in few rows, and would soon be taken for noise. So the level has
changed, too, if ``LASTING`` rows in a row are more than ``NEAR`` standard deviations off to one
side, and alike; the noise is then at most what it was before them. Copies of a row are one row of
their weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from ._distinct import DistinctRows
from ._input import SMALLEST
from ._scaling import Moments, Scaling
from .engine.mixture import Mixture
from .engine.observations import RARE
from .engine.posterior import Network

__all__ = ["LASTING", "NEAR", "RECENT", "WIDER", "Jump", "NewRows", "Run", "jumped"]

TINY = 1e-6  # divides nothing: a weight of no rows
LASTING = 5  # rows in a row whose errors are alike, or that are the first to vary
LONG = 8  # rows, if what was learned is given up
RECENT = 20  # rows, among which so many surprise if the noise has grown
NEAR = 3.0  # standard deviations, as were predicted before the first of them
ALIKE = 3.0  # mean error over the standard deviation of errors
WIDER = 5.0
HALF_LIFE = 100.0  # rows after which an error counts half in what is usual
FEW_ROWS = 10.0  # of which errors tell roughly what is usual


class Jump(NamedTuple):
    """What has jumped, and how the targets are since then; each (n_outputs,)."""

    start: int  # number of the first row of the call that is learned after it
    long: np.ndarray  # whether anything has changed
    level: np.ndarray  # whether the level has changed
    unit: np.ndarray  # whether the unit has changed
    error: np.ndarray  # mean error, in units of y
    error_var: np.ndarray
    noise: np.ndarray  # whether neither has: the noise has grown
    most_var: np.ndarray  # what noise was before, at least; infinite where nobody knows
    moments: Moments  # of the new targets
    before: Moments  # of all targets before those


class NewRows(NamedTuple):
    """Rows of a call as they were predicted; arrays are (n_outputs, rows)."""

    y: np.ndarray  # NaN where not observed
    error: np.ndarray  # in units of y
    var: np.ndarray  # of the error, as it was predicted
    far: np.ndarray  # whether the error surprises
    rows: DistinctRows

    def batch(self, part: slice) -> Batch:
        """Return some rows, of which copies are one with their weight."""
        group, first = self.rows.group[part], np.arange(len(self.rows.group))[part]
        weight: np.ndarray = self.rows.given[part].astype(np.float64)
        is_new = self.rows.first[group] == first
        if not is_new.all():
            _, once, group = np.unique(group, return_index=True, return_inverse=True)
            weight = np.bincount(group, weight)  # groups are numbered as they come
            first, is_new = first[once], is_new[once]
        return Batch(
            self.y[:, first], self.error[:, first], self.var[:, first], self.far[:, first],
            weight, is_new, first,
        )  # fmt: skip


class Batch(NamedTuple):
    """Rows of a batch without copies; arrays as in ``NewRows``."""

    y: np.ndarray
    error: np.ndarray
    var: np.ndarray
    far: np.ndarray
    weight: np.ndarray  # (rows,), with that of copies
    is_new: np.ndarray  # (rows,): whether there is no copy in an earlier batch
    number: np.ndarray  # (rows,): of the row in the call

    def since_jump(self) -> np.ndarray:
        """Tell which rows (n_outputs, rows) may have come after a jump: from one on up to the last.

        That is where surprising rows outweigh the others by most.
        """
        sign = np.where(np.isnan(self.y), 0, np.where(self.far, 1, -1))
        excess = np.cumsum((sign * self.weight)[:, ::-1], axis=1)[:, ::-1]
        return np.arange(len(self.weight)) >= excess.argmax(axis=1)[:, None]


class Run(NamedTuple):
    """Surprising targets that came last, one after the other: statistics (n_outputs,) of each.

    ``usual`` is what squared errors are, older ones fading, and ``n_usual`` their weight: with a
    given noise, which may be too small, errors beyond it are no surprise. Learned noise knows.
    """

    n_rows: np.ndarray  # without copies
    weight: np.ndarray
    error: np.ndarray  # mean, in units of y
    error_deviation: np.ndarray
    mean: np.ndarray  # of y
    deviation: np.ndarray
    usual: np.ndarray
    n_usual: np.ndarray
    near_var: np.ndarray  # of the errors that are near, as it was predicted before them
    recent: np.ndarray  # (n_outputs, RECENT): errors that surprise; 0 for those that do not
    near: np.ndarray  # (n_outputs, LASTING - 1): the last errors, 0 for those below ``NEAR``
    before: Moments | None = None  # statistics of the targets before the run

    @classmethod
    def empty(cls, n_outputs: int) -> Self:
        """Return the run of no rows."""
        zeros = np.zeros(n_outputs)
        recent, near = np.zeros((n_outputs, RECENT)), np.zeros((n_outputs, LASTING - 1))
        return cls(zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, recent, near)

    @property
    def is_over(self) -> bool:
        """Whether no row surprised of late."""
        return not (np.count_nonzero(self.recent) or np.count_nonzero(self.near))

    def may_last(self, n_rows: int) -> bool:
        """Tell whether something may have changed after some more rows."""
        n_far = np.count_nonzero(self.recent, axis=1).max()
        n_near = np.count_nonzero(self.near, axis=1).max()
        return bool(max(n_far, n_near) + n_rows >= LASTING)

    def tolerated(self, scale: np.ndarray | float) -> np.ndarray:
        """Return usual squares (n_outputs, 1), in units of a scale; zeros if nobody knows.

        Those of a few errors are known roughly, and more is tolerated.
        """
        roughly = 1 + FEW_ROWS / np.maximum(self.n_usual, TINY)
        return (self.usual * roughly / np.square(scale))[:, None]

    def with_errors(self, error: np.ndarray, far: np.ndarray, weight: np.ndarray) -> Self:
        """Return the run that knows errors (n_outputs, rows) but for those that surprise."""
        squares = np.square(error)
        observed = ~(np.isnan(squares) | far)
        kept = 2 ** (-(observed @ weight) / HALF_LIFE)
        total = kept * self.n_usual + observed @ weight
        added = np.where(observed, squares, 0) @ weight
        usual = (kept * self.n_usual * self.usual + added) / np.maximum(total, TINY)
        return self._replace(usual=usual, n_usual=total)

    def after(self, rows: NewRows, size: int, y_moments: Moments) -> tuple[Self, Jump | None]:
        """Return the run after rows in batches of ``size``, and the first jump among them.

        ``y_moments`` are the statistics of the targets before these.
        """
        run = self if self.n_rows.any() else self._replace(before=y_moments)
        for start in range(0, rows.y.shape[1], size):
            batch = rows.batch(slice(start, start + size))
            run, begin = run._and_batch(batch)
            run, grown = run._with_recent(batch)
            run, moved = run._with_near(batch)
            jump = run._jump(begin, grown, y_moments) or run._small_jump(moved, y_moments)
            if jump is not None:
                run = run._ended(jump.long)
                before = run.before if run.n_rows.any() else None
                usual = np.where(jump.long, np.maximum(run.usual, jump.error_var), run.usual)
                n_usual = np.where(jump.long, np.maximum(run.n_usual, LASTING), run.n_usual)
                recent, near = (np.where(jump.long[:, None], 0, a) for a in (run.recent, run.near))
                return run._replace(
                    usual=usual, n_usual=n_usual, recent=recent, near=near, before=before
                ), jump
        return (run if run.n_rows.any() else run._replace(before=None)), None

    def _ended(self, where: np.ndarray) -> Self:
        n_rows, weight, error, error_deviation, mean, deviation = (
            np.where(where, 0, values) for values in self[:6]
        )
        return self._replace(
            n_rows=n_rows, weight=weight, error=error, error_deviation=error_deviation, mean=mean,
            deviation=deviation,
        )  # fmt: skip

    def _and_batch(self, rows: Batch) -> tuple[Self, np.ndarray]:
        """Return the run after a batch, and the row (n_outputs,) with which it begins in there.

        A run may begin within a batch: rows from before a jump would tell nothing of it.
        """
        observed = ~np.isnan(rows.y)
        weight = np.where(observed, rows.weight, 0)
        total = weight.sum(axis=1)
        of_far = np.where(rows.far, weight, 0).sum(axis=1)
        lasts = (of_far > 0) & (of_far > RARE * total)
        run = self._ended((total > 0) & ~lasts)
        observed &= rows.since_jump() | (run.n_rows > 0)[:, None]
        begin = np.where(lasts, rows.number[observed.argmax(axis=1)], rows.number[0])
        weight = np.where(observed, rows.weight, 0)
        total = weight.sum(axis=1)
        n_rows = run.n_rows + np.where(lasts, np.sum(observed & rows.is_new, axis=1), 0)
        added = np.where(lasts, total, 0)
        all_rows = run.weight + added
        parts = []
        for values, mean, deviation in (
            (rows.error, run.error, run.error_deviation),
            (rows.y, run.mean, run.deviation),
        ):
            known = np.where(observed, values, 0)
            new = (weight * known).sum(axis=1) / np.maximum(total, TINY)
            within = (weight * np.square(np.where(observed, values - new[:, None], 0))).sum(axis=1)
            share = added / np.maximum(all_rows, TINY)
            between = np.square(new - mean) * run.weight * share
            parts += [mean + share * (new - mean), deviation + np.where(lasts, within + between, 0)]
        error, error_deviation, mean, deviation = parts
        run = run._replace(
            n_rows=n_rows, weight=all_rows, error=error, error_deviation=error_deviation, mean=mean,
            deviation=deviation,
        )  # fmt: skip
        return run, begin

    def _with_recent(self, rows: Batch) -> tuple[Self, np.ndarray]:
        """Return the run that knows the last errors, and the noise (n_outputs,) if it has grown.

        It is the median size of the errors that surprise, as few of them may be outliers; else 0.
        """
        recent, grown = self.recent.copy(), np.zeros(len(self.recent))
        observed = ~np.isnan(rows.y) & rows.is_new
        errors = np.where(rows.far, rows.error, 0)
        for k, of_output in enumerate(observed):
            last = np.concatenate([recent[k], errors[k, of_output]])
            recent[k] = last[-RECENT:]
            many = np.convolve(last != 0, np.ones(RECENT), "valid") >= LONG
            if many.any():
                last = last[many.argmax() :]
                last = last[last != 0]
                if abs(last.mean()) <= ALIKE * last.std(ddof=1):
                    grown[k] = np.median(np.abs(last))
        return self._replace(recent=recent), grown

    def _with_near(self, rows: Batch) -> tuple[Self, np.ndarray]:
        """Return the run that knows the last errors, and how levels have moved (4, n_outputs).

        That is the number of the first row since then, mean and variance of the errors that tell,
        and the variance that was predicted before them; NaN where the level stays.
        """
        near, near_var = self.near.copy(), self.near_var.copy()
        moved = np.full((4, len(near)), np.nan)
        observed = ~np.isnan(rows.y) & rows.is_new
        for k in np.flatnonzero(observed.any(axis=1)):
            number, error, var = (a[observed[k]] for a in (rows.number, rows.error[k], rows.var[k]))
            if near[k, -1]:  # else the errors themselves would soon raise it
                var = np.minimum(var, near_var[k])
            is_near = np.square(error) > NEAR**2 * var
            last = np.concatenate([near[k], np.where(is_near, error, 0)])
            near[k], near_var[k] = last[1 - LASTING :], np.where(is_near[-1], var[-1], 0)
            side = np.convolve(np.sign(last), np.ones(LASTING), "valid")
            for end in np.flatnonzero(np.abs(side) == LASTING):
                some = last[end : end + LASTING]
                mean, error_var = some.mean(), some.var(ddof=1)
                if np.square(mean) > ALIKE**2 * error_var:
                    moved[:, k] = number[max(end + 1 - LASTING, 0)], mean, error_var, var[end]
                    break
        return self._replace(near=near, near_var=near_var), moved

    def _small_jump(self, moved: np.ndarray, y_moments: Moments) -> Jump | None:
        level = (moved[0] >= 0) & (self.n_rows < LASTING)  # a longer run tells what has jumped
        if not level.any():
            return None
        number, error, error_var, var = np.where(level, moved, 0)
        none, weight = np.zeros(len(level), dtype=bool), np.full(len(level), float(LASTING))
        return Jump(
            int(number[level].min()), level, level, none, error, error_var, none,
            np.where(level, var, np.inf), replace(Moments.empty(len(level)), weight=weight),
            self.before or y_moments,
        )  # fmt: skip

    def _jump(self, begin: np.ndarray, grown: np.ndarray, y_moments: Moments) -> Jump | None:
        lasts = self.n_rows >= LASTING
        # Targets so far off may have another unit: a longer run will tell.
        noise = ~lasts & (grown > 0) & ~y_moments.is_exceeded(grown, WIDER)
        if not (lasts.any() or noise.any()):
            return None
        before = self.before or y_moments
        moments = replace(
            Moments.empty(len(self.n_rows)), weight=self.weight, mean=self.mean,
            deviation=self.deviation, since=self.weight,
        )  # fmt: skip
        is_long = (self.n_rows >= LONG) | ~before.deviation.astype(bool)
        lasts &= np.minimum(moments.scale, before.scale) > SMALLEST  # whose square is a number
        unit = lasts & is_long & before.is_narrower(moments, WIDER)
        n_rows = np.maximum(self.n_rows, 2)
        run_var = self.error_deviation / np.maximum(self.weight, TINY) * n_rows / (n_rows - 1)
        level = lasts & ~unit & (np.square(self.error) > ALIKE**2 * run_var)
        error_var = np.where(lasts, run_var, np.square(grown))
        noise |= lasts & is_long & ~unit & ~level
        changed = level | unit | noise
        if not changed.any():
            return None
        return Jump(
            int(begin[changed].min()), changed, level, unit, self.error, error_var, noise,
            np.full(len(changed), np.inf), moments, before,
        )  # fmt: skip


def jumped(
    net: Network | Mixture, jump: Jump, scaling: Scaling, *, in_units: bool, forgets: bool
) -> Scaling:
    """Let a network of a scaling jump, in place; returns the scaling of the targets since then.

    Targets that are not standardised have no units: the network itself moves.
    """
    assert scaling.y is not None
    moves = jump.level | jump.unit
    start = scaling.y.mixed(jump.before, moves) if in_units else scaling.y
    back = scaling._replace(y=start)
    scaling.carry_over(net, back, back=True)
    weight = np.maximum(jump.moments.weight, TINY)
    error_var = jump.error_var / np.square(start.scale)
    for network in net.networks:
        last = network.layers[-1]
        for k in np.flatnonzero(jump.level):
            last.loosen_bias(int(k), error_var[k] / weight[k])
        anew = jump.unit | jump.noise if forgets else jump.unit
        if anew.any():
            last.restart(anew)
        if anew.all():
            for layer in network.layers[:-1]:
                layer.restart(np.ones(layer.mu.shape[-1], dtype=bool))
        if not in_units:
            last.mu[:, -1] += np.where(moves, jump.error, 0)
        if network.noise_is_learned:
            most = np.maximum(jump.most_var / np.square(start.scale), error_var)[:, None]
            least = np.where(jump.long, error_var, 0)[:, None]
            network.noise_var[...] = np.clip(network.noise_var, least, most)
            network.noise_var[:, jump.unit] = 1
            network.rows_learned[:, jump.unit] = 0
            # What earlier rows said of the noise is over.
            few = np.minimum(network.rows_learned, LASTING)
            network.rows_learned[...] = np.where(jump.noise[:, None], few, network.rows_learned)
    if not in_units:
        return scaling
    start = replace(start, mean=start.mean + np.where(jump.level, jump.error, 0))
    return back._replace(y=start.mixed(jump.moments, jump.unit))
