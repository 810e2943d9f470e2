"""Compaction holds files only while it works on them, wherever a pass ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from compacting import COMPACTED, Keyed, a_pass, roll_and_commit, run, write

from odradek.log.compaction.cleaner import Cleaner
from odradek.log.fence import Fence
from odradek.log.files import LocalDisk
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.recovery import open_log
from odradek.log.scan import BadBatch

A, B = b"a", b"b"
SMALL_PIECES = 100


class Written:
    """A log on a real disk, none of whose files is open."""

    def __init__(self, directory: Path, *batches: list[Keyed]) -> None:
        self.disk = LocalDisk()
        self.log: Log = open_log(
            self.disk, str(directory), COMPACTED, Fence(str(directory)), IndexCache(), now_ms=0
        )[0]
        write(self.log, *batches)
        roll_and_commit(self.log)
        self.log.segments.close()
        assert self.disk.open_files == 0

    def until_it_writes(self, cleaner: Cleaner) -> None:
        """Take the steps up to the first that wrote something, and no further."""
        self.steps = cleaner.steps()
        while cleaner.stats.bytes_read == 0:
            next(self.steps)
        assert self.disk.open_files > 0, "what it reads, and what it writes"


def test_after_a_segment_was_replaced(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(A, b"2")])
    assert run(a_pass(written.log), written.log).deletions
    assert written.disk.open_files == 0


def test_after_a_segment_that_stays_as_it_is(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(B, b"1")])
    assert not run(a_pass(written.log), written.log).deletions
    assert written.disk.open_files == 0


def test_after_a_pass_that_was_dropped_half_way(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(A, b"2")])
    written.until_it_writes(a_pass(written.log, chunk_bytes=SMALL_PIECES))
    written.steps.close()
    assert written.disk.open_files == 0


def test_after_a_pass_that_met_damage_half_way(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(A, b"2")])
    written.until_it_writes(a_pass(written.log, chunk_bytes=SMALL_PIECES))
    segment = written.log.segments.items[0]
    with open(segment.file.path, "r+b") as file:
        file.seek(segment.size - 1)
        file.write(b"?")
    with pytest.raises(BadBatch, match="checksum"):
        next(written.steps)
    assert written.disk.open_files == 0
