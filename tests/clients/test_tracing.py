"""Spans of sent and processed records, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import odradek
from odradek.errors import KafkaError
from odradek.opentelemetry import ProcessTracer, TracingInterceptor
from odradek.testing.broker import Broker

W3C = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-0[0-9a-f]")
LONG_S = 30


class Spans:
    """A tracer provider that keeps what was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    def interceptor(self) -> TracingInterceptor:
        return TracingInterceptor("p", self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def context_of(record: odradek.Record[Any, Any]) -> tuple[int, int]:
    """Return trace and span in the only W3C header of a record."""
    [value] = [value for name, value in record.headers if name == "traceparent"]
    found = W3C.fullmatch(value or b"")
    assert found is not None
    return int(found[1], 16), int(found[2], 16)


def producing(broker: Broker, spans: Spans) -> odradek.Producer[Any, Any]:
    return odradek.Producer(brokers=broker.bootstrap, interceptors=[spans.interceptor()])


def reading(broker: Broker, topic: str, **settings: Any) -> odradek.Consumer[Any, Any]:
    consumer: odradek.Consumer[Any, Any] = odradek.Consumer(
        brokers=broker.bootstrap, client_id="c", auto_offset_reset="earliest", **settings
    )
    consumer.assign([(topic, 0)])
    return consumer


def first(consumer: odradek.Consumer[Any, Any], count: int) -> odradek.Batch[Any, Any]:
    return next(iter(consumer.batches(count, max_wait=LONG_S)))


def test_a_sent_record_has_a_span_until_its_outcome_and_carries_its_context(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()
    with producing(broker, spans) as producer, reading(broker, topic) as consumer:
        with spans.tracer.start_as_current_span("request") as request:
            producer.send(topic, b"x", key="k7", headers={"own": b"1"}).result(LONG_S)
        [record] = first(consumer, 1)
    span = spans.one(f"send {topic}")
    assert span.kind is SpanKind.PRODUCER
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    assert context_of(record) == ids(span)
    assert ("own", b"1") in record.headers
    assert attributes(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "p",
        "messaging.kafka.message.key": "k7",
        "messaging.kafka.offset": 0,
    }
    assert span.status.status_code is StatusCode.UNSET


def test_processing_a_record_continues_its_trace(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()
    with producing(broker, spans) as producer:
        producer.send(topic, None, key=b"gone").result(LONG_S)
    with reading(broker, topic, group_id="g7") as consumer:
        tracer = ProcessTracer(consumer, spans.provider)
        for record in tracer:
            assert record.offset == 0
            with spans.tracer.start_as_current_span("inside"):
                break
    sent, processed = spans.one(f"send {topic}"), spans.one(f"process {topic}")
    assert processed.kind is SpanKind.CONSUMER
    assert linked(processed) == [ids(sent)]
    assert processed.parent is not None and processed.parent.span_id == ids(sent)[1]
    assert ids(processed)[0] == ids(sent)[0], "one trace"
    inside = spans.one("inside")
    assert inside.parent is not None and inside.parent.span_id == ids(processed)[1]
    assert attributes(processed) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "c",
        "messaging.consumer.group.name": "g7",
        "messaging.kafka.offset": 0,
        "messaging.kafka.message.key": "gone",
        "messaging.kafka.message.tombstone": True,
    }


def test_within_another_span_a_record_is_only_linked(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()
    with producing(broker, spans) as producer:
        producer.send(topic, b"x").result(LONG_S)
    with reading(broker, topic) as consumer:
        [record] = first(consumer, 1)
        tracer = ProcessTracer(consumer, spans.provider)
        with spans.tracer.start_as_current_span("job") as job, tracer.process(record):
            pass
    processed = spans.one(f"process {topic}")
    assert processed.parent is not None
    assert processed.parent.span_id == job.get_span_context().span_id
    assert linked(processed) == [ids(spans.one(f"send {topic}"))]


def test_an_error_ends_the_span_with_it(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic(max_message_bytes="200")
    with producing(broker, spans) as producer:
        with pytest.raises(KafkaError):
            producer.send(topic, b"x" * 1000).result(LONG_S)
        producer.send(topic, b"y").result(LONG_S)
    failed, sent = spans.named(f"send {topic}")
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes(failed)["error.type"] == "MESSAGE_TOO_LARGE"
    assert sent.status.status_code is StatusCode.UNSET
    with reading(broker, topic) as consumer:
        [record] = first(consumer, 1)
        with (
            pytest.raises(LookupError),
            ProcessTracer(consumer, spans.provider).process(record),
        ):
            raise LookupError("no such order")
    processed = spans.one(f"process {topic}")
    assert attributes(processed)["error.type"] == "LookupError"
    assert processed.status.description == "no such order"


def test_a_record_that_send_refuses_ends_its_span(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()
    with producing(broker, spans) as producer, pytest.raises(KafkaError):
        producer.send(topic, object())
    assert spans.one(f"send {topic}").status.status_code is StatusCode.ERROR


def test_a_context_that_a_record_brings_along_stays(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()
    own = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    with producing(broker, spans) as producer, reading(broker, topic) as consumer:
        producer.send(topic, b"x", headers={"traceparent": own}).result(LONG_S)
        [record] = first(consumer, 1)
    assert record.headers == [("traceparent", own)]
    span = spans.one(f"send {topic}")
    assert span.kind is SpanKind.CLIENT
    assert linked(span) == [(int("a" * 32, 16), int("b" * 16, 16))]


def test_many_records_share_one_span(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()
    with producing(broker, spans) as producer, reading(broker, topic) as consumer:
        producer.send_many(topic, [b"x"] * 5).result(LONG_S)
        producer.send_arrow(topic, pa.table({"value": ["a", "b"]})).result(LONG_S)
        batch = first(consumer, 7)
        with ProcessTracer(consumer, spans.provider).process(batch):
            pass
    many, arrow = spans.named(f"send {topic}")
    assert attributes(many)["messaging.batch.message_count"] == 5
    assert attributes(arrow)["messaging.batch.message_count"] == 2
    assert [context_of(each) for each in batch] == [ids(many)] * 5 + [ids(arrow)] * 2
    processed = spans.one(f"process {topic}")
    assert linked(processed) == [ids(many), ids(arrow)]
    assert processed.parent is None
    assert attributes(processed)["messaging.batch.message_count"] == 7


def test_spans_of_an_asyncio_producer_and_of_what_a_task_processes(
    broker: Broker, new_topic: Callable[..., str], spans: Spans
) -> None:
    topic = new_topic()

    async def main() -> None:
        async with odradek.aio.Producer(
            brokers=broker.bootstrap, interceptors=[spans.interceptor()]
        ) as producer:
            await producer.send(topic, b"x")
        async with odradek.aio.Consumer(
            topic, brokers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            tracer = ProcessTracer(consumer, spans.provider)
            async for record in consumer:
                with tracer.process(record):
                    await asyncio.sleep(0)
                break

    asyncio.run(main())
    assert linked(spans.one(f"process {topic}")) == [ids(spans.one(f"send {topic}"))]


def test_closing_ends_the_spans_that_are_left(spans: Spans) -> None:
    producer: odradek.Producer[Any, Any] = odradek.Producer(
        brokers="127.0.0.1:1", interceptors=[spans.interceptor()], max_block_ms=50
    )
    with pytest.raises(KafkaError):
        producer.send("nowhere", b"x")
    producer.close(0)
    assert spans.one("send nowhere").status.status_code is StatusCode.ERROR


def test_without_an_sdk_no_header_is_added(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    with (
        odradek.Producer(brokers=broker.bootstrap, interceptors=[TracingInterceptor()]) as producer,
        reading(broker, topic) as consumer,
    ):
        producer.send(topic, b"x").result(LONG_S)
        [record] = first(consumer, 1)
    assert record.headers == []


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_without_opentelemetry_the_error_names_the_extra() -> None:
    said = run(
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try:\n    import odradek.opentelemetry\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    assert "pip install 'odradek[opentelemetry]'" in said


def test_the_clients_import_neither_opentelemetry_nor_prometheus_client() -> None:
    said = run(
        "import sys, odradek\n"
        "odradek.Producer, odradek.Consumer, odradek.Admin, odradek.aio.Producer\n"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus_client'))])"
    )
    assert said.strip() == "[]"
