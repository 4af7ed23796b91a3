"""Mutants of when a replica serves: which messages activate a view, and what ends it."""

import msgspec

from quorate.hachannel.model.messages import Activate, Data, Entry, Heartbeat, Prepare
from quorate.hachannel.protocol import dispatch, heartbeats
from quorate.hachannel.replication import replica_state
from quorate.hachannel.view_change import installation
from quorate.testing.channel.host import Host
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def _accepts_before_the_others() -> tuple[ScriptedCluster, Host, Host, Entry]:
    """A slave dies. Another one has accepted the next view, and a third one has not.

    Returns that other one, the master of both views and an entry of the view before.
    """
    cluster = ScriptedCluster(4)
    master = cluster.form()
    cluster.everywhere(cluster.submit(master, 3))
    entry = master.state.log.get(master.channel.last)
    before = master.state.accepted
    assert entry.view == before.number
    cluster.hosts[3].crash()
    slaves = cluster.hosts[1:3]

    def accepted() -> list[Host]:
        return [host for host in slaves if host.state.accepted.number > before.number]

    cluster.until(lambda: bool(accepted()))
    [first] = accepted()
    assert first.state.accepted.members[0] == before.members[0]
    assert first.state.promised == first.state.accepted.number
    return cluster, first, master, entry


def _begins_with_the_others(cluster: ScriptedCluster, host: Host) -> None:
    assert not host.state.serving, "a word of the view before is taken for one of this view"
    cluster.everywhere(cluster.submit(cluster.whole(but=[3]), 3))
    assert host.state.serving


def it_is_told_late_that_the_view_before_is_active():
    """By the master of both views."""
    cluster, host, master, entry = _accepts_before_the_others()
    host.deliver(master.replica, Activate(entry.view))
    _begins_with_the_others(cluster, host)


def an_entry_of_the_view_before_comes_late():
    """From the master of both views."""
    cluster, host, master, entry = _accepts_before_the_others()
    host.deliver(master.replica, Data(entry, entry.index, 0, 0))
    _begins_with_the_others(cluster, host)


def a_heartbeat_of_the_view_before_comes_late():
    """Its sender is a member of both views, and was active in the first one."""
    cluster, host, master, entry = _accepts_before_the_others()
    number, last = entry.view, entry.index
    host.deliver(
        master.replica,
        Heartbeat(number, number, True, True, True, True, False, 0, last, last, last, 0),
    )
    _begins_with_the_others(cluster, host)


def a_slave_hears_of_a_view_when_it_is_recorded():
    """Whatever asks for its promise is lost, so the others go on without it; it still serves."""
    cluster = ScriptedCluster(5)
    master = cluster.form()
    slave = cluster.hosts[3]
    hears = slave.deliver
    slave.deliver = lambda peer, message: isinstance(message, Prepare) or hears(peer, message)
    before = slave.state.accepted.number
    cluster.hosts[4].crash()
    cluster.until(lambda: slave.state.promised > before)
    assert slave.state.accepted.number == slave.state.promised, "it has promised the view before"
    assert slave.state.me not in slave.state.accepted.members
    assert not slave.state.serving, "it serves in a view of others"
    del slave.deliver
    cluster.everywhere(cluster.submit(cluster.whole(but=[4]), 3))
    assert master.channel.role == "master"


@mutant(
    "An Activate of the earlier view activates the accepted one.",
    scenario=it_is_told_late_that_the_view_before_is_active,
    caught=("I2",),
)
def activate_of_any_view():
    def on_activate(original, self, now, voter, message):
        accepted = self._state.accepted
        original(self, now, voter, msgspec.structs.replace(message, number=accepted.number))

    with wrapped(installation.Installation, "on_activate", on_activate):
        yield


@mutant(
    "An entry of the earlier view activates the accepted one.",
    scenario=an_entry_of_the_view_before_comes_late,
    caught=("I2",),
)
def entry_of_any_view_activates():
    def on_data(original, self, now, voter, message):
        if self._state.serving or self._state.accepted is None:
            original(self, now, voter, message)
            return
        entry = msgspec.structs.replace(message.entry, view=self._state.accepted.number)
        original(self, now, voter, msgspec.structs.replace(message, entry=entry))

    with wrapped(dispatch.Dispatch, "on_data", on_data):
        yield


@mutant(
    "A heartbeat of the earlier view activates the accepted one.",
    scenario=a_heartbeat_of_the_view_before_comes_late,
    caught=("I2",),
)
def heartbeat_of_any_view_activates():
    def on_heartbeat(original, self, now, voter, message):
        original(self, now, voter, message)
        state = self._state
        if message.active and not state.serving and message.view <= state.accepted.number:
            self._election.installation.activate(now)

    with wrapped(heartbeats.Heartbeats, "on_heartbeat", on_heartbeat):
        yield


def _goes_on_serving(original, self, number_or_view):
    status = self.status
    original(self, number_or_view)
    self.status = status


@mutant(
    "A slave that records a view without it goes on serving.",
    scenario=a_slave_hears_of_a_view_when_it_is_recorded,
    caught=("I20",),
)
def recorded_and_serves():
    with wrapped(replica_state.ReplicaState, "accept", _goes_on_serving):
        yield


@mutant(
    "A slave that promised a view goes on serving in the earlier one.",
    caught=("I20",),
    explore="two-proposers",
    budget={"tick": 1, "late": 0},
)
def promised_and_serves():
    def promise(original, self, number):
        status = self.status
        original(self, number)
        if status.serving and not status.leading:
            self.status = status

    with wrapped(replica_state.ReplicaState, "promise", promise):
        yield


@mutant("A replica that knows of a later active view without it goes on serving.", caught=("I20",))
def superseded_and_serves():
    with wrapped(replica_state.ReplicaState, "supersede", _goes_on_serving):
        yield


@mutant("A member activates its view although it has promised a later one.", caught=("I20",), quick=True)
def activated_against_a_promise():
    def activate(original, self, now):
        state = self._state
        if state.accepted is not None:
            with patched(state, "promised", state.accepted.number):
                original(self, now)

    with wrapped(installation.Installation, "activate", activate):
        yield
