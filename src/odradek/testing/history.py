"""The history of a run: the operations of all clients and their outcomes, for `testing.checker`.

A `SentBatch` is one batch for one partition, with its records, attempts and outcome:

    open ──► ok      acknowledged, at `base_offset` (-1 if the broker did not give it)
         ├─► fail    certainly not applied (refused before anything was appended)
         └─► info    unknown: not acknowledged, and in the log up to once for each attempt

A `Read` is the answer of one fetch for one partition, a `Trim` one deletion of records, a `Start`
the log start that a client was given. A `Fault` is a fault injected into the broker. Every entry
has its virtual time, and `losses` counts the power failures so far: with `log.durability=os` only
these may lose records.

A topic that is deleted and created again has one name and several *lives*, each with its own id and
label (`name`, `name#2`, ...). Here and in the checker a topic is its label: the records of one life
are unrelated to those of another.
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
class SentBatch:
    """One batch: invoked once, sent `attempts` times, ended at most once."""

    producer: str
    partition: TopicPartition
    contents: Sequence[Content]
    acks: int
    idempotent: bool
    in_order: bool
    """True if the producer keeps the order of its batches in this partition."""
    invoked_ns: int
    attempts: int = 0
    outcome: str = "open"
    base_offset: int = -1
    ended_ns: int = 0
    losses: int = 0
    """Power failures before the last attempt. One may have hit while the answer was in flight."""
    last_sent_ns: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """The answer of one fetch for one partition: records by offset, and the high watermark."""

    reader: str
    partition: TopicPartition
    at_ns: int
    losses: int
    """Power failures before the answer: those before the connection was made, since no connection
    outlives one."""
    records: Sequence[tuple[int, Content]]
    high_watermark: int
    final: bool
    asked_ns: int = -1
    """When the fetch was sent; -1: unknown."""
    position: int = -1
    """The requested offset."""
    size: int = 0
    """The bytes of the batches."""
    broker: str = ""
    """The host that answered."""
    leader_epoch: int = -1
    """The epoch in which the broker was asked for the records; -1: any."""


@dataclass(slots=True, eq=False)
class Trim:
    """A deletion of the records before `target`; the outcomes are those of a `SentBatch`."""

    partition: TopicPartition
    target: int
    invoked_ns: int
    outcome: str = "open"
    low_watermark: int = -1
    ended_ns: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """The answer to a client that asked for the log start."""

    partition: TopicPartition
    offset: int
    asked_ns: int
    at_ns: int
    final: bool


@dataclass(slots=True)
class TopicDeletion:
    """The deletion of a topic: when it was first requested, and when it was confirmed."""

    invoked_ns: int
    confirmed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault injected into a machine or a way, or an event of its own (`boot`, `stopped`)."""

    at_ns: int
    kind: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class UnexpectedAnswer:
    """An answer that a correct broker does not give.

    `lost`: it no longer has what it had (allowed only with `log.durability=os` after a power
    failure); `corrupt`: a batch whose CRC is wrong; `refused`: an error without a reason.
    """

    kind: str
    text: str


@dataclass(slots=True)
class History:
    """All entries of a run, in the order in which they happened."""

    sends: list[SentBatch] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    surprises: list[UnexpectedAnswer] = field(default_factory=list)
    trims: list[Trim] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    topic_deletions: dict[str, TopicDeletion] = field(default_factory=dict)
    """Deleted topics, by label."""
    damaged: dict[TopicPartition, int] = field(default_factory=dict)
    """The time (ns) since which a durable byte of a partition is damaged."""
    losses: int = 0
    loss_times: list[int] = field(default_factory=list)

    def lose_power(self, at_ns: int) -> None:
        """Note a power failure: unsynced data may be gone."""
        self.losses += 1
        self.loss_times.append(at_ns)

    def losses_until(self, at_ns: int) -> int:
        """Return the number of power failures up to then."""
        return bisect_right(self.loss_times, at_ns)

    def surprise(self, kind: str, text: str) -> None:
        self.surprises.append(UnexpectedAnswer(kind, text))

    def fault(self, at_ns: int, kind: str) -> None:
        self.faults.append(Fault(at_ns, kind))

    def acked(self) -> int:
        """Return the number of acknowledged records."""
        return sum(len(send.contents) for send in self.sends if send.outcome == "ok")

    def crashes(self) -> int:
        """Return the number of kills and power failures of the broker."""
        kinds = ("kill", "power loss")
        return sum(fault.kind in kinds for fault in self.faults)
