"""The views that a replica has been in since its process began."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ...hachannel import ViewEvent
from ..http.views import ViewRecord

__all__ = ["MAX_VIEWS", "ViewHistory"]

MAX_VIEWS: Final = 200
"""The latest views that are kept."""


class ViewHistory:
    """The latest views of a replica."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        """wall_ns: returns the present time in nanoseconds since 1970."""
        self._wall_ns = wall_ns
        self._records: deque[ViewRecord] = deque(maxlen=MAX_VIEWS)

    @property
    def records(self) -> Sequence[ViewRecord]:
        """The views, the oldest first."""
        return tuple(self._records)

    def view(self, event: ViewEvent) -> None:
        """Add the view that the replica is in from now on."""
        self._records.append(
            ViewRecord(self._wall_ns(), str(event.view), event.master, event.members, event.reason)
        )
