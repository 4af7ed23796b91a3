"""I10, I13, I16: commit quorums, and what leaves the channel."""

from ...hachannel import Deliver, Event, Stable, View, Voter
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step, count


@checker("I13", "Nothing is committed without a quorum: k members of an active view hold it.")
class CommitQuorum(Checker):
    """A committed entry is held by k members of an active view.

    k is computed here from the mode, the number of members and `min_copies`, and is not read from the view.
    """

    skips_quiet_steps = True

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """The k of a view is that of its mode and of `min_copies`."""
        needed = self._needed(host, view)
        if view.k != needed:
            self.fail(host, f"{view} needs {view.k} members, should need {needed}")

    def stepped(self, step: Step) -> None:
        """Newly committed entries have enough holders in a view in which this replica serves."""
        past, host = self.past, step.host
        views = step.process.was_active
        for index in step.commits:
            tag = step.tag(index)
            holders = past.held.get(tag, set())
            if not any(count(holders, view.members) >= self._needed(host, view) for view in views):
                self.fail(host, f"commits {tag}, held by {sorted(holders)}, active {views}")

    @staticmethod
    def _needed(host: Host, view: View) -> int:
        members, settings = len(view.members), host.state.settings
        if settings.mode == "ALL":
            return members
        return max(members // 2 + 1, min(settings.min_copies, members))


@checker("I10", "What is acknowledged in the mode ALL is held by all members of the view.")
class AllModeQuorum(Checker):
    """In the mode ALL, a committed entry is held by all members of the view."""

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """Newly committed entries are held by each member."""
        past, host, state = self.past, step.host, step.host.state
        if state.settings.mode != "ALL":
            return
        for index in step.commits:
            tag = step.tag(index)
            holders = past.held.get(tag, set())
            if not any(holders.issuperset(view.members) for view in step.process.was_active):
                self.fail(host, f"commits {tag}, held by {sorted(holders)} only")


@checker("I10", "What is told to be held by all members of the view is held by all of them.")
class StableIndex(Checker):
    """All members of a view that the replica serves in hold the entries up to its stable index."""

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._stable: dict[int, int] = {}
        self._base: dict[Voter, int] = {}
        """The base of the log of each voter: up to there it has a state instead of entries."""

    def stepped(self, step: Step) -> None:
        """The stable index rises and is at most the commit index."""
        past, host, state = self.past, step.host, step.host.state
        self._base[state.me] = max(self._base.get(state.me, 0), state.log.base.at)
        before = self._stable.get(step.process.life, 0)
        self._stable[step.process.life] = state.replicated.stable
        if state.replicated.stable < before or state.replicated.stable > state.replicated.commit:
            self.fail(
                host, f"stable {before} -> {state.replicated.stable}, committed {state.replicated.commit}"
            )
        for index in range(max(before, state.log.base.at) + 1, state.replicated.stable + 1):
            tag = state.log.tag(index)
            holders = past.held.get(tag, set()) | {
                voter for voter, base in self._base.items() if base >= index
            }
            if not any(holders.issuperset(view.members) for view in step.process.was_active):
                self.fail(host, f"says that all hold {tag}, held by {sorted(holders)} only")


@checker("I10", "The application hears how far all members hold everything, and of nothing else.")
class StableNotification(Checker):
    """The application gets a Stable event for every change of the stable index, and no other.

    In the mode MAJORITY, clients that wait for all members wait for this event.
    """

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._told: dict[int, int] = {}

    def stepped(self, step: Step) -> None:
        """The last event has the present stable index."""
        state = step.host.state
        told = before = self._told.get(step.process.life, 0)
        for event in step.output.events:
            if isinstance(event, Stable):
                if event.index <= told:
                    self.fail(step.host, f"is told {event} after {told}")
                told = event.index
        if told != before:
            self._told[step.process.life] = told
        if state.settings.mode == "MAJORITY" and told != state.replicated.stable:
            self.fail(step.host, f"stable {state.replicated.stable}, its application heard {told}")


@checker("I16", "Only what is committed leaves the channel.")
class CommittedDelivery(Checker):
    """Only committed entries are delivered."""

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """The applied index is at most the commit index."""
        state = step.host.state
        if state.replicated.applied > state.replicated.commit:
            self.fail(step.host, f"applied {state.replicated.applied}, committed {state.replicated.commit}")

    def delivered(self, host: Host, event: Event) -> None:
        """A delivered entry was committed by a replica."""
        if isinstance(event, Deliver) and event.index not in self.past.committed:
            self.fail(host, f"delivers {event.index}, which nobody committed")
