"""The quorum's requests and responses as Kafka's messages, both ways.

    core request ─► `encode_request` ─► Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot
                                                     │
    core response ◄─ `decode_response` ◄─ response ◄─ `encode_response` ◄─ `decode_request` ◄┘

All are about the one partition of the metadata log; `NotTheMetadataLog` if one is not. A request of
another cluster gets INCONSISTENT_CLUSTER_ID. What came is checked here: the core takes batches that
follow each other, with correct checksums.

A new voter (see `replicas`) says so by our own fields: a tagged one of its vote, and a durable end
of 0 in its fetches. From where on it counts is the last stable offset of the answers, which the
metadata log has no other use for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from odradek.model.byte_ranges import FileSlice
from odradek.model.errors import ErrorCode, ProtocolError, error_code
from odradek.model.topics import METADATA_TOPIC
from odradek.protocol.api.begin_quorum_epoch import (
    BeginQuorumEpochPartition,
    BeginQuorumEpochTopic,
    QuorumEpochPartition,
    QuorumEpochTopic,
)
from odradek.protocol.api.begin_quorum_epoch import (
    BeginQuorumEpochRequest as BeginQuorumEpochMessage,
)
from odradek.protocol.api.begin_quorum_epoch import (
    BeginQuorumEpochResponse as BeginQuorumEpochAnswer,
)
from odradek.protocol.api.describe_quorum import QuorumListener
from odradek.protocol.api.end_quorum_epoch import (
    EndQuorumEpochPartition,
    EndQuorumEpochTopic,
    PreferredCandidate,
)
from odradek.protocol.api.end_quorum_epoch import EndQuorumEpochRequest as EndQuorumEpochMessage
from odradek.protocol.api.end_quorum_epoch import EndQuorumEpochResponse as EndQuorumEpochAnswer
from odradek.protocol.api.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from odradek.protocol.api.fetch_snapshot import (
    FetchedSnapshotId,
    SnapshotLeader,
    SnapshotPartition,
    SnapshotPartitionResponse,
    SnapshotTopic,
    SnapshotTopicResponse,
)
from odradek.protocol.api.fetch_snapshot import FetchSnapshotRequest as FetchSnapshotMessage
from odradek.protocol.api.fetch_snapshot import FetchSnapshotResponse as FetchSnapshotAnswer
from odradek.protocol.api.vote import (
    VotePartition,
    VotePartitionResponse,
    VoteTopic,
    VoteTopicResponse,
)
from odradek.protocol.api.vote import VoteRequest as VoteMessage
from odradek.protocol.api.vote import VoteResponse as VoteAnswer
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
from odradek.raft.raft_client import MAX_FETCH_BYTES, MAX_PIECE_BYTES
from odradek.raft.raft_records import raft_batches
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey

METADATA_TOPIC_ID: Final = UUID(int=1)
NOBODY: Final = -1
QuorumMessage = (
    VoteMessage
    | BeginQuorumEpochMessage
    | EndQuorumEpochMessage
    | FetchRequest
    | FetchSnapshotMessage
)


# Requests


def encode_request(request: RaftRequest, cluster_id: str) -> QuorumMessage:
    """Return the message of a request."""
    match request:
        case VoteRequest():
            return _vote(request, cluster_id)
        case BeginQuorumEpochRequest(epoch, leader, voter, endpoints):
            begun = BeginQuorumEpochPartition(
                partition_index=0,
                voter_directory_id=voter.directory_id,
                leader_id=leader.id,
                leader_epoch=epoch,
            )
            return BeginQuorumEpochMessage(
                cluster_id=cluster_id,
                voter_id=voter.id,
                topics=[BeginQuorumEpochTopic(topic_name=METADATA_TOPIC, partitions=[begun])],
                leader_endpoints=listeners_of(endpoints),
            )
        case EndQuorumEpochRequest(epoch, leader, successors):
            ended = EndQuorumEpochPartition(
                partition_index=0,
                leader_id=leader.id,
                leader_epoch=epoch,
                preferred_successors=[key.id for key in successors],
                preferred_candidates=[
                    PreferredCandidate(candidate_id=key.id, candidate_directory_id=key.directory_id)
                    for key in successors
                ],
            )
            return EndQuorumEpochMessage(
                cluster_id=cluster_id,
                topics=[EndQuorumEpochTopic(topic_name=METADATA_TOPIC, partitions=[ended])],
            )
        case RaftFetchRequest():
            return _fetch(request, cluster_id)
        case FetchSnapshotRequest(epoch, replica, snapshot, position):
            piece = SnapshotPartition(
                partition=0,
                current_leader_epoch=epoch,
                snapshot_id=FetchedSnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
                position=position,
                replica_directory_id=replica.directory_id,
            )
            return FetchSnapshotMessage(
                cluster_id=cluster_id,
                replica_id=replica.id,
                max_bytes=MAX_PIECE_BYTES,
                topics=[SnapshotTopic(name=METADATA_TOPIC, partitions=[piece])],
            )


def _vote(request: VoteRequest, cluster_id: str) -> VoteMessage:
    asked = VotePartition(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    return VoteMessage(
        cluster_id=cluster_id,
        voter_id=request.voter.id,
        topics=[VoteTopic(topic_name=METADATA_TOPIC, partitions=[asked])],
    )


def _fetch(request: RaftFetchRequest, cluster_id: str) -> FetchRequest:
    fetched = FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        log_start_offset=-1,
        partition_max_bytes=MAX_FETCH_BYTES,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
        **({"durable_end": 0} if request.is_new else {}),
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=MAX_FETCH_BYTES,
        topics=[FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[fetched])],
        forgotten_topics_data=[],
    )


class NotTheMetadataLog(Exception):
    """The request is not about the metadata log, or about more than that."""


def decode_request(message: QuorumMessage) -> RaftRequest:
    """Return the request in a message. Raises `NotTheMetadataLog`."""
    part: Any
    if isinstance(message, FetchRequest):
        part = _only(message.topics, "partition")
        state = message.replica_state
        replica_id = message.replica_id if state is None else state.replica_id
        return RaftFetchRequest(
            part.current_leader_epoch,
            ReplicaKey(replica_id, part.replica_directory_id),
            part.fetch_offset,
            part.last_fetched_epoch,
            part.high_watermark,
            message.max_wait_ms,
            part.durable_end == 0,
        )
    if isinstance(message, FetchSnapshotMessage):
        part = _only(message.topics, "partition")
        return FetchSnapshotRequest(
            part.current_leader_epoch,
            ReplicaKey(message.replica_id, part.replica_directory_id),
            OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
            part.position,
        )
    part = _only(message.topics, "partition_index")
    if isinstance(message, VoteMessage):
        return VoteRequest(
            part.replica_epoch,
            ReplicaKey(part.replica_id, part.replica_directory_id),
            ReplicaKey(message.voter_id, part.voter_directory_id),
            OffsetAndEpoch(part.last_offset, part.last_offset_epoch),
            part.pre_vote,
        )
    if isinstance(message, BeginQuorumEpochMessage):
        return BeginQuorumEpochRequest(
            part.leader_epoch,
            ReplicaKey(part.leader_id),
            ReplicaKey(message.voter_id, part.voter_directory_id),
            endpoints_of(message.leader_endpoints),
        )
    successors = [
        ReplicaKey(each.candidate_id, each.candidate_directory_id)
        for each in part.preferred_candidates
    ] or [ReplicaKey(each) for each in part.preferred_successors]
    return EndQuorumEpochRequest(part.leader_epoch, ReplicaKey(part.leader_id), tuple(successors))


def _only(topics: Sequence[Any], index: str) -> Any:
    """Return the part about the metadata log, which must be the only one."""
    parts = topics[0].partitions if len(topics) == 1 else []
    if len(parts) != 1 or getattr(parts[0], index) != 0 or not _is_metadata(topics[0]):
        raise NotTheMetadataLog
    return parts[0]


def _is_metadata(topic: Any) -> bool:
    if getattr(topic, "topic_id", None) == METADATA_TOPIC_ID:
        return True
    names = (getattr(topic, name, None) for name in ("topic_name", "topic", "name"))
    return METADATA_TOPIC in names


def is_metadata_fetch(request: FetchRequest) -> bool:
    """True if a fetch is about the metadata log."""
    return len(request.topics) == 1 and _is_metadata(request.topics[0])


# Responses


def encode_response(
    request: QuorumMessage, response: RaftResponse, records: Sequence[FileSlice] = ()
) -> object:
    """Return the message of a response; the network releases the `records` of a fetch."""
    error = ErrorCode[response.error.name]
    match response:
        case VoteResponse(_, epoch, leader_id, granted, is_new):
            voted = VotePartitionResponse(
                partition_index=0,
                error_code=error,
                leader_id=_id(leader_id),
                leader_epoch=epoch,
                vote_granted=granted,
                is_new=is_new,
            )
            return VoteAnswer(
                error_code=0,
                topics=[VoteTopicResponse(topic_name=METADATA_TOPIC, partitions=[voted])],
            )
        case QuorumEpochResponse(_, epoch, leader_id):
            known = QuorumEpochPartition(
                partition_index=0, error_code=error, leader_id=_id(leader_id), leader_epoch=epoch
            )
            topics = [QuorumEpochTopic(topic_name=METADATA_TOPIC, partitions=[known])]
            if isinstance(request, BeginQuorumEpochMessage):
                return BeginQuorumEpochAnswer(error_code=0, topics=topics)
            return EndQuorumEpochAnswer(error_code=0, topics=topics)
        case RaftFetchResponse():
            return _fetch_response(response, error, records)
        case FetchSnapshotResponse():
            return _snapshot_response(request, response, error)
    raise AssertionError(f"{response} answers no request of another replica")


def _fetch_response(
    response: RaftFetchResponse, error: ErrorCode, records: Sequence[FileSlice]
) -> FetchResponse:
    diverging, snapshot = response.diverging, response.snapshot
    leader_id = _id(response.leader_id)
    data = PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=response.high_watermark,
        last_stable_offset=_id(response.counts_from),
        diverging_epoch=None
        if diverging is None
        else EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset),
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=response.epoch),
        snapshot_id=None
        if snapshot is None
        else SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        aborted_transactions=None,
        records=list(records),
    )
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data]
            )
        ],
        node_endpoints=[
            NodeEndpoint(node_id=leader_id, host=at.host, port=at.port)
            for at in response.leader_endpoints[:1]
            if leader_id != NOBODY
        ],
    )


def _snapshot_response(
    request: QuorumMessage, response: FetchSnapshotResponse, error: ErrorCode
) -> FetchSnapshotAnswer:
    assert isinstance(request, FetchSnapshotMessage), "a piece answers a request for one"
    piece = SnapshotPartitionResponse(
        index=0,
        error_code=ErrorCode.SNAPSHOT_NOT_FOUND if response.missing else error,
        snapshot_id=request.topics[0].partitions[0].snapshot_id,
        current_leader=SnapshotLeader(
            leader_id=_id(response.leader_id), leader_epoch=response.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    return FetchSnapshotAnswer(
        error_code=0, topics=[SnapshotTopicResponse(name=METADATA_TOPIC, partitions=[piece])]
    )


def refuse(message: QuorumMessage, error: ErrorCode) -> object:
    """Return the response with one error for the whole request."""
    match message:
        case VoteMessage():
            return VoteAnswer(error_code=error)
        case BeginQuorumEpochMessage():
            return BeginQuorumEpochAnswer(error_code=error)
        case EndQuorumEpochMessage():
            return EndQuorumEpochAnswer(error_code=error)
        case FetchSnapshotMessage():
            return FetchSnapshotAnswer(error_code=error)
    return FetchResponse(error_code=error, responses=[])


class OtherCluster(ProtocolError):
    """The node that was asked belongs to another cluster."""


def decode_response(request: RaftRequest, message: Any) -> RaftResponse:
    """Return the response in a message. Raises `ProtocolError`, also if it refuses the request as a
    whole.
    """
    if message.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        raise OtherCluster("the node belongs to another cluster (INCONSISTENT_CLUSTER_ID)")
    if message.error_code != ErrorCode.NONE:
        raise ProtocolError(f"the request was refused: {error_code(message.error_code).name}")
    topics: Any = message.responses if isinstance(message, FetchResponse) else message.topics
    part: Any = topics[0].partitions[0] if topics and topics[0].partitions else None
    if part is None:
        raise ProtocolError("the response has nothing about the metadata log")
    match request:
        case VoteRequest():
            return VoteResponse(
                raft_error(part.error_code),
                part.leader_epoch,
                _leader(part.leader_id),
                part.vote_granted,
                part.is_new,
            )
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return QuorumEpochResponse(
                raft_error(part.error_code), part.leader_epoch, _leader(part.leader_id)
            )
        case RaftFetchRequest():
            return _decode_fetch(request, message, part)
        case FetchSnapshotRequest():
            leader = part.current_leader or SnapshotLeader(leader_id=-1, leader_epoch=-1)
            missing = part.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
            return FetchSnapshotResponse(
                RaftError.NONE if missing else raft_error(part.error_code),
                leader.leader_epoch,
                _leader(leader.leader_id),
                part.size,
                part.position,
                joined(part.unaligned_records),
                missing,
            )


def _decode_fetch(request: RaftFetchRequest, message: Any, part: Any) -> RaftFetchResponse:
    leader = part.current_leader or LeaderIdAndEpoch()
    diverging, snapshot = part.diverging_epoch, part.snapshot_id
    batches = raft_batches(joined(part.records), request.fetch_offset, request.last_fetched_epoch)
    return RaftFetchResponse(
        raft_error(part.error_code),
        leader.leader_epoch,
        _leader(leader.leader_id),
        tuple(
            QuorumEndpoint("CLUSTER", at.host, at.port)
            for at in message.node_endpoints
            if at.node_id == leader.leader_id
        ),
        part.high_watermark,
        tuple(batches),
        None if diverging is None else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
        None if snapshot is None else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        _leader(part.last_stable_offset),
    )


def joined(records: Any) -> bytes:
    """Return the bytes of a field of records, which is None, one range or several."""
    if records is None:
        return b""
    if isinstance(records, bytes):
        return records
    if isinstance(records, list):
        return b"".join(joined(each) for each in records)
    found: bytes = records.read() if isinstance(records, FileSlice) else bytes(records)
    return found


def raft_error(code: int) -> RaftError:
    """Return the quorum's name of an error code. Raises `ProtocolError` if it has none."""
    name = error_code(code).name
    if name not in RaftError.__members__:
        raise ProtocolError(f"the quorum knows no error {name}")
    return RaftError[name]


def listeners_of(endpoints: Sequence[QuorumEndpoint]) -> list[QuorumListener]:
    """Return addresses as messages have them."""
    return [QuorumListener(name=at.listener, host=at.host, port=at.port) for at in endpoints]


def endpoints_of(listeners: Sequence[QuorumListener]) -> tuple[QuorumEndpoint, ...]:
    """Return the addresses in a message."""
    return tuple(QuorumEndpoint(at.name, at.host, at.port) for at in listeners)


def _id(known: int | None) -> int:
    return NOBODY if known is None else known


def _leader(known: int) -> int | None:
    return None if known == NOBODY else known
