"""The rules by which an engine works: replicas with others would come to other states."""

from typing import Final

__all__ = ["RULES"]

RULES: Final = 1
"""The number of the rules. It changes with every release in which the same entry may have another result: in
the engine itself, or in agents of the platform. Replicas with other numbers do not take part together."""
