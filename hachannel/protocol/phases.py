"""The phases of a replica, and which may follow which: the source of the diagrams in docs/states.md.

``python -m quorate.hachannel`` prints that page. Every simulation compares every step with these tables.
"""

from collections.abc import Sequence
from textwrap import fill
from typing import Final, NamedTuple

import attrs

__all__ = ["ROLES", "START", "TABLES", "VIEW_CHANGE", "Move", "Phases", "Table", "page"]

PAGE_COLUMNS = 110
"""Width of the lines of the page."""

START: Final = "[*]"
"""Before the first phase of a process."""


@attrs.frozen
class Move:
    """One phase may follow another within one step."""

    source: str
    target: str
    when: str


@attrs.frozen
class Table:
    """The phases of one part, and all moves between them."""

    title: str
    text: str
    moves: Sequence[Move]

    def allows(self, source: str, target: str) -> bool:
        """Whether `target` may follow `source`."""
        return source == target or any((move.source, move.target) == (source, target) for move in self.moves)

    def diagram(self) -> str:
        """The table as a state diagram in Mermaid."""
        lines = (f"    {move.source} --> {move.target}: {move.when}" for move in self.moves)
        return "\n".join(["stateDiagram-v2", *lines])


class Phases(NamedTuple):
    """Where one replica is."""

    role: str
    """In the table `ROLES`."""
    change: str
    """In the table `VIEW_CHANGE`."""
    learning: str
    """In the table `LEARNING`."""
    giving: str
    """In the table `GIVING`."""


ROLES = Table(
    "Roles",
    "`Channel.role` and `quorate status` show the role. One step can take a replica through several phases:"
    " the diagram shows in which one it can be after the step.",
    (
        Move(START, "joining", "a process begins outside every view"),
        Move(START, "changing", "its disk says that it was a member"),
        Move(START, "blocked", "its disk says that it was a member, and no other replica can be reached"),
        Move(START, "master", "a cluster of one"),
        Move(START, "stopped", "it leaves at once"),
        Move(START, "witness", "its disk says that it votes"),
        Move("joining", "witness", "a view counts it among its voters"),
        Move("witness", "joining", "a view without it is active"),
        Move("witness", "stopped", "it leaves, or hears of a cluster begun again after its own"),
        Move("joining", "changing", "it accepts a view"),
        Move("joining", "blocked", "it accepts a view, and too few are left"),
        Move("changing", "master", "the view is active and lists it first"),
        Move("changing", "slave", "the view is active"),
        Move("changing", "joining", "a view without it is active"),
        Move("changing", "blocked", "too few can be reached"),
        Move("slave", "changing", "it promises another view"),
        Move("slave", "joining", "a view without it is active"),
        Move("slave", "blocked", "too few can be reached"),
        Move("master", "changing", "it promises another view"),
        Move("master", "joining", "a view without it is active"),
        Move("master", "blocked", "too few can be reached"),
        Move("blocked", "changing", "enough can be reached"),
        Move("blocked", "slave", "enough can be reached, and its view still stands"),
        Move("blocked", "master", "enough can be reached, and it is first in its view, which still stands"),
        Move("blocked", "joining", "a view without it is active"),
        Move("joining", "stopped", "it leaves, or hears of a cluster begun again after its own"),
        Move("changing", "stopped", "it leaves, or hears of a cluster begun again after its own"),
        Move("slave", "stopped", "it leaves, or hears of a cluster begun again after its own"),
        Move(
            "master",
            "stopped",
            "it leaves, alone or after waiting in vain, or hears of a cluster begun again after its own",
        ),
        Move("blocked", "stopped", "it leaves, or hears of a cluster begun again after its own"),
    ),
)

VIEW_CHANGE = Table(
    "The proposer of a view",
    "A replica that proposes a view goes through these phases. A failure in any of them leads back to `idle`,"
    " and to another attempt with a higher number.",
    (
        Move(START, "idle", "a process begins"),
        Move(START, "preparing", "a cluster of one comes back from its disk"),
        Move("idle", "preparing", "enough voters do not follow the master, or a slave comes or goes"),
        Move("preparing", "fetching", "another member has the longest log"),
        Move("preparing", "installing", "the promises suffice, and its own log is the longest"),
        Move("preparing", "idle", "refused, out of time, or another replica proposes"),
        Move("fetching", "installing", "it has received the end of that log"),
        Move("fetching", "preparing", "out of time, a new attempt begins"),
        Move("fetching", "idle", "out of time, or another replica proposes"),
        Move("installing", "idle", "the view is active, or the attempt failed"),
        Move("installing", "preparing", "the attempt failed, a new one begins"),
    ),
)

LEARNING = Table(
    "A replica that joins",
    "A replica that is not in the view, because it is new or was cut off, announces itself until the master"
    " accepts it as its learner. If another master continues the transfer, it continues from the part of the"
    " state that the learner has.",
    (
        Move(START, "alone", "a process begins"),
        Move("alone", "state", "the first part of a state comes"),
        Move("alone", "entries", "the log of the master reaches back to what it has, entries come"),
        Move("state", "entries", "the whole state is installed"),
        Move("state", "alone", "a view includes it, or the transfer failed"),
        Move("entries", "state", "another transfer begins with a state"),
        Move("entries", "alone", "a view includes it"),
    ),
)

GIVING = Table(
    "A master with a learner",
    "The phases say what the master sends to its learner. It serves one learner at a time, and its clients"
    " all the while.",
    (
        Move(START, "nobody", "a process begins"),
        Move("nobody", "state", "a replica that needs the state announces itself"),
        Move("nobody", "entries", "a replica announces itself, and the log has all that it lacks"),
        Move("state", "entries", "it has installed the state"),
        Move("state", "nobody", "it is gone or too slow, or this replica is no longer master"),
        Move("entries", "state", "the learner begins again, from the state"),
        Move(
            "entries",
            "nobody",
            "a view includes it, it is gone or too slow, or this replica is no longer master",
        ),
    ),
)

TABLES = {"role": ROLES, "change": VIEW_CHANGE, "learning": LEARNING, "giving": GIVING}
"""By the field of `Phases`."""


def page() -> str:
    """The text of docs/states.md."""
    parts = [
        "# The states of a replica",
        fill(
            "This page lists the phases of a replica, and which may follow which."
            " `python -m quorate.hachannel` prints it from the tables in `hachannel/protocol/phases.py`."
            " Every step of every simulation is compared with these tables.",
            PAGE_COLUMNS,
        ),
    ]
    for table in TABLES.values():
        parts += [f"## {table.title}", fill(table.text, PAGE_COLUMNS), f"```mermaid\n{table.diagram()}\n```"]
    return "\n\n".join(parts) + "\n"
