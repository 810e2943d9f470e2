"""What a broker asks of its process, once, at its start: descriptors, the collector, the allocator.

All three are properties of the whole process, so they belong to the command that owns one. A broker
in a user's process (`odradek.testing.Broker`) leaves them as they are.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys

DESCRIPTORS_WANTED = 10_240 if sys.platform == "darwin" else 1 << 17

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""glibc's `malloc.h`."""

KEPT_BYTES = 64 << 20
"""Freed memory at the end of the heap that stays with the process."""

HEAP_BYTES = 16 << 20
"""Blocks up to this come from the heap; larger ones, which are rare, are mapped each."""


def raise_descriptor_limit() -> None:
    """As many descriptors as the system lets this process have, as a JVM does on its own: every
    connection and every file that is read takes one, and the usual soft limit is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def spare_the_collector() -> None:
    """What has been loaded stays; what a broker makes is nearly always freed by counting, so the
    collector need not look as often as it does by default (every 700 new objects).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def keep_freed_memory() -> bool:
    """Let the allocator keep what is freed, up to `KEPT_BYTES`; whether it can be told.

    By default glibc gives every freed megabyte back to the kernel, and the next request takes its
    pages anew, zeroed one fault at a time: of the CPU that a large produce cost, the greater part.
    Other allocators (musl's, macOS's) have no such setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(
        mallopt(name, value) == 1
        for name, value in ((M_TRIM_THRESHOLD, KEPT_BYTES), (M_MMAP_THRESHOLD, HEAP_BYTES))
    )
