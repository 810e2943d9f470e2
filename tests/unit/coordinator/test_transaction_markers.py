"""The markers of decided transactions: where they go, and when they go again."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from odradek.coordinator.transaction.markers import (
    IN_FLIGHT,
    NO_LEADER,
    PARTITIONS_AT_ONCE,
    TransactionEnd,
    TransactionMarkers,
)
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Answered = Callable[[WriteTxnMarkersResponse | None], None]
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Sending:
    """Markers whose requests are kept; `leaders` is the metadata."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {A: 1, B: 2}
        self.sent: list[tuple[int, WriteTxnMarkersRequest, Answered]] = []
        self.soon: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []
        self.written: list[TransactionEnd] = []
        self.markers = TransactionMarkers(
            self.leaders.get,
            lambda node, request, answered: self.sent.append((node, request, answered)),
            self.soon.append,
            lambda delay_ms, function: self.later.append(function),
            self.written.append,
        )

    def write(self, *partitions: TopicPartition, name: str = "id", shard: int = 0) -> None:
        """Write the markers of one end in a turn of its own."""
        self.decide(*partitions, name=name, shard=shard)
        self.end_turn()

    def decide(self, *partitions: TopicPartition, name: str = "id", shard: int = 0) -> None:
        number = int(name[2:] or 1)
        self.markers.write(
            TransactionEnd(name, shard, 3, number, 5, True, 2, frozenset(partitions))
        )

    def end_turn(self) -> None:
        soon, self.soon[:] = list(self.soon), []
        for function in soon:
            function()

    def answer(self, error: ErrorCode | None = ErrorCode.NONE) -> int:
        """Answer the oldest request, for all its partitions; return its node. None: no answer."""
        node, request, answered = self.sent.pop(0)
        if error is None:
            answered(None)
            return node
        results = [
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
        answered(WriteTxnMarkersResponse(markers=results))
        return node

    def wait(self) -> None:
        later, self.later[:] = list(self.later), []
        for function in later:
            function()


def test_each_leader_gets_the_markers_of_its_partitions() -> None:
    sending = Sending()
    sending.write(A, B)
    assert [(node, len(request.markers)) for node, request, _ in sending.sent] == [(1, 1), (2, 1)]
    marker = sending.sent[0][1].markers[0]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (1, 5, 3)
    assert (marker.transaction_result, marker.transaction_version) == (True, 2)
    sending.answer()
    assert sending.markers.left("id") == frozenset({B})
    assert not sending.written
    sending.answer()
    assert [end.transactional_id for end in sending.written] == ["id"]
    assert sending.markers.left("id") is None


def test_the_decisions_of_one_turn_go_to_each_leader_in_one_request_after_it() -> None:
    sending = Sending()
    sending.decide(A, name="id1")
    sending.decide(A, B, name="id2")
    assert not sending.sent
    sending.end_turn()
    assert [(node, len(request.markers)) for node, request, _ in sending.sent] == [(1, 2), (2, 1)]


def test_a_shard_that_is_lost_in_the_turn_of_its_decision_sends_nothing() -> None:
    sending = Sending()
    sending.decide(A, shard=3)
    sending.markers.forget(3)
    sending.end_turn()
    assert not sending.sent


def test_a_transaction_without_partitions_is_written_at_once() -> None:
    sending = Sending()
    sending.write()
    assert len(sending.written) == 1


def test_a_marker_that_is_not_written_is_sent_again_to_the_leader_of_that_moment() -> None:
    sending = Sending()
    sending.write(A)
    for error in (None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        sending.answer(error)
        assert not sending.sent
        sending.leaders[A] += 1
        sending.wait()
    assert sending.answer() == 4
    assert len(sending.written) == 1


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    sending = Sending()
    sending.leaders[A] = NO_LEADER
    sending.write(A)
    sending.wait()
    assert not sending.sent
    sending.leaders[A] = 1
    sending.markers.metadata_changed()
    assert sending.answer() == 1


def test_a_deleted_partition_is_dropped() -> None:
    sending = Sending()
    sending.write(A, B)
    sending.answer()
    del sending.leaders[B]
    sending.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    sending.wait()
    assert len(sending.written) == 1


def test_a_fenced_coordinator_stops_and_a_fenced_producer_has_nothing_open() -> None:
    sending = Sending()
    sending.write(A)
    sending.answer(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    sending.wait()
    assert (sending.sent, sending.written, sending.markers.open_ends) == ([], [], 0)
    sending.write(A)
    sending.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert len(sending.written) == 1


def test_a_shard_that_is_led_elsewhere_is_forgotten() -> None:
    sending = Sending()
    sending.write(A, shard=1)
    sending.write(A, name="id2", shard=2)
    sending.markers.forget(1)
    sending.answer()
    sending.answer()
    assert [end.transactional_id for end in sending.written] == ["id2"]


def test_an_answer_to_a_former_leadership_says_nothing_of_the_present_one() -> None:
    sending = Sending()
    sending.write(A)
    sending.markers.forget(0)
    sending.write(A)
    sending.answer()
    assert not sending.written
    sending.answer()
    assert len(sending.written) == 1


def test_markers_that_wait_for_a_node_go_in_one_request() -> None:
    sending = Sending()
    for number in range(1, IN_FLIGHT + 11):
        sending.write(A, name=f"id{number}")
    assert len(sending.sent) == IN_FLIGHT
    sending.answer()
    assert len(sending.sent[-1][1].markers) == 10
    while sending.sent:
        sending.answer()
    assert len(sending.written) == IN_FLIGHT + 10


def test_a_request_that_is_answered_twice_while_others_are_in_flight_is_a_bug() -> None:
    sending = Sending()
    for number in range(1, IN_FLIGHT + 1):
        sending.write(A, name=f"id{number}")
    _, _, answered = sending.sent[0]
    answered(None)
    with pytest.raises(AssertionError, match="answered twice"):
        answered(None)


def test_a_large_transaction_goes_in_several_requests() -> None:
    sending = Sending()
    partitions = [TopicPartition("large", number) for number in range(PARTITIONS_AT_ONCE + 1)]
    sending.leaders.update(dict.fromkeys(partitions, 1))
    sending.write(*partitions)
    sizes = []
    while sending.sent:
        (marker,) = sending.sent[0][1].markers
        sizes.append(len(marker.topics[0].partition_indexes))
        sending.answer()
    assert sizes == [PARTITIONS_AT_ONCE, 1]
    assert len(sending.written) == 1


def test_markers_that_wait_for_room_in_flight_go_to_a_new_leader() -> None:
    sending = Sending()
    for number in range(1, IN_FLIGHT + 2):
        sending.write(A, name=f"id{number}")
    sending.leaders[A] = 2
    sending.markers.metadata_changed()
    assert [node for node, _, _ in sending.sent] == [1] * IN_FLIGHT + [2]


def test_an_error_that_this_version_does_not_know_has_the_marker_sent_again() -> None:
    sending = Sending()
    sending.write(A)
    sending.answer(cast("ErrorCode", 9_999))
    sending.wait()
    sending.answer()
    assert len(sending.written) == 1


def test_an_end_that_is_late_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    sending = Sending()
    sending.leaders[B] = NO_LEADER
    sending.write(A, B)
    sending.answer()
    sending.wait()
    assert not caplog.messages
    for _ in range(5):
        sending.wait()
    (message,) = caplog.messages
    assert "1 of its 2 partitions" in message
    assert message.endswith(": t-1")
    sending.leaders[B] = 2
    sending.markers.metadata_changed()
    sending.answer()
    sending.wait()
    assert not sending.later, "nothing is looked at that is written"
