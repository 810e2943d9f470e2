"""Hook: one method of one interceptor, and the log of its failures.

Compiled, because producers call hooks for every record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, final

from mypy_extensions import i64

from odradek.model.env import Clock

log = logging.getLogger(__name__)

LOG_INTERVAL_MS: Final[i64] = 10_000
"""How often the failures of one method are logged."""


@final
class Hook:
    """A method to call, by the name that is logged."""

    def __init__(self, call: Callable[..., Any], name: str, clock: Clock) -> None:
        self.call = call
        self.name = name
        self._clock = clock
        self._quiet_until_ms: i64 = clock.monotonic_ms()
        self._unlogged: i64 = 0

    def failed(self, error: BaseException) -> None:
        """Log that the method raised, unless it was logged a short time ago. Any thread."""
        now_ms: i64 = self._clock.monotonic_ms()
        if now_ms < self._quiet_until_ms:
            self._unlogged += 1
            return
        before = f" ({self._unlogged} more times since the last message)" if self._unlogged else ""
        self._quiet_until_ms = now_ms + LOG_INTERVAL_MS
        self._unlogged = 0
        log.warning(
            "interceptor %s failed and was skipped%s: %s",
            self.name,
            before,
            error,
            exc_info=error,
        )


def close_all(hooks: list[Hook]) -> None:
    """Call the `close` of all interceptors, and empty the list: they are closed once."""
    while hooks:
        hook = hooks.pop(0)
        try:
            hook.call()
        except Exception as error:
            hook.failed(error)
