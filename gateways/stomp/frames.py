"""Frames of STOMP 1.0, 1.1 and 1.2: how they are read and written. No I/O.

A frame is a command, headers and a body, which ends with a zero byte. Line ends between frames are
heart-beats. Source: stomp.github.io, the three specifications.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

__all__ = ["HEARTBEAT", "BadFrame", "Frame", "FrameReader", "encode_frame"]

HEARTBEAT: Final = b"\n"
MAX_COMMAND: Final = 32
MAX_HEADERS: Final = 256
MAX_HEAD_BYTES: Final = 64 * 1024
"""The command and all headers of a frame."""
MAX_BODY_BYTES: Final = 1024 * 1024

_BODY_COMMANDS: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
_PLAIN_COMMANDS: Final = frozenset({"CONNECT", "CONNECTED"})
"""In these headers are not escaped, so that clients of version 1.0 understand them."""
_ESCAPES: Final = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_UNESCAPES: Final = {escaped: plain for plain, escaped in _ESCAPES.items()}


class BadFrame(Exception):
    """What arrived is no frame; the connection cannot go on. The text is one sentence for the client."""


@attrs.frozen
class Frame:
    """One frame."""

    command: str
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Of a header that is repeated the first value counts."""
    body: bytes = b""

    def get(self, name: str, default: str = "") -> str:
        """Return the value of a header."""
        return self.headers.get(name, default)


def encode_frame(frame: Frame, version: str) -> bytes:
    """Return the bytes of a frame for a client that speaks this version."""
    escaping = version != "1.0" and frame.command not in _PLAIN_COMMANDS
    lines = [frame.command]
    for name, value in frame.headers.items():
        if escaping:
            lines.append(f"{_escaped(name, version)}:{_escaped(value, version)}")
        else:
            # Nothing can stand for a line end here; in what remains the value is one line.
            lines.append(f"{_one_line(name)}:{_one_line(value)}")
    head = "\n".join(lines).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return b"".join((head.encode(errors="replace"), b"\n\n", frame.body, b"\0\n"))


def _escaped(text: str, version: str) -> str:
    if not any(sign in text for sign in _ESCAPES):
        return text
    # Version 1.1 has no escape for a carriage return.
    return "".join(sign if sign == "\r" and version == "1.1" else _ESCAPES.get(sign, sign) for sign in text)


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _unescaped(text: str, version: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    signs = iter(text)
    for sign in signs:
        if sign != "\\":
            parts.append(sign)
            continue
        escape = sign + next(signs, "")
        plain = _UNESCAPES.get(escape)
        if plain is None or (plain == "\r" and version == "1.1"):
            raise BadFrame(f"the escape {escape!r} in a header is unknown in STOMP {version}")
        parts.append(plain)
    return "".join(parts)


class FrameReader:
    """Puts frames together from the bytes of a connection, of any sizes."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.version = "1.0"
        """Decides on escapes and spaces; set once the client has connected."""
        self._max_body = max_body_bytes
        self._buffer = bytearray()
        self._scanned = 0
        """So much of the buffer is known to have no end of what is being read."""
        self._head: tuple[str, dict[str, str]] | None = None
        """The command and the headers of a frame whose body has not arrived."""
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterable[Frame]:
        """Yield the frames that are complete with these bytes. Raises BadFrame."""
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if self._head is None:
            self._skip_line_ends()
            if not self._read_head():
                return None
        return self._read_body()

    def _skip_line_ends(self) -> None:
        place = 0
        while place < len(self._buffer) and self._buffer[place] in b"\r\n":
            place += 1
        if place:
            del self._buffer[:place]
            self._scanned = 0

    def _read_head(self) -> bool:
        """Read the command and the headers, if they are there."""
        start = max(0, self._scanned - 3)
        found = [(self._buffer.find(end, start), len(end)) for end in (b"\n\n", b"\n\r\n")]
        nul = self._buffer.find(b"\0", start)
        place, size = min((each for each in found if each[0] >= 0), default=(-1, 0))
        if place > MAX_HEAD_BYTES or (place < 0 and len(self._buffer) > MAX_HEAD_BYTES):
            raise BadFrame(f"the headers of a frame have more than {MAX_HEAD_BYTES} bytes")
        self._check_begin()
        if nul >= 0 and (place < 0 or nul < place):
            raise BadFrame("a frame has no empty line after its headers")
        if place < 0:
            self._scanned = len(self._buffer)
            return False
        head = bytes(self._buffer[:place])
        del self._buffer[: place + size]
        self._scanned = 0
        self._head = self._parsed(head)
        self._length = self._content_length(*self._head)
        return True

    def _check_begin(self) -> None:
        """Refuse what cannot be a command: a client of another protocol gets its answer at once."""
        line = bytes(self._buffer[: MAX_COMMAND + 2]).partition(b"\n")[0].rstrip(b"\r")
        if len(line) > MAX_COMMAND or not (not line or line.isalpha()):
            raise BadFrame("this is not STOMP: a frame begins with a command")

    def _parsed(self, head: bytes) -> tuple[str, dict[str, str]]:
        try:
            lines = head.decode().split("\n")
        except UnicodeDecodeError:
            raise BadFrame("the headers of a frame are not UTF-8") from None
        command, *rest = (line.removesuffix("\r") for line in lines)
        if len(command) > MAX_COMMAND or not (command.isascii() and command.isalpha()):
            raise BadFrame("this is not STOMP: a frame begins with a command")
        if len(rest) > MAX_HEADERS:
            raise BadFrame(f"a frame has more than {MAX_HEADERS} headers")
        headers: dict[str, str] = {}
        plain = self.version == "1.0" or command in ("CONNECT", "STOMP", "CONNECTED")
        for line in rest:
            name, colon, value = line.partition(":")
            if not colon or not name:
                raise BadFrame(f"{line[:80]!r} is not a header; write name:value")
            if plain:
                name, value = name.strip(), value.strip()
            else:
                name, value = _unescaped(name, self.version), _unescaped(value, self.version)
            headers.setdefault(name, value)
        return command, headers

    def _content_length(self, command: str, headers: Mapping[str, str]) -> int | None:
        text = headers.get("content-length")
        if text is None:
            return None
        text = text.strip()
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise BadFrame(f"content-length is {text[:80]!r}, which is not a number of bytes")
        length = int(text)
        if length > self._max_body:
            raise BadFrame(f"the body has {length} bytes; {self._max_body} are allowed")
        if length and command not in _BODY_COMMANDS:
            raise BadFrame(f"{command} has a body, which only SEND may have")
        return length

    def _read_body(self) -> Frame | None:
        assert self._head is not None
        command, headers = self._head
        if self._length is not None:
            if len(self._buffer) <= self._length:
                return None
            if self._buffer[self._length] != 0:
                raise BadFrame("the body of a frame is longer than its content-length")
            end = self._length
        else:
            end = self._buffer.find(b"\0", self._scanned)
            if end < 0:
                self._scanned = len(self._buffer)
                if len(self._buffer) > self._max_body:
                    raise BadFrame(f"the body has more than {self._max_body} bytes, which are allowed")
                return None
            if end > self._max_body:
                raise BadFrame(f"the body has {end} bytes; {self._max_body} are allowed")
            if end and command not in _BODY_COMMANDS:
                raise BadFrame(f"{command} has a body, which only SEND may have")
        body = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._scanned, self._head, self._length = 0, None, None
        return Frame(command, headers, body)
