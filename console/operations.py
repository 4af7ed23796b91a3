"""The operations of the HTTP API: what each takes and gives, and how a path leads to one. Pure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from .problems import Problem

if TYPE_CHECKING:
    from .access import Access, Identity
    from .calls import Calls
    from .host import Host

__all__ = ["NUMBERS", "Call", "Operation", "Routes", "parsed"]

NUMBERS: Final = frozenset({"number", "replica"})
"""Parameters in paths that are whole numbers from 0 on; all others are texts."""
MAX_NUMBER: Final = 2**63 - 1


@attrs.frozen
class Call:
    """One request for an operation."""

    host: "Host"
    calls: "Calls"
    access: "Access"
    origin: str
    """The address that the request comes from."""
    proven: str
    """The user that the certificate of the client is for; "" without one."""
    identity: "Identity | None"
    """Who asks; None for an operation that is open to everybody."""
    parts: Mapping[str, str]
    """The parameters in the path."""
    query: Any
    """What `Operation.query` says."""
    body: Any
    """What `Operation.body` says."""

    def number(self, name: str) -> int:
        """Return a parameter in the path that is a number."""
        return int(self.parts[name])


@attrs.frozen
class Operation:
    """One operation of the API."""

    name: str
    method: str
    path: str
    """With parameters in braces: ``/queues/{name}``."""
    summary: str
    run: Callable[[Call], Awaitable[Any]]
    result: Any
    """The type of the result; None: there is none."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    anywhere: bool = False
    """Every replica answers, and not only the master."""
    open: bool = False
    """Nobody needs to be logged in for it."""
    readers: bool | None = None
    """Whether those who may only read may use it; None: if it changes nothing."""

    @property
    def for_readers(self) -> bool:
        """Whether those who may only read may use it."""
        return self.method == "GET" if self.readers is None else self.readers

    @property
    def tag(self) -> str:
        """The first part of the path."""
        return self.path.split("/")[1]

    @property
    def segments(self) -> list[str]:
        """The parts of the path."""
        return self.path.split("/")[1:]


class Routes:
    """Finds the operation for a method and a path."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        """All operations."""
        self.operations = operations
        self._by_length: dict[int, list[Operation]] = {}
        for each in operations:
            self._by_length.setdefault(len(each.segments), []).append(each)

    def find(self, method: str, segments: Sequence[str]) -> tuple[Operation, dict[str, str]]:
        """Return the operation, and the parameters in the path. Raises Problem."""
        found: dict[str, tuple[Operation, dict[str, str]]] = {}
        for each in self._by_length.get(len(segments), ()):
            parts = _match(each.segments, segments)
            if parts is not None:
                found.setdefault(each.method, (each, parts))
        if not found:
            raise Problem(404, "not-found", "The API has no such path; openapi.json lists all.")
        wanted = "GET" if method == "HEAD" else method
        if wanted not in found:
            raise MethodProblem(sorted({*found, *({"HEAD"} if "GET" in found else ())}))
        operation, parts = found[wanted]
        for name in NUMBERS & parts.keys():
            if not (parts[name].isascii() and parts[name].isdigit() and int(parts[name]) <= MAX_NUMBER):
                raise Problem(400, "bad-request", f"{parts[name][:40]!r} is no {name}; give a whole number.")
        return operation, parts


class MethodProblem(Problem):
    """The path has other methods."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(405, "method-not-allowed", f"This path has the methods {', '.join(allowed)}.")
        self.allowed = allowed


def _match(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    parts: dict[str, str] = {}
    for wanted, given in zip(template, segments, strict=True):
        if wanted.startswith("{"):
            if not given:
                return None
            parts[wanted[1:-1]] = given
        elif wanted != given:
            return None
    return parts


def parsed(kind: type[msgspec.Struct], query: Sequence[tuple[str, str]]) -> msgspec.Struct:
    """Return the parameters of a query. Raises Problem for one that is unknown, twice there, or wrong."""
    given: dict[str, str] = {}
    for name, value in query:
        if name in given:
            raise Problem(400, "bad-request", f"The parameter {name[:40]!r} is there twice.")
        given[name] = value
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in given:
        if name not in known:
            listed = f"it takes {', '.join(known)}" if known else "it takes none"
            raise Problem(400, "bad-request", f"There is no parameter {name[:40]!r}; {listed}.")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, "bad-request", f"The parameters are wrong: {error}.") from None
