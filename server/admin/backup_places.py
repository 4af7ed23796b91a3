"""Where backups are: a directory, or another file system that fsspec knows, given by a URL."""

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from ...hachannel.journal.frame_file import sync_directory
from .connection import AdminError

__all__ = ["BackupPlace", "PlaceError", "place_of"]

SUFFIX = ".part"
"""Of a file that is being written."""


class PlaceError(AdminError):
    """The place cannot be used. The text is one sentence."""


class BackupPlace(Protocol):
    """Files in one directory. All methods raise OSError."""

    def names(self) -> list[str]:
        """Return the names of all whole files; [] if there is no such directory."""
        ...

    def reading(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file to read it."""
        ...

    def writing(self, name: Callable[[], str]) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file to write it. It gets its name once it is whole, and is dropped after an exception.

        name: returns the name, at the end. Raises FileExistsError if there is a file with this name.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...


class _Directory:
    """A directory of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        try:
            return sorted(each.name for each in self._path.iterdir() if not each.name.endswith(SUFFIX))
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def reading(self, name: str) -> Generator[BinaryIO]:
        with open(self._path / name, "rb") as file:
            yield file

    @contextlib.contextmanager
    def writing(self, name: Callable[[], str]) -> Generator[BinaryIO]:
        self._path.mkdir(parents=True, exist_ok=True)
        part = self._path / f"{secrets.token_hex(8)}{SUFFIX}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            self._name(part, self._path / name())
            sync_directory(self._path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    @staticmethod
    def _name(part: Path, path: Path) -> None:
        """Give a file its name. Raises FileExistsError if another one has it."""
        try:
            # Unlike a rename, this replaces nothing, whatever else writes there.
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:
            # The file system has no links.
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            part.rename(path)
        else:
            part.unlink()

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


class _Remote:
    """A directory of a file system of fsspec."""

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path.rstrip("/")

    def names(self) -> list[str]:
        try:
            self._system.invalidate_cache()
            found = cast("list[str]", self._system.ls(self._path, detail=False))
        except FileNotFoundError:
            return []
        names = [each.rstrip("/").rpartition("/")[2] for each in found]
        return sorted(each for each in names if not each.endswith(SUFFIX))

    @contextlib.contextmanager
    def reading(self, name: str) -> Generator[BinaryIO]:
        with self._system.open(f"{self._path}/{name}", "rb") as file:
            yield file

    @contextlib.contextmanager
    def writing(self, name: Callable[[], str]) -> Generator[BinaryIO]:
        part = f"{self._path}/{secrets.token_hex(8)}{SUFFIX}"
        self._system.makedirs(self._path, exist_ok=True)
        try:
            with self._system.open(part, "wb") as file:
                yield file
            target = f"{self._path}/{name()}"
            if self._system.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            self._system.mv(part, target)
        except BaseException:
            with contextlib.suppress(Exception):
                self._system.rm(part)
            raise

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm(f"{self._path}/{name}")


def place_of(target: str, server: str) -> BackupPlace:
    """Return the directory of a server in a place: a path, or a URL of fsspec. Raises PlaceError."""
    if "://" not in target:
        return _Directory(Path(target) / server)
    try:
        fsspec: Any = import_module("fsspec")
    except ModuleNotFoundError:
        raise PlaceError(
            f"{target} needs fsspec, which is not installed; install it with: "
            "python -m pip install 'quorate[backup]'"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(target)
    except Exception as error:
        raise PlaceError(f"{target} cannot be used: {error}.") from None
    return _Remote(system, f"{path.rstrip('/')}/{server}")
