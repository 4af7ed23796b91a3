"""The handshake of a group: the check which members may connect to each other. Pure."""

from collections.abc import Mapping
from typing import Any

from ..model.errors import ProtocolError
from .wire import Hello, Shared, encode_hello, parse_hello

__all__ = ["Dialer", "check_peer"]


class Dialer:
    """The connecting side of a handshake: it sends its hello and receives that of the other side."""

    def __init__(self, hello: Hello) -> None:
        self._hello = hello
        self._answer: Hello | None = None

    @property
    def first(self) -> bytes:
        """The frame to send first."""
        return encode_hello(self._hello)

    @property
    def done(self) -> bool:
        """Whether the connection may be used."""
        return self._answer is not None

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the other side's hello; empty before it has arrived."""
        return {} if self._answer is None else self._answer.fields

    def receive(self, frame: bytes) -> list[bytes]:
        """Read the hello of the other side. Raises ProtocolError if that refuses this member."""
        answer = parse_hello(frame)
        _check_group(self._hello, answer)
        self._answer = answer
        return []


def check_peer(mine: Hello, other: Hello, known: tuple[int, str]) -> None:
    """Check the hello of a member that connects. Raises ProtocolError with the reason to refuse it.

    known: the life of that member that was connected last, as (incarnation, nonce); (0, "") if unknown.
    """
    _check_group(mine, other)
    if other.replica == mine.replica:
        raise ProtocolError(f"member {other.replica} is already this one: give another id")
    if other.replica not in mine.ids:
        raise ProtocolError(f"the group has no member {other.replica}: give every member the same addresses")
    _check_life(other.replica, (other.incarnation, other.nonce), known)
    _check_life(mine.replica, (mine.incarnation, mine.nonce), (other.knows, other.knows_nonce))


def _check_group(mine: Hello, other: Hello) -> None:
    """Check that both belong to one group and agree on it. The errors are true on either side."""
    if other.group != mine.group:
        raise ProtocolError(
            "it is a member of another group: give every member the same name, or another port"
        )
    both = sorted((mine, other), key=lambda hello: hello.replica)
    if other.ids != mine.ids:
        said = " and ".join(
            f"member {hello.replica} knows the members {', '.join(map(str, hello.ids))}" for hello in both
        )
        raise ProtocolError(f"{said}: give every member the same addresses")
    if other.shared != mine.shared:
        names = Shared.__struct_fields__
        differ = [name for name in names if getattr(other.shared, name) != getattr(mine.shared, name)]
        said = " and ".join(
            f"member {hello.replica} has "
            + ", ".join(f"{name} {getattr(hello.shared, name)}" for name in differ)
            for hello in both
        )
        raise ProtocolError(f"{said}: give every member the same settings")


def _check_life(member: int, life: tuple[int, str], known: tuple[int, str]) -> None:
    """Check that a life of a member is not older than the one that was connected last."""
    if life[0] < known[0]:
        raise ProtocolError(
            f"member {member} has a lower incarnation than a life of it that was here before: if another "
            f"process runs as member {member}, stop one of the two; if none does, its clock was set back: "
            f"correct the clock and start the member again, or give it an incarnation above {known[0]}"
        )
    if life[0] == known[0] and life[1] != known[1]:
        raise ProtocolError(
            f"member {member} has the incarnation {known[0]}, as another life of it had before: if another "
            f"process runs as member {member}, stop one of the two; if none does, give every life a higher "
            "one, or none"
        )
