"""Written scenarios of state transfer: under load, resumed, refused, and what must not count meanwhile."""

import attrs
import msgspec
import pytest

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.model.messages import Ack
from quorate.testing import Weather
from quorate.testing.channel.application import App, Part, Spoiled
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


class Watched(ScriptedCluster):
    """Remembers what applications are asked for, and given."""

    def __init__(self, *args, **options):
        self.asked = []
        self.parts_installed = []
        super().__init__(*args, **options)

    def delivered(self, host, event):
        super().delivered(host, event)
        if isinstance(event, InstallPart):
            self.parts_installed.append((host.replica, event))

    def stepped(self, host, output):
        super().stepped(host, output)
        self.asked += [(host.replica, event) for event in output.events if isinstance(event, ProvideSnapshot)]

    def load(self, rounds, pause=0.01, each=3):
        for _ in range(rounds):
            master = self.world.master()
            if master is not None:
                self.submit(master, each)
            self.run(pause)

    def equal(self):
        """All replicas come to the same cells."""
        master = self.whole()
        self.until(lambda: all(host.channel.applied == master.channel.last for host in self.hosts))
        assert len({(host.app.chain, host.app.print) for host in self.hosts}) == 1

    def parts(self, replica):
        return [event for host, event in self.parts_installed if host == replica]


def slow(**options):
    return Watched(3, settings=Settings(keep=0, window=16), **options)


@pytest.mark.parametrize(("chunk", "entries"), [(64, 40), (1, 700)])
@pytest.mark.parametrize("parts", [True, False])
def test_the_state_is_the_same_although_the_master_goes_on_sending(chunk, entries, parts):
    """Scenario 11."""
    cluster = slow(chunk=chunk, parts=parts, snapshot_s=0.2)
    cluster.form()
    cluster.load(entries // 3)
    cluster.hosts[1].crash()
    cluster.load(20)
    cluster.hosts[1].start()
    cluster.load(150)
    cluster.equal()
    (last,) = [event for event in cluster.parts(1) if event.index is not None]
    assert last.index > entries // 2


def dying_donor():
    """A learner that has some of the state when its donor dies; returns it with how much it had."""
    cluster = Watched(4, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.5)
    cluster.form()
    cluster.load(60)
    cluster.hosts[3].crash()
    cluster.load(20)
    cluster.run(1.0)
    cluster.hosts[3].start()
    cluster.until(lambda: len(cluster.parts(3)) >= 8 and len(cluster.hosts[1].channel.view.config) == 3)
    cluster.hosts[0].crash()
    return cluster


def test_the_next_master_goes_on_where_the_donor_died():
    """Scenario 12."""
    cluster = dying_donor()
    cluster.load(2, each=1)
    cluster.whole(but=[0])
    first, second = cluster.asked
    assert (first[0], second[0]) == (0, 1)
    assert first[1].marker == b""
    assert second[1].marker
    resumed = [event for event in cluster.parts(3) if event.token == second[1].token]
    assert sum(len(msgspec.msgpack.decode(event.data, type=Part).kept) for event in resumed) >= 3
    cluster.hosts[0].start()
    cluster.equal()


def test_what_came_beside_the_state_goes_with_the_donor():
    """The next one gives a state of its own, and entries after that: nothing is mixed."""
    cluster = Watched(4, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=1.0, parts=False)
    cluster.form()
    cluster.load(60)
    cluster.hosts[3].crash()
    cluster.load(20)
    cluster.run(1.0)
    learner = cluster.hosts[3]
    learner.start()
    while not learner.channel.tail_length:
        cluster.load(1)
    cluster.hosts[0].crash()
    cluster.load(30)
    cluster.whole(but=[0])
    assert [replica for replica, _ in cluster.asked] == [0, 1]
    cluster.hosts[0].start()
    cluster.equal()


def test_a_connection_that_breaks_goes_on_with_the_same_transfer():
    cluster = slow(chunk=1, snapshot_s=0.5)
    cluster.form()
    cluster.load(60)
    cluster.hosts[2].crash()
    cluster.load(20)
    cluster.hosts[2].start()
    for count in (2, 5, 8):
        cluster.until(lambda count=count: len(cluster.parts(2)) >= count)
        cluster.net.shut((0, 2))
        cluster.load(3)
    cluster.equal()
    assert all(event.marker for _, event in cluster.asked[1:])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_learner_that_is_back_before_anybody_noticed_begins_again(count):
    """It is the same voter, with the same disk; what it had acknowledged of the state is gone."""
    cluster = slow(chunk=1, snapshot_s=0.05, disk=True, weather=Weather(delay_s=0.05))
    cluster.form()
    cluster.load(60)
    cluster.hosts[2].crash()
    cluster.hosts[2].lose_disk()
    cluster.load(20)
    cluster.run(1.0)
    cluster.hosts[2].start()
    cluster.until(lambda: len(cluster.parts(2)) >= count, 20)
    # So that a piece comes to the next process before it has said how much it has.
    cluster.run(0.012)
    cluster.hosts[2].crash()
    cluster.hosts[2].start()
    cluster.load(3)
    cluster.equal()


def test_a_voter_that_cannot_be_added_is_added_nowhere():
    """Scenario 20."""
    cluster = slow(chunk=8)
    master = cluster.form()
    cluster.load(40)
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    cluster.load(10)
    before = cluster.hosts[1].channel.view
    # The master reaches the learner only, and nothing can be committed.
    cluster.net.cut.update({(0, 1), (1, 0)})
    commit = master.channel.commit
    cluster.hosts[2].start()
    cluster.run(1.0)
    assert master.channel.commit == commit
    assert all(cluster.hosts[2].state.me not in host.channel.view.config for host in cluster.hosts[:2])
    assert cluster.hosts[1].channel.view == before
    for direction in [(0, 1), (1, 0)]:
        cluster.net.mend(direction)
    cluster.equal()
    assert len({host.channel.view.config for host in cluster.hosts}) == 1
    assert cluster.hosts[2].state.me in cluster.hosts[0].channel.view.config


def test_an_acknowledgement_of_a_learner_is_ignored():
    """Scenario 21."""
    cluster = slow(chunk=1, snapshot_s=0.5)
    master = cluster.form()
    cluster.load(60)
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    cluster.hosts[2].start()
    cluster.until(lambda: len(cluster.parts(2)) >= 2)
    cluster.hosts[1].pause()
    commit = master.channel.commit
    cluster.submit(master, 5)
    number = master.channel.view.number
    cluster.hosts[0].deliver(2, Ack(number, master.channel.last))
    cluster.run(0.2)
    assert master.channel.commit == commit
    cluster.hosts[1].resume()
    cluster.equal()


def test_a_replica_away_while_the_log_was_trimmed_receives_what_has_changed():
    """Scenario 26."""
    cluster = slow(chunk=1)
    cluster.form()
    cluster.load(60)
    have = cluster.hosts[2].channel.applied
    cluster.hosts[2].pause()
    cluster.whole(but=[2])
    cluster.load(30, each=4)
    cluster.run(1.0)
    cluster.hosts[2].resume()
    cluster.equal()
    (asked,) = [event for _, event in cluster.asked]
    assert asked.have >= have
    assert cluster.counts["snapshots"] == 1


def test_a_part_that_is_of_no_use_is_refused_and_everything_comes_again(monkeypatch):
    install = App.install
    refusals = []

    def refuse(self, event):
        if event.number == 3 and len(refusals) < 3:
            refusals.append(event.token)
            raise Spoiled("made up")
        return install(self, event)

    monkeypatch.setattr(App, "install", refuse)
    cluster = slow(chunk=1)
    cluster.form()
    cluster.load(60)
    cluster.hosts[2].crash()
    cluster.load(20)
    cluster.hosts[2].start()
    cluster.load(50)
    cluster.equal()
    assert len(set(refusals)) == 3
    assert [event.marker for _, event in cluster.asked] == [b""] * 4


def test_a_replica_that_asks_for_the_state_gets_no_entries_instead():
    cluster = Watched(3, settings=Settings(window=16))
    cluster.world.shape = attrs.evolve(cluster.world.shape, fresh=True)
    cluster.form()
    cluster.load(5)
    cluster.hosts[2].crash()
    cluster.load(5)
    cluster.hosts[2].start()
    cluster.equal()
    assert cluster.counts["snapshots"] == 1
    assert [event.have for _, event in cluster.asked] == [0]


def test_a_transfer_that_nobody_continues_holds_no_log():
    cluster = slow(chunk=1, snapshot_s=30.0)
    cluster.form()
    cluster.load(60)
    cluster.hosts[2].crash()
    cluster.load(20)
    cluster.hosts[2].start()
    cluster.until(lambda: len(cluster.parts(2)) >= 1, 60)
    # The end of a state holds what follows it, until the transfer is given up.
    for _ in range(3):
        cluster.load(100, each=4)
        cluster.run(1.0)
    assert len(cluster.hosts[0].state.log) < 200


def test_while_the_master_serves_parts_are_under_way_for_a_share_of_the_time():
    def busy(loaded):
        cluster = Watched(3, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.2)
        cluster.form()
        cluster.load(100)
        cluster.hosts[2].crash()
        cluster.load(20)
        cluster.hosts[2].start()
        donor = cluster.hosts[0].channel._donor
        cluster.until(lambda: donor.transfer is not None)
        busy = rounds = 0
        while donor.phase == "state":
            if loaded:
                cluster.submit(cluster.hosts[0])
            phase = donor.transfer.phase
            busy += not phase.chunks.empty or phase.asked
            rounds += 1
            cluster.run(0.001)
        cluster.equal()
        return busy / rounds

    loaded, idle = busy(loaded=True), busy(loaded=False)
    assert loaded < Settings().transfer_share + 0.05
    assert idle > 2 * loaded
