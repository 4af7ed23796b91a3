"""A subscription: which messages of a destination are ready, delayed or with a consumer. A queue has one.

It holds numbers only; bodies stay in the log of the destination, which several subscriptions share.
"""

import functools
import heapq
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import attrs

from ...agents import AgentId
from .groups import Groups
from .message_log import MessageLog
from .protocol import DEFAULT_PRIORITY
from .ranges import Range, Ranges
from .selector import Selector
from .settings import DestinationSettings

__all__ = ["Consumer", "GivenBack", "Run", "Subscription", "compiled"]

MAX_CHUNK_MESSAGES: Final = 1000
MAX_CHUNK_BYTES: Final = 256 * 1024
"""One delivery has at most so much, but always one message."""
MIN_CHUNK_MESSAGES: Final = 16
"""Where several consumers have room, each gets at least so many at a time."""
SCAN_MESSAGES: Final = 4096
"""Messages that one reaction compares with a new selector."""


@functools.lru_cache(maxsize=4096)
def compiled(selector: str) -> Selector | None:
    """Return a compiled selector, None for an empty one. Raises SelectorError."""
    return Selector.compile(selector)


class Run(NamedTuple):
    """Messages that arrive with the same priority and times."""

    first: int
    end: int
    """The number after the last one."""
    priority: int
    due_ms: int
    """Not delivered before; 0: at once."""
    expires_ms: int
    """Not delivered after; 0: never expires."""


class GivenBack(NamedTuple):
    """Messages that came back and do not return to their places."""

    undeliverable: list[int]
    """They came back too often."""
    expired: list[int]


@attrs.define
class Consumer:
    """A consumer of a client, as its subscription sees it."""

    connection: AgentId | None
    """None: it is a link of the destination itself."""
    number: int
    selector: str
    window: int
    window_bytes: int
    unsettled: Ranges = attrs.field(factory=Ranges)
    """What it has got and not settled."""
    unsettled_bytes: int = 0
    peer: bool = False
    """It is another member of a clustered queue: others come first, and it gets no messages of groups."""

    @property
    def room(self) -> int:
        """How many messages it takes now."""
        if self.unsettled_bytes >= self.window_bytes and self.unsettled:
            return 0
        return max(0, self.window - self.unsettled.count)


@attrs.define
class Subscription:
    """The messages that one subscription has not finished, and its consumers."""

    name: str = ""
    client_id: str = ""
    selector: str = ""
    """Of a topic: only messages that match belong to the subscription."""
    durable: bool = False
    shared: bool = False
    without: AgentId | None = None
    """Of a topic: whose messages do not belong to the subscription."""
    ready: dict[int, Ranges] = attrs.field(factory=dict[int, Ranges])
    """By priority."""
    delayed: Ranges = attrs.field(factory=Ranges)
    due: list[tuple[int, int, int, int]] = attrs.field(factory=list[tuple[int, int, int, int]])
    """A heap: when messages become ready, first, end, priority. Some may not be delayed any more."""
    expiring: list[tuple[int, int, int]] = attrs.field(factory=list[tuple[int, int, int]])
    """A heap: when messages expire, first, end. Some may be gone already."""
    returns: dict[int, int] = attrs.field(factory=dict[int, int])
    """How often messages came back seen."""
    consumers: dict[str, Consumer] = attrs.field(factory=dict[str, Consumer])
    """In the order in which they get messages next."""
    exclusive: str = ""
    """The consumer that gets all messages; the others wait until it is closed."""
    heirs: dict[str, None] = attrs.field(factory=dict[str, None])
    """The other consumers that asked for all messages, in the order in which they get them."""
    matches: dict[str, dict[int, Ranges]] = attrs.field(factory=dict[str, dict[int, Ranges]])
    """By selector of a consumer and priority: messages that match, ready ones and some that are not."""
    scans: dict[str, list[int]] = attrs.field(factory=dict[str, list[int]])
    """Selectors that are still compared with messages that were ready when they came, in the order of the
    priorities: the priority and the number that is next."""
    in_hand: int = 0
    """Messages that consumers have, or that were accepted in transactions that are not over."""
    pattern: str = ""
    """Of a tree of topics: only messages whose topic matches belong to the subscription."""
    grouped: bool = False
    """Whether a message has come that belongs to a group."""
    groups: Groups = attrs.field(factory=Groups)
    """Ready messages that belong to groups; they are not in `ready`."""
    member: bool = False
    """Of a clustered topic: it is for another member, and has nothing that comes from a member."""

    @property
    def waiting(self) -> int:
        """How many messages no consumer has."""
        return self._ready_count() + self.delayed.count

    def _ready_count(self) -> int:
        return sum([ranges.count for ranges in self.ready.values()]) + self.groups.waiting.count

    @property
    def pending(self) -> int:
        """How many messages are not done with."""
        return self.waiting + self.in_hand

    # Messages come

    def admit(self, log: MessageLog, runs: Iterable[Run], now_ms: int, *, grouped: bool) -> None:
        """Take messages that have arrived. grouped: some may belong to groups."""
        self.grouped = self.grouped or grouped
        for run in runs:
            if run.expires_ms:
                heapq.heappush(self.expiring, (run.expires_ms, run.first, run.end))
            if run.due_ms > now_ms:
                self._delay(run.first, run.end, run.priority, run.due_ms)
            else:
                self._make_ready(log, run.first, run.end, run.priority)

    def _delay(self, first: int, end: int, priority: int, due_ms: int) -> None:
        heapq.heappush(self.due, (due_ms, first, end, priority))
        self.delayed.add(first, end)

    def _make_ready(self, log: MessageLog, first: int, end: int, priority: int) -> None:
        if not self.grouped:
            self._add_ready(log, first, end, priority)
            return
        for number, pack in log.read([(first, end)]):
            for index in range(len(pack)):
                each, group = number + index, pack.value("group", index)
                if isinstance(group, str):
                    self.groups.add(group, each, each + 1, priority)
                else:
                    self._add_ready(log, each, each + 1, priority)

    def _add_ready(self, log: MessageLog, first: int, end: int, priority: int) -> None:
        if priority not in self.ready:
            self.ready[priority] = Ranges()
        self.ready[priority].add(first, end)
        for selector in self.matches:
            self._match(log, selector, [(first, end)], priority)

    def _match(self, log: MessageLog, selector: str, ranges: list[Range], priority: int) -> None:
        condition = compiled(selector)
        assert condition is not None
        matches = self.matches[selector].setdefault(priority, Ranges())
        for number, pack in log.read(ranges):
            for index in condition.select(pack):
                matches.add(number + index, number + index + 1)

    def scan(self, log: MessageLog) -> bool:
        """Compare some of the ready messages with new selectors. Return whether that goes on."""
        left = SCAN_MESSAGES
        for selector, place in list(self.scans.items()):
            for priority in sorted(self.ready, reverse=True):
                if priority > place[0]:
                    continue
                if priority < place[0]:
                    place[:] = [priority, 0]
                ready = self.ready[priority]
                while left > 0:
                    found = ready.common(place[1], place[1] + left) or self._next(ready, place[1], left)
                    if not found:
                        break
                    self._match(log, selector, found, priority)
                    place[1] = found[-1][1]
                    left -= sum([end - first for first, end in found])
                if left <= 0:
                    return True
            del self.scans[selector]
        return bool(self.scans)

    @staticmethod
    def _next(ready: Ranges, number: int, most: int) -> list[Range]:
        """Return up to `most` ready messages of the first range that begins at `number` or later."""
        first = ready.at_or_after(number)
        return [] if first is None else ready.common(first, first + most)[:1]

    def wake(self, log: MessageLog, now_ms: int) -> list[Range]:
        """Make messages ready whose time has come. Return those that have expired; they are gone here."""
        while self.due and self.due[0][0] <= now_ms:
            _, first, end, priority = heapq.heappop(self.due)
            for found in self.delayed.remove(first, end):
                self._make_ready(log, *found, priority)
        expired: list[Range] = []
        while self.expiring and self.expiring[0][0] <= now_ms:
            _, first, end = heapq.heappop(self.expiring)
            expired += self.remove(log, first, end)
        return expired

    @property
    def next_ms(self) -> int | None:
        """When `wake` has something to do, None if never."""
        times = [heap[0][0] for heap in (self.due, self.expiring) if heap]
        return min(times, default=None)

    def remove(self, log: MessageLog, first: int, end: int) -> list[Range]:
        """Remove messages that no consumer has, and return those that there were."""
        found = self.delayed.remove(first, end)
        if self.groups.waiting:
            found += self.groups.remove(log, first, end)
        for ready in self.ready.values():
            found += ready.remove(first, end)
        self.forget(found)
        return found

    def oldest(self, most: int) -> list[Range]:
        """Return up to `most` messages that no consumer has: ready ones of the lowest priority first."""
        for priority in sorted(self.ready):
            for first, end in self.ready[priority].smallest(1):
                return [(first, min(end, first + most))]
        for ranges in (self.groups.waiting, self.delayed):
            for first, end in ranges.smallest(1):
                return [(first, min(end, first + most))]
        return []

    def forget(self, ranges: Iterable[Range]) -> None:
        """Forget how often messages came back that are done with."""
        if self.returns:
            for first, end in ranges:
                for number in range(first, end) if end - first < len(self.returns) else list(self.returns):
                    if first <= number < end:
                        self.returns.pop(number, None)

    # Messages go

    def dispatch(self, log: MessageLog) -> list[tuple[Consumer, list[Range]]]:
        """Give ready messages to consumers that have room. Return what each gets, in order."""
        given = self._dispatch_to(log, peers=False)
        if any(each.peer for each in self.consumers.values()):
            given += self._dispatch_to(log, peers=True)
        return given

    def _dispatch_to(self, log: MessageLog, *, peers: bool) -> list[tuple[Consumer, list[Range]]]:
        given: list[tuple[Consumer, list[Range]]] = []
        hungry = [
            key
            for key, consumer in self.consumers.items()
            if consumer.peer is peers and consumer.room and self._may_get(key)
        ]
        while hungry and (ready := self._ready_count()):
            share = max(MIN_CHUNK_MESSAGES, ready // len(hungry))
            served: list[str] = []
            for key in hungry:
                consumer = self.consumers[key]
                ranges = self._take(log, key, consumer, min(consumer.room, MAX_CHUNK_MESSAGES, share))
                if ranges:
                    given.append((consumer, ranges))
                    served.append(key)
                    # Who has got some stands behind the others.
                    self.consumers[key] = self.consumers.pop(key)
            hungry = [key for key in served if self.consumers[key].room]
        return given

    def _may_get(self, key: str) -> bool:
        return not self.exclusive or key == self.exclusive

    def _take(self, log: MessageLog, key: str, consumer: Consumer, most: int) -> list[Range]:
        if not self.groups.waiting or consumer.peer:
            return self._take_single(log, consumer, most)
        taken: list[Range] = []
        wanted = _wanted(log, consumer.selector)
        singles = True
        while most > 0 and (not taken or consumer.room):
            head = self.groups.head(key, wanted)
            single = self._single_head(consumer) if singles else None
            if head is None:
                return taken + (self._take_single(log, consumer, most, at_least=not taken) if singles else [])
            # Where both wait, they take turns in small portions.
            portion = most if single is None else min(most, MIN_CHUNK_MESSAGES)
            name, (priority, number) = head
            if single is not None and (single[0], -single[1]) > (priority, -number):
                found = self._take_single(log, consumer, portion, at_least=not taken)
                singles = bool(found)
            else:
                found = self.groups.take(name, key, portion, wanted)
                left_bytes = min(consumer.window_bytes - consumer.unsettled_bytes, MAX_CHUNK_BYTES)
                fitting, size_bytes = _fitting(log, found, left_bytes, at_least=not taken)
                self.groups.put_back(name, _beyond(found, fitting), priority)
                self._give(consumer, fitting, size_bytes)
                found = fitting
                if not found:
                    break
            taken += found
            most -= sum([end - first for first, end in found])
        return taken

    def _single_head(self, consumer: Consumer) -> tuple[int, int] | None:
        """Return priority and number of the next message for a consumer that belongs to no group."""
        found = self.matches[consumer.selector] if consumer.selector else self.ready
        for priority in sorted(found, reverse=True):
            first = found[priority].first
            if first is not None:
                return priority, first
        return None

    def _give(self, consumer: Consumer, ranges: list[Range], size_bytes: int) -> None:
        consumer.unsettled_bytes += size_bytes
        for first, end in ranges:
            consumer.unsettled.add(first, end)
            self.in_hand += end - first

    def _take_single(
        self, log: MessageLog, consumer: Consumer, most: int, *, at_least: bool = True
    ) -> list[Range]:
        """Give a consumer messages that belong to no group. at_least: one, however large."""
        left_bytes = min(consumer.window_bytes - consumer.unsettled_bytes, MAX_CHUNK_BYTES)
        taken: list[Range] = []
        for priority in sorted(self.ready, reverse=True):
            ready = self.ready[priority]
            if consumer.selector:
                found = self._take_matching(consumer.selector, priority, most)
            else:
                found = ready.take(most)
            fitting, size_bytes = _fitting(log, found, left_bytes, at_least=at_least and not taken)
            over = _beyond(found, fitting)
            for first, end in over:
                ready.add(first, end)
                if consumer.selector:
                    self.matches[consumer.selector][priority].add(first, end)
            taken += fitting
            left_bytes -= size_bytes
            self._give(consumer, fitting, size_bytes)
            most -= sum([end - first for first, end in fitting])
            if over or most <= 0 or left_bytes <= 0:
                break
        return taken

    def _take_matching(self, selector: str, priority: int, most: int) -> list[Range]:
        matches, ready = self.matches[selector].get(priority), self.ready[priority]
        found: list[Range] = []
        while matches and most > 0:
            for first, end in matches.take(most):
                # Others may have got some of them.
                removed = ready.remove(first, end)
                found += removed
                most -= sum([last - begin for begin, last in removed])
        return found

    # Consumers

    def join(self, key: str, consumer: Consumer, *, exclusive: bool) -> bool:
        """Add a consumer. Return whether messages are to be compared with its selector: see `scan`."""
        self.consumers[key] = consumer
        if exclusive and not self.exclusive:
            self.exclusive = key
        elif exclusive:
            self.heirs[key] = None
        if not consumer.selector or consumer.selector in self.matches:
            return False
        self.matches[consumer.selector] = {}
        self.scans[consumer.selector] = [max(self.ready, default=0), 0]
        return True

    def leave(self, key: str) -> Consumer | None:
        """Remove a consumer, and return it. What it has not settled is to be given back."""
        consumer = self.consumers.pop(key, None)
        if consumer is None:
            return None
        self.heirs.pop(key, None)
        if self.exclusive == key:
            self.exclusive = next(iter(self.heirs), "")
            self.heirs.pop(self.exclusive, None)
        selector = consumer.selector
        if selector and all(other.selector != selector for other in self.consumers.values()):
            del self.matches[selector]
            self.scans.pop(selector, None)
        return consumer

    def settled(
        self, log: MessageLog, consumer: Consumer, ranges: Iterable[Range], *, keep: bool = False
    ) -> list[Range]:
        """Take these messages from a consumer; return those that it had.

        keep: they stay in hand, in a transaction.
        """
        found = [each for first, end in ranges for each in consumer.unsettled.remove(first, end)]
        if not consumer.unsettled:
            consumer.unsettled_bytes = 0
        else:
            consumer.unsettled_bytes = max(0, consumer.unsettled_bytes - log.size_of(found))
        if not keep:
            self.let_go(log, found)
        return found

    def hold(self, ranges: list[Range]) -> None:
        """Learn that these messages, which were removed, are in the hands of a transaction."""
        self.in_hand += sum([end - first for first, end in ranges])

    def let_go(self, log: MessageLog, ranges: list[Range]) -> None:
        """Learn that these messages, which the log still has, are not in hand any more."""
        self.in_hand -= sum([end - first for first, end in ranges])
        if self.grouped:
            self.groups.let_go(log, ranges)

    def give_back(
        self,
        log: MessageLog,
        ranges: list[Range],
        settings: DestinationSettings,
        now_ms: int,
        *,
        seen: bool,
        delay_ms: int = 0,
    ) -> GivenBack:
        """Return messages to their places. `seen`: count it, and delay it as the settings say."""
        back = GivenBack([], [])
        for number, pack in log.read(ranges):
            for index in range(len(pack)):
                each = number + index
                expires_ms = pack.value("expires", index)
                if isinstance(expires_ms, int) and 0 < expires_ms <= now_ms:
                    back.expired.append(each)
                    continue
                wait_ms = delay_ms
                if seen:
                    deliveries = self.returns[each] = self.returns.get(each, 0) + 1
                    if settings.max_deliveries and deliveries >= settings.max_deliveries:
                        back.undeliverable.append(each)
                        continue
                    wait_ms = max(wait_ms, settings.return_delay_ms(deliveries))
                priority = priority_of(pack.value("priority", index))
                if wait_ms:
                    self._delay(each, each + 1, priority, now_ms + wait_ms)
                else:
                    self._make_ready(log, each, each + 1, priority)
        return back


def _wanted(log: MessageLog, selector: str) -> Callable[[int], bool] | None:
    """Return what says whether a consumer with this selector takes a message; None if it takes all."""
    condition = compiled(selector)
    if condition is None:
        return None

    def wanted(number: int) -> bool:
        return any(condition.select(pack) for _, pack in log.read([(number, number + 1)]))

    return wanted


def priority_of(value: object) -> int:
    """Return the priority that a column names."""
    return value if isinstance(value, int) else DEFAULT_PRIORITY


def _fitting(
    log: MessageLog, ranges: list[Range], most_bytes: int, *, at_least: bool
) -> tuple[list[Range], int]:
    """Return the first of these messages that have about `most_bytes`, and their bytes.

    at_least: one message, however large.
    """
    fitting: list[Range] = []
    size_bytes = 0
    for key, share, index, count in log.places(ranges):
        each = share.size_bytes / share.count
        fits = count if each == 0 else int((most_bytes - size_bytes) / each)
        if not fitting and at_least:
            fits = max(fits, 1)
        fits = min(fits, count)
        if fits > 0:
            fitting.append((key + index, key + index + fits))
            size_bytes += share.size_bytes * fits // share.count
        if fits < count:
            break
    return fitting, size_bytes


def _beyond(ranges: list[Range], fitting: list[Range]) -> list[Range]:
    """Return what of these ranges comes after those that fit."""
    left = sum([end - first for first, end in fitting])
    over: list[Range] = []
    for first, end in ranges:
        used = min(left, end - first)
        left -= used
        if first + used < end:
            over.append((first + used, end))
    return over
