"""A member of a group that writes down what it is told, as it is told: ME ADDRESS... --file FILE [--options].

It goes on multicasting. Each line of the file is one event, a JSON array, appended with one system call
before anything else happens, so that it stays when the process is killed. `recorded.py` says what the lines
are and reads them. With `--disk` the member has a journal, and comes back with it. Of the input it obeys
`enough`, no more messages, and `leave`.
"""

import argparse
import json
import os
import time
from hashlib import blake2b
from pathlib import Path

from msgspec.structs import replace
from twisted.internet import reactor, stdio
from twisted.internet.task import LoopingCall
from twisted.protocols.basic import LineOnlyReceiver

from quorate.hachannel import Channel, Group, LeaseChanged, Settings
from quorate.hachannel.group.arguments import ROOM_BYTES
from quorate.hachannel.group.order import Order
from quorate.hachannel.group.wire import decode_head, decode_part
from quorate.hachannel.journal.durable_log import DurableLog
from quorate.hachannel.journal.journal import Identity, Journal
from quorate.hachannel.model.log import Reset
from quorate.hachannel.model.messages import PAYLOAD
from quorate.testing import mutation

PACE_S = 0.02
"""Between the confirmation of a message and the next one."""
ACT_S = 0.01
"""How often the holder of the lease does what only one may do."""
SCHEMA = ("CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), parts BLOB)",)


class OrderOfOneProcess(Order):
    """With a journal a life has several processes, and a pack is one of this process only if its boot is."""

    boot = 1
    _of = 0

    def deliver(self, source, body):
        self._of = source.boot
        return super().deliver(source, body)

    def restore(self, head):
        self._of = next((row[2] for row in decode_head(head).ends if row[0] == self._me), 0)
        super().restore(head)

    def _confirm(self, pack, index):
        if self._of == self.boot:
            super()._confirm(pack, index)


class JournalledChannel(Channel):
    """Makes durable what is to be durable before it says anything else; blocks for so long."""

    journal = None
    installed = None
    """The parts of a state that replaces everything, with the next reset."""

    def drain(self, **how):
        out = super().drain(**how)
        persist, token = out.persist, out.token
        while persist:
            reset = any(isinstance(record, Reset) for record in persist)
            self.journal.write(persist, also=self._save if reset else None)
            self.persisted(time.monotonic(), token)
            after = super().drain(**how)
            persist, token = after.persist, after.token
            # What persisted() let go follows what came before it.
            out.messages += after.messages
            out.events += after.events
            out.notes += after.notes
            out.seats = after.seats if after.seats is not None else out.seats
        return out

    def _save(self, connection):
        assert self.installed is not None
        parts = json.dumps([part.hex() for part in self.installed])
        connection.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (parts,))
        self.installed = None


class RecordedGroup(Group):
    """A group whose handler is told of leases; and that has a journal, if there is one."""

    def __init__(self, me, addresses, *, handler, settings, journal, log):
        self._handler = handler
        self._journal = journal
        life = None if journal is None else journal.incarnation
        super().__init__(
            "recorded", me, addresses, handler=handler, settings=settings, log=log, incarnation=life
        )
        if journal is not None:
            # It is one life, of several processes: they have the nonce in common, too.
            self._hello = self._listener._mine = replace(self._hello, nonce=str(life))

    def _make_channel(self, expected):
        journal, hello = self._journal, self._hello
        if journal is None:
            return super()._make_channel(expected)
        channel = JournalledChannel(
            self.me,
            hello.ids,
            incarnation=hello.incarnation,
            cluster=hello.group,
            expected=expected,
            settings=self._settings,
            log=DurableLog(journal.remembered, journal.recovered),
        )
        channel.journal = journal
        return channel

    def _make_order(self, limits):
        if self._journal is None:
            return super()._make_order(limits)
        longest = self._settings.max_payload_bytes - ROOM_BYTES
        order = OrderOfOneProcess(self.me, self._hello.incarnation, limits, longest)
        order.boot = self._journal.remembered.boots + 1
        return order

    def recover(self):
        """Bring the handler to where the journal is."""
        journal, order = self._journal, self._order
        row = journal.connection.execute("SELECT parts FROM state").fetchone()
        if row is not None:
            head, *parts = [bytes.fromhex(part) for part in json.loads(row[0])]
            order.restore(head)
            self._handler.load([chunk for part in parts for chunk in decode_part(part)])
        self._handler.write("recovered", *self._handler.state)
        base, commit = journal.remembered.base.at, journal.remembered.commit
        for entry in journal.recovered:
            if base < entry.index <= commit and entry.kind == PAYLOAD:
                index, payloads = order.deliver(entry.source, entry.payload)
                for place, payload in enumerate(payloads):
                    self._handler.extend_digest(index + place, payload)
                    self._handler.write("repeated", index + place, entry.source.replica, payload.decode())
        self._delivery.applied = commit

    def _on_event(self, event):
        if isinstance(event, LeaseChanged):
            self._handler.lease_changed(event.held)
        super()._on_event(event)

    def _on_part(self, event):
        if event.index is not None and self._journal is not None:
            # The reset follows from within: the state is to be there by then, as it will be.
            super()._on_part(event)
            self._channel.installed = self._transfer.parts()
        else:
            super()._on_part(event)


class Recorder(LineOnlyReceiver):
    """The handler of the group, who obeys the input, and who writes."""

    delimiter = b"\n"

    def __init__(self, options):
        self.file = os.open(options.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.lines = open(f"{options.file}.log", "a", buffering=1)  # noqa: SIM115
        self.name = options.name
        self.state = [0, ""]
        """How many messages there were, and a digest of all of them."""
        self.sent = 0
        self.feeding = True
        self.tenure = 0
        addresses = {}
        for id, text in enumerate(options.addresses):
            host, _, port = text.rpartition(":")
            addresses[id] = (host or "127.0.0.1", int(port))
        settings = Settings(mode=options.mode, suspect_s=options.suspect, stall_s=3, keep=64)
        journal = None
        if options.disk is not None:
            journal = Journal.open(
                options.disk,
                Identity("recorded", "group", options.me),
                time.time_ns() // 1000,
                guest=options.guest,
                schema=SCHEMA,
            )
        self.group = RecordedGroup(
            options.me, addresses, handler=self, settings=settings, journal=journal, log=self.log
        )
        self.write("starts", options.me, self.group._hello.incarnation)
        if journal is not None:
            self.group.recover()
        self.group.stopped.addBoth(self.ended)
        self.acting = LoopingCall(self.act)
        self.acting.start(ACT_S, now=False)

    def connectionLost(self, reason):
        # Whoever started it is gone.
        os._exit(1)

    def write(self, *event):
        os.write(self.file, json.dumps(event).encode() + b"\n")

    def log(self, line):
        self.lines.write(f"{time.monotonic():.4f} {line}\n")

    # What the group tells

    def extend_digest(self, index, payload):
        digest = blake2b(self.state[1].encode() + payload, digest_size=8).hexdigest()
        self.state = [index, digest]

    def delivered(self, index, origin, payload):
        self.extend_digest(index, payload)
        self.write("delivered", index, origin, payload.decode())

    def view_changed(self, view):
        number = [view.view.counter, view.view.replica, view.view.incarnation]
        self.write("view", self.state[0], number, view.master, list(view.members), view.first_time)

    def provide_state(self):
        return json.dumps(self.state).encode()

    def load(self, chunks):
        self.state = json.loads(b"".join(chunks))

    def receive_state(self, chunks):
        self.load(chunks)
        self.write("received", *self.state)

    def lease_changed(self, held):
        self.tenure += held
        self.write("lease", time.monotonic(), self.tenure, held)

    # What it does

    def act(self):
        now = time.monotonic()
        if self.group._channel.holds_lease(now):
            self.write("acts", now, self.tenure)

    def multicast(self):
        if not self.feeding:
            return
        self.sent += 1
        number = self.sent
        self.write("sent", number)
        done = self.group.multicast(f"{self.name}:{number}".encode())
        done.addCallbacks(self.came_through, lambda failure: None, callbackArgs=(number,))

    def came_through(self, index, number):
        self.write("acked", number, index)
        reactor.callLater(PACE_S, self.multicast)

    def lineReceived(self, line):
        if line == b"enough":
            self.feeding = False
            self.write("enough")
        elif line == b"leave":
            self.feeding = False
            self.group.leave()

    def ended(self, result):
        self.write("ends", str(result.value) if result is not None else "")
        reactor.callLater(0, reactor.stop)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("me", type=int)
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--file", required=True, help="what to append the events to")
    parser.add_argument("--name", required=True, help="who sends: another one for each process")
    parser.add_argument("--mode", default="ALL")
    parser.add_argument("--suspect", type=float, default=1.0)
    parser.add_argument("--window", type=int, default=3, help="messages under way")
    parser.add_argument("--disk", type=Path, help="the journal")
    parser.add_argument("--guest", action="store_true", help="there was a journal, and it is lost")
    parser.add_argument("--broken", help="the name of a mutant of the simulation")
    options = parser.parse_args()
    if options.broken:
        mutants = Path(__file__).parents[1] / "simulation"
        mutation.load(sorted(mutants.glob("mutants_*.py")))
        # Kept for good: one that is collected mends what it broke.
        options.mutant = mutation.MUTANTS[options.broken].apply()
        options.mutant.__enter__()
    recorder = Recorder(options)
    recorder.options = options
    stdio.StandardIO(recorder)
    recorder.group.join()
    for _ in range(options.window):
        recorder.multicast()
    reactor.run()


if __name__ == "__main__":
    main()
