"""What ``verbose`` shows: one updating line on a terminal, few plain lines in a log."""

from __future__ import annotations

import shutil
import sys
import time

from .engine.mixture import Mixture
from .engine.posterior import Network
from .engine.training import History

__all__ = ["Progress"]

SECONDS_BETWEEN_UPDATES = 0.1  # of the line on a terminal
SECONDS_BETWEEN_LINES = 60.0  # at most, in a log
# What a line loses, in this order, until it fits into a narrow terminal.
DISPENSABLE = ("name", "best", "train", "left", "valid")


class Progress:
    """Reports the epochs of a fit; silent if ``verbose`` is 0.

    ``verbose=1`` updates one line on a terminal; elsewhere it writes lines for epochs 1, 2, 5, 10,
    20 and so on, and for one in every minute. ``verbose=2`` writes a line for each epoch. The last
    line says why training ended.
    """

    def __init__(self, name: str, max_iter: int, verbose: int, may_stop: bool):
        self.name = name
        self.max_iter = max_iter
        self.verbose = int(verbose)
        self.may_stop = may_stop  # by early stopping: the time left is a bound
        self.out = sys.stdout
        # What stands in for stdout need not have isatty: a logger that writes to two places.
        is_terminal = getattr(self.out, "isatty", lambda: False)()
        self.updates = self.verbose == 1 and is_terminal
        self.start = time.perf_counter()
        self.shown = -float("inf")  # when a line was last written
        self.open_line = 0  # characters of a line that the next one replaces

    def __call__(self, history: History) -> None:
        if self.verbose and self._is_due(history.n_iter):
            self.shown = time.perf_counter()
            self._write(self._parts(history))

    def close(self, history: History, net: Network | Mixture) -> None:
        """Write the last line, with the weights of the kinds if there are several."""
        if not self.verbose:
            return
        reason = "all epochs done"
        if history.interrupted:
            reason = "interrupted"
        elif history.stopped:
            reason = "stopped by a callback"
        elif history.n_iter < self.max_iter:
            reason = "no further gain"
        seconds = duration(time.perf_counter() - self.start)
        parts = {
            "end": f"{self.name} {reason} after {history.n_iter} epochs, {seconds}",
            **self._scores(history),
        }
        if history.best_iter is not None:
            parts["kept"] = f"kept epoch {_range(history)}"
        if isinstance(net, Mixture):
            shares = zip(net.names, net.weight.mean(axis=(1, 2)), strict=True)
            parts["kinds"] = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        self._write(parts, last=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.open_line:  # something was raised: its text begins on a line of its own
            self.out.write("\n")
            self.open_line = 0

    def _is_due(self, epoch: int) -> bool:
        waited = time.perf_counter() - self.shown
        if self.updates:
            return waited >= SECONDS_BETWEEN_UPDATES
        if self.verbose > 1 or waited >= SECONDS_BETWEEN_LINES:
            return True
        return str(epoch).rstrip("0") in ("1", "2", "5")

    def _parts(self, history: History) -> dict[str, str]:
        done = history.n_iter
        seconds = time.perf_counter() - self.start
        left = duration(seconds / done * (self.max_iter - done))
        parts = {
            "name": self.name,
            "epoch": f"epoch {done:{len(str(self.max_iter))}d}/{self.max_iter}",
            **self._scores(history),
        }
        if history.best_iter is not None:
            parts["best"] = f"best {_range(history)}"
        parts["left"] = f"{'< ' if self.may_stop else ''}{left} left"
        return parts

    def _scores(self, history: History) -> dict[str, str]:
        scores = {}
        if history.train_scores:
            scores["train"] = f"loglik train {history.train_scores[-1]:.4f}"
        if history.validation_scores:
            scores["valid"] = f"valid {history.validation_scores[-1]:.4f}"
        return scores

    def _write(self, parts: dict[str, str], last: bool = False) -> None:
        line = " | ".join(parts.values())
        if not self.updates:
            self.out.write(line + "\n")
        else:
            width = shutil.get_terminal_size().columns - 1  # a wrapped line cannot be replaced
            for name in DISPENSABLE:
                if len(line) <= width:
                    break
                parts.pop(name, None)
                line = " | ".join(parts.values())
            line = line if last else line[:width]
            # Blanks and not an escape sequence: not every terminal knows those.
            self.out.write("\r" + line.ljust(self.open_line) + ("\n" if last else ""))
            self.open_line = 0 if last else len(line)
        self.out.flush()


def _range(history: History) -> str:
    """The best epoch, or the first and last of those of the members."""
    assert history.best_iter is not None
    first, last = history.best_iter.min(), history.best_iter.max()
    return f"{first}" if first == last else f"{first}-{last}"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
