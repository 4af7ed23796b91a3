import attrs
import msgspec
import pytest

from quorate.agents import (
    FIRST_CONNECTION_STAMP,
    Agent,
    AgentId,
    Context,
    Notification,
    decode,
    encode,
    reacts,
)
from quorate.agents.builtin import ExceptionNotification, UnknownAgent
from quorate.agents.client_output import MAX_OUTPUT_BYTES
from quorate.agents.nesting import MAX_NESTING
from quorate.agents.proxy import MAX_INPUT_NOTES, IdleCheck, ProxyAgent, Reopen
from quorate.client.frames import (
    Bye,
    ClientInput,
    ClientNote,
    ClientOutput,
    Close,
    Ping,
    Pong,
    Welcome,
    encode_frame,
)
from quorate.services.base import ServiceError
from quorate.services.manager import ConnectionManager
from quorate.services.tcp import TcpProxyService


def note(deposit, amount, request=0, to="alice"):
    return ClientNote(to, *deposit(amount), request)


def amounts(frames):
    notes = [n for f in frames if isinstance(f, ClientOutput) for n in f.notes]
    return [msgspec.msgpack.decode(n.payload)["amount"] for n in notes]


def test_a_client_is_welcomed_with_the_replicas_and_limits(bench):
    _, welcome = bench.opened()
    assert welcome == Welcome(
        1,
        welcome.connection,
        [("localhost", 2560), ("localhost", 2561), ("far.example", 2562)],
        60.0,
        1 << 20,
        16384,
    )
    assert AgentId.parse(welcome.connection).stamp >= FIRST_CONNECTION_STAMP


def test_input_reaches_the_agent_and_is_acknowledged_with_the_reply_in_one_frame(bench, deposit):
    tcp, _ = bench.opened()
    (output,) = bench.say(tcp, ClientInput(0, 1, [note(deposit, 5, 1), note(deposit, 7, 2)]))
    assert output.in_ack == 2
    assert [n.request for n in output.notes] == [1, 2]
    assert amounts([output]) == [5, 12]


def test_nothing_is_acknowledged_before_it_is_committed(bench, deposit):
    tcp, _ = bench.opened()
    bench.ctx.auto = False
    assert bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)])) == []
    bench.ctx.commit()
    assert [f.in_ack for f in bench.heard(tcp)] == [1]


@pytest.mark.parametrize(("user", "password"), [("root", "wrong"), ("nobody", "root"), ("", "")])
def test_a_wrong_user_or_password_is_refused_and_not_logged(bench, user, password):
    tcp = bench.join()
    (bye,) = bench.say(tcp, bench.hello(user, password))
    assert bye == Bye("authentication", "wrong user or password")
    assert tcp.closing
    assert bench.ctx.counts["authentication_failures"] == 1
    assert len(bench.ctx.lines) == 1
    assert "root" not in bench.ctx.lines[0]


def test_the_password_is_nowhere_in_the_log_of_the_cluster(bench):
    bench.opened(user="alice", password="secret")
    assert all(b"secret" not in payload for _, _, payload in bench.harness.log)


def test_a_reopened_connection_gets_again_what_it_has_not_acknowledged(bench, deposit):
    tcp, welcome = bench.opened()
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 5), note(deposit, 7), note(deposit, 1)]))
    tcp.cut()
    again, back = bench.opened(connection=welcome.connection, ack=1)
    assert back.connection == welcome.connection
    assert back.in_ack == 3
    (output,) = again.rest
    assert output.first_seq == 2
    assert amounts([output]) == [12, 13]


def test_what_is_sent_twice_is_processed_once(bench, deposit):
    tcp, welcome = bench.opened()
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 5), note(deposit, 7)]))
    tcp.cut()
    again, _ = bench.opened(connection=welcome.connection, ack=2)
    bench.say(again, ClientInput(2, 1, [note(deposit, 5), note(deposit, 7), note(deposit, 9)]))
    assert bench.harness.agent("alice").seen == [5, 7, 9]


def test_a_gap_in_the_input_makes_the_client_reopen(bench, deposit):
    tcp, welcome = bench.opened()
    (bye,) = bench.say(tcp, ClientInput(0, 3, [note(deposit, 5)]))
    assert bye.code == "unavailable"
    _, back = bench.opened(connection=welcome.connection)
    assert back.in_ack == 0


def test_outputs_emitted_while_a_connection_is_reopened_are_sent_once(bench, deposit):
    tcp, welcome = bench.opened()
    bench.ctx.auto = False
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)]))
    again = bench.join()
    bench.say(again, bench.hello(connection=welcome.connection))
    bench.say(tcp, ClientInput(0, 2, [note(deposit, 7)]))
    bench.ctx.commit()
    frames = bench.heard(again)
    assert isinstance(frames[0], Welcome)
    assert frames[0].in_ack == 1
    assert amounts(frames) == [5, 12]
    assert frames[-1].in_ack == 2


def test_the_newer_of_two_tcp_connections_of_one_connection_wins(bench, deposit):
    tcp, welcome = bench.opened()
    again, _ = bench.opened(connection=welcome.connection)
    (bye,) = bench.heard(tcp)
    assert bye.code == "replaced"
    assert amounts(bench.say(again, ClientInput(0, 1, [note(deposit, 5)]))) == [5]
    tcp.cut()
    assert amounts(bench.say(again, ClientInput(1, 2, [note(deposit, 5)]))) == [10]


def test_a_hello_processed_after_a_later_one_does_not_replace_it(bench, deposit):
    _, welcome = bench.opened()
    later, _ = bench.opened(connection=welcome.connection, attempt=3)
    late = bench.join()
    (bye,) = bench.say(late, bench.hello(connection=welcome.connection, attempt=2))
    assert bye.code == "replaced"
    assert amounts(bench.say(later, ClientInput(0, 1, [note(deposit, 5)]))) == [5]


def test_a_connection_cannot_be_taken_over_by_another_user(bench, deposit):
    tcp, welcome = bench.opened()
    thief = bench.join()
    (bye,) = bench.say(thief, bench.hello("alice", "secret", welcome.connection))
    assert bye.code == "expired"
    assert amounts(bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)]))) == [5]
    assert bench.heard(thief) == []


@pytest.mark.parametrize(
    "connection", ["#0.0.4711", "#1.1.1025", "#0.0.2", "#0.0.3", "#0.0.1000000004711", "nonsense"]
)
def test_an_unknown_connection_has_expired(bench, connection):
    (bye,) = bench.say(bench.join(), bench.hello(connection=connection))
    assert bye.code == "expired"


def test_another_agent_is_no_connection(bench):
    before = bench.harness.engine.find(bench.alice).reactions
    (bye,) = bench.say(bench.join(), bench.hello(connection=str(bench.alice)))
    assert bye.code == "expired"
    assert bench.harness.engine.find(bench.alice).reactions == before


def test_a_client_does_not_write_to_the_connection_of_another(bench, deposit):
    tcp, welcome = bench.opened()
    other, _ = bench.opened(user="alice", password="secret")
    far = AgentId(1, 1, FIRST_CONNECTION_STAMP)
    (output,) = bench.say(
        other, ClientInput(0, 1, [note(deposit, 5, 1, welcome.connection), note(deposit, 5, 2, far)])
    )
    refused = [decode(ExceptionNotification, n.payload) for n in output.notes]
    assert [(n.request, each.error) for n, each in zip(output.notes, refused, strict=True)] == [
        (1, "PermissionError"),
        (2, "PermissionError"),
    ]
    assert "other connections" in refused[0].message
    assert bench.heard(tcp) == []


def test_a_silent_client_expires_and_its_proxy_is_gone(bench):
    tcp, welcome = bench.opened()
    bench.ctx.pass_time(59.5)
    assert bench.heard(tcp) == []
    bench.ctx.pass_time(0.5)
    (bye,) = bench.heard(tcp)
    assert bye.code == "expired"
    assert bench.harness.engine.find(AgentId.parse(welcome.connection)) is None
    (refused,) = bench.say(bench.join(), bench.hello(connection=welcome.connection))
    assert refused.code == "expired"
    assert "was silent for longer" in refused.text
    assert bench.harness.agent(AgentId(0, 0, 3)).connections == {}


def test_pings_keep_a_connection_alive_and_few_of_them_enter_the_log(bench):
    tcp, _ = bench.opened()
    before = len(bench.harness.log)
    for token in range(100):
        assert bench.say(tcp, Ping(token)) == [Pong(token)]
    assert len(bench.harness.log) == before
    for _ in range(10):
        bench.ctx.pass_time(20)
        assert bench.say(tcp, Ping(1)) == [Pong(1)]


def test_a_ping_shows_that_an_input_was_lost(bench, deposit):
    tcp, _ = bench.opened()
    bench.ctx.auto = False
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)]))
    bench.ctx.queue.clear()
    bench.ctx.auto = True
    bench.ctx.pass_time(20)
    *_, bye = bench.say(tcp, Ping(1, 0, 2))
    assert bye.code == "unavailable"


def test_idle_time_starts_again_under_a_new_master(make_bench):
    bench = make_bench()
    _, welcome = bench.opened()
    bench.ctx.pass_time(59.5)
    heir = make_bench(harness=bench.harness)
    heir.ctx.pass_time(0.5)
    _, back = heir.opened(connection=welcome.connection)
    assert back.connection == welcome.connection


def test_idle_time_starts_again_when_a_client_reopens_its_connection(bench):
    tcp, welcome = bench.opened()
    proxy = AgentId.parse(welcome.connection)
    bench.ctx.pass_time(50)
    tcp.cut()
    bench.opened(connection=welcome.connection)
    for seconds in (10, 49.9):
        bench.ctx.pass_time(seconds)
        assert bench.harness.engine.find(proxy) is not None
    bench.ctx.pass_time(0.2)
    assert bench.harness.engine.find(proxy) is None


def test_a_late_idle_check_gives_clients_another_chance(bench):
    _, welcome = bench.opened()
    bench.harness.now_ns += int(500e9)
    bench.ctx.pass_time(0)
    assert bench.harness.engine.find(AgentId.parse(welcome.connection)) is not None


def test_a_client_that_closes_leaves_nothing_behind(bench, deposit):
    tcp, welcome = bench.opened()
    frames = bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)]), Close())
    assert frames[-1].code == "closed"
    assert bench.harness.agent("alice").seen == [5]
    assert bench.harness.engine.find(AgentId.parse(welcome.connection)) is None


def test_an_unknown_agent_and_a_failed_reaction_come_back_to_the_client(bench, deposit):
    tcp, _ = bench.opened()
    frames = bench.say(
        tcp,
        ClientInput(
            0,
            1,
            [
                note(deposit, 5, 1, "nobody"),
                note(deposit, 5, 2, "nobody@nowhere"),
                note(deposit, -5, 3),
                ClientNote("alice", "x:Unknown", b"", 4),
                note(deposit, 5, 5, "#0.0.2"),
                note(deposit, 5, 6, AgentId(0, 0, 3)),
                note(deposit, 5, 7, "#nonsense"),
                note(deposit, 8, 8),
            ],
        ),
    )
    notes = sorted((n.request, n.type) for f in frames for n in f.notes)
    failed, unknown = ExceptionNotification.type_name, UnknownAgent.type_name
    kinds = dict(notes)
    assert kinds == {1: unknown, 2: unknown, 3: failed, 4: failed, 5: failed, 6: failed, 7: unknown} | {
        8: kinds[8]
    }
    assert kinds[8].endswith("Balance")
    assert bench.harness.agent("alice").seen == [8]


def test_orders_for_a_proxy_count_only_from_the_service(bench):
    tcp, welcome = bench.opened()
    me = AgentId.parse(welcome.connection)
    body = msgspec.msgpack.encode(ClientInput(0, 1, []))
    frames = bench.say(
        tcp,
        ClientInput(
            0,
            1,
            [
                ClientNote(me, Reopen.type_name, encode(Reopen("root", 0))),
                ClientNote(me, IdleCheck.type_name, encode(IdleCheck())),
                ClientNote(me, "quorate.connection.input/1", body),
            ],
        ),
    )
    received = [n.type for f in frames for n in f.notes]
    assert received == [Reopen.type_name, "quorate.connection.input/1"]
    assert all(n.sender == me for f in frames for n in f.notes)


def test_what_a_client_has_acknowledged_makes_room_for_more(bench, monkeypatch):
    monkeypatch.setattr("quorate.agents.proxy.MAX_OUTPUT_BYTES", 10_000)
    bench.harness.deploy(Giver, name="giver")
    tcp, welcome = bench.opened()
    for number in range(1, 20):
        wanted = ClientNote("giver", Wanted.type_name, encode(Wanted(3000)))
        (output,) = bench.say(tcp, ClientInput(number - 1, number, [wanted]))
        assert [len(note.payload) > 3000 for note in output.notes] == [True]
    tcp.cut()
    # An acknowledgement by the hello makes room, too.
    again, _ = bench.opened(connection=welcome.connection, ack=19)
    more = [ClientNote("giver", Wanted.type_name, encode(Wanted(3000)))] * 3
    (output,) = bench.say(again, ClientInput(19, 20, more))
    assert len(output.notes) == 3
    # Without one nothing more is sent, until it comes.
    assert [frame.notes for frame in bench.say(again, ClientInput(19, 23, more))] == [[]]
    frames = bench.say(again, ClientInput(22, 26, []))
    assert sum(len(frame.notes) for frame in frames) == 3


@pytest.mark.parametrize("lost", [1, 3])
def test_a_client_whose_output_was_lost_within_the_server_reopens_and_gets_all_of_it(bench, deposit, lost):
    tcp, welcome = bench.opened()
    bench.ctx.auto = False
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)] * lost))
    bench.harness.post(*bench.ctx.queue)
    bench.ctx.queue.clear()
    bench.ctx.auto = True
    assert amounts(bench.say(tcp, ClientInput(0, lost + 1, [note(deposit, 5)]))) == []
    assert not tcp.connected
    again, _ = bench.opened(connection=welcome.connection)
    assert amounts(again.rest) == [5 * number for number in range(1, lost + 2)]


@attrs.frozen
class Wanted(Notification):
    size: int


@attrs.frozen
class Blob(Notification):
    data: bytes


@attrs.define
class Giver(Agent):
    failures: list[ExceptionNotification] = attrs.field(factory=list)

    @reacts
    def send_blob(self, ctx: Context, note: Wanted) -> None:
        ctx.send(ctx.sender, Blob(bytes(note.size)))

    @reacts
    def failed(self, ctx: Context, note: ExceptionNotification) -> None:
        self.failures.append(note)


@pytest.mark.parametrize("request_number", [0, 7])
def test_an_answer_too_large_for_clients_fails_and_the_connection_stays_open(bench, request_number):
    bench.harness.deploy(Giver, name="giver")
    tcp, welcome = bench.opened()

    def received(first, size):
        wanted = ClientNote("giver", Wanted.type_name, encode(Wanted(size)), request_number)
        return [n for f in bench.say(tcp, ClientInput(0, first, [wanted])) for n in f.notes]

    notes = received(1, MAX_OUTPUT_BYTES + 1)
    (told,) = bench.harness.agent("giver").failures
    assert (str(told.agent), told.type) == (welcome.connection, Blob.type_name)
    assert f"a client can be sent {MAX_OUTPUT_BYTES} at most" in told.message
    assert [(n.request, decode(ExceptionNotification, n.payload)) for n in notes] == [(7, told)] * bool(
        request_number
    )
    (blob,) = received(2, 1000)
    assert (blob.request, blob.type) == (request_number, Blob.type_name)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03abc",
        encode_frame(Ping(1)),
        encode_frame(ClientInput(0, 1, [])),
    ],
)
def test_garbage_costs_one_line_and_the_connection_and_nothing_else(bench, deposit, data):
    tcp = bench.join()
    (bye,) = bench.say(tcp, data)
    assert bye.code == "protocol"
    assert bench.ctx.counts == {"garbage": 1}
    assert len(bench.ctx.lines) == 1
    other, _ = bench.opened()
    assert amounts(bench.say(other, ClientInput(0, 1, [note(deposit, 5)]))) == [5]


def test_garbage_after_the_welcome_does_not_lose_what_came_before(bench, deposit):
    tcp, _ = bench.opened()
    frames = bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)]), b"\x00\x00\x00\x01\xc1")
    assert frames[-1].code == "protocol"
    assert bench.harness.agent("alice").seen == [5]


def test_a_flood_of_garbage_does_not_flood_the_log(bench):
    for _ in range(100):
        bench.say(bench.join(), b"\xff\xff\xff\xff")
    assert bench.ctx.counts["garbage"] == 100
    assert len(bench.ctx.lines) == 11


def test_an_input_with_too_many_notifications_is_refused(bench, deposit):
    tcp, _ = bench.opened()
    frames = bench.say(tcp, ClientInput(0, 1, [note(deposit, 1)] * (MAX_INPUT_NOTES + 1)))
    assert frames[-1].code == "protocol"


@pytest.mark.parametrize("more", [[0, 0, 0], [[[]]], [None]])
def test_an_input_with_unknown_members_is_refused_before_it_is_ordered(bench, deposit, more):
    tcp, _ = bench.opened()
    for frame in (
        [3, 0, 1, [["alice", *deposit(5), 0]], *more],
        [3, 0, 1, [["alice", *deposit(5), 0, *more]]],
    ):
        body = msgspec.msgpack.encode(frame)
        tcp, _ = bench.opened()
        frames = bench.say(tcp, len(body).to_bytes(4, "big") + body)
        assert frames[-1].code == "protocol"
    assert bench.harness.agent("alice").seen == []


def test_a_payload_nested_too_deep_is_refused_before_it_is_ordered(bench, deposit):
    tcp, _ = bench.opened()
    kind, _ = deposit(1)
    at_the_bound = b"\x91" * MAX_NESTING + b"\xc0"
    assert bench.say(tcp, ClientInput(0, 1, [ClientNote("alice", kind, at_the_bound)]))[-1].in_ack == 1
    frames = bench.say(tcp, ClientInput(0, 2, [ClientNote("alice", kind, b"\x91" + at_the_bound)]))
    assert frames[-1].code == "protocol"
    assert "nested more than 100 deep" in frames[-1].text


def test_a_client_without_hello_is_disconnected(bench):
    tcp = bench.join()
    bench.ctx.reactor.advance(5)
    assert tcp.closing
    bench.ctx.reactor.advance(5)
    assert not tcp.connected
    assert bench.ctx.gauges["connections"] == 0


def test_frames_before_the_welcome_break_the_protocol(bench, deposit):
    bench.ctx.auto = False
    tcp = bench.join()
    (bye,) = bench.say(tcp, bench.hello(), ClientInput(0, 1, [note(deposit, 5)]))
    assert bye.code == "protocol"


def test_a_client_is_asked_to_try_again_when_the_agents_do_not_answer(bench):
    bench.ctx.auto = False
    tcp = bench.join()
    bench.say(tcp, bench.hello())
    bench.ctx.reactor.advance(5)
    (bye,) = bench.heard(tcp)
    assert bye.code == "unavailable"


def test_a_proxy_that_was_opened_for_a_vanished_client_is_closed(bench):
    bench.ctx.auto = False
    tcp = bench.join()
    bench.say(tcp, bench.hello())
    tcp.cut()
    bench.ctx.commit()
    bench.ctx.commit()
    bench.ctx.commit()
    assert not [c for c in bench.harness.engine.cells() if isinstance(c.agent, ProxyAgent)]


def test_clients_wait_while_the_server_has_enough_to_do(bench, deposit):
    tcp, _ = bench.opened()
    other, _ = bench.opened()
    bench.ctx.accepting = False
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)]))
    assert not tcp.reading
    assert not other.reading
    late, _ = bench.opened()
    assert not late.reading
    bench.ctx.accept_again()
    assert tcp.reading
    assert other.reading
    assert late.reading


def test_output_waits_for_a_slow_reader_and_gathers_in_one_frame(bench, deposit):
    tcp, _ = bench.opened()
    tcp.producer.pauseProducing()
    assert bench.say(tcp, ClientInput(0, 1, [note(deposit, 5)])) == []
    assert bench.say(tcp, ClientInput(0, 2, [note(deposit, 7)])) == []
    tcp.producer.resumeProducing()
    (output,) = bench.heard(tcp)
    assert amounts([output]) == [5, 12]


def test_a_client_that_does_not_read_is_dropped_at_the_bound(bench, deposit, monkeypatch):
    monkeypatch.setattr("quorate.services.client_connection.MAX_HELD_NOTES", 100)
    tcp, welcome = bench.opened()
    tcp.producer.pauseProducing()
    bench.say(tcp, ClientInput(0, 1, [note(deposit, 1)] * 200))
    assert not tcp.connected
    monkeypatch.undo()
    again, back = bench.opened(connection=welcome.connection)
    assert back.in_ack == 200
    assert len(amounts(again.rest)) == 200


def test_the_number_of_connections_is_bounded(make_bench):
    bench = make_bench(settings={"max_connections": "1"})
    first, welcome = bench.opened()
    second = bench.join()
    (bye,) = bench.say(second, bench.hello())
    assert bye.code == "full"
    (bye,) = bench.heard(bench.join())
    assert bye.code == "full"
    for tcp in [first, second]:
        tcp.cut()
    _, back = bench.opened(connection=welcome.connection)
    assert back.connection == welcome.connection


def test_a_replica_that_is_no_longer_master_sends_its_clients_away(bench):
    tcp, _ = bench.opened()
    bench.service.stop()
    (bye,) = bench.heard(tcp)
    assert bye.code == "unavailable"


def test_a_port_in_use_is_an_error_of_one_sentence(bench):
    service = TcpProxyService()
    bench.ctx.reactor.taken = True
    with pytest.raises(ServiceError, match="port 2560 of localhost cannot be listened on"):
        service.init(bench.ctx, "2560", True)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("", "takes a port"),
        ("a", "must be a number"),
        ("99999", "from 0 to 65535"),
        ("1 2 3", "takes a port"),
        ("2560 0", "from 1 to"),
        ("2560 nan", "must be a number"),
    ],
)
def test_wrong_arguments_are_an_error_of_one_sentence(bench, args, text):
    with pytest.raises(ServiceError, match=text):
        TcpProxyService().init(bench.ctx, args, True)


def test_the_service_needs_a_connection_manager(bench):
    bench.ctx.services = []
    with pytest.raises(ServiceError, match="declare that service before it"):
        TcpProxyService().init(bench.ctx, "2560", True)


def test_a_connection_manager_without_users_refuses_every_client(bench):
    bench.manager.init(bench.ctx, "", False)
    bench.ctx.settle()
    [bye] = bench.say(bench.join(), bench.hello())
    assert bye.code == "authentication"


@pytest.mark.parametrize("args", ["root", "a b c"])
def test_users_come_in_pairs(bench, args):
    with pytest.raises(ServiceError, match="pairs of user and password"):
        ConnectionManager().init(bench.ctx, args, True)


def test_a_replica_on_this_machine_listens_on_the_loopback_only(make_bench):
    assert make_bench().ctx.reactor.listener[2] == "127.0.0.1"
    assert make_bench(settings={"client_interface": ""}).ctx.reactor.listener[2] == ""
    assert make_bench(host="::1").ctx.reactor.listener[2] == "::1"
