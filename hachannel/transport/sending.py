"""Sending of a channel's messages: each is encoded once, also for several peers."""

from ..codec.buffers import Body
from ..model.messages import Message, encode_body
from .transport import ChannelTransport

__all__ = ["send_messages"]


def send_messages(transport: ChannelTransport, messages: list[tuple[int, Message]]) -> None:
    """Send messages, each encoded once, in one write for each peer."""
    last = messages[0][1]
    body = encode_body(last)
    for _, message in messages:
        if message is not last:
            break
    else:
        transport.send([peer for peer, _ in messages], [body])
        return
    by_peer: dict[int, list[Body]] = {}
    for peer, message in messages:
        if message is not last:
            # The channel puts equal messages to several peers next to each other.
            body, last = encode_body(message), message
        bodies = by_peer.get(peer)
        if bodies is None:
            by_peer[peer] = [body]
        else:
            bodies.append(body)
    for peer, bodies in by_peer.items():
        transport.send((peer,), bodies)
