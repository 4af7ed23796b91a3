"""Exchanges as topics: what is published reaches the bindings that AMQP 0-9-1 says, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gateways.kombu.names import BadName, binding_topic, exchange_topic, queue_topic
from quorate.messaging.agents.topic_tree import matcher

words = st.text(max_size=8) | st.sampled_from(["", "a", "b", "%", "*", "#", "@", " ", "ä", "%2E", "\n"])
names = st.lists(words, min_size=1, max_size=4).map(".".join)
keys = st.lists(st.sampled_from(["", "a", "b", "c d"]), max_size=4).map(".".join)
patterns = st.builds(
    lambda head, rest: ".".join([*head, *rest]),
    st.lists(st.sampled_from(["", "a", "b", "c d", "*"]), max_size=4),
    st.sampled_from([[], ["#"]]),
)


def selects(pattern: list[str], key: list[str]) -> bool:
    """The rule of AMQP 0-9-1 for topic exchanges."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(selects(pattern[1:], key[place:]) for place in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and selects(pattern[1:], key[1:])


def split(key: str) -> list[str]:
    return key.split(".") if key else []


def reaches(kind: str, exchange: str, binding: str, published: tuple[str, str]) -> bool:
    pattern = binding_topic("kombu", exchange, kind, binding).title
    return matcher(pattern)(exchange_topic("kombu", *published).title)


@given(patterns, keys)
def test_a_topic_exchange_selects_by_words(pattern: str, key: str) -> None:
    assert reaches("topic", "tasks", pattern, ("tasks", key)) == selects(split(pattern), split(key))


@given(names, names)
def test_a_direct_exchange_selects_the_same_key(binding: str, key: str) -> None:
    assert reaches("direct", "tasks", binding, ("tasks", key)) == (binding == key)


@given(names)
def test_a_fanout_exchange_selects_everything(key: str) -> None:
    assert reaches("fanout", "news", "", ("news", key))


@given(names, names, names)
def test_exchanges_do_not_mix(one: str, other: str, key: str) -> None:
    assert reaches("fanout", one, "", (other, key)) == (one == other)


@given(names, names)
def test_a_queue_of_its_own_gets_what_is_sent_to_its_name(one: str, other: str) -> None:
    topic = queue_topic("kombu", one).title
    assert matcher(topic)(queue_topic("kombu", other).title) == (one == other)
    if other:
        assert not matcher(topic)(exchange_topic("kombu", other, one).title)


@pytest.mark.parametrize(
    ("kind", "key", "why"),
    [
        ("topic", "a.#.b", "as the last word only"),
        ("topic", "#.b", "as the last word only"),
        ("headers", "", "use direct, topic or fanout"),
        ("direct", "a." * 80, "too many words"),
    ],
)
def test_what_cannot_be_bound_is_named(kind: str, key: str, why: str) -> None:
    with pytest.raises(BadName, match=why):
        binding_topic("kombu", "tasks", kind, key)
