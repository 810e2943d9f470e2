"""TransactionRecordCodec: `TransactionMetadata` to the records of `__transaction_state`, and back.

Three records are written for each transaction, so they are written by hand, as the messages of
`protocol.hot_codec` are. The bytes are those of `transaction_records.TRANSACTION_RECORDS`, which
reads them.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.transaction_metadata import (
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from odradek.coordinator.transaction.transaction_records import (
    TRANSACTION_RECORDS,
    VALUE_VERSION,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.coordinator.transaction.transaction_state import EMPTY, KEPT, TransactionState
from odradek.model.errors import ProtocolError
from odradek.model.topics import TopicPartition, numbers_by_topic
from odradek.protocol.hot_codec import MessageOutput

KEY_TYPE: Final = b"\0\0"
PREVIOUS_PRODUCER_ID: Final = 0
NEXT_PRODUCER_ID: Final = 1
CLIENT_TRANSACTION_VERSION: Final = 2
LAST_PRODUCER_EPOCH: Final = 4


class TransactionRecordCodec:
    """The codec of the shards: keys are transactional ids, values `TransactionMetadata`."""

    def key_bytes(self, record: CoordinatorRecord) -> bytes:
        """The encoded key of a record. Raises `ValueError` for an id of more than 32,767 bytes."""
        target = MessageOutput(False)
        target.out.write(KEY_TYPE)
        target.text(record.key)
        return target.out.getvalue()

    def value_bytes(self, record: CoordinatorRecord) -> bytes | None:
        """The encoded value of a record; None for a tombstone."""
        metadata = record.value
        if metadata is None:
            return None
        assert isinstance(metadata, TransactionMetadata)
        target = MessageOutput(True)
        out = target.out
        write_i16_be(out, i16(VALUE_VERSION))
        write_i64_be(out, metadata.producer_id)
        write_i16_be(out, i16(metadata.producer_epoch))
        write_i32_be(out, i32(metadata.timeout_ms))
        out.append(u8(metadata.state))
        if metadata.state is EMPTY:
            target.length(-1, False)
        else:
            put_partitions(target, metadata.partitions)
        write_i64_be(out, metadata.last_update_ms)
        write_i64_be(out, metadata.start_ms)
        put_tags(out, metadata)
        return out.getvalue()

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        """The record of a key and a value; None if its type is not known here.

        Raises `ProtocolError` if the bytes are not such a record, its version is unknown, or no id
        can have its state.
        """
        read = TRANSACTION_RECORDS.decode(key, value)
        if read is None:
            return None
        assert isinstance(read.key, TransactionLogKey)
        transactional_id = read.key.transactional_id
        if read.value is None:
            return CoordinatorRecord(transactional_id, None)
        return CoordinatorRecord(transactional_id, metadata_of(transactional_id, read.value))


def put_partitions(target: MessageOutput, partitions: frozenset[TopicPartition]) -> None:
    """Write the partitions of a transaction by topic, in order."""
    by_topic = numbers_by_topic(sorted(partitions))
    target.length(len(by_topic), False)
    for topic, numbers in by_topic.items():
        target.text(topic)
        target.length(len(numbers), False)
        for number in numbers:
            write_i32_be(target.out, i32(number))
        target.no_tags()


def put_tags(out: BytesWriter, metadata: TransactionMetadata) -> None:
    """Write the tagged fields that differ from their defaults, in the order of their tags."""
    previous_id, next_id = metadata.previous_producer_id, metadata.next_producer_id
    version, last_epoch = metadata.transaction_version, metadata.last_producer_epoch
    count = int(previous_id != NO_PRODUCER_ID) + int(next_id != NO_PRODUCER_ID)
    out.append(u8(count + int(version != 0) + int(last_epoch != NO_EPOCH)))
    if previous_id != NO_PRODUCER_ID:
        put_i64_tag(out, PREVIOUS_PRODUCER_ID, previous_id)
    if next_id != NO_PRODUCER_ID:
        put_i64_tag(out, NEXT_PRODUCER_ID, next_id)
    if version != 0:
        put_i16_tag(out, CLIENT_TRANSACTION_VERSION, version)
    if last_epoch != NO_EPOCH:
        put_i16_tag(out, LAST_PRODUCER_EPOCH, last_epoch)


def put_i64_tag(out: BytesWriter, tag: int, value: i64) -> None:
    out.append(u8(tag))
    out.append(8)
    write_i64_be(out, value)


def put_i16_tag(out: BytesWriter, tag: int, value: int) -> None:
    out.append(u8(tag))
    out.append(2)
    write_i16_be(out, i16(value))


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """The state that a record makes. Raises `ProtocolError` for a state that no id can have."""
    status = value.transaction_status
    if status not in KEPT:
        raise ProtocolError(f"transactional id {transactional_id!r} is in state {status}")
    partitions = frozenset(
        TopicPartition(topic.topic, number)
        for topic in value.transaction_partitions or ()
        for number in topic.partition_ids
    )
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        last_producer_epoch=value.last_producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(status),
        partitions=partitions or NO_PARTITIONS,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        transaction_version=value.client_transaction_version,
    )
