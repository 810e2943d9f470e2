"""From what the application gives to what is queued: the first steps of every send, in both faces.

    key, value ─► serializers ─► bytes ┐
    headers ─► checked, encoded ───────┼─► ProducerCore.send ─► a future
    timestamp ─► ms, or now ───────────┘                     └► a ProducerRecord: it must wait

A compiled leaf: everything a send does before it returns is here and below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, final

from mypy_extensions import i64

from odradek.client.errors import SerializationError
from odradek.client.producer.delivery import FutureRecordMetadata
from odradek.client.producer.pending_send import ProducerRecord
from odradek.client.producer.producer import ANY_PARTITION, ProducerCore
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.serializers import Serializer, headers_of
from odradek.model.env import Clock
from odradek.protocol.record_writer import NO_HEADERS, encode_headers
from odradek.protocol.records import Header

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""Headers as users give them."""

NO_HEADER_LIST: list[Header] = []


@final
class Intake:
    """Of one producer. Any thread."""

    def __init__(
        self, core: ProducerCore, key: Serializer, value: Serializer, clock: Clock
    ) -> None:
        self._core = core
        self._key = key
        self._value = value
        self._clock = clock

    def send(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Any,
        partition: int | None,
        timestamp: datetime | int | None,
        callback: DeliveryCallback | None,
    ) -> FutureRecordMetadata | ProducerRecord:
        """The record's future; or the record, serialized, if it has to wait. Raises `KafkaError`,
        and `ValueError` for a partition or time that cannot be."""
        encoded = NO_HEADERS
        pairs = NO_HEADER_LIST
        if headers:
            pairs = headers_of(headers)
            encoded = encode_headers(pairs)
        # Bytes pass without a call, whatever the serializer, unless it is a function.
        key_bytes = None if key is None else self._key.to_bytes(topic, pairs, key)
        value_bytes = None if value is None else self._value.to_bytes(topic, pairs, value)
        chosen: i64 = ANY_PARTITION
        if partition is not None:
            chosen = checked_partition(partition)
        timestamp_ms = self._clock.wall_ms() if timestamp is None else milliseconds(timestamp)
        future = self._core.send(
            topic, chosen, timestamp_ms, key_bytes, value_bytes, encoded, callback
        )
        if future is not None:
            return future
        return ProducerRecord(
            topic, chosen, timestamp_ms, key_bytes, value_bytes, encoded, callback
        )


def checked_partition(partition: int) -> int:
    """Raises `ValueError` for a number that no partition has."""
    if not 0 <= partition < 2**31:
        raise ValueError(f"there is no partition {partition}: give one from 0 on, or None for any")
    return partition


def milliseconds(timestamp: datetime | int) -> int:
    """A time of the user's in ms since 1970. Raises `SerializationError`."""
    if isinstance(timestamp, datetime):
        timestamp = round(timestamp.timestamp() * 1000)
    if not isinstance(timestamp, int) or not 0 <= timestamp < 2**61:
        raise SerializationError(
            f"a timestamp cannot be {timestamp!r}: give a datetime, or milliseconds since 1970"
        )
    return timestamp
