"""Calls of the HTTP API to the replica of its process, as an administrator makes them over the network.

They go the same way as those of the commands: the same checks, the same refusals, the same lines in the audit
log.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from twisted.internet.defer import Deferred

from ..agents import AgentId, Notification, UnknownAgent, decode, encode, factory
from ..groups.agents.protocol import GroupRefused
from ..messaging.agents.protocol import Refused
from ..server.admin import wire
from ..server.admin.audit import Act
from ..server.admin.failures import failure_sentence
from ..server.admin.protocol import AdminTarget, serve_admin
from .problems import Problem

__all__ = ["REPLY_S", "Calls"]

REPLY_S: Final = 10.0
"""The longest wait for the answer of an agent."""

T = TypeVar("T")
N = TypeVar("N", bound=Notification)


class Calls:
    """What one request asks the replica for. All methods raise Problem."""

    def __init__(
        self, target: AdminTarget, audit: Callable[[Act, str], None], master: Callable[[], str]
    ) -> None:
        """audit: is told of acts and outcomes. master: returns the address of its HTTP port."""
        self._target = target
        self._audit = audit
        self._master = master

    async def ask(self, body: wire.Body, expected: type[T]) -> T:
        """Make a call of the administration."""
        answered: Deferred[bytes] = Deferred()
        protocol = serve_admin(self._target, answered.callback, self._audit)
        protocol.frame_received(wire.encode(wire.Call(1, body)))
        message = wire.decode_answer(await answered)
        if isinstance(message, wire.Failure):
            raise self._problem(message)
        return wire.unpack(message.result, expected)

    def _problem(self, failure: wire.Failure) -> Problem:
        sentence = failure.sentence
        match failure.kind:
            case "not master":
                return Problem(409, "not-master", sentence, master=self._master())
            case "not yet":
                return Problem(503, "not-yet", sentence)
            case "timeout":
                return Problem(504, "timeout", sentence)
            case "unknown":
                return Problem(404, "not-found", sentence)
            case "refused":
                return Problem(409, "refused", sentence)
            case "interrupted":
                return Problem(503, "unknown-outcome", f"{sentence} Whether it was done is not known.")

    async def request(self, to: AgentId | str, request: Notification, expected: type[N]) -> N:
        """Send an agent a request, and return its answer."""
        await self._check_not_paused(to)
        body = wire.Request(to, request.type_name, encode(request), REPLY_S)
        reply = await self.ask(body, wire.Reply)
        if reply.type == expected.type_name:
            return decode(expected, reply.payload)
        if reply.type == UnknownAgent.type_name:
            raise Problem(404, "not-found", _missing(decode(UnknownAgent, reply.payload).agent))
        if reply.type == Refused.type_name:
            raise _refusal(decode(Refused, reply.payload).text)
        if reply.type == GroupRefused.type_name:
            raise _refusal(decode(GroupRefused, reply.payload).text)
        sentence = failure_sentence(reply.type, reply.payload) or f"{to} answered {reply.type}."
        raise Problem(409, "refused", sentence)

    async def _check_not_paused(self, to: AgentId | str) -> None:
        """Refuse to wait for an agent that does not react."""
        page = await self.ask(wire.Agents(limit=1, name=str(to)), wire.AgentPage)
        if page.agents and page.agents[0].paused:
            sentence = f"Agent {to} is paused, and answers once it is resumed."
            raise Problem(409, "refused", sentence)

    async def factory(self, request: Notification, expected: type[N]) -> N:
        """Send the factory of agents of this server a request, and return its answer."""
        return await self.request(factory(self._target.server_id), request, expected)


def _refusal(text: str) -> Problem:
    return Problem(409, "refused", f"{text[:1].upper()}{text[1:]}.")


def _missing(agent: str) -> str:
    kind, colon, title = agent.partition(":")
    named = colon and kind in ("queue", "topic", "group")
    return f"There is no {kind} {title}." if named else f"There is no agent {agent}."
