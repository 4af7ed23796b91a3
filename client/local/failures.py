"""Errors of a server for the threads of its process, of the same classes as those of a connection."""

from ...agents.envelope import Note
from ..errors import QuorateClientError, Unavailable
from ..frames import ServerNote
from ..pending import outcome

__all__ = ["failure_of", "unavailable"]


def failure_of(note: Note) -> QuorateClientError | None:
    """Return the error that a failure report of the platform stands for; None for another notification."""
    try:
        outcome(ServerNote(note.sender, note.type, note.payload, note.request))
    except QuorateClientError as error:
        return error
    return None


def unavailable(sentence: str) -> Unavailable:
    """Return the error for something that a replica does not do now."""
    return Unavailable(sentence)
