"""Publishers: the numbers of their messages, the order of those who move, and acknowledgements. Pure.

A publisher numbers its messages of a topic 1, 2, ... What it repeats is acknowledged again and not stored.
One that moves here presents the position of its last acknowledged message; its next ones are stored once
that is here, and the first of them is marked `after` it. Rules 12 and 13 of the design page.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

import attrs

from .frames import Publish, Published, Refused
from .log import FactKind
from .model import Data, Dot, Moved, Position, Start, Stream, Uid, encode_record
from .state import ClientId, DaemonState

__all__ = ["Publishing"]


class _Key(NamedTuple):
    publisher: str
    topic: str


@attrs.frozen
class _Held:
    """A request that waits for the publisher's message before it."""

    client: ClientId
    request: Publish


@attrs.frozen
class _Unconfirmed:
    """Messages that are stored here, and wait for copies on other disks."""

    number: int
    client: ClientId
    request: int


LAST = FactKind("publisher", tuple[str, str], tuple[int, Position])
MAX_IDENTIFIER = 255
MAX_HELD_BYTES = 16 * 1024 * 1024


class Publishing:
    """The publishers of one daemon."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self._last: OrderedDict[_Key, tuple[int, Position]] = OrderedDict(
            sorted(
                ((_Key(*key), value) for key, value in LAST.load(state.log)),
                key=lambda item: (item[1][1].stream.life, item[1][1].number),
            )
        )
        self._held: dict[_Key, deque[_Held]] = {}
        self._held_bytes = 0
        self._used: dict[str, Uid] = {}
        """By name of a topic: the creation in which this daemon publishes."""
        self._unconfirmed: dict[Stream, deque[_Unconfirmed]] = {}

    @property
    def held(self) -> int:
        """Requests that wait for a message that is not here."""
        return sum(map(len, self._held.values()))

    def waits_for(self) -> Iterator[tuple[str, str, Position]]:
        """Yield (publisher, topic, position) of what is waited for."""
        for key, requests in self._held.items():
            after = self._after(key, requests[0].request)
            if after is not None:
                yield key.publisher, key.topic, after

    # Requests

    def publish(self, client: ClientId, request: Publish) -> None:
        """Store messages, and acknowledge them; or refuse them all."""
        key = _Key(request.publisher, request.topic)
        flaw = self._flaw(request)
        if flaw is not None:
            self._state.answer(client, flaw)
            return
        if key not in self._held and self._settle(client, key, request):
            return
        size = sum(map(len, request.bodies))
        if self._held_bytes + size > MAX_HELD_BYTES:
            text = "too many messages wait here for earlier ones of their publishers; try again later"
            self._state.answer(client, Refused(request.request, "limit", text))
            return
        self._held_bytes += size
        self._held.setdefault(key, deque()).append(_Held(client, request))

    def _flaw(self, request: Publish) -> Refused | None:
        state = self._state
        if not request.bodies or request.first < 1 or not request.publisher:
            return Refused(request.request, "wrong", "a publisher numbers its messages from 1")
        if len(request.publisher) > MAX_IDENTIFIER:
            return Refused(request.request, "wrong", f"a publisher has at most {MAX_IDENTIFIER} characters")
        longest = max(map(len, request.bodies))
        if longest > state.limits.body_bytes:
            text = f"a message has {longest} bytes, and at most {state.limits.body_bytes} are allowed"
            return Refused(request.request, "too large", text)
        if self._uid(request.topic) is None:
            text = f"there is no topic {request.topic!r} at daemon {state.me}"
            return Refused(request.request, "no topic", text)
        return None

    def _uid(self, topic: str) -> Uid | None:
        """Return the creation of a topic in which this daemon publishes; None if there is no such topic."""
        uids = self._state.directory.uids_of.get(topic)
        if not uids:
            self._used.pop(topic, None)
            return None
        used = self._used.get(topic)
        if used not in uids:
            used = self._used[topic] = min(uids)
        return used

    def _after(self, key: _Key, request: Publish) -> Position | None:
        """Return the position of the message before those of a request that are new, if one is known."""
        last = self._last.get(key)
        if last is not None and last[0] >= request.previous:
            return last[1]
        return request.after

    def _settle(self, client: ClientId, key: _Key, request: Publish) -> bool:
        """Store a request, or refuse it. Return False if it has to wait for an earlier message."""
        after = self._after(key, request)
        if after is None or self._is_here(after):
            self._store(client, key, request)
            return True
        if not self._is_lost(after):
            return False
        self._state.count("order_lost")
        text = (
            f"the last message of this publisher in {key.topic!r} is lost, as far as daemon "
            f"{self._state.me} knows, or its daemon has lost its disk"
        )
        self._state.answer(client, Refused(request.request, "order lost", text))
        return True

    def _is_here(self, after: Position) -> bool:
        return self._state.passed(after.stream, after.number)

    def _is_lost(self, after: Position) -> bool:
        """Return whether a position cannot come any more, as far as is known.

        Its daemon has a later life and has it not, nor has any other daemon that is known.
        """
        rows, stream = self._state.rows, after.stream
        if stream.daemon == self._state.me:
            later = stream.life != self._state.life
        else:
            row = rows.known.get(stream.daemon)
            later = row is not None and row.life > stream.life
            if stream.daemon not in self._state.directory.members:
                later = True
        return later and rows.highest(stream) < after.number

    def _store(self, client: ClientId, key: _Key, request: Publish) -> None:
        """Store the messages of a request that are new, and acknowledge all of it."""
        state = self._state
        uid = self._uid(key.topic)
        if uid is None:
            text = f"the topic {key.topic!r} was deleted"
            state.answer(client, Refused(request.request, "no topic", text))
            return
        last = self._last.get(key)
        known = last[0] if last is not None else 0
        if known < request.previous != request.acknowledged:
            text = "earlier messages of the publisher were refused"
            state.answer(client, Refused(request.request, "gap", text))
            return
        skip = max(0, known - request.first + 1)
        bodies = request.bodies[skip:] if skip else request.bodies
        if not bodies:
            assert last is not None
            self._confirm(client, request.request, last[1])
            return
        if self._is_full(key.topic, bodies):
            state.count("refused_full")
            text = (
                f"the topic {key.topic!r} is full at daemon {state.me}: a subscriber is slow; see "
                "`quorate mesh explain`"
            )
            state.answer(client, Refused(request.request, "full", text))
            return
        stream = self._open(uid, key.topic)
        after = self._after(key, request)
        first = request.first + skip
        number = state.streams.have(stream) + 1
        records: list[tuple[int, bytes, bool]] = []
        at_ms, publisher = state.wall_ms, key.publisher
        if after is not None and after.stream != stream:
            records.append((number, encode_record(Moved(publisher, first, bodies[0], at_ms, after)), True))
            state.count("moves")
        for offset in range(len(records), len(bodies)):
            data = Data(publisher, first + offset, bodies[offset], at_ms)
            records.append((number + offset, encode_record(data), True))
        position = Position(stream, number + len(records) - 1)
        state.append_own(stream, records)
        state.count("published", len(records))
        self._remember(key, first + len(bodies) - 1, position)
        self._confirm(client, request.request, position)

    def _is_full(self, topic: str, bodies: list[bytes]) -> bool:
        state = self._state
        uids = state.directory.uids_of.get(topic, set())
        limit = self.topic_bytes(topic)
        if uids and state.directory.topics[min(uids)].options.on_full == "end":
            # The slowest subscription ends at the next collection: there is room until then.
            limit *= 2
        return state.streams.message_bytes(uids) + sum(map(len, bodies)) > limit

    def topic_bytes(self, topic: str) -> int:
        """Return the limit of a topic, in bytes."""
        uids = self._state.directory.uids_of.get(topic)
        if not uids:
            return self._state.limits.topic_bytes
        return self._state.directory.topics[min(uids)].options.topic_bytes or self._state.limits.topic_bytes

    def _open(self, uid: Uid, topic: str) -> Stream:
        """Return the own stream of a topic; the first record of a new one names its subscriptions."""
        state = self._state
        stream = state.own(uid)
        if stream not in state.streams.states:
            self.start(stream, sorted(state.directory.dots_of.get(topic, ())))
        return stream

    def start(self, stream: Stream, dots: list[Dot]) -> None:
        """Record in an own stream that what follows is due to these subscriptions."""
        if not dots:
            return
        state = self._state
        number = state.streams.have(stream) + 1
        state.append_own(stream, [(number, encode_record(Start(tuple(dots))), False)])
        for dot in dots:
            state.marks.raise_to(stream, dot, number)
        state.touched.add(stream)

    def _remember(self, key: _Key, number: int, position: Position) -> None:
        self._last[key] = (number, position)
        self._last.move_to_end(key)
        LAST.put(self._state.log, (key.publisher, key.topic), (number, position))
        if len(self._last) > self._state.limits.publishers:
            oldest, _ = self._last.popitem(last=False)
            LAST.delete(self._state.log, (oldest.publisher, oldest.topic))

    # Acknowledgements

    def _copies(self) -> int:
        """Return how many disks must have a message before it is acknowledged."""
        return min(self._state.limits.copies, len(self._state.directory.members))

    def _confirm(self, client: ClientId, request: int, position: Position) -> None:
        state = self._state
        copies = self._copies()
        if copies <= 1 or 1 + state.rows.holders(position.stream, position.number) >= copies:
            state.answer(client, Published(request, position))
            return
        waiting = self._unconfirmed.setdefault(position.stream, deque())
        waiting.append(_Unconfirmed(position.number, client, request))

    def copied(self, stream: Stream) -> None:
        """Learn that another daemon has more of a stream: acknowledge what has enough copies."""
        waiting = self._unconfirmed.get(stream)
        if waiting is None:
            return
        state = self._state
        copies = self._copies()
        while waiting and 1 + state.rows.holders(stream, waiting[0].number) >= copies:
            first = waiting.popleft()
            state.answer(first.client, Published(first.request, Position(stream, first.number)))
        if not waiting:
            del self._unconfirmed[stream]

    # Held requests

    def release(self) -> None:
        """Store what waited for a message that is here now, or is known to be lost."""
        for key in list(self._held):
            requests = self._held[key]
            while requests and self._settle(requests[0].client, key, requests[0].request):
                self._held_bytes -= sum(map(len, requests.popleft().request.bodies))
            if not requests:
                del self._held[key]

    def drop_client(self, client: ClientId) -> None:
        """Forget what a client waits for whose connection has ended."""
        for key in list(self._held):
            kept = deque(each for each in self._held[key] if each.client != client)
            dropped = [each for each in self._held[key] if each.client == client]
            self._held_bytes -= sum(len(body) for each in dropped for body in each.request.bodies)
            if kept:
                self._held[key] = kept
            else:
                del self._held[key]
        for waiting in self._unconfirmed.values():
            left = [each for each in waiting if each.client != client]
            if len(left) < len(waiting):
                waiting.clear()
                waiting.extend(left)

    def topic_lost(self, uid: Uid) -> None:
        """Learn that a creation of a topic was deleted."""
        for stream in [each for each in self._unconfirmed if each.topic == uid]:
            for each in self._unconfirmed.pop(stream):
                # The messages were stored, and went with their topic.
                self._state.answer(each.client, Published(each.request, Position(stream, each.number)))
