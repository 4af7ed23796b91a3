"""A member of a group that records what it is told, as a program: ME PORT-OR-HOST:PORT... [--options].

Lines on its input: `send COUNT` multicasts the next messages, `feed WINDOW` goes on sending until `enough`,
`report` prints where it stands and `records` what was delivered, as JSON, `leave` leaves. It prints
`confirmed NUMBER` for every message of its own that came through, `providing` and `received` when its state
is asked for or replaced, and `left` at its end. Its messages are NAME:1, NAME:2 and so on.
"""

import argparse
import json

from twisted.internet import reactor, stdio
from twisted.protocols.basic import LineOnlyReceiver

from quorate.hachannel import Group, Settings

PACE_S = 0.01
"""Between the confirmation of a message and the next one of a feed: enough to be under way all the time."""


class Recorder(LineOnlyReceiver):
    """The handler of the group, and who obeys the input."""

    delimiter = b"\n"

    def __init__(self, options):
        self.records = []
        self.views = []
        self.sent = 0
        self.confirmed = 0
        self.feeding = False
        self.name = options.me if options.name is None else options.name
        self.padding = "." * options.padding
        self.ballast = options.state
        addresses = {}
        for id, text in enumerate(options.addresses):
            host, _, port = text.rpartition(":")
            addresses[id] = (host or "127.0.0.1", int(port))
        settings = Settings(
            mode=options.mode, suspect_s=options.suspect, window=options.window, keep=options.keep
        )
        self.group = Group(
            "test",
            options.me,
            addresses,
            handler=self,
            expected=options.expected,
            settings=settings,
            log=self.log,
        )
        self.log_lines = []

    def log(self, line):
        self.log_lines.append(line)

    def say(self, *words):
        # Not print: what the pipe does not take at once waits.
        self.transport.write(" ".join(map(str, words)).encode() + b"\n")

    # What the group tells

    def delivered(self, index, origin, payload):
        self.records.append((index, payload.decode().rstrip(".")))

    def view_changed(self, view):
        self.views.append((view.master, list(view.members), view.first_time))

    def provide_state(self):
        self.say("providing")
        return json.dumps(self.records).encode().ljust(self.ballast)

    def receive_state(self, chunks):
        state = b"".join(chunks)
        assert len(state) >= self.ballast
        self.records = [tuple(record) for record in json.loads(state)]
        self.say("received")

    # What the input tells

    def lineReceived(self, line):
        word, *arguments = line.decode().split()
        getattr(self, f"do_{word}")(*map(int, arguments))

    def do_send(self, count):
        for _ in range(count):
            self.multicast()

    def do_feed(self, window):
        self.feeding = True
        self.do_send(window)

    def do_enough(self):
        self.feeding = False

    def do_report(self):
        report = {
            "role": self.group.role,
            "master": self.group.master,
            "members": self.group.members,
            "views": self.views,
            "sent": self.sent,
            "confirmed": self.confirmed,
            "log": self.log_lines,
        }
        self.say(json.dumps(report))

    def do_records(self):
        self.say(json.dumps(self.records))

    def do_leave(self):
        self.group.leave().addCallback(lambda _: (self.say("left"), reactor.callLater(0, reactor.stop)))

    def multicast(self):
        self.sent += 1
        text = f"{self.name}:{self.sent}{self.padding}"
        self.group.multicast(text.encode()).addCallbacks(self.came_through, lambda failure: None)

    def came_through(self, _):
        self.confirmed += 1
        self.say("confirmed", self.confirmed)
        if self.feeding:
            reactor.callLater(PACE_S, self.multicast)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("me", type=int)
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--name", help="who sends: another one for each life of a member")
    parser.add_argument("--expected", type=int, help="how many found the group")
    parser.add_argument("--suspect", type=float, default=Settings().suspect_s)
    parser.add_argument("--mode", default="ALL")
    parser.add_argument("--window", type=int, default=Settings().window)
    parser.add_argument("--padding", type=int, default=0, help="bytes more in each message")
    parser.add_argument("--state", type=int, default=0, help="bytes of the state at least")
    parser.add_argument("--keep", type=int, default=Settings().keep)
    recorder = Recorder(parser.parse_args())
    stdio.StandardIO(recorder)
    recorder.group.join()
    reactor.run()


if __name__ == "__main__":
    main()
