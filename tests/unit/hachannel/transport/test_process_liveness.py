"""Whether the process at the other end has ended, from the operating system."""

import os
import subprocess
import sys

import pytest

from quorate.hachannel.transport.process_liveness import has_ended, is_visible, this_process

pytestmark = pytest.mark.skipif(not this_process(), reason="needs /proc")


@pytest.fixture
def child():
    code = (
        "from quorate.hachannel.transport.process_liveness import this_process;"
        "print(this_process(), flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def test_a_killed_process_has_ended(child):
    described = child.stdout.readline().strip()
    assert is_visible(described)
    assert not has_ended(described)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(described), "as a zombie, too"
    child.wait()
    assert has_ended(described)
    assert not is_visible(described)


def test_a_later_process_with_the_same_number_is_a_different_one():
    machine, _, started = this_process().rpartition(" ")
    assert has_ended(f"{machine} {int(started) - 1}")


def test_a_process_of_another_machine_never_counts_as_ended():
    _, rest = this_process().split(" ", 1)
    stranger = f"00000000-0000-0000-0000-000000000000 {rest}"
    assert not is_visible(stranger)
    assert not has_ended(stranger)


@pytest.mark.parametrize("words", ["", "x", "a b c d", "  ", "a b c d e", "../../etc"])
def test_a_malformed_description_tells_nothing(words):
    assert not is_visible(words)
    assert not has_ended(words)
    machine = " ".join(this_process().split(" ")[:2])
    assert not has_ended(f"{machine} -1 5")
    assert not has_ended(f"{machine} ../1 5")
