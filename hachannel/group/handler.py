"""The handler, the limits and the errors of a group."""

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
"""Limit of `GroupLimits.packs_in_flight`: each member remembers this many packs of every member."""


class GroupError(ChannelError):
    """The base of all errors of a group. The text is one sentence that says what to do."""


class NotInGroup(GroupError):
    """The caller used `multicast` before `join` or after `leave`, or the member left before the commit."""


class QueueFull(GroupError):
    """The caller sends faster than the group commits: wait for earlier messages."""


class GroupFailed(GroupError):
    """This member cannot go on; the text says why."""


class GroupHandler(Protocol):
    """The application on one member. All members get the same calls of `delivered` in the same order.

    An exception of a method, even SystemExit, is logged, and the group goes on. Only after an exception of
    `receive_state` the member stops, with GroupFailed.
    """

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Process message number `index` of the group, from 1 without gaps, which member `origin` sent."""
        ...

    def view_changed(self, view: ViewEvent) -> None:
        """Handle a change of the members, the master, or only the voters.

        The call comes between the same two messages on every member.
        """
        ...

    def provide_state(self) -> bytes | Sequence[bytes]:
        """Return the state after the messages so far, for a member that joins."""
        ...

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the state by one that `provide_state` returned on the master.

        chunks: the pieces that `provide_state` returned, in order; pieces above 1 MiB are cut.
        """
        ...


@attrs.frozen(kw_only=True)
class GroupLimits:
    """Limits of the packs and of the queue of a member. Sizes in bytes."""

    pack_messages: int = 1024
    """Messages in one entry of the channel."""
    pack_bytes: int = 256 * 1024
    """Payload bytes in one entry; a larger message gets an entry of its own."""
    packs_in_flight: int = 4
    """Entries of this member that may be in flight. With more, messages wait less; with fewer, each entry has
    more messages."""
    queue_messages: int = 100_000
    """Messages that may wait here; with more, `multicast` fails with QueueFull."""
    queue_bytes: int = 64 * 1024 * 1024
    """Payload bytes that may wait here."""

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}: every limit of a group is a whole number, at least 1")
        if self.packs_in_flight > MAX_PACKS_IN_FLIGHT:
            raise ValueError(f"packs_in_flight is at most {MAX_PACKS_IN_FLIGHT}")
