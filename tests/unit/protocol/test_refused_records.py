"""Produced batches refused for a record: malformed, without a key, or with a bad timestamp."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.compression import CompressionType, compress
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, InvalidBatch
from unit.protocol.produced_batches import (
    NOW,
    ONE,
    THREE,
    accepted,
    batch,
    encoded,
    error_of,
    framed,
    refused,
    varints,
)

COMPACTED = BatchRules(compacted=True)
WINDOW = BatchRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)

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
    def test_a_malformed_record_is_an_invalid_record(
        self, name: str, codec: CompressionType
    ) -> None:
        section, count = MALFORMED[name]
        data = batch(compress(codec, section), count, attributes=codec, max_timestamp=NOW)
        verdict = refused(data)
        assert verdict.error == ErrorCode.INVALID_RECORD
        assert verdict.record_errors == []
        assert verdict.log_start_known

    def test_the_message_names_the_malformed_record(self) -> None:
        section = encoded((0, 0, b"k", b"v"), (1, 0, b"k", b"v"), (5, 0, b"k", b"v"))
        assert refused(batch(section)).message.startswith("Record 2: offset delta 5")

    @pytest.mark.parametrize("codec", [c for c in CompressionType if c])
    def test_records_that_do_not_decompress_are_an_invalid_record(
        self, codec: CompressionType
    ) -> None:
        section = compress(codec, THREE)
        for broken in (b"\x11" * 50, section[:-5], section + b"garbage"):
            data = batch(broken, attributes=codec)
            assert error_of(data) == ErrorCode.INVALID_RECORD

    def test_records_that_decompress_beyond_the_cap_are_a_message_too_large(self) -> None:
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
    def test_a_record_without_a_key_on_a_compacted_topic_is_an_invalid_record(
        self, codec: int
    ) -> None:
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
    def test_a_timestamp_outside_the_window_is_an_invalid_timestamp(
        self, at: int, fits: bool
    ) -> None:
        data = self.rows((b"k", NOW), (b"k", NOW + at))
        if fits:
            accepted(data, WINDOW)
        else:
            verdict = refused(data, WINDOW)
            assert verdict.error == ErrorCode.INVALID_TIMESTAMP
            assert self.indexes(verdict) == [1]
            assert verdict.log_start_known

    def test_a_record_without_a_timestamp_is_accepted(self) -> None:
        verdict = accepted(build([(b"k", b"v", (), -1)]), WINDOW)
        assert verdict.max_timestamp == -1

    def test_by_default_any_past_and_an_hour_ahead_are_accepted(self) -> None:
        accepted(self.rows((b"k", 0), (b"k", NOW + 3_600_000)))
        ahead = self.rows((b"k", NOW + 3_600_001))
        assert error_of(ahead) == ErrorCode.INVALID_TIMESTAMP

    def test_an_unbounded_window_accepts_every_timestamp(self) -> None:
        unbounded = 2**63 - 1
        rules = BatchRules(timestamp_before_max_ms=unbounded, timestamp_after_max_ms=unbounded)
        accepted(self.rows((b"k", 2**60), (b"k", -(2**60))), rules)

    @pytest.mark.parametrize("base", [2**62, -(2**62), 2**63 - 1, -(2**63)])
    def test_a_base_timestamp_beyond_61_bits_is_an_invalid_timestamp(self, base: int) -> None:
        data = batch(ONE, 1, base_timestamp=base)
        verdict = refused(data)
        assert verdict.error == ErrorCode.INVALID_TIMESTAMP
        assert self.indexes(verdict) == [0]

    def test_a_timestamp_delta_of_ten_bytes_is_an_invalid_timestamp(self) -> None:
        section = framed(b"\0" + b"\xff" * 9 + b"\x01" + varints(0, -1, -1, 0))
        verdict = refused(batch(section, 1))
        assert verdict.error == ErrorCode.INVALID_TIMESTAMP
        assert self.indexes(verdict) == [0]

    def test_invalid_timestamps_take_precedence_over_missing_keys(self) -> None:
        rules = BatchRules(compacted=True, timestamp_before_max_ms=1000)
        both = refused(self.rows((b"k", NOW), (None, NOW), (b"k", NOW - 5000)), rules)
        assert both.error == ErrorCode.INVALID_TIMESTAMP
        assert self.indexes(both) == [1, 2]
        same_record = refused(self.rows((b"k", NOW), (None, NOW - 5000)), rules)
        assert same_record.error == ErrorCode.INVALID_RECORD
        assert self.indexes(same_record) == [1]
