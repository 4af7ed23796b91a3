"""Asking a cluster for a change until it is made: refusals, masters that come and go, time."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from quorate.server.admin import wire
from quorate.server.admin.connection import AdminError, CallFailed, Endpoint, Unreachable
from quorate.server.admin.protocol import AdminProtocol
from quorate.server.admin.reconfiguration import ReconfigurationFailed, Reconfigurer
from quorate.server.admin.reconfiguration_plan import ReconfigurationStep, SeatStatus, describe
from quorate.server.cli.apply import command as apply
from quorate.server.network.addresses import ReplicaAddress, decode_address

PLACE = msgspec.msgpack.encode(ReplicaAddress("far", (("D1", "far", 9),)))


class Cluster:
    """What the replicas of a cluster would answer."""

    def __init__(self) -> None:
        self.masters = [1]
        self.replicas: dict[str, dict[str, Any]] = {
            str(id): {"at": f"h{id}", "voter": True, "member": True} for id in (0, 1, 2)
        }
        self.asked: list[wire.Body] = []
        self.on_ask: Callable[[wire.Body], None] = self.make
        self.clock = 0.0
        self.said: list[str] = []
        self.secret: str | None = None
        self.durability = "disk"
        self.hints: dict[int, tuple[str, int]] = {}
        self.removed: list[int] = []
        self.running: set[int] = set()
        """Of those that are added."""
        self.mute = 0
        """So many questions are not answered."""
        self.identity: dict[str, Any] = {}
        """What they say of the server that they are."""
        self.role = "slave"
        """Of those that are not master."""
        self.changeable: set[int] = set()
        """Those that are master, and blocked for want of copies."""
        self.lonely: set[int] = set()
        """Those that are master, and have no majority."""

    def make(self, body: wire.Body) -> None:
        if isinstance(body, wire.Remove):
            self.replicas.pop(str(body.replica), None)
            self.removed.append(body.replica)
        elif isinstance(body, wire.Admit):
            at = str(decode_address(body.address))
            self.replicas[str(body.replica)] = {"at": at, "voter": False, "member": False}

    def ask_at(self, endpoint: Endpoint, body: wire.Body, expected: Any, timeout_s: float) -> Any:
        del expected, timeout_s
        self.clock += 0.1
        id = endpoint.port
        if self.mute:
            self.mute -= 1
            raise Unreachable("nobody")
        if isinstance(body, wire.Status):
            role = "master" if id in self.masters else self.role
            said = {"role": role, "replicas": self.replicas, "removed": self.removed}
            if role == "blocked":
                said["diagnosis"] = f"too few replicas, start replica {id + 7}"
                said["changeable"] = id in self.changeable
            elif id in self.lonely:
                said["diagnosis"] = "too few replicas, start replica 7"
                said["changeable"] = True
            said |= self.identity
            return {**said, "master_address": self.hints.get(id)}
        self.asked.append(body)
        self.on_ask(body)
        return True

    def ask(self, replica: int, body: wire.Body, expected: Any, timeout_s: float) -> Any:
        del body, expected, timeout_s
        if replica not in self.running:
            raise Unreachable("nobody")
        return {"role": "joining", "diagnosis": "gets the state from the others."}

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        for said in self.replicas.values():
            said["voter"] = said["member"] = said["voter"] or self.clock > 5

    def reconfigurer(self, timeout_s: float = 60.0) -> Reconfigurer:
        admin = SimpleNamespace(
            config=SimpleNamespace(path="a3servers.xml"),
            server=SimpleNamespace(
                name="s0", id=0, durability=self.durability, replicas=[SimpleNamespace(id=0, host="h")]
            ),
            endpoints=[Endpoint(id, "h", id) for id in range(3)],
            endpoint=Endpoint,
            ask_at=self.ask_at,
            ask=self.ask,
            trusts=lambda host: self.secret is not None or host == "h",
        )
        return Reconfigurer(admin, timeout_s, self.said.append, lambda: self.clock, self.sleep)  # type: ignore[arg-type]


def failing(kind: str, sentence: str = "why") -> CallFailed:
    return CallFailed(wire.Failure(1, kind, sentence))  # type: ignore[arg-type]


def test_a_replica_is_added_and_waited_for() -> None:
    cluster = Cluster()
    cluster.reconfigurer().apply(ReconfigurationStep(3, PLACE))
    assert [type(body) for body in cluster.asked] == [wire.Admit]
    assert cluster.said[-1] == "s0: replica 3 takes part"
    assert any("`quorate start a3servers.xml --server s0" in line for line in cluster.said)


@pytest.mark.parametrize(
    ("identity", "sentence"),
    [
        ({"server": "s0", "server_id": 5}, "runs as s0 with id 5, and the file says id 0: a server keeps"),
        ({"server": "s9", "replica": 0}, "is s9.0, not s0.0: correct the ids and the ports"),
        ({"server": "s0", "replica": 2}, "is s0.2, not s0.0: correct the ids and the ports"),
    ],
)
def test_another_server_is_not_changed(identity: dict[str, Any], sentence: str) -> None:
    cluster = Cluster()
    cluster.identity = identity
    with pytest.raises(AdminError, match=sentence):
        cluster.reconfigurer().apply(ReconfigurationStep(3, PLACE))
    with pytest.raises(AdminError, match=sentence):
        cluster.reconfigurer().steps([])
    assert cluster.asked == []


def test_a_master_with_too_few_copies_is_asked_for_another_one() -> None:
    cluster = Cluster()
    cluster.masters, cluster.role = [], "blocked"
    cluster.changeable = {2}
    cluster.reconfigurer().apply(ReconfigurationStep(3, PLACE))
    assert cluster.said[-1] == "s0: replica 3 takes part"


def test_a_running_replica_reports_why_it_does_not_take_part_yet() -> None:
    cluster = Cluster()
    cluster.running.add(3)
    cluster.reconfigurer().apply(ReconfigurationStep(3, PLACE))
    why = "it runs, and does not take part yet: gets the state from the others"
    assert cluster.said[2:] == [f"s0: replica 3: {why}", "s0: replica 3 takes part"]
    cluster = Cluster()
    cluster.running.add(3)
    with pytest.raises(ReconfigurationFailed, match=f"after 1 s {why}"):
        cluster.reconfigurer(1.0).apply(ReconfigurationStep(3, PLACE))


def test_the_wait_for_a_joining_replica_ends_without_a_master() -> None:
    cluster = Cluster()
    reconfigurer = cluster.reconfigurer(60.0)

    def sleep(seconds: float) -> None:
        cluster.clock += seconds
        if any("does not take part yet" in line for line in cluster.said):
            cluster.masters = []

    reconfigurer.sleep = sleep
    with pytest.raises(
        ReconfigurationFailed, match="replica 3 was added, and is not known to take part: s0 has no"
    ):
        reconfigurer.apply(ReconfigurationStep(3, PLACE))
    assert cluster.clock < 15


def test_a_change_of_the_view_is_not_worth_a_line() -> None:
    cluster = Cluster()

    def make(body: wire.Body) -> None:
        cluster.make(body)
        cluster.masters = []

    def sleep(seconds: float) -> None:
        cluster.clock += seconds
        cluster.masters = [2] if cluster.clock > 0.8 else []

    cluster.on_ask = make
    reconfigurer = cluster.reconfigurer()
    reconfigurer.sleep = sleep
    reconfigurer.apply(ReconfigurationStep(1, None))
    assert cluster.said == ["s0: remove replica 1: asked", "s0: remove replica 1: done"]


def test_a_step_that_is_done_already_is_not_asked_for() -> None:
    cluster = Cluster()
    cluster.reconfigurer().apply(ReconfigurationStep(1, None))
    cluster.reconfigurer().apply(ReconfigurationStep(1, None))
    assert len(cluster.asked) == 1
    assert cluster.said[-1] == "s0: remove replica 1: done already"
    del cluster.replicas["0"]
    cluster.reconfigurer().apply(ReconfigurationStep(0, None))
    assert len(cluster.asked) == 1, "the file has it: it may be deleted there later"


def test_a_replica_that_never_was_cannot_be_removed() -> None:
    cluster = Cluster()
    with pytest.raises(
        ReconfigurationFailed, match=r"s0 has no replica 7, neither running nor in the file; it has 0"
    ):
        cluster.reconfigurer().apply(ReconfigurationStep(7, None))
    assert cluster.asked == []


def test_the_start_command_is_reported_after_a_failed_poll_too() -> None:
    cluster = Cluster()
    reconfigurer = cluster.reconfigurer()

    def sleep(seconds: float) -> None:
        if not cluster.mute and not any("takes part" in line for line in cluster.said):
            cluster.mute = 3 if cluster.clock < 1 else 0
        cluster.sleep(seconds)

    reconfigurer.sleep = sleep
    reconfigurer.apply(ReconfigurationStep(3, PLACE))
    assert len([line for line in cluster.said if "quorate start" in line]) == 1


def test_the_start_command_is_not_repeated_at_the_end_of_the_wait() -> None:
    cluster = Cluster()
    with pytest.raises(ReconfigurationFailed) as told:
        cluster.reconfigurer(1.0).apply(ReconfigurationStep(3, PLACE))
    assert str(told.value) == "s0: replica 3 was added, and after 1 s it does not take part yet."
    assert len([line for line in cluster.said if "quorate start" in line]) == 1


def test_a_change_that_comes_to_nothing_is_asked_for_again() -> None:
    cluster = Cluster()

    def make(body: wire.Body) -> None:
        if len(cluster.asked) == 1:
            cluster.masters = []
        elif len(cluster.asked) == 2:
            raise failing("not yet")
        else:
            cluster.make(body)

    def sleep(seconds: float) -> None:
        cluster.clock += seconds
        cluster.masters = [2]

    cluster.on_ask = make
    reconfigurer = cluster.reconfigurer()
    reconfigurer.sleep = sleep
    reconfigurer.apply(ReconfigurationStep(1, None))
    assert len(cluster.asked) == 3
    assert "1" not in cluster.replicas
    assert "s0: remove replica 1: asked" in cluster.said
    assert [line for line in cluster.said if "asked, for it came to nothing" in line]


def test_a_refusal_ends_it_with_the_reason() -> None:
    cluster = Cluster()

    def refuse(body: wire.Body) -> None:
        raise failing("refused", f"No: {body}")

    cluster.on_ask = refuse
    with pytest.raises(ReconfigurationFailed, match="s0: remove replica 1: No:"):
        cluster.reconfigurer().apply(ReconfigurationStep(1, None))
    assert len(cluster.asked) == 1


def test_a_step_fails_at_its_timeout_with_the_reason() -> None:
    cluster = Cluster()
    cluster.masters = []
    with pytest.raises(ReconfigurationFailed, match="no master"):
        cluster.reconfigurer(3.0).apply(ReconfigurationStep(1, None))
    waits = [line for line in cluster.said if "remove replica 1: waits up to 3 s: s0 has no master" in line]
    assert len(waits) == 1
    cluster.masters = [0]
    with pytest.raises(ReconfigurationFailed, match="does not take part"):
        cluster.reconfigurer(1.0).apply(ReconfigurationStep(3, PLACE))
    cluster.reconfigurer(1.0).apply(ReconfigurationStep(4, PLACE), wait=False)


def test_a_master_is_waited_for_after_a_start() -> None:
    cluster = Cluster()
    cluster.mute = 7
    assert set(cluster.reconfigurer().replicas()) == {0, 1, 2}
    assert cluster.said == ["s0 has no master now: nobody; nobody; nobody; waits up to 10 s for one"]


def test_a_cluster_that_is_blocked_is_given_up_early_with_what_to_do() -> None:
    cluster = Cluster()
    cluster.masters, cluster.role = [], "blocked"
    with pytest.raises(
        ReconfigurationFailed,
        match=r"remove replica 1 is not known to be done: .*start replica 7\).*force-new-cluster",
    ):
        cluster.reconfigurer(60.0).apply(ReconfigurationStep(1, None))
    assert 10 <= cluster.clock < 12
    assert cluster.asked == []


def test_a_cluster_without_disks_is_not_said_to_begin_again_from_a_replica() -> None:
    cluster = Cluster()
    cluster.durability = "memory"
    cluster.masters, cluster.role = [], "blocked"
    with pytest.raises(ReconfigurationFailed, match=r"start replica 7\).*nothing can be changed; none came"):
        cluster.reconfigurer(60.0).apply(ReconfigurationStep(1, None))


def test_a_master_without_a_majority_is_not_asked() -> None:
    cluster = Cluster()
    cluster.lonely.update(cluster.masters)
    with pytest.raises(
        ReconfigurationFailed, match=r"is master \(too few replicas, start replica 7\).*force-new-cluster"
    ):
        cluster.reconfigurer(60.0).apply(ReconfigurationStep(3, PLACE))
    assert cluster.asked == []
    cluster.lonely.clear()
    cluster.reconfigurer().apply(ReconfigurationStep(3, PLACE))
    assert cluster.said[-1] == "s0: replica 3 takes part"


def test_no_replica_takes_the_place_of_another_one() -> None:
    cluster = Cluster()
    cluster.replicas["1"]["address"] = ["far", 9]
    for step in (
        lambda: cluster.reconfigurer().apply(ReconfigurationStep(3, PLACE)),
        lambda: cluster.reconfigurer().check(ReconfigurationStep(3, PLACE)),
    ):
        with pytest.raises(
            ReconfigurationFailed, match=r"replica 3 is to be at far .*, where replica 1 of the cluster is"
        ):
            step()
    with pytest.raises(ReconfigurationFailed, match="nothing was changed"):
        cluster.reconfigurer().steps([ReconfigurationStep(0, None), ReconfigurationStep(3, PLACE)])
    assert cluster.asked == []
    cluster.reconfigurer().check(ReconfigurationStep(1, PLACE))


def test_a_replica_that_somebody_else_removes_again_is_not_waited_for() -> None:
    cluster = Cluster()
    reconfigurer = cluster.reconfigurer()

    def sleep(seconds: float) -> None:
        cluster.clock += seconds
        if cluster.clock > 2:
            cluster.replicas.pop("3", None)

    reconfigurer.sleep = sleep
    with pytest.raises(ReconfigurationFailed, match="somebody has removed it again: another command"):
        reconfigurer.apply(ReconfigurationStep(3, PLACE))
    assert cluster.clock < 5


def test_apply_says_that_another_command_has_undone_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a3servers.xml"
    file.write_text(
        '<config><property name="secret" value="x"/><domain name="D1"/>'
        '<cluster id="0" name="s0"><server id="0" hostname="h">'
        '<network domain="D1" port="1000"/></server></cluster></config>'
    )
    found = {id: SeatStatus(f"h (D1 h:{1000 + id})", voter=True, member=True) for id in (0, 1)}
    monkeypatch.setattr(Reconfigurer, "replicas", lambda _: found)
    monkeypatch.setattr(Reconfigurer, "apply", lambda *_: None)
    done = CliRunner().invoke(apply, [str(file)])
    assert done.exit_code == 1
    assert "another command has changed the cluster meanwhile" in done.output
    assert "(remove replica 1)" in done.output


def test_a_master_that_the_file_lacks_is_followed_if_it_proves_the_secret_or_is_on_a_known_host() -> None:
    cluster = Cluster()
    cluster.masters = [9]
    cluster.hints = {0: ("elsewhere", 9)}
    with pytest.raises(ReconfigurationFailed, match=r"s0 has no master now: .*; none came in 10 s"):
        cluster.reconfigurer().replicas()
    cluster.secret = "x"
    assert set(cluster.reconfigurer().replicas()) == {0, 1, 2}
    cluster.secret, cluster.hints = None, {0: ("h", 9)}
    assert set(cluster.reconfigurer().replicas()) == {0, 1, 2}


def test_a_list_shows_which_replicas_take_part() -> None:
    cluster = Cluster()
    cluster.replicas["1"]["member"] = False
    cluster.replicas["2"] = {"at": "h2", "voter": False, "member": False}
    said = [describe(seated) for _, seated in sorted(cluster.reconfigurer().replicas().items())]
    assert said == ["h0, takes part", "h1, is a voter and down", "h2, has not joined"]


def test_an_id_that_no_replica_can_have_is_refused() -> None:
    sent: list[bytes] = []
    protocol = AdminProtocol(SimpleNamespace(), sent.append)  # type: ignore[arg-type]
    protocol.frame_received(wire.encode(wire.Call(1, wire.Admit(1 << 20, b""))))
    answer = wire.decode_answer(sent[0])
    assert isinstance(answer, wire.Failure)
    assert answer.kind == "refused"


def test_a_file_without_a_cluster_has_nothing_to_apply(tmp_path: Path) -> None:
    file = tmp_path / "a3servers.xml"
    file.write_text('<config><server id="0" name="s0" hostname="h"/></config>')
    done = CliRunner().invoke(apply, [str(file)])
    assert done.exit_code == 0
    assert done.output.endswith("a3servers.xml declares no <cluster>: there is nothing to apply\n")
    done = CliRunner().invoke(apply, [str(file), "--server", "s0"])
    assert (done.exit_code, done.output) == (
        2,
        "quorate: s0 is not a <cluster>: it always has one replica.\n",
    )


def test_a_dry_run_says_by_its_status_whether_something_would_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a3servers.xml"
    file.write_text(
        '<config><property name="secret" value="x"/><domain name="D1"/>'
        '<cluster id="0" name="s0"><server id="0" hostname="h">'
        '<network domain="D1" port="1000"/></server></cluster></config>'
    )
    found = {0: SeatStatus("h (D1 h:1000)", voter=True, member=True)}
    monkeypatch.setattr(Reconfigurer, "replicas", lambda _: found)
    same = CliRunner().invoke(apply, [str(file), "--dry-run"])
    assert (same.exit_code, same.output) == (0, "s0 has the replicas of the file\n")
    found[1] = found[0]
    other = CliRunner().invoke(apply, [str(file), "--dry-run"])
    assert (other.exit_code, other.output) == (1, "s0: would remove replica 1\n")
