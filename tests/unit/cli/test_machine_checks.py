"""What `odradek doctor` makes of disk, clock, descriptors and ports."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from odradek.cli import machine_checks
from odradek.cli.finding import CheckStatus
from odradek.cli.machine_checks import (
    GIB,
    check_disk,
    check_port,
    filesystem_of,
    judge_descriptors,
    judge_filesystem,
    judge_monotonic,
    judge_space,
    judge_syncs,
    judge_wall_clock,
)

PLACE = Path("/data")
MIB = 1 << 20
MOUNTS = """\
/dev/vda1 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
server:/export /mnt/with\\040blank nfs4 rw 0 0
/dev/vdb1 /mnt xfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("free", "state"), [(100 * MIB, "fail"), (GIB, "warn"), (2 * GIB, "ok"), (900 * GIB, "ok")]
)
def test_little_free_space_is_a_warning_and_none_a_failure(free: int, state: str) -> None:
    finding = judge_space(free, 1000 * GIB, PLACE)
    assert finding.state == state and bool(finding.what_to_do) == (state != "ok")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "ext4"), ("/home/x", "ext4"), ("/tmpfile", "ext4"), ("/mnt/disk", "xfs")],
)
def test_the_file_system_of_a_directory_is_that_of_the_deepest_mount(
    path: str, kind: str, tmp_path: Path
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert filesystem_of(Path(path), mounts) == kind
    assert filesystem_of(Path("/mnt/with blank/x"), mounts) == "nfs4"
    assert filesystem_of(Path("/tmp"), mounts) == "tmpfs"
    assert filesystem_of(Path(path), tmp_path / "none") is None


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("ext4", "ok"),
        ("xfs", "ok"),
        (None, "ok"),
        ("tmpfs", "warn"),
        ("nfs4", "warn"),
        ("fuse.sshfs", "warn"),
        ("overlay", "warn"),
    ],
)
def test_a_file_system_that_forgets_or_is_remote_is_a_warning(kind: str | None, state: str) -> None:
    assert judge_filesystem(kind, PLACE).state == state


def test_a_slow_disk_is_a_warning_by_its_median() -> None:
    assert judge_syncs([1.0, 1.0, 500.0], PLACE).state is CheckStatus.OK
    slow = judge_syncs([30.0, 30.0, 1.0], PLACE)
    assert slow.state is CheckStatus.WARN and "log.durability=os" in slow.what_to_do


def test_a_directory_that_does_not_exist_is_judged_by_the_one_above_and_not_made(
    tmp_path: Path,
) -> None:
    found = list(check_disk(tmp_path / "new" / "data"))
    assert {each.check for each in found} == {"file system", "disk space", "disk writes"}
    assert str(tmp_path) in found[0].found
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    (found,) = check_disk(tmp_path / "data")
    assert found.state is CheckStatus.FAIL and "--data-dir" in found.what_to_do


def test_a_directory_that_cannot_be_written_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: Path) -> list[float]:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(machine_checks, "sync_times", refuse)
    (found,) = [each for each in check_disk(tmp_path) if each.check == "disk writes"]
    assert found.state is CheckStatus.FAIL
    assert "Permission denied" in found.found and "right to write" in found.what_to_do


@pytest.mark.parametrize(
    ("passed_ms", "wall_ms", "state"),
    [(10.1, 10.1, "ok"), (10.1, 400.0, "warn"), (10.1, -90.0, "warn"), (0.0, 10.0, "fail")],
)
def test_a_clock_that_jumps_is_a_warning_and_one_that_stands_a_failure(
    passed_ms: float, wall_ms: float, state: str
) -> None:
    assert judge_monotonic(passed_ms, wall_ms).state == state


@pytest.mark.parametrize(
    ("year", "kernel", "state"),
    [
        (2026, (True, 0.02), "ok"),
        (2026, None, "ok"),
        (2026, (True, -900.0), "warn"),
        (2026, (False, 0.0), "warn"),
        (1970, (True, 0.0), "fail"),
    ],
)
def test_a_wall_clock_that_nothing_sets_is_a_warning_and_one_in_the_past_a_failure(
    year: int, kernel: tuple[bool, float] | None, state: str
) -> None:
    assert judge_wall_clock(year, kernel).state == state


@pytest.mark.parametrize(("raised", "state"), [(131_072, "ok"), (1024, "warn"), (128, "fail")])
def test_few_descriptors_are_a_warning_and_very_few_a_failure(raised: int, state: str) -> None:
    finding = judge_descriptors(min(raised, 1024), raised)
    assert finding.state == state and f"{raised // 2:,} for files" in finding.found


def test_a_port_in_use_is_reported_with_its_holder() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        found = check_port("127.0.0.1", port, "--port")
        assert found.state is CheckStatus.WARN and "--port" in found.what_to_do
        assert str(os.getpid()) in found.found or not Path("/proc/net/tcp").exists()
        next_free = check_port("127.0.0.1", port, "--http", next_is_taken=True)
        assert next_free.state is CheckStatus.OK and "next free port" in next_free.what_to_do
    assert check_port("127.0.0.1", port, "--port").state is CheckStatus.OK
    assert check_port("192.0.2.254", 9092, "--port").state is CheckStatus.FAIL
