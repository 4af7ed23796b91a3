"""Rights of users on agents and destinations, with a real server."""

import contextlib
from pathlib import Path

import attrs
import pytest

from quorate import Notification, Servers, connect
from quorate.client import ConnectionClosed, NotPermitted
from quorate.messaging import Session

from .running import BOUND_S

pytestmark = pytest.mark.processes

XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="administrators" value="root"/>
  <property name="rights_file" value="rights"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16301"/>
    <service class="ConnectionManager" args="root root anna anna bert bert"/>
    <service class="TcpProxyService" args="2560"/>
    <queue name="orders"/><topic name="prices"/>
  </server>
</config>"""


@attrs.frozen
class Hello(Notification):
    """Something to send to an agent."""


RIGHTS = """
user:anna  queue:orders  send
user:bert  queue:*       receive browse
everyone   topic:prices  receive
"""


def test_users_do_what_they_may_until_that_is_taken_away(tmp_path: Path) -> None:
    config, rights = tmp_path / "a3servers.xml", tmp_path / "rights"
    config.write_text(XML)
    rights.write_text(RIGHTS)
    with Servers(config, free_ports=True, data=tmp_path / "data") as servers:
        url = servers.url("s0")
        with (
            connect(url, user="anna", password="anna") as of_anna,
            connect(url, user="bert", password="bert") as of_bert,
            Session(of_anna, timeout=BOUND_S) as anna,
            Session(of_bert, timeout=BOUND_S) as bert,
        ):
            anna.producer("orders").send("one")
            orders = bert.consumer("orders")
            assert orders.receive(timeout=BOUND_S).body == "one"
            with pytest.raises(NotPermitted, match="user anna has no right to receive from queue:orders"):
                anna.consumer("orders").receive(timeout=BOUND_S)
            with pytest.raises(NotPermitted, match="user bert has no right to send to queue:orders"):
                bert.producer("orders").send("no")
            with pytest.raises(NotPermitted, match="user anna has no right to send to alice"):
                of_anna.request("alice", Hello(), timeout=BOUND_S)
            # What is added counts at once, without a new connection for the program.
            rights.write_text(RIGHTS + "user:bert queue:orders send receive\n")
            while True:
                with contextlib.suppress(NotPermitted):
                    bert.producer("orders").send("two")
                    break
            assert orders.receive(timeout=BOUND_S).body == "two"
            rights.write_text("user:anna queue:orders send\n")
            with pytest.raises(ConnectionClosed, match="user bert has no right any more to"):
                orders.receive(timeout=BOUND_S)
            anna.producer("orders").send("three")
        with connect(url, user="root", password="root") as of_root, Session(of_root, timeout=BOUND_S) as root:
            assert root.consumer("orders").receive(timeout=BOUND_S).body == "three"
