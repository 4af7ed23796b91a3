"""Topics that form a tree: names of words that are joined by dots, and patterns over them.

``prices.eu.de`` is a topic of the tree ``prices``. In a pattern ``*`` stands for one word and ``#``, as the
last word, for all that follows, also for nothing.
"""

import functools
from collections.abc import Callable
from typing import Final

__all__ = ["ONE", "REST", "matcher", "pattern_flaw", "subject_flaw"]

ONE: Final = "*"
"""The word of a pattern that stands for any one word."""
REST: Final = "#"
"""The last word of a pattern, which stands for all that follows."""
MAX_WORDS: Final = 64


def subject_flaw(tree: str, subject: str) -> str:
    """Return why a topic cannot be one of a tree, "" if it can."""
    words = subject.split(".")
    if subject != tree and not subject.startswith(f"{tree}."):
        return f"{subject} is no topic of the tree {tree}"
    if "" in words or len(words) > MAX_WORDS:
        return f"{subject} is not the name of a topic: words are joined by single dots, {MAX_WORDS} at most"
    if ONE in words or REST in words:
        return f"{subject} is a pattern: messages are published to one topic"
    return ""


def pattern_flaw(tree: str, pattern: str) -> str:
    """Return why a pattern cannot be used for topics of a tree, "" if it can."""
    words = pattern.split(".")
    if pattern != tree and not pattern.startswith(f"{tree}."):
        return f"{pattern} is no pattern for topics of the tree {tree}"
    if "" in words or len(words) > MAX_WORDS:
        return f"{pattern} is not a pattern: words are joined by single dots, {MAX_WORDS} at most"
    if REST in words[:-1]:
        return f"{pattern} is not a pattern: {REST} stands for all that follows, and is the last word"
    return ""


@functools.lru_cache(maxsize=4096)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the function that says whether a topic matches a pattern."""
    words = pattern.split(".")
    rest = words[-1] == REST
    if rest:
        words.pop()

    def matches(subject: str) -> bool:
        found = subject.split(".")
        if len(found) < len(words) or (len(found) > len(words) and not rest):
            return False
        return all(word in (ONE, each) for word, each in zip(words, found, strict=False))

    return matches
