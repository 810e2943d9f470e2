"""The quorum's requests and responses as Kafka's messages: see also `test_raft_client`."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.raft.log_state import OffsetAndEpoch
from odradek.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumEpochResponse,
    RaftError,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.raft.replicas import ReplicaKey
from odradek.raft.wire import (
    NotTheMetadataLog,
    OtherCluster,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    refuse,
)
from unit.raft.raft_nodes import endpoint, key, over_the_wire

VOTE = VoteRequest(5, key(1), key(2), OffsetAndEpoch(9, 4), True)
BEGIN = BeginQuorumEpochRequest(5, ReplicaKey(1), key(2), (endpoint(1),))
END = EndQuorumEpochRequest(5, ReplicaKey(1), (key(3), key(2)))
FETCH = RaftFetchRequest(5, key(2), 9, 4, 7, 500)
NEW_FETCH = RaftFetchRequest(5, key(2), 0, 0, 0, 20, is_new=True)
PIECE = FetchSnapshotRequest(5, key(2), OffsetAndEpoch(9, 4), 100)


@pytest.mark.parametrize("request_", [VOTE, BEGIN, END, FETCH, NEW_FETCH, PIECE])
def test_a_request_is_the_same_after_the_wire(request_: RaftRequest) -> None:
    assert decode_request(over_the_wire(encode_request(request_, "c"))) == request_


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (VOTE, VoteResponse(RaftError.NONE, 5, None, True)),
        (VOTE, VoteResponse(RaftError.NONE, 5, None, True, is_new=True)),
        (VOTE, VoteResponse(RaftError.FENCED_LEADER_EPOCH, 6, 3)),
        (BEGIN, QuorumEpochResponse(RaftError.INVALID_VOTER_KEY, 5, 1)),
        (END, QuorumEpochResponse(RaftError.NONE, 5, None)),
        (FETCH, RaftFetchResponse(RaftError.NONE, 5, 1, (endpoint(1),), 8)),
        (FETCH, RaftFetchResponse(RaftError.NONE, 5, 1, (), 8, (), OffsetAndEpoch(6, 3))),
        (FETCH, RaftFetchResponse(RaftError.NONE, 5, 1, (), 8, (), None, OffsetAndEpoch(6, 3))),
        (NEW_FETCH, RaftFetchResponse(RaftError.NONE, 5, 1, (), 8, counts_from=8)),
        (FETCH, RaftFetchResponse(RaftError.NOT_LEADER_OR_FOLLOWER, 6, None)),
        (PIECE, FetchSnapshotResponse(RaftError.NONE, 5, 1, 300, 100, b"piece")),
        (PIECE, FetchSnapshotResponse(RaftError.NONE, 5, 1, missing=True)),
    ],
)
def test_a_response_is_the_same_after_the_wire(
    request_: RaftRequest, response: RaftResponse
) -> None:
    message = over_the_wire(encode_request(request_, "c"))
    answer = over_the_wire(encode_response(message, response))
    assert decode_response(request_, answer) == response


@pytest.mark.parametrize("request_", [VOTE, BEGIN, END, FETCH, NEW_FETCH, PIECE])
def test_a_refused_request_has_no_response_for_the_quorum(request_: RaftRequest) -> None:
    message = encode_request(request_, "another")
    answer = over_the_wire(refuse(message, ErrorCode.INCONSISTENT_CLUSTER_ID))
    with pytest.raises(OtherCluster, match="INCONSISTENT_CLUSTER_ID"):
        decode_response(request_, answer)


def test_a_request_about_another_topic_is_refused() -> None:
    message: Any = encode_request(VOTE, "c")
    message.topics[0].topic_name = "orders"
    with pytest.raises(NotTheMetadataLog):
        decode_request(message)
    message.topics = []
    with pytest.raises(NotTheMetadataLog):
        decode_request(message)
