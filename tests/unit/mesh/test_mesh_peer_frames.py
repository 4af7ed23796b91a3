"""Messages between daemons in frames: short ones whole, long ones in parts, garbage refused."""

import pytest

from quorate.mesh.messages import AskSnap, Msgs
from quorate.mesh.model import DIRECTORY, Stream
from quorate.mesh.peer_frames import PeerFrames, cut

LONG = Msgs(Stream(DIRECTORY, 0, 1), 1, 1, [(1, bytes(3_000_000))])


def test_messages_come_out_as_they_went_in() -> None:
    frames = [*cut(AskSnap()), *cut(LONG), *cut(AskSnap())]
    assert len(frames) == 5
    reader = PeerFrames()
    assert reader.receive(frames[:2]) == [AskSnap()]
    assert reader.receive(frames[2:]) == [LONG, AskSnap()]


@pytest.mark.parametrize("frame", [b"", b"\x09", b"\x00", b"\x00\xc1", b"\x00\x91\x63"])
def test_garbage_is_refused(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r"frame|message"):
        PeerFrames().receive([frame])
