"""A pass of compaction leaves no file open, however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.log.compaction.cleaner import Cleaner
from odradek.log.fence import Fence
from odradek.log.files import LocalDisk
from odradek.log.index import IndexCache
from odradek.log.log import Log
from odradek.log.recovery import open_log
from odradek.log.scan import BadBatch
from unit.log.compacting import COMPACTED, Keyed, a_pass, roll_and_commit, run, write

A, B = b"a", b"b"
SMALL_PIECES = 100


class Written:
    """A log on a real disk with no open files."""

    def __init__(self, directory: Path, *batches: list[Keyed]) -> None:
        self.disk = LocalDisk()
        self.log: Log = open_log(
            self.disk, str(directory), COMPACTED, Fence(str(directory)), IndexCache(), now_ms=0
        )[0]
        write(self.log, *batches)
        roll_and_commit(self.log)
        self.log.segments.close()
        assert self.disk.open_files == 0

    def run_until_it_writes(self, cleaner: Cleaner) -> None:
        """Take the steps up to the first one that writes."""
        self.steps = cleaner.steps()
        while cleaner.stats.bytes_read == 0:
            next(self.steps)
        assert self.disk.open_files > 0, "the file read and the file written"


def test_no_file_is_open_after_a_segment_was_replaced(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(A, b"2")])
    assert run(a_pass(written.log), written.log).deletions
    assert written.disk.open_files == 0


def test_no_file_is_open_after_a_segment_without_changes(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(B, b"1")])
    assert not run(a_pass(written.log), written.log).deletions
    assert written.disk.open_files == 0


def test_no_file_is_open_after_a_dropped_pass(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(A, b"2")])
    written.run_until_it_writes(a_pass(written.log, chunk_bytes=SMALL_PIECES))
    written.steps.close()
    assert written.disk.open_files == 0


def test_no_file_is_open_after_a_pass_that_found_damage(tmp_path: Path):
    written = Written(tmp_path, [(A, b"1")], [(A, b"2")])
    written.run_until_it_writes(a_pass(written.log, chunk_bytes=SMALL_PIECES))
    segment = written.log.segments.items[0]
    with open(segment.file.path, "r+b") as file:
        file.seek(segment.size - 1)
        file.write(b"?")
    with pytest.raises(BadBatch, match="checksum"):
        next(written.steps)
    assert written.disk.open_files == 0
