"""Members spread over processes by joblib."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from .fast import overflow_allowed, threads_for_layers

if TYPE_CHECKING:
    from .runs import Part

__all__ = ["Jobs"]


class Jobs:
    """A context in which parts of members learn in ``n_jobs`` processes, or here if it is 1.

    What joblib's ``parallel_config`` says of the backend holds.
    """

    def __init__(self, n_jobs: int):
        self._parallel: Any = None
        if n_jobs > 1:
            from joblib import Parallel

            self._parallel = Parallel(n_jobs=n_jobs)

    def __enter__(self) -> Self:
        if self._parallel is not None:
            self._parallel.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._parallel is not None:
            self._parallel.__exit__(*raised)

    def advance(self, parts: Sequence[Part], n_epochs: int) -> None:
        """Let parts learn some epochs, in place."""
        from joblib import delayed

        going = [part for part in parts if not part.is_over]
        learned = self._parallel(delayed(_advanced)(part, n_epochs) for part in going)
        for part, state in zip(going, learned, strict=True):
            rngs = state.pop("rngs")
            part.__dict__.update(state)
            part.source.rngs = rngs  # type: ignore[attr-defined]


def _advanced(part: Part, n_epochs: int) -> dict[str, Any]:
    """Return what changes in a part that learns some epochs; rows stay where they are."""
    part = copy(part)
    part.train_scores, part.validation_scores = part.train_scores[:], part.validation_scores[:]
    threads = threads_for_layers(part.current.layers, part.source.settings.batch_size)  # type: ignore[attr-defined]
    with threads, overflow_allowed():
        part.advance(n_epochs)
    state = {name: value for name, value in part.__dict__.items() if name != "source"}
    return {**state, "_epoch": None, "rngs": part.source.rngs}  # type: ignore[attr-defined]
