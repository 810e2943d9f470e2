"""Produced batches that are taken: kept to the byte, or rewritten where header or topic ask for
it.
"""

from __future__ import annotations

import pytest
from judged_batches import (
    NOW,
    THREE,
    accepted,
    batch,
    encoded,
    error_of,
    framed,
    patched,
    refused,
    varints,
)

from odradek.model.errors import ErrorCode
from odradek.protocol.compression import CompressionType, compress
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules

APPEND_TIME = BatchRules(log_append_time=True)


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


def test_headers_of_valid_batches_are_read_at_their_place() -> None:
    verdict = accepted(batch())
    assert isinstance(verdict.header, RecordBatchHeader)
    assert (verdict.start, verdict.end) == (4, 4 + len(batch()))
