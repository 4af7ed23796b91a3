"""The administrator's orders to skip a reaction, in the directory of a replica.

An order is an empty file whose name says which reaction is meant. It stays until a saved state has passed
the entry: a restart that applies the entry again skips the reaction again.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple, Self

from ...hachannel.journal.frame_file import sync_directory
from .private_files import PRIVATE_DIRECTORY, PRIVATE_FILE

__all__ = ["SkipOrder", "SkipOrders"]

DIRECTORY = "skips"
_FIELDS = 3
_MAX_DIGITS = 20


class SkipOrder(NamedTuple):
    """One reaction of a server."""

    entry: int
    """The entry of the ordered log."""
    position: int
    """The position of the reaction among all reactions of the server."""
    birth: int
    """The life of the server's state: entries and positions begin anew with another one."""

    def __str__(self) -> str:
        return f"{self.entry}.{self.position}.{self.birth}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the order that `str` has written. Raises ValueError."""
        parts = text.split(".")
        if len(parts) != _FIELDS or not all(
            each.isascii() and each.isdigit() and len(each) <= _MAX_DIGITS for each in parts
        ):
            raise ValueError(f"{text!r} is not the name of a reaction; give ENTRY.POSITION.BIRTH")
        return cls(*map(int, parts))


class SkipOrders:
    """The orders in the directory of one replica."""

    def __init__(self, directory: Path) -> None:
        """`directory` is that of the replica."""
        self._path = directory / DIRECTORY

    def add(self, order: SkipOrder) -> None:
        """Make an order durable. Raises OSError."""
        self._path.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
        (self._path / str(order)).touch(PRIVATE_FILE)
        for path in (self._path, self._path.parent):
            sync_directory(path)

    def read(self) -> frozenset[SkipOrder]:
        """Return the orders. Files of another name are ignored."""
        found: set[SkipOrder] = set()
        with contextlib.suppress(OSError):
            for name in os.listdir(self._path):
                with contextlib.suppress(ValueError):
                    found.add(SkipOrder.parse(name))
        return frozenset(found)

    def remove(self, order: SkipOrder) -> None:
        """Remove an order. One that cannot be removed stays, and means nothing any more."""
        with contextlib.suppress(OSError):
            (self._path / str(order)).unlink()
