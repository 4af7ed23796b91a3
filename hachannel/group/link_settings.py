"""The limits of the connections between members, from the settings of their channel."""

from ..model.settings import Settings
from ..transfer.chunks import SLACK
from ..transport.connection import LinkSettings

__all__ = ["link_settings"]


def link_settings(settings: Settings) -> LinkSettings:
    """Return limits that allow everything that a channel with these settings sends."""
    default = LinkSettings()
    # An entry, or one message of a log or of a state.
    largest = max(settings.max_payload_bytes, settings.part_bytes)
    # Parts of a state, which may be longer by a fraction, and entries beside them.
    transfer = settings.transfer_window * (settings.part_bytes + settings.part_bytes // SLACK + largest)
    waiting = settings.window_bytes + settings.forward_window_bytes + transfer
    return LinkSettings(
        max_frame_bytes=max(default.max_frame_bytes, 2 * largest),
        buffer_bytes=max(default.buffer_bytes, waiting),
        # A peer that is not suspected yet must not be disconnected.
        silence_s=max(default.silence_s, 2 * settings.suspect_s),
    )
