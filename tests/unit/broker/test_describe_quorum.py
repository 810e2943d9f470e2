"""DescribeQuorum shows the metadata log as it is."""

from __future__ import annotations

from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_quorum import (
    DescribedQuorumPartition,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from odradek.raft.log_state import OffsetAndEpoch
from odradek.raft.replicas import ReplicaKey, Voter, VoterSet
from unit.broker.memory_broker import NOW_MS, MemoryBroker

LOG = "__cluster_metadata"


def asked(*named: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumTopic(
                topic_name=name,
                partitions=[DescribeQuorumPartition(partition_index=each) for each in numbers],
            )
            for name, numbers in named
        ]
    )


def describe(serving: MemoryBroker) -> tuple[DescribedQuorumPartition, DescribeQuorumResponse]:
    response = serving.call(asked((LOG, [0])), 2, DescribeQuorumResponse)
    assert response.error_code == 0
    return response.topics[0].partitions[0], response


def test_this_node_leads_and_is_the_only_voter() -> None:
    serving = MemoryBroker()
    partition, response = describe(serving)
    assert (partition.leader_id, partition.error_code, partition.observers) == (1, 0, [])
    [voter] = partition.current_voters
    assert (voter.replica_id, voter.last_caught_up_timestamp) == (1, NOW_MS)
    [own] = serving.node.broker.image.brokers[1].log_dirs
    assert voter.replica_directory_id == own
    [node] = response.nodes
    assert [(each.name, each.port) for each in node.listeners] == [("PLAINTEXT", 9092)]


def test_voters_are_in_the_order_of_their_ids_not_of_their_joining() -> None:
    serving = MemoryBroker()
    log = serving.node.broker.metadata.raft.core.log
    me = next(iter(log.voters))
    later = [Voter(ReplicaKey(node_id, UUID(int=node_id))) for node_id in (7, 3)]
    log.begin_at(OffsetAndEpoch(log.end_offset, 1), VoterSet([later[0], me, later[1]]))
    partition, _ = describe(serving)
    assert [voter.replica_id for voter in partition.current_voters] == [1, 3, 7]


def test_the_high_watermark_follows_the_disk_and_the_end_does_not() -> None:
    serving = MemoryBroker()
    before, _ = describe(serving)
    assert before.high_watermark == before.current_voters[0].log_end_offset > 0
    serving.node.broker.auto_create_topics(["t"])
    asking = serving.send(asked((LOG, [0])), 2)
    during = asking.answer(DescribeQuorumResponse).topics[0].partitions[0]
    assert during.high_watermark == before.high_watermark
    assert during.current_voters[0].log_end_offset == before.high_watermark + 2
    serving.run_until_idle()
    after, _ = describe(serving)
    assert after.high_watermark == during.current_voters[0].log_end_offset


def test_the_epoch_rises_with_each_start() -> None:
    first = MemoryBroker()
    epoch = describe(first)[0].leader_epoch
    first.node.stop(lambda: None)
    first.run_until_idle()
    assert describe(MemoryBroker(first.disk))[0].leader_epoch == epoch + 1


def test_other_partitions_are_unknown_all_of_the_request() -> None:
    request = asked((LOG, [0]), ("t", [3]))
    response = MemoryBroker().call(request, 2, DescribeQuorumResponse)
    errors = [each.error_code for topic in response.topics for each in topic.partitions]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert response.nodes == []
