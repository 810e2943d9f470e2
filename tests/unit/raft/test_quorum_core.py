"""One replica of the quorum, event by event: what it writes, answers and asks."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.raft.core import LogDiverged, NotLeader, Raft, RaftConfig
from odradek.raft.effects import (
    AddVoter,
    Answered,
    Append,
    Committed,
    Effect,
    ElectionState,
    Failed,
    Flush,
    Flushed,
    InstallSnapshot,
    Propose,
    Received,
    RemoveVoter,
    ReplicaDisconnected,
    ReplyRecords,
    Resign,
    Respond,
    SaveElection,
    Send,
    SnapshotFetched,
    Tick,
    Truncate,
    WriteSnapshot,
)
from odradek.raft.log_state import LogState, OffsetAndEpoch, RaftBatch
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
from odradek.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached

NONE = RaftError.NONE
CONFIG = RaftConfig()


def key(node: int) -> ReplicaKey:
    return ReplicaKey(node, UUID(int=node))


def voters(*ids: int) -> VoterSet:
    return VoterSet(Voter(key(n), (QuorumEndpoint("CLUSTER", f"node{n}", 9),)) for n in ids)


def named(*ids: int) -> VoterSet:
    """Voters that the settings name: their directories are not known."""
    return VoterSet(Voter(ReplicaKey(n), (QuorumEndpoint("CLUSTER", f"node{n}", 9),)) for n in ids)


class Least:
    """Random numbers that are always the least."""

    def randrange(self, start: int, stop: int, /) -> int:
        return start


class Replica:
    """A core and the effects of its last step."""

    def __init__(
        self,
        node: int,
        members: VoterSet,
        *batches: RaftBatch,
        election: ElectionState | None = None,
    ) -> None:
        log = LogState(members)
        log.load(batches)
        self.core = Raft(key(node), CONFIG, Least(), election or ElectionState(), log)
        self.effects: list[Effect] = self.core.start(0)
        self.now = 0

    def step(self, event: object, after_ms: int = 0) -> list[Effect]:
        self.now += after_ms
        self.effects = self.core.step(self.now, event)  # type: ignore[arg-type]
        return self.effects

    def wait(self) -> list[Effect]:
        """Let time pass to the next deadline."""
        deadline = self.core.deadline
        assert deadline is not None
        self.now = max(self.now, deadline)
        return self.step(Tick())

    def answer(self, node: int, response: RaftResponse) -> list[Effect]:
        """Answer the last request of the last step that went to `node`."""
        sent = [e for e in self.effects if isinstance(e, Send) and e.to.replica_id == node]
        return self.step(Answered(sent[-1].to, sent[-1].request, response))

    def receive(self, request: RaftRequest) -> RaftResponse | None:
        self.step(Received("token", request))
        replies = [e.response for e in self.effects if isinstance(e, Respond)]
        return replies[-1] if replies else None

    def sent(self) -> list[tuple[int | None, RaftRequest]]:
        return [(e.to.replica_id, e.request) for e in self.effects if isinstance(e, Send)]

    def elect(self) -> None:
        """Win an election among three voters."""
        while not isinstance(self.core.role, Prospective):
            self.wait()
        epoch = self.core.epoch
        self.answer(2, VoteResponse(NONE, epoch, None, True))
        self.answer(2, VoteResponse(NONE, epoch + 1, None, True))
        assert self.core.is_leader

    def flush(self) -> list[Effect]:
        end = self.core.log.end_offset
        return self.step(Flushed(end, self.core._truncations))

    def fetched_by(self, node: int, offset: int, wait_ms: int = 0) -> list[Effect]:
        log = self.core.log
        request = RaftFetchRequest(
            self.core.epoch, key(node), offset, log.epoch_before(offset), 0, wait_ms
        )
        return self.step(Received(f"fetch of {node}", request))


def vote(
    epoch: int, candidate: int, voter: int, last: tuple[int, int], pre_vote: bool = False
) -> VoteRequest:
    return VoteRequest(epoch, key(candidate), key(voter), OffsetAndEpoch(*last), pre_vote)


class TestElection:
    def test_the_only_voter_leads_at_once_and_commits_when_its_record_is_on_disk(self) -> None:
        replica = Replica(1, voters(1))
        assert replica.core.is_leader
        saved = [e.state for e in replica.effects if isinstance(e, SaveElection)]
        assert saved == [ElectionState(1, None, key(1)), ElectionState(1, 1, key(1))]
        assert replica.core.log.high_watermark == 0
        assert Committed(1) in replica.flush()

    def test_a_voter_stands_at_once_when_a_majority_knows_no_leader(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        nobody_leads = RaftFetchResponse(RaftError.NOT_LEADER_OR_FOLLOWER, 0, None)
        replica.wait()
        ((asked, _),) = replica.sent()
        assert asked is not None
        began = replica.core.deadline
        replica.answer(asked, nobody_leads)
        replica.wait()
        assert isinstance(replica.core.role, Prospective)
        assert replica.core.epoch == 0
        assert began is None or replica.now - began < replica.core.config.election_timeout_ms

    def test_an_observer_does_not_stand_whoever_leads(self) -> None:
        replica = Replica(9, voters(1, 2, 3))
        nobody_leads = RaftFetchResponse(RaftError.NOT_LEADER_OR_FOLLOWER, 0, None)
        for _ in range(4):
            replica.wait()
            for asked, _ in replica.sent():
                assert asked is not None
                replica.answer(asked, nobody_leads)
        assert isinstance(replica.core.role, Unattached)

    def test_a_pre_vote_changes_no_epoch(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        assert replica.core.epoch == 0
        assert replica.sent() == [
            (2, vote(0, 1, 2, (0, 0), True)),
            (3, vote(0, 1, 3, (0, 0), True)),
        ]

    def test_a_majority_of_pre_votes_begins_an_epoch_that_is_saved_before_votes_are_asked(
        self,
    ) -> None:
        replica = Replica(1, voters(1, 2, 3))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        effects = replica.answer(3, VoteResponse(NONE, 0, None, True))
        assert effects[0] == SaveElection(ElectionState(1, None, key(1)))
        assert replica.sent() == [(2, vote(1, 1, 2, (0, 0))), (3, vote(1, 1, 3, (0, 0)))]

    def test_a_refused_pre_vote_leads_back_to_waiting(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        sent = replica.effects
        replica.answer(2, VoteResponse(NONE, 0, None, False))
        replica.effects = sent
        replica.answer(3, VoteResponse(NONE, 0, None, False))
        assert isinstance(replica.core.role, Unattached)
        assert replica.core.epoch == 0

    def test_voters_that_could_not_be_asked_are_asked_again(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        to, request = Destination(2), replica.sent()[0][1]
        replica.step(Failed(to, request))
        replica.wait()
        assert replica.sent() == [(2, vote(0, 1, 2, (0, 0), True))]

    def test_a_leader_begins_its_epoch_with_a_record_and_tells_the_voters(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        appended = [e for e in replica.effects if isinstance(e, Append)]
        assert [batch.epoch for batch in appended[0].batches] == [1]
        assert [node for node, _ in replica.sent()] == [2, 3]
        assert all(isinstance(r, BeginQuorumEpochRequest) for _, r in replica.sent())

    def test_a_late_vote_of_an_older_epoch_elects_nobody(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        replica.answer(2, VoteResponse(NONE, 0, None, True))
        request = replica.sent()[0][1]
        replica.receive(vote(5, 3, 1, (9, 4)))
        replica.step(Answered(Destination(2), request, VoteResponse(NONE, 1, None, True)))
        assert isinstance(replica.core.role, Unattached)

    def test_a_leader_that_restarts_does_not_lead_its_epoch_again(self) -> None:
        batch = RaftBatch(0, 1, 3)
        replica = Replica(1, voters(1, 2, 3), batch, election=ElectionState(3, 1, key(1)))
        assert isinstance(replica.core.role, Resigned)
        replica.wait()
        assert replica.core.epoch == 4
        assert isinstance(replica.core.role, Unattached)

    def test_an_observer_never_stands(self) -> None:
        replica = Replica(9, voters(1, 2, 3))
        for _ in range(200):
            replica.wait()
            for node, request in replica.sent():
                replica.step(Failed(Destination(node), request))
        assert isinstance(replica.core.role, Unattached)
        assert replica.core.epoch == 0


class TestVoting:
    def test_a_vote_is_saved_before_it_is_answered(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        answer = replica.receive(vote(1, 2, 1, (0, 0)))
        assert answer == VoteResponse(NONE, 1, None, True)
        kinds = [type(effect) for effect in replica.effects]
        assert kinds.index(Respond) > kinds.index(SaveElection)
        assert replica.core.election.voted == key(2)

    def test_one_epoch_has_one_vote_also_after_a_restart(self) -> None:
        replica = Replica(1, voters(1, 2, 3), election=ElectionState(4, None, key(2)))
        assert replica.receive(vote(4, 3, 1, (9, 3))) == VoteResponse(NONE, 4, None, False)
        assert replica.receive(vote(4, 2, 1, (9, 3))) == VoteResponse(NONE, 4, None, True)

    def test_a_candidate_without_a_record_of_ours_gets_no_vote(self) -> None:
        replica = Replica(1, voters(1, 2, 3), RaftBatch(0, 5, 2))
        assert replica.receive(vote(3, 2, 1, (4, 2))) == VoteResponse(NONE, 3, None, False)
        assert replica.receive(vote(3, 2, 1, (9, 1))) == VoteResponse(NONE, 3, None, False)
        assert replica.receive(vote(3, 2, 1, (5, 2))) == VoteResponse(NONE, 3, None, True)

    def test_a_vote_for_another_directory_is_refused(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        request = VoteRequest(1, key(2), ReplicaKey(1, UUID(int=77)), OffsetAndEpoch(0, 0), False)
        answer = replica.receive(request)
        assert answer == VoteResponse(RaftError.INVALID_VOTER_KEY, 0, None)

    def test_a_voter_that_hears_the_leader_refuses_a_pre_vote(self) -> None:
        replica = followed()
        epoch = replica.core.epoch
        assert replica.receive(vote(epoch, 3, 1, (9, 9), True)) == VoteResponse(NONE, 4, 2, False)
        assert isinstance(replica.core.role, Follower)

    def test_a_voter_that_lost_the_leaders_connection_grants_a_pre_vote(self) -> None:
        replica = followed()
        replica.step(ReplicaDisconnected(2))
        if isinstance(replica.core.role, Follower):
            answer = replica.receive(vote(replica.core.epoch, 3, 1, (9, 9), True))
            assert answer == VoteResponse(NONE, 4, 2, True)
        else:
            assert isinstance(replica.core.role, Prospective)

    def test_an_older_epoch_is_told_the_newer(self) -> None:
        replica = followed()
        answer = replica.receive(vote(3, 3, 1, (9, 9)))
        assert answer == VoteResponse(RaftError.FENCED_LEADER_EPOCH, 4, 2)


def first_to_suspect() -> Replica:
    """Replica 1 of three, which asks for pre-votes first: leader 2 closed its connection."""
    replica = followed()
    replica.step(ReplicaDisconnected(2))
    assert isinstance(replica.core.role, Prospective)
    return replica


def followed() -> Replica:
    """Replica 1 of three, which follows replica 2 in epoch 4 and has fetched once."""
    replica = Replica(1, voters(1, 2, 3), election=ElectionState(4, 2, None))
    replica.answer(2, RaftFetchResponse(NONE, 4, 2))
    return replica


class TestFollowing:
    def test_the_next_fetch_waits_until_the_records_are_on_disk(self) -> None:
        replica = followed()
        batches = (RaftBatch(0, 2, 4), RaftBatch(2, 1, 4))
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, high_watermark=2, batches=batches))
        assert replica.effects == [Append(batches), Flush(0), Committed(2)]
        replica.step(Flushed(3, 0))
        assert replica.sent() == [(2, RaftFetchRequest(4, key(1), 3, 4, 2, 500))]

    def test_a_flush_from_before_a_truncation_acknowledges_nothing(self) -> None:
        replica = followed()
        batches = (RaftBatch(0, 1, 1), RaftBatch(1, 4, 2))
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, batches=batches))
        replica.step(Flushed(5, 0))
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, diverging=OffsetAndEpoch(1, 1)))
        assert Truncate(1) in replica.effects
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, batches=(RaftBatch(1, 4, 4),)))
        assert replica.step(Flushed(5, 0)) == []
        assert replica.core.log.flushed_offset == 1
        replica.step(Flushed(5, 1))
        assert [r.fetch_offset for _, r in replica.sent()] == [5]  # type: ignore[union-attr]

    def test_truncation_goes_to_the_end_of_the_last_common_epoch(self) -> None:
        epochs = RaftBatch(0, 4, 1), RaftBatch(4, 3, 3)
        replica = Replica(1, voters(1, 2, 3), *epochs, election=ElectionState(4, 2, None))
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, diverging=OffsetAndEpoch(9, 2)))
        assert Truncate(4) in replica.effects
        assert replica.sent() == [(2, RaftFetchRequest(4, key(1), 4, 1, 0, 500))]

    def test_nothing_is_committed_while_the_log_may_diverge_still_earlier(self) -> None:
        epochs = RaftBatch(0, 4, 1), RaftBatch(4, 3, 3), RaftBatch(7, 1, 4)
        replica = Replica(1, voters(1, 2, 3), *epochs, election=ElectionState(6, 2, None))
        diverging = OffsetAndEpoch(7, 4)
        replica.answer(2, RaftFetchResponse(NONE, 6, 2, high_watermark=9, diverging=diverging))
        assert Truncate(7) in replica.effects
        assert replica.core.log.high_watermark == 0
        diverging = OffsetAndEpoch(4, 2)
        replica.answer(2, RaftFetchResponse(NONE, 6, 2, high_watermark=9, diverging=diverging))
        assert Truncate(4) in replica.effects

    def test_a_leader_that_lacks_committed_records_stops_the_replica(self) -> None:
        replica = Replica(
            1, voters(1, 2, 3), RaftBatch(0, 4, 1), election=ElectionState(4, 2, None)
        )
        replica.core.log.high_watermark = 3
        with pytest.raises(LogDiverged, match="up to 3 are committed here"):
            replica.answer(2, RaftFetchResponse(NONE, 4, 2, diverging=OffsetAndEpoch(2, 1)))

    def test_the_high_watermark_never_passes_the_own_log(self) -> None:
        replica = followed()
        replica.answer(
            2, RaftFetchResponse(NONE, 4, 2, high_watermark=50, batches=(RaftBatch(0, 1, 4),))
        )
        assert replica.core.log.high_watermark == 1

    def test_a_silent_leader_is_doubted_by_a_pre_vote_in_its_epoch(self) -> None:
        replica = followed()
        replica.now = CONFIG.fetch_timeout_ms
        replica.step(Tick())
        assert replica.sent() == [
            (2, vote(4, 1, 2, (0, 0), True)),
            (3, vote(4, 1, 3, (0, 0), True)),
        ]

    def test_after_a_lost_pre_vote_the_leader_is_followed_again(self) -> None:
        replica = followed()
        replica.now = CONFIG.fetch_timeout_ms
        sent = replica.step(Tick())
        replica.answer(2, VoteResponse(NONE, 4, 2, False))
        replica.effects = sent
        replica.answer(3, VoteResponse(NONE, 4, 2, False))
        assert isinstance(replica.core.role, Follower)
        assert replica.core.leader_id == 2
        assert [node for node, _ in replica.sent()] == [2]

    def test_two_voters_that_lose_their_leader_do_not_ask_at_the_same_time(self) -> None:
        times = []
        for node in (1, 3):
            replica = Replica(node, voters(1, 2, 3), election=ElectionState(4, 2, None))
            replica.answer(2, RaftFetchResponse(NONE, 4, 2))
            replica.step(ReplicaDisconnected(2))
            while not isinstance(replica.core.role, Prospective):
                replica.wait()
            times.append(replica.now)
        assert sorted(times) == [0, CONFIG.stagger_ms]

    def test_a_voter_that_did_not_know_yet_that_the_leader_is_gone_is_asked_again(self) -> None:
        replica = first_to_suspect()
        sent = replica.effects
        replica.answer(3, VoteResponse(NONE, 4, 2, False))
        assert isinstance(replica.core.role, Prospective), "2 may still answer"
        replica.effects = sent
        replica.step(Failed(Destination(2), replica.sent()[0][1]))
        replica.wait()
        assert replica.sent() == [
            (2, vote(4, 1, 2, (0, 0), True)),
            (3, vote(4, 1, 3, (0, 0), True)),
        ]
        replica.answer(3, VoteResponse(NONE, 4, None, True))
        assert isinstance(replica.core.role, Candidate)

    def test_a_voter_that_grants_a_pre_vote_does_not_stand_beside_its_candidate(self) -> None:
        replica = Replica(3, voters(1, 2, 3), election=ElectionState(4, 2, None))
        replica.answer(2, RaftFetchResponse(NONE, 4, 2))
        replica.step(ReplicaDisconnected(2))
        granted = replica.receive(vote(4, 1, 3, (0, 0), True))
        assert granted == VoteResponse(NONE, 4, 2, True)
        replica.step(Tick(), after_ms=CONFIG.patience_ms - 1)
        assert isinstance(replica.core.role, Follower)
        replica.step(Tick(), after_ms=1)
        assert isinstance(replica.core.role, Prospective)

    def test_of_two_that_ask_for_pre_votes_one_goes_first_for_a_while(self) -> None:
        replica = first_to_suspect()
        refused = replica.receive(vote(4, 3, 1, (0, 0), True))
        assert refused == VoteResponse(NONE, 4, None, False)
        longer_log = replica.receive(vote(4, 3, 1, (1, 4), True))
        assert longer_log == VoteResponse(NONE, 4, None, True)
        replica.step(Tick(), after_ms=CONFIG.patience_ms)
        granted = replica.receive(vote(4, 3, 1, (0, 0), True))
        assert granted == VoteResponse(NONE, 4, None, True), "it may get no majority"

    def test_a_split_vote_is_over_when_the_others_do_not_answer(self) -> None:
        replica = first_to_suspect()
        replica.answer(3, VoteResponse(NONE, 4, None, True))
        sent = replica.effects
        replica.answer(3, VoteResponse(NONE, 5, None, False))
        assert replica.core.deadline == replica.now + CONFIG.election_timeout_ms
        replica.effects = sent
        replica.step(Failed(Destination(2), replica.sent()[0][1]))
        replica.wait()
        assert isinstance(replica.core.role, Prospective)
        assert replica.now < CONFIG.election_backoff_max_ms

    def test_a_pre_vote_that_was_lost_too_early_is_asked_for_again_soon(self) -> None:
        replica = first_to_suspect()
        sent = replica.effects
        replica.answer(2, VoteResponse(NONE, 4, 2, False))
        replica.effects = sent
        replica.answer(3, VoteResponse(NONE, 4, 2, False))
        assert isinstance(replica.core.role, Follower)
        replica.step(Tick(), after_ms=CONFIG.patience_ms)
        assert isinstance(replica.core.role, Prospective)

    def test_a_voter_asks_for_the_address_of_a_leader_that_became_a_voter_later(self) -> None:
        replica = Replica(1, voters(1, 2, 3), RaftBatch(0, 1, 1, None, None))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        replica.answer(2, VoteResponse(NONE, 7, 5))
        assert isinstance(replica.core.role, Unattached)
        replica.wait()
        ((asked, request),) = replica.sent()
        assert isinstance(request, RaftFetchRequest)
        assert asked in (2, 3)
        address = (QuorumEndpoint("CLUSTER", "node5", 9),)
        error = RaftError.NOT_LEADER_OR_FOLLOWER
        replica.answer(asked, RaftFetchResponse(error, 7, 5, address))
        assert isinstance(replica.core.role, Follower)
        assert (replica.core.role.leader_id, replica.core.role.endpoints) == (5, address)

    def test_after_a_lost_pre_vote_the_address_of_an_unknown_leader_is_asked_for(self) -> None:
        election = ElectionState(7, 5)
        replica = Replica(1, voters(1, 2, 3), RaftBatch(0, 1, 1, None, None), election=election)
        assert isinstance(replica.core.role, Unattached)
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        for node in (2, 3):
            replica.step(
                Answered(
                    Destination(node, ()),
                    vote(7, 1, node, (1, 1), pre_vote=True),
                    VoteResponse(NONE, 7, 5),
                )
            )
        assert isinstance(replica.core.role, Unattached)

    def test_the_first_successor_of_a_leader_that_resigns_stands_at_once(self) -> None:
        first, second = followed(), followed()
        first.receive(EndQuorumEpochRequest(4, key(2), (key(1), key(3))))
        assert isinstance(first.core.role, Prospective)
        second.receive(EndQuorumEpochRequest(4, key(2), (key(3), key(1))))
        assert isinstance(second.core.role, Unattached)
        assert second.core.leader_id is None

    def test_an_unattached_voter_asks_the_others_who_leads(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.wait()
        [(node, request)] = replica.sent()
        assert isinstance(request, RaftFetchRequest)
        assert node is not None
        replica.answer(node, RaftFetchResponse(RaftError.FENCED_LEADER_EPOCH, 7, 3))
        assert replica.core.leader_id == 3
        assert replica.core.epoch == 7


class TestSnapshots:
    SNAPSHOT = OffsetAndEpoch(40, 3)

    def test_a_snapshot_is_fetched_in_pieces_and_installed_when_it_is_whole(self) -> None:
        replica = followed()
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, snapshot=self.SNAPSHOT))
        assert replica.sent() == [(2, FetchSnapshotRequest(4, key(1), self.SNAPSHOT, 0))]
        replica.answer(2, FetchSnapshotResponse(NONE, 4, 2, 5, 0, b"abc"))
        assert replica.effects[0] == WriteSnapshot(self.SNAPSHOT, 0, b"abc", False)
        replica.answer(2, FetchSnapshotResponse(NONE, 4, 2, 5, 3, b"de"))
        assert replica.effects == [WriteSnapshot(self.SNAPSHOT, 3, b"de", True)]
        replica.step(SnapshotFetched(self.SNAPSHOT, voters(1, 2)))
        assert replica.effects[:2] == [InstallSnapshot(self.SNAPSHOT), Committed(40)]
        assert replica.core.log.voters == voters(1, 2)
        assert replica.sent() == [(2, RaftFetchRequest(4, key(1), 40, 3, 40, 500))]

    def test_a_snapshot_without_voters_leaves_those_of_the_settings(self) -> None:
        replica = followed()
        replica.step(SnapshotFetched(self.SNAPSHOT, VoterSet()))
        assert replica.effects[0] == InstallSnapshot(self.SNAPSHOT)
        assert replica.core.log.voters == voters(1, 2, 3)

    def test_a_snapshot_that_the_leader_dropped_is_asked_for_anew(self) -> None:
        replica = followed()
        replica.answer(2, RaftFetchResponse(NONE, 4, 2, snapshot=self.SNAPSHOT))
        replica.answer(2, FetchSnapshotResponse(NONE, 4, 2, missing=True))
        assert replica.sent() == [(2, RaftFetchRequest(4, key(1), 0, 0, 0, 500))]

    def test_a_snapshot_behind_what_is_committed_is_not_installed(self) -> None:
        replica = Replica(
            1, voters(1, 2, 3), RaftBatch(0, 50, 3), election=ElectionState(4, 2, None)
        )
        replica.core.log.high_watermark = 45
        replica.step(SnapshotFetched(self.SNAPSHOT, voters(1)))
        assert replica.core.log.end_offset == 50
        assert replica.effects == []


class TestLeading:
    def test_a_record_is_committed_when_a_majority_has_it_on_disk(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.fetched_by(2, 0)
        assert replica.flush() == []
        assert Committed(1) in replica.fetched_by(2, 1)

    def test_the_leaders_own_copy_counts_when_it_is_on_disk(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.fetched_by(2, 1)
        assert replica.core.log.high_watermark == 0
        assert Committed(1) in replica.flush()

    def test_records_of_older_epochs_are_committed_only_with_one_of_this_epoch(self) -> None:
        replica = Replica(1, voters(1, 2, 3), RaftBatch(0, 4, 2), election=ElectionState(2))
        replica.elect()
        replica.flush()
        replica.fetched_by(2, 4)
        assert replica.core.log.high_watermark == 0
        assert Committed(5) in replica.fetched_by(2, 5)

    def test_a_fetch_without_news_waits_and_is_answered_by_the_next_record(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        replica.fetched_by(2, 1)
        request = RaftFetchRequest(1, key(2), 1, 1, high_watermark=1, max_wait_ms=500)
        assert replica.step(Received("waits", request)) == []
        effects = replica.step(Propose(1, 2, "records"))
        assert [type(effect) for effect in effects] == [Append, Flush, ReplyRecords]
        assert effects[2] == ReplyRecords("waits", request, 1, 1, 1)

    def test_a_waiting_fetch_is_answered_when_its_time_is_over(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        replica.fetched_by(2, 1)
        request = RaftFetchRequest(1, key(2), 1, 1, high_watermark=1, max_wait_ms=300)
        replica.step(Received("waits", request))
        due = replica.now + 300
        while replica.wait() == [] or not any(isinstance(e, ReplyRecords) for e in replica.effects):
            assert replica.now < due
        assert replica.now == due

    def test_a_waiting_fetch_is_answered_when_more_is_committed(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        request = RaftFetchRequest(1, key(2), 1, 1, high_watermark=0, max_wait_ms=300)
        effects = replica.step(Received("fetch", request))
        assert effects == [Committed(1), ReplyRecords("fetch", request, 1, 1, 1)]

    def test_a_newer_fetch_of_a_replica_answers_its_older_one(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        replica.fetched_by(2, 1)
        log = replica.core.log
        request = RaftFetchRequest(replica.core.epoch, key(2), 1, 1, log.high_watermark, 500)
        assert replica.step(Received("older", request)) == []
        [answer] = replica.step(Received("newer", request))
        assert isinstance(answer, ReplyRecords)
        assert answer.token == "older"

    def test_a_log_that_diverges_is_told_where(self) -> None:
        replica = Replica(1, voters(1, 2, 3), RaftBatch(0, 4, 2), election=ElectionState(2))
        replica.elect()
        request = RaftFetchRequest(3, key(2), 6, 2, 0, 500)
        answer = replica.receive(request)
        assert isinstance(answer, RaftFetchResponse)
        assert answer.diverging == OffsetAndEpoch(4, 2)

    def test_a_leader_that_a_majority_does_not_fetch_from_resigns(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        elected = replica.now
        while replica.core.is_leader:
            replica.wait()
        assert replica.now == elected + 3000
        assert isinstance(replica.core.role, Resigned)

    def test_records_for_another_epoch_are_refused(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        with pytest.raises(NotLeader):
            replica.step(Propose(99, 1, "record"))

    def test_a_newer_epoch_ends_the_leadership_and_answers_who_waits(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        replica.fetched_by(2, 1)
        request = RaftFetchRequest(1, key(2), 1, 1, 1, 500)
        replica.step(Received("waits", request))
        replica.receive(vote(2, 3, 1, (9, 1)))
        waiting = [e for e in replica.effects if isinstance(e, Respond) and e.token == "waits"]
        assert waiting[0].response.error is RaftError.NOT_LEADER_OR_FOLLOWER
        assert not replica.core.is_leader

    def test_a_leader_that_is_told_of_a_newer_one_follows_it(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        answer = replica.receive(BeginQuorumEpochRequest(7, key(3), key(1)))
        assert answer == QuorumEpochResponse(NONE, 7, 3)
        assert isinstance(replica.core.role, Follower)

    def test_a_leader_that_resigns_names_the_longest_log_first(self) -> None:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        replica.fetched_by(3, 1)
        replica.fetched_by(2, 0)
        replica.step(Resign())
        requests = [r for _, r in replica.sent()]
        assert requests == [EndQuorumEpochRequest(1, key(1), (key(3), key(2)))] * 2


class TestVoterChanges:
    def leading(self) -> Replica:
        replica = Replica(1, voters(1, 2, 3))
        replica.elect()
        replica.flush()
        return replica

    def change(self, replica: Replica, event: AddVoter | RemoveVoter) -> VoterChangeResponse | None:
        replica.step(event)
        replies = [e.response for e in replica.effects if isinstance(e, Respond)]
        answer = replies[-1] if replies else None
        assert answer is None or isinstance(answer, VoterChangeResponse)
        return answer

    def test_no_change_before_a_record_of_the_epoch_is_committed(self) -> None:
        replica = self.leading()
        answer = self.change(replica, RemoveVoter("change", key(3)))
        assert answer is not None
        assert answer.error is RaftError.REQUEST_TIMED_OUT
        assert "has not committed" in answer.message

    def test_one_change_at_a_time(self) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        assert self.change(replica, RemoveVoter("first", key(3))) is None
        assert replica.core.log.voters == voters(1, 2)
        answer = self.change(replica, RemoveVoter("second", key(2)))
        assert answer is not None
        assert answer.error is RaftError.REQUEST_TIMED_OUT
        assert "not committed yet" in answer.message

    def test_a_change_is_answered_when_the_new_majority_has_it(self) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        self.change(replica, RemoveVoter("change", key(3)))
        replica.flush()
        assert replica.core.log.high_watermark == 1
        replica.fetched_by(2, 2)
        assert Respond("change", VoterChangeResponse(NONE)) in replica.effects

    def test_a_replica_must_have_caught_up_to_be_added(self) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        replica.fetched_by(9, 0)
        late = self.change(replica, AddVoter("change", Voter(key(9))))
        assert late is not None
        assert "has not caught up" in late.message
        replica.fetched_by(9, 1)
        assert self.change(replica, AddVoter("change", Voter(key(9)))) is None
        assert replica.core.log.voters.ids == {1, 2, 3, 9}

    def test_an_id_that_is_a_voter_is_not_added_under_another_directory(self) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        wiped = ReplicaKey(3, UUID(int=33))
        answer = self.change(replica, AddVoter("change", Voter(wiped)))
        assert answer is not None
        assert answer.error is RaftError.DUPLICATE_VOTER

    def test_the_last_voter_is_not_removed(self) -> None:
        replica = Replica(1, voters(1))
        replica.flush()
        answer = self.change(replica, RemoveVoter("change", key(1)))
        assert answer is not None
        assert answer.error is RaftError.INVALID_REQUEST

    def test_a_voter_is_not_removed_if_the_others_could_decide_nothing(self) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        answer = self.change(replica, RemoveVoter("change", key(2)))
        assert answer is not None
        assert answer.error is RaftError.INVALID_REQUEST
        assert f"nothing is heard from {key(3)}" in answer.message
        assert "start these nodes, or remove them first" in answer.message
        assert replica.core.log.voters == voters(1, 2, 3)
        assert self.change(replica, RemoveVoter("change", key(3))) is None

    def test_a_change_may_be_answered_before_it_is_committed(self) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        replica.fetched_by(9, 1)
        answer = self.change(replica, AddVoter("change", Voter(key(9)), False))
        assert answer == VoterChangeResponse(NONE)
        replica.effects.clear()
        replica.flush()
        replica.fetched_by(2, 2)
        replica.fetched_by(9, 2)
        assert replica.core.log.high_watermark == 2
        assert not [
            each for each in replica.effects if isinstance(each, Respond) and each.token == "change"
        ]

    def test_a_leader_that_removes_itself_leads_until_it_is_committed_and_does_not_count(
        self,
    ) -> None:
        replica = self.leading()
        replica.fetched_by(2, 1)
        replica.fetched_by(3, 1)
        self.change(replica, RemoveVoter("change", key(1)))
        replica.flush()
        replica.fetched_by(2, 2)
        assert replica.core.is_leader
        replica.fetched_by(3, 2)
        assert not replica.core.is_leader
        assert Respond("change", VoterChangeResponse(NONE)) in replica.effects

    def test_a_replica_whose_removal_may_not_be_committed_still_stands(self) -> None:
        batches = RaftBatch(0, 1, 1), RaftBatch(1, 1, 1, voters=voters(2))
        replica = Replica(1, voters(1, 2), *batches, election=ElectionState(1))
        while not isinstance(replica.core.role, Prospective | Candidate):
            replica.wait()
        assert [node for node, _ in replica.sent()] == [2]


class TestNewVoters:
    """Voters that settings name, with an empty directory (see `replicas`)."""

    def leader(self) -> Replica:
        replica = Replica(1, named(1, 2, 3), RaftBatch(0, 4, 2), election=ElectionState(2))
        replica.elect()
        replica.flush()
        return replica

    def fetch(
        self, replica: Replica, node: int, offset: int, is_new: bool, disk: int = 0
    ) -> ReplyRecords:
        """`disk`: which directory of the node it is, if not the first."""
        request = RaftFetchRequest(
            replica.core.epoch,
            ReplicaKey(node, UUID(int=disk or node)),
            offset,
            replica.core.log.epoch_before(offset),
            0,
            0,
            is_new,
        )
        replica.step(Received("t", request))
        (reply,) = [e for e in replica.effects if isinstance(e, ReplyRecords)]
        return reply

    def test_a_vote_of_a_new_voter_says_so_and_one_is_not_enough(self) -> None:
        new = Replica(2, named(1, 2, 3), election=ElectionState(is_new=True))
        answer = new.receive(vote(1, 1, 2, (4, 2)))
        assert answer == VoteResponse(NONE, 1, None, True, is_new=True)
        replica = Replica(1, named(1, 2, 3), RaftBatch(0, 4, 2), election=ElectionState(2))
        while not isinstance(replica.core.role, Prospective):
            asked = replica.wait()
        replica.answer(2, VoteResponse(NONE, 2, None, True, is_new=True))
        assert isinstance(replica.core.role, Prospective)
        replica.effects = asked
        replica.answer(3, VoteResponse(NONE, 2, None, True))
        assert isinstance(replica.core.role, Candidate)

    def test_new_voters_elect_one_of_them_together_and_are_up_to_date_with_the_first_record(
        self,
    ) -> None:
        replica = Replica(1, named(1, 2), election=ElectionState(is_new=True))
        while not isinstance(replica.core.role, Prospective):
            replica.wait()
        replica.answer(2, VoteResponse(NONE, 0, None, True, is_new=True))
        replica.answer(2, VoteResponse(NONE, 1, None, True, is_new=True))
        assert replica.core.is_leader
        replica.flush()
        self.fetch(replica, 2, 1, is_new=True)
        saved = SaveElection(ElectionState(1, 1, key(1)))
        assert replica.effects[:2] == [saved, Committed(1)]

    def test_an_acknowledgement_of_a_new_voter_commits_nothing_unless_all_have_it(self) -> None:
        replica = self.leader()
        self.fetch(replica, 2, 5, is_new=True)
        assert replica.core.log.high_watermark == 0
        self.fetch(replica, 3, 5, is_new=True)
        assert replica.core.log.high_watermark == 5

    def test_fetches_of_new_voters_alone_do_not_keep_a_leader(self) -> None:
        replica = self.leader()
        for _ in range(4):
            replica.now += 1_000
            if replica.core.is_leader:
                self.fetch(replica, 2, 5, is_new=True)
                replica.wait()
        assert isinstance(replica.core.role, Resigned)

    def test_a_new_voter_counts_when_a_majority_has_fetched_twice_since_it_came(self) -> None:
        replica = self.leader()
        self.fetch(replica, 3, 5, is_new=False)
        assert replica.core.log.high_watermark == 5
        assert self.fetch(replica, 2, 0, is_new=True).counts_from is None
        self.fetch(replica, 3, 5, is_new=False)  # It may have been sent long before.
        assert self.fetch(replica, 2, 5, is_new=True).counts_from is None
        self.fetch(replica, 3, 5, is_new=False)
        assert self.fetch(replica, 2, 5, is_new=True).counts_from == 5
        assert self.fetch(replica, 2, 5, is_new=False).counts_from is None

    def test_fetches_of_a_disk_that_was_lost_since_are_not_waited_for(self) -> None:
        replica = self.leader()
        for _ in range(100):
            self.fetch(replica, 3, 5, is_new=False)
        self.fetch(replica, 2, 0, is_new=True)
        for _ in range(2):
            self.fetch(replica, 3, 5, is_new=True, disk=33)
        # All voters have been heard since.
        assert self.fetch(replica, 2, 5, is_new=True).counts_from == 5

    def test_a_new_voter_of_five_counts_when_votes_of_before_its_start_are_over(self) -> None:
        replica = Replica(2, named(1, 2, 3, 4, 5), election=ElectionState(4, 1, is_new=True))
        answer = RaftFetchResponse(NONE, 4, 1, (), 4, (RaftBatch(0, 4, 4),), counts_from=4)
        replica.answer(1, answer)
        replica.flush()
        assert replica.core.election.is_new
        replica.now += 2 * CONFIG.election_timeout_ms
        replica.answer(1, RaftFetchResponse(NONE, 4, 1, (), 4))
        assert not replica.core.election.is_new

    def test_a_new_voter_that_is_the_only_one_by_other_settings_leads(self) -> None:
        replica = Replica(1, named(1), election=ElectionState(3, is_new=True))
        replica.flush()
        assert replica.core.is_leader
        assert replica.core.log.high_watermark == replica.core.log.end_offset
        assert replica.core.deadline is None or replica.wait() is not None

    def test_a_new_voter_is_none_once_its_disk_has_what_the_leader_says(self) -> None:
        replica = Replica(2, named(1, 2, 3), election=ElectionState(4, 1, is_new=True))
        answer = RaftFetchResponse(NONE, 4, 1, (), 4, (RaftBatch(0, 4, 4),), counts_from=4)
        replica.answer(1, answer)
        assert replica.core.election.is_new
        replica.flush()
        assert replica.effects[0] == SaveElection(ElectionState(4, 1))
        assert [request.is_new for _, request in replica.sent()] == [False]  # type: ignore[union-attr]
