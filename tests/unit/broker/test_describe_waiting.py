"""DescribeWaiting: what it shows, in pages and slices, and that looking changes nothing."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.context import DelayedResponse
from odradek.broker.waiting import LOOKED_AT_ONCE, MOST_ROWS, Described, describe_waiting
from odradek.model.errors import ErrorCode
from odradek.protocol.api.describe_waiting import (
    DescribeWaitingRequest,
    DescribeWaitingResponse,
    KindCount,
)
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.api.list_groups import ListGroupsRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.api.sync_group import SyncGroupRequest
from odradek.replication.fetch import DelayedFetch
from odradek.timing import SystemTimer
from unit.broker.group_requests import joining, serving, stable_member, with_id
from unit.broker.memory_broker import MemoryBroker, SentRequest


class FakeConnection:
    """The requests of one client, in the order they were sent."""

    def __init__(self, sent: Sequence[SentRequest] = ()) -> None:
        self.sent = list(sent)

    def waiting(self) -> list[SentRequest]:
        return [each for each in self.sent if each.waiting is not None]


def fetch(topic: str, offset: int = 0, wait_ms: int = 1000) -> FetchRequest:
    """A fetch that waits for a record."""
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1000, current_leader_epoch=-1
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
        forgotten_topics_data=[],
    )


class Watched:
    """A broker whose requests are listed as those of one connection."""

    def __init__(self, **given: str) -> None:
        self.node = serving(**given)
        self.connection = FakeConnection()
        sockets: Any = self.node.node.sockets
        sockets.connections = {1: self.connection}

    def send(self, request: Any, version: int) -> SentRequest:
        sent = self.node.send(request, version)
        self.connection.sent.append(sent)
        return sent

    def ask(self, **wanted: Any) -> DescribeWaitingResponse:
        """Ask without the limit of answers a second."""
        self.node.pass_time(200)
        return self.node.call(DescribeWaitingRequest(**wanted), 0, DescribeWaitingResponse)

    def look(self, **wanted: Any) -> DescribeWaitingResponse:
        """Look at once, without time that passes."""
        broker = self.node.node.broker
        return drained(
            describe_waiting(broker, [self.connection], DescribeWaitingRequest(**wanted))
        )[1]


def drained(slices: Described) -> tuple[int, DescribeWaitingResponse]:
    """Run all slices; return how many there were, and the response."""
    count = 1
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return count, end.value
        count += 1


def counts(found: Sequence[KindCount]) -> dict[str, int]:
    return {each.kind: each.count for each in found if each.count}


# -- what is shown ---------------------------------------------------------------------------------


def test_a_fetch_shows_its_client_its_partition_and_its_times() -> None:
    watched = Watched()
    watched.node.create("flights")
    watched.send(fetch("flights", wait_ms=1000), 11)
    watched.node.pass_time(100)
    (row,) = watched.ask(operations_limit=10).operations
    assert (row.kind, row.client_id, row.host, row.port) == ("Fetch", "test", "127.0.0.1", 50_000)
    assert (row.keys, row.key_count) == (["flights-0"], 1)
    assert (row.waited_ms, row.left_ms) == (300, 700)


def test_a_join_and_a_sync_show_their_group_and_the_time_left() -> None:
    watched = Watched(group_initial_rebalance_delay_ms="3000")
    node = watched.node
    first, second = with_id(node, joining("g", "t")), with_id(node, joining("g", "t"))
    joins = [watched.send(first, 9), watched.send(second, 9)]
    node.pass_time(1000)
    rows = watched.look(operations_limit=10).operations
    assert [(row.kind, row.keys, row.left_ms) for row in rows] == [("JoinGroup", ["g"], 2000)] * 2
    assert [row.waited_ms for row in rows] == [1000, 1000]
    node.pass_time(2000)
    answers = [each.answer(JoinGroupResponse) for each in joins]
    follower = next(each for each in answers if each.member_id != each.leader)
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=follower.generation_id,
        member_id=follower.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    watched.send(sync, 5)
    (row,) = watched.look(operations_limit=10).operations
    assert (row.kind, row.keys) == ("SyncGroup", ["g"]) and 0 < row.left_ms <= 1000


def test_a_produce_that_waits_for_the_disk_is_listed_until_it_is_answered() -> None:
    watched = Watched()
    watched.node.create("t")
    watched.connection.sent.append(watched.node.produce("t"))
    found = watched.look(operations_limit=10)
    assert [(row.kind, row.keys, row.left_ms) for row in found.operations] == [
        ("Produce", ["t-0"], 30_000)
    ]
    watched.node.run_until_idle()
    assert watched.look(operations_limit=10).operations == []


def test_operations_are_filtered_by_kind_and_read_in_pages() -> None:
    watched = Watched()
    watched.node.create("t")
    for _ in range(5):
        watched.send(fetch("t", wait_ms=60_000), 11)
    watched.connection.sent.append(watched.node.produce("t", acks=-1))
    found = watched.look(operations_limit=2, operations_offset=4, kinds=["Fetch", "Produce"])
    assert found.operations_total == 6
    assert [row.kind for row in found.operations] == ["Fetch", "Produce"]
    only = watched.look(operations_limit=10, operations_offset=3, kinds=["Fetch"])
    assert (only.operations_total, len(only.operations)) == (5, 2)
    assert counts(only.waiting) == {"Fetch": 5, "Produce": 1}


def test_the_request_itself_is_not_among_what_waits() -> None:
    watched = Watched()
    asked = watched.send(DescribeWaitingRequest(operations_limit=10), 0)
    watched.node.run_until_idle()
    assert asked.answer(DescribeWaitingResponse).operations == []


def latest(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )


def test_timers_are_shown_by_level_and_by_kind() -> None:
    watched = Watched()
    stable_member(watched.node, "g", "t")
    watched.node.create("t")
    watched.send(fetch("t", wait_ms=60_000), 11)
    watched.node.produce("t", acks=1)
    watched.send(latest("t"), 7)  # it waits for the commit of that record
    found = watched.look()
    timer: SystemTimer = watched.node.timer
    shown = [bucket for level in found.levels for bucket in level.buckets]
    assert sum(bucket.count for bucket in shown) == timer.size
    assert [(level.tick_ms, level.size) for level in found.levels][:3] == [
        (1, 20),
        (20, 20),
        (400, 20),
    ]
    for level in found.levels:
        expirations = [bucket.expires_in_ms for bucket in level.buckets]
        assert expirations == sorted(expirations)
    by_kind = counts(found.timers)
    assert (by_kind["Fetch"], by_kind["heartbeat"], by_kind["expire-offsets"]) == (1, 1, 2)
    assert by_kind["ListOffsets"] == 1
    assert sum(by_kind.values()) == timer.size


def test_transitions_of_groups_are_read_from_the_newest_back() -> None:
    watched = Watched()
    stable_member(watched.node, "g", "t")
    found = watched.look(transitions_limit=2)
    assert found.transitions_total == 3
    assert [(each.number, each.to_state) for each in found.transitions] == [
        (2, "Stable"),
        (1, "CompletingRebalance"),
    ]
    before = watched.look(transitions_limit=10, transitions_before=1).transitions
    assert [(each.group_id, each.from_state, each.to_state) for each in before] == [
        ("g", "Empty", "PreparingRebalance")
    ]
    assert "joins" in before[0].reason


def test_segments_and_durable_ends_are_read_in_pages_and_by_topic() -> None:
    watched = Watched(log_segment_bytes="1048576")
    node = watched.node
    node.create("big", partitions=2)
    node.create("small")
    for _ in range(3):
        assert node.produce_and_wait("big", size=600_000) == 0
    found = watched.look(topics=["big", "small"], segments_limit=100, durable_ends_limit=100)
    of_big = [each for each in found.segments if (each.topic, each.partition) == ("big", 0)]
    assert [(each.base_offset, each.active) for each in of_big] == [
        (0, False),
        (1, False),
        (2, True),
    ]
    assert all(each.size > 600_000 for each in of_big)
    assert found.segments_total == 5
    page = watched.look(topics=["big"], segments_limit=2, segments_offset=1)
    assert [each.base_offset for each in page.segments] == [1, 2]
    assert (page.segments_total, page.durable_ends) == (4, [])
    ends = {(each.topic, each.partition): each for each in found.durable_ends}
    assert found.durable_ends_total == len(ends) == 3
    big = ends["big", 0]
    assert (big.segments, big.log_start, big.durable_end, big.log_end) == (3, 0, 3, 3)
    assert (big.high_watermark, big.error_code) == (3, 0)


def test_an_offline_partition_has_its_error_and_no_offsets() -> None:
    watched = Watched()
    watched.node.create("t")
    watched.node.node.replicas.by_name["t", 0].close(ErrorCode.KAFKA_STORAGE_ERROR)
    found = watched.look(topics=["t"], durable_ends_limit=10, segments_limit=10)
    assert [(each.error_code, each.log_end) for each in found.durable_ends] == [
        (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    ]
    assert found.segments == []


# -- limits ----------------------------------------------------------------------------------------


def test_an_answer_has_a_limited_number_of_rows_of_all_lists_together() -> None:
    watched = Watched()
    watched.node.create("t", partitions=30)
    watched.node.create("u")
    for _ in range(MOST_ROWS - 10):
        watched.send(fetch("u", wait_ms=60_000), 11)
    found = watched.look(
        operations_limit=MOST_ROWS - 10, segments_limit=1000, durable_ends_limit=1000
    )
    assert len(found.operations) == MOST_ROWS - 10
    assert (len(found.segments), len(found.durable_ends)) == (10, 0)
    assert watched.look(operations_limit=2**31 - 1, operations_offset=-5).operations_total == 490


def test_the_sixth_answer_of_a_second_is_refused_with_the_time_to_wait() -> None:
    node = serving()
    for _ in range(5):
        assert node.call(DescribeWaitingRequest(), 0, DescribeWaitingResponse).error_code == 0
        node.pass_time(100)
    refused = node.call(DescribeWaitingRequest(), 0, DescribeWaitingResponse)
    assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms == 500
    node.pass_time(500)
    assert node.call(DescribeWaitingRequest(), 0, DescribeWaitingResponse).error_code == 0


def test_many_waiting_requests_are_looked_at_in_slices() -> None:
    watched = Watched()
    watched.node.create("t")
    waiting = watched.send(fetch("t", wait_ms=60_000), 11)
    many = [FakeConnection([waiting] * 50) for _ in range(2000)]  # 100,000 requests
    broker = watched.node.node.broker
    slices = describe_waiting(broker, many, DescribeWaitingRequest(operations_limit=10))
    looks, found = drained(slices)
    assert looks >= 2000 * 51 // (LOOKED_AT_ONCE + 51)
    assert counts(found.waiting) == {"Fetch": 100_000}


def test_others_are_served_between_the_slices() -> None:
    watched = Watched()
    watched.node.create("t")
    waiting = watched.send(fetch("t", wait_ms=60_000), 11)
    sockets: Any = watched.node.node.sockets
    sockets.connections = {n: FakeConnection([waiting] * 64) for n in range(100)}
    asked = watched.node.send(DescribeWaitingRequest(operations_limit=10), 0)
    watched.node.run_round()
    assert asked.parts is None
    other = watched.node.send(ListGroupsRequest(), 4)
    assert other.parts is not None
    watched.node.run_until_idle()
    assert asked.answer(DescribeWaitingResponse).operations_total == 6400


def test_a_client_that_disconnects_ends_the_work_for_it() -> None:
    watched = Watched()
    watched.node.create("t")
    waiting = watched.send(fetch("t", wait_ms=60_000), 11)
    sockets: Any = watched.node.node.sockets
    sockets.connections = {n: FakeConnection([waiting] * 64) for n in range(100)}
    asked = watched.node.send(DescribeWaitingRequest(operations_limit=10), 0)
    assert asked.abandoned is not None
    asked.abandoned()
    watched.node.run_until_idle()
    assert asked.parts is None and asked.closed is None


# -- it only looks ---------------------------------------------------------------------------------


def delayed_fetches() -> int:
    """The number of operations that are alive. (A compiled one takes no weak reference.)"""
    gc.collect()
    return sum(type(each) is DelayedFetch for each in gc.get_objects())


def test_a_request_that_is_answered_meanwhile_is_not_kept() -> None:
    others = delayed_fetches()
    watched = Watched()
    watched.node.create("t")
    sent = watched.send(fetch("t", wait_ms=60_000), 11)
    assert isinstance(sent.waiting, DelayedResponse)
    assert delayed_fetches() == others + 1
    many = [watched.connection] + [FakeConnection([])] * 2 * LOOKED_AT_ONCE
    broker = watched.node.node.broker
    slices = describe_waiting(broker, many, DescribeWaitingRequest(operations_limit=10))
    next(slices)
    watched.node.produce("t")
    watched.node.run_until_idle()
    assert sent.parts is not None
    watched.node.pass_time(1)
    assert delayed_fetches() == others
    slices.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fetch"), st.integers(1, 3000)),
        st.tuples(st.just("produce"), st.integers(1, 3)),
        st.tuples(st.just("join"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.integers(0, 1500)),
        st.tuples(st.just("round"), st.just(0)),
    ),
    max_size=30,
)


def played(steps: Sequence[tuple[str, int]], look: bool) -> list[Any]:
    """Play requests and time; return every answer with its bytes, in the order they were sent."""
    watched = Watched(group_initial_rebalance_delay_ms="1000")
    node = watched.node
    node.create("t")
    order: list[int] = []
    sent: list[SentRequest] = []

    def keep(request: SentRequest) -> None:
        number, respond = len(sent), request.respond

        def noted(parts: Sequence[Any]) -> None:
            order.append(number)
            order.append(node.clock.passed_ms)
            respond(parts)

        if request.parts is None:
            request.respond = noted  # type: ignore[method-assign]  # It calls the method.
        sent.append(request)

    for what, number in steps:
        if what == "fetch":
            keep(watched.send(fetch("t", 1_000_000, wait_ms=number), 11))
        elif what == "produce":
            keep(node.produce("t", count=number))
            watched.connection.sent.append(sent[-1])
        elif what == "join":
            keep(watched.send(with_id(node, joining(f"g{number}", "t")), 9))
        elif what == "pass":
            node.pass_time(number)
        else:
            node.run_round()
        if look:
            watched.look(operations_limit=100, transitions_limit=100, segments_limit=50)
            watched.look(operations_offset=1, operations_limit=1, durable_ends_limit=50)
    node.pass_time(10_000)
    size = node.timer.size
    answers = [None if each.parts is None else b"".join(map(bytes, each.parts)) for each in sent]
    return [order, answers, size, [each.number for each in look_at(node)]]


def look_at(node: MemoryBroker) -> list[Any]:
    noted = node.node.groups.transitions
    return noted.newest_before(noted.total, 1000)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_looking_completes_reorders_and_keeps_nothing(steps: list[tuple[str, int]]) -> None:
    assert played(steps, look=True) == played(steps, look=False)
