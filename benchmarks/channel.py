"""Quorate's group: three processes, memory mode, every message held by all three before it is confirmed."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from load import (
    START_S,
    arguments,
    collect_rarely,
    die_with_parent,
    free_ports,
    install_reactor,
    other_members,
    profiled,
    run_cells,
)

from quorate.hachannel import Group, GroupLimits, ViewEvent


class Counter:
    """The application: a counter of the messages."""

    def __init__(self) -> None:
        self.count = 0
        self.on_view: Callable[[ViewEvent], None] = lambda _: None

    def delivered(self, index: int, origin: int, payload: bytes) -> None:
        """Count."""
        del index, origin, payload
        self.count += 1

    def view_changed(self, view: ViewEvent) -> None:
        """Call the function that waits for the members."""
        self.on_view(view)

    def provide_state(self) -> bytes:
        """Return the count."""
        return str(self.count).encode()

    def receive_state(self, chunks: list[bytes]) -> None:
        """Replace the count."""
        self.count = int(b"".join(chunks))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this contender has."""
    parser.add_argument("--pack-messages", type=int, default=GroupLimits().pack_messages)
    parser.add_argument("--packs", type=int, default=GroupLimits().packs_in_flight)
    parser.add_argument(
        "--client", action="store_true", help="the load comes from a fourth process, over TCP"
    )


def make_group(options: Any, reactor: Any, counter: Counter) -> Group:
    """Make this process's member."""
    addresses = {member: ("127.0.0.1", port) for member, port in enumerate(options.ports[:3])}
    return Group(
        "benchmark",
        options.member,
        addresses,
        handler=counter,
        reactor=reactor,
        limits=GroupLimits(pack_messages=options.pack_messages, packs_in_flight=options.packs),
        log=lambda _: None,
    )


def main() -> None:
    """Run the member that the command line names."""
    options = arguments(add_options)
    collect_rarely()
    reactor = install_reactor(options.reactor)
    counter = Counter()
    if options.member:
        die_with_parent()
        make_group(options, reactor, counter).join().addErrback(lambda _: reactor.stop())
        reactor.run()
        return
    options.ports = free_ports(4)
    extra = ["--reactor", options.reactor]
    with other_members(__file__, options.ports, extra) as pids:
        group = make_group(options, reactor, counter)

        def submit(payloads: list[bytes], done: Callable[[float], None], started: float) -> None:
            if len(payloads) == 1:
                group.multicast(payloads[0]).addCallback(lambda _: done(started))
            else:
                group.multicast_many(payloads).addCallback(lambda _: done(started))

        def on_view(view: ViewEvent) -> None:
            if len(view.members) == 3 and view.master == 0:
                counter.on_view = lambda _: None
                begin()

        def begin() -> None:
            if options.client:
                from remote import serve

                serve(options, reactor, submit, pids)
            else:
                import os

                reactor.callLater(0.1, run_cells(options, submit, [os.getpid(), *pids], reactor.stop))

        def too_late() -> None:
            if group.role != "master":
                print(f"no view of three with this master within {START_S:g} s", file=sys.stderr)
                reactor.stop()

        counter.on_view = on_view
        group.join()
        reactor.callLater(START_S, too_late)
        with profiled(options.profile):
            reactor.run()


if __name__ == "__main__":
    main()
