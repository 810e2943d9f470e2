"""The limits up to which a Spark worker keeps freed memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

only_with_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="these are limits of glibc"
)

FAULTS = """
import ctypes
import resource
from odradek.spark.freed_memory import keep_freed_memory

PR_SET_THP_DISABLE = 41  # Without huge pages, each page of 4 KiB is a fault.
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0

def round_of_buffers():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    buffers = [b"x" * 8_000_000 for _ in range(5)]
    del buffers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
print(*[round_of_buffers() for _ in range(4)])
"""
PAGES_OF_A_ROUND = 5 * 8_000_000 // 4096


def printed(script: str, **variables: str) -> list[int]:
    """Return the numbers that a new process prints."""
    environment = {key: text for key, text in os.environ.items() if key != "SPARK_REUSE_WORKER"}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(found) for found in ran.stdout.split()]


@only_with_glibc
def test_a_worker_that_is_used_again_takes_its_buffers_from_the_system_once() -> None:
    first, *later = printed(FAULTS, SPARK_REUSE_WORKER="1")
    assert first > PAGES_OF_A_ROUND / 2
    assert max(later) < first / 10


def test_another_process_keeps_the_limits_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.spark import freed_memory

    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    monkeypatch.setattr(freed_memory, "_set_in", None)
    monkeypatch.setattr("ctypes.CDLL", None)  # Calling it would raise.
    freed_memory.keep_freed_memory()
    assert freed_memory._set_in is None


RESIDENT = """
from odradek.spark import freed_memory

def mib():
    return freed_memory.resident_bytes() // 2**20

freed_memory.keep_freed_memory()
before = mib()
buffers = [b"x" * 8_000_000 for _ in range(5)]
last = b"x" * 64  # Behind them: the end of the heap is in use.
del buffers
kept = mib()
freed_memory.LARGE_BYTES = (kept + {above}) * 2**20
freed_memory.give_back_freed_memory()
print(before, kept, mib())
"""


def resident_mib(above: int) -> list[int]:
    """Return the resident memory before buffers, when they are freed, and after the task, in a
    process that has as much less than a large one."""
    return printed(RESIDENT.format(above=above), SPARK_REUSE_WORKER="1")


@only_with_glibc
def test_a_large_worker_gives_freed_memory_back_at_the_end_of_a_task() -> None:
    before, kept, after = resident_mib(above=-1)
    assert kept > before + 30
    assert after < before + 5


@only_with_glibc
def test_a_worker_that_is_not_large_keeps_freed_memory_after_a_task() -> None:
    before, _, after = resident_mib(above=1)
    assert after > before + 30
