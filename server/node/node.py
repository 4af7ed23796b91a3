"""The node: the channel that orders batches, and the engine that applies them.

Pure: inputs come with `now` (monotonic seconds) and `wall_ns` (nanoseconds since the epoch), `drain` returns
the work for the driver, `work` applies the next committed entry. The Twisted runtime and the simulated
cluster drive the same object. A plain server is a node alone in its cluster.
"""

from collections import deque
from collections.abc import Callable, Sequence

from ...agents import AgentError, Note
from ...engine import (
    CausalInput,
    ClassMissing,
    Effects,
    Engine,
    EngineStopped,
    NetPeer,
    Nondeterministic,
    Reaction,
    StagedPart,
    StampedNote,
    Unloadable,
    UpgradePending,
    replaced,
)
from ...hachannel import (
    Channel,
    Deliver,
    DirectReceived,
    Event,
    InstallPart,
    LeaseChanged,
    LogRecord,
    Message,
    ProvidePart,
    ProvideSnapshot,
    Stopped,
    ViewEvent,
)
from ...hachannel.model.log import Applied, Committed
from ...hachannel.model.settings import ANNOUNCE_AFTER_S
from .class_switch import ClassSwitch
from .divergence import DivergenceDetector
from .entry_sentences import skipped_reaction, slow_entry
from .held_outputs import HeldOutputs
from .home import Home
from .mastership import Mastership
from .outputs import NodeSettings, Output, QueuePuts, RoleChange
from .state_transfer import StateTransfer, Unusable
from .wall_clock import WallClock

__all__ = ["Node", "NodeSettings", "Output", "RoleChange"]

OUTCOMES_AFTER_S = 0.05
"""Outcomes of entries are recorded with the next other records, or after this time."""


class Node:
    """One replica without its sockets and disk: it passes events of the channel to the engine.

    Call an input; then `drain` and carry out the output, and repeat both as long as `work` returns True. In
    this order messages leave before the entries that came with them are applied, so that all replicas work
    at the same time.

    It has more than 20 methods: twelve are inputs, one for each thing that can happen to a replica.
    """

    def __init__(self, channel: Channel, engine: Engine, settings: NodeSettings | None = None) -> None:
        """Make a node that has not started. See also `make_node`.

        `engine` has applied all entries that the log of `channel` knows to be committed.
        """
        self.me = channel.state.me.replica
        self.settings = settings or NodeSettings()
        self.engine = engine
        self.channel = channel
        self.reactions = 0
        """Reactions run by this incarnation."""
        self.divergence = ""
        """The last sentence about a replica whose state differs, this one or another; "" if there is none."""
        self._latest: Sequence[Reaction] = ()
        """The reactions to the last applied entry."""
        self._out = Output()
        self._events: deque[Event] = deque()
        self._ended = False
        self._master_gone = False
        """True once all replicas stop together and the master has stopped."""
        self._unsynced = 0
        """The last token of `Output.token`, while its records are not known to be durable; 0 otherwise."""
        self._outcomes: list[Applied] = []
        """Outcomes of entries that are not recorded yet: nobody waits for them."""
        self._outcomes_at: float | None = None
        """When they are recorded, unless other records are before."""
        self._announce_at: float | None = None
        """When to send the commit number to the slaves, unless an entry carries it before; None for never."""
        stage = self._stage if channel.state.log.durable else None
        self.transfer = StateTransfer(engine, channel, self._log, stage)
        self._held = HeldOutputs() if self.settings.answers == "confirmed" else None
        self._divergence = DivergenceDetector(self.me, engine, channel, self._differs, self._held)
        self._mastership = Mastership(channel, engine, self.settings, self._divergence, self._held)
        self._switch = ClassSwitch(self.me, engine, channel, self._mastership, self._log)
        self._divergence.on_classes = self._switch.received
        self._wall_clock = WallClock()
        self._home = Home(channel, engine, self.settings) if self.settings.homes else None
        self._now, self._wall_ns = 0.0, 0
        channel.stamp_forwarded(self._forwarded_stamp)

    # Queries

    @property
    def serving(self) -> bool:
        """True while this replica is master and holds the lease, so that its networks and services run."""
        return self._mastership.serving

    @property
    def role(self) -> str:
        """The channel's role: joining, slave, master, changing, blocked, stopped."""
        return "stopped" if self._ended else self.channel.standing.role

    @property
    def waits_for(self) -> str:
        """The reason for which the master of a view does not serve; "" if it serves or is not the master."""
        standing = self.channel.standing
        if not standing.leading or self._ended:
            return ""
        if standing.too_few_copies:
            return standing.too_few_copies
        if not self._divergence.may_serve:
            return "the other members of the view: they have not confirmed that their state is the same"
        return "" if self.serving else "the lease: it has not heard a majority of the replicas lately"

    @property
    def accepting(self) -> bool:
        """False while clients and other servers should not send more.

        Does not depend on what waits for other servers. Of the clients only those that send to such a server
        are held back (see `agents.congestion`), and two servers for which much waits would wait for each
        other.
        """
        return self._mastership.accepting if self._home is None else self._home.accepting

    @property
    def net_accepting(self) -> bool:
        """False while other servers should not send more: `accepting`, for the master's own queue."""
        return self._mastership.accepting

    @property
    def posting(self) -> bool:
        """Whether `post` takes notifications: this replica is the master, or one that serves clients."""
        return self._mastership.serving or (self._home is not None and self._home.active)

    @property
    def only_digest_left(self) -> bool:
        """True if only a background digest is left to work on: the sockets come first."""
        return not self._events and self._divergence.running is not None

    @property
    def unapplied(self) -> int:
        """The number of events of the channel that wait for `work`."""
        return len(self._events)

    @property
    def retired(self) -> bool:
        """True after `retire`, once all committed entries are applied and no other replica is waited for.

        A master waits until all members hold its whole log and know that it is committed.
        """
        if not self._mastership.retiring or self._events:
            return False
        channel = self.channel
        role = channel.standing.role
        if role == "master":
            return channel.announced == channel.last
        return self._master_gone or role == "blocked"

    @property
    def queued_notes(self) -> int:
        """Notifications waiting for a batch."""
        return self._mastership.queue.notes + (0 if self._home is None else self._home.queue.notes)

    def deadline(self, now: float, wall_ns: int) -> float | None:
        """Return when to call `tick` next, on the clock of `now`; None for never."""
        if self._ended:
            return None
        due, mastership_due = self.channel.deadline, self._mastership.deadline(now, wall_ns)
        home_due = None if self._home is None else self._home.deadline
        times = (due, self._announce_at, self._outcomes_at, self._divergence.due, mastership_due, home_due)
        return min((at for at in times if at is not None), default=None)

    def pending(self, server: int) -> tuple[int, list[Note]]:
        """Return what another server has not acknowledged and may be sent: see `Engine.pending`."""
        first_seq, notes = self.engine.pending(server)
        held = 0 if self._held is None else self._held.notes_to(server)
        return first_seq, notes[: len(notes) - held]

    # Inputs

    def start(self, now: float, wall_ns: int) -> None:
        """Begin. Call this once."""
        self._mastership.start_clock(now)
        self.channel.start(now)
        self._run(now, wall_ns)

    def tick(self, now: float, wall_ns: int) -> None:
        """Act on the deadlines that have passed."""
        due = self.channel.deadline
        if due is not None and now >= due:
            self.channel.tick(now)
        self._run(now, wall_ns)

    def receive(self, now: float, wall_ns: int, peer: int, messages: Sequence[Message]) -> None:
        """Process messages of a peer, in order."""
        for message in messages:
            self.channel.receive(now, peer, message)
        self._run(now, wall_ns)

    def partial_received(self, now: float, wall_ns: int, peer: int) -> None:
        """Record that part of a message of a peer has arrived, which proves that the peer lives."""
        self.channel.partial_received(now, peer)
        self._run(now, wall_ns)

    def connected(self, now: float, wall_ns: int, peer: int, incarnation: int) -> None:
        """Process a new connection to a peer."""
        self.channel.connected(now, peer, incarnation)
        self._run(now, wall_ns)

    def disconnected(self, now: float, wall_ns: int, peer: int, ended: bool = False) -> None:
        """Process that the connection to a peer is lost or failed; `ended`: its process has ended."""
        if self._mastership.retiring and peer == self.channel.standing.master:
            # All replicas stop. None may change the view: a later start needs the view of all on the disks.
            self._master_gone = True
        else:
            self.channel.disconnected(now, peer, ended=ended)
        self._run(now, wall_ns)

    def persisted(self, now: float, wall_ns: int, token: int) -> None:
        """Process that the records up to this token are durable."""
        if token >= self._unsynced:
            self._unsynced = 0
        self.channel.persisted(now, token)
        self._run(now, wall_ns)

    def services_stopped(self, now: float, wall_ns: int) -> None:
        """Process that networks and services have stopped: once for each `RoleChange` that stops them."""
        self._mastership.stops_pending -= 1
        self._run(now, wall_ns)

    def leave(self, now: float, wall_ns: int) -> None:
        """Stop in order; `Output.stopped` follows."""
        self.channel.leave(now)
        self._run(now, wall_ns)

    def retire(self, now: float, wall_ns: int) -> None:
        """Stop at the same entry as all other replicas, which get the same input. See `retired`.

        No replica leaves the view, so all disks hold the view of all. A master accepts no input from now on.
        The others continue until the connection to the master is lost, or end at once if there is none.
        """
        master = self.channel.standing.master
        link = None if master is None else self.channel.state.peers.links.get(master)
        self._mastership.retiring = True
        self._master_gone = master != self.me and (link is None or not link.connected)
        self._mastership.stop("all replicas stop")
        if self._home is not None:
            self._home.end("all replicas stop")
        self._run(now, wall_ns)

    def change(self, now: float, wall_ns: int, request: Callable[[Channel, float], bool]) -> bool:
        """Ask the channel to add or remove a replica: see `Channel.admit`, `Channel.remove`."""
        changed = request(self.channel, now)
        self._run(now, wall_ns)
        return changed

    def post(self, notes: list[Note], token: int | None = None) -> bool:
        """Put notifications into the next batch; call `flush` once all are posted.

        Imports the class of an agent to be created: see `Engine.checked`.
        `Output.committed` returns the token. Returns False, and does nothing, if the node does not serve.
        """
        mastership, home = self._mastership, self._home
        if home is not None and home.active and self.engine.birth:
            if notes:
                home.queue.add_notes(self.engine.checked(notes), token)
            return True
        if mastership.serving and notes:
            mastership.queue.add_notes(self.engine.checked(notes), token)
        return mastership.serving

    def net_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        """Queue notifications from one life of another server, if this one serves. Then call `flush`.

        Imports the class of an agent to be created: see `Engine.checked`.
        """
        if self._mastership.serving:
            self._mastership.queue.add_input(server, birth, first_seq, self.engine.checked(notes))

    def net_causal_input(
        self, server: int, birth: int, first_seq: int, settled: int, notes: list[StampedNote]
    ) -> None:
        """Queue notifications of a domain with causal order, as `net_input` does. Then call `flush`."""
        if self._mastership.serving:
            checked = replaced(notes, self.engine.checked([*notes]))
            self._mastership.queue.add_causal(CausalInput(server, birth, first_seq, settled, checked))

    def net_acked(self, server: int, birth: int, upto: int) -> None:
        """Queue that one life of another server holds everything up to `upto`. Then call `flush`."""
        if self._mastership.serving:
            self._mastership.queue.add_ack(server, birth, upto)

    def net_peer(self, server: int, birth: int) -> None:
        """Queue the present life of another server. Then call `flush`."""
        if self._mastership.serving:
            self._mastership.queue.add(NetPeer(server, birth))

    def flush(self, now: float, wall_ns: int) -> None:
        """Submit the queued input if the channel accepts it now; otherwise a later batch has it."""
        self._run(now, wall_ns)

    def drain(self, now: float) -> Output:
        """Return the work for the driver since the last call.

        Effects are dropped once the lease is over, such as after a reaction that took long: another replica
        may be serving.
        """
        self._watch_lease(now)
        out, self._out = self._out, Output()
        mastership = self._mastership
        if mastership.role_changes:
            out.roles, mastership.role_changes = mastership.role_changes, []
        if self._home is not None and self._home.changes:
            out.homes, self._home.changes = self._home.changes, []
        return out

    def work(self, now: float, wall_ns: int) -> bool:
        """Process the next event of the channel, such as an entry to apply, or continue a background digest.

        Return False if there was nothing to do.
        """
        self._watch_lease(now)
        events, divergence = self._events, self._divergence
        if self._ended or not (events or divergence.running is not None or self._mastership.may_found):
            return False
        self._latest = ()
        if events:
            self._on_event(now, events.popleft())
        else:
            divergence.step(now)
        self._run(now, wall_ns)
        return True

    def log_slow_entry(self, seconds: float) -> None:
        """Log the entry that the last call of `work` applied, if any, because it took `seconds`."""
        if self._latest:
            self._out.lines.append(slow_entry(self._latest, seconds))

    # Outputs of the channel

    def _run(self, now: float, wall_ns: int) -> None:
        """Collect the outputs of the channel and submit batches until there is nothing new."""
        channel, out, mastership, held = self.channel, self._out, self._mastership, self._held
        home = self._home
        self._now, self._wall_ns = now, wall_ns
        self._watch_lease(now)
        announce = self._announce_at is not None and now >= self._announce_at
        if self._outcomes_at is not None and now >= self._outcomes_at:
            self._record_outcomes()
        if not self._events:
            self._divergence.tick(now, announced=announce)
        while not self._ended:
            again = False
            output = channel.drain(more=True, announce=announce)
            lazy = bool(output.persist) and not self._record(output.persist, output.token)
            out.messages += output.messages
            out.lines += output.notes
            if output.seats is not None:
                out.seats = output.seats
            if output.events:
                self._queue_events(now, output.events)
                again = not channel.idle
            if held is not None and held.waits:
                self._release(held)
            standing = channel.standing
            settled = mastership.serving and standing.role == "master" and mastership.unsettled_since is None
            if not (settled or self._events):
                mastership.follow_role(now, standing)
            if home is not None and not mastership.retiring:
                home.follow(now, standing, mastership.serving)
            if lazy:
                channel.persisted(now, output.token)
                again = again or not channel.idle
            self._switch.check(now)
            if mastership.submit(now, wall_ns):
                if jump := self._wall_clock.observe(now, wall_ns):
                    out.lines.append(jump)
                continue
            if home is not None and home.submit(now):
                continue
            if mastership.lost_leases and not mastership.stops_pending:
                # The services have stopped: another replica may have the lease.
                mastership.lost_leases -= 1
                channel.lease_ended(now)
            elif held is not None and not announce and channel.commit_unannounced:
                # Outputs wait until the slaves have applied these entries.
                announce = True
            elif not again:
                break
        if not channel.commit_unannounced:
            self._announce_at = None
        elif self._announce_at is None:
            # No client waits for the slaves, and the next entry may carry the commit number soon.
            self._announce_at = now + ANNOUNCE_AFTER_S

    def _queue_events(self, now: float, events: Sequence[Event]) -> None:
        """Queue events for `work`.

        Services stop at once when the lease is lost, whatever is queued, and a replica that differs learns of
        it before it has applied what is queued.
        """
        mastership = self._mastership
        lost = False
        for event in events:
            if isinstance(event, DirectReceived):
                if not self._divergence.received(now, event, early=mastership.views_waiting > 0):
                    self._events.append(event)
                continue
            if isinstance(event, ViewEvent):
                mastership.views_waiting += 1
            elif isinstance(event, LeaseChanged) and not event.held:
                mastership.lost_leases += 1
                lost = True
            self._events.append(event)
        if lost:
            self._watch_lease(now)

    def _record(self, records: Sequence[LogRecord], token: int) -> bool:
        """Have records made durable; return whether the channel waits for that.

        The channel does not wait for commit records alone, unless it waits for earlier records.
        """
        self._out.persist += records
        if self._outcomes:
            self._record_outcomes()
        awaited = self._unsynced > 0 or any(not isinstance(record, Committed | Applied) for record in records)
        if awaited:
            self._unsynced = self._out.token = token
        return awaited

    def _record_outcomes(self) -> None:
        self._out.persist += self._outcomes
        self._outcomes.clear()
        self._outcomes_at = None

    def _watch_lease(self, now: float) -> None:
        """Stop serving without the lease, whatever is queued: another replica may be serving."""
        if self._mastership.serving:
            until = self.channel.standing.lease_until
            if until is None or now >= until:
                reason = f"it does not hold the lease{skipped_reaction(self.engine, self._out.effects)}"
                if self._home is None:
                    self._out.effects.clear()
                self._mastership.stop(reason)

    def _on_event(self, now: float, event: Event) -> None:
        if isinstance(event, Deliver):
            self._deliver(now, event)
        elif isinstance(event, ViewEvent):
            self._on_view(now, event)
        elif isinstance(event, DirectReceived):
            self._divergence.received(now, event)
        elif isinstance(event, ProvideSnapshot | ProvidePart):
            again = self.transfer.provide(now, event)
            if again is not None:
                self._events.append(again)
        elif isinstance(event, InstallPart):
            self._install(now, event)
        elif isinstance(event, Stopped):
            sentence = f"{event.reason}." if event.failed else event.reason
            self._end(sentence, failed=event.failed, noted=True)

    def _deliver(self, now: float, event: Deliver) -> None:
        mastership = self._mastership
        tokens = mastership.delivered(now, event.index, event.stamp_ns)
        if self._home is not None:
            tokens += self._home.delivered(event.source)
        try:
            effects = self.engine.apply(event.index, event.stamp_ns, event.payload)
        except (EngineStopped, Nondeterministic) as error:
            self._end(f"entry {event.index} stopped the engine: {error}", failed=True)
            return
        except (Unloadable, ClassMissing) as error:
            self._end(f"entry {event.index} cannot be applied: {error}", failed=True)
            return
        except UpgradePending as error:
            self._switch.pending(now, f"entry {event.index} cannot be applied: {error}")
            return
        except Exception as error:
            # A defect of the engine. If it is the same on all replicas, stopping would stop all of them; if
            # it is not, the next comparison of digests finds this one.
            effects = Effects(event.index, chain=self.engine.chain)
            effects.reports.append(f"defect: entry {event.index} was not applied as a whole: {error!r}")
        out = self._out
        self._latest = effects.trace
        self.reactions += len(effects.trace)
        out.trace += effects.trace
        out.lines += effects.agent_lines
        out.lines += effects.reports
        if effects.suppressed:
            out.lines.append(f"{effects.suppressed} more lines of entry {event.index} were left out")
        if effects.puts:
            out.puts.append(QueuePuts(event.index, effects.puts, master=mastership.serving))
        out.committed += tokens
        durable = self.channel.state.log.durable
        outcome = effects.outcome if durable or self._divergence.compared else b""
        self._hold(now, effects, outcome)
        if outcome and durable:
            self._outcomes.append(Applied(event.index, outcome))
            if self._outcomes_at is None:
                self._outcomes_at = now + OUTCOMES_AFTER_S
        self._divergence.applied(now, effects)
        self._switch.applied(effects)
        out.switched = out.switched or effects.switched
        every = self.settings.digest_every
        if every and event.index % every == 0:
            self._divergence.start_digest(now, event.index)

    def _hold(self, now: float, effects: Effects, outcome: bytes) -> None:
        """Let the outputs of an entry leave, at once or when the slaves have confirmed them."""
        serving, held = self._mastership.serving, self._held
        if held is not None and held.waits:
            held.hold(effects if serving else Effects(effects.index, chain=effects.chain))
        elif serving:
            self._out.effects.append(effects)
            if outcome and held is None and self._divergence.compared:
                self._divergence.answered(now, effects.index, outcome)
        elif self._home is not None and self._home.active:
            self._out.effects.append(effects)

    def _release(self, held: HeldOutputs) -> None:
        """Let those outputs leave that all slaves have confirmed."""
        released = held.release()
        if released and self._mastership.serving:
            self._out.effects += released

    def _on_view(self, now: float, event: ViewEvent) -> None:
        self._divergence.begin_view(now, event)
        if self._held is not None:
            self._release(self._held)
        self._switch.begin_view(event)
        self.transfer.begin_view(master=event.master == self.me)
        self._out.views.append(event)
        members = ", ".join(map(str, event.members))
        self._out.lines.append(f"view {event.view}: master {event.master}, members {members}: {event.reason}")
        self._mastership.follow_view(now, event)

    def _install(self, now: float, event: InstallPart) -> None:
        before = self.transfer.installed
        try:
            installed = self.transfer.install(now, event)
        except AgentError as error:
            self._end(f"the state of the other replicas cannot be used here: {error}", failed=True)
            return
        except Unusable as error:
            self._end(str(error), failed=True)
            return
        self._out.loaded = True
        if self.transfer.installed != before:
            self._out.state_after = event.index
        if self.transfer.busy:
            self._events.append(event)
        if event.index is not None:
            self._divergence.state_installed()
            self._mastership.advance_stamp(now, self.engine.now_ns)
            # Written together with the record of the new start of the log: the disk has both or neither.
            self._out.installed = installed

    def _forwarded_stamp(self) -> int | None:
        return self._mastership.forwarded_stamp(self._now, self._wall_ns)

    def _stage(self, part: StagedPart) -> None:
        self._out.staged.append(part)

    def _log(self, line: str) -> None:
        self._out.lines.append(line)

    def _differs(self, sentence: str) -> None:
        self.divergence = sentence
        self._out.divergences.append(sentence)

    def _end(self, sentence: str, failed: bool = False, *, noted: bool = False) -> None:
        """End the node. noted: the channel has written the sentence to the log."""
        if not self._ended:
            self._ended = True
            if not noted:
                self._out.lines.append(sentence)
            self._out.stopped = sentence
            self._out.failed = failed
            self._mastership.stop(sentence)
            if self._home is not None:
                self._home.end(sentence)
