"""ProcessUsage: the processor time, memory and descriptors that this process uses.

On Linux from `/proc/self`; elsewhere memory and descriptors are unknown. Reading takes some tens of
microseconds. Linux before 6.2 does not tell the number of open descriptors, so they are counted, a
few at a time: half a microsecond each.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DESCRIPTORS = "/proc/self/fd"
COUNTED_PER_STEP = 200
START_FIELD = 19
"""The start time among the fields of `/proc/self/stat` after the name, in ticks since the boot."""


class ProcessUsage(NamedTuple):
    """One reading; None is unknown on this system."""

    cpu_seconds: float
    start_time_seconds: float | None
    """Since the Unix epoch."""
    resident_bytes: int | None
    virtual_bytes: int | None
    max_descriptors: int
    threads: int | None
    disk_read_bytes: int | None
    """Bytes that storage devices read for this process; those of the page cache do not count."""
    disk_write_bytes: int | None


def process_usage() -> ProcessUsage:
    """Read the present values."""
    soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    cpu_seconds = time.process_time()
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = file.read().split()
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:  # Not Linux.
        return ProcessUsage(cpu_seconds, None, None, None, soft_limit, None, None, None)
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[START_FIELD]) / TICKS_PER_SECOND
    return ProcessUsage(
        cpu_seconds,
        round(time.time() - age, 2),
        int(pages[1]) * PAGE_BYTES,
        int(pages[0]) * PAGE_BYTES,
        soft_limit,
        int(fields[START_FIELD - 2]),
        *disk_bytes(),
    )


def open_descriptors() -> Iterator[int | None]:
    """Yield None between the steps of counting, then the number; nothing where it is unknown."""
    try:
        known = os.stat(DESCRIPTORS).st_size
        if known:
            yield known
            return
        with os.scandir(DESCRIPTORS) as entries:
            counted = 0
            for _ in entries:
                counted += 1
                if counted % COUNTED_PER_STEP == 0:
                    yield None
    except OSError:  # Not Linux.
        return
    yield counted - 1  # The directory itself is one while it is read.


def disk_bytes() -> tuple[int | None, int | None]:
    """The bytes read from and written to disks; a system may keep them from the process."""
    try:
        with open("/proc/self/io", "rb") as file:
            lines = dict(line.split(b": ") for line in file.read().splitlines())
    except OSError:
        return None, None
    return int(lines[b"read_bytes"]), int(lines[b"write_bytes"])
