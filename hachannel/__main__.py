"""``python -m quorate.hachannel > docs/states.md``: the diagrams of the channel's states."""

from .phases import page

print(page(), end="")
