"""State transfer, message by message: what is given, to whom, and when that ends."""

import pytest

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings, ViewNumber
from quorate.hachannel.model.messages import CatchUp, CaughtUp, Chunk, ChunkAck, Join
from quorate.hachannel.model.settings import TRIM_STEP
from quorate.hachannel.model.view import Tag
from quorate.hachannel.transfer.donor import REPLICA_BITS, TOKENS
from quorate.testing.channel.manual_cluster import ManualCluster, returning

N1 = ViewNumber(1, 0, 1)


def submit(cluster, count):
    for _ in range(count):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))


def trimmed(replicas=3, **settings):
    """A cluster whose last replica is back, and needs the state."""
    return returning(replicas, Settings(keep=0, **settings))


def snapshot_requests(cluster):
    """The snapshots requested of the application of the master."""
    return [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]


@pytest.mark.parametrize(("at", "have"), [(2, 2), (300, 0)])
def test_a_learner_is_not_said_to_have_more_than_there_is(at, have):
    """It may come from a cluster that had come further: nothing that it lacks would come."""
    cluster = trimmed()
    birth = cluster.channels[2].state.configuration.birth
    cluster.silence(2)
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    cluster.inject(2, 0, Join("c", False, Tag(N1, at), 0, 0, b"", False, 0, birth))
    assert cluster.channels[0].phases.giving == "state"
    assert snapshot_requests(cluster)[-1].have == have


def test_what_a_learner_takes_while_the_view_changes_is_not_sent_again():
    cluster = trimmed()
    [event] = snapshot_requests(cluster)
    applied = cluster.channels[0].applied
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, event.token, b"x", applied))
    cluster.deliver(0, 2)
    part = [event for event in cluster.events[2] if isinstance(event, InstallPart)][-1]
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, part.token, b"marker"))
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, "test"))
    cluster.deliver(2, 0)
    assert cluster.channels[0].role == "changing"
    cluster.settle()
    assert cluster.channels[0].role == "master"
    for _ in range(50):
        cluster.tick(0.05)
        cluster.deliver(2, 0)
        assert not cluster.waiting(0, 2, Chunk)
        cluster.settle()
    assert cluster.channels[0].phases.giving == "state"


@pytest.mark.parametrize("index", [1, 201])
def test_a_state_that_is_not_of_an_entry_of_the_log_is_not_given(index):
    cluster = trimmed()
    [event] = snapshot_requests(cluster)
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, event.token, b"x", index, last=True))
    assert cluster.channels[0].phases.giving == "nobody"
    assert any(f"the state is that after entry {index}, outside" in note for note in cluster.notes[0])


@pytest.mark.parametrize("bound", [{"max_log": 160}, {"max_log_bytes": 160}])
def test_a_transfer_for_which_the_log_becomes_too_long_ends(bound):
    cluster = trimmed(window=16, transfer_pause_s=60.0, mode="MAJORITY", **bound)
    [event] = snapshot_requests(cluster)
    applied = cluster.channels[0].applied
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, event.token, b"x", applied))
    log = cluster.channels[0].state.log
    longest = 0
    for _ in range(40):
        submit(cluster, 10)
        longest = max(longest, len(log))
        cluster.settle(0, 1)
        cluster.tick(0.05, 0, 1)
        cluster.settle(0, 1)
        if cluster.channels[0].phases.giving == "nobody":
            break
    assert cluster.notes[0][-1].endswith("the log has become too long meanwhile (max_log, max_log_bytes)")
    assert 150 < longest <= 180
    cluster.tick(0.05, 0, 1)
    assert len(log) <= TRIM_STEP


def test_in_mode_all_a_learner_that_comes_further_is_waited_for():
    cluster = trimmed(window=16, transfer_pause_s=0.0, max_log=160, stall_s=1.0)
    master = cluster.channels[0]
    [event] = snapshot_requests(cluster)
    applied = master.applied
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, event.token, b"part", applied, last=True))
    taken = 0
    for _ in range(100):
        while taken < 1000 and master.can_submit:
            submit(cluster, 1)
            taken += 1
        cluster.settle(0, 1)
        cluster.tick(0.05, 0, 1)
        cluster.settle(0, 1)
        if not master.can_submit:
            break
    assert 100 <= taken < 200
    cluster.tick(0.5, 0, 1)
    cluster.settle()
    [part] = [event for event in cluster.events[2] if isinstance(event, InstallPart)]
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, part.token, b"marker"))
    for _ in range(20):
        cluster.settle()
        cluster.tick(0.05)
    assert master.members == (0, 1, 2)
    assert master.can_submit


@pytest.mark.parametrize("leaves", [False, True])
def test_a_transfer_to_a_learner_that_goes_away_ends(leaves):
    """The log is held for it no more, however long nobody else comes."""
    cluster = trimmed()
    assert cluster.channels[0].phases.giving == "state"
    if leaves:
        cluster.act(2, lambda channel: channel.leave(cluster.now))
        cluster.settle()
    else:
        cluster.silence(2)
    cluster.tick(0.05, 0)
    assert cluster.channels[0].phases.giving == "nobody"


def test_a_transfer_goes_on_when_the_view_changes_for_another_reason():
    cluster = trimmed(4)
    assert cluster.channels[0].phases.giving == "state"
    cluster.silence(2)
    cluster.settle()
    assert cluster.channels[0].members == (0, 1)
    cluster.tick(0.3)
    cluster.settle()
    assert cluster.channels[0].phases.giving == "state"
    assert len(snapshot_requests(cluster)) == 1
    assert not any(note.startswith("transfer to replica 3 ends") for note in cluster.notes[0])


@pytest.mark.parametrize("lacking", [10, 0])
def test_a_learner_that_takes_no_entries_gives_its_place_to_one_that_waits(lacking):
    """It hears the master and announces itself: only what it is sent is of no use to it.

    If it lacks nothing that is the question whether it can answer.
    """
    cluster = ManualCluster(5, Settings(stall_s=0.3))
    cluster.form()
    cluster.isolate(3, 4)
    submit(cluster, lacking)
    cluster.settle(0, 1, 2)
    for late in (3, 4):
        cluster.connect(0, late)
    for _ in range(100):
        cluster.tick(0.05)
        for message in cluster.lose(0, 3):
            if not isinstance(message, CatchUp):
                cluster.inject(0, 3, message)
        cluster.deliver(3, 0)
        cluster.settle(0, 1, 2, 4)
        if 4 in cluster.channels[0].members:
            break
    assert cluster.channels[0].members == (0, 1, 2, 4)


def test_a_transfer_belongs_to_the_donor_that_began_it():
    """Two masters, one of which does not know of the other, begin with what the same learner shows them."""
    cluster = trimmed(4)
    [event] = snapshot_requests(cluster)
    assert event.token % (1 << REPLICA_BITS) == 0
    cluster.silence(0)
    for _ in range(200):
        cluster.tick(0.05, 1, 2, 3)
        cluster.settle(1, 2, 3)
        if cluster.channels[1].phases.giving == "state":
            break
    tokens = [event.token for event in cluster.events[1] if isinstance(event, ProvideSnapshot)]
    assert [token % (1 << REPLICA_BITS) for token in tokens] == [1]
    assert tokens > [event.token]


def provide_part(cluster, *, last):
    """Provide a part at the master; return the part that the learner installs."""
    token, index = snapshot_requests(cluster)[-1].token, cluster.channels[0].applied
    at = index if last else None
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, token, b"x", at, last=last))
    cluster.settle()
    part = cluster.events[2][-1]
    assert isinstance(part, InstallPart)
    assert (part.token, part.number, part.index) == (token, 0, at)
    return part


@pytest.mark.parametrize("last", [False, True])
def test_a_learner_that_could_not_use_a_part_takes_another_transfer(last):
    cluster = trimmed()
    part = provide_part(cluster, last=last)
    cluster.act(2, lambda channel: channel.part_refused(cluster.now, part.token, "it is damaged"))
    for _ in range(20):
        cluster.tick(0.05)
        cluster.settle()
    again = provide_part(cluster, last=True)
    assert again.token > part.token
    # A word of the first one, that came late.
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, part.token))
    assert cluster.channels[2].applied < cluster.channels[0].applied
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, again.token))
    assert cluster.channels[2].applied == cluster.channels[0].applied
    for _ in range(20):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].members == (0, 1, 2)


def test_a_part_that_was_made_for_an_earlier_transfer_is_not_given():
    cluster = trimmed()
    cluster.act(2, lambda channel: channel.leave(cluster.now))
    cluster.settle()
    cluster.tick(0.05)
    cluster.silence(2)
    cluster.start(2, 3, 9)
    for other in (0, 1):
        cluster.connect(other, 2)
    while len(snapshot_requests(cluster)) < 2:
        cluster.tick(0.05)
        cluster.settle()
    before, now = snapshot_requests(cluster)
    applied = cluster.channels[0].applied
    for last in (False, True):
        cluster.act(
            0,
            lambda channel, last=last: channel.part_ready(
                cluster.now, before.token, b"x", applied, last=last
            ),
        )
    assert not cluster.waiting(0, 2, Chunk)
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, now.token, b"y", applied))
    assert [chunk.data for chunk in cluster.waiting(0, 2, Chunk)] == [b"y"]


@pytest.mark.parametrize("installed", [False, True])
def test_what_a_learner_took_of_an_earlier_transfer_is_not_counted_in_this_one(installed):
    """It is the same learner, and its answer comes late."""
    cluster = trimmed()
    part = provide_part(cluster, last=True)
    cluster.act(2, lambda channel: channel.part_refused(cluster.now, part.token, "it is damaged"))
    while len(snapshot_requests(cluster)) < 2:
        cluster.tick(0.05)
        cluster.settle()
    token, applied = snapshot_requests(cluster)[1].token, cluster.channels[0].applied
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, token, b"y", applied, last=True))
    assert [chunk.token for chunk in cluster.lose(0, 2)] == [token]
    cluster.inject(2, 0, ChunkAck(part.token, 1, installed, 0))
    for _ in range(60):
        cluster.tick(0.05)
        cluster.settle()
    came = cluster.events[2][-1]
    assert isinstance(came, InstallPart)
    assert (came.token, came.data) == (token, b"y")
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, token))
    for _ in range(20):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].members == (0, 1, 2)


@pytest.mark.parametrize("phase", ["state", "entries"])
def test_a_learner_that_follows_a_master_of_before_is_won_back(phase):
    """That has begun a transfer, too, with a higher number, and was heard no more."""
    cluster = trimmed() if phase == "state" else ManualCluster()
    if phase == "entries":
        cluster.form()
        cluster.isolate(2)
        submit(cluster, 10)
        cluster.settle(0, 1)
        for other in (0, 1):
            cluster.connect(other, 2)
        while cluster.channels[0].phases.giving == "nobody":
            cluster.tick(0.05)
            cluster.deliver(0, 2)
            cluster.deliver(2, 0)
    assert cluster.channels[0].phases.giving == phase
    cluster.lose(0, 2)
    token = 7 << TOKENS
    cluster.inject(1, 2, Chunk(token, 0, b"x", True, None))
    assert cluster.channels[2].phases.learning == "state"
    for _ in range(60):
        cluster.tick(0.05)
        cluster.settle()
        if phase == "state" and len(snapshot_requests(cluster)) == 2:
            phase = "given"
            assert snapshot_requests(cluster)[1].token > token
            came = provide_part(cluster, last=True).token
            cluster.act(2, lambda channel, came=came: channel.part_installed(cluster.now, came))
    assert cluster.channels[0].members == (0, 1, 2)


def test_of_two_masters_the_one_that_holds_the_lease_takes_the_learner():
    """The other one is cut off, and does not know it: neither would ever bring the state to its end."""
    cluster = trimmed()
    master = cluster.channels[0]
    assert master.holds_lease(cluster.now)
    [first] = snapshot_requests(cluster)
    taken = ((first.token >> REPLICA_BITS) + 9 << REPLICA_BITS) + 1
    birth = cluster.channels[2].state.configuration.birth
    cluster.silence(2)
    cluster.tick(0.05, 0, 1)
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    join = Join("c", False, Tag(N1, 2), taken, 0, b"", False, 0, birth)
    cluster.now += cluster.settings.lease_s
    assert not master.holds_lease(cluster.now)
    cluster.inject(2, 0, join)
    assert master.phases.giving == "nobody"
    for _ in range(3):
        cluster.settle(0, 1)
        cluster.tick(0.05, 0, 1)
    assert master.holds_lease(cluster.now)
    cluster.inject(2, 0, join)
    assert master.phases.giving == "state"
    assert snapshot_requests(cluster)[-1].token > taken


@pytest.mark.parametrize("index", [-1, 9, 1 << 40])
def test_a_learner_that_has_what_cannot_be_ends_the_transfer(index):
    """It says that it wants to go on after an entry that the log of the master does not reach back to."""
    cluster = ManualCluster(settings=Settings(keep=100))
    master = cluster.form()
    cluster.isolate(2)
    submit(cluster, 3)
    cluster.settle(0, 1)
    cluster.connect(0, 2)
    while master.phases.giving != "entries":
        cluster.tick(0.05)
        cluster.settle(0, 1)
        cluster.deliver(2, 0)
        if master.phases.giving != "entries":
            cluster.deliver(0, 2)
    token = master._donor.transfer.token
    cluster.inject(2, 0, CaughtUp(token, index, index, True))
    assert master.phases.giving == "nobody"
    for _ in range(40):
        cluster.tick(0.05)
        cluster.settle()
    assert master.members == (0, 1, 2)


def test_a_former_member_with_a_log_end_of_its_own_claims_its_committed_entries():
    """It gets what has changed since the entry that it claims to have, and the others have another end."""
    cluster = ManualCluster(settings=Settings(keep=0))
    cluster.form()
    submit(cluster, 2)
    cluster.settle()
    cluster.part((1, 2))
    submit(cluster, 3)
    mine = cluster.channels[0].state
    assert (mine.replicated.commit, mine.log.last) == (2, Tag(N1, 5))
    while cluster.channels[1].members != (1, 2):
        cluster.tick(0.05, 1, 2)
        cluster.settle(1, 2)
    for _ in range(20):
        for _ in range(10):
            cluster.act(1, lambda channel: channel.submit(cluster.now, 0, b"y"))
        cluster.settle(1, 2)
        cluster.tick(0.05, 1, 2)
    assert cluster.channels[1].state.log.base.at > 5
    for other in (1, 2):
        cluster.connect(0, other)
    while not (joins := cluster.waiting(0, 1, Join)):
        cluster.settle()
        cluster.tick(0.05)
    assert [join.commit for join in joins] == [Tag(N1, 2)]
    while not (provided := [event for event in cluster.events[1] if isinstance(event, ProvideSnapshot)]):
        cluster.settle()
        cluster.tick(0.05)
    assert [event.have for event in provided] == [2]
