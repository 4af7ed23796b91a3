"""The load in a process of its own: requests over one TCP connection to member 0, which submits them."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from framed import Framed
from load import Submit, arguments, die_with_parent, install_reactor, run_cells
from twisted.internet.protocol import ClientFactory, Factory

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[bytes]]).decode


class _Serving(Framed):
    def __init__(self, submit: Submit, stop: Callable[[], None]) -> None:
        self._submit = submit
        self._stop = stop

    def frame(self, body: bytes) -> None:
        number, payloads = _decode(body)
        self._submit(payloads, lambda _: self.send(_encode(number)), 0.0)

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        del reason
        self._stop()


class _Accepting(Factory):
    noisy = False

    def __init__(self, submit: Submit, stop: Callable[[], None]) -> None:
        self._submit = submit
        self._stop = stop

    def buildProtocol(self, addr: Any) -> _Serving:  # noqa: N802
        del addr
        return _Serving(self._submit, self._stop)


class _Asking(Framed):
    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.waiting: dict[int, tuple[Callable[[float], None], float]] = {}
        self.number = 0
        self.up()

    def up(self) -> None:
        raise NotImplementedError

    def ask(self, payloads: list[bytes], done: Callable[[float], None], started: float) -> None:
        self.number += 1
        self.waiting[self.number] = (done, started)
        self.send(_encode((self.number, payloads)))

    def frame(self, body: bytes) -> None:
        done, started = self.waiting.pop(msgspec.msgpack.decode(body, type=int))
        done(started)


def serve(options: Any, reactor: Any, submit: Submit, pids: list[int]) -> None:
    """Listen for the client, start it, and stop the reactor when it has gone."""

    reactor.listenTCP(options.ports[3], _Accepting(submit, reactor.stop), interface="127.0.0.1")
    cells = [[cell.size, cell.window, cell.batch, cell.seconds] for cell in options.cells]
    ports = [options.ports[3], os.getpid(), *pids]
    command = [sys.executable, __file__, "--cells", str(cells), "--reactor", options.reactor]
    subprocess.Popen([*command, "--ports", *map(str, ports)])


def main() -> None:
    """Be the client. `--ports` has the port to connect to, then the process ids to account for."""
    options = arguments()
    die_with_parent()
    reactor = install_reactor(options.reactor)
    port, *pids = options.ports

    class Client(_Asking):
        def up(self) -> None:
            everybody = [os.getpid(), *pids]
            reactor.callLater(0.1, run_cells(options, self.ask, everybody, reactor.stop))

    factory = ClientFactory.forProtocol(Client)
    factory.noisy = False
    reactor.connectTCP("127.0.0.1", port, factory)
    reactor.run()


if __name__ == "__main__":
    main()
