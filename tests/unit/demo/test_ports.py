"""The sample moves to other ports when its own are taken."""

import socket
from pathlib import Path

from quorate.demo.ports import free_ports, is_free, ports_of, with_ports, write_config
from quorate.demo.story import SAMPLE
from quorate.server.config import load

PORTS = [16301, 2560, 16302, 2561, 16303, 2562, 16304]


def test_all_ports_of_the_sample_are_found() -> None:
    assert ports_of(SAMPLE.read_text()) == PORTS


def test_free_ports_leave_the_sample_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "a3servers.xml"

    assert write_config(SAMPLE, target, free=lambda _port: True) == {}
    assert target.read_text() == SAMPLE.read_text()


def test_one_taken_port_moves_all_and_the_configuration_stays_valid(tmp_path: Path) -> None:
    target = tmp_path / "a3servers.xml"

    change = write_config(
        SAMPLE, target, free=lambda port: port != 2561, choose=lambda count: range(21000, 21000 + count)
    )

    assert change == dict(zip(PORTS, range(21000, 21007), strict=True))
    config = load(target)
    assert [replica.networks[0].port for replica in config.server("s0").replicas] == [21000, 21002, 21004]
    assert [replica.services[1].args for replica in config.server("s0").replicas] == [
        "21001",
        "21003",
        "21005",
    ]
    assert config.server("s1").replicas[0].networks[0].port == 21006


def test_ports_that_swap_are_not_changed_twice() -> None:
    text = '<network domain="D1" port="1"/><network domain="D1" port="2"/>'

    assert ports_of(with_ports(text, {1: 2, 2: 1})) == [2, 1]


def test_a_port_somebody_listens_on_is_not_free_and_not_chosen() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not is_free(taken.getsockname()[1])
    chosen = free_ports(7)
    assert len(set(chosen)) == 7
