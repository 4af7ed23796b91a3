"""The driver of a member's channel: it calls the channel in time and handles its output. Twisted."""

from collections.abc import Callable

from ..model.errors import ProtocolError
from ..model.events import ProvideSnapshot
from ..model.messages import Ack, Data, decode_message
from ..model.settings import ANNOUNCE_AFTER_S
from ..transport.ports import DelayedCallPort
from ..transport.sending import send_messages
from ..transport.timer import Timer
from ..transport.transport import ChannelHost, ChannelTransport
from .context import MemberContext
from .delivery import Delivery
from .stall_report import StallReport

__all__ = ["ChannelDriver"]

SLICE_S = 0.02
"""Longest time of delivery, in seconds, before the sockets are served, so that peers hear a busy member."""


class ChannelDriver:
    """Passes packs, frames and the time to the channel, sends its messages, and delivers its events.

    The driver is the `ChannelHost` of its transport.
    """

    def __init__(
        self,
        context: MemberContext,
        delivery: Delivery,
        report: StallReport,
        connect: Callable[[ChannelHost], ChannelTransport],
        *,
        packs_in_flight: int,
        ticked: Callable[[], None],
    ) -> None:
        """connect: makes the transport. packs_in_flight: their limit. ticked: called after each tick."""
        self.transport = connect(self)
        self.running = False
        self._channel = context.channel
        self._order = context.order
        self._reactor = context.reactor
        self._now = context.now
        self._log = context.log
        self._delivery = delivery
        self._report = report
        self._packs_in_flight = packs_in_flight
        self._ticked = ticked
        self._timer = Timer(lambda: self._channel.deadline, self._reactor, self._now, self._tick)
        self._driving = self._stirred = self._run_due = False
        self._silence = False
        """No entry followed the last commit, so a Commit message must announce it to the slaves."""
        self._announcement: DelayedCallPort | None = None

    def start(self) -> None:
        """Connect to the other members, and join them."""
        self.running = True
        self.transport.start()
        self._channel.start(self._now())
        self.run(arm=True)

    def stop(self) -> None:
        """Close the connections, and cancel all calls."""
        self.running = False
        self._timer.stop()
        if self._announcement is not None and self._announcement.active():
            self._announcement.cancel()
        self.transport.stop()

    # Input of this member

    def submit(self) -> None:
        """Send the messages that wait: now if no pack is in flight, else in the next reactor turn."""
        if self._driving:
            self._stirred = True
        elif not self._run_due and self._room:
            if self._order.in_flight or self._delivery.events:
                self._run_soon()
                return
            # Nothing is in flight, so that waiting for further messages would only cost time.
            self._driving = True
            try:
                now = self._now()
                self._channel.forward(now, self._order.pack())
                self._submit_packs(now)
                self._collect()
            finally:
                # If a connection breaks meanwhile, messages about that are sent after these.
                self._driving = False
            if self._delivery.events or self._stirred:
                self._run_soon()

    @property
    def _room(self) -> bool:
        """Whether another pack may be submitted."""
        return self._order.in_flight < self._packs_in_flight and self._channel.can_forward

    def _submit_packs(self, now: float) -> None:
        order = self._order
        while order and self._room:
            self._channel.forward(now, order.pack())

    # The loop

    def run(self, *, arm: bool = False) -> None:
        """Submit, send and deliver until all is done, or for SLICE_S.

        A call during a run makes that run ask the channel for output once more. arm: the deadline of the
        channel may be earlier than before.
        """
        if self._driving:
            self._stirred = True
            return
        self._driving = self._stirred = True
        now = self._now()
        delivery = self._delivery
        try:
            while self._stirred and self.running:
                self._stirred = False
                self._submit_packs(now)
                arm |= not self._collect()
                if delivery.events:
                    if not delivery.run(now + SLICE_S):
                        self._run_soon()
                        break
                    # The member that sent an entry may wait for its commit; or there is room for more packs.
                    self._stirred |= bool(self._order) or (
                        delivery.awaited > 0 and self._channel.commit_unannounced
                    )
                else:
                    # A member alone commits at once.
                    self._stirred |= bool(self._order) and self._room
        finally:
            self._driving = False
            if self.running:
                if arm or not self._timer.set_up:
                    self._timer.arm()
                self._announce_later()

    def enqueue(self, event: ProvideSnapshot) -> None:
        """Handle an event again, after all events that wait now."""
        if self.running:
            self._delivery.events.append(event)
            self.run(arm=True)

    def _run_soon(self) -> None:
        if not self._run_due:
            self._run_due = True
            self._reactor.callLater(0, self._run_now)

    def _run_now(self) -> None:
        self._run_due = False
        if self.running:
            self.run()

    def _collect(self) -> bool:
        """Send the messages of the channel and queue its events. Return False if it had something to log.

        A commit is announced in messages of its own only when the member that sent the entry waits for it.
        Else the next entry announces it, or `_announce` after a silence.
        """
        delivery = self._delivery
        if delivery.awaited and delivery.awaited <= self._channel.announced:
            delivery.awaited = 0
        out = self._channel.drain(more=not delivery.awaited, again=True, announce=self._silence)
        self._silence = False
        if out.messages:
            send_messages(self.transport, out.messages)
        for line in out.notes:
            self._log(line)
        if out.events:
            delivery.events += out.events
        return not out.notes

    def _announce_later(self) -> None:
        if self._announcement is None and self._channel.commit_unannounced:
            applied = self._delivery.applied
            self._announcement = self._reactor.callLater(ANNOUNCE_AFTER_S, self._announce, applied)

    def _announce(self, applied: int) -> None:
        """Announce the commit to the slaves, unless an entry after `applied` has done so."""
        self._announcement = None
        self._silence = self._delivery.applied == applied
        if self._silence:
            self.run()
        else:
            self._announce_later()

    def _tick(self) -> None:
        now = self._now()
        self._channel.tick(now)
        self._report.update(now)
        self.run(arm=True)
        self._ticked()

    # Reports of the transport

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        """Pass the messages of a peer to the channel."""
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
            self._log(f"member {peer} sent an invalid message: {error}")
            self.transport.drop(peer, "it sent an invalid message")
            quiet = False
        if quiet and self._announcement is not None and self._channel.idle:
            # Only some members have acknowledged.
            return
        # Acks and entries make no deadline earlier, and the timer checks the deadline anyway.
        self.run(arm=not quiet)

    def peer_alive(self, peer: int) -> None:
        """Note that a part of a long frame of a peer has arrived."""
        self._channel.partial_received(self._now(), peer)

    def peer_up(self, peer: int, incarnation: int) -> None:
        """Note a connection to a peer."""
        self._report.up(peer)
        self._channel.connected(self._now(), peer, incarnation)
        self.run(arm=True)

    def peer_down(self, peer: int, reason: str) -> None:
        """Note that the connection to a peer is lost."""
        self._report.down(peer, reason)
        self._disconnected(peer)

    def peer_unreachable(self, peer: int, reason: str) -> None:
        """Note that a peer without connection cannot be reached."""
        self._report.unreachable(peer, reason)
        self._disconnected(peer)

    def _disconnected(self, peer: int) -> None:
        self._channel.disconnected(self._now(), peer, ended=self.transport.ended(peer))
        self.run(arm=True)
