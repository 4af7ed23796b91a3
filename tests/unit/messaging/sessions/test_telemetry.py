"""Spans of messages, of asynchronous sessions on virtual time."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from quorate import RequestTimeout
from quorate.messaging import Ack, AsyncSession, MessageTooLarge, NoSuchDestination, Outbox, Topic

from .sites import Site

pytest.importorskip(
    "opentelemetry.sdk", reason="OpenTelemetry is not installed: pip install quorate[telemetry]"
)

from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags

from quorate.messaging.client.telemetry import QuorateInstrumentor, context_of, processing


@attrs.frozen
class Traced:
    """A site, and the spans of the programs that use it."""

    site: Site
    provider: TracerProvider
    exporter: InMemorySpanExporter

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Return the spans that have ended, in that order."""
        return [span for span in self.exporter.get_finished_spans() if name in ("", span.name)]

    def span(self, name: str) -> ReadableSpan:
        """Return the only span with a name."""
        (found,) = self.spans(name)
        return found

    def tracer(self) -> trace.Tracer:
        return self.provider.get_tracer("test")


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(0, "orders", "bills", "small", topics=("prices",), max_message_bytes=1000)


@pytest.fixture
def traced(site: Site) -> Iterator[Traced]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    QuorateInstrumentor().instrument(tracer_provider=provider)
    try:
        yield Traced(site, provider, exporter)
    finally:
        QuorateInstrumentor().uninstrument()


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def same_trace(*spans: ReadableSpan) -> bool:
    return len({span.context.trace_id for span in spans}) == 1


def test_a_loop_goes_on_with_the_trace_of_each_message(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one", correlation_id="c7")
            consumer = session.consumer("orders", timeout_s=0.1)
            async for message in consumer:
                await session.send("bills", message.body, properties=message.properties)
            bills = session.consumer("bills")
            await bills.receive()

    client.run(main())
    sent, process = traced.span("send orders"), traced.span("process orders")
    again, received = traced.span("send bills"), traced.span("receive bills")
    assert same_trace(sent, process, again, received)
    assert (parent(process), parent(again), parent(received)) == (
        sent.context.span_id,
        process.context.span_id,
        again.context.span_id,
    )
    assert (sent.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.attributes is not None
    assert process.attributes is not None
    assert dict(sent.attributes) == {
        "messaging.system": "quorate",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.body.size": 3,
        "messaging.message.conversation_id": "c7",
        "quorate.destination.kind": "queue",
    }
    assert process.attributes["messaging.operation.name"] == "process"
    assert str(process.attributes["messaging.message.id"]).startswith("ID:")
    assert process.attributes["quorate.message.delivery_count"] == 1
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_baggage_of_the_sender_comes_along(traced: Traced) -> None:
    client = traced.site.client()
    seen: list[object] = []

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            before = attach(baggage.set_baggage("tenant", "north"))
            await session.send("orders", "one")
            detach(before)
            async for _ in session.consumer("orders", timeout_s=0.1):
                seen.append(baggage.get_baggage("tenant"))

    client.run(main())
    assert seen == ["north"]


def test_each_subscription_of_a_topic_takes_part(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            first, second = session.consumer(Topic("prices")), session.consumer(Topic("prices"))
            await first.open()
            await second.open()
            await session.send(Topic("prices"), b"1.25")
            await first.receive()
            await second.receive()

    client.run(main())
    sent = traced.span("send prices")
    received = traced.spans("receive prices")
    assert [parent(each) for each in received] == [sent.context.span_id] * 2


def test_a_receive_within_a_span_is_a_part_of_it_and_linked_to_the_sender(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one")
            with traced.tracer().start_as_current_span("request"):
                await session.consumer("orders").receive()

    client.run(main())
    received, request = traced.span("receive orders"), traced.span("request")
    assert parent(received) == request.context.span_id
    assert [link.context.span_id for link in received.links] == [traced.span("send orders").context.span_id]


def test_processing_is_for_messages_of_receive(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one")
            message = await session.consumer("orders").receive()

            def work() -> None:
                with processing(message) as span:
                    assert trace.get_current_span() is span
                    raise ZeroDivisionError("no stock")

            with pytest.raises(ZeroDivisionError):
                work()
            carried = trace.get_current_span(context_of(message)).get_span_context()
            assert carried.span_id == traced.span("send orders").context.span_id

    client.run(main())
    process = traced.span("process orders")
    assert parent(process) == traced.span("send orders").context.span_id
    assert (process.status.status_code, process.status.description) == (StatusCode.ERROR, "no stock")
    assert process.attributes is not None
    assert process.attributes["error.type"] == "builtins.ZeroDivisionError"


def test_a_listener_that_fails_fails_its_span_and_has_one_for_each_delivery(traced: Traced) -> None:
    client = traced.site.client()
    counts: list[int] = []

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one")
            consumer = session.consumer("orders")

            def heard(message: Any) -> None:
                counts.append(message.delivery_count)
                if len(counts) == 1:
                    raise ValueError("bad order")
                session._closed = True

            await consumer.listen(heard)
            session._closed = False

    client.run(main())
    failed, well = traced.spans("process orders")
    assert counts == [1, 2]
    assert (failed.status.status_code, well.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert same_trace(failed, well)


def test_a_message_that_is_not_sent_ends_its_span_with_the_reason(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            with pytest.raises(NoSuchDestination):
                await session.send("nowhere", "x")
            await session.send("small", b"x")
            with pytest.raises(MessageTooLarge):
                await session.send("small", b"x" * 1001)

    client.run(main())
    failed = [traced.span("send nowhere"), traced.spans("send small")[-1]]
    assert [each.status.status_code for each in failed] == [StatusCode.ERROR] * 2
    assert "1000 at most" in str(failed[1].status.description)


def test_a_send_that_nobody_waits_for_any_more_has_an_end(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            producer = session.producer("orders")
            await producer.send("first")
            for number in range(3):
                traced.site.cluster.kill(number)
            with pytest.raises(RequestTimeout):
                await producer.send("second", timeout=1)
            for number in range(3):
                traced.site.cluster.restart(number)
            consumer = session.consumer("orders")
            assert [(await consumer.receive()).body for _ in range(2)] == ["first", "second"]

    client.run(main())
    assert traced.spans("send orders")[-1].status.status_code is StatusCode.ERROR


def test_a_body_that_raises_ends_its_span_when_the_consumer_is_left(traced: Traced) -> None:
    client = traced.site.client()

    async def main() -> None:
        async with AsyncSession(client.connection, ack=Ack.CLIENT) as session:
            await session.send("bills", "one")

            async def work() -> None:
                async with session.consumer("bills") as consumer:
                    async for _ in consumer:
                        raise ValueError("no such bill")

            with pytest.raises(ValueError, match="no such bill"):
                await work()
            assert not trace.get_current_span().get_span_context().is_valid

    client.run(main())
    assert traced.span("process bills").status.description == "no such bill"


def test_the_context_goes_on_where_nothing_is_recorded(traced: Traced) -> None:
    quiet = TracerProvider(sampler=ALWAYS_OFF)
    QuorateInstrumentor().instrument(tracer_provider=quiet)
    client = traced.site.client()

    async def main() -> str:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one")
            return str((await session.consumer("orders").receive()).properties["traceparent"])

    flags = int(client.run(main()).rpartition("-")[2], 16)
    assert not flags & TraceFlags.SAMPLED
    assert traced.spans() == []


def test_an_outbox_keeps_where_a_message_was_put(traced: Traced) -> None:
    database = sqlite3.connect(":memory:")
    outbox = Outbox(database)
    outbox.create()
    with traced.tracer().start_as_current_span("order") as order:
        outbox.put("orders", "one", properties={"colour": "red"})
    ((options,),) = database.execute("select options from quorate_outbox")
    assert order.get_span_context().trace_id.to_bytes(16).hex() in options
    client = traced.site.client()

    async def main() -> Any:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one", **json.loads(options))
            return await session.consumer("orders").receive()

    message = client.run(main())
    assert message.properties["colour"] == "red"
    assert parent(traced.span("send orders")) == order.get_span_context().span_id


def test_without_an_instrumentor_messages_carry_nothing(site: Site) -> None:
    client = site.client()

    async def main() -> Any:
        async with AsyncSession(client.connection) as session:
            await session.send("orders", "one")
            return (await session.consumer("orders").receive()).properties

    assert client.run(main()) == {}
