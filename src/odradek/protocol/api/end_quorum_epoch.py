"""EndQuorumEpoch (key 54, versions 0 to 1): a leader resigns and names successors (KIP-595).

- 1: flexible, successors with their directories and addresses of the leader (KIP-853).
"""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.api.begin_quorum_epoch import QuorumEpochTopic
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.vote import QuorumNodeEndpoint
from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class PreferredCandidate:
    """A voter that should stand for election."""

    candidate_id: i32
    candidate_directory_id: UUID


@struct
class EndQuorumEpochPartition:
    """One partition, the leader that resigns and its successors, the preferred one first."""

    partition_index: i32
    leader_id: i32
    leader_epoch: i32
    preferred_successors: list[i32] = field(factory=list, until=0, ignorable=True)
    preferred_candidates: list[PreferredCandidate] = field(factory=list, since=1, ignorable=True)


@struct
class EndQuorumEpochTopic:
    """One topic; only the metadata log has a leader of this kind."""

    topic_name: str
    partitions: list[EndQuorumEpochPartition]


@message(api=54, versions=(0, 1), flexible=1)
class EndQuorumEpochRequest:
    """Tells the voters that the leader resigned."""

    cluster_id: str | None = None
    topics: list[EndQuorumEpochTopic]
    leader_endpoints: list[QuorumListener] = field(factory=list, since=1, ignorable=True)


@message(api=54, versions=(0, 1), flexible=1)
class EndQuorumEpochResponse:
    """Per partition, the epoch and leader as the voter knows them."""

    error_code: i16
    topics: list[QuorumEpochTopic] = field(factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field(factory=list, tag=0, since=1, ignorable=True)
