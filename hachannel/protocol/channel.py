"""The HA channel: one replica's side of the replication protocol, without clock, randomness or IO."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..model.configuration import configure
from ..model.errors import ChannelError
from ..model.events import DirectReceived, Output
from ..model.log import Log, MemoryLog
from ..model.messages import DirectMessage, Heartbeat, Message
from ..model.settings import Settings
from ..model.view import NO_TAG, NO_VIEW, Voter
from ..replication.peers import Peers
from ..replication.replica_state import ReplicaState
from .channel_status import ChannelStatus
from .decision_loop import DecisionLoop
from .dispatch import FREQUENT, Dispatch
from .heartbeats import Heartbeats
from .parts import assemble
from .view_triggers import ViewTriggers


class Channel(ChannelStatus):
    """One replica of a cluster: its inputs, and the output that follows from them.

    Call one input, then `drain()` and act on the output; call `tick` when `deadline` is reached. Times are
    monotonic seconds. No input raises because of what a peer did.
    """

    def __init__(
        self,
        me: int,
        members: Sequence[int],
        *,
        incarnation: int,
        cluster: str,
        expected: int,
        settings: Settings | None = None,
        log: Log | None = None,
        data: Mapping[int, bytes] | None = None,
        fresh: bool = False,
        witnesses: Collection[int] = (),
    ) -> None:
        """A replica that has not started.

        me: its replica id. members: the configured replica ids, in order; they found the cluster, and once it
        exists its views list who belongs to it. incarnation: a number that rises with every life of this
        replica: of a lower one nothing that it forwards is ordered.
        cluster: what makes the cluster what it is, whatever its replicas; others are strangers.
        expected: how many empty replicas found the cluster. log: a durable one, or None for memory.
        data: what to say of each replica, for the application: see `Seat`.
        fresh: this replica is to get the whole state from the others, whatever the log has.
        witnesses: those of the members that vote and hold no log; they count as expected.
        Raises ValueError when these contradict each other.
        """
        self._settings = settings = settings if settings is not None else Settings()
        configuration = configure(
            me, members, cluster, expected, {} if data is None else data, witnesses, settings.min_copies
        )
        state = ReplicaState(
            Voter(me, incarnation), configuration, settings, MemoryLog() if log is None else log
        )
        # A guest that was let in has got what it lacked.
        parts = assemble(state, fresh=fresh or (state.guest and state.log.last == NO_TAG))
        super().__init__(parts)
        self._membership = parts.membership
        self._departures = parts.departures
        view_triggers = ViewTriggers(parts)
        self._heartbeats = Heartbeats(parts, view_triggers)
        self._decision_loop = DecisionLoop(parts, view_triggers, self._heartbeats)
        dispatch = Dispatch(parts, self._heartbeats)
        self._handlers = dispatch.handlers
        state.output.loopback = dispatch.to_oneself

    def _step(self, now: float, *, tick: bool = False) -> None:
        self._decision_loop.step(now, tick=tick)
        self._observe()

    @property
    def deadline(self) -> float | None:
        """When to call `tick` next, None for never. Read it after each `drain`."""
        return self._decision_loop.deadline

    # Inputs

    def start(self, now: float) -> None:
        """Begin. Call it once, before all other inputs."""
        state, settings = self.state, self._settings
        state.now = now
        state.peers = Peers(state.seats.others, now, settings)
        if state.seats.as_of != NO_VIEW:
            state.connect()
        self._decision_loop.start(now)
        self._observe()

    def tick(self, now: float) -> None:
        """Act on the time: call it when `deadline` is reached."""
        self._step(now, tick=True)

    def connected(self, now: float, peer: int, incarnation: int) -> None:
        """Note a connection with this life of a peer; it replaces an earlier one."""
        state = self.state
        link = None if state.stopped else state.peers.guest(peer, now)
        if link is None:
            return
        voter = Voter(peer, incarnation)
        # Also for the same voter: it may have been restarted from its disk.
        link.forget()
        link.voter = voter
        link.connected = True
        link.heard = now
        self._replication.connected(voter)
        state.output.send(peer, self._heartbeats.heartbeat(voter))
        self._membership.greet(link)
        if state.leaving:
            state.output.send(peer, self._heartbeats.farewell())
        self.lease.greet(peer)
        self._learner.hurry()
        self._replication.resume(voter)
        self._forwarding.reconnected(now, voter)
        self._election.reconnected(now, voter)
        self._donor.reconnected(voter)
        state.attention = True
        self._step(now)

    def disconnected(self, now: float, peer: int, *, ended: bool = False) -> None:
        """Note that the connection with a peer is lost; try to make another one at once.

        ended: the operating system, which both share, has reported that the process of the peer has ended.
        """
        link = self.state.peers.links.get(peer)
        if link is None or self.state.stopped:
            return
        if link.connected:
            link.connected = False
            link.closed = now
            self.state.peers.follow(self.state.seats.others, now)
        if ended and link.voter is not None and not link.connected:
            link.ended = True
            self.lease.release(link.voter)
        self._step(now)

    def partial_received(self, now: float, peer: int) -> None:
        """Note that a part of a long message has arrived: the peer is alive, its connection slow."""
        link = self.state.peers.links.get(peer)
        if link is not None and link.connected:
            link.heard = now

    def receive(self, now: float, peer: int, message: Message) -> None:
        """Handle a message that arrived on the connection with a peer."""
        link = self.state.peers.links.get(peer)
        if link is None or not link.connected or link.voter is None or self.state.stopped:
            return
        link.heard = now
        self.state.now = now
        if link.foreign and not isinstance(message, Heartbeat):
            return
        self.lease.watch(now)
        kind = type(message)
        self._handlers[kind](now, link.voter, message)
        if self.state.attention:
            self._step(now)
        elif kind not in FREQUENT:
            self._observe()

    def submit(self, now: float, stamp_ns: int, payload: bytes) -> int:
        """Append a payload and return its index. It is delivered once it is committed.

        If the view fails before that, it may never be delivered. Raises NotMaster, WindowFull,
        PayloadTooLarge, TooFewCopies.
        """
        self.lease.watch(now)
        return self._replication.submit(now, stamp_ns, payload)

    def forward(self, now: float, payload: bytes) -> int:
        """Have a payload ordered, from any replica; return its number, from 1 for each process.

        It is kept here and sent to every new master until it is delivered here, or is part of a snapshot
        that is installed here. It is delivered once, and after everything forwarded here before; perhaps
        never if this process ends. Raises WindowFull, PayloadTooLarge, ChannelError when this replica leaves.
        """
        self.state.now = now
        return self._forwarding.submit(payload)

    def stamp_forwarded(self, stamp: Callable[[], int | None]) -> None:
        """Have `stamp` called, on the master, for the stamp of what is forwarded, before it is ordered.

        It returns nanoseconds, or None while nothing that is forwarded may be ordered; it waits then.
        """
        self._forwarding.stamp = stamp

    def admit(self, now: float, replica: int, data: bytes = b"", *, witness: bool = False) -> bool:
        """Add a replica to the cluster, or change its data. data, witness: see `Seat`.

        Return False if nothing changes. Otherwise the next view has it, unless that view fails: see `seats`.
        Then the replica may join. Raises NotMaster, ChangeRefused, NotYet.
        """
        changed = self._membership.admit(now, replica, data, witness=witness)
        self._step(now)
        return changed

    def remove(self, now: float, replica: int) -> bool:
        """Remove a replica from the cluster. If it runs, it stops in order; a master hands over first.

        Return False if it is not there. Otherwise the next view lacks it, unless that view fails: see
        `seats`. Raises NotMaster, ChangeRefused, NotYet.
        """
        changed = self._membership.remove(now, replica)
        self._step(now)
        return changed

    def disqualify(self, now: float, reason: str, pause_s: float = 0.0) -> None:
        """Note that the application's state is wrong here, although the log is right.

        From now on the replica is *unfit*: it votes, and its log counts, but the next view does not have it
        as a member, and it is never master, even if no other replica can be. Outside the view it asks for a
        whole state; once that is installed it is fit, and joins. With a disk it stays unfit over restarts.
        reason: why, for the log. pause_s: it asks for the state after this time, in seconds; an application
        that is wrong again and again would change the view without end.
        """
        state = self.state
        if state.unfit or state.stopped:
            return
        state.now = now
        state.output.note(f"this replica is unfit: {reason}")
        state.disqualify()
        self._learner.disqualify(now + pause_s)
        self._election.abandon(now)
        self.lease.give_up(now)
        self._heartbeats.beat()
        self._step(now)

    def bar_founding(self) -> None:
        """Never found a cluster from now on: there is one that does not let this replica in."""
        self.state.guest = True

    def send_direct(self, peer: int, data: bytes) -> None:
        """Send an application message to a replica: unordered, lost when there is no connection."""
        state = self.state
        if len(data) > state.settings.max_payload_bytes:
            raise ChannelError(f"a message of {len(data)} bytes is too large: split it")
        if peer == state.me.replica:
            state.output.emit(DirectReceived(peer, data))
        elif peer in state.peers.links and state.peers.links[peer].connected:
            state.output.send(peer, DirectMessage(data))

    def snapshot_ready(self, now: float, token: int, index: int, parts: Iterable[bytes]) -> None:
        """Answer ProvideSnapshot with the whole state after entry `index`.

        parts: a sequence, or an iterable that yields each part when it is about to be sent. If it raises, the
        transfer ends, and the other replica begins again.
        """
        self._donor.snapshot_ready(now, token, index, parts)
        self._step(now)

    def part_ready(
        self, now: float, token: int, data: bytes, index: int | None = None, *, last: bool = False
    ) -> None:
        """Answer ProvideSnapshot or ProvidePart with a part of the state, of any size.

        index: this part and those that follow are as of that entry, and so are the earlier parts, except for
        what these parts replace; the log is kept from there. last: all parts together are the state after it.
        """
        self._donor.part_ready(now, token, data, index, last=last)
        self._step(now)

    def part_failed(self, now: float, token: int, reason: str) -> None:
        """Answer ProvideSnapshot or ProvidePart: the part cannot be had now. The other replica asks again."""
        self._donor.part_failed(token, reason)
        self._step(now)

    def part_installed(self, now: float, token: int, marker: bytes = b"") -> None:
        """Answer InstallPart: the part is installed.

        marker: for the application of another master, which continues from here if this master is lost.
        """
        self._learner.part_installed(token, marker)
        self._step(now)

    def part_refused(self, now: float, token: int, reason: str) -> None:
        """Answer InstallPart: the part cannot be used. The whole state is sent again, after a pause."""
        self._learner.part_refused(now, token, reason)
        self._step(now)

    def persisted(self, now: float, token: int) -> None:
        """Note that all records up to those of the output with this token are durable."""
        self.state.now = now
        self.state.output.synced(token)
        self._step(now)

    def lease_ended(self, now: float) -> None:
        """Answer LeaseChanged(False): what only one replica may run has ended here.

        Without the answer the others wait for a master that leaves, or hands over, as if it had died.
        """
        self.state.now = now
        self.lease.ended()
        self._step(now)

    def leave(self, now: float) -> None:
        """Stop in order: the event `Stopped` follows soon."""
        state = self.state
        if state.leaving or state.stopped:
            return
        state.leaving = True
        state.output.note("leaves")
        self._election.withdraw(now)
        self.lease.give_up(now)
        view = state.accepted
        waits = state.relied_on and (view is None or view.members != (state.me,))
        if waits and state.leading and view is not None and self._election.idle:
            # The next view, which another replica proposes, has the change then.
            vote = self._departures.next(view)
            if vote is not None:
                self._departures.remove(now, vote)
        state.broadcast(self._heartbeats.farewell())
        if waits:
            self._decision_loop.leave(now)
        else:
            state.stop("left")
        self._step(now)

    def drain(self, *, more: bool = False, again: bool = False, announce: bool = False) -> Output:
        """Return what the inputs since the last call produced.

        more: the caller may submit something soon. The next entry announces the commit then, instead of a
        message of its own; if nothing is submitted, see `commit_unannounced`. again: if there are events, the
        caller acts on them and calls this again before it waits; it may submit something then. announce: the
        slaves get the commit index at once, even if entries are in flight.
        """
        state = self.state
        if not state.stopped:
            self._forwarding.flush()
            self._replication.flush(more or (again and bool(state.output.batch.events)), announce)
        return state.output.drain()
