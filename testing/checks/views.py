"""I1, I2, I12, I14: views are unique, chain through quorums, begin at the barrier and are announced alike."""

from ...hachannel import Event, View, ViewEvent, ViewNumber, Voter
from ...hachannel.model.messages import RECONFIG, Prepare, Record
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step, count, majority


@checker("I1", "A view number has one content, and one life of its proposer uses it.")
class ViewUniqueness(Checker):
    """A number that is used twice would make two views, or two logs, look like one."""

    alone = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._proposed: dict[ViewNumber, int] = {}

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Everybody accepts the same view under a number."""
        known = self.past.views[view.number]
        if known != view:
            self.fail(host, f"view {view.number} is {view} and {known}")

    def stepped(self, step: Step) -> None:
        """A proposer starts with a fresh number, also after a restart; a view accepted does not change."""
        view = step.host.state.accepted
        known = self.past.views.get(view.number) if view is not None else None
        if view is not known and view != known:
            self.fail(step.host, f"has accepted {view}, which is {known}")
        for message in step.said:
            if isinstance(message, Prepare):
                life = self._proposed.setdefault(message.number, step.process.life)
                if life != step.process.life:
                    self.fail(step.host, f"proposes {message.number}, as an earlier process did")


@checker("I2", "A view is chosen by, and known to, quorums of the view it replaces and of its own.")
class ViewQuorums(Checker):
    """The promises that were asked for, the acceptances before it is recorded, both before it is active."""

    alone = True

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """The proposer installs a view: who has promised it?"""
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
        """How many voters meet everybody who could found another cluster; 0 when nobody can any more.

        A first view may fail, and so may those that follow it, until one is known to enough. Until then
        those who did not accept it may found the cluster instead.
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
        """Nobody is asked to record a view that some member may not hold."""
        for message in step.said:
            if isinstance(message, Record):
                have = self.past.accepted.get(message.view.number, set())
                if not have.issuperset(message.view.members):
                    self.fail(step.host, f"lets {message.view} be recorded, accepted by {sorted(have)} only")

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:  # noqa: ARG002
        """A view is active: enough of both configurations know it, and no later view can have missed it."""
        past, host = self.past, step.host
        have, source, before = past.accepted[view.number], past.sources.get(view.number), past.latest
        if before is not None and before.number > view.number:
            # Its proposer learns late that it succeeded, when others have gone on from there.
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
    """Quorums of configurations that differ by more than one voter need not meet."""

    alone = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._changed: dict[ViewNumber, int] = {}

    def stepped(self, step: Step) -> None:
        """One RECONFIG for each view."""
        for tag, _, entry in step.added:
            if entry.kind == RECONFIG and self._changed.setdefault(tag.view, tag.at) != tag.at:
                self.fail(step.host, f"two RECONFIG in view {tag.view}: {self._changed[tag.view]}, {tag.at}")

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """The proposer installs a view."""
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
        # A change that could not become active is given up: as a whole.
        if (view.config, view.seats) not in (before, after):
            self.fail(host, f"{view} replaces {source}; its voters and seats are neither those nor {after}")
        # The members have answered: if they are enough for it, there was no reason to give it up, unless a
        # voter that was to come did not answer.
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
    """The first member is the proposer and the master."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """The proposer installs a view."""
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
    """Two sets of replicas that could found a cluster would make two clusters."""

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._told: set[Voter] = set()
        self._begun: ViewNumber | None = None
        """The view that was said to be the first one."""

    def accepting(self, host: Host, process: Process, view: View) -> None:  # noqa: ARG002
        """Its proposer installs a first view: as many as found a cluster have promised it, and vote."""
        number = view.number
        if host.state.me == (number.replica, number.incarnation) and self.past.sources.get(number) is None:
            founders = len(view.config)
            if founders < host.state.expected and not view.start:
                self.fail(host, f"first view {view} of {founders}, not {host.state.expected} replicas")

    def activated(self, step: Step, view: View, event: ViewEvent) -> None:
        """A first view is known to so many that nobody can found or replace another one without them."""
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
        """The view that no other set of founders may miss: this one, or an earlier one, not announced."""
        while not view.boot and (source := self.past.sources.get(view.number)) is not None:
            view = source
        return view

    def delivered(self, host: Host, event: Event) -> None:
        """No application is told twice that it is the first time, nor after anything was delivered."""
        if isinstance(event, ViewEvent) and event.first_time:
            if host.state.me in self._told or host.app.index:
                self.fail(host, f"is told again that the cluster begins, with view {event.view}")
            self._told.add(host.state.me)


@checker("I14", "View events stand at equal indices, say the same everywhere, and rise.")
class ViewEventAgreement(Checker):
    """Replicas that see a change of masters at different places act differently."""

    alone = True

    def stepped(self, step: Step) -> None:
        """The same event for everybody."""
        announced = step.process.announced
        for view, event in step.views:
            number = event.view
            if number <= announced:
                self.fail(step.host, f"view {number} after {announced}")
            announced = number
            said = (event.index, event.master, event.members, event.first_time)
            if number == step.process.resumed:
                # It was told in an earlier life, perhaps.
                said = (*said[:3], self.past.active[number][3])
            if self.past.active[number] != said:
                self.fail(step.host, f"view {number} is {said} and {self.past.active[number]}")
            if event.members != view.replicas():
                self.fail(step.host, f"announces {event}, accepted {view}")

    def delivered(self, host: Host, event: Event) -> None:
        """It comes after all entries up to its index and before all others."""
        if isinstance(event, ViewEvent) and event.view != self.past.processes[host.state.me].resumed:
            chains = self.past.chains
            index = event.index
            while index not in chains:
                index -= 1
            if host.app.index != index:
                self.fail(host, f"view {event.view} of {event.index} after entry {host.app.index}")
