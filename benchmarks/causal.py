"""The cost of causal order: servers of one domain that send to each other, with and without it.

The engines of all servers run in one process, without replicas and network; what one sends is encoded, and
decoded and applied by the other. In the pattern "pair" one server sends to one other. In "all" each server
sends to all others in turn, which is the worst case for the clocks: a notification carries what its sender
has learnt of all other pairs since the last one to the same receiver.

    .venv/bin/python benchmarks/causal.py [--notes 20000] [--servers 3 10 50]
"""

import argparse
import time

import attrs

from quorate.agents import (
    Agent,
    AgentId,
    Context,
    Create,
    Note,
    Notification,
    agent_spec,
    encode,
    factory,
    outside,
    reacts,
)
from quorate.engine import CausalInput, Engine, NetAck, NetInput, NetPeer, Posts, encode_batch
from quorate.engine.batch import Item
from quorate.engine.causal_order import StampedNote

BATCH = 64
"""Notifications in an entry."""


@attrs.frozen
class Load(Notification):
    """Something to deliver."""

    text: str


@attrs.define
class Counter(Agent):
    """Counts what it gets."""

    count: int = 0

    @reacts
    def load(self, ctx: Context, note: Load) -> None:
        """Count."""
        del ctx, note
        self.count += 1


class Site:
    """A server."""

    def __init__(self, id: int, servers: int, causal: bool) -> None:
        self.id = id
        names = {f"s{each}": each for each in range(servers)}
        self.engine = Engine(id, names, causal=[range(servers)] if causal else [])
        self.causal = causal
        self.sent_bytes = 0
        self.out: dict[int, list[tuple[int, Note]]] = {}
        self.acks: dict[int, tuple[int, int]] = {}
        name = f"{Counter.__module__}:{Counter.__qualname__}"
        create = Create(name, "counter", agent_spec(Counter).save(Counter()), None, "counter")
        self.apply(Posts([Note(factory(id), outside(id), Create.type_name, encode(create))]))

    def apply(self, item: Item) -> None:
        """Apply an entry, from bytes."""
        engine = self.engine
        effects = engine.apply(engine.applied + 1, 1_000 + engine.applied, encode_batch([item]))
        for peer, items in effects.network.items():
            self.out.setdefault(peer, []).extend(items)
        self.acks |= effects.net_acks

    def carry(self, target: "Site") -> None:
        """Let everything that was sent to a server arrive there, and its acknowledgement here."""
        items = self.out.pop(target.id, [])
        for start in range(0, len(items), BATCH):
            part = items[start : start + BATCH]
            first, birth = part[0][0], self.engine.birth
            item: Item
            if self.causal:
                stamped = [note for _, note in part if isinstance(note, StampedNote)]
                item = CausalInput(self.id, birth, first, self.engine.settled(target.id), stamped)
            else:
                item = NetInput(self.id, birth, first, [note for _, note in part])
            self.sent_bytes += len(encode_batch([item]))
            target.apply(item)
        if self.id in target.acks:
            self.apply(NetAck(target.id, *target.acks.pop(self.id)))


def run(servers: int, notes: int, causal: bool, everyone: bool) -> tuple[float, float]:
    """Return (microseconds, bytes) for each notification."""
    sites = [Site(id, servers, causal) for id in range(servers)]
    for one in sites:
        for other in sites:
            if one is not other:
                one.apply(NetPeer(other.id, other.engine.birth))
    senders = sites if everyone else sites[:1]
    payload = encode(Load("x" * 100))
    count, started = 0, time.perf_counter()
    while count < notes:
        for site in senders:
            others = [each.id for each in sites if each is not site] if everyone else [1]
            targets = [others[at % len(others)] for at in range(BATCH)]
            sender = AgentId(site.id, site.id, 1025)
            site.apply(
                Posts([Note(f"counter@s{target}", sender, Load.type_name, payload) for target in targets])
            )
            count += len(targets)
        for site in senders:
            for target in sorted(site.out):
                site.carry(sites[target])
    taken = time.perf_counter() - started
    assert not any(site.engine.backlog for site in sites), "something was not delivered"
    return taken / count * 1e6, sum(site.sent_bytes for site in sites) / count


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="The cost of causal order.")
    parser.add_argument("--notes", type=int, default=20_000)
    parser.add_argument("--servers", type=int, nargs="+", default=[3, 10, 50])
    options = parser.parse_args()
    print(f"{'servers':>7} {'pattern':8} {'order':7} {'us/notification':>15} {'bytes/notification':>18}")
    for servers in options.servers:
        for everyone in (False, True):
            for causal in (False, True):
                took, size = run(servers, options.notes, causal, everyone)
                pattern, order = "all" if everyone else "pair", "causal" if causal else "fifo"
                print(f"{servers:7} {pattern:8} {order:7} {took:15.1f} {size:18.0f}")


if __name__ == "__main__":
    main()
