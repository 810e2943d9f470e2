"""The roles of a replica and the state that each has (KIP-595, KIP-996).

    Unattached    knows no leader of its epoch; may have voted in it
    Prospective   asks the voters whether they would vote for it, in the epoch that is
    Candidate     asks for votes in an epoch of its own
    Leader        was elected by a majority: see `leader`
    Resigned      led the epoch, or cannot tell, and gave up; waits for another epoch
    Follower      fetches from the leader of its epoch

A replica that is no voter is only ever Unattached or a Follower: an observer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.raft.leader import Leader
from odradek.raft.log_state import OffsetAndEpoch
from odradek.raft.messages import RaftRequest
from odradek.raft.replicas import QuorumEndpoint


@dataclass(slots=True)
class Unattached:
    """Knows no leader. Looks for one, and stands for election at `election_ms`."""

    election_ms: int
    search_ms: int
    """When the next configured or known replica is asked who leads."""
    asked: RaftRequest | None = None
    leaderless: set[int] = field(default_factory=set)
    """The voters that were asked and knew no leader either."""


@dataclass(slots=True)
class Prospective:
    """Gathers pre-votes until `election_ms`. `leader_id` is the leader that went silent.

    Who refuses is asked again, as it may hear of the leader's end a moment later.
    """

    election_ms: int
    leader_id: int | None
    began_ms: int
    leader_endpoints: tuple[QuorumEndpoint, ...] = ()
    granted: set[int] = field(default_factory=set)
    new: set[int] = field(default_factory=set)
    """The voters that granted as new ones (see `replicas`)."""
    rejected: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    retry_ms: int | None = None
    """When the voters that have not granted are asked again."""
    is_suspicion: bool = False
    """True if the leader's connection was closed."""


@dataclass(slots=True)
class Candidate:
    """Gathers votes until `election_ms`; sooner over if too few can still be granted."""

    election_ms: int
    granted: set[int] = field(default_factory=set)
    new: set[int] = field(default_factory=set)
    """The voters that granted as new ones (see `replicas`)."""
    rejected: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    retry_ms: int | None = None
    is_hopeless: bool = False
    """True if others have got the votes, or do not answer: `election_ms` is when it ends."""


@dataclass(slots=True)
class Resigned:
    """Gave up the leadership of the epoch; goes on to the next one at `election_ms`."""

    election_ms: int


@dataclass(slots=True)
class Follower:
    """Follows `leader_id`. Without a successful fetch before `fetch_timeout_ms` it stands for
    election, as an observer it looks for a leader.
    """

    leader_id: int
    endpoints: tuple[QuorumEndpoint, ...]
    fetch_timeout_ms: int
    has_fetched: bool = False
    fetching: RaftRequest | None = None
    """The request in flight to the leader: one at a time."""
    retry_ms: int | None = None
    """When a failed fetch is tried again."""
    suspect_ms: int | None = None
    """When to stand for election because the leader's connection was closed."""
    snapshot: OffsetAndEpoch | None = None
    """The snapshot that is being fetched."""
    counts_from: int | None = None
    """A new voter with everything before this offset is up to date."""


Role = Unattached | Prospective | Candidate | Leader | Resigned | Follower
