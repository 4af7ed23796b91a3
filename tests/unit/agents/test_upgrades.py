"""Upgrade functions of classes: what they may be, and how payloads of former versions are read."""

from typing import Any

import attrs
import msgspec
import pytest

from quorate import Agent, AgentError, Context, Notification, reacts, upgrades
from quorate.agents import UpgradeError, known_type, read
from quorate.testing import Harness

Values = dict[str, Any]
pack = msgspec.msgpack.encode


@attrs.frozen
class Deposit(Notification, name="upgrade-test.deposit", version=3):
    cents: int
    note: str = ""

    @staticmethod
    @upgrades(from_version=1, also=("old_bank:Deposit",))
    def in_cents(values: Values) -> Values:
        return {"cents": values["amount"] * 100}

    @upgrades(from_version=2)
    @staticmethod
    def with_note(values: Values) -> Values:
        values["note"] = f"{values['cents']} cents"
        return values


@attrs.frozen
class Seen(Notification):
    cents: int
    note: str


@attrs.define
class Till(Agent):
    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        ctx.send(ctx.sender, Seen(note.cents, note.note))


@pytest.mark.parametrize(
    ("name", "values", "read_as"),
    [
        ("upgrade-test.deposit/1", {"amount": 5}, Deposit(500, "500 cents")),
        ("old_bank:Deposit", {"amount": 5}, Deposit(500, "500 cents")),
        ("upgrade-test.deposit/2", {"cents": 7}, Deposit(7, "7 cents")),
        ("upgrade-test.deposit/3", {"cents": 7}, Deposit(7)),
    ],
)
def test_a_payload_of_a_former_version_passes_through_all_later_upgrades(
    name: str, values: Values, read_as: Deposit
) -> None:
    assert known_type(name) is Deposit
    assert read(Deposit, name, pack(values)) == read_as


def test_an_agent_reacts_to_a_former_version_and_refuses_one_that_cannot_be_upgraded() -> None:
    harness = Harness()
    harness.deploy(Till, name="till")
    note = harness.note("till", Deposit(1))

    def sent(values: Values) -> Notification:
        former = msgspec.structs.replace(note, type="upgrade-test.deposit/1", payload=pack(values))
        (reply,) = harness.decoded(harness.post(former).replies)
        return reply

    assert sent({"amount": 5}) == Seen(500, "500 cents")
    failure: Any = sent({"sum": 5})
    assert failure.error == "Unfit"
    assert "upgrade-test.deposit/1 cannot become upgrade-test.deposit/3" in failure.message
    assert "from version 1, Deposit.in_cents, raised KeyError: 'amount' (test_upgrades.py, line" in (
        failure.message
    )
    unfit: Any = sent({"amount": "many"})
    assert (unfit.error, "$.cents" in unfit.message) == ("Unfit", True)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "returned NoneType; return a dict"),
        ({1: 2}, "returned a dict with other keys than texts"),
        ({"cents": object()}, "what its upgrade returned cannot be stored"),
    ],
)
def test_an_upgrade_that_returns_something_else_is_named(returned: Any, says: str) -> None:
    @attrs.frozen
    class Odd(Notification, name="upgrade-test.odd", version=2):
        cents: int

        @staticmethod
        @upgrades(from_version=1)
        def step(values: Values) -> Values:
            return returned  # type: ignore[no-any-return]

    with pytest.raises(UpgradeError, match=f"odd/1 cannot become upgrade-test.odd/2.*{says}"):
        read(Odd, "upgrade-test.odd/1", pack({}))


@pytest.mark.parametrize(
    ("version", "froms", "says"),
    [
        (3, (1,), "has an upgrade from version 1, and none from version 2"),
        (2, (2,), "give the class the version 3"),
        (3, (1, 2, 2), "two upgrades from version 2"),
    ],
)
def test_a_class_whose_upgrades_leave_a_gap_or_collide_is_refused(
    version: int, froms: tuple[int, ...], says: str
) -> None:
    def copy(from_version: int) -> Any:
        return staticmethod(upgrades(from_version=from_version)(lambda values: values))

    body = {f"step{n}": copy(each) for n, each in enumerate(froms)}
    with pytest.raises(AgentError, match=says):
        type("Gap", (Notification,), body, name="upgrade-test.gap", version=version)


def test_an_upgrade_needs_a_named_class_and_a_whole_name() -> None:
    def body(also: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"step": staticmethod(upgrades(from_version=1, also=also)(lambda values: values))}

    with pytest.raises(AgentError, match=r"has upgrades and no name.*list '.*Bare' in also"):
        type("Bare", (Notification,), body())
    with pytest.raises(AgentError, match="'bank' in also is not a whole name"):
        type("Named", (Notification,), body(("bank",)), name="upgrade-test.named", version=2)
    also = ("upgrade-test.twice/1",)
    with pytest.raises(AgentError, match="is read in another way"):
        type("Twice", (Notification,), body(), name="upgrade-test.twice", version=2, also=also)
    with pytest.raises(AgentError, match="0 in @upgrades is not a version"):
        upgrades(from_version=0)
