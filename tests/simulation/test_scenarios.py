"""What has gone wrong in other systems, played on simulated clusters and checked after every step."""

import pytest

from quorate.hachannel import NotMaster, Settings
from quorate.hachannel.model.messages import CatchUp, Chunk
from quorate.testing.channel.network import Weather
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

SLOW_SUSPICION = Settings(suspect_s=0.5, view_change_s=0.4)


@pytest.mark.parametrize("seed", range(5))
def test_replicas_that_start_together_form_one_cluster_with_one_first_time(seed):
    """Scenario 5, ConcurrentStartup of JGroups."""
    cluster = ScriptedCluster(5, seed=seed, weather=Weather(slow_chance=0.2, slow_s=0.1))
    cluster.form()
    assert cluster.first_times == 1
    assert len(cluster.active) == 1
    assert cluster.hosts[0].channel.members == (0, 1, 2, 3, 4)


def test_replicas_below_the_barrier_wait():
    cluster = ScriptedCluster(3)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.run(5.0)
    assert [host.channel.role for host in cluster.running()] == ["joining", "joining"]
    assert cluster.active == {}
    cluster.hosts[2].start()
    cluster.whole()
    assert cluster.first_times == 1


def test_a_latecomer_joins_the_cluster_that_others_founded():
    cluster = ScriptedCluster(3, expected=2)
    cluster.hosts[0].start()
    cluster.hosts[2].start()
    cluster.whole(but=[1])
    taken = cluster.submit(cluster.master(), 3)
    cluster.everywhere(taken)
    cluster.hosts[1].start()
    cluster.whole()
    assert cluster.hosts[1].channel.members == (0, 2, 1)
    assert cluster.first_times == 1
    cluster.everywhere(taken)


def test_a_cluster_of_one_starts_at_once():
    cluster = ScriptedCluster(1)
    cluster.hosts[0].start()
    assert cluster.hosts[0].channel.role == "master"
    taken = cluster.submit(cluster.hosts[0], 2)
    assert cluster.deliveries[0] == taken
    assert cluster.hosts[0].channel.deadline is None


def test_many_submitters_one_order():
    """Scenario 1, SequencerOrder of JGroups."""
    cluster = ScriptedCluster(3, weather=Weather(slow_chance=0.3, slow_s=0.02))
    master = cluster.form()
    for _ in range(20):
        cluster.submit(master, 7)
        cluster.run(0.005)
    cluster.until(lambda: all(host.channel.applied == master.channel.last for host in cluster.hosts))
    assert cluster.deliveries[0] == cluster.deliveries[1] == cluster.deliveries[2]
    assert len(cluster.deliveries[0]) == 140


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_the_master_dies_mid_stream_and_nothing_acknowledged_is_lost(mode):
    """Scenario 2, SequencerFailover of JGroups."""
    cluster = ScriptedCluster(3, settings=Settings(mode=mode))
    master = cluster.form()
    for _ in range(30):
        cluster.submit(master, 3)
        cluster.run(0.002)
    acknowledged = list(cluster.deliveries[master.replica])
    cluster.submit(master, 3)
    master.crash()
    heir = cluster.whole(but=[master.replica])
    taken = cluster.submit(heir, 3)
    cluster.everywhere(taken)
    survivors = [host.replica for host in cluster.running()]
    for replica in survivors:
        sequence = cluster.deliveries[replica]
        assert sequence[: len(acknowledged)] == acknowledged
        assert len(set(sequence)) == len(sequence)
        assert sequence[-3:] == taken


def test_a_killed_master_is_replaced_within_a_fraction_of_a_second():
    cluster = ScriptedCluster(3, weather=Weather(slow_chance=0.0, notice_s=0.002))
    master = cluster.form()
    cluster.run(1.0)
    master.crash()
    assert cluster.until(lambda: cluster.world.master() is not None) < 0.2


def test_a_replica_that_is_slow_for_a_second_is_not_suspected():
    """Scenario 13, FalseSuspicion."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.run(0.5)
    for host in cluster.hosts:
        host.pause()
        cluster.run(1.2)
        host.resume()
        cluster.run(0.3)
    assert len(cluster.active) == 1
    assert cluster.master() is master


def test_the_master_and_the_next_one_leave_together_and_one_master_remains():
    """Scenario 4, BaseLeave of JGroups."""
    cluster = ScriptedCluster(4)
    cluster.form()
    cluster.hosts[0].leave()
    cluster.hosts[1].leave()
    cluster.until(lambda: cluster.hosts[0].left and cluster.hosts[1].left)
    assert cluster.whole(but=[0, 1]).replica == 2


def test_a_leaving_master_hands_over_quickly():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    taken = cluster.submit(master, 5)
    master.leave()
    assert cluster.until(lambda: cluster.world.master() is not None) < 0.1
    cluster.everywhere(taken)
    cluster.until(lambda: master.left)


def test_a_lost_join_answer_leads_to_no_second_membership():
    """Scenario 6, the lost join answer."""
    cluster = ScriptedCluster(3, weather=Weather(slow_chance=0.0, notice_s=0.01))
    cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    cluster.hosts[2].start()
    for _ in range(40):
        cluster.run(0.02)
        cluster.net.shut((0, 2))
    cluster.whole()
    assert cluster.hosts[0].channel.members == (0, 1, 2)
    assert len(cluster.hosts[0].channel.view.config) == 3


def test_a_frozen_master_acknowledges_nothing_when_it_wakes():
    """Scenario 7, FrozenCoordinator."""
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = cluster.form()
    cluster.everywhere(cluster.submit(master, 5))
    cluster.cut((0, 1), (0, 2))
    pending = cluster.submit(master, 3)
    cluster.run(0.01)
    master.pause()
    cluster.net.shut((0, 1))
    cluster.net.shut((0, 2))
    cluster.mend()
    cluster.until(lambda: cluster.hosts[1].channel.can_submit)
    heir = cluster.hosts[1]
    before = len(cluster.deliveries[0])
    master.paused = False
    stale = cluster.submit(master, 2)
    master.paused = True
    master.resume()
    fresh = cluster.submit(heir, 3)
    cluster.whole()
    cluster.everywhere(fresh)
    assert cluster.deliveries[0][before:] == fresh
    assert not set(stale + pending) & set(cluster.delivered_once)
    assert cluster.hosts[0].incarnation == 1
    with pytest.raises(NotMaster):
        cluster.hosts[0].channel.submit(cluster.world.now, 0, b"")


def test_a_lost_tail_is_repaired_although_nothing_follows():
    """Scenario 8, LastMessageDropped of JGroups."""
    cluster = ScriptedCluster(
        3, weather=Weather(slow_chance=0.0, delay_s=0.02, notice_s=0.01, reconnect_s=0.02)
    )
    master = cluster.form()
    cluster.run(0.5)
    taken = cluster.submit(master)
    cluster.net.shut((0, 1))
    cluster.net.shut((0, 2))
    cluster.everywhere(taken, seconds=1.0)
    assert len(cluster.active) == 1


def test_duplicated_messages_and_broken_connections_deliver_exactly_once():
    """Scenario 9."""
    cluster = ScriptedCluster(
        3, weather=Weather(duplicate_chance=0.5, slow_chance=0.2, notice_s=0.02, reconnect_s=0.02)
    )
    master = cluster.form()
    taken = []
    for _ in range(60):
        taken += cluster.submit(master, 3)
        cluster.net.break_one()
        cluster.run(0.03)
    cluster.everywhere(taken)
    assert cluster.deliveries[0] == taken


@pytest.mark.parametrize(("entries", "chunk", "keep"), [(30, 8, 512), (700, 1, 0)])
def test_a_replica_that_restarts_under_load_gets_the_same_state(entries, chunk, keep):
    """Scenario 11, StateTransferWhileSending of JGroups."""
    cluster = ScriptedCluster(3, settings=Settings(keep=keep, window=16), chunk=chunk)
    master = cluster.form()
    for _ in range(entries // 10):
        cluster.submit(master, 10)
        cluster.run(0.01)
    cluster.hosts[1].crash()
    cluster.run(0.1)
    cluster.hosts[1].start()
    for _ in range(100):
        cluster.submit(cluster.world.master() or master, 3)
        cluster.run(0.01)
    master = cluster.whole()
    cluster.until(lambda: all(host.channel.applied == master.channel.last for host in cluster.hosts))
    assert len({host.app.chain for host in cluster.hosts}) == 1
    assert cluster.hosts[1].channel.members == (0, 2, 1)
    assert cluster.counts["snapshots"] == (keep == 0)


def test_the_donor_dies_mid_transfer_and_the_next_master_goes_on():
    """Scenario 12."""
    cluster = ScriptedCluster(4, settings=Settings(keep=0), chunk=1, snapshot_s=0.2)
    master = cluster.form()
    for _ in range(50):
        cluster.submit(master, 10)
        cluster.run(0.01)
    cluster.hosts[3].crash()
    cluster.whole(but=[3])
    cluster.hosts[3].start()
    chunks = []
    deliver = cluster.hosts[3].deliver

    def watch(peer, message):
        if isinstance(message, Chunk):
            chunks.append(peer)
            # Without the dead life of replica 3 two of three votes remain.
            if len(chunks) >= 3 and len(cluster.hosts[1].channel.view.config) == 3 and master.running:
                cluster.world.at(cluster.world.now, cluster.hosts[0].crash)
        deliver(peer, message)

    cluster.hosts[3].deliver = watch
    heir = cluster.whole(but=[0])
    assert set(chunks) >= {0, heir.replica}
    cluster.hosts[0].start()
    cluster.whole()
    cluster.everywhere(cluster.submit(heir, 3))
    assert len({host.app.chain for host in cluster.hosts}) == 1


def test_the_joiner_dies_mid_transfer_and_its_next_life_joins():
    cluster = ScriptedCluster(3, settings=Settings(keep=0), chunk=1)
    master = cluster.form()
    for _ in range(50):
        cluster.submit(master, 10)
        cluster.run(0.01)
    for pause in (0.12, 0.14, 0.16, 0.2):
        cluster.hosts[2].crash()
        cluster.run(0.3)
        cluster.hosts[2].start()
        cluster.run(pause)
    cluster.whole()
    assert len(cluster.hosts[0].channel.view.config) == 3


def test_one_false_suspicion_changes_no_view():
    """Scenario 13, FalseSuspicion."""
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    cluster.form()
    cluster.run(0.5)
    cluster.cut((0, 1))
    cluster.run(0.8)
    cluster.mend()
    cluster.run(2.0)
    assert len(cluster.active) == 1


def test_a_slave_that_does_not_hear_the_master_is_dropped_and_comes_back():
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    master = cluster.form()
    cluster.cut((0, 1))
    pending = cluster.submit(master, 3)
    cluster.whole(but=[1])
    cluster.everywhere(pending)
    cluster.mend()
    cluster.whole()
    assert cluster.hosts[0].channel.members == (0, 2, 1)
    assert cluster.hosts[1].incarnation == 2


def test_three_to_one_the_minority_refuses():
    """Scenario 15."""
    cluster = ScriptedCluster(4, settings=SLOW_SUSPICION)
    cluster.form()
    cluster.split([0], [1, 2, 3])
    pending = cluster.submit(cluster.hosts[0], 2)
    heir = cluster.whole(but=[0])
    assert cluster.hosts[0].channel.role == "blocked"
    assert not cluster.hosts[0].channel.can_submit
    taken = cluster.submit(heir, 3)
    cluster.run(1.0)
    cluster.mend()
    cluster.whole()
    cluster.everywhere(taken)
    assert not set(pending) & set(cluster.delivered_once)


def test_a_full_window_and_a_dead_slave_do_not_stop_the_next_view():
    """Scenario 14."""
    cluster = ScriptedCluster(3, settings=Settings(window=4))
    master = cluster.form()
    cluster.hosts[1].crash()
    pending = cluster.submit(master, 20)
    assert len(pending) == 4
    assert not master.channel.can_submit
    cluster.whole(but=[1])
    cluster.everywhere(pending)
    assert master.channel.can_submit


def test_a_pending_entry_ends_when_the_dead_slave_leaves_the_view():
    """Scenario 27."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.run(0.5)
    cluster.hosts[2].crash()
    pending = cluster.submit(master)
    assert cluster.deliveries[0] == []
    cluster.whole(but=[2])
    assert cluster.deliveries[0] == pending


def test_entries_submitted_while_replicas_come_and_go_all_end():
    """Scenario 10: whatever waits for all members ends when they leave and join."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    taken = []
    for _ in range(6):
        cluster.hosts[2].crash()
        for _ in range(10):
            taken += cluster.submit(master, 2)
            cluster.run(0.02)
        cluster.hosts[2].start()
        for _ in range(30):
            taken += cluster.submit(master, 2)
            cluster.run(0.02)
    cluster.whole()
    cluster.everywhere(taken)
    assert cluster.deliveries[0] == taken


def test_the_proposer_dies_during_the_election_and_no_ghost_remains():
    """Scenario 18."""
    cluster = ScriptedCluster(5, weather=Weather(slow_chance=0.0, notice_s=0.002, delay_s=0.02))
    cluster.form()
    cluster.hosts[0].crash()
    cluster.until(lambda: cluster.hosts[1].channel.proposing)
    cluster.hosts[1].crash()
    assert cluster.whole(but=[0, 1]).replica == 2
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.whole()
    assert cluster.hosts[2].channel.role == "master"


def test_the_proposer_leaves_during_the_election():
    """Scenario 18."""
    cluster = ScriptedCluster(5, weather=Weather(slow_chance=0.0, notice_s=0.002, delay_s=0.02))
    cluster.form()
    cluster.hosts[0].crash()
    cluster.until(lambda: cluster.hosts[1].channel.proposing)
    cluster.hosts[1].leave()
    assert cluster.whole(but=[0, 1]).replica == 2


def test_a_one_way_partition_is_harmless():
    """Scenario 24."""
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    cluster.form()
    for direction in [(0, 1), (1, 0), (1, 2), (2, 0)]:
        cluster.cut(direction)
        for _ in range(20):
            cluster.submit(cluster.world.master() or cluster.hosts[0])
            cluster.run(0.1)
        cluster.mend()
        cluster.whole()
    assert len({host.app.chain for host in cluster.hosts}) == 1


def test_a_chain_of_connections_is_enough_when_it_recovers():
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = cluster.form()
    cluster.split([0], [2])
    cluster.run(3.0)
    members = {host.replica for host in cluster.running() if host.channel.role in ("master", "slave")}
    assert len(members) == 2
    cluster.mend()
    master = cluster.whole()
    cluster.everywhere(cluster.submit(master))


def test_without_a_majority_the_cluster_blocks_and_does_not_err():
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = cluster.form()
    taken = cluster.submit(master, 3)
    cluster.everywhere(taken)
    cluster.hosts[1].crash()
    cluster.hosts[2].crash()
    pending = cluster.submit(master, 2)
    cluster.run(3.0)
    assert master.channel.role == "blocked"
    assert not master.channel.can_submit
    cluster.hosts[1].start()
    cluster.hosts[2].start()
    cluster.run(5.0)
    assert [host.channel.role for host in cluster.hosts] == ["blocked", "joining", "joining"]
    assert not set(pending) & set(cluster.delivered_once)
    assert cluster.first_times == 1


def test_two_dead_of_three_one_after_the_other_and_the_last_goes_on_with_a_voter():
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    cluster.hosts[2].start()
    cluster.whole()
    cluster.hosts[0].crash()
    cluster.whole(but=[0])
    cluster.hosts[0].start()
    cluster.whole()
    cluster.hosts[1].crash()
    master = cluster.whole(but=[1])
    assert master.replica == 2
    cluster.everywhere(cluster.submit(master, 3))


def test_a_blocked_master_goes_on_when_the_others_return():
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = cluster.form()
    for host in cluster.hosts[1:]:
        host.pause()
    pending = cluster.submit(master, 2)
    cluster.until(lambda: master.channel.role == "blocked")
    for host in cluster.hosts[1:]:
        host.resume()
    cluster.whole()
    cluster.everywhere(pending)
    assert master.channel.role == "master"


def test_a_master_that_cannot_commit_applies_no_change_of_the_configuration():
    """Scenario 20, AddServer on a leader that cannot commit."""
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    before = cluster.hosts[0].channel.view.config
    cluster.cut((0, 1))
    cluster.hosts[2].start()
    cluster.until(lambda: master.state.log.reconfig(0) is not None)
    cluster.run(0.2)
    assert master.channel.view.config == before
    cluster.mend()
    cluster.whole()
    assert len(cluster.hosts[0].channel.view.config) == 3


def test_a_slow_slave_cannot_fill_the_memory():
    """Scenario 25."""
    settings = Settings(mode="MAJORITY", window=64, keep=64, max_log=600, stall_s=1000.0, suspect_s=1000.0)
    cluster = ScriptedCluster(3, settings=settings)
    master = cluster.form()
    cluster.cut((0, 2))
    for _ in range(100):
        cluster.submit(master, 20)
        cluster.run(0.02)
    assert len(master.state.log) < 900
    assert cluster.master() is master
    assert master.channel.members == (0, 1)
    cluster.mend()
    cluster.whole()


def test_a_replica_that_was_away_for_long_comes_back_by_snapshot():
    """Scenario 26."""
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5, keep=10))
    master = cluster.form()
    cluster.split([2], [0, 1])
    cluster.whole(but=[2])
    for _ in range(30):
        cluster.submit(master, 10)
        cluster.run(0.05)
    cluster.mend()
    cluster.whole()
    assert cluster.counts["snapshots"] == 1
    assert cluster.hosts[2].incarnation == 3
    assert cluster.hosts[2].app.chain == cluster.hosts[0].app.chain


def test_a_replica_that_was_away_shortly_comes_back_by_entries():
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    master = cluster.form()
    seen = []
    deliver = cluster.hosts[2].deliver
    cluster.hosts[2].deliver = lambda peer, message: (seen.append(type(message)), deliver(peer, message))
    cluster.split([2], [0, 1])
    cluster.whole(but=[2])
    cluster.submit(master, 30)
    cluster.mend()
    cluster.whole()
    assert cluster.counts["snapshots"] == 0
    assert CatchUp in seen
    assert Chunk not in seen


def test_a_restart_never_delivers_what_was_not_committed():
    """Scenario 28."""
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = cluster.form()
    cluster.everywhere(cluster.submit(master, 5))
    cluster.cut((0, 1), (0, 2))
    pending = cluster.submit(master, 5)
    cluster.run(0.05)
    master.crash()
    cluster.mend()
    cluster.run(1.0)
    master.start()
    cluster.whole()
    cluster.everywhere(cluster.submit(cluster.master(), 2))
    assert not set(pending) & set(cluster.delivered_once)
    assert len({host.app.chain for host in cluster.hosts}) == 1


def test_entries_that_one_slave_has_are_kept_or_dropped_everywhere():
    cluster = ScriptedCluster(5, settings=SLOW_SUSPICION, weather=Weather(slow_chance=0.0, notice_s=0.01))
    cluster.form()
    cluster.cut((0, 1), (0, 2), (0, 3))
    pending = cluster.submit(cluster.hosts[0], 4)
    cluster.run(0.05)
    assert cluster.hosts[4].channel.last == 4
    cluster.hosts[0].crash()
    cluster.mend()
    heir = cluster.whole(but=[0])
    assert heir.replica == 1
    assert cluster.deliveries[1] == cluster.deliveries[4] == pending
