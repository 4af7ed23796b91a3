"""A replica without its sockets: the channel that orders batches and the engine that applies them.

Pure: inputs come with `now` (monotonic seconds) and `wall_ns` (nanoseconds since the epoch), `take` gives
what is to be done, `work` applies the next committed entry. The Twisted runtime and the simulated cluster
drive the same object. A plain server is a node alone in its cluster.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ...agents import AgentError, Note
from ...engine import (
    Effects,
    Engine,
    EngineSettings,
    EngineStopped,
    NetPeer,
    Nondeterministic,
    Reaction,
    StagedPart,
    Tick,
    encode_batch,
)
from ...hachannel import (
    Channel,
    Deliver,
    Event,
    InstallPart,
    LeaseChanged,
    Log,
    LogRecord,
    Message,
    ProvidePart,
    ProvideSnapshot,
    Settings,
    Stopped,
    Told,
    ViewEvent,
)
from ...hachannel.model.log import Committed
from ...hachannel.model.settings import TELL_AFTER_S
from .batching import BatchQueue
from .divergence import Comparison
from .outputs import NodeSettings, Output, RoleChange
from .state_transfer import StateTransfer, Unusable

__all__ = ["Node", "NodeSettings", "Output", "RoleChange"]


class Node:
    """One replica.

    Call an input; then `take` and act on the output, and as long as `work` returns True, `take` again. So
    messages leave before the entries that came with them are applied, and all replicas are busy at once.
    """

    def __init__(
        self,
        me: int,
        members: Sequence[int],
        *,
        server: int,
        names: Mapping[str, int],
        incarnation: int,
        cluster: str,
        expected: int,
        channel_settings: Settings | None = None,
        engine_settings: EngineSettings | None = None,
        settings: NodeSettings | None = None,
        log: Log | None = None,
        engine: Engine | None = None,
        data: Mapping[int, bytes] | None = None,
        fresh: bool = False,
        witnesses: Sequence[int] = (),
    ) -> None:
        """See `Channel` and `Engine` for the arguments. Raises ValueError when they contradict each other.

        `engine`: one that has applied what a durable `log` remembers to be committed. `fresh`: the whole
        state is to come from the other replicas.
        """
        self.me = me
        self.incarnation = incarnation
        self.settings = settings or NodeSettings()
        self.engine = engine or Engine(server, names, engine_settings)
        self.channel = Channel(
            me,
            members,
            incarnation=incarnation,
            cluster=cluster,
            expected=expected,
            settings=channel_settings,
            log=log,
            data=data,
            fresh=fresh,
            witnesses=witnesses,
        )
        self.serving = False
        """True while this replica is master and holds the lease: its networks and services are to run."""
        self.reactions = 0
        """Reactions run by this incarnation."""
        self._latest: Sequence[Reaction] = ()
        """The reactions to the entry that was applied last."""
        self._out = Output()
        self._events: deque[Event] = deque()
        self._views_waiting = 0
        self._ended = False
        self._retiring = self._deserted = False
        """All replicas stop together; and the master has."""
        self._view: ViewEvent | None = None
        self._queue = BatchQueue(self.settings.limits)
        self._flight: deque[tuple[int, list[int]]] = deque()
        self._unsynced = 0
        """The token given out last, if its records are not known to be durable."""
        self._tell_at: float | None = None
        """When slaves are told of what is committed, unless an entry does that before."""
        self._unsettled_since: float | None = None
        self._tick_waits = False
        durable = log is not None and log.durable
        stage = self._stage if durable else None
        self._transfer = StateTransfer(self.engine, self.channel, self._say, stage)
        self._stamp_ns = self.engine.now_ns
        self._stamp_at = 0.0
        self._comparison = Comparison(me, self.engine, self.channel, self._say, self._rejoin)
        self._stopping = 0
        """Services that were to be stopped, and are not known to be."""
        self._lost = 0
        """How often the lease was lost since the channel knows that services have stopped."""

    # What can be asked

    @property
    def role(self) -> str:
        """The channel's role: joining, slave, master, changing, blocked, stopped."""
        return "stopped" if self._ended else self.channel.role

    @property
    def waits_for(self) -> str:
        """What keeps this replica, if it is master of its view, from serving; "" if nothing does."""
        state = self.channel.state
        if not state.leading or self._ended:
            return ""
        if state.too_few_copies:
            return state.too_few_copies
        return "" if self.serving else "the lease: it has not heard a majority of the replicas lately"

    @property
    def accepting(self) -> bool:
        """False while clients should not send more."""
        return self.serving and not self._queue.full and self.engine.backlog < self.engine.settings.high_water

    @property
    def net_accepting(self) -> bool:
        """False while other servers should not send more.

        Does not depend on what waits for other servers: full both ways, each would wait for the other.
        """
        return self.serving and not self._queue.full

    @property
    def patient(self) -> bool:
        """What is left for `work` has time: the sockets come first."""
        return not self._events and self._comparison.busy

    @property
    def unapplied(self) -> int:
        """How many events of the channel wait for `work`."""
        return len(self._events)

    @property
    def retired(self) -> bool:
        """After `retire`: there is nobody to wait for, and all that came is applied.

        Of a master: all members have what it has, and were told that it is committed.
        """
        if not self._retiring or self._events:
            return False
        channel = self.channel
        if channel.role == "master":
            return channel.told == channel.last
        return self._deserted or channel.role == "blocked"

    @property
    def queued_notes(self) -> int:
        """Notifications waiting for a batch."""
        return self._queue.notes

    def deadline(self, now: float, wall_ns: int) -> float | None:
        """When `tick` is to be called next, on the clock of `now`; None for never."""
        if self._ended:
            return None
        due = self.channel.deadline
        if self._tell_at is not None:
            due = self._tell_at if due is None else min(due, self._tell_at)
        timer_ns = self.engine.next_timer_ns
        if timer_ns is not None and not self._tick_waits and self.serving and self.channel.can_submit:
            at = now + max(0, timer_ns - self._time(now, wall_ns)) / 1e9
            due = at if due is None else min(due, at)
        if self._unsettled_since is not None and self.serving:
            at = self._unsettled_since + self.settings.unsettled_s
            due = at if due is None else min(due, at)
        return due

    # Inputs

    def start(self, now: float, wall_ns: int) -> None:
        """Begin. Call once."""
        self._stamp_at = now
        self.channel.start(now)
        self._run(now, wall_ns)

    def tick(self, now: float, wall_ns: int) -> None:
        """Time has passed."""
        due = self.channel.deadline
        if due is not None and now >= due:
            self.channel.tick(now)
        self._run(now, wall_ns)

    def receive(self, now: float, wall_ns: int, peer: int, messages: Sequence[Message]) -> None:
        """Messages of a peer, in order."""
        for message in messages:
            self.channel.receive(now, peer, message)
        self._run(now, wall_ns)

    def hears(self, now: float, wall_ns: int, peer: int) -> None:
        """Some of a message of a peer has arrived."""
        self.channel.hears(now, peer)
        self._run(now, wall_ns)

    def connected(self, now: float, wall_ns: int, peer: int, incarnation: int) -> None:
        """There is a connection to a peer."""
        self.channel.connected(now, peer, incarnation)
        self._run(now, wall_ns)

    def disconnected(self, now: float, wall_ns: int, peer: int, ended: bool = False) -> None:
        """The connection to a peer is gone, or could not be opened; `ended`: its process has ended."""
        if self._retiring and peer == self.channel.master:
            # It has stopped, as all do. Whoever does not is to find the view of all.
            self._deserted = True
        else:
            self.channel.disconnected(now, peer, ended=ended)
        self._run(now, wall_ns)

    def persisted(self, now: float, wall_ns: int, token: int) -> None:
        """Records are durable."""
        if token >= self._unsynced:
            self._unsynced = 0
        self.channel.persisted(now, token)
        self._run(now, wall_ns)

    def services_stopped(self, now: float, wall_ns: int) -> None:
        """What was to be stopped by a `RoleChange` has stopped: call it once for each."""
        self._stopping -= 1
        self._run(now, wall_ns)

    def leave(self, now: float, wall_ns: int) -> None:
        """Stop in order; `Output.stopped` follows."""
        self.channel.leave(now)
        self._run(now, wall_ns)

    def retire(self, now: float, wall_ns: int) -> None:
        """Stop at the same entry as all other replicas, which are told the same; once `retired`, just end.

        Nobody leaves, so all disks hold the view of all. A master takes nothing new from here on; the others
        go on until it is gone. Where there is none to wait for that is at once.
        """
        master = self.channel.master
        link = None if master is None else self.channel.state.peers.links.get(master)
        self._retiring = True
        self._deserted = master != self.me and (link is None or not link.connected)
        self._serve(False, "all replicas stop")
        self._run(now, wall_ns)

    def change(self, now: float, wall_ns: int, request: Callable[[Channel, float], bool]) -> bool:
        """Ask the channel for another replica or one less: see `Channel.admit`, `Channel.remove`."""
        changed = request(self.channel, now)
        self._run(now, wall_ns)
        return changed

    def post(self, notes: list[Note], token: int | None = None) -> bool:
        """Put notifications into the next batch; call `flush` when there is nothing more to post for now.

        The token comes back in `Output.committed`. Returns False, and does nothing, when not master.
        """
        if self.serving and notes:
            self._queue.add_notes(notes, token)
        return self.serving

    def net_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        """Notifications of a life of another server; ignored when not master. `flush` as after `post`."""
        if self.serving:
            self._queue.add_input(server, birth, first_seq, notes)

    def net_acked(self, server: int, birth: int, upto: int) -> None:
        """A life of another server has everything up to `upto`; ignored when not master. `flush` as above."""
        if self.serving:
            self._queue.add_ack(server, birth, upto)

    def net_peer(self, server: int, birth: int) -> None:
        """Another server lives that life; ignored when not master. `flush` as after `post`."""
        if self.serving:
            self._queue.add(NetPeer(server, birth))

    def flush(self, now: float, wall_ns: int) -> None:
        """Submit what was posted if the channel takes it now; else it goes with a later batch."""
        self._run(now, wall_ns)

    def take(self) -> Output:
        """Return, and forget, what is to be done."""
        out, self._out = self._out, Output()
        return out

    def work(self, now: float, wall_ns: int) -> bool:
        """Apply the next entry, follow the next event of the channel, or do some of what has time.

        Returns False if there is none.
        """
        self._watch_lease(now)
        if self._ended or not (self._events or self._unborn or self._comparison.busy):
            return False
        self._latest = ()
        if self._events:
            self._on_event(now, self._events.popleft())
        elif self._comparison.busy:
            self._comparison.go_on()
        self._run(now, wall_ns)
        return True

    def slow(self, seconds: float) -> None:
        """The last call of `work` took so long: say what it was, if it was an entry."""
        reactions = self._latest
        if reactions:
            last = reactions[-1]
            self._out.lines.append(
                f"entry {last.index} took {seconds:.1f} s, in which this replica answered nobody (or this "
                "process stood still): "
                f"{len(reactions)} reaction{'s' if len(reactions) > 1 else ''}, the last one of {last.agent} "
                f"({last.cls or 'the platform'}) to {last.type}; long work belongs outside of agents"
            )

    # Batches

    @property
    def _unborn(self) -> bool:
        """The first entry of the server may go: its services have been started."""
        if self.engine.birth or not self.serving or self._tick_waits or self._out.roles:
            return False
        return not self._views_waiting and self.channel.can_submit

    def _submit(self, now: float, wall_ns: int) -> bool:
        """Submit a batch if there is one and it may go; say whether one went."""
        channel, queue = self.channel, self._queue
        if not self.serving or self._views_waiting or not channel.can_submit:
            return False
        if self._out.roles and not self.engine.birth:
            # What services send as soon as they are started goes with the first entry.
            return False
        stamp_ns = self._time(now, wall_ns)
        timer_ns = self.engine.next_timer_ns
        # Without a birth no other server can be met; the first entry gives one.
        tick = not self.engine.birth or (timer_ns is not None and timer_ns <= stamp_ns)
        if tick and not self._tick_waits:
            self._tick_waits = True
            queue.add(Tick())
        if not queue or (len(self._flight) >= self.settings.eager_entries and not queue.has_batch):
            return False
        items, tokens = queue.take()
        self._stamp_ns, self._stamp_at = stamp_ns, now
        self._flight.append((channel.submit(now, stamp_ns, encode_batch(items)), tokens))
        return True

    def _time(self, now: float, wall_ns: int) -> int:
        """The stamp of a batch submitted now.

        Never before an earlier stamp. While the clock of this machine is behind that of a former master, time
        passes at half speed: timers still fire, and the difference is made up.
        """
        if wall_ns > self._stamp_ns:
            return wall_ns
        return self._stamp_ns + max(1, int((now - self._stamp_at) * 5e8))

    # What the channel says

    def _run(self, now: float, wall_ns: int) -> None:
        out = self._out
        self._watch_lease(now)
        tell = self._tell_at is not None and now >= self._tell_at
        while not self._ended:
            again = False
            output = self.channel.take(more=True, tell=tell)
            lazy = bool(output.persist) and not self._record(output.persist, output.token)
            out.messages += output.messages
            out.lines += output.notes
            if output.seats is not None:
                out.seats = output.seats
            if output.events:
                self._note_lease(now, output.events)
                self._events += output.events
                self._views_waiting += sum([isinstance(event, ViewEvent) for event in output.events])
            if not self._events:
                self._follow_role(now)
            if lazy:
                self.channel.persisted(now, output.token)
                again = not self.channel.idle
            if not (self._submit(now, wall_ns) or self._end_lease(now) or again):
                break
        if not self.channel.untold:
            self._tell_at = None
        elif self._tell_at is None:
            # Nobody waits for it there, and the next entry may be on its way.
            self._tell_at = now + TELL_AFTER_S

    def _record(self, records: Sequence[LogRecord], token: int) -> bool:
        """Have records made durable; say whether that is to be waited for.

        What is committed need not be durable before anything is said, unless something before it must be.
        """
        self._out.persist += records
        awaited = self._unsynced > 0 or any(not isinstance(record, Committed) for record in records)
        if awaited:
            self._unsynced = self._out.token = token
        return awaited

    def _note_lease(self, now: float, events: Sequence[Event]) -> None:
        """Services stop at once when the lease is lost, whatever waits to be applied."""
        lost = sum(isinstance(event, LeaseChanged) and not event.held for event in events)
        if lost:
            self._lost += lost
            self._watch_lease(now)

    def _end_lease(self, now: float) -> bool:
        """Once the services have stopped another replica may have the lease; say whether that was news."""
        if not self._lost or self._stopping:
            return False
        self._lost -= 1
        self.channel.lease_ended(now)
        return True

    def _on_event(self, now: float, event: Event) -> None:
        if isinstance(event, Deliver):
            self._deliver(now, event)
        elif isinstance(event, ViewEvent):
            self._views_waiting -= 1
            self._on_view(now, event)
        elif isinstance(event, Told):
            self._comparison.told(event)
        elif isinstance(event, ProvideSnapshot | ProvidePart):
            again = self._transfer.provide(now, event)
            if again is not None:
                self._events.append(again)
        elif isinstance(event, InstallPart):
            self._install(now, event)
        elif isinstance(event, Stopped):
            sentence = f"{event.reason}." if event.failed else event.reason
            self._end(sentence, failed=event.failed, noted=True)

    def _deliver(self, now: float, event: Deliver) -> None:
        if event.stamp_ns > self._stamp_ns:
            self._stamp_ns, self._stamp_at = event.stamp_ns, now
        try:
            effects = self.engine.apply(event.index, event.stamp_ns, event.payload)
        except (EngineStopped, Nondeterministic) as error:
            self._end(f"entry {event.index} stopped the engine: {error}", failed=True)
            return
        except Exception as error:
            # A defect of the engine. If it is the same on all replicas, stopping would stop all of them; if
            # it is not, the next comparison of digests finds this one.
            effects = Effects(event.index)
            effects.reports.append(f"defect: entry {event.index} was not applied as a whole: {error!r}")
        out = self._out
        self._latest = effects.trace
        self.reactions += len(effects.trace)
        out.trace += effects.trace
        out.lines += effects.reports
        if effects.suppressed:
            out.lines.append(f"{effects.suppressed} more lines of entry {event.index} were left out")
        if self._flight and self._flight[0][0] <= event.index:
            out.committed += self._flight.popleft()[1]
        if self.serving:
            out.effects.append(effects)
        self._tick_waits = False
        self._comparison.applied()
        every = self.settings.digest_every
        if every and event.index % every == 0:
            self._comparison.compare(event.index)

    def _on_view(self, now: float, event: ViewEvent) -> None:
        self._view = event
        self._comparison.begin(event)
        self._transfer.settle(master=event.master == self.me)
        members = ", ".join(map(str, event.members))
        self._out.lines.append(f"view {event.view}: master {event.master}, members {members}: {event.reason}")
        if event.master != self.me:
            self._serve(False, event.reason)
            return
        if self.serving and self._flight and self._flight[-1][0] > event.index:
            # What was submitted but is not in the log of the view will never be delivered.
            self._serve(False, "entries in flight were lost")
        self._begin_serving(now, event.reason)

    def _begin_serving(self, now: float, reason: str) -> None:
        """Serve, if this replica holds the lease; if not, once it does."""
        if not (self.serving or self._retiring) and self.channel.holds_lease(now):
            # Nothing is committed: whoever had the services before has left nothing behind.
            self._serve(True, reason, not self.engine.birth)

    def _watch_lease(self, now: float) -> None:
        """Without the lease another replica may be serving: stop, whatever waits to be applied or sent."""
        if self.serving and not self.channel.holds_lease(now):
            self._out.effects.clear()
            self._serve(False, "it does not hold the lease")

    def _follow_role(self, now: float) -> None:
        """Start or stop serving where the channel changes its role without a new view."""
        role = self.channel.role
        if role in ("changing", "blocked"):
            if self._unsettled_since is None:
                self._unsettled_since = now
            if now >= self._unsettled_since + self.settings.unsettled_s:
                self._serve(False, f"this replica was {role} for too long")
            return
        self._unsettled_since = None
        view = self._view
        if role == "master":
            if view is not None and view.master == self.me:
                self._begin_serving(now, "it is master and holds the lease")
        elif self.serving:
            self._serve(False, f"this replica is {role}")

    def _serve(self, master: bool, reason: str, first_time: bool = False) -> None:
        if master == self.serving:
            return
        # Input that was not submitted is dropped: its senders send again what was not acknowledged.
        self._queue.clear()
        self._flight.clear()
        self._tick_waits = False
        self.serving = master
        self._stopping += not master
        self._out.roles.append(RoleChange(master, first_time, reason))

    def _install(self, now: float, event: InstallPart) -> None:
        try:
            installed = self._transfer.install(now, event)
        except AgentError as error:
            self._end(f"the state of the other replicas cannot be used here: {error}", failed=True)
            return
        except Unusable as error:
            self._end(str(error), failed=True)
            return
        self._out.loaded = True
        if self._transfer.busy:
            self._events.append(event)
        if event.index is not None:
            self._stamp_ns, self._stamp_at = max(self._stamp_ns, self.engine.now_ns), now
            # Written with the record that the log begins anew: either both are on the disk or none is.
            self._out.installed = installed

    def _stage(self, taken: StagedPart) -> None:
        self._out.staged.append(taken)

    def _say(self, line: str) -> None:
        self._out.lines.append(line)

    def _end(self, sentence: str, failed: bool = False, *, noted: bool = False) -> None:
        """noted: the channel has written it to the log."""
        if not self._ended:
            self._ended = True
            if not noted:
                self._out.lines.append(sentence)
            self._out.stopped = sentence
            self._out.failed = failed
            self._serve(False, sentence)

    def _rejoin(self, sentence: str) -> None:
        """End, for a new incarnation to get the state from the others."""
        self._out.rejoin = sentence
        self._end(sentence)
