"""Rights on names: which row counts, which right a request needs, and what is wrong with a file."""

import pytest

from quorate.agents.rights import Grant, allows, needed_right, parse_rights

FILE = """
# who            pattern         rights
user:anna        queue:orders    send receive browse
group:traders    queue:*         send
group:night      queue:orders    none
everyone         topic:news.*    receive
everyone         agent*          send
user:anna        agent-secret    none
"""


def may(user: str, groups: list[str], right: str, name: str) -> bool:
    return allows(parse_rights(FILE).of(user, groups), right, name)


def test_rows_of_the_user_and_of_its_groups_and_of_everyone_count() -> None:
    assert may("anna", [], "receive", "queue:orders")
    assert may("bert", ["traders"], "send", "queue:orders")
    assert may("bert", [], "receive", "topic:news.local")
    assert not may("bert", [], "send", "queue:orders")
    assert not may("bert", ["traders"], "receive", "queue:orders")


def test_the_most_specific_pattern_wins_whoever_it_names() -> None:
    assert may("bert", ["traders", "night"], "send", "queue:invoices")
    assert not may("bert", ["traders", "night"], "send", "queue:orders")
    assert may("anna", [], "send", "agent-alice")
    assert not may("anna", [], "send", "agent-secret")


def test_rows_with_the_same_pattern_count_together() -> None:
    assert may("anna", ["night"], "send", "queue:orders")


def test_what_no_row_names_is_not_allowed() -> None:
    assert not may("anna", ["traders"], "receive", "topic:prices")
    assert not allows((), "send", "alice")


def test_signs_in_patterns_stand_for_themselves_and_a_star_for_any_text() -> None:
    grants = [Grant("a.b[1]*@s1", ("send",))]
    assert allows(grants, "send", "a.b[1] and\nmore@s1")
    assert not allows(grants, "send", "axb[1]@s1")
    assert not allows(grants, "send", "a.b1@s1")


@pytest.mark.parametrize(
    ("name", "type", "right"),
    [
        ("queue:orders", "quorate.message.open-producer/1", "send"),
        ("queue:orders", "quorate.message.open-consumer", "receive"),
        ("topic:prices", "quorate.message.unsubscribe", "receive"),
        ("queue:orders", "quorate.message.browse", "browse"),
        ("queue:orders", "quorate.message.publish/1", None),
        ("queue:orders", "shop:Order", "send"),
        ("alice", "bank:Deposit", "send"),
        ("queue:temporary-0.7-1", "quorate.message.open-producer", None),
        ("quorate.messaging", "quorate.message.commit", None),
    ],
)
def test_the_right_that_a_request_needs(name: str, type: str, right: str | None) -> None:
    assert needed_right(name, type) == right


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("anna queue:a send", "line 1: 'anna' is not user:NAME, group:NAME or everyone"),
        ("\nuser: queue:a send", "line 2: 'user:' is not user:NAME"),
        ("user:anna queue:a", "line 1 has no rights"),
        ("user:anna queue:a write", "'write' is not one of send, receive, browse"),
        ("user:anna queue:a none send", "not none alone"),
        ("user:anna a send\n" * 10_001, "more than 10000 rows"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_rights(text)
