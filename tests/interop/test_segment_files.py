"""Kafka's DumpLogSegments reads our segment files, and our reader those of a real Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.apache_kafka import ApacheKafka
from odradek.log import dump
from odradek.log.fence import Fence
from odradek.log.files import LocalDisk
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery import open_log
from odradek.model.byte_ranges import ByteRange
from odradek.protocol.record_batch import batches, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate

pytestmark = pytest.mark.interop

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = ("mismatch", "not found", "out of order", "invalid", "isvalid: false", "exception")


def open_at(directory: Path, config: LogConfig) -> Log:
    return open_log(
        LocalDisk(), str(directory), config, Fence(str(directory)), IndexCache(), now_ms=0
    )[0]


@pytest.fixture
def our_files(tmp_path: Path) -> Path:
    """A log of several segments: all codecs, idempotent or not, timestamps that go back."""
    directory = tmp_path / "topic-0"
    directory.mkdir()
    log = open_at(directory, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    sequence = 0
    for n in range(400):
        count, idempotent = n % 7 + 1, n % 3 > 0
        timestamp = 1_700_000_000_000 + n * 7919 % 1000 * 10
        data = build(
            [(b"%d" % n, b"value" * k, [("h", b"x")], timestamp + k) for k in range(count)],
            n % 5,
            producer_id=77 if idempotent else -1,
            producer_epoch=1 if idempotent else -1,
            base_sequence=sequence if idempotent else -1,
        )
        valid = validate(ByteRange(data, 0, len(data)), BatchRules(), timestamp)
        assert isinstance(valid, ValidBatch)
        log.append(valid, n // 100, now_ms=0)
        sequence += count * idempotent
    log.close()
    assert len(log.segments) > 2
    return directory


def test_dump_log_segments_prints_what_our_reader_finds_in_our_files(
    our_files: Path, run_tool: Callable[..., str]
):
    disk = LocalDisk()
    for path in sorted(our_files.glob("0*")):
        told = run_tool(DUMP, "--deep-iteration", "--print-data-log", "--files", str(path))
        lines = told.splitlines()
        assert not [line for line in lines if any(bad in line.lower() for bad in COMPLAINTS)]
        if path.suffix == ".log":
            assert [line for line in lines if line.startswith("baseOffset")] == [
                str(line) for line in dump.batches(disk, str(path))
            ]
            records = [line for line in lines if line.startswith("| offset")]
            assert len(records) == sum(1 for _ in dump.records(disk, str(path)))
        elif path.suffix == ".index":
            assert [line for line in lines if line.startswith("offset:")] == [
                f"offset: {offset} position: {position}"
                for offset, position in dump.offset_index(disk, str(path))
            ]
        elif path.suffix == ".timeindex":
            assert [line for line in lines if line.startswith("timestamp:")] == [
                f"timestamp: {timestamp} offset: {offset}"
                for timestamp, offset in dump.time_index(disk, str(path))
            ]
        else:
            (row,) = dump.snapshot(disk, str(path))
            assert f"producerId: {row.producer_id} " in told
            assert f"lastSequence: {row.last_sequence} lastOffset: {row.last_offset} " in told


def test_a_log_of_kafka_is_read_and_its_index_is_rebuilt_alike(kafka: ApacheKafka, tmp_path: Path):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.create_topics([NewTopic("segment-files", 1, 1)]).values():
        done.result()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.num.messages": 20,
            }
        )
        for n in range(2000):
            producer.produce("segment-files", key=codec, value=b"." * (n % 300))
            producer.poll(0)
        assert producer.flush(30) == 0
    (theirs,) = kafka.directory.rglob("segment-files-0")
    copy = Path(shutil.copytree(theirs, tmp_path / "copy"))
    log = open_at(copy, LogConfig())
    assert log.log_end_offset == 10_000
    result = log.read(0, 1 << 30, 10_000)
    data = b"".join(piece.read() for piece in result.slices)
    result.release()
    found = [record for header in batches(data) for record in records_of(data, header)]
    assert [record.offset for record in found] == list(range(10_000))
    assert [len(record.value or b"") for record in found] == [n % 300 for n in range(2000)] * 5
    assert len(log.producers) == 5
    log.close()
    name = "00000000000000000000.index"
    made = (copy / name).read_bytes()
    kept = (theirs / name).read_bytes()  # In the active segment zeros follow.
    assert kept[: len(made)] == made
    assert not kept[len(made) :].strip(b"\0")
