"""The table of messages of a channel."""

from typing import get_args

from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import Message
from quorate.hachannel.protocol.channel import Channel


def test_a_channel_has_a_handler_for_each_type_of_message() -> None:
    channel = Channel(0, (0, 1, 2), incarnation=1, cluster="c", expected=3, log=MemoryLog())
    assert channel._handlers.keys() == {*get_args(Message)}
