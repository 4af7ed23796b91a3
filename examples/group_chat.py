"""A chat without servers: a process group whose members read the same lines in the same order.

A chat whose room is an agent on servers is examples/chat_room.py. Run this one in up to three terminals, with
a name in each. A member that joins later receives the last lines::

    python -m examples.group_chat 0 ann
    python -m examples.group_chat 1 bob
    python -m examples.group_chat 2 cid
"""

import sys
from collections import deque
from typing import Any, cast

import msgspec
from twisted.internet.protocol import Protocol
from twisted.internet.stdio import StandardIO
from twisted.internet.task import react

from quorate.hachannel import Group, GroupError, ViewEvent

PORTS = (7310, 7311, 7312)
MAX_LINE_BYTES = 16 * 1024


class Chat(Protocol):
    """The member's state is the last lines; its input is this terminal."""

    def __init__(self, me: int, name: str, ports: tuple[int, ...]) -> None:
        self.name = name
        self.typed = b""
        self.lines: deque[str] = deque(maxlen=20)
        addresses = {member: ("localhost", port) for member, port in enumerate(ports)}
        self.group = Group("chat", me, addresses, handler=self, expected=2, log=self.log)

    def log(self, line: str) -> None:
        """Print why this member waits, and nothing else that the group logs."""
        if line == self.group.waits_for:
            print(line, flush=True)

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Print a line; it has the same number on every member."""
        del origin
        self.lines.append(f"{index:>4} {payload.decode(errors='replace')}")
        print(self.lines[-1], flush=True)

    def view_changed(self, view: ViewEvent) -> None:
        """Print how many members there are."""
        print(f"     ({len(view.members)} here)", flush=True)

    def provide_state(self) -> bytes:
        """Return the last lines, for a member that joins."""
        return msgspec.msgpack.encode(list(self.lines))

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the lines by those of the group."""
        self.lines.clear()
        self.lines.extend(msgspec.msgpack.decode(b"".join(chunks), type=list[str]))
        print("\n".join(self.lines), flush=True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Send the lines that were typed."""
        *lines, rest = (self.typed + data).split(b"\n")
        for line in lines:
            self.send(line)
        # Of a line that is too long, only enough is kept to recognise it.
        self.typed = rest[: MAX_LINE_BYTES + 1]

    def send(self, line: bytes) -> None:
        """Send a line to all members."""
        if len(line) > MAX_LINE_BYTES:
            print(f"a line has at most {MAX_LINE_BYTES} bytes: this one is not sent", flush=True)
            return
        text = f"{self.name}: {line.decode(errors='replace')}".encode()
        self.group.multicast(text).addErrback(lambda failure: print(failure.getErrorMessage()))

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        """Leave at Ctrl-D."""
        del reason
        self.group.leave()


async def main(_reactor: object) -> None:
    """Join, then send what is typed until the input ends."""
    try:
        me, name, *ports = sys.argv[1:]
        chat = Chat(int(me), name, tuple(map(int, ports)) or PORTS)
    except ValueError:
        sys.exit("usage: python -m examples.group_chat MEMBER NAME [PORT PORT PORT], members are 0, 1 and 2")
    try:
        await chat.group.join()
    except GroupError as error:
        sys.exit(str(error))
    cast("Any", StandardIO)(chat)
    await chat.group.stopped


if __name__ == "__main__":
    react(main)
