"""A pass of compaction that is killed, or loses power, at any of its effects on the disk.

The next start must find the same records, without a gap and without leftover files, and must be
able to complete the compaction.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from odradek.log.log import Log
from odradek.log.log_directory import LogDirectory
from odradek.model.topics import TopicIdPartition
from odradek.testing.disk import DiskFaults, SimDisk
from odradek.testing.process import Crash
from odradek.testing.scheduler import Scheduler
from unit.log.compacting import COMPACTED, a_pass, roll_and_commit, run, shown, table, write
from unit.log.log_making import headers, read

KEY = TopicIdPartition(UUID(int=7 << 64), 0)
CONFIG = replace(COMPACTED, segment_bytes=450, index_interval_bytes=100)
SMALLER = replace(CONFIG, segment_bytes=150)
BATCHES = [[(b"%d" % (n % 4), b"%d" % n if n % 5 else None)] for n in range(14)]
RECORDS = [(n, *record) for n, batch in enumerate(BATCHES) for record in batch]


class Life:
    """A log with dirty segments, on a disk that loses unsynced writes."""

    def __init__(self, seed: int) -> None:
        self.disk = SimDisk(Scheduler(seed), "disk")
        log = self.open(DiskFaults())
        log.configure(SMALLER)  # so that several segments are merged
        write(log, *BATCHES)
        roll_and_commit(log)
        assert len(log.segments) == 8
        self.expected = table(log)

    def open(self, faults: DiskFaults) -> Log:
        chance = self.disk.scheduler.stream("directory")
        mount = self.disk.mount(faults)
        self.directory = LogDirectory(mount, "/data", chance, cluster_id="c", node_id=1)
        log = self.directory.open_log(KEY, CONFIG, 0)
        log.high_watermark = log.flushed_offset
        return log

    def compact(self, log: Log) -> None:
        """Compact as the broker does: sync durable ends first, remove `.deleted` files last."""
        self.directory.checkpoint()()
        cleaner = run(a_pass(log, now_ms=0), log)
        for deletion in cleaner.deletions:
            deletion.close()
            deletion.remove()

    def checked(self, log: Log) -> None:
        now = shown(log)
        assert [each for each in RECORDS if each in now] == now
        assert table(log) == self.expected
        for number in range(len(log.segments)):
            log.segments.loaded(number)
        names = [path.rpartition("/")[2] for path in self.disk.paths()]
        assert not [n for n in names if n.endswith((".cleaned", ".swap", ".deleted"))], names


def effects_of_a_pass() -> int:
    life = Life(0)
    log = life.open(DiskFaults())
    before = life.disk.effects
    life.compact(log)
    return life.disk.effects - before


EFFECTS = effects_of_a_pass()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("point", range(EFFECTS))
def test_a_crash_at_any_effect_of_a_pass_loses_nothing(point: int, power: bool) -> None:
    life = Life(point)
    faults = DiskFaults()
    log = life.open(faults)
    faults.crash_after_effects = point
    with pytest.raises(Crash):
        life.compact(log)
    if power:
        life.disk.power_loss()
    # The next start may crash, too.
    faults = DiskFaults(crash_after_effects=life.disk.chance.between(0, 30))
    try:
        life.open(faults)
    except Crash:
        if power:
            life.disk.power_loss()
    log = life.open(DiskFaults())
    life.checked(log)
    life.compact(log)
    life.checked(log)
    # Every second remaining key has its tombstone after its values.
    kept = [header for header in headers(read(log, 0)) if header.count]
    assert len(kept) == len({key for _, key, _ in RECORDS})


def test_the_crashes_cover_every_step_of_a_swap() -> None:
    met = set()
    for point in range(EFFECTS):
        life = Life(point)
        faults = DiskFaults()
        log = life.open(faults)
        faults.crash_after_effects = point
        with pytest.raises(Crash):
            life.compact(log)
        names = [path.rpartition("/")[2] for path in life.disk.paths()]
        suffixes = {name.rpartition(".")[2] for name in names}
        met.add(frozenset(suffixes & {"cleaned", "swap", "deleted"}))
    assert {
        frozenset(),
        frozenset({"cleaned"}),
        frozenset({"cleaned", "swap"}),
        frozenset({"swap"}),
        frozenset({"swap", "deleted"}),
        frozenset({"deleted"}),
    } <= met
