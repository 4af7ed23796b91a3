"""Services that a configuration declares and a server could not start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .config_texts import CM, TCP, one

Bad = Callable[[str | bytes], list[str]]

SERVICES = {
    "not a class name": ("<service class='no such'/>", "3: 'no such' is not the name of a class"),
    "no module": ("<service class='Thing'/>", "3: 'Thing' is not the name of a class"),
    "empty class": ("<service class=''/>", "3: '' is not the name of a class"),
    "unknown module": ("<service class='nowhere.at_all:Thing'/>", "there is no module 'nowhere' here"),
    "unknown class": ("<service class='json:Thing'/>", "3: the service json:Thing cannot be used"),
    "no service": (
        "<service class='json.JSONDecoder'/>",
        "3: json:JSONDecoder is not a service; make it a subclass",
    ),
    "a function": ("<service class='json:loads'/>", "3: json:loads is not a service"),
    "Java": (
        "<service class='javax.jms.Thing'/>",
        "is a Java service that Quorate does not have; the built-in services are ConnectionManager, ",
    ),
    "TLS of Joram": (
        "<service class='org.objectweb.joram.mom.proxies.tcp.SSLTcpProxyService' args='2560'/>",
        "SSLTcpProxyService' encrypts its connections; declare TcpProxyService instead",
    ),
    "TLS elsewhere in Joram": (
        "<service class='org.ow2.joram.rest.HttpsService' args='2560'/>",
        "HttpsService' encrypts its connections",
    ),
    "TLS without a module": (
        "<service class='SSLTcpProxyService' args='2560'/>",
        "write package.module:Class; the built-in services are ConnectionManager, "
        "TcpProxyService, MeshService, StompService, AmqpService and HttpService.",
    ),
    "almost Java": (
        "<service class='org.objectweb.joram.mom.proxies.tcp.TcpProxyServic'/>",
        "TcpProxyServic' is a Java service that Quorate does not have; did you mean TcpProxyService?",
    ),
    "service twice": (
        f"{CM}\n{CM}",
        "4: the service 'org.objectweb.joram.mom.proxies.ConnectionManager' stands on line 3",
    ),
    "no port": (CM + TCP.format(""), "3: TcpProxyService needs the port"),
    "no number": (CM + TCP.format("http"), "3: the args of TcpProxyService must begin with a port"),
    "an idle timeout that is none": (
        CM + TCP.format("2560 soon"),
        "3: TcpProxyService takes a port and an idle",
    ),
    "a third word": (CM + TCP.format("2560 60 5"), "3: TcpProxyService takes a port and an idle"),
    "port 0": (CM + TCP.format("0"), "from 1 to 65535, which clients know, not '0'"),
    "port out of range": (CM + TCP.format("70000"), "from 1 to 65535, which clients know, not '70000'"),
    "no manager": (TCP.format("2560"), "3: TcpProxyService needs a ConnectionManager beside it"),
    "no password": (CM.replace("root root", "root"), "3: ConnectionManager needs pairs"),
    "user twice": (CM.replace("root root", "a b a c"), "3: a user is declared twice"),
}


@pytest.mark.parametrize("kind", SERVICES)
def test_a_service_that_cannot_work_is_reported(kind: str, bad: Bad) -> None:
    content, expected = SERVICES[kind]
    problems = bad(one(content))
    assert any(expected in problem for problem in problems), problems
    assert len(problems) == 1, problems
    assert problems[0].endswith((".", "?")), problems
    assert not problems[0].endswith("?."), problems


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("def broken(:", "cannot be imported: SyntaxError"),
        ("import nothing_of_that_name", "needs the module 'nothing_of_that_name'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero ({name}.py, line 1)"),
        ("import json\njson.loads('x')", "({name}.py, line 2)"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
    ],
)
def test_a_service_whose_module_fails_is_reported(
    source: str, expected: str, bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"failing_{abs(hash(source))}"
    expected = expected.format(name=name)
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    problems = bad(one(f"<service class='{name}:Thing'/>"))
    assert expected in problems[0]


_PREFIX = """
from quorate.services import ActivityCall, ActivityService, Service, activity
import attrs
from quorate import Notification

@attrs.frozen
class Charge(Notification):
    amount: int

"""

CANNOT_START = {
    "nothing that starts it": (
        "class Thing(Service):\n    pass",
        "Thing has no method init(self, ctx, args, first_time), which starts a service",
    ),
    "an argument": (
        "class Thing(Service):\n"
        "    def __init__(self, size): ...\n    def init(self, ctx, args, first_time): ...",
        "Thing cannot be made: a service takes no argument, and its args come with init",
    ),
    "no activities": ("class Thing(ActivityService):\n    pass", "Thing declares no activity"),
    "an activity twice": (
        "class Thing(ActivityService):\n"
        "    @activity('charge')\n    def one(self, call, note: Charge): ...\n"
        "    @activity('charge')\n    def two(self, call, note: Charge): ...",
        "Thing.two: the activity 'charge' is declared twice; keep one",
    ),
    "an activity without input": (
        "class Thing(ActivityService):\n    @activity('charge')\n    def one(self, call): ...",
        "Thing.one: an activity takes (self, call, notification)",
    ),
    "an input that is no notification": (
        "class Thing(ActivityService):\n    @activity('charge')\n    def one(self, call, note: int): ...",
        "Thing.one: annotate note with the class of the notification that it takes",
    ),
}


@pytest.mark.parametrize("kind", CANNOT_START)
def test_a_service_that_cannot_start_is_reported(
    kind: str, bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, flaw = CANNOT_START[kind]
    name = f"cannot_start_{abs(hash(kind))}"
    (tmp_path / f"{name}.py").write_text(_PREFIX + source)
    monkeypatch.syspath_prepend(tmp_path)
    (problem,) = bad(one(f"<service class='{name}:Thing'/>"))
    assert f"the service {name}:Thing cannot start: {flaw}" in problem
