"""The ends of partitions of other leaders, when slices of the refresh before are late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.broker.leader_ends import MOST_WANTED, PARTITIONS_AT_ONCE, WANTED_MS, LeaderEnds
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class Clock:
    """A timer that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.due: list[Callable[[], object]] = []

    def call_later(self, delay_ms: int, call: Callable[[], object]) -> None:
        self.due.append(call)


class Channel:
    """Keeps the requests, and what to do with their answers."""

    def __init__(self) -> None:
        self.answers: list[Callable[[Any], None]] = []

    def send(self, leader: int, request: Any, answered: Any, timeout_ms: int) -> None:
        self.answers.append(answered)


def end_of(topic: str, partition: int, offset: int) -> ListOffsetsResponse:
    each = ListOffsetsPartitionResponse(partition_index=partition, error_code=0, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic, partitions=[each])])


def test_a_slice_that_is_late_passes_over_what_is_wanted_no_more() -> None:
    clock, channel, soon = Clock(), Channel(), list[Callable[[], object]]()
    ends = LeaderEnds(soon.append, clock, channel, lambda key: 1, lambda: False)  # type: ignore[arg-type]
    many = 2 * PARTITIONS_AT_ONCE + 200
    assert many < MOST_WANTED
    for number in range(many):
        ends.end_of(("t", number))
    clock.due.pop(0)()
    clock.now_ms = WANTED_MS + 1
    clock.due.pop(0)()
    while soon:
        soon.pop(0)()
    channel.answers[0](end_of("t", many - 1, 7))
    assert ends.end_of(("t", many - 1)) is None, "it was forgotten before its end was told"
