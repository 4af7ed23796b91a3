"""Notifications of administrators: their commits and failures reach the one who has submitted them."""

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from twisted.internet.task import Clock

from quorate import Agent, Context, ExceptionNotification, Notification, UnknownAgent, reacts
from quorate.agents import Note, outside
from quorate.server.config import Replica
from quorate.server.master.requests import NotServing
from quorate.server.master.submissions import Submissions
from quorate.testing.harness import Harness


@attrs.frozen
class Add(Notification):
    number: int


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.number < 0:
            raise ValueError("too low")
        self.total += note.number
        ctx.send(ctx.sender, note)


class Master:
    """A node that collects what is posted, and applies it as one entry on demand."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.harness.deploy(Sum, name="sum")
        self.serving = True
        self.waiting: list[tuple[Note, int | None]] = []
        context: Any = SimpleNamespace(
            reactor=Clock(), incarnation=7, clock=lambda: 0.0, replica=Replica(0, "localhost")
        )
        port: Any = SimpleNamespace(node=self, flush_soon=lambda: None)
        self.submissions = Submissions(context, port)

    @property
    def posting(self) -> bool:
        return self.serving

    def post(self, notes: list[Note], token: int | None = None) -> bool:
        self.waiting += [(note, token) for note in notes]
        return self.serving

    def commit(self) -> None:
        waiting, self.waiting = self.waiting, []
        for reply in self.harness.post(*[note for note, _ in waiting]).replies:
            self.submissions.answer(reply)
        for _, token in waiting:
            if token is not None:
                self.submissions.committed(token)

    def submit(self, *notes: Note) -> list[Any]:
        results: list[Any] = []
        for note in notes:
            self.submissions.submit(note).addBoth(results.append)
        assert results == []
        self.commit()
        return results


def add(number: int, to: str = "sum") -> Note:
    return Harness().note(to, Add(number))


def unfit() -> Note:
    return Note("sum", outside(0), Add.type_name, b"\x81\xa6number\xa1x")


def test_a_submission_fires_without_result_when_it_is_committed() -> None:
    assert Master().submit(add(1), add(2)) == [None, None]


def test_each_submission_of_an_entry_gets_its_own_failure() -> None:
    first, failed, missing, misfit = Master().submit(add(1), add(-1), add(1, "nobody"), unfit())
    assert first is None
    raised, unknown, wrong = Harness.decoded([failed, missing, misfit])
    assert isinstance(raised, ExceptionNotification)
    assert (raised.error, raised.message) == ("ValueError", "too low")
    assert unknown == UnknownAgent("nobody", Add.type_name)
    assert isinstance(wrong, ExceptionNotification)
    assert wrong.error == "Unfit"


def test_a_request_still_gets_its_reply_beside_a_submission() -> None:
    master = Master()
    replies: list[Any] = []
    master.submissions.request(add(5), 10.0).addBoth(replies.append)
    assert master.submit(add(-1))[0].type == ExceptionNotification.type_name
    assert Harness.decoded(replies) == [Add(5)]


def test_submissions_fail_when_the_replica_ceases_to_serve() -> None:
    master = Master()
    results: list[Any] = []
    master.submissions.submit(add(1)).addErrback(lambda failure: results.append(failure.value))
    master.submissions.fail("it stops")
    assert [type(result) for result in results] == [NotServing]
    master.serving = False
    with pytest.raises(NotServing):
        master.submissions.submit(add(1))
