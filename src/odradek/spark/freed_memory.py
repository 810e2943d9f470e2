"""Lets a Spark worker keep freed memory instead of giving it back to the system for moments.

A read allocates buffers of several megabytes for each response and each batch, and frees them soon.
The allocator of glibc soon returns most of such memory: a buffer then costs a fault for every page,
up to a tenth of what a read of 1 KB records takes of the worker. So it gets larger limits, see
mallopt(3). Allocators of other systems are left as they are.

A worker that has read gives its freed memory back at the end of a task if it has become large: it
runs tasks of all kinds, one after the other, and would keep the most that any of them took.
"""

from __future__ import annotations

import os
import resource

from odradek.network import allocator

TRIM_BYTES = 64 * 1024 * 1024
"""More free memory than this at the end of a heap goes back to the system."""
MMAP_BYTES = 32 * 1024 * 1024
"""Larger objects are mapped alone, and go back when they are freed. mallopt(3) names this limit."""
LARGE_BYTES = 128 * 1024 * 1024
"""Resident memory without mapped files. A worker begins with about half of it, which is shared."""

_set_in: int | None = None
"""The process that has these limits."""


def keep_freed_memory() -> None:
    """Raise the limits, once in a process.

    Does nothing in other processes and in workers for a single task: `SPARK_REUSE_WORKER` is set
    only in workers that are used again.
    """
    global _set_in
    if _set_in == os.getpid() or "SPARK_REUSE_WORKER" not in os.environ:
        return
    _set_in = os.getpid()
    allocator.keep_up_to(TRIM_BYTES, MMAP_BYTES)


def give_back_freed_memory() -> None:
    """Return what `keep_freed_memory` made this process keep, if the process is large. Raises
    nothing: a task that is done stays done."""
    if _set_in == os.getpid() and resident_bytes() > LARGE_BYTES:
        allocator.give_back()


def resident_bytes() -> int:
    """Return the resident memory of this process without mapped files, see proc(5); 0 if the system
    does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            _, resident, shared, *_ = map(int, statm.read().split())
    except OSError:
        return 0
    return (resident - shared) * resource.getpagesize()
