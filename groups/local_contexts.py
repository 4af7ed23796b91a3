"""A home with ``context="local"``: it files what its members are to get, and serves them from its disk.

Rules 12 to 14 of the design: the agent of a group holds items for a home until the home has filed them. A
home that begins again fetches what it has not filed, and goes on; one whose disk was lost says so, and its
members leave the group, instead of missing something in silence.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, Final, cast

import attrs
from sortedcontainers import SortedDict
from twisted.internet.defer import Deferred, DeferredLock
from twisted.python.failure import Failure

from ..agents.ids import AgentId
from ..agents.notification import Notification
from ..services.base import ServiceContext
from .agents.items import Appended, Begun, HomeState, Page, Removed
from .agents.protocol import HomeApplied, HomeLost, ReadStream, StreamRead
from .home_store import FiledGroup, FilingBatch, HomeStore

__all__ = ["LocalContexts"]

READ_BYTES: Final = 1024 * 1024
READ_TIMEOUT_S: Final = 10.0
AGAIN_S: Final = 0.2
APPLIED_ITEMS: Final = 256
APPLIED_S: Final = 1.0
"""The agents of groups are told what was filed after so many items, or after this time."""

Pages = list[tuple[int, Page]]


@attrs.define(eq=False)
class _Group:
    """A group with members at this home, connected or not."""

    id: AgentId
    positions: dict[AgentId, int]
    queued: int
    """Everything up to this item was given to the disk."""
    filed: int = 0
    """Everything up to this item is on the disk; 0: nothing, not even that there is this group."""
    ready: bool = True
    """Whether everything that the agent held has come; otherwise it is being fetched."""
    told: int = 0
    """The agent knows that everything up to this item is on the disk; 0: it does not know of any."""
    told_at: float = 0.0
    batch: FilingBatch | None = None
    recent: SortedDict[int, Page] = attrs.field(factory=SortedDict[int, Page])
    """Pages that are not on the disk yet."""
    early: Pages = attrs.field(factory=list[tuple[int, Page]])
    """Pages that came while earlier ones are being fetched."""
    waiting: list[Callable[[], None]] = attrs.field(factory=list[Callable[[], None]])

    def change(self) -> FilingBatch:
        """Return the changes that wait to be written."""
        if self.batch is None:
            self.batch = FilingBatch(self.id)
        return self.batch

    def add(self, first: int, page: Page) -> None:
        """Queue a page for the disk, unless it is known."""
        last = first + page.count - 1
        if last > self.queued:
            self.recent[first] = page
            batch = self.change()
            batch.pages.append((first, page))
            batch.upto = self.queued = last


class LocalContexts:
    """The contexts of the members of this home."""

    def __init__(self, ctx: ServiceContext, store: HomeStore) -> None:
        self._ctx = ctx
        self._store = store
        self._found: dict[int, FiledGroup] = store.groups()
        """What the disk had at the start, for groups that have not told the state of this home."""
        self._groups: dict[AgentId, _Group] = {}
        self._unknown: dict[AgentId, list[Callable[[], None]]] = {}
        """Calls for groups whose state is not known yet."""
        self._forget: list[FilingBatch] = []
        self._turns = DeferredLock()
        self._writing = False
        self._stopped = False
        self._problem = ""

    def stop(self) -> None:
        """Write nothing more. The file is closed once nothing uses it."""
        self._stopped = True
        self._turns.run(self._store.close)

    # What agents emit.

    def begun(self, group: AgentId, message: Begun) -> None:
        """Keep the context of a new member, if this is its home."""
        if message.home != self._ctx.replica:
            return
        known = self._groups.get(group)
        if known is None:
            if not message.first:
                # The group has members here that this home does not know yet: its state is on the way.
                return
            after = message.after
            self._forget.append(FilingBatch(group, forget=True))
            known = self._groups[group] = _Group(group, {}, after)
            known.change().upto = after
            self._released(self._unknown.pop(group, []))
        known.positions[message.member] = message.after
        known.change().positions[message.member] = message.after

    def appended(self, group: AgentId, message: Appended) -> None:
        """File a page, if the group has members here."""
        known = self._groups.get(group)
        if known is None:
            return
        if known.ready:
            known.add(message.first, message.page)
        else:
            known.early.append((message.first, message.page))

    def removed(self, group: AgentId, message: Removed) -> None:
        """Drop the context of a client that is no member any more."""
        known = self._groups.get(group)
        if known is None or known.positions.pop(message.member, None) is None:
            return
        known.change().gone.append(message.member)
        if not known.positions:
            self._drop(group)

    def state(self, group: AgentId, message: HomeState) -> None:
        """Begin with what the agent of a group says that this home has."""
        if message.home != self._ctx.replica or group in self._groups:
            return
        found = self._found.pop(group.stamp, None) or FiledGroup()
        if not message.members:
            self._forget.append(FilingBatch(group, forget=True))
        elif found.upto < message.applied and message.confirmed:
            self._ctx.log(f"group {group}: the disk of this replica lacks items; its members leave the group")
            self._ctx.send(group, HomeLost(self._ctx.replica, "the disk of its replica was lost"))
        else:
            if found.upto < message.applied:
                # The first member came before this home listened, or before it had filed anything.
                self._forget.append(FilingBatch(group, forget=True))
                found = FiledGroup()
            positions = {member: found.positions.get(member, joined) for member, joined in message.members}
            told = message.applied if message.confirmed else 0
            begin = max(found.upto, message.applied)
            known = _Group(group, positions, begin, found.upto, ready=False, told=told)
            self._groups[group] = known
            batch = known.change()
            batch.upto = begin
            batch.positions.update(positions)
            known.waiting = self._unknown.pop(group, [])
            self._fetch(known)
            return
        self._released(self._unknown.pop(group, []))

    def _drop(self, group: AgentId) -> None:
        known = self._groups.pop(group)
        self._forget.append(FilingBatch(group, forget=True))
        self._released(known.waiting)

    def _released(self, calls: list[Callable[[], None]]) -> None:
        for call in calls:
            call()

    # Fetching what was held.

    def _fetch(self, known: _Group) -> None:
        """Ask the agent for what this home has not filed."""
        if self._stopped or self._groups.get(known.id) is not known:
            return
        request = ReadStream(None, known.queued, 0)

        def read(found: Notification) -> None:
            self._fetched(known, cast("StreamRead", found))

        def failed(_: Failure) -> None:
            self._ctx.reactor.callLater(AGAIN_S, self._fetch, known)

        self._ctx.ask(known.id, request, READ_TIMEOUT_S, StreamRead).addCallbacks(read, failed)

    def _fetched(self, known: _Group, found: StreamRead) -> None:
        for first, page in found.pages:
            known.add(first, page)
        if found.more:
            self._fetch(known)
            return
        for first, page in known.early:
            known.add(first, page)
        known.early = []
        if found.last > known.queued:
            # The last items were for nobody, and were not kept.
            known.change().upto = known.queued = found.last
        known.ready = True
        waiting, known.waiting = known.waiting, []
        self._released(waiting)

    # Members.

    def when_ready(self, group: AgentId, call: Callable[[], None]) -> None:
        """Call back once it is known what this home has of a group."""
        known = self._groups.get(group)
        if known is None:
            self._unknown.setdefault(group, []).append(call)
        elif known.ready:
            call()
        else:
            known.waiting.append(call)

    def has(self, group: AgentId, member: AgentId) -> bool:
        """Return whether a client is a member whose context is here."""
        known = self._groups.get(group)
        return known is not None and member in known.positions

    def last(self, group: AgentId) -> int:
        """Return the last item that this home has."""
        return self._groups[group].queued

    def recent(self, group: AgentId, after: int) -> Pages:
        """Return the pages after an item that are not on the disk yet."""
        known = self._groups.get(group)
        return [] if known is None else [each for each in known.recent.items() if each[0] > after]

    def read(self, group: AgentId, after: int, below: int, then: Callable[[Pages, bool], None]) -> None:
        """Call back with pages after an item, from the disk, and whether there are more."""

        def done(found: tuple[Pages, bool]) -> None:
            if not self._stopped:
                then(*found)

        reading = self._in_turn(self._store.read, group, after, below, READ_BYTES)
        reading.addCallbacks(done, self._failed)

    def _in_turn(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":
        """Use the file in a thread, after those who have asked before.

        So what a read does not find on the disk is in `recent` when its result comes.
        """
        return self._turns.run(self._ctx.in_thread, function, *args)

    def acknowledged(self, group: AgentId, acks: list[tuple[AgentId, int]]) -> None:
        """Note what members have received."""
        known = self._groups.get(group)
        if known is not None:
            for member, upto in acks:
                if known.positions.get(member, upto) < upto:
                    known.positions[member] = known.change().positions[member] = upto

    # The disk.

    def tick(self) -> None:
        """Write what has come together, in a thread; tell agents what was filed."""
        now = self._ctx.reactor.seconds()
        for known in self._groups.values():
            new = known.filed - known.told
            if new >= APPLIED_ITEMS or (new > 0 and now - known.told_at >= APPLIED_S):
                known.told, known.told_at = known.filed, now
                self._ctx.send(known.id, HomeApplied(self._ctx.replica, known.filed))
        if self._writing or self._stopped:
            return
        batches, self._forget = self._forget, []
        written: list[tuple[_Group, FilingBatch]] = []
        for known in self._groups.values():
            if known.batch is not None:
                known.batch.drop_upto = min(min(known.positions.values()), known.queued)
                written.append((known, known.batch))
                known.batch = None
        if not (batches or written):
            return
        self._writing = True

        def done(_: object) -> None:
            self._written(written)

        writing = self._in_turn(self._store.write, [*batches, *(batch for _, batch in written)])
        writing.addCallbacks(done, self._failed)

    def _written(self, written: list[tuple[_Group, FilingBatch]]) -> None:
        self._writing = False
        for known, batch in written:
            known.filed = max(known.filed, batch.upto)
            recent = known.recent
            while recent and recent.peekitem(0)[0] <= known.filed:
                recent.popitem(0)

    def _failed(self, failure: Failure) -> None:
        """Stop filing: what was not filed is held by the agents, which give this home up in the end."""
        error = cast("BaseException", failure.value)  # pyright: ignore[reportUnknownMemberType]
        if not isinstance(error, sqlite3.Error | OSError):
            self._ctx.log(f"defect: {error!r}")
        if not self._problem:
            self._problem = str(error)
            self._ctx.log(
                f"the file of this home cannot be used ({error}); its members get nothing more until this "
                "replica is started again with a disk that works"
            )
