"""The simulated disk: synced data survives a power failure, other data may be lost."""

import errno

import pytest

from odradek.testing.disk import Mount, SimDisk
from odradek.testing.process import Crash
from odradek.testing.scheduler import Scheduler
from odradek.testing.volume import VolumeWrite, surviving_bytes


def disk_of(seed: int = 1) -> tuple[SimDisk, Mount]:
    disk = SimDisk(Scheduler(seed), "disk")
    return disk, disk.mount()


def synced_file(mount: Mount, path: str, data: bytes) -> None:
    """Create a file with this content, all synced."""
    mount.make_directory("/data")
    mount.sync_directory("/")
    mount.open(path, create=True).append([data])
    mount.open(path).sync()
    mount.sync_directory("/data")


def test_files_and_directories_behave_like_files_and_directories() -> None:
    _, mount = disk_of()
    mount.make_directory("/a/b")
    mount.make_directory("/a/b")
    file = mount.open("/a/b/log", create=True)
    assert file.append([b"he", memoryview(b"llo")]) == 5
    file.write(1, b"E")
    assert (file.read(0, 99), file.read(3, 99), file.size()) == (b"hEllo", b"lo", 5)
    file.truncate(2)
    mount.rename("/a/b/log", "/a/b/old")
    mount.open("/a/b/new", create=True)
    assert list(mount.list("/a/b")) == ["new", "old"]
    assert mount.read_file("/a/b/old") == b"hE"
    mount.remove("/a/b/new")
    mount.remove_tree("/a")
    assert not mount.exists("/a")
    assert file.read(0, 9) == b"hE"


def test_errors_carry_number_and_path() -> None:
    _, mount = disk_of()
    for call in (
        lambda: mount.open("/none/x", create=True),
        lambda: mount.open("/x"),
        lambda: mount.list("/none"),
        lambda: mount.remove("/x"),
        lambda: mount.rename("/x", "/y"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert caught.value.filename


@pytest.mark.parametrize("seed", range(40))
def test_a_power_failure_keeps_synced_bytes_and_adds_none(seed: int) -> None:
    disk, mount = disk_of(seed)
    synced_file(mount, "/data/log", b"s" * 3000)
    file = mount.open("/data/log")
    for _ in range(9):
        file.append([b"u" * 700])
    disk.power_loss()
    after = disk.mount().read_file("/data/log")
    assert after[:3000] == b"s" * 3000
    assert 3000 <= len(after) <= 3000 + 9 * 700
    assert disk.synced_bytes("/data/log") == after


def images(seeds: int) -> list[bytes]:
    found = []
    for seed in range(seeds):
        disk, mount = disk_of(seed)
        synced_file(mount, "/data/log", b"")
        for letter in b"abcdefgh":
            mount.open("/data/log").append([bytes([letter]) * 1000])
        disk.power_loss()
        found.append(disk.mount().read_file("/data/log"))
    return found


def test_every_kind_of_loss_occurs() -> None:
    whole = b"".join(bytes([letter]) * 1000 for letter in b"abcdefgh")
    found = images(200)
    assert b"" in found, "all lost"
    assert whole in found, "nothing lost"
    assert any(0 < len(i) < 8000 and whole.startswith(i) for i in found), "a prefix"
    assert any(len(i) == 8000 and i != whole for i in found), "size grew without its data"
    assert any(b"\0" * 500 + b"h" in i for i in found), "the end without what came before it"
    assert any(i.startswith(b"a" * 512 + b"\0" * 400) for i in found), "torn within one write"


@pytest.mark.parametrize("seed", range(30))
def test_a_name_is_durable_once_its_directory_was_synced(seed: int) -> None:
    disk, mount = disk_of(seed)
    synced_file(mount, "/data/kept", b"kept")
    mount.open("/data/risky", create=True).append([b"risky"])
    mount.open("/data/risky").sync()
    mount.rename("/data/kept", "/data/renamed")
    disk.power_loss()
    names = list(disk.mount().list("/data"))
    assert names in (["kept"], ["kept", "risky"], ["renamed", "risky"])


def test_a_file_synced_in_a_directory_that_was_not_can_be_gone() -> None:
    outcomes = []
    for seed in range(40):
        disk, mount = disk_of(seed)
        mount.make_directory("/data")
        mount.sync_directory("/")
        mount.open("/data/log", create=True).append([b"x"])
        mount.open("/data/log").sync()
        disk.power_loss()
        outcomes.append(disk.mount().exists("/data/log"))
    assert True in outcomes
    assert False in outcomes


@pytest.mark.parametrize("seed", range(30))
def test_replacing_a_file_is_all_or_nothing_and_durable(seed: int) -> None:
    disk, mount = disk_of(seed)
    synced_file(mount, "/data/checkpoint", b"old")
    mount.faults.crash_after_effects = seed % 7
    replaced = False
    try:
        mount.replace_file("/data/checkpoint", b"new!")
        replaced = True
    except Crash:
        disk.power_loss()
    after = disk.mount().read_file("/data/checkpoint")
    assert after == b"new!" if replaced else after in (b"old", b"new!")


def test_a_kill_keeps_the_page_cache() -> None:
    disk, mount = disk_of()
    mount.make_directory("/data")
    mount.open("/data/log", create=True).append([b"unsynced"])
    assert disk.mount().read_file("/data/log") == b"unsynced"


def test_a_crash_point_falls_before_after_or_inside_an_effect() -> None:
    seen = []
    for seed in range(60):
        disk, mount = disk_of(seed)
        synced_file(mount, "/data/log", b"")
        mount.faults.crash_after_effects = 1
        mount.open("/data/log").append([b"first"])
        with pytest.raises(Crash):
            mount.open("/data/log").append([b"second"])
        with pytest.raises(Crash):
            mount.open("/data/log").append([b"from a finally clause"])
        seen.append(disk.mount().read_file("/data/log"))
    assert b"first" in seen
    assert b"firstsecond" in seen
    assert any(5 < len(image) < 11 for image in seen)


@pytest.mark.parametrize("seed", range(20))
def test_after_a_failed_sync_the_pages_are_never_written_by_later_syncs(
    seed: int,
) -> None:
    disk, mount = disk_of(seed)
    synced_file(mount, "/data/log", b"")
    file = mount.open("/data/log")
    file.append([b"a" * 4096])
    mount.faults.sync_error_rate = 1000
    with pytest.raises(OSError) as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    mount.faults.sync_error_rate = 0
    on_platter = disk.synced_bytes("/data/log")
    file.sync()
    assert disk.synced_bytes("/data/log") == on_platter
    assert file.read(0, 5000) == b"a" * 4096
    file.append([b"b"])
    file.sync()
    assert disk.synced_bytes("/data/log")[4096:] == b"b"


def test_a_full_disk_refuses_growth_and_changes_nothing() -> None:
    _, mount = disk_of()
    synced_file(mount, "/data/log", b"abc")
    mount.faults.full = True
    for call in (
        lambda: mount.open("/data/log").append([b"more"]),
        lambda: mount.open("/data/other", create=True),
    ):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.ENOSPC
    mount.open("/data/log").write(0, b"A")
    mount.remove("/data/log")
    assert mount.free_bytes("/data")[0] == 0


@pytest.mark.parametrize("operation", ["read", "append"])
def test_read_and_write_errors(operation: str) -> None:
    _, mount = disk_of()
    synced_file(mount, "/data/log", b"abc")
    mount.faults.read_error_rate = mount.faults.write_error_rate = 1000
    file = mount.open("/data/log")
    with pytest.raises(OSError) as caught:
        file.read(0, 1) if operation == "read" else file.append([b"x"])
    assert caught.value.errno == errno.EIO
    assert file.size() == 3


def test_the_lock_is_exclusive_until_released_or_the_process_is_gone() -> None:
    disk, mount = disk_of()
    release = mount.lock("/.lock")
    with pytest.raises(BlockingIOError):
        mount.lock("/.lock")
    release()
    mount.lock("/.lock")
    after = disk.mount()
    after.lock("/.lock")
    with pytest.raises(Crash):
        mount.make_directory("/zombie")


def test_a_flipped_bit_stays_flipped() -> None:
    disk, mount = disk_of()
    synced_file(mount, "/data/log", b"\0\0\0")
    disk.flip_bit("/data/log", 9)
    disk.power_loss()
    assert disk.mount().read_file("/data/log") == b"\0\2\0"
    assert disk.paths() == ["/data/log"]


@pytest.mark.parametrize("seed", range(50))
def test_a_truncation_that_survived_hides_the_truncated_bytes(seed: int) -> None:
    chance = Scheduler(seed).stream("image")
    pending = [VolumeWrite(0, None), VolumeWrite(0, b"n" * 2000)]
    image = surviving_bytes(bytearray(b"o" * 2000), pending, chance)
    assert len(image) in (0, 2000)
    assert not (b"n" * 40 in image and b"o" * 40 in image)
