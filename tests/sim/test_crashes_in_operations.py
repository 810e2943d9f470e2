"""Row 5 of the fault matrix: a crash at each disk effect of what changes several files.

Each operation is done again and again, each time in a new cluster of three nodes. One of them
crashes at its first disk effect, then at its second, and so on until an operation ends before its
crash, so that no effect in between is left out. A crash is a kill or a power failure in turn,
before, within or after the effect. The node starts again, and what it has then is as before the
operation or as after it.

The effects of a pass of compaction are in `unit/log/test_swap_crashes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicIdPartition
from odradek.protocol.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.raft.raft_log import METADATA_DIRECTORY
from odradek.testing.disk import Mount, SimDisk
from odradek.testing.machine import SimMachine
from odradek.testing.probes import replica_logs
from odradek.testing.rules import replicas_match
from odradek.testing.scheduler import MS
from sim.live_cluster import LiveCluster

RECORDS = 6
SETTLE_MS = 100
"""The time for which effects count after the one that ends the operation."""
MOST_POINTS = 150

Effect = tuple[SimDisk, str, str]
"""A change of a disk: its kind, such as `rename`, and the path."""


@pytest.fixture
def effects(monkeypatch: pytest.MonkeyPatch) -> list[Effect]:
    """Return the list to which the effects of all disks are appended."""
    seen: list[Effect] = []
    effect = Mount.effect

    def noted(mount: Mount, kind: str, path: str, *rest: Any, **named: Any) -> None:
        seen.append((mount.disk, kind, path))
        effect(mount, kind, path, *rest, **named)

    monkeypatch.setattr(Mount, "effect", noted)
    return seen


class Operation(ABC):
    """An operation on a topic of its own, one of whose nodes will crash."""

    settings: ClassVar[dict[str, str]] = {}
    """Settings of the nodes."""
    configs: ClassVar[dict[str, str]] = {}
    """Settings of the topic."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster, self.name = cluster, "t"
        cluster.create(self.name, configs=self.configs)
        cluster.produce(self.name, [b"x" * 200] * RECORDS)
        topic = cluster.node(cluster.controller).metadata.committed.topic(self.name)
        assert topic is not None
        self.id: UUID = topic.id
        self.acknowledged = RECORDS
        taken = {cluster.controller, cluster.leader(self.name)}
        self.victim: SimMachine = cluster.machine(min({1, 2, 3} - taken))
        self.prepare()

    def prepare(self) -> None:
        """Do what comes before the operation."""
        self.cluster.await_healed()

    @abstractmethod
    def begin(self) -> None:
        """Begin the operation; the node may crash meanwhile."""

    @abstractmethod
    def ends_with(self, kind: str, path: str) -> bool:
        """True for the effect on the victim's disk that ends the operation, and for nothing
        before."""

    def check(self) -> None:
        """Check what there is after the crash, when all is healed."""
        self.check_replicas(1, 2, 3)

    def check_replicas(self, *numbers: int) -> None:
        image = self.cluster.node(self.cluster.controller).metadata.committed
        topic = image.topic(self.name)
        assert topic is not None
        assert sorted(topic.partitions[0].replicas) == list(numbers)
        ends = {self.cluster.partition(each, self.name).log.log_end_offset for each in numbers}
        assert len(ends) == 1
        assert min(ends) >= self.acknowledged

    def is_of_the_topic(self, path: str) -> bool:
        return str(TopicIdPartition(self.id, 0)) in path

    def await_removal(self, machine: SimMachine) -> None:
        """Wait until a machine has no file of the topic."""
        self.cluster.until(lambda: not any(map(self.is_of_the_topic, machine.disk.paths())))

    def reassign(self, *numbers: int) -> None:
        partition = ReassignablePartition(partition_index=0, replicas=list(numbers))
        topic = ReassignableTopic(name=self.name, partitions=[partition])
        request = AlterPartitionReassignmentsRequest(timeout_ms=5_000, topics=[topic])
        cluster = self.cluster
        answer = cluster.ask(cluster.controller, request, 0, AlterPartitionReassignmentsResponse)
        assert answer.responses[0].partitions[0].error_code == 0

    @property
    def others(self) -> Sequence[int]:
        return sorted({1, 2, 3} - {self.victim.number})


class Roll(Operation):
    configs: ClassVar[dict[str, str]] = {"internal.segment.bytes": "1100"}

    def begin(self) -> None:
        # The producer is answered only when the ISR is without a node that crashed.
        answers = [self.cluster.send(self.name, b"y" * 200) for _ in range(RECORDS)]
        self.acknowledged += answers.count(ErrorCode.NONE)

    def ends_with(self, kind: str, path: str) -> bool:
        return self.is_of_the_topic(path) and kind == "create" and path.endswith(".log")


class MetadataSnapshot(Operation):
    settings: ClassVar[dict[str, str]] = {"metadata.log.max.record.bytes.between.snapshots": "600"}

    def begin(self) -> None:
        for number in range(3):
            topic = CreatableTopic(
                name=f"{self.name}-{number}",
                num_partitions=1,
                replication_factor=2,
                assignments=[],
                configs=[],
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
            self.cluster.ask(self.cluster.controller, request, 7, CreateTopicsResponse)

    def ends_with(self, kind: str, path: str) -> bool:
        return METADATA_DIRECTORY in path and "checkpoint" in path and kind == "rename"


class Deletion(Operation):
    def begin(self) -> None:
        assert self.cluster.delete(self.id) is ErrorCode.NONE

    def ends_with(self, kind: str, path: str) -> bool:
        return self.is_of_the_topic(path) and kind == "rmdir"

    def check(self) -> None:
        for machine in self.cluster.world.machines:
            assert self.cluster.node(machine.number).metadata.committed.topic(self.name) is None
            self.await_removal(machine)


class ReplicaRemoved(Operation):
    def begin(self) -> None:
        self.reassign(*self.others)

    def ends_with(self, kind: str, path: str) -> bool:
        return self.is_of_the_topic(path) and kind == "rmdir"

    def check(self) -> None:
        self.check_replicas(*self.others)
        self.await_removal(self.victim)


class ReplicaAdded(Operation):
    def prepare(self) -> None:
        self.reassign(*self.others)
        self.await_removal(self.victim)
        self.cluster.await_healed()

    def begin(self) -> None:
        self.reassign(1, 2, 3)

    def ends_with(self, kind: str, path: str) -> bool:
        return self.is_of_the_topic(path) and kind == "append" and path.endswith(".log")


class IndexesMadeAgain(Operation):
    configs: ClassVar[dict[str, str]] = {
        "internal.segment.bytes": "1100",
        "index.interval.bytes": "200",
    }

    def prepare(self) -> None:
        self.cluster.await_healed()
        machine = self.victim
        machine.kill()
        for path in machine.disk.paths():
            if self.is_of_the_topic(path) and path.endswith("index"):
                size = len(machine.disk.content(path))
                for bit in range(3, 8 * size, 24):
                    machine.disk.flip_bit(path, bit)

    def begin(self) -> None:
        self.victim.boot()

    def ends_with(self, kind: str, path: str) -> bool:
        return self.is_of_the_topic(path) and path.endswith("index")


def crashes(operation: Operation, point: int, effects: list[Effect]) -> Effect | None:
    """Run an operation whose node crashes at an effect; return that effect, None if it came to its
    end before."""
    cluster, machine = operation.cluster, operation.victim

    def of_machine() -> list[Effect]:
        return [each for each in effects if each[0] is machine.disk]

    machine.power_on_crash = point % 2 == 1
    machine.faults.crash_after_effects = point
    operation.begin()
    end_ns = None
    while machine.faults.crash_after_effects is not None:
        if end_ns is None and any(operation.ends_with(*each[1:]) for each in of_machine()):
            end_ns = cluster.scheduler.now_ns + SETTLE_MS * MS
        if end_ns is not None and cluster.scheduler.now_ns > end_ns:
            machine.faults.crash_after_effects = None
            return None
        cluster.scheduler.run(cluster.scheduler.now_ns + 10 * MS)
    return of_machine()[point]


def is_running(machine: SimMachine) -> bool:
    return machine.running


@pytest.mark.parametrize(
    "kind",
    [Roll, MetadataSnapshot, Deletion, ReplicaRemoved, ReplicaAdded, IndexesMadeAgain],
    ids=lambda kind: kind.__name__,
)
def test_row_5_a_crash_at_any_effect_leaves_what_was_before_or_after(
    kind: type[Operation], effects: list[Effect]
) -> None:
    crucial = 0
    for point in range(MOST_POINTS):
        cluster = LiveCluster(3, **kind.settings)
        operation = kind(cluster)
        effects.clear()
        crash = crashes(operation, point, effects)
        cluster.until(partial(is_running, operation.victim))
        cluster.connect_anew()
        cluster.await_healed()
        operation.check()
        assert replicas_match(replica_logs(cluster.world.machines)) == []
        if crash is None:
            break
        crucial += operation.ends_with(*crash[1:])
    else:
        raise AssertionError(f"there are more than {MOST_POINTS} effects")
    assert crucial
