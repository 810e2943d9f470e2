"""DescribeQuorum: v0-2. Leader, epoch, high watermark and voters of the metadata log (KIP-595).

Only the leader of the quorum, which is the active controller, knows what the others have. If it no
longer leads, it answers NOT_LEADER_OR_FOLLOWER with the leader that it knows. Only the request for
exactly the partition of the metadata log is answered; another gets UNKNOWN_TOPIC_OR_PARTITION for
each of its partitions.

Versions: 1 has the times at which voters were caught up, for the leader the present time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.model.errors import ErrorCode
from odradek.model.topics import METADATA_TOPIC
from odradek.protocol.api.describe_quorum import (
    DescribedQuorumPartition,
    DescribedQuorumTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)
from odradek.raft.leader import Leader, ReplicaProgress
from odradek.raft.replicas import ReplicaKey, Voter

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

MESSAGES_SINCE = 2


def handle(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    no_message = "" if context.version >= MESSAGES_SINCE else None
    named = [
        [topic.topic_name, *(each.partition_index for each in topic.partitions)]
        for topic in request.topics
    ]
    if named != [[METADATA_TOPIC, 0]]:
        return DescribeQuorumResponse(
            error_code=0, error_message=no_message, topics=unknown(request)
        )
    topic = DescribedQuorumTopic(
        topic_name=METADATA_TOPIC, partitions=[described(broker, no_message)]
    )
    return DescribeQuorumResponse(
        error_code=0, error_message=no_message, topics=[topic], nodes=nodes(broker)
    )


def failed(request: DescribeQuorumRequest, error: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error, error_message=error.text, topics=[])


def nodes(broker: Broker) -> list[QuorumNode]:
    """The voters' addresses; those of this node's clients if it has no others."""
    found = []
    for voter in broker.metadata.raft.core.log.voters:
        at = [(each.listener, each.host, each.port) for each in voter.endpoints]
        if not at and voter.key.id in broker.image.brokers:
            registered = broker.image.brokers[voter.key.id]
            at = [(each.name, each.host, each.port) for each in registered.endpoints]
        found.append(
            QuorumNode(
                node_id=voter.key.id,
                listeners=[
                    QuorumListener(name=name, host=host, port=port) for name, host, port in at
                ],
            )
        )
    return found


def described(broker: Broker, no_message: str | None) -> DescribedQuorumPartition:
    raft = broker.metadata.raft
    core, leader = raft.core, raft.core.role
    if not isinstance(leader, Leader):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return DescribedQuorumPartition(
            partition_index=0,
            error_code=error,
            error_message=error.text,
            leader_id=-1 if core.leader_id is None else core.leader_id,
            leader_epoch=core.epoch,
        )
    voters = core.log.voters
    observers = [key for key in leader.progress if key not in voters]
    return DescribedQuorumPartition(
        partition_index=0,
        error_code=0,
        error_message=no_message,
        leader_id=core.me.id,
        leader_epoch=core.epoch,
        high_watermark=core.log.high_watermark,
        current_voters=[
            voter_state(broker, leader, voter)
            for voter in sorted(voters, key=lambda each: each.key.id)
        ],
        observers=[state(broker, key, leader.progress[key]) for key in observers],
    )


def voter_state(broker: Broker, leader: Leader, voter: Voter) -> ReplicaState:
    if not voter.key.matches(leader.me):
        return state(broker, voter.key, leader.progress_of(voter))
    now_ms = broker.clock.wall_ms()
    return ReplicaState(
        replica_id=leader.me.id,
        replica_directory_id=leader.me.directory_id,
        log_end_offset=leader.log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def state(broker: Broker, key: ReplicaKey, progress: ReplicaProgress | None) -> ReplicaState:
    """Return what the leader knows of another replica; `progress` has monotonic times."""
    found = ReplicaState(
        replica_id=key.id, replica_directory_id=key.directory_id, log_end_offset=-1
    )
    if progress is not None:
        ahead_ms = broker.clock.wall_ms() - broker.clock.monotonic_ms()
        found.log_end_offset = progress.acknowledged
        found.last_fetch_timestamp = progress.fetched_ms + ahead_ms
        if progress.caught_up_ms is not None:
            found.last_caught_up_timestamp = progress.caught_up_ms + ahead_ms
    return found


def unknown(request: DescribeQuorumRequest) -> list[DescribedQuorumTopic]:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        DescribedQuorumTopic(
            topic_name=topic.topic_name,
            partitions=[
                DescribedQuorumPartition(
                    partition_index=each.partition_index,
                    error_code=error,
                    error_message=error.text,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
