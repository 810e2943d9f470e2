"""RemoveRaftVoter (key 81, version 0): take a voter out of the metadata quorum (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import i16, i32, message


@message(api=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterRequest:
    """Removes a voter, by its id and the id of its directory."""

    cluster_id: str | None = None
    voter_id: i32
    voter_directory_id: UUID


@message(api=81, versions=(0, 0), flexible=0)
class RemoveRaftVoterResponse:
    """The error or none."""

    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
