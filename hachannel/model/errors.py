"""Errors of the channel: each names what was refused and what to do about it."""


class ChannelError(Exception):
    """Any refusal of the channel."""


class NotMaster(ChannelError):
    """The caller submitted on a replica that is not an active master: send it to the master instead."""


class TooFewCopies(ChannelError):
    """The view has fewer members than `Settings.min_copies`: wait until more replicas have joined."""


class WindowFull(ChannelError):
    """The caller submitted more than the window holds: wait until `Channel.can_submit` is true again."""


class PayloadTooLarge(ChannelError):
    """The caller submitted a payload above `Settings.max_payload_bytes`: split the batch."""


class ChangeRefused(ChannelError):
    """The master cannot make this change to the cluster: the text says why and what to do."""


class NotYet(ChangeRefused):
    """The master cannot make this change to the cluster at the moment: ask again soon."""


class ProtocolError(ChannelError):
    """A peer sent bytes that are no message of this protocol: close the connection."""
