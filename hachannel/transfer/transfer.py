"""The donor's record of one state transfer: a class for the transfer and one for each of its two phases.

`Donor` and `CatchUpSender` decide what is sent; the classes here only hold data.
"""

from collections import deque

import attrs

from ..model.messages import ChunkAck
from ..model.submitters import Rows
from ..model.view import Tag, Voter
from .chunks import OutgoingChunks, Parts
from .log_tail import TailSender
from .pacing import Pacing

__all__ = ["CatchUpPhase", "CompleteState", "Proof", "Question", "StatePhase", "Transfer"]


@attrs.define(eq=False)
class CompleteState:
    """The end of a state: the application has provided the last part, or all parts in advance."""

    at: Tag
    """The entry that the state follows."""
    submitters: Rows
    """Table of submitters after that entry."""
    tail: TailSender
    """Committed entries after `at`, sent beside the state."""
    rest: Parts = attrs.field(factory=Parts)
    """Parts that the application has provided in advance and that are not sent yet."""


@attrs.define(eq=False)
class StatePhase:
    """The learner receives the state of the application in chunks."""

    chunks: OutgoingChunks
    pacing: Pacing
    marker: bytes = b""
    """Marker of earlier transfers, in the encoding of the learner's application."""
    have: int = 0
    """The learner has the state after this entry; 0 if it has none."""
    kept: int = 0
    """Chunks acknowledged before the connection was lost: a learner with fewer is another process."""
    begun: bool = False
    """The application has been asked for the first part."""
    asked: bool = False
    """The application has been asked for a part and has not answered."""
    frozen: bool = False
    """The application has named the entry that the state follows: `Transfer.hold` or a later one."""
    complete: CompleteState | None = None
    """The end of the state; None until the application has provided it."""
    tail_after: float | None = None
    """Time when entries may be sent beside the state again; None if at once. The pause gathers entries: few
    large messages cost less than many small ones."""
    unread: ChunkAck | None = None
    """The last acknowledgement that came while the view was changing."""

    @property
    def whole(self) -> bool:
        """Whether all parts were cut into chunks: the learner may be installing the state for long."""
        return self.complete is not None and not self.complete.rest

    @property
    def tail(self) -> TailSender | None:
        """The entries sent beside the state; None until the state is complete."""
        return None if self.complete is None else self.complete.tail

    def tail_due(self, now: float) -> bool:
        """Return whether the pause between two bursts of entries is over."""
        return self.tail_after is None or now >= self.tail_after


@attrs.frozen
class Question:
    """A message that only asks the learner to answer."""

    asked: float
    again: float
    """Time when the question is repeated."""


@attrs.define(eq=False)
class Proof:
    """Whether the learner has shown that it can answer in time and may promise a view."""

    question: Question | None = None
    """The last question since the view began; None if there was none."""
    given: bool = False
    """The learner answered within `view_change_s`, and no grant binds it."""
    slow: bool = False
    """The answer took longer than two heartbeats, as with a slow disk."""
    doubted: float | None = None
    """Time of the first question since the last answer in time; None if no question is open."""

    def forget(self) -> None:
        """Require a new proof, since the view has changed."""
        self.question = None
        self.given = False

    def missing_for(self, now: float) -> float:
        """Return the seconds since the first question without an answer in time; 0 if none is open."""
        return 0.0 if self.doubted is None else now - self.doubted


@attrs.define(eq=False)
class CatchUpPhase:
    """The learner has a state and receives the entries after it."""

    since: float
    sent: int
    """Index of the last entry sent; entries that seem lost do not count."""
    acked: int
    """Index of the last entry acknowledged."""
    state_bytes: int = 0
    """Bytes of the state that was transferred before; 0 if the learner needed entries only."""
    whole: bool = False
    """A whole state was transferred before."""
    reset_to: int | None = None
    """Entry after which the learner last asked to start again; None if it never did."""
    in_flight: deque[int] = attrs.field(factory=deque[int])
    """Index of the last entry of each CatchUp message in flight."""
    proof: Proof = attrs.field(factory=Proof)

    def rewind(self) -> None:
        """Consider all entries lost that were sent and not acknowledged."""
        self.in_flight.clear()
        self.sent = self.acked


@attrs.define(eq=False)
class Transfer:
    """One state transfer. Times are those of `now`, in seconds."""

    voter: Voter
    first_token: int
    token: int
    """The present token: each question (see `Proof`) has a new one."""
    heard: float
    """Time of the last message of the learner for this transfer."""
    moved: float | None
    """Time when the learner last made progress, or when messages were sent again.

    None after the connection was lost: the next Join of the learner shows what it has.
    """
    progressed: float
    """Time when the learner last made progress, or when new entries were sent after it had all."""
    resend_s: float
    """After this time without progress, the messages in flight are considered lost and sent again."""
    phase: StatePhase | CatchUpPhase
    hold: int | None = None
    """The log above this index is kept for the learner; None if none of it is."""
    reached: int = 0
    """The commit index that the learner last announced."""
    full_since: float | None = None
    """Start of the time in which the log is full, or the learner lags too far; None if neither."""
    wait_noted: bool = False
    """The log has the note that all wait for this learner."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state that the learner has acknowledged."""
        phase = self.phase
        return phase.chunks.acked_bytes if isinstance(phase, StatePhase) else phase.state_bytes
