"""The check of the notifications that another server sends: their senders, and platform agents as recipients.

A refused notification still counts as received: the numbers of a connection have no gaps. In its place goes a
note that reaches nobody.
"""

from collections.abc import Callable

from ...agents import FAILURES, Create, Delete, Note, activities, connection_manager, factory, outside
from ...agents.lifecycle import LIFECYCLE_TYPES
from ..config import Config
from .rate_limit import RateLimit

__all__ = ["REFUSED_TYPE", "SenderCheck"]

REFUSED_TYPE = "quorate.refused"
"""Type of the note that stands for a refused one."""

MAX_TEXT = 200
"""Characters of a type or an address in a line of the log."""

_FOR_FACTORY = frozenset({Create.type_name, Delete.type_name}) | LIFECYCLE_TYPES | FAILURES


class SenderCheck:
    """Decides which notifications of a neighbour are accepted, by the configuration alone."""

    def __init__(
        self, config: Config, here: int, log: Callable[[str], None], count: Callable[[str], None]
    ) -> None:
        """`here` is this server. `count` gets ``refused_notifications`` for each of them."""
        self._config = config
        self._here = here
        self._limit = RateLimit(log)
        self._count = count
        self._relayed: dict[int, frozenset[int]] = {}
        """By neighbour, the servers whose notifications it may bring."""
        ids = factory(here), connection_manager(here), activities(here)
        self._factory = frozenset({ids[0], str(ids[0])})
        self._reserved = frozenset({*ids, *map(str, ids)})
        """Agents of the platform here, by id and by its text."""
        self._nobody = outside(here)

    def screened(self, now: float, neighbour: int, notes: list[Note]) -> list[Note]:
        """Return as many notifications; refused ones are replaced, and named in the log at time `now`."""
        relayed = self._relayed.get(neighbour)
        if relayed is None:
            relayed = self._relayed[neighbour] = self._config.relayed_by(self._here, neighbour)
        reserved = self._reserved
        if all(note.sender.host in relayed and note.to not in reserved for note in notes):
            return notes
        return [self._checked(now, neighbour, relayed, note) for note in notes]

    def _checked(self, now: float, neighbour: int, relayed: frozenset[int], note: Note) -> Note:
        source = note.sender.host
        if source not in relayed:
            reason = f"but no route of the configuration leads from server {source} over server {neighbour}"
        elif note.to not in self._reserved or (note.to in self._factory and note.type in _FOR_FACTORY):
            return note
        else:
            reason = "to which only this server sends that"
        self._count("refused_notifications")
        text = f"{note.type[:MAX_TEXT]!r} from {note.sender} to {str(note.to)[:MAX_TEXT]!r}"
        self._limit.line(now, f"server {neighbour} sent {text}, {reason}: it was refused")
        return Note(self._nobody, outside(neighbour), REFUSED_TYPE, b"")
