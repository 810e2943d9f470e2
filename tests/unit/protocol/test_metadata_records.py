"""Metadata records are encoded as by Apache Kafka's own serializer.

The hexadecimal values come from Kafka 4.3.1 (`MetadataRecordSerde`).
"""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.model.errors import ProtocolError
from odradek.protocol.metadata_records import (
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)


def uuid(high: int, low: int) -> UUID:
    return UUID(int=high << 64 | low)


GOLDEN = [
    (
        TopicRecord(name="orders", topic_id=uuid(0x0102030405060708, 0x1112131415161718)),
        0,
        "010200076f72646572730102030405060708111213141516171800",
    ),
    (
        PartitionRecord(
            partition_id=3,
            topic_id=uuid(1, 2),
            replicas=[1, 2],
            isr=[1],
            removing_replicas=[],
            adding_replicas=[],
            leader=1,
            leader_epoch=4,
            partition_epoch=5,
            directories=[uuid(3, 4), uuid(5, 6)],
            eligible_leader_replicas=[2],
        ),
        2,
        "010302000000030000000000000001000000000000000203000000010000000202000000010101000000010000"
        "000400000005030000000000000003000000000000000400000000000000050000000000000006010105020000"
        "0002",
    ),
    (
        PartitionChangeRecord(
            partition_id=3,
            topic_id=uuid(1, 2),
            isr=[1],
            leader=2,
            directories=[uuid(3, 4)],
            last_known_elr=[7],
        ),
        2,
        "010502000000030000000000000001000000000000000204000502000000010104000000020705020000000708"
        "110200000000000000030000000000000004",
    ),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=uuid(9, 9),
            broker_epoch=77,
            end_points=[
                BrokerEndpoint(name="PLAINTEXT", host="h", port=40000, security_protocol=0)
            ],
            features=[
                BrokerFeature(
                    name="metadata.version", min_supported_version=7, max_supported_version=30
                )
            ],
            rack="r",
            fenced=False,
            log_dirs=[uuid(3, 4)],
        ),
        3,
        "010003000000010000000000000000090000000000000009000000000000004d020a504c41494e544558540268"
        "9c4000000002116d657461646174612e76657273696f6e0007001e000272000001001102000000000000000300"
        "00000000000004",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
        0,
        "01040002076f72646572730d726574656e74696f6e2e6d73023100",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        0,
        "01040002076f72646572730d726574656e74696f6e2e6d730000",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=77, next_producer_id=1000),
        0,
        "010f0000000001000000000000004d00000000000003e800",
    ),
    (
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        0,
        "010c00116d657461646174612e76657273696f6e001e00",
    ),
    (
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=77, fenced=-1, log_dirs=[uuid(3, 4)]
        ),
        2,
        "01110200000001000000000000004d020001ff02110200000000000000030000000000000004",
    ),
    (NoOpRecord(), 0, "01140000"),
    (RemoveTopicRecord(topic_id=uuid(1, 2)), 0, "0109000000000000000001000000000000000200"),
    (BeginTransactionRecord(name="tx"), 0, "011700010003037478"),
    (EndTransactionRecord(), 0, "01180000"),
    (UnregisterBrokerRecord(broker_id=1, broker_epoch=7), 0, "01010000000001000000000000000700"),
    (ClearElrRecord(topic_name="orders"), 0, "011c00076f726465727300"),
    (
        PartitionChangeRecord(
            partition_id=3,
            topic_id=uuid(1, 2),
            isr=[],
            leader=-1,
            eligible_leader_replicas=[1, 2],
            last_known_elr=[1],
        ),
        2,
        "0105020000000300000000000000010000000000000002040001010104ffffffff060903000000010000000207"
        "050200000001",
    ),
    (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, cordoned_log_dirs=[uuid(3, 4)]),
        3,
        "0111030000000100000000000000050103110200000000000000030000000000000004",
    ),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=uuid(1, 2),
            broker_epoch=5,
            end_points=[],
            features=[],
            rack=None,
            log_dirs=[uuid(3, 4)],
            cordoned_log_dirs=[],
        ),
        4,
        "010004000000010000000000000000010000000000000002000000000000000501010001000200110200000000"
        "000000030000000000000004010101",
    ),
]


@pytest.mark.parametrize(("record", "version", "written"), GOLDEN)
def test_a_record_has_the_bytes_of_kafkas_serializer(
    record: object, version: int, written: str
) -> None:
    assert encode_record(record, version).hex() == written
    assert decode_record(bytes.fromhex(written)) == record


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "varint"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "key 99"),
        (b"\x01\x02\x09", "TopicRecord has versions 0 to 0, not 9"),
        (b"\x01\x14\x00", "past the end"),
        (b"\x01\x14\x00\x00\x00", "1 bytes more"),
    ],
)
def test_an_invalid_record_is_a_protocol_error(value: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_record(value)
