"""Produced batches that are accepted, unchanged or rewritten as the topic requires."""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.compression import CompressionType, compress
from odradek.protocol.record_batch import RecordBatchHeader, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules
from unit.protocol.produced_batches import (
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

APPEND_TIME = BatchRules(log_append_time=True)


class TestAccepted:
    def test_a_valid_batch_keeps_the_producers_bytes(self) -> None:
        data = batch()
        verdict = accepted(data)
        assert not verdict.rewritten
        assert verdict.data[verdict.start : verdict.end] == data
        assert (verdict.count, verdict.size) == (3, len(data))
        assert (verdict.max_timestamp, verdict.max_timestamp_delta) == (NOW + 2, 2)

    @pytest.mark.parametrize("codec", CompressionType)
    def test_a_batch_of_any_codec_is_accepted_unchanged(self, codec: CompressionType) -> None:
        data = batch(compress(codec, THREE), attributes=codec)
        assert not accepted(data).rewritten

    def test_the_result_names_the_first_record_with_the_maximum_timestamp(self) -> None:
        rows = [(None, b"", (), NOW + at) for at in (0, 7, 3, 7)]
        verdict = accepted(build(rows))
        assert (verdict.max_timestamp, verdict.max_timestamp_delta) == (NOW + 7, 1)

    def test_null_and_empty_values_and_unused_record_attributes_are_accepted(self) -> None:
        section = encoded((0, 0, b"", None), (1, 0, None, b"")) + framed(
            b"\x7f" + varints(0, 2, -5, -9, 0)
        )
        accepted(batch(section, 3, max_timestamp=NOW))

    @pytest.mark.parametrize("bit", range(6, 15))
    def test_unused_batch_attribute_bits_are_accepted(self, bit: int) -> None:
        accepted(batch(attributes=1 << bit))

    def test_a_leader_epoch_set_by_a_producer_is_ignored(self) -> None:
        accepted(patched(batch(), 12, ">i", 77))


class TestRewriting:
    @pytest.mark.parametrize("claimed", [NOW + 50_000, 5, -1])
    @pytest.mark.parametrize("codec", [0, 1])
    def test_a_wrong_maximum_timestamp_in_the_header_is_corrected(
        self, claimed: int, codec: int
    ) -> None:
        data = batch(compress(codec, THREE), attributes=codec, max_timestamp=claimed)
        verdict = accepted(data)
        assert verdict.rewritten
        assert verdict.header.max_timestamp == NOW + 2
        assert verdict.data[43:] == data[43:]

    def test_a_topic_with_log_append_time_sets_type_and_maximum_timestamp(self) -> None:
        future = NOW + 10**10  # The producer's timestamps do not matter on this topic.
        verdict = accepted(batch(base_timestamp=future), APPEND_TIME, NOW + 9)
        assert verdict.rewritten
        assert verdict.header.is_log_append_time
        assert (verdict.max_timestamp, verdict.max_timestamp_delta) == (NOW + 9, 0)
        found = records_of(verdict.data, verdict.header)
        assert [record.timestamp for record in found] == [NOW + 9] * 3

    def test_on_such_a_topic_a_batch_that_claims_log_append_time_is_refused(self) -> None:
        verdict = refused(batch(attributes=8), APPEND_TIME)
        assert verdict.error == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in verdict.record_errors] == [0, 1, 2]

    def test_on_a_create_time_topic_the_claim_of_log_append_time_is_removed(self) -> None:
        verdict = accepted(batch(attributes=8, max_timestamp=5))
        assert not verdict.header.is_log_append_time
        assert verdict.max_timestamp == NOW + 2

    @pytest.mark.parametrize("source", CompressionType)
    @pytest.mark.parametrize("target", CompressionType)
    def test_a_topics_own_compression_type_recompresses_other_codecs(
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

    def test_a_batch_that_is_too_large_after_recompression_is_refused(self) -> None:
        data = build([(b"k", b"v" * 5000, (), NOW)], CompressionType.GZIP)
        assert len(data) < 1000
        rules = BatchRules(max_message_bytes=1000, codec=CompressionType.NONE)
        assert error_of(data, rules) == ErrorCode.MESSAGE_TOO_LARGE

    def test_a_recompressed_transactional_batch_stays_transactional(self) -> None:
        rows = [(b"k", b"v", (), NOW)]
        data = build(rows, producer_id=7, base_sequence=0, transactional=True)
        verdict = accepted(data, BatchRules(codec=CompressionType.LZ4))
        assert verdict.header.is_transactional


def test_a_valid_batch_has_its_header_and_position_in_the_frame() -> None:
    verdict = accepted(batch())
    assert isinstance(verdict.header, RecordBatchHeader)
    assert (verdict.start, verdict.end) == (4, 4 + len(batch()))
