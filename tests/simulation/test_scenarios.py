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
    script = ScriptedCluster(5, seed=seed, weather=Weather(slow_chance=0.2, slow_s=0.1))
    script.form()
    assert script.first_times == 1
    assert len(script.active) == 1
    assert script.hosts[0].channel.members == (0, 1, 2, 3, 4)


def test_replicas_below_the_barrier_wait():
    script = ScriptedCluster(3)
    script.hosts[0].start()
    script.hosts[1].start()
    script.run(5.0)
    assert [host.channel.role for host in script.running()] == ["joining", "joining"]
    assert script.active == {}
    script.hosts[2].start()
    script.whole()
    assert script.first_times == 1


def test_a_latecomer_joins_the_cluster_that_others_founded():
    script = ScriptedCluster(3, expected=2)
    script.hosts[0].start()
    script.hosts[2].start()
    script.whole(but=[1])
    taken = script.submit(script.master(), 3)
    script.everywhere(taken)
    script.hosts[1].start()
    script.whole()
    assert script.hosts[1].channel.members == (0, 2, 1)
    assert script.first_times == 1
    script.everywhere(taken)


def test_a_cluster_of_one_starts_at_once():
    script = ScriptedCluster(1)
    script.hosts[0].start()
    assert script.hosts[0].channel.role == "master"
    taken = script.submit(script.hosts[0], 2)
    assert script.deliveries[0] == taken
    assert script.hosts[0].channel.deadline is None


def test_many_submitters_one_order():
    """Scenario 1, SequencerOrder of JGroups."""
    script = ScriptedCluster(3, weather=Weather(slow_chance=0.3, slow_s=0.02))
    master = script.form()
    for _ in range(20):
        script.submit(master, 7)
        script.run(0.005)
    script.until(lambda: all(host.channel.applied == master.channel.last for host in script.hosts))
    assert script.deliveries[0] == script.deliveries[1] == script.deliveries[2]
    assert len(script.deliveries[0]) == 140


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_the_master_dies_mid_stream_and_nothing_acknowledged_is_lost(mode):
    """Scenario 2, SequencerFailover of JGroups."""
    script = ScriptedCluster(3, settings=Settings(mode=mode))
    master = script.form()
    for _ in range(30):
        script.submit(master, 3)
        script.run(0.002)
    acknowledged = list(script.deliveries[master.replica])
    script.submit(master, 3)
    master.crash()
    heir = script.whole(but=[master.replica])
    taken = script.submit(heir, 3)
    script.everywhere(taken)
    survivors = [host.replica for host in script.running()]
    for replica in survivors:
        sequence = script.deliveries[replica]
        assert sequence[: len(acknowledged)] == acknowledged
        assert len(set(sequence)) == len(sequence)
        assert sequence[-3:] == taken


def test_a_killed_master_is_replaced_within_a_fraction_of_a_second():
    script = ScriptedCluster(3, weather=Weather(slow_chance=0.0, notice_s=0.002))
    master = script.form()
    script.run(1.0)
    master.crash()
    assert script.until(lambda: script.world.master() is not None) < 0.2


def test_a_replica_that_is_slow_for_a_second_is_not_suspected():
    """Scenario 13, FalseSuspicion."""
    script = ScriptedCluster(3)
    master = script.form()
    script.run(0.5)
    for host in script.hosts:
        host.pause()
        script.run(1.2)
        host.resume()
        script.run(0.3)
    assert len(script.active) == 1
    assert script.master() is master


def test_the_master_and_the_next_one_leave_together_and_one_master_remains():
    """Scenario 4, BaseLeave of JGroups."""
    script = ScriptedCluster(4)
    script.form()
    script.hosts[0].leave()
    script.hosts[1].leave()
    script.until(lambda: script.hosts[0].left and script.hosts[1].left)
    assert script.whole(but=[0, 1]).replica == 2


def test_a_leaving_master_hands_over_quickly():
    script = ScriptedCluster(3)
    master = script.form()
    taken = script.submit(master, 5)
    master.leave()
    assert script.until(lambda: script.world.master() is not None) < 0.1
    script.everywhere(taken)
    script.until(lambda: master.left)


def test_a_lost_join_answer_leads_to_no_second_membership():
    """Scenario 6, the lost join answer."""
    script = ScriptedCluster(3, weather=Weather(slow_chance=0.0, notice_s=0.01))
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    script.hosts[2].start()
    for _ in range(40):
        script.run(0.02)
        script.net.shut((0, 2))
    script.whole()
    assert script.hosts[0].channel.members == (0, 1, 2)
    assert len(script.hosts[0].channel.view.config) == 3


def test_a_frozen_master_acknowledges_nothing_when_it_wakes():
    """Scenario 7, FrozenCoordinator."""
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = script.form()
    script.everywhere(script.submit(master, 5))
    script.cut((0, 1), (0, 2))
    pending = script.submit(master, 3)
    script.run(0.01)
    master.pause()
    script.net.shut((0, 1))
    script.net.shut((0, 2))
    script.mend()
    script.until(lambda: script.hosts[1].channel.can_submit)
    heir = script.hosts[1]
    before = len(script.deliveries[0])
    master.paused = False
    stale = script.submit(master, 2)
    master.paused = True
    master.resume()
    fresh = script.submit(heir, 3)
    script.whole()
    script.everywhere(fresh)
    assert script.deliveries[0][before:] == fresh
    assert not set(stale + pending) & set(script.delivered_once)
    assert script.hosts[0].incarnation == 1
    with pytest.raises(NotMaster):
        script.hosts[0].channel.submit(script.world.now, 0, b"")


def test_a_lost_tail_is_repaired_although_nothing_follows():
    """Scenario 8, LastMessageDropped of JGroups."""
    script = ScriptedCluster(
        3, weather=Weather(slow_chance=0.0, delay_s=0.02, notice_s=0.01, reconnect_s=0.02)
    )
    master = script.form()
    script.run(0.5)
    taken = script.submit(master)
    script.net.shut((0, 1))
    script.net.shut((0, 2))
    script.everywhere(taken, seconds=1.0)
    assert len(script.active) == 1


def test_duplicated_messages_and_broken_connections_deliver_exactly_once():
    """Scenario 9."""
    script = ScriptedCluster(
        3, weather=Weather(duplicate_chance=0.5, slow_chance=0.2, notice_s=0.02, reconnect_s=0.02)
    )
    master = script.form()
    taken = []
    for _ in range(60):
        taken += script.submit(master, 3)
        script.net.break_one()
        script.run(0.03)
    script.everywhere(taken)
    assert script.deliveries[0] == taken


@pytest.mark.parametrize(("entries", "chunk", "keep"), [(30, 8, 512), (700, 1, 0)])
def test_a_replica_that_restarts_under_load_gets_the_same_state(entries, chunk, keep):
    """Scenario 11, StateTransferWhileSending of JGroups."""
    script = ScriptedCluster(3, settings=Settings(keep=keep, window=16), chunk=chunk)
    master = script.form()
    for _ in range(entries // 10):
        script.submit(master, 10)
        script.run(0.01)
    script.hosts[1].crash()
    script.run(0.1)
    script.hosts[1].start()
    for _ in range(100):
        script.submit(script.world.master() or master, 3)
        script.run(0.01)
    master = script.whole()
    script.until(lambda: all(host.channel.applied == master.channel.last for host in script.hosts))
    assert len({host.app.chain for host in script.hosts}) == 1
    assert script.hosts[1].channel.members == (0, 2, 1)
    assert script.counts["snapshots"] == (keep == 0)


def test_the_donor_dies_mid_transfer_and_the_next_master_goes_on():
    """Scenario 12."""
    script = ScriptedCluster(4, settings=Settings(keep=0), chunk=1, snapshot_s=0.2)
    master = script.form()
    for _ in range(50):
        script.submit(master, 10)
        script.run(0.01)
    script.hosts[3].crash()
    script.whole(but=[3])
    script.hosts[3].start()
    chunks = []
    deliver = script.hosts[3].deliver

    def watch(peer, message):
        if isinstance(message, Chunk):
            chunks.append(peer)
            # Without the dead life of replica 3 two of three votes remain.
            if len(chunks) >= 3 and len(script.hosts[1].channel.view.config) == 3 and master.running:
                script.world.at(script.world.now, script.hosts[0].crash)
        deliver(peer, message)

    script.hosts[3].deliver = watch
    heir = script.whole(but=[0])
    assert set(chunks) >= {0, heir.replica}
    script.hosts[0].start()
    script.whole()
    script.everywhere(script.submit(heir, 3))
    assert len({host.app.chain for host in script.hosts}) == 1


def test_the_joiner_dies_mid_transfer_and_its_next_life_joins():
    script = ScriptedCluster(3, settings=Settings(keep=0), chunk=1)
    master = script.form()
    for _ in range(50):
        script.submit(master, 10)
        script.run(0.01)
    for pause in (0.12, 0.14, 0.16, 0.2):
        script.hosts[2].crash()
        script.run(0.3)
        script.hosts[2].start()
        script.run(pause)
    script.whole()
    assert len(script.hosts[0].channel.view.config) == 3


def test_one_false_suspicion_changes_no_view():
    """Scenario 13, FalseSuspicion."""
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    script.form()
    script.run(0.5)
    script.cut((0, 1))
    script.run(0.8)
    script.mend()
    script.run(2.0)
    assert len(script.active) == 1


def test_a_slave_that_does_not_hear_the_master_is_dropped_and_comes_back():
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    master = script.form()
    script.cut((0, 1))
    pending = script.submit(master, 3)
    script.whole(but=[1])
    script.everywhere(pending)
    script.mend()
    script.whole()
    assert script.hosts[0].channel.members == (0, 2, 1)
    assert script.hosts[1].incarnation == 2


def test_three_to_one_the_minority_refuses():
    """Scenario 15."""
    script = ScriptedCluster(4, settings=SLOW_SUSPICION)
    script.form()
    script.split([0], [1, 2, 3])
    pending = script.submit(script.hosts[0], 2)
    heir = script.whole(but=[0])
    assert script.hosts[0].channel.role == "blocked"
    assert not script.hosts[0].channel.can_submit
    taken = script.submit(heir, 3)
    script.run(1.0)
    script.mend()
    script.whole()
    script.everywhere(taken)
    assert not set(pending) & set(script.delivered_once)


def test_a_full_window_and_a_dead_slave_do_not_stop_the_next_view():
    """Scenario 14."""
    script = ScriptedCluster(3, settings=Settings(window=4))
    master = script.form()
    script.hosts[1].crash()
    pending = script.submit(master, 20)
    assert len(pending) == 4
    assert not master.channel.can_submit
    script.whole(but=[1])
    script.everywhere(pending)
    assert master.channel.can_submit


def test_a_pending_entry_ends_when_the_dead_slave_leaves_the_view():
    """Scenario 27."""
    script = ScriptedCluster(3)
    master = script.form()
    script.run(0.5)
    script.hosts[2].crash()
    pending = script.submit(master)
    assert script.deliveries[0] == []
    script.whole(but=[2])
    assert script.deliveries[0] == pending


def test_entries_submitted_while_replicas_come_and_go_all_end():
    """Scenario 10: whatever waits for all members ends when they leave and join."""
    script = ScriptedCluster(3)
    master = script.form()
    taken = []
    for _ in range(6):
        script.hosts[2].crash()
        for _ in range(10):
            taken += script.submit(master, 2)
            script.run(0.02)
        script.hosts[2].start()
        for _ in range(30):
            taken += script.submit(master, 2)
            script.run(0.02)
    script.whole()
    script.everywhere(taken)
    assert script.deliveries[0] == taken


def test_the_proposer_dies_during_the_election_and_no_ghost_remains():
    """Scenario 18."""
    script = ScriptedCluster(5, weather=Weather(slow_chance=0.0, notice_s=0.002, delay_s=0.02))
    script.form()
    script.hosts[0].crash()
    script.until(lambda: script.hosts[1].channel.proposing)
    script.hosts[1].crash()
    assert script.whole(but=[0, 1]).replica == 2
    script.hosts[0].start()
    script.hosts[1].start()
    script.whole()
    assert script.hosts[2].channel.role == "master"


def test_the_proposer_leaves_during_the_election():
    """Scenario 18."""
    script = ScriptedCluster(5, weather=Weather(slow_chance=0.0, notice_s=0.002, delay_s=0.02))
    script.form()
    script.hosts[0].crash()
    script.until(lambda: script.hosts[1].channel.proposing)
    script.hosts[1].leave()
    assert script.whole(but=[0, 1]).replica == 2


def test_a_one_way_partition_is_harmless():
    """Scenario 24."""
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    script.form()
    for direction in [(0, 1), (1, 0), (1, 2), (2, 0)]:
        script.cut(direction)
        for _ in range(20):
            script.submit(script.world.master() or script.hosts[0])
            script.run(0.1)
        script.mend()
        script.whole()
    assert len({host.app.chain for host in script.hosts}) == 1


def test_a_chain_of_connections_is_enough_when_it_recovers():
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = script.form()
    script.split([0], [2])
    script.run(3.0)
    members = {host.replica for host in script.running() if host.channel.role in ("master", "slave")}
    assert len(members) == 2
    script.mend()
    master = script.whole()
    script.everywhere(script.submit(master))


def test_without_a_majority_the_cluster_blocks_and_does_not_err():
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = script.form()
    taken = script.submit(master, 3)
    script.everywhere(taken)
    script.hosts[1].crash()
    script.hosts[2].crash()
    pending = script.submit(master, 2)
    script.run(3.0)
    assert master.channel.role == "blocked"
    assert not master.channel.can_submit
    script.hosts[1].start()
    script.hosts[2].start()
    script.run(5.0)
    assert [host.channel.role for host in script.hosts] == ["blocked", "joining", "joining"]
    assert not set(pending) & set(script.delivered_once)
    assert script.first_times == 1


def test_two_dead_of_three_one_after_the_other_and_the_last_goes_on_with_a_voter():
    script = ScriptedCluster(3)
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    script.hosts[2].start()
    script.whole()
    script.hosts[0].crash()
    script.whole(but=[0])
    script.hosts[0].start()
    script.whole()
    script.hosts[1].crash()
    master = script.whole(but=[1])
    assert master.replica == 2
    script.everywhere(script.submit(master, 3))


def test_a_blocked_master_goes_on_when_the_others_return():
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = script.form()
    for host in script.hosts[1:]:
        host.pause()
    pending = script.submit(master, 2)
    script.until(lambda: master.channel.role == "blocked")
    for host in script.hosts[1:]:
        host.resume()
    script.whole()
    script.everywhere(pending)
    assert master.channel.role == "master"


def test_a_master_that_cannot_commit_applies_no_change_of_the_configuration():
    """Scenario 20, AddServer on a leader that cannot commit."""
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    before = script.hosts[0].channel.view.config
    script.cut((0, 1))
    script.hosts[2].start()
    script.until(lambda: master.state.log.reconfig(0) is not None)
    script.run(0.2)
    assert master.channel.view.config == before
    script.mend()
    script.whole()
    assert len(script.hosts[0].channel.view.config) == 3


def test_a_slow_slave_cannot_fill_the_memory():
    """Scenario 25."""
    settings = Settings(mode="MAJORITY", window=64, keep=64, max_log=600, stall_s=1000.0, suspect_s=1000.0)
    script = ScriptedCluster(3, settings=settings)
    master = script.form()
    script.cut((0, 2))
    for _ in range(100):
        script.submit(master, 20)
        script.run(0.02)
    assert len(master.state.log) < 900
    assert script.master() is master
    assert master.channel.members == (0, 1)
    script.mend()
    script.whole()


def test_a_replica_that_was_away_for_long_comes_back_by_snapshot():
    """Scenario 26."""
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5, keep=10))
    master = script.form()
    script.split([2], [0, 1])
    script.whole(but=[2])
    for _ in range(30):
        script.submit(master, 10)
        script.run(0.05)
    script.mend()
    script.whole()
    assert script.counts["snapshots"] == 1
    assert script.hosts[2].incarnation == 3
    assert script.hosts[2].app.chain == script.hosts[0].app.chain


def test_a_replica_that_was_away_shortly_comes_back_by_entries():
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5))
    master = script.form()
    seen = []
    deliver = script.hosts[2].deliver
    script.hosts[2].deliver = lambda peer, message: (seen.append(type(message)), deliver(peer, message))
    script.split([2], [0, 1])
    script.whole(but=[2])
    script.submit(master, 30)
    script.mend()
    script.whole()
    assert script.counts["snapshots"] == 0
    assert CatchUp in seen
    assert Chunk not in seen


def test_a_restart_never_delivers_what_was_not_committed():
    """Scenario 28."""
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    master = script.form()
    script.everywhere(script.submit(master, 5))
    script.cut((0, 1), (0, 2))
    pending = script.submit(master, 5)
    script.run(0.05)
    master.crash()
    script.mend()
    script.run(1.0)
    master.start()
    script.whole()
    script.everywhere(script.submit(script.master(), 2))
    assert not set(pending) & set(script.delivered_once)
    assert len({host.app.chain for host in script.hosts}) == 1


def test_entries_that_one_slave_has_are_kept_or_dropped_everywhere():
    script = ScriptedCluster(5, settings=SLOW_SUSPICION, weather=Weather(slow_chance=0.0, notice_s=0.01))
    script.form()
    script.cut((0, 1), (0, 2), (0, 3))
    pending = script.submit(script.hosts[0], 4)
    script.run(0.05)
    assert script.hosts[4].channel.last == 4
    script.hosts[0].crash()
    script.mend()
    heir = script.whole(but=[0])
    assert heir.replica == 1
    assert script.deliveries[1] == script.deliveries[4] == pending
