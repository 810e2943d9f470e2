"""Exit codes: what a script may rely on."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NOT_FOUND = 4
REFUSED = 5
CHECK_FAILED = 6
INTERRUPTED = 130
TERMINATED = 143
