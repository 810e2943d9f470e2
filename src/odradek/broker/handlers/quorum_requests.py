"""Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot and the Fetch of the metadata log, from the
other nodes of the quorum.

Each is a step of the quorum's core; the response may wait for the disk. A request of another
cluster gets INCONSISTENT_CLUSTER_ID, one about another log than that of the metadata
INVALID_REQUEST.

Versions: see the messages; the newest have keys of replicas (KIP-853) and pre-votes (KIP-996). A
Fetch before version 12 closes the connection: its response cannot name the leader. Before 16 it has
no place for the leader's address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.context import CALLBACK_RESPONSE, CallbackResponse
from odradek.model.byte_ranges import FileSlice
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.hot_fetch import FetchRequest, FetchResponse
from odradek.raft.messages import RaftResponse
from odradek.raft.wire import (
    NotTheMetadataLog,
    QuorumMessage,
    decode_request,
    encode_response,
    refuse,
)

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

FIRST_FETCH_WITH_A_LEADER: Final = 12
FIRST_FETCH_WITH_ADDRESSES: Final = 16


def handle(
    broker: Broker, context: RequestContext, request: QuorumMessage
) -> CallbackResponse | object:
    version = context.version
    if isinstance(request, FetchRequest) and version < FIRST_FETCH_WITH_A_LEADER:
        raise ProtocolError(f"a Fetch of the metadata log in version {version}")
    if request.cluster_id not in (None, broker.directory.meta.cluster_id):
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID)

    def reply(response: RaftResponse, records: Sequence[FileSlice]) -> None:
        answer = encode_response(request, response, records)
        if isinstance(answer, FetchResponse) and version < FIRST_FETCH_WITH_ADDRESSES:
            answer.node_endpoints = []
        context.respond(answer)

    try:
        decoded = decode_request(request)
    except NotTheMetadataLog:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    broker.metadata.raft.receive(decoded, reply)
    return CALLBACK_RESPONSE
