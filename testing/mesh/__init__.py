"""A mesh in one process, on a virtual network and virtual disks, and the checks of what it does."""
