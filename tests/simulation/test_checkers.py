"""Checkers whose invariant has several of them: each one is the first to notice a mutant."""

import pytest

from quorate.hachannel import Settings
from quorate.testing.channel.violation import Violation
from quorate.testing.checks import Step
from quorate.testing.checks.commits import AllModeQuorum, StableNotification
from quorate.testing.checks.forwards import SubmissionDelivery
from quorate.testing.checks.leases import LeaseNotification
from quorate.testing.checks.logs import AcknowledgedBeforeTrim
from quorate.testing.checks.masters import SingleCommitter
from quorate.testing.checks.serving import ViewBeginning
from quorate.testing.mutation import hunt
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


@pytest.mark.parametrize(
    ("checker", "name"),
    [
        (AllModeQuorum, "one_slave_short"),
        (StableNotification, "stable_not_reported"),
        (LeaseNotification, "gain_reported_twice"),
        (AcknowledgedBeforeTrim, "trimmed_before_acknowledged"),
        (ViewBeginning, "own_acceptance_counted_unsynced"),
        (SubmissionDelivery, "newest_forgotten"),
    ],
)
def test_a_checker_notices_its_mutant_before_the_others_do(mutants, monkeypatch, checker, name):
    notices = []
    fail = checker.fail

    def noting(self, host, text):
        notices.append(text)
        fail(self, host, text)

    monkeypatch.setattr(checker, "fail", noting)
    catch = hunt(mutants[name], 5)
    assert catch is not None
    assert [catch.reason.partition(": replica ")[2].partition(": ")[2]] == notices


def test_an_earlier_master_with_a_quorum_beside_a_later_one_is_noticed():
    cluster = ScriptedCluster(3, settings=Settings(mode="MAJORITY"))
    old = cluster.form()
    old.pause()
    cluster.until(lambda: cluster.hosts[1].channel.role == "master" and cluster.hosts[2].state.serving)
    new, slave = cluster.hosts[1:]
    assert old.state.leading
    checker = SingleCommitter(cluster)
    step = Step(new, None, cluster.processes[new.state.me], added=[], views=[], binding=[])
    checker.stepped(step)
    slave.state.promised = old.state.promised
    with pytest.raises(Violation, match=f"{old} can still commit"):
        checker.stepped(step)
