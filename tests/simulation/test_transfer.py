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
        self.installed = []
        super().__init__(*args, **options)

    def delivered(self, host, event):
        super().delivered(host, event)
        if isinstance(event, InstallPart):
            self.installed.append((host.replica, event))

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
        return [event for host, event in self.installed if host == replica]


def slow(**options):
    return Watched(3, settings=Settings(keep=0, window=16), **options)


@pytest.mark.parametrize(("chunk", "entries"), [(64, 40), (1, 700)])
@pytest.mark.parametrize("parts", [True, False])
def test_the_state_is_the_same_although_the_master_goes_on_sending(chunk, entries, parts):
    """Scenario 11."""
    script = slow(chunk=chunk, parts=parts, snapshot_s=0.2)
    script.form()
    script.load(entries // 3)
    script.hosts[1].crash()
    script.load(20)
    script.hosts[1].start()
    script.load(150)
    script.equal()
    (last,) = [event for event in script.parts(1) if event.index is not None]
    assert last.index > entries // 2


def dying_donor():
    """A learner that has some of the state when its donor dies; returns it with how much it had."""
    script = Watched(4, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.5)
    script.form()
    script.load(60)
    script.hosts[3].crash()
    script.load(20)
    script.run(1.0)
    script.hosts[3].start()
    script.until(lambda: len(script.parts(3)) >= 8 and len(script.hosts[1].channel.view.config) == 3)
    script.hosts[0].crash()
    return script


def test_the_next_master_goes_on_where_the_donor_died():
    """Scenario 12."""
    script = dying_donor()
    script.load(2, each=1)
    script.whole(but=[0])
    first, second = script.asked
    assert (first[0], second[0]) == (0, 1)
    assert first[1].marker == b""
    assert second[1].marker
    resumed = [event for event in script.parts(3) if event.token == second[1].token]
    assert sum(len(msgspec.msgpack.decode(event.data, type=Part).kept) for event in resumed) >= 3
    script.hosts[0].start()
    script.equal()


def test_what_came_beside_the_state_goes_with_the_donor():
    """The next one gives a state of its own, and entries after that: nothing is mixed."""
    script = Watched(4, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=1.0, parts=False)
    script.form()
    script.load(60)
    script.hosts[3].crash()
    script.load(20)
    script.run(1.0)
    learner = script.hosts[3]
    learner.start()
    while not learner.channel.tail_length:
        script.load(1)
    script.hosts[0].crash()
    script.load(30)
    script.whole(but=[0])
    assert [replica for replica, _ in script.asked] == [0, 1]
    script.hosts[0].start()
    script.equal()


def test_a_connection_that_breaks_goes_on_with_the_same_transfer():
    script = slow(chunk=1, snapshot_s=0.5)
    script.form()
    script.load(60)
    script.hosts[2].crash()
    script.load(20)
    script.hosts[2].start()
    for count in (2, 5, 8):
        script.until(lambda count=count: len(script.parts(2)) >= count)
        script.net.shut((0, 2))
        script.load(3)
    script.equal()
    assert all(event.marker for _, event in script.asked[1:])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_learner_that_is_back_before_anybody_noticed_begins_again(count):
    """It is the same voter, with the same disk; what it had acknowledged of the state is gone."""
    script = slow(chunk=1, snapshot_s=0.05, disk=True, weather=Weather(delay_s=0.05))
    script.form()
    script.load(60)
    script.hosts[2].crash()
    script.hosts[2].lose_disk()
    script.load(20)
    script.run(1.0)
    script.hosts[2].start()
    script.until(lambda: len(script.parts(2)) >= count, 20)
    # So that a piece comes to the next process before it has said how much it has.
    script.run(0.012)
    script.hosts[2].crash()
    script.hosts[2].start()
    script.load(3)
    script.equal()


def test_a_voter_that_cannot_be_added_is_added_nowhere():
    """Scenario 20."""
    script = slow(chunk=8)
    master = script.form()
    script.load(40)
    script.hosts[2].crash()
    script.whole(but=[2])
    script.load(10)
    before = script.hosts[1].channel.view
    # The master reaches the learner only, and nothing can be committed.
    script.net.cut.update({(0, 1), (1, 0)})
    commit = master.channel.commit
    script.hosts[2].start()
    script.run(1.0)
    assert master.channel.commit == commit
    assert all(script.hosts[2].state.me not in host.channel.view.config for host in script.hosts[:2])
    assert script.hosts[1].channel.view == before
    for direction in [(0, 1), (1, 0)]:
        script.net.mend(direction)
    script.equal()
    assert len({host.channel.view.config for host in script.hosts}) == 1
    assert script.hosts[2].state.me in script.hosts[0].channel.view.config


def test_an_acknowledgement_of_a_learner_is_ignored():
    """Scenario 21."""
    script = slow(chunk=1, snapshot_s=0.5)
    master = script.form()
    script.load(60)
    script.hosts[2].crash()
    script.whole(but=[2])
    script.hosts[2].start()
    script.until(lambda: len(script.parts(2)) >= 2)
    script.hosts[1].pause()
    commit = master.channel.commit
    script.submit(master, 5)
    number = master.channel.view.number
    script.hosts[0].deliver(2, Ack(number, master.channel.last))
    script.run(0.2)
    assert master.channel.commit == commit
    script.hosts[1].resume()
    script.equal()


def test_who_was_away_while_the_log_was_trimmed_gets_what_has_changed():
    """Scenario 26."""
    script = slow(chunk=1)
    script.form()
    script.load(60)
    have = script.hosts[2].channel.applied
    script.hosts[2].pause()
    script.whole(but=[2])
    script.load(30, each=4)
    script.run(1.0)
    script.hosts[2].resume()
    script.equal()
    (asked,) = [event for _, event in script.asked]
    assert asked.have >= have
    assert script.counts["snapshots"] == 1


def test_a_part_that_is_of_no_use_is_refused_and_everything_comes_again(monkeypatch):
    install = App.install
    refusals = []

    def refuse(self, event):
        if event.number == 3 and len(refusals) < 3:
            refusals.append(event.token)
            raise Spoiled("made up")
        return install(self, event)

    monkeypatch.setattr(App, "install", refuse)
    script = slow(chunk=1)
    script.form()
    script.load(60)
    script.hosts[2].crash()
    script.load(20)
    script.hosts[2].start()
    script.load(50)
    script.equal()
    assert len(set(refusals)) == 3
    assert [event.marker for _, event in script.asked] == [b""] * 4


def test_a_replica_that_asks_for_the_state_gets_no_entries_instead():
    script = Watched(3, settings=Settings(window=16))
    script.world.shape = attrs.evolve(script.world.shape, fresh=True)
    script.form()
    script.load(5)
    script.hosts[2].crash()
    script.load(5)
    script.hosts[2].start()
    script.equal()
    assert script.counts["snapshots"] == 1
    assert [event.have for _, event in script.asked] == [0]


def test_a_transfer_that_nobody_continues_holds_no_log():
    script = slow(chunk=1, snapshot_s=30.0)
    script.form()
    script.load(60)
    script.hosts[2].crash()
    script.load(20)
    script.hosts[2].start()
    script.until(lambda: len(script.parts(2)) >= 1, 60)
    # The end of a state holds what follows it, until the transfer is given up.
    for _ in range(3):
        script.load(100, each=4)
        script.run(1.0)
    assert len(script.hosts[0].state.log) < 200


def test_while_the_master_serves_parts_are_under_way_for_a_share_of_the_time():
    def busy(loaded):
        script = Watched(3, settings=Settings(keep=0, window=16), chunk=1, snapshot_s=0.2)
        script.form()
        script.load(100)
        script.hosts[2].crash()
        script.load(20)
        script.hosts[2].start()
        donor = script.hosts[0].channel._donor
        script.until(lambda: donor.transfer is not None)
        busy = rounds = 0
        while donor.phase == "state":
            if loaded:
                script.submit(script.hosts[0])
            phase = donor.transfer.phase
            busy += not phase.chunks.empty or phase.asked
            rounds += 1
            script.run(0.001)
        script.equal()
        return busy / rounds

    loaded, idle = busy(loaded=True), busy(loaded=False)
    assert loaded < Settings().transfer_share + 0.05
    assert idle > 2 * loaded
