"""Callbacks of scikit-learn 1.9 and later; without effect on earlier versions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: there is no ``set_callbacks``."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)  # one frame more, as in 1.9: warnings point to the caller of fit in both
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return method(self, *args, **kwargs)

        return call


__all__ = ["CallbackSupportMixin", "FitTasks", "with_callbacks"]


class FitTasks:
    """A fit and its epochs as callbacks see them: a task, and a subtask for each epoch.

    Callbacks get X and y as the caller gave them: frames keep the names of their columns, and
    classes their labels.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any, max_iter: int | None):
        self._context: Any = None
        self._epoch: Any = None
        if not getattr(estimator, "_skl_callbacks", None):
            return
        # Not X_std: scorers of scikit-learn take no other metadata than weights.
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._context = estimator._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._given)

    @property
    def are_watched(self) -> bool:
        """Whether there are callbacks."""
        return self._context is not None

    def begin_epoch(self) -> None:
        if self._context is not None:
            self._epoch = self._context.subcontext(task_name="epoch")
            self._epoch.call_on_fit_task_begin(**self._given)

    def end_epoch(self, attributes: Callable[[], dict[str, Any]]) -> bool:
        """Tell whether a callback wants to stop; ``attributes`` make an estimator that predicts."""
        if self._context is None:
            return False
        epoch, self._epoch = self._epoch, None
        return epoch.call_on_fit_task_end(**self._given, reconstruction_attributes=attributes)

    def close(self) -> None:
        if self._context is None:
            return
        if self._epoch is not None:  # one that Ctrl-C has cut short
            self._epoch.call_on_fit_task_end(**self._given)
        self._context.call_on_fit_task_end(**self._given, reconstruction_attributes={})
