"""Mutants of what bounds what waits and what is under way."""

import attrs

from quorate.hachannel import Settings
from quorate.hachannel.replication import forwarding, normal_case
from quorate.hachannel.transfer import chunks
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def _alone_with_a_change(fits, **bounds):
    """A master whose witness is another one now, and whose slave is away: the change holds the log.

    It takes what fits, and goes on when the slave is back.
    """
    script = ScriptedCluster(3, settings=Settings(window=16, keep=0, **bounds), witnesses=1)
    master = script.form()
    slave, witness = script.hosts[1:]
    slave.pause()
    script.until(lambda: len(master.channel.view.members) == 1 and master.channel.can_submit)
    witness.crash()
    witness.start()
    script.until(lambda: master.state.log.reconfig(0) is not None)
    taken = script.submit(master, 1000)
    assert len(taken) > 100
    assert fits(master.state.log)
    script.run(5.0)
    assert not script.submit(master)
    slave.resume()
    assert script.whole() is master
    script.everywhere([*taken, *script.submit(master, 10)])


def a_master_alone_with_a_change_under_way():
    """The entries of its log are as many as there may be."""
    _alone_with_a_change(lambda log: len(log) <= 200, max_log=200)


def _boundless(**bounds):
    """A method of `forward.Forwarding` that takes some settings for others."""

    def weakened(original):
        def call(self, *arguments):
            settings = self._state.settings
            self._state.settings = attrs.evolve(settings, **bounds)
            try:
                return original(self, *arguments)
            finally:
                self._state.settings = settings

        return call

    return weakened


@mutant("A member gives the master payloads whatever their bytes.", caught=("I18",), quick=True)
def forward_bytes_unbounded():
    send = _boundless(forward_window_bytes=1 << 30)(forwarding.Forwarding._send)
    with patched(forwarding.Forwarding, "_send", send):
        yield


@mutant("A member gives the master payloads whatever their number.", caught=("I18",), quick=True)
def forwards_unbounded():
    send = _boundless(forward_window=1 << 20)(forwarding.Forwarding._send)
    with patched(forwarding.Forwarding, "_send", send):
        yield


@mutant("A member takes one payload more than fit.", caught=("I18",), quick=True)
def queue_one_more():
    def room(self):
        settings = self._state.settings
        return (
            not (self._state.leaving or self._state.stopped or self._state.witness)
            and len(self._queue) <= settings.forward_queue
        )

    with patched(forwarding.Forwarding, "room", property(room)):
        yield


@mutant("A master takes one entry more than the window.", caught=("I18",), quick=True)
def window_one_more():
    def room(self):
        state = self._state
        return state.log.last.at - state.commit <= state.settings.window

    with patched(normal_case.Replication, "room", property(room)):
        yield


@mutant("A donor sends one piece more than the window.", caught=("I18",))
def pieces_one_more():
    original = chunks.Outbox.due

    def due(self):
        self.window += 1
        yield from original(self)
        self.window -= 1

    with patched(chunks.Outbox, "due", due):
        yield


@mutant("What is committed counts as in flight for ever: the master takes nothing any more.", caught=("L1",))
def in_flight_for_ever():
    original = normal_case.Replication._advance

    def advance(self):
        before = self._in_flight_bytes
        original(self)
        self._in_flight_bytes = before

    with patched(normal_case.Replication, "_advance", advance):
        yield


@mutant(
    "A master takes payloads though its log is full and a change of the configuration holds it.",
    scenario=a_master_alone_with_a_change_under_way,
    caught=("I18", "scenario"),
)
def full_log_taken():
    with patched(normal_case.Replication, "_log_full", property(lambda _: False)):
        yield


def a_cluster_of_one_goes_on():
    """It takes many times what its log may have."""
    script = ScriptedCluster(1, settings=Settings(window=16, keep=0, max_log=200))
    master = script.form()
    for _ in range(100):
        script.everywhere([*script.submit(master, 5), *script.forward(master, 5)])


@mutant(
    "A cluster of one forgets nothing of the log: it has no heartbeats to do it at.",
    scenario=a_cluster_of_one_goes_on,
    caught=("I18",),
)
def alone_trims_nothing():
    with rewritten(normal_case.Replication, "_append", ("not state.peers.links", "False")):
        yield
