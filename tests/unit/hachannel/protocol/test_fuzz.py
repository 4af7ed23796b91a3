"""Whatever a peer sends, whenever: it is ignored or answered, and never raises."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.hachannel import Settings, View, ViewNumber, Voter
from quorate.hachannel.model import messages as m
from quorate.hachannel.model.submitters import Row, Source
from quorate.hachannel.model.view import Seat, Tag
from quorate.testing.channel.manual_cluster import ManualCluster

small = st.integers(-2, 9)
numbers = st.builds(ViewNumber, st.integers(0, 6), st.integers(-1, 3), st.integers(0, 4))
voters = st.builds(Voter, st.integers(0, 3), st.integers(0, 4))
tags = st.builds(Tag, numbers, small)
groups = st.lists(voters, min_size=1, max_size=4).map(tuple)
seats = st.sampled_from([(), (Seat(0), Seat(1), Seat(2)), (Seat(0, b"x"), Seat(3))])
lineages = st.sampled_from([None, None, None, Voter(1, 3)])
views = st.builds(
    View,
    numbers,
    groups,
    groups,
    st.integers(1, 3),
    small,
    st.integers(0, 3),
    st.just("x"),
    seats,
    lineage=lineages,
)
changes = st.sampled_from([m.Reconfig(True, 1, 1), m.Admit(3, b"x"), m.Dismiss(0), m.Dismiss(2)])
payloads = st.one_of(st.binary(max_size=3), changes.map(m.encode_reconfig))
sources = st.builds(Source, st.integers(0, 3), st.integers(0, 4), st.integers(0, 2), small)
entry = st.builds(m.Entry, numbers, small, st.just(0), payloads, st.integers(0, 1), st.none() | sources)
entries = st.lists(entry, max_size=4).map(tuple)
flags = st.booleans()
words = st.just("c")
STRATEGIES = {
    ViewNumber: numbers,
    Tag: tags,
    View: views,
    m.Entry: entry,
    tuple[m.Entry, ...]: entries,
    int: small,
    bool: flags,
    str: words,
    float: st.floats(),
    float | None: st.one_of(st.none(), st.floats()),
    bytes: st.binary(max_size=4),
    tuple[Row, ...]: st.lists(sources, max_size=3).map(tuple),
    tuple[Seat, ...]: seats,
    View | None: st.one_of(st.none(), views),
    Voter | None: lineages,
    Tag | None: st.one_of(st.none(), tags),
}


def any_message(kind):
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, *(STRATEGIES[field.type] for field in fields))


anything = st.one_of([any_message(kind) for kind in m.Message.__args__])


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), anything), max_size=40),
    st.integers(0, 2),
)
def test_any_messages_in_any_order_never_raise(sequence, prelude):
    cluster = ManualCluster(settings=Settings(window=4, keep=0))
    if prelude:
        cluster.form()
    if prelude > 1:
        for _ in range(3):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
            for replica in (1, 2):
                cluster.act(replica, lambda channel: channel.forward(cluster.now, b"y"))
        cluster.deliver(0, 1)
    for here, there, message in sequence:
        if here != there:
            cluster.inject(here, there, message)
        cluster.tick(0.01, there)
        cluster.settle() if message.__class__ is m.Ack else None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 4), st.integers(0, 3)), max_size=30))
def test_connections_that_come_and_go_in_any_order_never_raise(steps):
    cluster = ManualCluster()
    for replica, peer, what in steps:
        channel = cluster.channels[replica]
        cluster.now += 0.03
        match what:
            case 0:
                channel.connected(cluster.now, peer, 7)
            case 1:
                channel.disconnected(cluster.now, peer)
            case 2:
                channel.receive(cluster.now, peer, m.DirectMessage(b""))
            case _:
                channel.snapshot_ready(cluster.now, peer, peer, [])
                channel.part_ready(cluster.now, peer, b"x", peer, last=bool(what))
                channel.part_failed(cluster.now, peer, "no")
                channel.part_installed(cluster.now, peer)
                channel.part_refused(cluster.now, peer, "no")
                channel.persisted(cluster.now, peer)
        channel.tick(cluster.now)
        channel.drain()


def test_a_slave_said_to_leave_that_stays_does_not_cause_a_storm_of_views():
    cluster = ManualCluster()
    cluster.form()
    cluster.inject(1, 0, m.Exit(cluster.channels[0].view.number, True, "forged"))
    for _ in range(3):
        # Without a pause between the views this would never end.
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].view.number.counter < 5


def test_a_channel_that_stopped_is_silent():
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    cluster.tick(3.0, 0)
    channel = cluster.channels[0]
    assert channel.role == "stopped"
    channel.receive(cluster.now, 1, m.DirectMessage(b"x"))
    channel.tick(cluster.now + 1)
    channel.connected(cluster.now, 1, 9)
    channel.disconnected(cluster.now, 1)
    channel.leave(cluster.now)
    assert not channel.drain()
