"""Transfer of an engine's state to another replica, in parts, while both engines apply entries.

Source: the HA channel protocol, section 4. `Source` makes the parts, `Staging` collects them. At the end the
parts replace the state of the receiving engine, if their digest is that of the source.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import msgspec

from ...agents import AgentError, AgentId, AgentSpec
from ..cell import AgentState, Cell, Resolve, titled
from ..class_loading import Program, stored_class
from ..directory import Directory, state_hash
from .capture import Capture
from .digest import IncrementalDigest
from .header import SnapshotError
from .precopy import Action, Marker, PrecopyRounds

__all__ = ["End", "Source", "SourcePart", "StagedPart", "Staging", "StatePart", "decode_part"]

PART_BYTES: Final = 256 * 1024
PART_AGENTS: Final = 400
"""A part ends above `PART_BYTES` or `PART_AGENTS`: making or accepting it takes a few milliseconds."""
DIGEST_BYTES: Final = 1024 * 1024
"""Bytes of agents that are hashed for the digest in one step, which takes a few milliseconds."""
_BUCKET_BITS: Final = 8


class End(msgspec.Struct, array_like=True, frozen=True):
    """The header of the state, and the digest of the whole."""

    header: bytes
    digest: bytes


class StatePart(msgspec.Struct, array_like=True, frozen=True):
    """A part of a state as it is sent."""

    marker: Marker
    """State of the copy after this part."""
    start: Marker | None
    """In the first part only: the part of the state that the copy has already."""
    kept: list[AgentId]
    """Agents that the copy has already, unchanged."""
    agents: list[AgentState]
    gone: list[AgentId]
    end: End | None
    """In the last part only."""


_encoder = msgspec.msgpack.Encoder()
_parts: msgspec.msgpack.Decoder[StatePart] = msgspec.msgpack.Decoder(StatePart)
_markers: msgspec.msgpack.Decoder[Marker] = msgspec.msgpack.Decoder(Marker)


def decode_part(data: bytes) -> StatePart:
    """Return a part. Raises SnapshotError when it is damaged."""
    try:
        return _parts.decode(data)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"a part of the state is damaged: {error}") from error


def _bucket(identity: AgentId) -> int:
    return identity.stamp >> _BUCKET_BITS


@attrs.frozen
class SourcePart:
    """A part of a state."""

    data: bytes
    index: int | None
    """The entry that this part and all later ones are as of; None: the copy is not yet as of one entry."""
    last: bool


class Source:
    """The sending side: the state of an engine in parts. Made by `Engine.source`; a later one ends it."""

    def __init__(
        self,
        directory: Directory,
        now: Callable[[], int],
        freeze: Callable[[Sequence[AgentId]], tuple[Capture, IncrementalDigest]],
        birth: int,
        marker: bytes,
        have: int,
    ) -> None:
        self._directory = directory
        self._freeze = freeze
        start = _start(marker, birth, have, now())
        self._start: Marker | None = start
        self._rounds = PrecopyRounds[AgentId](_bucket, self._changed, now, start)
        directory.marks = self._rounds.marks
        self._rounds.begin([cell.identity for cell in directory])
        self._prepared = False
        self._capture: Capture | None = None
        self._gone: list[AgentId] = []
        self._digest: IncrementalDigest | None = None
        self._over = False
        self.flaws: list[str] = []
        """The agents whose state cannot be stored any more, and why. They are sent in spite of that."""

    @property
    def rounds(self) -> int:
        """Rounds so far in which agents that had changed meanwhile were sent again."""
        return self._rounds.rounds

    @property
    def over(self) -> bool:
        """True once the last part was made, or another source has replaced this one."""
        return self._over or self._directory.marks is not self._rounds.marks

    def close(self) -> None:
        """Abandon the transfer."""
        if self._directory.marks is self._rounds.marks:
            self._directory.marks = None
        if self._digest is not None:
            self._digest.close()
        self._over = True

    def _changed(self, identity: AgentId) -> int | None:
        cell = self._directory.find(identity)
        return None if cell is None else cell.changed

    def next(self) -> SourcePart | None:
        """Return the next part, or None after some work for it; call this again then."""
        if not self._prepared:
            self._prepared = self._rounds.prepare()
            return None
        kept: list[AgentId] = []
        agents: list[AgentState] = []
        size = 0
        while size < PART_BYTES and len(kept) < 10 * PART_AGENTS and not self._rounds.finished:
            step = self._rounds.step()
            if step is None:
                continue
            action, identity = step
            if action is Action.GONE:
                self._gone.append(identity)
                continue
            cell = self._directory.find(identity)
            assert cell is not None
            if action is Action.KEEP:
                kept.append(identity)
            else:
                agents.append(self._store(cell))
                size += len(agents[-1].state) + PART_BYTES // PART_AGENTS
            # For the digest of the whole, which is to cost little at the end.
            self._directory.hash_of(cell)
        if kept or agents or not self._rounds.finished:
            return SourcePart(self._part(kept, agents), None, False)
        if self._capture is None or self._digest is None:
            self._capture, self._digest = self._freeze(self._rounds.rest())
            self._gone += self._capture.deleted
        return self._last(self._capture, self._digest)

    def _store(self, cell: Cell) -> AgentState:
        state, flaw = cell.stored()
        if flaw:
            self.flaws.append(flaw)
        return state

    def _last(self, capture: Capture, digest: IncrementalDigest) -> SourcePart | None:
        """The rest, as of one entry: what is about to change meanwhile was encoded before."""
        if capture.done and not capture.agents and digest.left:
            digest.step(PART_AGENTS, DIGEST_BYTES)
            return None
        done = capture.step(PART_AGENTS, PART_BYTES)
        agents = capture.agents[:PART_AGENTS]
        del capture.agents[:PART_AGENTS]
        if not done or capture.agents or digest.left:
            return SourcePart(self._part([], agents), capture.index, False)
        self.flaws += capture.flaws
        self.close()
        return SourcePart(self._part([], agents, End(capture.header, digest.digest)), capture.index, True)

    def _part(self, kept: list[AgentId], agents: list[AgentState], end: End | None = None) -> bytes:
        start, self._start = self._start, None
        gone, self._gone = self._gone, []
        return _encoder.encode(StatePart(self._rounds.marker, start, kept, agents, gone, end))


def _start(marker: bytes, birth: int, have: int, now: int) -> Marker:
    """Return what a copy has already: parts of an earlier transfer, a whole state, or nothing usable."""
    try:
        known = _markers.decode(marker)
        if known.place is not None:
            known = msgspec.structs.replace(known, place=(known.place[0], AgentId(*known.place[1])))
            hash(known.place)
    except (msgspec.DecodeError, TypeError):
        known = None
    if known is not None and known.birth == birth and 0 <= known.have <= now and 0 <= known.floor <= now:
        return known
    # Entries above the last applied one were none for the engine.
    return Marker(birth, min(max(have, 0), now))


@attrs.frozen
class StagedPart:
    """The agents of a part that `Staging.accept` has added."""

    agents: Sequence[AgentState]
    anew: bool
    """True if the parts before this one are to be discarded."""


class Staging:
    """The receiving side: collects the parts of a state. The engine is unchanged until `Engine.install`.

    If the source changes, another one sends only the parts that are missing.
    """

    def __init__(
        self,
        own: Callable[[AgentId], Cell | None],
        birth: Callable[[], int],
        program: Program,
        resolve: Resolve,
    ) -> None:
        self._own = own
        self._birth = birth
        self._program = program
        self._resolve = resolve
        self._specs: dict[tuple[str, str], AgentSpec] = {}
        self._earlier: dict[AgentId, Cell] = {}
        """Agents that earlier sources sent."""
        self._begun = False
        self.based = False
        """True if agents of the present state of the engine are part of the new state."""
        self.cells: dict[AgentId, Cell] = {}
        self.hashes: dict[AgentId, int] = {}
        """Hashes of all agents that came in parts, including some that were deleted later."""
        self.end: End | None = None
        self.marker = b""
        """Encoded `Marker` from which another source continues."""

    @property
    def gone(self) -> list[AgentId]:
        """Agents that came in parts and are not part of the new state."""
        return [identity for identity in self.hashes if identity not in self.cells]

    def accept(self, data: bytes) -> StagedPart:
        """Add the next part of a source. After the last one `end` is set, and `Engine.install` may be called.

        Raises SnapshotError when the part is damaged or does not fit the parts before it, AgentError when it
        names a class that cannot be loaded here. This object must not be used after that.
        """
        part = decode_part(data)
        anew = part.start is not None and self._begin(part.start)
        if part.start is None and not self._begun:
            raise SnapshotError("the parts of the state do not begin with the first")
        cells = self.cells
        for identity in part.kept:
            cell = self._earlier.get(identity)
            if cell is None and self.based:
                cell = self._own(identity)
            if cell is None:
                raise SnapshotError(f"agent {identity} is said to be here already, and is not")
            cells[identity] = cell
        for state in part.agents:
            try:
                cell = Cell.load(state, self._spec(state), self._resolve)
            except ValueError as error:
                raise SnapshotError(f"a state is of no use: {error}") from error
            cells[state.identity] = cell
            self.hashes[state.identity] = state_hash(cell)
        for identity in part.gone:
            cells.pop(identity, None)
        self.end = part.end
        self.marker = _encoder.encode(part.marker)
        return StagedPart(part.agents, anew)

    def _begin(self, start: Marker) -> bool:
        """Begin with the first part of a source. Return whether the earlier parts are to be discarded."""
        if start.have and start.birth != self._birth():
            raise SnapshotError(
                f"the parts go on from the state after entry {start.have} of another life, not from this one"
            )
        resumed = start.whole or start.place is not None
        self._earlier = {**self._earlier, **self.cells} if resumed else {}
        self.cells = {}
        if not resumed:
            self.hashes = {}
        self.based = start.have > 0
        self._begun = True
        return not resumed

    def _spec(self, state: AgentState) -> AgentSpec:
        names = (state.cls, state.location)
        spec = self._specs.get(names)
        if spec is None:
            spec = self._specs[names] = spec_of(self._program, state)
        return spec


def spec_of(program: Program, state: AgentState) -> AgentSpec:
    """Return the class of a stored agent. Raises AgentError, naming the agent: see `stored_class`."""
    try:
        return stored_class(program, state.cls, state.location)
    except AgentError as error:
        raise AgentError(f"{titled(state)}: {error}") from error
