"""Requests of services and administrators that wait for the replies of agents."""

from typing import Any

from twisted.internet.defer import Deferred

from ...agents import Note
from ...hachannel.transport.ports import ClockPort
from ...services.base import NotMaster

__all__ = ["MAX_REQUESTS", "NotServing", "Requests"]


MAX_REQUESTS = 65536
"""Requests that may wait for their replies at a time."""


class NotServing(NotMaster):
    """This replica is not, or no longer, the master."""


class Requests:
    """Requests by token. Tokens of two incarnations, and of two replicas, differ: a reply that is late, or
    for another replica, reaches no request here."""

    def __init__(self, reactor: ClockPort, incarnation: int, replica: int = 0) -> None:
        self._reactor = reactor
        self._token = (((incarnation << 8) | (replica & 0xFF)) & 0x7FFFFFFF) << 32
        self._waiting: dict[int, Deferred[Note]] = {}
        self._hosts: dict[int, int] = {}
        """By token, the only server whose agents may answer."""

    def new(self, timeout_s: float, answering: int | None = None) -> "tuple[int, Deferred[Note]]":
        """Return a token for `Note.request`, and a deferred of the reply; it fails with TimeoutError.

        `answering`: drop replies that do not come from agents of this server; None: any agent may reply.
        """
        if len(self._waiting) >= MAX_REQUESTS:
            raise NotServing(f"{MAX_REQUESTS} requests wait for their replies; try again later")
        token = self.next_token()
        reply: Deferred[Note] = Deferred()
        self._waiting[token] = reply
        if answering is not None:
            self._hosts[token] = answering
        call = self._reactor.callLater(timeout_s, self._time_out, token)

        def remove(result: Any) -> Any:
            self._waiting.pop(token, None)
            self._hosts.pop(token, None)
            if call.active():
                call.cancel()
            return result

        reply.addBoth(remove)
        return token, reply

    def next_token(self) -> int:
        """Return a token that no request has had."""
        self._token += 1
        return self._token

    def answer(self, note: Note) -> None:
        """Pass a reply to its request; it is dropped if no request waits for it."""
        if self._hosts.get(note.request, note.sender.host) != note.sender.host:
            return
        reply = self._waiting.pop(note.request, None)
        if reply is not None:
            reply.callback(note)

    def fail(self, reason: str) -> None:
        """Fail all requests that wait, with NotServing."""
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            reply.errback(NotServing(reason))

    def _time_out(self, token: int) -> None:
        reply = self._waiting.pop(token, None)
        if reply is not None:
            reply.errback(TimeoutError("no reply came in time"))
