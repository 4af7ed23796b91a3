"""A daemon of a mesh: takes messages from its clients, spreads them, and delivers them. Pure.

One input at a time: a message of another daemon, a frame of a client, a connection that opens or ends, or the
time. Each input changes the state and is followed by `take_output`: what it implies leaves once the changes
are durable. Inputs carry `now` (monotonic seconds) and the wall clock in milliseconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from .collection import Collection
from .consumers import Consumers
from .directory import DirectoryChanges
from .frames import Acknowledge, ClientFrame, Publish
from .log import Log
from .messages import AskSnap, AskState, Forgotten, MeshMessage, Msgs, Row, Snap, State, Want
from .model import (
    DIRECTORY,
    Data,
    DirectoryRecord,
    Dot,
    MeshLimits,
    Moved,
    Origin,
    Retire,
    Start,
    Stream,
    Uid,
    Unsubscribe,
    decode_record,
    encode_record,
    is_plain,
)
from .publishing import Publishing
from .repair import Repair
from .requests import Requests, User
from .snap import take_snap
from .state import ClientId, DaemonState, Output

__all__ = ["Daemon"]

BUSY_S: Final = 0.2
"""Clients count as busy for this long after their last message."""
RETIRE_S: Final = 5.0
"""The period at which a daemon looks whether lives of its own are over."""
TELL_BYTES: Final = 256 * 1024
"""After so many bytes of records the other daemons are told at once what has arrived."""


class Daemon:
    """One daemon of a mesh."""

    def __init__(
        self,
        me: int,
        life: int,
        configured: Iterable[int],
        log: Log,
        limits: MeshLimits,
        *,
        now: float,
        wall_ms: int,
    ) -> None:
        """Go on with what `log` has. life: higher than in all earlier starts of this daemon."""
        self.state = DaemonState(me, life, frozenset(configured), limits, log)
        self.state.now, self.state.wall_ms = now, wall_ms
        self.consumers = Consumers(self.state)
        self.publishing = Publishing(self.state)
        self.repair = Repair(self.state)
        self.collection = Collection(self.state)
        self.requests = Requests(self)
        self.forgotten_by: set[int] = set()
        """Connected daemons that say that this one does not belong to the mesh any more."""
        self._links_version = 0
        self._gossip_at = now
        self._retire_at = now
        self._told_links: tuple[int, ...] = ()
        self._to_tell: set[Stream] = set(self.state.streams.states)
        self._to_tell_ctx: set[Origin] = set()
        self._untold_bytes = 0
        self._unknown_dots: set[Dot] = {
            dot for dot in self.state.marks.dots if dot not in self.state.directory.subscriptions
        }
        self._has_older_lives = self._find_older_lives()
        self._may_release = False
        """Something has changed that publishers may have waited for."""
        self.state.directory.take_changes()
        self.state.streams.take_grown()

    # Facts

    @property
    def me(self) -> int:
        """The identifier of this daemon."""
        return self.state.me

    @property
    def life(self) -> int:
        """The present life of this daemon."""
        return self.state.life

    @property
    def links(self) -> tuple[int, ...]:
        """The daemons that this one is connected with."""
        return tuple(sorted(self.repair.links))

    @property
    def region(self) -> tuple[int, ...]:
        """The daemons that this one reaches, directly or through others, itself included."""
        return self.state.rows.region(self.me, self.links, self.state.directory.members)

    def take_output(self) -> Output:
        """Return what was put out since the last call. It may leave once all changes are durable."""
        return self.state.take_output()

    def deadline(self) -> float | None:
        """Return when `tick` is to be called next; None if nothing is due."""
        times = [*self.repair.deadlines()]
        if self.has_news or self.state.touched:
            times.append(self._gossip_at)
        if self._has_older_lives:
            times.append(self._retire_at)
        return min(times, default=None)

    def _find_older_lives(self) -> bool:
        """Return whether there are streams of earlier lives of this daemon. Costs a look at all streams."""
        return any(each.daemon == self.me and each.life < self.life for each in self.state.streams.states)

    # Inputs

    def connected(self, now: float, wall_ms: int, daemon: int) -> None:
        """A connection to another daemon has opened; an earlier one was reported as ended."""
        self._begin(now, wall_ms)
        self.repair.connected(daemon)
        self._links_version += 1
        self.state.send((daemon,), self._whole_state())
        self._settle()

    def disconnected(self, now: float, wall_ms: int, daemon: int) -> None:
        """The connection to another daemon has ended."""
        self._begin(now, wall_ms)
        self.repair.disconnected(daemon)
        self.forgotten_by.discard(daemon)
        self._links_version += 1
        self._settle()

    def receive(self, now: float, wall_ms: int, daemon: int, messages: Sequence[MeshMessage]) -> None:
        """Messages of a connected daemon have arrived, in order."""
        self._begin(now, wall_ms)
        if daemon not in self.repair.links:
            return
        for message in messages:
            self._receive(daemon, message)
        self._settle()

    def tick(self, now: float, wall_ms: int) -> None:
        """The deadline has come."""
        self._begin(now, wall_ms)
        if now >= self._gossip_at:
            topics = {stream.topic for stream in self.state.touched}
            self.collection.collect()
            self._end_slow(topics)
            self._tell()
            self._gossip_at = now + self.state.limits.gossip_s
        if now >= self._retire_at:
            self._retire_at = now + RETIRE_S
            self._has_older_lives = self._find_older_lives()
            peers = {id: link.ctx for id, link in self.repair.links.items() if link.heard}
            life = self.collection.retirable(peers)
            if life is not None:
                finals = tuple(
                    (origin.life, number)
                    for origin, number in sorted(self.state.directory.ctx.items())
                    if origin.daemon == self.me and origin.life <= life
                )
                self.record(Retire(self.next_stamp(), life, finals))
        self._settle()

    def client_frame(
        self, now: float, wall_ms: int, client: ClientId, user: User, frame: ClientFrame
    ) -> None:
        """A client has sent a frame."""
        self._begin(now, wall_ms)
        self.requests.receive(client, user, frame)
        if isinstance(frame, Publish) or (isinstance(frame, Acknowledge) and self._has_more(client, frame)):
            self.repair.busy_until = now + BUSY_S
        self._settle()

    def _has_more(self, client: ClientId, frame: Acknowledge) -> bool:
        """Return whether there is more here for a subscriber. One that has all waits for what is fetched."""
        consumer = self.consumers.with_number(client, frame.consumer)
        return consumer is not None and bool(consumer.ready)

    def client_lost(self, now: float, wall_ms: int, client: ClientId) -> None:
        """The connection of a client has ended."""
        self._begin(now, wall_ms)
        self.consumers.drop_client(client)
        self.publishing.drop_client(client)
        self._settle()

    def command(self, now: float, wall_ms: int, name: str, arguments: dict[str, object]) -> object:
        """Carry out a command of an administrator. Raises Refusal."""
        self._begin(now, wall_ms)
        result = self.requests.command(name, arguments)
        self._settle()
        return result

    def _begin(self, now: float, wall_ms: int) -> None:
        self.state.now = now
        self.state.wall_ms = wall_ms

    def _receive(self, daemon: int, message: MeshMessage) -> None:
        if isinstance(message, Forgotten):
            self.forgotten_by.add(daemon)
            return
        if isinstance(message, AskState):
            self.forgotten_by.discard(daemon)
            self.state.send((daemon,), self._whole_state())
            return
        if daemon not in self.state.directory.members:
            if isinstance(message, State) and message.whole:
                self.state.send((daemon,), Forgotten())
            return
        match message:
            case State():
                self._state_received(daemon, message)
            case Msgs():
                self._records_received(daemon, message)
            case Want():
                self._send_records(daemon, message)
            case AskSnap():
                self.state.send((daemon,), take_snap(self.state))
            case Snap():
                self._snap_received(daemon, message)

    # What daemons tell each other

    def _row(self, streams: Iterable[Stream]) -> Row:
        have = [(stream, self.state.streams.have(stream)) for stream in streams]
        return Row(self.life, self._links_version, self.links, have)

    def _whole_state(self) -> State:
        state = self.state
        rows = [(self.me, self._row(state.streams.states)), *state.rows.whole()]
        marks = [(stream, list(state.marks.of(stream))) for stream in state.marks.streams]
        return State(rows, list(state.directory.ctx.items()), marks, True)

    @property
    def has_news(self) -> bool:
        """Whether something has changed that the other daemons do not know."""
        state = self.state
        return bool(
            self._to_tell
            or self._to_tell_ctx
            or state.rows.changed
            or state.marks.changed
            or self._told_links != self.links
        )

    def _tell(self) -> None:
        """Tell the connected daemons what has changed."""
        if not self.has_news:
            return
        state = self.state
        rows = [(self.me, self._row(self._to_tell & state.streams.states.keys())), *state.rows.take_changes()]
        ctx = [(each, state.directory.ctx[each]) for each in self._to_tell_ctx if each in state.directory.ctx]
        marks: defaultdict[Stream, list[tuple[Dot, int]]] = defaultdict(list)
        for stream, dot in state.marks.changed:
            number = state.marks.get(stream, dot)
            if number is not None:
                marks[stream].append((dot, number))
        state.send(self.links, State(rows, ctx, list(marks.items())))
        self._to_tell.clear()
        self._to_tell_ctx.clear()
        state.marks.changed.clear()
        self._told_links = self.links
        self._untold_bytes = 0

    def _state_received(self, daemon: int, message: State) -> None:
        state = self.state
        self._may_release = True
        for each, row in message.rows:
            if each == self.me:
                if row.life > self.life:
                    self._begin_life(row.life + 1)
                # Records of its own that this daemon does not have, after a loss of its disk.
                for stream, number in row.have:
                    if number > state.streams.have(stream):
                        self.repair.consider(stream)
                continue
            if each not in state.directory.members:
                continue
            changed = state.rows.merge(each, row)
            state.touched.update(changed)
            for stream in changed:
                if stream.daemon == self.me:
                    self.publishing.copied(stream)
            self.repair.has(each, changed)
        self._learn_marks(message.marks)
        self.repair.heard(daemon, message)
        if message.whole:
            self.repair.consider_all(daemon)

    def _begin_life(self, life: int) -> None:
        """Begin a new life: others know a later one of this daemon than it has itself."""
        self.state.output.log.append(
            f"this daemon begins life {life}: others know a later one than {self.life}"
        )
        self.state.count("lives")
        self.state.life = life
        self._has_older_lives = True

    def _learn_marks(self, marks: Iterable[tuple[Stream, list[tuple[Dot, int]]]]) -> None:
        state = self.state
        for stream, each in marks:
            if state.retired(stream) or state.directory.removed_topic(stream.topic):
                continue
            for dot, number in each:
                self.mark(stream, dot, number)

    def mark(self, stream: Stream, dot: Dot, number: int) -> None:
        """Learn that nothing up to a number of a stream is due to a subscription any more."""
        state = self.state
        if state.directory.removed_dot(dot) or not state.marks.raise_to(stream, dot, number):
            return
        state.touched.add(stream)
        if dot in state.directory.subscriptions:
            self.consumers.marked(stream, dot)
        else:
            self._unknown_dots.add(dot)

    # Records

    def _records_received(self, daemon: int, message: Msgs) -> None:
        state = self.state
        stream = message.stream
        self.repair.arrived(daemon, message)
        if state.retired(stream) or not state.known_topic(stream):
            return
        if stream.daemon == self.me and stream.life == self.life:
            # Nobody can have records of this stream that this daemon lacks.
            return
        have = state.streams.have(stream)
        if message.first > have + 1 or message.last <= have:
            return
        records: list[tuple[int, bytes, bool]] = []
        last, size = message.last, 0
        starts: list[tuple[int, Start]] = []
        changes: list[tuple[int, DirectoryRecord]] = []
        for number, data in message.records:
            if number <= have:
                continue
            is_message = True
            if not is_plain(data):
                record = decode_record(data)
                match record:
                    case Moved():
                        if not state.passed(record.after.stream, record.after.number):
                            self.repair.blocked[stream] = record.after
                            last = number - 1
                            break
                    case Start():
                        starts.append((number, record))
                        is_message = False
                    case Data():
                        pass
                    case Retire() if not state.directory.includes(stream.daemon, record.finals):
                        self.repair.ask_snap(daemon)
                        last = number - 1
                        break
                    case _:
                        changes.append((number, record))
                        is_message = False
            records.append((number, data, is_message))
            size += len(data)
        if last <= have:
            return
        state.streams.append(stream, last, records)
        state.count("repaired" if message.answer else "received", len(records))
        self._untold_bytes += size
        for number, start in starts:
            for dot in start.dots:
                self.mark(stream, dot, number)
        for number, change in changes:
            state.directory.apply(stream.origin, number, change)
        if changes:
            self._follow_directory()

    def _send_records(self, daemon: int, want: Want) -> None:
        """Answer a Want."""
        state = self.state
        stream, held = want.stream, state.streams.states.get(want.stream)
        if held is None or want.first < 1:
            if state.retired(stream) or state.directory.removed_topic(stream.topic):
                state.send((daemon,), take_snap(self.state))
            return
        if want.first <= held.floor:
            state.send((daemon,), take_snap(self.state))
            return
        if want.first > held.have:
            return
        size = max(1, min(want.size_bytes, state.limits.chunk_bytes))
        records = state.log.read(stream, want.first, held.have, size)
        last = records[-1][0] if records else held.have
        if records and last < held.have and not state.log.read(stream, last + 1, held.have, 1):
            last = held.have
        state.send((daemon,), Msgs(stream, want.first, last, records, True))
        state.count("repaired_to_others", len(records))

    def _snap_received(self, daemon: int, snap: Snap) -> None:
        state = self.state
        self.repair.snapped(daemon)
        state.directory.join(snap)
        self._follow_directory()
        self._learn_marks(snap.marks)
        for stream, floor in snap.floor:
            if (
                state.known_topic(stream)
                and not state.retired(stream)
                and state.streams.skip_to(stream, floor)
            ):
                self.repair.consider(stream)
                state.touched.add(stream)

    # The directory

    def next_stamp(self) -> int:
        """Return the stamp of the next record of the directory."""
        return self.state.directory.stamp + 1

    def record(self, *records: DirectoryRecord) -> int:
        """Append records to the own directory stream and apply them. Return the number of the first one."""
        state = self.state
        stream = state.own(DIRECTORY)
        first = state.streams.have(stream) + 1
        state.append_own(
            stream, [(first + offset, encode_record(record), False) for offset, record in enumerate(records)]
        )
        for offset, record in enumerate(records):
            state.directory.apply(stream.origin, first + offset, record)
        self._follow_directory()
        return first

    def _follow_directory(self) -> None:
        """Do what changes of the directory imply."""
        state = self.state
        self._may_release = True
        while changes := state.directory.take_changes():
            self._to_tell_ctx |= changes.ctx
            for uid, topic in changes.lost_topics:
                self._topic_lost(uid, topic.name)
            for dot, _ in changes.lost_dots:
                self._dot_lost(dot)
            for dot in [each for each in self._unknown_dots if state.directory.removed_dot(each)]:
                self._dot_lost(dot)
            self._unknown_dots -= {*changes.new_dots}
            for uid in changes.new_topics:
                self.repair.topic_known(uid)
            self._start(changes)
            twice = [
                dot
                for dot in changes.new_dots
                if dot in state.directory.subscriptions and self.consumers.named(dot)
            ]
            if twice:
                self.record(Unsubscribe(self.next_stamp(), tuple(twice)))
            if changes.members:
                self._follow_members()
            if changes.retired:
                self._drop_retired()
            if changes.lost_topics or changes.new_topics:
                self._drop_unknown_streams(changes)

    def _start(self, changes: DirectoryChanges) -> None:
        """Record in the own streams from where new subscriptions are due."""
        state = self.state
        by_topic: defaultdict[str, list[Dot]] = defaultdict(list)
        for dot in changes.new_dots:
            subscription = state.directory.subscriptions.get(dot)
            if subscription is not None:
                by_topic[subscription.topic].append(dot)
        for topic, dots in by_topic.items():
            for uid in state.directory.uids_of.get(topic, ()):
                stream = state.own(uid)
                if stream in state.streams.states:
                    self.publishing.start(stream, [d for d in dots if state.marks.get(stream, d) is None])

    def _topic_lost(self, uid: Uid, name: str) -> None:
        state = self.state
        self.publishing.topic_lost(uid)
        self.repair.topic_lost(uid)
        for stream in list(state.streams.of_topic.get(uid, ())):
            self._drop_stream(stream)
        if name not in state.directory.uids_of:
            self.consumers.topic_lost(name)

    def _drop_unknown_streams(self, changes: DirectoryChanges) -> None:
        """Forget marks and rows of deleted topics that have no stream here."""
        lost = {uid for uid, _ in changes.lost_topics}
        if not lost:
            return
        for stream in self.state.marks.streams:
            if stream.topic in lost:
                self.state.marks.drop_stream(stream)
        for row in self.state.rows.known.values():
            for stream in [each for each in row.have if each.topic in lost]:
                self.state.rows.drop_stream(stream)

    def _drop_stream(self, stream: Stream) -> None:
        state = self.state
        state.streams.drop(stream)
        state.marks.drop_stream(stream)
        state.rows.drop_stream(stream)
        state.touched.discard(stream)
        self._to_tell.discard(stream)

    def _drop_retired(self) -> None:
        state = self.state
        streams = {*state.streams.states, *state.marks.streams}
        for row in state.rows.known.values():
            streams |= row.have.keys()
        for stream in streams:
            if state.retired(stream):
                self._drop_stream(stream)

    def _dot_lost(self, dot: Dot) -> None:
        self._unknown_dots.discard(dot)
        self.state.touched |= self.state.marks.drop_dot(dot)
        self.consumers.dot_lost(dot)

    def _follow_members(self) -> None:
        state = self.state
        members = state.directory.members
        for daemon in list(state.rows.known):
            if daemon not in members:
                state.rows.drop_daemon(daemon)
        for daemon, link in self.repair.links.items():
            if daemon not in members:
                link.heard = False
                state.send((daemon,), Forgotten())
            elif not link.heard:
                state.send((daemon,), AskState())
        state.touched.update(state.streams.states)

    def _end_slow(self, touched: set[Uid]) -> None:
        """End the slowest subscription of topics that are full and have the option for it."""
        state = self.state
        names = {topic.name for uid in touched if (topic := state.directory.topics.get(uid)) is not None}
        for name in sorted(names):
            uids = state.directory.uids_of[name]
            if state.directory.topics[min(uids)].options.on_full != "end":
                continue
            if state.streams.message_bytes(uids) <= self.publishing.topic_bytes(name):
                continue
            worst: tuple[int, Dot] | None = None
            for uid in uids:
                for stream in state.streams.of_topic.get(uid, ()):
                    for dot, mark in state.marks.slowest(stream)[:1]:
                        lag = state.streams.have(stream) - mark
                        if dot in state.directory.subscriptions and (worst is None or (lag, dot) > worst):
                            worst = (lag, dot)
            if worst is not None and worst[0] > 0:
                state.count("ended_slow")
                state.output.log.append(f"topic {name} is full: its slowest subscription {worst[1]} is ended")
                self.record(Unsubscribe(self.next_stamp(), (worst[1],)))

    # The end of a step

    def _settle(self) -> None:
        """Push, deliver and ask for what the step made possible."""
        state = self.state
        if self._may_release or state.streams.grown:
            self._may_release = False
            self.publishing.release()
        pushes, state.pushes = state.pushes, {}
        for stream, records in pushes.items():
            if stream in state.streams.states:
                size = sum(len(record) for _, record in records)
                self.repair.push(Msgs(stream, records[0][0], records[-1][0], records), size)
        grown = state.streams.take_grown()
        if grown:
            self._to_tell |= grown
            state.touched |= grown
            self.consumers.grown(grown)
        self.consumers.deliver()
        if self.repair.lacking or self.repair.links:
            self.repair.ask()
        if self._untold_bytes >= TELL_BYTES or (state.limits.copies > 1 and self._untold_bytes):
            self._tell()
