"""The agent that takes rows in bulk: attempts that are repeated, run side by side, or lie."""

import itertools
import random
from collections.abc import Iterable

import attrs
import msgspec
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.agents import ExceptionNotification, factory
from quorate.replay import ReplayError, intake
from quorate.replay.intake import (
    INTAKE,
    BeginPart,
    EndJob,
    EndPart,
    IntakeAgent,
    JobEnded,
    PartTaken,
    Row,
    TakeRows,
    chained,
)
from quorate.replay.sender import PartCount, chunks
from quorate.testing import Harness


@attrs.frozen
class Item(Notification):
    number: int


@attrs.define
class Shelf(Agent):
    """Keeps the numbers that it gets, except 13, and answers each."""

    numbers: list[int] = attrs.field(factory=list[int])

    @reacts
    def item(self, ctx: Context, note: Item) -> None:
        if note.number == 13:
            raise ValueError("no thirteen")
        self.numbers.append(note.number)
        ctx.send(ctx.reply_to, note)


def row(number: int, to: str = "shelf") -> Row:
    return to, Item.type_name, msgspec.msgpack.encode({"number": number})


class World:
    """A server with an intake and a shelf."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.harness.deploy(IntakeAgent, name=INTAKE)
        self.harness.deploy(Shelf, name="shelf")

    def ask(self, note: Notification) -> Notification | None:
        answers = self.harness.send(INTAKE, note)
        assert len(answers) <= 1
        return answers[0] if answers else None

    def refusal(self, note: Notification) -> str:
        answer = self.ask(note)
        assert isinstance(answer, ExceptionNotification)
        return answer.message

    @property
    def shelf(self) -> list[int]:
        return self.harness.agent("shelf").numbers


class Attempt:
    """An attempt to send a part of a job."""

    def __init__(self, world: World, rows: Iterable[Row], part: int = 0, job: str = "job") -> None:
        self._world, self._part, self._job = world, part, job
        self._pieces = [list(rows)[each : each + 3] for each in range(0, len(list(rows)), 3)]
        self.chunks, self.chain = 0, b""
        self.count = PartCount()
        taken = world.ask(BeginPart(job, part))
        assert isinstance(taken, PartTaken)
        self.taken = taken

    def step(self) -> bool:
        """Send the next chunk, taken or not. Return whether there was one."""
        if self.chunks == len(self._pieces):
            return False
        piece = self._pieces[self.chunks]
        data = msgspec.msgpack.encode(piece)
        self.chunks += 1
        if self.chunks > self.taken.chunks:
            note = TakeRows(self._job, self._part, self.chunks, self.chain, data)
            assert self._world.ask(note) is None
        self.chain = chained(self.chain, data)
        self.count.add(piece)
        return True

    def end(self) -> Notification | None:
        return self._world.ask(EndPart(self._job, self._part, self.chunks, self.chain))

    def run(self) -> "Attempt":
        while self.step():
            pass
        assert isinstance(self.end(), PartTaken)
        return self


def ending(*attempts: Attempt, job: str = "job") -> EndJob:
    whole = PartCount()
    for each in attempts:
        whole.join(each.count)
    return EndJob(job, whole.rows, whole.digest)


def rows(*numbers: int) -> list[Row]:
    return [row(number) for number in numbers]


@pytest.mark.parametrize("seed", range(20))
def test_attempts_in_any_order_deliver_each_row_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    own = {part: rows(*range(part * 100, part * 100 + chance.randrange(1, 20))) for part in (1, 2, 3)}
    running: list[Attempt] = []
    for _ in range(60):
        part = chance.choice(list(own))
        if len(running) < 4:
            running.append(Attempt(world, own[part], part))
        one = chance.choice(running)
        if not one.step() or chance.random() < 0.1:
            running.remove(one)  # it has died
    last = [Attempt(world, own[part], part).run() for part in own]
    assert world.ask(ending(*last)) == JobEnded(sum(map(len, own.values())), 0, "")
    for part, given in own.items():
        got = [number for number in world.shelf if number // 100 == part]
        assert got == [part * 100 + each for each in range(len(given))], f"seed {seed}, part {part}"


def test_an_attempt_with_other_rows_than_those_before_is_refused() -> None:
    world = World()
    first = Attempt(world, rows(*range(9)))
    first.step()
    first.step()
    other = Attempt(world, rows(*reversed(range(9))))
    while other.step():
        pass
    assert world.shelf == list(range(6))
    assert isinstance(other.end(), ExceptionNotification)
    # The right one goes on.
    whole = Attempt(world, rows(*range(9))).run()
    assert world.ask(ending(whole)) == JobEnded(9, 0, "")


def test_what_is_late_of_a_job_that_has_ended_changes_nothing() -> None:
    world = World()
    late = Attempt(world, rows(*range(6)))
    whole = Attempt(world, rows(*range(6))).run()
    assert world.ask(ending(whole)) == world.ask(ending(whole)) == JobEnded(6, 0, "")
    late.run()
    assert Attempt(world, rows(*range(6))).taken.ended
    assert world.shelf == list(range(6))
    other = ending(Attempt(World(), rows(*range(1, 7))).run())
    assert "had other rows, 6, than these 6" in world.refusal(other)
    assert "had other rows, 6, than these 3" in world.refusal(ending(Attempt(World(), rows(1, 2, 3)).run()))


def test_rows_that_their_agents_refuse_are_counted_with_the_first_reason() -> None:
    world = World()
    whole = Attempt(world, [*rows(1, 13, 2), row(3, "nobody"), row(4, "a@b@c")]).run()
    ended = world.ask(ending(whole))
    assert ended == JobEnded(
        5, 3, "agent #0.0.1026 has refused " + Item.type_name + ": ValueError: no thirteen"
    )
    assert world.shelf == [1, 2]


@pytest.mark.parametrize("to", [str(factory(0)), "#factory", "#0.0.x", ""])
def test_rows_do_not_reach_the_agents_of_the_platform(to: str) -> None:
    world = World()
    ended = world.ask(ending(Attempt(world, [row(1, to)]).run()))
    assert isinstance(ended, JobEnded)
    assert ended.failed == 1
    assert Item.type_name in ended.first


def test_rows_carry_no_orders_of_the_platform() -> None:
    world = World()
    ended = world.ask(ending(Attempt(world, [("shelf", "quorate.delete/1", b"\x80")]).run()))
    assert isinstance(ended, JobEnded)
    assert "rows are notifications of applications" in ended.first


def test_what_cannot_be_rows_is_refused() -> None:
    world = World()
    Attempt(world, [])
    assert "these are no rows" in world.refusal(TakeRows("job", 0, 1, b"", b"\xc1"))
    assert "an intake takes rows" in world.refusal(Item(1))
    assert "printable" in world.refusal(BeginPart("", 0))
    assert "parts" in world.refusal(BeginPart("job", -1))
    assert "no job" in world.refusal(EndJob("unknown", 1, bytes(16)))


def test_the_first_jobs_are_forgotten_and_one_that_has_not_ended_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "MAX_JOBS", 3)
    world = World()
    for name in ("a", "b", "c", "d"):
        whole = Attempt(world, rows(1), job=name).run()
        assert isinstance(world.ask(ending(whole, job=name)), JobEnded)
    agent = world.harness.agent(INTAKE)
    assert list(agent.jobs) == ["b", "c", "d"]
    for name in ("e", "f", "g"):
        Attempt(world, rows(1), job=name).step()
    assert "3 jobs are remembered, and the first of them, 'e', has not ended" in world.refusal(
        BeginPart("h", 0)
    )
    world.harness.advance(8 * 24 * 3600)
    Attempt(world, rows(1), job="h")
    agent = world.harness.agent(INTAKE)
    assert list(agent.jobs) == ["f", "g", "h"]
    assert len(agent.parts) == len(agent.numbers) == 3


def test_the_same_rows_make_the_same_chunks() -> None:
    many = [("a", "t", bytes(each % 7)) for each in range(1000)]
    assert [len(piece) for piece in chunks(many)] == [200] * 5
    large = [("a", "t", bytes(1_500_000))] * 5
    assert [len(piece) for piece in chunks(large)] == [2, 2, 1]
    assert list(itertools.chain(*chunks(many))) == many
    with pytest.raises(ReplayError, match="more than 4194304: send it in parts"):
        list(chunks([("a", "t", bytes(5_000_000))]))
