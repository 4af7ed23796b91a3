"""I18: flow control. Queues, and what is in flight, stay within the settings."""

from collections.abc import Sequence

import attrs

from ...hachannel import Source, View, Voter
from ...hachannel.model.messages import PAYLOAD, Chunk, ChunkAck, Forward, TailEntries
from ...hachannel.model.view import Tag
from ...hachannel.transfer.flow_control import tail_fill
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("I18", "A member has no more payloads waiting, or on their way, than the settings allow.")
class ForwardWindow(Checker):
    """A member has no more payloads queued, or forwarded and undelivered, than the settings allow."""

    def stepped(self, step: Step) -> None:
        """Check the queue and the forwarded payloads."""
        host, settings = step.host, step.host.state.settings
        waiting = host.channel.forwarding
        if waiting > settings.forward_queue:
            self.fail(host, f"keeps {waiting} payloads")
        given = max((message.oseq for _, message in step.messages if isinstance(message, Forward)), default=0)
        if not given:
            return
        state = host.state
        done = state.replicated.submitters.last(*state.me, state.boot)
        sizes = [self._size(host, number) for number in range(done + 1, done + waiting + 1)]
        if sum(sizes[:-1]) >= settings.forward_queue_bytes:
            self.fail(host, f"keeps payloads of {sizes} bytes")
        sizes = sizes[: given - done]
        if given - done > settings.forward_window or (
            len(sizes) > 1 and sum(sizes) > settings.forward_window_bytes
        ):
            self.fail(
                host, f"has given {given - done} payloads that it has not seen delivered: {sizes} bytes"
            )

    def _size(self, host: Host, number: int) -> int:
        state = host.state
        return len(self.past.numbered[Source(*state.me, state.boot, number)])


@checker("I18", "A master has no more entries in flight than the settings allow.")
class SendWindow(Checker):
    """A master has at most `window` entries and `window_bytes` in flight. RECONFIG entries do not count."""

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """A master has appended entries."""
        host, state = step.host, step.host.state
        if not step.added or not state.leading:
            return
        log, settings = state.log, state.settings
        flight = [
            log.get(index) for index in range(max(state.replicated.commit, log.base.at) + 1, log.last.at + 1)
        ]
        sizes = [len(entry.payload) for entry in flight if entry.kind == PAYLOAD]
        if len(sizes) > settings.window or sum(sizes[:-1]) >= settings.window_bytes:
            self.fail(host, f"has {len(sizes)} entries of {sum(sizes)} bytes in flight")


@checker("I18", "A donor has no more pieces of a state on their way than the settings allow.")
class TransferWindow(Checker):
    """A donor has at most `transfer_window` pieces in flight, counted from the last one acknowledged."""

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._taken: dict[int, int] = {}
        """The pieces that the learner has acknowledged, by the token of the transfer."""

    def stepped(self, step: Step) -> None:
        """Note acknowledgements of learners, and check the pieces of donors."""
        window = step.host.state.settings.transfer_window
        for _, message in step.messages:
            if isinstance(message, ChunkAck):
                self._taken[message.token] = max(self._taken.get(message.token, 0), message.chunks)
            elif isinstance(message, Chunk) and message.number >= self._taken.get(message.token, 0) + window:
                taken = self._taken.get(message.token, 0)
                self.fail(step.host, f"sends piece {message.number}, of {taken} it knows that they are there")


@attrs.define
class _Beside:
    """The log tail that is sent beside one state."""

    start: int = 0
    acked: int = 0
    """The index up to which the learner has acknowledged entries."""
    sizes: dict[int, int] = attrs.field(factory=dict[int, int])
    """The payload bytes of each entry, by index."""
    under_way: list[int] = attrs.field(factory=list[int])
    """The last index of each message that is not acknowledged."""
    pieces: dict[int, int] = attrs.field(factory=dict[int, int])
    """The bytes of each piece of the state."""


@checker(
    "I18", "Entries beside a state: what is on its way, and what a learner takes, is what the settings allow."
)
class LogTailWindow(Checker):
    """The log tail beside a state is within the settings: what is in flight, and what a learner holds.

    A learner whose buffer is full acknowledges no more entries.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._transfers: dict[int, _Beside] = {}
        """The log tails by the token of the transfer."""

    def stepped(self, step: Step) -> None:
        """Check the messages of donors and the acknowledgements of learners."""
        settings = step.host.state.settings
        for _, message in step.messages:
            if isinstance(message, Chunk):
                self._of(message.token).pieces[message.number] = len(message.data)
            elif isinstance(message, TailEntries):
                beside, base = self._of(message.token), message.base.at
                beside.start = message.start
                beside.sizes.update((entry.index, len(entry.payload)) for entry in message.entries)
                # A repeated message replaces the earlier one.
                kept = [last for last in beside.under_way if beside.acked < last <= base]
                beside.under_way = [*kept, message.entries[-1].index]
                if len(beside.under_way) > settings.transfer_window:
                    self.fail(step.host, f"has {len(beside.under_way)} messages beside a state on their way")
            elif isinstance(message, ChunkAck) and message.tail > self._of(message.token).acked:
                self._acknowledge(step.host, message)

    def _of(self, token: int) -> _Beside:
        return self._transfers.setdefault(token, _Beside())

    def _acknowledge(self, host: Host, message: ChunkAck) -> None:
        beside = self._of(message.token)
        state = host.state
        held = range(max(beside.start, state.replicated.applied) + 1, beside.acked + 1)
        size = sum(beside.sizes[index] for index in held)
        # The application has a piece before the learner acknowledges it.
        taken = sum(size for number, size in beside.pieces.items() if number <= message.chunks)
        if tail_fill(state.settings, taken, len(held), size) >= 1:
            self.fail(host, f"takes more than the {len(held)} entries of {size} bytes beside a state")
        beside.acked = message.tail


@checker("I18", "A log counts the bytes of the entries that it holds, and no others.")
class LogByteCount(Checker):
    """`Log.size_bytes` is the sum of the payloads that the log holds.

    A replica whose log is too large is dropped, so a wrong count would drop the wrong ones. The sum is
    computed with each accepted view, when the base changes, and in the end.
    """

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._bases: dict[Voter, Tag] = {}
        """The base of each log when it was counted last."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """The log may have been truncated."""
        self._count(host)

    def stepped(self, step: Step) -> None:
        """The log may have been trimmed or replaced."""
        state = step.host.state
        if self._bases.get(state.me) != state.log.base:
            self._bases[state.me] = state.log.base
            self._count(step.host)

    def ended(self, hosts: Sequence[Host]) -> None:
        """Count every log."""
        for host in hosts:
            self._count(host)

    def _count(self, host: Host) -> None:
        log = host.state.log
        size = sum(len(log.get(index).payload) for index in range(log.base.at + 1, log.last.at + 1))
        if log.size_bytes != size:
            self.fail(host, f"counts {log.size_bytes} bytes of entries that have {size}")
