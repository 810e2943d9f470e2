"""The last stable offset: how transactions bound what read_committed readers see, and its moves."""

from __future__ import annotations

from odradek.log.log import TimestampAndOffset
from odradek.log.producer_state import TransactionMarker
from odradek.log.verification import VerificationGuard
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.record_batch_builder import build
from odradek.replication.fetch import (
    DelayedFetch,
    FetchOutcome,
    FetchParams,
    FetchTarget,
    read_targets,
)
from odradek.replication.partition import Isolation, Partition
from unit.replication.memory_replicas import NOW_MS, MemoryReplicas

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
NO_ERROR = ErrorCode.NONE


def send(
    leading: MemoryReplicas, partition: Partition, producer_id: int, sequence: int, at_ms: int = 0
) -> None:
    """Append one transactional record, verified if it is the first."""
    guard = partition.start_verification(producer_id, 0, sequence, False)
    assert guard is None or isinstance(guard, VerificationGuard)
    data = build(
        [(None, b"value", [], NOW_MS + at_ms)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    info = leading.replicas.append(partition, ByteRange(data, 0, len(data)), 12, guard)
    assert info.error is NO_ERROR
    leading.replicas.appended(partition)


def end(
    leading: MemoryReplicas, partition: Partition, producer_id: int, *, committed: bool = True
) -> None:
    marker = TransactionMarker(producer_id, 0, 0, committed, 1)
    info = leading.replicas.append_marker(partition, marker)
    assert info.error is NO_ERROR
    leading.replicas.appended(partition)


def parked(leading: MemoryReplicas, partition: Partition, offset: int) -> list[FetchOutcome]:
    """A read_committed fetch that waits."""
    target = FetchTarget(partition, NO_ERROR, offset, 1 << 20)
    params = FetchParams(1, 1 << 20, COMMITTED)
    read_targets([target], params).release()
    answers: list[FetchOutcome] = []
    operation = DelayedFetch(500, [target], params, answers.append)
    purgatory = leading.replicas.fetch_purgatory
    purgatory.try_complete_else_watch(operation, [partition.topic_partition])
    return answers


def test_without_transactions_it_is_the_high_watermark() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    assert partition.last_stable_offset == partition.high_watermark == 1


def test_an_open_transaction_holds_it() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    send(leading, partition, 1, 0)
    leading.append(partition)
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)
    read = partition.read(1, 1 << 20, COMMITTED, True)
    assert read.size == 0
    read = partition.read(1, 1 << 20, UNCOMMITTED, True)
    assert read.size > 0
    read.release()


def test_it_moves_when_the_marker_is_committed_and_not_when_it_is_appended() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    send(leading, partition, 1, 0)
    leading.run_until_idle()
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 1)
    end(leading, partition, 1)
    leading.begin_flushes()
    assert partition.last_stable_offset == 0, "the marker is not on the disk yet"
    leading.end_flush()
    assert partition.last_stable_offset == partition.high_watermark == 2


def test_a_transaction_whose_batches_are_not_committed_does_not_lower_it() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    leading.append(partition)
    leading.run_until_idle()
    leading.append(partition)
    send(leading, partition, 1, 0)
    assert partition.last_stable_offset == partition.high_watermark == 1


def test_a_fetch_wakes_when_it_moves_and_not_with_the_high_watermark() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    answers = parked(leading, partition, 0)
    send(leading, partition, 1, 0)
    leading.append(partition)
    assert (answers, partition.high_watermark) == ([], 2)
    end(leading, partition, 1)
    (answer,) = answers
    (result,) = answer.results
    assert (result.last_stable_offset, result.high_watermark) == (3, 3)
    assert result.size > 0
    answer.release()


def test_a_fetch_for_read_committed_lists_the_aborted_transactions() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    send(leading, partition, 1, 0)
    send(leading, partition, 2, 0)
    end(leading, partition, 1, committed=False)
    end(leading, partition, 2)
    target = FetchTarget(partition, NO_ERROR, 0, 1 << 20)
    for isolation, expected in ((COMMITTED, [(1, 0)]), (UNCOMMITTED, None)):
        outcome = read_targets([target], FetchParams(1, 1 << 20, isolation))
        (result,) = outcome.results
        listed = None if result.aborted is None else [row[:2] for row in result.aborted]
        assert listed == expected
        outcome.release()


def test_a_fetch_that_finds_the_index_damaged_takes_the_partition_offline() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    send(leading, partition, 1, 0)
    end(leading, partition, 1, committed=False)
    partition.log.roll(0)
    index = partition.log.segments.items[0].transaction_index
    assert index is not None
    index.unload()
    partition.log.disk.remove(index.path)
    target = FetchTarget(partition, NO_ERROR, 0, 1 << 20)
    outcome = read_targets([target], FetchParams(1, 1 << 20, COMMITTED))
    assert [result.error for result in outcome.results] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert partition.failure is ErrorCode.KAFKA_STORAGE_ERROR


def test_searches_by_time_end_there() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    send(leading, partition, 1, 0, at_ms=100)
    assert partition.offset_for_timestamp(NOW_MS + 50, COMMITTED) is None
    assert partition.offset_for_timestamp(NOW_MS + 50, UNCOMMITTED) == TimestampAndOffset(
        NOW_MS + 100, 1, 0
    )
    assert partition.offset_for_max_timestamp(COMMITTED) == TimestampAndOffset(NOW_MS, 0, 0)


def test_it_is_never_below_the_log_start() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    send(leading, partition, 1, 0)
    leading.append(partition)
    leading.append(partition)
    assert partition.delete_records(2) is NO_ERROR
    assert partition.last_stable_offset == partition.log.log_start_offset == 2


def test_a_follower_has_the_same_one_and_so_has_the_next_leader() -> None:
    leading, following = MemoryReplicas(fsync=False), MemoryReplicas(fsync=False)
    leader, follower = leading.partition(), following.partition()
    leading.append(leader)
    send(leading, leader, 1, 0)
    send(leading, leader, 2, 0)
    end(leading, leader, 1)
    send(leading, leader, 3, 0)
    follower.make_follower(7, 0)
    read = leader.read(0, 1 << 20, Isolation.LOG_END, True)
    data = b"".join(piece.read() for piece in read.slices)
    read.release()
    info = following.replicas.append_as_follower(follower, ByteRange(data, 0, len(data)))
    assert info.error is NO_ERROR
    follower.follow_high_watermark(3)
    assert (follower.last_stable_offset, leader.last_stable_offset) == (1, 2), (
        "the marker of the first transaction is at its high watermark"
    )
    follower.follow_high_watermark(4)
    assert follower.last_stable_offset == 2
    follower.make_leader(1)
    assert (follower.last_stable_offset, follower.high_watermark) == (2, 5)
    assert follower.log.producers.active_producers() == leader.log.producers.active_producers()


def test_only_the_leader_takes_markers_and_verifies() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    partition.make_follower(7, 1)
    not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
    marker = TransactionMarker(1, 0, 0, True, 1)
    assert leading.replicas.append_marker(partition, marker).error is not_leader
    assert partition.start_verification(1, 0, 0, False) is not_leader


def test_verification_is_required_unless_the_setting_says_otherwise() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    data = build(
        [(None, b"value", [], NOW_MS)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    span = ByteRange(data, 0, len(data))
    assert leading.replicas.append(partition, span, 12).error is ErrorCode.INVALID_TXN_STATE
    leading.replicas.verify_transactions(False)
    assert leading.replicas.append(partition, span, 12).error is NO_ERROR
    leading.replicas.verify_transactions(True)
    assert partition.log.verifies_transactions
    assert leading.partition(1).log.verifies_transactions
