"""An upper bound: a bare Twisted relay of the same shape, without views, log, repair or any check.

The master collects waiting messages, sends them to two slaves in one frame each, and confirms them when both
have answered. The slaves pass the messages to a counter and answer with the number of the frame.
"""

import argparse
import os
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from framed import Framed
from load import (
    arguments,
    collect_rarely,
    die_with_parent,
    free_ports,
    install_reactor,
    other_members,
    profiled,
    run_cells,
)
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ClientFactory, Factory

PACK = 1024
IN_FLIGHT = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[bytes]]).decode


class Slave(Framed):
    """A slave: counts the messages and answers."""

    count = 0

    def frame(self, body: bytes) -> None:
        """Deliver the messages one by one, as to an application."""
        number, payloads = _decode(body)
        for payload in payloads:
            self.delivered(payload)
        self.send(_encode(number))

    def delivered(self, payload: bytes) -> None:
        """Count."""
        del payload
        self.count += 1


class Relay:
    """The master: sends frames to the slaves and confirms them."""

    def __init__(self, reactor: Any, ports: list[int], ready: Callable[[], None]) -> None:
        self.count = 0
        self._reactor = reactor
        self._ready = ready
        self._links: list[Framed] = []
        self._waiting: list[bytes] = []
        self._tickets: list[tuple[int, Deferred[int]]] = []
        self._flight: deque[tuple[int, list[bytes], list[tuple[int, Deferred[int]]]]] = deque()
        self._acked: dict[int, int] = {}
        self._number = 0
        self._due = self._firing = False
        for port in ports:
            reactor.connectTCP("127.0.0.1", port, _Dialer(self))

    def multicast_many(self, payloads: list[bytes]) -> "Deferred[int]":
        """Send messages; fires when both slaves have them."""
        done: Deferred[int] = Deferred()
        self._waiting += payloads
        self._tickets.append((len(payloads), done))
        if self._firing:
            return done
        if not self._flight:
            self._flush()
        elif not self._due and len(self._flight) < IN_FLIGHT:
            self._due = True
            self._reactor.callLater(0, self._flush)
        return done

    def _flush(self) -> None:
        self._due = False
        while self._waiting and len(self._flight) < IN_FLIGHT:
            payloads, tickets, taken = self._waiting, self._tickets, len(self._waiting)
            if taken > PACK:
                tickets, taken = list[tuple[int, "Deferred[int]"]](), 0
                while self._tickets and (taken == 0 or taken + self._tickets[0][0] <= PACK):
                    tickets.append(self._tickets.pop(0))
                    taken += tickets[-1][0]
                payloads, self._waiting = self._waiting[:taken], self._waiting[taken:]
            else:
                self._waiting, self._tickets = [], []
            self._number += 1
            self._flight.append((self._number, payloads, tickets))
            body = _encode((self._number, payloads))
            for link in self._links:
                link.send(body)

    def acked(self, link: int, number: int) -> None:
        """Process the answer of a slave."""
        self._acked[link] = number
        upto = min(self._acked.values()) if len(self._acked) == 2 else 0
        self._firing = True
        while self._flight and self._flight[0][0] <= upto:
            _, payloads, tickets = self._flight.popleft()
            for payload in payloads:
                self.delivered(payload)
            for _, done in tickets:
                done.callback(upto)
        self._firing = False
        self._flush()

    def delivered(self, payload: bytes) -> None:
        """Count."""
        del payload
        self.count += 1

    def up(self, link: Framed) -> None:
        """Record that a slave is connected."""
        self._links.append(link)
        if len(self._links) == 2:
            self._ready()

    def retry(self, connector: Any) -> None:
        """Connect again later to a slave that does not listen yet."""
        self._reactor.callLater(0.05, connector.connect)


class _MasterLink(Framed):
    relay: Relay

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.relay.up(self)

    def frame(self, body: bytes) -> None:
        self.relay.acked(id(self), msgspec.msgpack.decode(body, type=int))


class _Dialer(ClientFactory):
    noisy = False

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def buildProtocol(self, addr: Any) -> _MasterLink:  # noqa: N802
        del addr
        link = _MasterLink()
        link.relay = self._relay
        return link

    def clientConnectionFailed(self, connector: Any, reason: Any) -> None:  # noqa: N802
        del reason
        self._relay.retry(connector)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this contender has."""
    parser.add_argument(
        "--client", action="store_true", help="the load comes from a fourth process, over TCP"
    )


def main() -> None:
    """Run the member that the command line names."""
    options = arguments(add_options)
    collect_rarely()
    reactor = install_reactor(options.reactor)
    if options.member:
        die_with_parent()
        factory = Factory.forProtocol(Slave)
        factory.noisy = False
        reactor.listenTCP(options.ports[options.member], factory, interface="127.0.0.1")
        reactor.run()
        return
    options.ports = free_ports(4)
    with other_members(__file__, options.ports, ["--reactor", options.reactor]) as pids:

        def begin() -> None:
            if options.client:
                from remote import serve

                serve(options, reactor, submit, pids)
            else:
                reactor.callLater(0.1, run_cells(options, submit, [os.getpid(), *pids], reactor.stop))

        relay = Relay(reactor, options.ports[1:3], begin)

        def submit(payloads: list[bytes], done: Callable[[float], None], started: float) -> None:
            relay.multicast_many(payloads).addCallback(lambda _: done(started))

        with profiled(options.profile):
            reactor.run()


if __name__ == "__main__":
    main()
