"""Class labels: any hashable values <-> class numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["as_labels", "class_numbers", "distinct_labels"]

FEW = 64  # labels that are looked up one by one


def as_labels(y: Any) -> Any:
    """Return ``y``, unless NumPy would change labels: tuples into rows, numbers into text."""
    if isinstance(y, (list, tuple)):
        kinds = {str if isinstance(label, str) else type(label) for label in y}
        if tuple in kinds or (str in kinds and len(kinds) > 1):
            return _object_array(y)
    return y


def distinct_labels(y: np.ndarray) -> np.ndarray:
    """Return sorted distinct labels; in order of appearance if they cannot be compared."""
    if y.dtype.kind != "O":
        return np.unique(y)
    try:
        found = list(dict.fromkeys(y.tolist()))
    except TypeError as error:
        raise ValueError(f"y has labels that are not hashable: {error}.") from None
    try:
        found.sort()
    except TypeError:
        pass
    return _object_array(found)


def class_numbers(y: np.ndarray, classes: np.ndarray, refuse: bool = True) -> np.ndarray:
    """Return the position of each label in ``classes``; a label not there is refused, or -1."""
    numbers = {label: k for k, label in enumerate(classes.tolist())}
    found, inverse = y, None
    if y.dtype.kind != "O" and len(y) >= FEW:
        found, inverse = np.unique(y, return_inverse=True)
    try:
        position = np.array([numbers.get(label, -1) for label in found.tolist()], dtype=np.intp)
    except TypeError as error:
        raise ValueError(f"y has labels that are not hashable: {error}.") from None
    if refuse and (position < 0).any():
        others = distinct_labels(found[position < 0]).tolist()
        raise ValueError(
            f"y has labels that are not in classes {classes.tolist()}: {others}. If new labels may "
            "come, declare spare classes for them in the first call to partial_fit."
        )
    return position if inverse is None else position[inverse]


def _object_array(values: Sequence[Any]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
