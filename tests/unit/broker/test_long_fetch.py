"""Fetches of thousands of partitions are planned, read and answered in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from odradek.broker.dispatch import FETCH_FRAME_BYTES
from odradek.broker.handlers.fetch import AT_ONCE, SLICE
from odradek.log.memory_disk import MemoryFile
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.hot_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from unit.broker.memory_broker import MemoryBroker, SentRequest

MANY = AT_ONCE + SLICE + 1
VERSION = 12


@pytest.fixture(scope="module")
def created() -> MemoryBroker:
    """A node with a topic of many partitions."""
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    return serving


def fetch(
    numbers: Iterable[int] = range(MANY), *, wait_ms: int = 0, session: tuple[int, int] = (0, -1)
) -> FetchRequest:
    listed = [
        FetchPartition(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        for number in numbers
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="t", partitions=listed)] if listed else [],
        forgotten_topics_data=[],
    )


def rounds_of(serving: MemoryBroker, asked: SentRequest) -> int:
    """Run until a request is answered; return how many turns that took."""
    rounds = 0
    while not asked.answered:
        assert serving.soon, "it waits"
        serving.run_round()
        rounds += 1
    return rounds


def with_records(asked: SentRequest) -> list[int]:
    """The partitions of the answer that have records."""
    return [
        partition.partition_index
        for topic in asked.answer(FetchResponse).responses
        for partition in topic.partitions
        if partition.records
    ]


def test_a_fetch_of_many_partitions_is_answered_in_slices_and_in_their_order() -> None:
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    for number in (MANY - 1, 700, 3):
        assert serving.produce_and_wait("t", index=number) == 0
    order = [5, *range(MANY - 1, 5, -1), *range(5)]
    asked = serving.send(fetch(order, wait_ms=500), VERSION)
    assert asked.held, "the next request of the connection waits"
    assert rounds_of(serving, asked) > 2 * MANY // SLICE
    assert not asked.held
    listed = [each.partition_index for each in asked.answer(FetchResponse).responses[0].partitions]
    assert listed == order
    assert with_records(serving_again(serving, order)) == [MANY - 1, 700, 3]


def serving_again(serving: MemoryBroker, order: list[int]) -> SentRequest:
    asked = serving.send(fetch(order), VERSION)
    serving.run_until_idle()
    return asked


def test_a_fetch_of_few_partitions_is_answered_at_once(created: MemoryBroker) -> None:
    assert created.send(fetch(range(AT_ONCE)), VERSION).answered


def test_a_response_is_no_larger_than_fetch_max_bytes_of_the_broker_allows() -> None:
    serving = MemoryBroker(fetch_max_bytes="1024")
    serving.create("t", partitions=3)
    for number in range(3):
        assert serving.produce_and_wait("t", index=number, size=400) == 0
    asked = serving.send(fetch(range(3)), VERSION)
    assert with_records(asked) == [0, 1], "a third batch would exceed 1024 bytes"


def test_others_are_served_between_the_slices(created: MemoryBroker) -> None:
    asked = created.send(fetch(), VERSION)
    created.run_round()
    assert created.send(fetch([1]), VERSION).answered
    assert not asked.answered
    created.run_until_idle()
    assert asked.answered


def test_a_long_fetch_waits_for_records_and_reads_again() -> None:
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    asked = serving.send(fetch(wait_ms=500), VERSION)
    serving.run_until_idle()
    assert not asked.answered
    assert not asked.held
    assert asked.waiting is not None
    assert serving.produce_and_wait("t", index=MANY - 2) == 0
    assert with_records(asked) == [MANY - 2]


def test_a_long_fetch_that_finds_nothing_ends_at_its_deadline(created: MemoryBroker) -> None:
    asked = created.send(fetch(wait_ms=500), VERSION)
    created.run_until_idle()
    created.pass_time(499)
    assert not asked.answered
    created.pass_time(1)
    created.run_until_idle()
    assert with_records(asked) == []


def test_a_session_of_many_partitions_answers_what_has_changed() -> None:
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    first = serving.send(fetch(session=(0, 0)), VERSION)
    serving.run_until_idle()
    answer = first.answer(FetchResponse)
    assert len(answer.responses[0].partitions) == MANY
    asked = serving.send(fetch((), wait_ms=500, session=(answer.session_id, 1)), VERSION)
    serving.run_until_idle()
    assert serving.produce_and_wait("t", index=9) == 0
    (topic,) = asked.answer(FetchResponse).responses
    assert [each.partition_index for each in topic.partitions] == [9]


def test_a_client_that_disconnects_is_not_answered_and_leaves_nothing_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pins = [0]

    def counted(method: Callable[[MemoryFile], None], one: int) -> Callable[[MemoryFile], None]:
        def call(file: MemoryFile) -> None:
            pins[0] += one
            method(file)

        return call

    monkeypatch.setattr(MemoryFile, "pin", counted(MemoryFile.pin, 1))
    monkeypatch.setattr(MemoryFile, "unpin", counted(MemoryFile.unpin, -1))
    serving = MemoryBroker()
    serving.create("t", partitions=MANY)
    assert serving.produce_and_wait("t", index=0) == 0
    before = pins[0]  # of the log's own
    for rounds in range(100):
        asked = serving.send(fetch(wait_ms=500), VERSION)
        for _ in range(rounds):
            serving.run_round()
        if asked.answered:
            break
        assert asked.abandoned is not None
        asked.abandoned()
        serving.run_until_idle()
        assert not asked.answered
        assert pins[0] == before
    assert rounds > 10
    assert with_records(asked) == [0]
    assert pins[0] == before


def test_a_frame_of_many_partitions_is_decoded_in_slices(created: MemoryBroker) -> None:
    unknown = range(MANY, MANY + 9_000)
    asked = created.send(fetch(unknown, wait_ms=500), VERSION)
    assert len(asked.frame) == 0 or len(asked.frame) > FETCH_FRAME_BYTES
    assert rounds_of(created, asked) > 4 * 9_000 // SLICE
    (topic,) = asked.answer(FetchResponse).responses
    errors = {each.error_code for each in topic.partitions}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [each.partition_index for each in topic.partitions] == [*unknown]


def test_an_unknown_session_of_a_long_frame_is_refused(created: MemoryBroker) -> None:
    asked = created.send(fetch(range(9_000), session=(77, 5)), VERSION)
    created.run_until_idle()
    assert asked.answer(FetchResponse).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not asked.held


def test_a_long_frame_that_is_malformed_closes_the_connection(created: MemoryBroker) -> None:
    asked = SentRequest(fetch(range(9_000)), VERSION)
    asked.frame = asked.frame[:-40_000]
    with pytest.raises(ProtocolError):  # noqa: PT012  either at once or in a later slice
        created.dispatcher.received(asked)
        created.run_until_idle()
        assert asked.closed
        raise ProtocolError(asked.closed)
    assert not asked.answered
