"""The invariants of the channel, each as a function that is called after every step of a simulation.

They look inside the channels. The names follow section 5 of the protocol: I1 one content per view number;
I2 views chain through intersecting quorums; I3 no acknowledgement below a promise; I4 equal tags, equal
prefixes; I5, I6 what was delivered anywhere is in every later active log; I7, I8 one delivery sequence, each
payload once; I9 nothing invented; I10, I13 committed means held by k members; I11 one master that can commit;
I12 the barrier; I14 view events; I15 snapshots; I16 delivered means committed; I17 no truncation below
commit; I18 bounded memory.
"""

from collections.abc import Callable

import attrs

from ..hachannel import Deliver, Event, InstallSnapshot, Output, View, ViewEvent, ViewNumber, Voter
from ..hachannel.choice import reconfigured
from ..hachannel.messages import RECONFIG, Ack, Entry, Prepare, decode_reconfig
from ..hachannel.view import NO_TAG, NO_VIEW, Tag, present
from .channel_world import Host, Observer, Violation, World, link


@attrs.define(eq=False)
class Known:
    """What a checker remembers of one process."""

    commit: int = 0
    base: Tag = NO_TAG
    tags: dict[int, Tag] = attrs.field(factory=dict[int, Tag])
    checked: int = 0
    view: ViewNumber = NO_VIEW
    promised: ViewNumber = NO_VIEW
    announced: ViewNumber = NO_VIEW
    was_active: list[View] = attrs.field(factory=list[View])
    """The views it served in during the current step."""


class Checks(Observer):
    """All invariants over one run, and what the run has seen."""

    def __init__(self) -> None:
        self.world: World
        self.known: dict[Voter, Known] = {}
        self.views: dict[ViewNumber, View] = {}
        self.accepted: dict[ViewNumber, set[Voter]] = {}
        """Who has ever accepted or recorded a view."""
        self.active: dict[ViewNumber, tuple[int, int, tuple[int, ...], bool]] = {}
        """What the view event of an active view said."""
        self.latest: View | None = None
        self.entries: dict[Tag, tuple[Tag, bytes, int]] = {}
        """Before, payload and stamp of every entry ever appended."""
        self.reconfigs: dict[Tag, bytes] = {}
        self.held: dict[Tag, set[Voter]] = {}
        self.committed: dict[int, Tag] = {}
        self.top = 0
        """The highest index committed anywhere."""
        self.chains: dict[int, bytes] = {0: b""}
        self.last_delivered = 0
        self.submitted: set[bytes] = set()
        self.delivered_once: dict[bytes, int] = {}
        self.prepared: dict[ViewNumber, int] = {}
        self.counts = {"views": 0, "snapshots": 0, "delivered": 0}
        self.steps: list[Callable[[Host, Known], None]] = [
            self.promises_rise,
            self.equal_tags_equal_prefixes,
            self.committed_is_held,
            self.one_master_can_commit,
            self.memory_is_bounded,
        ]

    # Called by the world

    def started(self, host: Host) -> None:
        """A new process: nothing is known of it."""
        known = self.known[Voter(host.replica, host.incarnation)] = Known()
        accept = host.state.accept

        def accepting(view: View) -> None:
            accept(view)
            self.one_content_per_view(host, known, view)

        # One step may accept several views; only the last one would be seen afterwards.
        object.__setattr__(host.state, "accept", accepting)

    def stepped(self, host: Host, output: Output) -> None:
        """Check everything that a step of one process can have changed."""
        known = self.known[host.state.me]
        for event in output.events:
            if isinstance(event, ViewEvent):
                known.was_active.append(self.views[event.view])
                self.view_events_agree(host, known, event)
        self.no_ack_below_promise(host, output)
        for check in self.steps:
            check(host, known)

    def delivered(self, host: Host, event: Event) -> None:
        """Check what the application sees."""
        if isinstance(event, Deliver):
            self.one_sequence(host, event)
        elif isinstance(event, ViewEvent):
            self.view_event_in_place(host, event)
        elif isinstance(event, InstallSnapshot):
            self.snapshot_is_true(host, event)

    # The invariants

    def fail(self, invariant: str, host: Host, text: str) -> None:
        """Report a violation."""
        raise Violation(f"{invariant}: replica {host}: {text}")

    def one_content_per_view(self, host: Host, known: Known, view: View) -> None:
        """I1. And accepted views rise."""
        if view.number <= known.view:
            self.fail("I3", host, f"accepted {view.number} after {known.view}")
        known.view = view.number
        if self.views.setdefault(view.number, view) != view:
            self.fail("I1", host, f"view {view.number} is {view} and {self.views[view.number]}")
        self.accepted.setdefault(view.number, set()).add(host.state.me)

    def promises_rise(self, host: Host, known: Known) -> None:
        """I3 for promises."""
        state = host.state
        if state.promised < known.promised:
            self.fail("I3", host, f"promised {state.promised} after {known.promised}")
        known.promised = state.promised

    def no_ack_below_promise(self, host: Host, output: Output) -> None:
        """I3. Also: one content per proposal number."""
        for _, message in output.messages:
            if isinstance(message, Ack) and message.view < host.state.promised:
                self.fail("I3", host, f"acknowledges {message.view}, has promised {host.state.promised}")
            if isinstance(message, Prepare):
                owner = self.prepared.setdefault(message.number, host.incarnation)
                if owner != host.incarnation:
                    self.fail("I1", host, f"proposes {message.number} again")

    def equal_tags_equal_prefixes(self, host: Host, known: Known) -> None:
        """I4 for all entries, I17: nothing at or below the commit index changes."""
        state = host.state
        log = state.log
        if state.commit < known.commit or log.last.at < state.commit:
            self.fail("I17", host, f"commit {known.commit} -> {state.commit}, log ends at {log.last.at}")
        index = min(known.checked, log.last.at)
        while index > log.base.at and known.tags.get(index) != log.tag(index):
            index -= 1
        if known.base != log.base and log.base.at > known.checked:
            index = log.base.at
        me = state.me
        for position in range(max(index, log.base.at) + 1, log.last.at + 1):
            entry = log.get(position)
            tag = Tag(entry.view, position)
            self._same_entry(host, tag, log.tag(position - 1), entry)
            known.tags[position] = tag
            self.held.setdefault(tag, set()).add(me)
        known.checked = log.last.at
        known.base = log.base
        for position in range(max(known.commit, log.base.at) + 1, state.commit + 1):
            tag = log.tag(position)
            if self.committed.get(position, tag) != tag:
                self.fail("I4", host, f"committed {tag}, others {self.committed[position]}")

    def _same_entry(self, host: Host, tag: Tag, before: Tag, entry: Entry) -> None:
        content = (before, entry.payload, entry.stamp_ns)
        if entry.kind == RECONFIG:
            self.reconfigs[tag] = entry.payload
        known = self.entries.setdefault(tag, content)
        if known != content:
            self.fail("I4", host, f"entry {tag} is {content} and {known}")

    def committed_is_held(self, host: Host, known: Known) -> None:
        """I10, I13, I16: what becomes committed is held by k members of an active view."""
        state = host.state
        views = known.was_active
        known.was_active = views[-1:]
        for index in range(max(known.commit, self.top) + 1, state.commit + 1):
            tag = state.log.tag(index)
            holders = self.held.get(tag, set())
            if not any(present(holders, view.members) >= view.k for view in views):
                self.fail("I13", host, f"commits {tag}, held by {holders}, active {views}")
            self.committed[index] = tag
        if state.applied > state.commit:
            self.fail("I16", host, f"applied {state.applied}, committed {state.commit}")
        self.top = max(self.top, state.commit)
        known.commit = state.commit

    def one_master_can_commit(self, host: Host, _known: Known) -> None:
        """I11: of two masters, the one with the lower view can no longer gather acknowledgements."""
        if not host.state.leading:
            return
        leaders = [other for other in self.world.hosts if other.running and other.state.leading]
        if len(leaders) < 2:
            return
        leaders.sort(key=lambda other: other.state.promised)
        for leader in leaders[:-1]:
            view = leader.state.accepted
            assert view is not None
            able = sum(
                other.running and other.state.me in view.members and other.state.promised == view.number
                for other in self.world.hosts
            )
            if able >= view.k:
                self.fail("I11", host, f"{leader} can still commit in {view.number}")

    def memory_is_bounded(self, host: Host, _known: Known) -> None:
        """I18: nothing is trimmed that a member has not applied, and the log stays short."""
        state = host.state
        log = state.log
        settings = state.settings
        if log.base.at > state.applied:
            self.fail("I18", host, f"trimmed {log.base.at}, applied {state.applied}")
        if len(log) > settings.max_log + settings.window + 64:
            self.fail("I18", host, f"{len(log)} entries in memory")
        view = state.accepted
        if state.leading and view is not None:
            for other in self.world.hosts:
                if (
                    other.running
                    and other.state.me in view.members
                    and other.state.accepted is not None
                    and other.state.accepted.number == view.number
                    and other.state.applied < log.base.at
                ):
                    self.fail("I18", host, f"trimmed {log.base.at}, {other} applied {other.state.applied}")

    # What the application sees

    def one_sequence(self, host: Host, event: Deliver) -> None:
        """I6, I8, I9: the same chain everywhere, of submitted payloads, each once."""
        self.counts["delivered"] += 1
        index = event.index
        if event.payload not in self.submitted:
            self.fail("I9", host, f"delivers {event.payload!r} at {index}, never submitted")
        if self.delivered_once.setdefault(event.payload, index) != index:
            self.fail("I7", host, f"delivers {event.payload!r} at {index} again")
        if index > host.state.commit:
            self.fail("I16", host, f"delivers {index}, committed {host.state.commit}")
        if index > self.last_delivered:
            before = self.chains[self.last_delivered]
            self.chains[index] = link(before, index, event.stamp_ns, event.payload)
            self.last_delivered = index
        if self.chains.get(index) != host.app.chain:
            self.fail("I8", host, f"its sequence differs at {index}")

    def snapshot_is_true(self, host: Host, event: InstallSnapshot) -> None:
        """I15: the state a joiner gets is the state of the sequence."""
        self.counts["snapshots"] += 1
        app = host.app
        if app.index > event.index or self.chains.get(app.index) != app.chain:
            self.fail("I15", host, f"installs a snapshot of {event.index} that ends at {app.index}")

    def view_events_agree(self, host: Host, known: Known, event: ViewEvent) -> None:
        """I2, I5, I12, I14: views chain, keep what was delivered, and are announced alike."""
        number = event.view
        if number <= known.announced:
            self.fail("I14", host, f"view {number} after {known.announced}")
        known.announced = number
        said = (event.index, event.master, event.members, event.first_time)
        if number in self.active:
            if self.active[number] != said:
                self.fail("I14", host, f"view {number} is {said} and {self.active[number]}")
            return
        self.active[number] = said
        self.counts["views"] += 1
        self._new_active_view(host, self.views[number])

    def view_event_in_place(self, host: Host, event: ViewEvent) -> None:
        """I14: it comes after all entries up to its index and before all others."""
        delivered = [index for index in self.chains if index <= event.index]
        if host.app.index != max(delivered):
            self.fail("I14", host, f"view {event.view} of {event.index} after entry {host.app.index}")

    def _reconfigured(self, before: View, view: View) -> tuple[Voter, ...] | None:
        """What the one RECONFIG appended in the view before makes of its configuration."""
        for index in range(before.start + 1, view.start + 1):
            payload = self.reconfigs.get(Tag(before.number, index))
            if payload is not None:
                return reconfigured(before.config, decode_reconfig(payload))
        return None

    def _new_active_view(self, host: Host, view: View) -> None:
        before = self.latest
        have = self.accepted[view.number]
        log = host.state.log
        for index in range(log.base.at + 1, min(view.start, self.top) + 1):
            if self.committed.get(index, log.tag(index)) != log.tag(index):
                self.fail("I5", host, f"view {view} lost {self.committed[index]}")
        if before is not None and before.number > view.number:
            # Its proposer learns late that it succeeded, when others have gone on from there.
            if view.start > before.start:
                self.fail("I2", host, f"view {view} active after {before}")
            return
        if not set(view.members) <= have:
            self.fail("I2", host, f"members of {view} have not accepted: {have}")
        if present(have, view.config) < view.quorum:
            self.fail("I2", host, f"too few voters of {view} know it: {have}")
        if before is None or view.boot:
            shape = self.world.shape
            if len(have) < max(shape.replicas - shape.expected + 1, view.quorum):
                self.fail("I12", host, f"first view {view} known to {have} only")
            if self.top or view.start:
                self.fail("I12", host, f"first view {view} after {self.top} commits")
        else:
            if present(have, before.config) <= len(before.config) - before.quorum:
                self.fail("I2", host, f"too few voters of {before} know {view}: {have}")
            if view.config != before.config and view.config != self._reconfigured(before, view):
                self.fail("I2", host, f"configuration jumps from {before.config} to {view.config}")
        if view.start < self.top:
            self.fail("I5", host, f"view {view} starts below the committed {self.top}")
        self.latest = view
