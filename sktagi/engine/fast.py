"""Numbers of each type, as arrays: NumPy would have to convert those of Python each time."""

from __future__ import annotations

import numpy as np

__all__ = ["EPS", "ONE", "TINY", "ZERO"]


def _of_each_type(value) -> dict[str, np.ndarray]:
    numbers = {char: np.array(value(char), char) for char in "fd"}
    for number in numbers.values():
        number.setflags(write=False)
    return numbers


ZERO = _of_each_type(lambda char: 0)
ONE = _of_each_type(lambda char: 1)
EPS = _of_each_type(lambda char: np.finfo(char).eps)
TINY = _of_each_type(lambda char: np.finfo(char).tiny)
