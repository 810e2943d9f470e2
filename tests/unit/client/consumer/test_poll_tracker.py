"""The tracker notices polls, however the application takes records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from odradek.client.consumer.application.poll_loop import (
    CHECKS_PER_INTERVAL,
    ColumnBuffer,
    PollTracker,
    RecordBuffer,
)
from odradek.client.consumer.fetch.collector import FetchCollector
from odradek.client.deserializers import Deserializers, deserializer
from odradek.timing import SystemTimer
from unit.client.metadata_responses import Clock

MAX_POLL_MS = 2_000


def one_record(collector: FetchCollector) -> None:
    collector.next_record()


def records(collector: FetchCollector) -> None:
    RecordBuffer(collector, 5).add()


def columns(collector: FetchCollector) -> None:
    ColumnBuffer(collector, 5).add()


@pytest.mark.parametrize("take", [one_record, records, columns])
def test_taking_records_counts_as_polling(take: Callable[[FetchCollector], None]) -> None:
    seen_ms: list[int] = []
    timer = SystemTimer(0)
    bytes_ = deserializer(bytes)
    collector = FetchCollector(deque(), Deserializers(bytes_, bytes_), lambda: None, Clock())
    tracker = PollTracker(timer, collector, MAX_POLL_MS, lambda: seen_ms.append(timer.now_ms))
    tracker.start()
    look_ms = MAX_POLL_MS // CHECKS_PER_INTERVAL
    timer.advance_clock(look_ms)
    assert seen_ms == []
    take(collector)
    timer.advance_clock(2 * look_ms)
    assert seen_ms == [2 * look_ms]
    timer.advance_clock(3 * look_ms)
    assert seen_ms == [2 * look_ms]
