"""I15: state transfers, in detail."""

from ...hachannel import Deliver, Event, InstallPart, View, ViewEvent, Voter
from ...hachannel.model.messages import CaughtUp, ChunkAck, Join
from ..channel.application import Cell
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("I15", "Replicas that have applied the same entries have the same cells, however they got them.")
class StateEquality(Checker):
    """Replicas that have applied the same entries have the same cells, however they received them.

    The hash chain over all entries would not show a cell that a transfer forgot.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._prints: dict[int, frozenset[tuple[int, Cell]]] = {}

    def delivered(self, host: Host, event: Event) -> None:
        """Compare the cells after each entry, and after the last part of a state."""
        if not isinstance(event, Deliver) and not (
            isinstance(event, InstallPart) and event.index is not None
        ):
            return
        index, cells = host.app.index, host.app.print
        if index and self._prints.setdefault(index, cells) != cells:
            self.fail(host, f"its cells differ after entry {index}")


@checker("I15", "What a replica says it has, when it announces itself, is what was committed.")
class AnnouncedCommit(Checker):
    """The commit index in a Join message is that of a committed entry: what follows it is sent."""

    def stepped(self, step: Step) -> None:
        """Check Join messages; commits of this step are not in the history yet."""
        state = step.host.state
        if state.member:
            return
        for _, message in step.messages:
            if type(message) is Join:
                at = message.commit.at
                committed = self.past.committed.get(at)
                if committed != message.commit and (committed is not None or at > state.replicated.commit):
                    self.fail(step.host, f"says that it has entry {at}, and that one is not committed")


@checker("I15", "A replica that says that its state is of no use becomes a member with another one only.")
class RequestedState(Checker):
    """A replica that asks for the whole state becomes a member only with a new state.

    Its own state may differ from that of the others, at whatever index it announces. Exceptions: a replica
    that returns before anybody noticed stays a member; a process may be taken in for what the last process of
    the same voter had; founders have no state.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._asked: set[Voter] = set()
        """The voters whose process asks for the whole state and has not installed one since."""
        self._taught: set[Voter] = set()
        """The voters that have sent, since they were members, that they have what they lacked."""
        self._before: set[Voter] = set()
        """Those of `_taught` whose last process sent it."""

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """A new process decides anew whether it asks for the state."""
        me = host.state.me
        self._asked.discard(me)
        if me in self._taught:
            self._before.add(me)

    def stepped(self, step: Step) -> None:
        """Note the messages of a replica that is no member."""
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
        """The application has installed a state, or begins a view."""
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
