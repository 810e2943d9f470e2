"""Decisions on brokers: the first records of a cluster, a broker's own registration as it starts,
blocks of producer ids. Registrations by request are in `registration`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import ControllerResult
from odradek.controller.features import (
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_FEATURE,
)
from odradek.controller.image import (
    BrokerRegistration,
    ConfigResource,
    Endpoint,
    MetadataImage,
    ResourceType,
    config_record,
)
from odradek.controller.records import METADATA_VERSION, METADATA_VERSION_FEATURE
from odradek.model.errors import ErrorCode
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
)

PRODUCER_ID_BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


class ProducerIdsBlock(NamedTuple):
    """Producer ids that one broker may assign to its clients: `first` to `first + size - 1`."""

    first: int
    size: int


def bootstrap(image: MetadataImage, broker: BrokerConfig) -> list[object]:
    """Return the first records of a new cluster; none for an existing one.

    They are its metadata and transaction versions, and the least number of in-sync replicas: like
    Kafka, a cluster has one value of it for all brokers, at first that of the broker that starts
    it. A cluster that was made before gets that number, too, and loses other values of single
    brokers; its transaction version is 0 until UpdateFeatures raises it.
    """
    records: list[object] = []
    if METADATA_VERSION_FEATURE not in image.features:
        records.append(
            FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION)
        )
        records.append(
            FeatureLevelRecord(name=TRANSACTION_VERSION_FEATURE, feature_level=TRANSACTION_VERSION)
        )
    least = BrokerConfig.min_insync_replicas
    if least.name not in image.broker_config(None):
        of_one = [
            resource
            for resource, values in sorted(image.configs.items())
            if resource.type is ResourceType.BROKER and least.name in values
        ]
        records += [config_record(resource, least.name, None) for resource in of_one]
        for_all = ConfigResource(ResourceType.BROKER, "")
        records.append(config_record(for_all, least.name, least.text(broker.min_insync_replicas)))
    return records


def register_broker(
    image: MetadataImage,
    broker_id: int,
    *,
    epoch: int,
    incarnation_id: UUID,
    endpoints: Sequence[Endpoint],
    rack: str | None,
    log_dirs: Sequence[UUID],
    clean: bool,
) -> ControllerResult[BrokerRegistration]:
    """Return the records that register a broker that has just started, unfenced.

    `epoch`: the offset that the first of the records will get (`MetadataLog.end_offset`). Unless
    the broker stopped cleanly, the partitions that it leads get a new leader epoch: records lost in
    a power loss must not be confused with later ones at the same offsets.
    """
    broker = BrokerRegistration(
        id=broker_id,
        epoch=epoch,
        incarnation_id=incarnation_id,
        endpoints=tuple(endpoints),
        features=tuple((name, *levels) for name, levels in SUPPORTED_FEATURES.items()),
        rack=rack,
        fenced=False,
        log_dirs=tuple(log_dirs),
    )
    records: list[object] = [broker.record()]
    if not clean:
        records += [
            PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=broker_id)
            for _, topic in sorted(image.topics.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leader == broker_id
        ]
    return ControllerResult(records, broker)


def cordon_directories(
    image: MetadataImage, broker_id: int, directories: Sequence[UUID]
) -> list[object]:
    """Return the records by which these directories of a broker take no new partitions, and all
    others do.
    """
    broker = image.brokers[broker_id]
    if set(directories) == set(broker.cordoned_log_dirs or ()):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            cordoned_log_dirs=list(directories),
        )
    ]


def allocate_producer_ids_to(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Allocate a block of producer ids to the broker that asks, if this is its registration."""
    broker = image.brokers.get(request.broker_id)
    error = ErrorCode.NONE
    if broker is None or broker.epoch != request.broker_epoch:
        error = ErrorCode.STALE_BROKER_EPOCH
    elif image.next_producer_id > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is not ErrorCode.NONE:
        refused = AllocateProducerIdsResponse(
            error_code=error, producer_id_start=0, producer_id_len=0
        )
        return ControllerResult([], refused)
    allocated = allocate_producer_ids(image, request.broker_id)
    block = allocated.response
    response = AllocateProducerIdsResponse(
        error_code=error, producer_id_start=block.first, producer_id_len=block.size
    )
    return ControllerResult(allocated.records, response)


def allocate_producer_ids(
    image: MetadataImage, broker_id: int
) -> ControllerResult[ProducerIdsBlock]:
    """Allocate a block of producer ids to a broker. A committed block is not allocated again."""
    block = ProducerIdsBlock(image.next_producer_id, PRODUCER_ID_BLOCK_SIZE)
    broker = image.brokers.get(broker_id)
    record = ProducerIdsRecord(
        broker_id=broker_id,
        broker_epoch=-1 if broker is None else broker.epoch,
        next_producer_id=block.first + block.size,
    )
    return ControllerResult([record], block)
