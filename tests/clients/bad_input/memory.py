"""Current and peak memory of this process, which contains the broker."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
STATUS = Path("/proc/self/status")
FORGET_THE_PEAK = "5"


def resident_bytes() -> int:
    return _bytes("VmRSS")


def peak_bytes() -> int:
    """Return the peak of resident memory since `forget_the_peak`."""
    return _bytes("VmHWM")


def forget_the_peak() -> None:
    """Reset the peak; on systems that do not allow it, the peak is that of the whole run."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text(FORGET_THE_PEAK)


def _bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * KIB
