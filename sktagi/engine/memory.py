"""Whether networks fit into the memory of the machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

__all__ = ["check_memory", "memory_of_machine"]

GENERATOR = 2500  # bytes of the random numbers of a member
COPIES = 4  # arrays of parameters at least: means and variances, and those of the best epoch
IF_UNKNOWN = 64e9  # bytes
LIMIT_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def check_memory(sizes: Sequence[int], n_members: int, itemsize: int) -> None:
    """Refuse networks of layers with these ``sizes`` that need more memory than there is."""
    n_params = sum((n_in + 1) * n_out for n_in, n_out in pairwise(sizes))
    needed = n_members * (GENERATOR + COPIES * itemsize * n_params)
    there = memory_of_machine()
    if needed > there:
        raise ValueError(
            f"n_members={n_members:,} networks of {n_params:,} parameters each "
            f"(hidden_layer_sizes) need at least {needed / 1e9:,.0f} GB of memory; this machine "
            f"has {there / 1e9:,.0f} GB. Use fewer members or units."
        )


def memory_of_machine() -> float:
    """Return the bytes of memory that this process may use at most, as far as is known."""
    try:
        total = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not on this system
        return IF_UNKNOWN
    try:
        return min(total, float(LIMIT_OF_CONTAINER.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return total
