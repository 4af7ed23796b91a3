"""Repair: what connected daemons have more of is asked for, the directory first. Pure.

A daemon pushes what it appends itself. Everything else is fetched: the one that lacks records asks the daemon
that appended them, if it is connected, else the connected one with the lowest identifier that has them.
Rules 1 to 4 of the design page.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

import attrs

from .messages import AskSnap, Msgs, State, Want
from .model import DIRECTORY, Origin, Position, Stream, Uid
from .state import DaemonState

__all__ = ["Link", "Repair"]


@attrs.define
class _Wanted:
    asked_at: float
    """When the records were asked for."""


@attrs.define
class Link:
    """A connection to another daemon."""

    ctx: dict[Origin, int] = attrs.field(factory=dict[Origin, int])
    heard: bool = False
    """Whether its first State has arrived."""
    wants: dict[Stream, _Wanted] = attrs.field(factory=dict[Stream, _Wanted])
    """What it was asked for and has not sent."""
    snap_asked_at: float | None = None
    pushed: deque[tuple[Stream, int, int]] = attrs.field(factory=deque[tuple[Stream, int, int]])
    """(stream, number, bytes) of what was pushed, and is not known to be on its disk."""
    pushed_bytes: int = 0
    pause_until: float = 0.0
    """Nothing is asked for until then, to leave clients their share."""


class Repair:
    """The connections of one daemon, and what it fetches over them."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self.links: dict[int, Link] = {}
        self._lacking_directory: dict[Stream, None] = {}
        self._lacking: dict[Stream, None] = {}
        self._unknown: defaultdict[Uid, set[Stream]] = defaultdict(set)
        """Streams of topics that the directory does not have yet."""
        self.blocked: dict[Stream, Position] = {}
        """Streams whose next record is marked to come after a position that is not here."""
        self.busy_until = 0.0
        """Clients are being served until then: fetching leaves them their share."""

    @property
    def lacking(self) -> int:
        """The number of streams of which another connected daemon has more."""
        return len(self._lacking) + len(self._lacking_directory)

    # Connections

    def connected(self, daemon: int) -> None:
        """Begin with a new connection."""
        self.links[daemon] = Link()

    def disconnected(self, daemon: int) -> None:
        """Forget a connection: what was asked for is asked for elsewhere."""
        self.links.pop(daemon, None)

    def heard(self, daemon: int, state: State) -> None:
        """Learn what a connected daemon has, beside its row."""
        link = self.links[daemon]
        link.heard = link.heard or state.whole
        for origin, number in state.ctx:
            if number > link.ctx.get(origin, 0):
                link.ctx[origin] = number

    def has(self, daemon: int, streams: Iterable[Stream]) -> None:
        """Learn that a daemon has more of these streams than was known."""
        link = self.links.get(daemon)
        if link is None:
            return
        have = self._state.rows.known[daemon].have
        while link.pushed and have.get(link.pushed[0][0], 0) >= link.pushed[0][1]:
            link.pushed_bytes -= link.pushed.popleft()[2]
        for stream in streams:
            self.consider(stream)

    def consider_all(self, daemon: int) -> None:
        """Look at all streams of a daemon that has just connected."""
        row = self._state.rows.known.get(daemon)
        for stream in () if row is None else list(row.have):
            self.consider(stream)

    def consider(self, stream: Stream) -> None:
        """Ask for a stream, as soon as it is its turn, if a connected daemon has more of it."""
        state = self._state
        if state.retired(stream):
            return
        if stream.topic == DIRECTORY:
            self._lacking_directory[stream] = None
        elif stream.topic in state.directory.topics:
            self._lacking[stream] = None
        elif not state.directory.removed_topic(stream.topic):
            self._unknown[stream.topic].add(stream)

    def topic_known(self, uid: Uid) -> None:
        """Learn that a topic is in the directory now."""
        for stream in self._unknown.pop(uid, ()):
            self.consider(stream)

    def topic_lost(self, uid: Uid) -> None:
        """Learn that a topic is not in the directory any more."""
        self._unknown.pop(uid, None)

    # Pushing

    def push(self, message: Msgs, size: int) -> None:
        """Send new own records to all peers that keep up."""
        to: list[int] = []
        for daemon, link in self.links.items():
            if link.heard and link.pushed_bytes < self._state.limits.push_bytes:
                link.pushed.append((message.stream, message.last, size))
                link.pushed_bytes += size
                to.append(daemon)
        self._state.send(to, message)

    # Fetching

    def arrived(self, daemon: int, message: Msgs) -> None:
        """Learn that records have come from a daemon, in answer to a Want or pushed."""
        link = self.links.get(daemon)
        if link is not None and message.answer:
            wanted = link.wants.pop(message.stream, None)
            now = self._state.now
            if wanted is not None and now < self.busy_until:
                share = self._state.limits.repair_share
                link.pause_until = now + (now - wanted.asked_at) * (1 - share) / share
        self.consider(message.stream)

    def snapped(self, daemon: int) -> None:
        """Learn that a Snap has come from a daemon: its answers to Wants do not."""
        link = self.links.get(daemon)
        if link is not None:
            link.wants.clear()
            link.snap_asked_at = None

    def ask(self) -> None:
        """Ask for what is lacking."""
        state, now = self._state, self._state.now
        for link in self.links.values():
            for stream in [s for s, w in link.wants.items() if now - w.asked_at >= state.limits.retry_s]:
                del link.wants[stream]
            if link.snap_asked_at is not None and now - link.snap_asked_at >= state.limits.retry_s:
                link.snap_asked_at = None
        self._ask_snaps()
        self._ask_streams(self._lacking_directory)
        if not self._lacking_directory:
            self._ask_streams(self._lacking)

    def _ask_streams(self, lacking: dict[Stream, None]) -> None:
        if not lacking:
            return
        state, now = self._state, self._state.now
        busy = now < self.busy_until
        most = 1 if busy else state.limits.wants
        if all(len(link.wants) >= most for link in self.links.values()):
            return
        under_way = {stream for link in self.links.values() for stream in link.wants}
        for stream in list(lacking):
            if stream in under_way or self._is_blocked(stream):
                continue
            have = state.streams.have(stream)
            donors = self._donors(stream, have)
            if state.retired(stream) or not donors or not state.known_topic(stream):
                del lacking[stream]
                continue
            donor = stream.daemon if stream.daemon in donors else min(donors)
            link = self.links[donor]
            if len(link.wants) >= most or (busy and now < link.pause_until):
                continue
            # Round robin: a stream that was asked for goes to the end.
            del lacking[stream]
            lacking[stream] = None
            link.wants[stream] = _Wanted(now)
            state.ask(donor, Want(stream, have + 1, state.limits.chunk_bytes))

    def _is_blocked(self, stream: Stream) -> bool:
        after = self.blocked.get(stream)
        if after is None or not self._state.passed(after.stream, after.number):
            return after is not None
        del self.blocked[stream]
        return False

    def _donors(self, stream: Stream, have: int) -> list[int]:
        known = self._state.rows.known
        return [
            daemon
            for daemon, link in self.links.items()
            if link.heard and daemon in known and known[daemon].have.get(stream, 0) > have
        ]

    def ask_snap(self, daemon: int) -> None:
        """Ask a daemon for its state, unless it was asked lately."""
        link, now = self.links[daemon], self._state.now
        if link.snap_asked_at is None:
            link.snap_asked_at = now
            self._state.ask(daemon, AskSnap())

    def _ask_snaps(self) -> None:
        """Ask for a Snap where a peer's directory includes what neither it nor this daemon can send."""
        state = self._state
        for daemon in sorted(self.links):
            link = self.links[daemon]
            if not link.heard:
                continue
            row = state.rows.known.get(daemon)
            have = {} if row is None else row.have
            for origin, number in link.ctx.items():
                stream = Stream(DIRECTORY, *origin)
                if (
                    not state.directory.covers((origin.daemon, origin.life, number))
                    and have.get(stream, 0) < number
                ):
                    self.ask_snap(daemon)
                    break

    def deadlines(self) -> Iterator[float]:
        """Yield the times at which something is to be asked for again."""
        limits = self._state.limits
        for link in self.links.values():
            for wanted in link.wants.values():
                yield wanted.asked_at + limits.retry_s
            if link.snap_asked_at is not None:
                yield link.snap_asked_at + limits.retry_s
            if link.pause_until > self._state.now and self.lacking:
                yield link.pause_until
