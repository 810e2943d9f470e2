"""What all consumers of a run were handed: one record per offset, or something is wrong.

At the end it is compared with what the scripted readers found in the broker's logs.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.client.consumer.record import Record
from odradek.model.topics import TopicPartition
from odradek.testing.history import Content, History
from odradek.testing.scheduler import Scheduler

Log = Mapping[int, Content]


@dataclass(slots=True, eq=False)
class Seen:
    """By partition and offset."""

    scheduler: Scheduler
    history: History
    records: dict[TopicPartition, dict[int, Content]] = field(default_factory=dict)

    def add(self, reader: str, record: Record[bytes, bytes]) -> None:
        """A reader was handed this."""
        tp, offset = record.topic_partition, record.offset
        content = Content(
            record.key, record.value or b"", tuple(record.headers), record.timestamp_ms
        )
        what = zlib.crc32(content.value, zlib.crc32(f"{tp} {offset}".encode()))
        self.scheduler.note(reader, "record", what)
        known = self.records.setdefault(tp, {}).setdefault(offset, content)
        if known != content:
            self.history.surprise(
                "changed", f"{tp}@{offset}: {reader} was handed {content}, others {known}"
            )

    @property
    def count(self) -> int:
        """Records that somebody was handed."""
        return sum(len(records) for records in self.records.values())

    def judge(self, logs: Mapping[TopicPartition, Log]) -> list[str]:
        """What is not as the logs have it."""
        return [
            f"{tp}@{offset}: handed out {content}, in the log is {logs.get(tp, {}).get(offset)}"
            for tp, records in self.records.items()
            for offset, content in records.items()
            if logs.get(tp, {}).get(offset) != content
        ]
