"""A fetch waits for bytes, its deadline, or a reason why waiting is pointless."""

from __future__ import annotations

import pytest
from leading import Leading

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

BATCH = 73
"""Bytes of a batch of one of `Leading`'s records."""


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
    leading: Leading, *targets: FetchTarget, min_bytes: int = 1
) -> tuple[DelayedFetch, list[FetchOutcome]]:
    """Read as the handler does, then wait."""
    asked = params(min_bytes)
    read_targets([*targets], asked).release()
    answers: list[FetchOutcome] = []
    operation = DelayedFetch(500, [*targets], asked, answers.append)
    keys = [t.partition.topic_partition for t in targets if t.partition is not None]
    leading.replicas.fetch_purgatory.try_complete_else_watch(operation, keys)
    return operation, answers


def test_it_is_answered_when_the_high_watermark_moves_not_when_bytes_are_appended() -> None:
    leading = Leading()
    partition = leading.partition()
    _, answers = parked(leading, target(partition))
    leading.append(partition)
    leading.begin_flushes()
    assert answers == []
    leading.end_flush()
    assert [answer.size for answer in answers] == [BATCH]


def test_it_waits_until_min_bytes_are_there_over_all_partitions() -> None:
    leading = Leading(fsync=False)
    first, second = leading.partition(0), leading.partition(1)
    _, answers = parked(leading, target(first), target(second), min_bytes=3 * BATCH)
    leading.append(first)
    leading.append(second)
    assert answers == []
    leading.append(first)
    assert [answer.size for answer in answers] == [3 * BATCH]


def test_what_a_partition_may_send_counts_no_more_than_its_limit() -> None:
    leading = Leading(fsync=False)
    partition = leading.partition()
    operation, answers = parked(leading, target(partition, max_bytes=BATCH), min_bytes=2 * BATCH)
    leading.append(partition)
    leading.append(partition)
    assert not operation.is_completed
    leading.timer.advance_clock(500)
    assert [answer.size for answer in answers] == [BATCH]


def test_at_its_deadline_it_answers_with_what_there_is() -> None:
    leading = Leading(fsync=False)
    partition = leading.partition()
    _, answers = parked(leading, target(partition))
    leading.timer.advance_clock(499)
    assert answers == []
    leading.timer.advance_clock(500)
    assert [(a.size, a.results[0].error) for a in answers] == [(0, ErrorCode.NONE)]


def test_bytes_on_an_older_segment_are_enough_whatever_min_bytes_says() -> None:
    leading = Leading(fsync=False, config=LogConfig(segment_bytes=2 * BATCH))
    partition = leading.partition()
    _, answers = parked(leading, target(partition), min_bytes=1 << 20)
    leading.append(partition)
    leading.append(partition)
    assert answers == []
    leading.append(partition)
    assert len(answers) == 1


def test_a_freshly_rolled_segment_is_not_data() -> None:
    leading = Leading(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    operation, _ = parked(leading, target(partition, 1))
    partition.log.roll(0)
    leading.replicas.fetch_purgatory.check_and_complete(partition.topic_partition)
    assert not operation.is_completed


def test_a_partition_that_goes_away_ends_the_wait() -> None:
    leading = Leading(fsync=False)
    partition = leading.partition()
    _, answers = parked(leading, target(partition))
    leading.replicas.remove(partition.topic_partition)
    assert [a.results[0].error for a in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_newer_leader_epoch_ends_the_wait() -> None:
    leading = Leading(fsync=False)
    partition = leading.partition()
    _, answers = parked(leading, target(partition, current_leader_epoch=0))
    partition.leader_epoch = 1
    leading.replicas.fetch_purgatory.check_and_complete(partition.topic_partition)
    assert [a.results[0].error for a in answers] == [ErrorCode.FENCED_LEADER_EPOCH]


@pytest.mark.parametrize(
    ("offset", "error"),
    [(0, ErrorCode.NONE), (1, ErrorCode.NONE), (2, ErrorCode.OFFSET_OUT_OF_RANGE)],
)
def test_an_offset_beyond_the_end_is_answered_at_once(offset: int, error: ErrorCode) -> None:
    leading = Leading(fsync=False)
    partition = leading.partition()
    leading.append(partition)
    outcome = read_targets([target(partition, offset)], params())
    assert outcome.results[0].error is error
    assert outcome.at_once is (offset != 1)
    outcome.release()


def test_the_first_batch_comes_even_if_it_is_larger_than_every_limit() -> None:
    leading = Leading(fsync=False)
    first, second = leading.partition(0), leading.partition(1)
    leading.append(first, count=100)
    leading.append(second, count=100)
    asked = [target(first, max_bytes=1), target(second, max_bytes=1)]
    outcome = read_targets(asked, params(max_bytes=1))
    assert [result.size > 0 for result in outcome.results] == [True, False]
    outcome.release()


def test_an_unknown_partition_is_an_answer() -> None:
    outcome = read_targets([target(None)], params())
    assert outcome.at_once
    assert outcome.results[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_log_that_left_ours_is_told_where() -> None:
    leading = Leading(fsync=False)
    partition = leading.partition(leader_epoch=3)
    leading.append(partition)
    outcome = read_targets([target(partition, 1, last_fetched_epoch=2)], params())
    assert outcome.at_once and outcome.results[0].diverging is not None
