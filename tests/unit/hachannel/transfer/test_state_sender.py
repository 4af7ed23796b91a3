"""The sender of a state: what it asks of the application, what it sends, and what it keeps of the log."""

import attrs
import pytest

from quorate.hachannel import Settings
from quorate.hachannel.model.configuration import configure
from quorate.hachannel.model.events import Event, ProvidePart, ProvideSnapshot
from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import Chunk, ChunkAck, Entry, TailEntries
from quorate.hachannel.model.view import ViewNumber, Voter
from quorate.hachannel.replication.replica_state import ReplicaState
from quorate.hachannel.transfer.chunks import OutgoingChunks
from quorate.hachannel.transfer.flow_control import FlowControl
from quorate.hachannel.transfer.pacing import Pacing
from quorate.hachannel.transfer.state_sender import StateSender
from quorate.hachannel.transfer.transfer import StatePhase, Transfer

TOKEN = 7
LEARNER = Voter(1, 1)
VIEW = ViewNumber(1, 0, 1)


@attrs.define
class Sending:
    """A sender with a log of three applied entries, and one transfer."""

    state: ReplicaState
    phase: StatePhase
    transfer: Transfer
    sender: StateSender
    closed: list[str]

    def send(self) -> None:
        self.sender.send(0.0, self.transfer, self.phase)

    def part(self, data: bytes, index: int | None = None, *, last: bool = False) -> None:
        self.phase.asked = False
        self.sender.part_ready(0.0, self.transfer, self.phase, data, index, last=last)

    def ack(self, chunks: int, *, installed: bool = False, tail: int = 0) -> int | None:
        message = ChunkAck(TOKEN, chunks, installed, tail)
        return self.sender.on_chunk_ack(0.0, self.transfer, self.phase, message)

    def events(self) -> list[Event]:
        return self.state.output.batch.events

    def chunks(self) -> list[bytes]:
        return [each.data for _, each in self.state.output.batch.messages if isinstance(each, Chunk)]

    def tails(self) -> list[list[int]]:
        sent = [each for _, each in self.state.output.batch.messages if isinstance(each, TailEntries)]
        return [[entry.index for entry in each.entries] for each in sent]


@pytest.fixture
def sending() -> Sending:
    settings = Settings(part_bytes=4, transfer_window=2)
    state = ReplicaState(Voter(0, 1), configure(0, [0, 1], "c", 2, {}, (), 1), settings, MemoryLog())
    for index in (1, 2, 3):
        state.log.append(Entry(VIEW, index, 0, b"entry"))
    state.replicated.commit = state.replicated.applied = 3
    phase = StatePhase(OutgoingChunks(TOKEN, 4, 2), Pacing(0.2, 0.01, 2, 3))
    transfer = Transfer(LEARNER, TOKEN, TOKEN, 0.0, 0.0, 0.0, 2.0, phase)
    closed: list[str] = []
    return Sending(state, phase, transfer, StateSender(state, FlowControl(state), closed.append), closed)


def test_the_application_is_asked_once_and_the_log_is_kept_from_the_entry_that_it_may_name(
    sending: Sending,
) -> None:
    sending.send()
    sending.send()
    assert sending.events() == [ProvideSnapshot(TOKEN, 3, 0, b"")]
    assert sending.transfer.hold == 3


def test_a_part_is_cut_into_chunks_and_the_window_bounds_those_in_flight(sending: Sending) -> None:
    sending.send()
    sending.part(b"abcdefghijkl")
    assert sending.chunks() == [b"abcd", b"efgh"]
    sending.ack(1)
    assert sending.chunks() == [b"abcd", b"efgh", b"ijkl"]


def test_the_next_part_is_asked_for_when_the_window_has_room(sending: Sending) -> None:
    sending.send()
    sending.part(b"ab")
    assert sending.events()[1:] == [ProvidePart(TOKEN, 3)]
    sending.part(b"cd")
    assert sending.events()[2:] == []
    sending.ack(1)
    assert sending.events()[2:] == [ProvidePart(TOKEN, 3)]


@pytest.mark.parametrize("index", [-1, 4])
def test_a_state_after_an_entry_that_the_log_does_not_have_ends_the_transfer(
    sending: Sending, index: int
) -> None:
    sending.send()
    sending.part(b"ab", index, last=True)
    assert sending.closed == [f"the state is that after entry {index}, outside 0..3"]
    assert sending.chunks() == []


def test_committed_entries_after_a_complete_state_are_sent_beside_it(sending: Sending) -> None:
    sending.send()
    sending.part(b"ab", 1, last=True)
    assert sending.sender.wake(sending.phase) is not None
    sending.send()
    assert sending.tails() == [[2], [3]]
    assert sending.ack(1, tail=3) is None
    assert sending.transfer.hold == 3


def test_a_learner_that_has_installed_the_state_catches_up_after_the_entries_that_it_has(
    sending: Sending,
) -> None:
    sending.send()
    sending.part(b"ab", 1, last=True)
    sending.send()
    assert sending.ack(1, installed=True, tail=2) == 2


def test_chunks_without_acknowledgement_are_sent_again(sending: Sending) -> None:
    sending.send()
    sending.part(b"ab")
    sending.sender.resend(1.0, sending.transfer, sending.phase)
    assert sending.chunks() == [b"ab", b"ab"]


def test_parts_that_cannot_be_made_end_the_transfer(sending: Sending) -> None:
    def parts():
        yield b"ab"
        raise MemoryError

    sending.send()
    sending.phase.asked = False
    sending.sender.snapshot_ready(0.0, sending.transfer, sending.phase, 1, parts())
    assert sending.closed == ["the state is not available: MemoryError()"]
