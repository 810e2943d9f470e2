"""The events that a replica of the quorum takes, and the effects that it asks for.

Effects are carried out in order. `SaveElection`, `Truncate` and `InstallSnapshot` must be on disk
before anything after them is done: a vote that was answered must outlive the process. `Append`
needs no disk: `Flush` asks for it, and `Flushed` tells when it is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.raft.log_state import OffsetAndEpoch, RaftBatch
from odradek.raft.messages import (
    Destination,
    FetchSnapshotRequest,
    RaftFetchRequest,
    RaftRequest,
    RaftResponse,
)
from odradek.raft.replicas import ReplicaKey, Voter, VoterSet


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What a replica must remember of elections (Kafka's quorum-state file)."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


# Events


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the replica's `deadline` is reached."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request arrived; `token` names it in its reply."""

    token: object
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """A response to a request that this replica sent."""

    to: Destination
    request: RaftRequest
    response: RaftResponse


@dataclass(frozen=True, slots=True)
class Failed:
    """A request got no response: no connection, or none in time."""

    to: Destination
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to or from a replica was closed by the other end."""

    replica_id: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """The log is on disk up to `end_offset`; `truncations` is that of the `Flush`."""

    end_offset: int
    truncations: int


@dataclass(frozen=True, slots=True)
class Propose:
    """The leader's own records for the log. They begin at the log's end offset."""

    epoch: int
    record_count: int
    payload: object


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A snapshot of the committed records before `snapshot` is on disk; the log begins there."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class SnapshotFetched:
    """A fetched snapshot is whole and on disk; `voters` are those in it."""

    snapshot: OffsetAndEpoch
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class AddVoter:
    """Make an observer a voter (KIP-853)."""

    token: object
    voter: Voter


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """Take a voter out of the voter set (KIP-853)."""

    token: object
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """Change the endpoints of a voter (KIP-853)."""

    token: object
    voter: Voter


@dataclass(frozen=True, slots=True)
class Resign:
    """Give up the leadership, before a stop: the voters are told to elect another leader."""


Event = (
    Tick
    | Received
    | Answered
    | Failed
    | Disconnected
    | Flushed
    | Propose
    | SnapshotTaken
    | SnapshotFetched
    | AddVoter
    | RemoveVoter
    | UpdateVoter
    | Resign
)


# Effects


@dataclass(frozen=True, slots=True)
class SaveElection:
    """Write the election state to disk and sync it before going on."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class Append:
    """Append batches to the log."""

    batches: tuple[RaftBatch, ...]


@dataclass(frozen=True, slots=True)
class Flush:
    """Sync everything appended so far, and tell by `Flushed`."""

    truncations: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove the records from `offset` on, durably, before going on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; `Answered` or `Failed` comes back."""

    to: Destination
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request that was received."""

    token: object
    response: RaftResponse


@dataclass(frozen=True, slots=True)
class ReplyRecords:
    """Answer a fetch with the records from its offset on, as they are in the log now."""

    token: object
    request: RaftFetchRequest
    epoch: int
    leader_id: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class ReplySnapshot:
    """Answer with a piece of a snapshot, or that the snapshot is gone."""

    token: object
    request: FetchSnapshotRequest
    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write a fetched piece of a snapshot; the last one, `complete`, asks for `SnapshotFetched`."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    complete: bool


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Empty the log, durably, so that it begins after the snapshot."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Committed:
    """The records before `high_watermark` are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another leader, or none, is known for this epoch."""

    epoch: int
    leader_id: int | None


Effect = (
    SaveElection
    | Append
    | Flush
    | Truncate
    | Send
    | Reply
    | ReplyRecords
    | ReplySnapshot
    | WriteSnapshot
    | InstallSnapshot
    | Committed
    | LeaderChanged
)
