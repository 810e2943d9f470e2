"""Kafka's checks on produced batches: each rule with its answer, as a real broker gives it."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence

import pytest
from librt.strings import BytesWriter

from odradek.model.errors import ErrorCode
from odradek.model.spans import Span
from odradek.protocol import record_batch, record_writer
from odradek.protocol.compression import CompressionType, compress
from odradek.protocol.record_batch import RecordBatchHeader, is_intact, records_of
from odradek.protocol.record_batch_builder import assemble, build
from odradek.protocol.validate import BatchRules, InvalidBatch, ValidBatch, validate

NOW = 1_366_000_000_000
ANY = BatchRules()
COMPACTED = BatchRules(compacted=True)
WINDOW = BatchRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
APPEND_TIME = BatchRules(log_append_time=True)


def encoded(*rows: tuple[int, int, bytes | None, bytes | None]) -> bytes:
    """A records section from (offset delta, timestamp delta, key, value)."""
    writer = BytesWriter()
    for offset_delta, timestamp_delta, key, value in rows:
        record_writer.encode(writer, offset_delta, timestamp_delta, key, value, ())
    return writer.getvalue()


def varints(*values: int) -> bytes:
    writer = BytesWriter()
    for value in values:
        record_writer.write_varint(writer, value)
    return writer.getvalue()


def framed(body: bytes) -> bytes:
    """A record of hand-made fields."""
    return varints(len(body)) + body


THREE = encoded((0, 0, b"k", b"a"), (1, 1, b"k", b"b"), (2, 2, b"k", b"c"))


def batch(
    section: bytes = THREE,
    count: int = 3,
    *,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = NOW,
    max_timestamp: int = NOW + 2,
    producer_id: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
) -> bytes:
    return assemble(
        section,
        count,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        base_offset=base_offset,
    )


def judge(
    data: bytes, rules: BatchRules = ANY, now_ms: int = NOW, version: int = 13
) -> ValidBatch | InvalidBatch:
    """The verdict on a batch in the middle of a frame."""
    return validate(Span(b"head" + data + b"tail", 4, 4 + len(data)), rules, now_ms, version)


def accepted(data: bytes, rules: BatchRules = ANY, now_ms: int = NOW) -> ValidBatch:
    verdict = judge(data, rules, now_ms)
    assert isinstance(verdict, ValidBatch), verdict
    assert is_intact(verdict.data, verdict.header)
    return verdict


def refused(
    data: bytes, rules: BatchRules = ANY, now_ms: int = NOW, version: int = 13
) -> InvalidBatch:
    verdict = judge(data, rules, now_ms, version)
    assert isinstance(verdict, InvalidBatch), "was accepted"
    assert verdict.message
    return verdict


def error_of(data: bytes, rules: BatchRules = ANY, version: int = 13) -> ErrorCode:
    return refused(data, rules, version=version).error


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """The batch with one field changed and its CRC made true again."""
    field = struct.pack(form, value)
    data = data[:at] + field + data[at + len(field) :]
    return data[:17] + struct.pack(">I", record_batch.crc32c(data, 21, len(data))) + data[21:]


class TestAccepted:
    def test_the_producers_bytes_are_kept(self) -> None:
        data = batch()
        verdict = accepted(data)
        assert not verdict.rewritten
        assert verdict.data[verdict.start : verdict.end] == data
        assert (verdict.count, verdict.size) == (3, len(data))
        assert (verdict.max_timestamp, verdict.max_timestamp_delta) == (NOW + 2, 2)

    @pytest.mark.parametrize("codec", CompressionType)
    def test_every_codec(self, codec: CompressionType) -> None:
        data = batch(compress(codec, THREE), attributes=codec)
        assert not accepted(data).rewritten

    def test_the_first_record_with_the_maximum_timestamp_is_named(self) -> None:
        rows = [(None, b"", (), NOW + at) for at in (0, 7, 3, 7)]
        verdict = accepted(build(rows))
        assert (verdict.max_timestamp, verdict.max_timestamp_delta) == (NOW + 7, 1)

    def test_records_without_timestamps(self) -> None:
        verdict = accepted(build([(b"k", b"v", (), -1)]), WINDOW)
        assert verdict.max_timestamp == -1

    def test_null_values_empty_values_and_unused_attributes(self) -> None:
        section = encoded((0, 0, b"", None), (1, 0, None, b"")) + framed(
            b"\x7f" + varints(0, 2, -5, -9, 0)
        )
        accepted(batch(section, 3, max_timestamp=NOW))

    @pytest.mark.parametrize("bit", range(6, 15))
    def test_unused_attribute_bits(self, bit: int) -> None:
        accepted(batch(attributes=1 << bit))

    def test_leader_epochs_of_producers_are_ignored(self) -> None:
        accepted(patched(batch(), 12, ">i", 77))


class TestWhole:
    @pytest.mark.parametrize("kept", [0, 5, 11, 12, 20, 60, len(batch()) - 1])
    def test_less_than_a_batch(self, kept: int) -> None:
        assert error_of(batch()[:kept]) == ErrorCode.INVALID_RECORD

    def test_two_batches(self) -> None:
        assert error_of(batch() + batch()) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("tail", [b"12345", batch()[:-1]], ids=["bytes", "torn batch"])
    def test_a_torn_piece_after_the_batch_is_dropped(self, tail: bytes) -> None:
        verdict = accepted(batch() + tail)
        assert verdict.data[verdict.start : verdict.end] == batch()

    def test_garbage_after_the_batch(self) -> None:
        assert error_of(batch() + bytes(40)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_magics(self, magic: int) -> None:
        assert error_of(patched(batch(), 16, ">b", magic)) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("magic", [3, -1])
    def test_impossible_magics(self, magic: int) -> None:
        assert error_of(patched(batch(), 16, ">b", magic)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48, 49])
    def test_lengths_that_are_too_small(self, length: int) -> None:
        assert error_of(patched(batch(), 8, ">i", length)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [len(batch()) - 11, 5000, 2**31 - 1])
    def test_lengths_that_are_too_large(self, length: int) -> None:
        assert error_of(patched(batch(), 8, ">i", length)) == ErrorCode.INVALID_RECORD

    def test_zstd_before_its_version(self) -> None:
        data = batch(compress(4, THREE), attributes=4)
        assert error_of(data, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert isinstance(judge(data, version=7), ValidBatch)


class TestHeader:
    @pytest.mark.parametrize("offset", [-1, 5])
    def test_base_offset(self, offset: int) -> None:
        assert error_of(batch(base_offset=offset)) == ErrorCode.INVALID_RECORD

    def test_size_to_the_byte(self) -> None:
        data = batch()
        accepted(data, BatchRules(max_message_bytes=len(data)))
        rules = BatchRules(max_message_bytes=len(data) - 1)
        assert error_of(data, rules) == ErrorCode.MESSAGE_TOO_LARGE

    def test_size_to_the_byte_of_a_segment(self) -> None:
        data = batch()
        accepted(data, BatchRules(segment_bytes=len(data)))
        rules = BatchRules(segment_bytes=len(data) - 1)
        assert error_of(data, rules) == ErrorCode.RECORD_LIST_TOO_LARGE

    def test_crc(self) -> None:
        data = batch()
        assert error_of(data[:-1] + b"\x7f") == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_unknown_codecs(self, codec: int) -> None:
        data = batch(attributes=codec)
        assert error_of(data) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    @pytest.mark.parametrize(
        ("count", "last_offset_delta"),
        [(0, 2), (-1, 2), (2, 2), (4, 2), (3, -1), (3, 2**31 - 1), (0, -1), (0, 0)],
    )
    def test_counts_that_do_not_agree(self, count: int, last_offset_delta: int) -> None:
        data = batch(THREE, count, last_offset_delta=last_offset_delta)
        assert error_of(data) == ErrorCode.INVALID_RECORD

    def test_an_empty_batch(self) -> None:
        assert error_of(batch(b"", 0, last_offset_delta=-1)) == ErrorCode.INVALID_RECORD

    def test_control_batches(self) -> None:
        assert error_of(batch(attributes=0x20)) == ErrorCode.INVALID_RECORD

    def test_a_producer_id_needs_a_sequence(self) -> None:
        assert error_of(batch(producer_id=5)) == ErrorCode.INVALID_RECORD
        accepted(batch(producer_id=5, base_sequence=0))
        accepted(batch(base_sequence=3))

    def test_which_of_two_faults_is_answered(self) -> None:
        tiny = BatchRules(max_message_bytes=70)
        broken = batch()[:-1] + b"\x7f"
        assert error_of(broken, tiny) == ErrorCode.MESSAGE_TOO_LARGE
        moved = struct.pack(">q", 9) + broken[8:]
        assert error_of(moved, tiny) == ErrorCode.INVALID_RECORD


ONE = encoded((0, 0, b"k", b"v"))
MALFORMED = {
    "too few records": (THREE, 4),
    "too many records": (THREE, 2),
    "bytes after the records": (ONE + b"zz", 1),
    "a huge count": (THREE, 2**31 - 1),
    "record longer than the batch": (varints(40) + ONE[1:], 1),
    "record shorter than its fields": (varints(5) + ONE[1:], 1),
    "negative record length": (varints(-1) + ONE[1:], 1),
    "endless varint": (b"\xff" * 6 + ONE, 1),
    "varint of 33 bits": (framed(b"\0\0\x80\x80\x80\x80\x10" + varints(-1, -1, 0)), 1),
    "offset deltas with a gap": (encoded((0, 0, b"k", b"v"), (2, 0, b"k", b"v")), 2),
    "offset deltas that repeat": (ONE + ONE, 2),
    "negative offset delta": (encoded((-1, 0, b"k", b"v")), 1),
    "key longer than its record": (framed(b"\0" + varints(0, 0, 100) + b"k\x02v\0"), 1),
    "value longer than its record": (framed(b"\0" + varints(0, 0, -1, 100) + b"v\0"), 1),
    "value of 2 GiB": (framed(b"\0" + varints(0, 0, -1, 2**31 - 1) + b"v\0"), 1),
    "negative number of headers": (framed(b"\0" + varints(0, 0, -1, -1, -1)), 1),
    "more headers than bytes": (framed(b"\0" + varints(0, 0, -1, -1, 5)), 1),
    "2 billion headers": (framed(b"\0" + varints(0, 0, -1, -1, 2**31 - 1)), 1),
    "null header key": (framed(b"\0" + varints(0, 0, -1, -1, 1, -1, -1)), 1),
    "header key over the end": (framed(b"\0" + varints(0, 0, -1, -1, 1, 9, -1)), 1),
    "header value over the end": (framed(b"\0" + varints(0, 0, -1, -1, 1, 0, 9)), 1),
    "bytes after the headers": (framed(b"\0" + varints(0, 0, -1, -1, 0) + b"zz"), 1),
    "an empty record": (b"\0", 1),
}


class TestRecords:
    @pytest.mark.parametrize("codec", CompressionType)
    @pytest.mark.parametrize("name", MALFORMED)
    def test_malformed_records(self, name: str, codec: CompressionType) -> None:
        section, count = MALFORMED[name]
        data = batch(compress(codec, section), count, attributes=codec, max_timestamp=NOW)
        verdict = refused(data)
        assert verdict.error == ErrorCode.INVALID_RECORD
        assert verdict.record_errors == []
        assert verdict.log_start_known

    def test_the_record_at_fault_is_named(self) -> None:
        section = encoded((0, 0, b"k", b"v"), (1, 0, b"k", b"v"), (5, 0, b"k", b"v"))
        assert refused(batch(section)).message.startswith("Record 2: offset delta 5")

    @pytest.mark.parametrize("codec", [c for c in CompressionType if c])
    def test_sections_that_do_not_decompress(self, codec: CompressionType) -> None:
        section = compress(codec, THREE)
        for broken in (b"\x11" * 50, section[:-5], section + b"garbage"):
            data = batch(broken, attributes=codec)
            assert error_of(data) == ErrorCode.INVALID_RECORD

    def test_decompression_is_capped(self) -> None:
        zeros = encoded((0, 0, b"k", bytes(17 * 1024 * 1024)))
        data = batch(gzip.compress(zeros, 1), 1, attributes=1, max_timestamp=NOW)
        assert error_of(data) == ErrorCode.MESSAGE_TOO_LARGE
        accepted(data, BatchRules(max_message_bytes=2 * 1024 * 1024))  # a cap of 20 MiB


class TestKeysAndTimestamps:
    @staticmethod
    def rows(*rows: tuple[bytes | None, int], codec: int = 0) -> bytes:
        return build([(key, b"v", (), at) for key, at in rows], codec)

    @staticmethod
    def indexes(verdict: InvalidBatch) -> Sequence[int]:
        return [error.batch_index for error in verdict.record_errors]

    @pytest.mark.parametrize("codec", [0, 1])
    def test_compacted_topics_need_keys(self, codec: int) -> None:
        data = self.rows((b"k", NOW), (None, NOW), (b"", NOW), (None, NOW), codec=codec)
        verdict = refused(data, COMPACTED)
        assert verdict.error == ErrorCode.INVALID_RECORD
        assert self.indexes(verdict) == [1, 3]
        assert all("without a key" in error.message for error in verdict.record_errors)
        accepted(data)

    @pytest.mark.parametrize(
        ("at", "fits"),
        [(-1000, True), (-1001, False), (500, True), (501, False), (0, True)],
    )
    def test_the_window_to_the_millisecond(self, at: int, fits: bool) -> None:
        data = self.rows((b"k", NOW), (b"k", NOW + at))
        if fits:
            accepted(data, WINDOW)
        else:
            verdict = refused(data, WINDOW)
            assert verdict.error == ErrorCode.INVALID_TIMESTAMP
            assert self.indexes(verdict) == [1]
            assert verdict.log_start_known

    def test_by_default_an_hour_ahead_and_any_past(self) -> None:
        accepted(self.rows((b"k", 0), (b"k", NOW + 3_600_000)))
        ahead = self.rows((b"k", NOW + 3_600_001))
        assert error_of(ahead) == ErrorCode.INVALID_TIMESTAMP

    def test_an_unbounded_window_takes_everything(self) -> None:
        unbounded = 2**63 - 1
        rules = BatchRules(timestamp_before_max_ms=unbounded, timestamp_after_max_ms=unbounded)
        accepted(self.rows((b"k", 2**60), (b"k", -(2**60))), rules)

    @pytest.mark.parametrize("base", [2**62, -(2**62), 2**63 - 1, -(2**63)])
    def test_timestamps_no_clock_shows(self, base: int) -> None:
        data = batch(ONE, 1, base_timestamp=base)
        verdict = refused(data)
        assert verdict.error == ErrorCode.INVALID_TIMESTAMP
        assert self.indexes(verdict) == [0]

    def test_a_timestamp_delta_of_ten_bytes(self) -> None:
        section = framed(b"\0" + b"\xff" * 9 + b"\x01" + varints(0, -1, -1, 0))
        verdict = refused(batch(section, 1))
        assert verdict.error == ErrorCode.INVALID_TIMESTAMP
        assert self.indexes(verdict) == [0]

    def test_timestamps_speak_louder_than_keys(self) -> None:
        rules = BatchRules(compacted=True, timestamp_before_max_ms=1000)
        both = refused(self.rows((b"k", NOW), (None, NOW), (b"k", NOW - 5000)), rules)
        assert both.error == ErrorCode.INVALID_TIMESTAMP
        assert self.indexes(both) == [1, 2]
        same_record = refused(self.rows((b"k", NOW), (None, NOW - 5000)), rules)
        assert same_record.error == ErrorCode.INVALID_RECORD
        assert self.indexes(same_record) == [1]


class TestRewriting:
    @pytest.mark.parametrize("claimed", [NOW + 50_000, 5, -1])
    @pytest.mark.parametrize("codec", [0, 1])
    def test_a_header_that_lies_about_the_maximum_is_put_right(
        self, claimed: int, codec: int
    ) -> None:
        data = batch(compress(codec, THREE), attributes=codec, max_timestamp=claimed)
        verdict = accepted(data)
        assert verdict.rewritten
        assert verdict.header.max_timestamp == NOW + 2
        assert verdict.data[43:] == data[43:]

    def test_log_append_time(self) -> None:
        future = NOW + 10**10  # what producers say does not matter there
        verdict = accepted(batch(base_timestamp=future), APPEND_TIME, NOW + 9)
        assert verdict.rewritten
        assert verdict.header.is_log_append_time
        assert (verdict.max_timestamp, verdict.max_timestamp_delta) == (NOW + 9, 0)
        found = records_of(verdict.data, verdict.header)
        assert [record.timestamp for record in found] == [NOW + 9] * 3

    def test_producers_may_not_claim_log_append_time_there(self) -> None:
        verdict = refused(batch(attributes=8), APPEND_TIME)
        assert verdict.error == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in verdict.record_errors] == [0, 1, 2]

    def test_elsewhere_the_claim_is_taken_away(self) -> None:
        verdict = accepted(batch(attributes=8, max_timestamp=5))
        assert not verdict.header.is_log_append_time
        assert verdict.max_timestamp == NOW + 2

    @pytest.mark.parametrize("source", CompressionType)
    @pytest.mark.parametrize("target", CompressionType)
    def test_a_topics_own_compression_type(
        self, source: CompressionType, target: CompressionType
    ) -> None:
        rows = [(b"k", b"v" * 50, [("h", b"x"), ("n", None)], NOW + i) for i in range(20)]
        data = build(rows, source, producer_id=7, producer_epoch=2, base_sequence=9)
        verdict = accepted(data, BatchRules(codec=target))
        header = verdict.header
        assert verdict.rewritten == (source != target)
        assert header.compression_type == target
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 9)
        assert verdict.max_timestamp_delta == 19
        found = [
            (r.offset, r.key, r.value, r.headers, r.timestamp)
            for r in records_of(verdict.data, header)
        ]
        assert found == [(i, k, v, h, at) for i, (k, v, h, at) in enumerate(rows)]

    def test_too_large_after_recompression(self) -> None:
        data = build([(b"k", b"v" * 5000, (), NOW)], CompressionType.GZIP)
        assert len(data) < 1000
        rules = BatchRules(max_message_bytes=1000, codec=CompressionType.NONE)
        assert error_of(data, rules) == ErrorCode.MESSAGE_TOO_LARGE

    def test_transactional_batches_stay_so(self) -> None:
        rows = [(b"k", b"v", (), NOW)]
        data = build(rows, producer_id=7, base_sequence=0, transactional=True)
        verdict = accepted(data, BatchRules(codec=CompressionType.LZ4))
        assert verdict.header.is_transactional


def test_the_answer_shows_the_log_start_offset_where_kafkas_does() -> None:
    shown = {
        "base offset": refused(batch(base_offset=5)),
        "count": refused(batch(THREE, 0)),
        "control": refused(batch(attributes=0x20)),
    }
    hidden = {
        "crc": refused(batch()[:-1] + b"\x7f"),
        "size": refused(batch(), BatchRules(max_message_bytes=10)),
        "nothing": refused(b""),
        "magic": refused(patched(batch(), 16, ">b", 1)),
    }
    assert all(verdict.log_start_known for verdict in shown.values())
    assert not any(verdict.log_start_known for verdict in hidden.values())


def test_headers_of_valid_batches_are_read_at_their_place() -> None:
    verdict = accepted(batch())
    assert isinstance(verdict.header, RecordBatchHeader)
    assert (verdict.start, verdict.end) == (4, 4 + len(batch()))
