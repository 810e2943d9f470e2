"""The requests and responses of the quorum, as the core sees them (KIP-595, KIP-853, KIP-996).

The fields are those of Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot that
a decision depends on. Whoever runs the core translates them to and from the wire and checks the
cluster id.
"""

from __future__ import annotations

from enum import Enum

from odradek.raft.log_state import OffsetAndEpoch, RaftBatch
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey
from odradek.raft.value import value


class RaftError(Enum):
    """The errors of the quorum's responses, with the names of Kafka's error codes."""

    NONE = "none"
    FENCED_LEADER_EPOCH = "the request's epoch is older"
    UNKNOWN_LEADER_EPOCH = "the request's epoch is not known here"
    NOT_LEADER_OR_FOLLOWER = "this replica does not lead"
    INVALID_VOTER_KEY = "the request is for another replica than this one"
    DUPLICATE_VOTER = "a voter with this id is in the set"
    VOTER_NOT_FOUND = "this replica is not in the voter set"
    REQUEST_TIMED_OUT = "the quorum cannot change its voters now"
    INVALID_REQUEST = "the change is not possible"
    UNSUPPORTED_VERSION = "the voters are not records of the log"
    INCONSISTENT_CLUSTER_ID = "the request is of another cluster"


@value
class VoteRequest:
    """Asks `voter` for its vote, or with `pre_vote` whether it would vote (KIP-996)."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    last: OffsetAndEpoch
    pre_vote: bool


@value
class VoteResponse:
    """Answers a `VoteRequest`. `is_new`: the vote of a new voter (see `replicas`)."""

    error: RaftError
    epoch: int
    leader_id: int | None
    granted: bool = False
    is_new: bool = False


@value
class BeginQuorumEpochRequest:
    """Tells `voter` that `leader` leads the epoch."""

    epoch: int
    leader: ReplicaKey
    voter: ReplicaKey
    endpoints: tuple[QuorumEndpoint, ...] = ()


@value
class EndQuorumEpochRequest:
    """Tells the voters that the leader of the epoch resigned; the first of `successors` is the one
    with the longest log.
    """

    epoch: int
    leader: ReplicaKey
    successors: tuple[ReplicaKey, ...]


@value
class QuorumEpochResponse:
    """Answers `BeginQuorumEpochRequest` and `EndQuorumEpochRequest`."""

    error: RaftError
    epoch: int
    leader_id: int | None


@value
class RaftFetchRequest:
    """Asks the leader for the records from `fetch_offset` on, and says what this replica has on
    disk: everything before `fetch_offset`. `is_new`: it is a new voter (see `replicas`).
    """

    epoch: int
    replica: ReplicaKey
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int
    is_new: bool = False


@value
class RaftFetchResponse:
    """Answers a fetch: batches, or where the logs diverge, or the snapshot to fetch.

    `counts_from`: the new voter that asked is none any more once it has everything before this.
    """

    error: RaftError
    epoch: int
    leader_id: int | None
    leader_endpoints: tuple[QuorumEndpoint, ...] = ()
    high_watermark: int = 0
    batches: tuple[RaftBatch, ...] = ()
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    counts_from: int | None = None


@value
class FetchSnapshotRequest:
    """Asks the leader for a piece of a snapshot."""

    epoch: int
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: int


@value
class FetchSnapshotResponse:
    """Answers a `FetchSnapshotRequest`. `missing` if the leader no longer has the snapshot."""

    error: RaftError
    epoch: int
    leader_id: int | None
    size: int = 0
    position: int = 0
    data: bytes = b""
    missing: bool = False


@value
class VoterChangeResponse:
    """Answers a change of the voter set, with the reason of a refusal."""

    error: RaftError
    message: str = ""


RaftRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | RaftFetchRequest
    | FetchSnapshotRequest
)
RaftResponse = (
    VoteResponse
    | QuorumEpochResponse
    | RaftFetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
)


@value
class Destination:
    """Where a request goes: a voter or the leader by id, or an address that was only configured."""

    replica_id: int | None
    endpoints: tuple[QuorumEndpoint, ...] = ()
