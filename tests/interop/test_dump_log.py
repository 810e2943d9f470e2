"""Kafka's DumpLogSegments finds our files valid and prints what our own reader prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from clients.killing import killed_over_and_over
from odradek.log import dump
from odradek.log.files import LocalDisk
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

RunTool = Callable[..., str]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
SEGMENT_BYTES = 1024 * 1024
PROBLEMS = (
    "Mismatches in",
    "Non-consecutive offsets",
    "isvalid: false",
    "Found timestamp mismatch",
)


def files_of(data_dir: Path, suffix: str) -> list[Path]:
    return sorted(path for path in data_dir.rglob(f"*{suffix}") if path.parent != data_dir)


def dumped(run_tool: RunTool, files: list[Path], *arguments: str) -> str:
    told = run_tool(DUMP, *arguments, "--files", ",".join(map(str, files)))
    found = [problem for problem in PROBLEMS if problem in told]
    assert found == [], told[-3000:]
    return told


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a stopped broker: segments of every codec, an idempotent producer."""
    directory = tmp_path_factory.mktemp("dumped")
    settings = {"log.segment.bytes": SEGMENT_BYTES, "log.index.interval.bytes": 1000}
    with Broker(data_dir=directory, settings=settings) as broker:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": codec in ("none", "lz4"),
                    "linger.ms": 1,
                    "batch.num.messages": 50,
                }
            )
            for number in range(3_000):
                key = None if number % 5 == 0 else str(number)
                headers = [("h", b"1"), ("empty", None)] if number % 7 == 0 else None
                # Uncompressed, it alone exceeds a segment, however well the rest compresses.
                times = 90 if codec == "none" else 30
                value = None if number % 11 == 0 else f"{number}-{codec}" * times
                producer.produce("dumped", value, key, 0, headers=headers)  # type: ignore[arg-type]
            assert producer.flush(30) == 0
    return directory


def test_dump_log_segments_prints_the_batches_and_records_of_our_reader(
    data_dir: Path, run_tool: RunTool
) -> None:
    logs = [path for path in files_of(data_dir, ".log") if "cluster_metadata" not in str(path)]
    assert len(logs) > 1
    told = dumped(run_tool, logs, "--deep-iteration", "--print-data-log")
    disk = LocalDisk()
    ours = [str(line) for path in logs for line in dump.batches(disk, str(path))]
    theirs = [line.strip() for line in told.splitlines() if line.startswith("baseOffset")]
    assert theirs == ours
    offsets = [record.offset for path in logs for record in dump.records(disk, str(path))]
    assert [int(found) for found in re.findall(r"^\| offset: (\d+)", told, re.M)] == offsets
    assert offsets == list(range(15_000))


def test_index_entries_point_to_their_batches(data_dir: Path, run_tool: RunTool) -> None:
    indexes, time_indexes = files_of(data_dir, ".index"), files_of(data_dir, ".timeindex")
    told = dumped(run_tool, indexes)
    disk = LocalDisk()
    ours = [entry for path in indexes for entry in dump.offset_index(disk, str(path))]
    theirs = [
        (int(a), int(b)) for a, b in re.findall(r"^offset: (\d+) position: (\d+)", told, re.M)
    ]
    assert theirs == ours
    assert len(ours) > 100
    told = dumped(run_tool, time_indexes)
    ours = [entry for path in time_indexes for entry in dump.time_index(disk, str(path))]
    theirs = [
        (int(a), int(b)) for a, b in re.findall(r"^timestamp: (\d+) offset: (\d+)", told, re.M)
    ]
    assert theirs == ours
    dumped(run_tool, indexes + time_indexes, "--index-sanity-check")


def test_producer_snapshots_have_the_same_producers(data_dir: Path, run_tool: RunTool) -> None:
    snapshots = files_of(data_dir, ".snapshot")
    told = dumped(run_tool, snapshots)
    disk = LocalDisk()
    ours = [
        (row.producer_id, row.producer_epoch, row.last_sequence, row.last_offset)
        for path in snapshots
        for row in dump.snapshot(disk, str(path))
    ]
    pattern = r"producerId: (\d+) producerEpoch: (\d+) .*?lastSequence: (-?\d+) lastOffset: (-?\d+)"
    found = re.findall(pattern, told)
    assert sorted(tuple(map(int, row)) for row in found) == sorted(ours)
    assert len({row[0] for row in ours}) == 2


def test_our_metadata_log_is_decoded_by_kafka(data_dir: Path, run_tool: RunTool) -> None:
    logs = [path for path in files_of(data_dir, ".log") if "cluster_metadata" in str(path)]
    told = dumped(run_tool, logs, "--cluster-metadata-decoder")
    kinds = set(re.findall(r'"type":"(\w+)"', told))
    expected = {
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
    }
    assert expected <= kinds
    assert '"name":"dumped"' in told


def test_the_log_is_valid_after_kills_under_load(tmp_path: Path, run_tool: RunTool) -> None:
    """`tests/clients/test_kill.py` has more of them."""
    loads = killed_over_and_over(tmp_path / "data", rounds=6, seed=4)
    logs = [path for path in files_of(tmp_path / "data", ".log") if "metadata" not in str(path)]
    told = dumped(run_tool, logs, "--deep-iteration", "--print-data-log")
    records = len(re.findall(r"^\| offset: \d+", told, re.M))
    assert records >= sum(load.sent for load in loads.values())
    dumped(run_tool, files_of(tmp_path / "data", "index"))
