"""What a channel remembers of a peer whose connection was made again, and says again of what was lost."""

from quorate.hachannel import Channel, Voter
from quorate.hachannel.model.messages import Exit, Promise
from quorate.hachannel.model.view import NO_VIEW
from quorate.testing.channel.manual_cluster import ManualCluster


def test_a_voter_that_left_and_came_back_from_its_disk_is_not_leaving_any_more() -> None:
    channel = Channel(0, [0, 1, 2], incarnation=1, cluster="c", expected=3)
    channel.start(0.0)
    channel.connected(0.1, 1, 7)
    channel.receive(0.2, 1, Exit(NO_VIEW, True, "it leaves"))
    assert channel.state.peers.departs(Voter(1, 7))
    channel.disconnected(0.3, 1)
    channel.connected(5.0, 1, 7)
    assert not channel.state.peers.departs(Voter(1, 7))


def test_a_promise_that_was_lost_is_given_again():
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, "test"))
    cluster.deliver(0, 1)
    [lost] = [message for message in cluster.lose(1, 0) if isinstance(message, Promise)]
    cluster.tick(cluster.settings.retry_s + 0.01, 0)
    cluster.deliver(0, 1)
    [promise] = cluster.waiting(1, 0, Promise)
    assert promise.number == lost.number
