"""I11: a single master can commit."""

from ..channel.host import Host
from .base import Checker, checker
from .history import Step


@checker("I11", "Of two masters only the one with the higher view can commit anything.")
class SingleCommitter(Checker):
    """If several replicas believe that they are master, only the one with the highest view can get
    acknowledgements."""

    def stepped(self, step: Step) -> None:
        """Check all replicas that believe they are master."""
        if not step.host.state.leading:
            return
        hosts = self.past.world.hosts
        leaders = [other for other in hosts if other.running and other.state.leading]
        leaders.sort(key=lambda other: other.state.promised)
        for leader in leaders[:-1]:
            if self._able(leader):
                self.fail(step.host, f"{leader} can still commit in {leader.state.promised}")

    def _able(self, leader: Host) -> bool:
        view = leader.state.accepted
        assert view is not None
        able = sum(
            other.running and other.state.me in view.members and other.state.promised == view.number
            for other in self.past.world.hosts
        )
        return able >= view.k
