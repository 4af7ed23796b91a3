"""Queues and topics in a configuration: what is read, and what is refused with its line."""

import json
from collections.abc import Callable

import pytest

from quorate.messaging.agents.destination import Destination
from quorate.messaging.agents.manager import MANAGER, MessagingManager
from quorate.server.config import Config

from .config_texts import cluster, one

Good = Callable[[str], Config]
Bad = Callable[[str | bytes], list[str]]
CLASS = "quorate.messaging.agents.destination:Destination"


def test_queues_and_topics_are_declared_agents(good: Good) -> None:
    orders = '<queue name="orders" max_messages="5" full="reject" redelivery_multiplier="1.5"/>'
    queue, topic, manager = good(cluster(extra=orders + '<topic name="prices.eu"/>')).servers[0].agents
    assert (queue.class_name, queue.name) == (CLASS, "queue:orders")
    assert json.loads(queue.state) == {
        "kind": "queue",
        "title": "orders",
        "settings": {"max_messages": 5, "full": "reject", "redelivery_multiplier": 1.5},
    }
    assert (topic.name, json.loads(topic.state)["kind"]) == ("topic:prices.eu", "topic")
    assert manager.name == MANAGER
    assert manager.class_name == f"{MessagingManager.__module__}:{MessagingManager.__qualname__}"
    assert f"{Destination.__module__}:{Destination.__qualname__}" == CLASS


@pytest.mark.parametrize(
    ("element", "problem"),
    [
        ('<queue name="a@b"/>', "is not usable; use up to 255"),
        ('<queue name="a" max_messages="many"/>', "max_messages of queue a is 'many'; write a whole number"),
        (
            '<queue name="a" max_bytes="-1"/>',
            "max_bytes of queue a is '-1'; write a whole number, 0 or more.",
        ),
        (
            '<topic name="a" redelivery_multiplier="x"/>',
            "redelivery_multiplier of topic a is 'x'; write a number.",
        ),
        ('<queue name="a" redelivery_multiplier="0"/>', "redelivery_multiplier is 0.0; give 1 to 100"),
        ('<queue name="a" max_message_bytes="0"/>', "max_message_bytes is 0; give 1 or more"),
        ('<queue name="a" full="maybe"/>', "full"),
        (
            '<queue name="a" cluster="s7 s8"/>',
            "cluster of queue a is 's7 s8'; write the names of all servers that have a member, s0 among them",
        ),
        ('<queue name="a" forward="b"/>', "'b' is not a destination of another server; write name@server"),
        ('<topic name="a" forward="b@s7"/>', "topic a forwards to b@s7; there is no such server."),
        ('<queue name="a" forward="a@s0"/>', "queue a forwards to itself; name another one."),
        ('<topic name="a" cluster="s0 s7"/>', "topic a has a member at a@s7; there is no such server."),
        ("<queue/>", "name"),
    ],
)
def test_a_destination_that_cannot_be_made_is_a_problem_of_its_line(
    bad: Bad, element: str, problem: str
) -> None:
    (found,) = bad(one(element))
    assert found.startswith("3: ")
    assert problem in found


def test_a_queue_is_declared_once(bad: Bad) -> None:
    queue = '<queue name="orders"/>'
    agent = (
        f'<agent class=\'{CLASS}\' name=\'queue:orders\' args=\'{{"kind": "queue", "title": "orders"}}\'/>'
    )
    for text in (f"{queue}\n{queue}", f"{agent}\n{queue}"):
        assert bad(one(text)) == ["4: the agent 'queue:orders' stands on line 3 already; keep one."]


def test_a_queue_in_a_replica_is_to_be_moved_to_the_cluster(bad: Bad) -> None:
    text = cluster().replace('port="10"/></server>', 'port="10"/><queue name="a"/></server>', 1)
    assert bad(text) == ["4: agents are the same on all replicas; move <queue> into the <cluster>."]
