"""One state transfer, as the master sees it. A leaf: `Donor` decides, this remembers."""

import math
from collections import deque
from enum import Enum

import attrs

from ..model.messages import ChunkAck
from ..model.submitters import Rows
from ..model.view import Tag, Voter
from .chunks import Outbox, Parts
from .log_tail import Lead
from .pacing import Pacing

__all__ = ["Phase", "Transfer"]


class Phase(Enum):
    """How far a transfer has come."""

    STATE = "state"
    ENTRIES = "entries"


@attrs.define(eq=False)
class Transfer:
    """One state transfer."""

    voter: Voter
    opened: int
    """The token that it began with..."""
    token: int
    """...and the one it has now: each question whether the learner can answer takes a new one."""
    heard: float
    """The last sign of life of the transfer."""
    moved: float
    """When the learner last came further, or was sent again what it lacks."""
    came: float
    """When it last came further, or got entries after it had all."""
    again_s: float
    """When it has not come further for so long, what is under way is taken for lost."""
    phase: Phase
    outbox: Outbox
    pace: Pacing
    hold: int | None = None
    """The log above it is needed."""
    kept: int = 0
    """Pieces acknowledged before the last connection: a process behind it without them is another one."""
    begun: bool = False
    """The application knows of it."""
    asked: bool = False
    """The application owes a part."""
    rest: Parts = attrs.field(factory=Parts)
    """Parts that the application has given in advance."""
    at: Tag | None = None
    """The whole is the state after this entry: the application has given the last part."""
    origins: Rows = ()
    """Who had submitted how much then."""
    lead: Lead | None = None
    """Entries after the state that go beside it; None while it is not known after which one it is."""
    frozen: bool = False
    """What the application still gives is as of one entry, at `hold` or above."""
    have: int = 0
    """The learner has the state after this entry, 0 if none, and what `marker` says of earlier transfers."""
    marker: bytes = b""
    ahead_after: float = -math.inf
    """When entries go beside the state again: a few large messages cost less than many small ones."""
    follows: float = -math.inf
    """Since when it gets entries and no state."""
    reached: int = 0
    """Up to where the learner has said that it has what is committed."""
    sent: int = 0
    """The index of the last entry sent."""
    acked: int = 0
    """The same, acknowledged."""
    proof_asked: float = -math.inf
    """When it was last asked to answer, so that a view does not wait for one that cannot."""
    ask_again: float = -math.inf
    """When it is to be asked next."""
    proved: bool = False
    """It answered within the time that a view change waits, and may promise one."""
    doubted: float = math.inf
    """When it was first asked and has not answered in time since."""
    filled: float = math.inf
    """Since when the log has been as long as it may be, or the learner lacked more than it may."""
    awaited: bool = False
    """It was said that all wait for it."""
    came_back: int | None = None
    """The entry after which it wanted to begin again."""
    unread: ChunkAck | None = None
    """What it has taken meanwhile, said while the view changes."""
    in_flight: deque[int] = attrs.field(factory=deque[int])
    """The last indices of the CatchUp messages under way."""

    @property
    def whole(self) -> bool:
        """All that the application has given was sent: the learner installs it, perhaps for long."""
        return self.at is not None and not self.rest
