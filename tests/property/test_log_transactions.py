"""Transactions in a log through kills, power failures, truncations and compaction, against a model.

Each seed has several lives. In each, plain, idempotent and transactional batches and markers of a
few producers are appended, as a leader or a follower; rolled, flushed, truncated, in half of the
seeds compacted; until the process is killed at a drawn effect on the disk, in half of the cases
with the power. Now and then an index of aborted transactions is damaged, or lost, before the next
life. The model replays the batches that are in the log from its start, in the plainest way. Always:

- producers, open transactions and the last stable offset are those of the replay;
- a fetch lists the aborted transactions of the replay that overlap it, and no record of them is
  visible to a reader who leaves these out as clients do;
- in a compacted log the last visible value of each key is that of everything ever written, and an
  open transaction has lost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple
from uuid import UUID

import pytest

from odradek.log.compaction.batch_retention import OffsetMap
from odradek.log.compaction.cleaner import Cleaner, log_to_clean
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.producer_state import TransactionMarker
from odradek.model.byte_ranges import ByteRange
from odradek.model.topics import TopicIdPartition
from odradek.protocol.control_records import (
    ControlRecordType,
    end_transaction_batch,
    read_control_record,
)
from odradek.protocol.record_batch import RecordBatchHeader, batches, records_of
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate
from odradek.testing.disk import DiskFaults, SimDisk
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.process import Crash
from odradek.testing.scheduler import Scheduler

PLAIN = LogConfig(segment_bytes=900, index_interval_bytes=200, checkpoint_bytes=2000)
COMPACTED = LogConfig(
    segment_bytes=700,
    index_interval_bytes=200,
    checkpoint_bytes=2000,
    compact=True,
    delete=False,
    retention_ms=-1,
    delete_retention_ms=20,
)
PATH = "/data"
KEY = TopicIdPartition(UUID(int=7 << 64), 0)
PRODUCERS = 4
NO_PRODUCER = -1


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


class Ended(NamedTuple):
    first_offset: int
    marker: int


@dataclass
class Replay:
    """The state that the batches of a log leave."""

    epochs: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    coordinator_epochs: dict[int, int] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    aborted: list[Aborted] = field(default_factory=list)

    def add(self, data: bytes, header: RecordBatchHeader) -> None:
        producer = header.producer_id
        if producer < 0 or (header.is_control and header.count == 0):
            return
        if self.epochs.get(producer) != header.producer_epoch:
            self.epochs[producer] = header.producer_epoch
            self.sequences[producer] = -1
        if not header.is_control:
            self.sequences[producer] = header.last_sequence
            if header.is_transactional:
                self.opened.setdefault(producer, header.base_offset)
            return
        marker = read_control_record(data, header)
        self.coordinator_epochs[producer] = marker.detail
        if producer in self.opened:
            first = self.opened.pop(producer)
            self.ended.append(Ended(first, header.base_offset))
            if marker.type is ControlRecordType.ABORT:
                self.aborted.append(Aborted(producer, first, header.base_offset))

    def last_stable_offset(self, high_watermark: int) -> int:
        unreplicated = [each.first_offset for each in self.ended if each.marker >= high_watermark]
        return min([high_watermark, *self.opened.values(), *unreplicated])


@dataclass
class History:
    """Everything that was ever appended and not truncated, by offset."""

    records: dict[int, tuple[bytes, bytes, int]] = field(default_factory=dict)
    """Key, value, and the producer of a transactional record or -1."""
    markers: dict[int, tuple[int, bool]] = field(default_factory=dict)

    def cut(self, offset: int) -> None:
        self.records = {at: row for at, row in self.records.items() if at < offset}
        self.markers = {at: row for at, row in self.markers.items() if at < offset}

    def visible(self, end: int) -> dict[int, tuple[bytes, bytes]]:
        """The records before `end` of no aborted transaction."""
        found, pending = dict[int, tuple[bytes, bytes]](), dict[int, list[int]]()
        for offset in sorted([*self.records, *self.markers]):
            if offset in self.markers:
                producer, committed = self.markers[offset]
                for at in pending.pop(producer, []):
                    if committed and at < end:
                        found[at] = self.records[at][:2]
            else:
                key, value, producer = self.records[offset]
                if producer >= 0:
                    pending.setdefault(producer, []).append(offset)
                elif offset < end:
                    found[offset] = key, value
        return found


class Lives:
    """The lives of one seed."""

    def __init__(self, seed: int) -> None:
        self.disk = SimDisk(Scheduler(seed), "disk")
        self.chance: SplitMix64 = stream(seed, "lives")
        self.config = COMPACTED if seed % 2 else PLAIN
        self.history = History()
        self.now_ms = 1000
        self.value = 0
        self.listed = self.torn = self.removed = self.rebuilt = 0
        self.lost_power = self.was_damaged = False
        """Since the last start that came to its end."""

    def life(self) -> None:
        damaged = self.chance.chance(200) and self.damage()
        self.was_damaged = self.was_damaged or damaged
        faults = DiskFaults(crash_after_effects=self.chance.between(0, 300))
        try:
            directory = LogDirectory(
                self.disk.mount(faults), PATH, self.chance, cluster_id="c", node_id=1
            )
            log, found = directory.open_work(KEY, self.config, 0)()
            directory.adopt(KEY, log)
            self.torn += found.truncated_bytes
            self.rebuilt += found.rebuilt_transactions
            assert found.rebuilt_transactions >= damaged
            if not (self.lost_power or self.was_damaged):
                assert not found.rebuilt_transactions, "a kill alone loses no index"
            self.lost_power = self.was_damaged = False
            self.history.cut(log.log_end_offset)
            self.commit(log, log.flushed_offset)
            self.check(log)
            for number in range(80):
                self.step(directory, log)
                if number % 8 == 0:
                    self.check(log)
            self.check(log)
            directory.close()
            if self.chance.chance(300):
                self.lose_power()
        except Crash:
            if self.chance.chance(500):
                self.lose_power()

    def lose_power(self) -> None:
        self.disk.power_loss()
        self.lost_power = True

    def damage(self) -> bool:
        """Remove an index of aborted transactions, or flip a bit under its checksum."""
        disk, directory = self.disk.mount(DiskFaults()), f"{PATH}/{KEY}"
        names = disk.list(directory) if disk.exists(directory) else []
        stems = [name.removesuffix(".txnsum") for name in names if name.endswith(".txnsum")]
        there = [stem for stem in stems if stem + ".txnindex" in names and stem + ".log" in names]
        if not there:
            return False
        path = f"{directory}/{self.chance.pick(there)}"
        (count,) = Struct(">I").unpack_from(disk.read_file(path + ".txnsum"))
        if count == 0 or self.chance.chance(500):
            disk.remove(path + ".txnindex")
            return True
        content = bytearray(disk.read_file(path + ".txnindex"))
        content[self.chance.below(34 * count)] ^= 1 << self.chance.below(8)
        disk.replace_file(path + ".txnindex", bytes(content))
        return True

    # Steps

    def step(self, directory: LogDirectory, log: Log) -> None:
        what = self.chance.below(100)
        self.now_ms += 1
        if what < 40:
            self.append(log)
        elif what < 60:
            self.end(log)
        elif what < 66:
            self.follow(log)
        elif what < 76:
            log.flush(checkpoint=self.chance.chance(300))
        elif what < 84:
            ends = [header.next_offset for header in batches(log_bytes(log))]
            self.commit(
                log, self.chance.pick([0, *(end for end in ends if end <= log.flushed_offset)])
            )
        elif what < 90:
            log.roll(0)
        elif what < 94:
            self.truncate(log)
        elif self.config.compact:
            self.clean(directory, log)

    def a_batch(self, log: Log, base: int, taken: dict[int, int]) -> bytes:
        """The next batch of a drawn producer; `taken`: sequences of batches before it."""
        producer = self.chance.below(PRODUCERS + 1)
        count = self.chance.between(1, 3)
        self.value += count
        rows = [(b"%d" % self.chance.below(9), b"%d" % (self.value + n)) for n in range(count)]
        transactional = 0 < producer < PRODUCERS
        owner = producer if transactional else NO_PRODUCER
        for n, (key, value) in enumerate(rows):
            self.history.records[base + n] = key, value, owner
        entry = log.producers.entry(producer)
        epoch = 0 if entry is None else entry.producer_epoch
        sequence = 0 if entry is None else entry.last_sequence + 1
        sequence = taken.get(producer, sequence)
        taken[producer] = sequence + count
        return build(
            [(key, value, [], self.now_ms) for key, value in rows],
            producer_id=producer if producer > 0 else -1,
            producer_epoch=epoch if producer > 0 else -1,
            base_sequence=sequence if producer > 0 else -1,
            transactional=transactional,
        )

    def append(self, log: Log) -> None:
        # Recorded before the effect on the disk: the process may be killed in between.
        data = self.a_batch(log, log.log_end_offset, {})
        valid = validate(ByteRange(data, 0, len(data)), BatchRules(), self.now_ms)
        assert isinstance(valid, ValidBatch)
        assert not log.append(valid, 0, 0).error

    def end(self, log: Log) -> None:
        """A marker of a drawn producer, with or without a transaction, with or without an epoch."""
        producer = self.chance.between(1, PRODUCERS - 1)
        committed = self.chance.chance(500)
        bumps = self.chance.chance(300)
        entry = log.producers.entry(producer)
        epoch = (0 if entry is None else entry.producer_epoch) + bumps
        coordinator = max(0, entry.coordinator_epoch if entry is not None else 0)
        coordinator += self.chance.chance(100)
        self.history.markers[log.log_end_offset] = producer, committed
        marker = TransactionMarker(producer, epoch, coordinator, committed, 2 if bumps else 1)
        info = log.append_marker(marker, 0, self.now_ms)
        assert not info.error

    def follow(self, log: Log) -> None:
        """Append batches of a leader, perhaps with a marker in between."""
        base, data, taken = log.log_end_offset, b"", dict[int, int]()
        for number in range(self.chance.between(1, 4)):
            if number == 1 and self.chance.chance(600):
                producer, committed = self.chance.between(1, PRODUCERS - 1), self.chance.chance(500)
                entry = log.producers.entry(producer)
                epoch = 0 if entry is None else entry.producer_epoch
                coordinator = max(0, entry.coordinator_epoch if entry is not None else 0)
                batch = end_transaction_batch(producer, epoch, coordinator, committed, self.now_ms)
                self.history.markers[base] = producer, committed
            else:
                batch = self.a_batch(log, base, taken)
            header = RecordBatchHeader(batch, 0)
            data += base.to_bytes(8, "big") + batch[8:12] + bytes(4) + batch[16:]
            base += header.last_offset_delta + 1
        assert not log.append_as_follower(ByteRange(data, 0, len(data)), 0, 0).error

    def commit(self, log: Log, offset: int) -> None:
        log.high_watermark = max(log.high_watermark, offset)
        log.producers.transactions.replicated_to(log.high_watermark)

    def truncate(self, log: Log) -> None:
        """Remove the end, in a log that is not compacted also what was committed."""
        least = log.high_watermark if self.config.compact else 0
        offset = self.chance.between(max(least, log.log_end_offset - 25), log.log_end_offset)
        log.truncate_to(offset)
        self.history.cut(log.log_end_offset)
        self.commit(log, 0)

    def clean(self, directory: LogDirectory, log: Log) -> None:
        """A pass as the broker makes it, log_bytes or dropped."""
        log.roll(0)
        log.flush(checkpoint=True)
        self.commit(log, log.log_end_offset)
        self.now_ms += self.chance.below(30)
        first_dirty = directory.offsets.first_dirty
        plan = log_to_clean(log, first_dirty.get(KEY), self.now_ms)
        if not plan.segments:
            return
        size = log.size
        cleaner = Cleaner(
            log.disk, plan, OffsetMap(1 << 20, 1.0), now_ms=self.now_ms, chunk_bytes=500
        )
        first_dirty.setdefault(KEY, plan.first_dirty_offset)
        directory.checkpoint()()
        for step in cleaner.steps():
            if not isinstance(step, int):
                step(log)
            elif self.chance.chance(10):
                break  # the pass is dropped
        else:
            first_dirty[KEY] = cleaner.end_offset
        log.cleaning = log.swapping = False
        for deletion in cleaner.deletions:
            deletion.close()
            deletion.remove()
        self.removed += max(0, size - log.size)

    # Checks

    def check(self, log: Log) -> None:
        data = log_bytes(log)
        replay = Replay()
        for header in batches(data):
            replay.add(data, header)
        transactions = log.producers.transactions
        by_offset = sorted(replay.opened.items(), key=lambda row: row[1])
        assert transactions.producer_ids == [producer for producer, _ in by_offset]
        unstable = min(transactions.first_unstable, log.high_watermark)
        assert unstable == replay.last_stable_offset(log.high_watermark)
        for row in log.producers.active_producers():
            producer = row.producer_id
            assert row.current_txn_start_offset == replay.opened.get(producer, -1)
            assert row.producer_epoch == replay.epochs[producer]
            assert row.last_sequence == replay.sequences[producer]
            if not self.config.compact:
                assert row.coordinator_epoch == replay.coordinator_epochs.get(producer, -1)
        assert {row.producer_id for row in log.producers.active_producers()} == set(replay.epochs)
        self.check_index(log, replay)
        self.check_visible(log, unstable)

    def check_index(self, log: Log, replay: Replay) -> None:
        end = log.log_end_offset
        for _ in range(6):
            start = self.chance.between(0, end)
            until = self.chance.between(start, end)
            listed = [Aborted(*row[:3]) for row in log.segments.aborted_transactions(start, until)]
            if self.config.compact:
                continue  # some of their records are gone: only what is visible can be told
            assert listed == [
                row
                for row in replay.aborted
                if row.last_offset >= start and row.first_offset < until
            ]
            self.listed += len(listed)

    def check_visible(self, log: Log, end: int) -> None:
        expected = self.history.visible(end)
        found = visible(log, end, self.chance)
        if not self.config.compact:
            assert found == expected
            return
        assert found.items() <= expected.items(), "nothing aborted, nothing else than was written"
        latest = {key: offset for offset, (key, _) in sorted(expected.items())}
        assert set(latest.values()) <= set(found), "the last value of each key is there"
        decided = log.producers.transactions.first_undecided
        held = {
            record.offset
            for header in batches(log_bytes(log))
            if not header.is_control
            for record in records_of(log_bytes(log), header)
        }
        assert {at for at in self.history.records if at >= decided} <= held


def log_bytes(log: Log) -> bytes:
    result = log.read(0, 1 << 30, log.log_end_offset)
    data = b"".join(piece.read() for piece in result.slices)
    result.release()
    return data


def visible(log: Log, end: int, chance: SplitMix64) -> dict[int, tuple[bytes, bytes]]:
    """The records that a client shows which fetches in pieces, each with aborted transactions."""
    found: dict[int, tuple[bytes, bytes]] = {}
    offset = 0
    while offset < end:
        result = log.read(offset, chance.pick((1, 200, 1000)), end)
        listed = sorted(log.aborted_transactions(result, end), key=lambda row: row.first_offset)
        data = b"".join(piece.read() for piece in result.slices)
        result.release()
        leaves_out: set[int] = set()
        for header in batches(data):
            while listed and listed[0].first_offset <= header.last_offset:
                leaves_out.add(listed.pop(0).producer_id)
            if header.is_control:
                if header.count and not read_control_record(data, header).type:
                    leaves_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in leaves_out):
                for record in records_of(data, header):
                    if record.offset >= offset:
                        assert record.key is not None and record.value is not None
                        found[record.offset] = record.key, record.value
            following = header.next_offset
        if not data:
            break
        offset = following
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_log_keeps_what_a_replay_of_its_batches_leaves(seed: int) -> None:
    lives = Lives(seed)
    for _ in range(6):
        lives.life()


def test_the_seeds_abort_tear_and_compact() -> None:
    seeds = [Lives(seed) for seed in range(6)]
    for lives in seeds:
        for _ in range(6):
            lives.life()
    assert sum(lives.listed for lives in seeds) > 100
    assert sum(lives.torn for lives in seeds) > 0
    assert sum(lives.removed for lives in seeds) > 0
    assert sum(lives.rebuilt for lives in seeds) > 0
