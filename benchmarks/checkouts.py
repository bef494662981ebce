"""Processes that each hold one state of the package: two checkouts side by side, in one run.

A checkout is a folder that holds ``sktagi/``. Functions that run in its process belong to this
checkout's benchmarks; what they call of sktagi is the folder's, so they use public names only.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Checkout", "folder_of"]

ROOT = Path(__file__).resolve().parents[1]

# The package first, from its folder; then the benchmarks of this checkout.
_START = """
import sys
folder, root = sys.argv[1:]
sys.path.insert(0, folder)
import sktagi
sys.path[0] = root
from benchmarks.checkouts import serve
serve()
"""


def folder_of(path: str | Path) -> Path:
    """A folder as given by an option; a message for people if it holds no package."""
    folder = Path(path).resolve()
    if not (folder / "sktagi" / "__init__.py").exists():
        raise SystemExit(f"{path}: no checkout, there is no sktagi/__init__.py")
    return folder


class Checkout:
    """A process that has imported sktagi from a folder and calls functions one by one."""

    def __init__(self, folder: Path, **environment: str):
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(folder), str(ROOT)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment},
        )  # fmt: skip
        found = Path(self.call(package_folder))
        assert found == folder / "sktagi", f"imported from {found}, not from {folder}"

    def send(self, function: Callable, *arguments: Any) -> None:
        """Let the process call a function of a module of the benchmarks."""
        pipe = self._process.stdin
        assert pipe is not None
        pickle.dump((function, arguments), pipe)
        pipe.flush()

    def receive(self) -> Any:
        """What the function returned."""
        pipe = self._process.stdout
        assert pipe is not None
        try:
            done, result = pickle.load(pipe)
        except EOFError:
            raise RuntimeError(f"The process with {self.folder} has ended.") from None
        if not done:
            raise RuntimeError(f"In the process with {self.folder}:\n{result}")
        return result

    def call(self, function: Callable, *arguments: Any) -> Any:
        self.send(function, *arguments)
        return self.receive()

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()  # the end of its input ends it


def package_folder() -> str:
    import sktagi

    return str(Path(sktagi.__file__).resolve().parent)


def serve() -> None:
    """Call what comes in, until nothing more does. What functions print goes to stderr."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        while True:
            try:
                function, arguments = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                answer = True, function(*arguments)
            except Exception:
                answer = False, traceback.format_exc()
            pickle.dump(answer, answers)
            answers.flush()
    except KeyboardInterrupt:
        pass
