"""Metadata names leaders, in-sync replicas and replicas that are offline."""

from __future__ import annotations

from odradek.broker.acl_operations import NOT_REQUESTED
from odradek.broker.handlers.metadata import topic_response
from odradek.model.errors import ErrorCode
from odradek.protocol.api.metadata import MetadataResponsePartition
from unit.controller.controlled_cluster import ControlledCluster


def partition_of(cluster: ControlledCluster) -> MetadataResponsePartition:
    topic = cluster.image.topic("t")
    assert topic is not None
    (partition,) = topic_response(cluster.image, topic, NOT_REQUESTED).partitions
    return partition


def test_a_partition_whose_only_replica_is_fenced_has_no_leader() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [2]})
    led = partition_of(cluster)
    assert (led.error_code, led.leader_id, led.offline_replicas) == (0, 2, [])
    cluster.fence(2)
    left = partition_of(cluster)
    assert left.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (left.leader_id, left.isr_nodes, left.offline_replicas) == (-1, [], [2])
    assert left.leader_epoch > led.leader_epoch
