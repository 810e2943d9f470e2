"""The transaction coordinator of this broker, at work with the rest of the cluster.

    committed metadata ─► who leads the partitions of a transaction, which of them were deleted
    markers            ─► `MarkerWriter` for partitions led here; for others WriteTxnMarkers to
                          their leader, over CLUSTER
    producer ids       ─► the blocks of the broker

It is made at the first request of a transactional client, or when this broker first leads a
partition of `__transaction_state`: a broker without transactions imports nothing of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.coordinator_topics import CoordinatorTopic
from odradek.broker.transaction_markers import MarkerWriter
from odradek.controller.features import TRANSACTION_VERSION_FEATURE
from odradek.controller.quorum_controller import NotController
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.transaction.coordinator import TransactionCoordinator
from odradek.coordinator.transaction.markers import NO_LEADER, TransactionMarkers
from odradek.coordinator.transaction.transaction_shard import TransactionShard
from odradek.model.topics import TRANSACTION_STATE, TopicPartition

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.controller.delta import MetadataDelta
    from odradek.protocol.api.write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )

log = logging.getLogger(__name__)

MARKER_TIMEOUT_MS = 5_000
"""How long markers wait for their commit. After that they are sent again: they are idempotent."""


def transaction_coordinator(broker: Broker) -> TransactionCoordinator:
    """Make the coordinator, which follows the partitions of its topic from now on."""
    config, env = broker.config, broker.env
    leader = partial(leader_of, broker)
    coordinator = TransactionCoordinator(
        config,
        broker.timer,
        env.call_soon,
        partial(next_producer_id, broker),
        lambda: broker.image.features.get(TRANSACTION_VERSION_FEATURE, 0),
        leader,
    )
    partitions = config.transaction_state_log_num_partitions
    topic = CoordinatorTopic(broker.metadata, TRANSACTION_STATE, partitions)
    coordinator.runtime = CoordinatorRuntime(
        TRANSACTION_STATE,
        topic.partition_count,
        lambda partition: TransactionShard(
            coordinator, partition.topic_partition.partition, partition.leader_epoch
        ),
        broker.replicas,
        env.clock,
        broker.timer,
        env.call_soon,
        config.offsets_commit_timeout_ms,
    )
    markers = coordinator.markers = TransactionMarkers(
        leader,
        partial(send_markers, broker),
        env.call_soon,
        broker.timer.call_later,
        coordinator.markers_written,
    )

    def metadata_changed(delta: MetadataDelta, image: object) -> None:
        if delta.partitions or delta.created or delta.deleted or delta.brokers:
            markers.metadata_changed()

    broker.metadata.subscribers.append(metadata_changed)
    return coordinator


def next_producer_id(broker: Broker) -> int | None:
    """Take an id of the broker's blocks; None if there is none now, but a block is on its way."""
    found = broker.producer_id_manager.next_id()
    if found is None:
        try:
            broker.producer_id_manager.request_block()
        except (OSError, NotController) as error:
            log.warning("no producer ids for transactions: %s", error)
    return found


def leader_of(broker: Broker, partition: TopicPartition) -> int | None:
    """The leader of a partition, -1 if there is none now; None if the partition does not exist.

    A leader elsewhere that is fenced is none: another one is about to be elected.
    """
    image = broker.image
    topic = image.topic(partition.topic)
    if topic is None or partition.partition >= len(topic.partitions):
        return None
    leader = topic.partitions[partition.partition].leader
    registered = image.brokers.get(leader)
    if registered is not None and registered.fenced and leader != broker.node_id:
        return NO_LEADER
    return leader


def send_markers(
    broker: Broker,
    node_id: int,
    request: WriteTxnMarkersRequest,
    answered: Callable[[WriteTxnMarkersResponse | None], None],
) -> None:
    """Write markers here, or let another broker write them."""
    if node_id == broker.node_id:
        MarkerWriter(broker, request, False, MARKER_TIMEOUT_MS, answered).run()
    elif broker.marker_channel is not None:
        broker.marker_channel.send(node_id, request, answered)
    else:
        broker.env.call_soon(lambda: answered(None))
