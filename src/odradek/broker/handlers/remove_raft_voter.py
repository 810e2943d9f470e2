"""RemoveRaftVoter: v0. Takes a voter out of the metadata quorum (KIP-853).

The leader of the quorum, which is the active controller, changes its voters one at a time. The
response is sent when the change is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE
from odradek.broker.voter_changes import VoterChange
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

    change = VoterChange(broker, context, response)
    if request.cluster_id not in (None, broker.directory.meta.cluster_id):
        return response(ErrorCode.INCONSISTENT_CLUSTER_ID, None)
    event = RemoveVoter(change.reply, ReplicaKey(request.voter_id, request.voter_directory_id))
    broker.metadata.raft.change_voters(event)
    return CALLBACK_RESPONSE


def failed(request: RemoveRaftVoterRequest, error: ErrorCode) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error, error_message=error.text)
