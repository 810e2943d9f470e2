"""Produced batches refused for their framing or header, with the errors of Kafka."""

from __future__ import annotations

import struct

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.compression import compress
from odradek.protocol.validate import BatchRules, ValidBatch
from unit.protocol.produced_batches import (
    THREE,
    accepted,
    batch,
    error_of,
    patched,
    refused,
    validate_in_frame,
)


class TestFraming:
    @pytest.mark.parametrize("kept", [0, 5, 11, 12, 20, 60, len(batch()) - 1])
    def test_an_incomplete_batch_is_an_invalid_record(self, kept: int) -> None:
        assert error_of(batch()[:kept]) == ErrorCode.INVALID_RECORD

    def test_two_batches_are_an_invalid_record(self) -> None:
        assert error_of(batch() + batch()) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("tail", [b"12345", batch()[:-1]], ids=["bytes", "torn batch"])
    def test_an_incomplete_second_batch_is_dropped(self, tail: bytes) -> None:
        verdict = accepted(batch() + tail)
        assert verdict.data[verdict.start : verdict.end] == batch()

    def test_other_bytes_after_the_batch_are_a_corrupt_message(self) -> None:
        assert error_of(batch() + bytes(40)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("magic", [0, 1])
    def test_magic_0_or_1_is_an_invalid_record(self, magic: int) -> None:
        assert error_of(patched(batch(), 16, ">b", magic)) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("magic", [3, -1])
    def test_an_unknown_magic_is_a_corrupt_message(self, magic: int) -> None:
        assert error_of(patched(batch(), 16, ">b", magic)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48, 49])
    def test_a_length_shorter_than_a_header_is_a_corrupt_message(self, length: int) -> None:
        assert error_of(patched(batch(), 8, ">i", length)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [len(batch()) - 11, 5000, 2**31 - 1])
    def test_a_length_beyond_the_end_is_an_invalid_record(self, length: int) -> None:
        assert error_of(patched(batch(), 8, ">i", length)) == ErrorCode.INVALID_RECORD

    def test_zstd_before_produce_version_7_is_an_unsupported_compression_type(self) -> None:
        data = batch(compress(4, THREE), attributes=4)
        assert error_of(data, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert isinstance(validate_in_frame(data, version=7), ValidBatch)


class TestHeader:
    @pytest.mark.parametrize("offset", [-1, 5])
    def test_a_base_offset_other_than_0_is_an_invalid_record(self, offset: int) -> None:
        assert error_of(batch(base_offset=offset)) == ErrorCode.INVALID_RECORD

    def test_a_batch_above_max_message_bytes_is_too_large(self) -> None:
        data = batch()
        accepted(data, BatchRules(max_message_bytes=len(data)))
        rules = BatchRules(max_message_bytes=len(data) - 1)
        assert error_of(data, rules) == ErrorCode.MESSAGE_TOO_LARGE

    def test_a_batch_larger_than_a_segment_is_a_record_list_too_large(self) -> None:
        data = batch()
        accepted(data, BatchRules(segment_bytes=len(data)))
        rules = BatchRules(segment_bytes=len(data) - 1)
        assert error_of(data, rules) == ErrorCode.RECORD_LIST_TOO_LARGE

    def test_a_wrong_crc_is_a_corrupt_message(self) -> None:
        data = batch()
        assert error_of(data[:-1] + b"\x7f") == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_an_unknown_codec_is_an_unsupported_compression_type(self, codec: int) -> None:
        data = batch(attributes=codec)
        assert error_of(data) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    @pytest.mark.parametrize(
        ("count", "last_offset_delta"),
        [(0, 2), (-1, 2), (2, 2), (4, 2), (3, -1), (3, 2**31 - 1), (0, -1), (0, 0)],
    )
    def test_a_count_that_differs_from_the_offset_range_is_an_invalid_record(
        self, count: int, last_offset_delta: int
    ) -> None:
        data = batch(THREE, count, last_offset_delta=last_offset_delta)
        assert error_of(data) == ErrorCode.INVALID_RECORD

    def test_an_empty_batch_is_an_invalid_record(self) -> None:
        assert error_of(batch(b"", 0, last_offset_delta=-1)) == ErrorCode.INVALID_RECORD

    def test_a_control_batch_is_an_invalid_record(self) -> None:
        assert error_of(batch(attributes=0x20)) == ErrorCode.INVALID_RECORD

    def test_a_producer_id_without_a_sequence_is_an_invalid_record(self) -> None:
        assert error_of(batch(producer_id=5)) == ErrorCode.INVALID_RECORD
        accepted(batch(producer_id=5, base_sequence=0))
        accepted(batch(base_sequence=3))

    def test_of_two_faults_the_first_in_kafkas_order_is_answered(self) -> None:
        tiny = BatchRules(max_message_bytes=70)
        broken = batch()[:-1] + b"\x7f"
        assert error_of(broken, tiny) == ErrorCode.MESSAGE_TOO_LARGE
        moved = struct.pack(">q", 9) + broken[8:]
        assert error_of(moved, tiny) == ErrorCode.INVALID_RECORD


def test_the_answer_has_a_log_start_offset_where_kafkas_does() -> None:
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
