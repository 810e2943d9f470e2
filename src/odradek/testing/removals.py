"""Judges what is gone: which records a broker may have lost on purpose, and which it may not serve
any more.

What may be gone at the end:

- records before an offset that a deletion (`Trim`) asked for, from then on, answered or not;
- what a topic's retention may take (`testing.retention_rule`);
- all of a topic whose deletion was asked for, and of a partition whose durable bytes were changed.

And only from the front: what is gone must be before the log's start. The other way round:

- *deleted*: once a deletion is acknowledged no fetch that is sent then gets what is before it, and
  no log starts before it. It is as durable as an acknowledged record;
- *ended*: once the deletion of a topic is confirmed, nothing is read from it or written to it;
- *damaged*: a partition whose durable bytes were changed answers nothing that could rest on them;
- *kept too long*: retention has done its work long after the last fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition
from odradek.testing.history import Content, History, Trim
from odradek.testing.retention_rule import RetentionRule

FSYNC = "fsync"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall clocks of a run, in ms: the latest time that any broker can have seen; what it was for
    all of the run's last seconds, or None if that cannot be said.
    """

    latest_ms: int = 0
    settled_ms: int | None = None


@dataclass(slots=True)
class Removals:
    """Of one history. `rules` by topic."""

    history: History
    durability: str
    rules: Mapping[str, RetentionRule] = field(default_factory=dict)
    clocks: Clocks = field(default_factory=Clocks)
    violations: list[str] = field(default_factory=list)
    _left_bytes: dict[TopicPartition, int] = field(default_factory=dict)
    _starts: dict[TopicPartition, int] = field(default_factory=dict)
    _trimmed: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for read in self.history.reads:
            if read.final:
                left = self._left_bytes.get(read.partition, 0)
                self._left_bytes[read.partition] = left + read.size
        for start in self.history.starts:
            if start.final:
                self._starts[start.partition] = start.offset
        for trim in self.history.trims:
            self._trimmed[trim.partition] = max(trim.target, self._trimmed.get(trim.partition, 0))

    def may_be_gone(self, tp: TopicPartition, offset: int, content: Content) -> bool:
        """Whether this record need not be there at the end."""
        if tp.topic in self.history.endings or tp in self.history.damaged:
            return True
        if offset >= self._starts.get(tp, 0):
            return False
        if offset < self._trimmed.get(tp, 0):
            return True
        rule = self.rules.get(tp.topic)
        if rule is None:
            return False
        left = self._left_bytes.get(tp, 0)
        if self.history.losses > 0:
            left = max(left, rule.bytes)  # a power failure may have taken from the other end
        return rule.may_take(content.timestamp_ms, self.clocks.latest_ms, left)

    def check(self) -> list[str]:
        """What is there though it should not be."""
        for trim in self.history.trims:
            if trim.outcome == "ok":
                self._check_trim(trim)
        self._check_endings()
        self._check_damage()
        self._check_kept_too_long()
        return self.violations

    def _promised(self, trim: Trim, at_ns: int) -> bool:
        """Whether a deletion still counts at this time: no power failure may have undone it."""
        failed = any(trim.invoked_ns <= loss_ns <= at_ns for loss_ns in self.history.loss_times)
        return self.durability == FSYNC or not failed

    def _check_trim(self, trim: Trim) -> None:
        tp, low = trim.partition, trim.low_watermark
        if low < trim.target:
            self._say(f"{tp}: deleted before {trim.target}, and the low watermark is {low}")
        for read in self.history.reads:
            late = read.partition == tp and read.asked_ns >= trim.ended_ns
            if late and read.position < low and self._promised(trim, read.at_ns):
                self._say(
                    f"{tp}@{read.position}: fetched by {read.reader} at {read.at_ns} ns, though"
                    f" all before {low} was deleted at {trim.ended_ns} ns"
                )
        for start in self.history.starts:
            late = start.partition == tp and start.asked_ns >= trim.ended_ns
            if late and start.offset < low and self._promised(trim, start.at_ns):
                self._say(
                    f"{tp}: starts at {start.offset} at {start.at_ns} ns, though all before {low}"
                    f" was deleted at {trim.ended_ns} ns"
                )

    def _check_endings(self) -> None:
        for read in self.history.reads:
            ending = self.history.endings.get(read.partition.topic)
            if ending and ending.confirmed_ns is not None and read.asked_ns >= ending.confirmed_ns:
                self._say(f"{read.partition}: read at {read.at_ns} ns, after its deletion")
        for send in self.history.sends:
            ending = self.history.endings.get(send.partition.topic)
            confirmed_ns = ending.confirmed_ns if ending else None
            late = confirmed_ns is not None and send.last_sent_ns >= confirmed_ns
            if late and send.outcome == "ok":
                self._say(f"{send.partition}: acked at {send.ended_ns} ns, after its deletion")

    def _check_damage(self) -> None:
        damaged = self.history.damaged
        for read in self.history.reads:
            since_ns = damaged.get(read.partition)
            if since_ns is not None and read.asked_ns >= since_ns:
                self._say(f"{read.partition}: read at {read.at_ns} ns, though it is damaged")
        for send in self.history.sends:
            since_ns = damaged.get(send.partition)
            late = since_ns is not None and send.last_sent_ns >= since_ns
            if late and send.outcome == "ok":
                self._say(f"{send.partition}: acked at {send.ended_ns} ns, though it is damaged")

    def _check_kept_too_long(self) -> None:
        settled_ms = self.clocks.settled_ms
        for tp, left in sorted(self._left_bytes.items()):
            rule = self.rules.get(tp.topic)
            if rule is None or settled_ms is None:
                continue
            if rule.too_large(left):
                self._say(f"{tp}: has {left} bytes, and retention.bytes is {rule.bytes}")
            for read in self.history.reads:
                if read.final and read.partition == tp:
                    for offset, content in read.records:
                        if rule.must_have_taken(content.timestamp_ms, settled_ms):
                            self._say(
                                f"{tp}@{offset}: is there, though it is from"
                                f" {settled_ms - content.timestamp_ms} ms ago"
                            )

    def _say(self, violation: str) -> None:
        self.violations.append(violation)
