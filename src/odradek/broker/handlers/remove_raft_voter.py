"""RemoveRaftVoter: v0. Takes a voter out of the metadata quorum (KIP-853).

The leader of the quorum, which is the active controller, changes its voters one at a time. The
response is sent when the change is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.voter_changes import change_voters
from odradek.model.errors import ErrorCode
from odradek.protocol.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.raft.effects import RemoveVoter
from odradek.raft.replicas import ReplicaKey

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: RemoveRaftVoterRequest) -> object:
    def response(error: ErrorCode, message: str | None) -> RemoveRaftVoterResponse:
        return RemoveRaftVoterResponse(error_code=error, error_message=message)

    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    return change_voters(
        broker, context, request.cluster_id, lambda reply: RemoveVoter(reply, key), response
    )


def failed(request: RemoveRaftVoterRequest, error: ErrorCode) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error, error_message=error.text)
