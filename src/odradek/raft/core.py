"""One replica of the metadata quorum: `step(now, event)` returns the effects to carry out.

KRaft's form of Raft (KIP-595): followers pull, with the fetch offset as the acknowledgement; the
epoch is Raft's term; votes and epochs are on disk before they are answered. Pre-vote (KIP-996)
keeps a replica that was away from deposing a leader that the others hear. Voters are records of
the log and change one at a time (KIP-853).

    event -> step -> effects, in order
                     SaveElection ... Reply      a vote is on disk before it is answered
                     Append, Flush -> Flushed    an acknowledgement counts only what is on disk

The core reads no clock and touches no disk or network. `deadline` says when to call `step` with a
`Tick`, if nothing comes before. Whoever runs it carries out the effects of one step before those of
the next, and starts a replica again from the election state and the log that are on disk.

It is one long module, because a reader follows an event through roles that all lead to each other.

Differences from Kafka's, each safe: an unattached voter asks the others who leads while it waits;
a closed connection to the leader starts a pre-vote at once, staggered by the voter's place so that
two rarely meet; an unattached voter does the same once a majority knows no leader either; a leader
that starts again as the only voter stands for election at once; a voter that the settings name and
whose directory is empty counts only with all others, until it is up to date (see `replicas`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from odradek.raft.effects import (
    AddVoter,
    Answered,
    Append,
    Committed,
    Effect,
    ElectionState,
    Event,
    Failed,
    Flush,
    Flushed,
    InstallSnapshot,
    LeaderChanged,
    Propose,
    Received,
    RemoveVoter,
    ReplicaDisconnected,
    ReplyRecords,
    ReplySnapshot,
    Resign,
    Respond,
    SaveElection,
    Send,
    SnapshotFetched,
    SnapshotTaken,
    Tick,
    Truncate,
    UpdateVoter,
    WriteSnapshot,
)
from odradek.raft.leader import Leader, ParkedFetch, VoterChange
from odradek.raft.log_state import NO_OFFSET, LogState, OffsetAndEpoch, RaftBatch
from odradek.raft.messages import (
    BeginQuorumEpochRequest,
    Destination,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumEpochResponse,
    RaftError,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.raft.replicas import QuorumEndpoint, ReplicaKey, Voter, VoterSet
from odradek.raft.roles import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from odradek.raft.value import value

NONE: Final = RaftError.NONE
FORGET_OBSERVER_MS: Final = 300_000
MOST_THAT_ALL_FETCH: Final = 4
"""With up to so many voters, those who decide without a new one are all others, or all but this
leader: no vote of another candidate is left open."""
"""An observer that has not fetched for this time is no longer counted (Kafka's own figure)."""


class RaftRandom(Protocol):
    """The random numbers that spread elections."""

    def randrange(self, start: int, stop: int, /) -> int:
        """Return a number from `start` up to but not including `stop`."""


@value
class RaftConfig:
    """Times of the quorum in milliseconds, named as Kafka's settings `controller.quorum.*`."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    fetch_max_wait_ms: int = 500
    retry_backoff_ms: int = 20
    stagger_ms: int = 25
    """The pause between the pre-votes of two voters that lost their connection to the leader."""

    @property
    def patience_ms(self) -> int:
        """How long a voter that has granted a pre-vote, or lost its own, waits for a leader before
        it asks for pre-votes (again).
        """
        return max(4 * self.stagger_ms, self.election_timeout_ms // 4)


@value
class LeaderChange:
    """The first record of an epoch (Kafka's LeaderChangeMessage), for the shell to encode."""

    leader_id: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


class NotLeader(Exception):
    """Records were proposed to a replica that does not lead this epoch."""


class LogDiverged(Exception):
    """The leader's log contradicts records that are committed here. The replica must stop."""


class Raft:
    """A replica of the quorum: a voter, or an observer that is in no voter set."""

    def __init__(
        self,
        me: ReplicaKey,
        config: RaftConfig,
        random: RaftRandom,
        election: ElectionState,
        log: LogState,
        *,
        endpoints: tuple[QuorumEndpoint, ...] = (),
        bootstrap: Sequence[QuorumEndpoint] = (),
        record_voters: bool = False,
    ) -> None:
        """`bootstrap`: addresses to ask for the leader, besides the voters'. `record_voters`: the
        voters are in no record yet, and the first leader writes them.
        """
        self.me = me
        self.config = config
        self.log = log
        self.election = election
        self.endpoints = endpoints
        self._bootstrap = tuple(bootstrap)
        self._record_voters = record_voters
        self._random = random
        self._effects: list[Effect] = []
        self._now = 0
        self._counts_at_ms = 0
        """When a new voter may count on its own, if it is up to date."""
        self._searched = 0
        self._truncations = 0
        self._announced: tuple[int, int | None] = (election.epoch, None)
        self.role: Role = Unattached(0, 0)

    # What others ask

    @property
    def epoch(self) -> int:
        """The epoch of this replica."""
        return self.election.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of the epoch, None if it is not known."""
        match self.role:
            case Leader():
                return self.me.id
            case Follower(leader_id=leader_id):
                return leader_id
        return None

    @property
    def is_leader(self) -> bool:
        """True while this replica leads."""
        return isinstance(self.role, Leader)

    @property
    def is_voter(self) -> bool:
        """True if this replica is in the latest voter set of its log."""
        return self.me in self.log.voters

    @property
    def may_stand(self) -> bool:
        """True if this replica stands for election: a voter, or one whose removal may not be
        committed. Only its log may have that record, and then nobody else can win (Raft §4.2.2).
        """
        log = self.log
        uncertain = log.voters_offset >= log.high_watermark
        return self.is_voter or (uncertain and self.me in log.previous_voters)

    @property
    def deadline(self) -> int | None:
        """When the next `Tick` is due, in the milliseconds of `step`."""
        role = self.role
        times: list[int | None]
        match role:
            case Unattached():
                times = [role.search_ms if role.asked is None else None]
                times.append(role.election_ms if self.may_stand else None)
            case Prospective() | Candidate():
                times = [role.election_ms, role.retry_ms]
            case Resigned():
                times = [role.election_ms]
            case Follower():
                times = [role.fetch_timeout_ms, role.retry_ms, role.suspect_ms]
            case Leader():
                times = [role.quorum_lost_ms(self._check_quorum_ms)]
                times.append(role.begin_ms if role.unreached() else None)
                times += [parked.deadline_ms for parked in role.parked.values()]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    # Starting and stepping

    def start(self, now_ms: int) -> list[Effect]:
        """Begin after a start; `election` and the log are what was on disk."""
        self._now = now_ms
        if len(self.log.voters) > MOST_THAT_ALL_FETCH:
            # Candidates that have a vote of before the start have given up by then.
            self._counts_at_ms = now_ms + 2 * self.config.election_timeout_ms
        if self.is_voter and len(self.log.voters) == 1:
            self._become_candidate()
        elif self.election.leader_id == self.me.id:
            # It may have appended records of this epoch that are lost: it must not lead it again.
            self.role = Resigned(now_ms + self._election_timeout())
        elif self.election.leader_id is not None:
            self._follow(self.epoch, self.election.leader_id, ())
        else:
            self._become_unattached(self.epoch)
        return self._take_effects()

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        """Take one event. Raises `NotLeader` and `LogDiverged`."""
        self._now = max(self._now, now_ms)
        match event:
            case Tick():
                self._tick()
            case Received(token, request):
                self._received(token, request)
            case Answered(to, request, response):
                self._answered(to, request, response)
            case Failed(to, request):
                self._request_failed(to, request)
            case ReplicaDisconnected(replica_id):
                self._disconnected(replica_id)
            case Flushed(end_offset, truncations):
                self._flushed(end_offset, truncations)
            case Propose(epoch, record_count, payload):
                self._propose(epoch, record_count, payload)
            case SnapshotTaken(snapshot):
                self.log.raise_start(snapshot)
            case SnapshotFetched(snapshot, voters):
                self._snapshot_fetched(snapshot, voters)
            case AddVoter() | RemoveVoter() | UpdateVoter():
                self._change_voters(event)
            case Resign():
                self._resign()
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        known = (self.epoch, self.leader_id)
        if known != self._announced:
            self._announced = known
            self._effects.append(LeaderChanged(*known))
        effects, self._effects = self._effects, []
        return effects

    def _tick(self) -> None:
        role, now = self.role, self._now
        match role:
            case Unattached():
                if self.may_stand and role.election_ms <= now:
                    self._become_prospective(None)
                elif role.asked is None and role.search_ms <= now:
                    self._search(role)
            case Prospective() | Candidate():
                self._tick_election(role)
            case Resigned():
                if role.election_ms <= now:
                    # A voter must not lead this epoch again. An observer cannot, and an epoch that
                    # nobody else knows would keep it from finding the leader.
                    self._become_unattached(self.epoch + 1 if self.may_stand else self.epoch)
            case Follower():
                self._tick_follower(role)
            case Leader():
                self._tick_leader(role)

    def _tick_election(self, role: Prospective | Candidate) -> None:
        if role.election_ms > self._now:
            if role.retry_ms is not None and role.retry_ms <= self._now:
                self._ask_again(role)
        elif isinstance(role, Prospective):
            self._lose_pre_vote(role)
        else:
            self._become_prospective(None)

    # Roles

    def _election_timeout(self) -> int:
        timeout = self.config.election_timeout_ms
        return self._random.randrange(timeout, 2 * timeout)

    def _save(
        self,
        epoch: int,
        leader_id: int | None,
        voted: ReplicaKey | None,
        *,
        is_up_to_date: bool = False,
    ) -> None:
        """Remember this; `is_up_to_date`: this replica is a new voter no longer."""
        is_new = self.election.is_new and not is_up_to_date
        state = ElectionState(epoch, leader_id, voted, is_new)
        if state != self.election:
            self.election = state
            self._effects.append(SaveElection(state))

    def _leave_role(self) -> None:
        """Answer what waits for this replica's leadership, which ends."""
        role = self.role
        if isinstance(role, Leader):
            for parked in role.parked.values():
                self._effects.append(Respond(parked.token, self._not_leader_fetch()))
            role.parked.clear()
            if role.change is not None and role.change.token is not None:
                self._effects.append(
                    Respond(
                        role.change.token,
                        VoterChangeResponse(
                            RaftError.NOT_LEADER_OR_FOLLOWER,
                            "the leadership ended before the change was committed; it may still be",
                        ),
                    )
                )

    def _become_unattached(self, epoch: int) -> None:
        """Know no leader of `epoch`. A timeout that runs goes on: else news of epochs could put off
        an election for ever.
        """
        election_ms = self._now + self._election_timeout()
        match self.role:
            case Unattached(election_ms=due) | Prospective(election_ms=due):
                if self._now < due < election_ms:
                    election_ms = due
        self._leave_role()
        voted = self.election.voted if epoch == self.epoch else None
        self._save(epoch, None, voted)
        self._look_for_leader(election_ms)

    def _look_for_leader(self, election_ms: int) -> None:
        """Ask others who leads, and stand for election at `election_ms`."""
        self.role = Unattached(election_ms, self._now + self.config.retry_backoff_ms)

    def _become_follower(
        self, epoch: int, leader_id: int, endpoints: tuple[QuorumEndpoint, ...]
    ) -> None:
        role = self.role
        if isinstance(role, Follower) and self.epoch == epoch and role.leader_id == leader_id:
            role.endpoints = endpoints or role.endpoints
            return
        self._leave_role()
        voted = self.election.voted if epoch == self.epoch else None
        self._save(epoch, leader_id, voted)
        self.role = Follower(leader_id, endpoints, self._now + self.config.fetch_timeout_ms)
        self._fetch()

    def _follow(self, epoch: int, leader_id: int, endpoints: tuple[QuorumEndpoint, ...]) -> None:
        """Follow a leader. If its address is not known, as it became a voter after the last record
        here, ask the others, who tell it: answers about votes do not.
        """
        voter = self.log.voters.get(leader_id)
        if endpoints or voter is not None:
            known = endpoints or (voter.endpoints if voter is not None else ())
            self._become_follower(epoch, leader_id, known)
        elif epoch != self.epoch or not isinstance(self.role, Unattached):
            self._become_unattached(epoch)

    def _become_prospective(
        self,
        leader_id: int | None,
        endpoints: tuple[QuorumEndpoint, ...] = (),
        *,
        is_suspicion: bool = False,
    ) -> None:
        election_ms = self._now + self._election_timeout()
        role = Prospective(election_ms, leader_id, self._now, endpoints, is_suspicion=is_suspicion)
        self.role = role
        self._begin_votes(role)

    def _become_candidate(self) -> None:
        self._save(self.epoch + 1, None, self.me)
        role = Candidate(self._now + self._election_timeout())
        self.role = role
        self._begin_votes(role)

    def _begin_votes(self, role: Prospective | Candidate) -> None:
        """Vote for itself, and ask the other voters unless that is a majority."""
        self._count_vote(role, self.me.id, is_new=self.election.is_new)
        if self.role is role:
            for voter in self.log.voters.others(self.me):
                self._ask_for_vote(voter)

    def _count_vote(self, role: Prospective | Candidate, voter_id: int, *, is_new: bool) -> None:
        role.granted.add(voter_id)
        if is_new:
            role.new.add(voter_id)
        if self.log.voters.decide(role.granted, role.new):
            if isinstance(role, Prospective):
                self._become_candidate()
            else:
                self._become_leader(role)

    def _become_leader(self, candidate: Candidate) -> None:
        self._save(self.epoch, self.me.id, self.me)
        is_new = self.election.is_new
        role = Leader(self.me, self.log, self.log.end_offset, self._now, is_new=is_new)
        self.role = role
        voters = tuple(sorted(self.log.voters.ids))
        change = LeaderChange(self.me.id, voters, tuple(sorted(candidate.granted)))
        if self._record_voters and self.log.voters_offset == NO_OFFSET:
            # As in Kafka, one batch: LEADER_CHANGE, KRAFT_VERSION, KRAFT_VOTERS.
            recorded = self.log.voters
            self._append(RaftBatch(self.log.end_offset, 3, self.epoch, change, recorded))
        else:
            self._append(RaftBatch(self.log.end_offset, 1, self.epoch, change))
        self._begin_quorum_epoch(role)

    def _resign(self) -> None:
        role = self.role
        if not isinstance(role, Leader):
            return
        self._leave_role()
        request = EndQuorumEpochRequest(self.epoch, self.me, role.successors())
        for voter in self.log.voters.others(self.me):
            self._send(voter, request)
        self.role = Resigned(self._now + self._election_timeout())

    # Votes

    def _ask_for_vote(self, voter: Voter) -> None:
        pre_vote = isinstance(self.role, Prospective)
        self._send(voter, VoteRequest(self.epoch, self.me, voter.key, self.log.last, pre_vote))

    def _ask_again(self, role: Prospective | Candidate) -> None:
        role.retry_ms = None
        again, role.failed = role.failed, set()
        if isinstance(role, Prospective):
            again = again | role.rejected
        for voter in self.log.voters.others(self.me):
            if voter.key.id in again:
                self._ask_for_vote(voter)

    def _back_off(self, role: Candidate) -> None:
        """Wait a random time if too few votes can still be granted: all that are missing were
        refused, or their voters do not answer.
        """
        missing = role.rejected | role.failed
        if role.is_hopeless or self.log.voters.decide(self.log.voters.ids - missing, role.new):
            return
        role.is_hopeless = bool(role.rejected)
        if role.is_hopeless:
            backoff = self._random.randrange(1, max(2, self.config.election_backoff_max_ms))
            role.election_ms = min(role.election_ms, self._now + backoff)

    def _lose_pre_vote(self, role: Prospective) -> None:
        """Go back to the leader that went silent, or look for one."""
        if role.leader_id is not None and role.leader_id != self.me.id:
            self._follow(self.epoch, role.leader_id, role.leader_endpoints)
            if role.is_suspicion and isinstance(self.role, Follower):
                # Unless it can be reached after all, the others will soon know, too.
                self.role.suspect_ms = self._now + self._patience()
        else:
            self._look_for_leader(self._now + self._election_timeout())

    def _patience(self) -> int:
        patience = self.config.patience_ms
        return self._random.randrange(patience, 2 * patience)

    def _vote(self, request: VoteRequest) -> VoteResponse:
        """Answer a request for this replica's vote. It need not know that it is a voter: the record
        that made it one may not have come yet.
        """
        if not request.voter.matches(self.me):
            return VoteResponse(RaftError.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        if request.epoch < self.epoch:
            return VoteResponse(RaftError.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if request.epoch > self.epoch:
            self._become_unattached(request.epoch)
        granted = self.log.is_up_to_date(request.last) and self._may_vote(request)
        if granted and not request.pre_vote:
            self._save(self.epoch, None, request.candidate)
            self._look_for_leader(self._now + self._election_timeout())
        return VoteResponse(NONE, self.epoch, self.leader_id, granted, self.election.is_new)

    def _may_vote(self, request: VoteRequest) -> bool:
        role = self.role
        if request.pre_vote:
            match role:
                case Follower():
                    if role.suspect_ms is not None:
                        # The candidate's turn: two that stand at a time would split the votes.
                        role.suspect_ms = max(role.suspect_ms, self._now + self._patience())
                        return True
                    return not role.has_fetched
                case Prospective():
                    return not self._goes_first(role, request)
                case Leader() | Resigned():
                    return False
            return True
        match role:
            case Unattached() | Prospective():
                no_leader = self.election.leader_id is None
                return no_leader and self.election.voted in (None, request.candidate)
        return False

    def _goes_first(self, role: Prospective, request: VoteRequest) -> bool:
        """True for a short time if this replica, too, asks for pre-votes, and its turn is first of
        two with the same log.
        """
        if request.last != self.log.last or self._now >= role.began_ms + self.config.patience_ms:
            return False
        ids = self.log.voters.ids - ({role.leader_id} if role.leader_id is not None else set())
        mine, theirs = (self._place_of(id, ids) for id in (self.me.id, request.candidate.id))
        return mine < theirs

    def _vote_answered(self, to: Destination, request: VoteRequest, answer: VoteResponse) -> None:
        if self._learn(answer.epoch, answer.leader_id, ()):
            return
        role = self.role
        if (
            request.epoch != self.epoch
            or to.replica_id is None
            or not isinstance(role, Prospective if request.pre_vote else Candidate)
        ):
            return
        if answer.granted:
            role.rejected.discard(to.replica_id)
            self._count_vote(role, to.replica_id, is_new=answer.is_new)
            return
        role.rejected.add(to.replica_id)
        if isinstance(role, Candidate):
            self._back_off(role)
        elif not self.log.voters.decide(self.log.voters.ids - role.rejected, role.new):
            self._lose_pre_vote(role)
        else:
            role.retry_ms = role.retry_ms or self._now + 2 * self.config.stagger_ms

    # Requests

    def _send(self, voter: Voter, request: RaftRequest) -> None:
        self._effects.append(Send(Destination(voter.key.id, voter.endpoints), request))

    def _received(self, token: object, request: RaftRequest) -> None:
        response: RaftResponse | None
        match request:
            case VoteRequest():
                response = self._vote(request)
            case BeginQuorumEpochRequest():
                response = self._begin_received(request)
            case EndQuorumEpochRequest():
                response = self._end_received(request)
            case RaftFetchRequest():
                response = self._fetch_received(token, request)
            case FetchSnapshotRequest():
                response = self._fetch_snapshot_received(token, request)
        if response is not None:
            self._effects.append(Respond(token, response))

    def _answered(self, to: Destination, request: RaftRequest, response: RaftResponse) -> None:
        match request, response:
            case VoteRequest(), VoteResponse():
                self._vote_answered(to, request, response)
            case RaftFetchRequest(), RaftFetchResponse():
                self._fetch_answered(to, request, response)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                self._snapshot_answered(request, response)
            case _, QuorumEpochResponse():
                self._learn(response.epoch, response.leader_id, ())

    def _request_failed(self, to: Destination, request: RaftRequest) -> None:
        role, retry = self.role, self._now + self.config.retry_backoff_ms
        match role:
            case Prospective() | Candidate():
                if isinstance(request, VoteRequest) and to.replica_id is not None:
                    role.failed.add(to.replica_id)
                    role.retry_ms = role.retry_ms or retry
                    if isinstance(role, Candidate):
                        self._back_off(role)
            case Follower():
                if role.fetching is request:
                    role.fetching = None
                    role.retry_ms = retry
            case Unattached():
                if role.asked is request:
                    role.asked = None
                    role.search_ms = retry

    def _learn(
        self, epoch: int, leader_id: int | None, endpoints: tuple[QuorumEndpoint, ...]
    ) -> bool:
        """Take over a newer epoch, or the leader of this one, from a response. True if the role
        changed.
        """
        if epoch < self.epoch or (epoch == self.epoch and leader_id is None):
            return False
        if epoch == self.epoch:
            known = isinstance(self.role, Leader | Follower | Resigned)
            silent = isinstance(self.role, Prospective) and self.role.leader_id == leader_id
            if known or silent or leader_id == self.me.id:
                return False
        if leader_id is None or leader_id == self.me.id:
            self._become_unattached(epoch)
        else:
            before = self.role
            self._follow(epoch, leader_id, endpoints)
            return self.role is not before
        return True

    def _begin_received(self, request: BeginQuorumEpochRequest) -> QuorumEpochResponse:
        if not request.voter.matches(self.me):
            return QuorumEpochResponse(RaftError.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        if request.epoch < self.epoch:
            return QuorumEpochResponse(RaftError.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if request.leader.id == self.me.id:
            return QuorumEpochResponse(RaftError.INVALID_REQUEST, self.epoch, self.leader_id)
        if request.epoch > self.epoch or not isinstance(self.role, Leader):
            self._become_follower(request.epoch, request.leader.id, request.endpoints)
        return QuorumEpochResponse(NONE, self.epoch, self.leader_id)

    def _end_received(self, request: EndQuorumEpochRequest) -> QuorumEpochResponse:
        if request.epoch < self.epoch:
            return QuorumEpochResponse(RaftError.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if request.epoch > self.epoch:
            self._become_unattached(request.epoch)
        elif isinstance(self.role, Follower) and self.role.leader_id == request.leader.id:
            self._save(self.epoch, None, self.election.voted)
            places = [key.matches(self.me) for key in request.successors]
            place = places.index(True) if True in places else len(places)
            wait = place * 2 * self.config.stagger_ms
            self.role = Unattached(self._now + wait, self._now + self._election_timeout())
            if self.may_stand and wait == 0:
                self._become_prospective(None)
        return QuorumEpochResponse(NONE, self.epoch, self.leader_id)

    def _disconnected(self, replica_id: int) -> None:
        """Suspect the leader. The voters ask one after the other, so that two rarely meet."""
        role = self.role
        if isinstance(role, Follower) and role.leader_id == replica_id and self.may_stand:
            place = self._place_among(self.log.voters.ids - {replica_id})
            if role.suspect_ms is None:
                role.suspect_ms = self._now + place * self.config.stagger_ms
            if role.suspect_ms <= self._now:
                self._become_prospective(role.leader_id, role.endpoints, is_suspicion=True)

    def _place_among(self, voter_ids: frozenset[int]) -> int:
        """Return this replica's turn among voters that stand for election one after the other."""
        return self._place_of(self.me.id, voter_ids)

    def _place_of(self, replica_id: int, voter_ids: frozenset[int]) -> int:
        ordered = sorted(voter_ids | {replica_id})
        return (ordered.index(replica_id) + self.epoch) % len(ordered)

    # Leading

    @property
    def _check_quorum_ms(self) -> int:
        return self.config.fetch_timeout_ms * 3 // 2

    def _append(self, batch: RaftBatch) -> None:
        self.log.append(batch)
        self._effects.append(Append((batch,)))
        self._effects.append(Flush(self._truncations))

    def _propose(self, epoch: int, record_count: int, payload: object) -> None:
        role = self.role
        if not isinstance(role, Leader) or epoch != self.epoch:
            raise NotLeader(f"replica {self.me} does not lead epoch {epoch}")
        self._append(RaftBatch(self.log.end_offset, record_count, epoch, payload))
        self._answer_parked(role)

    def _begin_quorum_epoch(self, role: Leader) -> None:
        for voter in role.unreached():
            self._send(
                voter, BeginQuorumEpochRequest(self.epoch, self.me, voter.key, self.endpoints)
            )
        role.begin_ms = self._now + self.config.fetch_timeout_ms // 2

    def _tick_leader(self, role: Leader) -> None:
        lost_ms = role.quorum_lost_ms(self._check_quorum_ms)
        if lost_ms is not None and lost_ms <= self._now:
            self._resign()
            return
        if role.begin_ms <= self._now:
            self._begin_quorum_epoch(role)
        role.forget_observers(self._now - FORGET_OBSERVER_MS)
        self._answer_parked(role)

    def _not_leader_fetch(self) -> RaftFetchResponse:
        endpoints = self.role.endpoints if isinstance(self.role, Follower) else ()
        leader_id = None if isinstance(self.role, Leader) else self.leader_id
        return RaftFetchResponse(RaftError.NOT_LEADER_OR_FOLLOWER, self.epoch, leader_id, endpoints)

    def _check_leads(self, epoch: int) -> RaftError:
        if epoch < self.epoch:
            return RaftError.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return RaftError.UNKNOWN_LEADER_EPOCH
        return NONE if self.is_leader else RaftError.NOT_LEADER_OR_FOLLOWER

    def _fetch_received(self, token: object, request: RaftFetchRequest) -> RaftFetchResponse | None:
        role = self.role
        error = self._check_leads(request.epoch)
        if error is not NONE or not isinstance(role, Leader):
            endpoints = role.endpoints if isinstance(role, Follower) else self.endpoints
            return RaftFetchResponse(error, self.epoch, self.leader_id, endpoints)
        superseded = role.parked.pop(request.replica, None)
        if superseded is not None:
            self._answer_fetch(superseded.token, superseded.request)
        log = self.log
        head = (NONE, self.epoch, self.me.id, self.endpoints, log.high_watermark)
        offset, last_epoch = request.fetch_offset, request.last_fetched_epoch
        if log.needs_snapshot(offset, last_epoch):
            role.fetched(request.replica, 0, self._now, is_new=request.is_new)
            return RaftFetchResponse(*head, snapshot=log.start)
        diverging = log.divergence(offset, last_epoch)
        if diverging is not None:
            return RaftFetchResponse(*head, diverging=diverging)
        role.fetched(
            request.replica, offset, self._now, request.high_watermark, is_new=request.is_new
        )
        self._advance_high_watermark(role)
        if not isinstance(self.role, Leader):  # It removed itself, and that is committed now.
            return self._not_leader_fetch()
        if (
            offset < log.end_offset
            or request.high_watermark < log.high_watermark
            or request.max_wait_ms <= 0
        ):
            self._answer_fetch(token, request)
        else:
            role.parked[request.replica] = ParkedFetch(
                token, request, self._now + request.max_wait_ms
            )
        return None

    def _answer_fetch(self, token: object, request: RaftFetchRequest) -> None:
        role, counts_from = self.role, None
        if request.is_new and isinstance(role, Leader):
            counts_from = role.counts_from(request.replica)
        self._effects.append(
            ReplyRecords(
                token, request, self.epoch, self.me.id, self.log.high_watermark, counts_from
            )
        )

    def _answer_parked(self, role: Leader) -> None:
        for parked in role.take_ready(self._now):
            self._answer_fetch(parked.token, parked.request)

    def _fetch_snapshot_received(
        self, token: object, request: FetchSnapshotRequest
    ) -> FetchSnapshotResponse | None:
        error = self._check_leads(request.epoch)
        role = self.role
        if error is not NONE or not isinstance(role, Leader):
            return FetchSnapshotResponse(error, self.epoch, self.leader_id)
        progress = role.progress.get(request.replica)
        if progress is not None:  # A long fetch of a snapshot is contact with the leader, too.
            progress.fetched_ms = self._now
        self._effects.append(ReplySnapshot(token, request, self.epoch, self.me.id))
        return None

    def _advance_high_watermark(self, role: Leader) -> None:
        committed = role.committed_offset()
        if committed <= self.log.high_watermark:
            return
        if role.is_new:  # What all voters have acknowledged is in this log.
            role.is_new = False
            self._save(self.epoch, self.me.id, self.election.voted, is_up_to_date=True)
        self.log.high_watermark = committed
        self._effects.append(Committed(committed))
        change = role.change
        if change is not None and change.end_offset <= committed:
            role.change = None
            if change.token is not None:
                self._effects.append(Respond(change.token, VoterChangeResponse(NONE)))
        self._answer_parked(role)
        if not self.is_voter and self.log.voters_offset < committed:
            self._resign()

    def _flushed(self, end_offset: int, truncations: int) -> None:
        if truncations != self._truncations:
            return
        self.log.flushed_offset = max(self.log.flushed_offset, end_offset)
        role = self.role
        if isinstance(role, Leader):
            self._advance_high_watermark(role)
        else:
            self._fetch()

    def _change_voters(self, event: AddVoter | RemoveVoter | UpdateVoter) -> None:
        role = self.role
        if not isinstance(role, Leader):
            refused = VoterChangeResponse(
                RaftError.NOT_LEADER_OR_FOLLOWER, "only the leader changes the voters"
            )
            self._effects.append(Respond(event.token, refused))
            return
        match event:
            case AddVoter(voter=voter):
                changed = role.with_added(voter, self._now, self.config.fetch_timeout_ms)
            case RemoveVoter(key=key):
                changed = role.with_removed(key, self._now, self._check_quorum_ms)
            case UpdateVoter(voter=voter):
                changed = role.with_updated(voter)
        if isinstance(changed, VoterChangeResponse):
            self._effects.append(Respond(event.token, changed))
            return
        self._append(RaftBatch(self.log.end_offset, 1, self.epoch, None, changed))
        token: object | None = event.token
        if isinstance(event, AddVoter) and not event.ack_when_committed:
            self._effects.append(Respond(token, VoterChangeResponse(NONE)))
            token = None
        role.change = VoterChange(token, self.log.end_offset)
        role.begin_ms = self._now
        self._answer_parked(role)

    # Following

    def _search(self, role: Unattached) -> None:
        """Ask the next known replica who leads."""
        targets = [Destination(v.key.id, v.endpoints) for v in self.log.voters.others(self.me)]
        targets += [Destination(None, (endpoint,)) for endpoint in self._bootstrap]
        role.search_ms = self._now + self.config.retry_backoff_ms
        if not targets:
            role.search_ms = self._now + self.config.election_timeout_ms
            return
        self._searched += 1
        role.asked = self._fetch_request(max_wait_ms=0)
        self._effects.append(Send(targets[self._searched % len(targets)], role.asked))

    def _no_leader_there(self, role: Unattached, voter_id: int) -> None:
        """Stand for election soon if a majority of the voters knows no leader: nobody is disturbed
        by that, and to wait for a timeout helps nobody.
        """
        role.leaderless.add(voter_id)
        voters = self.log.voters
        if self.may_stand and voters.has_majority(role.leaderless | {self.me.id}):
            soon = self._now + self._place_among(voters.ids) * self.config.stagger_ms
            role.election_ms = min(role.election_ms, soon)

    def _fetch_request(self, max_wait_ms: int) -> RaftFetchRequest:
        return RaftFetchRequest(
            self.epoch,
            self.me,
            self.log.flushed_offset,
            self.log.epoch_before(self.log.flushed_offset),
            self.log.high_watermark,
            max_wait_ms,
            self.election.is_new,
        )

    def _fetch(self) -> None:
        """Send the next fetch to the leader, unless one is in flight or the log is not on disk:
        the fetch offset is the acknowledgement.
        """
        role = self.role
        if not isinstance(role, Follower) or role.fetching is not None:
            return
        if self.log.flushed_offset < self.log.end_offset:
            return
        role.retry_ms = None
        if role.snapshot is not None:
            return
        is_up_to_date = role.counts_from is not None and role.counts_from <= self.log.flushed_offset
        if is_up_to_date and self._now >= self._counts_at_ms:
            role.counts_from = None
            self._save(self.epoch, role.leader_id, self.election.voted, is_up_to_date=True)
        # A new voter waits for others to fetch, not for records.
        wait_ms = self.config.fetch_max_wait_ms
        if self.election.is_new:
            wait_ms = min(wait_ms, self.config.retry_backoff_ms)
        role.fetching = self._fetch_request(wait_ms)
        self._effects.append(Send(Destination(role.leader_id, role.endpoints), role.fetching))

    def _tick_follower(self, role: Follower) -> None:
        now = self._now
        suspected = role.suspect_ms is not None and role.suspect_ms <= now
        if suspected or role.fetch_timeout_ms <= now:
            if self.may_stand:
                self._become_prospective(role.leader_id, role.endpoints, is_suspicion=suspected)
            else:
                self._become_unattached(self.epoch)
        elif role.retry_ms is not None and role.retry_ms <= now:
            if role.snapshot is not None:
                self._fetch_snapshot(role, role.snapshot, 0)
            else:
                self._fetch()

    def _fetch_answered(
        self, to: Destination, request: RaftFetchRequest, response: RaftFetchResponse
    ) -> None:
        role = self.role
        if isinstance(role, Unattached) and role.asked is request:
            role.asked = None
            role.search_ms = self._now + self.config.retry_backoff_ms
            if response.leader_id is None and to.replica_id is not None:
                self._no_leader_there(role, to.replica_id)
        if self._learn(response.epoch, response.leader_id, response.leader_endpoints):
            return
        if not isinstance(role, Follower) or role.fetching is not request:
            return
        role.fetching = None
        if response.epoch != self.epoch or response.error is not NONE:
            self._fetch_refused(role, response)
            return
        role.fetch_timeout_ms = self._now + self.config.fetch_timeout_ms
        role.has_fetched = True
        role.suspect_ms = None
        if response.snapshot is not None:
            self._fetch_snapshot(role, response.snapshot, 0)
            return
        if response.diverging is not None:
            # The rest may diverge earlier still, so the high watermark does not move here.
            self._truncate(response.diverging)
        else:
            if response.batches:
                for batch in response.batches:
                    self.log.append(batch)
                self._effects.append(Append(response.batches))
                self._effects.append(Flush(self._truncations))
            self._follow_high_watermark(response.high_watermark)
            if self.election.is_new and response.counts_from is not None:
                role.counts_from = response.counts_from
        self._fetch()

    def _fetch_refused(self, role: Follower, response: RaftFetchResponse) -> None:
        """Try again; at once stand for election if the leader no longer leads."""
        no_leader = response.epoch == self.epoch and response.leader_id is None
        if response.error is RaftError.NOT_LEADER_OR_FOLLOWER and no_leader:
            self._save(self.epoch, None, self.election.voted)
            if self.may_stand:
                self._become_prospective(None)
            else:
                self._become_unattached(self.epoch)
        else:
            role.retry_ms = self._now + self.config.retry_backoff_ms

    def _follow_high_watermark(self, high_watermark: int) -> None:
        committed = min(high_watermark, self.log.end_offset)
        if committed > self.log.high_watermark:
            self.log.high_watermark = committed
            self._effects.append(Committed(committed))

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        """Remove the records that the leader does not have (KIP-595, truncation by epoch)."""
        ours = self.log.end_offset_for_epoch(diverging.epoch)
        offset = ours.offset
        if ours.epoch == diverging.epoch:
            offset = min(offset, diverging.offset)
        if offset < self.log.high_watermark:
            raise LogDiverged(
                f"the leader's log ends epoch {diverging.epoch} at {diverging.offset}, but "
                f"offsets up to {self.log.high_watermark} are committed here"
            )
        self._truncations += 1
        self.log.truncate(offset)
        self._effects.append(Truncate(offset))
        if self.log.flushed_offset < self.log.end_offset:
            self._effects.append(Flush(self._truncations))

    def _fetch_snapshot(self, role: Follower, snapshot: OffsetAndEpoch, position: int) -> None:
        role.snapshot = snapshot
        role.retry_ms = None
        role.fetching = FetchSnapshotRequest(self.epoch, self.me, snapshot, position)
        self._effects.append(Send(Destination(role.leader_id, role.endpoints), role.fetching))

    def _snapshot_answered(
        self, request: FetchSnapshotRequest, response: FetchSnapshotResponse
    ) -> None:
        role = self.role
        if self._learn(response.epoch, response.leader_id, ()):
            return
        if not isinstance(role, Follower) or role.fetching is not request:
            return
        role.fetching = None
        if response.missing:
            role.snapshot = None  # The leader has a newer one: ask anew.
            self._fetch()
            return
        wrong_place = response.position != request.position or not response.data
        if response.error is not NONE or response.epoch != self.epoch or wrong_place:
            role.retry_ms = self._now + self.config.retry_backoff_ms
            return
        role.fetch_timeout_ms = self._now + self.config.fetch_timeout_ms
        role.has_fetched = True
        end = response.position + len(response.data)
        complete = end >= response.size
        self._effects.append(
            WriteSnapshot(request.snapshot, response.position, response.data, complete)
        )
        if not complete:
            self._fetch_snapshot(role, request.snapshot, end)

    def _snapshot_fetched(self, snapshot: OffsetAndEpoch, voters: VoterSet) -> None:
        # Meanwhile another leader may have sent the records: then the snapshot is not needed.
        if snapshot.offset >= self.log.high_watermark:
            self._truncations += 1
            # A snapshot without voters is of a quorum whose settings name them: these hold.
            self.log.begin_at(snapshot, voters or self.log.voters_at(0))
            self._effects.append(InstallSnapshot(snapshot))
            self._effects.append(Committed(snapshot.offset))
        role = self.role
        if isinstance(role, Follower):
            role.snapshot = None
            self._fetch()
