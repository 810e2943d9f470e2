"""The metrics of a producer about memory, waiting sends and requests in flight."""

from __future__ import annotations

import pytest

from odradek.client.errors import TransactionFailed
from odradek.client.metrics.metric import Metrics
from odradek.client.metrics.producer_table import producer_metrics
from odradek.model.errors import ErrorCode
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scripted import SILENT, DelayedAnswer
from unit.client.producer.producing import Producing
from unit.client.producer.transacting import Transacting

BATCH_BYTES, BUFFER_BYTES = 1_000, 4_000
HELD_MS = 5_000


def held() -> Producing:
    """A broker that answers late; one request at a time."""
    p = Producing(batch_bytes=BATCH_BYTES, buffer_bytes=BUFFER_BYTES, max_in_flight=1)
    p.send(b"warm up")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    p.cluster[1].answers[ProduceRequest] = lambda request, version: DelayedAnswer(
        HELD_MS, right(request, version)
    )
    return p


def metrics(p: Producing) -> Metrics:
    return p.side.do(lambda: producer_metrics(p.core))


def test_an_idle_producer_has_all_memory_free_and_nothing_in_flight():
    found = metrics(held())
    assert found["buffer-total-bytes"] == found["buffer-available-bytes"] == BUFFER_BYTES
    assert found["requests-in-flight"] == 0
    assert found["records-in-queue"] == 0
    assert found["waiting-threads"] == 0
    assert found["record-send-total"] == 1


def test_memory_is_used_until_the_broker_has_answered():
    p = held()
    p.send(b"x" * 600)
    p.cluster.run(100)
    found = metrics(p)
    assert found["requests-in-flight"] == 1
    assert found["records-in-queue"] == 1
    assert 600 < BUFFER_BYTES - found["buffer-available-bytes"] <= BATCH_BYTES
    assert found["buffer-total-bytes"] == BUFFER_BYTES
    p.flush()
    assert metrics(p)["buffer-available-bytes"] == BUFFER_BYTES
    assert metrics(p)["records-in-queue"] == 0


def test_sends_that_wait_for_memory_are_counted():
    p = held()
    waiters = [p.begin(b"x" * 700) for _ in range(7)]
    p.cluster.run(100)
    found = metrics(p)
    taken_in = sum(waiter.done for waiter in waiters)
    assert found["waiting-threads"] == 7 - taken_in > 0
    assert found["records-in-queue"] == taken_in
    assert found["buffer-available-bytes"] < BATCH_BYTES
    assert p.flush() == 0
    p.cluster.until(lambda: all(waiter.done for waiter in waiters))
    assert metrics(p)["waiting-threads"] == 0
    p.flush()
    assert metrics(p)["record-send-total"] == 8


def test_topics_are_counted_apart_and_together():
    p = Producing(codec=3)
    p.cluster.create("u")
    for topic, count in (("t", 3), ("u", 2)):
        for _ in range(count):
            p.outcome(p.send(b"x" * 200, topic=topic))
    found = metrics(p)
    assert found["record-send-total"] == 5
    assert found["t.record-send-total"] == 3
    assert found["u.record-send-total"] == 2
    assert found["t.byte-total"] + found["u.byte-total"] == found["byte-total"]
    assert found["t.byte-rate"] > found["u.byte-rate"] > 0
    assert 0 < found["t.compression-rate"] < 1
    assert found["t.record-error-total"] == found["t.record-retry-total"] == 0
    tags = [each.tags for each in found.entries if each.group == "producer-topic-metrics"]
    assert {each["topic"] for each in tags} == {"t", "u"}


def test_the_wait_for_metadata_is_measured():
    p = Producing()
    p.outcome(p.send(b"first"))
    found = metrics(p)
    assert found["metadata-wait-time-ns-total"] > 0
    assert found["metadata-age"] < 60
    p.cluster.run(20_000)
    assert metrics(p)["metadata-age"] >= 20


def test_the_wait_for_memory_is_measured_and_a_send_in_vain_counted():
    p = held()
    waiters = [p.begin(b"x" * 700) for _ in range(7)]
    assert p.flush() == 0
    p.cluster.until(lambda: all(waiter.done for waiter in waiters))
    found = metrics(p)
    assert found["bufferpool-wait-time-ns-total"] >= HELD_MS * 1_000_000
    assert found["bufferpool-wait-ratio"] > 0
    assert found["buffer-exhausted-total"] == 0
    assert found["flush-time-ns-total"] >= HELD_MS * 1_000_000


def test_a_record_refused_for_want_of_room_is_counted():
    p = Producing(
        batch_bytes=BATCH_BYTES, buffer_bytes=BUFFER_BYTES, max_in_flight=1, max_block_ms=1_000
    )
    p.send(b"warm up")
    p.flush()
    p.cluster[1].answers[ProduceRequest] = lambda request, version: SILENT
    waiters = [p.begin(b"x" * 700) for _ in range(7)]
    p.cluster.until(lambda: any(waiter.error is not None for waiter in waiters))
    found = metrics(p)
    assert found["buffer-exhausted-total"] == sum(w.error is not None for w in waiters) > 0


def test_the_latency_of_requests_is_given_per_node():
    p = held()
    p.send(b"x")
    p.flush()
    found = metrics(p)
    assert found["request-latency-max"] >= HELD_MS
    assert found["node-1.request-latency-max"] == found["request-latency-max"]


def test_the_steps_of_transactions_are_measured_if_they_succeed():
    t = Transacting()
    steps = ("init", "begin", "send-offsets", "commit", "abort")

    def measured() -> list[str]:
        found = metrics(t)
        return [step for step in steps if found[f"txn-{step}-time-ns-total"] > 0]

    assert measured() == []
    t.started()
    t.offsets(5)
    assert measured() == ["init", "send-offsets"]
    t.fail_next(EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(TransactionFailed):
        t.commit()
    assert measured() == ["init", "send-offsets"]
    t.side.do(lambda: t.transactions.abort(None))
    t.begin_transaction()
    assert measured() == ["init", "begin", "send-offsets", "abort"]
    t.offsets(6)
    t.fail_next(EndTxnRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    t.commit()
    assert measured() == list(steps)
