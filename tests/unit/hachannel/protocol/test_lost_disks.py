"""A replica has a committed entry that the others lost with their disks; they have another one there."""

import pytest

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings, View, ViewNumber
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import CatchUp, CaughtUp, Entry
from quorate.hachannel.model.view import Seat, Voter
from quorate.testing.channel.manual_cluster import ManualCluster

N1, N2 = ViewNumber(1, 0, 1), ViewNumber(2, 0, 1)
VOTERS = tuple(Voter(replica, replica + 1) for replica in range(3))
LAST = 5


def remembered(number, members, *, last):
    """A disk with entries of the first view, but the last one of `last`; all are committed."""
    entries = [Entry(N1, index, 0, b"x") for index in range(1, LAST)] + [Entry(last, LAST, 0, b"y")]
    seats = tuple(Seat(replica) for replica in range(3))
    after = 0 if number == N1 else LAST - 1
    view = View(number, VOTERS, members, len(members), after, 0, "", seats)
    return DurableLog(
        Remembered(promised=number, accepted=view, active=True, commit=LAST, last=LAST), entries
    )


class Run(ManualCluster):
    """With disks and applications that do at once what they are asked for."""

    def __init__(self, *, last, fresh, **settings):
        self.fresh = fresh
        self.due = []
        self.installed = []
        others = [remembered(N2, VOTERS[:2], last=N2) for _ in range(2)]
        super().__init__(3, Settings(**settings), [*others, remembered(N1, VOTERS, last=last)])

    def start(self, replica, replicas, incarnation, log=None, *, fresh=False):
        super().start(replica, replicas, incarnation, log, fresh=self.fresh and replica == 2)

    def _put(self, replica, output):
        super()._put(replica, output)
        if output.token:
            self.due.append((replica, lambda channel: channel.persisted(self.now, output.token)))
        for event in output.events:
            if isinstance(event, ProvideSnapshot):
                self.due.append((replica, lambda channel, event=event: self.provide(channel, event)))
            elif isinstance(event, InstallPart):
                self.installed.append((replica, event.index, event.data))
                self.due.append(
                    (replica, lambda channel, event=event: channel.part_installed(self.now, event.token))
                )

    def provide(self, channel, event):
        channel.snapshot_ready(self.now, event.token, max(event.index, channel.applied), [b"state"])

    def go(self, steps):
        for _ in range(steps):
            for _ in range(8):
                self.settle()
                due, self.due = self.due, []
                for replica, call in due:
                    self.act(replica, call)
            self.tick(0.05)


@pytest.mark.parametrize("fresh", [False, True])
def test_it_gets_the_state_of_the_others_though_it_is_not_behind(fresh):
    """With `fresh` also when it has just what they have: it asked for the state, whatever its log has."""
    run = Run(last=N2 if fresh else N1, fresh=fresh, part_bytes=64)
    run.go(100)
    assert run.channels[0].members == (0, 1, 2)
    assert run.installed == [(2, LAST, b"state")]
    for _ in range(12):
        run.act(0, lambda channel: channel.submit(run.now, 0, b"new"))
    run.go(20)
    assert run.payloads(2) == run.payloads(1)[-12:] == [b"new"] * 12


def test_a_learner_that_wants_to_begin_again_twice_at_one_place_is_not_answered_at_once():
    """It would say the same again, as fast as messages go."""
    cluster = ManualCluster(settings=Settings(window=16))
    cluster.form()
    cluster.isolate(2)
    for _ in range(10):
        for _ in range(10):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1)
    cluster.connect(0, 2)
    for _ in range(20):
        cluster.deliver(0, 2)
        cluster.tick(0.05)
        cluster.settle(0, 1)
        cluster.deliver(2, 0)
        if sent := cluster.waiting(0, 2, CatchUp):
            break
    token = sent[-1].token
    cluster.lose(0, 2)
    for _ in range(3):
        cluster.inject(2, 0, CaughtUp(token, 0, 0, True))
    again = len(cluster.lose(0, 2))
    cluster.inject(2, 0, CaughtUp(token, 0, 0, True))
    assert again <= len(sent)
    assert cluster.waiting(0, 2, CatchUp) == []
    for _ in range(100):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].members == (0, 1, 2)
