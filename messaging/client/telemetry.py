"""OpenTelemetry: spans that follow a message from the program that sends it to those that handle it.

The names and attributes are those of OpenTelemetry's semantic conventions for messaging. The context goes
with the message as its properties ``traceparent`` and ``tracestate`` (W3C Trace Context), so that programs of
other protocols and languages take part. Needs ``pip install 'quorate[telemetry]'``.
"""

import contextlib
import importlib.metadata
from collections.abc import Generator, Mapping, MutableMapping
from typing import Any, Final

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import Getter, Setter
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError:
    raise ImportError("traces of messages need OpenTelemetry: pip install 'quorate[telemetry]'") from None

from ...agents import ColumnValue
from ...client.pending import Waiter
from ..agents.protocol import PROPERTY_PREFIX
from .destinations import Destination
from .message import Message
from .producer import Outgoing
from .tracing import tracer, use_tracer

__all__ = ["QuorateInstrumentor", "context_of", "processing"]

_SCHEMA: Final = "https://opentelemetry.io/schemas/1.37.0"
_SYSTEM: Final = "quorate"


class QuorateInstrumentor:
    """Turns spans for messages on and off, for all sessions of this process.

    ``opentelemetry-instrument python program.py`` does it for a program that knows nothing of it. A program
    that sets up its tracer provider by itself calls ``QuorateInstrumentor().instrument()``.
    """

    def instrument(self, *, tracer_provider: trace.TracerProvider | None = None, **_: Any) -> None:
        """Make spans with a provider, by default the global one. Other arguments are ignored."""
        use_tracer(_Spans(_tracer(tracer_provider)))

    def uninstrument(self, **_: Any) -> None:
        """Make no more spans."""
        use_tracer(None)


def context_of(message: Message) -> Context:
    """Return the context in which a message was sent; an empty one if it carries none."""
    return propagate.extract(message.properties, Context(), _READ)


@contextlib.contextmanager
def processing(message: Message) -> Generator[Span]:
    """Make a span for the handling of a message that ``receive`` has returned; it is current in the block.

    ::

        message = consumer.receive()
        with processing(message):
            ...

    Listeners and loops over a consumer have such spans without it.
    """
    chosen = tracer()
    spans = chosen if isinstance(chosen, _Spans) else _Spans(_tracer(None))
    turn = spans.begun(message)
    try:
        yield turn.span
    except BaseException as error:
        turn.end(error)
        raise
    turn.end()


def _tracer(provider: trace.TracerProvider | None) -> trace.Tracer:
    return trace.get_tracer("quorate.messaging", importlib.metadata.version("quorate"), provider, _SCHEMA)


class _Columns(Setter[MutableMapping[str, ColumnValue]]):
    """Writes a context into the columns of a message that is to be sent."""

    def set(self, carrier: MutableMapping[str, ColumnValue], key: str, value: str) -> None:
        carrier[PROPERTY_PREFIX + _name(key)] = value


class _Properties(Getter[Mapping[str, ColumnValue]]):
    """Reads a context from properties."""

    def get(self, carrier: Mapping[str, ColumnValue], key: str) -> list[str] | None:
        value = carrier.get(_name(key))
        return [value] if isinstance(value, str) else None

    def keys(self, carrier: Mapping[str, ColumnValue]) -> list[str]:
        return [*carrier]


def _name(key: str) -> str:
    """Return the name of a property for a field of a context: some propagators have hyphens in theirs."""
    return key.lower().replace("-", "_")


_WRITE: Final = _Columns()
_READ: Final = _Properties()


class _Spans:
    """The tracer that sessions tell."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def sending(self, outgoing: Outgoing, destination: Destination) -> None:
        parent = contexts.get_current()
        if not _valid(parent):
            # Of an outbox: the message carries where it was put.
            size = len(PROPERTY_PREFIX)
            carried = {name[size:]: value for name, value in outgoing.columns.items()}
            parent = propagate.extract(carried, parent, _READ)
        attributes = _attributes("send", destination, len(outgoing.body), outgoing.columns.get("correlation"))
        span = self._tracer.start_span(
            f"send {destination.title}", parent, SpanKind.PRODUCER, attributes=attributes
        )
        propagate.inject(outgoing.columns, trace.set_span_in_context(span, parent), _WRITE)
        if outgoing.waiter is None:
            span.end()
        else:
            outgoing.waiter = _Confirmation(outgoing.waiter, span)

    def not_sent(self, outgoing: Outgoing, error: BaseException) -> None:
        if isinstance(outgoing.waiter, _Confirmation):
            _end(outgoing.waiter.span, error)

    def received(self, message: Message) -> None:
        came, now = context_of(message), contexts.get_current()
        attributes = _attributes("receive", message.destination, len(message.data), message.correlation_id)
        attributes |= _of_delivery(message)
        span = self._tracer.start_span(
            f"receive {message.destination.title}",
            now if _valid(now) else came,
            SpanKind.CONSUMER,
            attributes,
            _links(came),
        )
        span.end()

    def begun(self, message: Message) -> "_Turn":
        return _Turn(self._tracer, message)

    def put_off(self) -> dict[str, ColumnValue]:
        columns: dict[str, ColumnValue] = {}
        propagate.inject(columns, setter=_WRITE)
        return {name.removeprefix(PROPERTY_PREFIX): value for name, value in columns.items()}


class _Confirmation:
    """Takes the place of the waiter of a message: its outcome ends the span, too."""

    def __init__(self, waiter: Waiter, span: Span) -> None:
        self._waiter = waiter
        self.span = span

    def set_result(self, result: Any, /) -> None:
        self.span.end()
        self._waiter.set_result(result)

    def set_exception(self, exception: BaseException, /) -> None:
        _end(self.span, exception)
        self._waiter.set_exception(exception)

    def done(self) -> bool:
        return self._waiter.done()


class _Turn:
    """The handling of a message, as a span that is current meanwhile.

    The trace of the message goes on in it; what was current before is linked.
    """

    def __init__(self, tracer: trace.Tracer, message: Message) -> None:
        came, self._before = context_of(message), contexts.get_current()
        attributes = _attributes("process", message.destination, len(message.data), message.correlation_id)
        self.span = tracer.start_span(
            f"process {message.destination.title}",
            came if _valid(came) else self._before,
            SpanKind.CONSUMER,
            attributes | _of_delivery(message),
            _links(self._before) if _valid(came) else (),
        )
        # With what else the sender has in its context: its baggage.
        here = propagate.extract(message.properties, self._before, _READ)
        contexts.attach(trace.set_span_in_context(self.span, here))

    def end(self, error: BaseException | None = None) -> None:
        if trace.get_current_span() is self.span:
            # It may have begun in another thread or task, in which its token is good.
            contexts.attach(self._before)
        _end(self.span, error)


def _valid(context: Context) -> bool:
    return trace.get_current_span(context).get_span_context().is_valid


def _links(context: Context) -> list[Link]:
    return [Link(trace.get_current_span(context).get_span_context())] if _valid(context) else []


def _attributes(operation: str, destination: Destination, size: int, correlation: object) -> dict[str, Any]:
    found = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination.title,
        "messaging.message.body.size": size,
        "quorate.destination.kind": destination.kind.value,
    }
    if isinstance(correlation, str):
        found["messaging.message.conversation_id"] = correlation
    return found


def _of_delivery(message: Message) -> dict[str, Any]:
    return {"messaging.message.id": message.id, "quorate.message.delivery_count": message.delivery_count}


def _end(span: Span, error: BaseException | None) -> None:
    if not span.is_recording():
        # It has ended before, with what happened first.
        return
    if error is not None:
        kind = type(error)
        span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
