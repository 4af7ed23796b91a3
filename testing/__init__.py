"""Test kit: one server in a test, and simulated channels and clusters on a virtual clock."""

from .harness import Harness

__all__ = ["Harness"]
