"""A group of processes that get the same messages in the same order, without agents or servers. Twisted.

Every member makes a `Group` with the same name and addresses and calls `join`. Any member may `multicast`;
what is confirmed survives as long as a majority of the members does. This edge drives a `Channel`.
"""

import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger

from ..model.errors import ChannelError, ProtocolError
from ..model.events import (
    Deliver,
    Event,
    InstallPart,
    LeaseChanged,
    ProvideSnapshot,
    Stable,
    Stopped,
    ViewEvent,
)
from ..model.messages import Ack, Data, decode_message
from ..model.settings import TELL_AFTER_S, Settings
from ..protocol.channel import Channel
from ..transport.connection import Address
from ..transport.direct_write import DirectWriteReactor
from ..transport.ports import DelayedCallPort
from ..transport.process_liveness import this_process
from ..transport.sending import send_messages
from ..transport.timer import Timer
from ..transport.transport import ChannelTransport
from .application import Application, Messages
from .arguments import ROOM_BYTES, as_messages, check_all_members, check_arguments
from .handler import GroupError, GroupFailed, GroupHandler, GroupLimits, NotInGroup
from .link_settings import link_settings
from .listener import Dialer, Listener
from .order import Order
from .stable import StableWaits
from .stall_report import Waits
from .wire import Hello, name_digest, shared_of

__all__ = ["Group"]

SLICE_S = 0.02
"""Delivering gives way to the sockets after this time, so that a busy member shows that it lives."""
MAX_UNDELIVERED = 512
"""Entries that may wait for the handler; above, nothing is read until there are fewer."""
PROVIDE_AGAIN_S = 1.0
"""Pause after a failure of `provide_state`."""
LEAVE_TIMEOUT_S = 10.0
"""How long `leave` waits for the others before it goes without their knowledge."""
HAND_OVER_S = 5.0
"""So long who leaves as the last one waits for a member that is getting the state."""

_logger = Logger(namespace="quorate.group")


def _to_twisted_log(line: str) -> None:
    _logger.info("{line}", line=line)


def _harmless(log: Callable[[str], None]) -> Callable[[str], None]:
    """A log whose failures stop nothing: a terminal may be closed, and what was to be done is done."""

    def tell(line: str) -> None:
        try:
            log(line)
        except Exception as error:
            _logger.error("{line} (the log of the group raised {error!r})", line=line, error=error)

    return tell


class Group:
    """One member. Make it, `join`, `multicast`; at the end `leave`. Not used again after that."""

    def __init__(
        self,
        name: str,
        me: int,
        addresses: Mapping[int, Address],
        *,
        handler: GroupHandler,
        expected: int | None = None,
        settings: Settings | None = None,
        limits: GroupLimits | None = None,
        reactor: Any = None,
        log: Callable[[str], None] = _to_twisted_log,
        incarnation: int | None = None,
    ) -> None:
        """A member that has not joined.

        name: of the group; strangers are turned away by it. me: this member's id. addresses: (host, port) of
        every member that may ever join, by id; the same on every member. expected: how many found the group
        when nobody is in it yet (default all; more than half). reactor: Twisted's unless given. log: gets
        lines. incarnation: a number that rises with every life of this member (default: from the clock).
        Raises ValueError for what is of another type, and when these contradict each other.
        """
        check_arguments(name, me, addresses, handler, expected, settings, limits, reactor, log, incarnation)
        if reactor is None:
            from twisted.internet import reactor
        self.me = me
        self.view: ViewEvent | None = None
        """The view that the handler was told last, None before the first."""
        self.stopped: Deferred[None] = Deferred()
        """Fires when this member has stopped, or its port was taken; GroupFailed if it cannot go on."""
        self._settings = settings or Settings()
        self._reactor = DirectWriteReactor(reactor)
        self._now: Callable[[], float] = (
            time.monotonic if isinstance(reactor, ReactorBase) else self._reactor.seconds
        )
        self._log = log = _harmless(log)
        self._incarnation = time.time_ns() // 1000 if incarnation is None else incarnation
        ids = sorted(addresses)
        self._limits = limits = limits or GroupLimits()
        digest = name_digest(name)
        self._channel = Channel(
            me,
            ids,
            incarnation=self._incarnation,
            cluster=digest,
            expected=len(ids) if expected is None else expected,
            settings=self._settings,
        )
        # A pack with one message must fit in an entry.
        longest = self._settings.max_payload_bytes - ROOM_BYTES
        self._order: Order[Deferred[int]] = Order(me, self._incarnation, limits, longest)
        self._application = Application(handler, self._order, log, self._now)
        self._address = addresses[me]
        shared = shared_of(self._settings)
        process, nonce = this_process(), secrets.token_hex(8)
        self._mine = Hello(me, self._incarnation, digest, tuple(ids), shared, process=process, nonce=nonce)
        link = link_settings(self._settings)
        self._transport = ChannelTransport(me, addresses, self, self._reactor, self._handshake, log, link)
        self._listener = Listener(self._mine, frozenset(ids), self._transport, self._reactor, log, link)
        self._events: deque[Event | Messages] = deque()
        self._unstable: StableWaits[Deferred[int]] = StableWaits()
        self._providing = 0
        """The token of the transfer for which the state was last asked of the handler."""
        self._applied = 0
        self._awaited = 0
        """The last entry of another member, which waits to hear of it; 0 if none does."""
        self._silence = False
        """Nothing has followed what was committed last: slaves are to be told."""
        self._telling: DelayedCallPort | None = None
        self._state = "new"
        self._joining: Deferred[None] | None = None
        self._leaving: DelayedCallPort | None = None
        self._handing_over = False
        """It is to leave, and the channel does not know yet."""
        self._gives = False
        """Another member was getting the state then."""
        self._driving = self._stirred = self._drive_due = False
        self._alarm = Timer(lambda: self._channel.deadline, self._reactor, self._now, self._tick)
        self._waits = Waits(self._channel, log)

    # What can be asked

    @property
    def role(self) -> str:
        """One of: new, joining, slave, master, changing, blocked, stopped."""
        return self._channel.role if self._state == "running" else self._state

    @property
    def master(self) -> int | None:
        """The member that orders the messages, None while there is none."""
        return self._channel.master if self._state == "running" else None

    @property
    def members(self) -> tuple[int, ...]:
        """The members of the present view, master first, the youngest last."""
        return self.view.members if self.view is not None else ()

    @property
    def accepting(self) -> bool:
        """False while so much waits that the caller should wait for earlier messages."""
        return self._state == "running" and self._order.accepting

    @property
    def waits_for(self) -> str:
        """What keeps it from being master or slave, or of a master of too few whom it lacks, and what to do.

        A sentence, empty if nothing is amiss.
        """
        return self._waits.sentence if self._state == "running" else ""

    @property
    def position(self) -> int:
        """Index of the last message delivered here."""
        return self._application.position

    # What can be done

    def join(self) -> "Deferred[None]":
        """Listen and join the others.

        Fires with None once the handler was told of the first view, which is `view` then. Fails with
        GroupError, once and in words.
        """
        if self._state != "new":
            return fail(GroupError("join is called once for each Group: make another one to join again"))
        try:
            self._listener.listen(*self._address)
        except GroupError as error:
            self._finish(None)
            return fail(error)
        self._state = "running"
        self._joining = joining = Deferred[None]()
        self._transport.start()
        self._channel.start(self._now())
        self._drive(arm=True)
        return joining

    def multicast(self, payload: bytes, *, all_members: bool = False) -> "Deferred[int]":
        """Send a message to all members, this one included.

        Fires with its index once it is committed and delivered here; until then it is sent again, to another
        master if need be, and delivered once. Messages of one member are delivered in the order of the calls.
        all_members: wait until every member of the view holds it; in the mode ALL that is always so. A
        member that is gone, and one that comes later, is not waited for.
        Fails with QueueFull, PayloadTooLarge, NotInGroup. Raises TypeError for what is not bytes, or an
        `all_members` that is neither True nor False.
        """
        return self._put((payload,), all_members)

    def multicast_many(self, payloads: Sequence[bytes], *, all_members: bool = False) -> "Deferred[int]":
        """Send messages that follow each other directly or nearly so; fires with the index of the last."""
        payloads = as_messages(payloads)
        if not payloads:
            return fail(ValueError("multicast_many needs at least one message"))
        return self._put(payloads, all_members)

    def leave(self) -> "Deferred[None]":
        """Stop in order: the others go on at once. Messages not committed yet fail with NotInGroup."""
        done: Deferred[None] = Deferred()
        if self._state == "new":
            self._finish(None)
        if self._state == "stopped":
            return succeed(None)

        def tell(result: Any) -> Any:
            done.callback(None)
            return result

        self.stopped.addBoth(tell)
        if self._leaving is None:
            self._leaving = self._reactor.callLater(HAND_OVER_S, partial(self._hand_over, late=True))
            self._handing_over = True
            self._hand_over()
        return done

    def _hand_over(self, *, late: bool = False) -> None:
        """Leave, unless this is the only member that has what the group holds, and one is getting it."""
        if not self._handing_over or self._state != "running":
            return
        channel = self._channel
        if channel.members == (self.me,) and channel.role in ("master", "blocked", "changing"):
            # If the connection breaks the other one is back in a moment.
            self._gives = self._gives or channel.phases.giving != "nobody"
            if (self._gives or channel.role == "changing") and not late:
                return
            if self._gives:
                self._log("leaves before another member has the state, and nobody else has it: it is lost")
        self._handing_over = False
        if self._leaving is not None and self._leaving.active():
            self._leaving.cancel()
        self._leaving = self._reactor.callLater(LEAVE_TIMEOUT_S, self._finish, None)
        self._channel.leave(self._now())
        self._drive(arm=True)

    # In

    def _put(self, payloads: Sequence[bytes], all_members: bool) -> "Deferred[int]":
        check_all_members(all_members)
        if self._state != "running" or self._leaving is not None:
            return fail(NotInGroup(f"member {self.me} is not in the group: join first, leave last"))
        done: Deferred[int] = Deferred()
        try:
            self._order.put(payloads, done)
        except ChannelError as error:
            return fail(error)
        if all_members and self._settings.mode != "ALL":
            done.addCallback(self._until_stable)
        if self._driving:
            self._stirred = True
        elif not self._drive_due and self._room:
            if not self._order.in_flight and not self._events:
                # Nothing is on its way, so waiting for company would only cost time.
                self._driving = True
                try:
                    now = self._now()
                    self._channel.forward(now, self._order.pack())
                    self._submit(now)
                    self._collect()
                finally:
                    # What comes of a connection that breaks meanwhile is sent behind this.
                    self._driving = False
                if self._events or self._stirred:
                    self._drive_soon()
            else:
                self._drive_soon()
        return done

    @property
    def _room(self) -> bool:
        """Whether another pack may go on its way."""
        return self._order.in_flight < self._limits.packs_in_flight and self._channel.can_forward

    def _submit(self, now: float) -> None:
        """Put packs on their way as far as they may go."""
        order = self._order
        while order and self._room:
            self._channel.forward(now, order.pack())

    # The channel

    def _drive_soon(self) -> None:
        if not self._drive_due:
            self._drive_due = True
            self._reactor.callLater(0, self._drive_now)

    def _drive_now(self) -> None:
        self._drive_due = False
        if self._state == "running":
            self._drive()

    def _collect(self) -> bool:
        """Take what the channel has to say and send its messages; say whether it was a quiet normal step.

        What is committed is told in messages of its own only when somebody waits for it there. Else the next
        entry tells it, or the next silence.
        """
        if self._awaited and self._awaited <= self._channel.told:
            self._awaited = 0
        out = self._channel.take(more=not self._awaited, again=True, tell=self._silence)
        self._silence = False
        if out.messages:
            send_messages(self._transport, out.messages)
        for line in out.notes:
            self._log(line)
        if out.events:
            self._events += out.events
        return not out.notes

    def _drive(self, *, arm: bool = False) -> None:
        """Submit, send and deliver until there is nothing more to do, or for a time slice."""
        if self._driving:
            self._stirred = True
            return
        self._driving = self._stirred = True
        now = self._now()
        events = self._events
        try:
            while self._stirred and self._state == "running":
                self._stirred = False
                self._submit(now)
                arm |= not self._collect()
                if events:
                    if not self._deliver_until(now + SLICE_S):
                        self._drive_soon()
                        break
                    # Whoever sent this may wait to hear that it is committed; or there is room for more.
                    self._stirred |= bool(self._order) or (self._awaited > 0 and self._channel.untold)
                else:
                    # A member alone commits at once.
                    self._stirred |= bool(self._order) and self._room
        finally:
            self._driving = False
            if self._state == "running":
                if arm or not self._alarm.set_up:
                    self._alarm.arm()
                self._tell_later()

    def _tell_later(self) -> None:
        if self._telling is None and self._channel.untold:
            self._telling = self._reactor.callLater(TELL_AFTER_S, self._tell, self._applied)

    def _tell(self, applied: int) -> None:
        """Tell slaves what is committed, if nothing came since `applied`. Else what comes next tells it."""
        self._telling = None
        self._silence = self._applied == applied
        if self._silence:
            self._drive()
        else:
            self._tell_later()

    def _deliver_until(self, until: float) -> bool:
        """Act on the events; False when time is up, whether some are left or not."""
        events = self._events
        while events and self._state == "running":
            event = events.popleft()
            slice_end = until if len(events) < MAX_UNDELIVERED else math.inf
            if isinstance(event, Deliver):
                self._on_deliver(event, slice_end)
            elif isinstance(event, Messages):
                self._hand_out(*event, slice_end)
            else:
                # The channel may have something to say to what comes of it.
                self._stirred = True
                self._on_event(event)
            if self._now() > until and len(events) < MAX_UNDELIVERED:
                return False
        return True

    def _tick(self) -> None:
        now = self._now()
        self._channel.tick(now)
        self._waits.look(now)
        self._drive(arm=True)
        self._hand_over()

    # What the channel says

    def _on_deliver(self, event: Deliver, until: float) -> None:
        self._applied = event.index
        source = event.source
        if source is None:
            self._log(f"entry {event.index} was left out: no member has sent it")
            return
        if source.replica != self.me and self.view is not None and self.view.master == self.me:
            self._awaited = event.index
        try:
            index, payloads = self._order.deliver(source, event.payload)
        except ProtocolError as error:
            self._log(f"entry {event.index} was left out: {error}")
            return
        except GroupFailed as error:
            self._finish(error)
            return
        self._hand_out(index, source.replica, payloads, until)

    def _hand_out(self, first: int, origin: int, payloads: list[bytes], until: float) -> None:
        rest = self._application.deliver(first, origin, payloads, until)
        if rest is not None:
            self._events.appendleft(rest)
        elif origin == self.me:
            self._confirm()

    def _confirm(self) -> None:
        for done, index in self._order.ripe():
            if not done.called:
                done.callback(index)

    def _until_stable(self, index: int) -> "int | Deferred[int]":
        """The entry just delivered, or the snapshot just installed, has the message with this index."""
        if self._applied <= self._channel.stable:
            return index
        done: Deferred[int] = Deferred()
        self._unstable.add(self._applied, done, index)
        return done

    def _on_stable(self, upto: int) -> None:
        for done, index in self._unstable.reached(upto):
            if not done.called:
                done.callback(index)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Stable):
            self._on_stable(event.index)
        elif isinstance(event, ViewEvent):
            self._on_view(event)
        elif isinstance(event, ProvideSnapshot):
            self._provide(event)
        elif isinstance(event, InstallPart):
            self._install(event)
        elif isinstance(event, LeaseChanged):
            if not event.held:
                # Nothing here needs it.
                self._channel.lease_ended(self._now())
        elif isinstance(event, Stopped):
            self._finish(NotInGroup(event.reason) if event.failed else None)

    def _on_view(self, event: ViewEvent) -> None:
        self.view = event
        # Whoever is told of the view may ask.
        self._waits.look(self._now())
        self._application.change_view(event)
        joining, self._joining = self._joining, None
        if joining is not None and not joining.called:
            joining.callback(None)

    def _provide(self, event: ProvideSnapshot) -> None:
        self._providing = event.token
        parts = self._application.provide()
        if parts is None:
            # The member that joins waits for it, and nobody else can give it.
            self._reactor.callLater(PROVIDE_AGAIN_S, self._provide_again, event)
            return
        index = max(self._applied, event.index)
        self._channel.snapshot_ready(self._now(), event.token, index, parts)

    def _provide_again(self, event: ProvideSnapshot) -> None:
        wanted = self._providing == event.token and self._channel.phases.giving == "state"
        if self._state == "running" and wanted:
            # Behind what waits: a state must not end within an entry.
            self._events.append(event)
            self._drive(arm=True)

    def _install(self, event: InstallPart) -> None:
        try:
            self._application.install(event)
        except GroupFailed as error:
            self._finish(error)
            return
        if event.index is not None:
            self._applied = event.index
        self._channel.part_installed(self._now(), event.token)
        if event.index is not None:
            # Some of this member's messages may be part of the state.
            self._confirm()

    # The end

    def _finish(self, error: GroupError | None) -> None:
        if self._state == "stopped":
            return
        self._state = "stopped"
        self._alarm.stop()
        for call in (self._leaving, self._telling):
            if call is not None and call.active():
                call.cancel()
        self._events.clear()
        self._transport.stop()
        for done in self._order.drop():
            if not done.called:
                done.errback(NotInGroup("this member stopped before it saw the message committed"))
        for done, index in self._unstable.drop():
            if not done.called:
                done.errback(NotInGroup(f"this member stopped before all members had message {index}"))
        joining, self._joining = self._joining, None
        if joining is not None and not joining.called:
            joining.errback(error or NotInGroup("this member left before there was a view"))
        self._listener.stop().addBoth(lambda _: self._say_stopped(error))

    def _say_stopped(self, error: GroupError | None) -> None:
        if error is None:
            self.stopped.callback(None)
        else:
            self._log(str(error))
            self.stopped.errback(error)

    # What the transport reports

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        """Frames of a peer."""
        now = self._now()
        receive = self._channel.receive
        quiet = True
        try:
            for body in bodies:
                message = decode_message(body)
                kind = type(message)
                quiet = quiet and (kind is Ack or kind is Data)
                receive(now, peer, message)
        except ProtocolError as error:
            self._log(f"member {peer} sent garbage: {error}")
            self._transport.drop(peer, "it sent garbage")
            quiet = False
        if quiet and self._telling is not None and self._channel.idle:
            # Some have acknowledged, and others have not.
            return
        # The normal case moves no deadline to an earlier time, and the timer looks again anyway.
        self._drive(arm=not quiet)

    def peer_alive(self, peer: int) -> None:
        """Some of a long frame of a peer has arrived."""
        self._channel.hears(self._now(), peer)

    def peer_up(self, peer: int, incarnation: int) -> None:
        """A connection to a peer."""
        self._waits.up(peer)
        self._channel.connected(self._now(), peer, incarnation)
        self._drive(arm=True)

    def peer_down(self, peer: int, reason: str) -> None:
        """No connection to a peer any more."""
        self._waits.down(peer, reason)
        self._disconnected(peer)

    def peer_unreachable(self, peer: int, reason: str) -> None:
        """A peer without connection cannot be reached."""
        self._waits.unreachable(peer, reason)
        self._disconnected(peer)

    def _disconnected(self, peer: int) -> None:
        self._channel.disconnected(self._now(), peer, ended=self._transport.ended(peer))
        self._drive(arm=True)

    def _handshake(self, peer: int, calls: bool) -> Dialer:
        knows, nonce = self._transport.life(peer)
        return Dialer(msgspec.structs.replace(self._mine, calls=calls, knows=knows, knows_nonce=nonce))
