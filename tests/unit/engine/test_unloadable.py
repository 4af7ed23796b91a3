"""A class that the master cannot load is refused for all replicas; a replica that lacks it stops."""

from collections.abc import Callable

import attrs
import pytest

from quorate import (
    Agent,
    AgentError,
    Context,
    Create,
    Created,
    CreateFailed,
    ExceptionNotification,
    Notification,
    ReplyTo,
    reacts,
)
from quorate.agents import AgentId, AgentSpec, Note, RefuseCreate, agent_spec, encode, factory, outside
from quorate.engine import Effects, Engine, NetInput, Posts, Unloadable, encode_batch
from quorate.engine.class_loading import load_class
from quorate.testing.harness import Harness

NAME = f"{__name__}:Clerk"
OUTSIDE, FACTORY = outside(0), factory(0)


@attrs.frozen
class Go(Notification):
    pass


@attrs.define
class Clerk(Agent):
    gone: int = 0

    @reacts
    def go(self, ctx: Context, _: Go) -> None:
        self.gone += 1


def absent(class_name: str) -> AgentSpec:
    raise AgentError(f"module {class_name.partition(':')[0]} cannot be found; install it")


def fails(error: BaseException) -> Callable[[str], AgentSpec]:
    def load(_: str) -> AgentSpec:
        raise error

    return load


def engine(load: Callable[[str], AgentSpec] = load_class) -> Engine:
    return Engine(0, {"s0": 0, "s1": 1}, load=load)


def create(key: str = "", sender: AgentId = OUTSIDE, to: AgentId | str = FACTORY) -> Note:
    ask = Create(NAME, "clerk", key=key)
    return Note(to, sender, ask.type_name, encode(ask), 9)


def apply(each: Engine, *notes: Note) -> Effects:
    return each.apply(each.applied + 1, 1_000, encode_batch([Posts(list(notes))]))


def test_a_class_that_the_master_cannot_load_is_refused_by_every_replica_alike() -> None:
    master, slave, other = engine(absent), engine(), engine(absent)
    notes = master.checked([create()])
    effects = [apply(each, *notes) for each in (master, slave, other)]
    (answer,) = effects[0].replies
    assert (answer.type, answer.request) == (CreateFailed.type_name, 9)
    assert b"cannot be found; install it" in answer.payload
    assert [each.replies for each in effects] == [[answer]] * 3
    assert master.digest() == slave.digest() == other.digest()
    assert not list(slave.cells())


def test_a_replica_that_lacks_the_class_raises_and_names_it() -> None:
    notes = engine().checked([create()])
    with pytest.raises(Unloadable) as raised:
        apply(engine(absent), *notes)
    assert NAME in str(raised.value)
    assert "cannot be found; install it. Then start this replica again" in str(raised.value)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("x"), SystemExit("x"), KeyboardInterrupt(), ValueError("x")]
)
def test_whatever_loading_raises_the_class_is_refused_or_the_replica_stops(error: BaseException) -> None:
    faulty = engine(fails(error))
    with pytest.raises(Unloadable):
        apply(faulty, create())
    assert [note.type for note in faulty.checked([create()])] == [RefuseCreate.type_name]


@pytest.mark.parametrize("to", [factory(0), str(factory(0))])
def test_the_factory_is_recognised_in_every_form_of_its_address(to: AgentId | str) -> None:
    assert [note.type for note in engine(absent).checked([create(to=to)])] == [RefuseCreate.type_name]


@pytest.mark.parametrize("to", [factory(1), "clerk", "clerk@s1", "#x", "a@b@c"])
def test_a_creation_elsewhere_is_not_checked_here(to: AgentId | str) -> None:
    notes = [create(to=to)]
    assert engine(absent).checked(notes) == notes


def test_other_notifications_are_kept_in_place() -> None:
    other = Note("clerk", outside(0), Go.type_name, encode(Go()))
    unreadable = Note(factory(0), outside(0), Create.type_name, b"\xc1")
    given = [other, create(), unreadable, other]
    checked = engine(absent).checked(given)
    assert [checked[0], checked[2], checked[3]] == [other, unreadable, other]
    assert checked[1].type == RefuseCreate.type_name


def test_an_agent_that_was_created_with_the_key_is_the_answer_though_its_class_cannot_be_loaded_now() -> None:
    master = engine()
    first = apply(master, create("k")).replies
    second = apply(master, *engine(absent).checked([create("k")])).replies
    assert [note.type for note in first] == [Created.type_name]
    assert second == first


def test_a_creation_from_another_server_raises_on_the_replica_that_lacks_the_class() -> None:
    notes = engine().checked([create(sender=AgentId(1, 1, 1025))])
    with pytest.raises(Unloadable):
        engine(absent).apply(1, 1_000, encode_batch([NetInput(1, 5, 1, notes)]))


def test_a_name_that_is_taken_is_refused_without_loading() -> None:
    loads: list[str] = []

    def load(class_name: str) -> AgentSpec:
        loads.append(class_name)
        return agent_spec(Clerk)

    each = engine(load)
    apply(each, create())
    (answer,) = apply(each, create()).replies
    assert answer.type == CreateFailed.type_name
    assert len(loads) == 1


def raw(to: AgentId | str | ReplyTo) -> Callable[[Context], object]:
    return lambda ctx: ctx.send(to, Create(NAME))


def forwarded(to: AgentId | str) -> Callable[[Context], object]:
    return lambda ctx: ctx.forward(to, Create.type_name, encode(Create(NAME)))


def inside() -> type[Agent]:
    @attrs.define
    class Inner(Agent):
        @reacts
        def go(self, ctx: Context, _: Go) -> None: ...

    return Inner


def renamed() -> type[Agent]:
    return attrs.make_class("Elsewhere", {}, bases=(Clerk,))


acts: list[Callable[[Context], object]] = []
"""What the next reaction of `Actor` does."""


@attrs.define
class Actor(Agent):
    @reacts
    def go(self, ctx: Context, _: Go) -> None:
        acts[-1](ctx)


@pytest.mark.parametrize(
    "act",
    [
        raw(FACTORY),
        raw("#0.0.2"),
        raw("#00.0.002"),
        raw(ReplyTo(FACTORY, 0)),
        forwarded(FACTORY),
        forwarded("#0.0.2"),
    ],
)
def test_an_agent_that_sends_a_creation_to_its_own_factory_fails_and_is_told_the_call(
    act: Callable[[Context], object],
) -> None:
    harness = Harness()
    harness.deploy(Actor, name="actor")
    acts.append(act)
    (answer,) = harness.send("actor", Go())
    assert isinstance(answer, ExceptionNotification)
    assert (answer.error, "ctx.create(Class)" in answer.message) == ("AgentError", True)
    assert not harness.engine.find("clerk")


@pytest.mark.parametrize("make", [inside, renamed])
def test_an_agent_cannot_create_one_of_a_class_that_has_no_name_to_import_it_by(
    make: Callable[[], type[Agent]],
) -> None:
    harness = Harness()
    harness.deploy(Actor, name="actor")
    cls = make()
    acts.append(lambda ctx: ctx.create(cls))
    (answer,) = harness.send("actor", Go())
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "AgentError"
    assert "define the class at the top level of a module" in answer.message


def test_an_agent_creates_one_of_a_class_in_a_module_and_sends_creations_to_other_servers() -> None:
    harness = Harness(names={"s0": 0, "s1": 1})
    harness.deploy(Actor, name="actor")
    acts.append(lambda ctx: ctx.create(Clerk, name="clerk"))
    assert harness.send("actor", Go()) == []
    assert isinstance(harness.agent("clerk"), Clerk)
    acts.append(raw(factory(1)))
    effects = harness.post(harness.note("actor", Go()))
    assert [note.type for _, note in effects.network[1]] == [Create.type_name]
