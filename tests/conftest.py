"""Tests are many small products: one BLAS thread is faster than several, alone or side by side."""

from importlib.util import find_spec

import pytest
from threadpoolctl import threadpool_limits

from sktagi.engine import interrupts

threadpool_limits(limits=1, user_api="blas")

collect_ignore = [] if find_spec("dask") else ["clusters.py"]


@pytest.fixture(autouse=True)
def _no_earlier_interrupt(monkeypatch):
    """What a test interrupts is not interrupted for the second time."""
    monkeypatch.setattr(interrupts, "_last", -float("inf"))
