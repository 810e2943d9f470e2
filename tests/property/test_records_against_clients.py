"""Batches of kafka-python and aiokafka are read here, and batches made here by them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given

from odradek.model.byte_ranges import ByteRange
from odradek.protocol.compression import CompressionType
from odradek.protocol.record_batch import RecordBatchHeader, is_intact, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate
from property.record_strategies import Row, codecs, timed_rows

with warnings.catch_warnings():
    # kafka-python reads its schemas in a deprecated way.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_python = importlib.import_module("kafka.record")
    KafkaPythonBuilder = importlib.import_module(
        "kafka.record.default_records"
    ).DefaultRecordBatchBuilder

RULES = BatchRules(timestamp_after_max_ms=2**63 - 1, max_message_bytes=8 * 1024 * 1024)
MIB = 1024 * 1024
ODD_ROWS: list[Row] = [
    (None, None, [], 0),
    (b"", b"", [], 1),
    (b"key", None, [("tombstone", None)], 2),
    (None, b"v" * MIB, [("größe", b"1 MiB"), ("", b"")], 3),
]


def theirs(builder_class: Any, content: list[Row], codec: int, **options: int) -> bytes:
    builder = builder_class(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31,
        **options,
    )
    for offset, (key, value, headers, at) in enumerate(content):
        builder.append(offset, timestamp=at, key=key, value=value, headers=headers)
    return bytes(builder.build())


def check_reading(batch: bytes, content: list[Row]) -> None:
    header = RecordBatchHeader(batch, 0)
    assert is_intact(batch, header)
    assert isinstance(validate(ByteRange(batch, 0, len(batch)), RULES, 0), ValidBatch)
    found = [(r.key, r.value, list(r.headers), r.timestamp) for r in records_of(batch, header)]
    assert found == content


def check_theirs(reader: Any, content: list[Row], codec: int) -> None:
    records = reader(build(content, codec, base_offset=1000))
    batch = records.next_batch()
    assert batch.validate_crc()
    found = [(r.offset, r.key, r.value, list(r.headers), r.timestamp) for r in batch]
    assert found == [(1000 + i, k, v, h, at) for i, (k, v, h, at) in enumerate(content)]
    assert records.next_batch() is None


@given(timed_rows, codecs)
def test_a_batch_of_aiokafka_is_read(content: list[Row], codec: int) -> None:
    check_reading(theirs(AiokafkaBuilder, content, codec), content)


@given(timed_rows, codecs)
def test_aiokafka_reads_a_batch(content: list[Row], codec: int) -> None:
    check_theirs(AiokafkaRecords, content, codec)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize(
    ("builder", "reader"),
    [(AiokafkaBuilder, AiokafkaRecords), (KafkaPythonBuilder, kafka_python.MemoryRecords)],
    ids=["aiokafka", "kafka-python"],
)
def test_unusual_records_are_read_by_both_clients(
    builder: Any, reader: Any, codec: CompressionType
) -> None:
    check_reading(theirs(builder, ODD_ROWS, codec), ODD_ROWS)
    check_theirs(reader, ODD_ROWS, codec)


@given(timed_rows, codecs)
def test_a_batch_of_kafka_python_is_read(content: list[Row], codec: int) -> None:
    check_reading(theirs(KafkaPythonBuilder, content, codec), content)


@given(timed_rows, codecs)
def test_kafka_python_reads_a_batch(content: list[Row], codec: int) -> None:
    check_theirs(kafka_python.MemoryRecords, content, codec)


@given(timed_rows)
def test_an_uncompressed_batch_has_the_same_bytes_but_for_the_stamp(content: list[Row]) -> None:
    ours = build(content)
    for builder in (AiokafkaBuilder, KafkaPythonBuilder):
        assert theirs(builder, content, CompressionType.NONE)[16:] == ours[16:]
