"""Clusters on virtual time, as the writer of an agent uses them."""

import itertools
import time
from typing import ClassVar

import attrs
import pytest

from quorate import (
    Agent,
    AgentError,
    AgentId,
    Context,
    Notification,
    RequestTimeout,
    UnknownAgentError,
    reacts,
)
from quorate.agents import Note, Pause, Paused, Resume, Resumed, encode, outside
from quorate.services.base import ReplicaInfo, RoleCallback, Service, ServiceContext
from quorate.testing import Harness, NondeterministicReaction, ReplicaView, SimulatedCluster, Violation

calls = itertools.count()


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int


@attrs.frozen
class Remind(Notification):
    delay_s: float


@attrs.frozen
class Reminder(Notification):
    text: str


@attrs.frozen
class Forward(Notification):
    to: str
    amount: int


@attrs.frozen
class Misbehave(Notification):
    how: str


@attrs.define
class Account(Agent):
    balance: int = 0
    waiting: list[AgentId] = attrs.field(factory=list[AgentId])

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        self.balance += note.amount
        ctx.send(ctx.sender, Balance(self.balance))

    @reacts
    def forward(self, ctx: Context, note: Forward) -> None:
        ctx.send(note.to, Deposit(note.amount))

    @reacts
    def arrived(self, ctx: Context, note: Balance) -> None:
        """Nothing to do."""

    @reacts
    def remind(self, ctx: Context, note: Remind) -> None:
        self.waiting.append(ctx.sender)
        ctx.timer(note.delay_s, Reminder("now"))

    @reacts
    def due(self, ctx: Context, note: Reminder) -> None:
        for client in self.waiting:
            ctx.send(client, note)
        self.waiting.clear()

    @reacts
    def misbehave(self, ctx: Context, note: Misbehave) -> None:
        self.balance += next(calls) if note.how == "counter" else int(time.time())


@attrs.frozen
class Order(Notification):
    agent: str
    goes_on: bool


@attrs.define
class Operator(Agent):
    delivered: list[int] = attrs.field(factory=list[int])

    @reacts
    def order(self, ctx: Context, note: Order) -> None:
        ctx.send(ctx.factory(), Resume(note.agent) if note.goes_on else Pause(note.agent))

    @reacts
    def paused(self, ctx: Context, note: Paused) -> None:
        """Nothing to do."""

    @reacts
    def resumed(self, ctx: Context, note: Resumed) -> None:
        self.delivered.append(note.delivered)


class Payer(Service):
    """Pays one to alice each second, while its replica is master, and notes the roles of all replicas."""

    roles: ClassVar[list[tuple[int, str]]] = []

    @classmethod
    def on_replica(cls, replica: ReplicaInfo) -> RoleCallback:
        return lambda role: cls.roles.append((replica.replica, str(role)))

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        self.ctx = ctx
        self.call = ctx.reactor.callLater(1.0, self.pay)

    def pay(self) -> None:
        note = Deposit(1)
        self.ctx.post([Note("alice", outside(self.ctx.server_id), note.type_name, encode(note))])
        self.call = self.ctx.reactor.callLater(1.0, self.pay)

    def stop(self) -> None:
        self.call.cancel()


@pytest.mark.parametrize("seed", range(8))
def test_every_deposit_counts_once_under_random_faults(seed: int) -> None:
    with SimulatedCluster(seed=seed) as cluster:
        alice = cluster.create(Account, name="alice", balance=100)
        client = cluster.client()
        cluster.inject_faults(30, every_s=1.0)
        for number in range(1, 60):
            assert client.request(alice, Deposit(1)) == Balance(100 + number)
            cluster.run(0.5)
    for replica in range(3):
        assert cluster.state("alice", replica=replica) == Account(balance=159)


def test_a_request_under_way_is_answered_by_the_next_master() -> None:
    with SimulatedCluster(seed=3) as cluster:
        cluster.create(Account, name="alice")
        client = cluster.client()
        answer = client.begin_request("alice", Deposit(5))
        assert not answer.done
        cluster.kill_master()
        assert answer.result() == Balance(5)
        assert client.reconnections == 1


def test_a_run_is_repeated_by_its_seed() -> None:
    def run(seed: int) -> list[str]:
        with SimulatedCluster(seed=seed, skew_s=1.0) as cluster:
            cluster.create(Account, name="alice")
            client = cluster.client()
            cluster.inject_faults(20)
            for _ in range(20):
                client.request("alice", Deposit(1))
                cluster.run(1.0)
        return list(cluster.log)

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_a_service_goes_on_at_the_next_master_and_learns_the_roles_of_replicas() -> None:
    Payer.roles.clear()
    with SimulatedCluster(seed=8, services=[Payer]) as cluster:
        alice = cluster.create(Account, name="alice")
        cluster.run(10)
        first = cluster.kill_master()
        cluster.run(10)
        paid = cluster.state(alice)
        assert isinstance(paid, Account)
        assert 15 <= paid.balance <= 20
        masters = [replica for replica, role in Payer.roles if role == "master"]
        assert masters[0] == first
        assert len(set(masters)) == 2


def test_servers_send_each_other_everything_while_they_fail() -> None:
    with SimulatedCluster(seed=1, others={"s1": 3, "s2": 1}) as cluster:
        cluster.create(Account, name="alice")
        cluster.create(Account, name="bob", server="s1")
        client = cluster.client()
        cluster.inject_faults(30, every_s=1.0, servers=["s0", "s1"])
        for _ in range(40):
            client.send("alice", Forward("bob@s1", 2))
            cluster.run(0.5)
    assert cluster.state("bob", server="s1") == Account(balance=80)


def test_a_timer_outlives_its_master_and_its_notification_reaches_the_client() -> None:
    with SimulatedCluster(seed=2) as cluster:
        alice = cluster.create(Account)
        client = cluster.client()
        client.send(alice, Remind(10.0))
        cluster.kill_master()
        before = cluster.now
        received = client.receive()
        assert received.sender == alice
        assert received.notification == Reminder("now")
        assert 9 <= cluster.now - before <= 13


def test_clocks_are_set_forward_and_clients_stay() -> None:
    with SimulatedCluster() as cluster:
        alice = cluster.create(Account)
        client = cluster.client()
        client.send(alice, Remind(30 * 86400.0))
        cluster.advance(30 * 86400)
        assert client.receive(timeout=5).notification == Reminder("now")
        with pytest.raises(ValueError, match="never goes back"):
            cluster.advance(-1)


def test_a_cluster_without_a_majority_answers_when_a_replica_returns() -> None:
    with SimulatedCluster() as cluster:
        alice = cluster.create(Account)
        client = cluster.client()
        cluster.kill(0, 1)
        with pytest.raises(RequestTimeout):
            client.request(alice, Deposit(1), timeout=10)
        cluster.restart(0)
        assert client.request(alice, Deposit(1)) == Balance(2)


def test_a_master_that_was_paused_or_cut_off_serves_no_more() -> None:
    with SimulatedCluster(seed=4) as cluster:
        alice = cluster.create(Account)
        near, far = cluster.client("near"), cluster.client("far")
        cluster.pause(0)
        assert near.request(alice, Deposit(1)) == Balance(1)
        cluster.resume()
        cluster.run(5)
        cluster.partition([0, near], [1, 2, far])
        assert far.request(alice, Deposit(1)) == Balance(2)
        answer = near.begin_request(alice, Deposit(1))
        cluster.run(20)
        assert not answer.done
        cluster.heal()
        assert answer.result() == Balance(3)


def test_acknowledged_state_survives_a_crash_of_all_and_a_lost_disk() -> None:
    with SimulatedCluster(seed=9) as cluster:
        alice = cluster.create(Account)
        client = cluster.client()
        client.send(alice, Deposit(7))
        cluster.kill(0, 1, 2)
        cluster.restart()
        cluster.run_until(cluster.whole)
        cluster.kill(1)
        cluster.lose_disk(1)
    assert cluster.state(alice, replica=1) == Account(balance=7)


def test_what_waits_for_a_paused_agent_survives_its_master_and_a_restart_of_all() -> None:
    with SimulatedCluster(seed=10) as cluster:
        alice = cluster.create(Account, name="alice")
        cluster.create(Operator, name="operator")
        client = cluster.client()
        client.send(alice, Remind(5.0))
        client.send("operator", Order("alice", goes_on=False))
        for amount in range(1, 6):
            client.send(alice, Deposit(amount))
        cluster.kill_master()
        cluster.run(10.0)
        cluster.restart()
        cluster.run_until(cluster.whole)
        client.send(alice, Deposit(6))
        cluster.kill(0, 1, 2)
        cluster.restart()
        cluster.run_until(cluster.whole)
        assert cluster.state(alice).balance == 0
        client.send("operator", Order("alice", goes_on=True))
        received = [client.receive().notification for _ in range(7)]
        # The timer fell due while six deposits had been sent or were under way.
        assert received.count(Reminder("now")) == 1
        deposits = [each for each in received if each != Reminder("now")]
        assert deposits == [Balance(1), Balance(3), Balance(6), Balance(10), Balance(15), Balance(21)]
    assert cluster.state("operator") == Operator(delivered=[7])
    assert cluster.state(alice) == Account(balance=21)


def test_an_invariant_names_the_replica_and_the_seed() -> None:
    cluster = SimulatedCluster(seed=11)
    alice = cluster.create(Account)

    @cluster.invariant
    def balances_are_positive(view: ReplicaView) -> None:
        for account in view.agents(Account):
            assert isinstance(account, Account)
            assert account.balance >= 0, f"{account.balance} on {view.server}"

    client = cluster.client()
    client.send(alice, Deposit(1))
    with pytest.raises(
        Violation, match=r"balances_are_positive: does not hold on replica \d of s0"
    ) as raised:
        client.request(alice, Deposit(-5))
    assert raised.value.seed == 11
    assert "-4 on s0" in str(raised.value)
    assert "repeated with seed=11" in "".join(raised.value.__notes__)


def test_an_invariant_of_the_end_is_checked_by_finish() -> None:
    cluster = SimulatedCluster()
    cluster.create(Account, name="alice")
    cluster.invariant(lambda view: view.agent("alice") is None, when="end")
    with pytest.raises(Violation, match="does not hold on replica 0"):
        cluster.finish()


def test_replicas_that_react_otherwise_are_reported_with_agent_and_entry() -> None:
    cluster = SimulatedCluster()
    client = cluster.client()
    client.send_nowait(cluster.create(Account), Misbehave("counter"))
    client.send_nowait("#0.0.1025", Deposit(1))
    with pytest.raises(Violation, match=r"one reaction: .* agent #0.0.1025 .*Account.* of replica"):
        cluster.run(5)


def test_a_clock_in_a_reaction_is_reported_unless_the_guard_is_off() -> None:
    with pytest.raises(NondeterministicReaction, match=r"misbehave uses time\.time"):
        _misbehave(SimulatedCluster())
    _misbehave(SimulatedCluster(guard=False))


def _misbehave(cluster: SimulatedCluster) -> None:
    alice = cluster.create(Account)
    cluster.client().send(alice, Misbehave("clock"))


def test_what_cannot_be_done_is_refused_by_name() -> None:
    with SimulatedCluster() as cluster:
        cluster.create(Account, name="alice")
        with pytest.raises(AgentError, match="alice"):
            cluster.create(Account, name="alice")
        with pytest.raises(AgentError, match="balances"):
            cluster.create(Account, balances=1)
        with pytest.raises(ValueError, match="no server 's9'; there are: s0"):
            cluster.client(server="s9")
        with pytest.raises(LookupError, match="no agent carol"):
            cluster.state("carol")
        with pytest.raises(UnknownAgentError):
            cluster.client().request("carol", Deposit(1))
        with pytest.raises(ValueError, match="replica 7 of s0 does not run; these run: 0, 1, 2"):
            cluster.kill(7)
        with pytest.raises(ValueError, match="'flood' is no fault"):
            cluster.inject_faults(1, kinds=["flood"])
        with pytest.raises(ValueError, match="runs; kill it before"):
            cluster.restart(0)
        with pytest.raises(ValueError, match="s0 has no replica 7; its replicas are 0, 1, 2"):
            cluster.partition([0], [7])


def test_arguments_that_make_no_sense_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="services has 'x'; give classes derived from"):
        SimulatedCluster(services=["x"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="there is no property suspects; did you mean suspect_s"):
        SimulatedCluster(properties={"suspects": 1})
    with pytest.raises(ValueError, match="cannot be moved by -1 s"):
        Harness().advance(-1)
