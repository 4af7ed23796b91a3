"""Selectors: three-valued conditions over the properties of messages."""

import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate import Pack
from quorate.agents import ColumnValue
from quorate.messaging.agents.selector import MAX_SELECTOR_CHARS, Selector, SelectorError

MESSAGE: dict[str, ColumnValue] = {
    "region": "EU",
    "text": "it's",
    "percent": "10%",
    "weight": 57,
    "price": 9.5,
    "urgent": True,
    "done": False,
    "JMSPriority": 4,
    "JMSType": "car",
    "$odd_name1": 1,
}


def _selects(text: str, values: dict[str, ColumnValue] = MESSAGE) -> bool:
    selector = Selector.compile(text)
    assert selector is not None
    return selector.matches(values)


@pytest.mark.parametrize(
    "text",
    [
        "region = 'EU'",
        "text = 'it''s'",
        "region <> 'US' AND weight > 50",
        "weight >= 57 and weight <= 57 And not weight < 57",
        "weight = 57.0",
        "weight + 3 * 2 = 63 AND (weight + 3) * 2 = 120",
        "-weight = -57 AND - -weight = +57",
        "weight - 7 - 50 = 0",
        "weight / 2 = 28 AND -weight / 2 = -28",
        "price / 2 = 4.75",
        "price > 9 AND price < 1E1 AND price = 95e-1 AND price > .5 AND price > 7.",
        "weight BETWEEN 50 AND 60",
        "weight NOT BETWEEN 1 AND 50",
        "region IN ('US', 'EU')",
        "region NOT IN ('US')",
        "urgent",
        "NOT done AND urgent = TRUE AND done = false AND urgent <> FALSE",
        "missing IS NULL AND region IS NOT NULL",
        "JMSPriority = 4 AND JMSType = 'car'",
        "$odd_name1 = 1",
        "1 = 1",
        "TRUE",
        "missing = 1 OR region = 'EU'",
        "region LIKE 'E%' AND region LIKE '%U' AND region LIKE 'E_' AND region LIKE 'EU' AND region LIKE '%'",
        "region NOT LIKE 'e%'",
        r"percent LIKE '10\%' ESCAPE '\'",
        "percent LIKE '1%!%' ESCAPE '!'",
        "\n region\n=\t'EU'  ",
    ],
)
def test_a_condition_that_is_true_selects(text: str) -> None:
    assert _selects(text)


@pytest.mark.parametrize(
    "text",
    [
        "region = 'eu'",
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "missing",
        "NOT missing",
        "missing LIKE '%'",
        "missing NOT LIKE 'x'",
        "missing IN ('a')",
        "missing NOT IN ('a')",
        "missing BETWEEN 1 AND 2",
        "missing NOT BETWEEN 1 AND 2",
        "missing = missing",
        "missing + 1 = 1",
        "NULL_ IS NOT NULL",
        "region LIKE 'E'",
        "region LIKE '_'",
        "region LIKE ''",
        "weight / 0 = 1",
        "NOT weight / 0 = 1",
        "region + 1 = 2",
        "FALSE",
    ],
)
def test_a_condition_that_is_false_or_unknown_does_not_select(text: str) -> None:
    assert not _selects(text)


@pytest.mark.parametrize(
    "text", ["region = 57", "region <> 57", "weight = 'EU'", "urgent = 1", "urgent <> 1"]
)
def test_values_of_unlike_types_are_neither_equal_nor_unequal(text: str) -> None:
    assert not _selects(text)


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_selector_is_none(text: str) -> None:
    assert Selector.compile(text) is None


@pytest.mark.parametrize(
    ("text", "place", "flaw"),
    [
        ("region =", "line 1, column 9, the end", "expected a property"),
        ("region = 'EU", 'line 1, column 10, "\'"', "a text without its closing quote"),
        ("a = 1\nAND b == 2", "line 2, column 8, '='", "expected a property"),
        ("a = 1 b = 2", "line 1, column 7, 'b'", "expected an operator"),
        ("a & b", "line 1, column 3, '&'", "no part of a selector"),
        ("a = 1 OR", "line 1, column 9, the end", "expected a property"),
        ("(a = 1", "line 1, column 7, the end", "expected )"),
        ("a IS 1", "line 1, column 6, '1'", "expected NULL"),
        ("a NOT 1", "line 1, column 7, '1'", "expected BETWEEN, IN or LIKE after NOT"),
        ("a BETWEEN 1", "line 1, column 12, the end", "expected AND"),
        ("a BETWEEN 1 AND 'x'", "line 1, column 17", "BETWEEN takes numbers"),
        ("a IN (1)", "line 1, column 7, '1'", "expected a text in quotes"),
        ("a IN ('x'", "line 1, column 10, the end", "expected ,"),
        ("a IN ()", "line 1, column 7, ')'", "expected a text in quotes"),
        ("a LIKE b", "line 1, column 8, 'b'", "expected a pattern in quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", "line 1, column 19", "expected one character in quotes"),
        (
            "a LIKE 'x!y' ESCAPE '!'",
            "line 1, column 8",
            "after the escape character '!' comes %, _ or itself",
        ),
        ("'x' LIKE 'x'", "line 1, column 1", "LIKE takes a property"),
        ("1 IN ('x')", "line 1, column 1", "IN takes a property"),
        ("'x'", "line 1, column 1", "a condition is expected here"),
        ("a + 1", "line 1, column 3, '+'", "a condition is expected here"),
        ("a = 1 AND 2", "line 1, column 11, '2'", "a condition is expected here"),
        ("'x' = 1", "line 1, column 5, '='", "a text is never compared with a number"),
        ("a < 'x'", "line 1, column 3, '<'", "a text is compared with = or <> only"),
        ("a > TRUE", "line 1, column 3, '>'", "a bool is compared with = or <> only"),
        ("a + 'x' = 1", "line 1, column 3, '+'", "+ takes numbers, not a text"),
        ("-'x' = 1", "line 1, column 1, '-'", "- takes a number, not a text"),
        ("(a = 1) = (b = 1)", "line 1, column 9, '='", "two conditions are joined by AND or OR"),
        ("1 IS NULL", "line 1, column 1, '1'", "only a property is compared with NULL"),
        ("JMSReplyTo = 'x'", "line 1, column 1, 'JMSReplyTo'", "there is no such header"),
        ("a = 5L", "line 1, column 5, '5'", "not a number"),
        ("a = 0x1F", "line 1, column 5, '0'", "not a number"),
        ("(" * 100, "line 1, column 65", "nested more than 64 deep"),
        ("NOT " * 100 + "a", "line 1, column 257", "nested more than 64 deep"),
        ("a = " + "-" * 100 + "1", "line 1, column 69", "nested more than 64 deep"),
    ],
)
def test_a_wrong_selector_is_refused_with_the_place(text: str, place: str, flaw: str) -> None:
    with pytest.raises(SelectorError) as raised:
        Selector.compile(text)
    sentence = str(raised.value)
    assert sentence.startswith(f"the selector is wrong at {place}")
    assert flaw in sentence


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("a" * (MAX_SELECTOR_CHARS + 1), "has 8193 characters; the most are 8192"),
        ("a=1 OR " * 300 + "a=1", "has 1204 words and signs; the most are 1000"),
    ],
)
def test_a_selector_is_bounded(text: str, flaw: str) -> None:
    with pytest.raises(SelectorError, match=flaw):
        Selector.compile(text)


def test_a_long_chain_of_conditions_is_evaluated() -> None:
    assert _selects(" AND ".join(["weight = 57"] * 200))
    assert not _selects(" OR ".join(["weight = 58"] * 200))
    assert _selects("weight " + "+ 1 " * 450 + "> 500")


def test_like_takes_no_time_in_proportion_to_the_ways_to_match() -> None:
    # With steps back this pattern would not end within years.
    assert not _selects("t LIKE '" + "a%" * 40 + "b'", {"t": "a" * 4000})


def test_messages_of_a_pack_are_selected_by_their_columns() -> None:
    pack = Pack.of([b""] * 4, **{".region": ["EU", "US", "EU", None], "priority": [9, 9, None, 9]})
    selector = Selector.compile("region = 'EU' AND JMSPriority >= 4 AND JMSDeliveryMode = 'PERSISTENT'")
    assert selector is not None
    assert selector.select(pack) == [0, 2]


@pytest.mark.parametrize(("text", "found"), [("1 = 1", [0, 1]), ("1 = 2", [])])
def test_a_selector_without_names_selects_all_or_nothing(text: str, found: list[int]) -> None:
    selector = Selector.compile(text)
    assert selector is not None
    assert selector.select(Pack.of([b"a", b"b"])) == found


# SQLite knows the same logic. Columns i and j hold integers, t and u texts, each or NULL.

NUMBERS = st.recursive(
    st.sampled_from(["i", "j", "0", "1", "3"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
    max_leaves=4,
)
TEXTS = st.sampled_from(["t", "u", "'a'", "'ab'", "''"])
ORDER = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
PATTERNS = st.text(alphabet="ab%_", max_size=5).map(lambda text: f"'{text}'")
NEGATED = st.sampled_from(["", "NOT "])
PREDICATES = st.one_of(
    st.builds("{} {} {}".format, NUMBERS, ORDER, NUMBERS),
    st.builds("{} {} {}".format, TEXTS, st.sampled_from(["=", "<>"]), TEXTS),
    st.builds("{} {}BETWEEN {} AND {}".format, NUMBERS, NEGATED, NUMBERS, NUMBERS),
    st.builds("{} {}IN ('a', 'ab')".format, st.sampled_from("tu"), NEGATED),
    st.builds("{} {}LIKE {}".format, st.sampled_from("tu"), NEGATED, PATTERNS),
    st.builds("{} IS {}NULL".format, st.sampled_from("ijtu"), NEGATED),
)
CONDITIONS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)
ROWS: Any = st.fixed_dictionaries(
    {name: st.none() | st.integers(-3, 3) for name in "ij"}
    | {name: st.none() | st.text(alphabet="ab", max_size=4) for name in "tu"}
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONDITIONS, ROWS)
def test_a_selector_selects_what_sqlite_selects(text: str, row: dict[str, ColumnValue]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA case_sensitive_like = ON")
        bound = re.sub(r"\b([ijtu])\b(?=(?:[^']*'[^']*')*[^']*$)", r":\1", text)
        ((found,),) = connection.execute(f"SELECT ({bound}) IS TRUE", row)
    assert _selects(text, row) == bool(found)
