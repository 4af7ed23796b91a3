"""What a simulation has observed so far: views, entries, who holds what, what was committed and delivered.

Checkers read it. It has arithmetic of its own (majorities, changes of the configuration), so that a fault in
that of the channel is not shared.
"""

from collections.abc import Collection, Iterable
from typing import Any

import attrs

from ...hachannel import Deliver, Event, Output, Source, View, ViewEvent, ViewNumber, Voter
from ...hachannel.model.log import Appended
from ...hachannel.model.messages import (
    RECONFIG,
    Accept,
    Ack,
    Admit,
    Dismiss,
    Entry,
    Exit,
    Found,
    Founded,
    Heartbeat,
    Message,
    Prepare,
    Promise,
    Record,
    Recorded,
    decode_reconfig,
)
from ...hachannel.model.view import NO_TAG, NO_VIEW, Seat, Tag
from ..channel.application import Saved, link
from ..channel.disk import Write
from ..channel.host import Host
from ..channel.world import World

BINDING = frozenset({Ack, Prepare, Promise, Accept, Record, Recorded, Found, Founded})
"""Types of messages that bind their sender in what becomes of views and entries, or let others go on."""


@attrs.define(eq=False)
class Process:
    """What is remembered of one process."""

    life: int = 0
    """Counts the processes of a run."""
    commit: int = 0
    base: Tag = NO_TAG
    tags: dict[int, Tag] = attrs.field(factory=dict[int, Tag])
    checked: int = 0
    view: ViewNumber = NO_VIEW
    """The last view it accepted."""
    promised: ViewNumber = NO_VIEW
    said: ViewNumber = NO_VIEW
    """The highest view it has promised, accepted, recorded or proposed to others, in any of its lives."""
    resumed: ViewNumber = NO_VIEW
    """The view it was in when it came back from its disk."""
    follows: View | None = None
    """The view it was a slave in, after its last step."""
    announced: ViewNumber = NO_VIEW
    """The last view its application was told of."""
    was_active: list[View] = attrs.field(factory=list[View])
    """The views it served in during the current step."""
    stood: tuple[Any, ...] = ()
    """See `standing`, after its last step."""


@attrs.define(eq=False)
class Step:
    """What one step of one process did. The history does not contain its commits yet."""

    host: Host
    output: Output
    process: Process
    """As it was before the step, but for `was_active`."""
    added: list[tuple[Tag, Tag, Entry]]
    """(tag, tag of the entry before, entry) of what is new in its log."""
    views: list[tuple[View, ViewEvent]]
    """The views that it announces."""
    said: list[Message]
    """What it sends that is `BINDING`."""
    commits: range = range(0)
    """What it has committed and nobody before."""
    quiet: bool = False
    """It stands where it stood after its last step, and only sent messages, none of them `BINDING`."""

    @property
    def messages(self) -> Iterable[tuple[int, Message]]:
        """(replica, message) of all that it sends."""
        return self.output.messages

    def tag(self, index: int) -> Tag:
        """The tag of an entry of its log, or of one that it had and has trimmed in this very step."""
        log = self.host.state.log
        return log.tag(index) if index >= log.base.at else self.process.tags[index]


def standing(host: Host) -> tuple[Any, ...]:
    """What checkers read of one process, besides its output and the inside of its log."""
    channel, state = host.channel, host.state
    return (
        channel.phases,
        channel.lease.held,
        state.promised,
        state.accepted,
        state.serving,
        state.stopped,
        state.commit,
        state.applied,
        state.stable,
        state.origins.rows,
        state.log.last,
        state.log.base,
    )


class History:
    """The facts of one run, shared by all checkers."""

    world: World

    def __init__(self) -> None:
        self.processes: dict[Voter, Process] = {}
        self.views: dict[ViewNumber, View] = {}
        """Every view that anybody accepted, as the first one did."""
        self.sources: dict[ViewNumber, View | None] = {}
        """The view that each one replaces, as its proposer chose; None for a first view."""
        self.accepted: dict[ViewNumber, set[Voter]] = {}
        """Who has ever accepted or recorded a view."""
        self.promises: dict[ViewNumber, dict[Voter, Promise]] = {}
        """Who promised a view, and said what."""
        self.exits: dict[Voter, float] = {}
        """When each voter said last that it does not follow the master."""
        self.leaving: set[Voter] = set()
        """Who has said that it leaves: it follows nobody any more."""
        self.since: dict[ViewNumber, float] = {}
        """When each view became active."""
        self.active: dict[ViewNumber, tuple[int, int, tuple[int, ...], bool]] = {}
        """What the view event of an active view said."""
        self.latest: View | None = None
        """The highest active view."""
        self.entries: dict[Tag, tuple[Tag, bytes, int]] = {}
        """Before, payload and stamp of every entry ever appended."""
        self.reconfigs: dict[Tag, bytes] = {}
        self.held: dict[Tag, set[Voter]] = {}
        """Who has ever held an entry; with a disk, on it."""
        self.committed: dict[int, Tag] = {}
        self.top = 0
        """The highest index committed anywhere."""
        self.chains: dict[int, bytes] = {0: b""}
        """The chain of the application after each index delivered anywhere."""
        self.last_delivered = 0
        self.submitted: set[bytes] = set()
        self.delivered_once: dict[bytes, int] = {}
        """The index at which each payload was delivered."""
        self.numbered: dict[Source, bytes] = {}
        """What was forwarded under each number."""
        self.sources_by_index: dict[int, Source | None] = {}
        """Who forwarded what was delivered at an index, as the first who delivered it said."""
        self.moves: dict[tuple[str, str, str], int] = {}
        """(table, source, target) of the moves between phases."""
        self._lives = 0
        self.counts = {"views": 0, "snapshots": 0, "delivered": 0, "commits": 0}

    # What happens, as it happens

    def begin(self, host: Host) -> Process:
        """A new process."""
        self._lives += 1
        state = host.state
        before = self.processes.get(state.me)
        process = self.processes[state.me] = Process(
            self._lives,
            commit=state.commit,
            promised=state.promised,
            said=NO_VIEW if before is None else before.said,
        )
        if state.accepted is not None:
            process.view = process.resumed = state.accepted.number
        # One that died before its number was durable has sent nothing under it; this one has the same number.
        own = (*state.me, state.boot)
        for source in [source for source in self.numbered if source[:3] == own]:
            del self.numbered[source]
        return process

    def accept(self, host: Host, view: View) -> None:
        """A process accepts or records a view."""
        number = view.number
        self.views.setdefault(number, view)
        self.accepted.setdefault(number, set()).add(host.state.me)
        if host.state.me == (number.replica, number.incarnation) and number not in self.sources:
            installing = host.channel.installing
            if installing is not None and installing.view.number == number:
                self.sources[number] = installing.source
        # In a cluster of one, a change is appended and followed within one step.
        log = host.state.log
        for index in range(log.base.at + 1, min(view.start, log.last.at) + 1):
            entry = log.get(index)
            if entry.kind == RECONFIG:
                self.reconfigs[Tag(entry.view, index)] = entry.payload

    def observe(self, host: Host, output: Output) -> Step:
        """A step of a process: find out what is new."""
        state = host.state
        process = self.processes[state.me]
        step = Step(host, output, process, added=[], views=[], said=[])
        for _, message in output.messages:
            if type(message) is Heartbeat:
                if message.exit:
                    self.exits[state.me] = self.world.now
            elif type(message) in BINDING:
                step.said.append(message)
            elif type(message) is Exit:
                self.exits[state.me] = self.world.now
                if message.leaving:
                    self.leaving.add(state.me)
        before, process.stood = process.stood, standing(host)
        if process.stood == before and not (step.said or output.events or output.notes or output.persist):
            step.quiet = True
            return step
        step.commits = range(max(process.commit, self.top) + 1, state.commit + 1)
        for event in output.events:
            if isinstance(event, ViewEvent):
                view = self.views[event.view]
                process.was_active.append(view)
                step.views.append((view, event))
        for message in step.said:
            if isinstance(message, Promise):
                self.promises.setdefault(message.number, {}).setdefault(state.me, message)
        self._scan(step)
        return step

    def _scan(self, step: Step) -> None:
        """Find the entries that are new in a log."""
        process, log = step.process, step.host.state.log
        index = min(process.checked, log.last.at)
        while index > log.base.at and process.tags.get(index) != log.tag(index):
            index -= 1
        if process.base != log.base and log.base.at > process.checked:
            index = log.base.at
        me = step.host.state.me
        for position in range(max(index, log.base.at) + 1, log.last.at + 1):
            entry = log.get(position)
            tag = Tag(entry.view, position)
            step.added.append((tag, log.tag(position - 1), entry))
            process.tags[position] = tag
            if step.host.disk is None:
                self.held.setdefault(tag, set()).add(me)
            if entry.kind == RECONFIG:
                self.reconfigs[tag] = entry.payload
        process.checked = log.last.at
        process.base = log.base

    def sync(self, host: Host, writes: Iterable[Write[Saved]]) -> None:
        """These are on a disk."""
        me = host.state.me
        for write in writes:
            for record in write.records:
                if isinstance(record, Appended):
                    for entry in record.entries:
                        self.held.setdefault(Tag(entry.view, entry.index), set()).add(me)

    def settle(self, step: Step) -> None:
        """The step was checked: it becomes a part of the past."""
        process, state = step.process, step.host.state
        process.was_active = process.was_active[-1:]
        if step.views:
            process.announced = step.views[-1][1].view
        process.promised = max(process.promised, state.promised)
        for message in step.said:
            if isinstance(message, Promise | Accept | Recorded | Prepare):
                process.said = max(process.said, message.number)
        for index in step.commits:
            self.committed[index] = step.tag(index)
            self.counts["commits"] += 1
        self.top = max(self.top, state.commit)
        process.commit = state.commit
        process.follows = state.accepted if state.serving and not state.leading else None

    def activate(self, event: ViewEvent) -> bool:
        """A view is announced; returns whether that is news."""
        number = event.view
        if number in self.active:
            return False
        self.active[number] = (event.index, event.master, event.members, event.first_time)
        self.since[number] = self.world.now
        self.counts["views"] += 1
        return True

    def rise(self, view: View) -> None:
        """An active view was checked."""
        if self.latest is None or view.number > self.latest.number:
            self.latest = view

    def deliver(self, event: Event) -> None:
        """The application has handled an event."""
        if isinstance(event, Deliver):
            self.counts["delivered"] += 1
            self.sources_by_index.setdefault(event.index, event.source)
            if event.index > self.last_delivered:
                before = self.chains[self.last_delivered]
                self.chains[event.index] = link(before, event.index, event.stamp_ns, event.payload)
                self.last_delivered = event.index

    # Arithmetic of its own

    def change_of(self, source: View, start: int) -> tuple[tuple[Voter, ...], tuple[Seat, ...]] | None:
        """What the one RECONFIG that was appended in `source`, up to `start`, makes of voters and seats."""
        for index in range(source.start + 1, start + 1):
            payload = self.reconfigs.get(Tag(source.number, index))
            if payload is not None:
                return changed(source.config, payload), reseated(source.seats, payload)
        return None


def changed(config: Collection[Voter], payload: bytes) -> tuple[Voter, ...]:
    """A configuration after the change that the payload of a RECONFIG says."""
    change = decode_reconfig(payload)
    if isinstance(change, Admit):
        return tuple(sorted(config))
    if isinstance(change, Dismiss):
        return tuple(sorted(voter for voter in config if voter.replica != change.replica))
    voter = Voter(change.replica, change.incarnation)
    others = set(config) - {voter}
    return tuple(sorted({*others, voter} if change.add else others))


def reseated(seats: Iterable[Seat], payload: bytes) -> tuple[Seat, ...]:
    """The seats after the change that the payload of a RECONFIG says."""
    change = decode_reconfig(payload)
    after = {seat.replica: seat for seat in seats}
    if isinstance(change, Admit):
        after[change.replica] = Seat(change.replica, change.data, change.witness)
    elif isinstance(change, Dismiss):
        after.pop(change.replica, None)
    return tuple(after[replica] for replica in sorted(after))


def count(some: Iterable[Voter], among: Collection[Voter]) -> int:
    """How many distinct voters of `among` are in `some`."""
    return sum(voter in among for voter in set(some))


def majority(config: Collection[Voter]) -> int:
    """More than half."""
    return len(config) // 2 + 1
