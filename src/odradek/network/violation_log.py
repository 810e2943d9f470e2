"""ViolationLog: the log lines about invalid input, few even if a client sends it all the time.

A client that is refused mostly connects again and sends the same. So each address and kind of
violation (a class of `ProtocolError`) gets at most one line in `INTERVAL_MS`. The line says how
many connections had no line of their own. `NetworkCounters.violations` counts all of them.

Memory is bounded: beyond `ADDRESSES_MAX` addresses with a line in the interval, all others share
their lines.
"""

from __future__ import annotations

import logging

from odradek.config.addresses import address_text
from odradek.timing.timer import SystemTimer

log = logging.getLogger(__name__)

INTERVAL_MS = 1_000
ADDRESSES_MAX = 1_000
OTHERS = "other addresses"


class LastViolationLine:
    """The last line about an address and kind, and the connections without a line since."""

    __slots__ = ("at_ms", "unlogged")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.unlogged = 0


class ViolationLog:
    """Logs connections that were closed because of invalid input. For the owner thread only."""

    def __init__(self, timer: SystemTimer) -> None:
        self._timer = timer
        self._last_lines: dict[tuple[str, str], LastViolationLine] = {}

    def closed(self, peer: tuple[str, int], kind: str, reason: str) -> None:
        """Log a closed connection, unless there was a line of its kind in the interval."""
        now_ms = self._timer.now_ms
        key = peer[0], kind
        last = self._last_lines.get(key)
        if last is None and len(self._last_lines) >= ADDRESSES_MAX:
            self._forget(now_ms)
            if len(self._last_lines) >= ADDRESSES_MAX:
                key = OTHERS, kind
                last = self._last_lines.get(key)
        if last is not None and now_ms - last.at_ms < INTERVAL_MS:
            last.unlogged += 1
            return
        more = f" (and {last.unlogged} more like it before)" if last and last.unlogged else ""
        self._last_lines[key] = LastViolationLine(now_ms)
        log.warning("closed the connection of %s: %s%s", address_text(*peer), reason, more)

    def _forget(self, now_ms: int) -> None:
        """Forget lines that are older than the interval."""
        self._last_lines = {
            key: last for key, last in self._last_lines.items() if now_ms - last.at_ms < INTERVAL_MS
        }
