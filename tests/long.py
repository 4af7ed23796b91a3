"""How much the long-running tests do: `make long` sets QUORATE_LONG=1, and they do all they can."""

import os

import pytest

LONG = "QUORATE_LONG" in os.environ

only_long = pytest.mark.skipif(not LONG, reason="takes minutes: make long, or QUORATE_LONG=1")


def amount(name: str, usual: float, long: float) -> float:
    """How many seeds, states or minutes: what the variable `name` says, else the usual or the long amount."""
    return float(os.environ.get(name, long if LONG else usual))
