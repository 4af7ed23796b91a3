"""What came into memory to stay is not looked at by the collector of garbage again and again."""

import gc

__all__ = ["keep"]


def keep() -> None:
    """Call it when much has come that stays, such as a part of a state; it takes a few milliseconds at most.

    Otherwise the collector looks at all agents each time that a quarter more have come, which takes half a
    second with 200,000 of them. Agents are freed all the same when nothing refers to them.
    """
    gc.collect(1)
    gc.freeze()
