"""Flow control of transfers: how long the log is held for a learner, and how long all wait for it."""

from collections import deque

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.model.messages import CatchUp, CaughtUp
from quorate.hachannel.transfer.transfer import CatchUpPhase
from quorate.testing.channel.manual_cluster import ManualCluster, returning


def returning_with(replicas, **settings):
    return returning(replicas, Settings(keep=0, window=16, transfer_pause_s=60.0, **settings))


def submit_ten(cluster, *replicas):
    """Submit ten entries, and deliver them and one heartbeat among these replicas."""
    for _ in range(10):
        cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"x"))
    cluster.settle(*replicas)
    cluster.tick(0.05, *replicas)
    cluster.settle(*replicas)


def transfer_part(cluster, learner, size):
    """Send a part of the state with `size` bytes to the learner, which installs it."""
    event = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)][-1]
    applied = cluster.channels[0].applied
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, event.token, bytes(size), applied))
    cluster.settle()
    *_, part = [event for event in cluster.events[learner] if isinstance(event, InstallPart)]
    cluster.act(learner, lambda channel: channel.part_installed(cluster.now, part.token, b"marker"))
    cluster.settle()


def entries_held_after(size, **bounds):
    """Return the number of entries in the full log when the learner has taken `size` bytes of the state."""
    cluster = returning_with(3, **bounds)
    transfer_part(cluster, 2, size)
    master = cluster.channels[0]
    for _ in range(100):
        submit_ten(cluster, 0, 1, 2)
        if not master.can_submit:
            break
    assert master.phases.giving == "state"
    return len(master.state.log)


LOG = {"keep": 100, "window": 16, "max_log": 400}


TICK_S = 0.05


class Following:
    """A cluster whose replica 2 is back, and gets entries from the master, four messages per answer."""

    def __init__(self, size: int = 50, part_bytes: int = 32, **settings) -> None:
        self.size = size
        self.cluster = ManualCluster(settings=Settings(part_bytes=part_bytes, **settings))
        self.master = self.cluster.form()
        self.cluster.isolate(2)
        self.cluster.connect(0, 2)
        self.submitted = 0

    def submit(self, count: int) -> int:
        """Submit `count` entries, or as many as the master takes; return how many."""
        before = self.submitted
        for _ in range(count):
            if self.master.can_submit:
                self.cluster.act(0, lambda channel: channel.submit(self.cluster.now, 0, bytes(self.size)))
                self.submitted += 1
            self.cluster.settle(0, 1)
        return self.submitted - before

    def step(self, *, takes: bool = True, answer=None) -> None:
        """Let TICK_S pass; the learner receives its messages, and entries only if `takes`."""
        cluster = self.cluster
        cluster.tick(TICK_S)
        cluster.settle(0, 1)
        for message in cluster.lose(0, 2):
            if takes or not isinstance(message, CatchUp):
                cluster.inject(0, 2, message)
        for message in cluster.lose(2, 0):
            cluster.inject(2, 0, answer(message) if answer and isinstance(message, CaughtUp) else message)
        cluster.settle(0, 1)

    @property
    def lacks(self) -> int:
        """The number of entries that the learner lacks."""
        return self.master.state.log.last.at - self.cluster.channels[2].last

    def follow(self) -> None:
        """Let the learner follow, ninety entries behind."""
        self.submit(90)
        while self.master.phases.giving != "entries":
            self.step(takes=False)


def lacks(count, size):
    """Return after how many seconds a learner is let in that lacks `count` entries of `size` bytes."""
    cluster = ManualCluster(settings=Settings(window=64, window_bytes=1000, part_bytes=100, stall_s=9.0))
    master = cluster.form()
    cluster.isolate(2)
    for _ in range(count):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, bytes(size)))
        cluster.settle(0, 1)
    cluster.connect(0, 2)
    ends = cluster.now + 6.0
    while cluster.now < ends:
        cluster.tick(0.05)
        for message in cluster.lose(0, 2):
            if not isinstance(message, CatchUp):
                cluster.inject(0, 2, message)
        cluster.settle(0, 1)
        cluster.deliver(2, 0)
        transfer = master._donor.transfer
        if transfer is not None and isinstance(transfer.phase, CatchUpPhase):
            question = transfer.phase.proof.question
            if question is not None:
                # The master asks a learner to answer once that lacks little enough.
                return question.asked - transfer.phase.since
    raise AssertionError("never")


def test_a_longer_log_is_held_for_a_learner_that_took_much_of_the_state():
    """The log grows beyond its limit by less than the learner has taken, and the learner keeps its place."""
    assert entries_held_after(320, max_log_bytes=160) == 480
    assert entries_held_after(320 * 1024, max_log=160) == 480


def test_a_slave_that_lags_a_little_is_not_dropped_for_a_long_log():
    """The log is long because it is held for a learner."""
    cluster = returning_with(4, max_log=160, mode="MAJORITY")
    transfer_part(cluster, 3, 320 * 1024)
    master, slave = cluster.channels[0], cluster.channels[2]
    for _ in range(400):
        cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1)
        assert slave.last < master.commit
        cluster.tick(0.01)
        cluster.settle(0, 1, 2)
        assert master.members == (0, 1, 2)
    assert len(master.state.log) > 200
    assert master.phases.giving == "state"


def test_a_slave_that_falls_behind_is_dropped_while_a_learner_holds_the_log():
    cluster = returning_with(4, max_log=160, mode="MAJORITY")
    transfer_part(cluster, 3, 1 << 20)
    master = cluster.channels[0]
    for number in range(800):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        # Of all that it is sent it takes a little, and says that it lives.
        cluster.tick(0.005)
        if number % 8 == 0:
            cluster.deliver(0, 2, 1)
        cluster.deliver(2, 0)
        cluster.settle(0, 1, 3)
        if len(master.members) < 3:
            break
    assert master.members == (0, 1)
    assert master.phases.giving == "state"
    assert any("slave 2 is too far behind" in note for note in cluster.notes[0])


def test_all_wait_once_for_a_learner_for_which_the_log_is_full():
    """Mode ALL: they wait for `stall_s`, and not again for a learner that came no further."""
    cluster = returning_with(3, max_log=160, stall_s=1.0)
    master = cluster.channels[0]
    waited = []
    for _ in range(2):
        assert sum(isinstance(event, ProvideSnapshot) for event in cluster.events[0]) == len(waited) + 1
        transfer_part(cluster, 2, 4)
        full = 0
        for _ in range(200):
            submit_ten(cluster, 0, 1, 2)
            full += not master.can_submit
            if master.phases.giving == "nobody":
                break
        assert master.phases.giving == "nobody"
        waited.append(full)
        for _ in range(10):
            cluster.tick(0.05)
            cluster.settle()
    # Of steps of 0.05 s.
    assert 15 < waited[0] < 25
    assert waited[1] == 0


def test_nobody_waits_for_a_learner_in_mode_majority():
    """The log is full: the transfer ends, and begins again."""
    cluster = returning_with(3, max_log=160, mode="MAJORITY")
    master = cluster.channels[0]
    transfer_part(cluster, 2, 4)
    full = 0
    for _ in range(60):
        submit_ten(cluster, 0, 1, 2)
        full += not master.can_submit
    assert full < 3


def test_a_learner_as_fast_as_its_master_is_taken_in_at_last():
    """The master takes ever more, as a group under full load does. Only the log stops it, far behind."""
    for size, settings in ((50, LOG), (500, {"max_log_bytes": 120_000, "window_bytes": 8_000})):
        following = Following(size, **settings)
        following.follow()
        for _ in range(300):
            following.submit(40)
            following.step()
            if following.master.members == (0, 1, 2):
                break
        assert following.master.members == (0, 1, 2), f"with {size} bytes each it is never taken in"


def test_nobody_waits_for_a_near_learner_that_is_bound_by_a_grant():
    """It lacks next to nothing, and says for long that a grant binds it."""
    following = Following(part_bytes=1000, **LOG)
    following.follow()

    def bound(said):
        return CaughtUp(said.token, said.index, said.commit, said.reset, 1.0)

    while following.lacks:
        following.step(answer=bound)
    for _ in range(600):
        assert following.submit(20) == 20
        following.step(answer=bound)
    assert following.master.members == (0, 1)


def test_all_wait_for_a_hanging_learner_no_longer_than_stall_s():
    following = Following(stall_s=1.0, **LOG)
    following.follow()
    for _ in range(40):
        following.submit(4)
        following.step()
    assert following.submit(120) < 120
    assert not following.master.can_submit
    assert len(following.master.state.log) < LOG["max_log"]
    for _ in range(30):
        following.step(takes=False)
    assert following.master.can_submit


def test_a_distant_learner_goes_on_in_mode_majority_while_the_log_has_room():
    following = Following(mode="MAJORITY", **LOG)
    following.follow()
    for _ in range(200):
        following.submit(4)
        following.step()
        assert following.master.phases.giving == "entries"
    assert following.lacks > 64


def test_nobody_waits_for_a_learner_that_answers_late():
    """It does not answer within `view_change_s`, so it is not let in however near it is."""
    following = Following(part_bytes=4000, **(LOG | {"max_log": 4000}))
    following.follow()
    cluster = following.cluster
    late = deque()
    waited = 0
    for number in range(800):
        if following.submit(4) < 4:
            waited = number
        cluster.tick(TICK_S)
        cluster.settle(0, 1)
        cluster.deliver(0, 2)
        for message in cluster.lose(2, 0):
            if isinstance(message, CaughtUp):
                late.append((cluster.now + 1.5, message))
            else:
                cluster.inject(2, 0, message)
        while late and late[0][0] <= cluster.now:
            cluster.inject(2, 0, late.popleft()[1])
        cluster.settle(0, 1)
    assert following.master.phases.giving == "entries"
    assert waited < 600


def test_nobody_waits_for_a_learner_that_missed_a_view():
    """It was near enough once, and took so long that the view went on without it."""
    following = Following(**LOG)
    following.follow()
    following.master._donor._flow_control.missed[2] = 1
    for _ in range(40):
        following.submit(4)
        following.step()
    assert following.submit(120) == 120


def test_the_log_is_held_from_the_entry_of_a_state_that_is_given_slowly():
    """The application takes long for the parts.

    Many entries are ordered meanwhile, and trimmed where possible.
    """
    cluster = returning(3, Settings(keep=0))
    [asked] = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    at = cluster.channels[0].applied
    for _ in range(2):
        cluster.act(0, lambda channel: channel.part_ready(cluster.now, asked.token, b"part", at))
        for _ in range(20):
            for _ in range(10):
                cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
            cluster.settle()
            cluster.tick(0.05)
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, asked.token, b"the last", at, last=True))
    assert cluster.channels[0].phases.giving == "state"


def test_the_log_is_held_from_what_a_learner_knows_to_be_committed():
    """It has entries that the members committed later. A view that takes it in begins where it knows."""
    cluster = ManualCluster(settings=Settings(keep=0))
    master = cluster.form()
    cluster.isolate(2)
    for other in (0, 1):
        cluster.connect(other, 2)
    while master.phases.giving != "entries":
        cluster.tick(0.01)
        for way in ((0, 1), (1, 0), (0, 2), (2, 0)):
            cluster.deliver(*way)
    for _ in range(200):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    cluster.tick(0.01, 0)
    cluster.deliver(0, 2)
    said = cluster.lose(2, 0)
    for late in (True, False):
        # Its answer is too late to take it in for it.
        for _ in range(24 if late else 12):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"y"))
            cluster.settle(0, 1)
            cluster.tick(0.05, 0, 1)
            cluster.lose(0, 2)
        for message in said if late else ():
            cluster.inject(2, 0, message)
    assert cluster.channels[2].last == 200
    assert cluster.channels[2].commit == 0
    assert master.commit > 200
    assert master.state.log.base.at == 0


def test_a_learner_is_let_in_the_later_the_more_bytes_it_lacks():
    """The others stand still until it has them. If it comes no nearer they stand still for more."""
    assert lacks(60, 1) < 0.2
    assert lacks(8, 400) < 0.2
    assert 0.8 < lacks(40, 30) < 1.2
    assert 3.8 < lacks(40, 50) < 4.2
