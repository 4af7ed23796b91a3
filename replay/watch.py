"""What the monitor knows of one server: a state machine over the rows of its replicas as they come.

The rows of the last `WINDOW` positions are kept as hashes, so that a replica is compared with what another
one has recorded before, also if it comes some seconds later.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs
import msgspec
import numpy as np

from .monitoring import FAULTS
from .reports import Span, spans

__all__ = ["MAX_AGENTS", "WINDOW", "Finding", "Rows", "ServerWatch"]

WINDOW: Final = 65_536
"""Positions of a server whose hashes are kept. A replica that is later than that is not compared."""
MAX_AGENTS: Final = 10_000
"""Agents of a server whose silence is watched."""

Numbers = np.ndarray[Any, np.dtype[Any]]


@attrs.frozen
class Finding:
    """Something that the monitor tells."""

    kind: str
    """``divergence``, ``hole``, ``late``, ``behind``, ``silent``, ``idle``, ``again`` or ``rate``."""
    text: str
    position: int = 0
    value: float = 0.0
    """For ``rate``: reactions a second."""

    @property
    def is_problem(self) -> bool:
        """Whether it is a fault of a server, and not only news."""
        return self.kind in FAULTS


@attrs.frozen
class Rows:
    """Some rows of one server, of any replicas, in any order."""

    replicas: Numbers
    incarnations: Numbers
    positions: Numbers
    hashes: Numbers
    """Of the columns that replicas must agree on."""
    errors: int = 0
    """Rows of reactions that raised."""
    agents: Collection[str] = ()
    """The agents that are watched and reacted."""


class Source(msgspec.Struct):
    """One incarnation of one replica."""

    replica: int
    incarnation: int
    last: int
    seen_ms: int
    diverged: bool = False
    told: bool = False
    """Whether it was told that it is behind."""

    def __str__(self) -> str:
        return f"replica {self.replica} (incarnation {self.incarnation})"


class Watched(msgspec.Struct):
    """An agent whose silence is watched."""

    seen_ms: int
    told: bool = False


class _State(msgspec.Struct):
    sources: dict[str, Source] = {}
    base: int = 0
    hashes: bytes = b""
    known: bytes = b""
    last: int = 0
    seen_ms: int = 0
    silent: bool = False
    agents: dict[str, Watched] = {}


class ServerWatch:
    """Compares what the replicas of one server record, and notices what does not come."""

    def __init__(self, server: str, idle_ms: int, state: bytes = b"") -> None:
        """`state` is what `packed` returned; empty for a server that is new."""
        self._server = server
        self._idle_ms = idle_ms
        self._state = msgspec.msgpack.decode(state, type=_State) if state else _State()
        self._hashes: Numbers = np.frombuffer(self._state.hashes, np.int64).copy()
        self._known: Numbers = np.frombuffer(self._state.known, np.bool_).copy()

    def packed(self) -> bytes:
        """Return all that is known, to go on later."""
        self._state.hashes = self._hashes.tobytes()
        self._state.known = self._known.tobytes()
        return msgspec.msgpack.encode(self._state)

    def see(self, rows: Rows, now_ms: int) -> list[Finding]:
        """Take in some rows, and return what is found."""
        found: list[Finding] = []
        before = self._state.last
        order = np.lexsort((rows.positions, rows.incarnations, rows.replicas))
        keys = np.stack((rows.replicas[order], rows.incarnations[order]))
        changes = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        for part in np.split(order, changes):
            if len(part):
                replica, incarnation = int(rows.replicas[part[0]]), int(rows.incarnations[part[0]])
                source = self._source(replica, incarnation, int(rows.positions[part[0]]), now_ms)
                found += self._one(source, rows.positions[part], rows.hashes[part], now_ms)
        fresh = max(0, self._state.last - before) if before else 0
        elapsed = (now_ms - self._state.seen_ms) / 1000
        if fresh and elapsed > 0:
            rate = fresh / elapsed
            raised = f", {rows.errors:,} rows of reactions that raised" if rows.errors else ""
            text = (
                f"{self._server}: {rate:,.0f} reactions a second, up to position {self._state.last:,}{raised}"
            )
            found.append(Finding("rate", text, self._state.last, rate))
        self._state.seen_ms = now_ms
        if self._state.silent:
            self._state.silent = False
            found.append(Finding("again", f"{self._server} reacts again", self._state.last))
        self._note_agents(rows.agents, now_ms)
        return found

    def _source(self, replica: int, incarnation: int, first: int, now_ms: int) -> Source:
        """Return what is known of a source; one that is new begins at its first row."""
        new = Source(replica, incarnation, first - 1, now_ms)
        return self._state.sources.setdefault(str(new), new)

    def _one(self, source: Source, positions: Numbers, hashes: Numbers, now_ms: int) -> list[Finding]:
        """Take in the rows of one source, sorted by position."""
        last = int(positions[-1])
        found = [*self._holes(source, positions), *self._compare(source, positions, hashes)]
        source.last, source.seen_ms, source.told = max(source.last, last), now_ms, False
        self._state.last = max(self._state.last, last)
        return found

    def _holes(self, source: Source, positions: Numbers) -> list[Finding]:
        before = np.concatenate(([source.last], positions[:-1]))
        jumps = np.flatnonzero(positions > before + 1)
        holes = [Span(int(before[at]) + 1, int(positions[at]) - 1) for at in jumps]
        if not holes:
            return []
        text = f"{self._server}: the trace of {source} has no positions {spans(holes)}"
        return [Finding("hole", text, holes[0].first)]

    def _compare(self, source: Source, positions: Numbers, hashes: Numbers) -> list[Finding]:
        """Compare with what other sources had, and keep what is new."""
        found: list[Finding] = []
        if not len(self._hashes):
            self._state.base = int(positions[0])
        self._extend(int(positions[-1]))
        places = positions - self._state.base
        late = int((places < 0).sum())
        if late:
            text = (
                f"{self._server}: {late:,} rows of {source} came too late to be compared with other replicas"
            )
            found.append(Finding("late", text, int(positions[0])))
        places, own = places[places >= 0], hashes[places >= 0]
        differ = places[self._known[places] & (self._hashes[places] != own)]
        if len(differ) and not source.diverged:
            source.diverged = True
            at = int(differ[0]) + self._state.base
            text = (
                f"{self._server}: {source} has recorded another reaction than others at position {at}, and "
                f"at {len(differ) - 1:,} of the next {len(places):,}: ask `quorate replay verify`"
            )
            found.append(Finding("divergence", text, at))
        new = ~self._known[places]
        self._hashes[places[new]] = own[new]
        self._known[places] = True
        return found

    def _extend(self, last: int) -> None:
        """Let the window reach to a position."""
        more = last + 1 - (self._state.base + len(self._hashes))
        if more <= 0:
            return
        if more >= WINDOW:
            self._state.base = last + 1 - WINDOW
            self._hashes = np.zeros(WINDOW, np.int64)
            self._known = np.zeros(WINDOW, np.bool_)
            return
        self._hashes = np.concatenate((self._hashes, np.zeros(more, np.int64)))
        self._known = np.concatenate((self._known, np.zeros(more, np.bool_)))
        over = len(self._hashes) - WINDOW
        if over > 0:
            self._state.base += over
            self._hashes, self._known = self._hashes[over:], self._known[over:]

    def _note_agents(self, agents: Collection[str], now_ms: int) -> None:
        for agent in agents:
            self._state.agents.pop(agent, None)
            self._state.agents[agent] = Watched(now_ms)
        while len(self._state.agents) > MAX_AGENTS:
            del self._state.agents[next(iter(self._state.agents))]

    def tick(self, now_ms: int) -> list[Finding]:
        """Return what has not come for as long as was given: of the server, of a replica, or of an agent."""
        found: list[Finding] = []
        seconds = self._idle_ms / 1000
        if now_ms - self._state.seen_ms >= self._idle_ms:
            if not self._state.silent:
                self._state.silent = True
                text = f"{self._server} has not reacted for {seconds:g} s"
                found.append(Finding("silent", text, self._state.last))
            return found
        latest: dict[int, Source] = {}
        for source in sorted(self._state.sources.values(), key=lambda one: one.incarnation):
            latest[source.replica] = source
        for source in latest.values():
            quiet = now_ms - source.seen_ms >= self._idle_ms
            if quiet and source.last < self._state.last and not source.told:
                source.told = True
                missing = self._state.last - source.last
                quiet_for = f"has recorded nothing for {seconds:g} s"
                text = f"{self._server}: {source} {quiet_for}, and lacks {missing:,} positions"
                found.append(Finding("behind", text, source.last))
        self._forget(now_ms, latest)
        for agent, watched in self._state.agents.items():
            if now_ms - watched.seen_ms >= self._idle_ms and not watched.told:
                watched.told = True
                text = f"{self._server}: agent {agent} has got nothing for {seconds:g} s"
                found.append(Finding("idle", text, self._state.last))
        return found

    def _forget(self, now_ms: int, latest: Mapping[int, Source]) -> None:
        """Forget former incarnations that have been quiet for long."""
        for name, source in list(self._state.sources.items()):
            if source is not latest[source.replica] and now_ms - source.seen_ms >= 10 * self._idle_ms:
                del self._state.sources[name]


def rows_of(frame: Any, watched: str) -> Rows:
    """Return the rows of a pandas data frame. ``watched`` is the class of the agents that are watched."""
    agents: list[str] = frame[frame["cls"] == watched]["agent"].unique().tolist() if watched else []
    return Rows(
        frame["replica"].to_numpy(),
        frame["incarnation"].to_numpy(),
        frame["position"].to_numpy(),
        frame["hash"].to_numpy(),
        int((frame["error"] != "").sum()),
        agents,
    )
