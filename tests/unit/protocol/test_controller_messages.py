"""Requests of brokers to the controller are encoded as by Apache Kafka's own serializer.

The hexadecimal values come from Kafka 4.3.1 (`MessageUtil.toByteBufferAccessor`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.api.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ProposedReplica,
)
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from odradek.protocol.api.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from odradek.protocol.codec import decode, encode_bytes

INCARNATION, DIRECTORY = UUID(int=1 << 64 | 2), UUID(int=3 << 64 | 4)


def registration(**fields: Any) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=7,
        cluster_id="abc",
        incarnation_id=INCARNATION,
        listeners=[RegistrationListener(name="CLUSTER", host="h", port=19092, security_protocol=0)],
        features=[
            RegistrationFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack="r1",
        log_dirs=[DIRECTORY],
        **fields,
    )


def heartbeat(**fields: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=7,
        broker_epoch=12,
        current_metadata_offset=40,
        want_fence=True,
        want_shut_down=False,
        **fields,
    )


def alteration(**fields: Any) -> AlterPartitionRequest:
    partition = AlterPartitionPartition(
        partition_index=3, leader_epoch=4, leader_recovery_state=1, partition_epoch=6, **fields
    )
    topic = AlterPartitionTopic(topic_id=INCARNATION, partitions=[partition])
    return AlterPartitionRequest(broker_id=1, broker_epoch=5, topics=[topic])


ALTERED = AlterPartitionResponse(
    error_code=0,
    topics=[
        AlteredTopic(
            topic_id=INCARNATION,
            partitions=[
                AlteredPartition(
                    partition_index=3,
                    error_code=0,
                    leader_id=1,
                    leader_epoch=4,
                    isr=[1, 2],
                    leader_recovery_state=1,
                    partition_epoch=7,
                ),
                AlteredPartition(partition_index=4, error_code=95),
            ],
        )
    ],
)
REGISTRATION = (
    "0000000704616263000000000000000100000000000000020208434c555354455202684a9400000002116d65746164"
    "6174612e76657273696f6e0007001e00037231000200000000000000030000000000000004"
)
GOLDEN = [
    (registration(), 2, REGISTRATION + "00"),
    (registration(previous_broker_epoch=99), 3, REGISTRATION + "000000000000006300"),
    (registration(previous_broker_epoch=99), 4, REGISTRATION + "000000000000006300"),
    (
        BrokerRegistrationResponse(error_code=101, broker_epoch=12),
        4,
        "000000000065000000000000000c00",
    ),
    (heartbeat(), 0, "00000007000000000000000c0000000000000028010000"),
    (
        heartbeat(offline_log_dirs=[DIRECTORY]),
        1,
        "00000007000000000000000c000000000000002801000100110200000000000000030000000000000004",
    ),
    (
        heartbeat(offline_log_dirs=[DIRECTORY], cordoned_log_dirs=[INCARNATION]),
        2,
        "00000007000000000000000c00000000000000280100020011020000000000000003000000000000000401110200"
        "000000000000010000000000000002",
    ),
    (
        BrokerHeartbeatResponse(
            error_code=0, is_caught_up=True, is_fenced=False, should_shut_down=True
        ),
        2,
        "00000000000001000100",
    ),
    (
        alteration(new_isr=[1, 2]),
        2,
        "0000000100000000000000050200000000000000010000000000000002020000000300000004030000000100000"
        "0020100000006000000",
    ),
    (
        alteration(
            new_isr_with_epochs=[
                ProposedReplica(broker_id=1, broker_epoch=5),
                ProposedReplica(broker_id=2),
            ]
        ),
        3,
        "0000000100000000000000050200000000000000010000000000000002020000000300000004030000000100000"
        "000000000050000000002ffffffffffffffff000100000006000000",
    ),
    (
        ALTERED,
        3,
        "0000000000000200000000000000010000000000000002030000000300000000000100000004030000000100000"
        "00201000000070000000004005f0000000000000000010000000000000000",
    ),
    (AllocateProducerIdsRequest(broker_id=1, broker_epoch=5), 0, "00000001000000000000000500"),
    (
        AllocateProducerIdsResponse(error_code=0, producer_id_start=1000, producer_id_len=1000),
        0,
        "00000000000000000000000003e8000003e800",
    ),
    (UnregisterBrokerRequest(broker_id=3), 0, "0000000300"),
    (UnregisterBrokerResponse(error_code=102, error_message="no"), 0, "000000000066036e6f00"),
]


@pytest.mark.parametrize(
    ("sent", "version", "written"),
    GOLDEN,
    ids=[f"{type(each).__name__}-v{version}" for each, version, _ in GOLDEN],
)
def test_a_message_has_the_bytes_of_kafkas_serializer(
    sent: object, version: int, written: str
) -> None:
    assert encode_bytes(sent, version).hex() == written
    assert decode(type(sent), version, bytes.fromhex(written)) == sent
