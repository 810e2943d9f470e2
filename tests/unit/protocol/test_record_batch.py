"""Record batches: header fields, iteration, CRC, stamping, building, control records."""

from __future__ import annotations

import pytest
from fastcrc.crc32 import iscsi as crc32c

from odradek.protocol import record_batch, record_batch_builder
from odradek.protocol.compression import CompressionType
from odradek.protocol.control_records import (
    ControlRecord,
    ControlRecordType,
    marker_key,
    marker_value,
    read_control_record,
)
from odradek.protocol.record_batch import CorruptBatch, RecordBatchHeader
from odradek.protocol.record_batch_builder import RecordBatchBuilder, build
from odradek.protocol.records import InvalidRecords

T0 = 1_366_000_000_000
ROWS = [(b"key", b"value", [("h", b"x"), ("null", None)], T0 + i) for i in range(3)]


def header_of(batch: bytes, position: int = 0) -> RecordBatchHeader:
    return RecordBatchHeader(batch, position)


class TestHeader:
    def test_every_field_is_read_from_its_place(self) -> None:
        batch = build(
            ROWS,
            CompressionType.NONE,
            base_offset=2**40,
            leader_epoch=7,
            producer_id=2**33,
            producer_epoch=300,
            base_sequence=2**31 - 2,
            transactional=True,
        )
        header = header_of(b"??" + batch, 2)
        assert header.position == 2
        assert header.base_offset == 2**40
        assert header.batch_length == len(batch) - 12
        assert header.partition_leader_epoch == 7
        assert header.magic == 2
        assert header.crc == crc32c(batch[21:])
        assert header.attributes == 0x10
        assert header.last_offset_delta == 2
        assert header.base_timestamp == T0
        assert header.max_timestamp == T0 + 2
        assert header.producer_id == 2**33
        assert header.producer_epoch == 300
        assert header.base_sequence == 2**31 - 2
        assert header.count == 3
        assert header.size == len(batch)
        assert header.end == len(batch) + 2

    def test_size_end_and_offsets_follow_from_the_header(self) -> None:
        header = header_of(
            build(ROWS, base_offset=10, producer_id=1, base_sequence=2**31 - 2, producer_epoch=0)
        )
        assert (header.last_offset, header.next_offset) == (12, 13)
        assert header.last_sequence == 0  # wraps from 2^31 - 1
        assert header.has_producer_id

    def test_without_a_sequence_there_is_no_last_sequence(self) -> None:
        header = header_of(build(ROWS))
        assert not header.has_producer_id
        assert header.last_sequence == -1

    @pytest.mark.parametrize(
        ("bit", "name"),
        [
            (3, "is_log_append_time"),
            (4, "is_transactional"),
            (5, "is_control"),
            (6, "has_delete_horizon"),
        ],
    )
    def test_each_attribute_bit_sets_its_property(self, bit: int, name: str) -> None:
        batch = record_batch_builder.assemble(b"", 0, attributes=1 << bit)
        header = header_of(batch)
        flags = ("is_log_append_time", "is_transactional", "is_control", "has_delete_horizon")
        assert [flag for flag in flags if getattr(header, flag)] == [name]

    @pytest.mark.parametrize("codec", CompressionType)
    def test_the_compression_type_is_in_the_low_bits(self, codec: CompressionType) -> None:
        assert header_of(build(ROWS, codec)).compression_type == codec

    def test_a_short_header_is_an_index_error(self) -> None:
        with pytest.raises(IndexError):
            header_of(build(ROWS)[:60])


class TestIteration:
    def test_batches_yields_headers_in_order_with_their_positions(self) -> None:
        first, second = build(ROWS, base_offset=0), build(ROWS[:1], base_offset=3)
        data = b"?" + first + second + b"?"
        found = list(record_batch.batches(data, 1, len(data) - 1))
        assert [(h.position, h.base_offset) for h in found] == [(1, 0), (1 + len(first), 3)]

    def test_iteration_ends_before_an_incomplete_batch(self) -> None:
        batch = build(ROWS)
        for kept in range(len(batch)):
            assert [h.end for h in record_batch.batches(batch + batch[:kept])] == [len(batch)]

    def test_iteration_ends_before_a_batch_that_exceeds_the_end(self) -> None:
        batch = build(ROWS)
        assert list(record_batch.batches(batch + batch, 0, len(batch) - 1)) == []

    @pytest.mark.parametrize(
        ("place", "content", "reason"),
        [(16, b"\x01", "magic 1"), (8, b"\x00\x00\x00\x30", "batch length 48")],
    )
    def test_an_invalid_header_is_an_error_with_its_position(
        self, place: int, content: bytes, reason: str
    ) -> None:
        batch = build(ROWS)
        broken = batch[:place] + content + batch[place + len(content) :]
        headers = record_batch.batches(batch + broken)
        assert next(headers).position == 0
        with pytest.raises(CorruptBatch, match=reason) as caught:
            next(headers)
        assert caught.value.position == len(batch)


class TestIntegrity:
    @pytest.mark.parametrize("size", [0, 1, 4000, 4096, 64 * 1024 - 40, 64 * 1024, 200_000])
    def test_the_crc_covers_everything_from_the_attributes_on(self, size: int) -> None:
        batch = build([(None, b"v" * size, (), T0)])
        assert header_of(batch).crc == crc32c(batch[21:])
        assert record_batch.is_intact(batch, header_of(batch))
        broken = batch[:-1] + bytes([batch[-1] ^ 1])
        assert not record_batch.is_intact(broken, header_of(broken))

    def test_a_batch_cut_short_is_not_intact(self) -> None:
        batch = build(ROWS)
        assert not record_batch.is_intact(batch[:-1], header_of(batch))

    def test_stamping_changes_offset_and_epoch_and_keeps_the_crc_valid(self) -> None:
        batch = build(ROWS)
        data = b"??" + batch
        stamp = record_batch.stamp(data, 2, 2**41, 9)
        stamped = stamp + batch[record_batch.STAMP_BYTES :]
        header = header_of(stamped)
        assert (header.base_offset, header.partition_leader_epoch) == (2**41, 9)
        assert record_batch.is_intact(stamped, header)
        assert stamped[16:] == batch[16:]

    def test_log_append_time_changes_only_type_maximum_timestamp_and_crc(self) -> None:
        batch = build(ROWS)
        data = b"??" + batch
        rewritten = record_batch.with_max_timestamp(data, header_of(data, 2), T0 + 99, True)
        header = header_of(rewritten)
        assert header.is_log_append_time
        assert header.max_timestamp == T0 + 99
        assert record_batch.is_intact(rewritten, header)
        assert rewritten[:17] == batch[:17]
        assert rewritten[43:] == batch[43:]
        assert [r.timestamp for r in record_batch.records_of(rewritten, header)] == [T0 + 99] * 3

    def test_log_append_time_can_be_removed_again(self) -> None:
        batch = build(ROWS)
        there = record_batch.with_max_timestamp(batch, header_of(batch), 5, True)
        back = record_batch.with_max_timestamp(there, header_of(there), T0 + 2, False)
        assert back == batch


class TestBuilder:
    def test_append_returns_the_size_before_compression(self) -> None:
        builder = RecordBatchBuilder()
        assert builder.size == 61
        sizes = [builder.append(key, value, headers, at) for key, value, headers, at in ROWS]
        assert sizes[-1] == builder.size == len(builder.build())
        assert sizes == sorted(sizes)

    def test_base_timestamp_is_the_first_and_maximum_the_largest(self) -> None:
        builder = RecordBatchBuilder()
        for at in (T0 + 5, T0 + 9, T0 + 1):
            builder.append(None, b"", (), at)
        header = header_of(builder.build())
        assert (header.base_timestamp, header.max_timestamp) == (T0 + 5, T0 + 9)
        times = [r.timestamp for r in record_batch.records_of(builder.build(), header)]
        assert times == [T0 + 5, T0 + 9, T0 + 1]

    def test_building_twice_returns_the_same_batch(self) -> None:
        builder = RecordBatchBuilder(CompressionType.GZIP)
        builder.append(b"k", b"v")
        assert builder.build() == builder.build()


class TestControlRecords:
    @pytest.mark.parametrize("kind", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
    def test_a_transaction_marker_is_read_as_written(self, kind: ControlRecordType) -> None:
        builder = RecordBatchBuilder(
            base_offset=5, control=True, transactional=True, producer_id=3, producer_epoch=1
        )
        builder.append(marker_key(kind), marker_value(12), (), T0)
        header = header_of(builder.build())
        assert header.is_control
        assert header.is_transactional
        assert read_control_record(builder.build(), header) == ControlRecord(5, kind, 12)

    def test_a_leader_change_record_is_read(self) -> None:
        builder = RecordBatchBuilder(control=True)
        builder.append(marker_key(ControlRecordType.LEADER_CHANGE), b"\x00\x01\x00\x00\x00\x07")
        batch = builder.build()
        found = read_control_record(batch, header_of(batch))
        assert found == ControlRecord(0, ControlRecordType.LEADER_CHANGE, 7)

    @pytest.mark.parametrize(
        ("key", "value"),
        [(None, b""), (b"\x00\x00", b""), (b"\x00\x00\x00\x63", b""), (b"\0\0\0\1", b"\0\0")],
    )
    def test_a_malformed_control_record_is_refused(self, key: bytes | None, value: bytes) -> None:
        builder = RecordBatchBuilder(control=True)
        builder.append(key, value)
        batch = builder.build()
        with pytest.raises(InvalidRecords):
            read_control_record(batch, header_of(batch))
