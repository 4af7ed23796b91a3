"""I4, I5, I6, I17, I18: the entries that logs hold, keep and may trim."""

from ...hachannel import Deliver, Event, Stopped, View, ViewEvent, ViewNumber, Voter
from ...hachannel.model.messages import Ack, Chunk, Heartbeat
from ...hachannel.model.settings import TRIM_STEP
from ...hachannel.model.view import Tag
from ...hachannel.transfer.flow_control import ENTRY_BYTES, MIN_LAG
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("I4", "Equal tags, equal prefixes; and what is committed at an index is so forever, everywhere.")
class LogMatching(Checker):
    """Entries with equal tags have equal content and equal predecessors; a committed entry never changes.

    The log matching property of Raft (Ongaro and Ousterhout, 2014), checked by induction.
    """

    skips_quiet_steps = True

    def started(self, host: Host, process: Process) -> None:
        """The commit index of a disk covers only entries that were committed."""
        log = host.state.log
        for index in range(log.base.at + 1, process.commit + 1):
            if self.past.committed.get(index) != log.tag(index):
                self.fail(
                    host, f"comes back with {log.tag(index)}, committed {self.past.committed.get(index)}"
                )

    def stepped(self, step: Step) -> None:
        """New entries and commits agree with those of the other replicas."""
        past, host, state = self.past, step.host, step.host.state
        for tag, before, entry in step.added:
            content = (before, entry.payload, entry.stamp_ns)
            known = past.entries.setdefault(tag, content)
            if known != content:
                self.fail(host, f"entry {tag} is {content} and {known}")
        log = state.log
        for index in range(max(step.process.commit, log.base.at) + 1, state.replicated.commit + 1):
            tag = log.tag(index)
            if past.committed.get(index, tag) != tag:
                self.fail(host, f"committed {tag}, others {past.committed[index]}")


@checker("I5", "What is acknowledged is in the log of every later active view.")
class LeaderCompleteness(Checker):
    """The log of every later active view contains all committed entries (leader completeness in Raft)."""

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:  # noqa: ARG002
        """Compare the log of a new view with the committed entries."""
        past, host = self.past, step.host
        log = host.state.log
        for index in range(log.base.at + 1, min(view.start, past.top) + 1):
            if past.committed.get(index, log.tag(index)) != log.tag(index):
                self.fail(host, f"view {view} lost {past.committed[index]}")
        late = past.latest is not None and past.latest.number > view.number
        if view.start < past.top and not late:
            self.fail(host, f"view {view} starts below the committed {past.top}")


@checker("I5", "No replica stops because the others are without what is committed.")
class NoFailedStop(Checker):
    """No replica stops with the reason that the others have lost committed entries.

    They have not: disks of a simulation keep what they confirmed.
    """

    def delivered(self, host: Host, event: Event) -> None:
        """A stop is not a failure."""
        if isinstance(event, Stopped) and event.failed:
            self.fail(host, event.reason)


@checker("I6", "What was delivered anywhere, even just before a crash, is delivered by all later.")
class DeliveryDurability(Checker):
    """An entry delivered anywhere, even just before a crash, is delivered by all later (uniform agreement).

    Deliveries are compared with deliveries, not with the logs of that time.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._delivered: dict[int, bytes] = {}

    def delivered(self, host: Host, event: Event) -> None:
        """All replicas deliver the same payload at an index."""
        if isinstance(event, Deliver):
            known = self._delivered.setdefault(event.index, event.payload)
            if known != event.payload:
                self.fail(host, f"delivers {event.payload!r} at {event.index}, others delivered {known!r}")

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:  # noqa: ARG002
        """The log of a new view contains every delivered entry."""
        host, log = step.host, step.host.state.log
        past = self.past
        if past.latest is not None and past.latest.number > view.number:
            return
        if view.start < past.last_delivered:
            self.fail(host, f"view {view} starts below {past.last_delivered}, which was delivered")
        for index in range(log.base.at + 1, min(view.start, past.last_delivered) + 1):
            payload = self._delivered.get(index)
            if payload is not None and log.get(index).payload != payload:
                self.fail(host, f"view {view} has another entry {index} than the {payload!r} delivered")


@checker("I17", "Nothing at or below the commit index is truncated.")
class CommittedPrefix(Checker):
    """No committed entry is truncated. Entries of a log may change while its last index stays the same."""

    def stepped(self, step: Step) -> None:
        """The commit index does not fall, and the log reaches it."""
        state, process = step.host.state, step.process
        if state.replicated.commit < process.commit or state.log.last.at < state.replicated.commit:
            text = f"commit {process.commit} -> {state.replicated.commit}, log ends at {state.log.last.at}"
            self.fail(step.host, text)
        index = process.commit
        if index > state.log.base.at and index in self.past.committed:
            view = state.log.get(index).view
            if view != self.past.committed[index].view:
                self.fail(step.host, f"the committed entry {index} is {Tag(view, index)} now")


@checker("I18", "The log in memory stays short, and nothing is trimmed that was not applied.")
class LogLength(Checker):
    """The log in memory has a bounded number of entries, all applied before they are trimmed."""

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._given: dict[Voter, tuple[int, dict[int, int]]] = {}
        """The token of the transfer of each master, and the bytes of each piece that it has sent."""

    def stepped(self, step: Step) -> None:
        """Compare the length of one log with its bound."""
        host, state = step.host, step.host.state
        for _, said in step.messages:
            if isinstance(said, Chunk):
                token, pieces = self._given.get(state.me, (said.token, {}))
                pieces = pieces if token == said.token else {}
                pieces[said.number] = len(said.data)
                self._given[state.me] = said.token, pieces
            elif isinstance(said, Heartbeat) and said.master and host.channel.phases.giving == "nobody":
                # After the transfer it has trimmed its log.
                self._given.pop(state.me, None)
        log, settings = state.log, state.settings
        if log.base.at > state.replicated.applied:
            self.fail(host, f"trimmed {log.base.at}, applied {state.replicated.applied}")
        # A change of the configuration needs no room in the window. A new member may lack twice what a
        # learner may, and no log is trimmed until it has that.
        bound = settings.max_log + settings.window + TRIM_STEP + 1 + 2 * max(settings.window, MIN_LAG)
        if host.disk is not None:
            # A restart finds on the disk what the log had when the state was saved, and what came since.
            bound += self.past.world.shape.save_entries + settings.window
        if len(log) > bound:
            # During a transfer it may be longer, by the bytes of the state that were sent.
            _, pieces = self._given.get(state.me, (0, {}))
            bound += sum(pieces.values()) // ENTRY_BYTES
        if len(log) > bound:
            self.fail(host, f"{len(log)} entries in memory, the bound is {bound}")


@checker("I18", "Of what a master says all have it keeps half of max_log_bytes at most.")
class LogBytes(Checker):
    """A master keeps at most half of `max_log_bytes` of what all members have.

    A few large entries count like many small ones. While a replica joins, more is kept for it. Heartbeats of
    quiet steps count, too, so they are not skipped.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._told: dict[Voter, int] = {}
        """The trim index that each master sent last."""
        self._lent: set[Voter] = set()
        """The masters that have sent a state since they sent that index."""

    def stepped(self, step: Step) -> None:
        """A master that sends a higher trim index has trimmed its log.

        To a new connection it repeats the index of the last trimming, which may have kept entries for a
        learner.
        """
        host, state = step.host, step.host.state
        if host.channel.phases.giving != "nobody":
            self._lent.add(state.me)
        trims = [said.trim for _, said in step.messages if isinstance(said, Heartbeat) and said.master]
        if not trims:
            return
        before, trim = self._told.get(state.me, 0), trims[-1]
        self._told[state.me] = trim
        log, bound = state.log, state.settings.max_log_bytes // 2
        lent = state.me in self._lent
        if host.channel.phases.giving == "nobody":
            self._lent.discard(state.me)
        if lent or trim <= before or log.size_bytes <= bound:
            return
        kept = sum(len(log.get(index).payload) for index in range(log.base.at + 1, trim + 1))
        if kept > bound:
            self.fail(host, f"keeps {kept} bytes up to {trim}, which all have; the bound is {bound}")


@checker("I18", "Nothing is trimmed that a member has not applied.")
class AppliedBeforeTrim(Checker):
    """A master trims only entries that all members have applied."""

    def stepped(self, step: Step) -> None:
        """Compare the base of the master's log with all members."""
        host, state = step.host, step.host.state
        view, log = state.accepted, state.log
        if not log.base.at or not state.leading or view is None:
            return
        for other in self.past.world.hosts:
            if (
                other.running
                and other.state.me in view.members
                and other.state.accepted is not None
                and other.state.accepted.number == view.number
                and self._has(other, view) < log.base.at
            ):
                self.fail(host, f"trimmed {log.base.at}, {other} applied {other.state.replicated.applied}")

    @staticmethod
    def _has(host: Host, view: View) -> int:
        """Return the index up to which a member needs nothing of its master.

        A member has the log of the view that it accepted, whatever it has applied; after a restart it applies
        its log again.
        """
        own = host.state.log.last.at
        return max(host.state.replicated.applied, min(view.start, own)) if host.disk is None else own


@checker("I18", "A master keeps what a member has not acknowledged: it may have to send it again.")
class AcknowledgedBeforeTrim(Checker):
    """A master keeps what a member has not acknowledged, since it may have to send it again.

    A member with a slow disk applies entries before it acknowledges them.
    """

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._acked: dict[tuple[ViewNumber, Voter], int] = {}
        """The highest index that each member has acknowledged in a view."""

    def stepped(self, step: Step) -> None:
        """Note acknowledgements, and compare them with the base of the master's log."""
        host, state = step.host, step.host.state
        for message in step.binding:
            if isinstance(message, Ack):
                key = message.view, state.me
                self._acked[key] = max(message.index, self._acked.get(key, 0))
        view, base = state.accepted, state.log.base.at
        if not state.leading or view is None or base <= view.start:
            return
        for voter in view.members[1:]:
            acked = self._acked.get((view.number, voter), 0)
            if acked < base:
                self.fail(host, f"trimmed {base}, of which {voter} has acknowledged up to {acked}")
