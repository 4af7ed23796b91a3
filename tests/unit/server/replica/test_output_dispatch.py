"""The outputs of a node reach the parts of the replica, in order and independent of each other."""

from types import SimpleNamespace
from typing import Any

from quorate.engine import Effects
from quorate.server.metrics import Metrics
from quorate.server.node.outputs import Output
from quorate.server.replica.output_dispatch import OutputDispatch


class Parts:
    """All parts of a replica in one: records what reaches them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.metrics = Metrics()
        self.submissions = SimpleNamespace(committed=lambda token: self.done.append(f"commit {token}"))

    def send(self, messages: list[Any]) -> None:
        self.done.append(f"send {len(messages)}")

    def write(self, written: Any) -> None:
        self.done.append("store" if isinstance(written, Output) else "trace")

    def carry_out(self, effects: Effects) -> None:
        if effects.index == 1:
            raise RuntimeError("a service is broken")
        self.done.append(f"effects {effects.index}")

    def log(self, line: str) -> None:
        self.done.append(line)


def dispatch(out: Output) -> Parts:
    parts: Any = Parts()
    OutputDispatch(parts, parts, parts, parts, parts, parts, parts).carry_out(out)
    made: Parts = parts
    return made


def test_messages_leave_before_the_records_are_written() -> None:
    out: Any = Output()
    out.messages, out.persist, out.committed = [object()], [object()], [7]
    assert dispatch(out).done == ["send 1", "store", "commit 7"]


def test_effects_that_raise_are_logged_and_the_next_ones_are_carried_out() -> None:
    out = Output()
    out.effects = [Effects(1), Effects(2)]
    out.lines = ["a line"]
    parts = dispatch(out)
    assert parts.done[0].startswith("defect: the outputs of entry 1 did not all leave")
    assert parts.done[1:] == ["effects 2", "a line"]
    assert parts.metrics.counters == {"service_errors": 1}


def test_an_empty_output_reaches_no_part() -> None:
    assert dispatch(Output()).done == []
