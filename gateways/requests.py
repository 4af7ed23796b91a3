"""What every foreign protocol asks of the service that carries it out."""

import attrs

__all__ = ["Close", "Commit", "Rollback"]


@attrs.frozen
class Commit:
    """End a transaction, so that all of it takes effect. Done when it has."""

    token: int
    transaction: str


@attrs.frozen
class Rollback:
    """Give a transaction up. Done when that is sent."""

    token: int
    transaction: str


@attrs.frozen
class Close:
    """Close the connection once everything is written."""

    reason: str
    """For the log; empty: the client has asked for it."""
