"""Process-wide settings of `odradek up`."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ALLOCATE_AND_FREE = """
import resource, sys
from odradek.cli.up import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
pieces = [b"x" * (1 << 20) for _ in range(8)]
del pieces
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    pieces = [b"x" * (1 << 20) for _ in range(8)]
    del pieces
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_ALL_PIECES = (8 << 20) // 4096


def page_faults(how: str) -> int:
    """Return the page faults of a hundred requests in pieces of 1 MiB, in another process."""
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATE_AND_FREE, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc's allocator")
def test_freed_memory_is_reused_without_page_faults() -> None:
    assert page_faults("keep") < PAGES_OF_ALL_PIECES
