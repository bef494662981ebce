"""Estimators as bytes and as files: a file is there as a whole, the old one or the new one."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from sklearn.utils.metadata_routing import get_routing_for_object

from ._bytes import pack, unpack

__all__ = ["SavingMixin", "write_whole"]

LEFTOVER_SECONDS = 3600  # after which an unfinished file is that of a process that was killed
_UNFINISHED = ".sktagi-unfinished"
_BINARY = getattr(os, "O_BINARY", 0)  # of Windows
_swept: dict[Path, float] = {}  # folders, and when leftovers were looked for in them


class SavingMixin:
    """``to_bytes``, ``from_bytes``, ``save`` and ``load``."""

    def to_bytes(self) -> bytes:
        """Return the estimator, fitted or not, as bytes.

        They hold no pickle: values as JSON and the numbers of arrays, with the version of the
        format and a checksum. Predictions of what `from_bytes` reads are equal to the last bit, and
        so is what `partial_fit` learns next.

        Returns
        -------
        data : bytes
            The state: parameters and all that was learned.

        Raises
        ------
        ValueError
            If a parameter is not plain: a splitter of one's own as ``cv``, for example. Those of
            scikit-learn are written, and so are its transformers.

        Examples
        --------
        >>> from sktagi import TAGIRegressor
        >>> model = TAGIRegressor(random_state=0).partial_fit([[0.0], [1.0]], [0.0, 1.0])
        >>> again = TAGIRegressor.from_bytes(model.to_bytes())
        >>> bool(again.predict([[2.0]]) == model.predict([[2.0]]))
        True
        """
        state: Any = self.__getstate__()
        if state.get("_skl_callbacks"):
            raise ValueError("Callbacks cannot be saved: remove them with set_callbacks().")
        if "_metadata_request" in state:
            state["_metadata_request"] = _requests(state["_metadata_request"])
        return pack(state, type(self).__name__)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return the estimator that `to_bytes` wrote.

        Nothing in ``data`` is run.

        Parameters
        ----------
        data : bytes
            What `to_bytes` of the same class returned.

        Returns
        -------
        estimator : object
            An estimator that predicts, and goes on, as the one that was saved.

        Raises
        ------
        ValueError
            If ``data`` is damaged in any way, of another class, or of a later version of sktagi.

        Examples
        --------
        >>> from sktagi import TAGIClassifier
        >>> data = TAGIClassifier(half_life=500).to_bytes()
        >>> TAGIClassifier.from_bytes(data)
        TAGIClassifier(half_life=500)
        >>> TAGIClassifier.from_bytes(b"something else")
        Traceback (most recent call last):
            ...
        ValueError: The saved state of this TAGIClassifier is damaged: its first bytes are wrong.
        """
        state = unpack(data, cls.__name__)
        requests = state.pop("_metadata_request", None)
        estimator = cls.__new__(cls)
        estimator.__setstate__(state)  # type: ignore[attr-defined]
        if requests is not None:
            try:
                _request(estimator, requests)
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(
                    f"The saved state of this {cls.__name__} is damaged: {error}."
                ) from error
        return estimator

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file, in the place of the one that is there.

        The file is whole at any time: a process that is killed while it writes, or a full disk,
        leaves the old one. Permissions of an old file are kept, and a link leads to the new one.

        Parameters
        ----------
        path : str or path-like
            The file.

        Examples
        --------
        >>> import os, tempfile
        >>> from sktagi import TAGIRegressor
        >>> model = TAGIRegressor(random_state=0).partial_fit([[0.0], [1.0]], [0.0, 1.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.tagi")
        ...     model.save(path)
        ...     TAGIRegressor.load(path).n_samples_seen_
        2
        """
        write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the estimator that `save` wrote to a file.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        estimator : object
            An estimator that predicts, and goes on, as the one that was saved.

        Examples
        --------
        >>> import os, tempfile
        >>> from sktagi import TAGIClassifier
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.tagi")
        ...     TAGIClassifier(half_life=500).save(path)
        ...     TAGIClassifier.load(path)
        TAGIClassifier(half_life=500)
        """
        data = Path(path).read_bytes()
        try:
            return cls.from_bytes(data)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that it is there as a whole, whatever happens: the old or the new one."""
    place = Path(os.path.realpath(path))
    _remove_leftovers(place.parent)
    unfinished = place.with_name(f".{place.name}.{secrets.token_hex(8)}{_UNFINISHED}")
    try:
        # Permissions of a new file are those of any other: mode 0o666 without the umask.
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                os.chmod(unfinished, place.stat().st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, place)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def _remove_leftovers(folder: Path) -> None:
    """Remove what processes that were killed while they wrote have left, not more than hourly."""
    now = time.time()
    if now - _swept.get(folder, 0) < LEFTOVER_SECONDS:
        return  # a folder may hold many files
    _swept[folder] = now
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(_UNFINISHED):
                with suppress(OSError):
                    if entry.stat().st_mtime < now - LEFTOVER_SECONDS:
                        os.unlink(entry.path)


def _sync_folder(folder: Path) -> None:
    """Make the new name last, too, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _requests(routing: Any) -> dict[str, dict[str, Any]]:
    """Return what ``set_fit_request`` and the like have asked for, by method."""
    methods = {name: getattr(request, "requests", None) for name, request in vars(routing).items()}
    return {name: dict(requests) for name, requests in methods.items() if requests}


def _request(estimator: Any, requests: dict[str, dict[str, Any]]) -> None:
    """Ask for the same as another estimator."""
    routing = get_routing_for_object(estimator)
    for method, parameters in requests.items():
        for parameter, alias in parameters.items():
            getattr(routing, method).add_request(param=parameter, alias=alias)
    estimator._metadata_request = routing
