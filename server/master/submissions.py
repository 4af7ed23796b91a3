"""Notifications of services and administrators to the agents of this server, with commits and replies."""

from twisted.internet.defer import Deferred

from ...agents import FAILURES, FIRST_CONNECTION_STAMP, FIRST_FREE_STAMP, AgentId, Note
from ..context import ReplicaContext
from .node_port import NodePort
from .requests import NotServing, Requests

__all__ = ["Submissions"]


class Submissions:
    """Posts notifications to the node, and reports their commits and replies to the submitters."""

    def __init__(self, context: ReplicaContext, port: NodePort) -> None:
        self._port = port
        self._clock = context.clock
        self._requests = Requests(context.reactor, context.incarnation, context.replica.id)
        self._uncommitted: dict[int, Deferred[Note | None]] = {}
        """By token, the deferreds of `submit` that have not fired."""
        self._failures: dict[int, Note] = {}
        """By token, the failures of notifications in `_uncommitted`."""

    @property
    def accepting(self) -> bool:
        """False while submitters must not send more."""
        return self._port.node.accepting

    @property
    def serving(self) -> bool:
        """Whether this replica serves as master."""
        return self._port.node.serving

    def may_act(self) -> bool:
        """Return whether the replica serves, and holds the lease at this moment."""
        node = self._port.node
        return node.serving and node.channel.holds_lease(self._clock())

    def posting(self) -> bool:
        """Return whether this replica takes what its services post."""
        return self._port.node.posting

    def post(self, notes: list[Note]) -> None:
        """Put notifications into the next batch; they are dropped when this replica is not master."""
        if self._port.node.post(notes):
            self._port.flush_soon()

    def submit(self, note: Note) -> "Deferred[Note | None]":
        """Put a notification into the next batch; fires once it is committed. Raises NotServing.

        The result is the failure if the recipient on this server has failed or there is no recipient. It is
        None otherwise: what becomes of the notification on another server is not known.
        """
        token = self._requests.next_token()
        if not self._port.node.post([Note(note.to, note.sender, note.type, note.payload, token)], token):
            raise NotServing("this replica is not the master")
        committed: Deferred[Note | None] = Deferred()
        self._uncommitted[token] = committed
        self._port.flush_soon()
        return committed

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Post a notification; fires with its reply, or fails with TimeoutError. Raises NotServing."""
        if not self._port.node.posting:
            raise NotServing("this replica is not the master")
        token, reply = self._requests.new(timeout_s, _answering(note))
        self.post([Note(note.to, note.sender, note.type, note.payload, token)])
        return reply

    def committed(self, token: int) -> None:
        """Fire the deferred of `submit` for a token: its notification is committed."""
        committed = self._uncommitted.pop(token, None)
        failure = self._failures.pop(token, None)
        if committed is not None:
            committed.callback(failure)

    def answer(self, reply: Note) -> None:
        """Pass a reply to its request; it is dropped if no request waits for it.

        Of the replies to what `submit` has posted, only failures are kept.
        """
        if reply.request not in self._uncommitted:
            self._requests.answer(reply)
        elif reply.type in FAILURES:
            self._failures[reply.request] = reply

    def fail(self, reason: str) -> None:
        """Fail everything that waits for a commit or a reply, with NotServing."""
        self._requests.fail(reason)
        self._failures.clear()
        uncommitted, self._uncommitted = self._uncommitted, {}
        for committed in uncommitted.values():
            committed.errback(NotServing(reason))


def _answering(note: Note) -> int | None:
    """Return the server that answers a request to an agent of the platform; None for any other agent."""
    to = note.to
    if not isinstance(to, AgentId) or to.host != note.sender.host:
        return None
    platform = to.stamp < FIRST_FREE_STAMP or to.stamp >= FIRST_CONNECTION_STAMP
    return to.host if platform else None
