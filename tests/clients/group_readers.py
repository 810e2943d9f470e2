"""Members of a group in this process: a consumer, and an application that reads with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from odradek import Consumer
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker

NewTopic = Callable[..., str]
PATIENCE_S = 90
EAGER, COOPERATIVE = "range", "cooperative-sticky"


def consumer(broker: Broker, group: str, **settings: Any) -> Consumer[bytes, bytes]:
    """Return a member with a short heartbeat interval and long timeouts for a busy machine."""
    given = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 60_000,
        "auto.offset.reset": "earliest",
    }
    return Consumer(given | {name.replace("_", "."): value for name, value in settings.items()})


class Reader(threading.Thread):
    """An application on a thread of its own that polls record by record until it is stopped."""

    def __init__(self, member: Consumer[bytes, bytes], topic: str) -> None:
        super().__init__(daemon=True)
        self.member = member
        self.values: list[bytes] = []
        self.calls: list[tuple[str, list[int]]] = []
        self.owned: frozenset[int] = frozenset()
        self.ending = threading.Event()
        self.error: BaseException | None = None
        member.subscribe(
            [topic],
            on_assign=self._noting("assigned"),
            on_revoke=self._noting("revoked"),
            on_lost=self._noting("lost"),
        )

    def _noting(self, what: str) -> Callable[[Any, list[TopicPartition]], None]:
        def note(_: Any, partitions: list[TopicPartition]) -> None:
            numbers = [partition.partition for partition in partitions]
            self.calls.append((what, numbers))
            changed = self.owned | set(numbers) if what == "assigned" else self.owned - set(numbers)
            self.owned = frozenset(changed)

        return note

    def run(self) -> None:
        try:
            with self.member:
                while not self.ending.is_set():
                    record = self.member.poll(0.05)
                    if record is not None:
                        self.values.append(record.value)  # type: ignore[arg-type]
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.ending.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        assert self.error is None, self.error


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        pause.wait(0.01)
