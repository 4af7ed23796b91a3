"""The ways between destinations of several servers.

A **link** carries messages away: its destination publishes them at another one as a client does, within the
credit that it is given, and keeps them until they are confirmed. So what waits for a server that cannot be
reached waits in the rows of the destination, and a full destination stops its producers at the other end.

A **pull** fetches messages: a member of a clustered queue consumes at another member, for the consumers of
its own that have room.
"""

from typing import Final

import attrs

from .ranges import Range

__all__ = ["MAX_PULL", "RETRY_S", "Link", "LinkState", "Pull"]

MAX_PULL: Final = 1000
"""Messages that a member of a clustered queue asks another one for at most."""
RETRY_S: Final = 5.0
"""How long a destination waits before it looks again for one that did not exist or refused."""


@attrs.frozen
class LinkState:
    """A link or a pull in `Described`."""

    target: str
    """The address of the other destination."""
    does: str
    """``forwards`` or ``fetches``."""
    moved: int
    """Messages that it has carried, in all."""
    under_way: int
    """Messages that are not confirmed by the other side, or that it was asked for and has not sent."""
    problem: str
    """Why it does not work now; empty: it does."""


@attrs.define
class Link:
    """A way on which a destination publishes at another one."""

    target: str
    """The address of the other destination."""
    place: str
    """The subscription whose messages it carries."""
    member: bool
    """Both are members of a clustered topic."""
    number: int = 0
    """The number of its producer; 0: it has none."""
    open: bool = False
    sent: int = 0
    """The producer's number of the last message."""
    sent_bytes: int = 0
    credit_messages: int = 0
    credit_bytes: int = 0
    under_way: list[tuple[int, int, int]] = attrs.field(factory=list[tuple[int, int, int]])
    """What is not confirmed: the producer's number of a message, its number here, and how many follow each
    other from there, with itself."""
    moved: int = 0
    problem: str = ""

    @property
    def consumer(self) -> str:
        """The key of its consumer in the subscription."""
        return f"link {self.target}"

    @property
    def room(self) -> int:
        """How many messages it may send now."""
        if not self.open or self.sent_bytes >= self.credit_bytes:
            return 0
        return max(0, self.credit_messages - self.sent)

    @property
    def unconfirmed(self) -> int:
        """How many messages are under way."""
        return sum([count for _, _, count in self.under_way])

    def opening(self, number: int) -> None:
        """Begin with a new producer."""
        self.number, self.open, self.sent, self.sent_bytes = number, False, 0, 0

    def opened(self, credit_messages: int, credit_bytes: int) -> None:
        """Learn that the producer is open, and its credit."""
        self.open, self.problem = True, ""
        self.credit_messages, self.credit_bytes = credit_messages, credit_bytes

    def sending(self, ranges: list[Range], size_bytes: int) -> int:
        """Note that these messages are sent. Return the producer's number of the first one."""
        first = self.sent + 1
        for begin, end in ranges:
            self.under_way.append((self.sent + 1, begin, end - begin))
            self.sent += end - begin
        self.sent_bytes += size_bytes
        return first

    def confirmed(self, upto: int) -> list[Range]:
        """Return the messages that are not under way any more, up to a number of the producer."""
        return self.taken_out(0, upto + 1)

    def taken_out(self, first: int, end: int) -> list[Range]:
        """Take the messages with the producer's numbers from `first` to `end`, without `end`, out."""
        found: list[Range] = []
        kept: list[tuple[int, int, int]] = []
        place = 0
        for serial, number, count in self.under_way:
            if serial >= end:
                break
            place += 1
            before = min(max(first - serial, 0), count)
            after = min(max(serial + count - end, 0), count - before)
            if before:
                kept.append((serial, number, before))
            if before + after < count:
                found.append((number + before, number + count - after))
            if after:
                kept.append((serial + count - after, number + count - after, after))
        self.under_way[:place] = kept
        return found

    def closed(self, problem: str) -> list[Range]:
        """Learn that the other side has no such producer. Return what was under way: it was not taken."""
        self.number, self.open, self.problem = 0, False, problem
        return self.taken_out(0, self.sent + 1)


@attrs.define
class Pull:
    """A consumer of a member of a clustered queue, at another member."""

    peer: str
    """The address of the other member."""
    selector: str
    """That of the consumers here for which it fetches."""
    number: int = 0
    """The number of its consumer; 0: it has none."""
    window: int = 0
    """What the other member was told last."""
    open: bool = False
    taken: list[int] = attrs.field(factory=list[int])
    """Numbers there of messages that have come and are not settled yet: first, count, first, count."""
    moved: int = 0
    problem: str = ""

    def ended(self, problem: str) -> None:
        """Learn that the other member has no such consumer. A problem makes the pull wait."""
        self.number, self.window, self.open, self.taken, self.problem = 0, 0, False, [], problem

    def wanted(self, room: int) -> int | None:
        """Return the window to ask for, for the room of the consumers here; None: what was asked for stands.

        Small changes are not told.
        """
        room = min(room, MAX_PULL)
        if room == self.window or (room and self.window and self.window < 2 * room < 4 * self.window):
            return None
        return room
