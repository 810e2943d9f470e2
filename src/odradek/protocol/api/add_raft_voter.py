"""AddRaftVoter (key 80, versions 0 to 1): make a node a voter of the metadata quorum (KIP-853).

- 1: an answer before the change is committed, if wanted.
"""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.schema import field, i16, i32, message


@message(api=80, versions=(0, 1), flexible=0)
class AddRaftVoterRequest:
    """Adds a voter, which must have caught up with the log."""

    cluster_id: str | None = None
    timeout_ms: i32
    voter_id: i32
    voter_directory_id: UUID
    listeners: list[QuorumListener]
    ack_when_committed: bool = field(default=True, since=1)


@message(api=80, versions=(0, 1), flexible=0)
class AddRaftVoterResponse:
    """The error or none."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
