"""What clients saw: the evidence that `testing.checker` judges.

A `Send` is one batch for one partition, with the exact records, how often it went out, and how it
ended:

    open ──► ok      acknowledged, at `base_offset` (-1 where the broker did not say)
         ├─► fail    surely not applied (refused before anything was appended)
         └─► info    nobody knows: not acknowledged, and may be in the log, as often as it was sent

A `Read` is what one fetch returned for one partition. `Fault`s are what was done to the broker.
Every entry has its virtual time, and `losses` counts the power failures so far, the only event
that may take something away from a broker that promises page cache only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.model.ids import TopicPartition

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Content:
    """A record as its producer made it. The value is unique in the run."""

    key: bytes | None
    value: bytes
    headers: tuple[Header, ...]
    timestamp_ms: int


@dataclass(slots=True, eq=False)
class Send:
    """One batch: invoked once, sent `attempts` times, ended at most once."""

    producer: str
    partition: TopicPartition
    contents: Sequence[Content]
    acks: int
    idempotent: bool
    in_order: bool
    """Whether the producer keeps the order of its batches in this partition."""
    invoked_ns: int
    attempts: int = 0
    outcome: str = "open"
    base_offset: int = -1
    ended_ns: int = 0
    losses: int = 0
    """Power failures before it was last sent. Its answer may have been on the way at one."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one fetch of one partition returned: records by offset, and the high watermark."""

    reader: str
    partition: TopicPartition
    at_ns: int
    losses: int
    records: Sequence[tuple[int, Content]]
    high_watermark: int
    final: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """Something done to the broker, or something it did by itself (`booted`, `stopped`)."""

    at_ns: int
    kind: str


@dataclass(frozen=True, slots=True)
class Surprise:
    """An answer that a broker keeping its word does not give.

    `lost`: it no longer has what it had (right only where it promised no more than page cache and
    the power failed); `corrupt`: a batch whose CRC is wrong; `refused`: an error without a reason.
    """

    kind: str
    text: str


@dataclass(slots=True)
class History:
    """All of it, in the order it happened."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    surprises: list[Surprise] = field(default_factory=list)
    losses: int = 0

    def surprise(self, kind: str, text: str) -> None:
        self.surprises.append(Surprise(kind, text))

    def acked(self) -> int:
        """Records acknowledged."""
        return sum(len(send.contents) for send in self.sends if send.outcome == "ok")

    def crashes(self) -> int:
        """How often the broker ended without being asked to."""
        kinds = ("kill", "power loss")
        return sum(fault.kind in kinds for fault in self.faults)
