"""Idempotent producers: the rules for sequences and epochs, expiration, snapshots."""

from __future__ import annotations

import pytest

from odradek.log import producer_snapshot
from odradek.log.memory_disk import MemoryDisk
from odradek.log.producer_snapshot import BadProducerSnapshot
from odradek.log.producer_state import MAX_SEQUENCE, ActiveProducer, ProducerState, SnapshotEntry
from odradek.model.errors import ErrorCode
from unit.log.log_making import batch, files, fill, new_log, read, reopen
from unit.log.log_making import headers as headers_of

PRODUCER = 4711


def append(log, epoch: int, sequence: int, count: int = 1, timestamp: int = 1000):
    return log.append(batch(count, timestamp, producer=(PRODUCER, epoch, sequence)), 0, now_ms=0)


def test_sequences_follow_each_other_by_record():
    log = new_log()
    assert append(log, 0, 0, count=3).error == ErrorCode.NONE
    assert append(log, 0, 3, count=2).error == ErrorCode.NONE
    assert append(log, 0, 5).error == ErrorCode.NONE


@pytest.mark.parametrize("sequence", [1, 2, 4, 100])
def test_a_gap_or_a_step_back_is_out_of_order(sequence: int):
    log = new_log()
    append(log, 0, 0, count=3)
    refused = append(log, 0, sequence)
    assert (refused.error, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert refused.required_offset == -1, "no high watermark commits it"
    assert log.log_end_offset == 3, "nothing was appended"
    assert append(log, 0, 3).error == ErrorCode.NONE, "the next sequence is accepted"


def test_a_duplicate_of_the_last_five_batches_is_answered_with_its_offsets():
    log = new_log()
    for sequence in range(0, 12, 2):
        append(log, 0, sequence, count=2)
    for sequence in range(2, 12, 2):
        info = append(log, 0, sequence, count=2)
        assert (info.error, info.duplicate) == (ErrorCode.NONE, True)
        assert (info.base_offset, info.last_offset) == (sequence, sequence + 1)
    assert log.log_end_offset == 12, "nothing was appended twice"
    assert append(log, 0, 0, count=2).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (
        "the sixth batch back"
    )


def test_a_batch_that_only_overlaps_a_known_one_is_no_duplicate():
    log = new_log()
    append(log, 0, 0, count=3)
    assert append(log, 0, 0, count=2).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, 0, 1, count=2).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero():
    log = new_log()
    append(log, 0, MAX_SEQUENCE - 1, count=2)
    assert append(log, 0, 0).error == ErrorCode.NONE
    log = new_log()
    append(log, 0, MAX_SEQUENCE - 1, count=4)
    assert append(log, 0, 2).error == ErrorCode.NONE, "a batch may wrap in its middle"
    assert append(log, 0, MAX_SEQUENCE - 1, count=4).duplicate


def test_an_older_epoch_is_fenced():
    log = new_log()
    append(log, 3, 0)
    assert append(log, 2, 1).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert append(log, 2, 0).error == ErrorCode.INVALID_PRODUCER_EPOCH
    assert append(log, 3, 1).error == ErrorCode.NONE


def test_a_new_epoch_begins_with_sequence_zero_and_drops_the_old_batches():
    log = new_log()
    append(log, 0, 0)
    append(log, 0, 1)
    assert append(log, 1, 2).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, 1, 0).base_offset == 2
    assert append(log, 0, 1).error == ErrorCode.INVALID_PRODUCER_EPOCH, "not a duplicate any more"
    assert append(log, 1, 0).duplicate


def test_an_unknown_producer_may_begin_with_any_sequence():
    log = new_log()
    assert append(log, 5, 1000).error == ErrorCode.NONE


def test_batches_without_a_producer_id_are_not_kept():
    log = new_log()
    fill(log, 2)
    assert len(log.producers) == 0


def test_describe_producers_lists_the_active_ones():
    log = new_log()
    append(log, 2, 7, count=3, timestamp=1234)
    assert log.producers.active_producers() == [ActiveProducer(PRODUCER, 2, 9, 1236, -1, -1)]


def test_expiration_counts_time_between_passes_and_not_record_timestamps():
    log = new_log()
    append(log, 0, 0, timestamp=5)  # a record from 1970
    state = log.producers
    assert state.expire(monotonic_ms=1_000_000, expiration_ms=100) == 0, (
        "it was active since the last pass"
    )
    assert state.expire(monotonic_ms=1_000_099, expiration_ms=100) == 0
    append(log, 0, 1)
    assert state.expire(monotonic_ms=1_000_100, expiration_ms=100) == 0
    assert state.expire(monotonic_ms=1_000_199, expiration_ms=100) == 0
    assert state.expire(monotonic_ms=1_000_200, expiration_ms=100) == 1
    assert append(log, 0, 9).error == ErrorCode.NONE, "unknown again"


def test_a_snapshot_has_the_last_batch_of_each_producer():
    state = ProducerState()
    log = new_log()
    for sequence in range(4):
        append(log, 1, sequence)
    append(log, 1, 4, count=3)
    rows = log.producers.snapshot()
    assert rows == [SnapshotEntry(PRODUCER, 1, 6, 6, 2, 1002)]
    state.reset(producer_snapshot.decode(producer_snapshot.encode(rows)), 7)
    entry = state.entry(PRODUCER)
    assert entry is not None
    (last,) = entry.batches
    assert (last.first_sequence, last.last_sequence, last.first_offset) == (4, 6, 4)
    assert state.snapshot() == rows


def test_a_snapshot_keeps_a_batch_whose_sequence_wrapped():
    log = new_log()
    append(log, 1, MAX_SEQUENCE, count=3)
    state = ProducerState()
    state.reset(log.producers.snapshot(), 3)
    entry = state.entry(PRODUCER)
    assert entry is not None
    assert entry.batches[0].first_sequence == MAX_SEQUENCE


def test_any_damage_to_a_snapshot_is_detected():
    data = producer_snapshot.encode(
        [SnapshotEntry(1, 0, 5, 9, 0, 1000), SnapshotEntry(2, 0, 1, 3, 1, 7)]
    )
    assert len(producer_snapshot.decode(data)) == 2
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(BadProducerSnapshot):
            producer_snapshot.decode(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises(BadProducerSnapshot):
            producer_snapshot.decode(data[:length])


def test_duplicates_are_recognised_after_a_restart():
    disk = MemoryDisk()
    log = new_log(disk)
    for sequence in range(8):
        append(log, 0, sequence)
    log.close()
    again, _ = reopen(disk, clean=True, recovery_point=8)
    assert append(again, 0, 7).duplicate, "from the snapshot: the last batch"
    assert append(again, 0, 8).base_offset == 8


def test_recovery_without_a_snapshot_reads_the_log():
    disk = MemoryDisk()
    log = new_log(disk)
    for sequence in range(30):
        append(log, 0, sequence)
    log.flush(checkpoint=True)
    for name in files(disk, ".snapshot"):
        disk.remove(f"data/partition/{name}")
    again, _ = reopen(disk, recovery_point=30)
    assert [append(again, 0, sequence).base_offset for sequence in range(25, 31)] == list(
        range(25, 31)
    )


def test_recovery_takes_an_older_snapshot_if_the_newest_is_damaged():
    disk = MemoryDisk()
    log = new_log(disk)
    for sequence in range(30):
        append(log, 0, sequence)
        if sequence in (10, 20):
            log.flush(checkpoint=True)
    newest = max(files(disk, ".snapshot"))
    disk.files[f"data/partition/{newest}"].content[8] ^= 1
    again, _ = reopen(disk, recovery_point=21)
    assert newest not in files(disk)
    assert append(again, 0, 29).duplicate
    assert append(again, 0, 30).base_offset == 30
    assert len(headers_of(read(again, 0))) == 31
