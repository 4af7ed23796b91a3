"""Learners: which entries, parts and states they accept, and what they acknowledge."""

from quorate.hachannel import Channel, Deliver, InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Reset
from quorate.hachannel.model.messages import (
    Accept,
    CatchUp,
    CaughtUp,
    Chunk,
    ChunkAck,
    Entry,
    Forward,
    Heartbeat,
    Join,
    NewView,
)
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.testing.channel.manual_cluster import ManualCluster, returning
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))


OLD, NEW = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)


def with_a_disk(remembered=None):
    """Return replica 2, which has a disk, was dropped from the view, and is connected with the master."""
    if remembered is None:
        remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True)
    channel = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered))
    channel.start(0.0)
    channel.connected(0.0, 0, 1)
    channel.receive(0.0, 0, Heartbeat(NEW, NEW, True, True, True, True, False, 0, 9, 0, 0, 0))
    out = channel.drain()
    channel.persisted(0.0, out.token)
    channel.drain()
    return channel


def said(channel, kind):
    """Return the messages of a kind that a replica sends at once, and those that it sends after its disk."""
    out = channel.drain()
    at_once = [message for _, message in out.messages if isinstance(message, kind)]
    channel.persisted(0.0, out.token)
    return at_once, [message for _, message in channel.drain().messages if isinstance(message, kind)]


def learner_with_a_log_of_its_own():
    """Return a cluster whose replica 2 was dropped, and has entries 1 to 3 of an old view; 1 is committed."""
    own = [Entry(OLD, index, 0, b"own %d" % index) for index in (1, 2, 3)]
    log = DurableLog(Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True, 1, NO_TAG, 3), own)
    cluster = ManualCluster()
    cluster.form()
    cluster.start(2, 3, 3, log)
    cluster.connect(0, 2)
    cluster.channels[2].state.supersede(NEW)
    return cluster


def test_a_learner_is_told_of_a_replica_that_is_admitted_meanwhile():
    """The learner is outside the view that lists the new replica."""
    cluster = ScriptedCluster(3, snapshot_s=8.0)
    master = cluster.form()
    cluster.submit(master, 100)
    cluster.run(1.0)
    cluster.hosts[2].crash()
    cluster.until(lambda: len(cluster.hosts[0].channel.members) == 2)
    cluster.run(2.0)
    for _ in range(12):
        cluster.submit(cluster.master(), 100)
        cluster.run(0.3)
    learner = cluster.hosts[2]
    learner.start()
    cluster.run(1.5)
    master = cluster.master()
    assert learner.channel.phases.learning != "alone"
    master.channel.admit(cluster.world.now, 3, b"place 3")
    master.settle()
    cluster.until(lambda: master.channel.view.lists(3))
    cluster.run(1.0)
    assert learner.channel.role == "joining"
    assert learner.channel.seats == master.channel.seats


def test_a_learner_acknowledges_a_state_after_its_disk_has_it():
    """The donor then drops the log that it keeps for the learner."""
    channel = with_a_disk()
    channel.receive(0.0, 0, Chunk(1 << 40, 0, b"state", False, Tag(NEW, 9)))
    channel.drain()
    channel.part_installed(0.0, 1 << 40)
    at_once, later = said(channel, ChunkAck)
    assert not any(message.installed for message in at_once)
    assert any(message.installed for message in later)


def test_a_learner_acknowledges_entries_after_its_disk_has_them():
    """The next view may count on what a learner says."""
    channel = with_a_disk()
    channel.receive(0.0, 0, CatchUp(1 << 40, NEW, NO_TAG, (Entry(NEW, 1, 0, b"one"),), 0))
    at_once, later = said(channel, CaughtUp)
    assert not at_once
    assert [message.index for message in later] == [1]


def test_the_table_of_submitters_of_an_installed_state_survives_a_restart():
    """The learner has nothing but the state, and the table came with it."""
    rows = (Source(0, 1, 1, 7), Source(1, 2, 1, 4))
    remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True)
    channel = with_a_disk(remembered)
    channel.receive(0.0, 0, Chunk(1 << 40, 0, b"state", False, Tag(NEW, 9), rows))
    channel.drain()
    channel.part_installed(0.0, 1 << 40)
    records = channel.drain().persist
    assert any(isinstance(record, Reset) for record in records)
    for record in records:
        remembered.apply(record)
    again = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered))
    assert again.state.replicated.submitters.rows == rows
    assert (again.commit, again.applied, again.state.log.base) == (9, 9, Tag(NEW, 9))


def test_a_learner_does_not_install_a_state_older_than_its_own():
    """The transfer took so long that the learner has come further meanwhile."""
    remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True, 5, Tag(OLD, 5), 5)
    channel = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered))
    channel.start(0.0)
    channel.connected(0.0, 0, 1)
    channel.receive(0.0, 0, Heartbeat(NEW, NEW, True, True, True, True, False, 0, 9, 0, 0, 0))
    channel.receive(0.0, 0, Chunk(1 << 40, 0, b"state", False, Tag(OLD, 3)))
    assert not any(isinstance(event, InstallPart) for event in channel.drain().events)
    assert channel.applied == 5
    channel.tick(1.0)
    joins = [message for _, message in channel.drain().messages if isinstance(message, Join)]
    assert joins[-1].refused == 0


def test_a_learner_ignores_a_part_of_an_earlier_transfer():
    """The part comes late, from the former master."""
    cluster = ManualCluster()
    cluster.form()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.connect(1, 2)
    cluster.inject(0, 2, Chunk(9, 0, b"new", False, None))
    cluster.inject(1, 2, Chunk(5, 0, b"old", False, None))
    parts = [event.data for event in cluster.events[2] if isinstance(event, InstallPart)]
    assert parts == [b"new"]


def test_a_learner_ignores_parts_of_a_transfer_that_it_refused():
    """It has deleted what it had of that transfer, so it asks for everything."""
    cluster = ManualCluster()
    cluster.form()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.inject(0, 2, Chunk(9, 0, b"useless", False, None))
    cluster.act(2, lambda channel: channel.part_refused(cluster.now, 9, "test"))
    cluster.inject(0, 2, Chunk(9, 0, b"useless", False, None))
    assert len([event for event in cluster.events[2] if isinstance(event, InstallPart)]) == 1
    cluster.tick(2.0, 2)
    join = cluster.waiting(2, 0, Join)[-1]
    assert (join.refused, join.fresh, join.marker) == (9, True, b"")


def test_a_learner_commits_only_entries_that_it_was_sent():
    """Entry 2 is the same for all. Entry 3 is committed and was not sent yet; the learner has another one."""
    cluster = learner_with_a_log_of_its_own()
    cluster.inject(0, 2, CatchUp(1 << 40, NEW, Tag(OLD, 1), (Entry(OLD, 2, 0, b"own 2"),), 3))
    delivered = [event.payload for event in cluster.events[2] if isinstance(event, Deliver)]
    assert delivered == [b"own 2"], f"it delivers {delivered}, of which the last is not committed"
    cluster.act(2, lambda channel: channel.persisted(cluster.now, cluster.tokens[2]))
    assert [message.index for message in cluster.waiting(2, 0, CaughtUp)] == [2]


def test_a_learner_that_installs_a_state_accepts_no_view():
    """The application will have the state after entry 40, and the log of the view starts at 0."""
    cluster = ManualCluster()
    view = cluster.form().view
    assert view is not None
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.inject(0, 2, Chunk(5, 0, b"state", False, Tag(view.number, 40)))
    members = (Voter(0, 1), Voter(2, 9))
    number = ViewNumber(20, 0, 1)
    message = NewView(View(number, members, members, 2, 0, 0, "", view.seats), NO_TAG, 0, (), True)
    cluster.inject(0, 2, message)
    assert not cluster.waiting(2, 0, Accept)
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, 5))
    assert cluster.channels[2].applied == 40


def test_a_member_ignores_entries_of_a_former_donor():
    """They come late, and differ from what this member has acknowledged since."""
    cluster = ManualCluster()
    master = cluster.form()
    view = master.view
    assert view is not None
    master.submit(cluster.now, 1, b"new")
    cluster.flush(0)
    cluster.deliver(0, 1)
    stale = CatchUp(1 << 40, OLD, NO_TAG, (Entry(OLD, 1, 0, b"stale"),), 0)
    cluster.inject(2, 1, stale)
    assert cluster.channels[1].state.log.get(1).payload == b"new"


def test_a_slave_forwards_only_after_its_disk_has_the_boot_number():
    """After a crash the next process would use the same numbers for other payloads."""
    voters = (Voter(0, 7), Voter(1, 8))
    view = View(ViewNumber(3, 0, 7), voters, voters, 2, 0)
    log = DurableLog(Remembered(view.number, view, True))
    channel = Channel(1, range(2), incarnation=8, cluster="c", expected=2, log=log)
    channel.start(0.0)
    channel.connected(0.0, 0, 7)
    number = view.number
    channel.receive(0.0, 0, Heartbeat(number, number, True, True, True, True, False, 0, 0, 0, 0, 0))
    assert channel.role == "slave"
    channel.drain()
    channel.forward(0.0, b"first")
    out = channel.drain()
    assert not any(isinstance(message, Forward) for _, message in out.messages)
    channel.persisted(0.0, out.token)
    assert any(isinstance(message, Forward) for _, message in channel.drain().messages)


def test_a_learner_refuses_a_state_older_than_its_commit_index():
    """Its application is empty, and its log has what was committed after the state."""
    cluster = ManualCluster()
    cluster.form()
    known = View(OLD, VOTERS, VOTERS[:2], 2, 0)
    cluster.start(2, 3, 3, DurableLog(Remembered(OLD, known, True, 8, Tag(OLD, 8), 8)), fresh=True)
    cluster.connect(0, 2)
    cluster.inject(0, 2, Chunk(1 << 40, 0, b"", False, Tag(OLD, 4)))
    assert not any(isinstance(event, InstallPart) for event in cluster.events[2])
    cluster.tick(1.0)
    assert cluster.waiting(2, 0, Join)[-1].refused == 1 << 40


def test_a_learner_that_wants_the_whole_state_takes_no_entries():
    """Its last process lacked entries only. Nobody noticed that it was away."""
    cluster = ManualCluster()
    cluster.form()
    cluster.silence(2)
    cluster.settle()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    cluster.settle()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.tick(0.0, 2)
    cluster.deliver(2, 0)
    [entries] = cluster.waiting(0, 2, CatchUp)
    cluster.start(2, 3, 9, fresh=True)
    cluster.connect(0, 2)
    cluster.inject(0, 2, entries)
    assert not cluster.waiting(2, 0, CaughtUp)
    cluster.tick(0.0, 2)
    cluster.deliver(2, 0)
    assert any(isinstance(event, ProvideSnapshot) for event in cluster.events[0])


def test_a_learner_that_refused_a_part_asks_for_everything():
    cluster = returning(3, Settings(keep=0))
    [asked] = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    cluster.act(0, lambda channel: channel.part_ready(cluster.now, asked.token, b"x", channel.applied))
    cluster.deliver(0, 2)
    part = [event for event in cluster.events[2] if isinstance(event, InstallPart)][-1]
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, part.token, b"marker"))
    cluster.act(2, lambda channel: channel.part_refused(cluster.now, part.token, "test"))
    cluster.lose(2, 0)
    cluster.until(lambda: cluster.waiting(2, 0, Join), 2)
    [join] = cluster.waiting(2, 0, Join)
    assert (join.marker, join.fresh) == (b"", True)


def test_a_learner_appends_no_entries_that_do_not_follow_its_log():
    """It has uncommitted entries of its own; the message that would replace them is lost."""
    old, new = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)
    voters = (Voter(0, 1), Voter(1, 2), Voter(2, 3))
    own = [Entry(old, index, 0, b"own %d" % index) for index in (1, 2, 3)]
    log = DurableLog(Remembered(old, View(old, voters, voters, 3, 0), True, 1, NO_TAG, 3), own)
    cluster = ManualCluster()
    cluster.form()
    cluster.start(2, 3, 3, log)
    cluster.connect(0, 2)
    channel = cluster.channels[2]
    channel.state.supersede(new)
    cluster.inject(0, 2, CatchUp(1 << 40, new, Tag(new, 3), (Entry(new, 4, 0, b"four"),), 4))
    delivered = [event.payload for event in cluster.events[2] if isinstance(event, Deliver)]
    assert delivered == [], f"it delivers {delivered}, which are not committed"


def test_a_second_transfer_does_not_begin_while_a_state_is_installed():
    """The application replaces its state by that of the first transfer, and the channel must know of that."""
    cluster = ManualCluster()
    cluster.form()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    end = Tag(ViewNumber(3, 0, 1), 40)
    cluster.inject(0, 2, Chunk(5, 0, b"state", False, end))
    assert [event.index for event in cluster.events[2] if isinstance(event, InstallPart)] == [40]
    cluster.inject(0, 2, Chunk(6, 0, b"another", False, Tag(ViewNumber(3, 0, 1), 50)))
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, 5))
    assert cluster.channels[2].applied == 40


def test_a_view_received_twice_is_accepted_after_the_disk_has_it():
    """The connection broke while the disk was writing the acceptance."""
    channel = with_a_disk()
    number = ViewNumber(9, 0, 1)
    view = View(number, VOTERS, VOTERS, 3, 0, 0, "")
    message = NewView(view, NO_TAG, 0, (), True)
    channel.receive(9.0, 0, message)
    channel.receive(9.0, 0, message)
    at_once, later = said(channel, Accept)
    assert not at_once
    assert later
