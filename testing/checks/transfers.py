"""I15 in detail: what a state is made of, after a transfer in parts and after every entry that follows; and
that whoever asks for one gets one.
"""

from ...hachannel import Deliver, Event, InstallPart, View, ViewEvent, Voter
from ...hachannel.model.messages import CaughtUp, ChunkAck, Join
from ..channel.application import Cell
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("I15", "Replicas that have applied the same entries have the same cells, however they got them.")
class StateEquality(Checker):
    """A chain over all entries would not show a cell that a transfer forgot."""

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._prints: dict[int, frozenset[tuple[int, Cell]]] = {}

    def delivered(self, host: Host, event: Event) -> None:
        """After each entry, and after the last part of a state."""
        if not isinstance(event, Deliver) and not (
            isinstance(event, InstallPart) and event.index is not None
        ):
            return
        index, cells = host.app.index, host.app.print
        if index and self._prints.setdefault(index, cells) != cells:
            self.fail(host, f"its cells differ after entry {index}")


@checker("I15", "What a replica says it has, when it announces itself, is what was committed.")
class AnnouncedCommit(Checker):
    """It is sent what comes after that, or what has changed since."""

    def stepped(self, step: Step) -> None:
        """Most often in a quiet step. What it commits with this one is not in the history yet."""
        state = step.host.state
        if state.member:
            return
        for _, message in step.messages:
            if type(message) is Join:
                at = message.commit.at
                committed = self.past.committed.get(at)
                if committed != message.commit and (committed is not None or at > state.commit):
                    self.fail(step.host, f"says that it has entry {at}, and that one is not committed")


@checker("I15", "A replica that says that its state is of no use becomes a member with another one only.")
class RequestedState(Checker):
    """Its process holds what may differ from what the others have, at whatever entry it says it is.

    It may have been a member all the time: one that is back before anybody noticed stays in its view. Where
    the last process of a voter had what it lacked, the next one may be taken in for that. And who founds a
    cluster has nothing, nor has anybody else.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._asked: set[Voter] = set()
        """Whose process asks for the whole state, and has not installed one since."""
        self._taught: set[Voter] = set()
        """Who has said that it has what it lacked, since it was a member."""
        self._before: set[Voter] = set()
        """Those of them whose last process said it."""

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """Whether it asks for the state is up to the new process."""
        me = host.state.me
        self._asked.discard(me)
        if me in self._taught:
            self._before.add(me)

    def stepped(self, step: Step) -> None:
        """Who is outside announces itself, most often in a quiet step."""
        state = step.host.state
        if state.member:
            return
        for _, message in step.messages:
            match message:
                case Join(fresh=True):
                    self._asked.add(state.me)
                case CaughtUp() | ChunkAck(installed=True):
                    self._taught.add(state.me)
                case _:
                    pass

    def delivered(self, host: Host, event: Event) -> None:
        """The application has the last part of a state, or a view. That one was accepted may be forgotten."""
        me = host.state.me
        if isinstance(event, InstallPart) and event.index is not None:
            self._asked.discard(me)
        elif isinstance(event, ViewEvent):
            for each in (self._asked, self._taught, self._before):
                each.discard(me)

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """A view takes a replica in."""
        me, source = host.state.me, self.past.sources.get(view.number)
        joins = me in view.members and source is not None and me not in source.members
        if joins and me in self._asked - self._before:
            self.fail(host, f"is taken into view {view.number} without the state that it asks for")
