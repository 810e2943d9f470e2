"""The events that a replica of the quorum takes, and the effects that it asks for.

Effects are carried out in order. `SaveElection`, `Truncate` and `InstallSnapshot` must be on disk
before the next effect is carried out: a vote that was answered must outlive the process. `Append`
does not wait for the disk. `Flush` asks for the fsync, and `Flushed` is the event that ends it.
"""

from __future__ import annotations

from odradek.raft.log_state import OffsetAndEpoch, RaftBatch
from odradek.raft.messages import (
    Destination,
    FetchSnapshotRequest,
    RaftFetchRequest,
    RaftRequest,
    RaftResponse,
)
from odradek.raft.replicas import ReplicaKey, Voter, VoterSet
from odradek.raft.value import value


@value
class ElectionState:
    """What a replica must remember of elections (Kafka's quorum-state file).

    `is_new`: it is a new voter (see `replicas`), which no leader has brought up to date.
    """

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None
    is_new: bool = False


# Events


@value
class Tick:
    """Time has passed: the replica's `deadline` is reached."""


@value
class Received:
    """A request arrived; `token` names it in its reply."""

    token: object
    request: RaftRequest


@value
class Answered:
    """A response to a request that this replica sent."""

    to: Destination
    request: RaftRequest
    response: RaftResponse


@value
class Failed:
    """A request got no response: no connection, or none in time."""

    to: Destination
    request: RaftRequest


@value
class ReplicaDisconnected:
    """The connection to or from a replica was closed by the other end."""

    replica_id: int


@value
class Flushed:
    """The log is on disk up to `end_offset`; `truncations` is that of the `Flush`."""

    end_offset: int
    truncations: int


@value
class Propose:
    """The leader's own records for the log. They begin at the log's end offset."""

    epoch: int
    record_count: int
    payload: object


@value
class SnapshotTaken:
    """A snapshot of the committed records before `snapshot` is on disk; the log begins there."""

    snapshot: OffsetAndEpoch


@value
class SnapshotFetched:
    """A fetched snapshot is whole and on disk; `voters` are those in it."""

    snapshot: OffsetAndEpoch
    voters: VoterSet


@value
class AddVoter:
    """Make an observer a voter (KIP-853).

    Without `ack_when_committed` the answer comes when the change is in the leader's log.
    """

    token: object
    voter: Voter
    ack_when_committed: bool = True


@value
class RemoveVoter:
    """Take a voter out of the voter set (KIP-853)."""

    token: object
    key: ReplicaKey


@value
class UpdateVoter:
    """Change the endpoints of a voter (KIP-853)."""

    token: object
    voter: Voter


@value
class Resign:
    """Give up the leadership, before a stop: the voters are told to elect another leader."""


Event = (
    Tick
    | Received
    | Answered
    | Failed
    | ReplicaDisconnected
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


@value
class SaveElection:
    """Write the election state to disk and sync it before going on."""

    state: ElectionState


@value
class Append:
    """Append batches to the log."""

    batches: tuple[RaftBatch, ...]


@value
class Flush:
    """Sync everything appended so far, and tell by `Flushed`."""

    truncations: int


@value
class Truncate:
    """Remove the records from `offset` on, durably, before going on."""

    offset: int


@value
class Send:
    """Send a request; `Answered` or `Failed` comes back."""

    to: Destination
    request: RaftRequest


@value
class Respond:
    """Answer a request that was received."""

    token: object
    response: RaftResponse


@value
class ReplyRecords:
    """Answer a fetch with the records from its offset on, as they are in the log now."""

    token: object
    request: RaftFetchRequest
    epoch: int
    leader_id: int
    high_watermark: int
    counts_from: int | None = None


@value
class ReplySnapshot:
    """Answer with a piece of a snapshot, or that the snapshot is gone."""

    token: object
    request: FetchSnapshotRequest
    epoch: int
    leader_id: int


@value
class WriteSnapshot:
    """Write a fetched piece of a snapshot; the last one, `complete`, asks for `SnapshotFetched`."""

    snapshot: OffsetAndEpoch
    position: int
    data: bytes
    complete: bool


@value
class InstallSnapshot:
    """Empty the log, durably, so that it begins after the snapshot."""

    snapshot: OffsetAndEpoch


@value
class Committed:
    """The records before `high_watermark` are committed."""

    high_watermark: int


@value
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
    | Respond
    | ReplyRecords
    | ReplySnapshot
    | WriteSnapshot
    | InstallSnapshot
    | Committed
    | LeaderChanged
)
