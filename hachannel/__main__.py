"""``python -m quorate.hachannel > docs/states.md``: the diagrams of the channel's states."""

from .protocol.phases import page

print(page(), end="")
