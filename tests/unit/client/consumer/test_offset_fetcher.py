"""Positions: resets, seeks, validation, queries; and how much is fetched ahead of them."""

from __future__ import annotations

from functools import partial

import pytest

from odradek.client.errors import (
    ApiTimeout,
    IllegalState,
    TopicAuthorizationError,
    UnknownTopicOrPartition,
)
from odradek.client.list_offsets import EARLIEST, LATEST
from odradek.config.offset_reset import EARLIEST as RESET_EARLIEST
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.testing.scheduler import WALL_START_MS
from odradek.testing.scripted import DelayedAnswer
from unit.client.consumer.application import ORDERS, SECOND, Application, numbered, one_topic, rows

MINUTE = 60_000
OFFSET_FOR_LEADER_EPOCH = 23


class TestReset:
    @pytest.mark.parametrize(
        ("reset", "expected"), [("earliest", 3), ("latest", 10), ("by_duration:PT10M", 7)]
    )
    def test_the_position_starts_as_auto_offset_reset_says(self, reset: str, expected: int) -> None:
        cluster, logs = one_topic()
        old, young = WALL_START_MS - 60 * MINUTE, WALL_START_MS - 5 * MINUTE
        logs[ORDERS].append([(None, b"", [], old)] * 7)
        logs[ORDERS].append([(None, b"", [], young)] * 3)
        logs[ORDERS].start = 3
        application = Application(cluster, auto_offset_reset=reset)
        application.assign([ORDERS])
        cluster.until(lambda: application.position(ORDERS) >= 0, 5 * SECOND)
        assert application.position(ORDERS) == expected

    def test_by_duration_without_young_records_starts_at_the_end(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append([(None, b"", [], WALL_START_MS - 60 * MINUTE)] * 7)
        application = Application(cluster, auto_offset_reset="by_duration:PT1M")
        application.assign([ORDERS])
        cluster.until(lambda: application.position(ORDERS) >= 0, 5 * SECOND)
        assert application.position(ORDERS) == 7

    def test_retriable_errors_of_list_offsets_are_retried(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"x"))
        scripted = cluster[1].answers[ListOffsetsRequest]
        codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE]

        def refuse(request: ListOffsetsRequest, version: int) -> object:
            return refused(codes.pop()) if codes else scripted(request, version)

        cluster[1].answers[ListOffsetsRequest] = refuse
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(1)
        assert application.errors == []

    def test_fatal_errors_of_list_offsets_are_raised_and_retried(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(rows(b"x"))
        scripted = cluster[1].answers[ListOffsetsRequest]
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        cluster[1].answers[ListOffsetsRequest] = lambda request, version: refused(code)
        application = Application(cluster)
        application.assign([ORDERS])
        assert isinstance(application.fail(), TopicAuthorizationError)
        cluster[1].answers[ListOffsetsRequest] = scripted
        cluster.until(lambda: application.drain() == 1, 10 * SECOND)

    def test_a_response_for_an_earlier_assignment_is_dropped(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(numbered(0, 5))
        scripted = cluster[1].answers[ListOffsetsRequest]
        cluster[1].answers[ListOffsetsRequest] = lambda request, version: DelayedAnswer(
            SECOND, scripted(request, version)
        )
        application = Application(cluster, auto_offset_reset="latest")
        application.assign([ORDERS])
        cluster.run(SECOND // 2)

        def go_and_come_back() -> None:
            application.consumer.assign([], {}, {})
            application.consumer.assign([ORDERS], {}, {})
            application.consumer.seek_by([ORDERS], RESET_EARLIEST)

        application.side.do(go_and_come_back)
        application.read(5)
        assert application.values == [b"0", b"1", b"2", b"3", b"4"]


def refused(code: ErrorCode) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, error_code=code)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])])


class TestSeek:
    def test_a_seek_drops_fetched_records(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(numbered(0, 10))
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(3)
        for offset in (8, 1):
            application.seek(ORDERS, offset)
            assert application.read(1)[0].offset == offset
        assert application.position(ORDERS) == 2

    def test_a_seek_drops_the_fetch_in_flight(self) -> None:
        cluster, logs = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        cluster.run(SECOND)
        logs[ORDERS].append(numbered(0, 5))
        application.seek(ORDERS, 3)
        application.read(2)
        assert application.places == [(0, 3), (0, 4)]

    def test_a_seek_to_the_start_or_a_time_is_looked_up(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(numbered(0, 5))
        application = Application(cluster, auto_offset_reset="latest")
        application.assign([ORDERS])
        cluster.run(SECOND)
        application.side.do(lambda: application.consumer.seek_by([ORDERS], RESET_EARLIEST))
        application.collector.refresh()
        application.read(5)

    def test_a_paused_partition_keeps_its_fetched_records(self) -> None:
        cluster, logs = one_topic(leaders=(1, 1))
        other = TopicPartition("orders", 1)
        for partition in (ORDERS, other):
            logs[partition].append(numbered(0, 3))
        application = Application(cluster)
        application.assign([ORDERS, other])
        cluster.run(SECOND)
        application.pause(ORDERS)
        application.read(3)
        cluster.run(SECOND)  # A fetch that was under way is over.
        logs[ORDERS].append(numbered(3, 1))
        cluster.run(3 * SECOND)
        assert application.drain() == 0
        assert {partition for partition, _ in application.places} == {1}
        asked = len(cluster[1].of(FetchRequest))
        application.resume(ORDERS)
        assert application.drain() == 3, "without another fetch"
        assert len(cluster[1].of(FetchRequest)) == asked
        application.read(1)

    def test_a_seek_of_an_unassigned_partition_raises(self) -> None:
        cluster, _ = one_topic()
        application = Application(cluster)
        application.assign([ORDERS])
        with pytest.raises(IllegalState, match="orders-7 is not assigned"):
            application.seek(TopicPartition("orders", 7), 0)

    def test_a_new_assignment_keeps_the_positions_that_stay(self) -> None:
        cluster, logs = one_topic(leaders=(1, 1))
        logs[ORDERS].append(numbered(0, 4))
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(2)
        application.assign([ORDERS, ("orders", 1)])
        application.read(2)
        assert application.places == [(0, 0), (0, 1), (0, 2), (0, 3)]


class TestValidation:
    def test_a_position_is_validated_after_every_leader_change(self) -> None:
        cluster, logs = one_topic(brokers=2)
        logs[ORDERS].append(numbered(0, 2), epoch=0)
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(2)
        cluster.run(SECOND)
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append(numbered(2, 2), epoch=1)
        application.read(2)
        [asked] = cluster[2].of(OffsetForLeaderEpochRequest)
        [partition] = asked.topics[0].partitions
        assert (partition.leader_epoch, partition.current_leader_epoch) == (0, 1)

    def test_validation_is_skipped_with_old_brokers(self) -> None:
        cluster, logs = one_topic(brokers=2)
        for node_id in (1, 2):
            del cluster[node_id].versions[OFFSET_FOR_LEADER_EPOCH]
        logs[ORDERS].append(numbered(0, 2), epoch=0)
        application = Application(cluster)
        application.assign([ORDERS])
        application.read(2)
        cluster.run(SECOND)
        cluster.move("orders", 0, leader=2)
        logs[ORDERS].append(numbered(2, 2), epoch=1)
        application.read(2)
        assert application.errors == []


class TestPrefetch:
    def test_fetching_stops_at_the_prefetch_limit(self) -> None:
        cluster, logs = one_topic()
        for first in range(0, 400, 10):
            logs[ORDERS].append([(None, b"x" * 100, [], 0)] * 10)
            assert logs[ORDERS].end == first + 10
        batch = len(logs[ORDERS].batches[0].data)
        application = Application(
            cluster, prefetch_max_bytes=8 * batch, max_partition_fetch_bytes=2 * batch
        )
        application.assign([ORDERS])
        cluster.run(20 * SECOND)
        state = application.subscriptions.state(ORDERS)
        assert 6 * batch < state.buffered_bytes <= 8 * batch
        asked = len(cluster[1].of(FetchRequest))
        cluster.run(20 * SECOND)
        assert len(cluster[1].of(FetchRequest)) == asked, "nothing is asked for until there is room"
        application.read(400)
        assert [offset for _, offset in application.places] == list(range(400))

    def test_a_finished_partition_counts_until_its_records_are_returned(self) -> None:
        partitions = [("orders", number) for number in range(20)]
        cluster, logs = one_topic(leaders=(1,) * 20)
        for partition in partitions:
            logs[partition].append([(None, b"x" * 100, [], 0)] * 10)
        batch = len(logs[ORDERS].batches[0].data)
        application = Application(
            cluster, prefetch_max_bytes=8 * batch, max_partition_fetch_bytes=2 * batch
        )
        application.assign(partitions, ends=dict.fromkeys(partitions, 10))
        cluster.run(20 * SECOND)
        held = sum(state.buffered_bytes for state in application.subscriptions.states)
        assert 4 * batch < held <= 9 * batch
        application.read(200)
        assert application.consumer.is_exhausted

    def test_every_leader_has_a_share_of_the_prefetch_limit(self) -> None:
        cluster, logs = one_topic(brokers=2, leaders=(1, 2))
        for partition in (0, 1):
            for _ in range(40):
                logs["orders", partition].append([(None, b"x" * 100, [], 0)] * 10)
        batch = len(logs[ORDERS].batches[0].data)
        application = Application(
            cluster, prefetch_max_bytes=8 * batch, max_partition_fetch_bytes=2 * batch
        )
        application.assign([("orders", 0), ("orders", 1)])
        cluster.run(20 * SECOND)
        held = [state.buffered_bytes for state in application.subscriptions.states]
        assert all(2 * batch < size <= 4 * batch for size in held)

    def test_a_batch_larger_than_the_prefetch_limit_is_fetched(self) -> None:
        cluster, logs = one_topic()
        for _ in range(3):
            logs[ORDERS].append([(None, b"x" * 5000, [], 0)])
        application = Application(
            cluster, prefetch_max_bytes=1000, max_partition_fetch_bytes=100, fetch_max_bytes=100
        )
        application.assign([ORDERS])
        application.read(3)

    def test_a_busy_partition_does_not_starve_the_others(self) -> None:
        cluster, logs = one_topic(leaders=(1, 1))
        for _ in range(100):
            logs[ORDERS].append(numbered(0, 10))
        logs["orders", 1].append(numbered(0, 1))
        batch = len(logs[ORDERS].batches[0].data)
        application = Application(cluster, max_partition_fetch_bytes=2 * batch)
        application.assign([ORDERS, ("orders", 1)])
        application.read(100)
        assert (1, 0) in application.places


class TestOffsetQueries:
    def test_offsets_are_listed_by_time_and_for_both_ends(self) -> None:
        cluster, logs = one_topic(brokers=2, leaders=(1, 2))
        for partition in (0, 1):
            logs["orders", partition].append([(None, b"", [], 1000), (None, b"", [], 2000)])
        application = Application(cluster)
        queries = application.consumer.queries
        both = [ORDERS, TopicPartition("orders", 1)]
        for timestamp, expected in ((EARLIEST, 0), (LATEST, 2), (1500, 1), (3000, -1)):
            wanted = dict.fromkeys(both, timestamp)
            found = application.side.wait(partial(queries.list_offsets, wanted, 5000))
            assert {p: listed.offset for p, listed in found.items()} == dict.fromkeys(
                both, expected
            )
        assert application.side.wait(lambda: queries.watermarks(ORDERS, 5000)) == (0, 2)

    def test_lag_and_position_are_answered(self) -> None:
        cluster, logs = one_topic()
        logs[ORDERS].append(numbered(0, 10))
        application = Application(cluster)
        queries = application.consumer.queries
        application.assign([ORDERS])
        assert application.side.wait(lambda: queries.position(ORDERS, 5000)) == 0
        application.read(4)
        assert application.side.wait(lambda: queries.lag(ORDERS, 5000)) == 6

    def test_a_query_times_out_with_a_reason(self) -> None:
        cluster, _ = one_topic()
        application = Application(cluster)
        queries, wait = application.consumer.queries, application.side.wait
        nowhere, beyond = TopicPartition("nowhere", 0), TopicPartition("orders", 5)
        with pytest.raises(UnknownTopicOrPartition, match="topic nowhere does not exist"):
            wait(lambda: queries.list_offsets({nowhere: LATEST}, 3000))
        with pytest.raises(UnknownTopicOrPartition, match="has 1 partitions"):
            wait(lambda: queries.list_offsets({beyond: LATEST}, 3000))
        cluster[1].stop()
        with pytest.raises(ApiTimeout, match="orders-0"):
            wait(lambda: queries.watermarks(ORDERS, 3000))
