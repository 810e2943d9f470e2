"""No buffer carries one topic's bytes into another, whatever happens to its batch.

Every value names its topic, and buffers are so few that each is reused many times. The received
bytes must hold the values of their topic, and nothing of the other.
"""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.errors import DeliveryTimeout
from odradek.protocol.api.produce import ProduceRequest
from odradek.testing.scheduler import MS
from odradek.testing.scripted import DelayedAnswer
from unit.client.producer.producing import Producing

BATCH_BYTES = 1_000


def canary(topic: str, number: int) -> bytes:
    return f"{topic}:{number}:".encode() + topic.encode() * 300


def two_topics(**settings: Any) -> Producing:
    return Producing(
        leaders={"red": [1], "blue": [1]},
        batch_bytes=BATCH_BYTES,
        buffer_bytes=4 * BATCH_BYTES,
        **settings,
    )


def check(p: Producing) -> None:
    for topic, other in (("red", b"blue"), ("blue", b"red")):
        values = p.values(topic)
        assert values
        for value in values:
            assert value is not None
            assert value.startswith(topic.encode())
            assert other not in value


def test_reused_buffers_carry_no_bytes_to_other_topics():
    p = two_topics()
    for number in range(60):
        p.send(canary("red", number), "red")
        p.send(canary("blue", number), "blue")
    assert p.flush() == 0
    assert len(p.values("red")) == len(p.values("blue")) == 60
    check(p)


@pytest.mark.parametrize("idempotence", [True, False])
def test_a_batch_that_expired_in_flight_is_sent_as_it_was_while_its_buffer_is_filled_again(
    idempotence,
):
    p = two_topics(delivery_timeout_ms=3_000, idempotence=idempotence)
    p.send(canary("red", 0), "red")
    p.send(canary("blue", 0), "blue")
    p.flush()
    right = p.cluster[1].answers[ProduceRequest]
    held: list[ProduceRequest] = []

    def late(request, version):
        held.append(request)
        return DelayedAnswer(6_000, right(request, version))

    p.cluster[1].answers[ProduceRequest] = late
    expired = p.send(canary("red", 1), "red")
    assert isinstance(p.outcome(expired), DeliveryTimeout)
    for number in range(1, 4):
        p.begin(canary("blue", number), "blue")
    p.cluster.run(20_000)
    p.cluster[1].answers[ProduceRequest] = right
    p.cluster.run(20_000)
    check(p)


def test_a_batch_that_expires_half_written_arrives_unchanged():
    """The transport takes a part of the frame; the batch expires; records of the other topic fill
    the buffers that are there; then the transport takes the rest."""
    p = two_topics(delivery_timeout_ms=3_000, idempotence=False, max_in_flight=5)
    p.send(canary("red", 0), "red")
    p.send(canary("blue", 0), "blue")
    p.flush()
    link, room = p.cluster.link, p.cluster.link.capacity
    link.capacity = 400
    for connection in p.cluster.fabric.connections():
        connection.client.stall(p.cluster.scheduler.now_ns + 8_000 * MS)
    p.send(canary("red", 1), "red")
    p.cluster.run(100)
    (carried,) = p.core.sender.in_flight
    taken = sum(connection.client.outstanding for connection in p.cluster.fabric.connections())
    assert 0 < taken <= 400 < len(carried.data), "only a part of the frame was written"
    p.cluster.run(3_500)
    assert isinstance(p.told[-1][0], DeliveryTimeout)
    assert carried.in_flight, "and a request carries it yet"
    for number in range(1, 8):
        p.begin(canary("blue", number), "blue")
    link.capacity = room
    p.cluster.run(60_000)
    assert p.values("red") == [canary("red", 0), canary("red", 1)]
    assert p.values("blue")[:4] == [canary("blue", number) for number in range(4)]
    check(p)
