"""Vote (key 52, versions 0 to 2): a voter asks another for its vote (KIP-595).

- 1: the keys of both voters, addresses of the leader (KIP-853). 2: pre-votes (KIP-996).
- Odradek's voters tell that they are new, a tagged field of its own.
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, i64, message, struct, u16


@struct
class VotePartition:
    """The candidate's epoch and the end of its log."""

    partition_index: i32
    replica_epoch: i32
    replica_id: i32
    replica_directory_id: UUID = field(default=ZERO_UUID, since=1, ignorable=True)
    voter_directory_id: UUID = field(default=ZERO_UUID, since=1, ignorable=True)
    last_offset_epoch: i32
    last_offset: i64 = field(doc="The log end offset.")
    pre_vote: bool = field(default=False, since=2)


@struct
class VoteTopic:
    """One topic; only the metadata log has voters."""

    topic_name: str
    partitions: list[VotePartition]


@message(api=52, versions=(0, 2), flexible=0)
class VoteRequest:
    """Asks the voter `voter_id` for its vote, or whether it would vote."""

    cluster_id: str | None = None
    voter_id: i32 = field(default=-1, since=1, ignorable=True)
    topics: list[VoteTopic]


@struct
class VotePartitionResponse:
    """The vote on one partition, and its epoch and leader."""

    partition_index: i32
    error_code: i16
    leader_id: i32 = field(doc="-1 unknown.")
    leader_epoch: i32
    vote_granted: bool
    is_new: bool = field(
        default=False,
        tag=100,
        since=0,
        ignorable=True,
        doc="Odradek's own: the vote counts only with those of all voters.",
    )


@struct
class VoteTopicResponse:
    """The votes on one topic."""

    topic_name: str
    partitions: list[VotePartitionResponse]


@struct
class QuorumNodeEndpoint:
    """The address of a leader that the response names."""

    node_id: i32
    host: str
    port: u16


@message(api=52, versions=(0, 2), flexible=0)
class VoteResponse:
    """Per partition, the vote."""

    error_code: i16
    topics: list[VoteTopicResponse] = field(factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field(factory=list, tag=0, since=1, ignorable=True)
