"""Records of Arrow columns, which are appended many under one lock, become the same batches as the
same records appended one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.arrow.arrow_input import record_inputs
from odradek.client.errors import RecordTooLarge
from odradek.client.producer.futures import Deliveries
from odradek.client.producer.record_input import ListInput, RecordInput
from odradek.client.producer.send_path import ANY_PARTITION, RecordRouter
from odradek.client.producer.settings import ProducerSettings, SenderSettings
from odradek.client.serializers import serializer
from unit.client.producer.accumulating import BATCH_BYTES, ROOMY, Queues

MAX_REQUEST_BYTES = 2 * BATCH_BYTES
Pair = tuple[bytes | None, bytes | None]

PAIRS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=12),
        st.none() | st.integers(0, 1_400).map(bytes),
    ),
    min_size=1,
    max_size=200,
)


def columns_of(pairs: list[Pair]) -> RecordInput:
    keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
    batch = pa.record_batch([keys, values], ["key", "value"])
    return next(record_inputs(batch, "key", "value", None, None, None))


def list_of(pairs: list[Pair]) -> RecordInput:
    keys, values = zip(*pairs, strict=True)
    key, value = serializer("key", None), serializer("value", None)
    return ListInput("t", list(values), list(keys), key, value, [])


def appended(
    source: RecordInput,
    leaders: tuple[int, ...],
    buffer_bytes: int,
    partitioner: Any = None,
    routed: list[RecordRouter] | None = None,
) -> tuple[Any, ...]:
    """Append records until one has to wait; return what is to be sent. The router is added to
    `routed`."""
    queues = Queues(leaders, buffer_bytes)
    accumulator = queues.accumulator
    sender = SenderSettings(
        acks=-1,
        max_in_flight=5,
        max_request_bytes=MAX_REQUEST_BYTES,
        request_timeout_ms=30_000,
        retries=0,
    )
    settings = ProducerSettings(
        accumulator.settings,
        sender,
        buffer_bytes=buffer_bytes,
        max_block_ms=0,
        idempotence=False,
        ignore_keys=False,
        partitioner=partitioner,
    )
    router, deliveries = RecordRouter(accumulator, settings), Deliveries()
    if routed is not None:
        routed.append(router)
    refused, index, waiting = None, 0, None
    try:
        index, waiting = router.send_many("t", source, 0, ANY_PARTITION, 1_000, deliveries)
    except RecordTooLarge as error:
        refused = str(error)
    batches: list[tuple[int, bytes]] = []
    accumulator.begin_flush()
    while drained := queues.drain(1, 2):
        batches += [(batch.topic_partition.partition, batch.data) for batch in drained]
    kept = None if waiting is None else (waiting.partition, waiting.key, waiting.value)
    return refused, index, kept, len(deliveries), batches


@given(
    pairs=PAIRS,
    leaders=st.sampled_from([(1,), (1, 1, 1), (1, -1, 2)]),
    buffer_bytes=st.sampled_from([3 * BATCH_BYTES, ROOMY]),
)
def test_columns_become_the_batches_that_single_records_become(
    pairs: list[Pair], leaders: tuple[int, ...], buffer_bytes: int
) -> None:
    expected = appended(list_of(pairs), leaders, buffer_bytes)
    assert appended(columns_of(pairs), leaders, buffer_bytes) == expected


def test_a_record_of_columns_that_is_too_large_is_refused_after_those_before_it() -> None:
    pairs: list[Pair] = [*[(None, b"small")] * 70, (None, bytes(3 * BATCH_BYTES))]
    refused, _, _, count, batches = appended(columns_of(pairs), (1,), ROOMY)
    assert refused is not None and "max.request.size=2000" in refused
    assert count == 70
    assert batches


def test_a_partitioner_is_called_without_the_lock_for_each_record_of_columns() -> None:
    routed: list[RecordRouter] = []
    locked: list[bool] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        locked.append(routed[0].accumulator.lock.locked())
        return 0

    pairs: list[Pair] = [(b"a", b"1"), (b"b", b"2")]
    _, index, _, count, _ = appended(columns_of(pairs), (1,), ROOMY, choose, routed)
    assert (index, count, locked) == (2, 2, [False, False])
