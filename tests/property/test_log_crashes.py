"""A data directory on a disk that loses unsynced writes: kills between any effects, power failures.

Each seed has several lives. In each, batches are appended to a few logs, some as a follower;
flushed, rolled, trimmed, truncated, restarted at an offset and checkpointed, until the process is
killed at a drawn effect on the disk; in half of the cases the power fails too. After every restart
each log must contain a prefix of its appended batches that reaches at least to the durable end,
byte for byte, with matching indexes, producers and epochs; and no log may be reported as damaged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import LogDirectory
from odradek.model.byte_ranges import ByteRange
from odradek.model.topics import TopicIdPartition
from odradek.protocol.record_batch import batches, is_intact
from odradek.protocol.record_batch_builder import build
from odradek.protocol.validate import BatchRules, ValidBatch, validate
from odradek.testing.disk import DiskFaults, SimDisk
from odradek.testing.prng import SplitMix64, stream
from odradek.testing.process import Crash
from odradek.testing.scheduler import Scheduler

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300, checkpoint_bytes=3000)
PATH = "/data"
KEYS = [TopicIdPartition(UUID(int=7 << 64), partition) for partition in range(3)]


def a_batch(count: int, sequence: int, size: int, epoch: int) -> ValidBatch:
    data = build(
        [(b"%d" % (sequence + n), bytes(size), [], sequence + n) for n in range(count)],
        producer_id=1,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    valid = validate(ByteRange(data, 0, len(data)), BatchRules(), 0)
    assert isinstance(valid, ValidBatch)
    return valid


@dataclass
class Expected:
    """The expected contents of a log: its batches by base offset, and its durable end.

    `ever` has every batch that was ever at an offset: a truncation that was not synced may be
    undone.
    """

    current: dict[int, bytes] = field(default_factory=dict)
    ever: dict[int, list[bytes]] = field(default_factory=dict)
    durable: int = 0
    epoch: int = 0

    def append(self, base: int, data: bytes) -> None:
        self.current[base] = data
        self.ever.setdefault(base, []).append(data)

    def cut(self, offset: int) -> None:
        self.current = {base: data for base, data in self.current.items() if base < offset}


class CrashHistory:
    """The lives of one seed."""

    def __init__(self, seed: int) -> None:
        self.disk = SimDisk(Scheduler(seed), "disk")
        self.chance: SplitMix64 = stream(seed, "lives")
        self.expected = {key: Expected() for key in KEYS}
        self.recovered = 0

    def life(self) -> None:
        faults = DiskFaults(crash_after_effects=self.chance.between(0, 250))
        try:
            directory = LogDirectory(
                self.disk.mount(faults), PATH, self.chance, cluster_id="c", node_id=1
            )
            logs = [self.checked(directory, key) for key in KEYS]
            for _ in range(100):
                self.step(directory, logs)
            directory.close()
            for key, log in zip(KEYS, logs, strict=True):
                self.expected[key].durable = log.flushed_offset
        except Crash:
            if self.chance.chance(500):
                self.disk.power_loss()

    def checked(self, directory: LogDirectory, key: TopicIdPartition) -> Log:
        """Open a log and check it against the expected contents."""
        expected = self.expected[key]
        log, found = directory.open_work(key, CONFIG, 0)()
        directory.adopt(key, log)
        self.recovered += found.truncated_bytes
        assert log.log_end_offset >= expected.durable, (key, found)
        whole = read_all(log)
        held = {}
        for header in batches(whole):
            data = whole[header.position : header.end]
            assert is_intact(whole, header)
            assert data in expected.ever[header.base_offset]
            if header.base_offset < expected.durable:
                assert data == expected.current[header.base_offset]
            held[header.base_offset] = data
        before = {base: data for base, data in expected.current.items() if base not in held}
        expected.current = {
            **{base: data for base, data in before.items() if base < log.log_start_offset},
            **held,
        }
        expected.durable = log.flushed_offset
        self.derived(log, expected, whole)
        return log

    def derived(self, log: Log, expected: Expected, whole: bytes) -> None:
        """Check that indexes find every offset, and that producers and epochs are those of the
        batches.
        """
        for header in batches(whole):
            for offset in (header.base_offset, header.last_offset):
                if offset >= log.log_start_offset:
                    result = log.read(offset, 1, log.log_end_offset)
                    (piece,) = result.slices
                    assert next(batches(piece.read())).base_offset == header.base_offset
                    result.release()
            assert log.epochs.epoch_at(header.last_offset) == header.partition_leader_epoch
        entry = log.producers.entry(1)
        if whole:
            last = list(batches(whole))[-1]
            assert entry is not None
            assert (entry.last_sequence, entry.last_offset) == (
                last.last_sequence,
                last.last_offset,
            )

    def step(self, directory: LogDirectory, logs: list[Log]) -> None:
        number = self.chance.below(len(logs))
        log, expected = logs[number], self.expected[KEYS[number]]
        what = self.chance.below(100)
        if what < 70:
            self.append(log, expected)
        elif what < 85:
            log.flush(checkpoint=self.chance.chance(200))
            expected.durable = log.flushed_offset
        elif what < 88:
            log.roll(0)
        elif what < 91 and expected.current:
            base = self.chance.pick(list(expected.current))
            if base >= log.log_start_offset:
                expected.durable = min(expected.durable, base)
                log.truncate_to(base)
                expected.cut(base)
        elif what < 94:
            log.high_watermark = log.flushed_offset
            log.delete_records(self.chance.between(0, log.high_watermark))
            done = directory.retention(0)
            if done is not None:
                done.run()
                done.close()
                done.remove()
        elif what < 97:
            directory.checkpoint()()
        elif what < 98:
            self.restart(log, expected)
        else:
            self.follow(log, expected)

    def restart(self, log: Log, expected: Expected) -> None:
        """Restart a log; a crash within it leaves the old contents, a prefix of them, or none."""
        offset = self.chance.between(0, log.log_end_offset + 20)
        expected.durable = 0
        log.truncate_fully_and_start_at(offset)
        expected.current = {}

    def follow(self, log: Log, expected: Expected) -> None:
        """Append a few batches that a leader has sent."""
        entry = log.producers.entry(1)
        sequence = entry.last_sequence + 1 if entry is not None else 0
        base, data = log.log_end_offset, b""
        for _ in range(self.chance.between(1, 5)):
            count = self.chance.between(1, 4)
            valid = a_batch(count, sequence, self.chance.pick((0, 10, 300)), 0)
            batch = stamped(valid, base, expected.epoch)
            expected.append(base, batch)
            data, base, sequence = data + batch, base + count, sequence + count
        info = log.append_as_follower(ByteRange(data, 0, len(data)), expected.epoch, 0)
        assert info.last_offset == base - 1

    def append(self, log: Log, expected: Expected) -> None:
        entry = log.producers.entry(1)
        sequence = entry.last_sequence + 1 if entry is not None else 0
        count, size = self.chance.between(1, 4), self.chance.pick((0, 10, 300))
        valid = a_batch(count, sequence, size, 0)
        expected.epoch += self.chance.chance(50)
        epoch = expected.epoch
        # Recorded before the effect on the disk: the process may be killed in between.
        base = log.log_end_offset
        expected.append(base, stamped(valid, base, epoch))
        info = log.append(valid, epoch, 0)
        assert info.base_offset == base


def stamped(valid: ValidBatch, base: int, epoch: int) -> bytes:
    data = valid.data[valid.start : valid.end]
    return base.to_bytes(8, "big") + data[8:12] + epoch.to_bytes(4, "big") + data[16:]


def read_all(log: Log) -> bytes:
    result = log.read(log.log_start_offset, 1 << 30, log.log_end_offset)
    data = b"".join(piece.read() for piece in result.slices)
    result.release()
    return data


@pytest.mark.parametrize("seed", range(60))
def test_after_a_crash_a_log_has_everything_durable(seed: int):
    lives = CrashHistory(seed)
    for _ in range(8):
        lives.life()


def test_the_seeds_produce_torn_tails():
    assert sum(torn(seed) for seed in range(10)) > 0


def torn(seed: int) -> int:
    lives = CrashHistory(seed)
    for _ in range(8):
        lives.life()
    return lives.recovered
