"""A replica fetcher as transcripts: what comes in, and what it does.

> fetch ...     a request that the fetcher sends: session, then the partitions that it lists as
                name@fetch offset/last epoch/durable end, then -name for those it forgets
< ...           an answer or another event
= ...           what it does with a log, or a time that it waits
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from uuid import UUID

from odradek.log.leader_epochs import EpochEndOffset, LeaderEpochs
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import EpochEndOffset as DivergingEpoch
from odradek.protocol.hot_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.replication.replica_fetcher import (
    LISTED_MAX,
    FetcherSettings,
    Key,
    ReplicaFetcher,
)

TOPIC = UUID(int=7)


class FollowedLog:
    """A log of a few numbers; `number` names it."""

    def __init__(self, stage: Stage, number: int, end: int, epochs: list[tuple[int, int]]) -> None:
        self.stage = stage
        self.key: Key = (TOPIC, number)
        self.leader_epoch = 5
        self.log_start_offset = 0
        self.log_end_offset = self.durable_end = end
        self.epochs = LeaderEpochs("p")
        for epoch, start in epochs:
            self.epochs.assign(epoch, start)
        self.append_error = ErrorCode.NONE
        self.done: Callable[[], None] = lambda: None

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def append(self, records: ByteRange) -> ErrorCode:
        if self.append_error is ErrorCode.NONE:
            self.log_end_offset += len(records) - 8
        self.stage.note(f"= append p{self.key[1]} up to {self.log_end_offset}")
        return self.append_error

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        self.stage.note(f"= offsets p{self.key[1]} {high_watermark} {log_start_offset}")

    @property
    def durable_log_start(self) -> int:
        return self.log_start_offset

    def truncate(self, offset: int, restart: bool, done: Callable[[], None]) -> None:
        self.stage.note(f"= {'restart' if restart else 'truncate'} p{self.key[1]} {offset}")
        self.done = done

    def truncated(self, offset: int) -> None:
        self.stage.note(f"< truncated p{self.key[1]}")
        self.log_end_offset = self.durable_end = offset
        self.epochs.truncate_from_end(offset)
        self.done()


class Stage:
    """A fetcher, its transcript, and the requests that are not answered."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.open: list[Callable[[FetchResponse | None], None]] = []
        self.timers: list[Callable[[], None]] = []
        self.exceeded = False
        self.fetcher = ReplicaFetcher(2, lambda: 77, self, FetcherSettings(), self)

    def note(self, line: str) -> None:
        self.lines.append(line)

    def is_exceeded_for(self, key: Key) -> bool:
        return self.exceeded

    def record(self, key: Key, size: int) -> None:
        """Count nothing: the test says when the quota is exceeded."""

    def send(self, request: FetchRequest, answered: Callable[[FetchResponse | None], None]) -> None:
        assert request.replica_state.replica_id == 2
        assert request.replica_state.replica_epoch == 77
        listed = [
            f"p{each.partition}@{each.fetch_offset}/{each.last_fetched_epoch}/{each.durable_end}"
            for topic in request.topics
            for each in topic.partitions
        ]
        gone = [f"-p{n}" for topic in request.forgotten_topics_data for n in topic.partitions]
        session = f"{request.session_id}.{request.session_epoch}"
        self.note(" ".join(["> fetch", session, *listed, *gone]))
        self.open.append(answered)

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        self.note(f"= wait {delay_ms} ms")
        self.timers.append(function)

    def time_passes(self) -> None:
        self.note("< time")
        self.timers.pop(0)()

    def follow(
        self, number: int = 0, end: int = 10, epochs: list[tuple[int, int]] | None = None
    ) -> FollowedLog:
        log = FollowedLog(self, number, end, [(3, 0)] if epochs is None else epochs)
        self.fetcher.add(log)
        return log

    def answer(
        self, *data: PartitionData, session: int = 9, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        """Answer the oldest request."""
        self.note(f"< answer {error.name if error else len(data)}")
        topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=list(data))]
        self.open.pop(0)(
            FetchResponse(error_code=error, session_id=session, responses=topics if data else [])
        )

    def disconnect(self) -> None:
        self.note("< disconnected")
        waiting, self.open = self.open, []
        for answered in waiting:
            answered(None)

    def shows(self, text: str) -> None:
        """Compare what happened since the last call, and forget it."""
        lines, self.lines = self.lines, []
        assert "\n".join(lines) == dedent(text).strip()


def records(number: int, base: int, count: int, high_watermark: int = 0) -> PartitionData:
    """`count` records from `base` on; the stage's logs take a byte for each."""
    data = base.to_bytes(8, "big") + bytes(count)
    return PartitionData(
        partition_index=number,
        error_code=0,
        high_watermark=high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=ByteRange(data, 0, len(data)),
    )


def offsets(number: int, high_watermark: int) -> PartitionData:
    """Offsets without records."""
    found = records(number, 0, 0, high_watermark)
    found.records = None
    return found


def diverging(number: int, epoch: int, end: int) -> PartitionData:
    """The leader's log has this epoch up to `end`."""
    found = offsets(number, 0)
    found.diverging_epoch = DivergingEpoch(epoch=epoch, end_offset=end)
    return found


def failed(number: int, error: ErrorCode) -> PartitionData:
    found = offsets(number, -1)
    found.error_code = error
    return found


def out_of_range(number: int, start: int, end: int) -> PartitionData:
    """The leader's log has the offsets from `start` to `end`."""
    found = diverging(number, 5, end)
    found.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    found.log_start_offset = start
    return found


def established(*logs: int) -> tuple[Stage, list[FollowedLog]]:
    """A session with these partitions, whose fetch the leader holds back."""
    stage = Stage()
    followed = [stage.follow(number) for number in logs]
    stage.answer()
    stage.lines = []
    return stage, followed


def test_a_session_begins_with_all_partitions_and_goes_on_with_changes():
    stage = Stage()
    stage.follow(0)
    stage.follow(1, end=4)
    stage.answer(offsets(0, 8))
    stage.shows("""
        > fetch 0.0 p0@10/3/10
        < answer 1
        = offsets p0 8 0
        > fetch 9.1 p1@4/3/4
    """)


def test_records_are_appended_and_the_position_told_at_once():
    stage, _ = established(0)
    stage.answer(records(0, 10, 3, high_watermark=10))
    stage.shows("""
        < answer 1
        = append p0 up to 13
        = offsets p0 10 0
        > fetch 9.2 p0@13/3/10
    """)


def test_the_news_of_a_flush_does_not_wait_for_the_fetch_that_is_held_back():
    stage, (log,) = established(0)
    stage.answer(records(0, 10, 3))
    log.durable_end = 13
    stage.lines = []
    stage.fetcher.flushed(log.key)
    stage.shows("> fetch 9.3 p0@13/3/13")
    stage.fetcher.flushed(log.key)
    stage.shows("")


def test_two_requests_are_in_flight_at_most():
    stage, (first, second) = established(0, 1)
    first.durable_end = 9
    stage.fetcher.flushed(first.key)
    second.durable_end = 9
    stage.fetcher.flushed(second.key)
    stage.shows("> fetch 9.2 p0@10/3/9")
    stage.answer()
    stage.shows("""
        < answer 0
        > fetch 9.3 p1@10/3/9
    """)


def test_a_diverging_epoch_that_both_have_is_truncated_to_the_earlier_end():
    stage = Stage()
    log = stage.follow(0, end=20, epochs=[(1, 0), (3, 12)])
    stage.answer(diverging(0, 3, 15))
    log.truncated(15)
    stage.shows("""
        > fetch 0.0 p0@20/3/20
        < answer 1
        = truncate p0 15
        > fetch 9.1 -p0
        < truncated p0
        > fetch 9.2 p0@15/3/15
    """)


def test_an_epoch_that_the_follower_does_not_have_is_truncated_step_by_step():
    stage = Stage()
    log = stage.follow(0, end=20, epochs=[(1, 0), (4, 12)])
    stage.answer(diverging(0, 2, 15))
    log.truncated(12)
    stage.answer()
    stage.answer(diverging(0, 1, 7))
    stage.shows("""
        > fetch 0.0 p0@20/4/20
        < answer 1
        = truncate p0 12
        > fetch 9.1 -p0
        < truncated p0
        > fetch 9.2 p0@12/1/12
        < answer 0
        < answer 1
        = truncate p0 7
        > fetch 9.3 -p0
    """)


def test_an_unclean_leader_that_ends_before_is_followed():
    stage, _ = established(0)
    stage.answer(out_of_range(0, 0, 6))
    stage.shows("""
        < answer 1
        = truncate p0 6
        > fetch 9.2 -p0
    """)


def test_a_follower_behind_the_log_start_begins_again_there():
    stage, (log,) = established(0)
    stage.answer(out_of_range(0, 40, 90))
    log.epochs.truncate_from_end(0)
    log.truncated(40)
    stage.shows("""
        < answer 1
        = restart p0 40
        > fetch 9.2 -p0
        < truncated p0
        > fetch 9.3 p0@40/-1/40
    """)


def test_an_empty_log_that_starts_within_a_batch_begins_at_the_batch():
    stage, (log,) = established(0)
    log.log_start_offset = 10
    stage.answer(records(0, 8, 4))
    log.log_start_offset = 8
    log.truncated(8)
    stage.answer()
    stage.answer(records(0, 8, 4))
    stage.shows("""
        < answer 1
        = restart p0 8
        > fetch 9.2 -p0
        < truncated p0
        > fetch 9.3 p0@10/3/8
        < answer 0
        < answer 1
        = append p0 up to 12
        = offsets p0 0 0
        > fetch 9.4 p0@12/3/8
    """)


def test_an_empty_log_takes_records_behind_a_gap_that_compaction_left():
    stage, (log,) = established(0)
    log.log_start_offset = 10
    stage.answer(records(0, 15, 4))
    stage.shows("""
        < answer 1
        = append p0 up to 14
        = offsets p0 0 0
        > fetch 9.2 p0@14/3/10
    """)


def test_an_error_of_one_partition_delays_no_other():
    stage, _ = established(0, 1)
    stage.answer(failed(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), records(1, 10, 2))
    stage.time_passes()
    stage.shows("""
        < answer 2
        = wait 20 ms
        = append p1 up to 12
        = offsets p1 0 0
        > fetch 9.2 p1@12/3/10 -p0
        < time
        > fetch 9.3 p0@10/3/10
    """)


def test_records_that_cannot_be_appended_are_asked_for_again_later():
    stage, (log,) = established(0)
    log.append_error = ErrorCode.CORRUPT_MESSAGE
    stage.answer(records(0, 10, 3))
    stage.shows("""
        < answer 1
        = append p0 up to 10
        = wait 20 ms
        > fetch 9.2 -p0
    """)


def test_a_fenced_epoch_waits_for_newer_metadata():
    stage, (log,) = established(0)
    stage.answer(failed(0, ErrorCode.FENCED_LEADER_EPOCH))
    log.leader_epoch = 6
    stage.fetcher.add(log)
    stage.shows("""
        < answer 1
        > fetch 9.2 -p0
        > fetch 9.3 p0@10/3/10
    """)


def test_an_answer_about_an_older_position_is_ignored():
    stage, (log,) = established(0)
    log.leader_epoch = 6
    stage.fetcher.add(log)
    stage.answer(records(0, 10, 3))
    stage.answer(records(0, 10, 3))
    stage.shows("""
        > fetch 9.2 p0@10/3/10 -p0
        < answer 1
        < answer 1
        = append p0 up to 13
        = offsets p0 0 0
        > fetch 9.3 p0@13/3/10
    """)


def test_a_lost_session_begins_again_and_what_was_in_flight_is_ignored():
    stage, (log,) = established(0)
    log.durable_end = 9
    stage.fetcher.flushed(log.key)
    stage.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    stage.answer(records(0, 10, 3))
    stage.answer(session=11)
    stage.shows("""
        > fetch 9.2 p0@10/3/9
        < answer FETCH_SESSION_ID_NOT_FOUND
        > fetch 0.0 p0@10/3/9
        < answer 1
        < answer 0
        > fetch 11.1
    """)


def test_a_leader_that_cannot_be_reached_is_tried_again_after_a_pause():
    stage, _ = established(0)
    stage.disconnect()
    stage.time_passes()
    stage.shows("""
        < disconnected
        = wait 20 ms
        < time
        > fetch 0.0 p0@10/3/10
    """)


def test_the_pauses_double_up_to_the_setting_until_the_leader_answers():
    stage, _ = established(0)
    waits = []
    for _ in range(8):
        stage.disconnect()
        waits.append(stage.lines[-1])
        stage.time_passes()
    assert waits == [f"= wait {ms} ms" for ms in (20, 40, 80, 160, 320, 640, 1000, 1000)]
    stage.answer(records(0, 10, 0))
    stage.disconnect()
    assert stage.lines[-1] == "= wait 20 ms"


def test_the_waits_of_a_partition_double_until_it_is_fetched():
    stage, _ = established(0)
    waits = []
    for _ in range(3):
        stage.answer(failed(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        waits.append(next(line for line in stage.lines if "wait" in line))
        stage.time_passes()
        stage.answer()
        stage.lines.clear()
    assert waits == ["= wait 20 ms", "= wait 40 ms", "= wait 80 ms"]
    stage.answer(records(0, 10, 3))
    stage.answer(failed(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert "= wait 20 ms" in stage.lines


def test_a_partition_over_its_quota_waits():
    stage, _ = established(0)
    stage.exceeded = True
    stage.answer(records(0, 10, 3))
    stage.exceeded = False
    stage.time_passes()
    stage.shows("""
        < answer 1
        = append p0 up to 13
        = offsets p0 0 0
        = wait 500 ms
        > fetch 9.2 -p0
        < time
        > fetch 9.3 p0@13/3/10
    """)


def test_a_removed_partition_is_forgotten_and_its_answers_are_ignored():
    stage, (first, _) = established(0, 1)
    stage.fetcher.remove(first.key)
    stage.answer(records(0, 10, 3))
    stage.shows("""
        < answer 1
        > fetch 9.2 -p0
    """)


def counts(stage: Stage) -> list[int]:
    """The number of partitions of each request since the last call."""
    lines, stage.lines = stage.lines, []
    return [line.count("@") for line in lines if line.startswith("> fetch")]


def test_many_partitions_are_listed_some_in_each_request():
    stage = Stage()
    logs = [stage.follow(number) for number in range(2 * LISTED_MAX + 11)]
    assert counts(stage) == [1]
    stage.answer()
    assert counts(stage) == [LISTED_MAX, LISTED_MAX]
    stage.answer()
    assert counts(stage) == [10]
    for log in logs:
        log.durable_end -= 1
        stage.fetcher.flushed(log.key)
    stage.answer()
    stage.answer()
    assert counts(stage) == [LISTED_MAX, LISTED_MAX]
    stage.answer()
    assert counts(stage) == [11]


def test_a_session_that_begins_again_lists_some_partitions_first():
    stage, _ = established(*range(LISTED_MAX + 5))
    stage.disconnect()
    stage.time_passes()
    assert counts(stage) == [LISTED_MAX]
    stage.answer()
    assert counts(stage) == [5]
