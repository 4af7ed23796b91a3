"""What the rows of a frame become, and which are refused before anything is sent."""

from typing import Any

import attrs
import msgspec
import pyarrow as arrow
import pytest

from quorate import Notification
from quorate.replay import ReplayError

pytest.importorskip("pyspark")


@attrs.frozen
class Deposit(Notification):
    amount: int
    note: str = ""


OPTIONS = {"url": "quorate://localhost:1", "to": "alice", "type": Deposit.type_name}


def rows(options: dict[str, str], **columns: list[Any]) -> list[Any]:
    from quorate.replay.data_sink import Sink

    batch = arrow.RecordBatch.from_pydict(columns)
    return list(Sink.read(options, batch.schema.names).rows([batch]))


def test_columns_become_the_fields_of_a_notification() -> None:
    ((to, name, payload),) = rows(OPTIONS, amount=[5], note=["x"])
    assert (to, name) == ("alice", Deposit.type_name)
    assert msgspec.msgpack.decode(payload) == {"amount": 5, "note": "x"}


def test_columns_say_where_a_row_goes_and_what_it_is() -> None:
    given = rows(
        {"url": "quorate://localhost:1"}, to=["a", "b"], type=["x/1", "y/1"], payload=[b"\x80", b"\x80"]
    )
    assert given == [("a", "x/1", b"\x80"), ("b", "y/1", b"\x80")]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"amount": ["5"]}, "a row for alice is no .*Deposit: Expected `int`, got `str`"),
        ({"amount": [5], "extra": [1]}, "has no field extra: drop that column; its fields are amount, note"),
        ({"amount": [None]}, "Expected `int`, got `None`"),
        ({"payload": [b"\xc1"]}, "is no .*Deposit"),
    ],
)
def test_rows_that_are_no_such_notification_are_refused(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ReplayError, match=sentence):
        rows(OPTIONS, **columns)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": ""}, "tell where the rows go"),
        ({"refusals": "perhaps"}, "refusals is error or ignore, and not 'perhaps'"),
        ({"timeoutSeconds": "soon"}, "timeoutSeconds is a number of seconds above 0"),
        ({"to": None}, "the rows have no column 'to'; make one, or set the option to"),
    ],
)
def test_options_that_cannot_be_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ReplayError, match=sentence):
        rows({**OPTIONS, **options}, amount=[1])


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ReplayError, match="a row has the address None and the type"):
        rows({**OPTIONS, "to": None}, to=[None], amount=[1])  # type: ignore[dict-item]
