"""A simulated cluster of channels on a virtual clock, network and disk."""
