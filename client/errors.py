"""Errors of a client. Each error says in one sentence what happened and what to do."""

from collections.abc import Mapping

from ..agents.envelope import Opaque
from ..agents.ids import AgentId
from ..agents.notification import Notification

__all__ = [
    "AuthenticationError",
    "BadUrl",
    "ConnectionClosed",
    "ConnectionLost",
    "FrameTooLarge",
    "NotCreated",
    "NotPermitted",
    "ProtocolError",
    "QuorateClientError",
    "ReactionError",
    "RequestTimeout",
    "Unavailable",
    "UnexpectedReply",
    "UnhandledTypeError",
    "UnknownAgentError",
]


class QuorateClientError(Exception):
    """Base of the errors that a connection raises."""


class BadUrl(QuorateClientError, ValueError):
    """The URL of the servers cannot be parsed. Caller's fault."""


class AuthenticationError(QuorateClientError):
    """The server has no such user, or the password is wrong. The client does not try again."""


class ConnectionClosed(QuorateClientError):
    """The connection has ended for good: closed here, or expired or taken over on the server.

    If it has expired, what was not acknowledged may or may not have been processed, and a new connection
    cannot find out.
    """


class ConnectionLost(ConnectionClosed):
    """No replica could be reached within the time limit for reconnection; or, in the process of a server, its
    replica is master no longer."""


class Unavailable(QuorateClientError):
    """No replica answered within the time limit. The text names each replica and why it failed.

    Or no such replica runs in this process, or it is not master in time.
    """


class FrameTooLarge(QuorateClientError, ValueError):
    """The notification is larger than the server accepts. Nothing was sent. Caller's fault."""


class RequestTimeout(QuorateClientError, TimeoutError):
    """The operation took longer than its time limit. The notification may still be processed."""


class UnknownAgentError(QuorateClientError, LookupError):
    """There is no agent with that name or id."""


class NotPermitted(QuorateClientError, PermissionError):
    """The user may not create or administer agents, or nobody may do that to an agent of the platform."""


class NotCreated(QuorateClientError):
    """An agent was not created; the text says why.

    After ``create_all``, `created` has the ids of the agents that were created, and `failed` the reasons for
    the others, both by name.
    """

    def __init__(
        self,
        message: str,
        created: "Mapping[str, AgentId] | None" = None,
        failed: "Mapping[str, str] | None" = None,
    ):
        super().__init__(message)
        self.created: dict[str, AgentId] = dict(created or {})
        self.failed: dict[str, str] = dict(failed or {})


class UnexpectedReply(QuorateClientError):
    """The reply is not of the type asked for, or of a type that this process does not know.

    ``reply`` is the reply, undecoded.
    """

    def __init__(self, message: str, reply: Opaque):
        super().__init__(message)
        self.reply = reply


class ReactionError(QuorateClientError):
    """The agent raised in its reaction; neither its state nor anything it sent has changed.

    ``notification`` is the ``ExceptionNotification`` the server sent.
    """

    def __init__(self, message: str, notification: Notification):
        super().__init__(message)
        self.notification = notification


class UnhandledTypeError(ReactionError):
    """The agent has no handler for notifications of that type."""


class ProtocolError(QuorateClientError):
    """The other side does not follow the client protocol. Peer's fault."""
