"""The log of a replica and how far it has come: committed, applied, and held by all members.

Source: the channel protocol, section 2. Nothing at or below the commit index ever changes.
"""

from collections.abc import Callable, Sequence

from ..model.events import Deliver, Stable
from ..model.log import Appended, Committed, Log, Reset, Truncated
from ..model.messages import PAYLOAD, Entry
from ..model.submitters import Rows, Submitters
from ..model.view import Tag
from .durable_output import DurableOutput

__all__ = ["ReplicatedLog"]


class ReplicatedLog:
    """Changes the log, commits entries and emits them to the application, in order and once.

    What changes is recorded, so that a durable log has it.
    """

    def __init__(
        self, log: Log, output: DurableOutput, on_change: Callable[[], None], *, emits_stable: bool
    ) -> None:
        """Continue where the log was when its process ended.

        on_change: called when a change of the configuration is committed. emits_stable: the application gets
        an event when all members hold more than before (mode MAJORITY).
        """
        recovered = log.recovered()
        self.commit = recovered.commit
        """The index of the last entry known to be committed."""
        self.applied = recovered.applied
        """The index of the last entry emitted to the application."""
        self.submitters = Submitters(recovered.submitters)
        """The last number of every submitter, after `applied`."""
        self.stable = 0
        """All members of the view held everything up to this index when it became known."""
        self.unanimous = False
        """In the present view an entry is committed once all members hold it, so that it is stable, too."""
        self._log = log
        self._output = output
        self._on_change = on_change
        self._emits_stable = emits_stable

    # Changes of the log

    def splice(self, entries: Sequence[Entry], end: int | None) -> str:
        """Make the log agree with `entries`, then cut it at `end`; return why not, "" when done.

        Nothing is changed at or below the commit index, and nothing at all when there is a reason.
        """
        log = self._log
        last = log.last.at
        for position, entry in enumerate(entries):
            if entry.index != entries[0].index + position:
                return f"entries out of order at {entry.index}"
        fresh: Sequence[Entry] = ()
        for position, entry in enumerate(entries):
            index = entry.index
            if index > last or (index > log.base.at and log.tag(index).view != entry.view):
                if index > last + 1:
                    return f"entries {last + 1} to {index - 1} are missing"
                if index <= self.commit:
                    return f"entry {index} is committed and differs"
                fresh = entries[position:]
                break
        after = fresh[-1].index if fresh else last
        if end is not None and (end < self.commit or after < end):
            return f"the log would end at {min(after, end)}, not at {max(self.commit, end)}"
        if fresh:
            self.cut(fresh[0].index - 1)
            for entry in fresh:
                log.append(entry)
            self._output.record(Appended(tuple(fresh)))
        if end is not None:
            self.cut(end)
        return ""

    def cut(self, index: int) -> None:
        """Remove the entries above `index`, which is not below the commit index."""
        log = self._log
        if index < log.last.at:
            self._output.note(f"entries {index + 1} to {log.last.at} are dropped")
            log.truncate(index)
            self._output.record(Truncated(index))

    def reset(self, base: Tag, submitters: Rows) -> None:
        """Begin anew after `base`, whose state came as a snapshot with this table of submitters."""
        self._log.reset(base)
        self.submitters = Submitters(submitters)
        self._output.record(Reset(base, submitters))
        self.commit = self.applied = base.at

    # Progress

    def commit_to(self, index: int) -> None:
        """Commit everything up to `index`, and emit it. Nothing happens if it is committed already."""
        if index <= self.commit:
            return
        self.commit = index
        self.deliver()
        if self._log.durable:
            self._output.record(Committed(index, self.submitters.rows))
        if self.unanimous:
            self.stable_to(index)

    def stable_to(self, index: int) -> None:
        """Note that all members of the view hold everything up to `index`, which is committed."""
        if index > self.stable:
            self.stable = index
            if self._emits_stable:
                self._output.emit(Stable(index))

    def deliver(self) -> None:
        """Emit the entries that are committed and were not emitted."""
        log = self._log
        events = self._output.batch.events
        for index in range(self.applied + 1, self.commit + 1):
            entry = log.get(index)
            if entry.kind == PAYLOAD:
                source = entry.source
                events.append(Deliver(index, entry.stamp_ns, entry.payload, source))
                if source is not None:
                    self.submitters.add(source)
            else:
                self._on_change()
        self.applied = self.commit

    def submitters_at(self, index: int) -> Rows:
        """Return the table of submitters after the entry `index`, from the base of the log to `applied`."""
        log = self._log
        return self.submitters.before(log.get(later).source for later in range(index + 1, self.applied + 1))
