"""The client's side of fetch sessions (KIP-227): which partitions a fetch names or forgets, and
when a session begins anew.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.client.consumer.fetch.session import (
    EPOCH_MAX,
    FetchSession,
    PartitionFetch,
    next_epoch,
)
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition
from odradek.protocol.api.fetch import FetchResponse, FetchTopic, ForgottenTopic

BY_NAME, BY_ID = 12, 13
IDS = {"orders": UUID(int=1), "bills": UUID(int=2)}
ORDERS, OTHER, BILLS = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("bills", 0),
)


def at(
    offset: int, partition: TopicPartition = ORDERS, topic_id: UUID | None = None
) -> PartitionFetch:
    return PartitionFetch(topic_id or IDS[partition.topic], offset, 1000, 5, 4)


def wanted(**offsets: int) -> dict[TopicPartition, PartitionFetch]:
    """`orders=3, other=4, bills=5`: the partitions to fetch, with their fetch offsets."""
    partitions = {"orders": ORDERS, "other": OTHER, "bills": BILLS}
    return {partitions[n]: at(offset, partitions[n]) for n, offset in offsets.items()}


class SessionWithBroker:
    """A session, and a broker that answers correctly."""

    def __init__(self, version: int = BY_ID) -> None:
        self.session = FetchSession(1)
        self.version = version

    def ask(self, partitions: dict[TopicPartition, PartitionFetch]) -> tuple[object, object]:
        """The partitions that a request names, with offsets, and those it forgets."""
        topics, forgotten = self.session.next_request(partitions, self.version)
        return named(topics), taken_back(forgotten)

    def answer(
        self, *about: TopicPartition, session_id: int = 77, code: ErrorCode = ErrorCode.NONE
    ) -> str | None:
        response = FetchResponse(error_code=code, session_id=session_id, responses=[])
        return self.session.handle_response(response, about)

    @property
    def header(self) -> tuple[int, int]:
        return self.session.session_id, self.session.epoch

    def begun(self, **offsets: int) -> SessionWithBroker:
        """Begin a session with these partitions."""
        partitions = wanted(**offsets)
        self.ask(partitions)
        assert self.answer(*partitions) is None
        return self


def named(topics: list[FetchTopic]) -> dict[object, dict[int, int]]:
    return {
        topic.topic or topic.topic_id: {p.partition: p.fetch_offset for p in topic.partitions}
        for topic in topics
    }


def taken_back(topics: list[ForgottenTopic]) -> dict[object, list[int]]:
    return {topic.topic or topic.topic_id: list(topic.partitions) for topic in topics}


class TestFullFetch:
    def test_the_first_fetch_names_every_partition(self) -> None:
        exchange = SessionWithBroker()
        assert exchange.header == (0, 0)
        assert exchange.ask(wanted(orders=3, other=4, bills=5)) == (
            {IDS["orders"]: {0: 3, 1: 4}, IDS["bills"]: {0: 5}},
            {},
        )

    def test_the_first_response_begins_the_session(self) -> None:
        exchange = SessionWithBroker().begun(orders=3)
        assert exchange.header == (77, 1)

    def test_every_fetch_is_full_if_the_broker_makes_no_session(self) -> None:
        exchange = SessionWithBroker()
        for _ in range(3):
            assert exchange.ask(wanted(orders=3))[0] == {IDS["orders"]: {0: 3}}
            assert exchange.answer(ORDERS, session_id=0) is None
            assert exchange.header == (0, 0)

    def test_a_fetch_has_every_field_of_a_partition(self) -> None:
        [topic], _ = FetchSession(1).next_request({ORDERS: at(3)}, BY_ID)
        [partition] = topic.partitions
        assert (partition.fetch_offset, partition.partition_max_bytes) == (3, 1000)
        assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (5, 4)

    def test_the_last_fetched_epoch_is_left_out_before_version_12(self) -> None:
        [topic], _ = FetchSession(1).next_request({ORDERS: at(3)}, 11)
        assert topic.partitions[0].last_fetched_epoch == -1


class TestIncrementalFetch:
    def test_an_unchanged_partition_is_not_named_again(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        assert exchange.ask(wanted(orders=3, other=4)) == ({}, {})

    def test_a_partition_with_a_new_offset_is_named(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        assert exchange.ask(wanted(orders=3, other=9)) == ({IDS["orders"]: {1: 9}}, {})

    def test_a_new_partition_is_named(self) -> None:
        exchange = SessionWithBroker().begun(orders=3)
        assert exchange.ask(wanted(orders=3, bills=0)) == ({IDS["bills"]: {0: 0}}, {})

    def test_a_partition_with_a_new_leader_epoch_is_named(self) -> None:
        exchange = SessionWithBroker().begun(orders=3)
        again = {ORDERS: at(3)._replace(current_leader_epoch=6)}
        assert exchange.ask(again) == ({IDS["orders"]: {0: 3}}, {})

    def test_a_partition_no_longer_fetched_is_forgotten(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4, bills=5)
        assert exchange.ask(wanted(orders=3)) == ({}, {IDS["orders"]: [1], IDS["bills"]: [0]})
        assert exchange.answer() is None
        assert exchange.ask(wanted(orders=3)) == ({}, {}), "once"

    def test_a_partition_fetched_again_is_named(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3))
        exchange.answer()
        assert exchange.ask(wanted(orders=3, other=4)) == ({IDS["orders"]: {1: 4}}, {})

    def test_a_recreated_topic_forgets_its_old_id(self) -> None:
        exchange = SessionWithBroker().begun(orders=3)
        new = UUID(int=9)
        assert exchange.ask({ORDERS: at(3, topic_id=new)}) == (
            {new: {0: 3}},
            {IDS["orders"]: [0]},
        )
        assert exchange.session.name_of("", new) == "orders"
        assert exchange.session.name_of("", IDS["orders"]) is None

    def test_a_response_may_have_some_partitions_or_none(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        for expected, about in ((2, [ORDERS]), (3, []), (4, [ORDERS, OTHER])):
            exchange.ask(wanted(orders=3, other=4))
            assert exchange.answer(*about) is None
            assert exchange.header == (77, expected)

    def test_epochs_count_requests_and_wrap_around_to_one(self) -> None:
        assert [next_epoch(1), next_epoch(EPOCH_MAX - 1), next_epoch(EPOCH_MAX)] == [
            2,
            EPOCH_MAX,
            1,
        ]
        exchange = SessionWithBroker().begun(orders=3)
        exchange.session.epoch = EPOCH_MAX
        exchange.ask(wanted(orders=3))
        exchange.answer()
        assert exchange.header == (77, 1), "0 would begin a session"


class TestNames:
    def test_topics_go_by_name_to_an_older_broker(self) -> None:
        exchange = SessionWithBroker(BY_NAME).begun(orders=3, bills=5)
        assert exchange.ask(wanted(orders=4)) == ({"orders": {0: 4}}, {"bills": [0]})
        assert exchange.session.name_of("orders", ZERO_UUID) == "orders"
        assert exchange.session.name_of("", ZERO_UUID) is None

    @pytest.mark.parametrize(("before", "after"), [(BY_NAME, BY_ID), (BY_ID, BY_NAME)])
    def test_a_change_between_names_and_ids_begins_a_new_session(
        self, before: int, after: int
    ) -> None:
        exchange = SessionWithBroker(before).begun(orders=3, bills=5)
        exchange.version = after
        topics, forgotten = exchange.ask(wanted(orders=3, bills=5))
        assert isinstance(topics, dict) and len(topics) == 2
        assert forgotten == {}
        assert exchange.header == (77, 0), "a new session, which closes the old one"


class TestNewSession:
    def check(self, exchange: SessionWithBroker, session_id: int) -> None:
        """The next fetch is full and begins a session."""
        assert exchange.header == (session_id, 0)
        assert exchange.ask(wanted(orders=3, other=4)) == ({IDS["orders"]: {0: 3, 1: 4}}, {})
        assert exchange.answer(ORDERS, OTHER, session_id=78) is None
        assert exchange.header == (78, 1)

    def test_an_unknown_session_makes_the_next_fetch_full(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3, other=4))
        problem = exchange.answer(code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
        assert problem == "FETCH_SESSION_ID_NOT_FOUND"
        self.check(exchange, 0)

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
    )
    def test_a_session_error_makes_the_next_fetch_full_and_closes_the_session(
        self, code: ErrorCode
    ) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3, other=4))
        assert exchange.answer(code=code, session_id=0) == code.name
        self.check(exchange, 77)

    def test_a_failed_request_makes_the_next_fetch_full(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3, other=5))
        exchange.session.failed()
        self.check(exchange, 77)

    def test_a_response_with_other_partitions_makes_the_next_fetch_full(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3, other=4))
        problem = exchange.answer(BILLS)
        assert problem is not None and "bills-0" in problem
        self.check(exchange, 77)

    def test_a_response_of_another_session_makes_the_next_fetch_full(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3, other=4))
        problem = exchange.answer(session_id=99)
        assert problem is not None and "session 99, not 77" in problem
        self.check(exchange, 77)

    def test_a_full_response_that_lacks_a_partition_makes_the_next_fetch_full(self) -> None:
        exchange = SessionWithBroker()
        exchange.ask(wanted(orders=3, other=4))
        problem = exchange.answer(ORDERS)
        assert problem is not None and "orders-1" in problem
        self.check(exchange, 0)

    def test_a_session_that_the_broker_ends_makes_the_next_fetch_full(self) -> None:
        exchange = SessionWithBroker().begun(orders=3, other=4)
        exchange.ask(wanted(orders=3, other=4))
        assert exchange.answer(ORDERS, session_id=0) is None, "its answer is good"
        self.check(exchange, 0)


class TestClosingRequest:
    def test_closing_request_ends_the_session(self) -> None:
        request = SessionWithBroker().begun(orders=3).session.closing_request()
        assert request is not None
        assert (request.session_id, request.session_epoch) == (77, -1)
        assert (request.topics, request.max_wait_ms) == ([], 0)

    def test_there_is_no_closing_request_without_a_session(self) -> None:
        assert SessionWithBroker().session.closing_request() is None
