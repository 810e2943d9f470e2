"""Records of Arrow columns, which are appended many under one lock, become the same batches as the
same records appended one by one, as a partitioner of the application has it."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.arrow.arrow_input import record_inputs
from odradek.client.errors import RecordTooLarge, SerializationError
from odradek.client.producer.futures import Deliveries
from odradek.client.producer.record_input import (
    BinaryColumn,
    ColumnInput,
    Edges,
    RecordInput,
    Validity,
)
from odradek.client.producer.send_path import ANY_PARTITION, RecordRouter
from odradek.client.producer.settings import ProducerSettings, SenderSettings
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.records import Header, encode_headers
from unit.client.producer.accumulating import BATCH_BYTES, ROOMY, Queues

MAX_REQUEST_BYTES = 2 * BATCH_BYTES
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "partition": pa.int32(),
    "timestamp": pa.int64(),
    "headers": HEADERS,
}
Row = dict[str, Any]

SIZES = st.integers(0, 1_400) | st.sampled_from([7, 8, 9, 16, 127, 128, 129])


def distinct_bytes(size: int) -> bytes:
    """Return bytes in which every word differs from its neighbours; some are -113 as integers,
    which compiled code has for an error."""
    words = ((-113 if word % 3 else word).to_bytes(8, "little", signed=True) for word in range(176))
    return b"".join(words)[:size]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=12),
            "value": st.none() | SIZES.map(distinct_bytes),
            "partition": st.none() | st.integers(0, 4),
            "timestamp": st.none() | st.integers(0, 2_000),
            "headers": st.none() | st.just([{"key": "h", "value": b"1"}]),
        }
    ),
    min_size=1,
    max_size=150,
)


COMMON_HEADERS: list[Header] = [("common", b"1")]


def columns_of(rows: list[Row], names: tuple[str, ...]) -> RecordInput:
    """Return the rows as a slice of longer columns."""
    longer = [rows[-1], *rows]
    batch = pa.record_batch(
        [pa.array([row[name] for row in longer], FIELDS[name]) for name in names], list(names)
    ).slice(1)
    given = {name: name if name in names else None for name in FIELDS}
    return next(
        record_inputs(
            batch,
            given["key"],
            "value",
            given["headers"],
            given["partition"],
            given["timestamp"],
            COMMON_HEADERS,
        )
    )


def no_choice(topic: str, key: bytes | None, value: bytes | None, count: int) -> None:
    """A partitioner that leaves the choice to the producer. The records go one by one then."""


class Appending:
    """A router over queues of its own."""

    def __init__(
        self, leaders: tuple[int, ...] = (1,), buffer_bytes: int = ROOMY, partitioner: Any = None
    ) -> None:
        self.queues = Queues(leaders, buffer_bytes)
        self.accumulator = self.queues.accumulator
        sender = SenderSettings(
            acks=-1,
            max_in_flight=5,
            max_request_bytes=MAX_REQUEST_BYTES,
            request_timeout_ms=30_000,
            retries=0,
        )
        settings = ProducerSettings(
            self.accumulator.settings,
            sender,
            buffer_bytes=buffer_bytes,
            max_block_ms=0,
            idempotence=False,
            ignore_keys=False,
            partitioner=partitioner,
        )
        self.router = RecordRouter(self.accumulator, settings)
        self.deliveries = Deliveries()
        self.refused: list[str] = []
        """The records that had to wait, or were too large."""

    def append(self, source: RecordInput) -> None:
        """Append all records but those that are refused."""
        index = 0
        while index < source.count:
            try:
                index, waiting = self.router.send_many(
                    "t", source, index, ANY_PARTITION, 1_000, self.deliveries
                )
            except RecordTooLarge as error:
                self.refused.append(str(error))
                index = len(self.deliveries) + len(self.refused)
                continue
            if waiting is not None:
                self.refused.append(f"{waiting.partition} {waiting.timestamp_ms} {waiting.key!r}")
                index += 1

    def batches(self) -> list[tuple[int, bytes]]:
        """Return the partitions and bytes of all batches."""
        found: list[tuple[int, bytes]] = []
        self.accumulator.begin_flush()
        while drained := self.queues.drain(1, 2):
            found += [(batch.topic_partition.partition, batch.data) for batch in drained]
        return found


@given(
    rows=ROWS,
    names=st.sampled_from([("value",), ("key", "value"), tuple(FIELDS), tuple(FIELDS)[:4]]),
    leaders=st.sampled_from([(1,), (1, 1, 1), (1, -1, 2)]),
    buffer_bytes=st.sampled_from([3 * BATCH_BYTES, ROOMY]),
)
def test_columns_become_the_batches_that_single_records_become(
    rows: list[Row], names: tuple[str, ...], leaders: tuple[int, ...], buffer_bytes: int
) -> None:
    together = Appending(leaders, buffer_bytes)
    single = Appending(leaders, buffer_bytes, no_choice)
    for appending in (together, single):
        appending.append(columns_of(rows, names))
    assert together.refused == single.refused
    assert len(together.deliveries) == len(rows) - len(together.refused)
    assert together.queues.woken == single.queues.woken
    assert together.batches() == single.batches()


@pytest.mark.parametrize("rows", range(1, 20))
def test_columns_leave_the_sticky_partition_when_single_records_do_if_batches_are_sent_half_full(
    rows: int,
) -> None:
    together, single = Appending((1, 1, 1)), Appending((1, 1, 1), partitioner=no_choice)
    for _ in range(30):
        for appending in (together, single):
            appending.append(columns_of([{"value": bytes(60)}] * rows, ("value",)))
        assert together.batches() == single.batches()


def test_a_record_of_columns_that_is_too_large_is_refused_after_those_before_it() -> None:
    rows: list[Row] = [*[{"value": b"small"}] * 70, {"value": bytes(3 * BATCH_BYTES)}]
    appending = Appending()
    appending.append(columns_of(rows, ("value",)))
    (refused,) = appending.refused
    assert "max.request.size=2000" in refused
    assert len(appending.deliveries) == 70
    assert appending.batches()


def test_a_partitioner_is_called_without_the_lock_for_each_record_of_columns() -> None:
    locked: list[bool] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        locked.append(appending.accumulator.lock.locked())
        return 0

    appending = Appending(partitioner=choose)
    appending.append(columns_of([{"value": b"1"}, {"value": b"2"}], ("value",)))
    assert locked == [False, False]


@pytest.mark.parametrize(
    ("edges", "before"), [([0, 5, 3, 8], 1), ([0, 3, 12, 8], 1), ([4, -1, 2, 8], 0)]
)
@pytest.mark.parametrize("leaders", [(1,), (1, 1, 1)])
@pytest.mark.parametrize("column", ["key", "value"])
def test_wrong_edges_of_a_column_are_refused_and_do_not_spoil_the_batch_of_records_before(
    edges: list[int], before: int, leaders: tuple[int, ...], column: str
) -> None:
    wrong = BinaryColumn(Validity(b"", 0), Edges(struct.pack("4i", *edges), 0, False), b"abcdefgh")
    right = BinaryColumn(Validity(b"", 0), Edges(struct.pack("4i", 0, 1, 2, 3), 0, False), b"xyz")
    key, value = (wrong, right) if column == "key" else (right, wrong)
    appending = Appending(leaders)
    appending.append(columns_of([{"value": b"right"}], ("value",)))
    with pytest.raises(SerializationError, match="gave wrong offsets"):
        appending.append(ColumnInput(3, key, value, None, None, None))
    batches = [batch for _, batch in appending.batches()]
    found = [len(list(records_of(batch, RecordBatchHeader(batch, 0)))) for batch in batches]
    assert sum(found) == 1 + before == len(appending.deliveries)


def test_headers_whose_values_are_a_column_of_nulls_may_be_many() -> None:
    pairs = pa.array([[{"key": f"h{number}", "value": None} for number in range(20)]])
    assert pairs.type.value_type.field("value").type == pa.null()
    batch = pa.record_batch([pa.array([b"v"]), pairs], ["value", "headers"])
    (source,) = record_inputs(batch, None, "value", "headers", None, None)
    assert source.headers(0) == encode_headers([(f"h{number}", None) for number in range(20)])
