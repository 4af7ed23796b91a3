import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from quorate.hachannel.transport.connection import Link, LinkSettings
from quorate.hachannel.transport.transport import ChannelTransport
from quorate.server.network.hello import CHANNEL, Hello
from quorate.server.network.link_handshake import LinkHandshake
from quorate.server.network.listener import Listener
from quorate.testing.servers.memory_network import MemoryNet

from .disk_rig import Rig
from .fake_replica import free_port, hold, serve, state, target, xml

__all__ = ["free_port", "hold", "make_peer", "net", "rig", "serve", "state", "target", "xml"]


@pytest.fixture
def net() -> MemoryNet:
    return MemoryNet()


class Peer:
    """A replica with a transport and a listener, and nothing behind them."""

    def __init__(
        self,
        net: MemoryNet,
        id: int,
        size: int,
        incarnation: int = 1,
        secret: str | None = None,
        settings: LinkSettings | None = None,
    ) -> None:
        self.id = id
        self.incarnation = incarnation
        self.secret = secret
        self.lines: list[str] = []
        self.counts: list[str] = []
        self.up: dict[int, int] = {}
        self.happened: list[tuple[str, int]] = []
        self.got: list[tuple[int, bytes]] = []
        self.alive: set[int] = set()
        settings = settings or LinkSettings()
        reactor = net.machine(f"m{id}")
        self.transport = ChannelTransport(
            id,
            {other: (f"m{other}", 100) for other in range(size)},
            self,
            reactor,
            self.handshake,
            self.lines.append,
            settings,
            random.Random(id),
        )
        self.front = Listener(
            reactor,
            {CHANNEL: self},
            secret=secret,
            log=self.lines.append,
            count=self.counts.append,
            settings=settings,
        )
        self.front.listen(100)
        self.transport.start()

    def handshake(self, peer: int, calls: bool) -> LinkHandshake:
        fields = {"replica": self.id, "incarnation": self.incarnation, "calls": calls}
        return LinkHandshake(CHANNEL, fields, self.secret)

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        return {"replica": self.id, "incarnation": self.incarnation}

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        replica, incarnation = hello.integer("replica"), hello.integer("incarnation")
        if hello.fields.get("calls"):
            link.close()
            self.transport.called(replica, incarnation)
        else:
            self.transport.accept(link, replica, incarnation, frames, {})

    def peer_alive(self, peer: int) -> None:
        self.alive.add(peer)

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        self.got += [(peer, body) for body in bodies]

    def peer_up(self, peer: int, incarnation: int) -> None:
        assert peer not in self.up
        self.up[peer] = incarnation
        self.happened.append(("up", peer))

    def peer_down(self, peer: int, reason: str) -> None:
        del self.up[peer]
        self.happened.append(("down", peer))

    def peer_unreachable(self, peer: int, reason: str) -> None:
        self.happened.append(("unreachable", peer))


@pytest.fixture
def make_peer(net: MemoryNet) -> Any:
    """Make a replica: arguments as for Peer, without the net."""

    def make(id: int, size: int, **options: Any) -> Peer:
        return Peer(net, id, size, **options)

    return make


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "journal.db")
    yield rig
    rig.let(1000)
    rig.disk.close()
