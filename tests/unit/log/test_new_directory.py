"""A start that fails removes what it made and nothing else."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.log.files import LocalDisk
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Disk
from odradek.model.topics import TopicIdPartition, uuid_from_text
from unit.log.log_making import SMALL, fill

KEY = TopicIdPartition(uuid_from_text("5NsPyF0SSqCQk9HqmHqoFQ"), 0)


def opened(disk: Disk, path: str) -> LogDirectory:
    return LogDirectory(disk, path, random.Random(1), cluster_id=None, node_id=1)


def used(disk: Disk, path: str) -> LogDirectory:
    """Open a directory and make everything that a start may make before it fails."""
    directory = opened(disk, path)
    fill(directory.open_log(KEY, SMALL, 0), 3)
    directory.logs[KEY].flush(checkpoint=True)
    directory.checkpoint()()
    return directory


def below(path: Path) -> Sequence[str]:
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


def test_a_new_directory_is_removed_with_those_made_above_it(tmp_path: Path):
    (tmp_path / "there").mkdir()
    used(LocalDisk(), f"{tmp_path}/there/new/data").abandon()
    assert below(tmp_path) == ["there"]


def test_an_empty_directory_is_empty_again(tmp_path: Path):
    used(LocalDisk(), f"{tmp_path}").abandon()
    assert below(tmp_path) == []
    assert tmp_path.is_dir()


def test_files_of_others_beside_it_are_kept(tmp_path: Path):
    directory = used(LocalDisk(), f"{tmp_path}/new/data")
    (tmp_path / "new/other").mkdir()
    directory.abandon()
    assert below(tmp_path) == ["new", "new/other"]


def test_a_directory_that_had_files_is_left_as_it_is(tmp_path: Path):
    (tmp_path / "notes").write_text("mine")
    used(LocalDisk(), f"{tmp_path}").abandon()
    assert {"notes", "meta.properties", str(KEY)} <= set(below(tmp_path))


def test_a_directory_that_was_used_before_keeps_its_logs():
    disk = MemoryDisk()
    first = used(disk, "data")
    first.close()
    opened(disk, "data").abandon()
    again = opened(disk, "data")
    assert (again.meta, list(again.partitions)) == (first.meta, [KEY])
    assert again.open_log(KEY, SMALL, 0).log_end_offset == 6


def test_a_directory_in_use_is_left_as_it_is(tmp_path: Path):
    holder = opened(LocalDisk(), f"{tmp_path}/data")
    with pytest.raises(BlockingIOError):
        opened(LocalDisk(), f"{tmp_path}/data")
    assert "data/meta.properties" in below(tmp_path)
    holder.release()


@pytest.mark.parametrize("obstacle", ["data/.lock", "data/meta.properties"])
def test_a_directory_that_cannot_be_completed_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
):
    class Full(LocalDisk):
        def lock(self, path: str):
            self.meet(path)
            return super().lock(path)

        def replace_file(self, path: str, data: bytes) -> None:
            self.meet(path)
            super().replace_file(path, data)

        def meet(self, path: str) -> None:
            if path.endswith(obstacle):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    with pytest.raises(OSError, match="No space left"):
        opened(Full(), f"{tmp_path}/new/data")
    assert below(tmp_path) == []


def test_the_error_of_the_start_is_raised_and_not_that_of_the_cleanup():
    class Stuck(MemoryDisk):
        def effect(self, kind: str, path: str) -> None:
            if kind in ("replace", "remove"):
                raise OSError(errno.EIO, f"cannot {kind}", path)

    with pytest.raises(OSError, match="cannot replace"):
        opened(Stuck(), "data")
