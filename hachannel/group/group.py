"""A member of a process group, whose members get the same messages in the same order. Twisted.

Every member makes a `Group` with the same name and addresses and calls `join`. Any member may `multicast`.
An acknowledged message survives as long as a majority of the members does.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger

from ..model.errors import ChannelError
from ..model.events import Event, InstallPart, LeaseChanged, ProvideSnapshot, Stopped, ViewEvent
from ..model.settings import Settings
from ..protocol.channel import Channel
from ..transport.addresses import Address
from ..transport.direct_write import DirectWriteReactor
from ..transport.process_liveness import this_process
from ..transport.transport import ChannelHost, ChannelTransport
from .application import Application
from .arguments import ROOM_BYTES, as_messages, check_all_members, check_arguments
from .context import MemberContext, MessageOrder
from .delivery import Delivery
from .departure import Departure
from .driver import ChannelDriver
from .handler import GroupError, GroupFailed, GroupHandler, GroupLimits, NotInGroup
from .handshake import Dialer
from .link_settings import link_settings
from .listener import Listener
from .order import Order
from .stall_report import StallReport
from .state_transfer import StateTransfer
from .wire import Hello, name_digest, shared_of

__all__ = ["Group"]

_logger = Logger(namespace="quorate.group")


def _to_twisted_log(line: str) -> None:
    _logger.info("{line}", line=line)


def _never_raising(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return a `log` that never raises: a closed terminal must not stop the member."""

    def write(line: str) -> None:
        try:
            log(line)
        except Exception as error:
            _logger.error("{line} (the log of the group raised {error!r})", line=line, error=error)

    return write


class Group:
    """One member. Make it, `join`, `multicast`, and at the end `leave`; after that it cannot be used again.

    The work is in its parts: `ChannelDriver` drives the channel, `Delivery` passes messages to the
    application, `StateTransfer` transfers states, `Departure` leaves, `StallReport` explains why the member
    makes no progress. The constructor has more than six arguments: it has all options of a program.
    """

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
        """Make a member that has not joined.

        name: of the group; members of groups with other names are refused. me: id of this member. addresses:
        (host, port) by id of every member that may ever join, the same on every member. expected: number of
        members that found the group while it has none (default: all; always more than half). reactor:
        default Twisted's. log: gets lines. incarnation: a number that rises with every life of this member
        (default: from the clock, in microseconds).
        Raises ValueError if an argument has another type, or contradicts another one.
        """
        check_arguments(name, me, addresses, handler, expected, settings, limits, reactor, log, incarnation)
        if reactor is None:
            from twisted.internet import reactor
        self.me = me
        self.view: ViewEvent | None = None
        """The last view that the handler got; None before the first."""
        self.stopped: Deferred[None] = Deferred()
        """Fires when this member has stopped, or its port was in use. Fails with GroupFailed."""
        self._settings = settings = settings or Settings()
        limits = limits or GroupLimits()
        incarnation = time.time_ns() // 1000 if incarnation is None else incarnation
        ids = sorted(addresses)
        self._hello = Hello(
            me,
            incarnation,
            name_digest(name),
            tuple(ids),
            shared_of(settings),
            process=this_process(),
            nonce=secrets.token_hex(8),
        )
        self._channel = self._make_channel(len(ids) if expected is None else expected)
        self._order = self._make_order(limits)
        writing = DirectWriteReactor(reactor)
        self._now: Callable[[], float] = (
            time.monotonic if isinstance(reactor, ReactorBase) else writing.seconds
        )
        self._log = log = _never_raising(log)
        context = MemberContext(me, self._channel, self._order, writing, self._now, log)
        link = link_settings(settings)

        def transport(host: ChannelHost) -> ChannelTransport:
            return ChannelTransport(me, addresses, host, writing, self._handshake, log, link)

        self._application = Application(handler, log, self._now)
        self._report = StallReport(self._channel, log)
        self._delivery = Delivery(context, self._application, self._on_event, self._finish)
        self._departure = Departure(context, self._run, self._finish)
        self._driver = ChannelDriver(
            context,
            self._delivery,
            self._report,
            transport,
            packs_in_flight=limits.packs_in_flight,
            ticked=self._departure.advance,
        )
        self._transfer = StateTransfer(context, self._application, self._driver.enqueue)
        self._listener = Listener(self._hello, addresses[me], self._driver.transport, writing, log, link)
        self._state = "new"
        self._joining: Deferred[None] | None = None

    def _make_channel(self, expected: int) -> Channel:
        hello = self._hello
        return Channel(
            self.me,
            hello.ids,
            incarnation=hello.incarnation,
            cluster=hello.group,
            expected=expected,
            settings=self._settings,
        )

    def _make_order(self, limits: GroupLimits) -> MessageOrder:
        # A pack with one message must fit in an entry.
        longest = self._settings.max_payload_bytes - ROOM_BYTES
        return Order(self.me, self._hello.incarnation, limits, longest)

    # State

    @property
    def role(self) -> str:
        """One of: new, joining, slave, master, changing, blocked, stopped."""
        return self._channel.standing.role if self._state == "running" else self._state

    @property
    def master(self) -> int | None:
        """The id of the member that orders the messages; None while there is none."""
        return self._channel.standing.master if self._state == "running" else None

    @property
    def members(self) -> tuple[int, ...]:
        """The ids of the members of the present view, the master first, the youngest last."""
        return self.view.members if self.view is not None else ()

    @property
    def accepting(self) -> bool:
        """Whether the queue has room; if not, the caller should wait for earlier messages."""
        return self._state == "running" and self._order.accepting

    @property
    def waits_for(self) -> str:
        """The reason why this member makes no progress, and what to do, as a sentence; "" if it does.

        It makes none while it is neither master nor slave, or is the master of too few members.
        """
        return self._report.sentence if self._state == "running" else ""

    @property
    def position(self) -> int:
        """Index of the last message delivered here."""
        return self._application.position

    # Actions

    def join(self) -> "Deferred[None]":
        """Listen and join the others.

        The Deferred fires with None once the handler has got the first view, which is then in `view`. It
        fails with GroupError.
        """
        if self._state != "new":
            return fail(GroupError("join is called once for each Group: make another one to join again"))
        try:
            self._listener.listen()
        except GroupError as error:
            self._finish()
            return fail(error)
        self._state = "running"
        self._joining = joining = Deferred[None]()
        self._driver.start()
        return joining

    def multicast(self, payload: bytes, *, all_members: bool = False) -> "Deferred[int]":
        """Send a message to all members, this one included.

        The Deferred fires with the index of the message once it is committed and delivered here. Until then
        the message is sent again, if necessary to another master; it is delivered once. Messages of one
        member are delivered in the order of the calls. all_members: wait until every member of the view has
        the message, as the mode ALL always does; members that have gone, or join later, do not count.
        It fails with QueueFull, PayloadTooLarge, NotInGroup. Raises TypeError for a payload that is not
        bytes, or an `all_members` that is neither True nor False.
        """
        return self._send((payload,), all_members)

    def multicast_many(self, payloads: Sequence[bytes], *, all_members: bool = False) -> "Deferred[int]":
        """Send several messages, as `multicast` does. The Deferred fires with the index of the last one.

        Messages of other members may be delivered between them.
        """
        payloads = as_messages(payloads)
        if not payloads:
            return fail(ValueError("multicast_many needs at least one message"))
        return self._send(payloads, all_members)

    def _send(self, payloads: Sequence[bytes], all_members: bool) -> "Deferred[int]":
        check_all_members(all_members)
        if self._state != "running" or self._departure.begun:
            return fail(NotInGroup(f"member {self.me} is not in the group: join first, leave last"))
        done: Deferred[int] = Deferred()
        try:
            self._order.append(payloads, done)
        except ChannelError as error:
            return fail(error)
        if all_members and self._settings.mode != "ALL":
            done.addCallback(self._delivery.until_stable)
        self._driver.submit()
        return done

    def leave(self) -> "Deferred[None]":
        """Leave in order, so that the others go on at once. Uncommitted messages fail with NotInGroup."""
        done: Deferred[None] = Deferred()
        if self._state == "new":
            self._finish()
        if self._state == "stopped":
            return succeed(None)

        def left(result: Any) -> Any:
            done.callback(None)
            return result

        self.stopped.addBoth(left)
        if not self._departure.begun:
            self._departure.begin()
        return done

    # Reports of the parts

    def _run(self) -> None:
        self._driver.run(arm=True)

    def _on_event(self, event: Event) -> None:
        # The channel may have messages to send in answer.
        self._driver.run()
        match event:
            case ViewEvent():
                self._on_view(event)
            case ProvideSnapshot():
                self._transfer.provide(event, self._delivery.applied)
            case InstallPart():
                self._on_part(event)
            case LeaseChanged(held=False):
                # Nothing here depends on the lease.
                self._channel.lease_ended(self._now())
            case Stopped():
                self._finish(NotInGroup(event.reason) if event.failed else None)
            case _:
                pass

    def _on_view(self, event: ViewEvent) -> None:
        self.view = event
        self._delivery.is_master = event.master == self.me
        # The handler may read `waits_for`.
        self._report.update(self._now())
        self._application.change_view(event)
        joining, self._joining = self._joining, None
        if joining is not None and not joining.called:
            joining.callback(None)

    def _on_part(self, event: InstallPart) -> None:
        try:
            self._transfer.install(event)
        except GroupFailed as error:
            self._finish(error)
            return
        self._channel.part_installed(self._now(), event.token)
        if event.index is not None:
            self._delivery.installed(event.index)

    def _handshake(self, peer: int, calls: bool) -> Dialer:
        knows, nonce = self._driver.transport.life(peer)
        return Dialer(msgspec.structs.replace(self._hello, calls=calls, knows=knows, knows_nonce=nonce))

    # The end

    def _finish(self, error: GroupError | None = None) -> None:
        """Stop this member now. error: the reason why it cannot go on; None after `leave`."""
        if self._state == "stopped":
            return
        self._state = "stopped"
        self._departure.stop()
        self._driver.stop()
        self._delivery.stop()
        joining, self._joining = self._joining, None
        if joining is not None and not joining.called:
            joining.errback(error or NotInGroup("this member left before there was a view"))
        self._listener.stop().addBoth(lambda _: self._fire_stopped(error))

    def _fire_stopped(self, error: GroupError | None) -> None:
        if error is None:
            self.stopped.callback(None)
        else:
            self._log(str(error))
            self.stopped.errback(error)
