"""A mesh under random faults: many seeds, and rules that are removed on purpose."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.mesh.collection import Collection
from quorate.mesh.consumers import Consumers
from quorate.mesh.daemon import Daemon
from quorate.mesh.directory import Directory
from quorate.mesh.marks import Marks
from quorate.mesh.publishing import Publishing
from quorate.mesh.repair import Repair
from quorate.mesh.state import DaemonState
from quorate.testing.mesh.checks import MeshViolation
from quorate.testing.mesh.memory_log import MemoryLog
from quorate.testing.mesh.random_faults import MeshStorm, run_storm
from quorate.testing.mesh.simulated_mesh import SimulatedMesh

from ..long import amount

SEEDS = int(amount("QUORATE_MESH_SEEDS", 25, 2000))
STORMS = {
    "calm": MeshStorm(kills=False, cuts=False, deletes=False),
    "killed and cut": MeshStorm(),
    "five daemons": MeshStorm(daemons=5, steps=160),
    "two copies": MeshStorm(copies=2),
    "disks lost or set back": MeshStorm(disks=True),
    "daemons forgotten and added": MeshStorm(daemons=4, members=True),
}


@pytest.mark.parametrize("name", STORMS)
def test_a_mesh_keeps_its_promises_whatever_fails(name: str) -> None:
    for seed in range(SEEDS):
        run_storm(seed, STORMS[name])


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = (run_storm(7, MeshStorm()) for _ in range(2))
    assert one.checker.truth.records == other.checker.truth.records
    assert one.now == other.now


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def truth(*_: Any, **__: Any) -> bool:
    return True


def no_gone(directory: Directory, uid: Any) -> None:
    topic = directory.topics.pop(uid, None)
    if topic is not None:
        directory.uids_of[topic.name].discard(uid)
        if not directory.uids_of[topic.name]:
            del directory.uids_of[topic.name]
        directory.changes.lost_topics.append((uid, topic))


def without(method: Callable[..., Any], condition: Callable[..., bool]) -> Callable[..., Any]:
    """Return the method, which does nothing where the condition holds."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return None if condition(self, *args, **kwargs) else method(self, *args, **kwargs)

    return call


def is_unknown(daemon: Daemon, stream: Any, dot: Any, number: int) -> bool:
    del stream, number
    return dot not in daemon.state.directory.subscriptions


RULES: dict[str, tuple[Any, str, Any, MeshStorm]] = {
    "a message marked after another one is taken once that is here (2, 12)": (
        *(DaemonState, "passed", truth),
        MeshStorm(),
    ),
    "a message marked after another one is delivered after it (10)": (
        *(Consumers, "_is_passed", truth),
        MeshStorm(),
    ),
    "what is lacking is asked for (3)": (Repair, "_ask_streams", nothing, MeshStorm()),
    "what is collected comes as a state (4)": (Daemon, "_snap_received", nothing, MeshStorm(disks=True)),
    "the removal of what is not here yet is kept (6)": (
        *(Directory, "_remove_topic", no_gone),
        MeshStorm(),
    ),
    "what a state includes is not applied again (6)": (
        *(Directory, "removed_topic", lambda directory, uid: False),
        MeshStorm(),
    ),
    "every daemon records where a subscription starts (8)": (Daemon, "_start", nothing, MeshStorm()),
    "a new stream begins with the subscriptions that are known (8)": (
        *(Publishing, "start", without(Publishing.start, lambda self, stream, dots: len(dots) > 1)),
        MeshStorm(),
    ),
    "a subscription that is not known yet holds bodies (14)": (
        *(
            Daemon,
            "mark",
            without(Daemon.mark, lambda self, s, d, n: d not in self.state.directory.subscriptions),
        ),
        MeshStorm(daemons=4),
    ),
    "bodies are kept for the slowest subscription (14)": (
        *(Marks, "lowest", lambda marks, stream: max((n for _, n in marks.of(stream)), default=None)),
        MeshStorm(),
    ),
    "records are kept for all daemons, present or not (15)": (
        *(Collection, "_aru", lambda collection, stream: collection._state.streams.have(stream)),
        MeshStorm(),
    ),
    "a daemon begins a new life with each start (16)": (
        *(SimulatedMesh, "next_life", lambda mesh, node: 1),
        MeshStorm(disks=True),
    ),
    "an acknowledgement waits for the copies (13)": (
        *(Publishing, "_copies", lambda publishing: 1),
        MeshStorm(copies=2),
    ),
    "what is sent is durable": (MemoryLog, "mark", property(lambda log: 0), MeshStorm()),
    "a publisher's repeated messages are known (12)": (
        *(Publishing, "_remember", nothing),
        MeshStorm(),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_removed_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement, storm = RULES[rule]
    monkeypatch.setattr(owner, name, replacement)
    for seed in range(150):
        try:
            run_storm(seed, storm)
        except (MeshViolation, AssertionError, KeyError, ValueError):
            return
    pytest.fail(f"150 seeds did not notice that this rule is removed: {rule}")
