"""BeginQuorumEpoch (key 53, versions 0 to 1): a new leader announces itself (KIP-595).

- 1: flexible, the key of the voter and addresses of the leader (KIP-853).
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.vote import QuorumNodeEndpoint
from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class BeginQuorumEpochPartition:
    """One partition and its new leader."""

    partition_index: i32
    voter_directory_id: UUID = field(default=ZERO_UUID, since=1, ignorable=True)
    leader_id: i32
    leader_epoch: i32


@struct
class BeginQuorumEpochTopic:
    """One topic; only the metadata log has a leader of this kind."""

    topic_name: str
    partitions: list[BeginQuorumEpochPartition]


@message(api=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochRequest:
    """Tells the voter `voter_id` who leads."""

    cluster_id: str | None = None
    voter_id: i32 = field(default=-1, since=1, ignorable=True)
    topics: list[BeginQuorumEpochTopic]
    leader_endpoints: list[QuorumListener] = field(factory=list, since=1, ignorable=True)


@struct
class QuorumEpochPartition:
    """The epoch and the leader of one partition."""

    partition_index: i32
    error_code: i16
    leader_id: i32 = field(doc="-1 unknown.")
    leader_epoch: i32


@struct
class QuorumEpochTopic:
    """The epochs of one topic."""

    topic_name: str
    partitions: list[QuorumEpochPartition]


@message(api=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochResponse:
    """Per partition, the epoch and leader as the voter knows them."""

    error_code: i16
    topics: list[QuorumEpochTopic] = field(factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field(factory=list, tag=0, since=1, ignorable=True)
