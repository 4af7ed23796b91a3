"""The examples of docs/protocol.md are what the code writes.

After a wanted change, rewrite them: QUORATE_REWRITE=1 pytest tests/unit/client/test_protocol_page.py
"""

import os
import re
import textwrap
from pathlib import Path

import msgspec
import pytest

from quorate.agents import AgentId
from quorate.client.frames import (
    Bye,
    ClientInput,
    ClientNote,
    ClientOutput,
    Close,
    Hello,
    Ping,
    Pong,
    ServerNote,
    StreamAck,
    StreamItems,
    Welcome,
    encode_frame,
)

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"
DEPOSIT, BALANCE = msgspec.msgpack.encode({"amount": 5}), msgspec.msgpack.encode({"amount": 12})
EXAMPLES = {
    "Hello": Hello("quorate-client", 1, "root", "root", None, 0, 1),
    "Hello again": Hello("quorate-client", 1, "root", "root", "#0.0.1026", 7, 2),
    "Welcome": Welcome(1, "#0.0.1026", [("localhost", 2560), ("localhost", 2561)], 60.0, 1048576, 16384, 0),
    "Bye": Bye("authentication", "wrong user or password"),
    "Input": ClientInput(
        0,
        1,
        [
            ClientNote("alice", "examples.bank:Deposit", DEPOSIT),
            ClientNote(AgentId(0, 0, 1025), "examples.bank:Deposit", DEPOSIT, 1),
        ],
        65536,
        1 << 26,
    ),
    "Output": ClientOutput(2, 1, [ServerNote(AgentId(0, 0, 1025), "examples.bank:Balance", BALANCE, 1)]),
    "Ping": Ping(1, 1, 3),
    "Pong": Pong(1),
    "Close": Close(1),
    "StreamItems": StreamItems(AgentId(0, 0, 1025), [(5, 1, b"\x92\x05\x01\x02\x03\x04")]),
    "StreamAck": StreamAck([(AgentId(0, 0, 1025), 5)]),
}
BLOCK = re.compile(r"<!-- example: (?P<name>[^>]*) -->\n```text\n(?P<hex>[0-9a-f\n ]*)```")


def written(frame):
    return "\n".join(textwrap.wrap(encode_frame(frame).hex(" "), 96)) + "\n"


def test_the_page_shows_every_frame_as_it_is_written():
    page = PAGE.read_text()
    if os.environ.get("QUORATE_REWRITE"):

        def example(match):
            return f"<!-- example: {match['name']} -->\n```text\n{written(EXAMPLES[match['name']])}```"

        page = BLOCK.sub(example, page)
        PAGE.write_text(page)
    assert {m["name"]: m["hex"] for m in BLOCK.finditer(page)} == {
        name: written(frame) for name, frame in EXAMPLES.items()
    }


@pytest.mark.parametrize("frame", [Hello, Welcome, Bye, ClientInput, ClientOutput, Ping, Pong, Close])
def test_the_page_names_every_field_in_order(frame):
    name = {"ClientInput": "Input", "ClientOutput": "Output"}.get(frame.__name__, frame.__name__)
    page = PAGE.read_text()
    text = next(part for part in re.split(r"\n##+ ", page) if re.match(rf"(\d \w+, )*\d {name}\b", part))
    positions = [text.find(f"| {field} |") for field in frame.__struct_fields__]
    assert -1 not in positions
    assert positions == sorted(positions)
