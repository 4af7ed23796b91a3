"""Reactions of local agents a second on one core, beside Pykka's and Thespian's.

Two loads, in memory, without replication on either side:

- tell: notifications from outside, 500 in an entry, to an agent that counts them.
- pass: agents that pass a notification around a ring, each reaction sends the next one.

Quorate does more for each reaction: it saves the agent's state, so that a failing reaction can be undone,
checks that the state can be stored, and hashes what the reaction asked for, so that replicas can be compared.
The rounds of all of them alternate; ratios are those of the medians. Pykka and Thespian take part if they are
installed: ``pip install -r benchmarks/requirements.txt``.

    .venv/bin/python benchmarks/agents.py [--count 20000] [--rounds 5]
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

from quorate import Agent, Context, Notification, reacts
from quorate.agents import Note, encode, outside
from quorate.engine import EngineSettings, Posts, encode_batch
from quorate.testing import Harness

RING = 10
BATCH = 500

Load = Callable[[int], float]
"""Takes a number of reactions; returns the seconds they took."""


@attrs.frozen
class Tick(Notification):
    """Counts by one."""

    amount: int = 1


@attrs.frozen
class Hop(Notification):
    """Goes round the ring until nothing is left of it."""

    left: int


@attrs.define
class Counter(Agent):
    """Counts notifications."""

    total: int = 0

    @reacts
    def tick(self, ctx: Context, note: Tick) -> None:  # noqa: ARG002
        """Count one."""
        self.total += note.amount


@attrs.define
class Station(Agent):
    """A place in the ring."""

    following: str
    passed: int = 0

    @reacts
    def hop(self, ctx: Context, note: Hop) -> None:
        """Pass the notification on."""
        self.passed += 1
        if note.left:
            ctx.send(self.following, Hop(note.left - 1))


def quorate_loads() -> dict[str, Load]:
    """Return the loads on an engine of Quorate."""
    harness = Harness(guard=False, settings=EngineSettings(max_turn=10_000_000))
    harness.deploy(Counter, name="counter")
    for number in range(RING):
        harness.deploy(Station, name=f"station{number}", following=f"station{(number + 1) % RING}")
    engine = harness.engine
    sender = outside(0)

    def apply(*notes: Note) -> None:
        engine.apply(engine.applied + 1, harness.now_ns, encode_batch([Posts(list(notes))]))

    def tell(count: int) -> float:
        began = time.perf_counter()
        for start in range(0, count, BATCH):
            apply(
                *(
                    Note("counter", sender, Tick.type_name, encode(Tick()), 0)
                    for _ in range(min(BATCH, count - start))
                )
            )
        return time.perf_counter() - began

    def pass_on(count: int) -> float:
        began = time.perf_counter()
        for start in range(0, count, 10_000):
            hop = Hop(min(10_000, count - start) - 1)
            apply(Note("station0", sender, Hop.type_name, encode(hop), 0))
        return time.perf_counter() - began

    return {"tell": tell, "pass": pass_on}


def pykka_loads() -> dict[str, Load]:
    """Return the same loads on actors of Pykka, each a thread that takes messages from a queue."""
    import pykka  # pyright: ignore[reportMissingImports]

    class Counting(pykka.ThreadingActor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.total = 0

        def on_receive(self, message: Any) -> Any:
            self.total += message
            return self.total

    class Passing(pykka.ThreadingActor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.following: Any = None
            self.passed = 0

        def on_receive(self, message: Any) -> Any:
            if isinstance(message, tuple):
                (self.following,) = message
                return
            left, ended = message
            self.passed += 1
            if left:
                self.following.tell([left - 1, ended])
            else:
                ended.set()

    counter = Counting.start()
    stations = [Passing.start() for _ in range(RING)]
    for number, station in enumerate(stations):
        station.ask((stations[(number + 1) % RING],))

    def tell(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            counter.tell(1)
        counter.ask(0)
        return time.perf_counter() - began

    def pass_on(count: int) -> float:
        ended = threading.Event()
        began = time.perf_counter()
        stations[0].tell([count - 1, ended])
        ended.wait()
        return time.perf_counter() - began

    return {"tell": tell, "pass": pass_on, "stop": lambda _: pykka.ActorRegistry.stop_all() or 0.0}


def thespian_loads() -> dict[str, Load]:
    """Return the same loads on actors of Thespian, in its system within one process and one thread."""
    from thespian import actors  # pyright: ignore[reportMissingImports]

    class Counting(actors.Actor):  # type: ignore[misc]
        total = 0

        def receiveMessage(self, message: Any, sender: Any) -> None:  # noqa: N802
            if message == "total":
                self.send(sender, self.total)
            elif isinstance(message, int):
                self.total += message

    class Passing(actors.Actor):  # type: ignore[misc]
        following: Any = None

        def receiveMessage(self, message: Any, sender: Any) -> None:  # noqa: N802
            if isinstance(message, list):
                (self.following,) = message
            elif isinstance(message, tuple):
                left, asked = message
                if left:
                    self.send(self.following, (left - 1, asked or sender))
                else:
                    self.send(asked or sender, "ended")

    system = actors.ActorSystem("simpleSystemBase")
    counter = system.createActor(Counting)
    stations = [system.createActor(Passing) for _ in range(RING)]
    for number, station in enumerate(stations):
        system.tell(station, [stations[(number + 1) % RING]])

    def tell(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            system.tell(counter, 1)
        system.ask(counter, "total")
        return time.perf_counter() - began

    def pass_on(count: int) -> float:
        began = time.perf_counter()
        system.ask(stations[0], (count - 1, None), 60)
        return time.perf_counter() - began

    return {"tell": tell, "pass": pass_on, "stop": lambda _: system.shutdown() or 0.0}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="reactions of a round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    peers = {"quorate": quorate_loads()}
    for name, make in (("pykka", pykka_loads), ("thespian", thespian_loads)):
        try:
            peers[name] = make()
        except ImportError as error:
            print(f"{name} is not measured: {error}")
    for loads in peers.values():
        loads["tell"](1000)
    for load in ("tell", "pass"):
        rounds: dict[str, list[float]] = {name: [] for name in peers}
        for _ in range(arguments.rounds):
            for name, loads in peers.items():
                rounds[name].append(arguments.count / loads[load](arguments.count))
        ours = statistics.median(rounds["quorate"])
        for name, found in rounds.items():
            rate = statistics.median(found)
            spread = f"{min(found):,.0f} to {max(found):,.0f}"
            ratio = "" if name == "quorate" else f"  quorate / {name} {ours / rate:.2f}"
            print(f"{load:<5} {name:<9} {rate:>9,.0f}/s ({spread}){ratio}")
    for loads in peers.values():
        loads.get("stop", lambda _: 0.0)(0)


if __name__ == "__main__":
    main()
