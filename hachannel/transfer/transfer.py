"""One state transfer as the donor remembers it: what both phases share, and one class for each phase.

`Donor` and `CatchUpSender` decide what is sent; the classes here only remember.
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
    """The end of a state: the application has given the last part, or all parts in advance."""

    at: Tag
    """The whole is the state after this entry."""
    submitters: Rows
    """The rows of the submitters after that entry."""
    tail: TailSender
    """Committed entries after `at`, sent beside the state."""
    rest: Parts = attrs.field(factory=Parts)
    """Parts that the application has given in advance and that are not sent yet."""


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
    """Chunks acknowledged before the connection was lost: a learner that has fewer is another process."""
    begun: bool = False
    """The application was asked for the first part."""
    asked: bool = False
    """The application was asked for a part and has not answered."""
    frozen: bool = False
    """The application has named the entry after which the whole is the state: `Transfer.hold` or later."""
    complete: CompleteState | None = None
    """None until the application has given the last part."""
    tail_after: float | None = None
    """When entries may be sent beside the state again; None: at once. Few large messages cost less than many
    small ones."""
    unread: ChunkAck | None = None
    """The last acknowledgement that came while the view was changing."""

    @property
    def whole(self) -> bool:
        """Every part was cut into chunks: the learner may install the state, which may take long."""
        return self.complete is not None and not self.complete.rest

    @property
    def tail(self) -> TailSender | None:
        """The entries sent beside the state; None until it is known which entry the state follows."""
        return None if self.complete is None else self.complete.tail

    def tail_due(self, now: float) -> bool:
        """Whether the pause between two bursts of entries is over."""
        return self.tail_after is None or now >= self.tail_after


@attrs.frozen
class Question:
    """A message that only asks the learner to answer."""

    asked: float
    again: float
    """When it is asked again."""


@attrs.define(eq=False)
class Proof:
    """Whether the learner has shown that it can answer in time and may promise a view."""

    question: Question | None = None
    """The last question since the view began; None if there was none."""
    given: bool = False
    """The learner answered within `view_change_s`, and no grant binds it."""
    doubted: float | None = None
    """When the first question was asked that has not been answered in time since; None if none is open."""

    def forget(self) -> None:
        """Ask anew in another view."""
        self.question = None
        self.given = False

    def missing_for(self, now: float) -> float:
        """Seconds since the first question without an answer in time; 0 if none is open."""
        return 0.0 if self.doubted is None else now - self.doubted


@attrs.define(eq=False)
class CatchUpPhase:
    """The learner has a state and receives the entries after it."""

    since: float
    sent: int
    """Index of the last entry sent and not taken for lost."""
    acked: int
    """Index of the last entry acknowledged."""
    state_bytes: int = 0
    """Bytes of the state that was transferred before; 0 if the learner needed entries only."""
    whole: bool = False
    """A whole state was transferred before."""
    reset_to: int | None = None
    """The entry after which the learner last wanted to begin again."""
    in_flight: deque[int] = attrs.field(factory=deque[int])
    """The last indices of the CatchUp messages under way."""
    proof: Proof = attrs.field(factory=Proof)

    def rewind(self) -> None:
        """Take everything sent and not acknowledged for lost."""
        self.in_flight.clear()
        self.sent = self.acked


@attrs.define(eq=False)
class Transfer:
    """One state transfer. Times are those of `now`, in seconds."""

    voter: Voter
    first_token: int
    token: int
    """The present token: each question whether the learner can answer takes a new one."""
    heard: float
    """When the learner last sent anything of this transfer."""
    moved: float | None
    """When the learner last made progress, or was sent again what it lacks.

    None after the connection was lost: the next Join of the learner tells what it has.
    """
    progressed: float
    """When the learner last made progress, or got entries after it had all."""
    resend_s: float
    """After this time without progress, what is in flight is taken for lost."""
    phase: StatePhase | CatchUpPhase
    hold: int | None = None
    """The log above this index is kept for the learner; None if none of it is."""
    reached: int = 0
    """The commit index that the learner last announced."""
    full_since: float | None = None
    """Since when the log is full, or the learner lacks more than it may; None if neither."""
    wait_noted: bool = False
    """The replica's log file already says that all wait for this learner."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state that the learner has acknowledged."""
        phase = self.phase
        return phase.chunks.acked_bytes if isinstance(phase, StatePhase) else phase.state_bytes
