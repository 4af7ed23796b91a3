"""The log-in of an AMQP connection, by SASL PLAIN or EXTERNAL, without I/O.

Proton's own SASL checks passwords in files of its own; this one asks the service. Source: AMQP 1.0, part 5,
section 3.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, cast

import attrs

from .engine import UNDESCRIBED, Array, Data, Described, is_list, symbol, ubyte, ulong

__all__ = ["AMQP_HEADER", "SASL_HEADER", "Credentials", "SaslFlaw", "SaslServer"]

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
MAX_FRAME: Final = 4096
_MECHANISMS: Final = 0x40
_INIT: Final = 0x41
_OUTCOME: Final = 0x44
_OK: Final = 0
_WRONG: Final = 1
_FRAME: Final = struct.Struct(">IBBH")
_INIT_NAMES: Final = (ulong(_INIT), symbol("amqp:sasl-init:list"))


class SaslFlaw(Exception):
    """The client does not keep to the protocol. The text is one sentence for the log."""


@attrs.frozen
class Credentials:
    """Who a client says it is. With EXTERNAL both may be empty: its certificate says it."""

    user: str
    password: str


class SaslServer:
    """The beginning of one connection: its headers and its log-in."""

    def __init__(self, external: Callable[[], bool]) -> None:
        """external: returns whether the client has shown a certificate."""
        self.over = False
        """The client is let in: what follows is AMQP."""
        self._external = external
        self._input = bytearray()
        self._output: list[bytes] = []
        self._begun = False
        self._asked = False

    def data_to_send(self) -> bytes:
        """Return the bytes to write since the last call."""
        data, self._output = b"".join(self._output), []
        return data

    def received(self, data: bytes) -> Credentials | None:
        """Take bytes; return the credentials once they are complete. Raises SaslFlaw."""
        self._input += data
        if not self._begun:
            head = bytes(self._input[: len(SASL_HEADER)])
            if not SASL_HEADER.startswith(head):
                self._output.append(SASL_HEADER)
                if head == AMQP_HEADER:
                    raise SaslFlaw("the client has not logged in: it has to use SASL, with PLAIN or EXTERNAL")
                raise SaslFlaw("the client does not speak AMQP 1.0")
            if len(head) < len(SASL_HEADER):
                return None
            del self._input[: len(SASL_HEADER)]
            self._begun = True
            self._output += [
                SASL_HEADER,
                _frame(_MECHANISMS, [Array(UNDESCRIBED, Data.SYMBOL, *self._offer())]),
            ]
        if self._asked:
            if len(self._input) > MAX_FRAME:
                raise SaslFlaw("the client does not wait until it is let in")
            return None
        body = self._next_frame()
        return None if body is None else self._init(body)

    def _offer(self) -> list[Any]:
        return [symbol(name) for name in ((EXTERNAL, PLAIN) if self._external() else (PLAIN,))]

    def _next_frame(self) -> bytes | None:
        if len(self._input) < _FRAME.size:
            return None
        size, offset, kind, _ = _FRAME.unpack_from(self._input)
        if kind != 1 or not _FRAME.size <= 4 * offset <= size <= MAX_FRAME:
            raise SaslFlaw("the client has sent something else than a frame of SASL")
        if len(self._input) < size:
            return None
        body = bytes(self._input[4 * offset : size])
        del self._input[:size]
        return body

    def _init(self, body: bytes) -> Credentials:
        fields = _performative(body)
        mechanism = str(fields[0]) if fields else ""
        response = fields[1] if len(fields) > 1 else None
        raw = response if isinstance(response, bytes) else b""
        self._asked = True
        if mechanism == EXTERNAL and self._external():
            return Credentials(_text(raw), "")
        if mechanism != PLAIN:
            raise SaslFlaw(f"the client wants to log in with {mechanism[:40]!r}, not with PLAIN or EXTERNAL")
        parts = raw.split(b"\0")
        if len(parts) != 3:
            raise SaslFlaw("the client has sent no user and password")
        if parts[0] and parts[0] != parts[1]:
            raise SaslFlaw("the client wants to act for another user")
        return Credentials(_text(parts[1]), _text(parts[2]))

    def let_in(self) -> bytes:
        """Tell the client that it is let in; return the bytes of AMQP that came already."""
        self.over = True
        self._output.append(_frame(_OUTCOME, [ubyte(_OK)]))
        rest = bytes(self._input)
        self._input.clear()
        return rest

    def turn_away(self) -> None:
        """Tell the client that it is not let in."""
        if not self._begun:
            self._output.append(SASL_HEADER)
        self._output.append(_frame(_OUTCOME, [ubyte(_WRONG)]))


def _frame(code: int, fields: list[Any]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), fields))
    body: bytes = data.encode()
    return _FRAME.pack(_FRAME.size + len(body), 2, 1, 0) + body


def _performative(body: bytes) -> list[Any]:
    """Return the fields of the frame ``sasl-init``. Raises SaslFlaw."""
    data = Data()
    try:
        data.decode(body)
        data.rewind()
        found: Any = data.get_object() if data.next() is not None else None
    except Exception as error:
        raise SaslFlaw("the client has sent a frame of SASL that cannot be read") from error
    known = isinstance(found, Described) and found.descriptor in _INIT_NAMES
    if not known or not is_list(found.value):
        raise SaslFlaw("the client has sent another frame of SASL than sasl-init")
    # Bytes lie in the memory of `data`, which ends here.
    return [bytes(cast("bytes", each)) if isinstance(each, memoryview) else each for each in found.value]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise SaslFlaw("the user or the password is no UTF-8") from None
