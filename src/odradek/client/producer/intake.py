"""From what the application gives to what is queued: the first steps of every send, in both faces.

    key, value ─► serializers ─► bytes ┐
    headers ─► checked, encoded ───────┼─► RecordRouting.send ─► a future
    timestamp ─► ms, or now ───────────┘                     └► a ProducerRecord: it must wait

A compiled leaf: everything a send does before it returns is here and below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, final

from mypy_extensions import i64

from odradek.client.errors import SerializationError
from odradek.client.producer.deliveries import Deliveries
from odradek.client.producer.delivery import FutureRecordMetadata
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.producer_record import ProducerRecord
from odradek.client.producer.record_source import ListSource, RecordSource
from odradek.client.producer.routing import ANY_PARTITION, RecordRouting
from odradek.client.serializers import Serializer, headers_of
from odradek.client.topic_names import text_of
from odradek.model.env import Clock
from odradek.protocol.records import NO_HEADERS, Header, encode_headers

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""Headers as users give them."""

NO_HEADER_LIST: list[Header] = []
NOW: Final = -1
"""No time was given: records have that at which their source has its turn."""


@final
class Intake:
    """Of one producer. Any thread."""

    def __init__(
        self, routing: RecordRouting, key: Serializer, value: Serializer, clock: Clock
    ) -> None:
        self._routing = routing
        self._key = key
        self._value = value
        self._clock = clock

    def send(
        self,
        topic: object,
        value: object,
        key: object,
        headers: Any,
        partition: int | None,
        timestamp: datetime | int | None,
        callback: DeliveryCallback | None,
    ) -> FutureRecordMetadata | ProducerRecord:
        """The record's future; or the record, serialized, if it has to wait. Raises `KafkaError`,
        `ValueError` for a partition or time that cannot be, `TypeError` for a topic that is no
        text."""
        # What else there is to say of a name is said where its topic is looked up: it is not known.
        name = topic if isinstance(topic, str) else text_of("topic", topic)
        encoded = NO_HEADERS
        pairs = NO_HEADER_LIST
        if headers:
            pairs = headers_of(headers)
            encoded = encode_headers(pairs)
        # Bytes pass without a call, whatever the serializer, unless it is a function.
        key_bytes = None if key is None else self._key.to_bytes(name, pairs, key)
        value_bytes = None if value is None else self._value.to_bytes(name, pairs, value)
        chosen: i64 = ANY_PARTITION
        if partition is not None:
            chosen = checked_partition(partition)
        timestamp_ms = self._clock.wall_ms() if timestamp is None else milliseconds(timestamp)
        return self._routing.send(
            name, chosen, timestamp_ms, key_bytes, value_bytes, encoded, callback
        )

    def source(
        self, topic: object, values: Sequence[object], keys: Sequence[object] | None, headers: Any
    ) -> RecordSource:
        """Many objects to send; `headers` are those of every record."""
        pairs = headers_of(headers) if headers else NO_HEADER_LIST
        name = text_of("topic", topic)
        return ListSource(name, values, keys, self._key, self._value, pairs)

    def many(
        self,
        topic: object,
        sources: Iterable[RecordSource],
        partition: int | str | None,
        timestamp: datetime | int | str | None,
    ) -> ManySend:
        """All records of some sources, to be sent step by step. A partition or timestamp of text is
        the name of a column of the sources' own."""
        chosen: i64 = ANY_PARTITION
        if isinstance(partition, int):
            chosen = checked_partition(partition)
        timestamp_ms: i64 = NOW
        if timestamp is not None and not isinstance(timestamp, str):
            timestamp_ms = milliseconds(timestamp)
        name = text_of("topic", topic)
        return ManySend(self._routing, self._clock, name, iter(sources), chosen, timestamp_ms)


@final
class ManySend:
    """Many records on their way in: `step` until it gives None, waiting for what it gives."""

    def __init__(
        self,
        routing: RecordRouting,
        clock: Clock,
        topic: str,
        sources: Iterator[RecordSource],
        partition: i64,
        timestamp_ms: i64,
    ) -> None:
        self.deliveries = Deliveries()
        """Of all that is in."""
        self._routing = routing
        self._clock = clock
        self._topic = topic
        self._sources = sources
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._now_ms: i64 = NOW
        self._next: i64 = 0
        self._source: RecordSource | None = None

    def step(self) -> ProducerRecord | None:
        """Take in as many as there is room for; the one that has to wait, None when all are in.

        Raises what a record of its kind is refused with; those before it are in.
        """
        source = self._begun() if self._source is None else self._source
        while source is not None:
            self._next, record = self._routing.send_many(
                self._topic,
                source,
                self._next,
                self._partition,
                self._now_ms,
                self.deliveries,
            )
            if record is not None:
                return record
            source = self._begun()
        return None

    def _begun(self) -> RecordSource | None:
        """The next source, none of which is in."""
        self._source = next(self._sources, None)
        self._next = 0
        given = self._timestamp_ms
        self._now_ms = self._clock.wall_ms() if given == NOW else given
        return self._source

    def waited(self, future: FutureRecordMetadata) -> None:
        """The one that had to wait is in."""
        self.deliveries.add_future(future)
        self._next += 1


def checked_partition(partition: int) -> int:
    """Raises `ValueError` for a number that no partition has."""
    if not 0 <= partition < 2**31:
        raise ValueError(f"there is no partition {partition}: give one from 0 on, or None for any")
    return partition


def milliseconds(timestamp: object) -> int:
    """A time of the user's in ms since 1970. Raises `SerializationError`."""
    if isinstance(timestamp, datetime):
        timestamp = round(timestamp.timestamp() * 1000)
    if not isinstance(timestamp, int) or not 0 <= timestamp < 2**61:
        raise SerializationError(
            f"a timestamp cannot be {timestamp!r}: give a datetime, or milliseconds since 1970"
        )
    return timestamp
