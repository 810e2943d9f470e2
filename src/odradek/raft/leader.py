"""The state of a leader: what the other replicas have on disk, what is committed, who waits.

Committed is what a majority of the voters has on disk, but only from the first record of the
leader's own epoch on (Raft §5.4.2). A leader that a majority does not fetch from for one and a half
fetch timeouts cannot commit anything and resigns, so that its clients look elsewhere.

A new voter (see `replicas`) counts only if all voters do. It is brought up to date by a leader that
still leads after the voter has lost what it knew. So two fetches of those who decide without it
must have come after its first one: the second of each was sent after that. Then everything that was
ever committed is below the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odradek.raft.log_state import LogState
from odradek.raft.messages import RaftError, RaftFetchRequest, VoterChangeResponse
from odradek.raft.replicas import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet


@dataclass(slots=True)
class ReplicaProgress:
    """What the leader knows of another replica.

    Everything before `acknowledged` is on the replica's disk, and it knows everything before
    `high_watermark` to be committed. `caught_up_ms` is when it last had
    everything that was in the leader's log at its fetch before.
    """

    acknowledged: int
    fetched_ms: int
    caught_up_ms: int | None = None
    high_watermark: int = 0
    end_at_fetch: int = -1
    fetches: int = 0
    is_new: bool = False
    fetches_before: Fetches | None = None
    """How often each voter had fetched at the first fetch of this one, a new voter."""


Fetches = dict[int, tuple[ReplicaProgress | None, int]]
"""By voter, what is known of its directory, and how often that has fetched."""


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that waits for records, for a higher high watermark, or for its deadline."""

    token: object
    request: RaftFetchRequest
    deadline_ms: int


@dataclass(slots=True)
class VoterChange:
    """A change of the voter set that is in the log and not yet committed; `token` is that of the
    request if it is still to be answered."""

    token: object | None
    end_offset: int


class Leader:
    """Leads its epoch, which begins at `start_offset` of the log."""

    def __init__(
        self,
        me: ReplicaKey,
        log: LogState,
        start_offset: int,
        now_ms: int,
        *,
        is_new: bool = False,
    ) -> None:
        """`is_new`: it is a new voter itself, which all others have elected."""
        self.me = me
        self.is_new = is_new
        self.log = log
        self.start_offset = start_offset
        self.elected_ms = now_ms
        self.begin_ms = now_ms
        """When the voters that have not fetched are told of the epoch again."""
        self.progress: dict[ReplicaKey, ReplicaProgress] = {}
        self.parked: dict[ReplicaKey, ParkedFetch] = {}
        self.change: VoterChange | None = None

    # Progress

    def fetched(
        self,
        key: ReplicaKey,
        offset: int,
        now_ms: int,
        high_watermark: int = 0,
        *,
        is_new: bool = False,
    ) -> None:
        """Note a fetch: the replica has everything before `offset` on disk."""
        progress = self.progress.get(key)
        if progress is None:
            progress = self.progress[key] = ReplicaProgress(offset, now_ms)
        progress.fetches += 1
        progress.is_new = is_new
        if is_new and progress.fetches_before is None:
            progress.fetches_before = self._fetches()
        if offset >= self.log.end_offset:
            progress.caught_up_ms = now_ms
        elif progress.end_at_fetch >= 0 and offset >= progress.end_at_fetch:
            progress.caught_up_ms = progress.fetched_ms
        progress.acknowledged = offset
        progress.high_watermark = high_watermark
        progress.fetched_ms = now_ms
        progress.end_at_fetch = self.log.end_offset

    def _fetches(self) -> Fetches:
        found = ((voter.key.id, self.progress_of(voter)) for voter in self.log.voters)
        return {
            voter_id: (known, 0 if known is None else known.fetches) for voter_id, known in found
        }

    def _new(self) -> set[int]:
        """Return the ids of the new voters, as far as is known."""
        new = {self.me.id} if self.is_new else set()
        for voter in self.log.voters.others(self.me):
            progress = self.progress_of(voter)
            if progress is not None and progress.is_new:
                new.add(voter.key.id)
        return new

    def counts_from(self, key: ReplicaKey) -> int | None:
        """Return from where on the log of a new voter has everything that was ever committed, None
        if that is not known yet.
        """
        progress = self.progress.get(key)
        before = None if progress is None else progress.fetches_before
        if before is None or not self.has_committed:
            return None
        heard = {self.me.id, key.id}
        for voter_id, (known, fetches) in self._fetches().items():
            known_before, fetches_before = before.get(voter_id, (None, 0))
            if known is not known_before:
                fetches_before = 0  # A directory that came since.
            if fetches >= fetches_before + 2:
                heard.add(voter_id)
        if self.log.voters.decide(heard, self._new() | {key.id}):
            return self.log.high_watermark
        return None

    def forget_observers(self, before_ms: int) -> None:
        """Drop the progress of the observers that have not fetched since `before_ms`."""
        for key, progress in list(self.progress.items()):
            if progress.fetched_ms < before_ms and key not in self.log.voters:
                del self.progress[key]

    def progress_of(self, voter: Voter) -> ReplicaProgress | None:
        """Return what is known of a voter, None if it has not fetched in this epoch."""
        exact = self.progress.get(voter.key)
        if exact is not None:
            return exact
        found = [p for key, p in self.progress.items() if key.matches(voter.key)]
        # Of several directories the one that came last: requests of a lost one may still arrive.
        return found[-1] if found else None

    def committed_offset(self) -> int:
        """Return the offset before which everything is committed; it never falls."""
        known = {}
        for voter in self.log.voters:
            if voter.key.matches(self.me):
                known[voter.key.id] = self.log.flushed_offset
                continue
            progress = self.progress_of(voter)
            if progress is not None:
                known[voter.key.id] = progress.acknowledged
        new = self._new()
        old = {voter_id: end for voter_id, end in known.items() if voter_id not in new}
        reached = self.log.voters.majority_value(old, missing=0)
        if new and len(known) == len(self.log.voters):
            reached = max(reached, min(known.values()))
        if reached <= self.start_offset:
            return self.log.high_watermark
        return max(reached, self.log.high_watermark)

    @property
    def has_committed(self) -> bool:
        """True if a record of this epoch is committed, so everything before it is, too."""
        return self.log.high_watermark > self.start_offset

    def unreached(self) -> list[Voter]:
        """Return the other voters that have not fetched in this epoch."""
        return [v for v in self.log.voters.others(self.me) if self.progress_of(v) is None]

    def quorum_lost_ms(self, timeout_ms: int) -> int | None:
        """Return when those who decide will have been silent for `timeout_ms`, None if this replica
        decides alone.
        """
        new = self._new()
        counts = self.me in self.log.voters and not self.is_new
        needed = self.log.voters.majority - (1 if counts else 0)
        if needed <= 0:
            return None
        heard, old = [], []
        for voter in self.log.voters.others(self.me):
            progress = self.progress_of(voter)
            heard.append(self.elected_ms if progress is None else progress.fetched_ms)
            if voter.key.id not in new:
                old.append(heard[-1])
        if not heard:
            return None
        since_ms = min(heard)
        if len(old) >= needed:
            since_ms = max(since_ms, sorted(old, reverse=True)[needed - 1])
        return since_ms + timeout_ms

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, the one with the longest log first."""
        others = self.log.voters.others(self.me)

        def acknowledged(voter: Voter) -> int:
            progress = self.progress_of(voter)
            return -1 if progress is None else progress.acknowledged

        return tuple(voter.key for voter in sorted(others, key=acknowledged, reverse=True))

    # Parked fetches

    def take_ready(self, now_ms: int) -> Iterator[ParkedFetch]:
        """Remove and yield the parked fetches that have something new, or no time left."""
        for key, parked in list(self.parked.items()):
            request = parked.request
            if (
                request.fetch_offset < self.log.end_offset
                or request.high_watermark < self.log.high_watermark
                or parked.deadline_ms <= now_ms
            ):
                del self.parked[key]
                yield parked

    # Changes of the voter set

    def refuse_change(self) -> VoterChangeResponse | None:
        """Return why the voter set cannot change now, None if it can (KIP-853).

        One change at a time, and only after a record of this epoch is committed: else two
        majorities that do not overlap are possible.
        """
        for voter in self.log.voters:
            if voter.key.directory_id == UNKNOWN_DIRECTORY or not voter.endpoints:
                return VoterChangeResponse(
                    RaftError.UNSUPPORTED_VERSION,
                    f"voter {voter.key.id} is known by the settings of the nodes, and not by a "
                    "record with its directory and address",
                )
        if not self.has_committed:
            return VoterChangeResponse(
                RaftError.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch"
            )
        if self.log.voters_offset >= self.log.high_watermark:
            return VoterChangeResponse(
                RaftError.REQUEST_TIMED_OUT, "another change of the voters is not committed yet"
            )
        return None

    def with_added(
        self, voter: Voter, now_ms: int, within_ms: int
    ) -> VoterSet | VoterChangeResponse:
        """Return the voter set with `voter` added, or why it cannot be: it must have caught up."""
        refused = self.refuse_change()
        if refused is not None:
            return refused
        if self.log.voters.get(voter.key.id) is not None:
            return VoterChangeResponse(
                RaftError.DUPLICATE_VOTER, f"node {voter.key.id} is a voter already"
            )
        progress = self.progress.get(voter.key)
        caught_up = progress.caught_up_ms if progress is not None else None
        if caught_up is None or now_ms - caught_up > within_ms:
            return VoterChangeResponse(
                RaftError.REQUEST_TIMED_OUT, f"replica {voter.key} has not caught up with the log"
            )
        return self.log.voters.with_voter(voter)

    def with_removed(
        self, key: ReplicaKey, now_ms: int, within_ms: int
    ) -> VoterSet | VoterChangeResponse:
        """Return the voter set without the voter of this key, or why it cannot be removed: a
        majority of the others must have fetched within `within_ms`.
        """
        refused = self.refuse_change()
        if refused is not None:
            return refused
        if key not in self.log.voters:
            return VoterChangeResponse(RaftError.VOTER_NOT_FOUND, f"replica {key} is no voter")
        if len(self.log.voters) == 1:
            return VoterChangeResponse(
                RaftError.INVALID_REQUEST, f"replica {key} is the only voter"
            )
        others = self.log.voters.without(key.id)
        silent = [each.key for each in others if not self._is_heard(each, now_ms - within_ms)]
        if len(others) - len(silent) < others.majority:
            return VoterChangeResponse(
                RaftError.INVALID_REQUEST,
                f"without replica {key} the quorum would have {len(others)} voters, and nothing is "
                f"heard from {', '.join(map(str, silent))}: it could decide nothing. What to do: "
                "start these nodes, or remove them first",
            )
        return others

    def _is_heard(self, voter: Voter, since_ms: int) -> bool:
        if voter.key.matches(self.me):
            return True
        progress = self.progress_of(voter)
        return progress is not None and progress.fetched_ms >= since_ms

    def with_updated(self, voter: Voter) -> VoterSet | VoterChangeResponse:
        """Return the voter set with new endpoints of `voter`, or why they cannot change."""
        refused = self.refuse_change()
        if refused is not None:
            return refused
        if voter.key not in self.log.voters:
            return VoterChangeResponse(
                RaftError.VOTER_NOT_FOUND, f"replica {voter.key} is no voter"
            )
        return self.log.voters.with_voter(voter)
