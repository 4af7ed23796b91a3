"""Detection of a replica whose state differs from the others of its view, and its recovery. Pure.

The slaves report digests of their states to the master. The master judges them, and orders a slave that
differs to fetch the state again.
"""

from collections.abc import Callable
from typing import Final

from ...engine import Engine, IncrementalDigest
from ...hachannel import Channel, DirectReceived, ViewEvent
from .digests import DigestBook, Diverged, Report, Verdict, decode_direct, encode_direct

__all__ = ["DivergenceDetector"]

SLICE_AGENTS: Final = 400
SLICE_BYTES: Final = 1024 * 1024
"""Agents, and bytes of them, that one step of a digest reads: a few milliseconds."""
SHARES: Final = 128
"""A digest is complete after this many entries at the latest, whatever else there is to do."""


class DivergenceDetector:
    """Computes digests of the state, reports them to the master, and judges those of the slaves as master.

    The digest after an entry is computed while later entries are applied: one share with each of them, the
    rest when there is nothing else to do.
    """

    def __init__(
        self,
        me: int,
        engine: Engine,
        channel: Channel,
        log: Callable[[str], None],
        on_diverged: Callable[[str], None],
    ) -> None:
        """`log` takes lines for the log; `on_diverged` takes the sentence when this replica differs."""
        self._me = me
        self._engine = engine
        self._channel = channel
        self._log = log
        self._on_diverged = on_diverged
        self._book = DigestBook(me)
        self._view: ViewEvent | None = None
        self._reported: set[int] = set()
        self.running: IncrementalDigest | None = None
        """The digest that is being computed, if any: call `step` when there is nothing else to do."""
        self._index = 0
        """The entry after which the state has that digest."""
        self._share = 0

    def begin_view(self, view: ViewEvent) -> None:
        """Begin a view: drop the digests that were reported in an earlier view."""
        self._view = view
        self._book.clear()
        if self.running is not None:
            self.running.close()
            self.running = None

    def start_digest(self, index: int) -> None:
        """Start the digest of the state after the entry `index`, which has just been applied."""
        view = self._view
        if view is None or len(view.members) < 2:
            return
        if self.running is not None:
            # Finish the earlier one at once: with positions this close together little of it is left.
            self._advance(None, None)
        self.running = self._engine.incremental_digest()
        self._index = index
        self._share = -(-self.running.left // SHARES)

    def applied(self) -> None:
        """Compute a share of the digest, because an entry was applied."""
        if self.running is not None:
            self._advance(self._share, None)

    def step(self) -> None:
        """Compute the digest of some more agents."""
        if self.running is not None:
            self._advance(SLICE_AGENTS, SLICE_BYTES)

    def _advance(self, limit: int | None, max_bytes: int | None) -> None:
        digest = self.running
        assert digest is not None
        if digest.step(limit, max_bytes):
            self.running = None
            self._report(self._index, digest.digest)

    def _report(self, index: int, digest: bytes) -> None:
        view = self._view
        assert view is not None
        if view.master == self._me:
            self._judge(self._book.report(self._me, index, digest, view.members))
        else:
            self._channel.send_direct(view.master, encode_direct(Report(index, digest)))

    def received(self, event: DirectReceived) -> None:
        """Handle a message of another replica; unknown ones are ignored."""
        message = decode_direct(event.data)
        view = self._view
        if view is None:
            return
        if isinstance(message, Report):
            if view.master == self._me and event.peer in view.members:
                self._judge(self._book.report(event.peer, message.index, message.digest, view.members))
        elif isinstance(message, Diverged) and event.peer == view.master:
            self._diverged(message.after, message.index)

    def _judge(self, verdict: Verdict | None) -> None:
        view = self._view
        if verdict is None or view is None:
            return
        # A replica may only leave if the others are a majority without it.
        voters = self._channel.view.config if self._channel.view is not None else ()
        spare = len(view.members) - 1 > len(voters) // 2
        if verdict.replica == self._me and spare:
            self._diverged(verdict.after, verdict.index)
            return
        if spare:
            self._log(f"{verdict.sentence}; it is ordered to fetch the state again")
            self._channel.send_direct(verdict.replica, encode_direct(Diverged(verdict.after, verdict.index)))
        elif verdict.replica not in self._reported:
            self._log(f"{verdict.sentence}; too few replicas are left to replace it")
        self._reported.add(verdict.replica)

    def _diverged(self, after: int, index: int) -> None:
        verdict = Verdict(self._me, after, index)
        self._on_diverged(
            f"{verdict.sentence}: an agent is not deterministic; it stops serving and fetches the state again"
        )
