"""Sets how glibc's allocator treats freed memory: see mallopt(3) and malloc_trim(3).

By default it returns every freed megabyte to the kernel, and the next buffer gets new pages, zeroed
one page fault at a time. Other allocators (musl's, macOS's) have no such settings.
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""The parameters' numbers in <malloc.h>."""


def keep_up_to(trim_bytes: int, mmap_bytes: int) -> bool:
    """Keep free memory at the end of a heap up to `trim_bytes`, and take objects up to `mmap_bytes`
    from heaps: larger ones are mapped alone, and go back when they are freed. False if the
    allocator has no such settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    limits = ((M_TRIM_THRESHOLD, trim_bytes), (M_MMAP_THRESHOLD, mmap_bytes))
    return all(mallopt(name, value) == 1 for name, value in limits)


def give_back() -> None:
    """Return all free pages to the system, if the allocator can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
