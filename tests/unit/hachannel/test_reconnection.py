"""What a channel remembers of a peer whose connection was made again."""

from quorate.hachannel import Channel, Voter
from quorate.hachannel.messages import Exit
from quorate.hachannel.view import NO_VIEW


def test_a_voter_that_left_and_came_back_from_its_disk_is_not_leaving_any_more() -> None:
    channel = Channel(0, [0, 1, 2], incarnation=1, cluster="c", expected=3)
    channel.start(0.0)
    channel.connected(0.1, 1, 7)
    channel.receive(0.2, 1, Exit(NO_VIEW, True, "it leaves"))
    assert channel.state.peers.departs(Voter(1, 7))
    channel.disconnected(0.3, 1)
    channel.connected(5.0, 1, 7)
    assert not channel.state.peers.departs(Voter(1, 7))
