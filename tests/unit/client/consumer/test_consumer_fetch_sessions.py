"""This side of incremental fetch sessions (KIP-227): what is named, what is taken back, and when a
session begins anew.
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
    """`orders=3, other=4, bills=5`: what is wanted, from these offsets on."""
    partitions = {"orders": ORDERS, "other": OTHER, "bills": BILLS}
    return {partitions[n]: at(offset, partitions[n]) for n, offset in offsets.items()}


class Talking:
    """A session, and a node that answers as a good one does."""

    def __init__(self, version: int = BY_ID) -> None:
        self.session = FetchSession(1)
        self.version = version

    def ask(self, partitions: dict[TopicPartition, PartitionFetch]) -> tuple[object, object]:
        """What is named, with offsets, and what is taken back."""
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

    def begun(self, **offsets: int) -> Talking:
        """With a session about these partitions."""
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


class TestBeginning:
    def test_the_first_fetch_names_all(self) -> None:
        talking = Talking()
        assert talking.header == (0, 0)
        assert talking.ask(wanted(orders=3, other=4, bills=5)) == (
            {IDS["orders"]: {0: 3, 1: 4}, IDS["bills"]: {0: 5}},
            {},
        )

    def test_the_nodes_answer_makes_the_session(self) -> None:
        talking = Talking().begun(orders=3)
        assert talking.header == (77, 1)

    def test_a_node_without_sessions_is_told_all_every_time(self) -> None:
        talking = Talking()
        for _ in range(3):
            assert talking.ask(wanted(orders=3))[0] == {IDS["orders"]: {0: 3}}
            assert talking.answer(ORDERS, session_id=0) is None
            assert talking.header == (0, 0)

    def test_what_is_asked_of_a_partition_is_all_said(self) -> None:
        [topic], _ = FetchSession(1).next_request({ORDERS: at(3)}, BY_ID)
        [partition] = topic.partitions
        assert (partition.fetch_offset, partition.partition_max_bytes) == (3, 1000)
        assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (5, 4)

    def test_the_epoch_of_the_last_record_is_not_told_to_who_does_not_know_it(self) -> None:
        [topic], _ = FetchSession(1).next_request({ORDERS: at(3)}, 11)
        assert topic.partitions[0].last_fetched_epoch == -1


class TestGoingOn:
    def test_what_stands_where_it_stood_is_not_named_again(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        assert talking.ask(wanted(orders=3, other=4)) == ({}, {})

    def test_what_moved_is(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        assert talking.ask(wanted(orders=3, other=9)) == ({IDS["orders"]: {1: 9}}, {})

    def test_what_is_new_is(self) -> None:
        talking = Talking().begun(orders=3)
        assert talking.ask(wanted(orders=3, bills=0)) == ({IDS["bills"]: {0: 0}}, {})

    def test_a_new_leader_epoch_is_news(self) -> None:
        talking = Talking().begun(orders=3)
        again = {ORDERS: at(3)._replace(current_leader_epoch=6)}
        assert talking.ask(again) == ({IDS["orders"]: {0: 3}}, {})

    def test_what_is_not_wanted_any_more_is_taken_back(self) -> None:
        talking = Talking().begun(orders=3, other=4, bills=5)
        assert talking.ask(wanted(orders=3)) == ({}, {IDS["orders"]: [1], IDS["bills"]: [0]})
        assert talking.answer() is None
        assert talking.ask(wanted(orders=3)) == ({}, {}), "once"

    def test_what_comes_back_is_new(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3))
        talking.answer()
        assert talking.ask(wanted(orders=3, other=4)) == ({IDS["orders"]: {1: 4}}, {})

    def test_a_topic_that_was_made_anew_is_another_one(self) -> None:
        talking = Talking().begun(orders=3)
        new = UUID(int=9)
        assert talking.ask({ORDERS: at(3, topic_id=new)}) == (
            {new: {0: 3}},
            {IDS["orders"]: [0]},
        )
        assert talking.session.name_of("", new) == "orders"
        assert talking.session.name_of("", IDS["orders"]) is None

    def test_an_answer_may_tell_of_some_or_of_none(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        for expected, about in ((2, [ORDERS]), (3, []), (4, [ORDERS, OTHER])):
            talking.ask(wanted(orders=3, other=4))
            assert talking.answer(*about) is None
            assert talking.header == (77, expected)

    def test_epochs_count_requests_and_wrap_to_one(self) -> None:
        assert [next_epoch(1), next_epoch(EPOCH_MAX - 1), next_epoch(EPOCH_MAX)] == [
            2,
            EPOCH_MAX,
            1,
        ]
        talking = Talking().begun(orders=3)
        talking.session.epoch = EPOCH_MAX
        talking.ask(wanted(orders=3))
        talking.answer()
        assert talking.header == (77, 1), "0 would begin a session"


class TestNames:
    def test_topics_go_by_name_to_an_older_node(self) -> None:
        talking = Talking(BY_NAME).begun(orders=3, bills=5)
        assert talking.ask(wanted(orders=4)) == ({"orders": {0: 4}}, {"bills": [0]})
        assert talking.session.name_of("orders", ZERO_UUID) == "orders"
        assert talking.session.name_of("", ZERO_UUID) is None

    @pytest.mark.parametrize(("before", "after"), [(BY_NAME, BY_ID), (BY_ID, BY_NAME)])
    def test_names_and_ids_do_not_mix_in_one_session(self, before: int, after: int) -> None:
        talking = Talking(before).begun(orders=3, bills=5)
        talking.version = after
        topics, forgotten = talking.ask(wanted(orders=3, bills=5))
        assert isinstance(topics, dict) and len(topics) == 2
        assert forgotten == {}
        assert talking.header == (77, 0), "a new session, which closes the old one"


class TestBeginningAnew:
    def check(self, talking: Talking, session_id: int) -> None:
        """The next fetch names all, and is the first of a session."""
        assert talking.header == (session_id, 0)
        assert talking.ask(wanted(orders=3, other=4)) == ({IDS["orders"]: {0: 3, 1: 4}}, {})
        assert talking.answer(ORDERS, OTHER, session_id=78) is None
        assert talking.header == (78, 1)

    def test_when_the_node_does_not_know_the_session(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3, other=4))
        problem = talking.answer(code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
        assert problem == "FETCH_SESSION_ID_NOT_FOUND"
        self.check(talking, 0)

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
    )
    def test_when_the_node_cannot_go_on_with_it_and_closes_it(self, code: ErrorCode) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3, other=4))
        assert talking.answer(code=code, session_id=0) == code.name
        self.check(talking, 77)

    def test_when_no_answer_came(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3, other=5))
        talking.session.failed()
        self.check(talking, 77)

    def test_when_the_answer_is_about_something_else(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3, other=4))
        problem = talking.answer(BILLS)
        assert problem is not None and "bills-0" in problem
        self.check(talking, 77)

    def test_when_the_answer_is_of_another_session(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3, other=4))
        problem = talking.answer(session_id=99)
        assert problem is not None and "session 99, not 77" in problem
        self.check(talking, 77)

    def test_when_a_full_answer_leaves_something_out(self) -> None:
        talking = Talking()
        talking.ask(wanted(orders=3, other=4))
        problem = talking.answer(ORDERS)
        assert problem is not None and "orders-1" in problem
        self.check(talking, 0)

    def test_when_the_node_ends_it(self) -> None:
        talking = Talking().begun(orders=3, other=4)
        talking.ask(wanted(orders=3, other=4))
        assert talking.answer(ORDERS, session_id=0) is None, "its answer is good"
        self.check(talking, 0)


class TestEnding:
    def test_a_session_is_ended_so_that_the_node_forgets_it(self) -> None:
        request = Talking().begun(orders=3).session.closing_request()
        assert request is not None
        assert (request.session_id, request.session_epoch) == (77, -1)
        assert (request.topics, request.max_wait_ms) == ([], 0)

    def test_without_one_there_is_nothing_to_end(self) -> None:
        assert Talking().session.closing_request() is None
