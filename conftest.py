"""Tests and examples in docstrings draw without a window, and not at all without matplotlib."""

import os
from importlib.util import find_spec

# With ``-n``, pytest's main process imports the modules of warnings that its workers report, in a
# thread for each worker. Two threads that import scikit-learn for the first time can lock each
# other out, so it is imported here, before there are threads.
import sklearn.exceptions  # noqa: F401

os.environ.setdefault("MPLBACKEND", "agg")

NEEDED = {
    "sktagi/plotting/*": "matplotlib",
    "sktagi/onnx/*": "skl2onnx",
    "sktagi/river.py": "river",
    "sktagi/skpro.py": "skpro",
}
collect_ignore_glob = [part for part, package in NEEDED.items() if not find_spec(package)]
