"""What both estimators do with rows of a stream: statistics, learning, jumps and forgetting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ._attributes import FittedAttributes
from ._distinct import DistinctRows
from ._drift import BLOCK_ROWS, Waiting
from ._first_rows import FIRST_ROWS, rows_with_weights, see_first_rows
from ._input import RawRows
from ._jumps import LASTING, NEAR, WIDER, Jump, NewRows, Run, jumped
from ._outliers import gross_outliers
from ._scaling import Moments
from .engine.fast import slices
from .engine.learning import Settings
from .engine.mixture import Mixture
from .engine.noise import memory_of
from .engine.observations import MANY, OUTLYING, RARE, ObservationModel
from .engine.posterior import Network
from .engine.rows import Rows
from .engine.streaming import Seen, learn_stream

__all__ = ["StreamMixin"]

# Half-lives that a stream may choose: rows, and rows for each parameter
LEAST_SHORTEST, SHORTEST = 20.0, 0.4
LEAST_LONGEST, LONGEST = 2000.0, 10.0


class StreamMixin(FittedAttributes):
    """How ``partial_fit`` learns rows, with what `BaseTAGI` has."""

    _first_rows: np.ndarray | None = None  # of a stream, as long as there are few
    _first_targets: np.ndarray | None = None
    _run: Run | None = None  # of surprising targets; not in old files
    _scales_targets: bool
    _n_targets: int
    n_samples_seen_: int
    standardize: Any
    half_life: Any
    _noise_is_given: Any
    _see: Callable[..., None]
    _settings: Callable[..., Settings]
    _prepare: Callable[..., Rows]
    _beside_gaps: Callable[..., Rows]
    _filled: Callable[..., Any]
    _model_in_units: Callable[..., ObservationModel]

    def _see_stream(self, data: RawRows, first: bool) -> tuple[RawRows, Moments | None]:
        """Count new rows, and take them into the statistics, without outliers.

        Returns the rows as they are learned. An outlier that made the units of the target larger
        would make the prior wider, and so everyone's std, though it is hardly learned itself; one
        that made those of a feature larger would make all its other values alike.

        Nothing would surprise in units of targets that have jumped. If these rows are far beyond
        earlier ones, they are learned in the units so far, and the statistics of the targets that
        hold afterwards are returned, too; else None.
        """
        if not self.standardize:
            self._see(data)
            return data, None
        self._scaling = self._scaling.of_stream()
        y_moments, typical = self._scaling.y, data
        rows = DistinctRows(data.X, data.y, data.weight)
        if self._scaling.x.bounds_values:
            typical = data._replace(X=self._without_wrong_readings(data, rows, first))
        if y_moments is None:
            self._see(typical)
            return data, None
        if first:
            gross = gross_outliers(self._table.roughly_filled(data.X), data.y, data.weight)
            y = np.where(gross, np.nan, data.y) if gross.any() else data.y
        else:
            y = y_moments.without_outliers(data.y, rows)
        known = self._first_targets
        if first or (known is not None and len(known) == self.n_samples_seen_):
            begun = see_first_rows(known, y, rows, y_moments)
            self._first_targets = begun.kept
            if begun.found:
                self._scaling = self._scaling._replace(y=begun.moments)
                y = begun.typical
        self._see(typical._replace(y=y))
        y_after = self._scaling.y
        assert y_after is not None
        data = data._replace(y=y_after.bounded(data.y))
        grown = y_moments.outgrown(y_after)
        if grown is None:
            return data, None
        self._scaling = self._scaling._replace(y=y_after.mixed(y_moments, grown))
        return data, y_after

    def _keep_first_rows(self, data: RawRows) -> None:
        """Keep the features of a fit to few rows, which have not told all wrong readings."""
        n, x_moments = self.n_samples_seen_, self._scaling.x
        if not (self.standardize and data.n_to_learn == n < FIRST_ROWS and x_moments.bounds_values):
            return
        X: Any = data.X[:n]
        rows = DistinctRows(X, data.y[:n], data.weight[:n])
        if x_moments.numbers is not None:
            X = X[:, x_moments.numbers]
        self._first_rows = rows_with_weights(X.toarray() if sparse.issparse(X) else X, rows)

    def _without_wrong_readings(self, data: RawRows, rows: DistinctRows, first: bool) -> Any:
        """Return features for the statistics; these count values that are far off."""
        X: Any = data.X
        x_moments = self._scaling.x
        numbers = x_moments.numbers
        if numbers is None:
            if sparse.issparse(X):
                X = X.toarray()
            new, X = self._typical(X, x_moments, rows, first)
        else:
            X, before = X.copy(), x_moments.of_numbers()
            values = X[:, numbers].toarray()
            part, values = self._typical(values, before, rows, first)
            X.data[np.isin(X.indices, numbers)] = values.ravel()  # every row has all of them
            new = x_moments if part is before else x_moments.with_numbers(part)
        if new is not x_moments:
            self._scaling = self._scaling._replace(x=new)
        return X

    def _typical(
        self, X: np.ndarray, moments: Moments, rows: DistinctRows, first: bool
    ) -> tuple[Moments, np.ndarray]:
        """Return statistics that count values that are far off, and what rows count as."""
        known = self._first_rows
        if first or (known is not None and len(known) == self.n_samples_seen_):
            seen = see_first_rows(known, X, rows, moments)
            self._first_rows = seen.kept
            if first or seen.found:
                return seen.moments, seen.typical
        return moments.watched(X, rows)

    def _learn_stream(
        self,
        net: Network | Mixture,
        data: RawRows,
        settings: list[Settings],
        y_before: Moments | None,
        y_after: Moments | None,
    ) -> tuple[Network | Mixture, float]:
        """Let a network learn rows, in place; returns it, and how well it had predicted them.

        If targets have jumped, it is another one, which has learned the rows since then anew.
        ``y_before`` are the statistics of the targets before these rows, ``y_after`` those that
        hold afterwards; None: they hold already.
        """
        earlier, run, drift = None if y_after is None else net.copy(), self._run, self._drift
        net, log_lik, jump = self._learn_and_jump(net, data, settings, y_before)
        if y_after is not None:
            if jump is None and earlier is not None and _are_mostly_far(data, y_before):
                # Too many for outliers, and too few to tell a jump: they would spoil the network.
                # In units that grow with them, what it says grows, too, and so does its std.
                self._scaling = self._scaling._replace(y=y_after)
                self._run, self._drift = run, drift
                net, log_lik, _ = self._learn_and_jump(earlier, data, settings, y_before)
                return net, log_lik
            if jump is not None:
                assert self._scaling.y is not None
                y_after = y_after.mixed(self._scaling.y, jump.level | jump.unit)
            before, self._scaling = self._scaling, self._scaling._replace(y=y_after)
            before.carry_over(net, self._scaling)
            net.outputs = self._model_in_units(net.outputs, streamed=True)
        return net, log_lik

    def _learn_and_jump(
        self,
        net: Network | Mixture,
        data: RawRows,
        settings: list[Settings],
        y_before: Moments | None,
    ) -> tuple[Network | Mixture, float, Jump | None]:
        new = DistinctRows(data.X, data.y, data.weight)
        if self._noise_is_given and self._run is None and len(new) == 1:
            self._run = Run.empty(self._n_targets)
        net.outputs = self._model_in_units(net.outputs, streamed=True)
        rows = self._beside_gaps(self._prepare(data, net.dtype), net, data.X)
        if not self._scales_targets:
            return net, self._learn_rows(net, rows, data, settings, Seen()), None
        n_rows, run = len(data.weight), self._run
        may_jump = n_rows >= LASTING if run is None else run.may_last(n_rows)
        before = net.copy() if may_jump else None
        seen = Seen()
        log_lik = self._learn_rows(net, rows, data, settings, seen)
        if y_before is None:
            y_before = self._scaling.y
        run, jump = self._run_after(run, data, new, seen, settings[0].batch_size, y_before)
        self._run = run
        if jump is None or before is None:
            return net, log_lik, None
        start = np.arange(jump.start)
        if jump.start:
            learn_stream(before, rows.take(start), settings)
        self._scaling = jumped(
            before, jump, self._scaling,
            in_units=bool(self.standardize), forgets=self.half_life is not None,
        )  # fmt: skip
        data = data.take(np.arange(len(data.weight)) >= jump.start)
        before.outputs = self._model_in_units(before.outputs, streamed=True)
        rows = self._beside_gaps(self._prepare(data, net.dtype), before, data.X)
        learn_stream(before, rows, settings)
        self._drift = self._drift.after_jump()
        return before, log_lik, jump

    def _learn_rows(
        self,
        net: Network | Mixture,
        rows: Rows,
        data: RawRows,
        settings: list[Settings],
        seen: Seen,
    ) -> float:
        """Let a network learn rows, in place; returns how well it predicted them, and what it saw.

        A half-life that follows the stream is looked at after each block of rows.
        """
        n_rows, batch_size = len(data.weight), settings[0].batch_size
        if not isinstance(self.half_life, str) or n_rows <= BLOCK_ROWS:
            return self._learn_block(net, rows, data, settings, seen)
        log_lik, several = 0.0, []
        for part in slices(n_rows, max(1, BLOCK_ROWS // batch_size) * batch_size):
            numbers = np.arange(n_rows)
            block = data.take((numbers >= part.start) & (numbers < part.stop))
            weight = float(block.weight.sum())
            several.append(Seen())
            block_rows = rows.take(numbers[part])
            settings = self._stream_settings(net, len(block.weight))
            log_lik += weight * self._learn_block(net, block_rows, block, settings, several[-1])
        seen.join(several)
        return log_lik / float(data.weight.sum())

    def _learn_block(
        self,
        net: Network | Mixture,
        rows: Rows,
        data: RawRows,
        settings: list[Settings],
        seen: Seen,
    ) -> float:
        """Let a network learn rows, and look at what they say of its drift."""
        kind = self._drift.kind
        noise_var = net.networks[kind].noise_var[0].copy()
        has_units = self._scaling.targets_have_units
        following = self._drift.old_from(net, self._scaling) if has_units else None
        if self._scaling.y is not None:
            mean, scale, slope = self._scaling.y.mean[:, None], self._scaling.y.scale[:, None], 1.0
        else:  # outputs as probabilities see them
            slope = 1.0 if net.calibration is None else net.calibration.slope
            mean, scale = np.zeros((1, 1)), np.full((1, 1), 1 / slope)
        log_lik = float(learn_stream(net, rows, settings, seen).mean())
        if has_units:
            mu_z, var_z = seen.moments[kind][:, 0]
            x = self._filled(data.X, self._scaling)
            looked_at = Waiting(x, rows.y, data.weight, slope * mu_z, var_z, noise_var, mean, scale)
            errors = self._table.errors_at(data.errors, data.X)
            drift = self._drift.with_rows(net, looked_at, errors, following)
            self._drift = drift.within(*self._half_lives(net))
        return log_lik

    def _run_after(
        self,
        run: Run | None,
        data: RawRows,
        rows: DistinctRows,
        seen: Seen,
        size: int,
        y_before: Moments | None,
    ) -> tuple[Run | None, Jump | None]:
        """Return the run of surprising targets after rows, and whether these have jumped.

        No run is one that is over, unless it knows what errors are usual.
        """
        assert self._scaling.y is not None
        assert y_before is not None
        error, var, scale = seen.error, seen.var, self._scaling.y.scale[:, None]
        assert error is not None
        assert var is not None
        squares = np.square(error)
        if self._noise_is_given:
            var = np.maximum(var, np.inf if run is None else run.tolerated(scale[:, 0]))
            run = run or Run.empty(self._n_targets)
            run = run.with_errors(error * scale, squares > OUTLYING**2 * var, data.weight)
        is_over = run is None or run.is_over
        if is_over and not np.count_nonzero(squares > NEAR**2 * var):  # nearly always
            return run, None
        run, far = run or Run.empty(self._n_targets), squares > OUTLYING**2 * var
        new = NewRows(data.y.T, error * scale, var * np.square(scale), far, rows)
        run, jump = run.after(new, size, y_before)
        return (None if run.is_over and not self._noise_is_given else run), jump

    def _stream_settings(self, net: Network | Mixture, n_rows: int) -> list[Settings]:
        """Say how each kind learns rows of a stream: all forget as the stream tells, or as told."""
        settings = [self._settings(kind, n_rows) for kind in net.networks]
        if isinstance(self.half_life, str):
            half_life = self._drift.half_life
            settings = [setting._replace(half_life=half_life) for setting in settings]
        if not net.noise_is_learned:
            return settings
        streamed = self._prequential.weight
        return [
            setting._replace(memory=memory_of(setting.half_life, kind.rows_learned, streamed))
            for kind, setting in zip(net.networks, settings, strict=True)
        ]

    def _half_lives(self, net: Network | Mixture) -> tuple[float, float]:
        """Return the shortest half-life of a stream, and the longest: what is given is both."""
        if self.half_life is not None and not isinstance(self.half_life, str):
            return float(self.half_life), float(self.half_life)
        size = max(sum(layer.mu[0].size for layer in kind.layers) for kind in net.networks)
        longest = max(LEAST_LONGEST, LONGEST * size)
        if self.half_life is None:
            return longest, longest
        return max(LEAST_SHORTEST, SHORTEST * size), longest


def _are_mostly_far(data: RawRows, y_moments: Moments | None) -> bool:
    """Tell whether most rows are far from all targets before: they are then no outliers."""
    assert y_moments is not None
    far = data.weight @ (np.abs(data.y - y_moments.mean) > WIDER * y_moments.scale)
    observed = data.weight @ ~np.isnan(data.y)
    return bool(((far > RARE * observed) & (observed >= MANY)).any())
