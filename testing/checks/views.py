"""I1, I2, I12, I14: agreement on views.

Views as in virtual synchrony (Birman and Joseph, 1987), chosen by quorums as in Viewstamped Replication
(Liskov and Cowling, 2012). docs/channel.md, "What holds".
"""

from ...hachannel import Event, View, ViewEvent, ViewNumber, Voter
from ...hachannel.model.messages import RECONFIG, Prepare, Record
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step, count, majority


@checker("I1", "A view number has one content, and one life of its proposer uses it.")
class ViewUniqueness(Checker):
    """A view number stands for one view, proposed by one process.

    If two views had one number, two different logs would have entries with equal tags.
    """

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._proposed: dict[ViewNumber, int] = {}

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Compare the view with what others accepted under its number."""
        known = self.past.views[view.number]
        if known != view:
            self.fail(host, f"view {view.number} is {view} and {known}")

    def stepped(self, step: Step) -> None:
        """An accepted view does not change, and a restarted proposer uses new numbers."""
        view = step.host.state.accepted
        known = self.past.views.get(view.number) if view is not None else None
        if view is not known and view != known:
            self.fail(step.host, f"has accepted {view}, which is {known}")
        for message in step.binding:
            if isinstance(message, Prepare):
                life = self._proposed.setdefault(message.number, step.process.life)
                if life != step.process.life:
                    self.fail(step.host, f"proposes {message.number}, as an earlier process did")


@checker("I2", "A view is chosen by, and known to, quorums of the view it replaces and of its own.")
class ViewQuorums(Checker):
    """Each view is linked to the one before by intersecting quorums, as in Viewstamped Replication.

    Its proposer has promises of a majority of the voters, and of all but k - 1 members, of the view that it
    replaces. All members accept it before others record it. Majorities of both configurations know it before
    it is active.
    """

    skips_quiet_steps = True

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """A proposer installs a view: enough voters and members of its source have promised it."""
        past = self.past
        number = view.number
        source = past.sources.get(number)
        if source is None or host.state.me != (number.replica, number.incarnation):
            return
        answered = {*past.promises.get(number, ()), host.state.me}
        if count(answered, source.config) < majority(source.config):
            self.fail(host, f"{view} replaces {source}, of whose voters only {sorted(answered)} promised")
        if count(answered, source.members) < len(source.members) - source.k + 1:
            self.fail(host, f"{view} replaces {source}, of whose members only {sorted(answered)} promised")
        if count(answered, source.config) < self._founders(source):
            self.fail(host, f"{view} replaces {source}, others than {sorted(answered)} could found a cluster")

    def _founders(self, source: View) -> int:
        """Return how many voters intersect every set that could found another cluster; 0 if there is no such
        set.

        A first view may fail, and so may those that follow it, until enough replicas know one of them. Until
        then, replicas that have not accepted it may found the cluster instead.
        """
        past, shape = self.past, self.past.world.shape
        founders = shape.replicas - shape.expected + 1
        view: View | None = source
        while view is not None:
            have = past.accepted[view.number]
            if have.issuperset(view.members) and count(have, view.config) >= max(
                founders, majority(view.config)
            ):
                return 0
            view = past.sources.get(view.number)
        return founders

    def stepped(self, step: Step) -> None:
        """Before a proposer asks others to record a view, all its members have accepted it."""
        for message in step.binding:
            if isinstance(message, Record):
                have = self.past.accepted.get(message.view.number, set())
                if not have.issuperset(message.view.members):
                    self.fail(step.host, f"lets {message.view} be recorded, accepted by {sorted(have)} only")

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:  # noqa: ARG002
        """An active view is known to enough voters that no later view can miss it."""
        past, host = self.past, step.host
        have, source, before = past.accepted[view.number], past.sources.get(view.number), past.latest
        if before is not None and before.number > view.number:
            # Its proposer learns late that it succeeded, after others have replaced the view.
            if view.start > before.start:
                self.fail(host, f"view {view} active after {before}")
            return
        if not have.issuperset(view.members):
            self.fail(host, f"members of {view} have not accepted: {sorted(have)}")
        if count(have, view.config) < majority(view.config):
            self.fail(host, f"too few voters of {view} know it: {sorted(have)}")
        if source is not None and count(have, source.config) < majority(source.config):
            self.fail(host, f"too few voters of {source} know {view}: {sorted(have)}")
        if before is not None and count(have, before.config) <= len(before.config) - majority(before.config):
            self.fail(host, f"too few voters of {before} know {view}: {sorted(have)}")


@checker("I2", "The configuration changes by the one RECONFIG in the adopted log, and by nothing else.")
class ConfigurationChange(Checker):
    """A configuration changes only by the one RECONFIG entry in the log that the view adopts.

    One voter changes at a time: majorities of configurations that differ by more need not intersect (Raft,
    single-server changes; Ongaro, 2014).
    """

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._changed: dict[ViewNumber, int] = {}

    def stepped(self, step: Step) -> None:
        """A view has at most one RECONFIG."""
        for tag, _, entry in step.added:
            if entry.kind == RECONFIG and self._changed.setdefault(tag.view, tag.at) != tag.at:
                self.fail(step.host, f"two RECONFIG in view {tag.view}: {self._changed[tag.view]}, {tag.at}")

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """The voters and seats of an installed view follow from its source and the RECONFIG."""
        number = view.number
        if host.state.me != (number.replica, number.incarnation):
            return
        replicas = [voter.replica for voter in view.config]
        if len(set(replicas)) < len(replicas):
            self.fail(host, f"{view} has two lives of one replica among its voters")
        source = self.past.sources.get(number)
        if source is None:
            return
        before = (source.config, source.seats)
        after = self.past.change_of(source, view.start)
        # A change that could not become active is dropped as a whole.
        if (view.config, view.seats) not in (before, after):
            self.fail(host, f"{view} replaces {source}; its voters and seats are neither those nor {after}")
        # The members have answered: if they are enough for the change, there was no reason to drop it, unless
        # the voter to add did not answer.
        if (
            after is not None
            and (view.config, view.seats) != after
            and len(after[0]) <= len(source.config)
            and host.state.me in after[0]
            and count(view.members, after[0]) >= majority(after[0])
        ):
            self.fail(host, f"{view} replaces {source} without the change in its log, to {after}")


@checker("I2", "Members: those of the view before that answered, in their order, then at most one learner.")
class MemberSeniority(Checker):
    """The members of a view are those of its source that promised it, in the same order, then one learner at
    most.

    The first member is the proposer and becomes the master.
    """

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """A proposer installs a view."""
        past = self.past
        number = view.number
        me = host.state.me
        if me != (number.replica, number.incarnation):
            return
        if view.members[0] != me or len(set(view.members)) < len(view.members):
            self.fail(host, f"installs {view}, whose first member it must be, once")
        if not set(view.members) <= set(view.config):
            self.fail(host, f"{view} has members that do not vote")
        source = past.sources.get(number)
        if source is None:
            return
        answered = {*past.promises.get(number, ()), me}
        if not answered.issuperset(view.members):
            self.fail(host, f"{view} has members that did not promise it: {sorted(answered)}")
        old = [voter for voter in source.members if voter in view.members]
        new: list[Voter] = [voter for voter in view.members if voter not in source.members]
        if list(view.members) != old + new or len(new) > 1:
            self.fail(host, f"the members of {view} are not in the order of {source}")


@checker("I12", "No view before enough replicas see each other; it is the first one in the cluster's life.")
class FoundingBarrier(Checker):
    """A cluster is founded once. Two disjoint sets of founders would make two clusters."""

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._told: set[Voter] = set()
        self._begun: ViewNumber | None = None
        """The view that was announced as the first one."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Enough replicas to found a cluster vote in a first view."""
        number = view.number
        if host.state.me == (number.replica, number.incarnation) and self.past.sources.get(number) is None:
            founders = len(view.config)
            if founders < host.state.configuration.expected and not view.start:
                self.fail(
                    host, f"first view {view} of {founders}, not {host.state.configuration.expected} replicas"
                )

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:
        """Enough replicas know a first view that no others can found or replace another one."""
        past, host = self.past, step.host
        if event.first_time:
            if self._begun not in (None, view.number):
                self.fail(host, f"the cluster begins with view {view.number}, it began with {self._begun}")
            self._begun = view.number
        shape = past.world.shape
        if past.latest is not None and past.latest.number > view.number:
            return
        if past.latest is None or view.boot or event.first_time:
            first = self._beginning(view)
            have = past.accepted[first.number]
            # An administrator may edit the files while a cluster is founded.
            replicas = min(shape.replicas, len(past.world.configured))
            needed = max(shape.replicas - shape.expected + 1, replicas // 2 + 1, majority(first.config))
            if len(have) < needed:
                self.fail(host, f"first view {first} known to {sorted(have)} only")
            if past.top or view.start:
                self.fail(host, f"first view {view} after {past.top} commits")
        founding = past.latest is None and past.sources.get(view.number) is None
        if founding and not event.first_time and step.process.resumed != view.number:
            self.fail(host, f"the cluster begins with view {view}, and nobody is told")

    def _beginning(self, view: View) -> View:
        """Return the first view of the cluster: `view`, or an earlier one that was not announced."""
        while not view.boot and (source := self.past.sources.get(view.number)) is not None:
            view = source
        return view

    def delivered(self, host: Host, event: Event) -> None:
        """`first_time` is announced once to each replica, and before any delivery."""
        if isinstance(event, ViewEvent) and event.first_time:
            if host.state.me in self._told or host.app.index:
                self.fail(host, f"is told again that the cluster begins, with view {event.view}")
            self._told.add(host.state.me)


@checker("I14", "View events stand at equal indices, say the same everywhere, and rise.")
class ViewEventAgreement(Checker):
    """All replicas deliver the event of a view at the same index, with the same content.

    This is virtual synchrony: replicas that saw a change of the master at different places would act
    differently.
    """

    skips_quiet_steps = True

    def stepped(self, step: Step) -> None:
        """View numbers rise, and each event has the content that others announced."""
        announced = step.process.announced
        for view, event in step.views:
            number = event.view
            if number <= announced:
                self.fail(step.host, f"view {number} after {announced}")
            announced = number
            said = (event.index, event.master, event.members, event.first_time)
            if number == step.process.resumed:
                # An earlier process may have announced it.
                said = (*said[:3], self.past.active[number][3])
            if self.past.active[number] != said:
                self.fail(step.host, f"view {number} is {said} and {self.past.active[number]}")
            if event.members != view.replicas():
                self.fail(step.host, f"announces {event}, accepted {view}")

    def delivered(self, host: Host, event: Event) -> None:
        """The application has delivered all entries up to the index of the event, and no more."""
        if isinstance(event, ViewEvent) and event.view != self.past.processes[host.state.me].resumed:
            chains = self.past.chains
            index = event.index
            while index not in chains:
                index -= 1
            if host.app.index != index:
                self.fail(host, f"view {event.view} of {event.index} after entry {host.app.index}")
