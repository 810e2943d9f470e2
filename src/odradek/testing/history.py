"""What clients saw: the evidence that `testing.checker` judges.

A `Send` is one batch for one partition, with the exact records, how often it went out, and how it
ended:

    open ──► ok      acknowledged, at `base_offset` (-1 where the broker did not say)
         ├─► fail    surely not applied (refused before anything was appended)
         └─► info    nobody knows: not acknowledged, and may be in the log, as often as it was sent

A `Read` is what one fetch returned for one partition, a `Trim` one deletion of records, a `Start`
what a client was told of where a log begins. `Fault`s are what was done to the broker. Every entry
has its virtual time, and `losses` counts the power failures so far, the only event that may take
something away from a broker that promises page cache only.

A topic that is deleted and made again has one name and several *lives*, each with an id and a label
of its own (`name`, `name#2`, ...). Here and in the checker a topic is its label: a life's records
have nothing to do with those of another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition

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
    last_sent_ns: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """What one fetch of one partition returned: records by offset, and the high watermark."""

    reader: str
    partition: TopicPartition
    at_ns: int
    losses: int
    """Power failures before the answer was made. No connection outlives one: those before the
    connection was."""
    records: Sequence[tuple[int, Content]]
    high_watermark: int
    final: bool
    asked_ns: int = -1
    """When the fetch was sent; -1: nobody looked."""
    position: int = -1
    """The offset that was asked for."""
    size: int = 0
    """Bytes of the batches."""


@dataclass(slots=True, eq=False)
class Trim:
    """A deletion of the records before `target`; ended as a `Send` does."""

    partition: TopicPartition
    target: int
    invoked_ns: int
    outcome: str = "open"
    low_watermark: int = -1
    ended_ns: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """A client asked where a log begins, and was told `offset`."""

    partition: TopicPartition
    offset: int
    asked_ns: int
    at_ns: int
    final: bool


@dataclass(slots=True)
class Ending:
    """The deletion of a topic: when it was first asked for, and when it was confirmed."""

    invoked_ns: int
    confirmed_ns: int | None = None


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
    trims: list[Trim] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    endings: dict[str, Ending] = field(default_factory=dict)
    """Deleted topics, by label."""
    damaged: dict[TopicPartition, int] = field(default_factory=dict)
    """Since when (ns) a durable byte of a partition is not what was written."""
    losses: int = 0
    loss_times: list[int] = field(default_factory=list)

    def lose_power(self, at_ns: int) -> None:
        """What was not synced may be gone."""
        self.losses += 1
        self.loss_times.append(at_ns)

    def losses_until(self, at_ns: int) -> int:
        """How often the power had failed by then."""
        return bisect_right(self.loss_times, at_ns)

    def surprise(self, kind: str, text: str) -> None:
        self.surprises.append(Surprise(kind, text))

    def fault(self, at_ns: int, kind: str) -> None:
        self.faults.append(Fault(at_ns, kind))

    def acked(self) -> int:
        """Records acknowledged."""
        return sum(len(send.contents) for send in self.sends if send.outcome == "ok")

    def crashes(self) -> int:
        """How often the broker ended without being asked to."""
        kinds = ("kill", "power loss")
        return sum(fault.kind in kinds for fault in self.faults)
