"""Submitting from any member: submitters number payloads, the master admits each number once, in order.

Source: the channel protocol, section 2 (the sequencer of JGroups' TOTAL and SEQUENCER protocols, with the
table of last numbers as replicated state). A submitter keeps what it submitted until it sees it delivered,
and sends it to every new master from the oldest on; so what a failover lost comes again, before anything
newer, and what it did not lose is dropped by its number.
"""

from collections import deque
from collections.abc import Callable

import attrs

from ..model.errors import ChannelError, PayloadTooLarge, WindowFull
from ..model.log import Booted
from ..model.messages import Forward, Forwarded
from ..model.submitters import Source, Submitters
from ..model.view import View, Voter
from .handlers import Handlers
from .normal_case import Replication
from .replica_state import ReplicaState

MAX_ASK_PAUSE_S = 1.0
"""A master that asks for the same numbers again and again pauses up to this long in between."""
RESEND = 5
"""A submitter asks a master that neither delivers nor answers after this many retry intervals..."""
MAX_RESEND_PAUSE_S = 5.0
"""...and after pauses that grow up to this, until nothing waits any more."""


@attrs.define(eq=False)
class Held:
    """On the master: what one submitter sent and the log does not have yet."""

    incarnation: int
    boot: int
    payloads: dict[int, bytes] = attrs.field(factory=dict[int, bytes])
    """By number."""
    size_bytes: int = 0
    repeated: bool = False
    """The submitter repeated a message: it waits for an answer with the last number ordered here."""
    dropped: bool = False
    """More came than fits: its window is larger than that of this master."""
    ask_at: float = 0.0
    pause_s: float = 0.0


def _unstamped() -> int:
    return 0


class Forwarding:
    """Both sides of submitting from any member."""

    def __init__(self, state: ReplicaState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        # The submitter.
        self._queue: deque[bytes] = deque()
        """Payloads submitted here and not yet delivered, oldest first."""
        self._queue_bytes = 0
        self._first = 1
        """The number of the oldest."""
        self._given = 0
        """The last number that the present master was given."""
        self._given_bytes = 0
        """Bytes of those that it was given and that are still in the queue."""
        self._known = 0
        """The present master says that it has everything up to this number."""
        self._settled = 0
        """Index of the last entry whose payloads were dropped from the queue."""
        self._moved = 0.0
        self._pause_s = 0.0
        self._booted: int | None = None
        """The token of the output that made the number of this process durable."""
        # The master.
        self.stamp: Callable[[], int | None] = _unstamped
        """Returns the stamp of what is admitted now; None while nothing may be."""
        self._admitted = Submitters()
        self._held: dict[int, Held] = {}
        self._turn = 0

    # The submitter

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {Forward: self.on_forward, Forwarded: self.on_forwarded}

    @property
    def room(self) -> bool:
        """Whether `submit` takes another payload."""
        state = self._state
        settings = state.settings
        return (
            not (state.leaving or state.stopped or state.seats.witness)
            and len(self._queue) < settings.forward_queue
            and self._queue_bytes < settings.forward_queue_bytes
        )

    @property
    def waiting(self) -> int:
        """How many payloads of this replica it has not seen delivered."""
        return len(self._queue)

    def submit(self, payload: bytes) -> int:
        """Take a payload; returns its number."""
        state = self._state
        if state.leaving or state.stopped:
            raise ChannelError("this replica leaves: submit on another one")
        if state.seats.witness:
            raise ChannelError("a witness has nothing to submit: submit on another replica")
        if len(payload) > state.settings.max_payload_bytes:
            raise PayloadTooLarge(
                f"a payload of {len(payload)} bytes is above {state.settings.max_payload_bytes}: split it"
            )
        if not self.room:
            raise WindowFull("too much waits to be ordered: wait until can_forward is true")
        if self._booted is None:
            self._booted = state.output.record(Booted(state.boot))
        if not self._queue:
            self._moved = state.now
            self._pause_s = 0.0
        self._queue.append(payload)
        self._queue_bytes += len(payload)
        return self._first + len(self._queue) - 1

    def begin(self, now: float, view: View) -> None:
        """`view` is active: its master gets everything again, from the oldest on."""
        state = self._state
        self._settle()
        self._again(now)
        self._pause_s = 0.0
        self._held.clear()
        self._review_lives(view)
        if view.members[0] == state.me:
            # Everything in the log is delivered when a view becomes active.
            self._admitted = state.replicated.submitters.copy()

    def _review_lives(self, view: View) -> None:
        """Say of whom nothing is ordered: an earlier life with a higher incarnation has submitted."""
        lives = dict(view.members)
        for row in self._state.replicated.submitters.rows:
            life = lives.get(row.replica, row.incarnation)
            if life < row.incarnation:
                self._state.output.note(
                    f"replica {row.replica} has incarnation {life}, below its earlier {row.incarnation}: "
                    f"nothing that it forwards is ever ordered; start it again with a higher one"
                )

    def _again(self, now: float) -> None:
        self._given = self._first - 1
        self._given_bytes = 0
        self._known = 0
        self._moved = now

    def reconnected(self, now: float, voter: Voter) -> None:
        """Note that messages on their way to the master may be lost."""
        view = self._state.accepted
        if view is not None and view.members[0] == voter:
            self._again(now)

    def tick(self, now: float) -> None:
        """Ask a master that neither delivers nor answers: send again the last payload that it was given.

        It answers if it has that twice, or lacks something before. All may be on its way: a slow connection
        would never carry all of it again and again.
        """
        state = self._state
        if not self._queue or not state.status.serving or state.status.leading:
            return
        if self._given < self._first or self._known >= self._given:
            # It has everything, and will admit it when it has room; another view begins anew.
            self._moved = now
            return
        pause = max(self._pause_s, RESEND * state.settings.retry_s)
        if now - self._moved >= pause:
            self._pause_s = min(2 * pause, MAX_RESEND_PAUSE_S)
            self._moved = now
            if self._ready and state.accepted is not None:
                last = Forward(state.boot, self._given, self._queue[self._given - self._first])
                state.output.send(state.accepted.members[0].replica, last)

    def _rewind(self, given: int) -> None:
        """Send again what follows the number `given`."""
        given = max(given, self._first - 1)
        for number in range(given + 1, self._given + 1):
            self._given_bytes -= len(self._queue[number - self._first])
        self._given = min(self._given, given)

    def _settle(self) -> None:
        """Forget what was delivered, here or in a snapshot."""
        state = self._state
        self._settled = state.replicated.applied
        last = state.replicated.submitters.last(state.me.replica, state.me.incarnation, state.boot)
        while self._first <= last and self._queue:
            size = len(self._queue.popleft())
            self._queue_bytes -= size
            if self._first <= self._given:
                self._given_bytes -= size
            self._first += 1
            self._moved = state.now
        self._given = max(self._given, self._first - 1)

    def flush(self) -> None:
        """Give the master what it may have; as master, admit what there is room for."""
        state = self._state
        if self._queue:
            if self._settled != state.replicated.applied:
                self._settle()
        elif not self._held:
            return
        fresh = self._given < self._first + len(self._queue) - 1
        if not (fresh or self._held) or not state.status.serving or state.leaving:
            return
        if state.status.leading:
            if not state.too_few_copies:
                self._admit()
        elif fresh and self._ready:
            self._send()

    @property
    def _ready(self) -> bool:
        """The number of this process is durable: no later one uses it again."""
        return self._booted is not None and self._state.output.is_durable(self._booted)

    def _send(self) -> None:
        state = self._state
        settings = state.settings
        view = state.accepted
        assert view is not None
        master = view.members[0].replica
        last = min(self._first + len(self._queue), self._first + settings.forward_window) - 1
        while self._given < last:
            payload = self._queue[self._given + 1 - self._first]
            if self._given_bytes and self._given_bytes + len(payload) > settings.forward_window_bytes:
                return
            self._given += 1
            self._given_bytes += len(payload)
            state.output.send(master, Forward(state.boot, self._given, payload))

    def on_forwarded(self, _now: float, voter: Voter, message: Forwarded) -> None:
        """The master says how far it is, and whether what comes after that was lost.

        What is on its way is not sent again for that: it would come twice, and so ask for the same of what
        follows, as long as there is something to send.
        """
        state = self._state
        view = state.accepted
        if (
            not state.status.serving
            or view is None
            or message.view != view.number
            or voter != view.members[0]
        ):
            return
        if message.boot == state.boot and self._known <= message.oseq < self._first + len(self._queue):
            self._known = message.oseq
            if message.gap:
                self._rewind(message.oseq)

    # The master

    def on_forward(self, _now: float, voter: Voter, message: Forward) -> None:
        """A member submits."""
        state = self._state
        view = state.accepted
        if not state.status.leading or view is None or voter not in view.members or message.oseq < 1:
            return
        held = self._held.get(voter.replica)
        if held is None or message.boot > held.boot:
            held = self._held[voter.replica] = Held(voter.incarnation, message.boot)
        elif message.boot < held.boot:
            return
        expected = self._expected(voter.replica, held)
        if message.oseq < expected or message.oseq in held.payloads:
            held.repeated = True
            return
        settings = state.settings
        size = len(message.payload)
        distance = message.oseq - expected
        if expected and (
            not distance
            or (
                distance < settings.forward_window and held.size_bytes + size <= settings.forward_window_bytes
            )
        ):
            held.payloads[message.oseq] = message.payload
            held.size_bytes += size
        elif expected:
            held.dropped = True

    def _expected(self, replica: int, held: Held) -> int:
        return self._admitted.expected(Source(replica, held.incarnation, held.boot, 0))

    def _admit(self) -> None:
        """Append what is next of each submitter, in turns, as long as there is room."""
        replication = self._replication
        stamp_ns = self.stamp()
        if stamp_ns is None:
            return
        if not self._held:
            last = self._first + len(self._queue) - 1
            while self._given < last and replication.room and self._admit_own(stamp_ns):
                pass
            return
        submitters = [*self._held, self._state.me.replica]
        idle = 0
        while idle < len(submitters) and replication.room:
            self._turn += 1
            admitted = self._admit_one(submitters[self._turn % len(submitters)], stamp_ns)
            idle = 0 if admitted else idle + 1
        for replica, held in self._held.items():
            if held.payloads or held.repeated or held.dropped:
                self._answer(replica, held)

    def _admit_one(self, replica: int, stamp_ns: int) -> bool:
        held = self._held.get(replica)
        if held is not None:
            if not held.payloads:
                return False
            expected = self._expected(replica, held)
            payload = held.payloads.pop(expected, None)
            if payload is None:
                return False
            held.size_bytes -= len(payload)
            held.pause_s = 0.0
            self._append(Source(replica, held.incarnation, held.boot, expected), stamp_ns, payload)
            return True
        return replica == self._state.me.replica and self._admit_own(stamp_ns)

    def _admit_own(self, stamp_ns: int) -> bool:
        position = self._given + 1 - self._first
        if position >= len(self._queue) or not self._ready:
            return False
        state = self._state
        payload = self._queue[position]
        self._given += 1
        self._given_bytes += len(payload)
        self._append(Source(*state.me, state.boot, self._given), stamp_ns, payload)
        return True

    def _append(self, source: Source, stamp_ns: int, payload: bytes) -> None:
        self._admitted.add(source)
        self._replication.admit(self._state.now, source, stamp_ns, payload)

    def _answer(self, replica: int, held: Held) -> None:
        """Tell a submitter how far this master is if it asks, or if something is missing before what came."""
        state = self._state
        view = state.accepted
        assert view is not None
        upto = self._expected(replica, held) - 1
        while upto + 1 in held.payloads:
            upto += 1
        # What fits is to be in the log before more of it is asked for.
        gap = any(number > upto for number in held.payloads) or (held.dropped and not held.payloads)
        if not (gap or held.repeated) or state.now < held.ask_at or upto < 0:
            return
        held.repeated = held.dropped = False
        held.pause_s = min(max(2 * held.pause_s, state.settings.heartbeat_s), MAX_ASK_PAUSE_S)
        held.ask_at = state.now + held.pause_s
        state.output.send(replica, Forwarded(view.number, held.boot, upto, gap))
