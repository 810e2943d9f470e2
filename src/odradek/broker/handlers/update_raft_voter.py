"""UpdateRaftVoter: v0. Records the new addresses of a voter (KIP-853).

Only the leader of the quorum changes its voters, one at a time: others answer
NOT_LEADER_OR_FOLLOWER. The response is sent when the change is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.voter_changes import change_voters
from odradek.model.errors import ErrorCode
from odradek.protocol.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from odradek.raft.effects import UpdateVoter
from odradek.raft.replicas import ReplicaKey, Voter
from odradek.raft.wire import endpoints_of

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: UpdateRaftVoterRequest) -> object:
    def response(error: ErrorCode, message: str | None) -> UpdateRaftVoterResponse:
        return UpdateRaftVoterResponse(error_code=error)

    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    voter = Voter(key, endpoints_of(request.listeners))
    return change_voters(
        broker, context, request.cluster_id, lambda reply: UpdateVoter(reply, voter), response
    )
