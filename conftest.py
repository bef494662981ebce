"""Tests and examples in docstrings draw without a window, and not at all without matplotlib."""

import os
from importlib.util import find_spec

os.environ.setdefault("MPLBACKEND", "agg")

collect_ignore_glob = [] if find_spec("matplotlib") else ["sktagi/plotting/*"]
