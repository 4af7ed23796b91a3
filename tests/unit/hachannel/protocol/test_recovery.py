"""A channel that starts again with what its journal remembers."""

import attrs

from quorate.hachannel import Channel, Deliver, LeaseChanged, Output, Source, ViewEvent
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Appended, Booted, Truncated
from quorate.hachannel.model.messages import Entry, Heartbeat, Prepare, Promise, Refuse
from quorate.hachannel.model.view import NO_VIEW, View, ViewNumber, Voter

VOTERS = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
VIEW = View(ViewNumber(3, 0, 7), VOTERS, VOTERS, 3, 0, 2, "start-up")


@attrs.define
class Disk:
    """Writes at once, in memory."""

    remembered: Remembered = attrs.field(factory=Remembered)
    entries: list[Entry] = attrs.field(factory=list[Entry])

    def write(self, out: Output) -> None:
        for record in out.persist:
            self.remembered.apply(record)
            if isinstance(record, Appended):
                self.entries += record.entries
            elif isinstance(record, Truncated):
                del self.entries[record.index :]

    def start(self, me: int, members: tuple[int, ...] = (0, 1, 2), incarnation: int = 7) -> Channel:
        log = DurableLog(self.remembered, self.entries)
        channel = Channel(me, members, incarnation=incarnation, cluster="c", expected=len(members), log=log)
        channel.start(0.0)
        return channel


def run(channel: Channel, disk: Disk) -> Output:
    """Take and persist until nothing follows; returns all of it."""
    everything = Output()
    while out := channel.drain():
        disk.write(out)
        everything.messages += out.messages
        everything.events += out.events
        if out.token:
            channel.persisted(0.0, out.token)
    return everything


def test_a_restarted_voter_keeps_its_promise() -> None:
    """Scenario 29."""
    disk = Disk(Remembered(VIEW.number, VIEW, True))
    channel = disk.start(1, incarnation=8)
    channel.connected(0.0, 2, 9)
    run(channel, disk)
    high = ViewNumber(9, 2, 9)
    channel.receive(1.6, 2, Prepare(high, "test"))
    out = channel.drain()
    assert not any(isinstance(message, Promise) for _, message in out.messages)
    disk.write(out)
    channel.persisted(0.0, out.token)
    promises = [message for _, message in run(channel, disk).messages if isinstance(message, Promise)]
    assert [promise.number for promise in promises] == [high]

    again = disk.start(1, incarnation=8)
    again.connected(0.0, 0, 7)
    low = ViewNumber(8, 0, 7)
    again.receive(0.0, 0, Prepare(low, "test"))
    answers = [message for peer, message in run(again, disk).messages if peer == 0]
    assert Refuse(low, high) in answers
    assert not any(isinstance(answer, Promise) for answer in answers)


def test_a_restarted_proposer_uses_a_number_it_never_used() -> None:
    disk = Disk(Remembered(ViewNumber(6, 1, 8), VIEW, True))
    channel = disk.start(1, incarnation=8)
    now = 0.0
    for peer, incarnation in ((0, 7), (2, 9)):
        channel.connected(now, peer, incarnation)
        low = VIEW.number
        channel.receive(now, peer, Heartbeat(low, low, False, True, False, True, 0, 0, 0, 0, 0, 0))
    numbers: set[ViewNumber] = set()
    for _ in range(60):
        now += 0.1
        channel.tick(now)
        numbers |= {m.number for _, m in run(channel, disk).messages if isinstance(m, Prepare)}
    assert numbers
    assert min(numbers) > ViewNumber(6, 1, 8)
    assert disk.remembered.promised == max(numbers)


def test_a_plain_server_is_founded_once_and_goes_on_from_its_log() -> None:
    disk = Disk()
    channel = disk.start(0, (0,))
    events = run(channel, disk).events
    assert [event.first_time for event in events if isinstance(event, ViewEvent)] == [True]
    for payload in (b"one", b"two"):
        channel.submit(0.0, 1, payload)
    run(channel, disk)
    channel.submit(0.0, 1, b"three")
    disk.write(channel.drain())  # on the disk, and the process ends before it knows
    assert (disk.remembered.commit, disk.remembered.last) == (2, 3)

    again = disk.start(0, (0,))
    assert (again.commit, again.applied) == (2, 2)
    entry, view, lease = run(again, disk).events
    assert getattr(entry, "payload", None) == b"three"
    assert lease == LeaseChanged(True)
    assert isinstance(view, ViewEvent)
    assert not view.first_time
    assert view.index == 3


def test_a_guest_is_not_counted_as_empty() -> None:
    disk = Disk(Remembered(guest=True))
    channel = disk.start(0, (0,))
    assert run(channel, disk).events == []
    assert channel.role == "joining"
    assert disk.remembered.promised == NO_VIEW


def alone(disk: Disk) -> Channel:
    """The only replica of its cluster, with this disk, in an active view."""
    channel = disk.start(0, (0,), incarnation=7)
    run(channel, disk)
    for time in (0.1, 1.0, 2.0, 3.0):
        channel.tick(time)
        run(channel, disk)
    assert channel.role == "master"
    return channel


def test_a_restarted_replica_knows_who_has_forwarded_how_much_and_numbers_anew() -> None:
    disk = Disk()
    channel = alone(disk)
    for number in (1, 2, 3):
        assert channel.forward(4.0, b"%d" % number) == number
        run(channel, disk)
    assert disk.remembered.boots == 1
    assert disk.remembered.submitters == (Source(0, 7, 1, 3),)
    again = alone(disk)
    assert again.state.replicated.submitters.rows == (Source(0, 7, 1, 3),)
    assert again.forward(4.0, b"4") == 1
    [event] = run(again, disk).events
    assert isinstance(event, Deliver)
    assert event.source == Source(0, 7, 2, 1)
    assert disk.remembered.boots == 2


def test_nothing_is_forwarded_before_the_number_of_the_process_is_durable() -> None:
    disk = Disk()
    channel = alone(disk)
    channel.forward(4.0, b"1")
    out = channel.drain()
    assert [type(record) for record in out.persist] == [Booted]
    assert channel.last == 0
    disk.write(out)
    channel.persisted(4.0, out.token)
    run(channel, disk)
    assert channel.last == 1
