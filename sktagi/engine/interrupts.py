"""Ctrl-C: the first ends training early and keeps what was learned, a second one ends everything.

A search that fits many estimators, one after the other, would otherwise go on to the next.
"""

from __future__ import annotations

import time

__all__ = ["keep_or_raise"]

SOON = 2.0  # seconds, within which a second interrupt is one of the same person for all fits
_last = -float("inf")


def keep_or_raise(is_second: bool) -> None:
    """Take note of an interrupt that was caught; raise it again if it is not the first.

    That is the second of this fit, or it comes soon after one of another fit.
    """
    global _last
    now = time.monotonic()
    is_soon, _last = now - _last < SOON, now
    if is_second or is_soon:
        raise KeyboardInterrupt
