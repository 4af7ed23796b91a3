"""Mutants of view changes: whose promises count, which log is adopted, and when a view is active."""

from functools import partial

import attrs
import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.model import view
from quorate.hachannel.model.messages import Join, decode_reconfig
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.view_change import choice, election, installation, invitation
from quorate.testing.channel import world
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_voter_that_dies_when_it_is_added():
    """A fourth voter is added and dies; a third one promises the next view and is cut off then."""
    settings = Settings(mode="MAJORITY", suspect_s=0.5, view_change_s=0.4)
    cluster = ScriptedCluster(4, settings=settings, snapshot_s=2.0)
    cluster.form()
    cluster.hosts[3].crash()
    master = cluster.whole(but=[3])
    cluster.hosts[3].start()
    cluster.until(lambda: 3 not in {voter.replica for voter in master.channel.view.config})
    cluster.split([2], [0, 1, 3])
    cluster.whole(but=[2, 3])
    cluster.mend()

    def adds():
        entry = master.state.log.reconfig(master.state.accepted.start)
        return entry is not None and getattr(decode_reconfig(entry.payload), "add", False)

    cluster.until(adds)
    cluster.hosts[3].crash()
    cluster.until(lambda: master.channel.installing is not None)
    cluster.split([2], [0, 1, 3])
    cluster.run(1.0)
    cluster.mend()
    cluster.hosts[3].start()
    cluster.whole()


@mutant("A proposer sends Record before all members have accepted.")
def recorded_before_accepted():
    with patched(installation.Installation, "complete", lambda *_: True):
        yield


@mutant("A view is active once both majorities know it, even if a member lacks its log.")
def active_before_all_members_accepted():
    def activated(have, source, active, new):
        if source is not None and view.present(have, source.config) < choice.quorum_of(source, active):
            return False
        return view.present(have, new.config) >= choice.quorum_of(new, False)

    with patched(installation, "activated", activated):
        yield


@mutant(
    "A view is active once its members have accepted it, even if no majority knows it.",
    caught=("I2",),
    quick=True,
)
def active_without_majority():
    with (
        patched(installation, "activated", lambda have, source, active, new: set(new.members) <= set(have)),
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant(
    "A proposer counts from its accepted view instead of the highest view number that it has seen.",
    explore="view-change",
    budget={"cut": 0},
)
def number_reused():
    def counter(self):
        accepted = self._state.accepted
        return accepted.number.counter + 1 if accepted is not None else 1

    with patched(invitation.Invitations, "next_counter", counter):
        yield


@mutant("A voter accepts and records views below what it has promised.")
def promise_forgotten():
    with patched(installation.Installation, "_refused", lambda *_: False):
        yield


@mutant("A replica that restarts without its memory votes as the same voter.")
def amnesiac_votes():
    with patched(world.World, "incarnation", lambda _self: 1):
        yield


@mutant("No slave ever proposes while its view is active.")
def gate_closed():
    with patched(view_triggers.ViewTriggers, "_gate_open", lambda *_: False):
        yield


def _activated(have, source, active, new, *, old=0, own=0):
    """As the channel has it, but with so many voters less than a majority of the old or the own ones."""
    if not set(new.members) <= set(have):
        return False
    if source is not None and view.present(have, source.config) < choice.quorum_of(source, active) - old:
        return False
    return view.present(have, new.config) >= choice.quorum_of(new, False) - own


@mutant(
    "A view is active with one voter less than a majority of the configuration that it replaces.",
    caught=("I2",),
)
def old_quorum_one_short():
    with patched(installation, "activated", partial(_activated, old=1)):
        yield


@mutant(
    "A view is active with one voter less than a majority of its own configuration.",
    caught=("I2", "I12"),
    scenario=a_voter_that_dies_when_it_is_added,
)
def new_quorum_one_short():
    with patched(installation, "activated", partial(_activated, own=1)):
        yield


@mutant(
    "Only the voters of the new view must know it, not those of the view that it replaces.",
    explore="removing",
    budget={"tick": 0},
)
def old_configuration_not_asked():
    def activated(have, source, active, new):
        known = view.present(have, new.config)
        return set(new.members) <= set(have) and known >= choice.quorum_of(new, False)

    with patched(installation, "activated", activated), patched(choice, "overlap", lambda *_: ""):
        yield


@mutant("A member serves in a view before it knows that the view is active.")
def accepted_is_active():
    def on_new_view(original, self, now, voter, message):
        original(self, now, voter, message)
        if self._state.accepted == message.view:
            self.activate(now)

    with wrapped(installation.Installation, "on_new_view", on_new_view):
        yield


def members_that_lack_what_is_committed():
    """Three of five are members, two of them commit; the third one and the other voters must not go on."""
    cluster = ScriptedCluster(5, settings=Settings(mode="MAJORITY", suspect_s=0.5, view_change_s=0.4))
    cluster.form()
    cluster.split([3, 4], [0, 1, 2])
    cluster.whole(but=[3, 4])
    cluster.net.muted = Join
    cluster.mend()
    cluster.run(0.3)
    cluster.cut((0, 2))
    taken = cluster.submit(cluster.hosts[0], 3)
    cluster.run(0.1)
    assert cluster.deliveries[0] == taken
    cluster.split([0, 1], [2, 3, 4])
    cluster.run(3.0)
    assert cluster.hosts[2].channel.role == "blocked"
    cluster.net.muted = None
    cluster.mend()
    cluster.whole()


def a_voter_that_recorded_has_a_longer_log():
    """Entries of a lost master are only in the log of a voter that has recorded the next view since."""
    cluster = ScriptedCluster(5, settings=Settings(mode="MAJORITY", suspect_s=0.5, view_change_s=0.4))
    cluster.form()
    cluster.net.muted = Join
    cluster.cut((0, 1), (0, 2), (0, 3), (4, 0), (4, 1), (4, 2), (4, 3))
    lost = cluster.submit(cluster.hosts[0], 3)
    cluster.run(0.05)
    assert cluster.hosts[4].channel.last == len(lost)
    cluster.hosts[0].crash()
    cluster.until(
        lambda: cluster.hosts[1].channel.members == (1, 2, 3) and cluster.hosts[1].channel.can_submit
    )
    cluster.until(lambda: cluster.hosts[4].channel.view == cluster.hosts[1].channel.view)
    assert cluster.hosts[4].channel.last == len(lost)
    kept = cluster.submit(cluster.hosts[1])
    cluster.run(0.2)
    assert cluster.deliveries[1] == kept
    cluster.mend()
    cluster.run(0.2)
    cluster.hosts[1].crash()
    cluster.until(lambda: cluster.hosts[2].channel.can_submit)
    cluster.net.muted = None
    for replica in (0, 1):
        cluster.hosts[replica].start()
    cluster.whole()


@mutant("Choose does not need |R and M| >= |M| - k + 1.", scenario=members_that_lack_what_is_committed)
def members_overlap_removed():
    def overlap(answered, source, active):
        if view.present(answered, source.config) < choice.quorum_of(source, active):
            return "too few voters"
        return ""

    with (
        patched(choice, "overlap", overlap),
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant(
    "Choose does not need |R and C| >= maj(C).", explore="add-then-remove", budget={"tick": 0, "apart": 1}
)
def voters_overlap_removed():
    def overlap(answered, source, active):
        few = view.present(answered, source.members) < len(source.members) - source.k + 1
        return "too few members" if few else ""

    with (
        patched(choice, "overlap", overlap),
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant(
    "Choose may adopt the log of a voter that only recorded the view.",
    scenario=a_voter_that_recorded_has_a_longer_log,
)
def recorders_logs_adopted():
    def choose(original, promises, me):
        chosen = original(promises, me)
        if isinstance(chosen, str):
            return chosen
        same = choice.accepted_by(chosen.source, promises)
        holder = choice.longest(same, chosen.holder)
        return attrs.evolve(chosen, holder=holder, last=same[holder].last)

    with wrapped(election, "choose", choose):
        yield


@mutant("Choose needs one voter less than a majority of the configuration.", caught=("I2",))
def voters_overlap_one_short():
    original = choice.overlap

    def overlap(answered, source, active):
        reason = original(answered, source, active)
        enough = view.present(answered, source.config) >= choice.quorum_of(source, active) - 1
        return "" if "voters of view" in reason and enough else reason

    with (
        patched(choice, "overlap", overlap),
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant(
    "Choose needs one member less than |M| - k + 1.",
    caught=("I2", "I5", "I6"),
    scenario=members_that_lack_what_is_committed,
)
def members_overlap_one_short():
    original = choice.overlap

    def overlap(answered, source, active):
        reason = original(answered, source, active)
        enough = view.present(answered, source.members) >= len(source.members) - source.k
        return "" if "members of view" in reason and enough else reason

    with (
        patched(choice, "overlap", overlap),
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant("Half of a configuration is a majority.", caught=("I2", "I12"))
def half_is_a_majority():
    with (
        patched(view, "majority", lambda config: (len(config) + 1) // 2),
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant("A new view has members that did not promise it.")
def silent_members_kept():
    original = choice.choose

    def choose(promises, me):
        chosen = original(promises, me)
        return chosen if isinstance(chosen, str) else attrs.evolve(chosen, members=chosen.source.members)

    def install(self, now, attempt, chosen):
        own = attempt.promises[self._state.me]
        for voter in chosen.members:
            attempt.promises.setdefault(voter, own)
        original_install(self, now, attempt, chosen)

    original_install = election.Election._install
    with patched(election, "choose", choose), patched(election.Election, "_install", install):
        yield


@mutant(
    "A proposer makes itself the first member instead of yielding to the first one.",
    caught=("I2",),
    explore="quiet",
)
def seniority_ignored():
    def choose(original, promises, me):
        chosen = original(promises, me)
        if isinstance(chosen, str) or me not in chosen.members:
            return chosen
        return attrs.evolve(chosen, members=(me, *(voter for voter in chosen.members if voter != me)))

    with wrapped(election, "choose", choose):
        yield


@mutant(
    "Choose adopts the log of the lowest accepted view instead of the highest.",
    caught=("I2", "I4", "I5", "I6", "I17"),
)
def oldest_view_adopted():
    def choose(original, promises, me):
        views = {p.accepted.number for p in promises.values() if p.accepted is not None}
        if len(views) > 1:
            lowest = min(views)
            older = {
                voter: promise
                if promise.accepted is None or promise.accepted.number == lowest
                else msgspec.structs.replace(promise, accepted=None)
                for voter, promise in promises.items()
            }
            chosen = original(older, me)
            if not isinstance(chosen, str):
                return chosen
        return original(promises, me)

    with wrapped(election, "choose", choose):
        yield


@mutant("A promise says that the log ends at the commit index.", caught=("I5", "I6", "L1"))
def uncommitted_end_unsaid():
    def promise(original, self, number):
        said = original(self, number)
        return msgspec.structs.replace(said, last=self._state.log.tag(self._state.replicated.commit))

    with wrapped(election.Election, "_promise", promise):
        yield


@mutant("A proposer that promises a higher view goes on with its own.", caught=("I3",))
def proposal_survives_a_promise():
    def on_prepare(original, self, now, voter, message):
        with patched(election.Election, "abandon", lambda *_: None):
            original(self, now, voter, message)

    with wrapped(election.Election, "on_prepare", on_prepare):
        yield


@mutant(
    "Choose takes the shortest log instead of the longest.",
    caught=("I5", "I6", "I17"),
    explore="majority",
    budget={"cut": 0, "tick": 0},
)
def shortest_log():
    def shortest(holders, me):
        return min(holders, key=lambda voter: holders[voter].last.at, default=None)

    with patched(choice, "longest", shortest):
        yield
