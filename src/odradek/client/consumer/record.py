"""Record: one record as the application receives it.

One is made for every record, so it is small. What the records of a batch share is in one
`BatchInfo`. Headers stay encoded until they are read, and the timestamp becomes a `datetime` when
it is read. The module is compiled.

Records are immutable values that can be compared, hashed and pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar, final

from mypy_extensions import i64

from odradek.client.arguments import UNCHANGED, Unchanged
from odradek.model.topics import TopicPartition
from odradek.protocol.records import Header, encode_headers, read_headers, varint

K = TypeVar("K")
V = TypeVar("V")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TimestampType(IntEnum):
    """The source of a timestamp: the producer, or the broker when it appended the record."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@final
class BatchInfo:
    """The fields that all records of one batch have in common."""

    def __init__(
        self, topic: str, partition: int, leader_epoch: int, timestamp_type: TimestampType
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.timestamp_type = timestamp_type


@final
class Record(Generic[K, V]):
    """One record. `key` and `value` are None where the record has null."""

    def __init__(
        self,
        batch: BatchInfo,
        offset: i64,
        timestamp_ms: i64,
        key: K | None,
        value: V | None,
        header_bytes: bytes | None = None,
        header_count: i64 = 0,
    ) -> None:
        self._batch = batch
        self._offset: i64 = offset
        self._timestamp_ms: i64 = timestamp_ms
        self._key = key
        self._value = value
        self._header_bytes = header_bytes
        self._header_count: i64 = header_count

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def key(self) -> K | None:
        return self._key

    @property
    def value(self) -> V | None:
        return self._value

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that appended the record; -1 unknown."""
        return self._batch.leader_epoch

    @property
    def timestamp_type(self) -> TimestampType:
        return self._batch.timestamp_type

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970; -1 if the record has none."""
        return self._timestamp_ms

    @property
    def timestamp(self) -> datetime:
        """The timestamp as a `datetime` in UTC. Raises `ValueError` for years after 9999;
        `timestamp_ms` has those too.
        """
        try:
            return EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:
            raise ValueError(
                f"{self.topic}-{self.partition} at offset {self.offset} has the timestamp_ms "
                f"{self.timestamp_ms}, which is no date that datetime has: perhaps its producer "
                "gave microseconds. What to do: read record.timestamp_ms"
            ) from None

    @property
    def headers(self) -> list[Header]:
        """Pairs of name and value, in the order of the record; names may repeat."""
        data = self._header_bytes
        return [] if data is None else read_headers(data, 0, self._header_count)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self._batch.topic, self._batch.partition)

    def is_at_the_place_of(self, other: Record[Any, Any]) -> bool:
        """True if both have the same topic, partition and offset."""
        if self._offset != other._offset:
            return False
        mine, others = self._batch, other._batch
        if mine is others:
            return True
        return mine.topic == others.topic and mine.partition == others.partition

    def replace(
        self,
        key: Any = UNCHANGED,
        value: Any = UNCHANGED,
        headers: Sequence[Header] | Unchanged = UNCHANGED,
    ) -> Record[Any, Any]:
        """Return a record with another key, value or headers (pairs of name and bytes or None), at
        the same place and time. For interceptors."""
        header_bytes, header_count = self._header_bytes, self._header_count
        if not isinstance(headers, Unchanged):
            header_count = len(headers)
            encoded = encode_headers(headers)
            _, start = varint(encoded, 0)  # Their number, which comes first.
            header_bytes = encoded[start:]
        return Record(
            self._batch,
            self._offset,
            self._timestamp_ms,
            self._key if isinstance(key, Unchanged) else key,
            self._value if isinstance(value, Unchanged) else value,
            header_bytes if header_count else None,
            header_count,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (*self._fields(), self.leader_epoch, self._header_count)

    def __repr__(self) -> str:
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self._batch.topic, self._batch.partition, self._offset))

    def _fields(self) -> tuple[Any, ...]:
        batch = self._batch
        return (
            batch.topic,
            batch.partition,
            self.offset,
            self.timestamp_ms,
            batch.timestamp_type,
            self._key,
            self._value,
            self._header_bytes,
        )


def restored(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    timestamp_type: TimestampType,
    key: Any,
    value: Any,
    header_bytes: bytes | None,
    leader_epoch: int,
    header_count: int,
) -> Record[Any, Any]:
    """Return a record from its pickled fields."""
    batch = BatchInfo(topic, partition, leader_epoch, timestamp_type)
    return Record(batch, offset, timestamp_ms, key, value, header_bytes, header_count)
