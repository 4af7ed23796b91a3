"""Services of a master: started in order, stopped in the opposite order, and a broken one hurts no other."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from quorate.agents import AgentId, Note, outside
from quorate.engine import Effects
from quorate.server.config import Config, Replica, Server, ServiceSpec
from quorate.server.context import ReplicaContext
from quorate.server.master.requests import NotServing, Requests
from quorate.server.master.service_host import Services
from quorate.server.metrics import Metrics
from quorate.server.network.addresses import Addresses
from quorate.services.base import Service, ServiceContext, ServiceError

happened: list[str] = []
taken: list[str] = []
gates: dict[str, "Deferred[None]"] = {}


class Nothing(msgspec.Struct):
    pass


class Recording(Service):
    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> "Deferred[None] | None":
        self.args = args
        self.ctx = ctx
        happened.append(f"init {args} {first_time}")
        return gates.get(args)

    def stop(self) -> "Deferred[None] | None":
        happened.append(f"stop {self.args}")
        return None


class Broken(Recording):
    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        super().init(ctx, args, first_time)
        raise ServiceError("port 1 is taken")


class Taken(Recording):
    """Cannot start while `taken` says so."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        super().init(ctx, args, first_time)
        ctx.subscribe("topic", lambda _agent, _message: happened.append(f"heard {args}"))
        if taken:
            raise ServiceError(taken[0])


class Host:
    """A replica whose services are started and stopped. Its node accepts input, or not."""

    def __init__(self) -> None:
        self.accepting = True
        self.metrics = Metrics()
        self.reactor: Any = Clock()
        self.lines: list[str] = []
        self.told: list[str] = []

    def may_act(self) -> bool:
        return True


def services(host: Host, *specs: tuple[str, str]) -> Services:
    declared = tuple(ServiceSpec(f"{__name__}:{name}", args) for name, args in specs)
    replica = Replica(0, "localhost", services=declared)
    server = Server(0, "s0", False, (replica,))
    config = Config(path=__file__, domains=(), servers=(server,))
    settings: Any = None
    context = ReplicaContext(
        *(config, server, replica, settings, Path(), 1, host.reactor, host.metrics),
        *(host.lines.append, host.told.append),
    )
    submissions: Any = host
    return Services(context, submissions, Addresses(server, replica))


@pytest.fixture(autouse=True)
def forget() -> None:
    happened.clear()
    gates.clear()
    taken.clear()


def test_services_start_in_order_and_stop_in_the_opposite_order() -> None:
    running = services(Host(), ("Recording", "a"), ("Recording", "b"))
    running.start(True)
    running.stop()
    assert happened == ["init a True", "init b True", "stop b", "stop a"]


def test_the_next_service_starts_when_the_former_has_started() -> None:
    gates["a"] = Deferred()
    running = services(Host(), ("Recording", "a"), ("Recording", "b"))
    running.start(False)
    assert happened == ["init a False"]
    gates["a"].callback(None)
    assert happened == ["init a False", "init b False"]


def test_a_service_that_cannot_start_is_logged_and_the_others_run() -> None:
    host = Host()
    running = services(host, ("Broken", "a"), ("Missing", "b"), ("Recording", "c"))
    running.start(True)
    assert happened == ["init a True", "stop a", "init c True"]
    assert [name.rpartition(":")[2] for name in running.failed] == ["Broken", "Missing"]
    assert host.metrics.counters == {"services_failed": 2}
    again = "; it is tried again while this replica serves"
    assert host.told[0] == f"service Broken cannot start: port 1 is taken{again}"


def test_a_service_that_cannot_start_is_tried_again_ever_more_rarely() -> None:
    host = Host()
    taken.append("port 1 is taken")
    running = services(host, ("Recording", "a"), ("Taken", "b"), ("Recording", "c"))
    running.start(True)
    happened.clear()
    attempts: list[float] = []
    for second in range(1, 120):
        host.reactor.advance(1)
        if happened:
            assert happened == ["init b True", "stop b"]
            attempts.append(second)
            happened.clear()
    assert attempts == [1, 3, 7, 15, 31, 61, 91]
    assert len(host.told) == 1
    taken[0] = "port 1 is forbidden"
    host.reactor.advance(30)
    assert host.told[1].startswith("service Taken cannot start: port 1 is forbidden;")
    taken.clear()
    host.reactor.advance(30)
    assert host.told[2:] == ["service Taken has started now"]
    assert (running.failed, host.metrics.counters) == ({}, {"services_failed": 1})
    assert host.reactor.getDelayedCalls() == []


def test_a_service_that_started_late_is_heard_once_and_stops_in_its_place() -> None:
    host = Host()
    taken.append("port 1 is taken")
    running = services(host, ("Taken", "a"), ("Recording", "b"))
    running.start(True)
    taken.clear()
    host.reactor.advance(1)
    happened.clear()
    running.emit(Effects(1, emissions=[("topic", outside(0), Nothing())]))
    running.stop()
    assert happened == ["heard a", "stop b", "stop a"]


def test_a_replica_that_is_master_no_longer_tries_no_service_again() -> None:
    host = Host()
    running = services(host, ("Broken", "a"))
    running.start(True)
    running.stop()
    happened.clear()
    host.reactor.advance(100)
    assert (happened, running.failed) == ([], {})


def test_a_service_that_takes_too_long_to_start_is_given_up() -> None:
    host = Host()
    gates["a"] = Deferred()
    running = services(host, ("Recording", "a"), ("Recording", "b"))
    running.start(True)
    host.reactor.advance(31)
    assert happened == ["init a True", "stop a", "init b True"]


def test_losing_the_role_during_the_start_stops_what_has_started_and_starts_no_more() -> None:
    gates["a"] = Deferred()
    running = services(Host(), ("Recording", "a"), ("Recording", "b"))
    running.start(True)
    running.stop()
    running.start(False)
    gates.pop("a").callback(None)
    assert happened == ["init a True", "stop a", "init a False", "init b False"]


def test_a_sibling_is_found_by_its_class() -> None:
    running = services(Host(), ("Recording", "a"))
    running.start(True)
    found = running.sibling(Recording)
    assert found is not None
    assert found.args == "a"
    assert running.sibling(Broken) is None


def test_a_callback_that_waits_until_payloads_are_accepted_is_called_once() -> None:
    host = Host()
    running = services(host)
    called: list[int] = []
    host.accepting = False
    running.when_accepting(lambda: called.append(1))
    assert called == []
    host.accepting = True
    running.accept_again()
    running.accept_again()
    assert called == [1]


def test_a_request_gets_its_reply_or_a_timeout_or_the_end_of_the_role() -> None:
    clock = Clock()
    requests = Requests(clock, 5)
    results: list[Any] = []
    tokens = []
    for _ in range(3):
        token, reply = requests.new(2.0)
        tokens.append(token)
        reply.addCallbacks(results.append, lambda failure: results.append(failure.type))
    note = Note(outside(0), outside(0), "t", b"", tokens[0])
    requests.answer(note)
    requests.answer(note)
    assert results == [note]
    clock.advance(2.5)
    assert results == [note, TimeoutError, TimeoutError]
    _, reply = requests.new(2.0)
    reply.addErrback(lambda failure: results.append(failure.type))
    requests.fail("over")
    assert results[-1] is NotServing
    assert clock.getDelayedCalls() == []


def test_a_reply_of_another_server_to_a_request_for_one_server_is_dropped() -> None:
    requests = Requests(Clock(), 5)
    results: list[Note] = []
    token, reply = requests.new(2.0, answering=0)
    reply.addCallback(results.append)
    requests.answer(Note(outside(0), AgentId(1, 1, 1025), "t", b"", token))
    assert results == []
    good = Note(outside(0), AgentId(0, 0, 3), "t", b"", token)
    requests.answer(good)
    assert results == [good]


def test_the_tokens_of_two_incarnations_differ() -> None:
    clock = Clock()
    one, other = Requests(clock, 1_700_000_000_000), Requests(clock, 1_700_000_000_001)
    assert {one.new(1.0)[0] for _ in range(100)}.isdisjoint({other.new(1.0)[0] for _ in range(100)})


class Needy(Recording):
    """Needs a service of the class Broken or Taken."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        super().init(ctx, args, first_time)
        if ctx.sibling(Taken) is None:
            raise ServiceError("declare Taken before it")


def test_a_service_that_lacks_one_which_cannot_start_says_nothing_else_of_it() -> None:
    host = Host()
    taken.append("port 1 is taken")
    running = services(host, ("Taken", "a"), ("Needy", "b"))
    running.start(False)
    assert [line.partition(":")[0] for line in host.told] == ["service Taken cannot start"]
    assert list(running.failed.values()) == ["port 1 is taken", "it needs Taken"]
    taken.clear()
    host.reactor.advance(1)
    assert host.told[1:] == ["service Taken has started now", "service Needy has started now"]
    assert not running.failed


def test_a_service_that_was_never_declared_is_named_by_the_one_that_needs_it() -> None:
    host = Host()
    services(host, ("Needy", "b")).start(False)
    assert host.told[0].startswith("service Needy cannot start: declare Taken before it; ")


def test_a_start_that_is_given_up_is_no_failure() -> None:
    host = Host()
    gates["a"] = Deferred()
    running = services(host, ("Recording", "a"), ("Needy", "b"))
    running.start(True)
    running.abandon()
    gates["a"].errback(NotServing("blocked too long"))
    running.stop()
    assert host.told == []
    assert running.failed == {}
    assert host.metrics.counters == {}
    assert happened == ["init a True", "stop a"], "what comes after it is not tried"


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


class Faulty(Recording):
    """Whatever calls it, it raises `fault`."""

    fault: BaseException

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        super().init(ctx, args, first_time)
        ctx.subscribe("topic", self.heard)
        ctx.when_accepting(lambda: self.heard(None, None))

    def heard(self, _agent: object, _message: object) -> None:
        raise self.fault

    def stop(self) -> None:
        super().stop()
        raise self.fault


@pytest.mark.parametrize("fault", [RuntimeError("not today"), SystemExit("not today"), Mute()])
def test_what_a_service_raises_hurts_no_other(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    monkeypatch.setattr(Faulty, "fault", fault, raising=False)
    host = Host()
    host.accepting = False
    running = services(host, ("Recording", "a"), ("Faulty", "b"), ("Taken", "c"))
    running.start(True)
    effects = Effects(1)
    effects.emissions.append(("topic", outside(0), Nothing()))
    running.emit(effects)
    running.accept_again()
    running.stop()
    assert happened[3:] == ["heard c", "stop c", "stop b", "stop a"]
    assert host.metrics.counters == {"service_errors": 2}
    assert len([line for line in host.lines if "not today" in line or "Mute: its message" in line]) == 3
