"""The history of a run: views, entries and their holders, commits, deliveries.

Checkers read it. It computes majorities and changes of the configuration itself, so that a fault in the code
of the channel is not shared by the checkers.
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
"""Messages that bind their sender to a view or an entry, or let others proceed with one."""


@attrs.define(eq=False)
class Process:
    """The history of one process."""

    life: int = 0
    """The number of this process among those of the run."""
    commit: int = 0
    """The commit index after its last step."""
    base: Tag = NO_TAG
    """The base of its log after its last step."""
    tags: dict[int, Tag] = attrs.field(factory=dict[int, Tag])
    """The tags of the entries that its log has had, by index."""
    checked: int = 0
    """The end of its log after its last step."""
    view: ViewNumber = NO_VIEW
    """The view that it accepted last."""
    promised: ViewNumber = NO_VIEW
    highest_sent: ViewNumber = NO_VIEW
    """The highest view number that this voter has promised, accepted, recorded or proposed in a message, also
    in earlier processes."""
    resumed: ViewNumber = NO_VIEW
    """The view that it was in when it recovered from its disk."""
    follows: View | None = None
    """The view in which it was a slave after its last step."""
    announced: ViewNumber = NO_VIEW
    """The last view that it has announced to its application."""
    was_active: list[View] = attrs.field(factory=list[View])
    """The views in which it served during the present step."""
    observed: tuple[Any, ...] = ()
    """The `observable_state` after its last step."""


@attrs.define(eq=False)
class Step:
    """One step of one process. The history does not contain its commits yet."""

    host: Host
    output: Output
    process: Process
    """The history of the process before the step, but for `was_active`."""
    added: list[tuple[Tag, Tag, Entry]]
    """The new entries of its log: (tag, tag of the entry before, entry)."""
    views: list[tuple[View, ViewEvent]]
    """The views that it announces."""
    binding: list[Message]
    """The messages of the step whose type is in BINDING."""
    commits: range = range(0)
    """The indices that it has committed first of all processes."""
    quiet: bool = False
    """Whether `observable_state` is unchanged and the step only sent messages that are not BINDING."""

    @property
    def messages(self) -> Iterable[tuple[int, Message]]:
        """All messages that the step sends: (receiver, message)."""
        return self.output.messages

    def tag(self, index: int) -> Tag:
        """Return the tag of an entry of the log, or of one that was trimmed in this step."""
        log = self.host.state.log
        return log.tag(index) if index >= log.base.at else self.process.tags[index]


def observable_state(host: Host) -> tuple[Any, ...]:
    """Return what checkers read of a process, besides its output and the inside of its log."""
    channel, state = host.channel, host.state
    return (
        channel.phases,
        channel.lease.held,
        state.promised,
        state.accepted,
        state.serving,
        state.unfit,
        state.stopped,
        state.replicated.commit,
        state.replicated.applied,
        state.replicated.stable,
        state.replicated.submitters.rows,
        state.log.last,
        state.log.base,
    )


class History:
    """The facts of one run, shared by all checkers.

    There are more than 15 attributes: each is one table that several checkers read.
    """

    world: World

    def __init__(self) -> None:
        self.processes: dict[Voter, Process] = {}
        self.views: dict[ViewNumber, View] = {}
        """Every view that any process accepted, as the first one accepted it."""
        self.sources: dict[ViewNumber, View | None] = {}
        """The view that each view replaces, as its proposer chose it; None for a first view."""
        self.accepted: dict[ViewNumber, set[Voter]] = {}
        """The voters that have ever accepted or recorded each view."""
        self.promises: dict[ViewNumber, dict[Voter, Promise]] = {}
        """The promises for each view, by voter."""
        self.exits: dict[Voter, float] = {}
        """The time at which each voter last sent EXIT, which means that it does not follow the master."""
        self.leaving: set[Voter] = set()
        """The voters that have announced that they leave, and so follow no master."""
        self.since: dict[ViewNumber, float] = {}
        """The time at which each view became active."""
        self.active: dict[ViewNumber, tuple[int, int, tuple[int, ...], bool]] = {}
        """The index, master, members and `first_time` of the first event of each active view."""
        self.latest: View | None = None
        """The highest active view."""
        self.entries: dict[Tag, tuple[Tag, bytes, int]] = {}
        """The tag of the entry before, the payload and the stamp of every entry ever appended, by tag."""
        self.reconfigs: dict[Tag, bytes] = {}
        """The payload of every RECONFIG entry, by tag."""
        self.held: dict[Tag, set[Voter]] = {}
        """The voters that have ever held each entry; where there are disks, on the disk."""
        self.committed: dict[int, Tag] = {}
        """The tag of the entry committed at each index."""
        self.top = 0
        """The highest index that any process has committed."""
        self.chains: dict[int, bytes] = {0: b""}
        """The hash chain of the application after each index that was delivered."""
        self.last_delivered = 0
        """The highest index that any application has delivered."""
        self.submitted: set[bytes] = set()
        """The payloads that clients have submitted."""
        self.delivered_once: dict[bytes, int] = {}
        """The index at which each payload was delivered."""
        self.numbered: dict[Source, bytes] = {}
        """The payload that was forwarded as each source."""
        self.sources_by_index: dict[int, Source | None] = {}
        """The source of the entry delivered at each index, as the first delivery had it."""
        self.moves: dict[tuple[str, str, str], int] = {}
        """The number of moves between phases: (table, from, to)."""
        self._lives = 0
        self.counts = {"views": 0, "snapshots": 0, "delivered": 0, "commits": 0}

    # Changes

    def begin(self, host: Host) -> Process:
        """Begin the history of a process."""
        self._lives += 1
        state = host.state
        before = self.processes.get(state.me)
        process = self.processes[state.me] = Process(
            self._lives,
            commit=state.replicated.commit,
            promised=state.promised,
            highest_sent=NO_VIEW if before is None else before.highest_sent,
        )
        if state.accepted is not None:
            process.view = process.resumed = state.accepted.number
        # A process that died before its boot number was durable has sent nothing; this one reuses the number.
        own = (*state.me, state.boot)
        for source in [source for source in self.numbered if source[:3] == own]:
            del self.numbered[source]
        return process

    def accept(self, host: Host, view: View) -> None:
        """Note a view that a process accepts or records."""
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
        """Compare a process with its state after the last step, and return what is new."""
        state = host.state
        process = self.processes[state.me]
        step = Step(host, output, process, added=[], views=[], binding=[])
        for _, message in output.messages:
            if type(message) is Heartbeat:
                if message.exit:
                    self.exits[state.me] = self.world.now
            elif type(message) in BINDING:
                step.binding.append(message)
            elif type(message) is Exit:
                self.exits[state.me] = self.world.now
                if message.leaving:
                    self.leaving.add(state.me)
        before, process.observed = process.observed, observable_state(host)
        if process.observed == before and not (
            step.binding or output.events or output.notes or output.persist
        ):
            step.quiet = True
            return step
        step.commits = range(max(process.commit, self.top) + 1, state.replicated.commit + 1)
        for event in output.events:
            if isinstance(event, ViewEvent):
                view = self.views[event.view]
                process.was_active.append(view)
                step.views.append((view, event))
        for message in step.binding:
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
        """Note the entries that are durable."""
        me = host.state.me
        for write in writes:
            for record in write.records:
                if isinstance(record, Appended):
                    for entry in record.entries:
                        self.held.setdefault(Tag(entry.view, entry.index), set()).add(me)

    def settle(self, step: Step) -> None:
        """Add a checked step to the history."""
        process, state = step.process, step.host.state
        process.was_active = process.was_active[-1:]
        if step.views:
            process.announced = step.views[-1][1].view
        process.promised = max(process.promised, state.promised)
        for message in step.binding:
            if isinstance(message, Promise | Accept | Recorded | Prepare):
                process.highest_sent = max(process.highest_sent, message.number)
        for index in step.commits:
            self.committed[index] = step.tag(index)
            self.counts["commits"] += 1
        self.top = max(self.top, state.replicated.commit)
        process.commit = state.replicated.commit
        process.follows = state.accepted if state.serving and not state.leading else None

    def activate(self, event: ViewEvent) -> bool:
        """Note an announced view. Return whether it is the first announcement."""
        number = event.view
        if number in self.active:
            return False
        self.active[number] = (event.index, event.master, event.members, event.first_time)
        self.since[number] = self.world.now
        self.counts["views"] += 1
        return True

    def rise(self, view: View) -> None:
        """Note an active view after it was checked."""
        if self.latest is None or view.number > self.latest.number:
            self.latest = view

    def deliver(self, event: Event) -> None:
        """Note an event that an application has handled."""
        if isinstance(event, Deliver):
            self.counts["delivered"] += 1
            self.sources_by_index.setdefault(event.index, event.source)
            if event.index > self.last_delivered:
                before = self.chains[self.last_delivered]
                self.chains[event.index] = link(before, event.index, event.stamp_ns, event.payload)
                self.last_delivered = event.index

    # Configurations

    def change_of(self, source: View, start: int) -> tuple[tuple[Voter, ...], tuple[Seat, ...]] | None:
        """Return the voters and seats after the RECONFIG that `source` appended up to `start`; None without
        one."""
        for index in range(source.start + 1, start + 1):
            payload = self.reconfigs.get(Tag(source.number, index))
            if payload is not None:
                return changed(source.config, payload), reseated(source.seats, payload)
        return None


def changed(config: Collection[Voter], payload: bytes) -> tuple[Voter, ...]:
    """Return the voters of a configuration after the change in a RECONFIG payload."""
    change = decode_reconfig(payload)
    if isinstance(change, Admit):
        return tuple(sorted(config))
    if isinstance(change, Dismiss):
        return tuple(sorted(voter for voter in config if voter.replica != change.replica))
    voter = Voter(change.replica, change.incarnation)
    others = set(config) - {voter}
    return tuple(sorted({*others, voter} if change.add else others))


def reseated(seats: Iterable[Seat], payload: bytes) -> tuple[Seat, ...]:
    """Return the seats after the change in a RECONFIG payload."""
    change = decode_reconfig(payload)
    after = {seat.replica: seat for seat in seats}
    if isinstance(change, Admit):
        after[change.replica] = Seat(change.replica, change.data, change.witness)
    elif isinstance(change, Dismiss):
        after.pop(change.replica, None)
    return tuple(after[replica] for replica in sorted(after))


def count(some: Iterable[Voter], among: Collection[Voter]) -> int:
    """Return how many distinct voters of `among` are in `some`."""
    return sum(voter in among for voter in set(some))


def majority(config: Collection[Voter]) -> int:
    """Return the least number of voters that is more than half of `config`."""
    return len(config) // 2 + 1
