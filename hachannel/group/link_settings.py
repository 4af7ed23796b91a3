"""Limits of the connections of a group."""

from ..model.settings import Settings
from ..transfer.chunks import SLACK
from ..transport.connection import LinkSettings

__all__ = ["link_settings"]


def link_settings(settings: Settings) -> LinkSettings:
    """Connections that take whatever a channel with these settings sends."""
    default = LinkSettings()
    # An entry, or as much of a log or of a state as goes together; with what goes with it.
    largest = max(settings.max_payload_bytes, settings.part_bytes)
    # Pieces of a state, a little longer perhaps, and entries beside it.
    transfer = settings.transfer_window * (settings.part_bytes + settings.part_bytes // SLACK + largest)
    waiting = settings.window_bytes + settings.forward_window_bytes + transfer
    return LinkSettings(
        max_frame_bytes=max(default.max_frame_bytes, 2 * largest),
        buffer_bytes=max(default.buffer_bytes, waiting),
        # Who is not suspected yet is not cut off either.
        silence_s=max(default.silence_s, 2 * settings.suspect_s),
    )
