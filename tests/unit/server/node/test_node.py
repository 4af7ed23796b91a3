"""A node alone in its cluster: what it submits, when, and with which stamps."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from quorate.agents import (
    Agent,
    AgentError,
    AgentId,
    AgentSpec,
    Context,
    Create,
    CreateFailed,
    Note,
    Notification,
    agent_spec,
    decode,
    encode,
    factory,
    outside,
    reacts,
)
from quorate.engine import Engine, EngineSettings, load_class
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Appended, Applied, Committed
from quorate.server.node.batching import BatchLimits
from quorate.server.node.factory import make_node
from quorate.server.node.node import OUTCOMES_AFTER_S
from quorate.server.node.outputs import NodeSettings, Output

DAY_NS = 86_400_000_000_000
OUTSIDE = outside(0)
WALL = 20_000 * DAY_NS


@attrs.frozen
class Poke(Notification):
    after_s: float = 0.0


@attrs.frozen
class Fired(Notification):
    pass


@attrs.define
class Watch(Agent):
    times: list[int] = attrs.field(factory=list[int])
    fired: list[int] = attrs.field(factory=list[int])

    @reacts
    def poke(self, ctx: Context, note: Poke) -> None:
        self.times.append(ctx.now_ns)
        if note.after_s:
            ctx.timer(note.after_s, Fired())
        ctx.send(ctx.sender, note)

    @reacts
    def fire(self, ctx: Context, _: Fired) -> None:
        self.fired.append(ctx.now_ns)


class Alone:
    def __init__(
        self,
        settings: NodeSettings | None = None,
        names: dict[str, int] | None = None,
        load: Callable[[str], AgentSpec] = load_class,
    ) -> None:
        self.now = 50.0
        self.wall_ns = WALL
        self.node = make_node(
            0,
            [0],
            server=0,
            names=names or {"s0": 0},
            incarnation=7,
            cluster="c",
            expected=1,
            engine=Engine(0, names or {"s0": 0}, EngineSettings(high_water=3), load),
            settings=settings,
        )
        self.out = Output()
        self.batches = 0
        self.node.start(self.now, self.wall_ns)
        self.work()
        state = agent_spec(Watch).save(Watch())
        create = Create(f"{__name__}:Watch", "watch", state, None, "k")
        self.post(Note(factory(0), outside(0), Create.type_name, encode(create)))

    def work(self) -> None:
        while True:
            out = self.node.drain(self.now)
            for field in ("effects", "trace", "roles", "committed", "lines"):
                getattr(self.out, field).extend(getattr(out, field))
            self.out.stopped = out.stopped or self.out.stopped
            self.out.failed = out.failed or self.out.failed
            if not self.node.work(self.now, self.wall_ns):
                return

    def post(self, *notes: Note, token: int | None = None) -> None:
        assert self.node.post(list(notes), token)
        self.node.flush(self.now, self.wall_ns)
        self.work()

    def pass_time(self, seconds: float, wall_s: float | None = None) -> None:
        self.now += seconds
        self.wall_ns += int((seconds if wall_s is None else wall_s) * 1e9)
        self.node.tick(self.now, self.wall_ns)
        self.work()

    @property
    def watch(self) -> Watch:
        (watch,) = [cell.agent for cell in self.node.engine.cells() if isinstance(cell.agent, Watch)]
        return watch


def poke(after_s: float = 0.0, request: int = 0, to: Any = "watch") -> Note:
    return Note(to, outside(0), Poke.type_name, encode(Poke(after_s)), request)


def test_a_plain_server_is_master_at_once_and_for_the_first_time() -> None:
    alone = Alone()
    assert [(role.master, role.first_time) for role in alone.out.roles] == [(True, True)]
    assert alone.node.serving


def test_a_server_is_born_with_its_first_entry_which_it_makes_itself() -> None:
    node = make_node(0, [0], server=0, names={"s0": 0}, incarnation=7, cluster="c", expected=1)
    node.start(50.0, WALL)
    assert node.engine.birth == 0
    while node.drain(50.0) and node.work(50.0, WALL):
        pass
    assert node.engine.birth == WALL
    assert node.engine.applied == node.channel.last


def test_services_are_started_before_the_first_entry_which_has_what_they_send_at_once() -> None:
    node = make_node(0, [0], server=0, names={"s0": 0}, incarnation=7, cluster="c", expected=1)
    node.start(50.0, WALL)
    out = node.drain(50.0)
    while not out.roles:
        assert node.channel.last == 0
        assert node.work(50.0, WALL)
        out = node.drain(50.0)
    assert out.roles[0].first_time
    assert node.channel.last == 0
    node.post([Note(factory(0), outside(0), Poke.type_name, encode(Poke(0.0)), 5)])
    assert node.work(50.0, WALL)
    assert node.channel.last == 1
    while node.drain(50.0) and node.work(50.0, WALL):
        pass
    assert node.reactions == 1
    assert node.channel.last == 1


def test_what_is_posted_is_applied_and_its_token_and_reply_come_back() -> None:
    alone = Alone()
    alone.post(poke(request=5), token=3)
    assert alone.out.committed == [3]
    assert [note.request for effects in alone.out.effects for note in effects.replies][-1] == 5


def test_notes_posted_together_go_in_one_entry_and_keep_their_order() -> None:
    alone = Alone()
    before = alone.node.channel.last
    for request in range(1, 6):
        alone.node.post([poke(request=request)])
    alone.post(poke(request=6))
    assert alone.node.channel.last == before + 1
    assert [note.request for note in alone.out.effects[-1].replies] == [1, 2, 3, 4, 5, 6]


def test_a_batch_is_limited_and_the_rest_goes_in_the_next() -> None:
    alone = Alone(NodeSettings(limits=BatchLimits(batch_notes=4)))
    before = alone.node.channel.last
    alone.post(*[poke(request=number) for number in range(1, 11)], token=9)
    assert alone.node.channel.last == before + 3
    assert [len(effects.replies) for effects in alone.out.effects[-3:]] == [4, 4, 2]
    assert alone.out.committed == [9]


def test_stamps_never_go_back_and_time_passes_while_the_clock_is_behind() -> None:
    alone = Alone()
    alone.post(poke())
    alone.pass_time(10.0, wall_s=-3600.0)
    alone.post(poke())
    alone.pass_time(10.0)
    alone.post(poke())
    first, second, third = alone.watch.times
    assert 4.9e9 < second - first < 5.1e9
    assert 4.9e9 < third - second < 5.1e9


@pytest.mark.parametrize(
    ("wall_s", "said"),
    [
        (7200.0 + 10.0, "jumped forward by 2 h 0 min"),
        (-5400.0 + 10.0, "was set back by 1 h 30 min"),
        (90.0 + 10.0, "jumped forward by 1 min 30 s"),
    ],
)
def test_a_jump_of_the_clock_is_reported_once(wall_s: float, said: str) -> None:
    alone = Alone()
    alone.post(poke())
    alone.out.lines.clear()
    alone.pass_time(10.0, wall_s=wall_s)
    alone.post(poke())
    alone.pass_time(10.0)
    alone.post(poke())
    (line,) = [line for line in alone.out.lines if "clock" in line]
    assert said in line


@pytest.mark.parametrize("wall_s", [10.0, 40.0, -40.0])
def test_a_corrected_clock_is_not_reported(wall_s: float) -> None:
    alone = Alone()
    alone.post(poke())
    alone.pass_time(10.0, wall_s=wall_s)
    alone.post(poke())
    assert not [line for line in alone.out.lines if "clock" in line]


def test_a_timer_fires_by_a_tick_when_nothing_else_comes() -> None:
    alone = Alone()
    alone.post(poke(after_s=5.0))
    deadline = alone.node.deadline(alone.now, alone.wall_ns)
    assert deadline is not None
    assert deadline <= alone.now + 5.0
    alone.pass_time(4.0)
    assert alone.watch.fired == []
    alone.pass_time(1.5)
    assert len(alone.watch.fired) == 1
    before = alone.node.channel.last
    alone.pass_time(20.0)
    assert alone.node.channel.last == before


def test_what_waits_for_another_server_does_not_keep_the_node_from_accepting() -> None:
    alone = Alone(names={"s0": 0, "s1": 1})
    for _ in range(5):
        alone.post(poke(to="x@s1"))
    assert alone.node.accepting


def test_input_of_another_server_is_taken_once_and_acknowledged() -> None:
    alone = Alone(names={"s0": 0, "s1": 1})
    for first, count in ((1, 2), (1, 3), (9, 1)):
        alone.node.net_input(1, 9, first, [poke()] * count)
    alone.node.flush(alone.now, alone.wall_ns)
    alone.work()
    assert len(alone.watch.times) == 3
    assert alone.out.effects[-1].net_acks == {1: (9, 3)}


def creation(name: str, sender: AgentId = OUTSIDE, class_name: str = f"{__name__}:Watch") -> Note:
    return Note(factory(0), sender, Create.type_name, encode(Create(class_name, name)), 5)


class Shelf:
    """The modules of a replica: `missing` from its call of this number on."""

    def __init__(self, missing: int) -> None:
        self.calls = 0
        self.missing = missing

    def load(self, class_name: str) -> AgentSpec:
        self.calls += 1
        if self.calls >= self.missing:
            raise AgentError("module watches cannot be found; install it")
        return load_class(class_name)


def test_a_class_that_nobody_has_is_refused_and_the_node_goes_on() -> None:
    alone = Alone(names={"s0": 0, "s1": 1})
    alone.post(creation("other", class_name="no_such_module:Watch"))
    (reply,) = [note for effects in alone.out.effects for note in effects.replies if note.request == 5]
    assert reply.type == CreateFailed.type_name
    assert "no_such_module" in decode(CreateFailed, reply.payload).reason

    sender = AgentId(1, 1, 1025)
    alone.node.net_input(1, 9, 1, [creation("other", sender, "no_such_module:Watch"), poke()])
    alone.node.flush(alone.now, alone.wall_ns)
    alone.work()
    (_, failed), *_ = alone.out.effects[-1].network[1]
    assert (failed.to, failed.type) == (sender, CreateFailed.type_name)
    assert len(alone.watch.times) == 1
    assert not alone.out.stopped


def test_a_replica_without_the_class_of_a_submitted_creation_stops_and_names_entry_class_and_module() -> None:
    shelf = Shelf(4)
    alone = Alone(load=shelf.load)
    alone.post(creation("other"))
    assert alone.out.failed
    assert alone.out.stopped == (
        f"entry {alone.node.channel.last} cannot be applied: it creates an agent of class {__name__}:Watch, "
        "which this replica cannot load: module watches cannot be found; install it. Then start this replica "
        "again"
    )


def test_a_node_that_does_not_serve_loads_nothing() -> None:
    shelf = Shelf(9)
    alone = Alone(load=shelf.load)
    loads = shelf.calls
    alone.node.leave(alone.now, alone.wall_ns)
    for _ in range(100):
        alone.pass_time(0.1)
    assert not alone.node.post([creation("other")])
    alone.node.net_input(1, 9, 1, [creation("other")])
    assert shelf.calls == loads


def test_a_node_that_leaves_serves_no_more() -> None:
    alone = Alone()
    alone.node.leave(alone.now, alone.wall_ns)
    for _ in range(100):
        alone.pass_time(0.1)
    assert alone.out.stopped
    assert not alone.out.failed
    assert len([line for line in alone.out.lines if alone.out.stopped in line]) == 1
    assert [role.master for role in alone.out.roles] == [True, False]
    assert not alone.node.post([poke()])
    assert alone.node.deadline(alone.now, alone.wall_ns) is None


def test_a_node_that_retires_takes_nothing_new_and_applies_what_it_has() -> None:
    alone = Alone()
    assert not alone.node.retired
    assert alone.node.post([poke()])
    alone.node.flush(alone.now, alone.wall_ns)
    alone.node.retire(alone.now, alone.wall_ns)
    assert not alone.node.post([poke()])
    assert alone.node.unapplied
    assert not alone.node.retired
    alone.work()
    assert alone.node.retired
    assert len(alone.watch.times) == 1
    # Services are not started again.
    alone.pass_time(1.0)
    assert [role.master for role in alone.out.roles] == [True, False]


def test_that_entries_are_committed_is_written_and_not_waited_for_unless_something_else_is() -> None:
    log = DurableLog(Remembered())
    node = make_node(0, [0], server=0, names={"s0": 0}, incarnation=7, cluster="c", expected=1, log=log)

    def written() -> list[tuple[list[type], int]]:
        """The records of each output, and its token."""
        outs = [node.drain(50.0)]
        while node.work(50.0, WALL) or outs[-1].token:
            outs.append(node.drain(50.0))
        return [([type(record) for record in out.persist], out.token) for out in outs if out.persist]

    node.start(50.0, WALL)
    while (tokens := [token for _, token in written()]) and tokens[-1]:
        node.persisted(50.0, WALL, tokens[-1])
    first, second = 0, 0
    for _ in range(2):
        assert node.post([poke()])
        node.flush(50.0, WALL)
        [(records, token)] = written()
        assert records == [Appended]
        first, second = second, token
    node.persisted(50.0, WALL, first)
    [(records, token)] = written()
    assert records == [Committed]
    assert token > second
    node.persisted(50.0, WALL, token)
    # The outcome of the first entry goes with these records; that of the last one has to wait for none.
    assert written() == [([Committed, Applied], 0)]
    due = node.deadline(50.0, WALL)
    assert due is not None
    assert due <= 50.0 + OUTCOMES_AFTER_S
    node.tick(50.0 + OUTCOMES_AFTER_S, WALL)
    assert [Applied] in [records for records, _ in written()]
    assert node.channel.commit == node.channel.last
    # Nothing that the channel says later waits for it.
    assert node.channel.state.output.is_durable(token + 1)


def test_the_queue_is_full_above_its_limit_until_half_of_it_is_gone() -> None:
    from quorate.server.node.batching import BatchQueue

    queue = BatchQueue(BatchLimits(batch_notes=10, high_water_notes=30))
    for _ in range(4):
        queue.add_notes([poke()] * 10, None)
    assert queue.full
    queue.next_batch()
    assert queue.full
    queue.next_batch()
    queue.next_batch()
    assert not queue.full
    assert queue.notes == 10


@pytest.mark.parametrize("count", [1, 3])
def test_acknowledgements_of_a_server_become_one_item(count: int) -> None:
    from quorate.engine import NetAck
    from quorate.server.node.batching import BatchQueue

    queue = BatchQueue(BatchLimits())
    for upto in range(1, count + 1):
        queue.add_ack(4, 9, upto)
    assert queue.next_batch() == ([NetAck(4, 9, count)], [])


def test_an_entry_that_took_long_is_named_with_its_last_reaction() -> None:
    alone = Alone()
    alone.post(poke(), poke())
    alone.node.log_slow_entry(8.04)
    alone.work()
    (line,) = [line for line in alone.out.lines if "8.0 s" in line]
    assert line.startswith(f"entry {alone.node.channel.last} took 8.0 s, ")
    assert f": 2 reactions, the last one of #0.0.1025 ({__name__}:Watch) to {__name__}:Poke; long" in line
