"""Kafka's DumpLogSegments finds our files valid and prints what our own reader prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import odradek
from clients.killing import killed_over_and_over
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.transaction_records import TRANSACTION_RECORDS
from odradek.log import dump
from odradek.log.fence import Fence
from odradek.log.files import LocalDisk
from odradek.log.index import IndexCache
from odradek.log.log_config import LogConfig
from odradek.log.recovery import open_log
from odradek.model.topics import TRANSACTION_STATE, uuid_text
from odradek.testing.broker import Broker
from unit.log.log_making import fill
from unit.log.transactions import Transactional

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


def test_transactions_are_what_kafka_finds_in_the_files(tmp_path: Path, run_tool: RunTool) -> None:
    """Markers, the index of aborted transactions, and open ones in a producer snapshot."""
    directory = str(tmp_path / "t-0")
    disk = LocalDisk()
    disk.make_directory(directory)
    config = LogConfig(index_interval_bytes=100)
    log, _ = open_log(disk, directory, config, Fence("data"), IndexCache(), now_ms=0)
    first, second, third = (Transactional(log, number) for number in (1, 2, 3))
    first.send(2)
    second.send()
    fill(log, 1)
    second.end(committed=False, coordinator_epoch=5)
    first.end(committed=True, coordinator_epoch=6, version=2)
    third.send(3)
    first.send()
    third.end(committed=False)
    second.send()
    log.close()
    logs, indexes = files_of(tmp_path, ".log"), files_of(tmp_path, ".txnindex")
    told = dumped(run_tool, logs, "--deep-iteration", "--print-data-log")
    (segment,) = logs
    theirs = [line.strip() for line in told.splitlines() if line.startswith("baseOffset")]
    assert theirs == [str(line) for line in dump.batches(disk, str(segment))]
    markers = [row for row in dump.records(disk, str(segment)) if isinstance(row, dump.Marker)]
    assert re.findall(r"\| offset: (\d+) .*endTxnMarker: (\w+) coordinatorEpoch: (\d+)", told) == [
        (str(row.offset), row.control_type, str(row.coordinator_epoch)) for row in markers
    ]
    assert [row.control_type for row in markers] == ["ABORT", "COMMIT", "ABORT"]
    (index,) = indexes
    told = dumped(run_tool, indexes)
    pattern = (
        r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) "
        r"lastStableOffset: (\d+)"
    )
    assert [tuple(map(int, row)) for row in re.findall(pattern, told)] == [
        (version, *row) for version, row in dump.transaction_index(disk, str(index))
    ]
    (snapshot,) = files_of(tmp_path, ".snapshot")
    told = dumped(run_tool, [snapshot])
    pattern = (
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) "
        r"currentTxnFirstOffset: OptionalLong(?:\.empty|\[(\d+)\]) lastTimestamp: (\d+)"
    )
    assert [tuple(int(part or -1) for part in row) for row in re.findall(pattern, told)] == [
        (
            row.producer_id,
            row.producer_epoch,
            row.coordinator_epoch,
            row.current_txn_first_offset,
            row.timestamp,
        )
        for row in dump.snapshot(disk, str(snapshot))
    ]


def test_the_state_of_transactions_is_decoded_by_kafka(tmp_path: Path, run_tool: RunTool) -> None:
    with Broker(data_dir=tmp_path, settings={"transaction.state.log.num.partitions": 1}) as broker:
        with odradek.Producer(brokers=broker.bootstrap, transactional_id="billing-1") as producer:
            with producer.transaction():
                producer.send("invoices", b"one", partition=0)
            producer.begin_transaction()
            producer.send("invoices", b"two", partition=0)
            producer.flush()
            producer.abort_transaction()
        topic = broker.node.broker.image.topic(TRANSACTION_STATE)
    assert topic is not None
    (segment,) = (tmp_path / f"{uuid_text(topic.id)}-0").glob("*.log")
    told = dumped(run_tool, [segment], "--transaction-log-decoder")
    theirs = [
        (json.loads(key), json.loads(payload))
        for key, payload in re.findall(
            r"^\| offset: .* key: (\{.*\}) payload: (\{.*\})$", told, re.M
        )
    ]
    ours = [
        TRANSACTION_RECORDS.decode(record.key, record.value)
        for record in dump.records(LocalDisk(), str(segment))
        if not isinstance(record, dump.Marker)
    ]
    assert theirs == [(key_shown(each), value_shown(each)) for each in ours if each is not None]
    begun, committed, aborted = [0, 1], [2, 4], 3
    states = [value["data"]["transactionStatus"] for _, value in theirs]
    assert states[: len(begun + committed)] == begun + committed
    assert aborted in states


def key_shown(record: CoordinatorRecord) -> dict[str, Any]:
    return {"type": "0", "data": {"transactionalId": record.key.transactional_id}}


def value_shown(record: CoordinatorRecord) -> dict[str, Any]:
    """The value as the tool prints it: without tagged fields that have their default."""
    value = record.value
    partitions = value.transaction_partitions
    data = {
        "producerId": value.producer_id,
        "previousProducerId": value.previous_producer_id,
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": value.transaction_status,
        "transactionPartitions": partitions
        and [{"topic": each.topic, "partitionIds": each.partition_ids} for each in partitions],
        "transactionLastUpdateTimestampMs": value.transaction_last_update_timestamp_ms,
        "transactionStartTimestampMs": value.transaction_start_timestamp_ms,
    }
    if value.client_transaction_version:
        data["clientTransactionVersion"] = value.client_transaction_version
    return {"version": "1", "data": data}


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
