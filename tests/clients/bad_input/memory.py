"""How much memory this process, which the broker is part of, holds and has held at most."""

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
    """The most that was resident since `forget_the_peak`."""
    return _bytes("VmHWM")


def forget_the_peak() -> None:
    """Count the peak from here; where a system does not let us, it is that of the whole run."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text(FORGET_THE_PEAK)


def _bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * KIB
