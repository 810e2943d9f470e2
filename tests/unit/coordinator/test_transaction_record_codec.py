"""The records of a shard have the bytes that the declared messages have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.transaction.transaction_metadata import TransactionMetadata, tombstone
from odradek.coordinator.transaction.transaction_record_codec import TransactionRecordCodec
from odradek.coordinator.transaction.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from odradek.coordinator.transaction.transaction_state import EMPTY, KEPT, ONGOING
from odradek.model.errors import ProtocolError
from odradek.model.topics import TopicPartition

CODEC = TransactionRecordCodec()
I16 = st.integers(-1, 2**15 - 1)
I32 = st.integers(0, 2**31 - 1)
I64 = st.integers(-1, 2**63 - 1)
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["orders", "straße", "t" * 249]), I32), max_size=8
)
METADATA = st.builds(
    TransactionMetadata,
    st.text(st.characters(codec="utf-8"), max_size=40),
    I64,
    I16,
    last_producer_epoch=I16,
    previous_producer_id=I64,
    next_producer_id=I64,
    timeout_ms=I32,
    state=st.sampled_from(KEPT),
    partitions=PARTITIONS,
    start_ms=I64,
    last_update_ms=I64,
    transaction_version=st.integers(0, 2),
).map(lambda each: each._replace(partitions=frozenset()) if each.state is EMPTY else each)


def declared_value(metadata: TransactionMetadata) -> TransactionLogValue:
    """Return the state as a declared message."""
    topics = None
    if metadata.state is not EMPTY:
        names = sorted({each.topic for each in metadata.partitions})
        topics = [
            TransactionPartitions(
                topic=name,
                partition_ids=sorted(
                    each.partition for each in metadata.partitions if each.topic == name
                ),
            )
            for name in names
        ]
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        last_producer_epoch=metadata.last_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=topics,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.transaction_version,
    )


@given(METADATA)
def test_any_state_has_the_bytes_of_the_declared_messages_and_is_read_again(
    metadata: TransactionMetadata,
) -> None:
    record = metadata.record()
    declared = record._replace(
        key=TransactionLogKey(transactional_id=metadata.transactional_id),
        value=declared_value(metadata),
    )
    key, value = CODEC.key_bytes(record), CODEC.value_bytes(record)
    assert key == TRANSACTION_RECORDS.key_bytes(declared)
    assert value == TRANSACTION_RECORDS.value_bytes(declared)
    assert CODEC.decode(key, value) == record


def test_a_tombstone_has_the_key_of_its_id_and_no_value() -> None:
    record = tombstone("tx")
    assert (CODEC.key_bytes(record), CODEC.value_bytes(record)) == (b"\0\0\0\2tx", None)
    assert CODEC.decode(b"\0\0\0\2tx", None) == record


def test_a_record_of_a_type_that_is_not_known_is_skipped() -> None:
    assert CODEC.decode(b"\0\7\0\2tx", b"\0\1") is None


def test_a_state_that_no_id_can_have_is_refused() -> None:
    value = CODEC.value_bytes(TransactionMetadata("tx", 1, 0, state=ONGOING).record())
    assert value is not None
    status = 2 + 8 + 2 + 4
    dead = value[:status] + b"\6" + value[status + 1 :]
    with pytest.raises(ProtocolError, match="'tx' is in state 6"):
        CODEC.decode(b"\0\0\0\2tx", dead)


def test_an_id_that_is_longer_than_a_text_may_be_is_refused() -> None:
    with pytest.raises(ValueError, match="32767"):
        CODEC.key_bytes(tombstone("i" * 32_768))
