"""The engine: runs the agents of one server, deterministically.

Every replica of a server feeds its engine the same entries and gets the same states and outputs.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from ..agents import FAILURES, FIRST_ROW_STAMP, AgentId, Note, Outcome, RowChange
from ..agents.lifecycle import LIFECYCLE_TYPES
from ..agents.state_types import encoder
from ..agents.thread_queue import Put, QueuePut
from .batch import (
    BatchError,
    CausalInput,
    ClassVersions,
    Item,
    NetAck,
    NetInput,
    NetPeer,
    Posts,
    decode_batch,
)
from .cell import Cell, Nondeterministic, Unfit, Unhandled
from .class_loading import Unloadable
from .class_versions import ClassMissing, SwitchRefused, UpgradePending
from .current_reaction import Skipped
from .effects import Effects
from .entry_outcome import mark_of
from .error_text import MAX_ERROR_CHARS, described, summary
from .input_check import InputCheck
from .lifecycle import Lifecycle
from .reaction import Reaction, encode_requests
from .recursion import FRAMES_TO_REACTION, FixedDepth
from .row_index import ROW_SPEC, lost_rows
from .row_writing import remove_rows, write_rows
from .runaway import runaway_report
from .server_links import Link
from .timers import Timer

__all__ = ["Engine", "EngineStopped"]

UPGRADE: Final = "quorate.upgrade/1"
"""Type in the trace of the row of a switch to other versions of agent classes."""
_TURNS_FOR_WAITING: Final = 100
"""Turns that one notification which waited for a paused agent may cause: itself, and what the agent gets
until all of them are delivered, as answers of other agents."""
_NO_LINK: Final = (-1, 0)


class EngineStopped(RuntimeError):
    """A reaction raised, and the settings say to stop then."""


class Engine(InputCheck):
    """The agents of one server and their queues.

    A pure state machine: `apply` takes entries of the ordered log, in order, and returns what is to be done.
    The rule of the queues is that of the HA ScalAgent platform (HA Joram specification, 4.4): the local queue
    is drained before the next external notification.
    """

    clock_ns: Callable[[], int] | None = None
    """Measures how long reactions take, for the trace. Nothing in the state depends on it."""
    traces_requests: bool = False
    """Whether the trace has what reactions asked for, and not only its hash."""
    _link: tuple[int, int] = _NO_LINK
    """The neighbour from which the notification in progress came, and its number."""

    # Entries

    def apply(self, index: int, now_ns: int, payload: bytes) -> Effects:
        """Run the reactions to one entry of the log.

        `now_ns` is the master's stamp on it. Returns what is to be done outside. An entry that is not a batch
        is reported and passed over, on every replica alike.
        Raises EngineStopped (see `EngineSettings.stop_on_exception`), Nondeterministic, and Unloadable or
        ClassMissing for an agent class that this process lacks: the engine must apply no more entries then.
        Raises UpgradePending for an entry before the switch to the classes of this process.
        """
        if self.classes.ahead:
            self._check_ahead(payload)
        self.current.entry = index
        try:
            with FixedDepth(FRAMES_TO_REACTION):
                return self._apply(index, now_ns, payload)
        finally:
            self.current.entry = 0

    def _apply(self, index: int, now_ns: int, payload: bytes) -> Effects:
        effects = Effects(index)
        self.applied = index
        self.now_ns = max(self.now_ns, now_ns)
        self.birth = self.current.birth = self.birth or max(1, self.now_ns)
        if self._runaways:
            self._runaways.clear()
        try:
            items = decode_batch(payload)
        except BatchError as error:
            self._report(effects, f"entry {index} passed over: {error}")
            return effects
        for item in items:
            self._process(item, effects)
        if effects.trace:
            parts = [self.chain]
            for reaction, mark in zip(effects.trace, effects.marks, strict=True):
                parts += (reaction.outputs or reaction.error.encode(), mark.to_bytes(5, "big"))
            self.chain = hashlib.blake2b(b"".join(parts), digest_size=16).digest()
        effects.chain = self.chain
        return effects

    def _process(self, item: Item, effects: Effects) -> None:
        if isinstance(item, Posts):
            for note in item.notes:
                effects.origin = note.to if isinstance(note.to, AgentId) else None
                self._turn(note, effects)
            effects.origin = None
        elif isinstance(item, NetInput):
            link = self._meet(item.server, item.birth, effects)
            new = link.accept(item.first_seq, item.notes)
            for number, note in enumerate(new, link.received + 1 - len(new)):
                self._link = (item.server, number)
                self._turn(note, effects)
            self._link = _NO_LINK
            effects.net_acks[item.server] = (item.birth, link.received)
        elif isinstance(item, NetAck):
            self._mail.acknowledged(item.server, item.birth, item.upto, effects)
        elif isinstance(item, NetPeer):
            self._meet(item.server, item.birth, effects)
        elif isinstance(item, ClassVersions):
            self._switch(item.versions, effects)
        elif isinstance(item, CausalInput):
            link = self._meet(item.server, item.birth, effects)
            if not self._mail.links.hold(link, item.first_seq, item.settled, item.notes):
                effects.overfull.add(item.server)
            effects.net_acks[item.server] = (item.birth, self._mail.links.delivered(item.server))
        else:
            for timer in self._timers.pop_due(self.now_ns, self.settings.max_timers_per_tick):
                note = Note(timer.agent, timer.agent, timer.type, timer.payload, 0, -timer.cause)
                if timer.agent in self._paused:
                    self._paused.hold_timer(timer.agent, note)
                    continue
                if self._timer_rate.fired(timer.agent, self.now_ns):
                    self._report_timers(timer, effects)
                self._turn(note, effects)
        if self._mail.links.holds_back:
            links = self._mail.links
            for server, note in links.deliverable():
                self._link = (server, links.delivered(server))
                self._turn(note, effects)
                self._link = _NO_LINK
                effects.net_acks[server] = (links.peek(server).peer_birth, links.delivered(server))
        if self._paused.resuming or self._orphans:
            for note in self._released(effects):
                self._turn(note, effects)

    def _released(self, effects: Effects) -> Iterator[Note]:
        """Yield what waited for agents that were resumed or deleted; each notification has its own turn.

        Agents that pause, resume and send to each other in these turns could go on for ever: at the bound
        they stay paused, with what waits for them.
        """
        paused = self._paused
        left = paused.notes * _TURNS_FOR_WAITING + self.settings.max_turn
        while True:
            if self._orphans:
                yield self._orphans.popleft()
                continue
            if not left:
                break
            left -= 1
            note = paused.take()
            if note is None:
                break
            assert isinstance(note.to, AgentId)
            self._passing = note.to
            yield note
            self._passing = None
        for agent in paused.resuming:
            self._report(
                effects,
                f"agent {agent} stays paused, with {paused.held(agent)} notifications that wait: more and "
                "more came for it, or it was paused and resumed again and again",
            )
        paused.resuming.clear()

    def _meet(self, server: int, birth: int, effects: Effects) -> Link:
        """Record the life in which another server sends. Return the link to that server."""
        link = self._mail.links[server]
        known = link.peer_birth
        is_new, dropped = self._mail.links.meet(server, birth)
        if is_new:
            effects.births[server] = birth
            # They have numbers of the former life, and are in the queue of the link with new ones.
            effects.network.pop(server, None)
            if known:
                self._report(
                    effects,
                    f"server {server} has begun a new life without its state: the {len(link.waiting)} "
                    "notifications that wait for it go to the new life, and what the former one had "
                    "acknowledged is lost with it",
                )
            if dropped:
                self._report(
                    effects,
                    f"{dropped} notifications of the former life of server {server}, which waited here for "
                    "earlier ones of other servers, are lost with it",
                )
        return link

    def _turn(self, note: Note, effects: Effects) -> None:
        """React to one external notification, and to what follows from it on this server."""
        mail, settings = self._mail, self.settings
        mail.to_servers.clear()
        local = mail.local
        max_turn, max_bytes = settings.max_turn, settings.max_turn_bytes
        if self._runaways:
            max_turn, max_bytes = self._runaways.bounds(note, max_turn, max_bytes)
        self._bound = self.position + max_turn
        begin = len(effects.trace)
        first = note
        step: Callable[[Note, Effects], None] = mail.route
        mail.local_bytes = 0
        while True:
            position, traced = self.position, len(effects.trace)
            mail.cause, sent = 0, mail.to_agents
            try:
                step(note, effects)
            except (EngineStopped, Nondeterministic, Unloadable, ClassMissing, UpgradePending):
                raise
            except Exception as error:
                self._contain(error, note, position, traced, effects)
            if mail.cause:
                self._count_sent(effects.trace[traced], mail.to_agents - sent)
                self._link = _NO_LINK
            if not local:
                return
            # Each waiting notification needs a reaction: a turn that cannot end within its bound ends now.
            if self.position + len(local) > self._bound:
                exceeded = f"those and the notifications that waited are more than max_turn, {max_turn}"
                break
            if mail.local_bytes > max_bytes:
                exceeded = f"{mail.local_bytes} bytes were sent, more than max_turn_bytes, {max_bytes}"
                break
            note, step = local.popleft(), self._deliver
        if max_turn < settings.max_turn:
            exceeded += ", which each such turn of an entry halves"
        self._runaways.add(first)
        report = runaway_report(first, effects.trace[begin:], len(local), exceeded)
        self.stopped_turn = f"entry {effects.index}: {report}"
        self._report(effects, report)
        self._drop(local, effects)

    def _count_sent(self, row: Reaction, to_agents: int) -> None:
        """Record in the trace how many notifications a reaction has caused."""
        if to_agents:
            force_setattr(row, "local", to_agents)
        to_servers = self._mail.to_servers
        if to_servers:
            counted = sorted(Counter(to_servers).items())
            texts = [f"{server}*{count}" if count > 1 else str(server) for server, count in counted]
            force_setattr(row, "remote", " ".join(texts))
            to_servers.clear()

    def _drop(self, waiting: "deque[Note]", effects: Effects) -> None:
        """Record all waiting notifications of a runaway turn as dead letters, in one row of the trace."""
        self.position += 1
        reason = f"runaway turn: {len(waiting)} notifications"
        for note in waiting:
            self.dead_letters += 1
            self._letters.add(self.dead_letters, self.now_ns, reason, note)
        self._trace(effects, None, waiting[0], kind="deadletter", error=reason, stamp=self.next_stamp)
        waiting.clear()

    def _report_timers(self, timer: Timer, effects: Effects) -> None:
        cell = self._directory.find(timer.agent)
        cls = "" if cell is None else f" ({cell.spec.name})"
        self._report(
            effects,
            f"more than {self.settings.max_timers_per_s} timers of agent {timer.agent}{cls} fired within a "
            f"second, the last one with {timer.type}: a timer of 0 s that is set again and again keeps the "
            "server busy without end",
        )

    def _contain(self, error: Exception, note: Note, position: int, traced: int, effects: Effects) -> None:
        """Limit a defect of the engine to the notification in which it occurs.

        The rest of the entry is applied: other servers and clients number their notifications, and would wait
        forever for a lost one.
        `position` and `traced`: the count of reactions, and of rows of the trace, before that notification.
        """
        kind, message = described(error)
        reason = f"defect of the engine: {kind}: {message}"
        if len(effects.trace) == traced:
            self.position = position
            self._dead_letter(note, reason[:MAX_ERROR_CHARS], effects)
        else:
            self._report(effects, f"{note.type} from {note.sender} to {note.to}: {reason}")

    def _deliver(self, note: Note, effects: Effects) -> None:
        if note.to == self._factory_id:
            self._factory_turn(note, effects)
            return
        cell = self._directory.find(note.to)
        if cell is None:
            self._mail.unknown(note, effects)
            return
        if self._paused and cell.identity in self._paused:
            if self._passing != cell.identity:
                self._hold(cell, note, effects)
                return
            self._passing = None
        self.position += 1
        self._mail.cause = self.position
        stamp = self.next_stamp
        self._before_change(cell)
        clock_ns = self.clock_ns
        began_ns = 0 if clock_ns is None else clock_ns()
        try:
            reacted = cell.react(note, self.now_ns, self.position, stamp, self.resolve, self.current)
        except (Unhandled, Unfit, Skipped) as error:
            self._failed(cell, note, error, effects)
        except Nondeterministic:
            raise
        except BaseException as error:
            self._failed(cell, note, error, effects)
            if self.settings.stop_on_exception:
                kind, message = described(error)
                raise EngineStopped(
                    f"{cell.identity} ({cell.spec.name}) raised {kind}: {message}; "
                    "stop_on_exception says to stop then. Mend the agent's class, or set that property to "
                    "false, for all replicas alike, and start them: the reaction is undone then, and its "
                    "sender told"
                ) from error
        else:
            context, outputs, rows = reacted
            self._directory.touch(cell, self.applied)
            saved = cell.just_saved
            snapshot = cell.snapshot(saved)
            if rows:
                saved += self._write_rows(cell, rows)
            outcome = context.outcome
            sends = 0 if outcome is None else len(outcome.sends)
            self._trace(
                effects,
                cell,
                note,
                sends=sends,
                outputs=outputs,
                stamp=stamp,
                saved=saved,
                state=snapshot,
                requests=encode_requests(outcome) if self.traces_requests else b"",
                duration_ns=0 if clock_ns is None else clock_ns() - began_ns,
            )
            if context.lines:
                effects.agent_lines += self._agent_log.lines(
                    cell, context.lines, context.dropped_lines, self.now_ns
                )
            if outcome is not None:
                self.next_stamp = context.next_stamp
                self._carry_out(cell, outcome, effects)

    def _hold(self, cell: Cell, note: Note, effects: Effects) -> None:
        """Keep a notification for a paused agent."""
        if note.to is not cell.identity:
            # The agent that has the name when it is resumed may be another one.
            note = msgspec.structs.replace(note, to=cell.identity)
        refusal = self._paused.hold(cell.identity, note, self.settings)
        if refusal:
            self._mail.refuse(note, "Backlog", refusal, effects, cell.identity)

    def _carry_out(self, cell: Cell, outcome: Outcome, effects: Effects) -> None:
        for note in outcome.sends:
            self._mail.send(note, effects)
        for place, (topic, message) in enumerate(outcome.emitted):
            if isinstance(message, QueuePut):
                effects.puts.append(Put(cell.identity, self.position, place, message))
            else:
                effects.emissions.append((topic, cell.identity, message))
        for timer, due_ns, type_name, payload in outcome.timers:
            self._timers.add(Timer(due_ns, timer, cell.identity, type_name, payload, self.position))
        for timer in outcome.cancelled:
            self._timers.cancel(cell.identity, timer)
        if outcome.deleted:
            self._remove(cell)

    def _before_change(self, cell: Cell) -> None:
        """Encode and hash the agent for captures and digests as of an earlier entry: it may change now."""
        if self._capture is not None:
            self._capture.before_change(cell)
        if self._rest is not None:
            self._rest.before_change(cell)
        self._directory.before_change(cell)

    def _write_rows(self, cell: Cell, rows: list[RowChange]) -> bytes:
        """Put and remove rows of an agent. Return bytes that are equal where the same was done."""
        write_rows(self._directory, cell.identity, rows, self.applied, self._before_change, self._next_row)
        return encoder.encode(rows)

    def _next_row(self) -> AgentId:
        if not self.rows_made:
            self.classes.created(ROW_SPEC)
        self.rows_made += 1
        return AgentId(self.server, self.server, FIRST_ROW_STAMP + self.rows_made)

    def _remove(self, cell: Cell) -> None:
        remove_rows(self._directory, cell.identity, self._before_change)
        self._before_change(cell)
        self._directory.remove(cell)
        self._timers.cancel_all(cell.identity)
        # Their senders are told that there is no such agent.
        self._orphans += self._paused.remove(cell.identity)

    def _factory_turn(self, note: Note, effects: Effects) -> None:
        """React to a notification to the factory agent of this server."""
        self.position += 1
        self._mail.cause = self.position
        if note.type in LIFECYCLE_TYPES:
            self._lifecycle_turn(note, effects)
            return
        stamp = self.next_stamp
        result = self._factory.react(note, self._directory, stamp, self.position, self.current)
        self.next_stamp = result.next_stamp
        if result.created is not None:
            cell = result.created
            self._directory.add(cell, self.applied)
            state, saved = cell.state(), cell.just_saved
            self._trace(
                effects,
                cell,
                note,
                kind="create",
                stamp=stamp,
                name=cell.name or "",
                state=state,
                saved=saved,
            )
        elif result.deleted is not None:
            self._trace(effects, result.deleted, note, kind="delete", stamp=stamp)
            self._remove(result.deleted)
        else:
            self._trace(effects, None, note, error=result.error, stamp=stamp)
        if result.error:
            self._report(effects, f"factory: {result.error}")
        if result.answer is not None:
            self._mail.answer(note, self._factory_id, result.answer, effects)

    def _lifecycle_turn(self, note: Note, effects: Effects) -> None:
        """React to a request about agents that exist. Counted by the caller."""
        parts = Lifecycle(self.server, self._directory, self._paused, self._timers, self._letters)
        result = parts.react(note)
        self._trace(effects, None, note, error=result.error, stamp=self.next_stamp)
        if result.error:
            self._report(effects, f"factory: {result.error}")
        self._mail.answer(note, self._factory_id, result.answer, effects)
        for each in result.resent:
            self._mail.send(each, effects)

    # Versions of classes

    def _check_ahead(self, payload: bytes) -> None:
        """Raise UpgradePending unless an entry begins with the switch to the classes of this process."""
        try:
            items = decode_batch(payload)
        except BatchError:
            return
        ahead = self.classes.ahead
        if items and isinstance(items[0], ClassVersions) and ahead.items() <= items[0].versions.items():
            return
        raise UpgradePending(ahead)

    def _switch(self, versions: dict[str, int], effects: Effects) -> None:
        """Use other versions of agent classes from here on, and upgrade the agents: all of them, or none if
        one cannot be upgraded."""
        classes = self.classes
        note = Note(self._outside, self._outside, UPGRADE, encoder.encode(versions))
        try:
            switch = classes.switch(versions, self._directory)
            for cell, spec, *_ in switch.upgrades if switch is not None else ():
                lost = lost_rows(self._directory.rows.of(cell.identity), spec)
                if lost:
                    raise SwitchRefused(f"agent {cell.identity} has rows of {lost}")
        except SwitchRefused as error:
            if classes.ahead:
                raise UpgradePending(classes.ahead) from error
            effects.refused = versions
            self.position += 1
            reason = summary("SwitchRefused", str(error))
            self._trace(effects, None, note, kind="upgrade", error=reason, stamp=self.next_stamp)
            self._report(effects, f"the server keeps the versions of its agent classes: {error}")
            return
        if switch is None:
            return
        for cell, spec, state, agent in switch.upgrades:
            self._before_change(cell)
            cell.replace(spec, state, agent)
            self._directory.bind(cell)
            self._directory.touch(cell, self.applied)
        classes.switched(switch)
        effects.switched = True
        self.position += 1
        self._trace(effects, None, note, kind="upgrade", outputs=switch.digest, stamp=self.next_stamp)
        names = ", ".join(f"{base}/{version}" for base, version in sorted(switch.versions.items()))
        self._report(effects, f"the server uses {names} from here on: {len(switch.upgrades)} agents upgraded")

    # Failures

    def _failed(self, cell: Cell, note: Note, error: BaseException, effects: Effects) -> None:
        kind, message = described(error)
        self._trace(effects, cell, note, error=summary(kind, message), stamp=self.next_stamp)
        if note.type in FAILURES and isinstance(error, Unhandled):
            return  # Agents need not react to reports of failures.
        self.failures += 1
        self._report(effects, f"{cell.identity} ({cell.spec.name}) failed on {note.type}: {kind}: {message}")
        self._mail.refuse(note, kind, message, effects, cell.identity)

    def _dead_letter(self, note: Note, reason: str, effects: Effects) -> None:
        self.dead_letters += 1
        self._letters.add(self.dead_letters, self.now_ns, reason, note)
        self.position += 1
        self._mail.cause = self._mail.cause or self.position
        self._trace(effects, None, note, kind="deadletter", error=reason, stamp=self.next_stamp)
        self._report(effects, f"dead letter: {note.type} from {note.sender} to {note.to}: {reason}")

    def _report(self, effects: Effects, line: str) -> None:
        if len(effects.reports) < self.settings.max_reports:
            effects.reports.append(line)
        else:
            effects.suppressed += 1

    def _trace(
        self,
        effects: Effects,
        cell: Cell | None,
        note: Note,
        *,
        stamp: int,
        kind: str = "react",
        error: str = "",
        sends: int = 0,
        outputs: bytes = b"",
        name: str = "",
        state: bytes = b"",
        saved: bytes = b"",
        requests: bytes = b"",
        duration_ns: int = 0,
    ) -> None:
        identity = (
            cell.identity if cell is not None else note.to if isinstance(note.to, AgentId) else self._outside
        )
        reaction = Reaction(
            self.position,
            effects.index,
            len(effects.trace),
            self.now_ns,
            identity,
            cell.spec.name if cell is not None else "",
            kind,
            note.sender,
            note.type,
            note.payload,
            note.request,
            error,
            sends,
            outputs,
            stamp,
            name,
            state,
            note.cause,
            *self._link,
            0,
            "",
            requests,
            duration_ns,
        )
        effects.trace.append(reaction)
        effects.marks.append(mark_of(reaction, saved))
