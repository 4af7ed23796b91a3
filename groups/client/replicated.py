"""An application that the members of a group replicate: all execute the same messages in the same order.

Source: JMSGroups, section 5: the second level of replication. The servers replicate the group, the members
replicate the application, and each level fails by itself. One connection is one replica of the application.

The state goes to a new member through the group itself, in casts that are directed to it (rules R1 to R5):

- A joiner keeps the messages that follow the view with which it joined, item p.
- The oldest member that has the state sends it as of p, in parts, when it takes the view.
- If that member leaves or is suspected before the joiner is ready, the next one begins again. Its state is as
  of a later item q; the joiner drops what it kept up to q.
- The joiner, once it has the state, takes what it kept, and then tells the group that it is ready.
- If no member has the state any more, a joiner fails with `StateLost`: it never begins empty.
"""

import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import attrs
import msgspec

from ...agents.ids import AgentId
from ...client.connection_base import AsyncIteration
from .awaiting import AsyncGroup, AsyncMembership
from .errors import GroupError, StateLost
from .events import GroupEvent, Member, Message, Ready, Suspicion, View

__all__ = ["Application", "Replicated", "replicate"]

_log: Final = logging.getLogger("quorate.groups")

PART_BYTES: Final = 240 * 1024
"""A part of the state in one message; a directed message has at most 256 KiB."""
PARTS_AHEAD: Final = 4
"""Parts under way at a time."""
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
"""Most that a joiner keeps until it has the state."""
EVENT_BYTES: Final = 128
"""Counted for each event besides its payload."""


class Application(Protocol):
    """What the members replicate. All methods may be ordinary functions or coroutines.

    What they do must depend on the state and the arguments only: no clock, no random numbers, no order of
    sets. They are called one after the other, in the order of the group.
    """

    def delivered(self, message: Message) -> bytes | Awaitable[bytes | None] | None:
        """Execute a message. For a request, return the answer, or None for none from this member."""
        ...

    def view_changed(self, view: View) -> Awaitable[None] | None:
        """Learn that the members are others."""
        ...

    def provide_state(self) -> Iterable[bytes] | AsyncIterator[bytes]:
        """Return the state in parts of any size, as of now.

        All parts are read before anything else is delivered, and kept until they are sent.
        """
        ...

    def receive_state(self, parts: Iterable[bytes]) -> Awaitable[None] | None:
        """Replace the state by one that another member has provided, in the same parts."""
        ...


class _StatePart(msgspec.Struct, array_like=True, frozen=True):
    """A part of a state on its way to a joiner, or its end."""

    magic: bytes
    attempt: int
    """Index of the event at which the provider has begun."""
    number: int
    """From 0 in each attempt."""
    begins: bool
    """A part of the application begins here; what follows until the next one belongs to it."""
    last: bool
    data: bytes


_MAGIC: Final = b"quorate.state"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_StatePart).decode


@attrs.define(eq=False)
class _Incoming:
    """The state that a joiner receives from one provider."""

    provider: AgentId
    attempt: int
    parts: list[bytes] = attrs.field(factory=list[bytes])
    pieces: list[bytes] = attrs.field(factory=list[bytes])
    """Pieces of the part that is being received."""
    next_number: int = 0

    def add(self, part: _StatePart) -> bool:
        """Take the next part. Returns whether the state is complete."""
        if part.number != self.next_number:
            return False
        self.next_number += 1
        if part.begins and part.number:
            self.parts.append(b"".join(self.pieces))
            self.pieces = []
        self.pieces.append(part.data)
        if part.last and part.number:
            self.parts.append(b"".join(self.pieces))
        return part.last


class _StateSender:
    """Casts the pieces of a state to a joiner, a few at a time, while the provider goes on. A waiter."""

    def __init__(
        self, group: AsyncGroup, joiner: AgentId, attempt: int, pieces: list[tuple[bytes, bool]]
    ) -> None:
        self._group = group
        self._joiner = joiner
        self._attempt = attempt
        self._pieces = pieces
        self._next = 0
        self._under_way = 0
        self._failed = False

    def send(self) -> None:
        """Cast the next pieces."""
        pieces = self._pieces
        while not self._failed and self._next < len(pieces) and self._under_way < PARTS_AHEAD:
            number = self._next
            self._next += 1
            self._under_way += 1
            data, begins = pieces[number]
            # What is sent needs not be kept.
            pieces[number] = (b"", False)
            part = _StatePart(_MAGIC, self._attempt, number, begins, number == len(pieces) - 1, data)
            self._group.core.cast([_encode(part)], [self._joiner], self)

    def set_result(self, result: object, /) -> None:
        """Go on: a piece is ordered."""
        del result
        self._under_way -= 1
        self.send()

    def set_exception(self, exception: BaseException, /) -> None:
        """Give up. The joiner gets the state of another member if this one has gone."""
        self._under_way -= 1
        if not self._failed:
            self._failed = True
            _log.warning(
                "the state was not sent to member %s of %s: %s", self._joiner, self._group.name, exception
            )

    def done(self) -> bool:
        """Return that each piece waits for its own outcome."""
        return False


class Replicated:
    """One replica of an application. Made by `replicate`; `run` executes what the group orders."""

    def __init__(self, group: AsyncGroup, membership: AsyncMembership, application: Application) -> None:
        self.group = group
        self.membership = membership
        self.application = application
        self.ready = False
        """Whether this member has the state."""
        self.applied = 0
        """Index of the last item that the application has executed, or that its state contains."""
        self._me = group.hub.me()
        self._members: dict[AgentId, Member] = {}
        self._ready: set[AgentId] = set()
        self._suspected: set[AgentId] = set()
        self._joiners: dict[AgentId, None] = {}
        """Members without the state."""
        self._providers: dict[AgentId, AgentId] = {}
        """Who provides the state of a joiner at present."""
        self._kept: deque[GroupEvent] = deque()
        """What a joiner executes once it has the state."""
        self._incoming: _Incoming | None = None
        self._kept_bytes = 0
        self._founding = False
        """The oldest member begins with the state that its application has: none had one before."""
        self._begun = 0
        """Index of the view with which this member has joined."""

    async def begin(self, *, begin_anew: bool) -> None:
        """Take the first view, and everything until this member has the state. Raises StateLost."""
        first = await self.membership.receive()
        assert isinstance(first, View)
        self._begun = first.index
        infos = {info.id: info for info in self.membership.first_members}
        self._members = {each.id: each for each in first.members}
        self._ready = {each for each, info in infos.items() if info.ready}
        self._suspected = {each for each, info in infos.items() if info.suspected}
        self._joiners = {each: None for each in infos if each not in self._ready}
        self._founding = not self._ready and (begin_anew or not self.membership.had_state)
        self.applied = first.index
        self._found()
        await self._call(self.application.view_changed, first)
        while not self.ready:
            await self._step(await self.membership.receive())

    async def run(self) -> None:
        """Execute what the group orders, until the membership ends. Raises what ends it.

        Ends without an exception when this program leaves. What the application raises ends it, too: a
        replica that cannot execute a message must not go on with the next one.
        """
        async for event in self.membership:
            await self._step(event)

    async def leave(self) -> None:
        """Leave the group; the other members go on."""
        await self.membership.leave()

    # The order.

    async def _step(self, event: GroupEvent) -> None:
        part = _part(event)
        if part is not None:
            assert isinstance(event, Message)
            if not self.ready:
                await self._receive_part(event, part)
            return
        self._note(event)
        if not self.ready:
            self._found()
            self._keep(event)
            return
        await self._execute(event)
        await self._provide(event)

    def _note(self, event: GroupEvent) -> None:
        """Follow who is a member, who is suspected and who has the state."""
        if isinstance(event, View):
            for member in event.joined:
                self._joiners[member.id] = None
            self._members = {each.id: each for each in event.members}
            for known in (self._ready, self._suspected):
                known.intersection_update(self._members)
            for gone in [each for each in self._joiners if each not in self._members]:
                del self._joiners[gone]
                self._providers.pop(gone, None)
        elif isinstance(event, Suspicion):
            self._suspected.add(event.member.id)
        elif isinstance(event, Ready):
            self._founding = False
            self._ready.add(event.member.id)
            self._joiners.pop(event.member.id, None)
            self._providers.pop(event.member.id, None)
        elif not isinstance(event, Message):
            self._suspected.discard(event.member.id)

    def _keep(self, event: GroupEvent) -> None:
        """Keep an event until the state has come. Raises GroupError if there are too many."""
        self._kept.append(event)
        self._kept_bytes += EVENT_BYTES + (len(event.payload) if isinstance(event, Message) else 0)
        if self._kept_bytes > MAX_KEPT_BYTES:
            raise GroupError(
                f"{MAX_KEPT_BYTES} bytes of messages came before the state of {self.group.name} did; "
                "join again when there are fewer"
            )

    async def _execute(self, event: GroupEvent) -> None:
        if event.index <= self.applied:
            return
        self.applied = event.index
        if isinstance(event, Message):
            answer = await self._call(self.application.delivered, event)
            if answer is not None and event.request:
                await self.membership.answer(event, answer)
        elif isinstance(event, View):
            await self._call(self.application.view_changed, event)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        return await result if inspect.isawaitable(result) else result

    # Providing the state.

    def _provider(self) -> AgentId | None:
        """Return the oldest member that has the state and is not suspected."""
        able = (each for each in self._members if each in self._ready and each not in self._suspected)
        return next(able, None)

    async def _provide(self, event: GroupEvent) -> None:
        """Send the state to the joiners whose provider this member is from now on.

        All members take the same events in the same order, so they agree on who provides.
        """
        provider = self._provider()
        for joiner in list(self._joiners):
            if provider is not None and self._providers.get(joiner) != provider:
                self._providers[joiner] = provider
                if provider == self._me and joiner != self._me:
                    await self._send_state(joiner, event.index)

    async def _send_state(self, joiner: AgentId, attempt: int) -> None:
        pieces: list[tuple[bytes, bool]] = []
        async for data in _parts(self.application.provide_state()):
            for start in range(0, max(len(data), 1), PART_BYTES):
                pieces.append((data[start : start + PART_BYTES], not start))
        pieces.append((b"", False))
        _StateSender(self.group, joiner, attempt, pieces).send()

    # Receiving the state.

    async def _receive_part(self, message: Message, part: _StatePart) -> None:
        if part.attempt < self._begun:
            return
        incoming = self._incoming
        if part.number == 0:
            incoming = self._incoming = _Incoming(message.sender, part.attempt)
        if incoming is None or (incoming.provider, incoming.attempt) != (message.sender, part.attempt):
            return
        if not incoming.add(part):
            return
        self._incoming = None
        await self._call(self.application.receive_state, incoming.parts)
        self.applied = max(self.applied, incoming.attempt)
        kept, self._kept, self._kept_bytes = self._kept, deque(), 0
        for event in kept:
            await self._execute(event)
        self._become_ready()

    def _become_ready(self) -> None:
        self.ready = True
        self.membership.state_ready()

    def _found(self) -> None:
        """If no member has the state: begin with that of the oldest. Raises StateLost if there was one."""
        if self._ready or self.ready:
            return
        if not self._founding:
            raise StateLost(self._lost())
        if next(iter(self._members)) == self._me:
            self._become_ready()

    def _lost(self) -> str:
        return (
            f"no member of {self.group.name} has its state any more; give begin_anew=True if what the former "
            "members had is not needed, or use another name"
        )


def _part(event: GroupEvent) -> _StatePart | None:
    if not isinstance(event, Message) or not event.directed:
        return None
    try:
        part = _decode(event.payload)
    except (msgspec.MsgspecError, ValueError):
        return None
    return part if part.magic == _MAGIC else None


async def _parts(parts: Iterable[bytes] | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(parts, AsyncIterator):
        async for each in parts:
            yield each
    else:
        for each in parts:
            yield each


async def replicate(
    connection: AsyncIteration,
    name: str,
    application: Application,
    *,
    label: str = "",
    begin_anew: bool = False,
) -> Replicated:
    """Make this program a replica of an application, and return once it has the state.

    connection: one of asyncio or Twisted, for this replica alone. name: the group. begin_anew: begin with the
    state that `application` has, if all members that had another one have gone. Then await ``run()`` of the
    result. Requests come from any connection: see `Group.request`. Raises StateLost and as `AsyncGroup.join`.
    """
    group = AsyncGroup(connection, name)
    membership = await group.join(label=label)
    replica = Replicated(group, membership, application)
    try:
        await replica.begin(begin_anew=begin_anew)
    except BaseException:
        await membership.leave()
        raise
    return replica
