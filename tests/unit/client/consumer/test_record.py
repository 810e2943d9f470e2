"""Records are values."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from odradek.client.consumer.record import BatchInfo, Record, TimestampType
from odradek.model.topics import TopicPartition

BATCH = BatchInfo("orders", 3, 7, TimestampType.CREATE_TIME)


def record(value: bytes = b"v", timestamp_ms: int = 1000) -> Record[bytes, bytes]:
    return Record(BATCH, 5, timestamp_ms, b"k", value, b"\x02h\x02x", 1)


SAID = {
    "topic": "orders",
    "partition": 3,
    "offset": 5,
    "timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    "timestamp_ms": 1000,
    "timestamp_type": TimestampType.CREATE_TIME,
    "key": b"k",
    "value": b"v",
    "headers": [("h", b"x")],
    "leader_epoch": 7,
    "topic_partition": TopicPartition("orders", 3),
}


@pytest.mark.parametrize("name", SAID)
def test_a_record_has_a_repr_and_is_immutable(name: str) -> None:
    one: Any = record()
    assert getattr(one, name) == SAID[name]
    with pytest.raises(AttributeError):
        setattr(one, name, None)
    assert getattr(one, name) == SAID[name]


def test_a_record_equals_only_a_record_with_the_same_fields() -> None:
    assert record() == record() == pickle.loads(pickle.dumps(record()))
    assert hash(record()) == hash(record())
    assert record() != record(b"other")
    assert record() != b"v"


@pytest.mark.parametrize("timestamp_ms", [253_402_300_800_000, 1_769_860_800_000_000, 2**63 - 1])
def test_a_timestamp_beyond_datetime_raises_and_is_readable_in_ms(
    timestamp_ms: int,
) -> None:
    """Some producers give microseconds instead of milliseconds, and brokers may accept them."""
    last = record(timestamp_ms=253_402_300_799_999).timestamp
    assert last == datetime.max.replace(microsecond=999_000, tzinfo=UTC)
    beyond = record(timestamp_ms=timestamp_ms)
    with pytest.raises(ValueError, match=rf"orders-3 at offset 5 .*timestamp_ms.* {timestamp_ms}"):
        _ = beyond.timestamp
    assert beyond.timestamp_ms == timestamp_ms


def test_a_replaced_record_keeps_its_place_and_what_was_not_replaced() -> None:
    batch = BatchInfo("orders", 3, 7, TimestampType.CREATE_TIME)
    headers = [("a", b"1"), ("b", None)]
    one: Record[Any, Any] = Record(batch, 5, 1_000, b"k", b"v")
    other = one.replace(value="decoded", headers=headers)
    assert (other.key, other.value, other.headers) == (b"k", "decoded", headers)
    assert (other.offset, other.timestamp_ms, other.leader_epoch) == (5, 1_000, 7)
    assert other.replace(headers=[]).headers == []
    assert other.replace(key=None).key is None
    assert one.is_at_the_place_of(other)
    same = BatchInfo("orders", 3, 8, TimestampType.CREATE_TIME)
    assert one.is_at_the_place_of(Record(same, 5, 0, None, None))
    assert not one.is_at_the_place_of(Record(batch, 6, 1_000, b"k", b"v"))
    moved = BatchInfo("orders", 2, 7, TimestampType.CREATE_TIME)
    assert not one.is_at_the_place_of(Record(moved, 5, 1_000, b"k", b"v"))
