"""Objects that stay in memory are kept out of Python's garbage collections."""

import gc

__all__ = ["freeze"]


def freeze() -> None:
    """Exempt everything in memory from later collections. Takes a few milliseconds at most.

    Call it when much has been loaded that stays, such as a part of a state. Otherwise the collector traverses
    all agents each time that their number has grown by a quarter, which takes half a second with 200,000 of
    them. Agents are still freed when nothing refers to them.
    """
    gc.collect(1)
    gc.freeze()
