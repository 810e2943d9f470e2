"""Records: encoding, varints at their limits, checking, reading, columns."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from odradek.protocol import records
from odradek.protocol.record_batch import RecordBatchHeader
from odradek.protocol.record_batch_builder import build
from odradek.protocol.record_columns import RecordColumns
from odradek.protocol.records import (
    InvalidRecords,
    InvalidTimestamp,
    RecordCursor,
    read_headers,
    read_records,
)

LIMITS_32 = [0, -1, 1, 63, -64, 64, 8191, -8192, 8192, 2**31 - 1, -(2**31)]
LIMITS_62 = [*LIMITS_32, 2**31, 2**61, -(2**61), 2**62 - 1, -(2**62)]


def written(value: int) -> bytes:
    writer = BytesWriter()
    records.write_varint(writer, value)
    assert records.varint_size(value) == len(writer.getvalue())
    return writer.getvalue()


class TestVarints:
    @pytest.mark.parametrize(
        ("value", "content"),
        [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-65, "8101"), (300, "d804")],
    )
    def test_write_varint_writes_the_known_bytes(self, value: int, content: str) -> None:
        assert written(value).hex() == content

    @pytest.mark.parametrize("value", LIMITS_32)
    def test_varint_reads_a_written_value(self, value: int) -> None:
        content = written(value)
        assert records.varint(b"?" + content + b"?", 1) == (value, 1 + len(content))

    @pytest.mark.parametrize("value", LIMITS_62)
    def test_varlong_reads_a_written_value(self, value: int) -> None:
        content = written(value)
        assert records.varlong(b"?" + content + b"?", 1) == (value, 1 + len(content))

    def test_a_varint_longer_than_necessary_is_accepted(self) -> None:
        assert records.varint(b"\x82\x00", 0) == (1, 2)

    def test_a_varint_that_is_too_wide_is_refused(self) -> None:
        with pytest.raises(InvalidRecords, match="too large"):
            records.varint(written(2**31), 0)
        with pytest.raises(InvalidRecords, match="too long"):
            records.varint(b"\x80" * 5 + b"\x00", 0)
        with pytest.raises(InvalidTimestamp):
            records.varlong(b"\x80" * 9 + b"\x00", 0)

    def test_a_varint_past_the_end_of_the_data_is_an_index_error(self) -> None:
        for reader in (records.varint, records.varlong):
            with pytest.raises(IndexError):
                reader(b"\x80\x80", 0)


def test_a_record_is_written_byte_by_byte() -> None:
    writer = BytesWriter()
    records.write_record(writer, 1, 300, b"k", None, [("h", b"v"), ("n", None)])
    assert writer.getvalue().hex(" ") == "1e 00 d8 04 02 02 6b 01 04 02 68 02 76 02 6e 01"


class TestCheckRecords:
    def test_check_records_returns_extreme_timestamps_and_null_keys(self) -> None:
        rows = [(b"k", b"", (), 50), (None, b"", (), 90), (b"k", b"", (), 20), (b"k", b"", (), 90)]
        batch = build(rows)
        summary = records.check_records(batch, 61, len(batch), 4, 50)
        assert (summary.max_timestamp, summary.max_timestamp_delta) == (90, 1)
        assert summary.min_timestamp == 20
        assert summary.null_keys

    def test_a_record_without_a_timestamp_does_not_count_as_the_minimum(self) -> None:
        batch = build([(b"k", b"", (), -1), (b"k", b"", (), 20)])
        summary = records.check_records(batch, 61, len(batch), 2, -1)
        assert (summary.min_timestamp, summary.max_timestamp) == (20, 20)
        assert not summary.null_keys

    def test_the_error_has_the_index_of_the_malformed_record(self) -> None:
        batch = build([(b"key", b"value", (), 0)] * 3)
        size = (len(batch) - 61) // 3
        for index in range(3):
            with pytest.raises(InvalidRecords) as caught:
                records.check_records(
                    batch, 61, len(batch) - 3 * size + (index + 1) * size - 1, 3, 0
                )
            assert caught.value.index == index

    @pytest.mark.parametrize(("start", "end"), [(61, 10**6), (-1, 61)])
    def test_a_section_outside_the_data_is_refused(self, start: int, end: int) -> None:
        with pytest.raises(InvalidRecords):
            records.check_records(build([(b"k", b"v", (), 0)]), start, end, 1, 0)


class TestReadRecords:
    def test_read_records_reaches_a_malformed_record_only_after_those_before_it(self) -> None:
        good = build([(b"k", b"v", (), 5)])[61:]
        found = read_records(RecordCursor(good + b"\x7f", 0, len(good) + 1, 2, 10, 5))
        first = next(found)
        assert (first.offset, first.timestamp, first.key, first.value) == (10, 5, b"k", b"v")
        with pytest.raises(InvalidRecords):
            next(found)

    def test_offsets_keep_the_gaps_left_by_compaction(self) -> None:
        writer = BytesWriter()
        for delta in (0, 4, 9):
            records.write_record(writer, delta, 0, b"k", b"v", ())
        section = writer.getvalue()
        found = read_records(RecordCursor(section, 0, len(section), 3, 100, 0))
        assert [record.offset for record in found] == [100, 104, 109]

    def test_header_keys_that_are_not_utf_8_are_replaced_as_in_java(self) -> None:
        section = b"\x14\x00\x00\x00\x01\x01\x02\x04\xff\x41\x01"
        [record] = read_records(RecordCursor(section, 0, len(section), 1, 0, 0))
        assert record.headers == [("�A", None)]

    def test_the_representation_of_a_record_has_its_fields(self) -> None:
        [record] = read_records(RecordCursor(*self.section(), 1, 7, 5))
        assert repr(record) == "Record(offset=7, timestamp=5, key=b'k', value=None, headers=[])"

    @staticmethod
    def section() -> tuple[bytes, int, int]:
        section = build([(b"k", None, (), 5)])[61:]
        return section, 0, len(section)


class TestCursor:
    def test_advance_sets_the_positions_of_the_records_fields(self) -> None:
        section = build([(b"k", b"value", [("h", b"1")], 5), (None, b"", (), 6)])[61:]
        cursor = RecordCursor(section, 0, len(section), 2, 10, 5)
        assert cursor.advance()
        assert (cursor.index, cursor.offset, cursor.timestamp) == (0, 10, 5)
        assert section[cursor.key : cursor.key + cursor.key_size] == b"k"
        assert section[cursor.value : cursor.value + cursor.value_size] == b"value"
        found = section[cursor.headers : cursor.end_of_record]
        assert read_headers(found, 0, cursor.header_count) == [("h", b"1")]
        assert cursor.advance()
        assert (cursor.offset, cursor.timestamp, cursor.header_count) == (11, 6, 0)
        assert (cursor.key_size, cursor.value_size) == (-1, 0)
        assert not cursor.advance()
        assert not cursor.advance()

    def test_advance_does_not_pass_an_invalid_record(self) -> None:
        section = build([(b"k", b"v", (), 5), (b"k", b"v", (), 5)])[61:-1]
        cursor = RecordCursor(section, 0, len(section), 2, 0, 5)
        assert cursor.advance()
        for _ in range(2):
            with pytest.raises(InvalidRecords) as failed:
                cursor.advance()
            assert (failed.value.index, cursor.index) == (1, 0)


class TestColumns:
    def test_the_columns_have_the_layout_of_arrow(self) -> None:
        columns = RecordColumns()
        rows = [(None, b"ab", [("h", b"1"), ("g", None)], 7), (b"k", b"", [], 9)]
        batch = build(rows, base_offset=5)
        columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, 100)
        key, value = columns.key.finish(), columns.value.finish()
        names, contents = columns.header_key.finish(), columns.header_value.finish()
        assert (columns.count, columns.data_bytes) == (2, 6)
        assert columns.offsets == bytes([5, *[0] * 7, 6, *[0] * 7])
        assert columns.timestamps == bytes([7, *[0] * 7, 9, *[0] * 7])
        assert (key.count, key.null_count, key.validity, key.data) == (2, 1, b"\x02", b"k")
        assert key.offsets == bytes([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])
        assert (value.null_count, value.validity, value.data) == (0, b"\x03", b"ab")
        assert value.offsets == bytes([0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0])
        assert columns.header_offsets == bytes([0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0])
        assert (names.data, names.validity) == (b"hg", b"\x03")
        assert (contents.data, contents.validity, contents.null_count) == (b"1", b"\x01", 1)

    @pytest.mark.parametrize("count", [7, 8, 9, 16, 17])
    def test_validity_bits_are_right_across_byte_boundaries(self, count: int) -> None:
        columns = RecordColumns()
        keys = [b"k" if i % 3 else None for i in range(count)]
        batch = build([(key, b"", (), 0) for key in keys])
        columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, 100)
        validity = columns.key.finish().validity
        assert len(validity) == (count + 7) // 8
        bits = [validity[i // 8] >> i % 8 & 1 for i in range(count)]
        assert bits == [key is not None for key in keys]

    def test_a_column_can_grow_after_finish(self) -> None:
        columns = RecordColumns()
        batch = build([(b"k", b"v", (), 0)])
        columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, 100)
        assert columns.key.finish().count == 1
        columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, 100)
        finished = columns.key.finish()
        assert (finished.count, finished.validity, finished.data) == (2, b"\x03", b"kk")

    def test_without_headers_the_headers_are_still_checked(self) -> None:
        columns = RecordColumns(with_headers=False)
        batch = build([(b"k", b"v", [("h", b"x")], 0)])
        columns.append_batch(batch, RecordBatchHeader(batch, 0), 0, 100)
        assert columns.header_key.finish().count == 0
        assert columns.header_offsets == bytes(8)
        with pytest.raises(InvalidRecords):
            columns.append(RecordCursor(batch, 61, len(batch) - 1, 1, 0, 0), 0, 100)

    def test_append_stops_at_a_limit_and_continues_with_the_same_cursor(self) -> None:
        batch = build([(b"k", b"v" * 10, (), 0)] * 5)
        cursor = RecordCursor(batch, 61, len(batch), 5, 0, 0)
        columns = RecordColumns()
        assert not columns.append(cursor, 0, 100, max_count=2)
        assert columns.count == 2
        assert not columns.append(cursor, 0, 100, max_data_bytes=32)
        assert columns.count == 3
        assert columns.append(cursor, 0, 100)
        assert columns.offsets == b"".join(bytes([i, *[0] * 7]) for i in range(5))

    def test_log_append_time_replaces_every_timestamp(self) -> None:
        columns = RecordColumns()
        batch = build([(b"k", b"v", (), 3)] * 2)
        columns.append(RecordCursor(batch, 61, len(batch), 2, 0, 3, 77), 0, 100)
        assert columns.timestamps == bytes([77, *[0] * 7]) * 2
