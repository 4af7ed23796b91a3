"""I7: FIFO order and exactly-once delivery of what members forward."""

from collections.abc import Sequence

from ...hachannel import Deliver, Event, InstallPart, Source
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Step

Process = tuple[int, int, int]
"""A process that forwards: replica, incarnation, boot."""


@checker("I7", "Of each process the numbers 1, 2, 3... are delivered in order, each at one index.")
class FifoOrder(Checker):
    """The payloads that a process forwards are delivered in the order of their numbers, without gaps.

    The first delivery at an index decides; others must agree with it.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._last: dict[Process, int] = {}
        self._seen: set[int] = set()

    def delivered(self, host: Host, event: Event) -> None:
        """The number is the next one of its process, and no later process of the replica has had one."""
        if not isinstance(event, Deliver):
            return
        source = event.source
        known = self.past.sources_by_index[event.index]
        if known != source:
            self.fail(host, f"{event.index} is of {source}, and of {known}")
        if event.index in self._seen:
            return
        self._seen.add(event.index)
        if source is None:
            return
        process = (source.replica, source.incarnation, source.boot)
        last = self._last.get(process, 0)
        if source.oseq != last + 1:
            self.fail(host, f"delivers {source} at {event.index} after number {last} of that process")
        if any(other[0] == process[0] and other > process for other in self._last):
            self.fail(host, f"delivers {source} at {event.index} after what a later process forwarded")
        self._last[process] = source.oseq


@checker("I7", "A number is delivered with what was forwarded under it.")
class SubmissionIntegrity(Checker):
    """A number is delivered with the payload that was forwarded under it."""

    def delivered(self, host: Host, event: Event) -> None:
        """Compare the payload with that of its submitter."""
        if isinstance(event, Deliver) and event.source is not None:
            forwarded = self.past.numbered.get(event.source)
            if forwarded != event.payload:
                self.fail(host, f"delivers {event.payload!r} as {event.source}, which was {forwarded!r}")


@checker("I7", "What a process forwarded is delivered, unless it has ended.")
class SubmissionDelivery(Checker):
    """Every payload that a living process forwarded is delivered: the process sends it again until then."""

    def ended(self, hosts: Sequence[Host]) -> None:
        """All accepted payloads of the living processes were delivered."""
        delivered = set(self.past.sources_by_index.values())
        for host in hosts:
            own = (*host.state.me, host.state.boot)
            lost = [source for source in self.past.numbered if source[:3] == own and source not in delivered]
            if lost:
                self.fail(host, f"{lost[0]} and {len(lost) - 1} more were never delivered")


@checker("I7", "The table of submitters is what the entries up to its index make of it.")
class SubmitterTable(Checker):
    """The table of submitters follows from the delivered entries.

    It is the client table of Viewstamped Replication. A row may be missing in a state that is older than the
    process of the row; no row may be ahead or behind.
    """

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._sources: dict[int, Source] = {}
        self._tables: list[dict[int, Source]] = [{}]
        """The true table after each index."""
        self._began: dict[int, int] = {}
        """The index of the first entry of the last process of each replica."""

    def delivered(self, host: Host, event: Event) -> None:
        """Note the source of an entry."""
        del host
        self._note(event)

    def stepped(self, step: Step) -> None:
        """Compare the table after the applied index; events of this step count already."""
        for event in step.output.events:
            self._note(event)
        state = step.host.state
        while len(self._tables) <= state.replicated.applied:
            index = len(self._tables)
            table = self._tables[-1]
            source = self._sources.get(index)
            if source is not None and source[:3] != table.get(source.replica, ())[:3]:
                self._began[source.replica] = index
            self._tables.append(table if source is None else {**table, source.replica: source})
        truth = self._tables[state.replicated.applied]
        rows = {row.replica: row for row in state.replicated.submitters.rows}
        if rows == truth or step.host.is_witness:
            return
        for replica in rows.keys() | truth.keys():
            mine, other = rows.get(replica), truth.get(replica)
            if mine != other and (mine is not None or self._began[replica] <= state.replicated.applied):
                self.fail(
                    step.host, f"after {state.replicated.applied} it has {mine} of {replica}, not {other}"
                )

    def _note(self, event: Event) -> None:
        if isinstance(event, Deliver) and event.source is not None:
            self._sources.setdefault(event.index, event.source)


@checker("I15", "A snapshot says truly how much of what its receiver forwarded is part of it.")
class SnapshotSubmissionCount(Checker):
    """A snapshot names the number of payloads of its receiver that are part of it."""

    def delivered(self, host: Host, event: Event) -> None:
        """The number is that of the deliveries up to the index of the snapshot."""
        if not isinstance(event, InstallPart) or event.index is None:
            return
        state = host.state
        own = [
            source.oseq
            for index, source in self.past.sources_by_index.items()
            if index <= event.index and source is not None and source[:3] == (*state.me, state.boot)
        ]
        if event.forwarded != max(own, default=0):
            self.fail(host, f"a snapshot of {event.index} has {event.forwarded} of its own, not {own[-1:]}")
