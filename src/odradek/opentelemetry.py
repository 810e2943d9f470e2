"""Spans of records for OpenTelemetry, as they are sent and as they are processed.

    producer = Producer(brokers=..., interceptors=[TracingInterceptor()])
    producer.send("orders", b"...")               # span `send orders`, header traceparent

    tracer = ProcessTracer(consumer)
    for record in tracer:                         # span `process orders` around the loop's body
        handle(record)
    with tracer.process(record_or_batch):         # the same by hand; also with odradek.aio
        handle(record_or_batch)

Names, kinds and attributes follow OpenTelemetry's semantic conventions for messaging and Kafka
(status: development). The context is written and read by OpenTelemetry's own propagator, by default
as W3C's headers traceparent and tracestate.

    send, enqueue, produce    one PRODUCER span a record, until its outcome; its context goes along
    send_many, send_arrow     one PRODUCER span a call, until the outcome of all; its context goes
                              along with every record, of about 70 bytes before compression
    a record with a context   that context stays. A CLIENT span links to it, and ends when the
                              record is handed over: nothing tells its outcome from that of others
    process(record)           one CONSUMER span that links to the record's context. In no other
                              span, it is a child of that context too: both are one trace then
    process(batch)            one CONSUMER span with a link for each context in the batch

A span ends with the error of its record, if it has one: `error.type` is Kafka's name of it. There
are no spans of polls: records are fetched and decoded before the application asks for them. Rows of
`Consumer.arrow` have their headers as a column, and no spans.

Needs opentelemetry-api (`odradek[opentelemetry]`). Without its SDK no header is added, and a span
is an object that does nothing. Nothing of this is imported unless a program imports this module.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
    from opentelemetry.propagators.textmap import Getter, Setter
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "spans of records need opentelemetry-api: pip install 'odradek[opentelemetry]'",
        name=error.name,
    ) from None

from odradek import __version__
from odradek.client.consumer.record import Record
from odradek.client.errors import KafkaError
from odradek.client.interceptors import ProducerInterceptor
from odradek.protocol.records import Header

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.util.types import AttributeValue

    from odradek.client.producer.futures import Deliveries, Delivery
    from odradek.client.producer.intercepted_send import ProducerRecord, ProducerRecords

__all__ = ["ProcessTracer", "TracingInterceptor"]

OPEN_SPANS_MAX = 100_000
"""How many records without an outcome have a span; beyond, the oldest span ends without one."""
Attributes = dict[str, "AttributeValue"]


class HeaderGetter(Getter[Sequence[Header]]):
    """Reads a context from headers. Of several with one name the last counts, as in Kafka."""

    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        for name, value in reversed(carrier):
            if name.lower() == key.lower() and value is not None:
                return [value.decode("utf-8", "replace")]
        return None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]


class HeaderSetter(Setter[list[Header]]):
    """Writes a context to headers."""

    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


GETTER, SETTER = HeaderGetter(), HeaderSetter()
NO_CONTEXT = contexts.Context()


def creation_context(headers: Sequence[Header]) -> Context | None:
    """Return the context in which a record was made; None if its headers have none."""
    if not headers:
        return None
    found = propagate.extract(headers, NO_CONTEXT, GETTER)
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def span_context(context: Context) -> SpanContext:
    """Return what identifies the span of a context."""
    return trace.get_current_span(context).get_span_context()


def operation(kind: str, topic: str | None, client_id: str | None) -> Attributes:
    """Return the attributes that all spans have. `topic` is None if there are several."""
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": kind,
        "messaging.operation.type": kind,
    }
    if topic is not None:
        found["messaging.destination.name"] = topic
    if client_id is not None:
        found["messaging.client.id"] = client_id
    return found


def add_message(attributes: Attributes, key: object, value: object) -> None:
    """Add the attributes of a record's key and value."""
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            key = None  # It has no unambiguous form as text.
    if isinstance(key, str | int):
        attributes["messaging.kafka.message.key"] = str(key)
    if value is None:
        attributes["messaging.kafka.message.tombstone"] = True


def end_span(span: Span, error: BaseException | None) -> None:
    """End a span, with the error of what it describes."""
    if error is not None:
        name = error.name if isinstance(error, KafkaError) else type(error).__qualname__
        span.set_attribute("error.type", name)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def count_of(values: object) -> int | None:
    """Return the number of records of a `send_many` or `send_arrow`; None if nobody knows yet."""
    return len(values) if isinstance(values, Sized) else None


class TracingInterceptor(ProducerInterceptor):
    """Makes a span of each record, or of each call of `send_many` and `send_arrow`.

    `client_id` becomes an attribute of the spans. `tracer_provider`: by default the global one.
    """

    def __init__(
        self,
        client_id: str | None = None,
        tracer_provider: trace.TracerProvider | None = None,
    ) -> None:
        self._client_id = client_id
        self._tracer = trace.get_tracer("odradek", __version__, tracer_provider)
        self._open: dict[int, Span] = {}
        """Spans of records without an outcome, by their ids. The sender's thread removes them."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        attributes = operation("send", record.topic, self._client_id)
        if record.partition is not None:
            attributes["messaging.destination.partition.id"] = str(record.partition)
        add_message(attributes, record.key, record.value)
        headers = self._begin(record.topic, attributes, record.headers)
        return record if headers is None else record.replace(headers=headers)

    def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
        attributes = operation("send", records.topic, self._client_id)
        count = count_of(records.values)
        if count is not None:
            attributes["messaging.batch.message_count"] = count
        if isinstance(records.partition, int):
            attributes["messaging.destination.partition.id"] = str(records.partition)
        headers = self._begin(records.topic, attributes, records.headers)
        return records if headers is None else records.replace(headers=headers)

    def _begin(
        self, topic: str, attributes: Attributes, headers: list[Header]
    ) -> list[Header] | None:
        """Begin a span; return the headers with its context, or None if nothing changes."""
        name = f"send {topic}"
        made_in = creation_context(headers)
        if made_in is not None:
            links = [Link(span_context(made_in))]
            self._tracer.start_span(
                name, kind=SpanKind.CLIENT, attributes=attributes, links=links
            ).end()
            return None
        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes)
        if span.is_recording():
            self._open[span.get_span_context().span_id] = span
            if len(self._open) > OPEN_SPANS_MAX:
                self._take_oldest()
        before = len(headers)
        propagate.inject(headers, trace.set_span_in_context(span), SETTER)
        return headers if len(headers) > before else None

    def _take_oldest(self) -> None:
        for span_id in list(self._open)[:1]:
            oldest = self._open.pop(span_id, None)
            if oldest is not None:
                oldest.end()

    def _take(self, headers: Sequence[Header]) -> Span | None:
        """Take out the span whose context is in these headers; None if there is none."""
        made_in = creation_context(headers)
        return None if made_in is None else self._open.pop(span_context(made_in).span_id, None)

    def on_acknowledgement(
        self, delivery: Delivery, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        span = self._take(headers)
        if span is not None:
            if delivery.partition >= 0:
                span.set_attribute("messaging.destination.partition.id", str(delivery.partition))
            if error is None and delivery.offset >= 0:
                span.set_attribute("messaging.kafka.offset", delivery.offset)
            end_span(span, error)

    def on_acknowledgement_many(
        self, deliveries: Deliveries, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        span = self._take(headers)
        if span is not None:
            span.set_attribute("messaging.batch.message_count", len(deliveries))
            failed = deliveries.errors()
            end_span(span, error or (failed[0][0] if failed else None))

    def close(self) -> None:
        """End the spans that are left: their records have no outcome."""
        while self._open:
            self._take_oldest()


class ConsumerSettings(Protocol):
    """The settings of a consumer that spans name."""

    @property
    def client_id(self) -> str: ...

    @property
    def group_id(self) -> str | None: ...


class TracedConsumer(Protocol):
    """A consumer, for threads or for asyncio."""

    @property
    def config(self) -> ConsumerSettings: ...


class ProcessTracer:
    """Makes spans of the records that an application processes. `consumer` names its group.

    Iterating over it iterates over a consumer for threads, with the span of each record around the
    body of the loop. What the body raises is not seen there, and ends the span without an error;
    `process` notes it.
    """

    def __init__(
        self, consumer: TracedConsumer, tracer_provider: trace.TracerProvider | None = None
    ) -> None:
        self._consumer: Any = consumer
        self._tracer = trace.get_tracer("odradek", __version__, tracer_provider)

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        for record in self._consumer:
            with self.process(record):
                yield record

    @contextmanager
    def process(
        self, records: Record[Any, Any] | Sequence[Record[Any, Any]]
    ) -> Generator[Span, None, None]:
        """Make a span of processing one record, or a batch of them, in a `with` block; it is the
        current span there. An exception ends the span with an error, and goes on."""
        config: ConsumerSettings = self._consumer.config
        if isinstance(records, Record):
            span = self._span_of_record(records, config)
        else:
            span = self._span_of_batch(records, config)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except GeneratorExit:  # The loop over the tracer was left.
                end_span(span, None)
                raise
            except BaseException as error:
                end_span(span, error)
                raise
            end_span(span, None)

    def _span_of_record(self, record: Record[Any, Any], config: ConsumerSettings) -> Span:
        attributes = operation("process", record.topic, config.client_id)
        if config.group_id is not None:
            attributes["messaging.consumer.group.name"] = config.group_id
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        add_message(attributes, record.key, record.value)
        made_in = creation_context(record.headers)
        links = [] if made_in is None else [Link(span_context(made_in))]
        ambient = trace.get_current_span().get_span_context().is_valid
        return self._tracer.start_span(
            f"process {record.topic}",
            context=None if ambient else made_in,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )

    def _span_of_batch(self, records: Sequence[Record[Any, Any]], config: ConsumerSettings) -> Span:
        topics = {record.topic for record in records}
        topic = topics.pop() if len(topics) == 1 else None
        attributes = operation("process", topic, config.client_id)
        if config.group_id is not None:
            attributes["messaging.consumer.group.name"] = config.group_id
        attributes["messaging.batch.message_count"] = len(records)
        links: dict[tuple[int, int], Link] = {}
        for record in records:
            made_in = creation_context(record.headers)
            if made_in is not None:
                made_by = span_context(made_in)
                links[made_by.trace_id, made_by.span_id] = Link(made_by)
        return self._tracer.start_span(
            "process" if topic is None else f"process {topic}",
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=list(links.values()),
        )
