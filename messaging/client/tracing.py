"""What sessions tell a tracer of messages: that they send one, receive one, begin and end its handling.

`telemetry` is such a tracer, for OpenTelemetry. Without one a session does nothing for it.
"""

from typing import Protocol

from ...agents import ColumnValue
from .destinations import Destination
from .message import Message
from .producer import Outgoing

__all__ = ["Tracer", "Turn", "tracer", "use_tracer"]


class Turn(Protocol):
    """The handling of one message."""

    def end(self, error: BaseException | None = None) -> None:
        """Learn that it has ended, and how. More than once does no harm."""
        ...


class Tracer(Protocol):
    """Follows messages through the programs that send and receive them."""

    def sending(self, outgoing: Outgoing, destination: Destination) -> None:
        """Learn that a program sends a message. May add columns to it, and take the place of its waiter."""
        ...

    def not_sent(self, outgoing: Outgoing, error: BaseException) -> None:
        """Learn that a message of `sending` was not sent, or that nobody waits for its confirmation."""
        ...

    def received(self, message: Message) -> None:
        """Learn that a program gets a message, and handles it in a way of its own."""
        ...

    def begun(self, message: Message) -> Turn:
        """Learn that a listener, or the body of a loop, handles a message from now on."""
        ...

    def put_off(self) -> dict[str, ColumnValue]:
        """Return the properties by which a message that is sent later is followed from here."""
        ...


_tracers: list[Tracer] = []


def tracer() -> Tracer | None:
    """Return the tracer of this process, if there is one."""
    return _tracers[-1] if _tracers else None


def use_tracer(chosen: Tracer | None) -> None:
    """Have all sessions of this process tell a tracer, or none."""
    _tracers[:] = [] if chosen is None else [chosen]
