"""Schedules: written, read, drawn and shortened; and the effects of their faults."""

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.hachannel import Channel, Settings
from quorate.testing import (
    FAULTS,
    Add,
    Break,
    CorruptDisk,
    Crash,
    CrashAll,
    CrashProposer,
    CrashStep,
    CrashTransfer,
    Cut,
    Delay,
    Duplicate,
    FullDisk,
    Garbage,
    Heal,
    Isolate,
    Leave,
    LoseDisk,
    Loss,
    Mute,
    OneWay,
    Partition,
    Pause,
    Remove,
    Reorder,
    SlowDisk,
    Start,
    Submit,
    TornWrite,
)
from quorate.testing.channel.cluster_shape import Shape
from quorate.testing.channel.network import Weather
from quorate.testing.channel.violation import Violation
from quorate.testing.schedules.command import command
from quorate.testing.schedules.random_schedules import administered, draw
from quorate.testing.schedules.schedule import Schedule, ScheduleError, read
from quorate.testing.schedules.shrink import shrink
from quorate.testing.schedules.simulation import simulate

from ..long import LONG

EVERYTHING = [
    Crash(who=1, at=1.0, back_s=0.2),
    CrashStep(who="slave", at=1.5, steps=5),
    Pause(who="master", at=2.0, for_s=0.3),
    Partition(groups=((0,), (1, 2)), at=3.0, for_s=0.5),
    Isolate(who=2, at=4.5, for_s=0.2),
    Cut(one=0, other=1, at=5.0, for_s=0.2),
    OneWay(sender=1, receiver=2, at=5.5, for_s=0.2),
    Break(one=0, other=2, at=6.0),
    Loss(chance=0.2, at=6.2, for_s=0.5),
    Duplicate(chance=0.5, at=6.3, for_s=0.5),
    Reorder(chance=0.5, at=6.4, for_s=0.5),
    Delay(seconds=0.1, at=6.5, for_s=0.5),
    Garbage(one=0, other=1, at=8.0),
    SlowDisk(seconds=0.05, at=8.2, for_s=0.3),
    LoseDisk(who=0, at=9.0, back_s=0.1),
    CorruptDisk(who=1, at=15.0, back_s=0.1),
    FullDisk(who="master", at=20.0, back_s=0.3),
    CrashAll(at=25.0, back_s=0.2),
    Leave(who=2, at=30.0, back_s=None),
    Start(who=2, at=33.0),
    Crash(who=0, at=36.0, back_s=None),
    Heal(at=36.5),
    Submit(who="any", count=2, at=36.6),
]


def test_every_kind_of_fault_is_injected_by_a_written_schedule():
    result = simulate(Schedule(faults=EVERYTHING, shape=Shape(disk=True)), seed=1)
    missing = {fault.name for fault in EVERYTHING} - set(result.faults)
    assert missing <= {"submit"}
    assert result.delivered > 1000
    assert result.healed_s < 20


def test_a_torn_write_without_a_waiting_write_is_skipped():
    shape = Shape(disk=True, sync_s=0.2)
    result = simulate(Schedule(faults=[TornWrite(at=2.0 + 0.1 * n) for n in range(20)], shape=shape), seed=1)
    assert result.faults["torn-write"]


def test_a_schedule_written_to_a_file_is_read_back_unchanged(tmp_path):
    schedule = Schedule(faults=EVERYTHING, shape=Shape(replicas=3, disk=True), load=3.0, deaths="first")
    path = tmp_path / "schedule.json"
    path.write_bytes(schedule.to_json(17))
    again, seed = read(path)
    assert seed == 17
    assert list(again.faults) == EVERYTHING
    assert again.shape == schedule.shape
    assert (again.end, again.load, again.deaths) == (schedule.end, 3.0, "first")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "it is no whole JSON object: something is missing at its end"),
        ('{"seconds":\n 1,}', "it is no JSON at line 2, column 4: "),
        ('{"seconds": 1e999}', "it is no JSON: "),
        ('{"seconds": 1, "seconds": 2}', "the field 'seconds' is there twice in one object"),
        ('{"faults": [{"fault": "crash", "at": 1, "at": 1}]}', "the field 'at' is there twice in one object"),
        ("[]", r"it is \[\]: give an object"),
        ('{"seed": "x"}', "seed is 'x': give a whole number"),
        ('{"lease": "no"}', "lease is 'no': give true or false"),
        ('{"seconds": "1"}', "seconds is '1': give a number or null"),
        ('{"shape": 5}', "shape is 5: give an object"),
        ('{"shape": {"replicas": "3"}}', "shape.replicas is '3': give a whole number"),
        ('{"shape": {"settings": {"mode": 5}}}', "shape.settings.mode is 5: give one of 'ALL', 'MAJORITY'"),
        ('{"shape": {"settings": {"window": 0}}}', "shape.settings: window is 0: a whole number, at least 1"),
        ('{"faults": [{"at": 1}]}', "fault 0 lacks the field 'fault', with its name: one of crash"),
        (
            '{"faults": [{"fault": "crash", "at": 1, "who": 1.5}]}',
            "crash: who is 1.5: give a whole number or one of 'any', 'master'",
        ),
        (
            '{"faults": [{"fault": "partition", "at": 1, "groups": [[0, "x"]]}]}',
            r"groups\[0\]\[1\] is 'x': give a whole number",
        ),
        ('{"faults": [{"fault": "flood", "at": 1}]}', "there is no fault 'flood'"),
        ('{"faults": [{"fault": ["crash"], "at": 1}]}', "fault 0: there is no fault"),
        ('{"faults": [' + "[" * 3000 + "]" * 3000 + "]}", "nested too deeply|fault 0"),
        ('{"faults": [{"fault": "crash"}]}', "fault 0, crash: at is missing"),
        (
            '{"faults": [{"fault": "crash", "at": 1, "who": "nobody"}]}',
            "fault 0, crash: who is 'nobody': give a whole number or one of",
        ),
        ('{"faults": [{"fault": "heal", "at": 1}, 7]}', "fault 1 is no object"),
        ('{"faults": {"at": 1}}', "faults is .*: give a list"),
        (
            '{"faults": [{"fault": "crash", "at": 1, "whom": 1}]}',
            "fault 0, crash: there is no field 'whom', but who, back_s",
        ),
        (
            '{"faults": [{"fault": "heal", "at": 1}, {"fault": "pause", "at": -1}]}',
            "fault 1, pause: at is -1",
        ),
        ('{"shape": {"replica": 3}}', "shape has no 'replica', but replicas, "),
        ('{"shape": {"settings": {"suspect": 3}}}', "shape.settings has no 'suspect'"),
        ('{"shape": {"weather": {"delay_s": -1}}}', "shape.weather: delay_s is -1"),
        ('{"shape": {"replicas": 2, "expected": 3}}', "shape: expected is 3"),
        ('{"seconds": -1}', "seconds is -1"),
        ('{"replicas": 3}', "there is no field 'replicas', but seed, faults, shape, seconds, "),
        ('{"faults": [{"fault": null}]}', "there is no fault null, but crash"),
        ('{"faults": [[true, null]]}', r"fault 0 is no object .*: \[true,null\]"),
        ('{"faults": [{"fault": "crash", "at": 1, "who": "nobody"}]}', "one of 'any', 'master', 'slave', "),
        ('{"shape": {"settings": {"mode": "MOST"}}}', "mode is 'MOST': give one of 'ALL', 'MAJORITY'"),
        ('{"faults": [{"fault": "lose-disk", "at": 1}]}', "disk of the shape must be true"),
        ('{"faults": [{"fault": "crash", "at": 1e308}]}', r"crash: at is 1e\+308: at most 3600 seconds"),
        ('{"faults": [{"fault": "pause", "at": 1, "for_s": 3601}]}', "for_s is 3601: at most 3600 seconds"),
        ('{"faults": [{"fault": "crash", "at": 1, "back_s": 1e9}]}', "back_s is 1e"),
        ('{"faults": [{"fault": "delay", "at": 1, "seconds": 1e9}]}', "delay: seconds is 1e"),
        ('{"seconds": 1e300}', r"seconds is 1e\+300: at most 3600 seconds"),
        ('{"spread_s": 3601}', "spread_s is 3601: at most 3600 seconds"),
        ('{"seed": -1}', "seed is -1: a whole number from 0"),
        ('{"shape": {"settings": {"max_payload_bytes": 1}}}', "max_payload_bytes is 1: at least 16"),
    ],
)
def test_an_invalid_file_is_refused_with_the_place_of_its_error(tmp_path, text, sentence):
    path = tmp_path / "schedule.json"
    path.write_text(text)
    with pytest.raises(ScheduleError, match=sentence):
        read(path)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Crash(who=3, at=1.0), "fault 1, crash: who is 3: replicas are 0 to 2"),
        (Crash(who=-1, at=1.0), "who is -1"),
        (Crash(who="nobody", at=1.0), "who is 'nobody': give a whole number or one of 'any', 'master', "),
        (Crash(at=-1.0), "at is -1: times are seconds"),
        (Crash(at="soon"), "at is 'soon': give a number"),
        (Pause(at=1.0, for_s=float("nan")), "for_s is nan"),
        (Leave(at=1.0, back_s=-2.0), "back_s is -2"),
        (CrashStep(at=1.0, steps=-1), "steps is -1"),
        (Submit(at=1.0, count=0), "count is 0: at least 1"),
        (Submit(at=1.0, count=10_001), "count is 10001: at most 10000"),
        (Loss(at=1.0, chance=1.5), "chance is 1.5: chances are from 0 to 1"),
        (Cut(one=1, other=1, at=1.0), "names replica 1 twice"),
        (OneWay(sender=2, receiver=2, at=1.0), "names replica 2 twice"),
        (Break(one=1, other=1, at=1.0), "fault 1, break: it names replica 1 twice"),
        (Garbage(one=0, other=0, at=1.0), "fault 1, garbage: it names replica 0 twice"),
        (OneWay(sender=0, receiver=9, at=1.0), "receiver is 9"),
        (Partition(at=1.0), "groups name no replica"),
        (Partition(at=1.0, groups=((), ())), "groups name no replica"),
        (Partition(at=1.0, groups=((0,), (7,))), "groups name replica 7"),
        (Partition(at=1.0, groups=((0,), (0, 1))), "replica 0 is in two groups"),
        (Remove(who=5, at=1.0), "who is 5"),
        (Start(who="master", at=1.0), "a replica that does not run is nobody"),
        (Mute(message="Jion", at=1.0), "'Jion', which is no type of message"),
        (LoseDisk(at=1.0), "it needs replicas with disks"),
        (Crash(at=9.0), "at is 9, and the faults end at 5"),
        ("crash", "fault 1 is no fault: 'crash'"),
    ],
)
def test_an_impossible_fault_is_refused_with_its_position_before_the_run(fault, sentence):
    with pytest.raises(ScheduleError, match=sentence):
        Schedule(faults=[Heal(at=0.5), fault], seconds=5.0)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"replicas": 0}, "replicas is 0"),
        ({"replicas": 4, "expected": 2}, "expected is 2: more than half of the 4"),
        ({"replicas": 3, "witnesses": 3}, "witnesses is 3"),
        ({"replicas": 2, "settings": Settings(min_copies=3)}, "min_copies is 3"),
        ({"snapshot_s": -1.0}, "snapshot_s is -1"),
        ({"drift": 0.9}, "drift is 0.9"),
        ({"chunk": 0}, "at least 1"),
        ({"replicas": "3"}, "replicas is '3': give a whole number"),
        ({"expected": None}, "expected is None: give a whole number"),
        ({"snapshot_s": "1"}, "snapshot_s is '1': give a number"),
        ({"disk": 1}, "disk is 1: give true or false"),
        ({"settings": {"mode": "ALL"}}, r"settings is .*: give Settings\(\.\.\.\)"),
        ({"weather": None}, r"weather is None: give Weather\(\.\.\.\)"),
    ],
)
def test_an_impossible_shape_is_refused(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        Shape(**fields)


def test_all_replicas_found_the_cluster_unless_the_shape_says_otherwise():
    assert [Shape(replicas=count).expected for count in (1, 2, 5)] == [1, 2, 5]
    assert simulate(Schedule(shape=Shape(replicas=2), seconds=1.0)).views == 1


@pytest.mark.parametrize("who", ["master", "slave", "any", 2])
def test_a_replica_removed_by_its_role_does_not_return(who):
    result = simulate(Schedule(faults=[Remove(who=who, at=2.0)], seconds=3.0), seed=1)
    assert result.faults == {"remove": 1}
    assert result.healed_s < 5


def test_any_replica_that_does_not_run_is_started():
    faults = [Crash(who=1, at=1.5, back_s=None), Start(who="any", at=2.0), Start(who="any", at=2.5)]
    result = simulate(Schedule(faults=faults), seed=1)
    assert result.faults == {"crash": 1, "start": 1}
    assert result.skipped == 1


def test_a_fault_may_name_a_replica_that_an_earlier_fault_adds():
    faults = [Add(at=1.5), Crash(who=3, at=3.0), Remove(who=3, at=5.0)]
    assert simulate(Schedule(faults=faults), seed=1).faults["crash"] == 1
    with pytest.raises(ScheduleError, match="who is 4: replicas are 0 to 3"):
        Schedule(faults=[*faults, Crash(who=4, at=6.0)])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"faults": Crash(who=0, at=1.0)}, "give a list of faults"),
        ({"shape": {"replicas": 3}}, "give a Shape"),
        ({"load": 1e9}, "load is 1000000000.0: at most 10000 a second"),
        ({"administrator": 1e9}, "administrator is 1000000000.0: at most 10000 a second"),
        ({"load": None}, "load is None: a number from 0"),
        ({"load": "20"}, "load is '20': a number from 0"),
        ({"lease": "no"}, "lease is 'no': true or false"),
        ({"deaths": "some"}, "deaths is 'some': one of none, first, last"),
        ({"shape": Shape(settings=Settings(max_payload_bytes=1))}, "max_payload_bytes is 1: at least 16"),
    ],
)
def test_a_schedule_with_an_invalid_field_is_refused(fields, sentence):
    with pytest.raises(ScheduleError, match=sentence):
        Schedule(**fields)


def test_a_file_with_invalid_settings_is_refused(tmp_path):
    path = tmp_path / "schedule.json"
    for setting in (b'"window": 0', b'"heartbeat_s": 0', b'"mode": "MOST"', b'"stall_s": -1'):
        path.write_bytes(b'{"seconds": 1, "shape": {"settings": {%s}}}' % setting)
        with pytest.raises(ScheduleError, match="is no schedule"):
            read(path)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, True, None])
def test_a_schedule_is_not_written_with_an_invalid_seed(seed):
    with pytest.raises(ScheduleError, match=f"seed is {seed!r}: give a whole number, from 0"):
        Schedule(seconds=1.0).to_json(seed)


def test_an_unknown_invariant_is_refused():
    with pytest.raises(ValueError, match=r"there is no invariant 'I99' to check\. There are: I1, "):
        simulate(Schedule(seconds=1.0), only=["I99"])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: simulate("crash"), "schedule is 'crash': give a Schedule"),
        (lambda: simulate(seed="7"), "seed is '7': give a whole number"),
        (lambda: simulate(seed=-1), "seed is -1: give a whole number, from 0"),
        (lambda: simulate(channel=object), "channel is <class 'object'>: give a subclass of Channel, or"),
        (lambda: simulate(channel=5), "channel is 5: give a subclass of Channel, or a function"),
        (lambda: simulate(only="I3"), r"only is 'I3': give a list of names, \['I3'\]"),
        (lambda: draw("7"), "seed is '7': give a whole number"),
        (lambda: draw(-1), "seed is -1: give a whole number, from 0"),
        (lambda: draw(1, "crash"), "kinds is 'crash': give a list of names of faults"),
        (lambda: draw(1, ["flood"]), "there is no fault 'flood'. There are: crash, "),
        (lambda: draw(1, profile="odd"), "there is no profile 'odd'. There are: all, "),
        (lambda: Weather(delay_s="1"), "delay_s is '1': give a number"),
        (lambda: Weather(loss_chance=None), "loss_chance is None: give a number"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize("factory", [lambda *a, **k: Channel(*a, **k), partial(Channel)])
def test_channels_come_from_a_class_a_function_or_a_partial(factory):
    assert simulate(Schedule(seconds=1.0), channel=factory).views == 1


UNHEALABLE = [
    ({"weather": {"loss_chance": 1}}, "loss_chance is 1, and with more than 0.1 for good no cluster need"),
    ({"weather": {"reconnect_s": 1e9}}, "reconnect_s is 1e.09: at most 10"),
    ({"weather": {"notice_s": 60}}, "notice_s is 60: at most 10"),
    ({"weather": {"delay_s": 100}}, "a message and its answer take 200 s in this network"),
    ({"weather": {"slow_s": 20}}, "slow_s is 20, and after suspect_s, 2, "),
    ({"settings": {"retry_s": 1e9}}, "retry_s is 1e.09: at most 20"),
    ({"settings": {"boot_wait_s": 100}}, "boot_wait_s is 100: at most 20"),
    ({"stop_s": 100}, "stop_s is 100: at most 20"),
    ({"disk": True, "sync_s": 2}, "sync_s is 2, and a view change has 1 s for two syncs"),
]


@pytest.mark.parametrize(("shape", "sentence"), UNHEALABLE)
def test_a_cluster_that_could_not_recover_is_refused_before_the_run(tmp_path, shape, sentence):
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"seconds": 1, "lease": False, "shape": shape}))
    schedule, seed = read(path)
    with pytest.raises(ScheduleError, match=sentence):
        simulate(schedule, seed=seed)
    assert simulate(schedule, seed=seed, live=False).steps
    result = CliRunner().invoke(command, ["--schedule", str(path)])
    assert result.exit_code == 2
    assert sentence.split(",")[0].replace(".09", "+09") in " ".join(result.output.split())


LINGERING = [
    ([Delay(at=1.0, seconds=40.0)], None, "fault 0, delay: seconds is 40: at most 10, "),
    ([Heal(at=0.5), SlowDisk(at=1.0, seconds=300.0)], None, "fault 1, slow-disk: seconds is 300: at most 10"),
    ([Delay(at=1.0, seconds=13.0, for_s=3.0)], 6.0, "seconds is 13: at most 12, .* end at 6"),
    ([Delay(at=1.0, seconds=13.0, for_s=None)], 6.0, "seconds is 13: at most 10, "),
    ([SlowDisk(at=1.0, seconds=13.0, for_s=9.0)], 6.0, "seconds is 13: at most 10, "),
]


@pytest.mark.parametrize(("faults", "seconds", "sentence"), LINGERING)
def test_a_fault_that_delays_beyond_the_recovery_bound_is_refused(tmp_path, faults, seconds, sentence):
    path = tmp_path / "schedule.json"
    schedule = Schedule(faults=faults, seconds=seconds, shape=Shape(disk=True))
    path.write_bytes(schedule.to_json(1))
    with pytest.raises(ScheduleError, match=sentence):
        simulate(schedule)
    assert simulate(schedule, live=False).steps
    result = CliRunner().invoke(command, ["--schedule", str(path)])
    assert result.exit_code == 2
    assert "or the cluster need not recover in time" in " ".join(result.output.split())


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (Delay(at=1.0, seconds=10.0, for_s=None), None),
        (Delay(at=1.0, seconds=40.0), 35.0),
        (SlowDisk(at=1.0, seconds=10.0), None),
        (SlowDisk(at=1.0, seconds=300.0), 295.0),
    ],
)
def test_a_cluster_recovers_from_the_longest_allowed_delay(fault, seconds, seed):
    schedule = Schedule(faults=[fault], seconds=seconds, shape=Shape(disk=True))
    assert simulate(schedule, seed=seed).faults == {fault.name: 1}


def test_a_schedule_without_faults_runs_for_a_while_and_converges():
    result = simulate(Schedule(seconds=1.0), seed=3)
    assert result.views == 1
    assert result.faults == {}


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize(("deaths", "views"), [("none", 1), ("first", 3), ("last", 2)])
def test_a_majority_recovers_while_others_stay_dead(deaths, views, disk):
    """At first: they come back when the others have recovered."""
    result = simulate(Schedule(seconds=2.0, deaths=deaths, shape=Shape(disk=disk)), seed=3)
    assert result.lost == (deaths != "none")
    assert result.views >= views


def test_no_replica_stays_dead_that_the_others_need():
    shape = Shape(replicas=3, settings=Settings(min_copies=3))
    assert simulate(Schedule(seconds=2.0, deaths="first", shape=shape), seed=3).lost == 0


def test_a_network_too_slow_for_the_lease_is_refused_unless_lease_is_false(tmp_path):
    slow = Shape(weather=Weather(delay_s=0.4, slow_chance=0.0), settings=Settings(lease_s=0.5))
    with pytest.raises(ScheduleError, match=r"lease_s is 0\.5 seconds, and this network may need 0\.9"):
        Schedule(shape=slow)
    path = tmp_path / "schedule.json"
    schedule = Schedule(shape=slow, seconds=1.0, lease=False)
    path.write_bytes(schedule.to_json(1))
    assert read(path)[0].lease is False
    path.write_bytes(schedule.to_json(1).replace(b'"lease": false', b'"lease": true'))
    with pytest.raises(ScheduleError, match="raise lease_s, or set lease to false"):
        read(path)
    assert simulate(schedule, seed=1).views


def test_on_narrow_connections_the_lease_error_names_part_bytes():
    with pytest.raises(ScheduleError, match=r"seconds, .* lower part_bytes, raise lease_s, or set lease"):
        Schedule(shape=Shape(weather=Weather(bytes_per_s=10_000)))
    Schedule(shape=Shape(weather=Weather(bytes_per_s=10_000), settings=Settings(part_bytes=1000)))


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_every_random_schedule_has_settings_that_fit_its_network(first):
    for seed in range(first, first + 100):
        for schedule in (draw(seed), draw(seed, disk=True), administered(seed)):
            settings = schedule.shape.settings
            assert schedule.lease
            assert settings.lease_s > schedule.shape.least_lease_s
            assert settings.suspect_s > schedule.shape.round_trip_s
            schedule.must_recover()


def test_a_fault_that_no_cluster_survives_is_skipped_unless_forced():
    gone = [Crash(who=who, at=2.0 + who / 10, back_s=None) for who in (0, 1, 2)]
    skipped = simulate(Schedule(faults=gone), seed=1)
    assert skipped.skipped >= 1
    assert skipped.healed_s > 0.0
    forced = [Crash(who=who, at=2.0 + who / 100, back_s=None, force=True) for who in (0, 1)]
    result = simulate(Schedule(faults=forced), seed=1)
    assert result.faults["crash"] == 2
    assert result.healed_s == 0.0


@pytest.mark.parametrize("kind", [LoseDisk, CorruptDisk])
@pytest.mark.parametrize("force", [(True, True), (False, True), (True, True, True)])
def test_no_recovery_is_demanded_after_too_many_disks_are_lost_by_force(kind, force):
    lost = [kind(who=who, at=2.0 + who / 100, force=by_force) for who, by_force in enumerate(force)]
    result = simulate(Schedule(shape=Shape(disk=True), faults=lost), seed=1)
    assert result.faults == {kind.name: len(force)}
    assert result.skipped == 0
    assert result.healed_s == 0.0


@pytest.mark.parametrize("kind", [Crash, CrashProposer, CrashTransfer])
def test_recovery_is_demanded_after_forced_crashes_that_keep_the_disks(kind):
    killed = [kind(who=who, at=2.0 + who / 100, back_s=None, force=True) for who in range(3)]
    result = simulate(Schedule(shape=Shape(disk=True), faults=killed), seed=1)
    assert result.faults == {kind.name: 3}
    assert result.healed_s > 0.0


def test_recovery_is_demanded_after_a_forced_loss_that_the_cluster_survives():
    lost = [LoseDisk(who=0, at=2.0, force=True), Crash(who=1, at=2.01, force=True)]
    result = simulate(Schedule(shape=Shape(disk=True), faults=lost), seed=1)
    assert result.faults == {"lose-disk": 1, "crash": 1}
    assert result.healed_s > 0.0


def test_a_cluster_with_disks_survives_the_crash_of_all_processes():
    schedule = Schedule(faults=[CrashAll(at=1.0 + n, back_s=0.3) for n in range(5)], shape=Shape(disk=True))
    result = simulate(schedule, seed=1)
    assert result.faults["crash-all"] == 5
    assert result.views >= 4


def test_an_administrator_replaces_a_replica_while_its_master_dies():
    schedule = Schedule(
        faults=[Add(at=2.0), Remove(who=1, at=4.0), Crash(who="master", at=4.01), Add(who=1, at=6.0)],
        seconds=8.0,
    )
    result = simulate(schedule, seed=2)
    assert result.faults["add"] >= 1
    assert result.views >= 4


def test_random_schedules_have_only_the_requested_faults():
    schedule = draw(6, ["pause", "torn-write"], disk=True)
    assert {fault.name for fault in schedule.faults} == {"pause", "torn-write"}
    assert {fault.name for seed in range(12) for fault in draw(seed, disk=False).faults}.isdisjoint(
        {name for name, fault in FAULTS.items() if fault.disk}
    )


class Deaf(Channel):
    """Raises when a peer is gone."""

    def disconnected(self, now, peer, *, ended=False):
        raise RuntimeError("made up")


def test_an_exception_in_a_replica_is_a_violation_with_seed_and_trace():
    with pytest.raises(Violation, match="RuntimeError: made up") as caught:
        simulate(Schedule(faults=[Crash(who=1, at=1.5)]), seed=8, channel=Deaf)
    violation = caught.value
    assert (violation.invariant, violation.seed) == ("raised", 8)
    assert violation.at > 1.5
    assert any("fault: crash" in line for line in violation.trace)


class Silent(Channel):
    """Takes no part in anything."""

    def receive(self, now, peer, message):
        pass


def test_a_violation_of_recovery_names_the_parts_of_its_bound():
    with pytest.raises(Violation, match=r"not whole 30 s after healing \(20 s, and 10 s for transfers\): "):
        simulate(Schedule(seconds=1.0), seed=1, channel=Silent)


def test_a_failing_schedule_is_shortened_to_the_needed_faults():
    noise = [Pause(at=1.0 + n / 10, for_s=0.05) for n in range(12)]
    crash = Crash(who=1, at=1.55)
    schedule = Schedule(faults=[*noise, crash, *noise])
    with pytest.raises(Violation) as caught:
        simulate(schedule, seed=8, channel=Deaf)
    dropped, violation = shrink(schedule, caught.value, channel=Deaf)
    assert [fault for n, fault in enumerate(schedule.faults) if n not in dropped] == [crash]
    assert violation.invariant == "raised"


def test_the_page_has_the_fields_of_every_fault():
    page = (Path(__file__).parents[2] / "docs" / "simulation-reference.md").read_text()
    for kind in FAULTS.values():
        defaults = dict(
            zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False)
        )
        fields = ", ".join(f"`{name}={defaults[name]!r}`" for name in kind.__struct_fields__ if name != "at")
        assert f"| `{kind.__name__}` | {fields} |" in page


@pytest.mark.parametrize("seed", [0, 4, 6])
def test_a_log_kept_for_a_learner_does_not_violate_the_byte_bound(seed):
    """Until its next heartbeat the master has what all have, though it gives the state to nobody any more."""
    settings = Settings(
        keep=0, keep_bytes=0, max_log_bytes=60, part_bytes=40, verify_s=0.03, retry_s=0.05, suspect_s=0.6
    )
    shape = Shape(settings=settings, parts=False, chunk=5, snapshot_s=0.2)
    breaks = [Break(one=0, other=2, at=1.1 + number * 0.1) for number in range(8)]
    simulate(Schedule(shape=shape, faults=[Crash(who=2, at=0.7, back_s=0.15), *breaks], load=50.0), seed=seed)
