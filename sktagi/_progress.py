"""What ``verbose`` shows: one updating line on a terminal, a plain line an epoch elsewhere."""

from __future__ import annotations

import shutil
import sys
import time

from .engine.training import History

__all__ = ["Progress"]


class Progress:
    """Reports each epoch; ``offset`` turns scores of standardised targets into original units."""

    def __init__(self, max_iter: int, offset: float, name: str):
        self.max_iter = max_iter
        self.offset = offset
        self.name = name
        self.start = time.perf_counter()
        self.on_terminal = sys.stdout.isatty()
        print(f"{name}: mean log-likelihood of the rows in each epoch", flush=True)

    def __call__(self, history: History) -> bool:
        done = history.n_iter
        seconds = time.perf_counter() - self.start
        width = len(str(self.max_iter))
        parts = [
            f"epoch {done:{width}d}/{self.max_iter}",
            f"train {history.train_scores[-1] + self.offset:8.4f}",
        ]
        if history.validation_scores:
            scores = history.validation_scores
            best = max(range(len(scores)), key=scores.__getitem__)
            parts.append(f"valid {scores[-1] + self.offset:8.4f}")
            parts.append(f"best: {best + 1}")
        left = seconds / done * (self.max_iter - done)
        parts.append(f"{seconds:.1f} s, < {left:.0f} s left")
        self._write(" | ".join(parts))
        return False

    def close(self, history: History) -> None:
        if self.on_terminal and history.n_iter:
            sys.stdout.write("\n")
        reason = "all epochs done"
        if history.interrupted:
            reason = "interrupted"
        elif history.n_iter < self.max_iter:
            reason = "no further gain in validation"
        line = f"{self.name} {reason} after {history.n_iter} epochs"
        if history.best_iter is not None:
            kept = sorted({int(k) for k in history.best_iter})
            line += f"; kept the posterior of epoch {', '.join(map(str, kept))}"
        print(line, flush=True)

    def _write(self, line: str) -> None:
        if self.on_terminal:
            width = shutil.get_terminal_size().columns - 1  # a wrapped line cannot be erased
            sys.stdout.write("\r\x1b[2K" + line[:width])
        else:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
