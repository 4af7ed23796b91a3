"""The right to create and administer agents, which the property administrators gives to users."""

import msgspec
import pytest

from quorate.agents import (
    AgentId,
    Create,
    Created,
    CreateFailed,
    ExceptionNotification,
    Notification,
    Pause,
    Paused,
    agent_spec,
    decode,
    encode,
)
from quorate.agents.proxy import ClientInput, ClientNote, ClientOutput
from quorate.services import ServiceError

from .conftest import Deposit


class Client:
    """A user's connection that sends requests to a factory."""

    def __init__(self, bench, user="root", password="root"):
        self.bench, self.sent = bench, 0
        self.tcp, self.welcome = bench.opened(user=user, password=password)

    def ask(self, *asks: Notification, to="#factory") -> list:
        """Send requests in one frame. Return (type, payload) of the answers."""
        notes = [ClientNote(to, ask.type_name, encode(ask), 7 + place) for place, ask in enumerate(asks)]
        frame = ClientInput(0, self.sent + 1, notes)
        self.sent += len(notes)
        frames = self.bench.say(self.tcp, frame)
        outputs = [frame for frame in frames if isinstance(frame, ClientOutput)]
        return [note for output in outputs for note in output.notes if note.request]


@pytest.fixture
def bench(make_bench):
    return make_bench(settings={"administrators": "root"})


@pytest.fixture
def create(bench):
    cls = type(bench.harness.agent("alice"))
    location = agent_spec(cls).location
    return lambda name, **options: Create(location, name, msgspec.msgpack.encode({"balance": 3}), **options)


@pytest.mark.parametrize("to", ["#factory", "#factory@s0", "#0.0.2", AgentId(0, 0, 2)])
def test_an_administrator_creates_an_agent(bench, create, to):
    (answer,) = Client(bench).ask(create("bob"), to=to)
    assert answer.type == Created.type_name
    assert bench.harness.agent("bob").balance == 3


def test_a_user_without_the_right_is_refused_and_the_log_says_so(bench, create):
    (answer,) = Client(bench, "alice", "secret").ask(create("bob"))
    refusal = decode(ExceptionNotification, answer.payload)
    assert refusal.error == "PermissionError"
    assert "user alice may not create or administer agents" in refusal.message
    assert any("user alice" in line and "was denied quorate.create/1" in line for line in bench.ctx.lines)
    assert bench.ctx.counts["denied"] == 1
    assert bench.harness.engine.find("bob") is None


def test_nobody_has_the_right_by_default(make_bench):
    (answer,) = Client(make_bench()).ask(Pause("alice"))
    assert decode(ExceptionNotification, answer.payload).error == "PermissionError"


def test_an_administrator_may_send_nothing_else_to_a_reserved_agent(bench):
    client = Client(bench)
    for to in ("#factory", "#0.0.3"):
        (answer,) = client.ask(ExceptionNotification(AgentId(0, 0, 1), "x", "y", "z"), to=to)
        assert "agents of the platform" in decode(ExceptionNotification, answer.payload).message
    (answer,) = client.ask(Pause("alice"), to="#0.0.3")
    assert "agents of the platform" in decode(ExceptionNotification, answer.payload).message


def test_an_administrator_does_not_choose_ids_or_keys_of_the_configuration(bench, create):
    client = Client(bench)
    (answer,) = client.ask(create("bob", id=AgentId(0, 0, 5000)))
    assert "may not choose the id" in decode(ExceptionNotification, answer.payload).message
    (answer,) = client.ask(create("bob", key="declared:bob"))
    assert "belong to the configuration" in decode(CreateFailed, answer.payload).reason


def test_a_class_that_the_master_cannot_load_is_refused_and_the_rest_of_the_input_counts(bench, create):
    bad, good = Client(bench).ask(Create("no_such_module:Thing"), create("bob"))
    assert "no_such_module" in decode(CreateFailed, bad.payload).reason
    assert good.type == Created.type_name


def test_the_right_is_that_of_the_last_opening(bench, make_bench):
    client = Client(bench)
    connection = str(client.tcp.link.proxy)
    later = make_bench(harness=bench.harness)
    tcp, welcome = later.opened(connection=connection)
    assert welcome.connection == connection
    client.bench, client.tcp = later, tcp
    (answer,) = client.ask(Pause("alice"))
    assert decode(ExceptionNotification, answer.payload).error == "PermissionError"


def test_thousands_of_agents_are_created_by_one_input(bench, create):
    answers = Client(bench).ask(*[create(f"agent{number}") for number in range(2000)])
    assert {answer.type for answer in answers} == {Created.type_name}
    assert bench.harness.agent("agent1999").balance == 3


def test_an_administrator_pauses_an_agent(bench):
    (answer,) = Client(bench).ask(Pause("alice"))
    assert answer.type == Paused.type_name


def test_an_administrator_cannot_create_an_agent_of_the_platform(bench):
    ask = Create("quorate.agents.service_inbox:ServiceInbox", "inbox", msgspec.msgpack.encode({"topic": "t"}))
    (answer,) = Client(bench).ask(ask)
    assert answer.type == CreateFailed.type_name
    assert "belongs to the platform" in decode(CreateFailed, answer.payload).reason


def test_a_key_that_has_created_another_agent_is_refused(bench, create):
    client = Client(bench)
    client.ask(create("bob", key="k"))
    again, other = client.ask(create("bob", key="k"), create("carol", key="k"))
    assert again.type == Created.type_name
    assert "give each agent a key of its own" in decode(CreateFailed, other.payload).reason


@pytest.fixture
def rights(tmp_path):
    file = tmp_path / "rights"
    file.write_text("user:alice alice send\neveryone bob@s1 send\n")
    return file


@pytest.fixture
def limited(make_bench, rights):
    return make_bench(settings={"administrators": "root", "rights_file": str(rights)})


def refused(answers) -> str:
    (answer,) = answers
    failure = decode(ExceptionNotification, answer.payload)
    assert failure.error == "NotPermitted"
    return failure.message


def balance(bench):
    return bench.harness.agent("alice").balance


@pytest.mark.parametrize("to", ["alice", "alice@s0"])
def test_a_user_sends_to_the_agents_that_a_line_names(limited, to):
    before = balance(limited)
    Client(limited, "alice", "secret").ask(Deposit(5), to=to)
    assert balance(limited) == before + 5


@pytest.mark.parametrize("to", ["bob", "bob@s0", "alice@s1", "bob@1", "#0.0.1025"])
def test_another_name_another_server_and_an_id_are_other_names(limited, to):
    text = refused(Client(limited, "alice", "secret").ask(Deposit(5), to=to))
    shown = {"bob@s0": "bob", "bob@1": "bob@number 1"}.get(to, to)
    assert text == f"user alice has no right to send to {shown}"
    assert any("was denied" in line for line in limited.ctx.lines)
    assert limited.ctx.counts["denied"] == 1


def test_an_administrator_has_all_rights(limited):
    before = balance(limited)
    Client(limited).ask(Deposit(5), to="alice")
    assert balance(limited) == before + 5


def test_a_right_that_is_given_later_counts_for_the_same_connection(limited, rights):
    client = Client(limited, "alice", "secret")
    rights.write_text("user:alice * send\n")
    limited.ctx.pass_time(1.1)
    bye = limited.heard(client.tcp)[-1]
    assert bye.text == "the rights of the user have changed; connect again"
    client.tcp, _ = limited.opened(user="alice", password="secret", connection=client.welcome.connection)
    before = balance(limited)
    client.ask(Deposit(5), to="#0.0.1025")
    assert balance(limited) == before + 5


def test_a_wrong_file_changes_nothing_and_the_log_says_so(limited, rights):
    client = Client(limited, "alice", "secret")
    rights.write_text("user:alice * fly\n")
    limited.ctx.pass_time(1.1)
    assert any("the former rights stay: line 1: 'fly' is not one of" in line for line in limited.ctx.lines)
    before = balance(limited)
    client.ask(Deposit(5), to="alice")
    assert balance(limited) == before + 5


def test_a_server_does_not_start_with_a_wrong_file(make_bench, rights):
    rights.write_text("alice * send\n")
    with pytest.raises(ServiceError, match="cannot be read: line 1: 'alice' is not user:NAME"):
        make_bench(settings={"rights_file": str(rights)})
