"""Checks of the machine by `odradek doctor`: disk, clock, descriptors, ports.

A function that begins with `judge` decides from values that were read; the others read them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from odradek.cli.finding import Finding, fail, ok, warn
from odradek.config.addresses import address_text
from odradek.log.files import sync_descriptor
from odradek.network.listener import AddressInUseError, CannotListenError, bound_socket

GIB = 1 << 30
LEAST_FREE = 256 << 20
"""Below this much free space a broker soon refuses appends."""
LITTLE_FREE = 2 * GIB
"""Room for two segments of the default size."""
SYNCS = 25
SYNCED_BYTES = 4096
SLOW_SYNC_MS = 20.0
"""A median above this is that of a disk without a cache that survives a loss of power."""
STUCK_SYNC_MS = 1000.0

VOLATILE = ("tmpfs", "ramfs")
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "vboxsf", "fuse", "ceph", "afs")
LAYERED = ("overlay", "aufs")

MILLISECOND_US = 1000
LARGE_OFFSET_MS = 500.0
EARLIEST_YEAR = 2025
TIME_ERROR = 5
STA_NANO = 0x2000
"""`adjtimex(2)`: the clock is not synchronised; its offset is in nanoseconds."""

FEW_DESCRIPTORS = 4096
TOO_FEW_DESCRIPTORS = 256


# -- disk ------------------------------------------------------------------------------------------


def check_disk(directory: Path) -> Iterator[Finding]:
    """The data directory, or the nearest directory above it that exists."""
    place = directory.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield fail("disk", f"{place} is not a directory", "choose another with --data-dir")
        return
    yield judge_filesystem(filesystem_of(place), place)
    try:
        volume = os.statvfs(place)
    except OSError as error:
        yield fail("disk space", f"{place}: {error.strerror}", "choose another with --data-dir")
    else:
        free, total = volume.f_bavail * volume.f_frsize, volume.f_blocks * volume.f_frsize
        yield judge_space(free, total, place)
    try:
        times = sync_times(place)
    except OSError as error:
        yield fail(
            "disk writes",
            f"{place} cannot be written: {error.strerror}",
            "choose another with --data-dir, or give this user the right to write there"
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
            else "make room, or choose another with --data-dir",
        )
    else:
        yield judge_syncs(times, place)


def sync_times(place: Path) -> list[float]:
    """The milliseconds that each of some small writes took to be on disk. Raises `OSError`."""
    times = []
    with tempfile.TemporaryFile(dir=place, buffering=0) as file:
        for _ in range(SYNCS):
            file.write(b"\0" * SYNCED_BYTES)
            began = time.perf_counter()
            sync_descriptor(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
            if times[-1] > STUCK_SYNC_MS:
                break
    return times


def judge_syncs(times_ms: list[float], place: Path) -> Finding:
    median, longest = statistics.median(times_ms), max(times_ms)
    found = f"{place}: a write is on disk after {median:.1f} ms (median), {longest:.1f} ms at most"
    if median <= SLOW_SYNC_MS:
        return ok("disk writes", found)
    return warn(
        "disk writes",
        found,
        "acks=all waits for that: use a local SSD; or --set log.durability=os, which answers "
        "before the records are on disk, as Kafka does",
    )


def judge_space(free: int, total: int, place: Path) -> Finding:
    found = f"{place}: {free / GIB:,.1f} of {total / GIB:,.1f} GiB are free"
    if free < LEAST_FREE:
        return fail("disk space", found, "make room, or choose another place with --data-dir")
    if free < LITTLE_FREE:
        advice = "make room, or limit the logs: --set log.retention.bytes=..., log.segment.bytes"
        return warn("disk space", found, advice)
    return ok("disk space", found)


def filesystem_of(place: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The kind of the file system with this directory; None where that cannot be told."""
    try:
        table = mounts.read_text()
    except OSError:  # Not Linux.
        return None
    best, kind = "", None
    path = str(place.resolve())
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[1])
        is_below = path == point or path.startswith(point.rstrip("/") + "/")
        if is_below and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def judge_filesystem(kind: str | None, place: Path) -> Finding:
    check = "file system"
    if kind is None:
        return ok(check, f"{place}: its kind cannot be told on {sys.platform}")
    found = f"{place} is on {kind}"
    if kind in VOLATILE:
        advice = "its files are gone after a reboot: choose a place on a disk with --data-dir"
        return warn(check, found, advice)
    if kind in REMOTE or kind.startswith("fuse."):
        return warn(
            check,
            found,
            "a sync there may return before the data is safe, and locks may not work: choose a "
            "local disk with --data-dir",
        )
    if kind in LAYERED:
        advice = "its files are gone with the container: mount a volume for --data-dir"
        return warn(check, found, advice)
    return ok(check, found)


# -- clock -----------------------------------------------------------------------------------------


def check_clock() -> Iterator[Finding]:
    """The clock for deadlines, and that for timestamps."""
    before, wall_before = time.monotonic_ns(), time.time_ns()
    time.sleep(0.01)
    passed_ms = (time.monotonic_ns() - before) / 1e6
    wall_passed_ms = (time.time_ns() - wall_before) / 1e6
    yield judge_monotonic(passed_ms, wall_passed_ms)
    yield judge_wall_clock(time.gmtime().tm_year, read_adjtimex())


def judge_monotonic(passed_ms: float, wall_passed_ms: float) -> Finding:
    """`passed_ms` and `wall_passed_ms`: what both clocks showed during 10 ms of sleep."""
    check = "monotonic clock"
    if passed_ms < 9:
        return fail(
            check,
            f"it advanced by {passed_ms:.1f} ms in 10 ms",
            "deadlines depend on it: check the clock source of this virtual machine",
        )
    if abs(passed_ms - wall_passed_ms) > 100:
        return warn(
            check,
            f"the wall clock moved by {wall_passed_ms:.0f} ms in {passed_ms:.0f} ms",
            "something sets the clock in jumps: let NTP adjust it slowly",
        )
    return ok(check, f"resolution {time.get_clock_info('monotonic').resolution * 1e9:.0f} ns")


def read_adjtimex() -> tuple[bool, float] | None:
    """(synchronised, offset in ms) from the kernel; None where that cannot be told."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (AttributeError, OSError):  # Not Linux.
        return None
    values = Timex()
    state = adjtimex(ctypes.byref(values))
    if state < 0:
        return None
    unit_us = 1 / MILLISECOND_US if values.status & STA_NANO else 1
    return state != TIME_ERROR, values.offset * unit_us / MILLISECOND_US


class Timex(ctypes.Structure):
    """The beginning of `struct timex`; with `modes` 0 the call only reads."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("maximum_error", ctypes.c_long),
        ("estimated_error", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def judge_wall_clock(year: int, kernel: tuple[bool, float] | None) -> Finding:
    check = "wall clock"
    advice = "start chronyd or systemd-timesyncd: timestamps and retention by time depend on it"
    if year < EARLIEST_YEAR:
        return fail(check, f"it shows the year {year}", advice)
    if kernel is None:
        return ok(check, f"whether NTP sets it cannot be told on {sys.platform}")
    synchronised, offset_ms = kernel
    if not synchronised:
        return warn(check, "the kernel says that nothing synchronises it", advice)
    if abs(offset_ms) > LARGE_OFFSET_MS:
        return warn(check, f"it is {offset_ms:+.0f} ms off by NTP", advice)
    return ok(check, f"synchronised, {offset_ms:+.3f} ms off")


# -- descriptors and ports -------------------------------------------------------------------------


def check_descriptors() -> Finding:
    """The limit of file descriptors of this process, which a broker started here inherits."""
    from odradek.cli.up import wanted_descriptors

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return judge_descriptors(soft, wanted_descriptors(soft, hard))


def judge_descriptors(soft: int, raised: int) -> Finding:
    """`raised`: the limit that `odradek up` sets."""
    from odradek.broker.server import connection_quotas

    kafka, http = connection_quotas(raised)
    found = (
        f"limit {soft:,}, for a broker {raised:,}: {raised // 2:,} for files, {kafka:,} for "
        f"clients, {http} for HTTP"
    )
    advice = (
        "raise the hard limit: ulimit -Hn, LimitNOFILE=131072 of a systemd unit, --ulimit "
        "nofile=131072 of a container"
    )
    if raised < TOO_FEW_DESCRIPTORS:
        return fail("descriptors", found, advice)
    if raised < FEW_DESCRIPTORS:
        return warn("descriptors", found, advice)
    return ok("descriptors", found)


def check_port(host: str, port: int, option: str, *, next_is_taken: bool = False) -> Finding:
    """Bind a port that a broker would bind. `next_is_taken`: the broker tries further ones."""
    check, address = f"port {port}", address_text(host, port)
    try:
        bound_socket(host, port).close()
    except AddressInUseError as error:
        found = f"{address} is in use by {error.holder or 'a process of another user'}"
        if next_is_taken:
            return ok(check, found, "the next free port is taken")
        return warn(check, found, f"stop that, or choose another port with {option}")
    except CannotListenError as error:
        return fail(check, str(error), f"choose another address or port with {option}")
    return ok(check, f"{address} is free")
