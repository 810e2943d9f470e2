"""AddRaftVoter: v0-1. Makes an observer of the quorum, which has caught up, a voter (KIP-853).

The leader of the quorum, which is the active controller, changes its voters one at a time. The
response is sent when the change is committed; without `ack_when_committed`, when the leader's log
has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.voter_changes import change_voters
from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.raft.effects import AddVoter
from odradek.raft.replicas import ReplicaKey, Voter
from odradek.raft.wire import endpoints_of

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(broker: Broker, context: RequestContext, request: AddRaftVoterRequest) -> object:
    def response(error: ErrorCode, message: str | None) -> AddRaftVoterResponse:
        return AddRaftVoterResponse(error_code=error, error_message=message)

    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    voter = Voter(key, endpoints_of(request.listeners))
    return change_voters(
        broker,
        context,
        request.cluster_id,
        lambda reply: AddVoter(reply, voter, request.ack_when_committed),
        response,
    )


def failed(request: AddRaftVoterRequest, error: ErrorCode) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error, error_message=error.text)
