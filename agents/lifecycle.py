"""Requests to the factory agent of a server about agents that exist, their timers and dead letters.

`Create` and `Delete` are in `builtin`.
"""

from typing import Final

import attrs
import msgspec

from .builtin import Create, Delete, RefuseCreate
from .ids import AgentId
from .notification import Notification

__all__ = [
    "DECLARED_KEY",
    "LIFECYCLE_TYPES",
    "MAX_LISTED",
    "REMOTE_TYPES",
    "AgentPage",
    "AgentRow",
    "CancelTimer",
    "DropDeadLetters",
    "ListAgents",
    "Pause",
    "Paused",
    "ResendDeadLetters",
    "Resume",
    "Resumed",
    "Settled",
    "TimerCancelled",
]

MAX_LISTED: Final = 1000
"""Most agents in one `AgentPage`, and most dead letters in one request about them."""
DECLARED_KEY: Final = "declared:"
"""Beginning of the keys of agents that the configuration declares. Only the server itself uses such keys."""


class AgentRow(msgspec.Struct, array_like=True, frozen=True):
    """One agent in a list."""

    id: AgentId
    name: str
    """Its name, "" if it has none."""
    class_name: str
    """The name of its class: ``bank.account/1`` or ``module:Class``."""
    reactions: int
    """How many notifications it has reacted to."""
    paused: bool = False
    held: int = 0
    """Notifications that wait until it is resumed."""


@attrs.frozen
class ListAgents(Notification, name="quorate.list-agents"):
    """Request to a factory agent for a page of the agents of its server. Answered with `AgentPage`."""

    class_name: str = ""
    """Only agents of the class with this name, or of this ``module:Class``; "" for all."""
    name: str = ""
    """Only the agent of this name or id; with a ``*`` at the end, agents whose names begin so; "" for all.

    With a name the agents are ordered by name, otherwise by id."""
    after: str = ""
    """`AgentPage.next` of the page before; "" for the first page."""
    limit: int = MAX_LISTED
    """Most agents in the page, at most `MAX_LISTED`."""
    platform: bool = False
    """Whether agents of the platform are listed: reserved ones, client connections and their pages."""


@attrs.frozen
class AgentPage(Notification, name="quorate.agent-page"):
    """Answer to `ListAgents`."""

    agents: list[AgentRow]
    next: str
    """Where the next page begins; "" if this is the last one. A page that is not the last may be short."""


@attrs.frozen
class Pause(Notification, name="quorate.pause"):
    """Request to a factory agent to pause an agent. Answered with `Paused` or `UnknownAgent`.

    A paused agent does not react: what is sent to it, and its timers that are due, wait until it is resumed.
    """

    agent: str
    """Its id or name, as text."""


@attrs.frozen
class Paused(Notification, name="quorate.paused"):
    """Answer to `Pause`: the agent is paused, now or already."""

    id: AgentId


@attrs.frozen
class Resume(Notification, name="quorate.resume"):
    """Request to a factory agent to resume a paused agent. Answered with `Resumed` or `UnknownAgent`."""

    agent: str
    """Its id or name, as text."""


@attrs.frozen
class Resumed(Notification, name="quorate.resumed"):
    """Answer to `Resume`: the agent is not paused any more, or was not."""

    id: AgentId
    delivered: int
    """How many notifications had waited for it."""


@attrs.frozen
class CancelTimer(Notification, name="quorate.cancel-timer"):
    """Request to a factory agent to cancel a timer. Answered with `TimerCancelled`, or an
    `ExceptionNotification` if there is no such timer."""

    agent: str
    """Id or name of the agent that has set it, as text."""
    timer: int
    """Its number."""


@attrs.frozen
class TimerCancelled(Notification, name="quorate.timer-cancelled"):
    """Answer to `CancelTimer`."""

    timer: int


@attrs.frozen
class ResendDeadLetters(Notification, name="quorate.resend-dead-letters"):
    """Request to a factory agent to send kept dead letters once more. Answered with `Settled`.

    They leave the dead letters; those that cannot be delivered again become new ones. Answers to them go to
    their senders, as notifications that answer no request.
    """

    numbers: list[int]
    """At most `MAX_LISTED`."""
    to: str = ""
    """The agent to send them to, an id or a name; "" for the one that each was sent to."""


@attrs.frozen
class DropDeadLetters(Notification, name="quorate.drop-dead-letters"):
    """Request to a factory agent to drop kept dead letters. Answered with `Settled`."""

    numbers: list[int]
    """At most `MAX_LISTED`."""


@attrs.frozen
class Settled(Notification, name="quorate.dead-letters-settled"):
    """Answer to `ResendDeadLetters` and `DropDeadLetters`."""

    settled: list[int]
    """The letters that were resent or dropped."""
    unknown: list[int]
    """Numbers of letters that are not kept, or were resent or dropped before."""
    incomplete: list[int]
    """Letters that were too large to be kept whole: they can be dropped, not resent."""


LIFECYCLE_TYPES: Final = frozenset(
    cls.type_name for cls in (ListAgents, Pause, Resume, CancelTimer, ResendDeadLetters, DropDeadLetters)
)
"""Types of the requests in this module."""
REMOTE_TYPES: Final = LIFECYCLE_TYPES | {cls.type_name for cls in (Create, Delete, RefuseCreate)}
"""Types that a client with the right may send to a factory agent."""
