"""What the faces of groups have in common: arguments, and the words of their errors."""

from collections.abc import Iterable, Sequence
from typing import Final

from ...agents import AgentId
from ...client.connection_base import ConnectionBase
from ..agents.items import MemberInfo
from .events import Member
from .hub import GroupCore, hub_of
from .membership import MembershipCore

__all__ = ["GroupBase", "MembershipBase", "checked_payload", "checked_payloads", "member_ids"]

REQUEST_TIMEOUT_S: Final = 30.0


def checked_payload(payload: object) -> bytes:
    """Return a message. Raises TypeError if it is not bytes."""
    if not isinstance(payload, bytes):
        raise TypeError(f"a message to a group is bytes, not {type(payload).__name__}; encode it")
    return payload


def checked_payloads(payloads: Iterable[object]) -> list[bytes]:
    """Return messages. Raises TypeError or ValueError if they are not bytes, or none."""
    found = [checked_payload(payload) for payload in payloads]
    if not found:
        raise ValueError("there is no message to cast; give at least one")
    return found


def member_ids(to: Sequence[Member | AgentId]) -> list[AgentId]:
    """Return the identifiers of members. Raises TypeError."""
    found = [each.id if isinstance(each, Member) else each for each in to]
    for each in found:
        if not isinstance(each, AgentId):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{each!r} is not a member; give the members of a View, or their id")
    return found


class GroupBase:
    """A group of a server, as a connection uses it: see `Group` and `AsyncGroup`."""

    def __init__(self, connection: ConnectionBase, name: str) -> None:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name!r} is not the name of a group; give text")
        self.hub = hub_of(connection)
        self.core: GroupCore = self.hub.group(name)

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.core.title

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class MembershipBase:
    """A membership of a connection in a group: see `Membership` and `AsyncMembership`."""

    def __init__(self, core: MembershipCore) -> None:
        self._events = core

    @property
    def members(self) -> tuple[Member, ...]:
        """The members as of the last event that has come, which may wait to be taken; the oldest first."""
        return tuple(Member.of(info) for info in self._events.members)

    @property
    def member_infos(self) -> tuple[MemberInfo, ...]:
        """The same, with which of them have the state of the application, and which are suspected."""
        return self._events.members

    @property
    def waiting(self) -> int:
        """Events that have come and wait to be taken."""
        return len(self._events.events)
