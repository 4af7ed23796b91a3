"""A view of the replicas of a server, as it is shown."""

import attrs

__all__ = ["ViewRecord"]


@attrs.frozen
class ViewRecord:
    """A view, and when a replica came to be in it."""

    at_ns: int
    """In nanoseconds since 1970."""
    number: str
    master: int
    members: tuple[int, ...]
    """The replicas of the view, that of the master first."""
    reason: str
    """Why there is a new view."""
