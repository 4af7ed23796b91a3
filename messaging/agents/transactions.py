"""Transactions at a destination: what is staged in them, and the commitment over several destinations.

A client sends to each destination of a transaction as always, with the number of the transaction. The
destination stages it. To commit, the client asks one of the destinations, which has all of them vote: each
votes once all that was sent to it has arrived. Then it decides for all. Destinations of one server do all
this in one turn, and no other notification comes in between; with others it takes as long as the links do,
and no failure of a replica ends it.
"""

from typing import Final

import attrs

from ...agents import AgentId, Notification, Pack, ReplyTo
from .protocol import Committed, Reason, Refused, RolledBack
from .ranges import Ranges

__all__ = ["AskVote", "Commitment", "Decide", "Moved", "Staged", "Vote", "transaction_key"]

MAX_STAGED_BYTES: Final = 64 * 1024 * 1024
MAX_LOCKS: Final = 10_000
"""The most bytes of messages, and the most accepted messages, of one transaction at one destination."""


@attrs.frozen
class AskVote(Notification, name="quorate.message.ask-vote"):
    """Question of the destination that was asked to commit: can this transaction be committed here?"""

    client: AgentId
    transaction: int
    parts: int
    """How many notifications of the transaction the client has sent here."""


@attrs.frozen
class Vote(Notification, name="quorate.message.vote"):
    """Answer to `AskVote`."""

    client: AgentId
    transaction: int
    refusal: str
    """Why not; empty: it can."""


@attrs.frozen
class Decide(Notification, name="quorate.message.decide"):
    """The decision over a transaction, for each destination that has voted."""

    client: AgentId
    transaction: int
    commit: bool


@attrs.frozen
class Moved(Notification, name="quorate.message.moved"):
    """Answer to the order of an administrator to move messages: so many were moved."""

    count: int


def transaction_key(client: AgentId, transaction: int) -> str:
    """Return the key of a transaction."""
    return f"{client} {transaction}"


@attrs.define
class Staged:
    """What one transaction has at a destination."""

    client: AgentId
    transaction: int
    parts: int = 0
    """Notifications of it that have arrived."""
    packs: list[Pack] = attrs.field(factory=list[Pack])
    messages: int = 0
    size_bytes: int = 0
    locked: dict[str, Ranges] = attrs.field(factory=dict[str, Ranges])
    """By subscription: the messages that it has accepted."""
    refusal: str = ""
    """Why it cannot be committed."""
    asker: AgentId | None = None
    """Who has asked for the vote."""
    expected: int = 0
    """How many notifications of it must have arrived before the vote."""
    voted: bool = False
    """It can be committed, and waits for the decision."""
    seen: bool = True
    """Whether messages that it has accepted count as seen if it is rolled back."""

    def stage(self, pack: Pack) -> None:
        """Add messages that are to be published."""
        self.packs.append(pack)
        self.messages += len(pack)
        self.size_bytes += len(pack.data)
        if self.size_bytes > MAX_STAGED_BYTES:
            self.refuse(f"it has more than {MAX_STAGED_BYTES} bytes: commit more often")

    def lock(self, subscription: str, ranges: list[tuple[int, int]]) -> None:
        """Add messages that were accepted."""
        locked = self.locked.setdefault(subscription, Ranges())
        for first, end in ranges:
            locked.add(first, end)
        if sum([each.count for each in self.locked.values()]) > MAX_LOCKS:
            self.refuse(f"it has accepted more than {MAX_LOCKS} messages: commit more often")

    def refuse(self, text: str) -> None:
        """Make sure that it is not committed. The first reason counts."""
        self.refusal = self.refusal or text

    @property
    def complete(self) -> bool:
        """Whether it is to vote now."""
        return self.asker is not None and not self.voted and self.parts >= self.expected


@attrs.define
class Commitment:
    """The commitment of a transaction, at the destination that was asked for it."""

    client: AgentId
    transaction: int
    answer: ReplyTo
    destinations: list[str]
    waiting: int
    """Votes that have not come."""
    refusal: str = ""
    moved: int = -1
    """Of messages that an administrator moves: how many they are."""

    def outcome(self, *, agreed: bool) -> Notification:
        """Return the answer to who has asked for it."""
        if self.moved >= 0:
            text = f"nothing was moved: {self.refusal}"
            return Moved(self.moved) if agreed else Refused(Reason.REJECTED, text)
        text = f"the transaction was rolled back: {self.refusal}"
        return Committed(self.transaction) if agreed else RolledBack(self.transaction, Reason.REJECTED, text)
