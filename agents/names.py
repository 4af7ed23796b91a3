"""Names of notification and agent classes, on the wire and on the disk.

A class with an explicit name travels and is stored as ``name/version``, for example ``bank.deposit/1``: its
module may change. A class without one has the name ``module:Class``.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar

__all__ = [
    "AgentError",
    "ClassNames",
    "check_importable",
    "check_whole_name",
    "location",
    "names_of",
    "split_name",
]

T = TypeVar("T")

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")
_FULL: Final = re.compile(rf"{_NAME.pattern}/[1-9][0-9]*|[A-Za-z_][\w.]*:[A-Za-z_<][\w.<>]*")
_MAX_NAME: Final = 200
_MAX_VERSION: Final = 9999
_PLATFORM: Final = __name__.partition(".")[0]
"""The package of the platform: names that begin with it are its own."""


class AgentError(TypeError):
    """A class cannot be an agent or a notification.

    The text names the class and the place, and what to write instead.
    """


def location(cls: type) -> str:
    """Return ``module:Class``, from which the class can be imported.

    A script's classes have the name by which the script can be imported.
    """
    return f"{_module_name(cls.__module__)}:{cls.__qualname__}"


def check_importable(cls: type) -> None:
    """Raise AgentError, with the remedy, unless replicas can import the class by its `location`."""
    found: object = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not cls or _module_name(cls.__module__) == "__main__":
        raise AgentError(
            f"{location(cls)} cannot be imported by that name on the replicas; "
            "define the class at the top level of a module"
        )


def _module_name(module: str) -> str:
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else module


def names_of(cls: type, name: str | None, version: int, also: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a class: its own, then those that it accepts, too.

    `name` and `version` are the arguments of the class statement, `also` holds whole names
    (``bank.deposit/1`` or ``module:Class``). Raises AgentError if one of them cannot be a name.
    """
    where = location(cls)
    if name is None:
        if version != 1:
            raise AgentError(f"{where}: a version belongs to a name; give the class both, or neither")
        own = where
    else:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentError(
                f"{where}: {name!r} is not a name; use up to {_MAX_NAME} small letters and digits, in words "
                "that begin with a letter, joined by . - or _, like bank.deposit"
            )
        if type(version) is not int or not 1 <= version <= _MAX_VERSION:
            raise AgentError(f"{where}: {version!r} is not a version; give a number from 1 to {_MAX_VERSION}")
        if name.partition(".")[0] == _PLATFORM and cls.__module__.partition(".")[0] != _PLATFORM:
            raise AgentError(f"{where}: {name!r} begins like a name of the platform; choose another")
        own = f"{name}/{version}"
    if not isinstance(also, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise AgentError(f"{where}: also is a tuple of names, like ('bank.deposit/1',)")
    for other in also:
        check_whole_name(other, where)
    return tuple(dict.fromkeys((own, *also)))


def check_whole_name(name: str, where: str) -> None:
    """Raise AgentError unless `name` is one under which a class may be stored."""
    if not isinstance(name, str) or not _FULL.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise AgentError(
            f"{where}: {name!r} in also is not a whole name; write it like bank.deposit/1 or bank:Deposit"
        )


def split_name(name: str) -> tuple[str, int] | None:
    """Return name and version of ``bank.account/2``; None for a ``module:Class``, which has no version."""
    base, slash, version = name.rpartition("/")
    return (base, int(version)) if slash and version.isdecimal() else None


class ClassNames(Generic[T]):
    """The classes that this process has defined, by each of their names."""

    def __init__(self) -> None:
        self._classes: dict[str, type[T]] = {}
        self.changes = 0
        """Raised with every class that is recorded."""
        self._upgrading: dict[str, tuple[int, type[T]]] = {}
        """By the name of a former version, the latest version that has upgrades from it, and its class."""

    def add(self, cls: type[T], names: tuple[str, ...], former: Iterable[str] = (), version: int = 1) -> None:
        """Record a class of that version, and the names of `former` versions from which it has upgrades.

        A class replaces one of the same ``module:Class``: attrs builds a class twice, and a module may be
        loaded again. Raises AgentError, naming both, if another class has one of the names.
        """
        own = location(cls)
        for name in names:
            earlier = self._classes.get(name)
            if earlier is not None and location(earlier) != own:
                raise AgentError(
                    f"{own} and {location(earlier)} are both called {name}; give one of them another name, "
                    "or another version"
                )
        self.changes += 1
        for name in names:
            self._classes[name] = cls
        for name in former:
            if version >= self._upgrading.get(name, (0, cls))[0]:
                self._upgrading[name] = version, cls

    def find(self, name: str) -> type[T] | None:
        """Return the class of that name, None if this process has defined none. Imports nothing."""
        return self._classes.get(name)

    def upgrading(self, name: str) -> type[T] | None:
        """Return the latest class that has upgrades from the former version of that name; None if there is
        none."""
        return self._upgrading.get(name, (0, None))[1]

    def __iter__(self) -> Iterator[tuple[str, type[T]]]:
        """Yield each name with its class."""
        return iter(self._classes.items())

    def versions(self, base: str) -> dict[int, type[T]]:
        """Return the classes whose own or accepted name is `base` with some version, by version.

        The cost is that of all names: for rare use.
        """
        found: dict[int, type[T]] = {}
        for name, cls in self._classes.items():
            parts = split_name(name)
            if parts is not None and parts[0] == base:
                found[parts[1]] = cls
        return dict(sorted(found.items()))
