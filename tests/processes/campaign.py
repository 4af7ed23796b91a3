"""Random faults for groups of real processes, by seed: `python -m tests.processes.campaign --seed 7`.

A seed says how many members there are, with or without disks, the mode, whether each is in a network
namespace, and what happens to them when: killed and started again, stopped in order, frozen and thawed, disks
lost, connections cut in one or both directions, cables pulled (`plans.py`). All send all the time. What they
write down is checked every half second and, once everything is mended and quiet, as a whole (`recorded.py`).
Processes do not run twice the same way: a seed that fails may have to be run again several times.
"""

import heapq
import itertools
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from quorate.server.processes.free_ports import free_ports
from quorate.testing.servers.namespaces import Namespaces

from .plans import FATAL, Plan, Step, directions
from .recorded import Recorded
from .running import ROOT, Running
from .seeds import main
from .sequences import Wrong

RECORDER = ROOT / "tests" / "processes" / "recorder.py"
SUSPECT_S = 1.0
SETTLE_S = 90.0
"""Longer than it takes until all are together again and quiet, also on a busy machine."""
BROKEN_SETTLE_S = 20.0
"""The same for members that are broken on purpose, and perhaps never are."""
WHOLE_S = 6.0
"""How long a step that needs everybody waits for them."""
LOOK_S = 0.5
"""How often what was written is checked."""


class Member:
    """A place in the group, with the processes that fill it one after the other."""

    def __init__(self, me: int) -> None:
        self.me = me
        self.lives = 0
        self.process: Running | None = None
        self.frozen = False
        self.lost = False
        """Its disk was lost once: a journal that is not there then is no beginning."""

    @property
    def name(self) -> str:
        """Of the present process, or the last."""
        return f"{self.me}.{self.lives}"


class Campaign:
    """A run of one plan. `counts` says what happened."""

    failures: ClassVar[tuple[type[Exception], ...]] = (Wrong,)
    """What `run` raises when a promise is broken."""

    def __init__(
        self,
        plan: Plan,
        place: Path,
        net: Namespaces | None,
        broken: str = "",
        say: Callable[[str], None] = print,
    ) -> None:
        """`place`: an empty directory. `broken`: a mutant that all members have."""
        self.plan = plan
        self.place = place
        self.recorded = Recorded()
        self.counts: Counter[str] = Counter()
        self._net = net
        self._broken = broken
        self._say = say
        self._members = [Member(me) for me in range(plan.members)]
        if net is None:
            self._addresses = [str(port) for port in free_ports(plan.members)]
        else:
            self._addresses = [f"{host}:7300" for host in net.addresses]
        self._undo: list[tuple[float, int, str, Callable[[], None]]] = []
        self._number = itertools.count()
        self._cuts: Counter[tuple[int, int]] = Counter()
        self._unplugged: Counter[int] = Counter()
        self._looked = 0.0

    # The run

    def run(self) -> None:
        """Do everything. Raises Wrong."""
        try:
            for member in self._members:
                self._start(member)
            self._until(self._whole, "that there is a group")
            for step in self.plan.steps:
                self._let_pass(step.after_s)
                self._do(step)
            self.undo_all()
            self._until(self._whole, "that all are together again")
            for member in self._members:
                self._tell(member, "enough")
            living = [member.name for member in self._members]
            self._until(lambda: not list(self.recorded.behind(living)), "that all have everything")
            self.recorded.finish(living)
        finally:
            for member in self._members:
                if member.process is not None:
                    member.process.end()

    def figures(self) -> Counter[str]:
        """What happened, and how much was seen."""
        recorded = self.recorded
        seen = {
            "messages": recorded.length,
            "deliveries": recorded.deliveries,
            "views": len(recorded.views),
            "tenures": len(recorded.acts),
        }
        return self.counts + Counter(seen)

    def undo_all(self) -> None:
        """Wait until everything that happened is undone."""
        while self._undo:
            self._let_pass(max(0.0, self._undo[0][0] - time.monotonic()))

    def _let_pass(self, seconds: float) -> None:
        """Undo what is due, and look at what was written, until so much time has passed."""
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            while self._undo and self._undo[0][0] <= now:
                _, _, what, undo = heapq.heappop(self._undo)
                self._note(what)
                undo()
            if now - self._looked > LOOK_S:
                self._look()
            due = min(end, self._undo[0][0] if self._undo else end, self._looked + LOOK_S)
            if now >= end:
                return
            threading.Event().wait(max(0.001, due - now))

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + (BROKEN_SETTLE_S if self._broken else SETTLE_S)
        while not condition():
            if time.monotonic() > end:
                names = [member.name for member in self._members]
                lives = [self.recorded.lives[name] for name in names if name in self.recorded.lives]
                views = [f"{life.name} {life.view} of {life.members}" for life in lives]
                raise Wrong(f"it did not happen {what}: {views} {list(self.recorded.behind(names))}")
            self._let_pass(0.1)
            self._look()

    def _look(self) -> None:
        self._looked = time.monotonic()
        self.recorded.read(self.place)
        self.recorded.check()
        for member in self._members:
            if member.process is not None and (status := member.process.process.poll()) is not None:
                raise Wrong(f"{member.name} ended with status {status}: {member.process.rest()[-5:]}")

    def _whole(self) -> bool:
        """Whether everybody is there, reaches everybody, and was told of the same view last, of all."""
        if (
            any(member.process is None or member.frozen for member in self._members)
            or self._cuts
            or self._unplugged
        ):
            return False
        lives = [self.recorded.lives.get(member.name) for member in self._members]
        return (
            all(life is not None and len(life.members) == self.plan.members for life in lives)
            and len({life.view for life in lives if life is not None}) == 1
        )

    # What happens

    def _do(self, step: Step) -> None:
        if step.kind in FATAL and (step.kind == "lose" or not self.plan.disk):
            # Who comes back without its memory has lost its vote: nobody else until it has a new one.
            end = time.monotonic() + WHOLE_S
            while not self._whole() and time.monotonic() < end:
                self._let_pass(0.1)
                self._look()
            if not self._whole():
                self.counts["skipped"] += 1
                return
        if step.kind == "cut":
            self._sever(step)
            return
        seniority = self._seniority()
        victims = [self._members[seniority[number]] for number in step.victims]
        victims = [member for member in victims if member.process is not None]
        if step.kind == "freeze":
            victims = [member for member in victims if not member.frozen]
        if not victims:
            self.counts["skipped"] += 1
            return
        if step.kind == "behead":
            self._behead(victims, step.for_s, cut=step.shape == "cut")
            return
        self.counts[step.kind] += len(victims)
        names = [member.name for member in victims]
        self._note(f"{step.kind} {' '.join(names)} for {step.for_s:.2f} s")
        for member in victims:
            getattr(self, f"_{step.kind}")(member)
        back = self._thaw if step.kind == "freeze" else self._start
        for member in victims:
            self._later(step.for_s, f"{back.__name__[1:]} {member.me}", lambda member=member: back(member))

    def _behead(self, victims: Sequence[Member], seconds: float, *, cut: bool) -> None:
        """Nobody else takes what one of them still does: then that one dies."""
        dead, *others = victims
        names = " ".join(member.name for member in victims)
        self._note(f"behead {names} for {seconds:.2f} s, {'cut off' if cut else 'frozen'}")
        self.counts["kill"] += 1
        if cut:
            self._cut([(dead.me, other.me) for other in others], seconds, "beheaded")
        for member in others if not cut else ():
            self.counts["freeze"] += 1
            self._freeze(member)
            self._later(seconds, f"thaw {member.me}", lambda member=member: self._thaw(member))
        self._let_pass(min(seconds / 2, 0.3))
        self._kill(dead)
        self._later(seconds, f"start {dead.me}", lambda: self._start(dead))

    def _kill(self, member: Member) -> None:
        process, member.process = member.process, None
        member.frozen = False
        if process is not None:
            process.end()

    _kill_all = _kill

    def _lose(self, member: Member) -> None:
        self._kill(member)
        member.lost = True
        for path in self.place.glob(f"{member.me}.db*"):
            path.unlink()

    def _leave(self, member: Member) -> None:
        # It is left alone from here on; who is frozen leaves when it is thawed.
        process = member.process
        self._thaw(member)
        assert process is not None
        member.process = None
        self._ask_to_leave(process)
        ended = threading.Thread(target=process.ended)
        ended.start()
        while ended.is_alive():
            self._let_pass(0.05)

    def _ask_to_leave(self, process: Running) -> None:
        process.say("leave")

    def _freeze(self, member: Member) -> None:
        assert member.process is not None
        member.process.signal(signal.SIGSTOP)
        member.frozen = True

    def _thaw(self, member: Member) -> None:
        if member.process is not None and member.frozen:
            member.process.signal(signal.SIGCONT)
        member.frozen = False

    def _start(self, member: Member) -> None:
        if member.process is not None:
            return
        member.lives += 1
        options = [
            "--name",
            member.name,
            "--file",
            self.place / f"{member.name}.life",
            "--mode",
            self.plan.mode,
        ]
        options += ["--suspect", SUSPECT_S]
        if self.plan.disk:
            options += ["--disk", self.place / f"{member.me}.db"]
            options += ["--guest"] if member.lost else []
        if self._broken:
            options += ["--broken", self._broken]
        before = self._net.command(member.me) if self._net is not None else ()
        env = {"PYTHONPATH": str(ROOT)}
        member.process = Running([RECORDER, member.me, *self._addresses, *options], before=before, env=env)

    def _sever(self, step: Step) -> None:
        seniority = self._seniority()
        order = [seniority[number] for number in step.victims]
        self._note(f"cut, {step.shape}, {order} for {step.for_s:.2f} s")
        if step.shape == "unplug":
            assert self._net is not None
            self.counts["cut"] += 1
            self._unplugged[order[0]] += 1
            self._net.unplug(order[0])
            self._later(step.for_s, f"plug {order[0]}", lambda: self._plug(order[0]))
        else:
            self._cut(list(directions(step.shape, order)), step.for_s, step.shape)

    def _cut(self, pairs: Sequence[tuple[int, int]], seconds: float, what: str) -> None:
        assert self._net is not None
        self.counts["cut"] += 1
        self._cuts.update(pairs)
        self._net.cut(*pairs)
        self._later(seconds, f"mend {what}", lambda: self._mend(pairs))

    def _plug(self, member: int) -> None:
        self._unplugged[member] -= 1
        self._unplugged += Counter()
        if not self._unplugged[member]:
            assert self._net is not None
            self._net.plug(member)

    def _mend(self, directions: Sequence[tuple[int, int]]) -> None:
        self._cuts.subtract(directions)
        self._cuts += Counter()
        mended = [pair for pair in directions if not self._cuts[pair]]
        if mended:
            assert self._net is not None
            self._net.mend(*mended)

    def _seniority(self) -> list[int]:
        """All members, those of the newest view first, in its order."""
        lives = [life for life in self.recorded.lives.values() if life.view is not None]
        first = max(lives, key=lambda life: life.view or (0, 0, 0)).members if lives else ()
        return [*first, *(me for me in range(self.plan.members) if me not in first)]

    def _later(self, seconds: float, what: str, undo: Callable[[], None]) -> None:
        heapq.heappush(self._undo, (time.monotonic() + seconds, next(self._number), what, undo))

    def _tell(self, member: Member, line: str) -> None:
        assert member.process is not None
        member.process.say(line)

    def _note(self, line: str) -> None:
        self._say(f"  {time.monotonic():.2f} {line}")


if __name__ == "__main__":
    sys.exit(
        main(Campaign, "tests.processes.campaign", "Kill, freeze and cut off members of groups, by seed.")
    )
