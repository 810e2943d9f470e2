"""Requests without a response that arrive late: their records are written once, or fail in doubt.

A broker may read a connection to its end long after the client gave it up and sent other requests
over the next one. So a batch sent without a response keeps its sequence numbers.
"""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.errors import DeliveryTimeout, InvalidRecord, RecordTooLarge
from odradek.client.producer.futures import FutureRecordMetadata
from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import PartitionProduceResponse, ProduceRequest
from odradek.testing.scripted import CLOSE, SILENT
from unit.client.producer.producing import Producing

REQUEST_MS, DELIVERY_MS = 10_000, 15_000


class SilentBroker:
    """A producer of one batch per record, and a broker that reads nothing while it is `asleep`."""

    def __init__(self, **settings: Any) -> None:
        self.p = Producing(
            batch_bytes=1,
            delivery_timeout_ms=DELIVERY_MS,
            engine={"request_timeout_ms": REQUEST_MS},
            **settings,
        )
        self.asleep = False
        self.unread: list[tuple[ProduceRequest, int]] = []
        self._right = self.p.cluster[1].answers[ProduceRequest]
        self.p.cluster[1].answers[ProduceRequest] = self.answer
        self.p.send(b"warm up")
        self.p.flush()

    def answer(self, request: ProduceRequest, version: int) -> Any:
        if not self.asleep:
            return self._right(request, version)
        self.unread.append((request, version))
        return SILENT

    def deliver_unread(self) -> None:
        """Deliver the requests in the buffers of closed connections."""
        unread, self.unread = self.unread, []
        for request, version in unread:
            self._right(request, version)

    def send_two_unanswered(self) -> tuple[FutureRecordMetadata, FutureRecordMetadata]:
        """The first is given up, the second goes out once more and is refused: the first is
        missing."""
        p = self.p
        self.asleep = True
        first = p.send(b"first")
        p.cluster.run(REQUEST_MS - 1_000)
        second = p.send(b"second")
        assert isinstance(p.outcome(first), DeliveryTimeout)
        self.asleep = False
        read = len(p.brokers.requests)
        p.cluster.until(lambda: len(p.brokers.requests) > read)
        assert p.values() == [b"warm up"]
        return first, second


def test_a_batch_behind_an_expired_one_is_not_written_twice():
    late = SilentBroker()
    _, second = late.send_two_unanswered()
    late.deliver_unread()
    assert late.p.outcome(second).offset == 2
    assert late.p.outcome(late.p.send(b"third")).offset == 3
    assert late.p.values() == [b"warm up", b"first", b"second", b"third"]
    manager = late.p.core.accumulator.transaction_manager
    assert manager is not None and manager.epoch_bumps == 0, "nothing was missing after all"


def test_a_batch_that_cannot_get_new_sequences_fails_in_doubt():
    late = SilentBroker()
    _, second = late.send_two_unanswered()
    begun_ms = late.p.cluster.now_ms
    error = late.p.outcome(second)
    assert isinstance(error, DeliveryTimeout)
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(error)
    assert "without an answer" in str(error)
    assert "may or may not have been written" in str(error)
    assert late.p.cluster.now_ms - begun_ms <= DELIVERY_MS
    assert late.p.outcome(late.p.send(b"third")).offset == 1
    late.deliver_unread()
    assert late.p.values() == [b"warm up", b"third"], "a newer epoch shuts out what comes late"


def test_the_next_batch_is_sent_when_the_first_expires():
    late = SilentBroker()
    p = late.p
    late.asleep = True
    first = p.send(b"first")
    p.cluster.run(5_000)
    p.send(b"second")
    p.cluster.until(lambda: len(late.unread) == 3)  # The first, once more.
    assert isinstance(p.outcome(first), DeliveryTimeout)
    p.cluster.run(500)
    assert len(late.unread) == 4


def test_a_batch_that_was_never_sent_expires_as_not_written():
    """It waited behind a batch in doubt, and was never sent."""
    late = SilentBroker(max_in_flight=1)
    late.asleep = True
    sent, unsent = map(late.p.outcome, [late.p.send(b"first"), late.p.send(b"second")])
    assert isinstance(sent, DeliveryTimeout) and isinstance(unsent, DeliveryTimeout)
    assert "they may or may not have been written" in str(sent)
    assert "they were not written" in str(unsent)


def test_parts_of_a_batch_that_may_be_written_are_not_written_beside_it():
    """It was written, the response was lost, and then the topic's limit was lowered."""
    p = Producing(
        linger_ms=5, delivery_timeout_ms=DELIVERY_MS, engine={"request_timeout_ms": REQUEST_MS}
    )
    p.send(b"warm up")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]

    def lossy(request: ProduceRequest, version: int) -> Any:
        right(request, version)
        p.cluster[1].answers[ProduceRequest] = right
        p.brokers.max_batch_bytes = 150
        return CLOSE

    p.cluster[1].answers[ProduceRequest] = lossy
    values = [b"%d" % n + b"x" * 50 for n in range(4)]
    outcomes = [p.outcome(future) for future in [p.send(value) for value in values]]
    assert p.values() == [b"warm up", *values]
    for error in outcomes:
        assert isinstance(error, DeliveryTimeout)
        assert "may or may not have been written" in str(error)
    assert p.outcome(p.send(b"behind")).offset == 5


def test_parts_of_a_batch_with_a_written_successor_get_no_new_sequences():
    """It was written, and the response was a timeout."""
    p = Producing(linger_ms=5, batch_bytes=230)
    p.send(b"warm up")
    p.flush()

    def slow(index: int, data: bytes) -> PartitionProduceResponse:
        assert p.brokers.log("t").append(data)[0] is ErrorCode.NONE
        p.brokers.max_batch_bytes = 150
        code = ErrorCode.REQUEST_TIMED_OUT
        return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)

    p.brokers.fail_next("t", 0, slow)
    values = [b"%d" % n + b"x" * 50 for n in range(3)]
    first, second, behind = [p.outcome(future) for future in [p.send(value) for value in values]]
    assert behind.offset == 3
    for error in (first, second):
        assert "may or may not have been written" in str(error)
    assert p.outcome(p.send(b"last")).offset == 4
    assert p.values() == [b"warm up", *values, b"last"]


def test_a_refused_batch_with_an_unanswered_attempt_fails_in_doubt():
    p = Producing()
    p.send(b"warm up")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]

    def lossy(request: ProduceRequest, version: int) -> Any:
        right(request, version)
        p.cluster[1].answers[ProduceRequest] = right
        p.brokers.max_batch_bytes = 60
        return CLOSE

    p.cluster[1].answers[ProduceRequest] = lossy
    error = p.outcome(p.send(b"one"))
    assert isinstance(error, RecordTooLarge)
    assert "may or may not have been written by an earlier attempt" in str(error)
    assert p.values() == [b"warm up", b"one"]


@pytest.mark.parametrize("lost", [CLOSE, SILENT])
def test_without_retries_a_batch_without_a_response_fails_in_doubt(lost: Any) -> None:
    """The message follows that of the lost connection, which has its own advice."""
    p = Producing(retries=0, idempotence=False, engine={"request_timeout_ms": REQUEST_MS})
    right = p.cluster[1].answers[ProduceRequest]

    def lossy(request: ProduceRequest, version: int) -> Any:
        right(request, version)
        return lost

    p.cluster[1].answers[ProduceRequest] = lossy
    error = p.outcome(p.send(b"one"))
    assert p.values() == [b"one"]
    assert "they may or may not have been written" in str(error)


def test_without_idempotence_parts_of_a_batch_without_a_response_fail_in_doubt():
    """It was written, the response was lost, and then the topic's limit was lowered."""
    p = Producing(linger_ms=5, idempotence=False, max_in_flight=1)
    right = p.cluster[1].answers[ProduceRequest]

    def lossy(request: ProduceRequest, version: int) -> Any:
        right(request, version)
        p.cluster[1].answers[ProduceRequest] = right
        p.brokers.max_batch_bytes = 60
        return CLOSE

    p.cluster[1].answers[ProduceRequest] = lossy
    outcomes = [p.outcome(future) for future in [p.send(b"one"), p.send(b"two")]]
    assert p.values() == [b"one", b"two"]
    for error in outcomes:
        assert isinstance(error, RecordTooLarge)
        assert "may or may not have been written by an earlier attempt" in str(error)


def test_an_unknown_server_error_leaves_the_batch_in_doubt():
    p = Producing()
    p.brokers.fail_next("t", 0, ErrorCode.UNKNOWN_SERVER_ERROR)
    error = p.outcome(p.send(b"one"))
    assert "may or may not have been written" in str(error)
    assert "earlier attempt" not in str(error), "there was none"


def test_the_batch_behind_a_refused_one_does_not_wait():
    """No batch can be written behind one that never will be, in whatever request."""
    late = SilentBroker()
    p = late.p
    p.brokers.fail_next("t", 0, ErrorCode.INVALID_RECORD)
    refused = p.send(b"refused")
    answers = iter([None, CLOSE])

    def lossy(request: ProduceRequest, version: int) -> Any:
        kept = late.answer(request, version)
        return next(answers, None) or kept

    p.cluster[1].answers[ProduceRequest] = lossy
    second = p.send(b"second")
    begun_ms = p.cluster.now_ms
    assert isinstance(p.outcome(refused), InvalidRecord)
    assert p.outcome(second).offset == 1
    assert p.cluster.now_ms - begun_ms < 5_000
    assert p.values() == [b"warm up", b"second"]
