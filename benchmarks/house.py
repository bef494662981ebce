"""Numbers of the house: how the code is built, counted.

    python -m benchmarks house
    python -m benchmarks house --source FOLDER      # of another checkout

What is counted:

Attributes of ``Units``: names annotated or assigned in the body of that class of the engine, and
those that its methods assign to ``self``. Beside it the class of the engine with the most.

Transpositions, in the code of the engine and not in its comments: names ``swapaxes`` after a dot,
``.mT``, ``.T``, and other functions of NumPy that turn axes; and calls of functions of the engine
that do nothing but transpose their argument, ``transposed`` among them.

Calls across files, in one ``fit`` (200 rows, 4 features, default parameters) and one later
``partial_fit`` (20 new rows): distinct pairs of a function of sktagi and a function of another file
of sktagi that it calls itself; a call through the code of a dataclass (its ``__init__``,
``replace``) counts, one through scikit-learn does not. A comprehension is part of the function
around it. Files are those with a function that ran.

Frames from ``fit`` to ``forward``: functions of sktagi on the stack when a function called
``forward`` is first called, both included. Calls and frames are those with scikit-learn 1.9; before
it had callbacks, a few more.

Parameters: those of all functions and methods of the engine, without self, cls and lambdas.

Lines: all, and of code: without blank lines, comments and docstrings. The largest module is the one
with the most lines of code.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from .checkouts import ROOT, Checkout, folder_of

OTHER_TURNS = ("transpose", "matrix_transpose", "moveaxis", "rollaxis", "permute_dims")
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")  # frames of their own until Python 3.12
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (*FUNCTIONS, ast.ClassDef, ast.Module)
NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip

Tree = dict[str, ast.Module]  # modules by their path


def attributes(definition: ast.ClassDef) -> set[str]:
    """Names that a class annotates or assigns in its body, or through ``self`` in its methods."""
    targets: list[ast.expr] = []
    for node in definition.body:
        targets += _targets(node)
        if isinstance(node, FUNCTIONS):
            targets += [t for part in ast.walk(node) for t in _targets(part) if _of_self(t)]
    found = set()
    for target in targets:
        found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)} - {"self"}
        found |= {n.attr for n in ast.walk(target) if _of_self(n)}  # type: ignore[attr-defined]
    return {name for name in found if not (name.startswith("__") and name.endswith("__"))}


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        parts = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        parts = [node.target]
    else:
        return []
    return [e for p in parts for e in (p.elts if isinstance(p, (ast.Tuple, ast.List)) else [p])]


def _of_self(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def most_attributes(engine: Tree) -> tuple[int | None, str]:
    """How many ``Units`` has, None if there is no such class; and the class with the most."""
    counts = {
        f"{node.name} in {path}": len(attributes(node))
        for path, module in engine.items()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    units = [count for name, count in counts.items() if name.startswith("Units in ")]
    most = max(counts, key=lambda name: counts[name])
    return sum(units) if units else None, f"{counts[most]} ({most})"


def transpositions(engine: Tree) -> dict[str, int]:
    """How often each way to transpose is written."""
    nodes = [node for module in engine.values() for node in ast.walk(module)]
    names = Counter(node.attr for node in nodes if isinstance(node, ast.Attribute))
    helpers = {node.name for node in nodes if isinstance(node, FUNCTIONS) and _only_turns(node)}
    helpers.add("transposed")
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    by_name = Counter(f.id if isinstance(f, ast.Name) else getattr(f, "attr", "") for f in called)
    return {
        "swapaxes": names["swapaxes"], ".mT": names["mT"], ".T": names["T"],
        ", ".join(f"{name}()" for name in sorted(helpers)): sum(by_name[n] for n in helpers),
        "other turns of axes": sum(names[name] for name in OTHER_TURNS),
    }  # fmt: skip


def _only_turns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function returns its first argument, transposed, and does nothing else."""
    body = function.body[ast.get_docstring(function) is not None :]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or not function.args.args:
        return False
    value = body[0].value
    if isinstance(value, ast.Call):
        is_numpy = isinstance(value.func, ast.Attribute) and _is_name(value.func.value, "np")
        turned = value.args[0] if is_numpy and value.args else getattr(value.func, "value", None)
        name = getattr(value.func, "attr", "")
    else:
        turned, name = getattr(value, "value", None), getattr(value, "attr", "")
    first = function.args.args[0].arg
    return name in ("swapaxes", "mT", "T", *OTHER_TURNS) and _is_name(turned, first)


def _is_name(node: Any, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def parameters(engine: Tree) -> tuple[int, int]:
    """Parameters without annotation, and all."""
    found = []
    for module in engine.values():
        for node in ast.walk(module):
            if isinstance(node, FUNCTIONS):
                a = node.args
                found += [*a.posonlyargs, *a.args, *a.kwonlyargs]
                found += [arg for arg in (a.vararg, a.kwarg) if arg is not None]
    found = [arg for arg in found if arg.arg not in ("self", "cls")]
    return sum(arg.annotation is None for arg in found), len(found)


def lines(text: str) -> tuple[int, int]:
    """All lines of a module, and those of code."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            code -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(text.splitlines()), len(code)


class Calls:
    """Which functions of a package call which of its other files."""

    def __init__(self, package: str):
        self.package = package
        self.across: set[tuple[str, str, str, str]] = set()
        self.files: set[str] = set()
        self.depth: int | None = None  # of the first call of ``forward``

    def of(self, function: Callable, *arguments: Any) -> Calls:
        """Take note of one call of a function."""
        sys.setprofile(self._on_event)
        try:
            function(*arguments)
        finally:
            sys.setprofile(None)
        return self

    def _own(self, code: CodeType) -> bool:
        return code.co_filename.startswith(self.package)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not self._own(code) or code.co_name in COMPREHENSIONS:
            return
        self.files.add(code.co_filename)
        if code.co_name == "forward" and self.depth is None:
            stack = [f.f_code for f in _stack(frame)]
            self.depth = sum(self._own(c) and c.co_name not in COMPREHENSIONS for c in stack)
        caller = next(f.f_code for f in _stack(frame.f_back) if not _is_between(f.f_code))
        if self._own(caller) and caller.co_filename != code.co_filename:
            ends = caller.co_filename, caller.co_qualname, code.co_filename, code.co_qualname
            self.across.add(ends)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_between(code: CodeType) -> bool:
    of_dataclass = code.co_filename in ("<string>", dataclasses.__file__)
    return of_dataclass or code.co_name in COMPREHENSIONS


def trace() -> dict[str, Any]:
    """The calls of one fit and of one partial_fit; in the process of a checkout."""
    import sktagi

    package = str(Path(sktagi.__file__).parent)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((220, 4))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.3 * rng.standard_normal(220)
    model = sktagi.TAGIRegressor(random_state=0)
    fit = Calls(package).of(model.fit, X[:200], y[:200])
    stream = Calls(package).of(model.partial_fit, X[200:], y[200:])
    return {
        "fit": (len(fit.across), len(fit.files)),
        "partial_fit": (len(stream.across), len(stream.files)),
        "depth": fit.depth,
    }


def count(folder: Path) -> dict[str, Any]:
    """All numbers of a checkout, by what they are numbers of."""
    package = folder / "sktagi"
    texts = {str(p.relative_to(package)): p.read_text() for p in sorted(package.rglob("*.py"))}
    engine = {path: ast.parse(text) for path, text in texts.items() if path.startswith("engine")}
    units, most = most_attributes(engine)
    numbers: dict[str, Any] = {"attributes of Units": "no such class" if units is None else units}
    numbers["most attributes of a class of the engine"] = most
    for way, times in transpositions(engine).items():
        numbers[f"engine: {way}"] = times
    with Checkout(folder, OPENBLAS_NUM_THREADS="1") as checkout:
        calls = checkout.call(trace)
    for name in ("fit", "partial_fit"):
        pairs, files = calls[name]
        numbers[f"{name}: distinct calls across files"] = pairs
        numbers[f"{name}: files"] = files
    depth = calls["depth"]
    numbers["frames from fit to forward"] = "never called" if depth is None else depth
    without, total = parameters(engine)
    numbers["engine: parameters without annotation"] = f"{without} of {total}"
    sizes = {path: lines(text) for path, text in texts.items()}
    for name, paths in (("engine", list(engine)), ("package", list(sizes))):
        largest = max(paths, key=lambda path: sizes[path][1])
        everything, code = sizes[largest]
        numbers[f"{name}: lines of the largest module"] = (
            f"{code} of code, {everything} in all ({largest})"
        )
        everything, code = (sum(sizes[path][k] for path in paths) for k in (0, 1))
        numbers[f"{name}: lines"] = f"{code} of code, {everything} in all, {len(paths)} files"
    return numbers


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", default=str(ROOT), help="another checkout than this one")


def main(args: argparse.Namespace) -> None:
    print("| what | number |\n|---|---|")
    for what, number in count(folder_of(args.source)).items():
        print(f"| {what} | {number} |")
