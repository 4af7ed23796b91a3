"""What the users of a group see beside `Group`: its handler, its limits, its errors."""

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
"""Limit of `GroupLimits.packs_in_flight`; the places of so many are remembered of every member."""


class GroupError(ChannelError):
    """Any refusal of a group. The text is one sentence that says what to do."""


class NotInGroup(GroupError):
    """The caller multicasts before `join` or after `leave`, or left before the message was committed."""


class QueueFull(GroupError):
    """The caller multicasts faster than the group commits: wait for earlier messages."""


class GroupFailed(GroupError):
    """This member cannot go on; the text says why."""


class GroupHandler(Protocol):
    """The application on one member. All members get the same calls of `delivered` in the same order.

    What a method raises is logged, whatever it is; the group goes on. Only `receive_state` must not fail: the
    member stops.
    """

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Message number `index` of the group, from 1 and without gaps; the member `origin` sent it."""
        ...

    def view_changed(self, view: ViewEvent) -> None:
        """The members, the master, or only who votes have changed.

        Comes between the same two messages on every member.
        """
        ...

    def provide_state(self) -> bytes | Sequence[bytes]:
        """Return everything that the messages so far have led to, for a member that joins."""
        ...

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the state by one that `provide_state` returned.

        `chunks` are the bytes that it returned, one by one; those above 1 MiB come cut.
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
    """Entries of this member that may be on their way. More of them wait less, fewer of them are fuller."""
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
