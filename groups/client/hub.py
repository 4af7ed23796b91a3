"""The groups of one connection: what is asked of them, and the memberships in them. For the loop only."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import attrs

from ...agents import AgentId, Notification
from ...agents.notification import decode
from ...client.connection_base import ConnectionBase
from ...client.errors import ProtocolError, QuorateClientError, UnknownAgentError
from ...client.frames import ServerNote, StreamItems
from ...client.pending import Waiter
from ..agents.protocol import (
    GROUPS,
    MAX_CAST_BYTES,
    MAX_DIRECTED_BYTES,
    AnswerRequest,
    Ask,
    Cast,
    Casted,
    Expelled,
    GroupAnswer,
    GroupDescription,
    GroupJoined,
    GroupLeft,
    GroupOpened,
    GroupRefused,
    JoinGroup,
    LeaveGroup,
    OpenGroup,
    StateReady,
)
from ..agents.protocol import DescribeGroup as Describe
from .errors import CastTooLarge, GroupError, MembershipEnded, refusal
from .membership import MembershipCore

__all__ = ["ACK_BYTES", "ACK_ITEMS", "GroupCore", "Hub", "hub_of"]

T = TypeVar("T")

ACK_S: Final = 0.05
"""What the program has taken is acknowledged after this time, or earlier if it is more than..."""
ACK_ITEMS: Final = 1024
ACK_BYTES: Final = 256 * 1024
MAX_PACK: Final = 512
PACK_BYTES: Final = 128 * 1024
"""Casts that wait are sent together, so many messages and bytes at most."""
PACKS: Final = 4
"""Packs of casts under way for each group. What is cast meanwhile waits, and is sent together."""


class _Reply(Generic[T]):
    """A waiter for an answer of the server that calls a function with it."""

    def __init__(self, answered: Callable[[Any], None], failed: Callable[[BaseException], None]) -> None:
        self._answered = answered
        self._failed = failed
        self._done = False

    def set_result(self, result: Any, /) -> None:
        """Pass on the answer; a refusal is an error."""
        self._done = True
        if isinstance(result, GroupRefused):
            self._failed(refusal(result))
        else:
            self._answered(result)

    def set_exception(self, exception: BaseException, /) -> None:
        """Pass on the failure."""
        self._done = True
        self._failed(exception)

    def done(self) -> bool:
        """Return whether there was an answer."""
        return self._done


def _fail(waiter: Waiter, error: BaseException) -> None:
    if not waiter.done():
        waiter.set_exception(error)


def _succeed(waiter: Waiter, result: Any) -> None:
    if not waiter.done():
        waiter.set_result(result)


@attrs.define(eq=False)
class _Waiting:
    """Messages that wait to be cast."""

    payloads: list[bytes]
    to: list[AgentId]
    waiter: Waiter


class GroupCore:
    """A group as this connection uses it."""

    def __init__(self, hub: "Hub", title: str) -> None:
        self.title = title
        self.membership: MembershipCore | None = None
        self._hub = hub
        self._id: AgentId | None = None
        self._opening: list[Callable[[AgentId | BaseException], None]] = []
        self._waiting: deque[_Waiting] = deque()
        self._packs = 0
        self._flushing = False
        self._ack_timer = False

    # The agent of the group.

    def _opened(self, then: Callable[[AgentId | BaseException], None]) -> None:
        """Call `then` with the identifier of the agent, which the manager makes if it has to."""
        if self._id is not None:
            then(self._id)
            return
        self._opening.append(then)
        if len(self._opening) == 1:
            reply: _Reply[GroupOpened] = _Reply(lambda found: self._found(found.group), self._found)
            self._ask(GROUPS, OpenGroup(self.title), reply, GroupOpened)

    def _found(self, found: AgentId | BaseException) -> None:
        if isinstance(found, UnknownAgentError):
            found = GroupError(
                'the server has no groups; write mode="group" into its <cluster>, and start it again'
            )
        if isinstance(found, AgentId):
            self._id = found
        opening, self._opening = self._opening, []
        for then in opening:
            then(found)

    def _ask(self, to: AgentId | str, note: Notification, waiter: Waiter, *types: type[Notification]) -> None:
        try:
            self._hub.extension.request(to, note, waiter, (*types, GroupRefused))
        except (QuorateClientError, TypeError, ValueError) as error:
            _fail(waiter, error)

    def _request(self, note: Notification, reply: type[Notification], waiter: Waiter) -> None:
        """Ask the agent of the group, and complete the waiter with its answer."""

        def then(group: AgentId | BaseException) -> None:
            if isinstance(group, BaseException):
                _fail(waiter, group)
                return
            answer: _Reply[Notification] = _Reply(partial(_succeed, waiter), partial(_fail, waiter))
            self._ask(group, note, answer, reply)

        self._opened(then)

    def is_agent(self, identity: AgentId) -> bool:
        """Return whether an identifier is that of the agent of this group."""
        return identity == self._id

    def describe(self, waiter: Waiter) -> None:
        """Complete the waiter with the `GroupDescription`."""
        self._request(Describe(), GroupDescription, waiter)

    # Casting.

    def cast(self, payloads: list[bytes], to: list[AgentId], waiter: Waiter) -> None:
        """Cast messages, which get consecutive indices; complete the waiter with the first."""
        limit = MAX_DIRECTED_BYTES if to else MAX_CAST_BYTES
        for payload in payloads:
            if len(payload) > limit:
                text = f"the message has {len(payload)} bytes, and a group takes {limit}; cast it in parts"
                _fail(waiter, CastTooLarge(text))
                return
        self._waiting.append(_Waiting(payloads, to, waiter))
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._hub.extension.soon(lambda: self._opened(self._flush))

    def _flush(self, group: AgentId | BaseException) -> None:
        self._flushing = False
        while self._waiting and (isinstance(group, BaseException) or self._packs < PACKS):
            if isinstance(group, BaseException):
                _fail(self._waiting.popleft().waiter, group)
                continue
            packed = [self._waiting.popleft()]
            payloads = list(packed[0].payloads)
            size = sum([len(each) for each in payloads])
            while self._waiting and not packed[0].to:
                following = self._waiting[0]
                size += sum([len(each) for each in following.payloads])
                if following.to or size > PACK_BYTES or len(payloads) + len(following.payloads) > MAX_PACK:
                    break
                payloads += following.payloads
                packed.append(self._waiting.popleft())
            self._packs += 1
            answer: _Reply[Casted] = _Reply(partial(self._casted, packed), partial(self._not_cast, packed))
            self._ask(group, Cast(payloads, packed[0].to), answer, Casted)

    def _casted(self, packed: list[_Waiting], answer: Casted) -> None:
        first = answer.first
        for each in packed:
            _succeed(each.waiter, first)
            first += len(each.payloads)
        self._pack_done()

    def _not_cast(self, packed: list[_Waiting], error: BaseException) -> None:
        for each in packed:
            _fail(each.waiter, error)
        self._pack_done()

    def _pack_done(self) -> None:
        self._packs -= 1
        if self._waiting:
            self._flush_soon()

    def request(self, payload: bytes, *, oldest: bool, timeout_s: float, waiter: Waiter) -> None:
        """Ask the members; complete the waiter with the answer of one of them, as bytes."""
        answered: _Reply[GroupAnswer] = _Reply(
            lambda answer: _succeed(waiter, answer.payload), partial(_fail, waiter)
        )
        self._request(Ask(payload, oldest, timeout_s), GroupAnswer, answered)

    # Membership.

    def join(self, label: str, core: MembershipCore, waiter: Waiter) -> None:
        """Join the group; complete the waiter with None once this connection is a member."""
        if self.membership is not None and self.membership.error is None:
            text = f"this connection is a member of {self.title} already; join with another connection"
            _fail(waiter, MembershipEnded(text))
            return
        self.membership = core

        def then(group: AgentId | BaseException) -> None:
            if isinstance(group, BaseException):
                failed(group)
                return
            self._hub.extension.follow(group, self._streamed)
            answer: _Reply[GroupJoined] = _Reply(partial(self._joined, core, waiter), failed)
            self._ask(group, JoinGroup(label), answer, GroupJoined)

        def failed(error: BaseException) -> None:
            if self.membership is core:
                self._end_membership(MembershipEnded(f"{self.title} was not joined: {error}"))
            _fail(waiter, error)

        self._opened(then)

    def _joined(self, core: MembershipCore, waiter: Waiter, answer: GroupJoined) -> None:
        if waiter.done() or core is not self.membership:
            # The program has given up meanwhile.
            given_up: _Reply[None] = _Reply(_ignore, _ignore)
            self.leave(given_up)
            return
        try:
            core.start(answer)
            assert self._id is not None
            self._hub.extension.acknowledge(self._id, core.index)
        except (ProtocolError, ValueError) as error:
            self._end_membership(error)
            _fail(waiter, error)
            return
        _succeed(waiter, None)

    def leave(self, waiter: Waiter) -> None:
        """Leave the group; complete the waiter with None once this connection is no member."""
        core = self.membership

        def left(_: object) -> None:
            if self.membership is core:
                self._end_membership(MembershipEnded(f"this program has left {self.title}"), in_order=True)
            _succeed(waiter, None)

        answer: _Reply[GroupLeft] = _Reply(left, partial(_fail, waiter))
        self._request(LeaveGroup(), GroupLeft, answer)

    def expelled(self, reason: str) -> None:
        """End the membership, because the server says so."""
        self._end_membership(
            MembershipEnded(f"this connection is no member of {self.title} any more: {reason}; join again")
        )

    def fail(self, error: Exception) -> None:
        """End the membership, because the connection has ended."""
        if self.membership is not None:
            self.membership.end(error, in_order=self._hub.extension.closed_in_order)

    def _end_membership(self, error: Exception, *, in_order: bool = False) -> None:
        core, self.membership = self.membership, None
        if self._id is not None:
            self._hub.extension.unfollow(self._id)
        if core is not None:
            core.end(error, in_order=in_order)

    def _streamed(self, frame: StreamItems) -> None:
        core = self.membership
        if core is None:
            return
        try:
            core.received(frame)
        except (ProtocolError, ValueError) as error:
            self._end_membership(error)
            return
        if core.joined and not core.events:
            # All of it was for other members: nobody takes anything.
            self.taken(core)

    def taken(self, core: MembershipCore) -> None:
        """Acknowledge what the program has taken, soon."""
        if core.unacknowledged >= ACK_BYTES or core.taken - core.acked >= ACK_ITEMS:
            self._acknowledge()
        elif not self._ack_timer:
            self._ack_timer = True
            self._hub.extension.later(ACK_S, self._ack_due)

    def _ack_due(self) -> None:
        self._ack_timer = False
        self._acknowledge()

    def _acknowledge(self) -> None:
        core = self.membership
        if core is not None and core.joined and self._id is not None and not self._hub.extension.ended:
            self._hub.extension.acknowledge(self._id, core.acknowledged())

    def answer(self, index: int, payload: bytes) -> None:
        """Answer a request. Raises what has ended the connection."""
        self._post(AnswerRequest(index, payload))

    def ready(self) -> None:
        """Tell the group that this member has the state of the application."""
        self._post(StateReady())

    def _post(self, note: Notification) -> None:
        if self._id is not None:
            self._hub.extension.post(self._id, note)


class Hub:
    """What the groups of a connection share."""

    def __init__(self, connection: ConnectionBase) -> None:
        kinds = (Expelled.type_name, GroupRefused.type_name)
        self.extension = connection.extend(kinds, self._take)
        self.extension.on_end(self._ended)
        self._groups: dict[str, GroupCore] = {}

    def me(self) -> AgentId:
        """Return the identifier of the connection."""
        return AgentId.parse(self.extension.connection)

    def group(self, title: str) -> GroupCore:
        """Return the group of that name, the same one for all that use it on this connection."""
        core = self._groups.get(title)
        if core is None:
            core = self._groups[title] = GroupCore(self, title)
        return core

    def _take(self, note: ServerNote) -> bool:
        if note.type == Expelled.type_name:
            expelled = decode(Expelled, note.payload)
            for core in self._groups.values():
                if core.is_agent(expelled.group):
                    core.expelled(expelled.reason)
        return True

    def _ended(self) -> None:
        for core in self._groups.values():
            core.fail(self.extension.reason())


_hubs: Final["WeakKeyDictionary[ConnectionBase, Hub]"] = WeakKeyDictionary()


def hub_of(connection: ConnectionBase) -> Hub:
    """Return the hub of a connection, the same one for all its groups."""
    hub = _hubs.get(connection)
    if hub is None:
        hub = _hubs[connection] = Hub(connection)
    return hub


def _ignore(_: object) -> None:
    return
