"""A record is a value."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from odradek.client.consumer.record import Record, RecordSource, TimestampType
from odradek.model.ids import TopicPartition

SOURCE = RecordSource("orders", 3, 7, TimestampType.CREATE_TIME)


def record(value: bytes = b"v") -> Record[bytes, bytes]:
    return Record(SOURCE, 5, 1000, b"k", value, b"\x02h\x02x", 1)


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
def test_it_says_what_it_is_and_does_not_change(name: str) -> None:
    one: Any = record()
    assert getattr(one, name) == SAID[name]
    with pytest.raises(AttributeError):
        setattr(one, name, None)
    assert getattr(one, name) == SAID[name]


def test_it_equals_its_like_and_nothing_else() -> None:
    assert record() == record() == pickle.loads(pickle.dumps(record()))
    assert hash(record()) == hash(record())
    assert record() != record(b"other")
    assert record() != b"v"
