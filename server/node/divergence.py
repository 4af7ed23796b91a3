"""Detection of a replica whose state differs from the others of its view. Pure.

The slaves report digests of their states to the master, which judges them. A replica that differs is
disqualified: it serves no longer, and its channel gets it the state of another replica.
"""

from collections.abc import Callable, Sequence
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
    ) -> None:
        """`log` takes lines for the log."""
        self._me = me
        self._engine = engine
        self._channel = channel
        self._log = log
        self._book = DigestBook(me)
        self._view: ViewEvent | None = None
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

    def start_digest(self, now: float, index: int) -> None:
        """Start the digest of the state after the entry `index`, which has just been applied."""
        view = self._view
        if view is None or len(view.members) < 2:
            return
        if self.running is not None:
            # Finish the earlier one at once: with positions this close together little of it is left.
            self._advance(now, None, None)
        self.running = self._engine.incremental_digest()
        self._index = index
        self._share = -(-self.running.left // SHARES)

    def applied(self, now: float) -> None:
        """Compute a share of the digest, because an entry was applied."""
        if self.running is not None:
            self._advance(now, self._share, None)

    def step(self, now: float) -> None:
        """Compute the digest of some more agents."""
        if self.running is not None:
            self._advance(now, SLICE_AGENTS, SLICE_BYTES)

    def _advance(self, now: float, limit: int | None, max_bytes: int | None) -> None:
        digest = self.running
        assert digest is not None
        if digest.step(limit, max_bytes):
            self.running = None
            self._report(now, self._index, digest.digest)

    def _report(self, now: float, index: int, digest: bytes) -> None:
        view = self._view
        assert view is not None
        if view.master == self._me:
            self._judge(now, self._book.report(self._me, index, digest, view.members))
        else:
            self._channel.send_direct(view.master, encode_direct(Report(index, digest)))

    def received(self, now: float, event: DirectReceived) -> None:
        """Handle a message of another replica; unknown ones are ignored."""
        message = decode_direct(event.data)
        view = self._view
        if view is None:
            return
        if isinstance(message, Report):
            if view.master == self._me and event.peer in view.members:
                verdicts = self._book.report(event.peer, message.index, message.digest, view.members)
                self._judge(now, verdicts)
        elif isinstance(message, Diverged) and event.peer == view.master:
            self._diverged(now, message.after, message.index)

    def _judge(self, now: float, verdicts: Sequence[Verdict]) -> None:
        if self._channel.standing.unfit:
            # The other replicas are compared by the next master.
            return
        for verdict in verdicts:
            if verdict.replica == self._me:
                self._diverged(now, verdict.after, verdict.index)
            else:
                self._log(f"{verdict.sentence}; it gets the state of another one")
                self._channel.send_direct(
                    verdict.replica, encode_direct(Diverged(verdict.after, verdict.index))
                )

    def _diverged(self, now: float, after: int, index: int) -> None:
        verdict = Verdict(self._me, after, index)
        self._channel.disqualify(
            now,
            f"{verdict.sentence}: an agent is not deterministic; this replica does not serve until it has "
            "the state of another one",
        )
