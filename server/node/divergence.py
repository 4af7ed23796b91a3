"""How a node compares its state with the other members of its view, and what follows when they differ. Pure.

The slaves tell the master their digests; the master decides, and tells the one that differs.
"""

from collections.abc import Callable
from typing import Final

from ...engine import Engine, IncrementalDigest
from ...hachannel import Channel, Told, ViewEvent
from .digests import DigestBook, Diverged, Report, Verdict, decode_tell, encode_tell

__all__ = ["Comparison"]

SLICE_AGENTS: Final = 400
SLICE_BYTES: Final = 1024 * 1024
"""Agents, and bytes of them, looked at for a digest at a time: a few milliseconds."""
SHARES: Final = 128
"""Whatever else there is to do, a digest is complete after so many entries."""


class Comparison:
    """One node's part in it.

    The digest at a position is reckoned while the node goes on: with each entry a share of it, the rest when
    there is nothing else to do.
    """

    def __init__(
        self,
        me: int,
        engine: Engine,
        channel: Channel,
        say: Callable[[str], None],
        condemn: Callable[[str], None],
    ) -> None:
        """`say` takes lines for the log; `condemn` takes the sentence when this replica differs."""
        self._me = me
        self._engine = engine
        self._channel = channel
        self._say = say
        self._condemn = condemn
        self._book = DigestBook(me)
        self._view: ViewEvent | None = None
        self._blamed: set[int] = set()
        self._reckoning: IncrementalDigest | None = None
        self._index = 0
        """The position that is reckoned."""
        self._share = 0

    def begin(self, view: ViewEvent) -> None:
        """A view has begun: what was reported of another one counts no longer."""
        self._view = view
        self._book.clear()
        if self._reckoning is not None:
            self._reckoning.close()
            self._reckoning = None

    def compare(self, index: int) -> None:
        """The entry `index`, after which all replicas compare, was applied."""
        view = self._view
        if view is None or len(view.members) < 2:
            return
        if self._reckoning is not None:
            # The positions are so close together that this costs little.
            self._step(None, None)
        self._reckoning = self._engine.incremental_digest()
        self._index = index
        self._share = -(-self._reckoning.left // SHARES)

    @property
    def busy(self) -> bool:
        """A digest is being reckoned: call `go_on` when there is nothing else to do."""
        return self._reckoning is not None

    def applied(self) -> None:
        """An entry was applied."""
        if self._reckoning is not None:
            self._step(self._share, None)

    def go_on(self) -> None:
        """Look at some more agents."""
        if self._reckoning is not None:
            self._step(SLICE_AGENTS, SLICE_BYTES)

    def _step(self, limit: int | None, max_bytes: int | None) -> None:
        reckoning = self._reckoning
        assert reckoning is not None
        if reckoning.step(limit, max_bytes):
            self._reckoning = None
            self._report(self._index, reckoning.digest)

    def _report(self, index: int, digest: bytes) -> None:
        view = self._view
        assert view is not None
        if view.master == self._me:
            self._judge(self._book.report(self._me, index, digest, view.members))
        else:
            self._channel.tell(view.master, encode_tell(Report(index, digest)))

    def told(self, event: Told) -> None:
        """Another replica says something."""
        message = decode_tell(event.data)
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
        # The others must be able to go on without it; if not, it waits until there are more of them.
        voters = self._channel.view.config if self._channel.view is not None else ()
        spare = len(view.members) - 1 > len(voters) // 2
        if verdict.replica == self._me and spare:
            self._diverged(verdict.after, verdict.index)
            return
        if spare:
            self._say(f"{verdict.sentence}; it is told to fetch the state again")
            self._channel.tell(verdict.replica, encode_tell(Diverged(verdict.after, verdict.index)))
        elif verdict.replica not in self._blamed:
            self._say(f"{verdict.sentence}; too few replicas are left to replace it")
        self._blamed.add(verdict.replica)

    def _diverged(self, after: int, index: int) -> None:
        verdict = Verdict(self._me, after, index)
        self._condemn(
            f"{verdict.sentence}: an agent is not deterministic; it stops serving and fetches the state again"
        )
