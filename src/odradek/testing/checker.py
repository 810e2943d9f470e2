"""Judges a history: did the broker keep its guarantees?

What must still be there, by durability and acks. The same holds for acknowledged records and for
records that a reader received:

| `log.durability` | acks     | after a kill | after a power failure                        |
|------------------|----------|--------------|----------------------------------------------|
| fsync            | all      | there        | there                                        |
| fsync            | 1        | there        | may be gone, unless a reader received it     |
| os               | all or 1 | there        | may be gone                                  |

Of several brokers (`replicated`) a leader may fail before its followers have a record of `acks=1`:
then only `acks=all` is a promise, and brokers may learn late that a topic was deleted.

`Checker` also checks, for what is in the log at the end:

- *sent*: every record read was sent, with the same bytes, key, headers and timestamp;
- *once*: an idempotent producer's record has one offset, a plain one's at most one per attempt;
- *at its offset*: acknowledged records are at the acknowledged offsets, a batch's side by side;
- *in order*: a producer's acknowledged batches in a partition are in the order it made them;
- *in real time*: a batch invoked after another was acknowledged has the higher offset;
- *one value per offset*: two reads never disagree;
- *high watermark*: never goes back for one reader of one broker, never below what is read;
- no *surprises*: see `testing.history.UnexpectedAnswer`.

`Removals` judges what is missing. These records may be missing at the end:

- records before an offset of a deletion (`Trim`), from the time it was asked for, answered or not;
- records that the topic's retention may remove (`RetentionRule`);
- all records of a topic whose deletion was asked for, and of a partition with changed durable
  bytes.

Records may only be missing from the front, before the log start. And what was removed must not come
back:

- *deleted*: after a deletion is acknowledged no new fetch gets records before it, and no log starts
  before it. It is as durable as an acknowledged record;
- *ended*: after the deletion of a topic is confirmed, nothing is read from it or written to it;
- *damaged*: a partition with changed durable bytes answers no read and no write;
- *kept too long*: long after the last fault, retention has removed what it must.

Each violation is one line of text; an empty list means that all guarantees were kept. A request
with outcome `info` may have been applied or not. Compare `reference` checkers for Kafka-like
systems (lost-write, duplicate, inconsistent-offsets, nonmonotonic-poll): the names differ, the
anomalies are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition
from odradek.testing.history import Content, History, Read, SentBatch, Trim


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Retention of one topic: `retention.ms`, `retention.bytes` (-1: none), the segment size."""

    ms: int = -1
    bytes: int = -1
    segment_bytes: int = 0

    def may_take(self, timestamp_ms: int, latest_wall_ms: int, left_bytes: int) -> bool:
        """True if retention may have removed a record of this time, with this much log left."""
        old = 0 <= self.ms < latest_wall_ms - timestamp_ms
        return old or 0 <= self.bytes <= left_bytes

    def must_have_taken(self, timestamp_ms: int, wall_ms: int) -> bool:
        """True if retention by age must have removed a record of this time."""
        return 0 <= self.ms < wall_ms - timestamp_ms

    def too_large(self, left_bytes: int) -> bool:
        """True if retention by size must have removed some of this: more than one segment above
        the limit, besides the active one.
        """
        return self.bytes >= 0 and left_bytes > self.bytes + 2 * self.segment_bytes


FSYNC = "fsync"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall clocks of a run, in ms: the latest time that any broker can have seen; the time that
    has passed for all brokers in the run's last seconds, None if the clock jumped.
    """

    latest_ms: int = 0
    quiet_ms: int | None = None


@dataclass(slots=True)
class Removals:
    """Judges the missing records of one history. `rules` by topic."""

    history: History
    durability: str
    rules: Mapping[str, RetentionRule] = field(default_factory=dict)
    clocks: Clocks = field(default_factory=Clocks)
    replicated: bool = False
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
        """True if this record may be missing at the end."""
        if tp.topic in self.history.topic_deletions or tp in self.history.damaged:
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
            left = max(left, rule.bytes)  # A power failure may have removed records from the end.
        return rule.may_take(content.timestamp_ms, self.clocks.latest_ms, left)

    def check(self) -> list[str]:
        """Return the violations: records and answers that should not be there."""
        for trim in self.history.trims:
            if trim.outcome == "ok":
                self._check_trim(trim)
        if not self.replicated:
            self._check_endings()
        self._check_damage()
        self._check_kept_too_long()
        return self.violations

    def _promised(self, trim: Trim, at_ns: int) -> bool:
        """True if the deletion still holds at this time: no power failure can have undone it."""
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
            ending = self.history.topic_deletions.get(read.partition.topic)
            if ending and ending.confirmed_ns is not None and read.asked_ns >= ending.confirmed_ns:
                self._say(f"{read.partition}: read at {read.at_ns} ns, after its deletion")
        for send in self.history.sends:
            ending = self.history.topic_deletions.get(send.partition.topic)
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
        quiet_ms = self.clocks.quiet_ms
        for tp, left in sorted(self._left_bytes.items()):
            rule = self.rules.get(tp.topic)
            if rule is None or quiet_ms is None:
                continue
            if rule.too_large(left):
                self._say(f"{tp}: has {left} bytes, and retention.bytes is {rule.bytes}")
            for read in self.history.reads:
                if read.final and read.partition == tp:
                    for offset, content in read.records:
                        if rule.must_have_taken(content.timestamp_ms, quiet_ms):
                            self._say(
                                f"{tp}@{offset}: is there, though it is from"
                                f" {quiet_ms - content.timestamp_ms} ms ago"
                            )

    def _say(self, violation: str) -> None:
        self.violations.append(violation)


@dataclass(slots=True)
class Checker:
    """Checks one history against the durability of its broker (`fsync` or `os`)."""

    history: History
    durability: str
    rules: Mapping[str, RetentionRule] = field(default_factory=dict)
    clocks: Clocks = field(default_factory=Clocks)
    replicated: bool = False
    """True if there are several brokers."""
    violations: list[str] = field(default_factory=list)
    lost: int = 0
    """The number of acknowledged records that are missing although they must be there."""
    log: dict[TopicPartition, dict[int, Content]] = field(default_factory=dict)
    """The records that the final readers read."""
    _removals: Removals = field(init=False)

    def __post_init__(self) -> None:
        self._removals = Removals(
            self.history, self.durability, self.rules, self.clocks, self.replicated
        )

    def check(self) -> list[str]:
        """Return all violations."""
        self._check_reads()
        self._check_high_watermarks()
        for tp in sorted(self.log):
            self._check_times_present(tp)
        for send in self.history.sends:
            if send.outcome == "ok" and self._promised(send):
                self._check_acked(send)
        self._check_order()
        self._check_real_time()
        self.violations += self._removals.check()
        return self.check_surprises()

    # What was promised.

    def _promised(self, send: SentBatch) -> bool:
        if self.replicated and send.acks != -1:
            return False
        strong = self.durability == FSYNC and send.acks == -1
        return strong or send.losses == self.history.losses

    def _read_holds(self, read: Read) -> bool:
        """True if the records of this read must still be there at the end."""
        return self.durability == FSYNC or read.losses == self.history.losses

    # Reads.

    def _check_reads(self) -> None:
        sent = {content.value: content for send in self.history.sends for content in send.contents}
        for read in self.history.reads:
            if read.final:
                self.log.setdefault(read.partition, {}).update(read.records)
            for offset, content in read.records:
                if sent.get(content.value) != content:
                    self._say(f"{read.partition}@{offset}: read {content}, which was never sent")
        for read in self.history.reads:
            if not self._read_holds(read) or read.partition not in self.log:
                continue
            log = self.log[read.partition]
            for offset, content in read.records:
                if log.get(offset) != content:
                    if self._may_miss(read.partition, offset, content):
                        continue
                    self._say(
                        f"{read.partition}@{offset}: {read.reader} read {name(content)} at"
                        f" {read.at_ns} ns, at the end there is {name(log.get(offset))}"
                    )

    def _check_high_watermarks(self) -> None:
        seen: dict[tuple[str, TopicPartition, str, int], Read] = {}
        for read in self.history.reads:
            # A new leader learns of the high watermark later than the reader.
            key = (read.reader, read.partition, read.broker, read.leader_epoch)
            before = seen.get(key)
            seen[key] = read
            comparable = before and (self.durability == FSYNC or before.losses == read.losses)
            if before and comparable and read.high_watermark < before.high_watermark:
                self._say(
                    f"{read.partition}: high watermark went from {before.high_watermark} to"
                    f" {read.high_watermark} for {read.reader} at {read.at_ns} ns"
                )
            if read.records and read.records[-1][0] >= read.high_watermark:
                self._say(
                    f"{read.partition}@{read.records[-1][0]}: read at or above the high"
                    f" watermark {read.high_watermark}"
                )

    # Sends.

    def _check_times_present(self, tp: TopicPartition) -> None:
        present: dict[bytes, int] = {}
        for content in self.log[tp].values():
            present[content.value] = present.get(content.value, 0) + 1
        for send in self.history.sends:
            if send.partition != tp:
                continue
            allowed = 1 if send.idempotent else send.attempts
            allowed = 0 if send.outcome == "fail" else allowed
            for content in send.contents:
                if present.get(content.value, 0) > allowed:
                    self._say(
                        f"{tp}: {name(content)} is there {present[content.value]} times, sent"
                        f" {send.attempts} times ({send.outcome})"
                    )

    def _check_acked(self, send: SentBatch) -> None:
        for index, content in enumerate(send.contents):
            found = self._at(send, index)
            offset = send.base_offset + index
            if found != content and not self._may_miss(send.partition, offset, content):
                self.lost += 1
                self._say(
                    f"{send.partition}@{send.base_offset + index}: lost {name(content)}, acked"
                    f" (acks={send.acks}) at {send.ended_ns} ns; there is {name(found)}"
                )

    def _may_miss(self, tp: TopicPartition, offset: int, content: Content) -> bool:
        """True if the record is missing and may be missing."""
        missing = self.log.get(tp, {}).get(offset) is None
        return missing and self._removals.may_be_gone(tp, offset, content)

    def _at(self, send: SentBatch, index: int) -> Content | None:
        return self.log.get(send.partition, {}).get(send.base_offset + index)

    def _check_order(self) -> None:
        last: dict[tuple[str, TopicPartition], SentBatch] = {}
        for send in self._promised_acks():
            if not send.in_order:
                continue
            before = last.get((send.producer, send.partition))
            if before and send.base_offset <= before.base_offset:
                self._say(
                    f"{send.partition}: {send.producer} sent {name(before.contents[0])} before"
                    f" {name(send.contents[0])}, but they are at {before.base_offset} and"
                    f" {send.base_offset}"
                )
            last[send.producer, send.partition] = send

    def _check_real_time(self) -> None:
        moments = [(s.invoked_ns, 1, i, s) for i, s in enumerate(self._promised_acks())]
        moments += [(s.ended_ns, 0, i, s) for i, s in enumerate(self._promised_acks())]
        highest: dict[TopicPartition, SentBatch] = {}
        bounds: dict[int, SentBatch] = {}
        for _, invoked, number, send in sorted(moments, key=lambda m: m[:3]):
            known = highest.get(send.partition)
            if invoked and known is not None:
                bounds[number] = known
            elif not invoked and (known is None or send.base_offset > known.base_offset):
                highest[send.partition] = send
        for number, send in enumerate(self._promised_acks()):
            bound = bounds.get(number)
            if bound is not None and send.base_offset <= bound.base_offset:
                self._say(
                    f"{send.partition}: {name(send.contents[0])} is at {send.base_offset}, though"
                    f" {bound.base_offset} was acked before it was sent"
                )

    def _promised_acks(self) -> list[SentBatch]:
        return [s for s in self.history.sends if s.outcome == "ok" and self._promised(s)]

    def check_surprises(self) -> list[str]:
        """Add the surprises of the clients; return all violations found so far."""
        may_lose = self.durability != FSYNC and self.history.losses > 0
        for surprise in self.history.surprises:
            if not (surprise.kind == "lost" and may_lose):
                self._say(f"{surprise.kind}: {surprise.text}")
        return self.violations

    def _say(self, violation: str) -> None:
        self.violations.append(violation)


def name(content: Content | None) -> str:
    """Return the value of a record without the padding, for messages."""
    return "nothing" if content is None else repr(content.value.rstrip(b"."))
