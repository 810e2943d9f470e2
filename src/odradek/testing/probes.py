"""What a running broker says of its partitions, for the rules of a run: reading only.

A broker of a simulation is the real `Node`, whose partitions are read here, or one that offers
`partition_views` itself. `Observer` reads them after events and keeps what has changed, as the
observations that `testing.rules` judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from uuid import UUID

from odradek.broker.node import Node
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.replication.partition import Partition
from odradek.testing.machine import SimMachine
from odradek.testing.rules import Leadership, Watermark, high_watermarks_rise, one_leader_per_epoch


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition that a broker leads. `isr`: the node ids whose logs an acknowledgement needs."""

    partition: TopicPartition
    topic_id: UUID
    epoch: int
    isr: tuple[int, ...]
    high_watermark: int

    @property
    def name(self) -> str:
        """The name for rules; a topic that is made again has another."""
        return f"{self.partition}/{self.topic_id.hex[:8]}"


@runtime_checkable
class Probed(Protocol):
    """A broker that tells of the partitions it leads by itself."""

    def partition_views(self) -> Iterable[PartitionView]: ...


def led_partitions(broker: object) -> Iterable[PartitionView]:
    """Return the partitions that a broker leads now; none if it cannot be asked yet."""
    if isinstance(broker, Node):
        return [view_of(each) for each in broker.replicas if serves(each)]
    return broker.partition_views() if isinstance(broker, Probed) else ()


def serves(partition: Partition) -> bool:
    """True if this broker leads the partition, and its log works."""
    return partition.has_log and partition.failure is ErrorCode.NONE and partition.is_leader


def view_of(partition: Partition) -> PartitionView:
    """Return what a leader says of its partition."""
    leadership = partition.leadership
    return PartitionView(
        partition.topic_partition,
        partition.topic_id,
        partition.leader_epoch,
        (partition.node_id,) if leadership is None else leadership.isr,
        partition.high_watermark,
    )


EVERY = 16


@dataclass(slots=True, eq=False)
class Observer:
    """Reads the partitions of machines, after every few events of each."""

    now_ns: Callable[[], int]
    every: int = EVERY
    """The number of events between two looks at one machine."""
    leaderships: list[Leadership] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    _seen: dict[tuple[str, int, str], tuple[int, int]] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)

    def watch(self, machine: SimMachine) -> None:
        """Look at this machine's brokers from now on."""

        def event() -> None:
            turn = self._turns[machine.host] = self._turns.get(machine.host, 0) + 1
            if turn % self.every == 0:
                self.look(machine)

        machine.observe = event

    def look(self, machine: SimMachine) -> None:
        """Note what has changed on this machine."""
        for view in led_partitions(machine.broker):
            key = (machine.host, machine.boots, view.name)
            state = (view.epoch, view.high_watermark)
            known = self._seen.get(key)
            if known == state:
                continue
            self._seen[key] = state
            at_ns = self.now_ns()
            if known is None or known[0] != view.epoch:
                self.leaderships.append(
                    Leadership(at_ns, view.name, view.epoch, machine.host, machine.boots)
                )
            self.watermarks.append(
                Watermark(
                    at_ns,
                    view.name,
                    view.epoch,
                    machine.host,
                    machine.boots,
                    view.high_watermark,
                )
            )

    def judge(self, *, several: bool) -> list[str]:
        """Return the violations. A broker alone leads in one epoch through all its starts."""
        leaders = one_leader_per_epoch(self.leaderships) if several else []
        return leaders + high_watermarks_rise(self.watermarks)
