"""A counter that three processes keep together.

Run it in three terminals. Each number that is typed in one of them is added in all three. Stop a process and
start it again: it receives the sum. Stop the master: the others continue::

    python -m examples.counter 0
    python -m examples.counter 1
    python -m examples.counter 2
"""

import sys
from typing import Any, cast

from twisted.internet.stdio import StandardIO
from twisted.internet.task import react
from twisted.protocols.basic import LineOnlyReceiver

from quorate.hachannel import Group, GroupError, ViewEvent

PORTS = (7300, 7301, 7302)


class Counter(LineOnlyReceiver):
    """The member's state is one number; its input is this terminal."""

    delimiter = b"\n"

    def __init__(self, me: int, ports: tuple[int, ...]) -> None:
        self.sum = 0
        addresses = {member: ("localhost", port) for member, port in enumerate(ports)}
        # Two found the group; the third may come at any time.
        self.group = Group("counter", me, addresses, handler=self, expected=2, log=self.log)

    def log(self, line: str) -> None:
        """Print why this member waits, and nothing else that the group logs."""
        if line == self.group.waits_for:
            print(line, flush=True)

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Add a number; every member adds the same ones in the same order."""
        self.sum += int(payload)
        print(f"{index}: member {origin} adds {int(payload)}, the sum is {self.sum}", flush=True)

    def view_changed(self, view: ViewEvent) -> None:
        """Print the members."""
        print(f"members {view.members}, master {view.master}, the sum is {self.sum}", flush=True)

    def provide_state(self) -> bytes:
        """Return the sum, for a member that joins."""
        return str(self.sum).encode()

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the sum by that of the group."""
        self.sum = int(b"".join(chunks))

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """Send a number that was typed."""
        try:
            self.group.multicast(str(int(line)).encode()).addErrback(
                lambda failure: print(failure.getErrorMessage())
            )
        except ValueError:
            print("type a number, or Ctrl-D to leave")

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        """Leave at Ctrl-D."""
        del reason
        self.group.leave()


async def main(_reactor: object) -> None:
    """Join, then add what is typed until the input ends."""
    try:
        me, *ports = (int(argument) for argument in sys.argv[1:])
        counter = Counter(me, tuple(ports) or PORTS)
    except ValueError:
        sys.exit("usage: python -m examples.counter MEMBER [PORT PORT PORT], members are 0, 1 and 2")
    try:
        await counter.group.join()
    except GroupError as error:
        sys.exit(str(error))
    cast("Any", StandardIO)(counter)
    await counter.group.stopped


if __name__ == "__main__":
    react(main)
