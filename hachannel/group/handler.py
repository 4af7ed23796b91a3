"""The interface of a group beside `Group` itself: its handler, its limits, its errors."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from ..model.errors import ChannelError
from ..model.events import ViewEvent

__all__ = [
    "MAX_PACKS_IN_FLIGHT",
    "GroupError",
    "GroupFailed",
    "GroupHandler",
    "GroupLimits",
    "NotInGroup",
    "QueueFull",
]


MAX_PACKS_IN_FLIGHT = 16
"""Limit of `GroupLimits.packs_in_flight`; every member remembers the indices of this many packs of each."""


class GroupError(ChannelError):
    """Any refusal of a group. The text is one sentence that says what to do."""


class NotInGroup(GroupError):
    """The caller multicasts before `join` or after `leave`, or the member left before the commit."""


class QueueFull(GroupError):
    """The caller multicasts faster than the group commits: wait for earlier messages."""


class GroupFailed(GroupError):
    """This member cannot go on; the text says why."""


class GroupHandler(Protocol):
    """The application on one member. All members get the same calls of `delivered` in the same order.

    An exception of a method is logged, also SystemExit, and the group goes on. Only after an exception of
    `receive_state` the member stops, with GroupFailed.
    """

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Process message number `index` of the group, from 1 without gaps, which member `origin` sent."""
        ...

    def view_changed(self, view: ViewEvent) -> None:
        """Note that the members, the master, or only the voters have changed.

        The call comes between the same two messages on every member.
        """
        ...

    def provide_state(self) -> bytes | Sequence[bytes]:
        """Return the state after the messages so far, for a member that joins."""
        ...

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the state by one that `provide_state` returned on the master.

        `chunks` are the pieces that it returned, one by one; pieces above 1 MiB come cut.
        """
        ...


@attrs.frozen(kw_only=True)
class GroupLimits:
    """How messages are gathered, and what may wait. Sizes in bytes."""

    pack_messages: int = 1024
    """Messages in one entry of the channel."""
    pack_bytes: int = 256 * 1024
    """Payload bytes in one entry; a larger message goes alone."""
    packs_in_flight: int = 4
    """Entries of this member that may be in flight. With more of them messages wait less; with fewer of
    them each entry has more messages."""
    queue_messages: int = 100_000
    """Messages that may wait here; above, `multicast` fails with QueueFull."""
    queue_bytes: int = 64 * 1024 * 1024
    """Payload bytes that may wait here."""

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}: every limit of a group is a whole number, at least 1")
        if self.packs_in_flight > MAX_PACKS_IN_FLIGHT:
            raise ValueError(f"packs_in_flight is at most {MAX_PACKS_IN_FLIGHT}")
