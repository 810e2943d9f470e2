"""Judges a history: did the broker keep its word?

The word, by durability and acks, about records that were acknowledged and, by the same right,
about records that a reader was given:

| `log.durability` | acks     | after a kill | after a power failure                        |
|------------------|----------|--------------|----------------------------------------------|
| fsync            | all      | there        | there                                        |
| fsync            | 1        | there        | may be gone, unless a reader was given it    |
| os               | all or 1 | there        | may be gone                                  |

And always, for what is in the log at the end:

- *sent*: every record read is one that was sent, in every byte, key, header and timestamp;
- *once*: an idempotent producer's record has one offset, a plain one's at most one per attempt;
- *at its offset*: acknowledged records are where the acknowledgement said, a batch's side by side;
- *in order*: a producer's acknowledged batches in a partition are in the order it made them;
- *in real time*: a batch invoked after another was acknowledged has the higher offset;
- *one value per offset*: two reads never disagree;
- *high watermark*: never goes back for one reader, never below what is read;
- no *surprises*: see `testing.history.Surprise`.

What may be gone on purpose, and what may not come back, is in `testing.removals`.

Each violation is one line of text; an empty list is a kept word. What ended as `info` may be
there or not. Compare `reference` checkers for Kafka-like systems (lost-write, duplicate,
inconsistent-offsets, nonmonotonic-poll): the names differ, the anomalies are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition
from odradek.testing.history import Content, History, Read, Send
from odradek.testing.removals import FSYNC, Clocks, Removals
from odradek.testing.retention_rule import RetentionRule


@dataclass(slots=True)
class Checker:
    """One history and what its broker promised (`fsync` or `os`)."""

    history: History
    durability: str
    rules: Mapping[str, RetentionRule] = field(default_factory=dict)
    clocks: Clocks = field(default_factory=Clocks)
    violations: list[str] = field(default_factory=list)
    lost: int = 0
    """Acknowledged and promised records that are not at their offset."""
    log: dict[TopicPartition, dict[int, Content]] = field(default_factory=dict)
    """What the final readers read."""
    _removals: Removals = field(init=False)

    def __post_init__(self) -> None:
        self._removals = Removals(self.history, self.durability, self.rules, self.clocks)

    def check(self) -> list[str]:
        """All violations found."""
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

    def _promised(self, send: Send) -> bool:
        strong = self.durability == FSYNC and send.acks == -1
        return strong or send.losses == self.history.losses

    def _read_holds(self, read: Read) -> bool:
        """Whether what was read then must still be there at the end."""
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
        seen: dict[tuple[str, TopicPartition], Read] = {}
        for read in self.history.reads:
            before = seen.get((read.reader, read.partition))
            seen[read.reader, read.partition] = read
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

    def _check_acked(self, send: Send) -> None:
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
        """Whether nothing is there, and that is right."""
        gone = self.log.get(tp, {}).get(offset) is None
        return gone and self._removals.may_be_gone(tp, offset, content)

    def _at(self, send: Send, index: int) -> Content | None:
        return self.log.get(send.partition, {}).get(send.base_offset + index)

    def _check_order(self) -> None:
        last: dict[tuple[str, TopicPartition], Send] = {}
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
        highest: dict[TopicPartition, Send] = {}
        bounds: dict[int, Send] = {}
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

    def _promised_acks(self) -> list[Send]:
        return [s for s in self.history.sends if s.outcome == "ok" and self._promised(s)]

    def check_surprises(self) -> list[str]:
        """Only what clients found wrong by themselves (and what was found before)."""
        may_lose = self.durability != FSYNC and self.history.losses > 0
        for surprise in self.history.surprises:
            if not (surprise.kind == "lost" and may_lose):
                self._say(f"{surprise.kind}: {surprise.text}")
        return self.violations

    def _say(self, violation: str) -> None:
        self.violations.append(violation)


def name(content: Content | None) -> str:
    """A record for people: its value without the padding."""
    return "nothing" if content is None else repr(content.value.rstrip(b"."))
