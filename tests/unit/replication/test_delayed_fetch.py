"""A fetch waits for bytes, for its deadline, or for a reason not to wait."""

from __future__ import annotations

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode
from odradek.replication.fetch import (
    DelayedFetch,
    FetchOutcome,
    FetchParams,
    FetchTarget,
    read_targets,
)
from odradek.replication.partition import Isolation, Partition
from unit.replication.memory_replicas import MemoryReplicas

BATCH = 73
"""The size of a batch of one record of `MemoryReplicas`."""


def params(min_bytes: int = 1, max_bytes: int = 1 << 20) -> FetchParams:
    return FetchParams(min_bytes, max_bytes, Isolation.READ_UNCOMMITTED)


def target(partition: Partition | None, offset: int = 0, **more: int) -> FetchTarget:
    return FetchTarget(
        partition,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        offset,
        more.pop("max_bytes", 1 << 20),
        **more,
    )


def parked(
    leading: MemoryReplicas, *targets: FetchTarget, min_bytes: int = 1
) -> tuple[DelayedFetch, list[FetchOutcome]]:
    """Read once and then wait, as the handler does."""
    asked = params(min_bytes)
    read_targets([*targets], asked).release()
    answers: list[FetchOutcome] = []
    operation = DelayedFetch(500, [*targets], asked, answers.append)
    keys = [t.partition.topic_partition for t in targets if t.partition is not None]
    leading.replicas.fetch_purgatory.try_complete_else_watch(operation, keys)
    return operation, answers


def test_a_fetch_completes_when_the_high_watermark_moves_not_at_the_append() -> None:
    leading = MemoryReplicas()
    partition = leading.partition()
    _, answers = parked(leading, target(partition))
    leading.append(partition)
    leading.begin_flushes()
    assert answers == []
    leading.end_flush()
    assert [answer.size for answer in answers] == [BATCH]


def test_a_fetch_waits_for_min_bytes_over_all_partitions() -> None:
    leading = MemoryReplicas(fsync=False)
    first, second = leading.partition(0), leading.partition(1)
    _, answers = parked(leading, target(first), target(second), min_bytes=3 * BATCH)
    leading.append(first)
    leading.append(second)
    assert answers == []
    leading.append(first)
    assert [answer.size for answer in answers] == [3 * BATCH]


def test_a_partition_counts_at_most_its_limit_towards_min_bytes() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    operation, answers = parked(leading, target(partition, max_bytes=BATCH), min_bytes=2 * BATCH)
    leading.append(partition)
    leading.append(partition)
    assert not operation.is_completed
    leading.timer.advance_clock(500)
    assert [answer.size for answer in answers] == [BATCH]


def test_at_its_deadline_a_fetch_returns_what_is_there() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    _, answers = parked(leading, target(partition))
    leading.timer.advance_clock(499)
    assert answers == []
    leading.timer.advance_clock(500)
    assert [(a.size, a.results[0].error) for a in answers] == [(0, ErrorCode.NONE)]


def test_a_fetch_offset_on_an_older_segment_completes_the_fetch() -> None:
    leading = MemoryReplicas(fsync=False, config=LogConfig(segment_bytes=2 * BATCH))
    partition = leading.partition()
    _, answers = parked(leading, target(partition), min_bytes=1 << 20)
    leading.append(partition)
    leading.append(partition)
    assert answers == []
    leading.append(partition)
    assert len(answers) == 1


def test_a_freshly_rolled_segment_does_not_complete_a_fetch() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    operation, _ = parked(leading, target(partition, 1))
    partition.log.roll(0)
    leading.replicas.fetch_purgatory.check_and_complete(partition.topic_partition)
    assert not operation.is_completed


def test_a_removed_partition_completes_the_fetch() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    _, answers = parked(leading, target(partition))
    leading.replicas.remove(partition.topic_partition)
    assert [a.results[0].error for a in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_newer_leader_epoch_completes_the_fetch() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    _, answers = parked(leading, target(partition, current_leader_epoch=0))
    partition.leader_epoch = 1
    leading.replicas.fetch_purgatory.check_and_complete(partition.topic_partition)
    assert [a.results[0].error for a in answers] == [ErrorCode.FENCED_LEADER_EPOCH]


@pytest.mark.parametrize(
    ("offset", "error"),
    [(0, ErrorCode.NONE), (1, ErrorCode.NONE), (2, ErrorCode.OFFSET_OUT_OF_RANGE)],
)
def test_an_offset_beyond_the_end_completes_at_once(offset: int, error: ErrorCode) -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    outcome = read_targets([target(partition, offset)], params())
    assert outcome.results[0].error is error
    assert outcome.at_once is (offset != 1)
    outcome.release()


def test_the_first_batch_is_returned_even_above_every_limit() -> None:
    leading = MemoryReplicas(fsync=False)
    first, second = leading.partition(0), leading.partition(1)
    leading.append(first, count=100)
    leading.append(second, count=100)
    asked = [target(first, max_bytes=1), target(second, max_bytes=1)]
    outcome = read_targets(asked, params(max_bytes=1))
    assert [result.size > 0 for result in outcome.results] == [True, False]
    outcome.release()


def test_an_unknown_partition_completes_at_once_with_its_error() -> None:
    outcome = read_targets([target(None)], params())
    assert outcome.at_once
    assert outcome.results[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_diverging_log_gets_the_diverging_epoch() -> None:
    leading = MemoryReplicas(fsync=False)
    partition = leading.partition(leader_epoch=3)
    leading.append(partition)
    outcome = read_targets([target(partition, 1, last_fetched_epoch=2)], params())
    assert outcome.at_once and outcome.results[0].diverging is not None
