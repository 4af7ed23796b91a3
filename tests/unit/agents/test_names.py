"""Explicit names of notification and agent classes."""

from types import ModuleType

import attrs
import pytest

from quorate import Agent, AgentError, Context, Notification, reacts
from quorate.agents import agent_named, agent_spec, known_type
from quorate.agents.notification import has_name


@attrs.frozen
class Paid(Notification, name="names-test.paid", version=2, also=("names-test.paid/1", "old.bank:Paid")):
    amount: int


@attrs.frozen
class PaidTwice(Paid):
    pass


@attrs.define
class Till(Agent, name="names-test.till"):
    total: int = 0

    @reacts
    def paid(self, ctx: Context, note: Paid) -> None:
        self.total += note.amount


def module(name: str, source: str) -> ModuleType:
    made = ModuleType(name)
    exec("import attrs\nfrom quorate import Agent, Notification\n" + source, made.__dict__)
    return made


def test_a_named_notification_travels_under_its_name_and_version() -> None:
    assert Paid.type_name == "names-test.paid/2"
    assert known_type("names-test.paid/2") is Paid


def test_a_notification_is_found_by_the_other_names_it_declares() -> None:
    for name in ("names-test.paid/1", "old.bank:Paid"):
        assert known_type(name) is Paid
        assert has_name(Paid, name)
    assert not has_name(Paid, "names-test.paid/3")


def test_a_handler_reacts_to_every_name_of_its_notification() -> None:
    assert set(agent_spec(Till).handlers) == set(Paid.type_names)


def test_a_subclass_does_not_inherit_the_name() -> None:
    assert PaidTwice.type_names == (f"{__name__}:PaidTwice",)


def test_a_named_agent_class_is_found_by_name_and_knows_its_location() -> None:
    spec = agent_spec(Till)
    assert (spec.name, spec.location) == ("names-test.till/1", f"{__name__}:Till")
    assert agent_named("names-test.till/1") is Till
    assert agent_named(spec.location) is None


@pytest.mark.parametrize("base", ["Notification", "Agent"])
def test_a_name_declared_by_two_classes_is_refused_and_both_are_named(base: str) -> None:
    source = f"class {{}}({base}, name='names-test.twice-{base.lower()}'): pass"
    module("first_bank", source.format("One"))
    with pytest.raises(AgentError, match=r"second_bank:Two and first_bank:One are both called names-test"):
        module("second_bank", source.format("Two"))


@pytest.mark.parametrize("base", ["Notification", "Agent"])
def test_a_module_read_again_replaces_its_classes(base: str) -> None:
    decorator = "attrs.frozen" if base == "Notification" else "attrs.define"
    source = f"@{decorator}\nclass One({base}, name='names-test.again-{base.lower()}'): pass"
    module("again_bank", source)
    again = module("again_bank", source)
    find = known_type if base == "Notification" else agent_named
    assert find(f"names-test.again-{base.lower()}/1") is again.__dict__["One"]


@pytest.mark.parametrize(
    "name", ["", "Bank", "bank x", "bank/1", "bank:Deposit", "1bank", "bank.", "a" * 201]
)
def test_a_name_with_other_characters_is_refused(name: str) -> None:
    with pytest.raises(AgentError, match="is not a name; use up to 200 small letters"):
        module("named_bank", f"class One(Notification, name={name!r}): pass")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("version=2", "a version belongs to a name"),
        ("name='names-test.x', version=0", "0 is not a version"),
        ("name='names-test.x', version=True", "True is not a version"),
        ("name='quorate.deposit'", "begins like a name of the platform"),
        ("name='names-test.x', also='names-test.y/1'", "also is a tuple of names"),
        ("name='names-test.x', also=('names-test.y',)", "in also is not a whole name"),
    ],
)
def test_arguments_that_make_no_name_are_refused(arguments: str, sentence: str) -> None:
    with pytest.raises(AgentError, match=sentence):
        module("named_bank", f"class One(Agent, {arguments}): pass")
