"""The decision on AlterPartition: a leader proposes in-sync replicas (KIP-497).

The leader knows the partition by its two epochs. Older ones are refused, and newer ones, too: then
this node is not the controller any more. A replica comes into the ISR only if its broker is active
and is the incarnation that the leader has seen (KIP-903): one that came back with an empty disk
since is refused.

A broker with a damaged log asks to be out of the ISR, and not to be eligible, which any epoch
allows: another replica that is in sync or eligible leads if it did. The last one stays,
OPERATION_NOT_ATTEMPTED: only an administrator gives its records up.

An ISR that completes a reassignment may take the leadership from the leader that proposes it. Then
the answer is NEW_LEADER_ELECTED, although the change is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.controller.decision import RECORDS_PER_PART, Parts
from odradek.controller.image import (
    NO_LEADER,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from odradek.controller.partition_change import (
    RECOVERED,
    RECOVERING,
    ElectionRules,
    PartitionChange,
)
from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ProposedReplica,
)
from odradek.protocol.metadata_records import PartitionChangeRecord

BROKER_EPOCHS_SINCE = 3
ANY_EPOCH = -1
PARTITIONS_PER_PART = RECORDS_PER_PART


def alter_partition(
    image: MetadataImage,
    request: AlterPartitionRequest,
    version: int,
    config: Callable[[], BrokerConfig],
) -> Parts[AlterPartitionResponse]:
    """Yield records for the partitions that change; return an outcome for each partition.

    `version`: of the request. `config`: returns this broker's present configuration.
    """
    topics: list[AlteredTopic] = []
    response = AlterPartitionResponse(error_code=0, topics=topics)
    records: list[object] = []
    rules, looked = ElectionRules(image, config()), 0
    changed: set[tuple[UUID, int]] = set()
    if not _is_current(image, request):
        return refused(ErrorCode.STALE_BROKER_EPOCH)
    for asked in request.topics:
        outcomes: list[AlteredPartition] = []
        topics.append(AlteredTopic(topic_id=asked.topic_id, partitions=outcomes))
        for proposed in asked.partitions:
            if version < BROKER_EPOCHS_SINCE:
                isr = [ProposedReplica(broker_id=each) for each in proposed.new_isr]
            else:
                isr = proposed.new_isr_with_epochs
            key = (asked.topic_id, proposed.partition_index)
            if key in changed:  # Its record in this part is not replayed yet.
                outcomes.append(_failed(key[1], ErrorCode.INVALID_UPDATE_VERSION))
                continue
            outcome, record = _alter(rules, request.broker_id, asked.topic_id, proposed, isr)
            outcomes.append(outcome)
            looked += 1
            if record is not None:
                records.append(record)
                changed.add(key)
            if looked >= PARTITIONS_PER_PART:
                yield records
                rules, looked, records = ElectionRules(image, config()), 0, []
                if not _is_current(image, request):
                    return refused(ErrorCode.STALE_BROKER_EPOCH)
    if records:
        yield records
    return response


def refused(error: ErrorCode) -> AlterPartitionResponse:
    """Return the response that refuses the whole request."""
    return AlterPartitionResponse(error_code=error, topics=[])


def _is_current(image: MetadataImage, request: AlterPartitionRequest) -> bool:
    broker = image.brokers.get(request.broker_id)
    return broker is not None and broker.epoch == request.broker_epoch


def _alter(
    rules: ElectionRules,
    leader: int,
    topic_id: UUID,
    proposed: AlterPartitionPartition,
    isr: Sequence[ProposedReplica],
) -> tuple[AlteredPartition, PartitionChangeRecord | None]:
    number = proposed.partition_index
    topic = rules.image.topic_by_id(topic_id)
    if topic is None:
        return _failed(number, ErrorCode.UNKNOWN_TOPIC_ID), None
    partition = topic.partitions.get(number)
    if partition is None:
        return _failed(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    if proposed.is_damaged or proposed.has_no_room:
        return _without(rules, topic, number, partition, leader, is_damaged=proposed.is_damaged)
    error = _problem(rules.image, leader, partition, proposed, isr)
    if error is not ErrorCode.NONE:
        return _failed(number, error), None
    change = replace(
        PartitionChange.of(partition, rules.election(topic)),
        isr=tuple(each.broker_id for each in isr),
        leader_recovery_state=proposed.leader_recovery_state,
    )
    record = change.record(rules, topic, number)
    if record is not None:
        partition = partition.merge(record)
        if partition.leader != leader:
            return _failed(number, ErrorCode.NEW_LEADER_ELECTED), record
    return _as_it_is(number, partition), record


def _without(
    rules: ElectionRules,
    topic: TopicImage,
    number: int,
    partition: PartitionRegistration,
    leaving: int,
    *,
    is_damaged: bool,
) -> tuple[AlteredPartition, PartitionChangeRecord | None]:
    """Take a replica out of the ISR at its own request. A damaged one is not eligible as a leader
    either; a full one has all records, and stays if nobody else can lead.
    """
    isr = tuple(replica for replica in partition.isr if replica != leaving)
    if not isr and not (is_damaged and set(partition.elr) - {leaving}):
        return _failed(number, ErrorCode.OPERATION_NOT_ATTEMPTED), None
    change = PartitionChange.of(partition, rules.election(topic), isr)
    if is_damaged:
        change = replace(change, unclean_shutdown=(leaving,))
    record = change.record(rules, topic, number)
    if record is not None:
        changed = partition.merge(record)
        if not is_damaged and changed.leader == NO_LEADER:
            return _failed(number, ErrorCode.OPERATION_NOT_ATTEMPTED), None
        partition = changed
    return _as_it_is(number, partition), record


def _as_it_is(number: int, partition: PartitionRegistration) -> AlteredPartition:
    return AlteredPartition(
        partition_index=number,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _failed(number: int, error: ErrorCode) -> AlteredPartition:
    return AlteredPartition(partition_index=number, error_code=error)


def _problem(
    image: MetadataImage,
    leader: int,
    partition: PartitionRegistration,
    proposed: AlterPartitionPartition,
    isr: Sequence[ProposedReplica],
) -> ErrorCode:
    """Return why the proposal is refused, in Kafka's order, or NONE."""
    if (
        proposed.leader_epoch > partition.leader_epoch
        or proposed.partition_epoch > partition.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER
    if proposed.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposed.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    replicas = [each.broker_id for each in isr]
    if len(set(replicas)) < len(replicas) or not set(partition.replicas).issuperset(replicas):
        return ErrorCode.INVALID_REQUEST
    if leader not in replicas:
        return ErrorCode.INVALID_REQUEST
    recovery = proposed.leader_recovery_state
    if recovery not in (RECOVERED, RECOVERING) or (
        recovery == RECOVERING
        and (len(replicas) > 1 or partition.leader_recovery_state == RECOVERED)
    ):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, each) for each in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(image: MetadataImage, replica: ProposedReplica) -> bool:
    broker = image.brokers.get(replica.broker_id)
    if broker is None or not broker.active:
        return False
    return replica.broker_epoch in (ANY_EPOCH, broker.epoch)
