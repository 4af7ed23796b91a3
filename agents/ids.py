"""Identifiers of agents: creating server, hosting server, stamp."""

import re
from typing import Final, NamedTuple

__all__ = [
    "FACTORY_ADDRESS",
    "FIRST_CONNECTION_STAMP",
    "FIRST_FREE_STAMP",
    "FIRST_PAGE_STAMP",
    "FIRST_ROW_STAMP",
    "FIRST_SERVICE_STAMP",
    "MAX_AGENT_NAME",
    "Address",
    "AgentId",
    "activities",
    "connection_manager",
    "factory",
    "is_agent_name",
    "outside",
]

FIRST_FREE_STAMP: Final = 1025
"""Stamps below this one are reserved for built-in agents, and for those that services create."""

FIRST_SERVICE_STAMP: Final = 512
"""Stamps from this one to 1024 are those of agents that services of users create."""

FIRST_CONNECTION_STAMP: Final = 10**12
"""Stamps from this one on are those of client connections only, so the id shows what it is."""

FIRST_PAGE_STAMP: Final = 10**17
"""Stamps from this one on are those of pages, which hold what waits for a client."""

FIRST_ROW_STAMP: Final = 5 * 10**17
"""Stamps from this one on are those of rows, which belong to other agents."""

FACTORY_ADDRESS: Final = "#factory"
"""Address by which clients reach the factory agent of their server; that of another one: ``#factory@s1``."""

MAX_AGENT_NAME: Final = 255
"""Most characters of the name of an agent."""

_TEXT = re.compile(r"#(\d{1,5})\.(\d{1,5})\.(\d{1,18})", re.ASCII)


class AgentId(NamedTuple):
    """The identity of an agent. It is never used again for another agent.

    Text form: ``#creator.host.stamp``, for example ``#0.0.1025``.
    """

    creator: int
    """The server on which the agent was created."""
    host: int
    """The server on which the agent lives and reacts."""
    stamp: int
    """A number that the creating server uses once."""

    def __str__(self) -> str:
        return f"#{self.creator}.{self.host}.{self.stamp}"

    @classmethod
    def parse(cls, text: str) -> "AgentId":
        """Read ``#creator.host.stamp``.

        Raises ValueError with a sentence that says what is expected.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not an agent id; write it as #creator.host.stamp, like #0.0.1025")
        creator, host, stamp = match.groups()
        return cls(int(creator), int(host), int(stamp))


Address = AgentId | str
"""Address of a notification: an id, also as text, a name (``alice``) or a name elsewhere (``alice@s1``)."""


def outside(server: int) -> AgentId:
    """Return the id that stands for senders that are not agents: services and administration of `server`."""
    return AgentId(server, server, 1)


def factory(server: int) -> AgentId:
    """Return the id of the agent of `server` that creates and deletes agents on request."""
    return AgentId(server, server, 2)


def connection_manager(server: int) -> AgentId:
    """Return the id of the agent of `server` that opens client connections."""
    return AgentId(server, server, 3)


def activities(server: int) -> AgentId:
    """Return the id of the agent of `server` that keeps the pending activities of its agents."""
    return AgentId(server, server, 4)


def is_agent_name(text: str) -> bool:
    """Return whether an agent may have this name: printable characters without ``@``, no ``#`` in front."""
    return 0 < len(text) <= MAX_AGENT_NAME and text[0] != "#" and "@" not in text and text.isprintable()
