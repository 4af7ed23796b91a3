"""The side of the server in a STOMP connection, without I/O.

Bytes and the time come in, and what has become of requests; requests and bytes to write come out. What a
client does wrong is answered with an ERROR frame, after which the connection is closed, as STOMP wants it.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from .frames import HEARTBEAT, BadFrame, Frame, FrameReader, encode_frame
from .requests import Close, Commit, LogIn, Publish, Request, Rollback, Settle, Subscribe, Sync, Unsubscribe
from .subscription import AUTO, CLIENT, INDIVIDUAL, Subscription

__all__ = ["MAX_SUBSCRIPTIONS", "MAX_TRANSACTIONS", "StompSession"]

VERSIONS: Final = ("1.2", "1.1", "1.0")
MAX_SUBSCRIPTIONS: Final = 1000
MAX_TRANSACTIONS: Final = 100
MAX_HELD: Final = 1000
"""Frames that a client may send before it has the answer to CONNECT."""
MAX_NAME: Final = 255
LEAST_BEAT_S: Final = 1.0
"""The shortest time between heart-beats that is offered and wanted."""
GRACE: Final = 2.0
"""A client is silent after so many times the interval of its heart-beats."""
NOT_WAITING: Final = "this message waits for no acknowledgement: it has one, or was delivered anew"
CONNECT_S: Final = 10.0
"""Time for CONNECT."""


class Refused(Exception):
    """The client has done something wrong. The text is one sentence for it."""


@attrs.define
class _Transaction:
    settled: list[tuple[Subscription, dict[int, str], bool, bool]] = attrs.field(
        factory=list["tuple[Subscription, dict[int, str], bool, bool]"]
    )
    """Subscription, messages, whether they are accepted, whether they come again."""


class StompSession:
    """One connection of a client."""

    def __init__(self, now: float, server: str, max_body_bytes: int) -> None:
        """server: the name of the server, for the header of CONNECTED."""
        self.user = ""
        """The user, once the client has logged in."""
        self.version = "1.0"
        self.closed = False
        """Nothing is read or written any more."""
        self._server = server
        self._reader = FrameReader(max_body_bytes)
        self._requests: list[Request] = []
        self._output: list[bytes] = []
        self._connect: Frame | None = None
        """The CONNECT frame that is being checked."""
        self._ready = False
        self._held: list[Frame] = []
        self._subscriptions: dict[str, Subscription] = {}
        self._transactions: dict[str, _Transaction] = {}
        self._tokens = 0
        self._receipts: dict[int, str] = {}
        """By token of a request that is not done: the receipt that the client wants, or empty."""
        self._last_receipt: str | None = None
        """The client has sent DISCONNECT; the receipt that it wants, or empty."""
        self._heard = self._sent = now
        self._send_s = self._hear_s = 0.0
        """Intervals of heart-beats, 0 for none."""
        self._started = now

    # What comes out

    def requests(self) -> list[Request]:
        """Return the requests since the last call, in their order."""
        requests, self._requests = self._requests, []
        return requests

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write since the last call."""
        if not self._output:
            return b""
        self._sent = now
        data, self._output = b"".join(self._output), []
        return data

    @property
    def deadline(self) -> float | None:
        """When `tick` is to be called next; None: never."""
        if self.closed:
            return None
        if not self._ready:
            return self._started + CONNECT_S
        times = [self._sent + self._send_s] if self._send_s else []
        times += [self._heard + GRACE * self._hear_s] if self._hear_s else []
        return min(times, default=None)

    @property
    def waiting(self) -> int:
        """How many requests are not done: a service stops reading from a client with too many."""
        return len(self._receipts)

    # What comes in

    def received(self, now: float, data: bytes) -> None:
        """Take bytes of the client."""
        if self.closed:
            return
        self._heard = now
        frames = iter(self._reader.feed(data))
        while not self.closed:
            try:
                frame = next(frames, None)
                if frame is None:
                    return
                self._take(frame)
            except (BadFrame, Refused) as error:
                self._fail(str(error))

    def tick(self, now: float) -> None:
        """Take note of the time: send a heart-beat, or give a silent client up."""
        if self.closed:
            return
        if not self._ready:
            if now >= self._started + CONNECT_S:
                self._close("no CONNECT came in time")
            return
        if self._hear_s and now >= self._heard + GRACE * self._hear_s:
            self._close(f"nothing was heard for {now - self._heard:.0f} s")
        elif self._send_s and now >= self._sent + self._send_s:
            self._output.append(HEARTBEAT)

    def lost(self) -> None:
        """Take note that the connection is gone."""
        self.closed = True

    def logged_in(self) -> None:
        """Let the client in."""
        if self.closed or self._connect is None:
            return
        frame, self._connect = self._connect, None
        self.user = frame.get("login")
        self._ready = True
        headers = {"version": self.version, "server": "Quorate", "session": self._server}
        beats = _beats(frame.get("heart-beat"))
        if beats is not None:
            client_sends, client_wants = beats
            self._hear_s = max(client_sends, LEAST_BEAT_S) if client_sends else 0.0
            self._send_s = max(client_wants, LEAST_BEAT_S) if client_wants else 0.0
        headers["heart-beat"] = f"{round(LEAST_BEAT_S * 1000)},{round(LEAST_BEAT_S * 1000)}"
        if self.version == "1.0":
            del headers["version"], headers["heart-beat"]
        self._write(Frame("CONNECTED", headers))
        self._reader.version = self.version
        held, self._held = self._held, []
        for each in held:
            if self.closed:
                return
            try:
                self._take(each)
            except Refused as error:
                self._fail(str(error))

    def refused(self, text: str) -> None:
        """Turn the client away. text: one sentence for it."""
        self._fail(text)

    def done(self, token: int) -> None:
        """Take note that a request is done."""
        receipt = self._receipts.pop(token, None)
        if self.closed or receipt is None:
            return
        if receipt:
            self._write(Frame("RECEIPT", {"receipt-id": receipt}))
        self._disconnect()

    def failed(self, token: int, text: str) -> None:
        """Take note that a request has failed. text: one sentence for the client."""
        receipt = self._receipts.pop(token, "")
        self._fail(text, receipt)

    def deliver(self, name: str, number: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Send a message of a subscription; its headers have ``message-id``. Return False if it is gone."""
        subscription = self._subscriptions.get(name)
        if self.closed or subscription is None or self._last_receipt is not None:
            return False
        message_id = headers["message-id"]
        own = {"destination": subscription.destination, "message-id": message_id}
        if subscription.named or self.version != "1.0":
            own["subscription"] = name
        if subscription.mode != AUTO:
            subscription.delivered(number, message_id)
            if self.version == "1.2":
                own["ack"] = f"{name}:{number}"
        length = {"content-length": str(len(body))}
        self._write(Frame("MESSAGE", {**own, **headers, **length}, body))
        if subscription.mode == AUTO:
            self._requests.append(Settle(0, name, (number,)))
        return True

    def ended(self, name: str, text: str) -> None:
        """Take note that the destination has ended a subscription."""
        if self._subscriptions.pop(name, None) is not None:
            self._fail(text)

    # Frames of the client

    def _take(self, frame: Frame) -> None:
        if self._last_receipt is not None:
            return
        if not self._ready:
            self._begin(frame)
            return
        handler = self._handlers.get(frame.command)
        if handler is None:
            again = frame.command in ("CONNECT", "STOMP")
            raise Refused("the client is connected already" if again else f"STOMP has no {frame.command}")
        try:
            handler(self, frame)
        except Refused as error:
            self._fail(str(error), frame.get("receipt"))

    def _begin(self, frame: Frame) -> None:
        if self._connect is not None:
            if len(self._held) >= MAX_HELD:
                raise Refused("the client does not wait for CONNECTED")
            self._held.append(frame)
            return
        if frame.command not in ("CONNECT", "STOMP"):
            raise Refused("the first frame is CONNECT")
        offered = [each.strip() for each in frame.get("accept-version", "1.0").split(",")]
        version = next((each for each in VERSIONS if each in offered), None)
        if version is None:
            spoken = ",".join(reversed(VERSIONS))
            self._fail(f"this server speaks STOMP {spoken}", version=spoken)
            return
        self.version = version
        if frame.headers.get("heart-beat") and _beats(frame.get("heart-beat")) is None:
            raise Refused("the header heart-beat has two numbers of milliseconds: heart-beat:1000,1000")
        self._connect = frame
        self._requests.append(LogIn(frame.get("login"), frame.get("passcode"), frame.get("client-id")))

    def _send(self, frame: Frame) -> None:
        destination = _needed(frame, "destination")
        transaction = self._transaction_of(frame)
        self._ask(lambda token: Publish(token, destination, frame.headers, frame.body, transaction), frame)

    def _subscribe(self, frame: Frame) -> None:
        destination = _needed(frame, "destination")
        name = frame.get("id")
        if not name and self.version != "1.0":
            raise Refused("SUBSCRIBE needs the header id")
        mode = frame.get("ack") or AUTO
        if mode not in (AUTO, CLIENT, INDIVIDUAL):
            raise Refused(f"the header ack is {AUTO}, {CLIENT} or {INDIVIDUAL}, not {mode[:80]}")
        key = _checked(name or destination)
        if key in self._subscriptions:
            raise Refused(f"there is a subscription {key} already; give another id")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Refused(f"a connection has at most {MAX_SUBSCRIPTIONS} subscriptions")
        self._subscriptions[key] = Subscription(key, destination, mode, bool(name))
        self._ask(lambda token: Subscribe(token, key, destination, frame.headers), frame)

    def _unsubscribe(self, frame: Frame) -> None:
        name = frame.get("id") or (frame.get("destination") if self.version == "1.0" else "")
        if not name:
            raise Refused("UNSUBSCRIBE needs the header id")
        if self._subscriptions.pop(name, None) is None:
            raise Refused(f"there is no subscription {name[:80]}")
        self._ask(lambda token: Unsubscribe(token, name, frame.headers), frame)

    def _ack(self, frame: Frame) -> None:
        self._settle(frame, accepted=True)

    def _nack(self, frame: Frame) -> None:
        if self.version == "1.0":
            raise Refused("NACK is no command of STOMP 1.0")
        self._settle(frame, accepted=False)

    def _settle(self, frame: Frame, *, accepted: bool) -> None:
        subscription, number = self._message(frame)
        requeue = frame.get("requeue", "true").lower() != "false"
        transaction = self._transaction_of(frame)
        if subscription is None:
            self._receipt_now(frame)
            return
        before = dict(subscription.unsettled) if transaction else {}
        numbers = subscription.take(number)
        if not numbers:
            raise Refused(NOT_WAITING)
        if transaction:
            messages = {each: before[each] for each in numbers}
            self._transactions[transaction].settled.append((subscription, messages, accepted, requeue))
            self._receipt_now(frame)
            return
        name = subscription.name
        if frame.get("receipt"):
            self._ask(lambda token: Settle(token, name, numbers, accepted, requeue), frame)
        else:
            self._requests.append(Settle(0, name, numbers, accepted, requeue))

    def _message(self, frame: Frame) -> tuple[Subscription | None, int]:
        """Return the subscription and the number of the message that a frame names; None for mode auto."""
        if self.version == "1.2":
            name, _, number = _needed(frame, "id").rpartition(":")
            subscription = self._subscriptions.get(name)
            if subscription is not None and number.isascii() and number.isdigit() and len(number) < 20:
                return (None, 0) if subscription.mode == AUTO else (subscription, int(number))
            raise Refused("the header id is not that of the header ack of a message")
        message_id, name = _needed(frame, "message-id"), frame.get("subscription")
        if name and name not in self._subscriptions:
            raise Refused(f"there is no subscription {name[:80]}")
        candidates = [self._subscriptions[name]] if name else list(self._subscriptions.values())
        for subscription in candidates:
            found = subscription.number_of(message_id)
            if found is not None:
                return subscription, found
        if any(each.mode == AUTO for each in candidates):
            return None, 0
        raise Refused(NOT_WAITING)

    def _begin_transaction(self, frame: Frame) -> None:
        name = _checked(_needed(frame, "transaction"))
        if name in self._transactions:
            raise Refused(f"the transaction {name} is open already")
        if len(self._transactions) >= MAX_TRANSACTIONS:
            raise Refused(f"a connection has at most {MAX_TRANSACTIONS} open transactions")
        self._transactions[name] = _Transaction()
        self._receipt_now(frame)

    def _commit(self, frame: Frame) -> None:
        name = self._open_transaction(frame)
        for subscription, messages, accepted, requeue in self._transactions.pop(name).settled:
            self._requests.append(Settle(0, subscription.name, tuple(messages), accepted, requeue, name))
        self._ask(lambda token: Commit(token, name), frame)

    def _abort(self, frame: Frame) -> None:
        name = self._open_transaction(frame)
        for subscription, messages, _, _ in self._transactions.pop(name).settled:
            subscription.give_back(messages)
        self._ask(lambda token: Rollback(token, name), frame)

    def _disconnected(self, frame: Frame) -> None:
        self._last_receipt = frame.get("receipt")
        self._ask(Sync, Frame("DISCONNECT"))

    _handlers: Final[dict[str, "Callable[[StompSession, Frame], None]"]] = {
        "SEND": _send,
        "SUBSCRIBE": _subscribe,
        "UNSUBSCRIBE": _unsubscribe,
        "ACK": _ack,
        "NACK": _nack,
        "BEGIN": _begin_transaction,
        "COMMIT": _commit,
        "ABORT": _abort,
        "DISCONNECT": _disconnected,
    }

    # Parts

    def _ask(self, request: Callable[[int], Request], frame: Frame) -> None:
        self._tokens += 1
        self._receipts[self._tokens] = frame.get("receipt")
        self._requests.append(request(self._tokens))

    def _receipt_now(self, frame: Frame) -> None:
        if frame.get("receipt"):
            self._write(Frame("RECEIPT", {"receipt-id": frame.get("receipt")}))

    def _transaction_of(self, frame: Frame) -> str:
        """Return the transaction to which a frame belongs, empty for none."""
        return self._open_transaction(frame) if frame.get("transaction") else ""

    def _open_transaction(self, frame: Frame) -> str:
        name = _needed(frame, "transaction")
        if name not in self._transactions:
            raise Refused(f"the transaction {name[:80]} is not open; BEGIN it first")
        return name

    def _disconnect(self) -> None:
        """End the connection as the client has asked, once all of its requests are done."""
        if self._last_receipt is None or self._receipts or self.closed:
            return
        if self._last_receipt:
            self._write(Frame("RECEIPT", {"receipt-id": self._last_receipt}))
        self._close("")

    def _write(self, frame: Frame) -> None:
        self._output.append(encode_frame(frame, self.version))

    def _fail(self, text: str, receipt: str = "", version: str = "") -> None:
        if self.closed:
            return
        headers = {"message": text, "content-type": "text/plain"}
        if receipt:
            headers["receipt-id"] = receipt
        if version:
            headers["version"] = version
        body = f"{text}\n".encode(errors="replace")
        self._write(Frame("ERROR", {**headers, "content-length": str(len(body))}, body))
        self._close(text)

    def _close(self, reason: str) -> None:
        self.closed = True
        self._receipts.clear()
        self._requests.append(Close(reason))


def _needed(frame: Frame, name: str) -> str:
    value = frame.get(name)
    if not value:
        raise Refused(f"{frame.command} needs the header {name}")
    return value


def _checked(name: str) -> str:
    if len(name) > MAX_NAME:
        raise Refused(f"a name has more than {MAX_NAME} characters")
    return name


def _beats(text: str) -> tuple[float, float] | None:
    """Return the seconds of a header heart-beat: what the client sends, and wants; None without one."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return None
    return int(parts[0]) / 1000, int(parts[1]) / 1000
