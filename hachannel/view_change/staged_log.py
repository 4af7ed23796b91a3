"""The staged log: the log of a new view, which arrives in parts, before a member adopts it. A leaf."""

import attrs

from ..model.log import Log
from ..model.messages import Entry, NewView
from ..model.view import Tag, ViewNumber

__all__ = ["StagedLog"]


@attrs.define(eq=False)
class StagedLog:
    """The parts of a view's log that have arrived."""

    number: ViewNumber
    """The number of the view."""
    base: Tag
    """The entry before the first one; the member should have it."""
    entries: list[Entry]

    def append(self, part: NewView) -> bool:
        """Append the next part. Return False, and change nothing, if it does not follow the earlier ones."""
        follows = (
            self.number == part.view.number and self.base == part.base and len(self.entries) == part.offset
        )
        if follows:
            self.entries.extend(part.entries)
        return follows

    def flaw(self, start: int, log: Log) -> str:
        """Return why a member with this log cannot adopt the staged one; "" if it can.

        start: index of the last entry of the view's log.
        """
        base = self.base
        if base.at < 0 or base.at + len(self.entries) != start:
            return "its log is incomplete"
        if self.entries and self.entries[0].index != base.at + 1:
            return "its first entry does not follow its base"
        if base.at > log.last.at:
            return f"this log ends at {log.last.at}, before {base.at}"
        if base.at >= log.base.at and log.tag(base.at) != base:
            return f"entry {base.at} differs"
        return ""
