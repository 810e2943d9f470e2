"""Vote, BeginQuorumEpoch, EndQuorumEpoch and FetchSnapshot, from the other nodes of the quorum.

Each is a step of the quorum's core; the response may wait for the disk. A request of another
cluster gets INCONSISTENT_CLUSTER_ID.

Versions: see the messages; the newest have keys of replicas (KIP-853) and pre-votes (KIP-996).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.model.byte_ranges import FileSlice
from odradek.model.errors import ErrorCode
from odradek.raft.messages import RaftResponse
from odradek.raft.wire import QuorumMessage, decode_request, encode_response, refuse

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext


def handle(
    broker: Broker, context: RequestContext, request: QuorumMessage
) -> CallbackResponse | object:
    if request.cluster_id not in (None, broker.directory.meta.cluster_id):
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID)

    def reply(response: RaftResponse, records: Sequence[FileSlice]) -> None:
        context.respond(encode_response(request, response, records))

    broker.metadata.raft.receive(decode_request(request), reply)
    return CALLBACK_RESPONSE
