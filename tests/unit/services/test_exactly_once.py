"""The client's session against the real service, proxy and engine; bytes and connections get lost."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.agents import AgentId
from quorate.client.events import Connect, Delivered, Disconnect, Ended, SessionSettings
from quorate.client.session import Session

ROUND = [("up", 10**6), ("haunt", 0), ("commit", 0), ("flush", 0), ("flush", 0), ("down", 10**6)]
FAULTS = [
    st.tuples(st.just("up"), st.integers(1, 400)),
    st.tuples(st.just("down"), st.integers(1, 400)),
    st.tuples(st.just("commit"), st.just(0)),
    st.tuples(st.just("flush"), st.just(0)),
    st.tuples(st.just("cut"), st.integers(0, 2)),
    st.tuples(st.just("ghost"), st.just(0)),
    st.tuples(st.just("master"), st.just(0)),
    st.tuples(st.just("lose"), st.just(0)),
    st.tuples(st.just("time"), st.integers(1, 30)),
]
PROGRESS = [
    st.tuples(st.just("send"), st.integers(1, 5)),
    st.tuples(st.just("round"), st.integers(1, 6)),
    st.tuples(st.just("take"), st.integers(1, 5)),
]
# A round may stop half-way; several of them make sure that the faults meet an open connection.
STEPS = st.lists(st.one_of(*PROGRESS, *PROGRESS, *PROGRESS, *FAULTS), min_size=30, max_size=100)


class World:
    """One session, one master at a time, and the bytes under way between them."""

    def __init__(self, make_bench, deposit, inbox_notes):
        self.make_bench, self.deposit = make_bench, deposit
        self.bench = make_bench()
        self.bench.ctx.auto = False
        self.now = 0.0
        tuning = SessionSettings(
            open_timeout_s=1e9,
            reconnect_timeout_s=1e9,
            ack_delay_s=0.5,
            ack_notes=4,
            window=16,
            inbox_notes=inbox_notes,
        )
        self.inbox_notes = inbox_notes
        self.session = Session([("a", 1), ("b", 2)], "root", "root", lambda: 0.5, tuning)
        self.tcp = None
        self.up, self.down = bytearray(), bytearray()
        self.sent, self.inbox, self.got = [], [], []
        self.ghosts = []
        self.session.start(0.0)
        self.act()

    def act(self):
        while events := self.session.pop_events():
            for event in events:
                match event:
                    case Connect():
                        self.tcp = self.bench.join()
                        self.session.connected(self.now)
                    case Disconnect():
                        self.drop()
                    case Delivered(notes):
                        self.inbox += notes
                        assert len(self.inbox) <= self.inbox_notes
                    case Ended(error):
                        raise AssertionError(error)
                    case _:
                        pass
        while data := self.session.data_to_send(self.now):
            self.up += data

    def drop(self):
        self.up.clear()
        self.down.clear()
        if self.tcp is not None:
            self.tcp.cut()
            self.tcp = None

    def pull(self):
        if self.tcp is not None:
            self.down += self.tcp.read_written()

    def step(self, kind, n):
        match kind:
            case "send":
                for _ in range(n):
                    if not self.session.full:
                        self.sent.append(len(self.sent) + 1)
                        self.session.send("alice", *self.deposit(self.sent[-1]))
            case "take":
                for note in self.inbox[:n]:
                    self.session.inbox_window.received(note)
                    self.got.append(msgspec.msgpack.decode(note.payload)["amount"])
                del self.inbox[:n]
            case "round":
                for step in ROUND[:n]:
                    self.step(*step)
            case "up" if self.tcp is not None:
                data = bytes(self.up[:n])
                del self.up[:n]
                self.tcp.link.dataReceived(data)
            case "down" if self.tcp is not None:
                self.pull()
                data = bytes(self.down[:n])
                del self.down[:n]
                if data:
                    self.session.received(self.now, data)
            case "commit":
                self.bench.ctx.commit()
            case "flush":
                self.bench.ctx.reactor.advance(0)
            case "cut" if self.tcp is not None:
                # 0: the client notices first; 1: some bytes were still read by the server; 2: all.
                if n:
                    self.tcp.link.dataReceived(bytes(self.up[: len(self.up) * n // 2]))
                self.drop()
                self.session.lost(self.now, "cut")
            case "ghost" if self.tcp is not None:
                # The server does not notice; what was under way arrives when the client has come back.
                self.ghosts.append((self.tcp, bytes(self.up)))
                self.tcp = None
                self.drop()
                self.session.lost(self.now, "gone silent")
            case "haunt":
                for tcp, data in self.ghosts:
                    if tcp.connected and not tcp.link.closed:
                        tcp.link.dataReceived(data)
                self.ghosts.clear()
            case "master":
                self.ghosts.clear()
                # What the former master had posted and not committed is lost with it.
                self.bench = self.make_bench(harness=self.bench.harness)
                self.bench.ctx.auto = False
                if self.tcp is not None:
                    self.drop()
                    self.session.lost(self.now, "master failed")
            case "lose":
                # A post is lost although this master goes on: the proxy finds the gap.
                self.bench.ctx.queue.clear()
            case "time":
                self.now += n / 10
                self.bench.ctx.reactor.advance(n / 10)
                self.session.tick(self.now)
            case _:
                pass
        self.act()

    def finish(self):
        for _ in range(400):
            if self.session.outbox.acked == len(self.sent) and len(self.got) == len(self.sent):
                return
            self.step("round", 6)
            self.step("take", 100)
            self.step("time", 15)
        raise AssertionError("the session makes no progress any more")


@pytest.mark.slow
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, narrow=st.booleans())
def test_everything_arrives_once_and_in_order_both_ways(make_bench, deposit, steps, narrow):
    """`narrow`: almost everything waits at the server, for acknowledgements and room in the inbox."""
    with pytest.MonkeyPatch.context() as patch:
        if narrow:
            patch.setattr("quorate.agents.proxy.MAX_OUTPUT_NOTES", 3)
            patch.setattr("quorate.agents.client_output.PAGE_NOTES", 2)
        play(World(make_bench, deposit, 4 if narrow else 65536), steps)


def play(world, steps):
    for step in steps:
        world.step(*step)
    world.finish()
    account = world.bench.harness.agent("alice")
    assert account.seen == world.sent
    total = 0
    for amount, balance in zip(world.sent, world.got, strict=True):
        total += amount
        assert balance == total
    if world.session.connection is None:
        return
    proxy = world.bench.harness.agent(AgentId.parse(world.session.connection))
    assert len(proxy.output) == len(world.sent) - proxy.last_out_ack
