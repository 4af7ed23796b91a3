"""Members of a group that record what they are told: `member.py` in processes, as objects."""

import contextlib
import json
import signal
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .running import ROOT, Running, until
from .sequences import check

MEMBER = ROOT / "tests" / "processes" / "member.py"
MANY = 100_000
"""More messages than a member sends."""


class Starter(Protocol):
    """The fixture `start`."""

    def __call__(self, *arguments: object, **options: Any) -> Running:
        """Start Python with arguments."""
        ...


class Member:
    """A process with a member of the group."""

    def __init__(
        self,
        start: Starter,
        me: int,
        addresses: Sequence[object],
        *options: object,
        program: Sequence[object] = (MEMBER,),
        before: Sequence[str] = (),
        name: str = "",
    ) -> None:
        """Start it. `addresses` of all members; `options` for `member.py`; `before` as for `Running`.

        `name`: what it calls itself in its messages, another one for each life; its number by default.
        """
        self.me = me
        self.addresses = addresses
        self.name = name or str(me)
        self.process = start(*program, me, *addresses, "--name", self.name, *options, before=before)

    def say(self, line: str) -> None:
        """Tell it something."""
        self.process.say(line)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self.process.signal(number)

    def kill(self) -> None:
        """Kill it, and read what it said until then."""
        self.process.signal(signal.SIGKILL)
        self.process.rest()

    def until_confirmed(self, count: int) -> None:
        """Wait until it was told that so many of its messages are safe."""
        self.process.until(lambda line: line.startswith("confirmed ") and int(line.split()[1]) >= count)

    def report(self) -> dict[str, Any]:
        """Where it stands, what views it has seen, how much it has sent."""
        self.say("report")
        return dict(json.loads(self.process.until(lambda line: line.startswith("{"))))

    def until_report(self, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        """Ask until the report fulfils a condition; return it."""
        reports: list[dict[str, Any]] = []

        def fulfilled() -> object:
            reports[:] = [self.report()]
            return condition(reports[0])

        until(fulfilled, f"member {self.me}: {what}")
        return reports[0]

    def delivered(self) -> list[str]:
        """What it has delivered."""
        self.say("records")
        records = json.loads(self.process.until(lambda line: line.startswith("[")))
        return [payload for _, payload in records]

    def messages(self, count: int = MANY) -> list[str]:
        """Its first messages."""
        return [f"{self.name}:{number}" for number in range(1, count + 1)]

    def confirmed(self) -> list[str]:
        """Those of its messages that it was told to be safe, by the lines that were read."""
        last = next((line for line in reversed(self.process.lines) if line.startswith("confirmed ")), "")
        return self.messages(int(last.split()[1])) if last else []


def in_one_view(members: Sequence[Member]) -> int:
    """Wait until these, and only these, are the members of one view; return the master."""
    ids = sorted(member.me for member in members)

    def settled(report: dict[str, Any]) -> bool:
        return sorted(report["members"]) == ids and report["role"] in ("master", "slave")

    while True:
        reports = [member.until_report(settled, f"a view of {ids}") for member in members]
        if len({tuple(report["members"]) for report in reports}) == 1:
            return int(reports[0]["members"][0])


def check_members(
    members: Sequence[Member], gone: Sequence[Member] = (), **ended: Sequence[str]
) -> list[str]:
    """Compare what these members delivered, once all have the same; return it. Raises Wrong.

    gone: earlier ones, whose messages may be among them. ended: what some of those had delivered.
    """
    everybody = [*members, *gone]
    safe = [message for member in everybody for message in member.confirmed()]

    def same() -> bool:
        sequences = [member.delivered() for member in members]
        return all(sequence == sequences[0] for sequence in sequences) and set(safe) <= set(sequences[0])

    # If that fails, the check says it better.
    with contextlib.suppress(AssertionError):
        until(same, "that all delivered the same")
    return check(
        {member.name: member.delivered() for member in members},
        sent={member.name: member.messages() for member in everybody},
        acknowledged=safe,
        ended=ended,
    )
