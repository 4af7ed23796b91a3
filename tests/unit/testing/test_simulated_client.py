"""Notifications that come to clients of a simulated cluster beside the answers of their requests."""

from typing import Any

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.testing import SimulatedCluster


@attrs.frozen
class Publish(Notification):
    """Request to tell the sender something before and after the answer, or to let it be the answer."""

    text: str
    explicit: bool = True


@attrs.frozen
class Published(Notification):
    number: int


@attrs.frozen
class Article(Notification):
    text: str


@attrs.define
class Press(Agent):
    published: int = 0

    @reacts
    def publish(self, ctx: Context, note: Publish) -> None:
        self.published += 1
        if note.explicit:
            ctx.send(ctx.sender, Article(f"{note.text} before"))
            ctx.send(ctx.reply_to, Published(self.published))
        else:
            ctx.send(ctx.sender, Published(self.published))
        ctx.send(ctx.sender, Article(note.text))


@pytest.mark.parametrize("seed", range(4))
def test_a_notification_to_the_sender_that_is_not_the_answer_reaches_receive(seed: int) -> None:
    with SimulatedCluster(seed=seed) as cluster:
        press = cluster.create(Press, name="press")
        client = cluster.client()
        pending = client.begin_request("press", Publish("first"))
        cluster.kill_master()
        assert pending.result() == Published(1)
        assert client.request("press", Publish("second", explicit=False)) == Published(2)
        got = [client.receive() for _ in range(3)]
        assert [each.notification for each in got] == [
            *(Article("first before"), Article("first")),
            Article("second"),
        ]
        assert {each.sender for each in got} == {press}


def test_a_listener_gets_what_answers_no_request_once_across_the_death_of_a_master() -> None:
    with SimulatedCluster(seed=5) as cluster:
        cluster.create(Press, name="press")
        client = cluster.client()
        got: list[Any] = []
        ends: list[object] = []
        client.listen(lambda received: got.append(received.notification), ends.append)
        for number in range(1, 6):
            pending = client.begin_request("press", Publish(str(number), explicit=False))
            cluster.kill_master()
            assert pending.result() == Published(number)
            cluster.restart()
        cluster.run_until(lambda: len(got) == 5)
        assert got == [Article(str(number)) for number in range(1, 6)]
        client.stop_listening()
        client.request("press", Publish("6", explicit=False))
        assert client.receive().notification == Article("6")
        client.close()
        assert (len(got), ends) == (5, [])
