"""Records and batches: round trips, agreement of the three readers, and invalid bytes."""

from __future__ import annotations

import contextlib

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.protocol import record_batch, records
from odradek.protocol.compression import CorruptCompression
from odradek.protocol.record_batch import CorruptBatch, RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import RecordBatchBuilder, build
from odradek.protocol.record_columns import BinaryBuffers, RecordColumns
from odradek.protocol.records import InvalidRecords, RecordCursor, read_records
from odradek.protocol.validate import BatchRules, InvalidBatch, ValidBatch, validate
from property.record_strategies import Row, batches, codecs, rows

UNBOUNDED = 2**63 - 1
RULES = BatchRules(timestamp_after_max_ms=UNBOUNDED)


def read(batch: bytes) -> list[Row]:
    header = RecordBatchHeader(batch, 0)
    return [(r.key, r.value, list(r.headers), r.timestamp) for r in records_of(batch, header)]


@given(rows, codecs, st.integers(0, 2**40))
def test_a_built_batch_is_read_back(content: list[Row], codec: int, base_offset: int) -> None:
    batch = build(content, codec, base_offset=base_offset)
    header = RecordBatchHeader(batch, 0)
    assert read(batch) == content
    assert [r.offset for r in records_of(batch, header)] == [
        base_offset + i for i in range(len(content))
    ]
    assert header.max_timestamp == max(row[3] for row in content)
    assert record_batch.is_intact(batch, header)


@given(rows)
def test_the_builders_size_is_that_of_the_batch(content: list[Row]) -> None:
    builder = RecordBatchBuilder()
    for key, value, headers, at in content:
        size = builder.append(key, value, headers, at)
    assert size == builder.size == len(builder.build())


@given(rows, codecs)
def test_a_built_batch_is_accepted_unchanged(content: list[Row], codec: int) -> None:
    batch = build(content, codec)
    verdict = validate(ByteRange(b"?" + batch, 1, len(batch) + 1), RULES, 0)
    assert isinstance(verdict, ValidBatch)
    assert not verdict.rewritten
    times = [row[3] for row in content]
    assert verdict.max_timestamp == max(times)
    assert verdict.max_timestamp_delta == (times.index(max(times)) if max(times) >= 0 else 0)


def binary(column: BinaryBuffers, kind: pa.DataType) -> pa.Array:
    buffers = [pa.py_buffer(b) for b in (column.validity, column.offsets, column.data)]
    return pa.Array.from_buffers(kind, column.count, buffers, column.null_count)


def integers(content: bytes) -> list[int]:
    array = pa.Array.from_buffers(pa.int64(), len(content) // 8, [None, pa.py_buffer(content)])
    return list(array.to_pylist())


def rows_of(columns: RecordColumns) -> list[Row]:
    """Convert the columns to rows through Arrow."""
    keys = binary(columns.key.finish(), pa.binary())
    values = binary(columns.value.finish(), pa.binary())
    pairs = pa.StructArray.from_arrays(
        [
            binary(columns.header_key.finish(), pa.utf8()),
            binary(columns.header_value.finish(), pa.binary()),
        ],
        ["key", "value"],
    )
    lists = pa.ListArray.from_buffers(
        pa.list_(pairs.type),
        columns.count,
        [None, pa.py_buffer(columns.header_offsets)],
        children=[pairs],
    )
    for array in (keys, values, pairs, lists):
        array.validate(full=True)
    return [
        (key, value, [(pair["key"], pair["value"]) for pair in headers], at)
        for key, value, headers, at in zip(
            keys.to_pylist(),
            values.to_pylist(),
            lists.to_pylist(),
            integers(columns.timestamps),
            strict=True,
        )
    ]


@given(st.lists(st.tuples(rows, codecs), min_size=1, max_size=3))
def test_columns_contain_the_same_records(parts: list[tuple[list[Row], int]]) -> None:
    columns = RecordColumns()
    offset = 0
    for content, codec in parts:
        batch = build(content, codec, base_offset=offset)
        columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, UNBOUNDED)
        offset += len(content)
    assert rows_of(columns) == [row for content, _ in parts for row in content]
    assert integers(columns.offsets) == list(range(offset))
    assert columns.data_bytes == sum(
        len(key or b"")
        + len(value or b"")
        + sum(len(k.encode()) + len(v or b"") for k, v in headers)
        for content, _ in parts
        for key, value, headers, _ in content
    )


@given(rows, st.integers(0, 25), st.integers(0, 25))
def test_columns_of_an_offset_range_contain_only_its_records(
    content: list[Row], first: int, end: int
) -> None:
    columns = RecordColumns()
    batch = build(content, base_offset=3)
    columns.append_batch(batch, RecordBatchHeader(batch, 0), first, end)
    wanted = [(3 + i, row) for i, row in enumerate(content) if first <= 3 + i < end]
    assert integers(columns.offsets) == [offset for offset, _ in wanted]
    assert rows_of(columns) == [row for _, row in wanted]


def outcome(batch: bytes, rules: BatchRules = RULES) -> ValidBatch | InvalidBatch:
    """Validate a batch; there is a result for any bytes."""
    return validate(ByteRange(batch, 0, len(batch)), rules, 0)


def read_all_ways(section: bytes, count: int, base_timestamp: int) -> list[bool]:
    """True per reader (`check_records`, cursor, columns) that accepts the section."""
    accepted = []
    columns = RecordColumns()
    readers = (
        lambda: records.check_records(section, 0, len(section), count, base_timestamp),
        lambda: list(
            read_records(RecordCursor(section, 0, len(section), count, 0, base_timestamp))
        ),
        lambda: columns.append(
            RecordCursor(section, 0, len(section), count, 0, base_timestamp), -UNBOUNDED, UNBOUNDED
        ),
    )
    for reader in readers:
        try:
            reader()
            accepted.append(True)
        except InvalidRecords:
            accepted.append(False)
    return accepted


@given(batches(), st.data())
def test_a_truncated_batch_is_refused(batch: bytes, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(batch) - 1))
    assert isinstance(outcome(batch[:kept]), InvalidBatch)
    assert list(record_batch.batches(batch[:kept])) == []


@settings(max_examples=300)
@given(batches(), st.data())
def test_a_flipped_bit_is_found_unless_outside_the_crc(batch: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(batch) - 1))
    broken = bytearray(batch)
    broken[bit // 8] ^= 1 << bit % 8
    verdict = outcome(bytes(broken))
    if isinstance(verdict, ValidBatch):
        assert 12 <= bit // 8 < 16  # The leader epoch, which the leader overwrites.
    else:
        assert verdict.error in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD) or (
            # Checked before the CRC: the size, and the codec of an old Produce.
            verdict.error == ErrorCode.MESSAGE_TOO_LARGE and 8 <= bit // 8 < 12
        )


@settings(max_examples=300)
@given(batches(), st.data())
def test_invalid_bytes_with_a_valid_crc_raise_nothing_and_readers_agree(
    batch: bytes, data: st.DataObject
) -> None:
    broken = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    crc = record_batch.crc32c(bytes(broken), 21, len(broken))
    broken[17:21] = crc.to_bytes(4, "big")
    verdict = outcome(bytes(broken))
    outcome(bytes(broken), BatchRules(compacted=True, timestamp_before_max_ms=0))
    try:
        found = read(bytes(broken))
    except (InvalidRecords, CorruptCompression):
        found = []
    if isinstance(verdict, ValidBatch):
        assert len(found) == verdict.count


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
def test_random_sections_raise_only_invalid_records(section: bytes, count: int, base: int) -> None:
    summary, decoded, _ = read_all_ways(section, count, base)
    assert decoded or not summary  # A cursor accepts gaps in the offsets, `check_records` does not.


@given(rows, st.data())
def test_the_readers_agree_on_damaged_sections(content: list[Row], data: st.DataObject) -> None:
    section = bytearray(build(content)[61:])
    at = data.draw(st.integers(0, len(section) - 1))
    section[at] = data.draw(st.integers(0, 255))
    summary, decoded, in_columns = read_all_ways(bytes(section), len(content), 0)
    assert decoded == in_columns
    assert decoded or not summary


@given(st.binary(max_size=200))
def test_iteration_over_random_bytes_ends(junk: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        for header in record_batch.batches(junk):
            assert header.end <= len(junk)
