"""The real disk: descriptors, short writes, locks. The disk in memory must behave alike."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.log.files import LocalDisk, descriptor_budget
from odradek.log.files.local_disk import EVICTION_STEPS
from odradek.log.files.local_file import CAN_ADVISE, IOV_MAX
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Disk


@pytest.fixture(params=["local", "memory"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "local":
        return LocalDisk(), str(tmp_path)
    disk = MemoryDisk()
    disk.make_directory("/data")
    return disk, "/data"


def test_a_file_appends_reads_overwrites_and_truncates(disk_and_root: tuple[Disk, str]):
    disk, root = disk_and_root
    file = disk.open(f"{root}/f", create=True)
    assert file.append([b"abc", b"", memoryview(b"defg")]) == 7
    assert (file.size(), file.read(2, 3), file.read(5, 100), file.read(9, 1)) == (
        7,
        b"cde",
        b"fg",
        b"",
    )
    file.write(1, b"XY")
    assert file.read(0, 7) == b"aXYdefg"
    file.write(9, b"z")
    assert file.read(0, 20) == b"aXYdefg\0\0z"
    file.truncate(3)
    assert file.append([b"!"]) == 4
    file.close()
    assert file.read(0, 10) == b"aXY!", "a closed file opens again"
    assert disk.open(f"{root}/f").size() == 4
    assert disk.read_file(f"{root}/f") == b"aXY!"


def test_directories_are_made_listed_renamed_and_removed(disk_and_root: tuple[Disk, str]):
    disk, root = disk_and_root
    disk.make_directory(f"{root}/a/b")
    disk.make_directory(f"{root}/a/b")
    disk.open(f"{root}/a/b/2", create=True)
    disk.open(f"{root}/a/b/10", create=True)
    disk.replace_file(f"{root}/a/c", b"1")
    disk.replace_file(f"{root}/a/c", b"2")
    assert list(disk.list(f"{root}/a")) == ["b", "c"]
    assert list(disk.list(f"{root}/a/b")) == ["10", "2"]
    assert disk.read_file(f"{root}/a/c") == b"2"
    disk.rename(f"{root}/a", f"{root}/z")
    assert disk.exists(f"{root}/z/b/10")
    assert not disk.exists(f"{root}/a")
    disk.remove(f"{root}/z/b/10")
    disk.sync_directory(f"{root}/z/b")
    disk.remove_tree(f"{root}/z")
    assert list(disk.list(root)) == []
    for missing in (disk.open, disk.read_file, disk.remove, disk.remove_tree, disk.list):
        with pytest.raises(FileNotFoundError):
            missing(f"{root}/nowhere")


def test_a_removed_file_is_readable_while_it_is_pinned(disk_and_root: tuple[Disk, str]):
    disk, root = disk_and_root
    file = disk.open(f"{root}/f", create=True)
    file.append([b"abc"])
    file.pin()
    disk.rename(f"{root}/f", f"{root}/f.deleted")
    disk.remove(f"{root}/f.deleted")
    file.close()
    assert file.read(0, 3) == b"abc"
    file.unpin()


def test_a_directory_can_be_locked_once_until_it_is_released(
    disk_and_root: tuple[Disk, str],
):
    disk, root = disk_and_root
    release = disk.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    release()
    disk.lock(f"{root}/.lock")()


def test_the_error_of_a_second_process_names_the_holder_of_the_lock(tmp_path: Path):
    release = LocalDisk().lock(f"{tmp_path}/.lock")
    code = f"from odradek.log.files import LocalDisk; LocalDisk().lock({str(tmp_path / '.lock')!r})"
    second = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert (
        f"BlockingIOError: [Errno {errno.EWOULDBLOCK}] in use by process {os.getpid()};"
        in second.stderr
    )
    release()
    third = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert third.returncode == 0, third.stderr


def test_new_files_and_directories_are_private(tmp_path: Path):
    disk = LocalDisk()
    disk.make_directory(f"{tmp_path}/a/b")
    disk.open(f"{tmp_path}/a/b/f", create=True)
    disk.replace_file(f"{tmp_path}/a/g", b"")
    for name, mode in (("a", 0o700), ("a/b", 0o700), ("a/b/f", 0o600), ("a/g", 0o600)):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_descriptors_above_the_limit_close_cold_files(tmp_path: Path):
    disk = LocalDisk(max_open=16)
    many = [disk.open(f"{tmp_path}/{n}", create=True) for n in range(100)]
    assert disk.open_files <= 16
    for turn in range(3):
        for n, file in enumerate(many):
            file.append([b"%d.%d " % (turn, n)])
            assert disk.open_files <= 16
    for n, file in enumerate(many):
        assert file.read(0, 100) == b"".join(b"%d.%d " % (turn, n) for turn in range(3))


def test_a_look_for_a_cold_file_among_thousands_is_short(tmp_path: Path):
    limit = EVICTION_STEPS + 50
    disk = LocalDisk(max_open=limit)
    opened = []
    for number in range(2 * limit):
        disk.open(f"{tmp_path}/{number}", create=True).append([b"x"])
        opened.append(disk.open_files)
    assert opened[limit] == limit + 1, "all are used, and it has not looked at all of them"
    assert opened[limit + 1 :] == [limit] * (limit - 1)


def test_a_used_file_stays_open_while_others_are_closed(tmp_path: Path):
    disk = LocalDisk(max_open=4)
    hot, pinned = (disk.open(f"{tmp_path}/{name}", create=True) for name in ("hot", "pinned"))
    descriptor = pinned.pin()
    hot.append([b"x"])
    for n in range(20):
        disk.open(f"{tmp_path}/{n}", create=True).append([b"x"])
        hot.append([b"x"])
        assert hot._descriptor >= 0
    assert pinned.pin() == descriptor
    assert os.fstat(descriptor).st_size == 0
    pinned.unpin()
    pinned.unpin()


@pytest.mark.skipif(not CAN_ADVISE, reason="this system has no posix_fadvise")
def test_reading_ahead_advises_the_kernel_and_an_error_of_it_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[int, int, int]] = []

    def advise(descriptor: int, offset: int, count: int, advice: int) -> None:
        asked.append((offset, count, advice))
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(os, "posix_fadvise", advise)
    file = LocalDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"x" * 100])
    file.pin()
    file.read_ahead(10, 20)
    assert asked == [(10, 20, os.POSIX_FADV_WILLNEED)]
    file.unpin()


def test_a_pinned_file_is_closed_with_its_last_unpin(tmp_path: Path):
    disk = LocalDisk()
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([b"abc"])
    file.pin()
    descriptor = file.pin()
    file.close()
    file.unpin()
    assert os.pread(descriptor, 3, 0) == b"abc"
    assert disk.open_files == 1
    file.unpin()
    assert (disk.open_files, file._descriptor) == (0, -1)
    file.pin()
    file.unpin()
    assert disk.open_files == 1, "a later use opens it again"


def test_pinned_files_may_exceed_the_limit(tmp_path: Path):
    disk = LocalDisk(max_open=2)
    held = [disk.open(f"{tmp_path}/{n}", create=True) for n in range(5)]
    for file in held:
        file.pin()
    assert disk.open_files == 5
    for file in held:
        file.unpin()
    disk.open(f"{tmp_path}/next", create=True).append([b"x"])
    assert disk.open_files == 2


def test_an_append_of_more_parts_than_one_call_accepts(tmp_path: Path):
    file = LocalDisk().open(f"{tmp_path}/f", create=True)
    parts = [b"%d," % n for n in range(IOV_MAX * 2 + 7)]
    file.append([b"head"])
    file.append(parts)
    file.append([b"tail"])
    assert file.read(0, 1 << 20) == b"head" + b"".join(parts) + b"tail"


@pytest.mark.parametrize("parts", [[b"abcdefghijkl"], [b"abcdefgh", b"ijkl"]])
def test_a_short_write_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[bytes]
):
    real_writev, real_write = os.writev, os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: real_writev(fd, [parts[0][:2]]))
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:3]))
    file = LocalDisk().open(f"{tmp_path}/f", create=True)
    assert file.append(parts) == 12
    assert file.read(0, 100) == b"abcdefghijkl"


def test_a_partial_write_that_fails_is_truncated(tmp_path: Path):
    file = LocalDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"a" * 1000])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        with pytest.raises(OSError, match=str(tmp_path)) as caught:
            file.append([b"b" * 400, b"c" * 400])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert (file.size(), (tmp_path / "f").stat().st_size) == (1000, 1000)
    file.append([b"d"])
    assert file.read(999, 10) == b"ad"


@pytest.mark.parametrize("garbage", [[b"garbage"], [b"garb", b"age"]])
def test_if_the_truncation_fails_too_the_next_append_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, garbage: list[bytes]
):
    file = LocalDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"good"])
    real_write = os.write

    def half(descriptor: int, parts: bytes | list[bytes]) -> int:
        real_write(descriptor, (parts if isinstance(parts, bytes) else parts[0])[:3])
        raise OSError(errno.EIO, "Input/output error")

    def stuck(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", half)
        broken.setattr(os, "writev", half)
        broken.setattr(os, "ftruncate", stuck)
        with pytest.raises(OSError, match="Input/output"):
            file.append(garbage)
    file.append([b"!"])
    assert (tmp_path / "f").read_bytes() == b"good!"


def test_sync_errors_have_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = LocalDisk().open(f"{tmp_path}/f", create=True)

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(OSError, match=f"{tmp_path}/f"):
        file.sync()


def test_the_descriptor_budget_is_a_share_of_the_process_limit():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= descriptor_budget() <= max(16, soft)


def test_out_of_descriptors_cold_files_are_closed(tmp_path: Path):
    disk = LocalDisk(max_open=100)
    cold = [disk.open(f"{tmp_path}/{n}", create=True) for n in range(8)]
    for file in cold:
        file.append([b"x"])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd") if name.isdecimal())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    held: list[int] = []
    try:
        with suppress(OSError):  # all that are left
            while True:
                held.append(os.dup(0))
        assert disk.open(f"{tmp_path}/new", create=True).append([b"y"]) == 1
        assert disk.read_file(f"{tmp_path}/0") == b"x"
        disk.replace_file(f"{tmp_path}/0", b"z")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in held:
            os.close(descriptor)
    assert disk.open_files < 8


def test_out_of_descriptors_a_worker_still_syncs_directories(tmp_path: Path):
    """A worker may not close files of others, and a failed sync would fence the data directory."""
    disk = LocalDisk(max_open=100)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd") if name.isdecimal())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    held: list[int] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(100):
                disk.sync_directory(str(tmp_path))
                disk.replace_file(f"{tmp_path}/file", b"z")
        except OSError as error:
            errors.append(error)

    try:
        with suppress(OSError):  # all that are left
            while True:
                held.append(os.dup(0))
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in held:
            os.close(descriptor)
    assert errors == []
