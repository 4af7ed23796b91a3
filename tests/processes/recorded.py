"""What members of a group have written down (`recorder.py`), checked while it grows.

A *life* is one process of a member; it has a file, and the name its messages begin with: MEMBER.LIFE:NUMBER.
Times are seconds of the monotonic clock, which the processes of one machine share. The lines:

| event | fields | means |
|---|---|---|
| starts | member, incarnation | |
| recovered | count, digest | it comes back with the state after so many messages |
| received | count, digest | its state was replaced by that one |
| repeated | index, origin, message | it takes a message from its journal |
| delivered | index, origin, message | |
| view | count, number, master, members, first_time | a view, after so many messages |
| sent, acked | number[, index] | it multicasts a message; it was told that this is safe |
| lease | time, tenure, held | it may, or may no more, do what only one may do |
| acts | time, tenure | it did that; it had asked whether it may at that time |
| enough, ends | [reason] | it sends nothing more; it has left |

What must hold, at any moment: one message at each index; a life delivers without gap from where its state
ends; a state is that of the messages before it; no message twice, none of nobody's, those of an origin in
their order without gap; what was acknowledged stands at the index that was told; a view has one master, one
list of members and one place, and a life is told of rising views (one that comes back with its disk is told
again, later, of the view that it goes on in); one view is the first; the times at which
one tenure acts never surround an act of another member. At the end: all that live have everything, and so
everything that was acknowledged.
"""

import json
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import attrs

from .sequences import Wrong, one_at_a_time

Number = tuple[int, int, int]


@attrs.define
class Life:
    """What one process has told so far."""

    name: str
    position: int = 0
    """Messages in its state."""
    recovered: bool = False
    """It came back with a disk, and was told of no view yet."""
    view: Number | None = None
    members: tuple[int, ...] = ()
    sent: int = 0
    acked: dict[int, int] = attrs.field(factory=dict[int, int])
    """The index of each of its messages that is safe, by number."""
    ended: bool = False
    read: int = 0
    """Bytes of its file."""

    @property
    def quiet(self) -> bool:
        """Whether it has been told of all of its messages."""
        return len(self.acked) == self.sent


@attrs.frozen
class Fact:
    """What a view is. All lives agree."""

    count: int
    master: int
    members: tuple[int, ...]
    first_time: bool


class Recorded:
    """All that was recorded so far. Everything raises Wrong when a promise is broken."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.order: dict[int, str] = {}
        """Every message by its index."""
        self.places: dict[str, int] = {}
        self.views: dict[Number, Fact] = {}
        self.acts: dict[str, tuple[float, float]] = {}
        """The first and the last time at which a tenure acted, by life and number."""
        self.deliveries = 0
        self._digests = [""]
        """Of the first messages of the order, by their count."""
        self._next: dict[str, int] = {}
        """The number that comes next from each life."""
        self._latest: dict[str, int] = {}
        """The last life of each member that was heard of in the order."""
        self._states: list[tuple[Life, int, str]] = []
        """States that were not compared yet: of whom, how many messages, digest."""
        self._resumed: list[tuple[Life, Number, Fact]] = []
        """The first views that those were told of who came back with their disks; not compared yet."""

    # In

    def read(self, directory: Path) -> None:
        """Take what was appended to the files of a directory since the last time."""
        for path in sorted(directory.glob("*.life")):
            life = self.lives.setdefault(path.stem, Life(path.stem))
            with path.open("rb") as file:
                file.seek(life.read)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            life.read += len(whole)
            for line in whole.splitlines():
                self._take(life, *json.loads(line))

    def feed(self, name: str, *event: Any) -> None:
        """Take one event of a life."""
        self._take(self.lives.setdefault(name, Life(name)), *event)

    def _take(self, life: Life, kind: str, *fields: Any) -> None:
        handle: Callable[..., None] = getattr(self, f"_on_{kind}")
        handle(life, *fields)

    def _on_starts(self, life: Life, member: int, incarnation: int) -> None:
        pass

    def _on_recovered(self, life: Life, count: int, digest: str) -> None:
        life.recovered = count > 0
        self._be(life, count, digest)

    def _be(self, life: Life, count: int, digest: str) -> None:
        life.position = count
        self._states.append((life, count, digest))

    def _on_received(self, life: Life, count: int, digest: str) -> None:
        if count < life.position:
            raise Wrong(f"{life.name} had {life.position} messages and received a state of {count}")
        self._be(life, count, digest)

    def _on_repeated(self, life: Life, index: int, origin: int, text: str) -> None:
        self.deliveries -= 1
        life.recovered = True
        self._on_delivered(life, index, origin, text)

    def _on_delivered(self, life: Life, index: int, origin: int, text: str) -> None:
        self.deliveries += 1
        if index != life.position + 1:
            raise Wrong(f"{life.name} delivered message {index} after message {life.position}")
        life.position = index
        known = self.order.setdefault(index, text)
        if known != text:
            raise Wrong(f"at place {index} {life.name} delivered {text}, and another one {known}")
        place = self.places.setdefault(text, index)
        if place != index:
            raise Wrong(f"{life.name} delivered {text} at place {index}, and it stands at {place}")
        if not text.startswith(f"{origin}."):
            raise Wrong(f"{life.name} was told that {text} is of member {origin}")

    def _on_view(
        self, life: Life, count: int, number: list[int], master: int, members: list[int], first_time: bool
    ) -> None:
        view = (number[0], number[1], number[2])
        fact = Fact(count, master, tuple(members), first_time)
        if count != life.position:
            raise Wrong(f"{life.name} had {life.position} messages and was told of a view after {count}")
        if life.view is not None and view <= life.view:
            raise Wrong(f"{life.name} was told of view {view} after {life.view}")
        resumed, life.recovered = life.recovered, False
        if resumed:
            self._resumed.append((life, view, fact))
        else:
            self._agree(life, view, fact)
        life.view, life.members = view, fact.members

    def _agree(self, life: Life, view: Number, fact: Fact) -> None:
        known = self.views.setdefault(view, fact)
        if known != fact:
            raise Wrong(f"of view {view} {life.name} was told {fact}, and another one {known}")
        if fact.master != fact.members[0]:
            raise Wrong(f"view {view} has the master {fact.master}, and not the first of {fact.members}")
        firsts = [each for each, known in self.views.items() if known.first_time]
        if len(firsts) > 1:
            raise Wrong(f"views {firsts[0]} and {firsts[1]} are for the first time")

    def _on_sent(self, life: Life, number: int) -> None:
        life.sent = number

    def _on_acked(self, life: Life, number: int, index: int) -> None:
        life.acked[number] = index
        if index > life.position:
            raise Wrong(f"{life.name} was told that {number} is safe before it was delivered")

    def _on_lease(self, life: Life, now: float, tenure: int, held: bool) -> None:
        pass

    def _on_acts(self, life: Life, now: float, tenure: int) -> None:
        key = f"{life.name} with lease {tenure}"
        first, _ = self.acts.get(key, (now, now))
        self.acts[key] = (first, now)

    def _on_enough(self, life: Life) -> None:
        pass

    def _on_ends(self, life: Life, reason: str) -> None:
        life.ended = True
        if reason:
            raise Wrong(f"{life.name} could not go on: {reason}")

    # Checks of what is known of all

    def check(self) -> None:
        """Compare what can be compared now: call it after all files were read."""
        self._follow()
        self._compare_states()
        self._compare_resumed()
        one_at_a_time(self.acts)
        for life in self.lives.values():
            for number, index in life.acked.items():
                text = f"{life.name}:{number}"
                if self.order.get(index, text) != text:
                    raise Wrong(f"{text} was acknowledged at place {index}, where {self.order[index]} stands")

    def _follow(self) -> None:
        """The order as far as it has no gap: each origin's messages in their order."""
        while (text := self.order.get(len(self._digests))) is not None:
            origin, _, number = text.partition(":")
            member, _, count = origin.partition(".")
            due = self._next.get(origin, 1)
            if int(number) != due:
                raise Wrong(f"{text} stands in the order where {origin}:{due} should")
            self._next[origin] = due + 1
            if int(count) < self._latest.get(member, 0):
                raise Wrong(f"{text} stands in the order after a message of a later life")
            self._latest[member] = int(count)
            before = self._digests[-1].encode()
            self._digests.append(blake2b(before + text.encode(), digest_size=8).hexdigest())

    def _compare_states(self) -> None:
        waiting: list[tuple[Life, int, str]] = []
        for life, count, digest in self._states:
            if count >= len(self._digests):
                # Whoever gave it has delivered that, and its file is read a moment later.
                waiting.append((life, count, digest))
            elif self._digests[count] != digest:
                raise Wrong(f"the state of {life.name} is not that of the first {count} messages")
        self._states = waiting

    def _compare_resumed(self) -> None:
        waiting: list[tuple[Life, Number, Fact]] = []
        for life, view, fact in self._resumed:
            known = self.views.get(view)
            if known is None:
                waiting.append((life, view, fact))
            elif known.count > fact.count:
                raise Wrong(
                    f"{life.name} was told of view {view} after {fact.count} messages, not {known.count}"
                )
            else:
                self._agree(life, view, attrs.evolve(fact, count=known.count, first_time=known.first_time))
        self._resumed = waiting

    # The end

    @property
    def length(self) -> int:
        """How many messages there are."""
        return max(self.order, default=0)

    def behind(self, living: list[str]) -> Iterator[str]:
        """What is missing until all that live have everything."""
        for name in living:
            life = self.lives.get(name)
            if life is None or life.position < self.length:
                yield f"{name} has {life.position if life else 0} of {self.length} messages"
            elif not life.quiet:
                yield f"{name} was told of {len(life.acked)} of its {life.sent} messages that they are safe"

    def finish(self, living: list[str]) -> None:
        """Nothing more comes: check everything. `living`: the lives that are there at the end."""
        self.check()
        if len(self._digests) <= self.length:
            raise Wrong(f"nobody delivered message {len(self._digests)} of {self.length}")
        for life, count, _ in self._states:
            raise Wrong(f"{life.name} has a state of {count} messages, and there are {self.length}")
        for text in self.places:
            name, _, number = text.partition(":")
            if name not in self.lives or int(number) > self.lives[name].sent:
                raise Wrong(f"{text} was delivered, and nobody sent it")
        for life in self.lives.values():
            for number, index in life.acked.items():
                if index > self.length:
                    raise Wrong(f"{life.name}:{number} was acknowledged as message {index}, and is lost")
        for missing in self.behind(living):
            raise Wrong(missing)
