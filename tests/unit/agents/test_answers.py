"""Which of the notifications of a reaction answers the request."""

from collections.abc import Callable

import attrs
import pytest

from quorate import Agent, AgentId, Context, Notification, ReplyTo, reacts
from quorate.agents import encode
from quorate.testing import Harness


@attrs.frozen
class Ask(Notification):
    how: str


@attrs.frozen
class Message(Notification):
    pass


@attrs.frozen
class Answer(Notification):
    pass


@attrs.frozen
class Large(Notification):
    data: bytes


def _implicit(ctx: Context) -> None:
    ctx.send(ctx.sender, Answer())


def _first(ctx: Context) -> None:
    ctx.send(ctx.sender, Answer())
    ctx.send(ctx.sender, Message())


def _explicit_last(ctx: Context) -> None:
    ctx.send(ctx.sender, Message())
    ctx.send(ctx.sender, Message())
    ctx.send(ctx.reply_to, Answer())


def _explicit_first(ctx: Context) -> None:
    ctx.send(ctx.reply_to, Answer())
    ctx.send(ctx.sender, Message())


def _forwarded(ctx: Context) -> None:
    ctx.send(ctx.sender, Message())
    ctx.forward(ctx.sender, Answer.type_name, encode(Answer()), ctx.request)


def _after_one_too_large(ctx: Context) -> None:
    with pytest.raises(ValueError, match="send it in parts"):
        ctx.send(ctx.sender, Large(bytes(9 << 20)))
    ctx.send(ctx.sender, Answer())


def _without_answer(ctx: Context) -> None:
    ctx.send(ReplyTo(ctx.sender, 0), Message())


_HOW: dict[str, Callable[[Context], None]] = {
    function.__name__: function
    for function in (
        _implicit,
        _first,
        _explicit_last,
        _explicit_first,
        _forwarded,
        _after_one_too_large,
        _without_answer,
    )
}


@attrs.define
class Server(Agent):
    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        _HOW[note.how](ctx)


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.deploy(Server, name="server")
    return made


@pytest.mark.parametrize("how", _HOW)
def test_exactly_the_answer_has_the_number_of_the_request(harness: Harness, how: str) -> None:
    replies = harness.post(harness.note("server", Ask(how), request=7)).replies
    assert replies
    for reply in replies:
        assert reply.request == (7 if reply.type == Answer.type_name else 0)


@pytest.mark.parametrize("how", _HOW)
def test_without_a_request_nothing_has_a_number(harness: Harness, how: str) -> None:
    replies = harness.post(harness.note("server", Ask(how))).replies
    assert [reply.request for reply in replies] == [0] * len(replies)


@attrs.frozen
class Publish(Notification):
    text: str


@attrs.define
class Topic(Agent):
    subscribers: list[AgentId] = attrs.field(factory=list)

    @reacts
    def publish(self, ctx: Context, note: Publish) -> None:
        for each in [*self.subscribers, ctx.sender]:
            ctx.send(each, Message())
        ctx.send(ctx.reply_to, Answer())


def test_a_publisher_that_is_subscribed_gets_the_confirmation_as_its_answer(harness: Harness) -> None:
    harness.deploy(Topic, name="topic")
    replies = harness.post(harness.note("topic", Publish("x"), request=7)).replies
    assert [(reply.type, reply.request) for reply in replies] == [
        (Message.type_name, 0),
        (Answer.type_name, 7),
    ]
