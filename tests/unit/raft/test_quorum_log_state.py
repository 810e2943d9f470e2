"""What the quorum knows of its log: epochs, divergence, voter sets, snapshots."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.raft.log_state import LogState, OffsetAndEpoch, RaftBatch
from odradek.raft.replicas import ReplicaKey, Voter, VoterSet


def voters(*ids: int) -> VoterSet:
    return VoterSet(Voter(ReplicaKey(n, UUID(int=n))) for n in ids)


def log_of(*epochs_and_counts: tuple[int, int]) -> LogState:
    log = LogState(voters(1, 2, 3))
    for epoch, count in epochs_and_counts:
        log.append(RaftBatch(log.end_offset, count, epoch))
    return log


class TestEpochs:
    def test_the_end_of_an_epoch_is_the_start_of_the_next(self) -> None:
        log = log_of((1, 3), (1, 2), (4, 1), (6, 2))
        assert log.last == OffsetAndEpoch(8, 6)
        assert log.end_offset_for_epoch(1) == OffsetAndEpoch(5, 1)
        assert log.end_offset_for_epoch(3) == OffsetAndEpoch(5, 1)
        assert log.end_offset_for_epoch(4) == OffsetAndEpoch(6, 4)
        assert log.end_offset_for_epoch(9) == OffsetAndEpoch(8, 6)

    def test_the_epoch_before_an_offset_is_that_of_the_record_before(self) -> None:
        log = log_of((1, 3), (4, 1))
        assert [log.epoch_before(offset) for offset in range(5)] == [0, 1, 1, 1, 4]

    def test_a_longer_log_of_an_older_epoch_is_not_up_to_date(self) -> None:
        log = log_of((1, 3), (4, 1))
        assert not log.is_up_to_date(OffsetAndEpoch(100, 3))
        assert not log.is_up_to_date(OffsetAndEpoch(3, 4))
        assert log.is_up_to_date(OffsetAndEpoch(4, 4))
        assert log.is_up_to_date(OffsetAndEpoch(1, 5))

    def test_a_batch_of_an_older_epoch_is_refused(self) -> None:
        with pytest.raises(ValueError, match="epoch 3 after epoch 4"):
            log_of((4, 1), (3, 1))

    def test_a_batch_beyond_the_end_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at 5, the log ends at 1"):
            log_of((4, 1)).append(RaftBatch(5, 1, 4))


class TestDivergence:
    def test_a_prefix_does_not_diverge(self) -> None:
        log = log_of((1, 3), (4, 1))
        assert log.divergence(0, 0) is None
        assert log.divergence(2, 1) is None
        assert log.divergence(3, 1) is None
        assert log.divergence(4, 4) is None

    def test_more_records_of_an_epoch_diverge_at_its_end_here(self) -> None:
        assert log_of((1, 3), (4, 1)).divergence(5, 1) == OffsetAndEpoch(3, 1)

    def test_an_epoch_that_never_was_here_diverges_at_the_end_of_the_one_before(self) -> None:
        assert log_of((1, 3), (4, 1)).divergence(6, 3) == OffsetAndEpoch(3, 1)
        assert log_of((1, 3), (4, 1)).divergence(3, 7) == OffsetAndEpoch(4, 4)


class TestVoters:
    def test_an_appended_set_holds_before_it_is_committed(self) -> None:
        log = log_of((1, 3))
        log.append(RaftBatch(3, 1, 1, voters=voters(1, 2)))
        assert log.voters == voters(1, 2)
        assert log.previous_voters == voters(1, 2, 3)
        assert log.voters_offset == 3
        assert log.voters_at(3) == voters(1, 2, 3)
        assert log.voters_at(4) == voters(1, 2)

    def test_truncation_brings_the_set_before_back(self) -> None:
        log = log_of((1, 3))
        log.append(RaftBatch(3, 1, 1, voters=voters(1, 2)))
        log.truncate(3)
        assert log.voters == voters(1, 2, 3)
        assert log.voters_offset == -1

    def test_a_snapshot_keeps_the_set_of_its_offset(self) -> None:
        log = log_of((1, 3))
        log.append(RaftBatch(3, 1, 1, voters=voters(1, 2)))
        log.append(RaftBatch(4, 1, 2, voters=voters(1)))
        log.high_watermark = 5
        log.raise_start(OffsetAndEpoch(4, 1))
        assert log.voters_at(4) == voters(1, 2)
        assert log.voters == voters(1)
        assert log.end_offset_for_epoch(1) == OffsetAndEpoch(4, 1)
        assert log.last == OffsetAndEpoch(5, 2)


class TestSnapshots:
    def test_a_log_that_ends_before_the_start_needs_the_snapshot(self) -> None:
        log = log_of((1, 3), (4, 2))
        log.high_watermark = 5
        log.raise_start(OffsetAndEpoch(4, 4))
        assert log.needs_snapshot(3, 1)
        assert log.needs_snapshot(4, 1)
        assert log.needs_snapshot(6, 1)
        assert not log.needs_snapshot(4, 4)
        assert log.end_offset_for_epoch(4) == OffsetAndEpoch(5, 4)

    def test_a_snapshot_at_the_end_leaves_its_epoch_as_the_last(self) -> None:
        log = log_of((1, 3), (4, 2))
        log.high_watermark = 5
        log.raise_start(OffsetAndEpoch(5, 4))
        assert log.last == OffsetAndEpoch(5, 4)
        assert log.end_offset_for_epoch(4) == OffsetAndEpoch(5, 4)

    def test_a_snapshot_of_what_is_not_committed_is_refused(self) -> None:
        with pytest.raises(ValueError, match="snapshot at 3, committed up to 0"):
            log_of((1, 3)).raise_start(OffsetAndEpoch(3, 1))

    def test_a_truncation_of_committed_records_is_refused(self) -> None:
        log = log_of((1, 3))
        log.high_watermark = 2
        with pytest.raises(ValueError, match="truncation to 1, committed up to 2"):
            log.truncate(1)


class TestVoterSet:
    @pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
    def test_a_majority_is_more_than_half(self, count: int, majority: int) -> None:
        assert voters(*range(count)).majority == majority

    def test_the_value_of_a_majority_counts_the_missing_as_given(self) -> None:
        assert voters(1, 2, 3).majority_value({1: 9, 2: 5}, missing=0) == 5
        assert voters(1, 2, 3).majority_value({1: 9}, missing=0) == 0
        assert voters(1, 2, 3, 4).majority_value({1: 9, 2: 8, 3: 3}, missing=0) == 3

    def test_a_replica_with_another_directory_is_no_voter(self) -> None:
        assert ReplicaKey(1, UUID(int=1)) in voters(1, 2)
        assert ReplicaKey(1, UUID(int=7)) not in voters(1, 2)
        assert ReplicaKey(1) in voters(1, 2)

    def test_ids_of_no_voters_make_no_majority(self) -> None:
        assert not voters(1, 2, 3).has_majority({1, 8, 9})
        assert voters(1, 2, 3).has_majority({1, 3, 9})
