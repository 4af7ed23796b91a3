"""The load in a process of its own: operations over one TCP connection to member 0, which submits each.

The operations, and their confirmations, of one turn of the reactor share one frame, as between clients and
servers. Otherwise the frames would be most of what is measured.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from framed import Framed
from load import Submit, arguments, collect_rarely, die_with_parent, install_reactor, run_cells
from twisted.internet.protocol import ClientFactory, Factory

_encode = msgspec.msgpack.Encoder().encode
_decode_operations = msgspec.msgpack.Decoder(list[list[bytes]]).decode
_decode_numbers = msgspec.msgpack.Decoder(list[int]).decode


class _Gathering(Framed):
    """A connection that sends the items of one turn of the reactor in one frame; `flush` sends at once."""

    _due = False

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.gathered: list[Any] = []

    def gather(self, item: Any) -> None:
        self.gathered.append(item)
        if not self._due:
            self._due = True
            self.tcp.reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._due = False
        self.flush()

    def flush(self) -> None:
        if self.gathered:
            self.send(_encode(self.gathered))
            self.gathered = []


class _Serving(_Gathering):
    def __init__(self, submit: Submit, stop: Callable[[], None]) -> None:
        self._submit = submit
        self._stop = stop
        self._asked = self._confirmed = 0

    def frame(self, body: bytes) -> None:
        operations = _decode_operations(body)
        first, self._asked = self._asked, self._asked + len(operations)
        for number, payloads in enumerate(operations, first):
            self._submit(payloads, self._done, number)

    def _done(self, number: float) -> None:
        self._confirmed += 1
        self.gather(number)
        if self._confirmed == self._asked:
            # No further confirmation can share the frame.
            self.flush()

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


class _Asking(_Gathering):
    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.waiting: dict[int, tuple[Callable[[float], None], float]] = {}
        self.number = 0
        self.up()

    def up(self) -> None:
        raise NotImplementedError

    def ask(self, payloads: list[bytes], done: Callable[[float], None], started: float) -> None:
        self.waiting[self.number] = (done, started)
        self.number += 1
        self.gather(payloads)

    def frame(self, body: bytes) -> None:
        for number in _decode_numbers(body):
            done, started = self.waiting.pop(number)
            done(started)
        self.flush()


def serve(options: Any, reactor: Any, submit: Submit, pids: list[int]) -> None:
    """Listen for the client, start it, and stop the reactor when it has disconnected."""

    reactor.listenTCP(options.ports[3], _Accepting(submit, reactor.stop), interface="127.0.0.1")
    cells = [[cell.size, cell.window, cell.batch, cell.seconds] for cell in options.cells]
    ports = [options.ports[3], os.getpid(), *pids]
    command = [sys.executable, __file__, "--cells", str(cells), "--reactor", options.reactor]
    subprocess.Popen([*command, "--ports", *map(str, ports)])


def main() -> None:
    """Run the client. `--ports` has the port to connect to, then the process ids whose CPU time counts."""
    options = arguments()
    collect_rarely()
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
