"""The metrics of a producer about memory, waiting sends and requests in flight."""

from __future__ import annotations

from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scripted import DelayedAnswer
from unit.client.producer.producing import Producing

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


def metrics(p: Producing) -> dict[str, float]:
    return p.side.do(p.core.snapshot)


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
