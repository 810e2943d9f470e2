"""What a simulated producer is told to do, and its unresolved batches, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition
from odradek.testing.history import Send


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """What a producer is and does. Sizes in bytes, times in ms."""

    name: str
    partitions: Sequence[TopicPartition]
    batches: int
    acks: int = -1
    idempotent: bool = False
    max_in_flight: int = 1
    max_attempts: int = 50
    max_records: int = 5
    value_bytes: tuple[int, int] = (1, 300)
    codec: int = 0
    version: int = 13
    pause_ms: tuple[int, int] = (1, 150)
    """Between bursts; batches of a burst come within milliseconds."""
    burst_rate: int = 700
    forgetful: Sequence[str] = ()
    """Topics whose records may go before their producer knows of them."""


@dataclass(slots=True, eq=False)
class Batch:
    """A batch in its lane: the evidence and the sequence it was given."""

    send: Send
    base_sequence: int
    under_way: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """The batches of one partition that are not resolved, oldest first."""

    partition: TopicPartition
    next_sequence: int = 0
    unresolved: list[Batch] = field(default_factory=list)
    draining: bool = False
    known: bool = False
    """The partition has a batch of this producer id."""

    @property
    def under_way(self) -> int:
        return sum(batch.under_way for batch in self.unresolved)
