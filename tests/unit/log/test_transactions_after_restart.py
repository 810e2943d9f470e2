"""Transactions of a log that was opened again, or truncated: what is open or still unstable."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

from odradek.log import producer_snapshot
from odradek.log.log import Log
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.log.producer_state import ActiveProducer, SnapshotEntry
from odradek.model.topics import TopicIdPartition
from odradek.testing.disk import DiskFaults, SimDisk
from odradek.testing.scheduler import Scheduler
from unit.log.log_making import SMALL, fill, new_log, reopen
from unit.log.transactions import Transactional

COMMIT, ABORT = True, False
KEY = TopicIdPartition(UUID(int=7 << 64), 0)
LARGE = replace(SMALL, segment_bytes=100_000)


def unstable_at(log: Log, high_watermark: int) -> int:
    """The first unstable offset with this high watermark."""
    log.producers.transactions.replicated_to(high_watermark)
    return min(log.producers.transactions.first_unstable, high_watermark)


def test_a_snapshot_has_open_transactions_and_coordinator_epochs() -> None:
    log = new_log()
    ended, begun = Transactional(log, 1), Transactional(log, 2)
    ended.send(2)
    begun.send()
    ended.end(COMMIT, coordinator_epoch=5, now_ms=3000)
    rows = log.producers.snapshot()
    assert rows == [
        SnapshotEntry(1, 0, 1, 1, 1, 3000, 5, -1),
        SnapshotEntry(2, 0, 0, 2, 0, 1000, -1, 2),
    ]
    assert producer_snapshot.decode(producer_snapshot.encode(rows)) == rows


def test_open_transactions_survive_a_clean_stop_in_their_order() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    producers = [Transactional(log, number) for number in (3, 1, 2)]
    for producer in producers:
        producer.send()
    producers[0].end(COMMIT)
    producers[0].send()
    log.close()
    again, _ = reopen(disk, clean=True, recovery_point=log.log_end_offset)
    assert again.producers.transactions.producer_ids == [1, 2, 3]
    assert again.producers.transactions.first_unstable == 1


def test_a_recovery_replays_batches_and_markers_after_the_snapshot() -> None:
    disk = MemoryDisk()
    log = new_log(disk, LARGE)
    first, second = Transactional(log, 1), Transactional(log, 2)
    first.send()
    second.send()
    log.flush(checkpoint=True)
    point = log.recovery_point
    first.end(ABORT, coordinator_epoch=4, version=2, now_ms=5000)
    second.send()
    again, _ = reopen(disk, LARGE, recovery_point=point)
    assert again.producers.active_producers() == [
        ActiveProducer(1, 1, -1, 5000, 4, -1),
        ActiveProducer(2, 0, 1, 1000, -1, 1),
    ]
    assert [row[:3] for row in again.segments.aborted_transactions(0, 9)] == [(1, 0, 2)]


def test_truncation_opens_the_transaction_whose_marker_it_removes() -> None:
    log = new_log(MemoryDisk(), LARGE)
    producer = Transactional(log, 1)
    producer.send()
    marker = producer.end(COMMIT, coordinator_epoch=4).base_offset
    log.truncate_to(marker)
    assert log.producers.active_producers() == [ActiveProducer(1, 0, 0, 1000, -1, 0)]
    assert unstable_at(log, log.log_end_offset) == 0


def test_truncation_keeps_what_ended_above_the_high_watermark_and_is_left() -> None:
    log = new_log(MemoryDisk(), LARGE)
    first, second = Transactional(log, 1), Transactional(log, 2)
    second.send()
    first.send()
    kept = first.end(COMMIT).base_offset
    removed = second.end(COMMIT).base_offset
    log.flush(checkpoint=True)  # a snapshot in which both are over
    fill(log, 1)
    log.truncate_to(removed + 1)
    assert unstable_at(log, 1) == 0
    log.truncate_to(removed)
    assert log.producers.transactions.producer_ids == [2]
    assert unstable_at(log, removed) == 0
    second.sequence = 1
    second.end(COMMIT)
    assert unstable_at(log, kept) == 0
    assert unstable_at(log, log.log_end_offset) == log.log_end_offset


def test_a_start_knows_what_ended_above_the_high_watermark() -> None:
    """A node of several stops before it hears of the high watermark at its log's end."""
    disk = MemoryDisk()

    def opened() -> tuple[LogDirectory, Log]:
        directory = LogDirectory(disk, "data", Random(0), cluster_id="c", node_id=1)
        return directory, directory.open_log(KEY, LARGE, 0)

    directory, log = opened()
    fill(log, 1)
    producer = Transactional(log, 1)
    producer.end(COMMIT)
    log.flush(checkpoint=True)  # a snapshot below the high watermark
    log.high_watermark = log.log_end_offset
    log.configure(replace(LARGE, index_interval_bytes=1))
    producer.send()
    producer.end(COMMIT)
    fill(log, 1)
    directory.close()
    _, again = opened()
    assert (again.high_watermark, again.log_end_offset) == (3, 7)
    assert again.producers.transactions.first_unstable == 3, "the snapshot at the end has it not"
    again.producers.transactions.replicated_to(5)
    assert again.producers.transactions.first_unstable > 7


def test_the_first_aborted_transaction_of_a_segment_survives_a_power_loss() -> None:
    """Its index is a new file, whose name must be synced, though no other file is written."""
    config = replace(LARGE, index_interval_bytes=4096)
    disk = SimDisk(Scheduler(1), "disk")

    def opened() -> tuple[LogDirectory, Log]:
        mounted = disk.mount(DiskFaults())
        directory = LogDirectory(mounted, "/data", Random(0), cluster_id="c", node_id=1)
        return directory, directory.open_log(KEY, config, 0)

    directory, log = opened()
    fill(log, 1)
    log.flush(checkpoint=True)
    producer = Transactional(log, 1)
    producer.send()
    producer.end(ABORT)
    directory.close()
    disk.root.power_loss(disk.chance, "lost")
    directory, log = opened()
    assert [row[:3] for row in log.segments.aborted_transactions(0, 9)] == [(1, 2, 3)]
    producer = Transactional(log, 2)
    producer.send()
    producer.end(ABORT)
    log.flush(checkpoint=True)
    disk.root.power_loss(disk.chance, "lost")
    _, log = opened()
    assert len(log.segments.aborted_transactions(0, 9)) == 2
