"""The records of `__transaction_state`, byte by byte as Kafka writes them."""

from __future__ import annotations

import pytest

from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from odradek.model.errors import ProtocolError

ONGOING = CoordinatorRecord(
    TransactionLogKey(transactional_id="tx"),
    TransactionLogValue(
        producer_id=7,
        producer_epoch=2,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[TransactionPartitions(topic="t", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=9,
        transaction_start_timestamp_ms=8,
        previous_producer_id=6,
        next_producer_id=5,
        client_transaction_version=2,
        last_producer_epoch=1,
    ),
)
BODY = (7).to_bytes(8, "big") + b"\0\2" + (60_000).to_bytes(4, "big") + b"\1"
TIMES = (9).to_bytes(8, "big") + (8).to_bytes(8, "big")


def test_a_transaction_is_written_in_version_1() -> None:
    """Compact lengths; what is new since version 0 is in tags."""
    assert TRANSACTION_RECORDS.key_bytes(ONGOING) == b"\0\0\0\2tx"
    assert TRANSACTION_RECORDS.value_bytes(ONGOING) == (
        b"\0\1" + BODY + b"\2\2t\3\0\0\0\0\0\0\0\3\0" + TIMES
        + b"\4" + b"\0\x08" + (6).to_bytes(8, "big") + b"\1\x08" + (5).to_bytes(8, "big")
        + b"\2\2\0\2" + b"\4\2\0\1"
    )  # fmt: skip


def test_a_record_decodes_to_what_was_encoded() -> None:
    for record in (ONGOING, ONGOING._replace(value=None)):
        key, value = TRANSACTION_RECORDS.key_bytes(record), TRANSACTION_RECORDS.value_bytes(record)
        assert TRANSACTION_RECORDS.decode(key, value) == record


def test_version_0_and_records_with_unknown_tags_are_read() -> None:
    key = TRANSACTION_RECORDS.key_bytes(ONGOING)
    old = b"\0\0" + BODY + b"\xff\xff\xff\xff" + TIMES
    read = TRANSACTION_RECORDS.decode(key, old)
    assert read is not None
    assert read.value.transaction_partitions is None
    assert (read.value.previous_producer_id, read.value.client_transaction_version) == (-1, 0)
    newer = b"\0\1" + BODY + b"\0" + TIMES + b"\1\x63\1\0"
    assert TRANSACTION_RECORDS.decode(key, newer) == read


def test_a_value_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="versions 0 to 1, not 2"):
        TRANSACTION_RECORDS.decode(TRANSACTION_RECORDS.key_bytes(ONGOING), b"\0\2")
