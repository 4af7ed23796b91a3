"""Services of a master: started in order, stopped in the opposite order, and a broken one hurts no other."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from quorate.agents import Note, outside
from quorate.server.config import Config, Replica, Server, ServiceSpec
from quorate.server.outside import Metrics, NotServing, Requests, Services
from quorate.services.base import Service, ServiceContext, ServiceError

happened: list[str] = []
gates: dict[str, "Deferred[None]"] = {}


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


class Host:
    def __init__(self) -> None:
        self.accepting = True
        self.metrics = Metrics()
        self.reactor: Any = Clock()
        self.lines: list[str] = []
        self.log = self.lines.append

    def post_notes(self, notes: list[Note]) -> None:
        pass

    def request_note(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        return Deferred()


def services(host: Host, *specs: tuple[str, str]) -> Services:
    declared = tuple(ServiceSpec(f"{__name__}:{name}", args) for name, args in specs)
    replica = Replica(0, "localhost", services=declared)
    server = Server(0, "s0", False, (replica,))
    return Services(Config(path=__file__, domains=(), servers=(server,)), server, replica, host)


@pytest.fixture(autouse=True)
def forget() -> None:
    happened.clear()
    gates.clear()


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
    assert any("service Broken cannot start: port 1 is taken" in line for line in host.lines)


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


def test_who_waits_to_go_on_is_called_once() -> None:
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


def test_the_tokens_of_two_incarnations_differ() -> None:
    clock = Clock()
    one, other = Requests(clock, 1_700_000_000_000), Requests(clock, 1_700_000_000_001)
    assert {one.new(1.0)[0] for _ in range(100)}.isdisjoint({other.new(1.0)[0] for _ in range(100)})
