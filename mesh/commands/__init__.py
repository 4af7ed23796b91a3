"""The command `quorate mesh`."""
