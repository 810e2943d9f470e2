"""Tasks and operations that record the calls of their methods."""

from __future__ import annotations

from collections.abc import Callable

from odradek.timing import DelayedOperation, SystemTimer, TimerTask


class RecordedTask(TimerTask):
    """Appends (time, name) to `log` when it runs, then calls `then`."""

    def __init__(
        self,
        delay_ms: int,
        name: str,
        log: list[tuple[int, str]],
        timer: SystemTimer,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(delay_ms)
        self.name, self.log, self.timer, self.then = name, log, timer, then

    def run(self) -> None:
        self.log.append((self.timer.now_ms, self.name))
        self.then()


class RecordedOperation(DelayedOperation):
    """Completes when `ready`. `events` records "try", "complete" and "expire" in order."""

    def __init__(self, delay_ms: int = 1000) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.events: list[str] = []

    def try_complete(self) -> bool:
        self.events.append("try")
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.events.append("complete")

    def on_expiration(self) -> None:
        self.events.append("expire")

    @property
    def completions(self) -> int:
        return self.events.count("complete")
