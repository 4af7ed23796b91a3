"""The supervisor, with a script in the place of the replicas."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quorate.server.cli import up
from quorate.server.cli.launcher import Launcher
from quorate.server.cli.restart_policy import RestartPolicy
from quorate.server.cli.supervisor import Event, Supervisor, SupervisorError

BOUND_S = 20.0

# Plays `python -m quorate start FILE --server NAME --replica ID ...`. Files beside the XML change it.
REPLICA = """#!{python}
import os, pathlib, signal, subprocess, sys, threading
home = pathlib.Path(sys.argv[4]).parent
name, number = sys.argv[6], sys.argv[8]
def mode(word):
    return (home / (word + "." + number)).exists()
if mode("young"):
    signal.pause()
if mode("fails"):
    print("quorate: port taken", file=sys.stderr)
    sys.exit(1)
def watch():
    # Signals are for the main thread, which waits for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.read(int(os.environ["QUORATE_LIFELINE"]), 1)
    (home / ("orphan." + number)).touch()
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
by = []
def stop(number, _):
    by.append(signal.Signals(number).name)
    sys.exit(0)
signal.signal(signal.SIGUSR1, stop)
if mode("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
elif mode("lonely"):
    def leave(*_):
        print(name + "." + number + " blocked: start replica 1", flush=True)
        print("bye", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGUSR1, leave)
else:
    signal.signal(signal.SIGTERM, stop)
with (home / "order").open("a") as order:
    pass
role = "master" if number == "1" else "slave"
def say(role):
    print(name + "." + number + " " + role + ", network localhost:1", flush=True)
signal.signal(signal.SIGWINCH, lambda *_: say("master"))
def blocked(*_):
    print(name + "." + number + " blocked: start replica 1", flush=True)
    say("slave")
signal.signal(signal.SIGUSR2, blocked)
print("hello from", os.environ.get("COLOUR"), flush=True)
if mode("parent"):
    # The grandchild keeps the pipes open for a while after this process is killed.
    subprocess.Popen(["sleep", "5"])
try:
    # Once it has said so it may be stopped at any moment.
    say(role)
    while True:
        signal.pause()
finally:
    with (home / "order").open("a") as order:
        order.write(number + ":" + "".join(by) + " ")
"""


class Watched:
    """A supervisor over three fake replicas, its events, and a way to wait for them."""

    def __init__(self, config: Path, launcher: Launcher, **options: Any) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self.supervisor = Supervisor(
            config, config.parent / "data", launcher=launcher, on_event=self._note, **options
        )

    def _note(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def pause(self) -> None:
        with self._changed:
            self._changed.wait(0.005)

    def until(self, kind: str, replica: int, count: int = 1) -> Event:
        """Wait for the `count`-th event of that kind."""

        def found() -> list[Event]:
            return [each for each in self.events if (each.kind, each.replica) == (kind, replica)]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, BOUND_S), self.events
            return found()[count - 1]


@pytest.fixture
def watched(xml: Any, tmp_path: Path) -> Any:
    python = tmp_path / "python"
    python.write_text(REPLICA.format(python=sys.executable))
    python.chmod(0o755)
    made: list[Watched] = []

    def make(
        *modes: str, durability: str = "disk", stop_timeout_s: float = BOUND_S, **options: Any
    ) -> Watched:
        for mode in modes:
            (tmp_path / mode).touch()
        launcher = Launcher({"COLOUR": "red"}, str(python), stop_timeout_s)
        made.append(Watched(xml(1001, 1002, 1003, durability=durability), launcher, **options))
        return made[-1]

    yield make
    for each in made:
        each.supervisor.stop()


Make = Callable[..., Watched]


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_replicas_start_become_ready_and_stop_together_or_with_the_master_last(
    watched: Make, tmp_path: Path, durability: str
) -> None:
    made = watched(durability=durability)
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        assert supervisor.master("s0") == 1
        assert supervisor.role("s0", 0) == "slave"
        assert made.until("started", 0).pid == supervisor.pid("s0", 0)
        assert made.until("ready", 1).text == "ready, master, network localhost:1"
        assert made.until("output", 2).text == "hello from red"
    assert {made.until("stopped", number).text for number in (0, 1, 2)} == {"stopped"}
    order = (tmp_path / "order").read_text().split()
    if durability == "disk":
        assert sorted(order) == ["0:SIGUSR1", "1:SIGUSR1", "2:SIGUSR1"]
    else:
        assert sorted(order[:2]) == ["0:SIGTERM", "2:SIGTERM"]
        assert order[2:] == ["1:SIGTERM"]
    assert not supervisor.running
    supervisor.stop()


def test_a_killed_replica_stays_dead_and_its_line_says_how_to_bring_it_back(watched: Make) -> None:
    made = watched()
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        pid = supervisor.kill("s0", 1)
        died = made.until("died", 1)
        assert died.text.startswith("killed by SIGKILL; bring it back with: quorate start ")
        assert died.text.endswith(supervisor.command("s0", 1))
        assert "--server s0 --replica 1 --data" in died.text
        assert supervisor.pid("s0", 1) is None
        assert supervisor.master("s0") is None
        with pytest.raises(SupervisorError, match="does not run"):
            supervisor.kill("s0", 1)
        assert supervisor.start_replica("s0", 1) != pid
        made.until("ready", 1, count=2)
        with pytest.raises(SupervisorError, match="runs already"):
            supervisor.start_replica("s0", 1)


def test_the_late_end_of_a_replica_leaves_the_role_of_the_one_started_after_it(watched: Make) -> None:
    made = watched("parent.0")
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        supervisor.kill("s0", 0)
        while supervisor.pid("s0", 0) is not None:
            made.pause()
        supervisor.start_replica("s0", 0)
        made.until("ready", 0, count=2)
        made.until("died", 0)
        assert supervisor.role("s0", 0) == "slave"
        assert supervisor.running


def test_a_change_of_role_is_an_event(watched: Make) -> None:
    made = watched()
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        supervisor.kill("s0", 0, signal.SIGWINCH)
        assert made.until("role", 0).text == "slave -> master"


def test_a_replica_that_waits_for_others_is_shown_and_so_is_its_role_afterwards(watched: Make) -> None:
    made = watched()
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        supervisor.kill("s0", 0, signal.SIGUSR2)
        assert made.until("settled", 0).text == "slave again"
        assert made.until("output", 0, count=2).text == "blocked: start replica 1"
        assert supervisor.role("s0", 0) == "slave"


@pytest.mark.parametrize("by", ["supervisor", "signal"])
def test_a_replica_that_waits_for_others_while_it_stops_is_not_shown(watched: Make, by: str) -> None:
    made = watched("lonely.0")
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        if by == "signal":
            supervisor.kill("s0", 0, signal.SIGTERM)
            made.until("stopped", 0)
    said = [each.text for each in made.events if (each.kind, each.replica) == ("output", 0)]
    assert said[1:] == ["bye"]


def test_a_killed_replica_is_restarted_by_a_policy_and_one_that_was_stopped_is_not(watched: Make) -> None:
    made = watched(restart=RestartPolicy(first_delay_s=0.01))
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        supervisor.kill("s0", 2)
        assert made.until("died", 2).text == "killed by SIGKILL"
        made.until("restarting", 2)
        made.until("ready", 2, count=2)
        supervisor.kill("s0", 2, signal.SIGTERM)
        made.until("stopped", 2)
        assert supervisor.pid("s0", 2) is None


def test_a_replica_started_by_hand_before_its_restart_runs_once(watched: Make) -> None:
    made = watched(restart=RestartPolicy(first_delay_s=0.3))
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        supervisor.kill("s0", 2)
        made.until("restarting", 2)
        pid = supervisor.start_replica("s0", 2)
        made.until("ready", 2, count=2)
        supervisor.kill("s0", 0)
        made.until("ready", 0, count=2)
        assert supervisor.pid("s0", 2) == pid


def test_a_replica_that_cannot_start_is_given_up(watched: Make) -> None:
    made = watched("fails.2", restart=RestartPolicy(first_delay_s=0.001, max_failed_starts=3))
    with made.supervisor as supervisor:
        with pytest.raises(SupervisorError, match=r"^s0\.2: ended\.$"):
            supervisor.wait_ready(BOUND_S)
        made.until("gave up", 2)
        assert len([each for each in made.events if (each.kind, each.replica) == ("died", 2)]) == 3
        assert made.until("output", 2).text == "quorate: port taken"
        assert supervisor.running


def test_waiting_for_replicas_is_bounded(watched: Make) -> None:
    made = watched()
    with pytest.raises(SupervisorError, match="ended"):
        made.supervisor.wait_ready(0.0)


def test_a_replica_that_ignores_sigterm_is_killed(watched: Make) -> None:
    made = watched("stubborn.0", stop_timeout_s=0.2)
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
    assert made.until("stopped", 0).text == "killed by SIGKILL"


def test_a_replica_without_signal_handlers_yet_is_stopped(watched: Make) -> None:
    made = watched("young.0")
    with made.supervisor:
        made.until("ready", 2)
    assert made.until("stopped", 0).text == "stopped"


def test_a_suspended_replica_is_stopped_too(watched: Make) -> None:
    made = watched()
    with made.supervisor as supervisor:
        supervisor.wait_ready(BOUND_S)
        supervisor.kill("s0", 0, signal.SIGSTOP)
    assert made.until("stopped", 0).text == "stopped"


def test_replicas_do_not_outlive_a_supervisor_that_is_killed(watched: Make, tmp_path: Path) -> None:
    made = watched()
    script = (
        "import sys, time; from quorate.server.cli.launcher import Launcher;"
        "from quorate.server.cli.supervisor import Supervisor;"
        "s = Supervisor(sys.argv[1], sys.argv[2], launcher=Launcher(python=sys.argv[3]));"
        "s.start(); s.wait_ready(20);"
        "print(*(s.pid('s0', n) for n in range(3)), flush=True); time.sleep(60)"
    )
    config, python = tmp_path / "a3servers.xml", tmp_path / "python"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(config), str(tmp_path / "data"), str(python)],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 3
        waiting = [os.pidfd_open(pid) for pid in pids]
        parent.kill()
    import select

    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    left = set(waiting)
    while left:
        ended = poll.poll(BOUND_S * 1000)
        assert ended
        for descriptor, _ in ended:
            poll.unregister(descriptor)
            os.close(descriptor)
            left.discard(descriptor)
    assert (tmp_path / "orphan.0").exists()
    del made


def test_an_unknown_replica_is_an_error_that_lists_the_known_ones(watched: Make) -> None:
    with pytest.raises(SupervisorError, match=r"no replica s0\.9 .* s0\.0, s0\.1, s0\.2"):
        watched().supervisor.pid("s0", 9)


def test_a_missing_python_is_one_sentence(xml: Any, tmp_path: Path) -> None:
    supervisor = Supervisor(xml(1001), tmp_path, launcher=Launcher(python=str(tmp_path / "none")))
    with pytest.raises(SupervisorError, match="Cannot run"), supervisor:
        pass
    supervisor.stop()


def test_up_shows_a_line_per_event_and_ends_with_its_replicas(
    xml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(REPLICA.format(python=sys.executable))
    python.chmod(0o755)
    (tmp_path / "fails.0").touch()
    monkeypatch.setattr(
        up,
        "Supervisor",
        lambda *args, **options: Supervisor(*args, launcher=Launcher(python=str(python)), **options),
    )
    result = CliRunner().invoke(up.command, [str(xml(1001))])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("s0.0 started, pid ")
    assert lines[1] == "s0.0 quorate: port taken"
    assert lines[2].startswith("s0.0 ended with status 1; mend that, then start it with: quorate start ")
