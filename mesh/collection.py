"""Collection: bodies that nobody needs, records that all daemons have, and lives that are over. Pure.

Rules 14 and 15 of the design page. A message loses its body once all subscriptions it is due to have
acknowledged it. A record goes once every daemon of the mesh, present or not, has it as well.
"""

from collections.abc import Mapping

from .model import DIRECTORY, Origin, Start, Stream, Uid, decode_record
from .state import DaemonState

__all__ = ["Collection"]


class Collection:
    """The collection of one daemon."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        state.touched.update(state.streams.states)

    def collect(self) -> None:
        """Collect what may be collected of the streams that were touched."""
        touched, self._state.touched = self._state.touched, set()
        for stream in touched:
            if stream in self._state.streams.states:
                self._collect(stream)

    def _collect(self, stream: Stream) -> None:
        streams = self._state.streams
        held = streams.states[stream]
        if stream.topic == DIRECTORY:
            bound = held.have
        else:
            bound = self.bound(stream)
            if bound > held.stripped:
                streams.strip(stream, bound)
        streams.trim(stream, min(bound, held.have, self._aru(stream)))

    def bound(self, stream: Stream) -> int:
        """Return the number up to which no subscription needs the bodies."""
        state = self._state
        have = state.streams.have(stream)
        while (lowest := state.marks.lowest(stream)) is not None and lowest < have:
            # No subscription is to get the record of a start: those that have come to it are past it. What is
            # collected is then never above the mark of a subscription that goes on.
            records = state.log.read(stream, lowest + 1, lowest + 1, 1)
            if not records or not isinstance(decode_record(records[0][1]), Start):
                return lowest
            for dot, mark in list(state.marks.of(stream)):
                if mark == lowest:
                    state.marks.raise_to(stream, dot, lowest + 1)
        return have

    def _aru(self, stream: Stream) -> int:
        """Return the number up to which all daemons of the mesh have a stream."""
        state = self._state
        return state.rows.lowest(stream, (each for each in state.directory.members if each != state.me))

    def retirable(self, peers: Mapping[int, Mapping[Origin, int]]) -> int | None:
        """Return the highest life of this daemon up to which everything is collected everywhere, if any.

        peers: the connected daemons, and how far the directory of each includes each stream. All must be
        there: after a loss of disks, one may include what no log has any more.
        """
        state = self._state
        if not state.directory.members <= {state.me, *(state.rows.known.keys() & peers.keys())}:
            return None
        own = {origin: n for origin, n in state.directory.ctx.items() if origin.daemon == state.me}
        for peer in state.directory.members - {state.me}:
            theirs = {origin: n for origin, n in peers[peer].items() if origin.daemon == state.me}
            over = state.directory.retired.get(state.me, -1)
            lives = [each for each in own.keys() | theirs.keys() if over < each.life < state.life]
            if any(theirs.get(each, 0) != own.get(each, 0) for each in lives):
                return None
        open_lives: set[int] = set()
        done: set[int] = set()
        seen: set[Stream] = {stream for stream in state.streams.states if stream.daemon == state.me}
        for row in state.rows.known.values():
            seen.update(stream for stream in row.have if stream.daemon == state.me)
        for stream in seen:
            if stream.life >= state.life:
                continue
            if self._is_over(stream):
                done.add(stream.life)
            else:
                open_lives.add(stream.life)
        least_open = min(open_lives, default=state.life)
        return max((life for life in done if life < least_open), default=None)

    def _is_over(self, stream: Stream) -> bool:
        """Return whether all daemons have all of a stream, and nothing of it is kept."""
        state = self._state
        if stream.topic != DIRECTORY and state.directory.removed_topic(stream.topic):
            return True
        held = state.streams.states.get(stream)
        if held is None or held.floor < held.have:
            return False
        others = [each for each in state.directory.members if each != state.me]
        return all(state.rows.known[each].have.get(stream, 0) == held.have for each in others)

    def held_up_by(self, topic: str) -> "list[tuple[Stream, int, list[tuple[str, int]]]]":
        """Return, for each stream of a topic that keeps records, why: (stream, records, what lags behind)."""
        state = self._state
        found: list[tuple[Stream, int, list[tuple[str, int]]]] = []
        uids: set[Uid] = state.directory.uids_of.get(topic, set())
        for uid in sorted(uids):
            for stream in sorted(state.streams.of_topic.get(uid, ())):
                held = state.streams.states[stream]
                if held.floor >= held.have:
                    continue
                reasons: list[tuple[str, int]] = []
                for dot, mark in state.marks.slowest(stream):
                    if mark < held.have:
                        subscription = state.directory.subscriptions.get(dot)
                        name = "?" if subscription is None else subscription.name
                        reasons.append((f"subscription {name}", held.have - mark))
                for daemon in sorted(state.directory.members - {state.me}):
                    row = state.rows.known.get(daemon)
                    number = 0 if row is None else row.have.get(stream, 0)
                    if number < held.have:
                        reasons.append((f"daemon {daemon}", held.have - number))
                found.append((stream, held.have - held.floor, reasons))
        return found
