"""Plain values as bytes, without pickle: what ``to_bytes`` writes.

A state is a dict with names as keys. Its values are None, truth values, numbers, texts, arrays, and
lists, tuples and dicts of these; besides the few objects that `_objects` describes by such values.
A series or an index comes back as an array.

``magic (8) | version (4) | length of all (8) | length of the text (8) | text | arrays | digest``

The text is JSON: what wrote it, dtype, shape and order of each array, and the state with numbers in
the place of arrays. Arrays follow as they lie in memory, low bytes first. The digest is the SHA-256
of everything before it. Numbers of the head are unsigned, low byte first. Magic, version, length
and digest are where they are in every version, so that a newer one is told from a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from ._objects import describe, rebuild
from ._version import __version__

__all__ = ["FORMAT_VERSION", "pack", "unpack"]

MAGIC = b"\x93sktagi\n"
FORMAT_VERSION = 1
_HEAD = struct.Struct("<8sIQQ")
_DIGEST_SIZE = 32
_PLAIN = (bool, int, float, str)
# What reading raises where a state was altered by someone who knows the checksum. NumPy parses the
# names of types.
_WRONG = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError,
          TypeError, ValueError)  # fmt: skip
_DTYPE_KINDS = "biufcSUMm"  # numbers, texts, times: no objects


def pack(state: dict[str, Any], kind: str) -> bytes:
    """Return a state as bytes; ``kind`` says what it is the state of."""
    writer = _Writer()
    plain = {name: writer.named(name, state[name]) for name in sorted(state)}
    header = {"kind": kind, "saved_by": __version__, "arrays": writer.forms, "state": plain}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    length = _HEAD.size + len(text) + sum(map(len, writer.buffers)) + _DIGEST_SIZE
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, length, len(text))
    digest = hashlib.sha256()
    for part in (head, text, *writer.buffers):
        digest.update(part)
    return b"".join((head, text, *writer.buffers, digest.digest()))


def unpack(data: Any, kind: str) -> dict[str, Any]:
    """Return the state that `pack` made bytes of; refuse what is damaged, newer or of others."""
    try:
        view = memoryview(data).cast("B")
    except TypeError:
        raise ValueError(f"data must be bytes that to_bytes wrote; got {data!r:.60}.") from None
    try:
        _check_whole(view)
    except ValueError as error:
        raise ValueError(f"The saved state of this {kind} is damaged: {error}.") from None
    version = _HEAD.unpack_from(view)[1]
    if version > FORMAT_VERSION:
        raise ValueError(
            f"This {kind} was saved by a newer sktagi, in version {version} of the format; sktagi "
            f"{__version__} reads versions up to {FORMAT_VERSION}. Upgrade sktagi to load it."
        )
    try:
        found, state = _read(view)
    except _WRONG as e:
        raise ValueError(f"The saved state of this {kind} is damaged: {e}.") from e
    if found != kind:
        raise ValueError(f"This is the saved state of a {found}, not of a {kind}: use its class.")
    return state


def _check_whole(view: memoryview) -> None:
    """Refuse bytes that are not those that were written."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise ValueError("its first bytes are wrong")
    if len(view) < _HEAD.size + _DIGEST_SIZE:
        raise ValueError(f"it has {len(view)} bytes only")
    length = _HEAD.unpack_from(view)[2]
    if length != len(view):
        raise ValueError(f"it has {len(view)} bytes instead of {length}")
    if hashlib.sha256(view[:-_DIGEST_SIZE]).digest() != bytes(view[-_DIGEST_SIZE:]):
        raise ValueError("its checksum is wrong")


def _read(view: memoryview) -> tuple[str, dict[str, Any]]:
    """Return what wrote these bytes, and its state."""
    start = _HEAD.size + _HEAD.unpack_from(view)[3]
    header = json.loads(bytes(view[_HEAD.size : start]))
    reader = _Reader(view[start:-_DIGEST_SIZE], header["arrays"])
    return header["kind"], {name: reader.value(v) for name, v in header["state"].items()}


class _Writer:
    """Turns values into what JSON has, and collects arrays beside it.

    What JSON has not is an object with one key, which begins with ``$``.
    """

    def __init__(self) -> None:
        self.forms: list[tuple[str, tuple[int, ...], str]] = []
        self.buffers: list[memoryview | bytes] = []

    def named(self, name: str, value: Any) -> Any:
        """Return the value of an attribute, or refuse it under this name."""
        try:
            return self.value(value)
        except TypeError as error:
            raise ValueError(
                f"{name} holds {error}, which to_bytes and save cannot write: change it with "
                "set_params, or save by joblib or pickle."
            ) from None

    def value(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in _PLAIN:
            return value
        if isinstance(value, np.ndarray):
            return self._array(np.asarray(value))
        if isinstance(value, np.generic):
            return {"$scalar": self._array(np.asarray(value))}
        if kind is list:
            return [self.value(item) for item in value]
        if kind is tuple:
            return {"$tuple": [self.value(item) for item in value]}
        if kind is dict:
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self.value(item) for key, item in value.items()}
            return {"$dict": [[self.value(key), self.value(v)] for key, v in value.items()]}
        if kind is Fraction:
            return {"$fraction": [value.numerator, value.denominator]}
        if kind is range:
            return {"$range": [value.start, value.stop, value.step]}
        if hasattr(value, "to_numpy") and len(value.shape) == 1:  # a series, an index
            return self._array(value.to_numpy())
        return {"$object": self.value(describe(value))}

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype.kind == "O":
            items = [self.value(item) for item in array.ravel().tolist()]
            return {"$objects": [list(array.shape), items]}
        if array.dtype.kind not in _DTYPE_KINDS or array.dtype.names:
            raise TypeError(f"an array of {array.dtype}")
        order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if array.nbytes:
            self.buffers.append(np.ravel(array, order=order).view(np.uint8).data)
        self.forms.append((array.dtype.str, array.shape, order))
        return {"$array": len(self.forms) - 1}


class _Reader:
    """Makes values of what `_Writer` wrote."""

    def __init__(self, buffer: memoryview, forms: list[Any]):
        self._arrays, offset = [], 0
        for dtype, shape, order in forms:
            array = np.ndarray(tuple(shape), _allowed(dtype), buffer, offset, order=order)
            offset += array.nbytes
            # A copy that may be written to, and does not keep all the bytes alive.
            self._arrays.append(array.astype(array.dtype.newbyteorder("="), order="K", copy=True))
        if offset != len(buffer):
            raise ValueError("arrays do not fill their place")

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        tag = next(iter(value), "")
        if not tag.startswith("$"):
            return {key: self.value(item) for key, item in value.items()}
        return self._tagged(tag, value[tag])

    def _tagged(self, tag: str, content: Any) -> Any:
        if tag == "$array":
            return self._arrays[content]
        if tag == "$objects":
            shape, items = content
            array = np.empty(math.prod(shape), dtype=object)
            array[:] = [self.value(item) for item in items]
            return array.reshape(shape)
        if tag == "$scalar":
            return self.value(content)[()]
        if tag == "$tuple":
            return tuple(self.value(item) for item in content)
        if tag == "$dict":
            return {self.value(key): self.value(item) for key, item in content}
        if tag == "$fraction":
            return Fraction(*content)
        if tag == "$range":
            return range(*content)
        if tag == "$object":
            return rebuild(self.value(content))
        raise ValueError(f"{tag!r} is unknown")


def _allowed(dtype: str) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.kind not in _DTYPE_KINDS or found.names:
        raise ValueError(f"an array has the type {dtype!r}")
    return found
