"""The sample cluster on ports that are free."""

import itertools
import random
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_NETWORK = re.compile(r'(<network\b[^>]*\bport=")(\d+)(")')
_RANGE = (20_000, 30_000)
_SERVICE = re.compile(r'(<service\b[^>]*TcpProxyService"[^>]*\bargs=")(\d+)(\b)')


def ports_of(sample: str) -> list[int]:
    """Return every port that the servers of a configuration listen on, in the order of the text."""
    found = [
        (match.start(), int(match[2]))
        for pattern in (_NETWORK, _SERVICE)
        for match in pattern.finditer(sample)
    ]
    return [port for _, port in sorted(found)]


def with_ports(sample: str, change: Mapping[int, int]) -> str:
    """Return the configuration with other ports."""
    for pattern in (_NETWORK, _SERVICE):
        sample = pattern.sub(
            lambda match: f"{match[1]}{change.get(int(match[2]), int(match[2]))}{match[3]}", sample
        )
    return sample


def is_free(port: int) -> bool:
    """Return whether a server on this machine can listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Return different ports on which nobody listens at this moment.

    They are below the range from which systems give ports to outgoing connections: a server that is started
    again must find its port free.
    """
    first = random.randrange(*_RANGE)
    candidates = (
        _RANGE[0] + (first + step) % (_RANGE[1] - _RANGE[0]) for step in range(_RANGE[1] - _RANGE[0])
    )
    return list(itertools.islice(filter(is_free, candidates), count))


def write_config(
    sample: Path,
    target: Path,
    free: Callable[[int], bool] = is_free,
    choose: Callable[[int], Iterable[int]] = free_ports,
) -> dict[int, int]:
    """Write `sample` to `target`, with other ports for all of its servers if one of its own is taken.

    Returns the changes, old port -> new port; empty if the sample serves as it is.
    """
    text = sample.read_text(encoding="utf-8")
    ports = ports_of(text)
    change: dict[int, int] = {}
    if not all(free(port) for port in ports):
        change = dict(zip(ports, choose(len(ports)), strict=True))
    target.write_text(with_ports(text, change), encoding="utf-8")
    return change
