"""The engine, driven by entries."""

from typing import Any

import attrs
import pytest

from quorate import (
    Agent,
    AgentError,
    AgentId,
    Context,
    Created,
    CreateFailed,
    Delete,
    Deleted,
    ExceptionNotification,
    Notification,
    Opaque,
    ReplyTo,
    UnknownAgent,
    reacts,
)
from quorate.agents import Create, Note, agent_spec, encode, factory, outside
from quorate.engine import EngineSettings, EngineStopped, NetInput, Nondeterministic, Posts, Rerun
from quorate.testing.harness import Harness

ALICE = AgentId(0, 0, 1025)
SERVERS = {"s0": 0, "s1": 1}


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int


@attrs.frozen
class Go(Notification):
    to: str = ""
    n: int = 0


@attrs.frozen
class Reach(Notification):
    """Ask again later."""


@attrs.define
class Account(Agent):
    balance: int = 0
    history: list[int] = attrs.field(factory=list)

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        self.balance += note.amount
        self.history.append(note.amount)
        ctx.send(ctx.sender, Balance(self.balance))
        if note.amount < 0:
            raise ValueError("no negative deposits")


@attrs.define
class Scribe(Agent):
    """Writes down what it gets, in order."""

    seen: list[str] = attrs.field(factory=list)

    @reacts
    def any(self, ctx: Context, note: Opaque) -> None:
        self.seen.append(f"{note.type.rpartition(':')[2]} {len(note.payload)}")


@attrs.define
class Player(Agent):
    """Sends `n` down to zero back and forth."""

    got: list[int] = attrs.field(factory=list)

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        self.got.append(note.n)
        if note.n:
            ctx.send(note.to, Go(ctx.name or str(ctx.agent), note.n - 1))


@attrs.define
class Clock(Agent):
    fired: list[float] = attrs.field(factory=list)
    timer: int = 0

    @reacts
    def arm(self, ctx: Context, note: Go) -> None:
        self.timer = ctx.timer(note.n, Reach())

    @reacts
    def stop(self, ctx: Context, note: Deposit) -> None:
        ctx.cancel(self.timer)

    @reacts
    def reach(self, ctx: Context, note: Reach) -> None:
        assert ctx.sender == ctx.agent
        self.fired.append(ctx.now)


@attrs.define
class Parent(Agent):
    children: list[AgentId] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)
    dice: list[float] = attrs.field(factory=list)

    @reacts
    def breed(self, ctx: Context, note: Go) -> None:
        child = ctx.create(Account, name=note.to or None, state={"balance": note.n})
        self.children.append(child)
        self.dice.append(ctx.random.random())
        ctx.send(child, Deposit(1))

    @reacts
    def failed(self, ctx: Context, note: CreateFailed) -> None:
        self.failures.append(note.reason)

    @reacts
    def answered(self, ctx: Context, note: Balance | UnknownAgent) -> None: ...


@attrs.define
class Asker(Agent):
    """Answers its own asker after an account has answered it."""

    waiting: list[ReplyTo] = attrs.field(factory=list)

    @reacts
    def ask(self, ctx: Context, note: Go) -> None:
        self.waiting.append(ctx.reply_to)
        ctx.send(note.to, Deposit(note.n))

    @reacts
    def answered(self, ctx: Context, note: Balance) -> None:
        ctx.send(self.waiting.pop(0), note)


def account(harness: Harness) -> Account:
    agent = harness.agent("alice")
    assert isinstance(agent, Account)
    return agent


@pytest.fixture
def harness() -> Harness:
    made = Harness(0, SERVERS)
    made.deploy(Account, name="alice")
    return made


def test_the_first_agent_gets_the_first_free_stamp(harness: Harness) -> None:
    assert str(harness.deploy(Account)) == "#0.0.1026"
    assert harness.engine.find(ALICE) is harness.engine.find("alice")


def test_an_agent_reacts_and_answers(harness: Harness) -> None:
    assert harness.send("alice", Deposit(5)) == [Balance(5)]
    assert harness.send("#0.0.1025", Deposit(7)) == [Balance(12)]
    assert harness.send("alice@s0", Deposit(1)) == [Balance(13)]
    assert harness.send("alice@0", Deposit(1)) == [Balance(14)]


def test_an_answer_carries_the_number_of_the_request(harness: Harness) -> None:
    effects = harness.post(harness.note("alice", Deposit(5), request=77))
    assert [note.request for note in effects.replies] == [77]


def test_an_answer_can_be_given_in_a_later_reaction(harness: Harness) -> None:
    harness.deploy(Asker, name="asker")
    effects = harness.post(harness.note("asker", Go("alice", 4), request=9))
    assert [(note.request, note.type) for note in effects.replies] == [(9, Balance.type_name)]


def test_a_reaction_that_raises_leaves_no_trace_in_the_state(harness: Harness) -> None:
    harness.send("alice", Deposit(5))
    answer = harness.send("alice", Deposit(-1))
    assert answer == [ExceptionNotification(ALICE, Deposit.type_name, "ValueError", "no negative deposits")]
    assert account(harness).balance == 5
    assert account(harness).history == [5]
    assert harness.send("alice", Deposit(1)) == [Balance(6)]


@pytest.mark.parametrize("length", [0, 1, 3000, 100_000])
def test_undoing_works_at_every_point_between_two_saves(length: int) -> None:
    harness = Harness()
    harness.deploy(Account, name="alice", history=[1] * length)
    for number in range(200):
        harness.send("alice", Deposit(1))
        harness.send("alice", Deposit(-1))
        assert account(harness).balance == number + 1
        assert account(harness).history == [1] * (length + number + 1)


def test_the_state_is_saved_rarely_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    harness.deploy(Account, name="alice", history=list(range(100_000)))
    cell = harness.engine.find("alice")
    assert cell is not None
    saved: list[int] = []
    original = type(cell.spec).save
    monkeypatch.setattr(type(cell.spec), "save", lambda spec, agent: saved.append(1) or original(spec, agent))
    for _ in range(1000):
        harness.send("alice", Deposit(1))
    assert len(saved) <= 1


def test_an_agent_that_cannot_be_restored_is_reported_as_nondeterministic() -> None:
    outside_state: list[int] = []

    @attrs.define
    class Cheat(Agent):
        ballast: str = "large states are not saved after every reaction" * 100

        @reacts
        def go(self, ctx: Context, note: Go) -> None:
            outside_state.append(1)
            if len(outside_state) > 1:
                raise ValueError("changed its mind")

    harness = Harness()
    harness.deploy(Cheat, name="cheat")
    harness.send("cheat", Go())
    with pytest.raises(Nondeterministic, match="may depend only on"):
        harness.send("cheat", Go())


def test_the_engine_can_be_told_to_stop_at_an_exception() -> None:
    harness = Harness(settings=EngineSettings(stop_on_exception=True))
    harness.deploy(Account, name="alice")
    with pytest.raises(EngineStopped, match="no negative deposits"):
        harness.send("alice", Deposit(-1))


def test_system_exit_in_a_reaction_stops_nothing() -> None:
    @attrs.define
    class Quitter(Agent):
        @reacts
        def go(self, ctx: Context, note: Go) -> None:
            raise SystemExit(3)

    harness = Harness()
    harness.deploy(Quitter, name="quitter")
    (answer,) = harness.send("quitter", Go())
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "SystemExit"


def test_an_unknown_agent_is_told_to_the_sender(harness: Harness) -> None:
    assert harness.send("bob", Deposit(1)) == [UnknownAgent("bob", Deposit.type_name)]
    assert harness.send(AgentId(0, 0, 9999), Deposit(1)) == [UnknownAgent("#0.0.9999", Deposit.type_name)]
    assert harness.send("bob@nowhere", Deposit(1)) == [UnknownAgent("bob@nowhere", Deposit.type_name)]
    assert harness.send("#rubbish", Deposit(1)) == [UnknownAgent("#rubbish", Deposit.type_name)]
    assert harness.send(AgentId(0, 7, 1025), Deposit(1)) == [UnknownAgent("#0.7.1025", Deposit.type_name)]
    assert harness.engine.dead_letters == 5


def test_a_type_without_reaction_is_told_to_the_sender(harness: Harness) -> None:
    (answer,) = harness.send("alice", Balance(1))
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Unhandled"


def test_a_payload_that_does_not_fit_is_told_to_the_sender(harness: Harness) -> None:
    effects = harness.post(Note("alice", outside(0), Deposit.type_name, b"\xc1"))
    (answer,) = harness.decoded(effects.replies)
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Unfit"


def test_reports_of_failures_are_never_answered(harness: Harness) -> None:
    failure = ExceptionNotification(ALICE, "x:Y", "ValueError", "")
    assert harness.send("alice", failure) == []
    assert harness.send("bob", failure) == []
    assert harness.engine.dead_letters == 1


def test_bytes_that_are_no_batch_are_passed_over_and_reported(harness: Harness) -> None:
    effects = harness.replay(harness.engine.applied + 1, harness.now_ns, b"\xc1garbage")
    assert "passed over" in effects.reports[0]
    assert harness.send("alice", Deposit(1)) == [Balance(1)]


def test_the_local_queue_is_drained_before_the_next_external_notification() -> None:
    harness = Harness()
    for name in ("a", "b"):
        harness.deploy(Player, name=name)
    harness.post(harness.note("a", Go("b", 3)), harness.note("a", Go("b", 100)))
    player = harness.agent("a")
    assert isinstance(player, Player)
    assert player.got[:3] == [3, 1, 100]


def test_a_runaway_turn_is_stopped_at_the_bound_and_reported() -> None:
    harness = Harness(settings=EngineSettings(max_turn=50))
    for name in ("a", "b"):
        harness.deploy(Player, name=name)
    effects = harness.post(harness.note("a", Go("b", 10**9)), harness.note("a", Go("b", 0)))
    assert any("must not answer each other for ever" in line for line in effects.reports)
    player = harness.agent("a")
    assert isinstance(player, Player)
    assert player.got[-1] == 0, "the next external notification is served"
    assert harness.engine.dead_letters == 1


def test_an_agent_takes_what_no_other_reaction_takes_unopened() -> None:
    harness = Harness()
    harness.deploy(Scribe, name="scribe")
    harness.post(Note("scribe", outside(0), "elsewhere:Thing", b"12345"))
    scribe = harness.agent("scribe")
    assert isinstance(scribe, Scribe)
    assert scribe.seen == ["Thing 5"]


def test_an_agent_creates_another_and_can_write_to_it_at_once() -> None:
    harness = Harness(0, SERVERS)
    harness.know(Account)
    harness.deploy(Parent, name="parent")
    harness.send("parent", Go("kid", 41))
    kid = harness.agent("kid")
    assert isinstance(kid, Account)
    assert kid.balance == 42
    parent = harness.agent("parent")
    assert isinstance(parent, Parent)
    assert parent.children == [AgentId(0, 0, 1026)]


def test_a_taken_name_is_told_to_the_agent_that_wanted_it() -> None:
    harness = Harness()
    harness.know(Account)
    harness.deploy(Parent, name="parent")
    harness.send("parent", Go("parent", 1))
    parent = harness.agent("parent")
    assert isinstance(parent, Parent)
    assert "is taken by #0.0.1025" in parent.failures[0]


@pytest.mark.parametrize("name", ["", "#x", "a@b", "x" * 256, "tab\t"])
def test_a_name_that_could_not_be_addressed_is_refused(name: str) -> None:
    with pytest.raises(AgentError, match="cannot be a name"):
        Harness().deploy(Account, name=name)


def test_creating_twice_with_one_key_makes_one_agent(harness: Harness) -> None:
    create = Create("quorate.none:None", key="k")
    (failed,) = harness.send(factory(0), create)
    assert isinstance(failed, CreateFailed)
    ask = attrs.evolve(create, class_name=agent_spec(Account).name)
    first = harness.send(factory(0), ask)
    assert first == harness.send(factory(0), ask) == [Created(AgentId(0, 0, 1026))]


def test_an_agent_is_deleted_and_its_name_and_timers_are_free_again() -> None:
    harness = Harness()
    clock = harness.deploy(Clock, name="clock")
    harness.send("clock", Go(n=5))
    assert harness.send(factory(0), Delete("clock")) == [Deleted(clock)]
    assert harness.send("clock", Go()) == [UnknownAgent("clock", Go.type_name)]
    assert harness.engine.next_timer_ns is None
    assert harness.deploy(Clock, name="clock") != clock
    assert harness.send(factory(0), Delete("nobody")) == [UnknownAgent("nobody", Delete.type_name)]


def test_a_reserved_id_is_for_services_only(harness: Harness) -> None:
    asked = Create(agent_spec(Account).name, id=AgentId(0, 0, 3))
    stranger = Note(factory(0), ALICE, Create.type_name, encode(asked))
    harness.post(stranger)
    assert harness.engine.find(AgentId(0, 0, 3)) is None
    assert harness.send(factory(0), asked) == [Created(AgentId(0, 0, 3))]
    (refused,) = harness.send(factory(0), Delete("#0.0.3"))
    assert isinstance(refused, ExceptionNotification)
    assert harness.engine.find(AgentId(0, 0, 3)) is not None


def test_a_timer_fires_once_when_its_time_has_come() -> None:
    harness = Harness()
    harness.deploy(Clock, name="clock")
    harness.send("clock", Go(n=5))
    armed_ns = harness.now_ns
    assert harness.engine.next_timer_ns == armed_ns + 5_000_000_000
    harness.advance(4.9)
    clock = harness.agent("clock")
    assert isinstance(clock, Clock)
    assert clock.fired == []
    harness.advance(0.2)
    harness.advance(10)
    assert len(clock.fired) == 1


def test_a_cancelled_timer_does_not_fire() -> None:
    harness = Harness()
    harness.deploy(Clock, name="clock")
    harness.send("clock", Go(n=5))
    harness.send("clock", Deposit(0))
    harness.advance(6)
    clock = harness.agent("clock")
    assert isinstance(clock, Clock)
    assert clock.fired == []


def test_time_never_goes_back(harness: Harness) -> None:
    before = harness.engine.now_ns
    harness.now_ns -= 10**12
    harness.send("alice", Deposit(1))
    assert harness.engine.now_ns == before


def test_notifications_to_another_server_are_numbered_and_kept_until_acknowledged(harness: Harness) -> None:
    effects = harness.post(harness.note("bob@s1", Deposit(1)), harness.note(AgentId(0, 1, 2000), Deposit(2)))
    assert [(seq, note.to) for seq, note in effects.network[1]] == [(1, "bob"), (2, AgentId(0, 1, 2000))]
    assert harness.engine.backlog == 2
    harness.acknowledge(1, 1)
    first, waiting = harness.engine.pending(1)
    assert (first, [note.to for note in waiting]) == (2, [AgentId(0, 1, 2000)])
    harness.acknowledge(1, 99)
    assert harness.engine.pending(1) == (3, [])
    assert harness.engine.backlog == 0


def test_what_arrives_twice_from_another_server_is_taken_once(harness: Harness) -> None:
    bob = AgentId(1, 1, 1025)
    notes = [Note("alice", bob, Deposit.type_name, encode(Deposit(n))) for n in (1, 10, 100)]
    assert harness.apply(NetInput(1, 9, 1, notes[:2])).net_acks == {1: (9, 2)}
    assert harness.apply(NetInput(1, 9, 1, notes)).net_acks == {1: (9, 3)}
    assert harness.apply(NetInput(1, 9, 5, notes)).net_acks == {1: (9, 3)}, "beyond a gap nothing is taken"
    assert account(harness).balance == 111
    assert len(harness.engine.pending(1)[1]) == 3, "the answers wait for the other server"


def test_a_full_link_refuses_to_the_sender() -> None:
    harness = Harness(0, SERVERS, EngineSettings(max_waiting=2))
    effects = harness.post(*[harness.note("bob@s1", Deposit(n)) for n in range(3)])
    (answer,) = harness.decoded(effects.replies)
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Backlog"


def scenario(harness: Harness) -> None:
    """A bit of everything."""
    harness.know(Account)
    harness.deploy(Parent, name="parent")
    harness.deploy(Clock, name="clock")
    for n in range(20):
        harness.send("alice", Deposit(n - 3))
        harness.send("parent", Go(f"kid{n % 7}", n))
        harness.send("clock", Go(n=n))
        harness.send("bob@s1", Deposit(n))
        harness.advance(1)
    harness.send("kid3", Deposit(1))
    harness.send(factory(0), Delete("kid4"))


def follower(leader: Harness, entries: list[tuple[int, int, bytes]]) -> Harness:
    made = Harness(0, SERVERS)
    made.know(Account, Parent, Clock)
    for entry in entries:
        made.replay(*entry)
    return made


def test_engines_that_apply_the_same_entries_are_equal(harness: Harness) -> None:
    scenario(harness)
    other = follower(harness, harness.log)
    assert other.engine.digest() == harness.engine.digest()
    assert other.engine.state_of("parent") == harness.engine.state_of("parent")


def test_the_digest_tells_a_different_state(harness: Harness) -> None:
    other = follower(harness, harness.log)
    assert other.engine.digest() == harness.engine.digest()
    account(other).balance += 1
    harness.send("alice", Deposit(0))
    other.replay(*harness.log[-1])
    assert other.engine.digest() != harness.engine.digest()


def test_the_digest_tells_different_outputs(harness: Harness) -> None:
    other = follower(harness, harness.log)
    harness.apply(Posts([harness.note("alice", Deposit(1))]))
    other.apply(Posts([Note("alice", ALICE, Deposit.type_name, encode(Deposit(1)))]))
    assert other.engine.digest() != harness.engine.digest()


def test_a_restored_engine_goes_on_as_the_original(harness: Harness) -> None:
    scenario(harness)
    other = follower(harness, [])
    other.engine.restore(harness.engine.snapshot())
    assert other.engine.digest() == harness.engine.digest()
    taken = len(harness.log)
    scenario_more(harness)
    for entry in harness.log[taken:]:
        other.replay(*entry)
    assert other.engine.digest() == harness.engine.digest()
    assert other.engine.pending(1) == harness.engine.pending(1)


def scenario_more(harness: Harness) -> None:
    for n in range(5):
        harness.send("parent", Go(f"late{n}", n))
        harness.send("alice", Deposit(-1))
        harness.advance(7)


def test_a_snapshot_of_another_server_or_a_damaged_one_is_refused(harness: Harness) -> None:
    with pytest.raises(ValueError, match="is of server 0, not of 1"):
        Harness(1, SERVERS).engine.restore(harness.engine.snapshot())
    digest = harness.engine.digest()
    with pytest.raises(ValueError, match="part of the state is damaged"):
        harness.engine.restore([b"\xc1"])
    assert harness.engine.digest() == digest


def test_the_trace_numbers_reactions_without_gap_and_reruns_to_the_same_state(harness: Harness) -> None:
    other = Harness(0, SERVERS)
    other.know(Account, Parent, Clock)
    scenario(harness)
    records = [record for entry in harness.log for record in other.replay(*entry).trace]
    assert [record.position for record in records] == list(range(1, len(records) + 1))
    reruns: dict[AgentId, Rerun] = {}
    for record in records:
        if record.kind == "create":
            reruns[record.agent] = Rerun(
                record.agent, record.cls, record.state, record.name, other.engine.resolve, other._load
            )
        elif record.kind == "delete":
            del reruns[record.agent]
        elif record.kind == "react" and not record.error:
            outputs = reruns[record.agent].apply(
                record.position,
                record.now_ns,
                record.sender,
                record.type,
                record.payload,
                record.request,
                record.stamp,
            )
            assert outputs == record.outputs
    for identity, rerun in reruns.items():
        assert rerun.state() == other.engine.state_of(identity)


def test_a_notification_that_is_too_large_is_refused_to_the_agent_that_sends_it() -> None:
    @attrs.frozen
    class Blob(Notification):
        data: bytes

    @attrs.define
    class Sender(Agent):
        @reacts
        def go(self, ctx: Context, note: Go) -> None:
            ctx.send("x", Blob(bytes(9 * 1024 * 1024)))

    harness = Harness()
    harness.deploy(Sender, name="sender")
    (answer,) = harness.send("sender", Go())
    assert isinstance(answer, ExceptionNotification)
    assert "send it in parts" in answer.message


def test_reports_of_one_entry_are_bounded() -> None:
    harness = Harness(settings=EngineSettings(max_reports=3))
    effects = harness.post(*[harness.note("nobody", Go()) for _ in range(10)])
    assert (len(effects.reports), effects.suppressed) == (3, 7)


def test_a_class_that_cannot_be_loaded_is_explained() -> None:
    harness = Harness()

    def reason(name: str) -> Any:
        (answer,) = harness.send(factory(0), Create(name))
        assert isinstance(answer, CreateFailed)
        return answer.reason

    assert "put its directory on the PYTHONPATH" in reason("no_such_module:Account")
    assert "is not an agent class" in reason("json:loads")
    absent = reason("json:Account")
    assert "json has no Account" in absent
    assert "start the server again" in absent
    assert "write it as module:Class" in reason("../../etc/passwd")
