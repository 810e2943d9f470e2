"""UpdateRaftVoter (key 82, version 0): a voter tells the leader its new addresses (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class KRaftVersionRange:
    """The versions of KRaft that a voter supports."""

    min_supported_version: i16
    max_supported_version: i16


@message(api=82, versions=(0, 0), flexible=0)
class UpdateRaftVoterRequest:
    """Changes the addresses and the supported versions of a voter."""

    cluster_id: str | None = None
    current_leader_epoch: i32
    voter_id: i32
    voter_directory_id: UUID
    listeners: list[QuorumListener]
    k_raft_version_feature: KRaftVersionRange


@struct
class UpdateRaftVoterLeader:
    """The current leader and its address."""

    leader_id: i32 = -1
    leader_epoch: i32 = -1
    host: str
    port: i32


@message(api=82, versions=(0, 0), flexible=0)
class UpdateRaftVoterResponse:
    """The error or none, and the leader."""

    throttle_time_ms: i32 = 0
    error_code: i16
    current_leader: UpdateRaftVoterLeader | None = field(default=None, tag=0)
