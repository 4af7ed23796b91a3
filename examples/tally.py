"""A sum that three processes keep together; each adds the number of its command line.

Run it in three terminals. Ctrl-C leaves. The others keep the sum; a process that starts again receives it::

    python -m examples.tally 0 5
    python -m examples.tally 1 7
    python -m examples.tally 2 30
"""

import sys
from typing import Any

from twisted.internet.task import react

from quorate.hachannel import Group, GroupError, ViewEvent

PORTS = (7320, 7321, 7322)


class Tally:
    """The handler: its state is one number."""

    def __init__(self) -> None:
        self.sum = 0

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Add a number; every member adds the same ones in the same order."""
        self.sum += int(payload)
        print(f"message {index}: member {origin} adds {int(payload)}, the sum is {self.sum}", flush=True)

    def view_changed(self, view: ViewEvent) -> None:
        """Print the members."""
        print(f"members {view.members}, master {view.master}, the sum is {self.sum}", flush=True)

    def provide_state(self) -> bytes:
        """Return the sum, for a member that joins."""
        return str(self.sum).encode()

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the sum by that of the group."""
        self.sum = int(b"".join(chunks))


async def main(reactor: Any) -> None:
    """Join the group, add the number, stay until Ctrl-C."""
    try:
        me, number, *ports = map(int, sys.argv[1:])
        addresses = {id: ("localhost", port) for id, port in enumerate(ports or PORTS)}
        group = Group("tally", me, addresses, handler=Tally(), log=print)
    except ValueError:
        sys.exit("usage: python -m examples.tally MEMBER NUMBER [PORT PORT PORT], members are 0, 1 and 2")
    reactor.addSystemEventTrigger("before", "shutdown", group.leave)
    try:
        await group.join()
    except GroupError as error:
        sys.exit(str(error))
    index = await group.multicast(str(number).encode())
    print(f"every member holds message {index}", flush=True)
    await group.stopped


if __name__ == "__main__":
    react(main)
