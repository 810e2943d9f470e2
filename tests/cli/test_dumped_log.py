"""`odradek dump-log`: the contents of segment files as lines or JSON, and their damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from odradek import Admin, Producer
from odradek.cli.main import main
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from odradek.log.producer_snapshot import encode as encode_snapshot
from odradek.log.producer_state import SnapshotEntry
from odradek.log.transaction_index import ENTRY
from odradek.protocol.control_records import end_transaction_batch
from odradek.protocol.record_batch_builder import build
from odradek.testing.broker import Broker


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a partition with two batches: one record, then two."""
    directory = tmp_path_factory.mktemp("dumped")
    with Broker(data_dir=directory, settings={"log.index.interval.bytes": 0}) as broker:
        with Admin(brokers=broker.bootstrap) as admin:
            admin.create_topic("t")
        for values in ([b"one"], [b"two", b"\xff"]):
            with Producer(brokers=broker.bootstrap, linger_ms=60_000) as producer:
                producer.send_many("t", values, partition=0)
    (found,) = (path for path in directory.glob("*/*.log") if "__" not in path.parent.name)
    return found


def dump(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["dump-log", *arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def objects(shown: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_a_batch_is_a_line(segment: Path) -> None:
    head, *batches = dump(str(segment)).stdout.splitlines()
    assert head == f"# {segment}"
    assert [line.split(" producerId")[0] for line in batches] == [
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0",
        "baseOffset: 1 lastOffset: 2 count: 2 baseSequence: 0 lastSequence: 1",
    ]


@pytest.mark.parametrize("json_too", [["--json"], ["-o", "json"]])
def test_with_json_a_batch_is_an_object_and_so_is_a_record(
    segment: Path, json_too: list[str]
) -> None:
    batches = objects(dump(str(segment), *json_too))
    assert [(line["base_offset"], line["last_offset"], line["records"]) for line in batches] == [
        (0, 0, 1),
        (1, 2, 2),
    ]
    assert all(line["file"] == str(segment) and line["is_valid"] for line in batches)
    shown = objects(dump(str(segment), "--records", *json_too))
    assert shown[:2] == batches
    times = [line.pop("timestamp") for line in shown[2:]]
    assert max(times[1:]) == batches[1]["max_timestamp"]
    common: dict[str, Any] = {"file": str(segment), "key": None, "headers": []}
    assert shown[2:] == [
        {**common, "offset": 0, "value": "one"},
        {**common, "offset": 1, "value": "two"},
        {**common, "offset": 2, "value_base64": "/w=="},
    ]


def test_with_json_an_index_entry_is_an_object(segment: Path) -> None:
    offsets, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    second = objects(dump(str(segment), "--json"))[1]["position"]
    last = {"file": str(offsets), "offset": 2, "position": second}
    assert objects(dump(str(offsets), "--json"))[-1] == last
    *_, moment = objects(dump(str(times), "--json"))
    assert list(moment) == ["file", "timestamp", "offset"]
    assert moment["offset"] in (1, 2)


@pytest.mark.parametrize("records", [[], ["--records"]])
@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_torn_log_is_shown_as_far_as_it_goes(
    segment: Path, tmp_path: Path, records: list[str], json_too: list[str]
) -> None:
    torn = tmp_path / segment.name
    torn.write_bytes(segment.read_bytes()[:-1])
    shown = dump(str(torn), str(segment), *records, *json_too, code=6)
    assert shown.stderr.startswith(f"odradek: {torn}: only ")
    assert shown.stderr.count("\n") == 1
    whole = dump(str(segment), *records, *json_too).stdout
    assert shown.stdout.endswith(whole)
    assert len(shown.stdout) > len(whole)


@pytest.mark.parametrize("records", [[], ["--records"]])
def test_a_damaged_batch_fails_the_check(segment: Path, tmp_path: Path, records: list[str]) -> None:
    damaged = tmp_path / segment.name
    data = bytearray(segment.read_bytes())
    data[-4] ^= 0xFF
    damaged.write_bytes(data)
    batches = objects(dump(str(damaged), "--json", *records, code=6))[:2]
    assert [line["is_valid"] for line in batches] == [True, False]


@pytest.mark.parametrize("name", ["other.txt", "other.index"])
def test_other_files_are_refused_before_any_is_shown(
    segment: Path, tmp_path: Path, name: str
) -> None:
    other = tmp_path / name
    other.touch()
    shown = dump(str(segment), str(other), code=2)
    assert "give .log, .index, .timeindex, .txnindex or .snapshot files" in shown.stderr
    assert shown.stdout == ""


class TestTransactions:
    def test_aborted_transactions_are_lines(self, tmp_path: Path) -> None:
        index = tmp_path / "00000000000000000000.txnindex"
        index.write_bytes(ENTRY.pack(0, 7, 2, 5, 6))
        _, line = dump(str(index)).stdout.splitlines()
        assert line == "version: 0 producerId: 7 firstOffset: 2 lastOffset: 5 lastStableOffset: 6"
        (entry,) = objects(dump(str(index), "--json"))
        assert entry == {
            "file": str(index),
            "version": 0,
            "producer_id": 7,
            "first_offset": 2,
            "last_offset": 5,
            "last_stable_offset": 6,
        }

    def test_a_snapshot_shows_open_transactions(self, tmp_path: Path) -> None:
        snapshot = tmp_path / "00000000000000000009.snapshot"
        rows = [SnapshotEntry(7, 3, 4, 8, 0, 1000, 5, 6)]
        snapshot.write_bytes(encode_snapshot(rows))
        _, line = dump(str(snapshot)).stdout.splitlines()
        assert line == (
            "producerId: 7 producerEpoch: 3 coordinatorEpoch: 5 currentTxnFirstOffset: 6 "
            "lastTimestamp: 1000 lastSequence: 4 lastOffset: 8 offsetDelta: 0"
        )
        (entry,) = objects(dump(str(snapshot), "--json"))
        assert (entry["coordinator_epoch"], entry["current_txn_first_offset"]) == (5, 6)

    def test_a_damaged_snapshot_fails_the_check(self, tmp_path: Path) -> None:
        snapshot = tmp_path / "00000000000000000009.snapshot"
        snapshot.write_bytes(encode_snapshot([SnapshotEntry(7, 3, 4, 8, 0, 1000)])[:-1])
        assert "checksum mismatch" in dump(str(snapshot), code=6).stderr

    def test_markers_show_their_type_and_coordinator_epoch(self, tmp_path: Path) -> None:
        segment = tmp_path / "00000000000000000000.log"
        commit = end_transaction_batch(7, 0, 5, True, 1000)
        abort = (1).to_bytes(8, "big") + end_transaction_batch(7, 0, 6, False, 2000)[8:]
        segment.write_bytes(commit + abort)
        shown = dump(str(segment), "--records").stdout.splitlines()
        assert shown[-2:] == [
            "| offset: 0 timestamp: 1000 endTxnMarker: COMMIT coordinatorEpoch: 5",
            "| offset: 1 timestamp: 2000 endTxnMarker: ABORT coordinatorEpoch: 6",
        ]
        last = objects(dump(str(segment), "--records", "--json"))[-1]
        assert (last["control_type"], last["coordinator_epoch"]) == ("ABORT", 6)

    def test_records_of_the_coordinator_show_their_fields(self, tmp_path: Path) -> None:
        segment = tmp_path / "00000000000000000000.log"
        value = TransactionLogValue(
            producer_id=7,
            producer_epoch=3,
            transaction_timeout_ms=60_000,
            transaction_status=1,
            transaction_partitions=[TransactionPartitions(topic="t", partition_ids=[0, 2])],
            transaction_last_update_timestamp_ms=2000,
            transaction_start_timestamp_ms=1000,
        )
        key = TransactionLogKey(transactional_id="x")
        written = [CoordinatorRecord(key, value), CoordinatorRecord(key, None)]
        codec = TRANSACTION_RECORDS
        segment.write_bytes(
            build([(codec.key_bytes(each), codec.value_bytes(each), [], 5) for each in written])
        )
        _, _, known, deleted = dump(str(segment), "--transaction-log-decoder").stdout.splitlines()
        assert known.startswith(
            "| offset: 0 timestamp: 5 transactionalId: x state: Ongoing producerId: 7 "
            "producerEpoch: 3 "
        )
        assert deleted == "| offset: 1 timestamp: 5 transactionalId: x state: deleted"
        *_, first, _ = objects(dump(str(segment), "--transaction-log-decoder", "--json"))
        assert (first["state"], first["partitions"]) == ("Ongoing", ["t-0", "t-2"])

    def test_other_records_are_no_records_of_the_coordinator(self, segment: Path) -> None:
        shown = dump(str(segment), "--transaction-log-decoder", code=6)
        assert "without a key" in shown.stderr
