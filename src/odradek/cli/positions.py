"""From a position as typed to an offset in each partition."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.cli.moments import From, NotUnderstood, Position, is_number
from odradek.client.errors import UnknownTopicOrPartition
from odradek.model.topics import TopicPartition

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.admin.results import Topic


@dataclass(frozen=True, slots=True)
class Place:
    """An offset, kept within its log; `asked` is what the position said."""

    offset: int
    asked: int

    @property
    def clamped(self) -> bool:
        return self.offset != self.asked


def places_at(
    cluster: Admin, partitions: Collection[TopicPartition], where: Position
) -> dict[TopicPartition, Place]:
    """The place that `where` means in each partition."""
    if where.origin is From.STORED:
        raise NotUnderstood("`stored` is where a group is: name the group with -g")
    starts, ends = cluster.beginning_offsets(partitions), cluster.end_offsets(partitions)
    if where.origin is From.TIME:
        found = cluster.list_offsets(dict.fromkeys(partitions, where.value))
        offsets = {p: ends[p] if each.offset < 0 else each.offset for p, each in found.items()}
        return {p: Place(offset, offset) for p, offset in offsets.items()}
    origins = {
        From.START: starts,
        From.END: ends,
        From.ZERO: dict.fromkeys(partitions, 0),
    }[where.origin]
    asked = {p: origins[p] + where.value for p in partitions}
    return {p: Place(min(max(asked[p], starts[p]), ends[p]), asked[p]) for p in partitions}


def offsets_at(
    cluster: Admin, partitions: Collection[TopicPartition], where: Position
) -> dict[TopicPartition, int]:
    """The offset that `where` means in each partition, kept within its log."""
    return {p: place.offset for p, place in places_at(cluster, partitions, where).items()}


def ends_of(
    cluster: Admin, topic: Topic
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where the logs of a topic begin and where they end, as far as somebody leads them."""
    led = [
        TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader >= 0
    ]
    return cluster.beginning_offsets(led), cluster.end_offsets(led)


def partition_ranges(text: str) -> list[range]:
    """`0,3-5` -> `[range(0, 1), range(3, 6)]`: as wide as somebody likes, so never counted out."""
    found: list[range] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        numbers = (first, last if dash else first)
        if not all(is_number(each) for each in numbers) or int(numbers[0]) > int(numbers[1]):
            raise NotUnderstood(f"{text!r} are not partitions: write 0,1 or 0-3")
        found.append(range(int(numbers[0]), int(numbers[1]) + 1))
    return found


def chosen_partitions(known: Collection[TopicPartition], text: str) -> list[TopicPartition]:
    """Those of `known` that have the numbers in `text`. Raises for the first that none has."""
    ranges = partition_ranges(text)
    there = {each.partition for each in known}
    for numbers in ranges:
        missing = next((number for number in numbers if number not in there), None)
        if missing is not None:
            raise UnknownTopicOrPartition(f"there is no partition {missing}")
    return [each for each in known if any(each.partition in numbers for numbers in ranges)]
