"""Offsets as Spark sees them: plain dicts of JSON, per topic and partition.

Options, Spark's checkpoint and the query progress use one shape, which is that of Spark's own Kafka
source and readable by people:

    {"flights": {"0": 1200, "1": 1310}, "weather": {"0": 77}}

In a *resolved* offset the numbers are the next offset to read. In an option, -2 means earliest and
-1 latest. Spark compares offsets as JSON text, so `to_json_dict` always orders topics by name and
partitions by number.

The offset of a stream (`StreamOffset`) adds *notes*: keys without partitions that cannot be the
name of a topic, since names of topics have no `@`. Spark's own source reads them as topics without
partitions, so as nothing: a checkpoint can go from one source to the other and back.

    {"flights": {"0": 1200, "1": 1310}, "@begin": {}, "flights@Yb5oXh1mQpWnJ2vC6Tt8Kg": {}}

    "@begin"                 the end of the first micro-batch, which reads nothing: the query begins
                             here, whatever its starting options would give when asked again
    "<topic>@<topic id>"     the topic of the offsets. A topic that was deleted and made again has
                             the same name, another id, and other records at its offsets

Everything here is pure: no network, no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.model.topics import TopicPartition

Offsets = dict[TopicPartition, int]
JsonOffsets = dict[str, dict[str, int]]

EARLIEST = -2
LATEST = -1
TASK_RECORDS = 50_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition from `start` (included) to `end` (excluded)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __len__(self) -> int:
        return max(0, self.end - self.start)


def to_json_dict(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """Return the JSON shape, in a fixed order, so that equal offsets are equal text."""
    shaped: JsonOffsets = {}
    for partition in sorted(offsets):
        shaped.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return shaped


def from_json_dict(shaped: object, what: str = "offsets") -> Offsets:
    """Parse the JSON shape. Raises `ValueError` naming `what` for another shape."""
    example = '{"topic": {"0": 23, "1": -1}}'
    if not isinstance(shaped, dict):
        raise ValueError(f"{what} is not an object like {example}: {shaped!r}")
    offsets: Offsets = {}
    for topic, partitions in shaped.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{what}: topic {topic!r} is not an object like {example}")
        for number, offset in partitions.items():
            if not str(number).isdecimal() or not isinstance(offset, int):
                raise ValueError(
                    f"{what}: {topic!r} has {number!r}: {offset!r}, expected {example}"
                )
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def parse_json(text: str, what: str) -> Offsets:
    """Parse offsets (or timestamps) per partition from an option. Raises `ValueError`."""
    try:
        shaped = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    return from_json_dict(shaped, what)


def limit_offsets(start: Offsets, heads: Offsets, max_records: int) -> Offsets:
    """Return the ends of a batch of at most `max_records` records from `start` towards `heads`,
    shared in proportion to the waiting records.

    Every partition with waiting records gets at least one, so that none starves; so the result may
    exceed `max_records` by fewer than the number of partitions. Partitions missing in `start` begin
    at `heads`.
    """
    waiting = {p: max(0, head - start.get(p, head)) for p, head in heads.items()}
    total = sum(waiting.values())
    if total <= max_records:
        return dict(heads)
    ends: Offsets = {}
    for partition, head in heads.items():
        begin = start.get(partition, head)
        share = waiting[partition] * max_records // total
        ends[partition] = begin + max(share, 1 if waiting[partition] else 0)
    return ends


def plan_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int, max_records_per_partition: int
) -> list[list[OffsetRange]]:
    """Group ranges, one group per Spark task. Each record is in exactly one group.

    - `min_partitions` 0: small ranges share a task (it costs about 19 ms) until they come to
      `TASK_RECORDS`; larger ranges have a task each.
    - Otherwise there are about `min_partitions` tasks of equal numbers of records: small ranges
      share one and large ones are split.
    - No task has more than `max_records_per_partition` records (0: no limit).

    A group has at most one range of a partition.
    """
    todo = [r for r in ranges if len(r) > 0]
    if min_partitions:
        share = -(-sum(len(r) for r in todo) // min_partitions)
        share = min(share, max_records_per_partition or share)
        return fill_groups(todo, share) if todo else []
    pieces = [piece for r in todo for piece in split_range(r, max_records_per_partition)]
    most = min(TASK_RECORDS, max_records_per_partition or TASK_RECORDS)
    groups: list[list[OffsetRange]] = []
    for piece in pieces:
        known = groups and piece.topic_partition in {r.topic_partition for r in groups[-1]}
        if groups and not known and len(piece) + sum(map(len, groups[-1])) <= most:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def fill_groups(todo: Iterable[OffsetRange], share: int) -> list[list[OffsetRange]]:
    """Fill groups of `share` records each (the last may have fewer); ranges are split."""
    groups: list[list[OffsetRange]] = []
    room = 0
    for whole in todo:
        start = whole.start
        while start < whole.end:
            if room == 0:
                groups.append([])
                room = share
            end = min(start + room, whole.end)
            groups[-1].append(OffsetRange(whole.topic, whole.partition, start, end))
            room -= end - start
            start = end
    return groups


def split_range(whole: OffsetRange, max_records: int) -> list[OffsetRange]:
    """Split a range into pieces of at most `max_records` records (0: no split), in order."""
    if max_records == 0 or len(whole) <= max_records:
        return [whole]
    return [
        OffsetRange(whole.topic, whole.partition, at, min(at + max_records, whole.end))
        for at in range(whole.start, whole.end, max_records)
    ]


BEGIN = "@begin"
Json = dict[str, Any]
TopicIds = Mapping[str, str]
"""The ids of topics by their names, as text (`model.topics.uuid_text`)."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The offset of a stream. `offsets` are the next to read."""

    offsets: Offsets
    topic_ids: TopicIds = field(default_factory=dict)
    begins: bool = False
    """True for the end of the first micro-batch, which reads nothing."""

    def to_json(self) -> Json:
        """Return the JSON form; equal offsets have equal text, which Spark compares."""
        notes = {f"{topic}@{topic_id}" for topic, topic_id in self.topic_ids.items()}
        if self.begins:
            notes.add(BEGIN)
        return {**to_json_dict(self.offsets), **{note: {} for note in sorted(notes)}}

    @classmethod
    def from_json(cls, given: object, what: str) -> StreamOffset:
        """Parse the JSON form; offsets without notes are from another source. Raises `ValueError`
        naming `what` for another shape."""
        shaped = given if isinstance(given, dict) else {}
        notes = {name for name, partitions in shaped.items() if "@" in name and not partitions}
        ids = dict(note.split("@", 1) for note in sorted(notes - {BEGIN}))
        plain = {k: v for k, v in shaped.items() if k not in notes} if notes else given
        try:
            offsets = from_json_dict(plain, what)
        except ValueError as error:
            raise ValueError(
                f"{error}. So it is no offset of this source: the checkpoint is of a query over "
                "something else, such as files. What to do: give each query a checkpointLocation "
                "of its own"
            ) from None
        return cls(offsets, ids, BEGIN in notes)

    def recreated_topics(self, now: TopicIds) -> list[str]:
        """Return the topics that were created again: they have other ids now. Sorted."""
        return sorted(
            topic
            for topic, topic_id in self.topic_ids.items()
            if topic in now and now[topic] != topic_id
        )

    def without_topics(self, topics: list[str]) -> Offsets:
        """Return the offsets without those of these topics."""
        return {p: offset for p, offset in self.offsets.items() if p.topic not in topics}
