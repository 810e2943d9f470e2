"""Compaction of transactions: aborted records go, markers outlive their transaction's records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.log.log import Log
from odradek.log.memory_disk import MemoryDisk
from odradek.log.producer_state import TransactionMarker
from odradek.log.scan import BadBatch
from odradek.protocol.record_batch import RecordBatchHeader
from unit.log.compacting import COMPACTED, clean, keyed, roll_and_commit, shown, write
from unit.log.log_making import files, headers, new_log, read, reopen

A, B = b"a", b"b"
COMMIT, ABORT = True, False
RETENTION_MS = 1000
CONFIG = replace(COMPACTED, delete_retention_ms=RETENTION_MS)


class Producer:
    """A transactional producer of keyed records."""

    def __init__(self, log: Log, producer_id: int, epoch: int = 0) -> None:
        self.log, self.producer_id, self.epoch, self.sequence = log, producer_id, epoch, 0

    def send(self, *records: tuple[bytes | None, bytes | None]) -> int:
        identity = (self.producer_id, self.epoch, self.sequence)
        info = self.log.append(keyed(records, producer=identity, transactional=True), 0, now_ms=0)
        assert not info.error
        self.sequence += len(records)
        return info.base_offset

    def end(self, committed: bool, *, next_epoch: bool = False) -> int:
        if next_epoch:
            self.epoch, self.sequence = self.epoch + 1, 0
        version = 2 if next_epoch else 0
        marker = TransactionMarker(self.producer_id, self.epoch, 0, committed, version)
        info = self.log.append_marker(marker, 0, 2000)
        assert not info.error
        return info.base_offset


def commit_all(log: Log) -> None:
    """Begin a new segment; everything before it is durable and committed."""
    roll_and_commit(log)
    log.producers.transactions.replicated_to(log.high_watermark)


def values(log: Log) -> list[bytes | None]:
    """The values of all records but markers."""
    return [value for _, _, value in shown(log) if value is None or value[:1] != b"\0"]


def markers(log: Log) -> list[RecordBatchHeader]:
    return [header for header in headers(read(log, 0)) if header.is_control and header.count]


def aborted(log: Log) -> list[tuple[int, int, int]]:
    found = log.segments.aborted_transactions(0, log.log_end_offset)
    return [entry[:3] for entry in found]


@pytest.fixture
def log() -> Log:
    return new_log(config=CONFIG)


def test_the_records_of_an_aborted_transaction_go_and_replace_no_others(log: Log) -> None:
    write(log, [(A, b"committed")])
    producer = Producer(log, 7)
    producer.send((A, b"aborted"), (B, b"aborted too"))
    producer.end(ABORT)
    commit_all(log)
    clean(log)
    assert values(log) == [b"committed"]


def test_the_records_of_a_committed_transaction_replace_others(log: Log) -> None:
    write(log, [(A, b"1")])
    producer = Producer(log, 7)
    producer.send((A, b"2"))
    producer.end(COMMIT)
    commit_all(log)
    clean(log)
    assert values(log) == [b"2"]


def test_nothing_from_an_open_transaction_on_is_cleaned(log: Log) -> None:
    write(log, [(A, b"1")], [(A, b"2")])
    log.roll(0)
    producer = Producer(log, 7)
    producer.send((A, b"open"))
    write(log, [(B, b"1")], [(B, b"2")])
    commit_all(log)
    clean(log)
    assert values(log) == [b"2", b"open", b"1", b"2"]
    producer.end(ABORT)
    commit_all(log)
    clean(log)
    assert values(log) == [b"2", b"2"]


def test_nor_before_its_marker_is_below_the_high_watermark(log: Log) -> None:
    write(log, [(A, b"1")], [(A, b"2")])
    log.roll(0)
    producer = Producer(log, 7)
    producer.send((A, b"3"))
    log.roll(0)
    producer.end(COMMIT)
    log.roll(0)
    log.flush(checkpoint=True)
    log.high_watermark = 3
    log.producers.transactions.replicated_to(3)
    clean(log)
    assert values(log) == [b"2", b"3"]


def test_a_transaction_that_ends_in_a_later_segment_is_known(log: Log) -> None:
    write(log, [(A, b"1")])
    producer = Producer(log, 7)
    producer.send((A, b"aborted"))
    commit_all(log)
    producer.end(ABORT)
    log.producers.transactions.replicated_to(log.log_end_offset)
    clean(log)
    assert values(log) == [b"1"], "the marker is in the active segment"


def test_transactions_of_one_producer_are_told_apart(log: Log) -> None:
    producer = Producer(log, 7)
    for number, committed in enumerate((ABORT, COMMIT, ABORT, COMMIT)):
        producer.send((b"%d" % number, b"%d" % number))
        producer.end(committed)
    commit_all(log)
    clean(log)
    assert values(log) == [b"1", b"3"]


def test_interleaved_transactions_are_told_apart(log: Log) -> None:
    first, second = Producer(log, 1), Producer(log, 2)
    first.send((b"1", b"first"))
    second.send((b"2", b"second"))
    first.send((b"3", b"first again"))
    second.end(ABORT)
    first.end(COMMIT)
    commit_all(log)
    clean(log)
    assert values(log) == [b"first", b"first again"]


def test_a_marker_stays_until_a_delete_horizon_after_its_last_record(log: Log) -> None:
    producer = Producer(log, 7)
    producer.send((A, b"1"))
    marker = producer.end(COMMIT)
    Producer(log, 7).log.append(keyed([(B, b"x")], producer=(7, 0, 1)), 0, now_ms=0)
    commit_all(log)
    clean(log, now_ms=10_000)
    assert [header.base_offset for header in markers(log)] == [marker]
    write(log, [(A, b"2")], [(B, b"y")])
    commit_all(log)
    clean(log, now_ms=20_000)
    assert values(log) == [b"2", b"y"]
    assert not markers(log)[0].has_delete_horizon, "this pass has read the last record"
    clean(log, now_ms=30_000)
    (found,) = markers(log)
    assert (found.has_delete_horizon, found.base_timestamp) == (True, 30_000 + RETENTION_MS)
    assert found.max_timestamp == 2000
    clean(log, now_ms=30_000 + RETENTION_MS - 1)
    assert len(markers(log)) == 1
    clean(log, now_ms=30_000 + RETENTION_MS)
    assert markers(log) == []


def test_a_marker_is_not_compacted_by_its_key(log: Log) -> None:
    """KAFKA-14055: the keys of data may be those of control records."""
    producer = Producer(log, 7)
    producer.send((A, b"1"))
    marker = producer.end(ABORT)
    write(log, [(b"\0\0\0\0", b"as if it were the key"), (b"\0\0\0\1", b"too")], [(A, b"2")])
    commit_all(log)
    clean(log)
    assert [header.base_offset for header in markers(log)] == [marker]


def test_an_aborted_transaction_is_listed_until_its_records_are_gone(log: Log) -> None:
    producer = Producer(log, 7)
    first = producer.send((A, b"aborted"))
    last = producer.end(ABORT)
    log.append(keyed([(B, b"x")], producer=(7, 0, 1)), 0, now_ms=0)
    commit_all(log)
    clean(log, now_ms=10_000)
    assert aborted(log) == [(7, first, last)], "a reader may still have the old segment"
    assert [header.base_offset for header in markers(log)] == [last]
    clean(log, now_ms=20_000)
    assert aborted(log) == []
    assert markers(log)[0].has_delete_horizon


def test_a_fetch_of_a_compacted_segment_reads_its_own_index(log: Log) -> None:
    disk = log.disk
    assert isinstance(disk, MemoryDisk)
    kept = Producer(log, 8)
    kept.send((b"k", b"1"))
    one, two = Producer(log, 1), Producer(log, 2)
    one.send((A, b"x"))
    two.send((A, b"y"))
    two.end(ABORT)
    log.roll(0)
    one.end(ABORT)
    kept.end(COMMIT)
    commit_all(log)
    rows = aborted(log)
    assert len(rows) == 2
    clean(log)
    assert len(log.segments) == 2, "the two were merged"
    assert aborted(log) == rows
    assert list(files(disk, ".txnindex")) == ["00000000000000000000.txnindex"]
    assert list(files(disk, ".txnsum")) == ["00000000000000000000.txnsum"]
    again, found = reopen(disk, CONFIG, clean=True, recovery_point=log.log_end_offset)
    assert (aborted(again), found.rebuilt_transactions) == (rows, 0)


def test_a_pass_does_not_believe_an_index_that_was_lost_since_the_start() -> None:
    disk = MemoryDisk()
    log = new_log(disk, CONFIG)
    producer = Producer(log, 7)
    producer.send((A, b"aborted"))
    producer.end(ABORT)
    commit_all(log)
    disk.remove(f"{log.directory}/00000000000000000000.txnindex")
    with pytest.raises(BadBatch, match="txnindex is not as it was"):
        clean(log)


def test_the_last_batch_of_a_producer_stays_without_its_aborted_records(log: Log) -> None:
    producer = Producer(log, 7)
    producer.send((A, b"aborted"))
    producer.end(ABORT)
    write(log, [(B, b"1")])
    commit_all(log)
    clean(log)
    first = headers(read(log, 0))[0]
    assert (first.base_offset, first.count, first.is_transactional) == (0, 0, True)
    assert len(markers(log)) == 1
    clean(log, now_ms=10_000)
    assert not markers(log)[0].has_delete_horizon, "the empty batch still needs its marker"


def test_the_last_marker_of_a_producer_without_batches_keeps_its_epoch(log: Log) -> None:
    producer = Producer(log, 7)
    producer.send((A, b"1"))
    producer.end(COMMIT, next_epoch=True)
    write(log, [(A, b"2")], [(B, b"1")])
    commit_all(log)
    for now_ms in (10_000, 20_000, 30_000, 40_000):
        clean(log, now_ms=now_ms)
    (marker,) = markers(log)
    assert marker.producer_epoch == 1
    disk = log.disk
    assert isinstance(disk, MemoryDisk)
    log.close()
    for name in files(disk, ".snapshot"):
        disk.remove(f"{log.directory}/{name}")
    again, _ = reopen(disk, CONFIG, clean=True, recovery_point=log.log_end_offset)
    entry = again.producers.entry(7)
    assert entry is not None and entry.producer_epoch == 1


def test_a_marker_at_the_end_of_a_segment_leaves_its_header(log: Log) -> None:
    producer = Producer(log, 7)
    producer.send((A, b"1"))
    marker = producer.end(COMMIT)
    commit_all(log)
    log.append(keyed([(A, b"2" * 200)], producer=(7, 0, 1)), 0, now_ms=0)
    commit_all(log)
    log.configure(replace(CONFIG, segment_bytes=150))
    for now_ms in (10_000, 20_000, 30_000):
        clean(log, now_ms=now_ms)
    left = {header.base_offset: header.count for header in headers(read(log, 0))}
    assert left[marker] == 0, "every closed segment ends just before the next one begins"
    clean(log, now_ms=40_000)
    assert {header.base_offset: header.count for header in headers(read(log, 0))} == left
